"""What a contract may say, and its owner will regret."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from placet.model.contract import ApprovalMode, Contract, EffectClass, Isolation, Origin, Risk
from placet.model.decision import Deny
from placet.model.principal import Principal
from placet.rules.field_names import STANDARD_KEYS, KeyKind
from placet.rules.policy import Matrix, least_role

_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing to mend: `error` keeps the tools from being registered, `warning` does not."""

    severity: str
    code: str
    tool: str
    message: str
    fix: str


def lint(contract: Contract, *, agent: Principal | None, manifest: str | None = None) -> Iterator[Finding]:
    """What is allowed and will be regretted.

    Args:
        manifest: the file that the terms of an upstream's tool stand in; where such files usually are, if absent.
    """

    def warning(code: str, message: str, fix: str, argument: str = "") -> Finding:
        if contract.origin is not None:
            fix = _in_manifest(contract.origin, code, fix, manifest, argument)
        return Finding(severity="warning", code=code, tool=contract.name, message=message, fix=fix)

    is_irreversible = contract.effect_class is EffectClass.IRREVERSIBLE
    is_risky = contract.risk in (Risk.HIGH, Risk.CRITICAL)
    if not contract.description.strip():
        yield warning("no_description", "neither the model nor the approver is told what it does", "write a docstring")
    if contract.effect_class.is_write:
        yield from _lint_write(contract, warning)
    if is_irreversible and not is_risky and contract.approval is not ApprovalMode.ALWAYS:
        yield warning(
            "irreversible_unasked",
            f"it cannot be taken back, and at risk {contract.risk} the built-in policy asks nobody",
            'approval="always"',
        )
    if is_risky and contract.approval is ApprovalMode.NEVER:
        yield warning("never_asks", "policy asks for this risk, and the contract then refuses", 'approval="by_policy"')
    if contract.generic_executor_reason is not None:
        yield warning(
            "generic_executor", "it was let in although it looks like a generic executor", "wrap the operation"
        )
    for name in contract.argument_names:
        if name not in contract.redact and STANDARD_KEYS.kind(name) is KeyKind.SECRET:
            yield warning(
                "secret_shown", f"the approver sees {name!r}, which sounds secret", f"redact=({name!r},)", name
            )
    if agent is not None and isinstance(word := Matrix().word(contract, agent), Deny):
        reasons = ", ".join(word.reasons)
        yield warning("out_of_reach", f"[agent] may never call it: {reasons}", _in_reach(contract, word.reasons))


def _in_reach(contract: Contract, reasons: Sequence[str]) -> str:
    """What [agent] lacks, by name."""
    wanted = [f"the scope {contract.permission}"] if "scope_missing" in reasons else []
    if "no_role" in reasons or any(each.startswith("matrix_") for each in reasons):
        wanted += [f"the role {least_role(contract.risk, contract.effect_class).value}"]
    return f"give [agent] {' and '.join(wanted) or 'the scope or role'}"


_MEMBERS: Final = {
    "no_operation_key": 'operation_key = "..."',
    "absence_unproven": "remote = { ... }",
    "irreversible_unasked": 'approval = "always"',
    "never_asks": 'approval = "by_policy"',
}
"""What to write in the terms of a tool that lives elsewhere, which has no Python of ours."""


def table_of(tool: str) -> str:
    """The table of a manifest that holds the terms of a tool, as TOML has it."""
    return f"tools.{tool if _BARE.fullmatch(tool) else json.dumps(tool)}"


def _in_manifest(origin: Origin, code: str, fix: str, manifest: str | None, argument: str) -> str:
    table = table_of(origin.tool)
    file = manifest or f"upstreams/{origin.server}.toml"
    if code == "no_probe":
        return f"[{table}.probe] in {file}"
    if code == "no_description":
        return "its server, or its document, has to say"
    if code == "secret_shown":
        return f"redact = [{json.dumps(argument)}] in [{table}] of {file}"
    return f"{_MEMBERS[code]} in [{table}] of {file}" if code in _MEMBERS else fix


def _lint_write(contract: Contract, warning: Any) -> Iterator[Finding]:
    if not contract.has_probe:
        yield warning("no_probe", "only a person can settle an unknown outcome", "probe=")
    if contract.operation_key is None:
        yield warning(
            "no_operation_key", "a new call id is a new operation, so asking twice may act twice", "operation_key="
        )
    if not contract.remote.proves_absence:
        yield warning(
            "absence_unproven", "after an unknown outcome only a person may order it again", "remote=Remote(...)"
        )
    if contract.isolation is Isolation.THREAD:
        yield warning(
            "thread_write", "a missed deadline cannot stop it", 'make it a coroutine function, or isolation="process"'
        )

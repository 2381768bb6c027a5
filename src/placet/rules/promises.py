"""What a contract may say, and its owner will regret."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from placet.model.contract import ApprovalMode, Contract, EffectClass, Isolation, Risk
from placet.model.decision import Deny
from placet.model.principal import Principal
from placet.rules.field_names import STANDARD_KEYS, KeyKind
from placet.rules.policy import Matrix


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing to mend: `error` keeps the tools from being registered, `warning` does not."""

    severity: str
    code: str
    tool: str
    message: str
    fix: str


def lint(contract: Contract, *, agent: Principal | None) -> Iterator[Finding]:
    """What is allowed and will be regretted."""

    def warning(code: str, message: str, fix: str) -> Finding:
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
            yield warning("secret_shown", f"the approver sees {name!r}, which sounds secret", f"redact=({name!r},)")
    if agent is not None and isinstance(word := Matrix().word(contract, agent), Deny):
        reasons = ", ".join(word.reasons)
        yield warning("out_of_reach", f"[agent] may never call it: {reasons}", "give [agent] the scope or role")


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

"""upstreams/NAME.toml: the deployment's terms for the tools of one upstream.

    [tools.create_ticket]                             # the upstream's own name of it, in quotes where it is odd
    effect = "write"                                  # absent: irreversible
    risk = "medium"                                   # absent: critical
    permission = "desk.ticket.create"
    approval = "by_policy"
    operation_key = "ticket:{title}"
    timeout_seconds = 20
    remote = { honours_key = true, key_retention_seconds = 86400 }
    bind = { tenant_id = "tenant", source = { value = "placet" } }

    [tools.create_ticket.probe]
    tool = "find_tickets"
    arguments = { key = { from = "operation_key" }, queue = { from = "argument", at = "/queue" }, limit = 50 }
    items_at = "/tickets"
    found_if = [{ at = "/external_key", equals = { from = "operation_key" } }]
    complete_below = 50
    reference_at = "/id"

Members mean what the options of `placet.tool` mean. The file is closed: a member it does not know is refused with the
nearest one it knows. A tool without a table is hidden.
"""

from __future__ import annotations

import re
import tomllib
from typing import Any, Final

from placet.errors import ContractError
from placet.model.contract import (
    DEFAULT_BREAKER,
    DEFAULT_MAX_CONCURRENT,
    ApprovalMode,
    Bound,
    BoundSource,
    Breaker,
    EffectClass,
    Remote,
    RetryPolicy,
    Risk,
    TextRule,
)
from placet.model.exact import is_plain_json, member_of
from placet.model.json import JsonValue
from placet.model.upstreams import (
    Condition,
    Manifest,
    ProbeTerms,
    ProbeValue,
    ToolErrors,
    ToolTerms,
    ValueSource,
)
from placet.rules.manifest_members import ManifestMembers, is_json_pointer, refuse, refuse_unknown_members, shown_name
from placet.rules.upstream_names import require_upstream_name

LARGEST_FILE: Final = 1_000_000
MOST_TOOLS: Final = 1_000

_TOOL: Final = (
    "effect", "risk", "permission", "version", "approval", "operation_key", "resource", "purpose", "timeout_seconds",
    "silence_seconds",
    "retry", "remote", "max_concurrent", "breaker", "redact", "text", "max_argument_bytes", "max_result_bytes",
    "max_depth", "allowed_tenants", "retention_seconds", "generic_executor", "open_members", "open_result_members",
    "bind", "probe", "errors", "key_header", "refusals", "reference_at",
)  # fmt: skip
_RETRY: Final = ("max_attempts", "initial_delay_seconds", "max_delay_seconds")
_REMOTE: Final = ("honours_key", "key_retention_seconds", "refuses_late", "arrival_bound_seconds")
_BREAKER: Final = ("faults", "within_seconds", "open_seconds", "probes")
_PROBE: Final = (
    "tool", "arguments", "items_at", "found_if", "absent_if", "complete_below", "absent_statuses", "result_at",
    "reference_at",
)  # fmt: skip
_PLACE: Final = re.compile(r"\(at [^()]{1,60}\)\Z")
_HEADER: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,64}")


def read_manifest(server: str, text: str) -> Manifest:
    """The terms in a manifest file.

    Raises:
        ManifestError: it says something unknown, or not of its kind; the message says where.
    """
    document = _document(text)
    refuse_unknown_members(document, ("tools",), "the top level")
    tables = document.get("tools", {})
    if type(tables) is not dict or len(tables) > MOST_TOOLS:
        refuse(f"'tools' is one table per tool, at most {MOST_TOOLS}: [tools.NAME]")
    return Manifest(server=server, terms={name: _terms(name, table) for name, table in tables.items()})


def _document(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        place = _PLACE.search(str(error))  # the rest of the text may repeat the file
    refuse(f"it is not sound TOML {place[0] if place else ''}".rstrip())


def _terms(name: str, table: object) -> ToolTerms:
    try:
        require_upstream_name(name)
    except ContractError as error:
        problem = str(error)
    else:
        said = ManifestMembers(table, f"[tools.{shown_name(name)}]")
        return _read(said, name)
    refuse(problem)


def _read(said: ManifestMembers, name: str) -> ToolTerms:
    said.refuse_unknown(_TOOL)
    return ToolTerms(
        tool=name,
        effect=said.word("effect", EffectClass, EffectClass.IRREVERSIBLE),
        risk=said.word("risk", Risk, Risk.CRITICAL),
        permission=said.text("permission"),
        version=said.text("version") or "1",
        approval=said.word("approval", ApprovalMode, ApprovalMode.BY_POLICY),
        operation_key=said.text("operation_key"),
        resource=said.text("resource"),
        purpose=said.text("purpose"),
        timeout_seconds=said.seconds("timeout_seconds", 30.0),
        silence_seconds=said.seconds("silence_seconds", None),
        retry=said.inner("retry", _RETRY, _retry, RetryPolicy()),
        remote=said.inner("remote", _REMOTE, _remote, Remote()),
        max_concurrent=said.count("max_concurrent", DEFAULT_MAX_CONCURRENT),
        breaker=None if said.table.get("breaker") is False else said.inner("breaker", _BREAKER, _breaker, Breaker()),
        redact=said.texts("redact"),
        text=said.word("text", TextRule, TextRule.GUARDED),
        max_argument_bytes=said.count("max_argument_bytes", 8_192),
        max_result_bytes=said.count("max_result_bytes", 65_536),
        max_depth=said.count("max_depth", None),
        allowed_tenants=frozenset(said.texts("allowed_tenants")) if "allowed_tenants" in said.table else None,
        retention_seconds=said.seconds("retention_seconds", None),
        generic_executor=said.text("generic_executor"),
        open_members=said.pointers("open_members"),
        open_result_members=said.pointers("open_result_members"),
        bind=_bind(said),
        probe=said.inner("probe", _PROBE, _probe, None),
        errors=said.word("errors", ToolErrors, ToolErrors.UNKNOWN),
        key_header=_header(said),
        refusals=said.statuses("refusals"),
        reference_at=said.pointer("reference_at"),
    )


# ---------------------------------------------------------------- tables within


def _retry(said: ManifestMembers) -> RetryPolicy:
    usual = RetryPolicy()
    return RetryPolicy(
        max_attempts=said.count("max_attempts", usual.max_attempts),
        initial_delay_seconds=said.seconds("initial_delay_seconds", usual.initial_delay_seconds),
        max_delay_seconds=said.seconds("max_delay_seconds", usual.max_delay_seconds),
    )


def _remote(said: ManifestMembers) -> Remote:
    return Remote(
        honours_key=said.truth("honours_key"),
        key_retention_seconds=said.seconds("key_retention_seconds", None),
        refuses_late=said.truth("refuses_late"),
        arrival_bound_seconds=said.seconds("arrival_bound_seconds", None),
    )


def _breaker(said: ManifestMembers) -> Breaker:
    usual = DEFAULT_BREAKER
    return Breaker(
        faults=said.count("faults", usual.faults),
        within_seconds=said.seconds("within_seconds", usual.within_seconds),
        open_seconds=said.seconds("open_seconds", usual.open_seconds),
        probes=said.count("probes", usual.probes),
    )


def _bind(said: ManifestMembers) -> tuple[Bound, ...]:
    table = said.table.get("bind", {})
    if type(table) is not dict:
        said.fail("bind", 'a table such as { tenant_id = "tenant", source = { value = "placet" } }')
    return tuple(_bound(said, member, given) for member, given in table.items())


def _bound(said: ManifestMembers, member: str, given: object) -> Bound:
    if type(given) is dict and given.keys() == {"value"} and is_plain_json(given["value"]):
        return Bound(member=member, source=BoundSource.FIXED, value=given["value"])
    source = member_of(BoundSource, given)
    if source is None or source is BoundSource.FIXED:
        words = ", ".join(each.value for each in BoundSource if each is not BoundSource.FIXED)
        said.fail("bind", f"for {shown_name(member)!r} one of {words}, or {{ value = ... }}")
    return Bound(member=member, source=source)


def _header(said: ManifestMembers) -> str | None:
    name = said.text("key_header")
    if name is not None and _HEADER.fullmatch(name) is None:
        said.fail("key_header", "the name of a header")
    return name


def _probe(said: ManifestMembers) -> ProbeTerms:
    tool = said.text("tool")
    if tool is None:
        said.fail("tool", "the upstream's own name of the tool that looks")
    found_if = _conditions(said, "found_if")
    if not found_if:
        said.fail("found_if", 'a list of at least one { at = "/key", equals = { from = "operation_key" } }')
    terms = ProbeTerms(
        tool=tool,
        arguments=_arguments(said),
        found_if=found_if,
        items_at=said.pointer("items_at"),
        absent_if=_conditions(said, "absent_if"),
        complete_below=said.count("complete_below", None),
        absent_statuses=said.statuses("absent_statuses"),
        result_at=said.pointer("result_at"),
        reference_at=said.pointer("reference_at"),
    )
    if terms.items_at is None and terms.complete_below is not None:
        said.fail("complete_below", "about a list, so items_at has to say where it is")
    if terms.items_at is not None and terms.absent_if:
        said.fail("absent_if", "about an answer that is no list; for a list say complete_below")
    return terms


def _arguments(said: ManifestMembers) -> dict[str, ProbeValue]:
    table = said.table.get("arguments", {})
    if type(table) is not dict:
        said.fail("arguments", 'a table such as { key = { from = "operation_key" }, limit = 50 }')
    return {name: _probe_value(said, "arguments", value) for name, value in table.items()}


def _conditions(said: ManifestMembers, name: str) -> tuple[Condition, ...]:
    given = said.table.get(name, [])
    if type(given) is not list:
        said.fail(name, "a list of conditions")
    return tuple(_condition(said, name, each) for each in given)


def _condition(said: ManifestMembers, name: str, given: object) -> Condition:
    if type(given) is not dict or given.keys() != {"at", "equals"} or not is_json_pointer(given["at"]):
        said.fail(name, 'a list of { at = "/key", equals = { from = "operation_key" } }')
    return Condition(at=given["at"], equals=_probe_value(said, name, given["equals"]))


def _probe_value(said: ManifestMembers, name: str, given: object) -> ProbeValue:
    """A value that is no table stands for itself; a table says where the value comes from."""
    if type(given) is not dict:
        return ProbeValue(source=ValueSource.FIXED, value=_json(said, name, given))
    if given.keys() == {"value"}:
        return ProbeValue(source=ValueSource.FIXED, value=_json(said, name, given["value"]))
    source = member_of(ValueSource, given.get("from"))
    if source is ValueSource.ARGUMENT and given.keys() == {"from", "at"} and is_json_pointer(given["at"]):
        return ProbeValue(source=source, at=given["at"])
    if source in (ValueSource.TENANT, ValueSource.OPERATION_KEY) and given.keys() == {"from"}:
        return ProbeValue(source=source)
    said.fail(
        name, 'made of values, { from = "operation_key" }, { from = "tenant" } or { from = "argument", at = "/x" }'
    )


def _json(said: ManifestMembers, name: str, value: object) -> JsonValue:
    if not is_plain_json(value):
        said.fail(name, "made of JSON values; a date is none")
    return value  # type: ignore[return-value]  # just looked at

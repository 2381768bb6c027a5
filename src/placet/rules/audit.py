"""What an audit event may hold, and its one byte form.

Its fields are fixed by its type; what they hold is checked here, before anything is written. How events are chained is
in `rules/chains`, and whether a chain holds in `rules/chain_check`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import fields
from datetime import UTC, datetime
from itertools import compress
from operator import attrgetter, is_not
from typing import Any

import orjson

from placet.errors import PlacetError
from placet.model.audit import AuditEvent, AuditOutcome, ChainedEvent, EventKind, Summary
from placet.model.decision import ShadowAnswer
from placet.rules.proposals import CALL_ID

SCHEMA_VERSION = 1

_HEX64 = re.compile(r"[0-9a-f]{64}")
_CODE = re.compile(r"[a-zA-Z][a-zA-Z0-9_.:-]{0,127}")
_TOOL = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
_MAX_TEXT = 200
_DEEPEST_SHOWN = 16
_ENFORCED = ("allow", "ask", "deny")
_WOULD_BE = (*_ENFORCED, "error")


def event_body(event: AuditEvent) -> bytes:
    """The event's byte form: JSON with sorted members and no absent ones."""
    body: dict[str, Any] = {
        name: value for name, value in zip(_PLAIN_FIELDS, _plain_values(event), strict=True) if value is not None
    }
    body["schema"] = SCHEMA_VERSION
    body["at"] = _written(event.at)
    if event.roles:
        body["roles"] = event.roles
    if event.reasons:
        body["reasons"] = event.reasons
    if event.repaired:
        body["repaired"] = True
    if event.shadow is not None:
        body["shadow"] = shadow_members(event.shadow)
    if event.decided_at is not None:
        body["decided_at"] = _written(event.decided_at)
    if event.expires_at is not None:
        body["expires_at"] = _written(event.expires_at)
    if event.arguments is not None:
        body["arguments"] = _counts(event.arguments)
    if event.result is not None:
        body["result"] = _counts(event.result)
    written = orjson.dumps(body, option=orjson.OPT_SORT_KEYS)
    return memoryview(written).tobytes()  # a copy of its own size: orjson's keeps the ten times larger room it wrote in


def _written(instant: datetime) -> datetime | str:
    """With microseconds, always; orjson writes them where there are any, and quicker."""
    return instant if instant.tzinfo is UTC and instant.microsecond else instant.isoformat(timespec="microseconds")


_PLAIN_FIELDS = (
    "kind",
    "tenant",
    "subject",
    "key_id",
    "on_behalf_of",
    "environment",
    "request_id",
    "run_id",
    "call_id",
    "tool",
    "tool_version",
    "rejected_name",
    "permission",
    "risk",
    "effect_class",
    "attempt",
    "fence",
    "outcome",
    "error_type",
    "detail",
    "decision",
    "policy_version",
    "approval_id",
    "decided_by",
    "purpose",
    "operation",
    "effect_state",
    "arguments_fingerprint",
    "result_fingerprint",
    "duration_ms",
    "model_suggested",
)
"""Written as they are; orjson writes a member of an enum as its value."""
_plain_values = attrgetter(*_PLAIN_FIELDS)


class EventRefused(PlacetError):
    """The audit event holds something an audit event may not hold."""

    code = "audit_event_refused"


def check_event(event: AuditEvent) -> None:
    """The gate every event passes: names are fixed by its type, values are checked here.

    Raises:
        EventRefused: naming the field, never its value. Source: REQUIREMENTS B159 to B161, B168.
    """
    if type(event) is not AuditEvent:
        raise EventRefused("An audit event is an AuditEvent.")
    values = _checked_values(event)
    for index in compress(_RULE_INDEXES, map(is_not, values, _passed)):
        value = values[index]
        if value is not None:
            name, rule = _RULE_LIST[index]
            if not rule(value):
                raise EventRefused(f"The audit field {name!r} has a value it may not have.")
            if type(value) is not Summary and type(value) is not ShadowAnswer:
                _passed[index] = value
    if None in _required_values(event):
        raise EventRefused("An audit event lacks a field that every event has.")
    if event.kind is EventKind.COMPLETED and event.outcome is None:
        raise EventRefused("A completed event has an outcome.")
    if event.kind is EventKind.STARTED and (event.outcome is not None or event.result_fingerprint is not None):
        raise EventRefused("A started event has no outcome and no result.")
    if event.result_fingerprint is not None and event.outcome not in (
        AuditOutcome.SUCCESS,
        AuditOutcome.REPLAYED,
        None,
    ):
        raise EventRefused("Only a success has a result.")


# What a body that is stored says; it may have been altered since.


def event_of(body: bytes) -> AuditEvent | None:
    """The event that a body states; None for one that this version could not have written."""
    try:
        stated: dict[str, Any] = orjson.loads(body)
        for name, read in _READ_BACK.items():
            if name in stated:
                stated[name] = read(stated[name])
        if stated.pop("schema") != SCHEMA_VERSION:
            return None
        event = AuditEvent(**stated)
        check_event(event)
        return event if event_body(event) == body else None
    except (EventRefused, ValueError, TypeError, KeyError, AttributeError):
        return None


_READ_BACK: dict[str, Callable[[Any], object]] = {
    "kind": EventKind,
    "outcome": AuditOutcome,
    "at": datetime.fromisoformat,
    "decided_at": datetime.fromisoformat,
    "expires_at": datetime.fromisoformat,
    "roles": tuple,
    "reasons": tuple,
    "shadow": lambda said: ShadowAnswer(**{**said, "reasons": tuple(said.get("reasons", ()))}),
    "arguments": lambda counts: Summary(**counts),
    "result": lambda counts: Summary(**counts),
}


def tenant_of(event: ChainedEvent) -> str | None:
    """Whose event it is; None for one whose body was altered until it says so no more."""
    found = body_of(event).get("tenant")
    return found if type(found) is str else None


def operation_of(event: ChainedEvent) -> str | None:
    """The fingerprint of the operation that an event is about."""
    found = body_of(event).get("operation")
    return found if type(found) is str else None


def place_in_time(event: ChainedEvent) -> tuple[str, str, int]:
    """By the instant it was written at; what says none comes first."""
    at = body_of(event).get("at")
    return at if type(at) is str else "", event.writer, event.sequence


def body_of(event: ChainedEvent) -> dict[str, Any]:
    """What an event says; nothing, of one whose body was altered until it is no object."""
    try:
        body: object = orjson.loads(event.body)
    except ValueError:
        return {}
    return body if type(body) is dict else {}


def shown_body_of(event: ChainedEvent) -> dict[str, Any]:
    """The same for whoever shows it: nothing, too, of one that was altered until it is nested as no event of ours is.

    What writes it down again goes as deep as it does, and gives up at depths that its reader takes.
    """
    body = body_of(event)
    return {} if _is_deeper(body, _DEEPEST_SHOWN) else body


# Values


def _is_deeper(value: object, levels: int) -> bool:
    """Looks no deeper than it is asked about."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return bool(inner) and (levels == 0 or any(_is_deeper(each, levels - 1) for each in inner))


_summary_values = attrgetter(*Summary.__slots__)
_ALL_INTS = [int] * len(Summary.__slots__)


def _counts(summary: Summary) -> dict[str, int]:
    return dict(zip(Summary.__slots__, _summary_values(summary), strict=True))


def _is_identity(value: object) -> bool:
    return type(value) is str and 0 < len(value) <= 128


def is_code(value: object) -> bool:
    """Whether it is a fixed word such as `seen_in_desk`, which an event may hold as its detail."""
    return type(value) is str and _CODE.fullmatch(value) is not None


def _is_short(value: object) -> bool:
    return type(value) is str and 0 < len(value) <= _MAX_TEXT


def _is_hash(value: object) -> bool:
    return type(value) is str and _HEX64.fullmatch(value) is not None


def _is_instant(value: object) -> bool:
    return type(value) is datetime and value.tzinfo is not None


def _is_summary(value: object) -> bool:
    if type(value) is not Summary:
        return False
    counts = _summary_values(value)
    return [*map(type, counts)] == _ALL_INTS and min(counts) >= 0


def shadow_members(shadow: ShadowAnswer) -> dict[str, object]:
    """What a policy in shadow would have answered, as an event says it."""
    members: dict[str, object] = {
        "enforced": shadow.enforced,
        "would_be": shadow.would_be,
        "changes": shadow.changes,
    }
    if shadow.reasons:
        members["reasons"] = shadow.reasons
    if shadow.policy_version is not None:
        members["policy_version"] = shadow.policy_version
    return members


def _is_shadow(value: object) -> bool:
    return (
        type(value) is ShadowAnswer
        and type(value.enforced) is str
        and value.enforced in _ENFORCED
        and type(value.would_be) is str
        and value.would_be in _WOULD_BE
        and type(value.changes) is bool
        and _are_codes(value.reasons)
        and (value.policy_version is None or _is_short(value.policy_version))
    )


def _are_codes(value: object) -> bool:
    return type(value) is tuple and all(is_code(each) for each in value)


def _is_count(value: object) -> bool:
    return type(value) is int and value >= 0


_RULES: dict[str, Any] = {
    "kind": lambda value: type(value) is EventKind,
    "at": _is_instant,
    "tenant": _is_identity,
    "subject": _is_identity,
    "key_id": is_code,
    "roles": lambda value: type(value) is tuple and all(is_code(role) for role in value),
    "on_behalf_of": _is_identity,
    "environment": _is_identity,
    "request_id": _is_identity,
    "run_id": _is_identity,
    "call_id": lambda value: type(value) is str and CALL_ID.fullmatch(value) is not None,
    "tool": lambda value: type(value) is str and _TOOL.fullmatch(value) is not None,
    "tool_version": _is_short,
    "rejected_name": _is_hash,
    "permission": _is_short,
    "risk": is_code,
    "effect_class": is_code,
    "attempt": lambda value: type(value) is int and 1 <= value <= 200,
    "fence": _is_count,
    "outcome": lambda value: type(value) is AuditOutcome,
    "error_type": is_code,
    "detail": is_code,
    "reasons": _are_codes,
    "decision": is_code,
    "policy_version": _is_short,
    "approval_id": _is_short,
    "decided_by": _is_identity,
    "decided_at": _is_instant,
    "expires_at": _is_instant,
    "purpose": _is_short,
    "operation": _is_hash,
    "effect_state": is_code,
    "arguments": _is_summary,
    "arguments_fingerprint": _is_hash,
    "result": _is_summary,
    "result_fingerprint": _is_hash,
    "duration_ms": lambda value: type(value) is float and 0.0 <= value < float("inf"),
    "model_suggested": lambda value: type(value) is bool,
    "repaired": lambda value: type(value) is bool,
    "shadow": _is_shadow,
}
_RULE_LIST = tuple(_RULES.items())
_RULE_INDEXES = range(len(_RULE_LIST))
_checked_values = attrgetter(*_RULES)
_required_values = attrgetter(*(field.name for field in fields(AuditEvent) if field.default is not None))
_passed: list[object] = [None] * len(_RULES)
"""The value that last passed each rule. Of one call's events most values are the same objects, and what has passed is
of an exact immutable type (summaries and answers of a shadow apart, which are looked at again), so the same object
passes again."""

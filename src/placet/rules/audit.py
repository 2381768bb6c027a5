"""What an audit event may hold, its one byte form, and the chain that shows tampering.

A chain belongs to one writer: link(n) = HMAC(writer, n, link(n-1), body). Its head is MACed too, so that a missing
tail shows, and names the ends of other chains when it began, so that a missing chain shows in its successors.
What nobody inside the database can show is a rollback of everything together; for that, print or post the heads.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from itertools import compress
from operator import attrgetter, is_not
from typing import Any, Protocol

import orjson

from placet.errors import PlacetError
from placet.model.approval import Mac
from placet.model.audit import AuditEvent, AuditOutcome, ChainedEvent, ChainHead, EventKind, Summary
from placet.model.identifiers import WriterId
from placet.rules.canonical import canonical_bytes

SCHEMA_VERSION = 1
GENESIS = "0" * 64
"""What the first event of a chain is linked to."""

_HEX64 = re.compile(r"[0-9a-f]{64}")
_CODE = re.compile(r"[a-zA-Z][a-zA-Z0-9_.:-]{0,127}")
_MAX_TEXT = 200
_WORDS = frozenset({EventKind.STARTED, EventKind.COMPLETED})


class Linker(Protocol):
    """Makes and checks the MACs of a chain."""

    def is_authentic(self, message: bytes, mac: Mac) -> bool: ...


def event_body(event: AuditEvent) -> bytes:
    """The event's byte form: JSON with sorted members and no absent ones."""
    body: dict[str, Any] = {
        "schema": SCHEMA_VERSION,
        "kind": event.kind.value,
        "at": event.at.isoformat(timespec="microseconds"),
    }
    body |= {name: value for name, value in zip(_PLAIN_FIELDS, _plain_values(event), strict=True) if value is not None}
    if event.roles:
        body["roles"] = list(event.roles)
    if event.reasons:
        body["reasons"] = list(event.reasons)
    if event.outcome is not None:
        body["outcome"] = event.outcome.value
    if event.decided_at is not None:
        body["decided_at"] = event.decided_at.isoformat(timespec="microseconds")
    if event.expires_at is not None:
        body["expires_at"] = event.expires_at.isoformat(timespec="microseconds")
    if event.arguments is not None:
        body["arguments"] = _counts(event.arguments)
    if event.result is not None:
        body["result"] = _counts(event.result)
    return orjson.dumps(body, option=orjson.OPT_SORT_KEYS)


_PLAIN_FIELDS = (
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
            if type(value) is not Summary:
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


def chain_message(writer: str, sequence: int, previous: str, body: bytes) -> bytes:
    """What the link of one event covers."""
    return b"placet/link/1\x00%s\x00%d\x00%s\x00" % (writer.encode(), sequence, previous.encode()) + body


def head_message(head: ChainHead) -> bytes:
    """What the MAC of a chain head covers."""
    return (
        b"placet/head/1\x00%s\x00%d\x00%s\x00" % (head.writer.encode(), head.sequence, head.link.encode())
        + head.opened_after
    )


def heads_form(heads: Iterable[ChainHead]) -> bytes:
    """The heads that a new chain remembers from its beginning."""
    return canonical_bytes({head.writer: [head.sequence, head.link] for head in heads})


# ---------------------------------------------------------------- verifying


@dataclass(frozen=True, slots=True, kw_only=True)
class Break:
    """Where a chain does not hold, and how."""

    writer: str
    sequence: int
    problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainReport:
    """What verification found. `unpaired`: attempts that were started and have no completed event yet."""

    writers: int
    events: int
    breaks: tuple[Break, ...]
    unpaired: int

    @property
    def holds(self) -> bool:
        return not self.breaks


def verify_chains(
    events: Iterable[ChainedEvent],
    heads: Iterable[ChainHead],
    linker: Linker,
    *,
    anchors: dict[str, tuple[int, str]] | None = None,
    later_heads: Callable[[], Iterable[ChainHead]] | None = None,
) -> ChainReport:
    """Hold every chain against its links, its head, its successors' memory of it, and outside anchors.

    Args:
        events: by writer and sequence, as `Journal.chained` and an export give them.
        heads: read before the events. A chain in use may have grown beyond its head meanwhile.
        later_heads: reads the heads again, after the events, so that a chain that began meanwhile has one.
    """
    known = {head.writer: head for head in heads}
    remembered = _remembered(known.values(), anchors or {})
    noted = {*remembered, *((head.writer, head.sequence) for head in known.values())}
    breaks: list[Break] = [
        Break(writer=head.writer, sequence=head.sequence, problem="head_altered")
        for head in known.values()
        if not linker.is_authentic(head_message(head), Mac(key_id=head.key_id, value=head.mac))
    ]
    ends: dict[WriterId, tuple[int, str]] = {}
    open_attempts: dict[tuple[str, ...], int] = {}
    links: dict[tuple[str, int], str] = {}
    count = 0
    broken: set[str] = set()
    for event in events:
        count += 1
        sequence, link = ends.get(event.writer, (0, GENESIS))
        problem = _event_problem(event, expected=sequence + 1, previous=link, linker=linker)
        if problem is not None and event.writer not in broken:
            broken.add(event.writer)
            breaks.append(Break(writer=event.writer, sequence=event.sequence, problem=problem))
        ends[event.writer] = (event.sequence, event.link)
        if (event.writer, event.sequence) in noted:
            links[event.writer, event.sequence] = event.link
        _pair(event, open_attempts)
    begun = {head.writer: head for head in later_heads()} if later_heads is not None else {}
    breaks.extend(_end_problems(known, begun, links, ends, linker))
    breaks.extend(
        Break(writer=writer, sequence=sequence, problem="history_missing")
        for (writer, sequence), link in remembered.items()
        if sequence > 0 and links.get((writer, sequence)) != link
    )
    unpaired = sum(1 for balance in open_attempts.values() if balance > 0)
    return ChainReport(writers=len(set(ends) | set(known)), events=count, breaks=tuple(breaks), unpaired=unpaired)


def _event_problem(event: ChainedEvent, *, expected: int, previous: str, linker: Linker) -> str | None:
    if event.sequence != expected:
        return "events_missing" if event.sequence > expected else "order_changed"
    message = chain_message(event.writer, event.sequence, previous, event.body)
    return None if linker.is_authentic(message, Mac(key_id=event.key_id, value=event.link)) else "event_altered"


def _end_problems(
    heads: Mapping[WriterId, ChainHead],
    begun: Mapping[WriterId, ChainHead],
    links: Mapping[tuple[str, int], str],
    ends: Mapping[WriterId, tuple[int, str]],
    linker: Linker,
) -> Iterator[Break]:
    for writer, head in heads.items():
        if links.get((writer, head.sequence)) != head.link:
            yield Break(writer=writer, sequence=head.sequence, problem="tail_missing")
    for writer, (sequence, _) in ends.items():
        head_now = heads.get(writer) or begun.get(writer)
        is_sound = writer in heads or (
            head_now is not None
            and head_now.sequence >= sequence
            and linker.is_authentic(head_message(head_now), Mac(key_id=head_now.key_id, value=head_now.mac))
        )
        if not is_sound:
            yield Break(writer=writer, sequence=sequence, problem="head_missing")


def _remembered(heads: Iterable[ChainHead], anchors: dict[str, tuple[int, str]]) -> dict[tuple[str, int], str]:
    memory = {(writer, sequence): link for writer, (sequence, link) in anchors.items()}
    for head in heads:
        try:
            entries = json.loads(head.opened_after or b"{}")
            memory.update({(writer, sequence): link for writer, (sequence, link) in entries.items()})
        except (ValueError, TypeError, AttributeError):
            continue  # its MAC does not hold either, which is reported
    return memory


def _pair(event: ChainedEvent, open_attempts: dict[tuple[str, ...], int]) -> None:
    try:
        body = orjson.loads(event.body)
        kind = body["kind"]
        if kind not in _WORDS:
            return
        key = (
            body["tenant"],
            body.get("run_id") or "",
            body.get("call_id") or "",
            str(body.get("attempt")),
            str(body["fence"]),
        )
    except (ValueError, TypeError, KeyError, AttributeError):
        return
    open_attempts[key] = open_attempts.get(key, 0) + (1 if kind == EventKind.STARTED else -1)


# ---------------------------------------------------------------- values


_summary_values = attrgetter(*Summary.__slots__)


def _counts(summary: Summary) -> dict[str, int]:
    return dict(zip(Summary.__slots__, _summary_values(summary), strict=True))


def _is_identity(value: object) -> bool:
    return type(value) is str and 0 < len(value) <= 128


def _is_code(value: object) -> bool:
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
    return set(map(type, counts)) == {int} and min(counts) >= 0


def _is_count(value: object) -> bool:
    return type(value) is int and value >= 0


_RULES: dict[str, Any] = {
    "kind": lambda value: type(value) is EventKind,
    "at": _is_instant,
    "tenant": _is_identity,
    "subject": _is_identity,
    "key_id": _is_code,
    "roles": lambda value: type(value) is tuple and all(_is_code(role) for role in value),
    "on_behalf_of": _is_identity,
    "environment": _is_identity,
    "request_id": _is_identity,
    "run_id": _is_identity,
    "call_id": lambda value: (
        type(value) is str and re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}", value) is not None
    ),
    "tool": lambda value: type(value) is str and re.fullmatch(r"[a-zA-Z0-9_.-]{1,64}", value) is not None,
    "tool_version": _is_short,
    "rejected_name": _is_hash,
    "permission": _is_short,
    "risk": _is_code,
    "effect_class": _is_code,
    "attempt": lambda value: type(value) is int and 1 <= value <= 200,
    "fence": _is_count,
    "outcome": lambda value: type(value) is AuditOutcome,
    "error_type": _is_code,
    "detail": _is_code,
    "reasons": lambda value: type(value) is tuple and all(_is_code(reason) for reason in value),
    "decision": _is_code,
    "policy_version": _is_short,
    "approval_id": _is_short,
    "decided_by": _is_identity,
    "decided_at": _is_instant,
    "expires_at": _is_instant,
    "purpose": _is_short,
    "operation": _is_hash,
    "effect_state": _is_code,
    "arguments": _is_summary,
    "arguments_fingerprint": _is_hash,
    "result": _is_summary,
    "result_fingerprint": _is_hash,
    "duration_ms": lambda value: type(value) is float and 0.0 <= value < float("inf"),
    "model_suggested": lambda value: type(value) is bool,
}
_RULE_LIST = tuple(_RULES.items())
_RULE_INDEXES = range(len(_RULE_LIST))
_checked_values = attrgetter(*_RULES)
_required_values = attrgetter(*(field.name for field in fields(AuditEvent) if field.default is not None))
_passed: list[object] = [None] * len(_RULES)
"""The value that last passed each rule. Of one call's events most values are the same objects, and what has passed is
of an exact immutable type (summaries apart, which are looked at again), so the same object passes again."""

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
from datetime import UTC, datetime
from itertools import compress
from operator import attrgetter, is_not
from typing import Any, Protocol

import orjson

from placet.errors import MisuseError, PlacetError
from placet.model.approval import Mac
from placet.model.audit import (
    AuditEvent,
    AuditOutcome,
    ChainedEvent,
    ChainHead,
    ChainTombstone,
    ElidedEvents,
    EventKind,
    Summary,
)
from placet.model.identifiers import WriterId
from placet.rules.canonical import canonical_bytes
from placet.rules.proposals import CALL_ID

SCHEMA_VERSION = 1
GENESIS = "0" * 64
"""What the first event of a chain is linked to."""

_HEX64 = re.compile(r"[0-9a-f]{64}")
_CODE = re.compile(r"[a-zA-Z][a-zA-Z0-9_.:-]{0,127}")
_TOOL = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
_MAX_TEXT = 200
_WORDS = frozenset({EventKind.STARTED, EventKind.COMPLETED})


class Linker(Protocol):
    """Makes and checks the MACs of a chain."""

    def is_authentic(self, message: bytes, mac: Mac) -> bool: ...

    def knows(self, key_id: str) -> bool:
        """Whether there is such a key at all; without it nobody can tell whether a MAC under it holds."""
        ...


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


def unchained_message(body: bytes) -> bytes:
    """What the MAC of an event covers that waits to be chained."""
    return b"placet/unchained/1\x00" + body


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
    "arguments": lambda counts: Summary(**counts),
    "result": lambda counts: Summary(**counts),
}


def head_message(head: ChainHead) -> bytes:
    """What the MAC of a chain head covers."""
    return (
        b"placet/head/1\x00%s\x00%d\x00%s\x00" % (head.writer.encode(), head.sequence, head.link.encode())
        + head.opened_after
    )


def tombstone_message(tombstone: ChainTombstone) -> bytes:
    """What the MAC of a chain's tombstone covers: every field of it."""
    return b"placet/tombstone/1\x00" + canonical_bytes(
        {
            "writer": tombstone.writer,
            "first_kept": tombstone.first_kept,
            "link": tombstone.link,
            "removed": tombstone.removed,
            "cut_by": tombstone.cut_by,
            "cut_at": tombstone.cut_at.isoformat(timespec="microseconds"),
        }
    )


def is_sound_tombstone(tombstone: ChainTombstone, linker: Linker) -> bool:
    mac = Mac(key_id=tombstone.key_id, value=tombstone.mac)
    return tombstone.first_kept > 1 and linker.is_authentic(tombstone_message(tombstone), mac)


def heads_form(heads: Iterable[ChainHead]) -> bytes:
    """The heads that a new chain remembers from its beginning."""
    return canonical_bytes({head.writer: [head.sequence, head.link] for head in heads})


def operation_of(event: ChainedEvent) -> str | None:
    """The fingerprint of the operation that an event is about."""
    found = _body(event).get("operation")
    return found if type(found) is str else None


def place_in_time(event: ChainedEvent) -> tuple[str, str, int]:
    """By the instant it was written at; what says none comes first."""
    at = _body(event).get("at")
    return at if type(at) is str else "", event.writer, event.sequence


def _body(event: ChainedEvent) -> dict[str, Any]:
    try:
        body: object = orjson.loads(event.body)
    except ValueError:
        return {}
    return body if type(body) is dict else {}


# ---------------------------------------------------------------- verifying


@dataclass(frozen=True, slots=True, kw_only=True)
class Break:
    """Where a chain does not hold, and how."""

    writer: str
    sequence: int
    problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainReport:
    """What verification found.

    Attributes:
        unpaired: attempts that were started and have no completed event yet.
        cuts: chains whose oldest events were removed on purpose, authentically so.
        passed_over: places that heads or anchors name within what was removed, where no link can be held against them.
    """

    writers: int
    events: int
    breaks: tuple[Break, ...]
    unpaired: int
    cuts: tuple[ChainTombstone, ...] = ()
    passed_over: int = 0

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
    tombstones: Iterable[ChainTombstone] = (),
) -> ChainReport:
    """Hold every chain against its links, its head, its successors' memory of it, and outside anchors.

    Args:
        events: by writer and sequence, as `Journal.chained` and an export give them.
        heads: read before the events. A chain in use may have grown beyond its head meanwhile.
        later_heads: reads the heads again, after the events, so that a chain that began meanwhile has one.
        tombstones: of the same moment as the events.
    """
    check = ChainCheck(heads, linker, anchors=anchors, tombstones=tombstones)
    for event in events:
        check.see(event)
    return check.report(later_heads=later_heads)


class ChainCheck:
    """Holds chains while their events go by, one at a time. What it keeps is bounded by heads and open attempts.

    Only what is authentic is believed: an altered head names no history, an altered event makes no pair.
    """

    def __init__(
        self,
        heads: Iterable[ChainHead],
        linker: Linker,
        *,
        anchors: dict[str, tuple[int, str]] | None = None,
        tombstones: Iterable[ChainTombstone] = (),
    ) -> None:
        self._linker = linker
        given = tuple(heads)
        altered = [head for head in given if not _is_sound(head, linker)]  # also one that its writer's next one hides
        self._heads = {head.writer: head for head in given}
        unsound = frozenset(altered)
        sound = [head for head in self._heads.values() if head not in unsound]
        self._remembered = _remembered(sound, sound_anchors(anchors))
        self._noted = {*self._remembered, *((head.writer, head.sequence) for head in self._heads.values())}
        self._breaks: list[Break] = [
            Break(writer=head.writer, sequence=head.sequence, problem=_inauthentic("head_altered", head.key_id, linker))
            for head in altered
        ]
        self._ends: dict[WriterId, tuple[int, str]] = {}
        self._open_attempts: dict[tuple[str, ...], int] = {}
        self._links: dict[tuple[str, int], str] = {}
        self._broken: set[str] = set()
        self._count = 0
        self._points: dict[str, list[int]] = {}
        for writer, sequence in self._remembered:
            self._points.setdefault(writer, []).append(sequence)
        self._passed_over: set[tuple[str, int]] = set()
        self._cuts: list[ChainTombstone] = []
        for tombstone in tombstones:
            self._begin_at(tombstone)

    def _begin_at(self, tombstone: ChainTombstone) -> None:
        """The chain begins where its tombstone says, if that is authentic; else where every chain begins."""
        writer, last = tombstone.writer, tombstone.first_kept - 1
        if not is_sound_tombstone(tombstone, self._linker):
            problem = _inauthentic("tombstone_altered", tombstone.key_id, self._linker)
            self._breaks.append(Break(writer=writer, sequence=tombstone.first_kept, problem=problem))
            return
        self._cuts.append(tombstone)
        self._passed_over |= {(writer, point) for point in self._points.get(writer, ()) if point < last}
        self._went_on(writer, last, tombstone.link, None)

    @property
    def heads(self) -> Mapping[WriterId, ChainHead]:
        return self._heads

    @property
    def problems(self) -> tuple[Break, ...]:
        """What has shown so far; what is missing shows in the report only."""
        return tuple(self._breaks)

    def is_noted(self, writer: str, sequence: int) -> bool:
        """Whether a head, another chain's memory or an anchor names the link of this very place."""
        return (writer, sequence) in self._noted

    def see(self, event: ChainedEvent) -> str | None:
        """The next event by writer and sequence; what is wrong with it, told once per chain."""
        self._count += 1
        sequence, link = self._ends.get(event.writer, (0, GENESIS))
        problem = _event_problem(event, expected=sequence + 1, previous=link, linker=self._linker)
        if problem is None:
            _pair(event, self._open_attempts)
        return self._went_on(event.writer, event.sequence, event.link, problem)

    def pass_over(self, elided: ElidedEvents) -> str | None:
        """Events of which only the last link is known. It is proven by what follows: an event, or the chain's head."""
        sequence, _ = self._ends.get(elided.writer, (0, GENESIS))
        problem = None
        if elided.first != sequence + 1 or elided.last < elided.first:
            problem = "events_missing" if elided.first > sequence + 1 else "order_changed"
        within = range(elided.first, elided.last)
        self._passed_over |= {
            (elided.writer, point) for point in self._points.get(elided.writer, ()) if point in within
        }
        return self._went_on(elided.writer, elided.last, elided.link, problem)

    @property
    def passed_over(self) -> int:
        """How many remembered places lie within elided or removed events, where no link can be held against them."""
        return len(self._passed_over)

    def _went_on(self, writer: WriterId, sequence: int, link: str, problem: str | None) -> str | None:
        self._ends[writer] = (sequence, link)
        if (writer, sequence) in self._noted:
            self._links[writer, sequence] = link
        if problem is None or writer in self._broken:
            return None
        self._broken.add(writer)
        self._breaks.append(Break(writer=writer, sequence=sequence, problem=problem))
        return problem

    def report(self, *, later_heads: Callable[[], Iterable[ChainHead]] | None = None) -> ChainReport:
        begun = {head.writer: head for head in later_heads()} if later_heads is not None else {}
        breaks = [*self._breaks, *_end_problems(self._heads, begun, self._links, self._ends, self._linker)]
        breaks.extend(
            Break(writer=writer, sequence=sequence, problem="history_missing")
            for (writer, sequence), link in self._remembered.items()
            if sequence > 0
            and self._links.get((writer, sequence)) != link
            and (writer, sequence) not in self._passed_over
        )
        unpaired = sum(1 for balance in self._open_attempts.values() if balance > 0)
        writers = len(set(self._ends) | set(self._heads))
        return ChainReport(
            writers=writers,
            events=self._count,
            breaks=tuple(breaks),
            unpaired=unpaired,
            cuts=tuple(self._cuts),
            passed_over=self.passed_over,
        )


def _is_sound(head: ChainHead, linker: Linker) -> bool:
    return linker.is_authentic(head_message(head), Mac(key_id=head.key_id, value=head.mac))


def _event_problem(event: ChainedEvent, *, expected: int, previous: str, linker: Linker) -> str | None:
    if event.sequence != expected:
        return "events_missing" if event.sequence > expected else "order_changed"
    message = chain_message(event.writer, event.sequence, previous, event.body)
    if linker.is_authentic(message, Mac(key_id=event.key_id, value=event.link)):
        return None
    return _inauthentic("event_altered", event.key_id, linker)


def _inauthentic(problem: str, key_id: str, linker: Linker) -> str:
    """Why a MAC does not hold. Under a key that is not there it was perhaps altered, and perhaps not."""
    return problem if linker.knows(key_id) else "key_unknown"


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
        head_now = begun.get(writer)
        is_sound = writer in heads or (
            head_now is not None and head_now.sequence >= sequence and _is_sound(head_now, linker)
        )
        if not is_sound:
            yield Break(writer=writer, sequence=sequence, problem="head_missing")


def sound_anchors(anchors: dict[str, tuple[int, str]] | None) -> dict[str, tuple[int, str]]:
    """Heads that were kept outside, of exact built-in types: what only looks equal to a link proves nothing.

    Raises:
        MisuseError: they are anything else.
    """
    if anchors is None:
        return {}
    if type(anchors) is dict and all(type(writer) is str and _is_anchor(head) for writer, head in anchors.items()):
        return anchors
    raise MisuseError("anchors= is a dict of writers, each with a tuple of a sequence and a link.")


def _is_anchor(head: object) -> bool:
    if type(head) is not tuple or len(head) != 2:
        return False
    sequence, link = head
    return type(sequence) is int and sequence >= 0 and type(link) is str


def _remembered(heads: Iterable[ChainHead], anchors: dict[str, tuple[int, str]]) -> dict[tuple[str, int], str]:
    memory = {(writer, sequence): link for writer, (sequence, link) in anchors.items()}
    for head in heads:
        try:
            entries = json.loads(head.opened_after)
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
            str(body["tenant"]),  # text, whatever a holder of the key wrote
            str(body.get("run_id") or ""),
            str(body.get("call_id") or ""),
            str(body.get("attempt")),
            str(body["fence"]),
        )
    except (ValueError, TypeError, KeyError):
        return
    balance = open_attempts.pop(key, 0) + (1 if kind == EventKind.STARTED else -1)
    if balance:  # a closed pair is forgotten, or memory would grow with the history
        open_attempts[key] = balance


# ---------------------------------------------------------------- values


_summary_values = attrgetter(*Summary.__slots__)
_ALL_INTS = [int] * len(Summary.__slots__)


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
    return [*map(type, counts)] == _ALL_INTS and min(counts) >= 0


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
    "call_id": lambda value: type(value) is str and CALL_ID.fullmatch(value) is not None,
    "tool": lambda value: type(value) is str and _TOOL.fullmatch(value) is not None,
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
    "repaired": lambda value: type(value) is bool,
}
_RULE_LIST = tuple(_RULES.items())
_RULE_INDEXES = range(len(_RULE_LIST))
_checked_values = attrgetter(*_RULES)
_required_values = attrgetter(*(field.name for field in fields(AuditEvent) if field.default is not None))
_passed: list[object] = [None] * len(_RULES)
"""The value that last passed each rule. Of one call's events most values are the same objects, and what has passed is
of an exact immutable type (summaries apart, which are looked at again), so the same object passes again."""

"""Whether chains hold: each against its links, its head, its successors' memory of it, and outside anchors.

Only what is authentic is believed: an altered head names no history, an altered event makes no pair.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

import orjson

from placet.model.approval import Mac
from placet.model.audit import ChainedEvent, ChainHead, ChainTombstone, ElidedEvents, EventKind
from placet.model.identifiers import WriterId
from placet.rules.chains import (
    GENESIS,
    Linker,
    chain_message,
    fault_of_mac,
    is_sound_head,
    is_sound_tombstone,
    sound_anchors,
)

_WORDS = frozenset({EventKind.STARTED, EventKind.COMPLETED})


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
    """Holds chains while their events go by, one at a time. What it keeps is bounded by heads and open attempts."""

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
        altered = [
            head for head in given if not is_sound_head(head, linker)
        ]  # also one that its writer's next one hides
        self._heads = {head.writer: head for head in given}
        unsound = frozenset(altered)
        sound = [head for head in self._heads.values() if head not in unsound]
        self._remembered = _remembered(sound, sound_anchors(anchors))
        self._noted = {*self._remembered, *((head.writer, head.sequence) for head in self._heads.values())}
        self._breaks: list[Break] = [
            Break(writer=head.writer, sequence=head.sequence, problem=fault_of_mac("head_altered", head.key_id, linker))
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
            problem = fault_of_mac("tombstone_altered", tombstone.key_id, self._linker)
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


def _event_problem(event: ChainedEvent, *, expected: int, previous: str, linker: Linker) -> str | None:
    if event.sequence != expected:
        return "events_missing" if event.sequence > expected else "order_changed"
    message = chain_message(event.writer, event.sequence, previous, event.body)
    if linker.is_authentic(message, Mac(key_id=event.key_id, value=event.link)):
        return None
    return fault_of_mac("event_altered", event.key_id, linker)


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
            head_now is not None and head_now.sequence >= sequence and is_sound_head(head_now, linker)
        )
        if not is_sound:
            yield Break(writer=writer, sequence=sequence, problem="head_missing")


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

"""A genuine audit of three writers, altered by whoever can write the store but has no key: it must show, always."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

from fuzz.choices import Choices
from placet.adapters.keys import KeyRing
from placet.adapters.stores.chain import ChainLinker, ChainWriter
from placet.model.audit import AuditEvent, AuditOutcome, ChainedEvent, ChainHead, EventKind, Summary
from placet.model.identifiers import WriterId
from placet.rules.chain_check import ChainReport, verify_chains
from placet.rules.chains import heads_form

BEGINNING = datetime(2026, 1, 1, tzinfo=UTC)
EVENTS_OF = (5, 1, 4)
"""How many events each writer wrote, the oldest writer first."""

Audit = tuple[tuple[ChainedEvent, ...], tuple[ChainHead, ...]]


def check(data: bytes) -> None:
    """The bytes are a list of alterations; whoever kept the heads elsewhere sees any that changed something."""
    choices = Choices(data)
    events, heads = genuine()
    altered_events, altered_heads = list(events), list(heads)
    while not choices.is_used_up:
        _alter(choices, altered_events, altered_heads)
    anchors: dict[str, tuple[int, str]] = {head.writer: (head.sequence, head.link) for head in heads}
    report = verified(altered_events, altered_heads, anchors)
    is_genuine = _in_order(altered_events) == _in_order(events) and set(altered_heads) == set(heads)
    assert report.holds is is_genuine, report
    assert report.events == len(altered_events)
    assert len(report.breaks) <= 3 * (len(altered_events) + len(altered_heads) + len(anchors))
    assert all(len(found.problem) < 64 and found.problem.isascii() for found in report.breaks)


@cache
def linker() -> ChainLinker:
    return ChainLinker(keys())


@cache
def genuine() -> Audit:
    """Each writer begins when the one before it has ended, so that the later remember the earlier."""
    events: list[ChainedEvent] = []
    heads: list[ChainHead] = []
    for number, count in enumerate(EVENTS_OF):
        chain = ChainWriter(keys(), WriterId(f"w{number}"), opened_after=heads_form(heads))
        events += [chain.link(_event(number, place)) for place in range(count)]
        heads.append(chain.head())
    assert verified(events, heads, {}).holds
    return tuple(events), tuple(heads)


def verified(events: list[ChainedEvent], heads: list[ChainHead], anchors: dict[str, tuple[int, str]]) -> ChainReport:
    return verify_chains(events, heads, linker(), anchors=anchors)


@cache
def keys() -> KeyRing:
    return KeyRing({"k-old": bytes(32), "k-new": b"\x01" * 32}, current="k-new")


def _event(writer: int, place: int) -> AuditEvent:
    is_end = place % 2 == 1
    return AuditEvent(
        kind=EventKind.COMPLETED if is_end else EventKind.STARTED,
        at=BEGINNING + timedelta(seconds=place),
        tenant="globex" if (writer + place) % 3 == 2 else "acme",
        subject="agent",
        key_id="k-new",
        run_id="r1",
        call_id=f"c{writer}.{place // 2}",
        tool="look",
        attempt=1,
        outcome=AuditOutcome.SUCCESS if is_end else None,
        arguments=Summary(field_count=1),
    )


def _in_order(events: list[ChainedEvent] | tuple[ChainedEvent, ...]) -> dict[str, list[ChainedEvent]]:
    """By writer: how the events of two writers mix says nothing."""
    by_writer: dict[str, list[ChainedEvent]] = {}
    for event in events:
        by_writer.setdefault(event.writer, []).append(event)
    return by_writer


# ---------------------------------------------------------------- alterations


def _alter(choices: Choices, events: list[ChainedEvent], heads: list[ChainHead]) -> None:
    rows: list[Any] = heads if choices.below(3) == 2 else events
    if not rows:
        return
    place, other = choices.below(len(rows)), choices.below(len(rows))
    match choices.below(8):
        case 0:
            del rows[place]
        case 1:
            rows[place], rows[other] = rows[other], rows[place]
        case 2:
            rows.insert(other, rows[place])
        case 3:
            del rows[place:]
        case 4:
            writer = rows[place].writer
            rows[:] = [row for row in rows if row.writer != writer]
        case 5:
            name = choices.one_of(tuple(type(rows[place]).__dataclass_fields__))
            rows[place] = replace(rows[place], **{name: getattr(rows[other], name)})
        case _:
            name = choices.one_of(tuple(type(rows[place]).__dataclass_fields__))
            rows[place] = replace(rows[place], **{name: _altered(getattr(rows[place], name), choices)})


def _altered(value: Any, choices: Choices) -> Any:
    if type(value) is int:
        return choices.one_of((value + 1, value - 1, 0, -value, value + 2**64))
    position = choices.below(len(value) + 1)
    put_in = choices.take(choices.below(3))
    end = position + choices.below(3)
    if type(value) is bytes:
        return value[:position] + put_in + value[end:]
    return value[:position] + put_in.decode("latin-1") + value[end:]

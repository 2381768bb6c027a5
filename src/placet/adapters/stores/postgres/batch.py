"""What a batch is sent as: the bindings of `apply`, in order, and what is remembered once it is durable."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from placet.adapters.stores import rows
from placet.adapters.stores.chain import ChainWriter
from placet.adapters.stores.postgres.memory import Mark, Memory
from placet.adapters.stores.postgres.overlay import PredictedTables
from placet.errors import StoreError
from placet.model.approval import Mac


@dataclass(frozen=True, slots=True, kw_only=True)
class Turnstile:
    """Where a writer stands: what its row says before the next transaction.

    Attributes:
        epoch: raised by whoever asks what became of a transaction whose answer was lost.
        commits: transactions of this writer so far.
    """

    epoch: int
    commits: int


def bindings(tables: PredictedTables, chain: ChainWriter, key_check: str | None, turnstile: Turnstile) -> list[Any]:
    """The bindings of `apply`; None for what it need not look at. Rows stand in order of their keys."""
    events = tables.events
    head = chain.head() if events else None
    return [
        _terms_seen(tables),
        _tallies(tables),
        # under locks the database has said the time itself, in this transaction, however long reading took since
        None if tables.is_locked else rows.microseconds(tables.now),
        rows.microseconds(tables.not_after),
        key_check if events else None,
        None if tables.stops_seen is None else sorted(tables.stops_seen),
        list(tables.unvoided) or None,
        _effects_seen(tables),
        _approvals_seen(tables),
        [(*rows.effect_row(effect), None) for _, effect in sorted(tables.new_effects.items())] or None,
        [
            (*rows.effect_row(effect), tables.effects_seen.get(key))
            for key, effect in sorted(tables.changed_effects.items())
        ]
        or None,
        [(*rows.approval_row(approval), None) for _, approval in sorted(tables.new_approvals.items())] or None,
        [
            (*rows.approval_row(approval), tables.approvals_seen.get(key))
            for key, approval in sorted(tables.changed_approvals.items())
        ]
        or None,
        _runs(tables),
        sorted(tables.steps) or None,
        [(*key, seen, seen + tables.denials_added.get(key, 0)) for key, seen in sorted(tables.denials_seen.items())]
        or None,
        [
            (place.writer, place.sequence, owner, rows.microseconds(until))
            for place, (owner, until) in tables.opened.items()
        ]
        or None,
        [(place.writer, place.sequence, None, None) for place in tables.closed] or None,
        chain.writer,
        turnstile.epoch,
        turnstile.commits,
        tables.is_writing,
        events[0].sequence if events else None,
        [event.body.decode() for event in events] or None,
        [event.link for event in events] or None,
        [event.key_id for event in events] or None,
        head.link if head else None,
        head.opened_after.decode() if head else None,
        head.key_id if head else None,
        head.mac if head else None,
    ]


def _terms_seen(tables: PredictedTables) -> list[tuple[str, str, int]] | None:
    """Under locks they were read with the rows, which nobody changes meanwhile."""
    if tables.is_locked:
        return None
    return [(*key, terms) for key, terms in sorted(tables.terms_seen.items())] or None


def _tallies(tables: PredictedTables) -> list[tuple[str, str, str, int, int]] | None:
    return [
        (*key, seen, max(0, seen + tables.tallies_added.get(key, 0)))
        for key, seen in sorted(tables.tallies_seen.items())
    ] or None


def _effects_seen(tables: PredictedTables) -> list[tuple[str, str, Mark | None]] | None:
    """Rows that were read and are not written: what is written is compared as it is."""
    return [
        (*key, mark)
        for key, mark in sorted(tables.effects_seen.items())
        if key not in tables.changed_effects and not (mark is None and key in tables.new_effects)
    ] or None


def _approvals_seen(tables: PredictedTables) -> list[tuple[str, str, Mark | None]] | None:
    return [
        (*key, mark)
        for key, mark in sorted(tables.approvals_seen.items())
        if key not in tables.changed_approvals
        and key not in tables.closed_first
        and not (mark is None and key in tables.new_approvals)
    ] or None


def _runs(tables: PredictedTables) -> list[tuple[Any, ...]] | None:
    return [
        (tenant, run_id, step.subject, step.policy_version, step.max_steps, rows.microseconds(opened_at))
        for (tenant, run_id), (step, opened_at) in sorted(tables.runs.items())
    ] or None


def remember(memory: Memory, tables: PredictedTables, mark: Mark | None) -> None:
    """What is durable now is what this process will see next."""
    if mark is not None:
        for key, effect in (*tables.new_effects.items(), *tables.changed_effects.items()):
            memory.effects.put(key, (effect, mark))
        for approval_key, approval in (*tables.new_approvals.items(), *tables.changed_approvals.items()):
            memory.approvals.put(approval_key, (approval, mark))
    for closed_key in tables.closed_first:
        memory.approvals.drop(closed_key)
    for run_key, taken in tables.run_steps.items():
        if (run := memory.runs.get(run_key)) is not None:
            memory.runs.put(run_key, replace(run, steps=run.steps + taken))
    for denial_key, seen in tables.denials_seen.items():
        memory.denials.put(denial_key, seen + tables.denials_added.get(denial_key, 0))
    for tally_key, seen in tables.tallies_seen.items():
        memory.tallies.put(tally_key, max(0, seen + tables.tallies_added.get(tally_key, 0)))
    for place in tables.opened:
        memory.reads.put(place, None)
    for place in tables.closed:
        memory.reads.drop(place)


def note_read(memory: Memory, name: str, bindings: tuple[Any, ...], value: Any) -> None:
    """What was read for a batch is remembered for the next."""
    match name:
        case "effects_at":
            _note(memory.effects, bindings, value)
        case "approvals_at":
            _note(memory.approvals, bindings, value)
        case "run":
            _note(memory.runs, bindings, value)
        case "denials":
            memory.denials.put(bindings, value)
        case "tally":
            memory.tallies.put(bindings, value)
        case "stops":
            memory.stops = value
        case _:
            pass


def _note(recent: Any, key: tuple[str, ...], value: Any) -> None:
    if value is None or isinstance(value, StoreError):  # what cannot be read now may be put right meanwhile
        recent.drop(key)
    else:
        recent.put(key, value)


def shaped(name: str, found: Sequence[Any]) -> Any:
    """What a statement found, as the tables ask for it."""
    match name:
        case "run":
            return rows.run_from(tuple(found[0])) if found else None
        case "denials" | "tally":
            return int(found[0][0]) if found else 0
        case "stops":
            return tuple(row[0] for row in found)
        case _:
            return found


def key_check_of(value: str | None) -> Mac:
    return rows.mac_from(value or "")

"""Runs as lists of rows have them, and what else of a store is theirs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

from placet.adapters.stores.rows.instants import instant, microseconds
from placet.adapters.stores.rows.journal import run_from
from placet.errors import StoreCorrupt
from placet.model.effect import EffectState
from placet.model.identifiers import ApprovalId, RunId
from placet.model.retention import BrokenRun
from placet.model.run import LeftOpen, Run, RunCheckpoint, RunNote, RunStanding
from placet.rules.runs import limits_text

RUNS_LEFT = {
    LeftOpen.UNKNOWN: "runs_with_unknown_after",
    LeftOpen.IN_PROGRESS: "runs_in_flight_after",
    LeftOpen.WAITING: "runs_that_wait_after",
}
"""The statement that lists the runs of which this is left open."""


def runs_of(subject: str | None) -> str:
    """The statement that lists somebody's runs, or everybody's."""
    return "runs_after" if subject is None else "runs_of_subject_after"


def run_or_broken(row: tuple[Any, ...]) -> Run | BrokenRun:
    """A run for a list, in which one that cannot be read must not hide the others. Names may come as bytes."""
    try:
        return run_from(tuple(each.decode() if type(each) is bytes else each for each in row))
    except (StoreCorrupt, UnicodeDecodeError):
        return BrokenRun(tenant=_readable(row[0]), run_id=RunId(_readable(row[1])))


def standings_from(
    run_ids: Sequence[RunId],
    *,
    effects: Iterable[Sequence[Any]],
    waiting: Iterable[Sequence[Any]],
    denials: Iterable[Sequence[Any]],
) -> tuple[RunStanding, ...]:
    """How each of these runs stands, from rows that begin with a run's name.

    Args:
        effects: with a state, and how many there are of it.
        waiting: with a question's id, in their order.
        denials: with a tool's name, and how often it was refused.
    """
    found = {run_id: RunStanding(run_id=run_id, effects={}, waiting=(), denials={}) for run_id in run_ids}
    asked: dict[str, list[ApprovalId]] = {}
    for run_id, state, count in effects:
        with suppress(ValueError):  # a state that there is not: somebody changed it by hand
            found[run_id].effects[EffectState(state)] = count
    for run_id, approval_id in waiting:
        asked.setdefault(run_id, []).append(ApprovalId(approval_id))
    for run_id, tool, count in denials:
        found[run_id].denials[tool] = count
    return tuple(
        RunStanding(run_id=run_id, effects=each.effects, waiting=tuple(asked.get(run_id, ())), denials=each.denials)
        for run_id, each in found.items()
    )


def served_text(served: Iterable[tuple[str, str]]) -> str:
    """Workflows and versions of them, as statements take them."""
    return json.dumps(sorted(served))


def run_row(run: Run) -> tuple[Any, ...]:
    return (
        run.tenant,
        run.run_id,
        run.subject,
        run.policy_version,
        run.max_steps,
        run.steps,
        microseconds(run.opened_at),
        limits_text(run.limits),
        run.terms,
    )


def run_change(run: Run, *, was: Run) -> tuple[Any, ...]:
    return (run.status.value, limits_text(run.limits), run.max_steps, run.terms, run.tenant, run.run_id, was.terms)


def run_note_from(found: Sequence[tuple[Any, ...]]) -> RunNote:
    changed_by, sealed_reason = found[0] if found else (None, None)
    return RunNote(changed_by=changed_by, sealed_reason=sealed_reason)


def checkpoint_row(row: RunCheckpoint) -> tuple[Any, ...]:
    return (
        row.tenant,
        row.run_id,
        row.workflow,
        row.version,
        row.state,
        row.visit,
        row.sealed,
        row.state_version,
        row.driver,
        microseconds(row.lease_until),
        row.fence,
        microseconds(row.due_at),
        row.code,
        json.dumps(row.waits),
        row.policy_version,
        row.stale_writes,
    )


def checkpoint_change(row: RunCheckpoint, *, was: RunCheckpoint) -> tuple[Any, ...]:
    """What changes, then the row that was read; a workflow's name does not change."""
    return (*checkpoint_row(row)[3:], row.tenant, row.run_id, was.state_version, was.fence)


def checkpoint_from(row: tuple[Any, ...]) -> RunCheckpoint:
    """Where a run rests.

    Raises:
        StoreCorrupt: it cannot be read; somebody changed it by hand.
    """
    with suppress(OverflowError, ValueError, TypeError, RecursionError):
        return RunCheckpoint(
            tenant=row[0],
            run_id=row[1],
            workflow=row[2],
            version=row[3],
            state=row[4],
            visit=row[5],
            sealed=row[6],
            state_version=row[7],
            driver=row[8],
            lease_until=instant(row[9]),
            fence=row[10],
            due_at=instant(row[11]),
            code=row[12],
            waits=tuple(ApprovalId(each) for each in json.loads(row[13])),
            policy_version=row[14],
            stale_writes=row[15],
        )
    raise StoreCorrupt("Where a run rests cannot be read; somebody changed it by hand.")


def _readable(value: str | bytes) -> str:
    return value.decode("utf-8", "replace") if type(value) is bytes else str(value)

# ruff: noqa: S101 - a conformance suite asserts, and its tokens are no secrets
"""Runs, and what is done to them, as the conformance suites need them."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from placet.model.audit import EventKind
from placet.model.identifiers import OwnerId, PolicyVersion, RunId
from placet.model.ledger import OutsideRun
from placet.model.run import Run, RunChange, RunCheckpoint, RunLimits, RunNote, RunRest, RunStatus, RunTake
from placet.testing.conformance.samples import (
    Subject,
    a_claim,
    a_step,
    an_event,
    everything,
)

RUN = RunId("run-1")
NOBODY = RunNote(changed_by=None, sealed_reason=None)
FOLLOWS = {
    RunStatus.OPEN: frozenset({RunStatus.PAUSED}),
    RunStatus.PAUSED: frozenset({RunStatus.OPEN}),
    RunStatus.CANCELLED: frozenset({RunStatus.OPEN, RunStatus.PAUSED}),
}


def a_run(run_id: str = "run-1", *, limits: RunLimits | None = None, **changes: Any) -> Run:
    run = Run(
        tenant="acme",
        run_id=RunId(run_id),
        subject="agent-1",
        policy_version=PolicyVersion("policy-1"),
        max_steps=50,
        steps=0,
        opened_at=datetime(1970, 1, 1, tzinfo=UTC),
        limits=limits or RunLimits(),
        terms=1,
    )
    return replace(run, **changes)


def a_start(run_id: str = "run-1", **changes: Any) -> RunCheckpoint:
    start = RunCheckpoint(
        tenant="acme",
        run_id=RunId(run_id),
        workflow="order",
        version="1",
        state="CHECK",
        visit=1,
        sealed=b"sealed input",
        state_version=1,
        driver=None,
        lease_until=None,
        fence=0,
        due_at=None,
        code=None,
        waits=(),
        policy_version=PolicyVersion("policy-1"),
    )
    return replace(start, **changes)


def a_take(driver: str = "driver-1", *, run_id: str = "run-1", expecting: int | None = None) -> RunTake:
    return RunTake(tenant="acme", run_id=RunId(run_id), driver=OwnerId(driver), lease_seconds=30.0, expecting=expecting)


def a_rest(taken: RunCheckpoint, **changes: Any) -> RunRest:
    rest = RunRest(
        tenant=taken.tenant,
        run_id=taken.run_id,
        driver=taken.driver or OwnerId("nobody"),
        fence=taken.fence,
        version="1",
        state="PAY",
        visit=2,
        sealed=b"sealed next",
        code=None,
        waits=(),
        policy_version=PolicyVersion("policy-1"),
        due_after_seconds=0.0,
    )
    return replace(rest, **changes)


async def begun(
    subject: Subject, limits: RunLimits | None = None, *, run_id: str = "run-1", rests: bool = False
) -> Run:
    start = a_start(run_id) if rests else None
    event = an_event(EventKind.RUN_BEGUN, run_id=run_id)
    run, is_new = await subject.store.begin_run(a_run(run_id, limits=limits), start, events=(event,))
    assert is_new
    return run


async def changed(subject: Subject, status: RunStatus, *, limits: RunLimits | None = None) -> tuple[Run, bool]:
    change = RunChange(tenant="acme", run_id=RUN, status=status, follows=FOLLOWS[status], note=NOBODY, limits=limits)
    answer = await subject.store.change_run(change, events=(an_event(EventKind.RUN_CANCELLED),))
    assert isinstance(answer, tuple)
    return answer


async def taken(subject: Subject, driver: str = "driver-1", **more: Any) -> RunCheckpoint:
    found = await subject.store.take_run(a_take(driver, **more))
    assert found is not None
    assert found.driver == driver
    return found


def claim_of(number: int, *, tool: str = "pay", subject: str = "agent-1", **changes: Any) -> Any:
    step = a_step(f"call-{number}", fingerprint=f"f-{number}", subject=subject)
    return a_claim(f"key-{number}", token=f"token-{number}", step=step, tool=tool, **changes)


async def answers_of(subject: Subject, *claims: Any) -> list[str]:
    """`claimed`, or the code of what stands against it; what is refused leaves nothing behind."""
    words = []
    for claim in claims:
        before = await everything(subject)
        answer = await subject.store.claim(claim)
        if isinstance(answer, OutsideRun):
            assert await everything(subject) == before
        words.append(answer.code if isinstance(answer, OutsideRun) else type(answer).__name__.lower())
    return words

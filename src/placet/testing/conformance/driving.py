"""Runs that were begun with limits, changed on purpose, and driven: what every claim of theirs is held to."""

# ruff: noqa: S101 - a conformance suite asserts, and its tokens are no secrets

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from placet.model.approval import Approval, ApprovalState
from placet.model.audit import EventKind
from placet.model.effect import EffectState
from placet.model.identifiers import ApprovalId, OwnerId, PolicyVersion, RunId
from placet.model.ledger import Claimed, Moved, NotMoved, OpenRead, OutsideRun, Recorded
from placet.model.run import Run, RunChange, RunCheckpoint, RunLimits, RunNote, RunRest, RunStatus, RunTake
from placet.testing.conformance.running import asked
from placet.testing.conformance.samples import (
    MakeStore,
    Subject,
    a_claim,
    a_settlement,
    a_step,
    a_turn,
    an_event,
    claimed,
    decided,
    everything,
    pending,
)

_RUN = RunId("run-1")
_NOBODY = RunNote(changed_by=None, sealed_reason=None)
_FOLLOWS = {
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
    change = RunChange(tenant="acme", run_id=_RUN, status=status, follows=_FOLLOWS[status], note=_NOBODY, limits=limits)
    answer = await subject.store.change_run(change, events=(an_event(EventKind.RUN_CANCELLED),))
    assert answer is not None
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


class DeclaredRunConformance:
    async def test_a_run_is_begun_once_by_whoever_comes_first(self, make_store: MakeStore) -> None:
        subject = await make_store()
        limits = RunLimits(
            max_steps=7,
            max_attempts=3,
            deadline=subject.clock.now() + timedelta(hours=1, microseconds=5),
            allowed_tools=frozenset({"pay", "send"}),
            per_tool={"pay": 2},
            max_cost=9,
            costs={"pay": 4},
        )
        event = an_event(EventKind.RUN_BEGUN)

        found = await asyncio.gather(
            *(subject.store.begin_run(a_run(limits=limits), a_start(), events=(event,)) for _ in range(5))
        )

        assert sorted(is_new for _, is_new in found) == [False] * 4 + [True]
        assert {run.opened_at for run, _ in found} == {subject.clock.now()}
        assert await subject.told() == ["run_begun"]
        run = await subject.store.run("acme", _RUN)
        assert run == a_run(limits=limits, opened_at=subject.clock.now())
        assert await subject.store.run_checkpoint("acme", _RUN) == a_start(due_at=subject.clock.now())
        assert await subject.store.run_checkpoint("other", _RUN) is None
        assert (await subject.verified()).holds

    async def test_a_run_that_a_proposal_opened_is_found_and_not_begun(self, make_store: MakeStore) -> None:
        subject = await make_store()
        await claimed(subject)

        run, is_new = await subject.store.begin_run(a_run(), None, events=(an_event(EventKind.RUN_BEGUN),))

        assert (is_new, run.steps, run.limits, run.terms) == (False, 1, None, 0)

    async def test_a_claim_is_held_to_the_tools_of_its_run(self, make_store: MakeStore) -> None:
        subject = await make_store()
        await begun(subject, RunLimits(allowed_tools=frozenset({"pay"})))

        assert await answers_of(subject, claim_of(1), claim_of(2, tool="send")) == ["claimed", "tool_not_in_run"]
        read = await subject.store.record((an_event(),), step=a_step("call-3"), starts_tool="look")
        assert read == OutsideRun(code="tool_not_in_run")
        refusal = await subject.store.record((an_event(),), step=a_step("call-4"))
        assert isinstance(refusal, Recorded)  # what is only recorded is counted
        assert (await subject.store.run("acme", _RUN)).steps == 2  # type: ignore[union-attr]

    async def test_nobody_is_asked_about_what_a_run_may_not_do(self, make_store: MakeStore) -> None:
        subject = await make_store()
        await begun(subject, RunLimits(allowed_tools=frozenset({"send"})))

        await asked(subject, "apr-1", run_id="run-1")

        assert await subject.store.approvals_of_run("acme", _RUN, limit=9) == ()

    async def test_after_its_deadline_nothing_of_a_run_is_dispatched(self, make_store: MakeStore) -> None:
        subject = await make_store()
        await begun(subject, RunLimits(deadline=subject.clock.now() + timedelta(seconds=60)))
        effect = await claimed(subject, "key-1", step=a_step("call-1"))

        subject.clock.advance(60)

        assert await answers_of(subject, claim_of(2)) == ["run_deadline_passed"]
        moved = await subject.store.turn(a_turn(effect))
        assert isinstance(moved, NotMoved)
        assert moved.reason == "run_deadline_passed"
        assert isinstance(await subject.store.settle(a_settlement(effect)), Moved)

    async def test_budgets_are_taken_by_claims_and_turns_and_no_further(self, make_store: MakeStore) -> None:
        subject = await make_store()
        limits = RunLimits(max_attempts=4, per_tool={"send": 1}, max_cost=7, costs={"pay": 3})
        await begun(subject, limits)

        first = await subject.store.claim(claim_of(1))
        assert isinstance(first, Claimed)
        assert isinstance(await subject.store.turn(a_turn(first.effect)), Moved)
        sent = await answers_of(subject, claim_of(2, tool="send"), claim_of(3, tool="send"))
        paid = await answers_of(subject, claim_of(4), claim_of(5))

        assert sent == ["claimed", "run_tool_exhausted"]
        assert paid == ["claimed", "run_attempts_exhausted"]
        again = await subject.store.claim(claim_of(1, fence=0))
        assert isinstance(again, Claimed)  # the same claim, after a lost answer, takes nothing
        assert await subject.store.run_tallies("acme", _RUN) == {"attempts": 4, "cost": 6, "tool:send": 1}
        read = await subject.store.record((an_event(),), step=a_step("call-6"), starts_tool="look")
        assert read == OutsideRun(code="run_attempts_exhausted")

    async def test_a_further_attempt_of_a_read_takes_an_attempt_and_nothing_else(self, make_store: MakeStore) -> None:
        subject = await make_store()
        await begun(subject, RunLimits(max_attempts=2, per_tool={"look": 1}, max_cost=3, costs={"look": 3}))
        opens = OpenRead(owner=OwnerId("owner-1"), lease_seconds=30.0)
        look = partial(subject.store.record, (an_event(),), step=a_step("call-1"), starts_tool="look", opens=opens)

        first = await look()
        assert isinstance(first, Recorded)
        second = await look(closes=first.place)
        assert isinstance(second, Recorded)

        assert await subject.store.run_tallies("acme", _RUN) == {"attempts": 2, "cost": 3, "tool:look": 1}
        assert await look(closes=second.place) == OutsideRun(code="run_attempts_exhausted")

    async def test_what_cost_a_claim_takes_is_counted_with_it(self, make_store: MakeStore) -> None:
        subject = await make_store()
        await begun(subject, RunLimits(max_cost=7, costs={"pay": 3}))

        assert await answers_of(subject, *map(claim_of, range(1, 4))) == ["claimed"] * 2 + ["run_cost_exhausted"]

    async def test_of_many_at_once_as_many_are_claimed_as_there_is_budget(self, make_store: MakeStore) -> None:
        subject = await make_store()
        await begun(subject, RunLimits(per_tool={"pay": 6}))

        answers = await asyncio.gather(*(subject.store.claim(claim_of(number)) for number in range(8)))

        assert sum(isinstance(answer, Claimed) for answer in answers) == 6
        assert {answer for answer in answers if not isinstance(answer, Claimed)} == {
            OutsideRun(code="run_tool_exhausted")
        }
        assert await subject.store.run_tallies("acme", _RUN) == {"tool:pay": 6}

    async def test_only_what_was_never_sent_gives_back_what_it_took(self, make_store: MakeStore) -> None:
        subject = await make_store()
        await begun(subject, RunLimits(max_attempts=9, per_tool={"pay": 1}, max_cost=3, costs={"pay": 3}))

        for number, reason in enumerate(("not_sent", "raised"), start=1):
            answer = await subject.store.claim(claim_of(number))
            assert isinstance(answer, Claimed)
            await subject.store.settle(a_settlement(answer.effect, EffectState.FAILED, reason=reason))

        assert await subject.store.run_tallies("acme", _RUN) == {"attempts": 2, "cost": 3, "tool:pay": 1}
        assert await answers_of(subject, claim_of(3)) == ["run_tool_exhausted"]

    async def test_a_run_without_limits_takes_nothing(self, make_store: MakeStore) -> None:
        subject = await make_store()
        effect = await claimed(subject)
        await subject.store.settle(a_settlement(effect, EffectState.FAILED, reason="not_sent"))

        assert await subject.store.run_tallies("acme", _RUN) == {}

    async def test_a_paused_run_rests_and_a_resumed_one_counts_on(self, make_store: MakeStore) -> None:
        subject = await make_store()
        await begun(subject, RunLimits(per_tool={"pay": 2}), rests=True)
        assert await answers_of(subject, claim_of(1)) == ["claimed"]

        paused = await changed(subject, RunStatus.PAUSED)
        assert (paused[0].status, paused[1]) == (RunStatus.PAUSED, True)
        assert (await changed(subject, RunStatus.PAUSED))[1] is False
        assert await answers_of(subject, claim_of(2)) == ["run_paused"]
        assert await subject.store.due_runs(limit=9) == ()
        assert (await subject.store.take_run(a_take())).driver is None  # type: ignore[union-attr]
        assert await subject.store.record((an_event(),), step=a_step("call-9")) == OutsideRun(code="run_paused")

        resumed, _ = await changed(subject, RunStatus.OPEN)
        assert (resumed.status, resumed.steps, resumed.terms) == (RunStatus.OPEN, 1, 3)
        assert await subject.store.due_runs(limit=9) == (("acme", _RUN),)
        assert await answers_of(subject, claim_of(2), claim_of(3)) == ["claimed", "run_tool_exhausted"]
        await changed(subject, RunStatus.PAUSED)
        await changed(subject, RunStatus.OPEN, limits=RunLimits(max_steps=9, per_tool={"pay": 3}))
        assert await answers_of(subject, claim_of(3), claim_of(4)) == ["claimed", "run_tool_exhausted"]
        assert (await subject.store.run("acme", _RUN)).max_steps == 9  # type: ignore[union-attr]

    async def test_a_cancelled_run_is_over_for_good(self, make_store: MakeStore) -> None:
        subject = await make_store()
        await begun(subject, rests=True)
        effect = await claimed(subject)
        approval = await decided(subject, await pending(subject))
        assert isinstance(approval, Approval)

        cancelled, _ = await changed(subject, RunStatus.CANCELLED)

        assert cancelled.status is RunStatus.CANCELLED
        assert await answers_of(subject, claim_of(2)) == ["run_cancelled"]
        assert isinstance(await subject.store.turn(a_turn(effect)), NotMoved)
        assert isinstance(await subject.store.settle(a_settlement(effect)), Moved)
        for status in (RunStatus.OPEN, RunStatus.PAUSED, RunStatus.CANCELLED):
            assert (await changed(subject, status))[1] is False
        assert await subject.store.next_due_run() is None

    async def test_a_run_that_is_not_there_is_not_changed(self, make_store: MakeStore) -> None:
        subject = await make_store()
        change = RunChange(
            tenant="acme", run_id=_RUN, status=RunStatus.PAUSED, follows=frozenset({RunStatus.OPEN}), note=_NOBODY
        )

        assert await subject.store.change_run(change, events=(an_event(),)) is None
        assert await subject.told() == []

    async def test_a_run_of_undeclared_limits_is_paused_and_cancelled_too(self, make_store: MakeStore) -> None:
        subject = await make_store()
        await claimed(subject)

        await changed(subject, RunStatus.PAUSED)

        assert await answers_of(subject, claim_of(2)) == ["run_paused"]
        await changed(subject, RunStatus.CANCELLED)
        assert await answers_of(subject, claim_of(2)) == ["run_cancelled"]

    async def test_why_a_run_was_changed_is_kept_sealed(self, make_store: MakeStore) -> None:
        subject = await make_store()
        await begun(subject)
        assert await subject.store.run_note("acme", _RUN) == _NOBODY

        note = RunNote(changed_by="paula", sealed_reason=b"sealed reason")
        change = RunChange(
            tenant="acme", run_id=_RUN, status=RunStatus.PAUSED, follows=frozenset({RunStatus.OPEN}), note=note
        )
        await subject.store.change_run(change, events=())

        assert await subject.store.run_note("acme", _RUN) == note


class DrivenRunConformance:
    async def test_a_run_is_one_drivers_for_one_step(self, make_store: MakeStore) -> None:
        subject = await make_store()
        await begun(subject, rests=True)

        first = await taken(subject)
        second = await subject.store.take_run(a_take("driver-2"))

        assert second == first
        assert (first.fence, first.lease_until) == (1, subject.clock.now() + timedelta(seconds=30))
        assert await subject.store.due_runs(limit=9) == ()
        rests = await subject.store.rest_run(a_rest(first), events=(an_event(EventKind.RUN_MOVED),))
        assert rests is not None
        assert (rests.state, rests.visit, rests.sealed, rests.state_version) == ("PAY", 2, b"sealed next", 2)
        assert (rests.driver, rests.lease_until, rests.due_at) == (None, None, subject.clock.now())
        assert await subject.store.run_checkpoint("acme", _RUN) == rests
        third = await taken(subject, "driver-2")
        assert third.fence == 2

    async def test_a_driver_whose_lease_is_over_writes_nothing_any_more(self, make_store: MakeStore) -> None:
        subject = await make_store()
        await begun(subject, rests=True)
        first = await taken(subject)
        subject.clock.advance(20)
        assert await subject.store.keep_run(a_take(), first.fence)
        subject.clock.advance(20)
        assert (await subject.store.take_run(a_take("driver-2"))).driver == "driver-1"  # type: ignore[union-attr]
        subject.clock.advance(10)
        assert await subject.store.due_runs(limit=9) == (("acme", _RUN),)
        second = await taken(subject, "driver-2")

        assert not await subject.store.keep_run(a_take(), first.fence)
        assert await subject.store.rest_run(a_rest(first), events=(an_event(EventKind.RUN_MOVED),)) is None
        rests = await subject.store.rest_run(a_rest(second), events=())

        assert rests is not None
        assert (rests.state_version, rests.stale_writes) == (2, 1)
        assert await subject.told() == ["run_begun"]

    async def test_a_step_that_was_done_is_not_taken_again(self, make_store: MakeStore) -> None:
        subject = await make_store()
        await begun(subject, rests=True)
        rests = await subject.store.rest_run(a_rest(await taken(subject, expecting=1)), events=())

        assert await subject.store.take_run(a_take("driver-2", expecting=1)) == rests
        assert (await taken(subject, "driver-3", expecting=2)).fence == 2
        assert await subject.store.take_run(a_take(run_id="run-9")) is None

    async def test_a_run_that_was_stopped_meanwhile_is_laid_down_where_it_was(self, make_store: MakeStore) -> None:
        subject = await make_store()
        await begun(subject, rests=True)
        first = await taken(subject)
        await changed(subject, RunStatus.PAUSED)

        assert await subject.store.rest_run(a_rest(first), events=(an_event(EventKind.RUN_MOVED),)) is None

        await changed(subject, RunStatus.OPEN)
        again = await taken(subject, "driver-2")
        assert (again.state, again.state_version, again.stale_writes) == ("CHECK", 1, 0)

    async def test_a_run_that_waits_is_due_when_its_time_comes(self, make_store: MakeStore) -> None:
        subject = await make_store()
        for number in (1, 2):
            await begun(subject, run_id=f"run-{number}", rests=True)
            mine = await taken(subject, run_id=f"run-{number}")
            await subject.store.rest_run(a_rest(mine, code="unknown", due_after_seconds=10.0 * number), events=())

        assert await subject.store.due_runs(limit=9) == ()
        assert await subject.store.next_due_run() == subject.clock.now() + timedelta(seconds=10)
        subject.clock.advance(10)
        assert await subject.store.due_runs(limit=9) == (("acme", _RUN),)
        subject.clock.advance(10)
        assert len(await subject.store.due_runs(limit=9)) == 2
        assert await subject.store.due_runs(limit=1) == (("acme", _RUN),)

    async def test_whoever_answers_a_question_makes_its_run_due(self, make_store: MakeStore) -> None:
        subject = await make_store()
        await begun(subject, rests=True)
        await begun(subject, run_id="run-2", rests=True)
        approval = await pending(subject)
        for run_id in ("run-1", "run-2"):
            mine = await taken(subject, run_id=run_id)
            waits = (ApprovalId("apr-1"),) if run_id == "run-1" else ()
            rest = a_rest(mine, code="approval_required", waits=waits, due_after_seconds=86_400.0)
            await subject.store.rest_run(rest, events=())
        assert await subject.store.due_runs(limit=9) == ()

        await decided(subject, approval)

        assert await subject.store.due_runs(limit=9) == (("acme", _RUN),)

    async def test_an_answer_given_before_a_run_was_laid_down_is_not_lost(self, make_store: MakeStore) -> None:
        subject = await make_store()
        await begun(subject, rests=True)
        approval = await pending(subject)
        mine = await taken(subject)

        await subject.store.retire(approval, ApprovalState.WITHDRAWN, events=())
        assert await subject.store.due_runs(limit=9) == ()  # it is being driven
        rest = a_rest(mine, code="approval_required", waits=(ApprovalId("apr-1"),), due_after_seconds=86_400.0)
        await subject.store.rest_run(rest, events=())

        assert await subject.store.due_runs(limit=9) == (("acme", _RUN),)

    async def test_what_waits_under_another_policy_is_woken(self, make_store: MakeStore) -> None:
        subject = await make_store()
        for run_id, policy in (("run-1", "policy-1"), ("run-2", "policy-2")):
            await begun(subject, run_id=run_id, rests=True)
            mine = await taken(subject, run_id=run_id)
            rest = a_rest(mine, code="approval_required", policy_version=PolicyVersion(policy), due_after_seconds=99.0)
            await subject.store.rest_run(rest, events=())

        assert await subject.store.wake_runs(PolicyVersion("policy-2")) == 1

        assert await subject.store.due_runs(limit=9) == (("acme", _RUN),)

    async def test_a_run_ends_with_its_workflow(self, make_store: MakeStore) -> None:
        subject = await make_store()
        await begun(subject, rests=True)
        mine = await taken(subject)

        rest = a_rest(mine, state="FAILED", code="not_paid", due_after_seconds=None, ends=RunStatus.FAILED)
        await subject.store.rest_run(rest, events=(an_event(EventKind.RUN_ENDED),))

        run = await subject.store.run("acme", _RUN)
        assert run is not None
        assert run.status is RunStatus.FAILED
        assert await answers_of(subject, claim_of(1)) == ["run_over"]
        assert await subject.store.next_due_run() is None
        assert await subject.store.waiting_runs(after=None, limit=9) == ()

    async def test_runs_that_wait_are_listed_page_after_page(self, make_store: MakeStore) -> None:
        subject = await make_store()
        for number in (2, 1, 3):
            await begun(subject, run_id=f"run-{number}", rests=True)
        await taken(subject, run_id="run-3")

        first = await subject.store.waiting_runs(after=None, limit=1)
        second = await subject.store.waiting_runs(after=("acme", first[0].run_id), limit=9)

        assert [row.run_id for row in (*first, *second)] == ["run-1", "run-2"]

    async def test_where_a_run_rests_needs_its_key_until_it_is_over(self, make_store: MakeStore) -> None:
        subject = await make_store()
        sealed = b"\x01\x03k-7" + b"sealed"
        event = an_event(EventKind.RUN_BEGUN)
        await subject.store.begin_run(a_run(), a_start(sealed=sealed), events=(event,))
        assert [use.checkpoints for use in await subject.store.key_uses() if use.key_id == "k-7"] == [1]

        await changed(subject, RunStatus.PAUSED)
        assert [use.checkpoints for use in await subject.store.key_uses() if use.key_id == "k-7"] == [1]
        await changed(subject, RunStatus.OPEN)
        rest = a_rest(await taken(subject), sealed=sealed, due_after_seconds=None, ends=RunStatus.DONE)
        await subject.store.rest_run(rest, events=())

        assert not [use for use in await subject.store.key_uses() if use.checkpoints]

"""Runs that were begun with limits, changed on purpose, and driven: what every claim of theirs is held to."""

# ruff: noqa: S101 - a conformance suite asserts, and its tokens are no secrets

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from functools import partial

from placet.model.approval import Approval, ApprovalState
from placet.model.audit import EventKind
from placet.model.effect import EffectState
from placet.model.identifiers import ApprovalId, OwnerId, PolicyVersion
from placet.model.ledger import Claimed, Moved, NotMoved, OpenRead, OutsideRun, Recorded, Withdrawal
from placet.model.run import CallsUnderWay, RunChange, RunLimits, RunNote, RunStatus
from placet.testing.conformance.run_samples import (
    NOBODY,
    RUN,
    a_rest,
    a_run,
    a_start,
    a_take,
    answers_of,
    begun,
    changed,
    claim_of,
    taken,
)
from placet.testing.conformance.running import asked
from placet.testing.conformance.samples import (
    MakeStore,
    a_settlement,
    a_step,
    a_turn,
    an_event,
    claimed,
    decided,
    everything,
    pending,
)


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
        run = await subject.store.run("acme", RUN)
        assert run == a_run(limits=limits, opened_at=subject.clock.now())
        assert await subject.store.run_checkpoint("acme", RUN) == a_start(due_at=subject.clock.now())
        assert await subject.store.run_checkpoint("other", RUN) is None
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
        assert (await subject.store.run("acme", RUN)).steps == 2  # type: ignore[union-attr]

    async def test_nobody_is_asked_about_what_a_run_may_not_do(self, make_store: MakeStore) -> None:
        subject = await make_store()
        await begun(subject, RunLimits(allowed_tools=frozenset({"send"})))

        await asked(subject, "apr-1", run_id="run-1")

        assert await subject.store.approvals_of_run("acme", RUN, limit=9) == ()

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
        assert await subject.store.run_tallies("acme", RUN) == {"attempts": 4, "cost": 6, "tool:send": 1}
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

        assert await subject.store.run_tallies("acme", RUN) == {"attempts": 2, "cost": 3, "tool:look": 1}
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
        assert await subject.store.run_tallies("acme", RUN) == {"tool:pay": 6}

    async def test_only_what_was_never_sent_gives_back_what_it_took(self, make_store: MakeStore) -> None:
        subject = await make_store()
        await begun(subject, RunLimits(max_attempts=9, per_tool={"pay": 1}, max_cost=3, costs={"pay": 3}))

        for number, reason in enumerate(("not_sent", "raised"), start=1):
            answer = await subject.store.claim(claim_of(number))
            assert isinstance(answer, Claimed)
            await subject.store.settle(a_settlement(answer.effect, EffectState.FAILED, reason=reason))

        assert await subject.store.run_tallies("acme", RUN) == {"attempts": 2, "cost": 3, "tool:pay": 1}
        assert await answers_of(subject, claim_of(3)) == ["run_tool_exhausted"]

    async def test_a_run_without_limits_takes_nothing(self, make_store: MakeStore) -> None:
        subject = await make_store()
        effect = await claimed(subject)
        await subject.store.settle(a_settlement(effect, EffectState.FAILED, reason="not_sent"))

        assert await subject.store.run_tallies("acme", RUN) == {}

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
        assert await subject.store.due_runs(limit=9) == (("acme", RUN),)
        assert await answers_of(subject, claim_of(2), claim_of(3)) == ["claimed", "run_tool_exhausted"]
        await changed(subject, RunStatus.PAUSED)
        await changed(subject, RunStatus.OPEN, limits=RunLimits(max_steps=9, per_tool={"pay": 3}))
        assert await answers_of(subject, claim_of(3), claim_of(4)) == ["claimed", "run_tool_exhausted"]
        assert (await subject.store.run("acme", RUN)).max_steps == 9  # type: ignore[union-attr]

    async def test_what_a_dispatch_takes_is_not_changed_while_one_is_under_way(self, make_store: MakeStore) -> None:
        subject = await make_store()
        mine = RunLimits(max_cost=90, costs={"pay": 1, "send": 10})
        await begun(subject, mine)
        paid = await subject.store.claim(claim_of(1))
        sent = await subject.store.claim(claim_of(2, tool="send"))
        assert isinstance(paid, Claimed)
        assert isinstance(sent, Claimed)
        await subject.store.settle(a_settlement(sent.effect))
        await changed(subject, RunStatus.PAUSED)
        before = await everything(subject)

        for limits in (replace(mine, costs={"pay": 50}), replace(mine, per_tool={"pay": 9}), RunLimits()):
            change = RunChange(
                tenant="acme",
                run_id=RUN,
                status=RunStatus.OPEN,
                follows=frozenset({RunStatus.PAUSED}),
                note=NOBODY,
                limits=limits,
            )
            assert await subject.store.change_run(change, events=(an_event(),)) == CallsUnderWay(count=1)
        assert await everything(subject) == before
        await changed(subject, RunStatus.OPEN, limits=replace(mine, max_cost=60))
        await subject.store.settle(a_settlement(paid.effect, EffectState.FAILED, reason="not_sent"))

        assert await subject.store.run_tallies("acme", RUN) == {"cost": 10}
        await changed(subject, RunStatus.PAUSED)
        await changed(subject, RunStatus.OPEN, limits=replace(mine, costs={"pay": 50}))

    async def test_what_was_given_back_is_given_back_once(self, make_store: MakeStore) -> None:
        subject = await make_store()
        await begun(subject, RunLimits(max_cost=9, costs={"pay": 3}))
        kept = await subject.store.claim(claim_of(1))
        lost = await subject.store.claim(claim_of(2))
        assert isinstance(kept, Claimed)
        assert isinstance(lost, Claimed)

        for _ in range(2):  # the answer was lost, so it is settled once more
            await subject.store.settle(a_settlement(lost.effect, EffectState.FAILED, reason="not_sent"))

        assert await subject.store.run_tallies("acme", RUN) == {"cost": 3}

    async def test_a_run_has_the_tools_that_its_workflow_and_whoever_began_it_allow(
        self, make_store: MakeStore
    ) -> None:
        subject = await make_store()
        both = RunLimits(allowed_tools=frozenset({"pay", "send"}), workflow_tools=frozenset({"pay", "look"}))
        await begun(subject, both, rests=True)
        assert await answers_of(subject, claim_of(1), claim_of(2, tool="send"), claim_of(3, tool="look")) == [
            "claimed", "tool_not_in_run", "tool_not_in_run"
        ]  # fmt: skip

        await subject.store.rest_run(
            a_rest(await taken(subject), version="2", workflow_tools=frozenset({"send"})), events=()
        )

        assert await answers_of(subject, claim_of(4), claim_of(5, tool="send")) == ["tool_not_in_run", "claimed"]
        run = await subject.store.run("acme", RUN)
        assert run is not None
        assert run.limits == replace(both, workflow_tools=frozenset({"send"}))

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
            tenant="acme", run_id=RUN, status=RunStatus.PAUSED, follows=frozenset({RunStatus.OPEN}), note=NOBODY
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
        assert await subject.store.run_note("acme", RUN) == NOBODY

        note = RunNote(changed_by="paula", sealed_reason=b"sealed reason")
        change = RunChange(
            tenant="acme", run_id=RUN, status=RunStatus.PAUSED, follows=frozenset({RunStatus.OPEN}), note=note
        )
        await subject.store.change_run(change, events=())

        assert await subject.store.run_note("acme", RUN) == note


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
        assert await subject.store.run_checkpoint("acme", RUN) == rests
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
        assert await subject.store.due_runs(limit=9) == ()  # as long as its driver shows signs of life
        subject.clock.advance(10)
        assert await subject.store.due_runs(limit=9) == (("acme", RUN),)
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
        assert await subject.store.due_runs(limit=9) == (("acme", RUN),)
        subject.clock.advance(10)
        assert len(await subject.store.due_runs(limit=9)) == 2
        assert await subject.store.due_runs(limit=1) == (("acme", RUN),)

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

        assert await subject.store.due_runs(limit=9) == (("acme", RUN),)

    async def test_an_answer_given_before_a_run_was_laid_down_is_not_lost(self, make_store: MakeStore) -> None:
        subject = await make_store()
        await begun(subject, rests=True)
        approval = await pending(subject)
        mine = await taken(subject)

        await subject.store.retire(approval, ApprovalState.WITHDRAWN, events=())
        assert await subject.store.due_runs(limit=9) == ()  # it is being driven
        rest = a_rest(mine, code="approval_required", waits=(ApprovalId("apr-1"),), due_after_seconds=86_400.0)
        await subject.store.rest_run(rest, events=())

        assert await subject.store.due_runs(limit=9) == (("acme", RUN),)

    async def test_what_waits_under_another_policy_is_woken(self, make_store: MakeStore) -> None:
        subject = await make_store()
        for run_id, policy in (("run-1", "policy-1"), ("run-2", "policy-2")):
            await begun(subject, run_id=run_id, rests=True)
            mine = await taken(subject, run_id=run_id)
            rest = a_rest(mine, code="approval_required", policy_version=PolicyVersion(policy), due_after_seconds=99.0)
            await subject.store.rest_run(rest, events=())

        own = (("order", "1"), ("order", "2"))
        others = (("order", "2"), ("another", "1"), ("1", "order"))
        assert await subject.store.wake_runs(PolicyVersion("policy-2"), of=others) == 0
        assert await subject.store.wake_runs(PolicyVersion("policy-2"), of=()) == 0
        assert await subject.store.wake_runs(PolicyVersion("policy-2"), of=own) == 1
        assert await subject.store.wake_runs(PolicyVersion("policy-2"), of=own) == 0

        assert await subject.store.due_runs(limit=9) == (("acme", RUN),)

    async def test_a_run_ends_with_its_workflow(self, make_store: MakeStore) -> None:
        subject = await make_store()
        await begun(subject, rests=True)
        mine = await taken(subject)

        rest = a_rest(mine, state="FAILED", code="not_paid", due_after_seconds=None, ends=RunStatus.FAILED)
        await subject.store.rest_run(rest, events=(an_event(EventKind.RUN_ENDED),))

        run = await subject.store.run("acme", RUN)
        assert run is not None
        assert run.status is RunStatus.FAILED
        assert await answers_of(subject, claim_of(1)) == ["run_over"]
        assert await subject.store.next_due_run() is None
        assert await subject.store.waiting_runs(after=None, limit=9) == ()

    async def test_the_end_of_a_run_closes_its_questions(self, make_store: MakeStore) -> None:
        subject = await make_store()
        await begun(subject, rests=True)
        approval = await pending(subject)
        mine = await taken(subject)
        closing = (Withdrawal(approval=approval, event=an_event(EventKind.APPROVAL_WITHDRAWN)),)
        rest = a_rest(mine, state="FAILED", code="not_paid", due_after_seconds=None, ends=RunStatus.FAILED)

        assert await subject.store.rest_run(replace(rest, fence=0), events=(), closing=closing) is None
        assert [each.state for each in await subject.store.open_approvals_of_run("acme", RUN, limit=9)] == [
            ApprovalState.PENDING
        ]
        await subject.store.rest_run(rest, events=(an_event(EventKind.RUN_ENDED),), closing=closing)

        assert await subject.store.open_approvals_of_run("acme", RUN, limit=9) == ()
        assert await subject.store.next_due_run() is None
        assert "approval_withdrawn" in await subject.told()

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

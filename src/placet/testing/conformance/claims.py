"""Claims: who gets an operation, what it costs, and what keeps it from being claimed."""

# ruff: noqa: S101, S106 - a conformance suite asserts, and its tokens are no secrets

from __future__ import annotations

import asyncio
from datetime import timedelta

from placet.model.approval import ApprovalDecision
from placet.model.audit import EventKind
from placet.model.effect import Effect, EffectState
from placet.model.identifiers import (
    CallId,
    Digest,
    OperationKey,
    OwnerId,
    PolicyVersion,
    RunId,
    Token,
)
from placet.model.ledger import (
    Claimed,
    Held,
    Moved,
    NotMoved,
    NotYourRun,
    OverBudget,
    Recorded,
    Stopped,
    ToolClosed,
    Voided,
)
from placet.testing.conformance.samples import (
    A_MAC,
    LEASE_SECONDS,
    WINDOW_SECONDS,
    MakeStore,
    a_claim,
    a_forbidden_event,
    a_question,
    a_reconciliation,
    a_spend,
    a_step,
    a_turn,
    an_event,
    claimed,
    decided,
    everything,
    fault_of,
    pending,
    settled,
    the_same_ask,
    unknown,
)


class ClaimConformance:
    """An operation is claimed by one, and what refuses a claim leaves nothing behind."""

    # ------------------------------------------------------------ claim

    async def test_a_first_claim_is_dispatched_with_fence_1_and_its_started_event(self, make_store: MakeStore) -> None:
        subject = await make_store()
        now = subject.clock.now()

        answer = await subject.store.claim(a_claim())

        assert isinstance(answer, Claimed)
        assert answer.effect == await subject.store.effect("acme", OperationKey("key-1"))
        assert answer.effect == Effect(
            tenant="acme",
            operation_key=OperationKey("key-1"),
            fingerprint=Digest("f" * 64),
            tool="pay",
            tool_version="1",
            contract_digest=Digest("c" * 64),
            argument_digest=Digest("a" * 64),
            run_id=RunId("run-1"),
            call_id=CallId("call-1"),
            subject="agent-1",
            policy_version=PolicyVersion("policy-1"),
            decision="allow",
            approval_id=None,
            state=EffectState.DISPATCHED,
            fence=1,
            attempts=1,
            attempt=1,
            token=Token("token-1"),
            owner=OwnerId("owner-1"),
            lease_until=now + timedelta(seconds=LEASE_SECONDS),
            send_by=now + timedelta(seconds=WINDOW_SECONDS),
            arrival_bound_seconds=2.0,
            ends_by_itself=True,
            attempt_ended_at=None,
            probes=0,
            probe_after=None,
            sealed_arguments=b"sealed arguments",
            sealed_result=None,
            result_digest=None,
            external_reference=None,
            reason=None,
            created_at=now,
            updated_at=now,
        )
        assert await subject.told() == ["started"]

    async def test_a_second_claim_is_held_and_writes_nothing(self, make_store: MakeStore) -> None:
        subject = await make_store()
        effect = await claimed(subject)
        before = await everything(subject)

        answer = await subject.store.claim(a_claim(token="token-2", step=a_step("call-2", max_steps=1)))

        assert answer == Held(effect=effect)
        assert await everything(subject) == before

    async def test_a_claim_repeated_by_its_token_is_claimed_once(self, make_store: MakeStore) -> None:
        subject = await make_store()
        effect = await claimed(subject)
        subject.clock.advance(1)
        before = await everything(subject)

        answer = await subject.store.claim(a_claim())

        assert answer == Claimed(effect=effect)
        assert await everything(subject) == before

    async def test_a_claim_repeated_after_the_row_was_taken_over_is_held(self, make_store: MakeStore) -> None:
        subject = await make_store()
        effect = await unknown(subject)
        before = await everything(subject)

        assert await subject.store.claim(a_claim()) == Held(effect=effect)
        assert await everything(subject) == before

    async def test_a_failed_operation_is_claimed_with_the_next_fence_and_keeps_its_history(
        self, make_store: MakeStore
    ) -> None:
        subject = await make_store()
        failed = await settled(subject, await claimed(subject), EffectState.FAILED)
        subject.clock.advance(1)

        again = await claimed(subject, token="token-2", fence=1)

        assert (again.fence, again.attempts, again.created_at) == (2, 2, failed.created_at)
        assert (again.state, again.reason, again.sealed_result) == (EffectState.DISPATCHED, None, None)

    async def test_an_absent_operation_is_claimed_with_the_next_fence(self, make_store: MakeStore) -> None:
        subject = await make_store()
        effect = await unknown(subject)
        look = subject.clock.now()
        truth = a_reconciliation(effect, EffectState.RECONCILED_ABSENT, looked_at=look)
        assert isinstance(await subject.store.reconcile(truth), Moved)

        again = await claimed(subject, token="token-2", fence=1)

        assert (again.fence, again.state, again.probes) == (2, EffectState.DISPATCHED, 0)

    async def test_a_claim_that_expects_another_fence_is_held(self, make_store: MakeStore) -> None:
        subject = await make_store()
        failed = await settled(subject, await claimed(subject), EffectState.FAILED)
        before = await everything(subject)

        for fence in (0, 2, 7):
            assert await subject.store.claim(a_claim(token="token-2", fence=fence)) == Held(effect=failed)
        assert await everything(subject) == before

    async def test_a_claim_of_other_arguments_is_held(self, make_store: MakeStore) -> None:
        subject = await make_store()
        failed = await settled(subject, await claimed(subject), EffectState.FAILED)

        answer = await subject.store.claim(a_claim(token="token-2", fence=1, fingerprint=Digest("0" * 64)))

        assert answer == Held(effect=failed)

    async def test_a_finished_or_unknown_operation_is_never_claimed(self, make_store: MakeStore) -> None:
        subject = await make_store()
        committed = await settled(subject, await claimed(subject, "done"))
        lost = await unknown(subject, "lost", token="token-2")
        found = await unknown(subject, "found", token="token-3")
        truth = await subject.store.reconcile(a_reconciliation(found, looked_at=subject.clock.now()))
        before = await everything(subject)

        for effect in (committed, lost, truth.effect):
            claim = a_claim(effect.operation_key, token="late", fence=effect.fence)
            assert await subject.store.claim(claim) == Held(effect=effect)
        assert await everything(subject) == before

    async def test_of_many_claims_at_once_one_wins(self, make_store: MakeStore) -> None:
        subject = await make_store()

        answers = await asyncio.gather(
            *(subject.store.claim(a_claim(token=f"token-{n}", step=a_step(f"call-{n}"))) for n in range(32))
        )

        assert sum(isinstance(answer, Claimed) for answer in answers) == 1
        assert sum(isinstance(answer, Held) for answer in answers) == 31
        assert await subject.told() == ["started"]

    async def test_of_two_openings_of_one_store_one_wins(self, make_store: MakeStore) -> None:
        subject = await make_store()
        if subject.open_again is None:
            return
        second = await subject.open_again()

        answers = await asyncio.gather(
            *(
                store.claim(a_claim(f"key-{n}", token=f"token-{which}-{n}", step=a_step(f"call-{which}-{n}")))
                for n in range(16)
                for which, store in enumerate((subject.store, second))
            )
        )
        await second.close()

        assert sum(isinstance(answer, Claimed) for answer in answers) == 16
        assert sum(isinstance(answer, Held) for answer in answers) == 16
        assert (await subject.verified()).holds

    async def test_a_claim_whose_event_may_not_be_written_leaves_nothing(self, make_store: MakeStore) -> None:
        subject = await make_store()
        approval = await decided(subject, await pending(subject))
        before = await everything(subject)

        claim = a_claim(spend=a_spend(approval), events=(an_event(), a_forbidden_event()))
        assert await fault_of(subject.store.claim(claim)) is not None

        assert await everything(subject) == before
        assert (await subject.verified()).holds

    # ------------------------------------------------------------ voiding

    async def test_a_voided_token_never_claims(self, make_store: MakeStore) -> None:
        subject = await make_store()

        assert await subject.store.void("acme", OperationKey("key-1"), Token("token-1"))
        assert await subject.store.void("acme", OperationKey("key-1"), Token("token-1"))

        assert await subject.store.claim(a_claim()) == Voided()
        assert await subject.store.effect("acme", OperationKey("key-1")) is None
        assert isinstance(await subject.store.claim(a_claim(token="token-2")), Claimed)

    async def test_a_token_that_has_claimed_cannot_be_voided(self, make_store: MakeStore) -> None:
        subject = await make_store()
        effect = await claimed(subject)

        assert not await subject.store.void("acme", OperationKey("key-1"), Token("token-1"))
        await settled(subject, effect)
        assert not await subject.store.void("acme", OperationKey("key-1"), Token("token-1"))

        assert await subject.told() == ["started", "completed"]

    # ------------------------------------------------------------ stops

    async def test_a_stop_halts_claims_of_its_scope_until_resumed(self, make_store: MakeStore) -> None:
        subject = await make_store()

        for scope in ("all", "tenant:acme", "tool:pay", 'run:["acme","run-1"]'):
            await subject.store.stop(scope, (an_event(EventKind.STOPPED),))
            before = await everything(subject)
            assert await subject.store.claim(a_claim()) == Stopped(scope=scope)
            assert await everything(subject) == before
            await subject.store.resume(scope, (an_event(EventKind.RESUMED),))

        assert await subject.store.stops() == ()
        assert isinstance(await subject.store.claim(a_claim()), Claimed)

    async def test_a_stop_of_others_halts_nothing_here(self, make_store: MakeStore) -> None:
        subject = await make_store()

        for scope in ("tenant:other", "tool:refund", 'run:["acme","run-2"]', 'run:["other","run-1"]'):
            await subject.store.stop(scope, ())

        assert isinstance(await subject.store.claim(a_claim()), Claimed)

    async def test_a_stop_counts_what_is_still_dispatched_in_its_scope(self, make_store: MakeStore) -> None:
        subject = await make_store()
        await claimed(subject, "key-1")
        await claimed(subject, "key-2", token="token-2", tool="refund")
        await claimed(subject, "key-3", token="token-3", tenant="other", step=a_step(tenant="other", run_id="run-2"))
        await settled(subject, await claimed(subject, "key-4", token="token-4"))

        counts = {
            scope: await subject.store.stop(scope, ())
            for scope in ("all", "tenant:acme", "tool:pay", 'run:["other","run-2"]', 'run:["acme","run-9"]')
        }

        assert counts == {
            "all": 3,
            "tenant:acme": 2,
            "tool:pay": 2,
            'run:["other","run-2"]': 1,
            'run:["acme","run-9"]': 0,
        }
        assert await subject.store.stop("all", ()) == 3

    async def test_a_stop_refuses_the_next_attempt_and_lets_the_effect_settle(self, make_store: MakeStore) -> None:
        subject = await make_store()
        effect = await claimed(subject)
        await subject.store.stop("tool:pay", ())
        before = await everything(subject)

        answer = await subject.store.turn(a_turn(effect))

        assert answer == NotMoved(effect=effect, reason="stopped:tool:pay")
        assert await everything(subject) == before
        assert (await settled(subject, effect)).state is EffectState.COMMITTED

    # ------------------------------------------------------------ steps and budgets

    async def test_a_run_has_so_many_steps_and_no_more(self, make_store: MakeStore) -> None:
        subject = await make_store()
        for n in (1, 2):
            await claimed(subject, f"key-{n}", token=f"token-{n}", step=a_step(f"call-{n}", max_steps=2))
        before = await everything(subject)

        third = a_claim("key-3", token="token-3", step=a_step("call-3", max_steps=2))
        assert await subject.store.claim(third) == OverBudget()
        assert await subject.store.record((an_event(),), step=a_step("call-3", max_steps=2)) == OverBudget()
        question = a_question(asked_at=subject.clock.now())
        asked = await subject.store.ask(
            question, A_MAC, the_same_ask(question), step=a_step("call-3", max_steps=2), events=(an_event(),)
        )

        assert asked == OverBudget()
        assert await everything(subject) == before

    async def test_one_call_id_counts_once_whatever_it_does(self, make_store: MakeStore) -> None:
        subject = await make_store()
        step = a_step("call-1", max_steps=1)

        for n in range(3):
            assert isinstance(await subject.store.record((an_event(),), step=step), Recorded)
            await claimed(subject, f"key-{n}", token=f"token-{n}", step=step)

        assert await subject.store.record((), step=a_step("call-2", max_steps=1)) == OverBudget()

    async def test_a_call_id_that_is_used_for_something_else_is_another_step(self, make_store: MakeStore) -> None:
        subject = await make_store()
        for n in (1, 0):
            step = a_step("call-1", max_steps=2, fingerprint=f"{n}" * 64)
            assert isinstance(await subject.store.record((an_event(),), step=step), Recorded)
            assert isinstance(await subject.store.record((an_event(),), step=step), Recorded)

        other = a_step("call-1", max_steps=2, fingerprint="2" * 64)
        assert await subject.store.record((an_event(),), step=other) == OverBudget()
        assert await subject.store.claim(a_claim(step=other)) == OverBudget()

    async def test_a_tool_refused_too_often_is_closed_to_its_run_and_to_no_other(self, make_store: MakeStore) -> None:
        subject = await make_store()
        for n in range(3):
            step = a_step(f"call-{n}")
            assert isinstance(await subject.store.record((an_event(),), step=step, denies_tool="pay"), Recorded)
        before = await everything(subject)
        step = a_step("call-9", max_steps=4)
        question = a_question(asked_at=subject.clock.now())
        same = the_same_ask(question)

        assert await subject.store.record((an_event(),), step=step, denies_tool="pay") == ToolClosed()
        assert await subject.store.record((an_event(),), step=step, starts_tool="pay") == ToolClosed()
        assert await subject.store.claim(a_claim(step=step)) == ToolClosed()
        assert await subject.store.ask(question, A_MAC, same, step=step, events=(an_event(),)) == ToolClosed()
        assert await everything(subject) == before

        assert isinstance(await subject.store.record((an_event(),), step=step, starts_tool="look"), Recorded)
        assert isinstance(await subject.store.record((an_event(),), step=step), Recorded)
        await claimed(subject, "key-1", step=a_step("call-1", run_id="run-2"))
        await claimed(subject, "key-2", token="token-2", tenant="other", step=a_step(tenant="other"))

    async def test_a_persons_denial_counts_and_a_persons_approval_is_spent_all_the_same(
        self, make_store: MakeStore
    ) -> None:
        subject = await make_store()
        approval = await decided(subject, await pending(subject))
        for n in range(3):
            other = await pending(subject, f"apr-{n + 2}", argument_digest=Digest(f"{n}" * 64))
            await decided(subject, other, ApprovalDecision.DENY)

        assert await subject.store.claim(a_claim(step=a_step("call-9"))) == ToolClosed()
        assert isinstance(await subject.store.claim(a_claim(spend=a_spend(approval))), Claimed)

    async def test_a_refusal_whose_event_may_not_be_written_is_not_counted(self, make_store: MakeStore) -> None:
        subject = await make_store()
        for _ in range(3):
            assert await fault_of(subject.store.record((a_forbidden_event(),), step=a_step(), denies_tool="pay"))

        await claimed(subject)

    async def test_the_limit_of_a_run_is_the_one_it_began_with(self, make_store: MakeStore) -> None:
        subject = await make_store()
        await subject.store.record((), step=a_step("call-1", max_steps=1))

        assert await subject.store.record((), step=a_step("call-2", max_steps=50)) == OverBudget()

    async def test_a_refused_claim_takes_no_step(self, make_store: MakeStore) -> None:
        subject = await make_store()
        await claimed(subject, step=a_step("call-1", max_steps=2))
        assert isinstance(await subject.store.claim(a_claim(token="token-2", step=a_step("call-2", max_steps=2))), Held)

        assert isinstance(await subject.store.record((), step=a_step("call-3", max_steps=2)), Recorded)
        assert await subject.store.record((), step=a_step("call-2", max_steps=2)) == OverBudget()

    async def test_a_run_belongs_to_whoever_opened_it(self, make_store: MakeStore) -> None:
        subject = await make_store()
        await subject.store.record((), step=a_step())
        before = await everything(subject)
        stranger = a_step("call-2", subject="agent-2")

        assert await subject.store.claim(a_claim(step=stranger)) == NotYourRun()
        assert await subject.store.record((an_event(),), step=stranger) == NotYourRun()
        assert await everything(subject) == before

    async def test_runs_of_two_tenants_with_one_name_are_two(self, make_store: MakeStore) -> None:
        subject = await make_store()
        assert isinstance(await subject.store.record((), step=a_step(max_steps=1)), Recorded)

        other = a_step("call-2", tenant="other", subject="agent-2", max_steps=1)
        assert isinstance(await subject.store.record((), step=other), Recorded)

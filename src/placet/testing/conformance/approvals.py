"""Questions and answers: asked once, decided once, spent once."""

# ruff: noqa: S101, S106 - a conformance suite asserts, and its tokens are no secrets

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any

from placet.errors import NotFound
from placet.model.approval import Approval, ApprovalDecision, ApprovalState
from placet.model.audit import EventKind
from placet.model.identifiers import (
    ApprovalId,
    CallId,
    Digest,
    OperationKey,
    PolicyVersion,
    RunId,
)
from placet.model.ledger import (
    Claimed,
    Held,
    NotUsable,
    NotYourRun,
    OverBudget,
    Stopped,
    Withdrawal,
)
from placet.rules.approvals import TRANSITIONS as APPROVAL_TRANSITIONS
from placet.testing.conformance.samples import (
    A_MAC,
    ANOTHER_MAC,
    MakeStore,
    Subject,
    a_claim,
    a_forbidden_event,
    a_question,
    a_spend,
    a_step,
    an_answer,
    an_event,
    claimed,
    decided,
    everything,
    fault_of,
    in_state,
    pending,
    the_same_ask,
)


class ApprovalConformance:
    """An approval moves as its table says and is spent with its claim."""

    # ------------------------------------------------------------ approvals

    async def test_a_question_is_kept_as_asked(self, make_store: MakeStore) -> None:
        subject = await make_store()
        question = a_question(
            asked_at=subject.clock.now(), on_behalf_of="ümlaut \u2028", resource='["a"]', reasons=("one", "two")
        )

        asked = await subject.store.ask(
            question, A_MAC, the_same_ask(question), step=a_step(), events=(an_event(EventKind.APPROVAL_ASKED),)
        )

        assert asked == Approval(
            question=question,
            question_mac=A_MAC,
            state=ApprovalState.PENDING,
            answer=None,
            signature=None,
            spent_at=None,
        )
        assert await subject.store.approval("acme", ApprovalId("apr-1")) == asked
        assert await subject.told() == ["approval_asked"]

    async def test_the_same_wish_has_one_open_question(self, make_store: MakeStore) -> None:
        subject = await make_store()
        first = await pending(subject)
        before = await everything(subject)

        assert await pending(subject, "apr-2", nonce="nonce-2") == first
        assert await everything(subject) == before

        approved = await decided(subject, first)
        assert await pending(subject, "apr-3") == approved

    async def test_many_askers_of_one_wish_get_one_question(self, make_store: MakeStore) -> None:
        subject = await make_store()

        answers = await asyncio.gather(*(pending(subject, f"apr-{n}") for n in range(16)))

        assert len({answer.question.approval_id for answer in answers}) == 1
        assert await subject.told() == ["approval_asked"]

    async def test_a_question_closes_those_whose_place_it_takes(self, make_store: MakeStore) -> None:
        subject = await make_store()
        old = await pending(subject)
        approved = await decided(subject, await pending(subject, "apr-2", policy_version=PolicyVersion("policy-0")))
        subject.clock.advance(1)
        new = a_question("apr-3", asked_at=subject.clock.now(), nonce="nonce-3")  # of the same place as the first
        closing = tuple(
            Withdrawal(approval=each, event=an_event(EventKind.APPROVAL_WITHDRAWN)) for each in (old, approved)
        )

        refused = await subject.store.ask(
            new, A_MAC, the_same_ask(new), step=a_step(subject="agent-2"), events=(), closing=closing
        )
        assert refused == NotYourRun()
        assert await states(subject, "apr-1", "apr-2") == [ApprovalState.PENDING, ApprovalState.APPROVED]

        asked = await subject.store.ask(new, A_MAC, the_same_ask(new), step=a_step(), events=(), closing=closing)

        assert isinstance(asked, Approval)
        assert asked.question == new
        assert await states(subject, "apr-1", "apr-2", "apr-3") == [
            ApprovalState.WITHDRAWN,
            ApprovalState.REVOKED,
            ApprovalState.PENDING,
        ]
        assert (await subject.told()).count("approval_withdrawn") == 2
        again = await subject.store.ask(new, A_MAC, the_same_ask(new), step=a_step(), events=(), closing=closing)
        assert again == asked
        assert (await subject.told()).count("approval_withdrawn") == 2

    async def test_a_question_that_is_answered_meanwhile_at_once_keeps_its_place(self, make_store: MakeStore) -> None:
        """Whoever asks saw it open, and would have closed it: what a person said since is not taken back unseen."""
        subject = await make_store()
        seen = await pending(subject)
        approved = await decided(subject, seen)
        subject.clock.advance(1)
        new = a_question("apr-2", asked_at=subject.clock.now(), nonce="nonce-2")  # of the same place
        closing = (Withdrawal(approval=seen, event=an_event(EventKind.APPROVAL_WITHDRAWN)),)

        asked = await subject.store.ask(new, A_MAC, the_same_ask(new), step=a_step(), events=(), closing=closing)

        assert asked == approved
        assert await states(subject, "apr-1") == [ApprovalState.APPROVED]
        assert "approval_withdrawn" not in await subject.told()

    async def test_asking_counts_a_step_even_if_the_question_was_open(self, make_store: MakeStore) -> None:
        subject = await make_store()
        question = a_question(asked_at=subject.clock.now())
        for n in (1, 2):
            step = a_step(f"call-{n}", max_steps=2)
            await subject.store.ask(question, A_MAC, the_same_ask(question), step=step, events=())

        assert await subject.store.record((), step=a_step("call-3", max_steps=2)) == OverBudget()

    async def test_a_wish_is_found_under_any_policy_if_none_is_named(self, make_store: MakeStore) -> None:
        subject = await make_store()
        old = await pending(subject)
        subject.clock.advance(1)
        new = await pending(subject, "apr-2", policy_version=PolicyVersion("policy-2"))

        assert await subject.store.same_ask(the_same_ask(new.question)) == (new,)
        any_policy = replace(the_same_ask(new.question), policy_version=None)
        assert await subject.store.same_ask(any_policy) == (new, old)

    async def test_an_answered_wish_may_be_asked_again_once_it_is_closed(self, make_store: MakeStore) -> None:
        for state in (ApprovalState.DENIED, ApprovalState.EXPIRED, ApprovalState.REVOKED, ApprovalState.SPENT):
            subject = await make_store()
            await in_state(subject, state)

            assert (await pending(subject, "apr-2")).question.approval_id == "apr-2"

    async def test_what_came_of_a_question_is_found_for_a_call_that_was_counted_and_has_none_of_its_own(
        self, make_store: MakeStore
    ) -> None:
        for state in ApprovalState:
            subject = await make_store()
            approval = await in_state(subject, state)
            await subject.store.record((), step=a_step("call-2", fingerprint="f-2"))
            wish = replace(the_same_ask(approval.question), policy_version=PolicyVersion("policy-2"))

            async def closed(call_id: str, fingerprint: str, key: str, **changes: Any) -> tuple[Approval, ...]:
                return await subject.store.closed_ask(  # noqa: B023  asked within the round
                    replace(wish, **changes),  # noqa: B023
                    call_id=CallId(call_id),
                    fingerprint=fingerprint,
                    own_key=OperationKey(key),
                )

            is_closed = state in (ApprovalState.SPENT, ApprovalState.WITHDRAWN)
            assert await closed("call-2", "f-2", "key-2") == ((approval,) if is_closed else ())
            assert await closed("call-2", "f-3", "key-2") == ()
            assert await closed("call-3", "f-2", "key-2") == ()
            assert await closed("call-2", "f-2", approval.question.operation_key) == ()
            for other in ({"tenant": "other"}, {"subject": "agent-2"}, {"run_id": RunId("run-2")}, {"tool": "refund"}):
                assert await closed("call-2", "f-2", "key-2", **other) == ()

    async def test_another_wish_is_another_question(self, make_store: MakeStore) -> None:
        subject = await make_store()
        await pending(subject)

        others: tuple[dict[str, Any], ...] = (
            {"tenant": "other"},
            {"subject": "agent-2"},
            {"run_id": RunId("run-2")},
            {"tool": "refund"},
            {"argument_digest": Digest("b" * 64)},
            {"policy_version": PolicyVersion("policy-2")},
        )
        for n, changes in enumerate(others):
            question = a_question(f"apr-x{n}", asked_at=subject.clock.now(), **changes)
            step = a_step(tenant=question.tenant)
            asked = await subject.store.ask(question, A_MAC, the_same_ask(question), step=step, events=())
            assert isinstance(asked, Approval) and asked.question == question

    async def test_a_wish_with_a_name_of_its_own_is_looked_for_by_it(self, make_store: MakeStore) -> None:
        subject = await make_store()
        first = await pending(subject)
        named = the_same_ask(first.question, operation_key=OperationKey("key-2"))

        assert await subject.store.same_ask(named) == ()
        assert await subject.store.same_ask(the_same_ask(first.question)) == (first,)
        question = a_question("apr-2", asked_at=subject.clock.now(), operation_key=OperationKey("key-2"))
        asked = await subject.store.ask(question, A_MAC, named, step=a_step(), events=())
        assert isinstance(asked, Approval) and asked.question == question

    async def test_the_first_answer_stands(self, make_store: MakeStore) -> None:
        subject = await make_store()
        approval = await pending(subject)

        denied = await decided(subject, approval, ApprovalDecision.DENY)
        assert (denied.state, denied.signature) == (ApprovalState.DENIED, ANOTHER_MAC)
        before = await everything(subject)

        assert await decided(subject, approval, ApprovalDecision.APPROVE) == denied
        assert await subject.store.approval("acme", ApprovalId("apr-1")) == denied
        assert await everything(subject) == before
        assert await subject.told() == ["approval_asked", "approval_denied"]

    async def test_of_many_answers_and_withdrawals_at_once_one_stands(self, make_store: MakeStore) -> None:
        subject = await make_store()
        approval = await pending(subject)
        withdrawn = (an_event(EventKind.APPROVAL_WITHDRAWN),)

        answers = await asyncio.gather(
            *(
                decided(subject, approval, decision)
                for decision in (ApprovalDecision.APPROVE, ApprovalDecision.DENY)
                for _ in range(8)
            ),
            *(subject.store.retire(approval, ApprovalState.WITHDRAWN, events=withdrawn) for _ in range(8)),
        )

        assert len(set(answers)) == 1
        assert await subject.store.approval("acme", ApprovalId("apr-1")) == answers[0]
        assert len(await subject.told()) == 2

    async def test_an_approval_moves_only_as_its_table_says(self, make_store: MakeStore) -> None:
        for before in ApprovalState:
            for after in (ApprovalState.EXPIRED, ApprovalState.WITHDRAWN, ApprovalState.REVOKED):
                subject = await make_store()
                approval = await in_state(subject, before)
                told = await subject.told()

                closed = await subject.store.retire(approval, after, events=(an_event(EventKind.APPROVAL_EXPIRED),))

                if (before, after) in APPROVAL_TRANSITIONS:
                    assert closed == replace(approval, state=after)
                    assert await subject.told() == [*told, "approval_expired"]
                else:
                    assert closed == approval
                    assert await subject.told() == told

    async def test_what_was_decided_after_it_was_seen_is_not_retired(self, make_store: MakeStore) -> None:
        """A worker that saw it overdue and waiting expires no answer that came first."""
        subject = await make_store()
        seen = await pending(subject)
        approved = await decided(subject, seen)
        before = await everything(subject)

        for after in (ApprovalState.EXPIRED, ApprovalState.REVOKED):
            assert await subject.store.retire(seen, after, events=(an_event(EventKind.APPROVAL_EXPIRED),)) == approved

        assert await everything(subject) == before

    async def test_a_claim_spends_its_approval_in_the_same_commit(self, make_store: MakeStore) -> None:
        subject = await make_store()
        approval = await decided(subject, await pending(subject))

        effect = await claimed(subject, spend=a_spend(approval))

        assert effect.approval_id == "apr-1"
        spent = replace(approval, state=ApprovalState.SPENT, spent_at=subject.clock.now())
        assert await subject.store.approval("acme", ApprovalId("apr-1")) == spent
        assert await subject.told() == ["approval_asked", "approval_approved", "started", "approval_spent"]

    async def test_an_approval_is_spent_once(self, make_store: MakeStore) -> None:
        subject = await make_store()
        spend = a_spend(await decided(subject, await pending(subject)))

        answers = await asyncio.gather(
            *(
                subject.store.claim(
                    a_claim(f"key-{n}", token=f"token-{n}", spend=spend, step=a_step(f"call-{n}", max_steps=2))
                )
                for n in range(8)
            )
        )

        assert sum(isinstance(answer, Claimed) for answer in answers) == 1
        assert answers.count(NotUsable()) + answers.count(OverBudget()) == 7
        assert (await subject.told()).count("approval_spent") == 1

    async def test_a_claim_repeated_by_its_token_spends_nothing_more(self, make_store: MakeStore) -> None:
        subject = await make_store()
        claim = a_claim(spend=a_spend(await decided(subject, await pending(subject))))
        first = await subject.store.claim(claim)
        before = await everything(subject)

        assert await subject.store.claim(claim) == first
        assert await everything(subject) == before

    async def test_what_cannot_be_spent_leaves_nothing_behind(self, make_store: MakeStore) -> None:
        for state in set(ApprovalState) - {ApprovalState.APPROVED}:
            subject = await make_store()
            approval = await in_state(subject, state)
            before = await everything(subject)
            claim = a_claim("key-7", token="token-7", spend=a_spend(approval))
            assert await subject.store.claim(claim) == NotUsable()
            assert await everything(subject) == before

    async def test_an_approval_is_spent_by_the_signature_that_was_verified(self, make_store: MakeStore) -> None:
        subject = await make_store()
        approval = await decided(subject, await pending(subject))
        before = await everything(subject)

        for spend in (
            replace(a_spend(approval), signature="7" * 64),
            replace(a_spend(approval), approval_id=ApprovalId("apr-2")),
        ):
            assert await subject.store.claim(a_claim(spend=spend)) == NotUsable()
        theirs = a_claim(tenant="other", spend=a_spend(approval))
        assert await subject.store.claim(theirs) == NotUsable()
        assert await everything(subject) == before

    async def test_an_approval_is_expired_at_the_instant_it_expires(self, make_store: MakeStore) -> None:
        subject = await make_store()
        approval = await decided(subject, await pending(subject))
        subject.clock.advance(299.999999)
        just_in_time = await make_store()
        other = await decided(just_in_time, await pending(just_in_time))

        subject.clock.advance(0.000001)
        assert await subject.store.claim(a_claim(spend=a_spend(approval))) == NotUsable()
        just_in_time.clock.advance(299.999999)
        assert isinstance(await just_in_time.store.claim(a_claim(spend=a_spend(other))), Claimed)

    async def test_a_held_or_stopped_claim_does_not_spend(self, make_store: MakeStore) -> None:
        subject = await make_store()
        approval = await decided(subject, await pending(subject))
        await claimed(subject, token="token-9")
        assert isinstance(await subject.store.claim(a_claim(spend=a_spend(approval))), Held)
        await subject.store.stop("all", ())
        assert isinstance(await subject.store.claim(a_claim("key-2", spend=a_spend(approval))), Stopped)

        assert await subject.store.approval("acme", ApprovalId("apr-1")) == approval

    async def test_approvals_of_a_wish_are_those_that_still_answer_it_newest_first(self, make_store: MakeStore) -> None:
        subject = await make_store()
        denied = await decided(subject, await pending(subject), ApprovalDecision.DENY)
        subject.clock.advance(1)
        expired = await pending(subject, "apr-2")
        await subject.store.retire(expired, ApprovalState.EXPIRED, events=())
        subject.clock.advance(1)
        waiting = await pending(subject, "apr-3")

        assert await subject.store.same_ask(the_same_ask(waiting.question)) == (waiting, denied)

    async def test_approvals_are_listed_by_tenant_and_state_newest_first(self, make_store: MakeStore) -> None:
        subject = await make_store()
        first = await decided(subject, await pending(subject), ApprovalDecision.DENY)
        subject.clock.advance(1)
        second = await pending(subject, "apr-2")
        await pending(subject, "apr-3", tenant="other")
        store = subject.store

        assert await store.approvals("acme", states=tuple(ApprovalState), limit=9) == (second, first)
        assert await store.approvals("acme", states=tuple(ApprovalState), limit=1) == (second,)
        assert await store.approvals("acme", states=(ApprovalState.DENIED,), limit=9) == (first,)
        assert await store.approvals("nobody", states=tuple(ApprovalState), limit=9) == ()
        assert await store.approval("other", ApprovalId("apr-1")) is None

    async def test_questions_nobody_decided_in_time_are_listed_over_all_tenants_the_oldest_first(
        self, make_store: MakeStore
    ) -> None:
        subject = await make_store()
        now = subject.clock.now()
        late, later = now + timedelta(seconds=10), now + timedelta(seconds=20)
        await pending(subject, "apr-1", argument_digest=Digest("1" * 64), decide_by=late)
        subject.clock.advance(1)
        await pending(subject, "apr-2", tenant="other", decide_by=late)
        await pending(subject, "apr-3", argument_digest=Digest("3" * 64), decide_by=later)
        answered = await pending(subject, "apr-4", argument_digest=Digest("4" * 64), decide_by=late)
        await decided(subject, answered)

        async def overdue(limit: int = 9) -> list[str]:
            return [each.question.approval_id for each in await subject.store.overdue_approvals(limit=limit)]

        subject.clock.advance(8.999999)
        assert await overdue() == []
        subject.clock.advance(0.000001)
        assert (await overdue(), await overdue(1)) == (["apr-1", "apr-2"], ["apr-1"])
        subject.clock.advance(10)
        assert await overdue() == ["apr-1", "apr-2", "apr-3"]

    async def test_an_approval_that_does_not_exist_cannot_be_moved(self, make_store: MakeStore) -> None:
        subject = await make_store()
        approval = await pending(subject)
        elsewhere = replace(approval, question=replace(approval.question, tenant="other"))
        answer = an_answer(approval.question, at=subject.clock.now())

        assert type(await fault_of(subject.store.answer(elsewhere, answer, A_MAC, events=()))) is NotFound
        assert type(await fault_of(subject.store.retire(elsewhere, ApprovalState.EXPIRED, events=()))) is NotFound

    async def test_an_answer_whose_event_may_not_be_written_leaves_nothing(self, make_store: MakeStore) -> None:
        subject = await make_store()
        approval = await pending(subject)
        answer = an_answer(approval.question, at=subject.clock.now())
        before = await everything(subject)
        forbidden = (a_forbidden_event(),)

        assert await fault_of(subject.store.answer(approval, answer, A_MAC, events=forbidden)) is not None
        assert await fault_of(subject.store.retire(approval, ApprovalState.EXPIRED, events=forbidden)) is not None
        assert await fault_of(subject.store.stop("all", forbidden)) is not None

        assert await everything(subject) == before


async def states(subject: Subject, *names: str) -> list[ApprovalState]:
    found = [await subject.store.approval("acme", ApprovalId(name)) for name in names]
    return [each.state for each in found if each is not None]

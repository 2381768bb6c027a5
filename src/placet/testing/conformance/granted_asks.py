"""A question that waits, and the grant that answers it: one of both holds, the person's word or the use, never both."""

# ruff: noqa: S101 - a conformance suite asserts

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

from placet.model.approval import Approval, ApprovalDecision, ApprovalState
from placet.model.audit import EventKind
from placet.model.grant import GrantId, StoredGrant
from placet.model.identifiers import OperationKey, PolicyVersion, RunId
from placet.model.ledger import Claim, Claimed, NotUsable, Withdrawal
from placet.testing.conformance.granting import a_granted_claim, a_use, stand
from placet.testing.conformance.samples import (
    A_MAC,
    MakeStore,
    Subject,
    a_forbidden_event,
    a_question,
    decided,
    everything,
    fault_of,
    pending,
    the_same_ask,
)
from placet.testing.conformance.samples import an_event as event


def a_claim_of(stored: StoredGrant, waiting: Approval | None, key: str = "key-1", **changes: Any) -> Claim:
    """A claim that takes the question back with its use."""
    told = event(EventKind.APPROVAL_WITHDRAWN, tenant=stored.grant.tenant)
    withdrawn = None if waiting is None else Withdrawal(approval=waiting, event=told)
    return a_granted_claim(stored, key, grant=a_use(stored, withdrawn=withdrawn, **changes))


class GrantedAskConformance:
    """What a person says about the very ask is stronger than a grant, until the claim that uses it is durable."""

    async def test_a_use_takes_back_the_question_that_it_answers(self, make_store: MakeStore) -> None:
        subject = await make_store()
        stored, waiting = await stand(subject), await pending(subject)

        assert isinstance(await subject.store.claim(a_claim_of(stored, waiting)), Claimed)

        assert await _state(subject) is ApprovalState.WITHDRAWN
        assert await subject.told() == ["grant_given", "approval_asked", "started", "approval_withdrawn"]
        assert await _uses(subject) == 1
        denied = await decided(subject, waiting, ApprovalDecision.DENY)
        assert denied.state is ApprovalState.WITHDRAWN, "nobody denies what was taken back"

    async def test_a_use_and_its_withdrawal_are_durable_together_or_not_at_all(self, make_store: MakeStore) -> None:
        subject = await make_store()
        stored, waiting = await stand(subject), await pending(subject)
        claim = a_claim_of(stored, waiting)
        assert claim.grant is not None
        forbidden = replace(claim.grant, withdrawn=Withdrawal(approval=waiting, event=a_forbidden_event()))

        await fault_of(subject.store.claim(replace(claim, grant=forbidden)))

        assert (await _state(subject), await _uses(subject)) == (ApprovalState.PENDING, 0)
        assert await subject.store.effect("acme", OperationKey("key-1")) is None

    async def test_a_claim_that_is_refused_leaves_the_question_as_it_waits(self, make_store: MakeStore) -> None:
        subject = await make_store()
        stored, waiting = await stand(subject), await pending(subject)
        await subject.store.stop("tool:pay", (event(EventKind.STOPPED),))
        before = await everything(subject)

        assert not isinstance(await subject.store.claim(a_claim_of(stored, waiting)), Claimed)

        assert await everything(subject) == before
        assert await _state(subject) is ApprovalState.PENDING

    async def test_no_use_where_the_question_waits_no_more(self, make_store: MakeStore) -> None:
        for state in (ApprovalState.DENIED, ApprovalState.APPROVED, ApprovalState.WITHDRAWN, ApprovalState.EXPIRED):
            subject = await make_store()
            stored, waiting = await stand(subject), await pending(subject)
            match state:
                case ApprovalState.DENIED | ApprovalState.APPROVED:
                    is_denied = state is ApprovalState.DENIED
                    await decided(subject, waiting, ApprovalDecision.DENY if is_denied else ApprovalDecision.APPROVE)
                case _:
                    await subject.store.retire(waiting, state, events=())
            before = await everything(subject)

            assert isinstance(await subject.store.claim(a_claim_of(stored, waiting)), NotUsable), state

            assert await everything(subject) == before
            assert (await _state(subject), await _uses(subject)) == (state, 0)

    async def test_no_use_where_a_person_has_edited_the_question(self, make_store: MakeStore) -> None:
        subject = await make_store()
        stored, waiting = await stand(subject), await pending(subject)
        now = subject.clock.now()
        other = a_question("apr-2", asked_at=now, argument_digest="b" * 64)
        await subject.store.edit(waiting, other, A_MAC, the_same_ask(other), events=())
        assert isinstance(await subject.store.claim(a_claim_of(stored, waiting)), NotUsable)
        assert await _uses(subject) == 0

    async def test_no_use_where_the_question_is_not_the_one_that_was_verified(self, make_store: MakeStore) -> None:
        subject = await make_store()
        stored, waiting = await stand(subject), await pending(subject)
        seen = replace(waiting, question=replace(waiting.question, nonce="nonce-2"))
        assert isinstance(await subject.store.claim(a_claim_of(stored, seen)), NotUsable)
        assert (await _state(subject), await _uses(subject)) == (ApprovalState.PENDING, 0)

    async def test_no_use_where_somebody_has_said_something_that_was_not_seen(self, make_store: MakeStore) -> None:
        """Under another key: whatever the call is named, the question is the same."""
        for said in (None, ApprovalDecision.DENY, ApprovalDecision.APPROVE):
            subject = await make_store()
            stored = await stand(subject)
            other = await pending(subject, "apr-2", operation_key=OperationKey("key-2"))
            if said is not None:
                await decided(subject, other, said)
            assert isinstance(await subject.store.claim(a_claim_of(stored, None)), NotUsable), said
            assert await _uses(subject) == 0

    async def test_what_was_seen_does_not_matter_until_somebody_answers_it(self, make_store: MakeStore) -> None:
        subject = await make_store()
        stored = await stand(subject)
        other = await pending(subject, "apr-2", operation_key=OperationKey("key-2"))
        seen = frozenset({(other.question.approval_id, ApprovalState.PENDING)})

        assert isinstance(await subject.store.claim(a_claim_of(stored, None, passed_over=seen)), Claimed)
        await decided(subject, other, ApprovalDecision.DENY)
        late = a_claim_of(stored, None, "key-3", passed_over=seen)

        assert isinstance(await subject.store.claim(late), NotUsable)
        assert await _uses(subject) == 1

    async def test_what_was_said_about_another_ask_does_not_matter(self, make_store: MakeStore) -> None:
        subject = await make_store()
        stored = await stand(subject)
        others: list[dict[str, Any]] = [
            {"argument_digest": "b" * 64},
            {"tool": "refund"},
            {"run_id": RunId("run-2")},
            {"subject": "agent-2"},
            {"policy_version": PolicyVersion("policy-0")},
        ]
        for number, changes in enumerate(others):
            asked = await pending(subject, f"apr-{number}", **changes)
            await decided(subject, asked)
        assert isinstance(await subject.store.claim(a_claim_of(stored, None)), Claimed)

    async def test_of_a_use_and_a_denial_at_once_one_holds(self, make_store: MakeStore) -> None:
        subject = await make_store()
        stored = await stand(subject, max_uses=8)
        stores = [subject.store, subject.store if subject.open_again is None else await subject.open_again()]
        used = 0
        for number in range(8):
            run, key = RunId(f"run-{number}"), f"key-{number}"
            waiting = await pending(subject, f"apr-{number}", run_id=run, operation_key=OperationKey(key))
            claim = a_claim_of(stored, waiting, key, same=the_same_ask(waiting.question))
            denying = decided(replace(subject, store=stores[1]), waiting, ApprovalDecision.DENY)
            both = [stores[0].claim(claim), denying]
            answers = await asyncio.gather(*(both if number % 2 else both[::-1]))
            claimed = sum(isinstance(answer, Claimed) for answer in answers)
            denied = sum(isinstance(answer, Approval) and answer.state is ApprovalState.DENIED for answer in answers)
            assert claimed + denied == 1, answers
            used += claimed
        assert await _uses(subject) == used


async def _state(subject: Subject) -> ApprovalState:
    (found,) = await subject.store.approvals("acme", states=tuple(ApprovalState), limit=1)
    return found.state


async def _uses(subject: Subject) -> int:
    found = await subject.store.grant("acme", GrantId("grt-1"))
    assert found is not None
    return found.uses

"""Votes towards a quorum: added one by one, never changed, and the last one together with the approval it makes."""

# ruff: noqa: S101 - a conformance suite asserts

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any

from placet.errors import NotFound, StoreError
from placet.model.approval import (
    Approval,
    ApprovalDecision,
    ApprovalState,
    Leave,
    Mac,
    OtherVotes,
    SignedAnswer,
    SignedVote,
    Vote,
    VoteKind,
)
from placet.model.audit import AuditEvent, EventKind
from placet.model.decision import RequirementKind, Terms
from placet.model.identifiers import ApprovalId, Digest
from placet.model.ledger import Claimed
from placet.model.retention import OldApproval, Purge
from placet.testing.conformance.samples import (
    MakeStore,
    Subject,
    a_claim,
    a_forbidden_event,
    a_spend,
    an_answer,
    an_event,
    decided,
    everything,
    fault_of,
    in_state,
    pending,
)

_TERMS = Terms(rule="two_people", votes=2, reason_to_deny=True)


async def a_quorum(subject: Subject, approval_id: str = "apr-1", **changes: Any) -> Approval:
    return await pending(subject, approval_id, requirement=RequirementKind.QUORUM, terms=_TERMS, **changes)


def a_vote(subject: Subject, voter: str, *, kind: VoteKind = VoteKind.APPROVE, key_id: str = "k-1") -> SignedVote:
    vote = Vote(
        kind=kind,
        voter=voter,
        voted_at=subject.clock.now(),
        digest_seen=Digest("a" * 64),
        reason='ümlaut "\u2028',
        leave=Leave(roles=("admin",), scopes=("a", "b"), is_listed=True),
    )
    return SignedVote(vote=vote, signature=Mac(key_id=key_id, value=f"{kind.value} of {voter}"))


def an_ending(subject: Subject, approval: Approval, *votes: SignedVote) -> SignedAnswer:
    answer = replace(
        an_answer(approval.question, at=subject.clock.now()),
        decided_by=votes[-1].vote.voter,
        leave=votes[-1].vote.leave,
        votes=tuple(sorted(each.signature.value for each in votes)),
    )
    return SignedAnswer(answer=answer, signature=Mac(key_id="k-1", value=f"ending of {answer.decided_by}"))


def voted(approval: Approval, kind: EventKind = EventKind.APPROVAL_VOTED) -> tuple[AuditEvent, ...]:
    return (an_event(kind, tenant=approval.question.tenant),)


async def first_vote(subject: Subject, approval: Approval, voter: str = "mara") -> SignedVote:
    vote = a_vote(subject, voter)
    assert await subject.store.vote(approval, vote, among=(), closing=None, events=voted(approval)) == approval
    return vote


class VotingConformance:
    """Votes of one question are compared as a whole, so that nobody closes a question over the wrong ones."""

    async def test_a_question_keeps_its_terms(self, make_store: MakeStore) -> None:
        subject = await make_store()
        approval = await a_quorum(subject)

        assert approval.question.terms == _TERMS
        assert await subject.store.approval("acme", ApprovalId("apr-1")) == approval

    async def test_votes_are_kept_as_they_were_cast(self, make_store: MakeStore) -> None:
        subject = await make_store()
        approval = await a_quorum(subject)
        other = await a_quorum(subject, "apr-2", tenant="other")
        assert await subject.store.votes("acme", ApprovalId("apr-1")) == ()
        first = await first_vote(subject, approval, "zoe")
        subject.clock.advance(0.000001)
        back = a_vote(subject, "zoe", kind=VoteKind.WITHDRAW)
        assert await subject.store.vote(approval, back, among=(first,), closing=None, events=()) == approval
        theirs = await first_vote(subject, other, "omar")

        assert await subject.store.votes("acme", ApprovalId("apr-1")) == (first, back)
        assert await subject.store.votes("other", ApprovalId("apr-2")) == (theirs,)
        assert await subject.store.votes("other", ApprovalId("apr-1")) == ()
        assert await subject.store.approval("acme", ApprovalId("apr-1")) == approval
        assert await subject.told() == ["approval_asked", "approval_voted"]

    async def test_votes_are_given_by_voter(self, make_store: MakeStore) -> None:
        subject = await make_store()
        approval = await a_quorum(subject)
        cast: tuple[SignedVote, ...] = ()
        for voter in ("zoe", "ann", "mara"):
            vote = a_vote(subject, voter)
            await subject.store.vote(approval, vote, among=cast, closing=None, events=())
            cast = (*cast, vote)

        found = await subject.store.votes("acme", ApprovalId("apr-1"))
        assert [each.vote.voter for each in found] == ["ann", "mara", "zoe"]

    async def test_the_last_vote_approves_in_the_same_commit(self, make_store: MakeStore) -> None:
        subject = await make_store()
        approval = await a_quorum(subject)
        first = await first_vote(subject, approval)
        last = a_vote(subject, "omar")
        ending = an_ending(subject, approval, first, last)
        events = (*voted(approval), *voted(approval, EventKind.APPROVAL_APPROVED))

        closed = await subject.store.vote(approval, last, among=(first,), closing=ending, events=events)

        expected = replace(approval, state=ApprovalState.APPROVED, answer=ending.answer, signature=ending.signature)
        assert closed == expected
        assert await subject.store.approval("acme", ApprovalId("apr-1")) == expected
        assert await subject.store.votes("acme", ApprovalId("apr-1")) == (first, last)
        assert await subject.told() == ["approval_asked", "approval_voted", "approval_voted", "approval_approved"]

    async def test_a_closed_quorum_is_spent_by_its_signature(self, make_store: MakeStore) -> None:
        subject = await make_store()
        approval = await a_quorum(subject)
        first, last = await first_vote(subject, approval), a_vote(subject, "omar")
        ending = an_ending(subject, approval, first, last)
        closed = await subject.store.vote(approval, last, among=(first,), closing=ending, events=())
        assert isinstance(closed, Approval)

        assert isinstance(await subject.store.claim(a_claim(spend=a_spend(closed))), Claimed)
        assert await subject.store.votes("acme", ApprovalId("apr-1")) == (first, last)

    async def test_a_vote_over_other_votes_than_there_are_writes_nothing(self, make_store: MakeStore) -> None:
        subject = await make_store()
        approval = await a_quorum(subject)
        first = await first_vote(subject, approval)
        second = a_vote(subject, "omar")
        before = await everything(subject)
        altered = replace(first, signature=replace(first.signature, value="another"))

        for among in ((), (second,), (altered,), (first, second), (first, first)):
            ending = an_ending(subject, approval, first, second)
            vote = a_vote(subject, "zoe")
            answer = await subject.store.vote(approval, vote, among=among, closing=ending, events=voted(approval))
            assert answer == OtherVotes()

        assert await everything(subject) == before
        assert await subject.store.votes("acme", ApprovalId("apr-1")) == (first,)

    async def test_of_many_votes_at_once_over_the_same_ones_one_lands(self, make_store: MakeStore) -> None:
        subject = await make_store()
        approval = await a_quorum(subject)
        first = await first_vote(subject, approval)

        answers = await asyncio.gather(
            *(
                subject.store.vote(
                    approval,
                    a_vote(subject, f"voter-{n}"),
                    among=(first,),
                    closing=an_ending(subject, approval, first, a_vote(subject, f"voter-{n}")),
                    events=voted(approval, EventKind.APPROVAL_APPROVED),
                )
                for n in range(8)
            )
        )

        closed = await subject.store.approval("acme", ApprovalId("apr-1"))
        assert closed is not None and closed.answer is not None
        assert set(answers) == {closed}, "whoever came later is told how it was closed"
        votes = await subject.store.votes("acme", ApprovalId("apr-1"))
        assert sorted(each.vote.voter for each in votes) == sorted(["mara", closed.answer.decided_by])
        assert (await subject.told()).count("approval_approved") == 1

    async def test_a_vote_and_a_denial_at_once_leave_one_answer(self, make_store: MakeStore) -> None:
        for _ in range(4):
            subject = await make_store()
            approval = await a_quorum(subject)
            first, last = await first_vote(subject, approval), a_vote(subject, "omar")

            answers = await asyncio.gather(
                subject.store.vote(
                    approval,
                    last,
                    among=(first,),
                    closing=an_ending(subject, approval, first, last),
                    events=voted(approval, EventKind.APPROVAL_APPROVED),
                ),
                subject.store.retire(
                    approval, ApprovalState.WITHDRAWN, events=voted(approval, EventKind.APPROVAL_WITHDRAWN)
                ),
            )

            found = await subject.store.approval("acme", ApprovalId("apr-1"))
            assert answers[0] == answers[1] == found
            assert len(await subject.told()) == 3

    async def test_nobody_votes_on_what_is_closed(self, make_store: MakeStore) -> None:
        for state in set(ApprovalState) - {ApprovalState.PENDING}:
            subject = await make_store()
            approval = await in_state(subject, state)
            before = await everything(subject)

            vote = a_vote(subject, "mara")
            assert await subject.store.vote(approval, vote, among=(), closing=None, events=voted(approval)) == approval

            assert await everything(subject) == before
            assert await subject.store.votes("acme", ApprovalId("apr-1")) == ()

    async def test_nobody_votes_twice(self, make_store: MakeStore) -> None:
        subject = await make_store()
        approval = await a_quorum(subject)
        first = await first_vote(subject, approval)
        before = await everything(subject)
        again = replace(first, signature=replace(first.signature, value="another"))

        fault = await fault_of(
            subject.store.vote(approval, again, among=(first,), closing=None, events=voted(approval))
        )

        assert isinstance(fault, StoreError)
        assert await everything(subject) == before
        assert await subject.store.votes("acme", ApprovalId("apr-1")) == (first,)

    async def test_a_vote_whose_event_may_not_be_written_leaves_nothing(self, make_store: MakeStore) -> None:
        subject = await make_store()
        approval = await a_quorum(subject)
        first, last = await first_vote(subject, approval), a_vote(subject, "omar")
        before = await everything(subject)
        ending = an_ending(subject, approval, first, last)

        for closing in (None, ending):
            work = subject.store.vote(approval, last, among=(first,), closing=closing, events=(a_forbidden_event(),))
            assert await fault_of(work) is not None

        assert await everything(subject) == before
        assert await subject.store.votes("acme", ApprovalId("apr-1")) == (first,)

    async def test_nobody_votes_on_what_does_not_exist_in_its_tenant(self, make_store: MakeStore) -> None:
        subject = await make_store()
        approval = await a_quorum(subject)
        elsewhere = replace(approval, question=replace(approval.question, tenant="other"))

        fault = await fault_of(
            subject.store.vote(elsewhere, a_vote(subject, "mara"), among=(), closing=None, events=())
        )

        assert type(fault) is NotFound
        assert await subject.store.votes("other", ApprovalId("apr-1")) == ()

    async def test_votes_are_forgotten_with_their_question_and_no_others(self, make_store: MakeStore) -> None:
        subject = await make_store()
        gone, stays = await a_quorum(subject), await a_quorum(subject, "apr-2", argument_digest=Digest("b" * 64))
        for approval in (gone, stays):
            await first_vote(subject, approval)
        await withdrawn(subject, gone)
        subject.clock.advance(timedelta(days=2).total_seconds())
        purge = Purge(
            holds=frozenset(),
            idle_before=subject.clock.now(),
            approvals=(OldApproval(tenant="acme", approval_id=ApprovalId("apr-1")),),
            events=(an_event(EventKind.RECORDS_PURGED),),
        )

        assert await subject.store.purge(purge)

        assert await subject.store.approval("acme", ApprovalId("apr-1")) is None
        assert await subject.store.votes("acme", ApprovalId("apr-1")) == ()
        assert len(await subject.store.votes("acme", ApprovalId("apr-2"))) == 1

    async def test_the_keys_of_votes_are_counted_while_their_question_counts(self, make_store: MakeStore) -> None:
        subject = await make_store()
        approval = await a_quorum(subject)
        vote = a_vote(subject, "mara", key_id="k-7")
        await subject.store.vote(approval, vote, among=(), closing=None, events=())

        assert {use.key_id: use.approvals for use in await subject.store.key_uses()}["k-7"] == 1
        await withdrawn(subject, approval)
        assert "k-7" not in {use.key_id for use in await subject.store.key_uses()}

    async def test_a_denial_leaves_the_votes_as_they_are(self, make_store: MakeStore) -> None:
        subject = await make_store()
        approval = await a_quorum(subject)
        first = await first_vote(subject, approval)
        denied = await decided(subject, approval, ApprovalDecision.DENY)

        assert denied.state is ApprovalState.DENIED
        assert await subject.store.votes("acme", ApprovalId("apr-1")) == (first,)


async def withdrawn(subject: Subject, approval: Approval) -> None:
    closed = await subject.store.retire(approval, ApprovalState.WITHDRAWN, events=())
    assert closed.state is ApprovalState.WITHDRAWN

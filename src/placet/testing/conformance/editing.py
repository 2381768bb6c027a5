"""Editing: one question is closed and another one made of it, in one transaction, and found by the first's wish."""

# ruff: noqa: S101 - a conformance suite asserts

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any

from placet.errors import NotFound
from placet.model.approval import Approval, ApprovalState, Edited, Question
from placet.model.audit import EventKind
from placet.model.identifiers import ApprovalId, Digest, OperationKey, PolicyVersion, RunId
from placet.model.retention import OldApproval, Purge
from placet.testing.conformance.samples import (
    A_MAC,
    ANOTHER_MAC,
    MakeStore,
    Subject,
    a_forbidden_event,
    a_question,
    an_event,
    decided,
    everything,
    fault_of,
    in_state,
    pending,
    the_same_ask,
)

_EVENTS = (an_event(EventKind.APPROVAL_WITHDRAWN), an_event(EventKind.APPROVAL_EDITED))


def an_edit(subject: Subject, of: Approval, approval_id: str = "apr-2", **changes: Any) -> Question:
    question = a_question(
        approval_id,
        tenant=of.question.tenant,
        asked_at=subject.clock.now(),
        argument_digest=Digest("b" * 64),
        edited=Edited(by="m\u00e1ra", from_id=of.question.approval_id, from_digest=of.question.argument_digest),
    )
    return replace(question, **changes)


async def edited(subject: Subject, of: Approval, question: Question) -> Approval:
    return await subject.store.edit(of, question, ANOTHER_MAC, the_same_ask(question), events=_EVENTS)


class EditConformance:
    """An edit is whole or not there."""

    async def test_an_edit_closes_the_one_question_and_asks_the_other(self, make_store: MakeStore) -> None:
        subject = await make_store()
        first = await pending(subject)
        subject.clock.advance(1)
        question = an_edit(subject, first)

        new = await edited(subject, first, question)

        assert new == Approval(
            question=question,
            question_mac=ANOTHER_MAC,
            state=ApprovalState.PENDING,
            answer=None,
            signature=None,
            spent_at=None,
        )
        assert await subject.store.approval("acme", ApprovalId("apr-2")) == new
        closed = replace(first, state=ApprovalState.WITHDRAWN)
        assert await subject.store.approval("acme", ApprovalId("apr-1")) == closed
        assert await subject.store.same_ask(the_same_ask(question)) == (new,)
        assert await subject.store.same_ask(the_same_ask(first.question)) == ()
        assert await subject.told() == ["approval_asked", "approval_withdrawn", "approval_edited"]

    async def test_what_was_made_of_a_wish_is_found_by_it(self, make_store: MakeStore) -> None:
        subject = await make_store()
        first = await pending(subject)
        new = await edited(subject, first, an_edit(subject, first))
        wish = the_same_ask(first.question)

        assert await subject.store.edits(wish) == (new,)
        any_policy = replace(wish, policy_version=PolicyVersion("other"), operation_key=OperationKey("other"))
        assert await subject.store.edits(any_policy) == (new,)
        for changes in (
            {"tenant": "other"},
            {"subject": "agent-2"},
            {"run_id": RunId("run-2")},
            {"tool": "refund"},
            {"argument_digest": Digest("b" * 64)},
        ):
            assert await subject.store.edits(replace(wish, **changes)) == (), changes

    async def test_edits_are_found_newest_first_and_in_any_state(self, make_store: MakeStore) -> None:
        subject = await make_store()
        first = await pending(subject)
        older = await edited(subject, first, an_edit(subject, first))
        older = await decided(subject, older)
        subject.clock.advance(1)
        second = await pending(subject, "apr-3")
        newer = await edited(subject, second, an_edit(subject, second, "apr-4", argument_digest=Digest("d" * 64)))

        assert await subject.store.edits(the_same_ask(first.question)) == (newer, older)

    async def test_only_what_still_waits_is_edited(self, make_store: MakeStore) -> None:
        for state in set(ApprovalState) - {ApprovalState.PENDING}:
            subject = await make_store()
            approval = await in_state(subject, state)
            before = await everything(subject)

            assert await edited(subject, approval, an_edit(subject, approval)) == approval

            assert await everything(subject) == before
            assert await subject.store.edits(the_same_ask(approval.question)) == ()

    async def test_what_is_asked_already_is_not_asked_twice(self, make_store: MakeStore) -> None:
        subject = await make_store()
        first = await pending(subject)
        other = await pending(subject, "apr-7", argument_digest=Digest("b" * 64))
        before = await everything(subject)

        assert await edited(subject, first, an_edit(subject, first)) == other

        assert await everything(subject) == before
        assert await subject.store.edits(the_same_ask(first.question)) == ()

    async def test_of_edits_and_decisions_at_once_one_stands(self, make_store: MakeStore) -> None:
        subject = await make_store()
        first = await pending(subject)
        edits = [an_edit(subject, first, f"apr-{n}", argument_digest=Digest(str(n) * 64)) for n in range(2, 6)]

        await asyncio.gather(*(edited(subject, first, each) for each in edits), decided(subject, first))

        closed = await subject.store.approval("acme", ApprovalId("apr-1"))
        made = await subject.store.edits(the_same_ask(first.question))
        assert closed is not None
        assert (closed.state, len(made)) in ((ApprovalState.WITHDRAWN, 1), (ApprovalState.APPROVED, 0))
        told = await subject.told()
        assert told.count("approval_edited") == len(made)

    async def test_an_edit_whose_event_may_not_be_written_leaves_nothing(self, make_store: MakeStore) -> None:
        subject = await make_store()
        first = await pending(subject)
        before = await everything(subject)
        question = an_edit(subject, first)

        work = subject.store.edit(first, question, ANOTHER_MAC, the_same_ask(question), events=(a_forbidden_event(),))
        assert await fault_of(work) is not None

        assert await everything(subject) == before
        assert await subject.store.edits(the_same_ask(first.question)) == ()

    async def test_nobody_edits_what_does_not_exist_in_its_tenant(self, make_store: MakeStore) -> None:
        subject = await make_store()
        first = await pending(subject)
        elsewhere = replace(first, question=replace(first.question, tenant="other"))
        question = an_edit(subject, elsewhere)

        fault = await fault_of(subject.store.edit(elsewhere, question, A_MAC, the_same_ask(question), events=()))

        assert type(fault) is NotFound

    async def test_an_edit_is_forgotten_with_what_it_made(self, make_store: MakeStore) -> None:
        subject = await make_store()
        first = await pending(subject)
        new = await edited(subject, first, an_edit(subject, first))
        await subject.store.retire(new, ApprovalState.WITHDRAWN, events=())
        subject.clock.advance(timedelta(days=2).total_seconds())

        for approval_id, left in (("apr-1", 1), ("apr-2", 0)):
            purge = Purge(
                holds=frozenset(),
                idle_before=subject.clock.now(),
                approvals=(OldApproval(tenant="acme", approval_id=ApprovalId(approval_id)),),
                events=(an_event(EventKind.RECORDS_PURGED),),
            )
            assert await subject.store.purge(purge)
            assert len(await subject.store.edits(the_same_ask(first.question))) == left

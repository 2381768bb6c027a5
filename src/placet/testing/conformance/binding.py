"""Questions that are bound to a state of the world: they keep its digest, and another state's takes their place."""

# ruff: noqa: S101 - a conformance suite asserts

from __future__ import annotations

from placet.model.approval import Approval, ApprovalState, Mac
from placet.model.audit import EventKind
from placet.model.identifiers import ApprovalId
from placet.model.ledger import Withdrawal
from placet.rules.approvals import question_form
from placet.testing.conformance.samples import (
    A_MAC,
    ANOTHER_MAC,
    MakeStore,
    a_question,
    a_step,
    an_event,
    decided,
    the_same_ask,
)

_THEN = Mac(key_id="k-1", value="7" * 64)
_NOW = Mac(key_id="k-2", value="8" * 64)


class BindingConformance:
    """A question keeps the state it was asked about in, and one about another state takes its place."""

    async def test_a_question_keeps_the_state_it_is_bound_to(self, make_store: MakeStore) -> None:
        subject = await make_store()
        question = a_question(asked_at=subject.clock.now(), precondition=_THEN)
        await subject.store.ask(question, A_MAC, the_same_ask(question), step=a_step(), events=())

        found = await subject.store.approval("acme", ApprovalId("apr-1"))

        assert found is not None and found.question == question
        assert question_form(found.question) == question_form(question)

    async def test_an_approval_of_another_state_is_closed_with_the_question_that_is_asked_anew(
        self, make_store: MakeStore
    ) -> None:
        subject = await make_store()
        first = a_question(asked_at=subject.clock.now(), precondition=_THEN)
        asked = await subject.store.ask(first, A_MAC, the_same_ask(first), step=a_step(), events=())
        assert isinstance(asked, Approval)
        approved = await decided(subject, asked)
        anew = a_question("apr-2", asked_at=subject.clock.now(), precondition=_NOW)
        closing = (Withdrawal(approval=approved, event=an_event(EventKind.APPROVAL_WITHDRAWN)),)

        new = await subject.store.ask(anew, ANOTHER_MAC, the_same_ask(anew), step=a_step(), events=(), closing=closing)

        old = await subject.store.approval("acme", ApprovalId("apr-1"))
        assert old is not None and (old.state, old.question) == (ApprovalState.REVOKED, first)
        assert new == await subject.store.approval("acme", ApprovalId("apr-2"))
        assert (await subject.told()).count("approval_withdrawn") == 1

"""Where a question stands, for whoever asked it, who may wait for it; it decides nothing and sees no more.

A proposer is told the state, the clocks and what a person who denied it said; never who decides, nor anybody else's
question: those look like ones that do not exist.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

from placet.engine.editing import same_as
from placet.engine.verifying import verify
from placet.errors import NotFound
from placet.model.approval import Approval, ApprovalDecision, ApprovalState
from placet.model.identifiers import ApprovalId
from placet.model.principal import Principal, is_identity, is_principal
from placet.ports.keys import Keys
from placet.ports.store import Store
from placet.ports.waiting import paying
from placet.rules import approvals as rules


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionView:
    """One question of the principal's own.

    Attributes:
        decide_by: until when, exclusive, it may be decided.
        expires_at: until when, exclusive, an approval of it may be used; None without one.
        reviewer_said: the words of a person who denied it; data, not an instruction.
    """

    approval_id: str
    state: ApprovalState
    tool: str
    run_id: str
    call_id: str
    asked_at: datetime
    decide_by: datetime
    expires_at: datetime | None
    reviewer_said: str | None


class Questions:
    """The questions of one store, for those who asked them."""

    def __init__(self, *, store: Store, keys: Keys) -> None:
        self._store = store
        self._keys = keys

    @paying
    async def show(self, approval_id: str, *, by: Principal) -> QuestionView:
        """Where a question stands that this very principal asked.

        Raises:
            NotFound: there is none in this tenant, or somebody else asked it, or its row does not hold.
        """
        is_known = is_principal(by) and is_identity(approval_id)
        found = await self._store.approval(by.tenant, ApprovalId(approval_id)) if is_known else None
        if found is None or not self._is_own(found, approval_id, by) or verify(found, self._keys) is not None:
            raise NotFound("There is no such question of yours.")
        is_overdue = rules.is_overdue(found, now=await self._store.now())
        return _view(found, ApprovalState.EXPIRED if is_overdue else found.state)

    @paying
    async def show_last(self, approval_id: str, *, by: Principal) -> QuestionView:
        """As `show`, of what people made of the question by editing it, the last of that; or of itself.

        Raises: as `show`.
        """
        view = await self.show(approval_id, by=by)
        while (made := await self._made_of(view, by)) is not None:  # each names an older one under its MAC
            view = made
        return view

    async def _made_of(self, view: QuestionView, by: Principal) -> QuestionView | None:
        asked = await self._store.approval(by.tenant, ApprovalId(view.approval_id))
        for each in () if asked is None else await self._store.edits(same_as(asked.question)):
            mark = each.question.edited
            if mark is not None and mark.from_id == view.approval_id:
                with suppress(NotFound):
                    return await self.show(each.question.approval_id, by=by)
        return None

    def _is_own(self, approval: Approval, approval_id: str, by: Principal) -> bool:
        question = approval.question
        return (question.tenant, question.approval_id, question.subject) == (by.tenant, approval_id, by.identity)


def _view(approval: Approval, state: ApprovalState) -> QuestionView:
    question, answer = approval.question, approval.answer
    is_denied = answer is not None and answer.decision is ApprovalDecision.DENY
    return QuestionView(
        approval_id=question.approval_id,
        state=state,
        tool=question.tool,
        run_id=question.run_id,
        call_id=question.call_id,
        asked_at=question.asked_at,
        decide_by=question.decide_by,
        expires_at=answer.expires_at if answer is not None and not is_denied else None,
        reviewer_said=(answer.reason or None) if answer is not None and is_denied else None,
    )

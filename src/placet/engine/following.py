"""Proposals that are made again and again for one wish, by a step of a workflow, which nobody can talk to.

Whoever proposes by hand is told what a person did with the question, and says what is to be done about it. For a step:

- what a person changed is asked, and done, in its changed form, under the same call id and key;
- what a person took back stays taken back for the rest of the run: the call is refused, and nobody is asked anew;
- what ran out, or was asked under another policy or contract, is asked anew as it was proposed.

Nothing here is remembered: rows say it, as far as their MACs carry them, and the ledger answers for what was done.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable
from dataclasses import replace
from datetime import datetime
from typing import Final

from placet.engine import replies
from placet.engine.chronicle import Chronicle
from placet.engine.deciding import Decider
from placet.engine.editing import arguments_of
from placet.engine.faults import told
from placet.engine.path import CallPath
from placet.engine.refusals import Refusals
from placet.engine.session import Session
from placet.engine.verifying import verify
from placet.errors import PlacetError, StoreError
from placet.model.approval import Approval, ApprovalState, Question
from placet.model.audit import EventKind
from placet.model.call import Call
from placet.model.decision import Ask, Decision
from placet.model.identifiers import ApprovalId, Digest
from placet.model.outcome import AwaitingApproval, Outcome, Refused
from placet.model.principal import is_principal
from placet.model.proposal import Proposal
from placet.ports.keys import Keys
from placet.ports.store import Store
from placet.rules import approvals as rules
from placet.rules import lifecycle, operations

_log = logging.getLogger("placet.gate")
_MOST_QUESTIONS: Final = 100
"""About one tool in a run, the newest; where more was asked, what was proposed is asked about."""
_MOST_LOOKS: Final = 4
"""While people go on editing; after that the call is refused as edited, and its step proposes it again."""
_OF_TODAY: Final = frozenset({ApprovalState.PENDING, ApprovalState.APPROVED, ApprovalState.DENIED})
_ANSWERS: Final = _OF_TODAY | {ApprovalState.WITHDRAWN}


class Following:
    """One more way through the gate: `CallPath.outcome` of what people left of the proposal."""

    def __init__(
        self, *, store: Store, keys: Keys, decider: Decider, path: CallPath, refusals: Refusals, chronicle: Chronicle
    ) -> None:
        self._store = store
        self._keys = keys
        self._decider = decider
        self._path = path
        self._refusals = refusals
        self._chronicle = chronicle

    async def outcome(self, proposal: Proposal, session: Session) -> Outcome:
        """As `CallPath.outcome`; where a person changed the call, with what it was changed to."""
        call = self._bound(proposal, session)
        if call is None:  # the path says why, on record
            return await self._path.outcome(proposal, session)
        try:
            return await self._followed(proposal, call, session)
        except StoreError as fault:  # nothing was asked or sent: the path has an answer for its own faults
            return replies.refused_call(call, "boundary_unavailable", reasons=(fault.code,))
        except PlacetError as fault:
            return await self._refusals.unavailable(call, fault.code)
        except Exception as fault:
            _log.error("following failed", extra={"tool": call.contract.name, **told(fault)})
            return await self._refusals.unavailable(call, "internal_fault")

    async def _followed(self, proposal: Proposal, call: Call, session: Session) -> Outcome:
        """What people left of it; looked at once more where they did something between that look and the path's own."""
        looks = 0
        while True:
            decision = await self._decider.decide(call, session)
            if not call.is_recorded and not isinstance(decision, Ask):  # a plain read: there never was a question
                return await self._path.outcome(proposal, session)
            asked = await self._asked(call)
            outcome, looks = await self._once(proposal, call, session, decision, asked), looks + 1
            match outcome:
                case Refused(code="edited_by_person") if looks < _MOST_LOOKS:
                    if _states(await self._asked(call)) == _states(asked):
                        return outcome
                case AwaitingApproval() if outcome.approval_id not in _states(asked):
                    return await self._as_it_was_taken_back(outcome, call, decision, asked)
                case _:
                    return outcome

    async def _once(
        self, proposal: Proposal, call: Call, session: Session, decision: Decision, asked: list[Approval]
    ) -> Outcome:
        made = _made_of(asked)
        edits = _edits_of(made, call.argument_digest)
        if edits and await self._is_done(call):
            return await self._path.outcome(proposal, session)
        last = next(iter(made.get(call.argument_digest, ())), None)
        answers = isinstance(decision, Ask) and await self._answers(last, call, decision)
        for edited in edits:
            if answers and edited.state is not ApprovalState.SPENT:
                continue  # of another policy or contract, since it was asked anew as it was proposed
            outcome = await self._in_its_place(edited, asked, proposal, call, session)
            if outcome is not None:
                return outcome
        if isinstance(decision, Ask) and answers and last is not None and _is_withdrawn(last):
            return await self._taken_back(call, decision)
        return await self._path.outcome(proposal, session)

    async def _is_done(self, call: Call) -> bool:
        """Whether the ledger answers for the very call that is proposed: nothing is done in its place then."""
        known = await self._store.effect(call.principal.tenant, call.operation_key)
        answer = lifecycle.ledger_answer(call, known)
        return not isinstance(answer, lifecycle.MayDispatch | lifecycle.OtherOperation)

    async def _in_its_place(
        self, edited: Approval, asked: list[Approval], proposal: Proposal, was: Call, session: Session
    ) -> Outcome | None:
        """A question that a person made binds, also where policy would ask nobody about the call that it became.

        None where it answers no more: what it was made of comes into question again.
        """
        arguments = arguments_of(edited.question, self._keys, was.contract)
        instead = replace(proposal, arguments=arguments)
        call = None if arguments is None else self._bound(instead, session)
        if call is None:
            return None
        decision = rules.bound_by(edited.question, await self._decider.decide(call, session))
        if isinstance(decision, Ask) and await self._is_taken_back(_about(asked, call, edited), call, decision):
            return replace(await self._taken_back(call, decision), edited_arguments=arguments)
        if not await self._stands(edited, call, decision):
            return None
        outcome = await self._path.outcome(instead, session, made=edited.question)
        if isinstance(outcome, Refused) and outcome.code == "edited_by_person":  # once more, meanwhile
            return outcome
        return replace(outcome, edited_arguments=arguments)

    async def _stands(self, edited: Approval, call: Call, decision: Decision) -> bool:
        """Whether what was made of it is what the call has become: it was done, or is to be decided, or was decided."""
        if edited.state is ApprovalState.SPENT:
            return True
        question = edited.question
        is_of_today = (question.policy_version, question.contract_digest) == (
            decision.policy_version,
            call.contract.digest,
        )
        return edited.state in _OF_TODAY and is_of_today and not rules.is_overdue(edited, now=await self._store.now())

    async def _answers(self, last: Approval | None, call: Call, ask: Ask) -> bool:
        """Whether the last question is about the call as it was proposed, and what came of it is an answer of today."""
        is_as_proposed = last is not None and last.question.edited is None and last.state in _ANSWERS
        return last is not None and is_as_proposed and await self._is_of_now(last, call, ask)

    async def _is_taken_back(self, last: Approval, call: Call, ask: Ask) -> bool:
        """By a person: whatever else closes a question does so with asking another one, or has been dispatched."""
        return _is_withdrawn(last) and await self._is_of_now(last, call, ask)

    async def _is_of_now(self, asked: Approval, call: Call, ask: Ask) -> bool:
        known = await self._store.effect(call.principal.tenant, call.operation_key)
        return rules.asks_for(asked.question, call, ask, dispatch_number=0 if known is None else known.fence)

    async def _taken_back(self, call: Call, ask: Ask) -> Outcome:
        return await self._refusals.refuse(call, ask, "approval_withdrawn", reasons=ask.reasons)

    async def _as_it_was_taken_back(
        self, outcome: AwaitingApproval, call: Call, decision: Decision, asked: list[Approval]
    ) -> Outcome:
        """Refused, and what was asked anew closed, if a person took the same question back since it was read."""
        waited = {each.question.approval_id for each in asked if each.state is ApprovalState.PENDING}
        if not waited:
            return outcome
        rows = {each.question.approval_id: each for each in await self._asked(call)}
        anew = rows.get(outcome.approval_id)
        if anew is None or not any(_is_taken_back_of(anew, rows.get(each)) for each in waited):
            return outcome
        facts = self._chronicle.of_question(anew.question)
        event = self._chronicle.event(EventKind.APPROVAL_WITHDRAWN, facts, detail="taken_back_before")
        closed = await self._store.retire(anew, ApprovalState.WITHDRAWN, events=(event,))
        if closed.state is not ApprovalState.WITHDRAWN:  # somebody has answered it, and that is later
            return outcome
        refused = await self._refusals.refuse(call, decision, "approval_withdrawn", reasons=decision.reasons)
        return replace(refused, edited_arguments=outcome.edited_arguments)

    async def _asked(self, call: Call) -> list[Approval]:
        """Sound questions about this very call of its run, the newest first."""
        tenant = call.principal.tenant
        found = await self._store.approvals_of_tool(tenant, call.run_id, call.contract.name, limit=_MOST_QUESTIONS)
        mine = [each for each in found if _is_of(each.question, call) and verify(each, self._keys) is None]
        others = {each.question.approval_id for each in found if not _is_of(each.question, call)}
        return [_as_its_own(each, others) for each in mine]

    def _bound(self, proposal: Proposal, session: Session) -> Call | None:
        if not is_principal(session.principal):
            return None
        try:
            return self._path.bind(proposal, session)
        except BaseException:  # whatever it is, the path meets it too, and has an answer for it
            return None


def _is_of(question: Question, call: Call) -> bool:
    """About the call, or what people made of it. An operation that its arguments name has another name as edited; any
    other one keeps its own, and may be asked for by somebody else under the call's id.
    """
    is_alike = (question.subject, question.call_id) == (call.principal.identity, call.call_id)
    return is_alike and (operations.is_business_key(call.contract) or question.operation_key == call.operation_key)


def _as_its_own(approval: Approval, others: Collection[ApprovalId]) -> Approval:
    """A question that says what a person made of another call's is that person's not to approve; it is asked about
    what its own step proposed all the same, and replaces nothing.
    """
    question = approval.question
    is_made_of_another = question.edited is not None and question.edited.from_id in others
    return replace(approval, question=replace(question, edited=None)) if is_made_of_another else approval


def _made_of(asked: list[Approval]) -> dict[Digest, list[Approval]]:
    """By arguments that were proposed: questions about them, or about what people made of them, that nothing was made
    of in turn; the last first."""
    named = {each.question.approval_id: each for each in asked}
    made: dict[Digest, list[Approval]] = {}
    for each in _last_first(_standing(asked)):
        made.setdefault(_first_digest(each, named), []).append(each)
    return made


def _edits_of(made: dict[Digest, list[Approval]], digest: Digest) -> list[Approval]:
    """What people made of these arguments, the last first; before each, what they made of it when it was asked anew, as
    it is before a second attempt."""
    found: list[Approval] = []
    seen: set[ApprovalId] = set()

    def collect(digest: Digest, after: datetime | None) -> None:
        for each in made.get(digest, ()):
            question = each.question
            is_before = after is not None and question.asked_at < after  # of another call under this name
            if question.edited is None or is_before or question.approval_id in seen:
                continue
            seen.add(question.approval_id)
            collect(question.argument_digest, question.asked_at)
            found.append(each)

    collect(digest, None)
    return found


def _about(asked: list[Approval], call: Call, edited: Approval) -> Approval:
    """The last question about these very arguments that nothing was made of, whoever chose them."""
    about = _last_first(each for each in _standing(asked) if each.question.argument_digest == call.argument_digest)
    return next(iter(about), edited)


def _standing(asked: list[Approval]) -> list[Approval]:
    replaced = {each.question.edited.from_id for each in asked if each.question.edited is not None}
    return [each for each in asked if each.question.approval_id not in replaced]


def _last_first(asked: Iterable[Approval]) -> list[Approval]:
    return sorted(asked, key=lambda each: (each.question.asked_at, not _is_withdrawn(each)), reverse=True)


def _first_digest(approval: Approval, named: dict[ApprovalId, Approval]) -> Digest:
    """Of the arguments that were asked about before people changed them."""
    question = approval.question
    for _ in range(len(named)):
        mark = question.edited
        if mark is None:
            return question.argument_digest
        if mark.from_id not in named:
            return mark.from_digest
        question = named[mark.from_id].question
    return question.argument_digest


def _is_taken_back_of(anew: Approval, before: Approval | None) -> bool:
    return (
        before is not None
        and before.state is ApprovalState.WITHDRAWN
        and _wish(before.question) == _wish(anew.question)
    )


def _wish(question: Question) -> tuple[object, ...]:
    """What of two questions about one call has to be alike for the one to be asked in the other's words."""
    return (
        question.argument_digest,
        question.contract_digest,
        question.policy_version,
        question.dispatch_number,
        question.requirement,
        question.terms,
        question.reminders,
    )


def _states(asked: list[Approval]) -> dict[ApprovalId, ApprovalState]:
    return {each.question.approval_id: each.state for each in asked}


def _is_withdrawn(approval: Approval) -> bool:
    return approval.state is ApprovalState.WITHDRAWN

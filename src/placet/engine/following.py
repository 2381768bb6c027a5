"""Proposals that are made again and again for one wish, by a step of a workflow, which nobody can talk to.

Whoever proposes by hand is told what a person did with the question, and says what is to be done about it. For a step:

- what a person changed is asked, and done, in its changed form, under the same call id and key;
- what a person took back stays taken back for the rest of the run: the call is refused, and nobody is asked anew;
- what ran out, or was asked under another policy or contract, is asked anew as it was proposed.

Nothing here is remembered: rows say it, as far as their MACs carry them, and the ledger answers for what was done.
"""

from __future__ import annotations

import logging
from dataclasses import replace
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

_log = logging.getLogger("placet.gate")
_MOST_QUESTIONS: Final = 100
"""About one tool in a run, the newest; where more was asked, what was proposed is asked about."""
_MOST_LOOKS: Final = 4
"""While people go on editing; after that the call is refused as edited, and its step proposes it again."""
_OF_TODAY: Final = frozenset({ApprovalState.PENDING, ApprovalState.APPROVED, ApprovalState.DENIED})


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
        last = _made_of(asked, call.argument_digest)
        if last is not None and last.question.edited is not None:
            return await self._in_its_place(last, asked, proposal, call, session)
        if isinstance(decision, Ask) and await self._is_taken_back(last, call, decision):
            return await self._taken_back(call, decision)
        return await self._path.outcome(proposal, session)

    async def _in_its_place(
        self, edited: Approval, asked: list[Approval], proposal: Proposal, was: Call, session: Session
    ) -> Outcome:
        """A question that a person made binds, also where policy would ask nobody about the call that it became."""
        arguments = arguments_of(edited.question, self._keys, was.contract)
        instead = replace(proposal, arguments=arguments)
        call = None if arguments is None else self._bound(instead, session)
        if call is None:
            return await self._path.outcome(proposal, session)
        decision = rules.bound_by(edited.question, await self._decider.decide(call, session))
        newest = next((each for each in asked if each.question.argument_digest == call.argument_digest), edited)
        if isinstance(decision, Ask) and await self._is_taken_back(newest, call, decision):
            return replace(await self._taken_back(call, decision), edited_arguments=arguments)
        if not await self._stands(edited, call, decision):
            return await self._path.outcome(proposal, session)
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

    async def _is_taken_back(self, last: Approval | None, call: Call, ask: Ask) -> bool:
        """By a person: whatever else closes a question does so with asking another one, or has been dispatched."""
        if last is None or last.state is not ApprovalState.WITHDRAWN:
            return False
        known = await self._store.effect(call.principal.tenant, call.operation_key)
        fence = 0 if known is None else known.fence
        return rules.asks_for(last.question, call, ask, dispatch_number=fence)

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
        tenant, subject = call.principal.tenant, call.principal.identity
        found = await self._store.approvals_of_tool(tenant, call.run_id, call.contract.name, limit=_MOST_QUESTIONS)
        return [
            each
            for each in found
            if (each.question.subject, each.question.call_id) == (subject, call.call_id)
            and verify(each, self._keys) is None
        ]

    def _bound(self, proposal: Proposal, session: Session) -> Call | None:
        if not is_principal(session.principal):
            return None
        try:
            return self._path.bind(proposal, session)
        except BaseException:  # whatever it is, the path meets it too, and has an answer for it
            return None


def _made_of(asked: list[Approval], digest: Digest) -> Approval | None:
    """The last question about these arguments, or about what people made of them, that nothing was made of in turn."""
    named = {each.question.approval_id: each for each in asked}
    replaced = {each.question.edited.from_id for each in asked if each.question.edited is not None}
    standing = [
        each for each in asked if each.question.approval_id not in replaced and _first_digest(each, named) == digest
    ]
    return max(standing, key=lambda each: (each.question.asked_at, not _is_withdrawn(each)), default=None)


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
    return (
        question.argument_digest,
        question.contract_digest,
        question.policy_version,
        question.dispatch_number,
        question.requirement,
        question.terms,
    )


def _states(asked: list[Approval]) -> dict[ApprovalId, ApprovalState]:
    return {each.question.approval_id: each.state for each in asked}


def _is_withdrawn(approval: Approval) -> bool:
    return approval.state is ApprovalState.WITHDRAWN

"""Puts on record what ended before an attempt, and answers it.

A refusal is recorded whatever state the run is in, and counts as a step like every proposal. Where the store does not
take even that, the answer says that placet is unavailable.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from placet.engine import replies
from placet.engine.chronicle import Chronicle
from placet.engine.session import Session
from placet.engine.steps import Steps
from placet.errors import InvalidProposal, PlacetError, ProtocolRejected, StoreError, UnknownTool
from placet.model.audit import AuditEvent, AuditOutcome
from placet.model.call import Call
from placet.model.contract import UNKNOWN_TOOL_LABEL, Contract
from placet.model.decision import Decision
from placet.model.identifiers import CallId
from placet.model.json import JsonObject
from placet.model.ledger import NotYourRun, OutsideRun, OverBudget, RecordAnswer, Recorded, Stopped, ToolClosed
from placet.model.outcome import Outcome, Refused
from placet.model.principal import is_principal
from placet.model.proposal import Proposal
from placet.model.stopping import is_quarantine
from placet.ports.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejection:
    """A proposal that made no call, with substitutes for whatever was not of valid form (B009, B010).

    Attributes:
        hidden: a tool that its proposer may not see; on record, and nowhere in the answer.
    """

    error: InvalidProposal
    call_id: CallId
    name: str | None
    attempt: int
    contract: Contract | None = None
    hidden: Contract | None = None


class Refusals:
    """The ends of the path that lie before the claim."""

    def __init__(self, *, store: Store, chronicle: Chronicle, steps: Steps) -> None:
        self._store = store
        self._chronicle = chronicle
        self._steps = steps

    async def refuse(
        self,
        call: Call,
        decision: Decision | None,
        code: str,
        *,
        reasons: tuple[str, ...] = (),
        words: str | None = None,
        retry_after_seconds: float | None = None,
        edited_arguments: JsonObject | None = None,
    ) -> Refused:
        """A recorded refusal. It counts as a step of the run like every proposal."""
        facts = self._chronicle.of_call(call, decision)
        events = self._chronicle.pair(facts, AuditOutcome.DENIED, attempt=call.first_attempt, detail=code)
        denied = call.contract.name if code in _DENIALS else None
        answer = await self._store.record(events, step=self._steps.of_call(call, decision), denies_tool=denied)
        if isinstance(answer, ToolClosed):
            return await self._closed(call, decision)
        if not isinstance(answer, Recorded):  # the refusal stands, whatever the run's state
            await self._store.record(events)
        return replies.refused_call(
            call,
            code,
            reasons=reasons,
            words=words,
            retry_after_seconds=retry_after_seconds,
            edited_arguments=edited_arguments,
        )

    async def _closed(self, call: Call, decision: Decision | None) -> Refused:
        """The tool was refused too often in this run. Asking for it again is a step all the same."""
        facts = self._chronicle.of_call(call, decision)
        events = self._chronicle.pair(facts, AuditOutcome.DENIED, attempt=call.first_attempt, detail="tool_closed")
        await self.record_step(events, call, decision)
        return replies.refused_call(call, "tool_closed")

    async def unavailable(self, call: Call, reason: str) -> Refused:
        """placet itself failed before anything was sent. It is on record if the store still takes it."""
        facts = self._chronicle.of_call(call, None)
        word = AuditOutcome.DENIED
        events = self._chronicle.pair(facts, word, attempt=call.first_attempt, detail="boundary_unavailable")
        with suppress(PlacetError):
            await self._store.record(events)
        return replies.refused_call(call, "boundary_unavailable", reasons=(reason,))

    async def refuse_nobody(self, proposal: Proposal, session: Session, contract: Contract | None) -> Refused:
        """Nobody can be made out who acts: nothing is bound, decided or counted for it (B040, B041)."""
        code, reason = "denied", "principal_malformed"
        try:
            await self._store.record(self._before_a_call(proposal, session, contract, reason))
        except PlacetError as fault:
            code, reason = "boundary_unavailable", fault.code
        return replies.refused(code, call_id=proposal.call_id, tool=_label(contract), reasons=(reason,))

    async def unbound(self, proposal: Proposal, session: Session, contract: Contract | None) -> Refused:
        """A fault of our own before there was a call. It is on record if the store still takes it."""
        code = "boundary_unavailable"
        with suppress(PlacetError):
            await self._store.record(self._before_a_call(proposal, session, contract, code))
        return replies.refused(code, call_id=proposal.call_id, tool=_label(contract), reasons=("internal_fault",))

    async def turned_away(self, proposal: Proposal, session: Session, contract: Contract | None) -> Refused:
        """This process is ending and takes nothing more. It is on record if the store still takes it."""
        with suppress(PlacetError):
            await self._store.record(self._before_a_call(proposal, session, contract, "draining"))
        return replies.refused("draining", call_id=proposal.call_id, tool=_label(contract))

    async def unlisted(self, proposal: Proposal, session: Session, contract: Contract) -> Outcome:
        """The principal may not see the tool, so for it there is none. Only the record says which one was asked for."""
        rejection = Rejection(
            error=UnknownTool("There is no tool of that name."),
            call_id=proposal.call_id,
            name=proposal.tool,
            attempt=proposal.attempt,
            hidden=contract,
        )
        return await self.invalid(rejection, session)

    def _before_a_call(
        self, proposal: Proposal, session: Session, contract: Contract | None, detail: str
    ) -> tuple[AuditEvent, ...]:
        facts = self._chronicle.of_rejected(
            session.principal,
            request_id=session.request_id,
            run_id=session.run_id,
            call_id=proposal.call_id,
            name=proposal.tool,
            contract=contract,
        )
        return self._chronicle.pair(facts, AuditOutcome.DENIED, attempt=proposal.attempt, detail=detail)

    async def invalid(self, rejection: Rejection, session: Session) -> Outcome:
        """A recorded rejection."""
        (outcome,) = await self.invalid_together((rejection,), session)
        return outcome

    async def invalid_together(self, rejections: Sequence[Rejection], session: Session) -> list[Outcome]:
        """The rejections of one submission, recorded in one commit and counted as one step, that of the first."""
        reasons: tuple[str, ...] = ()
        try:
            match await self._record_rejections(rejections, session):
                case OverBudget():
                    code = "budget_exhausted"
                case ToolClosed():
                    code = "tool_closed"
                case _:
                    return [
                        replies.invalid(each.error, call_id=each.call_id, contract=each.contract) for each in rejections
                    ]
        except PlacetError as fault:
            code, reasons = "boundary_unavailable", (fault.code,)
        return [
            replies.refused(code, call_id=each.call_id, tool=_label(each.contract), reasons=reasons)
            for each in rejections
        ]

    def _rejected(self, rejection: Rejection, session: Session, detail: str | None = None) -> tuple[AuditEvent, ...]:
        error = rejection.error
        error_type = (
            error.error_type
            if isinstance(error, ProtocolRejected)
            else _INVALID_TYPES.get(error.code, "ValidationError")
        )
        facts = self._chronicle.of_rejected(
            session.principal,
            request_id=session.request_id,
            run_id=session.run_id,
            call_id=rejection.call_id,
            name=rejection.name,
            contract=rejection.hidden or rejection.contract,
        )
        return self._chronicle.pair(
            facts,
            AuditOutcome.VALIDATION,
            attempt=rejection.attempt,
            detail=detail or ("not_listed" if rejection.hidden is not None else error.code),
            error_type=error_type,
        )

    async def _record_rejections(self, rejections: Sequence[Rejection], session: Session) -> RecordAnswer:
        """Record, and count the step: a malformed proposal is a proposal. Whatever the answer, they are on record."""
        events = tuple(event for rejection in rejections for event in self._rejected(rejection, session))
        first = rejections[0]
        if not is_principal(session.principal):
            return await self._store.record(events)
        step = self._steps.of_rejected(session.principal, session.run_id, first.call_id)
        tool = first.contract.name if first.contract is not None else None
        try:
            answer = await self._store.record(events, step=step, denies_tool=tool)
            if isinstance(answer, ToolClosed):
                await self._store.record(self._rejected(first, session, detail="tool_closed"), step=step)
                return answer
        except StoreError:
            raise
        except PlacetError:  # the clock failed; the events stand without it
            answer = NotYourRun()
        if not isinstance(answer, Recorded):
            await self._store.record(events)
        return answer

    async def _outside(self, call: Call, code: str) -> Refused:
        """The run may not do this. It was a proposal, and counts as a step of a run that goes on."""
        facts = self._chronicle.of_call(call, None)
        events = self._chronicle.pair(facts, AuditOutcome.DENIED, attempt=call.first_attempt, detail=code)
        await self.record_step(events, call, None)
        return replies.refused_call(call, code)

    async def record_step(self, events: tuple[AuditEvent, ...], call: Call, decision: Decision | None) -> None:
        answer = await self._store.record(events, step=self._steps.of_call(call, decision))
        if not isinstance(answer, Recorded):  # the refusal stands, whatever the run's state
            await self._store.record(events)

    async def step_refused(
        self, call: Call, answer: OverBudget | OutsideRun | NotYourRun | Stopped | ToolClosed
    ) -> Outcome:
        """A run used up, over, somebody else's or stopped, or a tool closed to it. The refusal is always on record."""
        match answer:
            case ToolClosed():
                return await self._closed(call, None)
            case OutsideRun(code=code):
                return await self._outside(call, code)
            case OverBudget():
                code = "budget_exhausted"
            case NotYourRun():
                code = "not_your_run"
            case Stopped(scope=scope):
                code = "quarantined" if is_quarantine(scope) else "stopped"
        facts = self._chronicle.of_call(call, None)
        events = self._chronicle.pair(facts, AuditOutcome.DENIED, attempt=call.first_attempt, detail=code)
        await self._store.record(events)
        return replies.refused_call(call, code)


def _label(contract: Contract | None) -> str:
    return contract.name if contract is not None else UNKNOWN_TOOL_LABEL


_DENIALS = frozenset({"denied", "approval_denied"})
"""Refusals that say no to the wish itself; asking for the tool again and again is what the guard counts."""
_INVALID_TYPES = {"unknown_tool": "UnknownTool", "unknown_tool_version": "UnknownTool"}

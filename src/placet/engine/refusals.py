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
from placet.engine.settings import GateSettings
from placet.errors import InvalidProposal, PlacetError, ProtocolRejected, StoreError
from placet.model.audit import AuditEvent, AuditOutcome
from placet.model.call import Call
from placet.model.contract import UNKNOWN_TOOL_LABEL, Contract
from placet.model.decision import Decision
from placet.model.identifiers import CallId, PolicyVersion
from placet.model.ledger import Halted, NotYourRun, OverBudget, Recorded, Step
from placet.model.outcome import Outcome, Refused
from placet.model.principal import is_principal
from placet.model.proposal import Proposal
from placet.ports.policy import PolicyEngine
from placet.ports.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejection:
    """A proposal that made no call, with substitutes for whatever was not of valid form (B009, B010)."""

    error: InvalidProposal
    call_id: CallId
    name: str | None
    attempt: int
    contract: Contract | None = None


class Refusals:
    """The ends of the path that lie before the claim."""

    def __init__(self, *, store: Store, chronicle: Chronicle, policy: PolicyEngine, settings: GateSettings) -> None:
        self._store = store
        self._chronicle = chronicle
        self._policy = policy
        self._settings = settings

    async def refuse(
        self,
        call: Call,
        decision: Decision | None,
        code: str,
        *,
        reasons: tuple[str, ...] = (),
        words: str | None = None,
    ) -> Refused:
        """A recorded refusal. It counts as a step of the run like every proposal."""
        facts = self._chronicle.of_call(call, decision)
        events = self._chronicle.pair(facts, AuditOutcome.DENIED, attempt=call.first_attempt, detail=code)
        await self.record_step(events, call, decision)
        return replies.refused_call(call, code, reasons=reasons, words=words)

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
        events = tuple(event for rejection in rejections for event in self._rejected(rejection, session))
        code = "budget_exhausted"
        reasons: tuple[str, ...] = ()
        try:
            if await self._record_rejection(events, session, rejections[0].call_id):
                return [
                    replies.invalid(each.error, call_id=each.call_id, contract=each.contract) for each in rejections
                ]
        except PlacetError as fault:
            code, reasons = "boundary_unavailable", (fault.code,)
        return [
            replies.refused(code, call_id=each.call_id, tool=_label(each.contract), reasons=reasons)
            for each in rejections
        ]

    def _rejected(self, rejection: Rejection, session: Session) -> tuple[AuditEvent, ...]:
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
            contract=rejection.contract,
        )
        return self._chronicle.pair(
            facts, AuditOutcome.VALIDATION, attempt=rejection.attempt, detail=error.code, error_type=error_type
        )

    async def _record_rejection(self, events: tuple[AuditEvent, ...], session: Session, call_id: CallId) -> bool:
        """Record, and count the step: a malformed proposal is a proposal. False if the run has no step left."""
        principal = session.principal
        if not is_principal(principal):
            await self._store.record(events)
            return True
        step = Step(
            tenant=principal.tenant,
            run_id=session.run_id,
            call_id=call_id,
            subject=principal.identity,
            policy_version=_version(self._policy),
            max_steps=self._settings.max_steps,
        )
        try:
            answer = await self._store.record(events, step=step)
        except StoreError:
            raise
        except PlacetError:  # the clock failed; the events stand without it
            answer = NotYourRun()
        if not isinstance(answer, Recorded):
            await self._store.record(events)
        return not isinstance(answer, OverBudget)

    async def record_step(self, events: tuple[AuditEvent, ...], call: Call, decision: Decision | None) -> None:
        version = decision.policy_version if decision is not None else _version(self._policy)
        step = Step(
            tenant=call.principal.tenant,
            run_id=call.run_id,
            call_id=call.reply_to,
            subject=call.principal.identity,
            policy_version=version,
            max_steps=self._settings.max_steps,
        )
        answer = await self._store.record(events, step=step)
        if not isinstance(answer, Recorded):  # the refusal stands, whatever the run's state
            await self._store.record(events)

    async def step_refused(self, call: Call, answer: OverBudget | NotYourRun | Halted) -> Outcome:
        """A run that is used up, somebody else's, or stopped. The refusal itself is always on record."""
        match answer:
            case OverBudget():
                code = "budget_exhausted"
            case NotYourRun():
                code = "not_your_run"
            case Halted():
                code = "stopped"
        facts = self._chronicle.of_call(call, None)
        events = self._chronicle.pair(facts, AuditOutcome.DENIED, attempt=call.first_attempt, detail=code)
        await self._store.record(events)
        return replies.refused_call(call, code)


def _version(policy: PolicyEngine) -> PolicyVersion:
    try:
        version: object = policy.version
    except BaseException:  # a made-up cancellation included: nothing is waited for here
        version = None
    return PolicyVersion(version if type(version) is str and 0 < len(version) <= 200 else "unavailable")


def _label(contract: Contract | None) -> str:
    return contract.name if contract is not None else UNKNOWN_TOOL_LABEL


_INVALID_TYPES = {"unknown_tool": "UnknownTool", "unknown_tool_version": "UnknownTool"}

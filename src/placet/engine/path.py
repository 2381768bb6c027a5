"""The path of one call: bind, decide, ask the ledger, ask a person, dispatch.

Nothing here raises but the caller's own cancellation. A fault of store, policy, clock or keys before dispatch is a
refusal; after it, the outcome is Unknown.
"""

from __future__ import annotations

import logging
from dataclasses import replace

from placet.engine import replies
from placet.engine.approving import Approver, EditedByPerson, Finding, Moved, RefusedBefore, Suspect, Waiting
from placet.engine.attempts import Warrant
from placet.engine.capacity import Capacity, Room
from placet.engine.chronicle import Chronicle
from placet.engine.deciding import Decider
from placet.engine.dispatch import Dispatcher, InDoubt
from placet.engine.entitling import UNCERTAIN
from placet.engine.faults import told
from placet.engine.known import KnownOperations
from placet.engine.preconditions import Changed, NotSeen, Preconditions, Unchanged
from placet.engine.quarantine import Quarantine
from placet.engine.reads import Reads
from placet.engine.refusals import Refusals, Rejection
from placet.engine.registry import Registry
from placet.engine.session import Session
from placet.engine.standing import Granted, StandingGrants, SuspectGrant
from placet.engine.steps import Steps
from placet.errors import InvalidArguments, InvalidProposal, PlacetError, ProtocolRejected, StoreError
from placet.model.approval import Approval, Question
from placet.model.asking import NotAsked
from placet.model.audit import AuditOutcome, EventKind
from placet.model.call import Call
from placet.model.contract import MAX_ATTEMPTS_PER_CALL, ApprovalMode, Contract
from placet.model.decision import Allow, Ask, Decision, Deny, Requirement
from placet.model.grant import GrantId
from placet.model.identifiers import Digest
from placet.model.ledger import (
    Claimed,
    Held,
    NotUsable,
    NotYourRun,
    OutsideRun,
    OverBudget,
    Stopped,
    ToolClosed,
    Voided,
)
from placet.model.outcome import AwaitingApproval, Outcome
from placet.model.principal import is_principal
from placet.model.proposal import Proposal
from placet.ports.meter import Meter
from placet.ports.store import Store
from placet.rules import approvals, lifecycle, operations
from placet.rules.policy import word_of
from placet.rules.preconditions import because_it_changed

_log = logging.getLogger("placet.gate")


class CallPath:
    """Takes one checked proposal to its outcome."""

    def __init__(
        self,
        *,
        registry: Registry,
        store: Store,
        decider: Decider,
        capacity: Capacity,
        chronicle: Chronicle,
        dispatcher: Dispatcher,
        reads: Reads,
        known: KnownOperations,
        refusals: Refusals,
        approver: Approver,
        standing: StandingGrants,
        preconditions: Preconditions,
        steps: Steps,
        quarantine: Quarantine,
        meter: Meter,
    ) -> None:
        self._registry = registry
        self._store = store
        self._decider = decider
        self._capacity = capacity
        self._chronicle = chronicle
        self._dispatcher = dispatcher
        self._reads = reads
        self._known = known
        self._refusals = refusals
        self._approver = approver
        self._standing = standing
        self._preconditions = preconditions
        self._steps = steps
        self._quarantine = quarantine
        self._meter = meter

    async def outcome(self, proposal: Proposal, session: Session, *, made: Question | None = None) -> Outcome:
        """bind → decide → (approval) → dispatch. Each line is one step of the path; each fault has one answer.

        Args:
            made: what a person made of another question to this very call; it is answered before the call is done.
        """
        if not is_principal(session.principal):
            return await self._refusals.refuse_nobody(proposal, session, self._contract_of(proposal))
        try:
            call = self.bind(proposal, session)
        except InvalidProposal as error:
            rejection = Rejection(
                error=error,
                call_id=proposal.call_id,
                name=proposal.tool,
                attempt=proposal.attempt,
                contract=self._contract_of(proposal),
            )
            return await self._refusals.invalid(rejection, session)
        except BaseException as fault:  # nothing is waited for here, so a cancellation is made up too
            _log.error("binding failed", extra=told(fault))
            return await self._refusals.unbound(proposal, session, self._contract_of(proposal))
        try:
            decision = await self._decider.decide(call, session)
            decision = decision if made is None else approvals.bound_by(made, decision)
            self._meter.decided(decision=word_of(decision))
            if decision.shadow is not None:
                self._meter.shadowed(enforced=decision.shadow.enforced, would_be=decision.shadow.would_be)
            match decision:
                case Deny():
                    return await self._refusals.refuse(call, decision, "denied", reasons=decision.reasons)
                case Allow() if not call.is_recorded:
                    return await self._read(call, decision, session)
                case Allow():
                    return await self._dispatch(call, decision, session)
                case Ask():
                    return await self._ask(call, decision, session)
        except StoreError as fault:
            return replies.refused_call(call, "boundary_unavailable", reasons=(fault.code,))
        except PlacetError as fault:  # clock or keys failed before anything was sent
            return await self._refusals.unavailable(call, fault.code)
        except Exception as fault:  # one of our own; after the point of no return the dispatcher answers for itself
            _log.error("call failed", extra={"tool": call.contract.name, **told(fault)})
            return await self._refusals.unavailable(call, "internal_fault")

    async def question(self, proposal: Proposal, session: Session) -> AwaitingApproval | NotAsked:
        """Where the question of a call stands that waits for a person, asked now if it was not.

        What is no question is left for `listed_outcome` to say and to record.
        """
        contract = self._contract_of(proposal)
        if contract is None or not is_principal(session.principal):
            return NotAsked.REFUSED
        if not self._decider.may_see(contract, session.principal):
            return NotAsked.REFUSED
        try:
            bound = self.bind(proposal, session)
        except BaseException:  # nothing is waited for here, so a cancellation is made up too
            return NotAsked.REFUSED
        try:
            decision = await self._decider.decide(bound, session)
            match decision:
                case Ask():
                    return await self._question(bound, decision, session)
                case Allow():
                    return NotAsked.READY
                case Deny():
                    return NotAsked.REFUSED
        except PlacetError:  # whoever submits it is told, and it is on record then
            return NotAsked.REFUSED
        except Exception as fault:
            _log.error("asking failed", extra=told(fault))
            return NotAsked.REFUSED

    async def _question(self, bound: Call, decision: Ask, session: Session) -> AwaitingApproval | NotAsked:
        call = await self._under_its_question(bound, decision)
        answer = lifecycle.ledger_answer(call, await self._store.effect(call.principal.tenant, call.operation_key))
        if isinstance(answer, lifecycle.OtherOperation | lifecycle.WornOut):
            return NotAsked.REFUSED
        if not isinstance(answer, lifecycle.MayDispatch):
            return NotAsked.READY  # the record answers
        if await self._quarantine.refusal(call.contract) is not None:
            return NotAsked.REFUSED
        asked = _with_doubt(decision, answer)
        step = self._steps.of_call(call, asked)
        number, deadline = answer.expected_fence, session.deadline
        match await self._approver.approval_for(call, asked, step, dispatch_number=number, deadline=deadline):
            case Waiting(approval=approval):
                return replies.awaiting(call, approval)
            case Approval() | Granted():
                return NotAsked.READY
            case Moved():
                return await self._question(bound, decision, session)
            case _:
                return NotAsked.REFUSED

    async def turned_away(self, proposal: Proposal, session: Session) -> Outcome:
        """The answer of a process that is ending: on record, nothing bound, decided or counted."""
        return await self._refusals.turned_away(proposal, session, self._contract_of(proposal))

    async def listed_outcome(self, proposal: Proposal, session: Session) -> Outcome:
        """The outcome, where the principal may see the tool; otherwise that of a tool that does not exist."""
        contract = self._contract_of(proposal)
        if contract is None or not is_principal(session.principal):
            return await self.outcome(proposal, session)
        if self._decider.may_see(contract, session.principal):
            return await self.outcome(proposal, session)
        return await self._refusals.unlisted(proposal, session, contract)

    def bind(self, proposal: Proposal, session: Session) -> Call:
        """A proposal becomes a call: exact tool, checked arguments, digest and key.

        Raises:
            InvalidProposal: nothing ran, and nothing was decided.
        """
        if proposal.is_truncated:
            raise InvalidArguments("turn_truncated")
        tool = self._registry.require(proposal.tool, proposal.version)
        contract = tool.contract
        if proposal.attempt + contract.retry.max_attempts - 1 > MAX_ATTEMPTS_PER_CALL:
            raise ProtocolRejected("the attempt leaves no room for retries below 100")
        read = tool.read_arguments(proposal.arguments)
        return Call(
            contract=contract,
            principal=session.principal,
            request_id=session.request_id,
            run_id=session.run_id,
            call_id=proposal.call_id,
            reply_to=proposal.call_id,
            first_attempt=proposal.attempt,
            arguments=read.arguments,
            canonical_arguments=read.canonical,
            argument_digest=operations.argument_digest(contract.name, read.canonical),
            fingerprint=operations.fingerprint(contract.name, read.canonical),
            operation_key=operations.operation_key(
                contract,
                read.arguments,
                session.principal,
                run_id=session.run_id,
                call_id=proposal.call_id,
                caller_key=session.caller_key,
            ),
            resource=operations.resource(contract, read.arguments),
            is_recorded=contract.effect_class.is_write
            or session.caller_key is not None
            or operations.is_business_key(contract),
            is_repaired=read.is_repaired,
        )

    def argument_digest(self, tool: str, arguments: object) -> Digest | None:
        """What `bind` makes of the arguments of a tool; None where it refuses them, or there is no such tool."""
        try:
            read = self._registry.require(tool, None).read_arguments(arguments)
        except BaseException:  # nothing is waited for here; whoever submits it is told why
            return None
        return operations.argument_digest(tool, read.canonical)

    async def who_may_approve(self, proposal: Proposal, ask: Ask, session: Session) -> tuple[str, ...]:
        """Everybody listed who may approve this call, which is proposed to nobody."""
        return await self._approver.who_may_approve(self.bind(proposal, session), ask)

    async def _read(self, call: Call, decision: Allow, session: Session) -> Outcome:
        room = await self._room(call, decision, session)
        if not isinstance(room, Room):
            return room
        try:
            return await self._reads.read(call, self._warrant(call, decision, session, room=room, expected_fence=0))
        finally:
            room.leave()

    async def _ask(
        self,
        call: Call,
        decision: Ask,
        session: Session,
        *,
        without: frozenset[GrantId] | None = frozenset(),
        void: Approval | None = None,
    ) -> Outcome:
        """Deny came first; now the ledger answers; only a new dispatch needs a person, or a grant that a person gave.

        A read that needs one is kept in the ledger too, so that its approval is spent, or its grant used, once.
        """
        call = await self._under_its_question(call, decision)
        while True:
            known = await self._store.effect(call.principal.tenant, call.operation_key)
            answer = lifecycle.ledger_answer(call, known)
            if not isinstance(answer, lifecycle.MayDispatch):
                outcome = await self._known.answer(call, decision, answer, session)
                if outcome is None:
                    continue
                return outcome
            if (refused := await self._quarantine.refusal(call.contract)) is not None:
                return await self._refusals.step_refused(call, refused)  # no person is asked, and no word of one spent
            number = answer.expected_fence
            asked = _with_doubt(decision, answer)
            step = self._steps.of_call(call, asked)
            found = await self._approver.approval_for(
                call, asked, step, dispatch_number=number, deadline=session.deadline, without=without, void=void
            )
            if isinstance(found, Approval):
                return await self._dispatch(call, asked, session, approval=found, expected_fence=number)
            if isinstance(found, Granted):
                return await self._dispatch(call, asked, session, grant=found, expected_fence=number, without=without)
            if not isinstance(found, Moved):  # then the ledger is read again
                return await self._not_approved(call, asked, found)

    async def _under_its_question(self, call: Call, ask: Ask) -> Call:
        """The call under the id and key it was asked about with; its own record comes first."""
        call = replace(call, is_recorded=True)
        if await self._store.effect(call.principal.tenant, call.operation_key) is None:
            call = await self._approver.adopted(call, ask)
        return call

    async def _not_approved(self, call: Call, ask: Ask, found: Finding) -> Outcome:
        """Nobody has approved: say where the question stands."""
        match found:
            case Waiting(approval=approval, is_new=is_new):
                if not is_new:
                    facts = self._chronicle.of_call(call, ask)
                    facts["approval_id"] = approval.question.approval_id
                    word = AuditOutcome.APPROVAL_REQUIRED
                    events = self._chronicle.pair(facts, word, attempt=call.first_attempt)
                    await self._refusals.record_step(events, call, ask)
                return replies.awaiting(call, approval)
            case RefusedBefore(approval=approval):
                words = approval.answer.reason if approval.answer is not None else None
                return await self._refusals.refuse(
                    call, ask, "approval_denied", reasons=ask.reasons, words=words or None
                )
            case EditedByPerson(arguments=arguments):
                return await self._refusals.refuse(
                    call, ask, "edited_by_person", reasons=ask.reasons, edited_arguments=arguments
                )
            case Suspect(approval=approval, misfit=misfit):
                facts = self._chronicle.of_call(call, ask)  # nothing of an altered row is repeated but its name
                facts["approval_id"] = approval.question.approval_id[:200] or "unknown"
                alarm = self._chronicle.event(EventKind.APPROVAL_SUSPECT, facts, detail=misfit.value)
                await self._store.record((alarm,))
                return await self._refusals.refuse(call, ask, "approval_suspect", reasons=(misfit.value,))
            case NotSeen(reason=reason):
                return await self._refusals.refuse(call, ask, "precondition_unavailable", reasons=(reason,))
            case SuspectGrant(misfit=misfit):
                await self._standing.alarm(found, call, ask)
                return await self._refusals.refuse(call, ask, "grant_suspect", reasons=(misfit.value,))
            case OverBudget() | OutsideRun() | NotYourRun() | Stopped() | ToolClosed():
                return await self._refusals.step_refused(call, found)
            case Approval() | Granted() | Moved():
                raise AssertionError("an approval, or a grant, is dispatched")

    async def _dispatch(
        self,
        call: Call,
        decision: Decision,
        session: Session,
        *,
        approval: Approval | None = None,
        grant: Granted | None = None,
        expected_fence: int = 0,
        without: frozenset[GrantId] | None = frozenset(),
    ) -> Outcome:
        """Claim and perform; where the row is held, answer from the ledger or try again with the fence it has."""
        while True:
            room = await self._room(call, decision, session)
            if not isinstance(room, Room):
                return room
            try:
                if approval is not None and (refused := await self._not_given(call, decision, session, approval)):
                    return refused
                state = await self._preconditions.held(approval, call, deadline=session.deadline)
                if isinstance(state, NotSeen):
                    return await self._refusals.refuse(
                        call, decision, "precondition_unavailable", reasons=(state.reason,)
                    )
                claimed = why_not = None
                if grant is not None:
                    why_not = await self._standing.refusal_of_giver(grant.stored, deadline=session.deadline)
                if why_not is None and isinstance(state, Unchanged):
                    warrant = self._warrant(
                        call,
                        decision,
                        session,
                        room=room,
                        expected_fence=expected_fence,
                        approval=approval,
                        grant=grant,
                        state=state.state,
                    )
                    claimed = await self._claim_and_perform(call, warrant)
            finally:
                room.leave()
            if claimed is not None:
                return claimed
            known = await self._store.effect(call.principal.tenant, call.operation_key)
            answer = lifecycle.ledger_answer(call, known)
            if not isinstance(answer, lifecycle.MayDispatch):
                outcome = await self._known.answer(call, decision, answer, session)
                if outcome is not None:
                    return outcome
            elif approval is not None or grant is not None or answer.may_act_twice:
                if grant is not None and without is not None:
                    without |= {grant.stored.grant.grant_id}
                if why_not in UNCERTAIN:
                    without = None  # nobody can tell now, of the next one neither: the caller is not kept any longer
                void = approval if isinstance(state, Changed) else None
                return await self._ask_again(call, decision, session, without=without, void=void)
            else:
                expected_fence = answer.expected_fence

    async def _not_given(self, call: Call, decision: Decision, session: Session, approval: Approval) -> Outcome | None:
        """The refusal of an approval whose giver may not give it any more, asked as late as can be; None if all may."""
        code = await self._approver.refusal_of_givers(approval, deadline=session.deadline)
        if code is None:
            return None
        return await self._refusals.refuse(call, decision, "approver_not_entitled", reasons=(code,))

    async def _room(self, call: Call, decision: Decision, session: Session) -> Room | Outcome:
        """Room for the call to run; where there is none now, what the record knows of it, or room later, or a refusal.

        Nothing has been claimed or spent. An answer from the record needs no room.
        """
        room = self._capacity.enter(call)
        if isinstance(room, Room):
            return room
        if call.is_recorded:
            known = await self._store.effect(call.principal.tenant, call.operation_key)
            outcome = await self._known.answer(call, decision, lifecycle.ledger_answer(call, known), session)
            if outcome is not None:
                return outcome
        room = await self._capacity.wait(call, deadline=session.deadline)
        if isinstance(room, Room):
            return room
        self._meter.call_without_room(tool=call.contract.name, code=room.code)
        return await self._refusals.refuse(call, decision, room.code, retry_after_seconds=room.retry_after_seconds)

    async def _ask_again(
        self,
        call: Call,
        decision: Decision,
        session: Session,
        *,
        without: frozenset[GrantId] | None,
        void: Approval | None,
    ) -> Outcome:
        """The approval fitted an earlier dispatch or another state, the grant was used up meanwhile, or the row may act
        twice: somebody has to order this one anew.
        """
        if call.contract.approval is ApprovalMode.NEVER:
            return await self._refusals.refuse(
                call, decision, "denied", reasons=("may_act_twice", "contract_never_asks")
            )
        requirement = Requirement() if isinstance(decision, Deny) else decision.requirement
        reasons = decision.reasons if void is None else because_it_changed(decision.reasons)
        version, shadow = decision.policy_version, decision.shadow
        ask = Ask(reasons=reasons, policy_version=version, requirement=requirement, shadow=shadow)
        return await self._ask(call, ask, session, without=without, void=void)

    async def _claim_and_perform(self, call: Call, warrant: Warrant) -> Outcome | None:
        """The outcome, or None if the row, the approval or the grant is not what it was when we looked."""
        answer, dispatch = await self._dispatcher.claim(call, warrant)
        match answer:
            case Claimed():
                return await self._dispatcher.perform(dispatch)
            case Held() | NotUsable():  # somebody was faster, or took the approval back: look, and ask, again
                return None
            case OverBudget() | OutsideRun() | NotYourRun() | Stopped() | ToolClosed():
                return await self._refusals.step_refused(call, answer)
            case Voided() | InDoubt():
                return replies.unknown(call)

    def _warrant(
        self,
        call: Call,
        decision: Decision,
        session: Session,
        *,
        room: Room,
        expected_fence: int,
        approval: Approval | None = None,
        grant: Granted | None = None,
        state: bytes | None = None,
    ) -> Warrant:
        return Warrant(
            decision=decision,
            approval=approval,
            expected_fence=expected_fence,
            step=self._steps.of_call(call, decision),
            deadline=session.deadline,
            room=room,
            grant=grant,
            on_progress=session.on_progress,
            state=state,
        )

    def _contract_of(self, proposal: Proposal) -> Contract | None:
        return self._registry.tools[proposal.tool].contract if self._registry.knows(proposal.tool) else None


def _with_doubt(ask: Ask, answer: lifecycle.MayDispatch) -> Ask:
    return replace(ask, reasons=(*ask.reasons, "may_act_twice")) if answer.may_act_twice else ask

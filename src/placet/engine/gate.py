"""One proposal, or a batch, to its outcome: bind, decide, ask the ledger, ask a person, dispatch.

Nothing here raises but the caller's own cancellation, after the attempt is closed, and misuse of the API. A fault of
store, policy, clock or keys before dispatch is a refusal; after it, the outcome is Unknown.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from math import inf
from typing import Any

from placet.engine import replies
from placet.engine.approving import Approver, Finding, RefusedBefore, Suspect, Waiting
from placet.engine.chronicle import Chronicle
from placet.engine.desk import Desk
from placet.engine.dispatch import Dispatcher, InDoubt, Warrant
from placet.engine.faults import told
from placet.engine.reconciler import Reconciler
from placet.engine.refusals import Refusals, Rejection
from placet.engine.registry import Registry
from placet.engine.session import Session
from placet.engine.settings import GateSettings
from placet.errors import InvalidProposal, MisuseError, PlacetError, ProtocolRejected, StoreError
from placet.model.approval import Approval
from placet.model.audit import AuditOutcome, EventKind
from placet.model.call import Call
from placet.model.contract import MAX_ATTEMPTS_PER_CALL, UNKNOWN_TOOL_LABEL, ApprovalMode, Contract
from placet.model.decision import Allow, Ask, Decision, Deny, Requirement
from placet.model.effect import Effect
from placet.model.identifiers import CallId, PolicyVersion, RequestId, RunId
from placet.model.ledger import Claimed, Halted, Held, NotUsable, NotYourRun, OverBudget, Recorded, Step, Voided
from placet.model.outcome import NotRun, Outcome, Refused
from placet.model.principal import Principal, is_identity, is_principal
from placet.model.proposal import Proposal
from placet.ports.clock import Clock, IdSource
from placet.ports.meter import Meter
from placet.ports.policy import PolicyEngine
from placet.ports.store import Store
from placet.ports.transport import Transport
from placet.ports.waiting import foreign, paying, raise_owed_cancellation
from placet.rules import lifecycle, operations, proposals
from placet.rules import policy as policy_rules
from placet.rules.audit import ChainReport, Linker, verify_chains
from placet.rules.policy import READ_EFFECTS_SCOPE

_log = logging.getLogger("placet.gate")
_FIRST_LOOK_SECONDS = 0.005
_LONGEST_LOOK_SECONDS = 0.2
_LEAST_PATIENCE_SECONDS = 0.5
_ENDING_SECONDS = 10.0
"""How long cancelled submissions may take to close their attempts and settle; the store's own waiting fits in."""


class Submissions:
    """Who is inside. Once it closes nobody comes in, and whoever does not leave in time is cancelled."""

    def __init__(self, *, grace_seconds: float) -> None:
        self._patience_seconds = max(_LEAST_PATIENCE_SECONDS, grace_seconds)
        self._inside: set[asyncio.Task[Any]] = set()
        self._left = asyncio.Event()
        self._is_closed = False
        self._process = os.getpid()

    @contextmanager
    def entered(self) -> Iterator[None]:
        """The current task is inside for as long as this lasts.

        Raises:
            MisuseError: the gate is closed, or another process's.
        """
        if self._is_closed:
            raise MisuseError("The gate is closed.", hint="Open another with placet.open.")
        if os.getpid() != self._process:
            raise MisuseError("The gate belongs to another process: open a gate after the fork.")
        task = asyncio.current_task()
        if task is None or task in self._inside:
            yield
            return
        self._inside.add(task)
        try:
            yield
        finally:
            self._inside.discard(task)
            self._left.set()

    async def close(self) -> None:
        """Let nobody in; wait a while for those inside, then cancel them and wait until their attempts are settled."""
        self._is_closed = True
        await self._emptied(self._patience_seconds)
        for task in self._inside:
            task.cancel()
        await self._emptied(self._patience_seconds + _ENDING_SECONDS)

    async def _emptied(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self._inside:
                    self._left.clear()
                    await self._left.wait()


class Gate:
    """Stands between proposals and tools. Use it from one event loop; open it with `placet.open`.

    Attributes:
        desk: where people see and decide approvals.
        reconciler: where unknown effects are settled.
    """

    def __init__(
        self,
        *,
        registry: Registry,
        store: Store,
        policy: PolicyEngine,
        transport: Transport,
        chronicle: Chronicle,
        dispatcher: Dispatcher,
        refusals: Refusals,
        submissions: Submissions,
        approver: Approver,
        desk: Desk,
        reconciler: Reconciler,
        clock: Clock,
        ids: IdSource,
        meter: Meter,
        settings: GateSettings,
        linker: Linker,
    ) -> None:
        self._registry = registry
        self._store = store
        self._policy = policy
        self._transport = transport
        self._chronicle = chronicle
        self._dispatcher = dispatcher
        self._refusals = refusals
        self._submissions = submissions
        self._approver = approver
        self._clock = clock
        self._ids = ids
        self._meter = meter
        self._settings = settings
        self._linker = linker
        self.desk = desk
        self.reconciler = reconciler

    async def announce(self) -> None:
        """Put on record which generic executors were let in, each time a gate opens with them."""
        events = tuple(
            self._chronicle.event(
                EventKind.OVERRIDE_DECLARED,
                self._chronicle.of_contract(contract),
                detail="generic_executor",
                model_suggested=False,
            )
            for contract in self._registry
            if contract.generic_executor_reason is not None
        )
        if events:
            await self._store.record(events)

    # ------------------------------------------------------------ entrances

    async def submit(
        self,
        proposal: object,
        *,
        principal: Principal,
        run: str,
        request_id: str | None = None,
        idempotency_key: str | None = None,
        timeout_seconds: float | None = None,
    ) -> Outcome:
        """One proposal to its outcome.

        Args:
            proposal: a `Proposal` or a plain dict of call_id, tool, arguments[, version, attempt]; untrusted.
            principal: who acts; from authentication, never from the proposal.
            run: the conversation or job the call belongs to; call ids are unique within it.
            idempotency_key: names the operation if the contract does not; asking twice under it is asking once.
            timeout_seconds: how long to wait in all; the settings' `call_seconds` if absent.

        Returns:
            One of the outcomes; asking again with the same proposal never acts twice.

        Raises:
            asyncio.CancelledError: the caller was cancelled; the attempt has been closed.
            MisuseError: the keyword arguments have no meaning, or the gate is closed; nothing ran.
        """
        with self._submissions.entered():
            session = self._session(principal, run, request_id, idempotency_key, timeout_seconds)
            outcomes = await self._batch([proposal], session, stop_on_failure=False)
            await raise_owed_cancellation()
            return outcomes[0]

    async def submit_all(
        self,
        batch: Sequence[object],
        *,
        principal: Principal,
        run: str,
        request_id: str | None = None,
        timeout_seconds: float | None = None,
    ) -> tuple[Outcome, ...]:
        """All proposals of one model turn, in order; one outcome each, whatever becomes of the others.

        A malformed member, or a call id that occurs twice, stops the whole batch before anything in it runs.
        """
        with self._submissions.entered():
            session = self._session(principal, run, request_id, None, timeout_seconds)
            outcomes = await self._batch(_members(batch), session, stop_on_failure=False)
            await raise_owed_cancellation()
            return outcomes

    async def submit_until_failure(
        self,
        batch: Sequence[object],
        *,
        principal: Principal,
        run: str,
        request_id: str | None = None,
        timeout_seconds: float | None = None,
    ) -> tuple[Outcome, ...]:
        """Like `submit_all`, but after the first outcome that is no success the rest are `NotRun`."""
        with self._submissions.entered():
            session = self._session(principal, run, request_id, None, timeout_seconds)
            outcomes = await self._batch(_members(batch), session, stop_on_failure=True)
            await raise_owed_cancellation()
            return outcomes

    def tools_for(self, principal: Principal) -> tuple[Contract, ...]:
        """The tools this principal may see. Seeing is not yet being allowed; a policy that fails lists nothing."""
        if not is_principal(principal):
            return ()
        return tuple(
            contract
            for contract in self._registry
            if (contract.allowed_tenants is None or principal.tenant in contract.allowed_tenants)
            and _is_listed(self._policy, contract, principal)
        )

    @paying
    async def explain(self, proposal: object, *, principal: Principal, run: str) -> Decision | Outcome:
        """What policy would say, without running, asking or recording anything; an outcome if it makes no call."""
        session = self._session(principal, run, None, None, None)
        if not is_principal(principal):
            return Deny(reasons=("principal_malformed",), policy_version=PolicyVersion("unavailable"))
        try:
            checked = proposals.read_proposal(proposal)
            call = self._bind(checked, session)
        except InvalidProposal as error:
            return replies.invalid(error, call_id=proposals.audit_substitutes(proposal)[0], contract=None)
        except BaseException as fault:
            _log.error("binding failed", extra=told(fault))
            call_id, name, _ = proposals.audit_substitutes(proposal)
            tool = self._label(name)
            return replies.refused("boundary_unavailable", call_id=call_id, tool=tool, reasons=("internal_fault",))
        return await self._decide(call, session)

    def verify_audit(self, *, anchors: dict[str, tuple[int, str]] | None = None) -> ChainReport:
        """Hold the store's whole audit against its chains, its heads and, if given, anchors kept outside."""
        store = self._store
        return verify_chains(store.chained(), store.heads(), self._linker, anchors=anchors, later_heads=store.heads)

    @property
    def store(self) -> Store:
        """The store, for looking; whoever writes to it goes around the gate."""
        return self._store

    # ------------------------------------------------------------ batch

    async def _batch(self, raw: list[object], session: Session, *, stop_on_failure: bool) -> tuple[Outcome, ...]:
        """The protocol of the whole batch is checked before anything in it runs (B006, B008)."""
        checked, rejected = self._read_all(raw)
        if rejected:
            return await self._reject_batch(raw, rejected, session)
        outcomes: list[Outcome] = []
        for index, proposal in enumerate(checked):
            outcome = await self._one(proposal, session)
            outcomes.append(outcome)
            is_spent = isinstance(outcome, Refused) and outcome.code == "budget_exhausted"
            if is_spent or (stop_on_failure and not outcome.is_success):
                rest = checked[index + 1 :]
                return (*outcomes, *(self._not_run(later.call_id, later.tool) for later in rest))
        return tuple(outcomes)

    def _read_all(self, raw: list[object]) -> tuple[list[Proposal], dict[int, ProtocolRejected]]:
        limit = proposals.MAX_BATCH
        if len(raw) > limit:  # asked first, so that a flood costs one rejection
            return [], {limit: ProtocolRejected(f"a batch has at most {limit} calls")}
        checked: list[Proposal] = []
        rejected: dict[int, ProtocolRejected] = {}
        seen: set[CallId] = set()
        for index, item in enumerate(raw):
            try:
                proposal = proposals.read_proposal(item)
            except ProtocolRejected as error:
                rejected[index] = error
                continue
            if proposal.call_id in seen and not rejected:
                rejected[index] = ProtocolRejected("two calls share one id", error_type="DuplicateToolCallId")
            seen.add(proposal.call_id)
            checked.append(proposal)
        return checked, rejected

    async def _reject_batch(
        self, raw: list[object], rejected: dict[int, ProtocolRejected], session: Session
    ) -> tuple[Outcome, ...]:
        rejections: list[Rejection] = []
        for index, error in rejected.items():
            call_id, name, attempt = proposals.audit_substitutes(raw[index])
            rejections.append(Rejection(error=error, call_id=call_id, name=name, attempt=attempt))
        answers = dict(zip(rejected, await self._refusals.invalid_together(rejections, session), strict=True))
        return tuple(
            answers[index] if index in answers else self._not_run(*proposals.audit_substitutes(item)[:2])
            for index, item in enumerate(raw)
        )

    def _not_run(self, call_id: str, name: str | None) -> NotRun:
        return replies.not_run(call_id=call_id, tool=self._label(name))

    def _label(self, name: str | None) -> str:
        return name if name is not None and self._registry.knows(name) else UNKNOWN_TOOL_LABEL

    # ------------------------------------------------------------ the path of one call

    async def _one(self, proposal: Proposal, session: Session) -> Outcome:
        """bind → decide → (approval) → dispatch. Each line is one step of the path; each fault has one answer."""
        if not is_principal(session.principal):
            return await self._refusals.refuse_nobody(proposal, session, self._contract_of(proposal))
        try:
            call = self._bind(proposal, session)
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
            decision = await self._decide(call, session)
            self._meter.decided(decision=type(decision).__name__.lower())
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

    def _bind(self, proposal: Proposal, session: Session) -> Call:
        """A proposal becomes a call: exact tool, checked arguments, digest and key.

        Raises:
            InvalidProposal: nothing ran, and nothing was decided.
        """
        tool = self._registry.require(proposal.tool, proposal.version)
        contract = tool.contract
        if proposal.attempt + contract.retry.max_attempts - 1 > MAX_ATTEMPTS_PER_CALL:
            raise ProtocolRejected("the attempt leaves no room for retries below 100")
        arguments, canonical = tool.check_arguments(proposal.arguments)
        return Call(
            contract=contract,
            principal=session.principal,
            request_id=session.request_id,
            run_id=session.run_id,
            call_id=proposal.call_id,
            reply_to=proposal.call_id,
            first_attempt=proposal.attempt,
            arguments=arguments,
            canonical_arguments=canonical,
            argument_digest=operations.argument_digest(contract.name, canonical),
            fingerprint=operations.fingerprint(contract.name, canonical),
            operation_key=operations.operation_key(
                contract,
                arguments,
                session.principal,
                run_id=session.run_id,
                call_id=proposal.call_id,
                caller_key=session.caller_key,
            ),
            resource=operations.resource(contract, arguments),
            is_recorded=contract.effect_class.is_write
            or session.caller_key is not None
            or operations.is_business_key(contract),
        )

    async def _decide(self, call: Call, session: Session) -> Decision:
        """Policy's word and the contract's own, the stricter; every fault in deciding is a deny (G4)."""
        patience = session.deadline - self._clock.monotonic()
        decision = await foreign(_answer(self._policy, call, patience), timeout_seconds=None)
        if not policy_rules.is_sound(decision):
            return Deny(reasons=("policy_failed",), policy_version=PolicyVersion("unavailable"))
        return policy_rules.effective(decision, call)

    async def _read(self, call: Call, decision: Allow, session: Session) -> Outcome:
        if not self._transport.has_room(call.contract.name):
            return await self._refusals.refuse(call, decision, "capacity")
        return await self._dispatcher.read(call, self._warrant(call, decision, session, expected_fence=0))

    async def _ask(self, call: Call, decision: Ask, session: Session) -> Outcome:
        """Deny came first; now the ledger answers; only a new dispatch needs a person.

        A read that needs a person is kept in the ledger too, so that its approval is spent once.
        """
        call = replace(call, is_recorded=True)
        if await self._store.effect(call.principal.tenant, call.operation_key) is None:  # its own record comes first
            call = await self._approver.adopted(call, decision)
        while True:
            known = await self._store.effect(call.principal.tenant, call.operation_key)
            answer = lifecycle.ledger_answer(call, known)
            if not isinstance(answer, lifecycle.MayDispatch):
                outcome = await self._from_ledger(call, decision, answer, session)
                if outcome is None:
                    continue
                return outcome
            number = answer.expected_fence
            asked = (
                replace(decision, reasons=(*decision.reasons, "may_act_twice")) if answer.may_act_twice else decision
            )
            step = self._step(call, asked, session)
            found = await self._approver.approval_for(call, asked, step, dispatch_number=number)
            if isinstance(found, Approval):
                return await self._dispatch(call, asked, session, approval=found, expected_fence=number)
            return await self._not_approved(call, asked, found)

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
            case Suspect(approval=approval, misfit=misfit):
                facts = self._chronicle.of_call(call, ask)  # nothing of an altered row is repeated but its name
                facts["approval_id"] = approval.question.approval_id[:200] or "unknown"
                alarm = self._chronicle.event(EventKind.APPROVAL_SUSPECT, facts, detail=misfit.value)
                await self._store.record((alarm,))
                return await self._refusals.refuse(call, ask, "approval_suspect", reasons=(misfit.value,))
            case OverBudget() | NotYourRun() | Halted():
                return await self._refusals.step_refused(call, found)
            case Approval():
                raise AssertionError("an approval is dispatched")

    async def _dispatch(
        self,
        call: Call,
        decision: Decision,
        session: Session,
        *,
        approval: Approval | None = None,
        expected_fence: int = 0,
    ) -> Outcome:
        """Claim and perform; where the row is held, answer from the ledger or try again with the fence it has."""
        if not self._transport.has_room(call.contract.name):
            return await self._refusals.refuse(call, decision, "capacity")
        while True:
            warrant = self._warrant(call, decision, session, expected_fence=expected_fence, approval=approval)
            claimed = await self._claim_and_perform(call, warrant)
            if claimed is not None:
                return claimed
            known = await self._store.effect(call.principal.tenant, call.operation_key)
            answer = lifecycle.ledger_answer(call, known)
            if not isinstance(answer, lifecycle.MayDispatch):
                outcome = await self._from_ledger(call, decision, answer, session)
                if outcome is not None:
                    return outcome
            elif approval is not None or answer.may_act_twice:
                return await self._ask_again(call, decision, session)
            else:
                expected_fence = answer.expected_fence

    async def _ask_again(self, call: Call, decision: Decision, session: Session) -> Outcome:
        """The approval fitted an earlier dispatch, or the row may act twice: only a person may order this one."""
        if call.contract.approval is ApprovalMode.NEVER:
            return await self._refusals.refuse(
                call, decision, "denied", reasons=("may_act_twice", "contract_never_asks")
            )
        requirement = Requirement() if isinstance(decision, Deny) else decision.requirement
        ask = Ask(reasons=decision.reasons, policy_version=decision.policy_version, requirement=requirement)
        return await self._ask(call, ask, session)

    async def _claim_and_perform(self, call: Call, warrant: Warrant) -> Outcome | None:
        """The outcome, or None if the row, or the approval, is not what it was when we looked."""
        answer, dispatch = await self._dispatcher.claim(call, warrant)
        match answer:
            case Claimed():
                return await self._dispatcher.perform(dispatch)
            case Held() | NotUsable():  # somebody was faster, or took the approval back: look, and ask, again
                return None
            case OverBudget() | NotYourRun() | Halted():
                return await self._refusals.step_refused(call, answer)
            case Voided() | InDoubt():
                return replies.unknown(call)

    # ------------------------------------------------------------ what the ledger knows

    async def _from_ledger(
        self, call: Call, decision: Decision, answer: lifecycle.LedgerAnswer, session: Session
    ) -> Outcome | None:
        """Answer from the record; None when a running operation has ended and the ledger should be asked anew."""
        match answer:
            case lifecycle.MayDispatch():
                return None
            case _ if not self._may_know(call, answer.effect):
                return await self._known(call, decision, session, AuditOutcome.DENIED, "operation_of_another", None)
            case lifecycle.AlreadyDone(effect=effect):
                return await self._known(call, decision, session, AuditOutcome.REPLAYED, "replayed", effect)
            case lifecycle.NobodyKnows():
                return await self._known(call, decision, session, AuditOutcome.UNKNOWN, "effect_unknown", None)
            case lifecycle.OtherOperation():
                return await self._known(call, decision, session, AuditOutcome.CONFLICT, "operation_conflict", None)
            case lifecycle.WornOut():
                return await self._known(call, decision, session, AuditOutcome.DENIED, "attempts_exhausted", None)
            case lifecycle.StillRunning(effect=effect):
                if await self._ended(effect, session):
                    return None
                return await self._known(call, decision, session, AuditOutcome.CONFLICT, "in_progress", None)

    async def _known(
        self, call: Call, decision: Decision, session: Session, word: AuditOutcome, code: str, done: Effect | None
    ) -> Outcome:
        """Record that a known operation was asked for again, and answer."""
        facts = self._chronicle.of_call(call, decision)
        events = self._chronicle.pair(facts, word, attempt=call.first_attempt, detail=code)
        answer = await self._store.record(events, step=self._step(call, decision, session))
        if not isinstance(answer, Recorded):
            return await self._refusals.step_refused(call, answer)
        match code:
            case "replayed" if done is not None:
                result, unavailable = self._dispatcher.result_of(call, done)
                return replies.replayed(call, result, unavailable=unavailable)
            case "effect_unknown":
                return replies.unknown(call)
            case "operation_conflict":
                return replies.conflict(call)
            case "in_progress":
                return replies.in_progress(call)
            case _:
                return replies.refused_call(call, code)

    def _may_know(self, call: Call, effect: Effect) -> bool:
        """Details go to the operation's own principal and to holders of `effects.read`; to nobody else (DESIGN 10)."""
        return effect.subject == call.principal.identity or READ_EFFECTS_SCOPE in call.principal.scopes

    async def _ended(self, effect: Effect, session: Session) -> bool:
        """Wait, within the caller's patience, for a running operation to leave `dispatched`."""
        pause = _FIRST_LOOK_SECONDS
        while (left := session.deadline - self._clock.monotonic()) > 0:
            await self._clock.sleep(min(pause, left))
            current = await self._store.effect(effect.tenant, effect.operation_key)
            if current is None or current.state is not effect.state or current.fence != effect.fence:
                return True
            pause = min(pause * 2, _LONGEST_LOOK_SECONDS)
        return False

    # ------------------------------------------------------------ small things

    def _session(
        self,
        principal: Principal,
        run: str,
        request_id: str | None,
        idempotency_key: str | None,
        timeout_seconds: float | None,
    ) -> Session:
        if not is_identity(run):
            raise MisuseError("run= names the conversation or job: text of 1 to 128 characters.")
        if request_id is not None and not is_identity(request_id):
            raise MisuseError("request_id= is text of 1 to 128 characters.")
        if idempotency_key is not None and not is_identity(idempotency_key):
            raise MisuseError("idempotency_key= is text of 1 to 128 characters.")
        patience = self._settings.call_seconds if timeout_seconds is None else timeout_seconds
        if type(patience) not in (int, float) or not 0 < patience < float("inf"):
            raise MisuseError("timeout_seconds= is a finite number above zero.")
        deadline = self._clock.monotonic() + patience  # where the clock fails, it has passed
        return Session(
            principal=principal,
            run_id=RunId(run),
            request_id=RequestId(request_id or self._ids.new_id("req")),
            caller_key=idempotency_key,
            deadline=deadline if deadline < inf else -inf,
        )

    def _warrant(
        self,
        call: Call,
        decision: Decision,
        session: Session,
        *,
        expected_fence: int,
        approval: Approval | None = None,
    ) -> Warrant:
        return Warrant(
            decision=decision,
            approval=approval,
            expected_fence=expected_fence,
            step=self._step(call, decision, session),
            deadline=session.deadline,
        )

    def _step(self, call: Call, decision: Decision, session: Session) -> Step:
        return Step(
            tenant=call.principal.tenant,
            run_id=session.run_id,
            call_id=call.reply_to,
            subject=call.principal.identity,
            policy_version=decision.policy_version,
            max_steps=self._settings.max_steps,
        )

    def _contract_of(self, proposal: Proposal) -> Contract | None:
        return self._registry.tools[proposal.tool].contract if self._registry.knows(proposal.tool) else None


def _members(batch: object) -> list[object]:
    if type(batch) is list or type(batch) is tuple:
        return list(batch)
    raise MisuseError("A batch is a list or a tuple of proposals.")


async def _answer(policy: PolicyEngine, call: Call, patience: float) -> object:
    """What the policy says, as one piece of foreign code: its budget, its call and its waiting.

    Its first step is taken here, so that only a policy that really waits pays for a timer.
    """
    seconds = policy.timeout_seconds
    steps = policy.decide(call).__await__()
    try:
        waits_for = next(steps)
    except StopIteration as done:
        answer: object = done.value
        return answer
    async with asyncio.timeout(patience if seconds is None else min(seconds, patience)):
        return await _Begun(waits_for, steps)


class _Begun:
    """An awaitable whose first step has been taken already."""

    def __init__(self, waits_for: object, steps: Generator[Any, Any, object]) -> None:
        self._waits_for: object = waits_for
        self._has_said = False
        self._steps = steps

    def __await__(self) -> Any:
        return self

    def __iter__(self) -> Any:
        return self

    def __next__(self) -> object:
        if self._has_said:
            return next(self._steps)
        self._has_said = True
        return self._waits_for

    def throw(self, *error: Any) -> object:
        return self._steps.throw(*error)

    def close(self) -> None:
        self._steps.close()


def _is_listed(policy: PolicyEngine, contract: Contract, principal: Principal) -> bool:
    try:
        return policy.is_listed(contract, principal) is True
    except BaseException:  # a made-up cancellation included: nothing is waited for here
        return False

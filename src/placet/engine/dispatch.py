"""From a decided call to its outcome: claim, attempt, settle. The only code that lets a handler run.

claim   one commit: the effect is dispatched and its started event durable, or nothing runs
──────  point of no return
attempt handler under a deadline; a further attempt costs a turn, one commit
settle  one commit: effect, result and completed event; if it cannot be made, the outcome is Unknown
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from math import inf
from typing import Any

from placet.engine import replies
from placet.engine.chronicle import Chronicle
from placet.engine.faults import told
from placet.engine.herald import Herald
from placet.engine.refusals import Refusals
from placet.engine.registry import Registry
from placet.engine.settings import GateSettings
from placet.errors import (
    READ_GIVEN_UP,
    InvalidArguments,
    KeyMaterialError,
    NotFound,
    NotSent,
    PlacetError,
    StoreError,
    StoreInDoubt,
    StoreUnavailable,
)
from placet.model.approval import Approval
from placet.model.attempt import Answered, CallerLeft, DeadlinePassed, Raised, Rejected, Report, Returned, Unsent
from placet.model.audit import AuditEvent, AuditOutcome, EventKind
from placet.model.call import Call
from placet.model.context import CallContext
from placet.model.contract import MAX_ATTEMPTS_PER_CALL, EffectClass, Isolation
from placet.model.decision import Decision
from placet.model.effect import Effect, EffectState
from placet.model.identifiers import Digest, OwnerId, Token
from placet.model.json import JsonValue
from placet.model.ledger import (
    Claim,
    ClaimAnswer,
    Claimed,
    Held,
    MoveAnswer,
    Moved,
    NotMoved,
    OpenRead,
    Place,
    Recorded,
    Settlement,
    Spend,
    Step,
    Turn,
)
from placet.model.outcome import Outcome
from placet.ports.clock import Clock, IdSource, elapsed_seconds
from placet.ports.keys import Keys
from placet.ports.store import Store
from placet.ports.transport import Transport
from placet.ports.waiting import owe_cancellation, takes_owed_cancellation
from placet.rules import retry
from placet.rules.canonical import canonical_bytes, sha256_hex
from placet.rules.retry import Knowledge

_log = logging.getLogger("placet.dispatch")
_OUR_FAULT = Raised(error_type="internal_fault", is_transient=False)
_DOUBT_REPEATS = 3
"""How often a verb whose answer was lost is repeated with its token before we give up learning."""
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.05, 2.0
"""Between tries to settle while the store does not serve."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Warrant:
    """Why a call may be dispatched, and against what the ledger said."""

    decision: Decision
    approval: Approval | None
    expected_fence: int
    step: Step
    deadline: float
    """When the caller stops waiting, on the monotonic clock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InDoubt:
    """The claim may stand, and the store does not say; nothing was sent by us."""


@dataclass(slots=True, kw_only=True)
class _Dispatch:
    """One dispatch on its way; the only mutable thing here, owned by one task.

    Attributes:
        token, fence: what the ledger row must still carry for us to change it; empty and 0 for a read.
        submitted: when the claim or the last turn was submitted, on the monotonic clock; `send_by` counts from it.
        window: seconds from `submitted` within which a first byte may leave.
    """

    call: Call
    facts: dict[str, Any]
    started: AuditEvent
    token: Token
    fence: int
    attempt: int
    first_submitted: float
    submitted: float
    submitted_at: datetime
    window: float
    deadline: float
    began: float = 0.0
    place: Place | None = None


class Dispatcher:
    """Runs what has been decided."""

    def __init__(
        self,
        *,
        registry: Registry,
        store: Store,
        transport: Transport,
        chronicle: Chronicle,
        herald: Herald,
        refusals: Refusals,
        keys: Keys,
        clock: Clock,
        ids: IdSource,
        settings: GateSettings,
        owner: OwnerId,
        count_settled: Callable[[str], None],
    ) -> None:
        self._registry = registry
        self._store = store
        self._transport = transport
        self._chronicle = chronicle
        self._herald = herald
        self._refusals = refusals
        self._keys = keys
        self._clock = clock
        self._ids = ids
        self._settings = settings
        self._owner = owner
        self._count_settled = count_settled
        self._late: set[asyncio.Task[None]] = set()
        self._is_closed = False
        self._performing: set[Token] = set()
        self.in_flight = 0

    # ------------------------------------------------------------ recorded operations

    async def claim(self, call: Call, warrant: Warrant) -> tuple[ClaimAnswer | InDoubt, _Dispatch]:
        """Take the operation for one dispatch; approval, step and limits are spent in the same commit.

        Raises:
            StoreError: nothing was claimed, and it never will be.
        """
        facts = self._chronicle.of_call(call, warrant.decision, warrant.approval)
        fence = warrant.expected_fence + 1
        started = self._chronicle.started(facts, attempt=call.first_attempt, fence=fence)
        dispatch = _Dispatch(
            call=call,
            facts=facts,
            started=started,
            token=Token(self._ids.new_id("t")),
            fence=fence,
            attempt=call.first_attempt,
            first_submitted=self._clock.monotonic(),
            submitted=self._clock.monotonic(),
            submitted_at=self._instant(),
            window=self._window(call, warrant.deadline),
            deadline=warrant.deadline,
        )
        claim = self._claim_of(call, warrant, dispatch)
        has_doubt = False
        refusal: ClaimAnswer | None = None
        for _ in range(_DOUBT_REPEATS):
            try:
                answer = await self._store.claim(claim)
            except StoreInDoubt:
                has_doubt = True  # the same claim again: the token on the row decides
                continue
            except PlacetError:
                if not has_doubt:
                    raise
                continue
            if not has_doubt or isinstance(answer, Claimed | Held):
                return answer, dispatch
            refusal = answer
            break
        cleared = await self._without_doubt(claim, refusal)
        if isinstance(cleared, InDoubt):
            dispatch.began = dispatch.submitted
            self._background(self._insist(lambda: self._close_unsent(claim, dispatch)))
        return cleared, dispatch

    async def _without_doubt(self, claim: Claim, refusal: ClaimAnswer | None) -> ClaimAnswer | InDoubt:
        """After a lost answer "not run" is told only once the lost try can never land."""
        try:
            if not await self._store.void(claim.tenant, claim.operation_key, claim.token):
                return await self._store.claim(claim)
        except PlacetError:
            return InDoubt()
        if refusal is not None:
            return refusal
        raise StoreUnavailable("The claim was not acknowledged, and has been voided.")

    async def _close_unsent(self, claim: Claim, dispatch: _Dispatch) -> None:
        """The end of a claim in doubt: voided, or, if it has landed, failed; we sent nothing under it."""
        if not await self._store.void(claim.tenant, claim.operation_key, claim.token):
            await self._write(dispatch, EffectState.FAILED, "not_sent", Unsent())

    async def perform(self, dispatch: _Dispatch) -> Outcome:
        """Run a claimed call to its outcome. The effect is dispatched; whatever happens now is settled."""
        self.in_flight += 1
        self._performing.add(dispatch.token)
        try:
            if not await self._herald.before_dispatch(dispatch.started):
                return await self._settle_unsent(dispatch)
            report, has_doubt = await self._attempts(dispatch)
            return await self._settle(dispatch, report, has_doubt=has_doubt)
        except Exception as fault:  # a fault of our own after the point of no return: it may have acted
            _log.error("dispatch failed", extra={"tool": dispatch.call.contract.name, **told(fault)})
            await self._write(dispatch, EffectState.UNKNOWN, "internal_fault", _OUR_FAULT)
            return replies.unknown(dispatch.call)
        finally:
            self._performing.discard(dispatch.token)
            self.in_flight -= 1

    def is_performing(self, effect: Effect) -> bool:
        """Whether this very process is at work on the row; its own recovery then leaves it alone."""
        return effect.token in self._performing

    async def _attempts(self, dispatch: _Dispatch) -> tuple[Report, bool]:
        """Attempt until something is certain, patience ends, or the ledger says stop."""
        has_doubt = False
        while True:
            report = await self._attempt(dispatch)
            has_doubt |= retry.knowledge(dispatch.call.contract.effect_class, report) is Knowledge.CANNOT_TELL
            wait = self._wait_before_next(dispatch, report, has_doubt=has_doubt)
            if wait is None or not await self._wait(wait):
                return report, has_doubt
            if not await self._turn(dispatch, report):
                return report, has_doubt
            if not await self._herald.before_dispatch(dispatch.started):
                return Unsent(), has_doubt

    async def _turn(self, dispatch: _Dispatch, report: Report) -> bool:
        """Close this attempt and open the next in one commit; false if the ledger does not agree."""
        call = dispatch.call
        closing = self._closing(dispatch, report)
        opening = self._chronicle.started(dispatch.facts, attempt=dispatch.attempt + 1, fence=dispatch.fence)
        submitted, submitted_at = self._clock.monotonic(), self._instant()
        window = self._window(call, dispatch.deadline)
        turn = Turn(
            tenant=call.principal.tenant,
            operation_key=call.operation_key,
            fence=dispatch.fence,
            attempt=dispatch.attempt,
            lease_seconds=self._settings.lease_seconds,
            send_window_seconds=window,
            max_attempts=MAX_ATTEMPTS_PER_CALL,
            events=(closing, opening),
        )
        for _ in range(_DOUBT_REPEATS):
            try:
                answer = await self._store.turn(turn)
            except StoreInDoubt:
                continue
            except PlacetError:
                return False
            if isinstance(answer, NotMoved):
                return False
            dispatch.attempt += 1
            dispatch.started = opening
            dispatch.began = dispatch.submitted = submitted
            dispatch.submitted_at, dispatch.window = submitted_at, window
            return True
        return False

    async def _settle(self, dispatch: _Dispatch, report: Report, *, has_doubt: bool) -> Outcome:
        """Write what is known; the answer follows what the ledger then says, never the report alone."""
        call = dispatch.call
        match report:
            case Returned(value=value):
                result, canonical, broken = self._checked(call, value)
                settled = await self._write(
                    dispatch, EffectState.COMMITTED, broken or "returned", report, result=result, canonical=canonical
                )
                if not settled:
                    return replies.unknown(call)
                if broken is not None:
                    return replies.performed_without_result(call, broken)
                return replies.succeeded(call, result)
            case _ if has_doubt:
                await self._write(dispatch, EffectState.UNKNOWN, _reason(report), report)
                if isinstance(report, DeadlinePassed) and report.late is not None:
                    self._hear(dispatch, report.late)
                return replies.unknown(call)
            case _:
                settled = await self._write(dispatch, EffectState.FAILED, _reason(report), report)
                return self._failure(call, report) if settled else replies.unknown(call)

    async def _settle_unsent(self, dispatch: _Dispatch) -> Outcome:
        """A required sink did not hear: nothing is sent, the effect failed, the approval stays spent."""
        settled = await self._write(dispatch, EffectState.FAILED, "sink_failed", Unsent())
        if not settled:
            return replies.unknown(dispatch.call)
        return replies.refused_call(dispatch.call, "boundary_unavailable", reasons=("sink_failed",))

    async def _write(
        self,
        dispatch: _Dispatch,
        state: EffectState,
        reason: str,
        report: Report,
        *,
        result: JsonValue = None,
        canonical: bytes | None = None,
    ) -> bool:
        """Settle; whether the ledger now says so. After a lost answer the same settlement is repeated."""
        call = dispatch.call
        is_open = isinstance(report, DeadlinePassed | CallerLeft) and not report.has_ended
        has_ended = not is_open and report is not _OUR_FAULT  # after a fault of our own nobody knows that it has
        completed = self._closing(dispatch, report, state=state, reason=reason, result=result, canonical=canonical)
        late = self._chronicle.event(
            EventKind.EFFECT_RECONCILED,
            dispatch.facts,
            attempt=dispatch.attempt,
            fence=dispatch.fence,
            effect_state=EffectState.RECONCILED_COMMITTED.value,
            detail="late_word",
        )
        settlement = Settlement(
            tenant=call.principal.tenant,
            operation_key=call.operation_key,
            fence=dispatch.fence,
            token=dispatch.token,
            attempt=dispatch.attempt,
            state=state,
            reason=reason,
            attempt_has_ended=has_ended,
            sealed_result=self._sealed(call, canonical) if canonical is not None else None,
            result_digest=result_digest(canonical) if canonical is not None else None,
            external_reference=None,
            events=(completed,),
            late_events=(late,),
        )
        for _ in range(_DOUBT_REPEATS):
            try:
                answer = await self._settle_open_attempt(dispatch, settlement)
            except StoreInDoubt:
                continue
            except NotFound:
                return False  # somebody took the row out of the store
            except PlacetError:
                break
            return isinstance(answer, Moved) and answer.effect.state in (state, EffectState.RECONCILED_COMMITTED)
        self._background(self._insist(lambda: self._settle_open_attempt(dispatch, settlement)))
        return False

    async def _settle_open_attempt(self, dispatch: _Dispatch, settlement: Settlement) -> MoveAnswer:
        """Settle once; a turn whose answer was lost may have landed, and what it opened was never sent."""
        answer = await self._store.settle(settlement)
        opened = settlement.attempt + 1
        if isinstance(answer, NotMoved) and answer.reason == "other_attempt" and answer.effect.attempt == opened:
            unsent = self._closing(
                replace(dispatch, attempt=opened), Unsent(), state=settlement.state, reason=settlement.reason
            )
            answer = await self._store.settle(replace(settlement, attempt=opened, events=(unsent,)))
        if isinstance(answer, Moved) and answer.is_news:
            self._count_settled(answer.effect.state.value)
        return answer

    async def _insist(self, verb: Callable[[], Coroutine[Any, Any, object]]) -> None:
        """Close an attempt once the store serves again; until then our signs of life would keep others from it."""
        pause = _FIRST_PAUSE_SECONDS
        while not self._is_closed:
            try:
                await self._clock.sleep(pause)
            except PlacetError:
                await asyncio.sleep(pause)  # noqa: TID251  the clock failed; the loop has a time of its own
            pause = min(pause * 2.0, _LONGEST_PAUSE_SECONDS)
            try:
                await verb()
                return
            except NotFound:
                return
            except PlacetError as fault:
                if fault.code == READ_GIVEN_UP:
                    return

    # ------------------------------------------------------------ reads without a record

    async def read(self, call: Call, warrant: Warrant) -> Outcome:
        """Run a read: its started event is durable before, its completed event after; no effect is kept."""
        facts = self._chronicle.of_call(call, warrant.decision, warrant.approval)
        attempt = call.first_attempt
        started = self._chronicle.started(facts, attempt=attempt)
        opens = OpenRead(owner=self._owner, lease_seconds=self._settings.lease_seconds)
        answer = await self._store.record((started,), step=warrant.step, starts_tool=call.contract.name, opens=opens)
        if not isinstance(answer, Recorded):
            return await self._refusals.step_refused(call, answer)
        dispatch = _Dispatch(
            call=call,
            facts=facts,
            started=started,
            token=Token(""),
            place=answer.place,
            fence=0,
            attempt=attempt,
            first_submitted=self._clock.monotonic(),
            submitted=self._clock.monotonic(),
            submitted_at=self._instant(),
            window=self._window(call, warrant.deadline),
            deadline=warrant.deadline,
        )
        self.in_flight += 1
        try:
            if not await self._herald.before_dispatch(started):
                await self._read_outcome(dispatch, Unsent())
                return replies.refused_call(call, "boundary_unavailable", reasons=("sink_failed",))
            return await self._read_outcome(dispatch, await self._read_attempts(dispatch))
        except StoreError:
            raise
        except Exception as fault:  # one of our own; a read changed nothing, and its pair is closed all the same
            _log.error("read failed", extra={"tool": call.contract.name, **told(fault)})
            return await self._read_outcome(dispatch, _OUR_FAULT)
        finally:
            self.in_flight -= 1

    async def _read_attempts(self, dispatch: _Dispatch) -> Report:
        while True:
            report = await self._attempt(dispatch)
            wait = self._wait_before_next(dispatch, report, has_doubt=False)
            if wait is None or not await self._wait(wait):
                return report
            closing = self._closing(dispatch, report)
            opening = self._chronicle.started(dispatch.facts, attempt=dispatch.attempt + 1)
            opens = OpenRead(owner=self._owner, lease_seconds=self._settings.lease_seconds)
            try:
                answer = await self._store.record((closing, opening), opens=opens, closes=dispatch.place)
            except StoreError:
                return report
            dispatch.place = answer.place if isinstance(answer, Recorded) else dispatch.place
            dispatch.attempt += 1
            dispatch.began = dispatch.submitted = self._clock.monotonic()
            dispatch.submitted_at = self._instant()
            dispatch.window = self._window(dispatch.call, dispatch.deadline)
            if not await self._herald.before_dispatch(opening):
                return Unsent()

    async def _read_outcome(self, dispatch: _Dispatch, report: Report) -> Outcome:
        call = dispatch.call
        result, canonical, broken = (None, None, None)
        if isinstance(report, Returned):
            result, canonical, broken = self._checked(call, report.value)
        completed = self._closing(dispatch, report, reason=broken, result=result, canonical=canonical)
        try:
            await self._store.record((completed,), closes=dispatch.place)
        except StoreError:
            self._background(self._insist(lambda: self._store.record((completed,), closes=dispatch.place)))
            return replies.unknown(call)  # nothing was changed, but what was read is not on record, so it is not shown
        if broken is not None:
            return replies.failed(call, code="result_broken", words=None)
        if isinstance(report, Returned):
            return replies.succeeded(call, result)
        return self._failure(call, report)

    # ------------------------------------------------------------ one attempt

    async def _attempt(self, dispatch: _Dispatch) -> Report:
        """One invocation within its send window; past it nothing is sent."""
        call = dispatch.call
        last_send = dispatch.submitted + dispatch.window
        dispatch.began = self._clock.monotonic()
        remaining = last_send - dispatch.began
        if not 0.0 < remaining < inf or await takes_owed_cancellation():
            return Unsent()
        last_send_at = dispatch.submitted_at + timedelta(seconds=dispatch.window)
        if not self._may_send(last_send, last_send_at):
            return Unsent()
        context = CallContext(
            tenant=call.principal.tenant,
            principal=call.principal,
            run_id=call.run_id,
            call_id=call.call_id,
            operation_key=call.operation_key,
            attempt=dispatch.attempt,
            deadline_at=last_send_at,
            _remaining=lambda: max(0.0, last_send - self._clock.monotonic()),
            _guard=lambda: _guard(self._may_send(last_send, last_send_at)),
        )
        attempt = dispatch.attempt
        try:
            return await self._transport.attempt(
                call,
                context,
                timeout_seconds=remaining,
                when_late=lambda report: self._hear(dispatch, report, attempt=attempt),
            )
        except Exception:  # a transport may not raise; if one does, what it did is unknown
            return _OUR_FAULT

    def _instant(self) -> datetime:
        """Now; or, where the clock fails, an instant so long ago that nothing may be sent."""
        try:
            return self._chronicle.now()
        except PlacetError:
            return datetime.min.replace(tzinfo=UTC)

    def _may_send(self, last_send: float, last_send_at: datetime) -> bool:
        """Whether a first byte may leave, by both clocks: one may stand still while the host sleeps, one may be set."""
        try:
            return self._clock.monotonic() < last_send and self._chronicle.now() < last_send_at
        except PlacetError:  # a clock that fails says nothing
            return False

    def _hear(self, dispatch: _Dispatch, report: Report, attempt: int | None = None) -> None:
        """A word that came too late: evidence for the ledger, in a task of its own."""
        if self._is_closed or not dispatch.token or (attempt is not None and attempt != dispatch.attempt):
            return
        try:
            self._background(self._settle_late(dispatch, report))
        except RuntimeError:
            return  # the loop has ended

    async def _settle_late(self, dispatch: _Dispatch, report: Report) -> None:
        if isinstance(report, Returned):
            result, canonical, broken = self._checked(dispatch.call, report.value)
            reason = broken or "late_word"
            said = await self._write(
                dispatch, EffectState.COMMITTED, reason, report, result=result, canonical=canonical
            )
            if not said:
                _log.error("a late success contradicts the record", extra={"tool": dispatch.call.contract.name})
        else:
            await self._write(dispatch, EffectState.UNKNOWN, "late_word", report)

    def _background(self, work: Coroutine[Any, Any, None]) -> None:
        if self._is_closed:  # the store goes too; the lease tells the others
            work.close()
            return
        task = asyncio.get_running_loop().create_task(work)
        self._late.add(task)
        task.add_done_callback(self._late.discard)

    async def close(self) -> None:
        """Let late words that are being written reach the ledger, for a while; nothing is left running."""
        if self._late:
            await asyncio.wait(self._late, timeout=self._settings.grace_seconds)
        self._is_closed = True
        unfinished = tuple(self._late)
        for task in unfinished:
            task.cancel()
        await asyncio.gather(*unfinished, return_exceptions=True)

    # ------------------------------------------------------------ patience

    def _window(self, call: Call, deadline: float) -> float:
        return max(0.0, min(call.contract.timeout_seconds, deadline - self._clock.monotonic()))

    def _wait_before_next(self, dispatch: _Dispatch, report: Report, *, has_doubt: bool) -> float | None:
        """Seconds to wait before another attempt; None if there is to be none."""
        contract = dispatch.call.contract
        made = dispatch.attempt - dispatch.call.first_attempt + 1
        if (
            report is _OUR_FAULT
            or made >= contract.retry.max_attempts
            or not retry.may_retry(contract.effect_class, report)
        ):
            return None
        if not self._transport.has_room(contract.name):
            return None
        wait = retry.back_off_seconds(contract.retry, attempts_made=made, fraction=self._ids.fraction())
        asked = self._asked_to_wait(report)
        if asked is not None:
            wait += asked
        now = self._clock.monotonic()
        if now + wait >= dispatch.deadline:
            return None
        kept = contract.remote.key_retention_seconds
        is_doubtful_write = has_doubt and contract.effect_class is EffectClass.IDEMPOTENT_WRITE
        if is_doubtful_write and kept is not None and now + wait + dispatch.window - dispatch.first_submitted >= kept:
            return None  # by then the remote may have forgotten the key
        return wait

    def _asked_to_wait(self, report: Report) -> float | None:
        if not isinstance(report, Answered):
            return None
        try:
            return retry.retry_after_seconds(report.retry_after, now=self._chronicle.now())
        except PlacetError:
            return None

    async def _wait(self, seconds: float) -> bool:
        """Wait; false if the caller left meanwhile, which is owed to it."""
        try:
            await self._clock.sleep(seconds)
            return True
        except PlacetError:  # the clock failed
            return False
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None:
                task.uncancel()
            owe_cancellation()
            return False

    # ------------------------------------------------------------ words

    def _closing(
        self,
        dispatch: _Dispatch,
        report: Report,
        *,
        state: EffectState | None = None,
        reason: str | None = None,
        result: JsonValue = None,
        canonical: bytes | None = None,
    ) -> AuditEvent:
        """The completed event of the attempt that just ended."""
        outcome, error_type = _audit_word(report)
        if isinstance(report, Returned) and canonical is None and state is None:
            outcome, error_type = AuditOutcome.ERROR, "InvalidArguments"  # a read whose result broke its contract
        return self._chronicle.completed(
            dispatch.facts,
            outcome,
            attempt=dispatch.attempt,
            fence=dispatch.fence,
            seconds=elapsed_seconds(self._clock, dispatch.began),
            detail=reason,
            error_type=error_type,
            effect_state=state.value if state is not None else None,
            result=result,
            has_result=canonical is not None,
        )

    def _checked(self, call: Call, value: object) -> tuple[JsonValue, bytes | None, str | None]:
        """The returned value held against its contract: result and canonical form, or why there is none."""
        try:
            result, canonical = self._registry.require(call.contract.name, None).check_result(value)
        except InvalidArguments as broken:
            return None, None, broken.reason
        return result, canonical, None

    def _failure(self, call: Call, report: Report) -> Outcome:
        match report:
            case Rejected(message=words):
                return replies.failed(call, code="tool_rejected", words=words)
            case Unsent():
                return replies.failed(call, code="not_sent")
            case Answered(status=status) if status in retry.TRANSIENT_STATUSES:
                return replies.failed(call, code="remote_busy", retry_after_seconds=self._asked_to_wait(report))
            case DeadlinePassed():
                return replies.timed_out(call)
            case _:
                return replies.failed(call, code="tool_failed")

    def result_of(self, call: Call, effect: Effect) -> tuple[JsonValue, str | None]:
        """The recorded result of a finished operation, a fresh copy; or why it cannot be shown."""
        if effect.sealed_result is None:
            return None, effect.reason or "result_unavailable"
        try:
            binding = row_binding(effect.tenant, effect.operation_key, "result")
            canonical = self._keys.unseal(effect.sealed_result, bound_to=binding)
            if result_digest(canonical) == effect.result_digest:
                return self._registry.require(call.contract.name, None).read_result(canonical), None
        except (KeyMaterialError, InvalidArguments):
            pass
        return None, "record_altered"

    def _sealed(self, call: Call, canonical: bytes) -> bytes:
        return self._keys.seal(canonical, bound_to=row_binding(call.principal.tenant, call.operation_key, "result"))

    def _claim_of(self, call: Call, warrant: Warrant, dispatch: _Dispatch) -> Claim:
        contract, approval = call.contract, warrant.approval
        spend = None
        if approval is not None and approval.signature is not None:
            event = self._chronicle.event(EventKind.APPROVAL_SPENT, dispatch.facts, fence=dispatch.fence)
            spend = Spend(approval_id=approval.question.approval_id, signature=approval.signature.value, event=event)
        return Claim(
            tenant=call.principal.tenant,
            operation_key=call.operation_key,
            fingerprint=call.fingerprint,
            tool=contract.name,
            tool_version=contract.version,
            contract_digest=contract.digest,
            argument_digest=call.argument_digest,
            run_id=call.run_id,
            call_id=call.call_id,
            subject=call.principal.identity,
            policy_version=warrant.decision.policy_version,
            decision=str(dispatch.facts["decision"]),
            sealed_arguments=self._keys.seal(
                call.canonical_arguments,
                bound_to=row_binding(call.principal.tenant, call.operation_key, "arguments"),
            ),
            arrival_bound_seconds=contract.remote.arrival_bound_seconds or 0.0,
            ends_by_itself=contract.isolation is Isolation.ASYNC,
            first_attempt=call.first_attempt,
            expected_fence=warrant.expected_fence,
            token=dispatch.token,
            owner=self._owner,
            lease_seconds=self._settings.lease_seconds,
            send_window_seconds=dispatch.window,
            spend=spend,
            step=warrant.step,
            events=(dispatch.started,),
        )


def row_binding(tenant: str, operation_key: str, what: str) -> bytes:
    """What sealed data of a ledger row is bound to: moved to another row it does not open."""
    return canonical_bytes([1, what, tenant, operation_key])


def result_digest(canonical: bytes) -> Digest:
    return Digest(sha256_hex("placet/result/1", canonical))


def _guard(in_time: bool) -> None:
    if not in_time:
        raise NotSent("It is too late to send this attempt.")


def _reason(report: Report) -> str:
    """The fixed word that says why a row is where it is."""
    match report:
        case Returned():
            return "returned"
        case Rejected():
            return "rejected"
        case Unsent():
            return "not_sent"
        case Answered(status=status):
            return f"status_{status}"
        case Raised(error_type=error_type):
            return f"raised_{error_type}"
        case DeadlinePassed():
            return "deadline_passed"
        case CallerLeft():
            return "caller_left"


def _audit_word(report: Report) -> tuple[AuditOutcome, str | None]:
    """Only our own deadline is a timeout; whatever a handler raised is an error (B102)."""
    match report:
        case Returned():
            return AuditOutcome.SUCCESS, None
        case Rejected():
            return AuditOutcome.ERROR, "ToolRejected"
        case Unsent():
            return AuditOutcome.ERROR, "NotSent"
        case Answered():
            return AuditOutcome.ERROR, "RemoteStatus"
        case Raised(error_type=error_type):
            return AuditOutcome.ERROR, error_type
        case DeadlinePassed():
            return AuditOutcome.TIMEOUT, "DeadlinePassed"
        case CallerLeft():
            return AuditOutcome.ERROR, "CancelledError"

"""One attempt within its send window, and the patience between two."""

from __future__ import annotations

import asyncio
from asyncio import ensure_future
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from math import inf
from typing import TYPE_CHECKING, Any

from placet.engine.capacity import Room
from placet.engine.chronicle import Chronicle
from placet.engine.progressing import Progressing
from placet.engine.standing import Granted
from placet.errors import NotSent, PlacetError
from placet.model.approval import Approval
from placet.model.attempt import Answered, Raised, Report, Unsent
from placet.model.audit import AuditEvent
from placet.model.call import Call
from placet.model.call_progress import ProgressListener
from placet.model.context import CallContext, not_declared, not_heard
from placet.model.contract import EffectClass
from placet.model.decision import Decision
from placet.model.identifiers import Token
from placet.model.ledger import Place, Step
from placet.model.making import quick
from placet.ports.clock import Clock, IdSource
from placet.ports.transport import Transport
from placet.ports.waiting import owe_cancellation, owes_cancellation, takes_owed_cancellation
from placet.rules import retry
from placet.rules.preconditions import read_state

if TYPE_CHECKING:
    from placet.engine.co_commit import CoCommit

OUR_FAULT = Raised(error_type="internal_fault")
"""What is reported of an attempt that a fault of our own broke; by identity, as a handler may raise anything."""


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class Warrant:
    """Why a call may be dispatched, and against what the ledger said.

    Attributes:
        deadline: when the caller stops waiting, on the monotonic clock.
        grant: the standing grant that says yes in the place of an approval.
        on_progress: hears how far the attempts are.
        state: what the approval is bound to, as it was read right before; None where it is bound to nothing.
    """

    decision: Decision
    approval: Approval | None
    expected_fence: int
    step: Step
    deadline: float
    room: Room
    grant: Granted | None = None
    on_progress: ProgressListener | None = None
    state: bytes | None = field(default=None, repr=False)


@dataclass(slots=True, kw_only=True)
class Dispatch:
    """One dispatch on its way; the only mutable thing here, owned by one task.

    Attributes:
        token, fence: what the ledger row must still carry for us to change it; empty and 0 for a read.
        submitted: when the claim or the last turn was submitted, on the monotonic clock; `send_by` counts from it.
        began: when what `closing` measures began, on the monotonic clock: the attempt, or until then its submission.
        window: seconds from `submitted` within which a first byte may leave.
        deadline: when the caller stops waiting, on the monotonic clock.
        place: where a read's started event stands; None for an effect.
        is_approved: an approval or a standing grant is spent on it.
        on_progress: hears how far its attempts are.
        state: what its attempts are handed as the state that was approved; None where there is none.
        co_commit: what its handler settles it with; None unless the contract says that it does.
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
    room: Room
    began: float
    is_approved: bool
    place: Place | None = None
    co_commit: CoCommit | None = None
    on_progress: ProgressListener | None = None
    state: bytes | None = field(default=None, repr=False)


class Attempts:
    """Invokes handlers through their transport."""

    def __init__(self, *, transport: Transport, chronicle: Chronicle, clock: Clock, ids: IdSource) -> None:
        self._transport = transport
        self._chronicle = chronicle
        self._clock = clock
        self._ids = ids

    # ------------------------------------------------------------ time

    def submitted_now(
        self,
        call: Call,
        warrant: Warrant,
        *,
        facts: dict[str, Any],
        started: AuditEvent,
        token: Token,
        fence: int,
        place: Place | None = None,
    ) -> Dispatch:
        """A dispatch whose first send window begins now."""
        submitted = self._clock.monotonic()
        return Dispatch(
            call=call,
            facts=facts,
            started=started,
            token=token,
            fence=fence,
            attempt=call.first_attempt,
            first_submitted=submitted,
            submitted=submitted,
            began=submitted,
            submitted_at=self._instant(),
            window=self._window(call, warrant.deadline),
            deadline=warrant.deadline,
            room=warrant.room,
            is_approved=warrant.approval is not None or warrant.grant is not None,
            place=place,
            on_progress=warrant.on_progress,
            state=warrant.state,
        )

    def next_window(self, dispatch: Dispatch) -> tuple[float, datetime, float]:
        """When a further attempt is submitted, by both clocks, and how long its first byte may then take to leave."""
        return self._clock.monotonic(), self._instant(), self._window(dispatch.call, dispatch.deadline)

    def _window(self, call: Call, deadline: float) -> float:
        return max(0.0, min(call.contract.timeout_seconds, deadline - self._clock.monotonic()))

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

    # ------------------------------------------------------------ one attempt

    async def attempt(self, dispatch: Dispatch, *, when_late: Callable[[Report], None]) -> Report:
        """One invocation within its send window; past it nothing is sent."""
        call = dispatch.call
        last_send = dispatch.submitted + dispatch.window
        dispatch.began = self._clock.monotonic()
        remaining = last_send - dispatch.began
        if not 0.0 < remaining < inf or (owes_cancellation() and await takes_owed_cancellation()):
            return Unsent()
        last_send_at = dispatch.submitted_at + timedelta(seconds=dispatch.window)
        if not self._may_send(last_send, last_send_at):
            return Unsent()
        is_cut_off = False

        def guard() -> None:
            nonlocal is_cut_off
            if not self._may_send(last_send, last_send_at):
                is_cut_off = True
                raise NotSent("It is too late to send this attempt.")

        def ended(late: Report) -> None:
            dispatch.room.stray_ended()
            when_late(late)

        silent_for, listener = call.contract.silence_seconds, dispatch.on_progress
        said = (
            None
            if silent_for is None and listener is None
            else Progressing(call, attempt=dispatch.attempt, listener=listener, clock=self._clock)
        )
        context = CallContext(
            tenant=call.principal.tenant,
            principal=call.principal,
            run_id=call.run_id,
            call_id=call.call_id,
            operation_key=call.operation_key,
            attempt=dispatch.attempt,
            deadline_at=last_send_at,
            is_approved=dispatch.is_approved,
            precondition=None if dispatch.state is None else read_state(dispatch.state),
            _remaining=lambda: max(0.0, last_send - self._clock.monotonic()),
            _guard=guard,
            _co_commit=not_declared if dispatch.co_commit is None else dispatch.co_commit.begin_attempt(),
            _progress=not_heard if said is None else said.said,
        )
        silence = None if said is None or silent_for is None else ensure_future(said.fallen_silent(silent_for))
        try:
            if silence is None:
                report = await self._transport.attempt(call, context, timeout_seconds=remaining, when_late=ended)
            else:
                report = await self._transport.attempt(
                    call, context, timeout_seconds=remaining, when_late=ended, silence=silence
                )
        except Exception:  # a transport may not raise; if one does, what it did is unknown
            return OUR_FAULT
        finally:
            if silence is not None:
                silence.cancel()
            if said is not None:
                said.over()
        if not (is_cut_off and isinstance(report, Unsent)):  # then it was us who sent nothing
            is_whole = dispatch.window >= call.contract.timeout_seconds  # no caller has cut it short
            dispatch.room.hear(report, had_its_time=is_whole and remaining * 2.0 >= dispatch.window)
        return report

    # ------------------------------------------------------------ patience

    def wait_before_next(self, dispatch: Dispatch, report: Report, *, has_doubt: bool) -> float | None:
        """Seconds to wait before another attempt; None if there is to be none."""
        contract = dispatch.call.contract
        made = dispatch.attempt - dispatch.call.first_attempt + 1
        if (
            report is OUR_FAULT
            or made >= contract.retry.max_attempts
            or not retry.may_retry(contract.effect_class, report)
        ):
            return None
        if not self._transport.has_room(contract.name):
            return None
        wait = retry.back_off_seconds(contract.retry, attempts_made=made, fraction=self._ids.fraction())
        asked = self.asked_to_wait(report)
        if asked is not None:
            wait += asked
        now = self._clock.monotonic()
        if now + wait >= dispatch.deadline or dispatch.room.is_left_alone(for_seconds=wait):
            return None
        kept = contract.remote.key_retention_seconds
        is_doubtful_write = has_doubt and contract.effect_class is EffectClass.IDEMPOTENT_WRITE
        if is_doubtful_write and kept is not None and now + wait + dispatch.window - dispatch.first_submitted >= kept:
            return None  # by then the remote may have forgotten the key
        return wait

    def asked_to_wait(self, report: Report) -> float | None:
        """Seconds the remote asked for, if it did."""
        if not isinstance(report, Answered):
            return None
        try:
            return retry.retry_after_seconds(report.retry_after, now=self._chronicle.now())
        except PlacetError:
            return None

    async def may_go_on(self, dispatch: Dispatch, *, after_seconds: float) -> bool:
        """Wait, and ask for leave and room once more; false if the caller left meanwhile, which is owed to it."""
        dispatch.room.rest()
        return await self._wait(after_seconds) and await dispatch.room.may_go_on(deadline=dispatch.deadline)

    async def _wait(self, seconds: float) -> bool:
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

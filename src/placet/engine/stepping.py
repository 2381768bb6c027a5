"""One step of a workflow, from its input to its word. Its calls go through the gate, and nothing else does anything.

A step is left where a call has to be waited for: by an exception that is nobody's to catch. Whether it was left is not
told by that exception but kept beside it, so a step that swallows it is left all the same, and calls nothing more. One
that does not come to its end then is cancelled, and if that does not end it either, it is left behind: its run goes on
without it.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn

from placet.engine.faults import told
from placet.engine.gate import Gate
from placet.errors import MisuseError
from placet.model.identifiers import ApprovalId
from placet.model.json import JsonObject
from placet.model.outcome import AwaitingApproval, Outcome, Refused
from placet.model.principal import Principal
from placet.model.workflow import Failure, Settled, State, is_call_name
from placet.ports.waiting import whatever_happens
from placet.rules import workflows as rules

DEADLINE_PASSED = "run_deadline_passed"
_ENDS_WITHIN_SECONDS: Final = 10.0
"""For a step that was left, to clean up after itself; and half as long once more after it was cancelled."""
_LONGEST_PAUSE_SECONDS: Final = 5.0
_left_behind: set[asyncio.Future[Said | Broke]] = set()
_log = logging.getLogger("placet.workflow")


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """The step came to its end, and this is its word."""

    move: object


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """A call has to be waited for."""

    code: str
    approvals: tuple[ApprovalId, ...]
    after_seconds: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Broke:
    """It raised, or asked for what its state does not have."""

    code: str


class _Leave(BaseException):
    """Leaves a step; no `except Exception` of a step's own, nor a retrying wrapper, takes it for a fault."""


@dataclass(slots=True, kw_only=True)
class Context:
    """What the step is given: `model.workflow.StepContext`."""

    gate: Gate
    principal: Principal
    run_id: str
    at: State[Any]
    visit: int
    position: int = 0
    left: Left | Broke | None = None
    is_over: bool = False
    asked_in_vain: int = 0
    has_left: asyncio.Event = field(default_factory=asyncio.Event)
    under_way: set[asyncio.Future[None]] = field(default_factory=set)

    @property
    def tenant(self) -> str:
        return self.principal.tenant

    @property
    def state(self) -> str:
        return self.at.name

    async def call(self, tool: str, arguments: JsonObject, *, name: str | None = None) -> Settled:
        outcome = await self._submitted(tool, arguments, name)
        if rules.waits_for(outcome):
            self._leave(_waiting(outcome))
        return outcome  # type: ignore[return-value]  # what waits has left

    async def propose(self, tool: str, arguments: JsonObject, *, name: str | None = None) -> Outcome:
        outcome = await self._submitted(tool, arguments, name)
        if rules.waits_for(outcome) and not isinstance(outcome, AwaitingApproval):
            self._leave(_waiting(outcome))
        return outcome

    async def _submitted(self, tool: str, arguments: JsonObject, name: str | None) -> Outcome:
        if self.left is not None or self.is_over:
            await self._pause()
            raise _Leave
        if tool not in self.at.tools:
            self._leave(Broke(code="tool_outside"))
        if name is not None and not is_call_name(name):
            raise MisuseError("name= of a call is `[a-z][a-z0-9_-]*`, at most 32 characters.")
        self.position += 1
        call_id = name or rules.call_id_of(self.at.name, self.visit, self.position)
        ended = asyncio.get_running_loop().create_future()
        self.under_way.add(ended)
        try:
            outcome = await self._asked(tool, arguments, call_id)
        finally:
            self.under_way.discard(ended)
            ended.set_result(None)
        if self.left is not None:  # another call of this step was left meanwhile
            raise _Leave
        if isinstance(outcome, Refused) and outcome.code == DEADLINE_PASSED and self.at.inputs is not Failure:
            self._leave(Broke(code="deadline_passed"))
        return outcome

    async def _asked(self, tool: str, arguments: JsonObject, call_id: str) -> Outcome:
        """A gate that is closed answers nobody, and is no fault of the step: whoever opens the next one goes on."""
        try:
            return await self.gate.submit_followed(
                {"call_id": call_id, "tool": tool, "arguments": arguments},
                principal=self.principal,
                run=self.run_id,
                idempotency_key=self._key(tool, call_id),
            )
        except MisuseError:
            if not self.gate.is_closed:
                raise
        self._leave(Left(code="draining", approvals=(), after_seconds=None))

    def _key(self, tool: str, call_id: str) -> str | None:
        """None for a read: it is not kept in the ledger, where one that was lost would have to be reconciled first."""
        contract = self.gate.tool_for(tool, self.principal)
        is_write = contract is not None and contract.effect_class.is_write
        return rules.call_key(self.run_id, call_id) if is_write else None

    async def ended(self) -> None:
        """Let nothing more be called, and wait for what still is: a run is not laid down, nor over, while one of its
        step's own calls goes on that the step itself has not waited for."""
        self.is_over = True
        while self.under_way:
            await asyncio.wait(tuple(self.under_way))

    async def _pause(self) -> None:
        """Whoever asks on after it was left is let wait, longer each time: it is not to hold the loop."""
        seconds = min(0.01 * 2.0 ** min(self.asked_in_vain, 10) - 0.01, _LONGEST_PAUSE_SECONDS)
        self.asked_in_vain += 1
        await self.gate.runs.around.clock.sleep(seconds)

    def _leave(self, left: Left | Broke) -> NoReturn:
        self.left = self.left or left
        self.has_left.set()
        raise _Leave


async def step(context: Context, value: object) -> Said | Left | Broke:
    """Run it from its start. What it raises, whatever that is, is its own, and ends nobody else.

    Raises:
        asyncio.CancelledError: whoever drives it was cancelled; it may be run again from its start.
    """
    stepping = asyncio.ensure_future(_stepped(context, value))  # its cancellations are not the driver's
    leaving = asyncio.ensure_future(context.has_left.wait())
    try:
        await asyncio.wait((stepping, leaving), return_when=asyncio.FIRST_COMPLETED)
        await context.ended()
        await _let_go(stepping, context)
    except asyncio.CancelledError:
        context.left = context.left or Left(code="draining", approvals=(), after_seconds=None)  # it calls nothing more
        stepping.cancel()
        await whatever_happens(asyncio.ensure_future(_let_go(stepping, context)))
        raise
    finally:
        leaving.cancel()
    return stepping.result() if context.left is None else context.left


async def _let_go(stepping: asyncio.Future[Said | Broke], context: Context) -> None:
    """Wait until it has ended, which it should soon, as it was left; or go on without it."""
    if context.left is None:
        return
    await asyncio.wait((stepping,), timeout=_ENDS_WITHIN_SECONDS)
    if not stepping.done():
        stepping.cancel()
        await asyncio.wait((stepping,), timeout=_ENDS_WITHIN_SECONDS / 2)
    if not stepping.done():
        _log.error("a step goes on after it was left", extra={"state": context.at.name})
        _left_behind.add(stepping)
        stepping.add_done_callback(_left_behind.discard)


async def _stepped(context: Context, value: object) -> Said | Broke:
    try:
        return Said(move=await context.at.step(value, context))
    except KeyboardInterrupt:
        raise
    except BaseException as fault:
        if context.left is None:
            _log.warning("step raised", extra={"state": context.at.name, **told(fault)})
        return Broke(code="step_raised")


def _waiting(outcome: Outcome) -> Left:
    approvals = (outcome.approval_id,) if isinstance(outcome, AwaitingApproval) else ()
    after = outcome.retry_after_seconds if isinstance(outcome, Refused) else None
    return Left(code=outcome.code, approvals=approvals, after_seconds=after)

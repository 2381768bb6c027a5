"""Carries one attempt to whatever does the work, and reports what is known afterwards."""

from __future__ import annotations

from asyncio import Future
from collections.abc import Callable
from typing import Protocol

from placet.model.attempt import Report
from placet.model.call import Call
from placet.model.context import CallContext, CannotTell, ProbeAnswer, ProbeContext, Seen


class Transport(Protocol):
    """Runs attempts. Nothing it does raises, except cancellation of its caller after the attempt was ended."""

    async def attempt(
        self,
        call: Call,
        context: CallContext,
        *,
        timeout_seconds: float,
        when_late: Callable[[Report], None],
        silence: Future[None] | None = None,
    ) -> Report:
        """Run the call's own handler once.

        `silence` is done when the handler has said nothing for too long; it is then as late as at its deadline.
        `when_late` hears the report of every attempt that went on after its end was reported, once it has ended.
        """
        ...

    async def probe(self, tool: str, context: ProbeContext, *, timeout_seconds: float) -> ProbeAnswer:
        """Ask the tool's probe what became of an effect; faults are `CannotTell`."""
        ...

    async def precondition(self, tool: str, context: ProbeContext, *, timeout_seconds: float) -> Seen | CannotTell:
        """Ask the tool's precondition for the state that an approval is bound to; faults are `CannotTell`."""
        ...

    def has_room(self, tool: str) -> bool:
        """Whether another attempt of this tool may start, given the threads that never came back."""
        ...

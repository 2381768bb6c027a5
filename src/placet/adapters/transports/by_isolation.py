"""Each call to the transport of its contract's isolation; probes and preconditions always run in the gate's own."""

from __future__ import annotations

from asyncio import Future
from collections.abc import Callable

from placet.adapters.transports.process import ProcessTransport
from placet.adapters.transports.python import PythonTransport
from placet.model.attempt import Report
from placet.model.call import Call
from placet.model.context import CallContext, CannotTell, ProbeAnswer, ProbeContext, Seen
from placet.model.contract import Isolation


class TransportByIsolation:
    """Coroutines and threads here, processes there."""

    def __init__(self, *, here: PythonTransport, apart: ProcessTransport) -> None:
        self._here = here
        self._apart = apart

    async def attempt(
        self,
        call: Call,
        context: CallContext,
        *,
        timeout_seconds: float,
        when_late: Callable[[Report], None],
        silence: Future[None] | None = None,
    ) -> Report:
        match call.contract.isolation:
            case Isolation.PROCESS:  # its contract knows no silence
                return await self._apart.attempt(call, context, timeout_seconds=timeout_seconds, when_late=when_late)
            case Isolation.ASYNC | Isolation.THREAD:
                return await self._here.attempt(
                    call, context, timeout_seconds=timeout_seconds, when_late=when_late, silence=silence
                )

    async def probe(self, tool: str, context: ProbeContext, *, timeout_seconds: float) -> ProbeAnswer:
        return await self._here.probe(tool, context, timeout_seconds=timeout_seconds)

    async def precondition(self, tool: str, context: ProbeContext, *, timeout_seconds: float) -> Seen | CannotTell:
        return await self._here.precondition(tool, context, timeout_seconds=timeout_seconds)

    def has_room(self, tool: str) -> bool:
        return self._here.has_room(tool) and self._apart.has_room(tool)

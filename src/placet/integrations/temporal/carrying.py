"""The one Temporal workflow there is. It knows no states and no tools: those are looked up where a step is done.

Its code is the same for every definition and every version of one, so that deploying a definition never breaks the
replay of a run that waits. Whoever changes this file replays the recorded histories of tests/integrations.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError, ApplicationError, is_cancelled_exception

with workflow.unsafe.imports_passed_through():
    from placet.integrations.driving import Fault, Over, Rest, engine_id, is_in_vain, next_after, said
    from placet.model.exact import is_seconds
    from placet.model.json import JsonObject
    from placet.model.principal import is_identity
    from placet.model.progress import Progress

ADVANCE = "placet.advance"
WAKE = "placet.wake"
RUN = "placet.run"
_LONGEST_STEP = timedelta(hours=24)
"""A bound on what nobody bounds otherwise: calls have their own deadlines, and a worker that died is noticed by its
heartbeat."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ticket:
    """Which run it is: all that Temporal is told.

    Attributes:
        heartbeat_seconds: a worker that was not heard of for so long is taken for dead, and another asks again.
        in_vain: how often in a row the run could not be advanced.
    """

    tenant: str
    run_id: str
    heartbeat_seconds: float
    in_vain: int = 0

    def as_data(self) -> JsonObject:
        return {
            "tenant": self.tenant,
            "run_id": self.run_id,
            "heartbeat_seconds": self.heartbeat_seconds,
            "in_vain": self.in_vain,
        }

    def _is_sound(self) -> bool:
        is_named = is_identity(self.tenant) and is_identity(self.run_id)
        return is_named and is_seconds(self.heartbeat_seconds) and type(self.in_vain) is int and self.in_vain >= 0

    @property
    def workflow_id(self) -> str:
        return engine_id(self.tenant, self.run_id)

    @classmethod
    def of(cls, data: JsonObject) -> Ticket:
        """What `as_data` wrote.

        Raises:
            ApplicationError: somebody else wrote it; tried again it would be the same.
        """
        try:
            ticket = cls(**data)  # type: ignore[arg-type]
        except TypeError:
            pass
        else:
            if ticket._is_sound():
                return ticket
        raise ApplicationError("This is no ticket of a run.", type="ticket_malformed", non_retryable=True)


@workflow.defn(name=RUN)
class RunWorkflow:
    """Advances one run, step after step, and rests in between until it is woken or the rest is over."""

    def __init__(self) -> None:
        self._is_woken = False

    @workflow.run
    async def run(self, data: dict[str, Any]) -> dict[str, Any]:
        """To its end; what `Ended` says."""
        ticket = Ticket.of(data)
        in_vain = ticket.in_vain
        while True:
            self._is_woken = False
            answer = await self._advanced(ticket)
            match next_after(answer, in_vain=in_vain):
                case Over():
                    return answer.as_data()
                case Rest(seconds=seconds):
                    in_vain = in_vain + 1 if is_in_vain(answer) else 0
                    await self._rest(seconds)
            if workflow.info().is_continue_as_new_suggested():
                # A wake-up that comes now is not lost: the next one begins by advancing.
                workflow.continue_as_new(replace(ticket, in_vain=in_vain).as_data())

    @workflow.signal(name=WAKE)
    def wake(self) -> None:
        """Look again. It says nothing, and whoever may send it can do no more with it."""
        self._is_woken = True

    async def _advanced(self, ticket: Ticket) -> Progress | Fault:
        """One activity, once: what is tried again is the gate's to say.

        An activity that ends without an answer (its worker died) is no answer either: the run is asked again, and the
        ledger knows what was done.
        """
        try:
            data = await workflow.execute_activity(
                ADVANCE,
                ticket.as_data(),
                start_to_close_timeout=_LONGEST_STEP,
                heartbeat_timeout=timedelta(seconds=ticket.heartbeat_seconds),
                retry_policy=RetryPolicy(maximum_attempts=1),
            )
            return said(data)
        except ActivityError as error:
            if is_cancelled_exception(error):
                raise
            return Fault(code="worker_lost")

    async def _rest(self, seconds: float) -> None:
        if seconds > 0:
            with suppress(asyncio.TimeoutError):
                await workflow.wait_condition(lambda: self._is_woken, timeout=seconds)

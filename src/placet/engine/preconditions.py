"""Reads the state that an approval is bound to: when a person is asked, and once more before what they said is spent.

What cannot be read is no state: nobody is asked about it, and nothing runs on it. Nothing here is kept but a digest.

Source: CASES E12; ADR-0059.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

from placet.engine.slots import Slots
from placet.errors import InvalidArguments
from placet.model.approval import Approval, Mac
from placet.model.call import Call
from placet.model.context import ProbeContext, Seen
from placet.ports.clock import Clock
from placet.ports.keys import KeyPurpose, Keys
from placet.ports.transport import Transport
from placet.ports.waiting import foreign
from placet.rules import preconditions as rules
from placet.rules.decoding import decode_object

_log = logging.getLogger("placet.gate")

MOST_LOOKS = 8
"""Questions about calls of one tool that look at once in one process; the others wait, each tenant in its turn. What is
approved looks in the room that its call has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NotSeen:
    """The state could not be read; `reason` is a fixed word."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """It is not the state that the approval is bound to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unchanged:
    """It is. `state` is what was read, as `read_state` reads it; None where the contract binds to none."""

    state: bytes | None = field(repr=False)


_UNBOUND = Unchanged(state=None)


class Preconditions:
    """The states of one gate's tools."""

    def __init__(self, *, transport: Transport, keys: Keys, clock: Clock, seconds: float) -> None:
        self._transport = transport
        self._keys = keys
        self._clock = clock
        self._seconds = seconds
        self._turns: dict[str, Slots] = {}

    async def captured(self, call: Call, *, deadline: float) -> Mac | NotSeen | None:
        """The digest of the state as it is now, for a question; None where the contract binds to none.

        Nothing else bounds how many questions are asked about at once: a look waits for its turn.
        """
        if not call.contract.has_precondition:
            return None
        turns, tenant = self._turns.setdefault(call.contract.name, Slots(MOST_LOOKS)), call.principal.tenant
        if not (turns.take(tenant) or await turns.wait(tenant, seconds=self._patience(deadline))):
            return self._not_seen(call, "too_many_looks")
        try:
            state = await self._look(call, deadline)
        finally:
            turns.free(tenant)
        return (
            state if isinstance(state, NotSeen) else self._keys.mac(KeyPurpose.APPROVAL, rules.state_form(call, state))
        )

    async def held(self, approval: Approval | None, call: Call, *, deadline: float) -> Unchanged | Changed | NotSeen:
        """Whether the state is still the one that the approval, which was verified, is bound to."""
        if approval is None or not call.contract.has_precondition:
            return _UNBOUND
        state = await self._look(call, deadline)
        if isinstance(state, NotSeen):
            return state
        bound = approval.question.precondition
        is_same = bound is not None and self._keys.is_authentic(
            KeyPurpose.APPROVAL, rules.state_form(call, state), bound
        )
        return Unchanged(state=state) if is_same else Changed()

    async def _look(self, call: Call, deadline: float) -> bytes | NotSeen:
        """The caller's patience bounds it, and so does that for any look."""
        seconds = self._patience(deadline)
        answer: object = None
        if seconds > 0.0:
            asked = ProbeContext(
                tenant=call.principal.tenant,
                operation_key=call.operation_key,
                arguments=decode_object(call.canonical_arguments, wide=call.contract.wide_fields),
            )
            look = self._transport.precondition(call.contract.name, asked, timeout_seconds=seconds)
            answer = await foreign(look, timeout_seconds=None)
        reason = "cannot_tell"
        if isinstance(answer, Seen):
            try:
                return rules.state_of(answer.state)
            except InvalidArguments:
                reason = "state_broken"
        return self._not_seen(call, reason)

    def _patience(self, deadline: float) -> float:
        return max(0.0, min(self._seconds, deadline - self._clock.monotonic()))

    def _not_seen(self, call: Call, reason: str) -> NotSeen:
        _log.warning("a precondition could not be read", extra={"tool": call.contract.name, "code": reason})
        return NotSeen(reason=reason)

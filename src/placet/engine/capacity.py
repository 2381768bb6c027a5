"""Room for attempts: how many calls of one tool one tenant may have running, and whether its remote is left alone.

Asked before anything is claimed, so that a refusal spends nothing. Kept per tool and tenant, and per process: no tenant
can use up another's room or open another's breaker. Only the slots for handlers in processes of their own are shared,
fairly (`engine.slots`). Room that is taken is given back exactly once, whatever ends the call; an attempt that goes on
past its end keeps its place, but no slot, until it ends.

A call may wait for room behind those that came first, but only as long as its first attempt keeps its whole time. For
a remote that is left alone nobody waits.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from dataclasses import dataclass
from math import inf

from placet.engine.settings import GateSettings
from placet.engine.slots import Slots, has_come
from placet.model.attempt import CallerLeft, DeadlinePassed, Report
from placet.model.call import Call
from placet.model.contract import Breaker, Contract, Isolation
from placet.ports.clock import Clock
from placet.ports.meter import Meter
from placet.ports.transport import Transport
from placet.rules import breaker as rules
from placet.rules.breaker import Circuit, CircuitState, Health, LeftAlone, Permit

_log = logging.getLogger("placet.capacity")

MAX_STRAYS = 8
"""Attempts of one tool and tenant that may go on past their end before no more are begun."""
MAX_LANES = 4096
"""Pairs of tool and tenant remembered. Beyond it those nobody is in are forgotten."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NoRoom:
    """The call may not begin now; nothing was claimed or spent. `code`: that of the refusal."""

    code: str
    retry_after_seconds: float | None = None


class _Lane:
    """One tool for one tenant.

    Attributes:
        running: places taken; where somebody waits, every place is.
        strays: places kept by attempts whose call has ended.
        waiting: calls that have no place yet.
        waiting_for_slots: calls that have a place, and wait for a slot.
    """

    __slots__ = ("circuit", "contract", "running", "strays", "tenant", "waiting", "waiting_for_slots")

    def __init__(self, contract: Contract, *, tenant: str) -> None:
        self.contract = contract
        self.tenant = tenant
        self.circuit = Circuit()
        self.running = 0
        self.strays = 0
        self.waiting: deque[asyncio.Future[None]] = deque()
        self.waiting_for_slots = 0

    @property
    def needs_slot(self) -> bool:
        return self.contract.isolation is Isolation.PROCESS


class Capacity:
    """The room of one gate. Used from its event loop only."""

    def __init__(self, *, transport: Transport, clock: Clock, meter: Meter, settings: GateSettings) -> None:
        self._transport = transport
        self._clock = clock
        self._meter = meter
        self._max_waiting = settings.max_waiting
        self._slots = Slots(settings.max_processes)
        self._lanes: dict[tuple[str, str], _Lane] = {}

    def enter(self, call: Call) -> Room | NoRoom:
        """Take room at once, or learn why there is none. Whoever gets a room leaves it."""
        lane = self._lane_of(call)
        if self._is_blocked(lane):
            return NoRoom(code="capacity")
        if lane.running >= lane.contract.max_concurrent or (lane.needs_slot and not self._slots.has_free):
            return NoRoom(code="too_many_running")
        leave = self.ask_leave(lane)
        if isinstance(leave, NoRoom):
            return leave
        self._take_place(lane)
        self.take_slot(lane)
        return Room(self, lane, leave)

    async def wait(self, call: Call, *, deadline: float) -> Room | NoRoom:
        """Take room when it is this call's turn.

        Waits only until just the time of one attempt is left before the deadline, on the monotonic clock. A caller
        that is cancelled meanwhile is owed its cancellation and gets no room.
        """
        entered = self.enter(call)
        if not isinstance(entered, NoRoom) or entered.code != "too_many_running":
            return entered
        lane = self._lane_of(call)
        if not 0.0 < self._patience(lane, deadline) < inf:
            return entered
        if len(lane.waiting) + lane.waiting_for_slots >= self._max_waiting:
            return entered
        if not await self._turn(lane, deadline=deadline):
            return entered
        leave = NoRoom(code="capacity") if self._is_blocked(lane) else self.ask_leave(lane)
        if isinstance(leave, NoRoom):
            self.free_slot(lane)
            self.free(lane)
            return leave
        return Room(self, lane, leave)

    def _is_blocked(self, lane: _Lane) -> bool:
        """Whether attempts that go on past their end leave room for none."""
        return lane.strays >= MAX_STRAYS or not self._transport.has_room(lane.contract.name)

    def _patience(self, lane: _Lane, deadline: float) -> float:
        """Seconds until just the time of one attempt is left."""
        return deadline - lane.contract.timeout_seconds - self._clock.monotonic()

    # ------------------------------------------------------------ places

    async def _turn(self, lane: _Lane, *, deadline: float) -> bool:
        """Wait behind the others for a place, and with it for a slot if one is needed; whether we have both now."""
        if lane.running < lane.contract.max_concurrent:
            self._take_place(lane)
        elif not await self._wait_for_place(lane, seconds=self._patience(lane, deadline)):
            return False
        has_slot = False
        try:
            has_slot = await self.slot(lane, deadline=deadline)
        finally:
            if not has_slot:
                self.free(lane)
        return has_slot

    async def _wait_for_place(self, lane: _Lane, *, seconds: float) -> bool:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        lane.waiting.append(turn)
        is_taken = False
        try:
            is_taken = await has_come(turn, seconds=seconds)
        finally:
            if not turn.done():
                lane.waiting.remove(turn)
            elif not is_taken:
                self.free(lane)
        return is_taken

    def _take_place(self, lane: _Lane) -> None:
        lane.running += 1
        self._meter.calls_running(tool=lane.contract.name, change=1)

    def free(self, lane: _Lane) -> None:
        """Pass a place on to whoever waits first, or have one taken less."""
        if lane.waiting:
            lane.waiting.popleft().set_result(None)
        else:
            lane.running -= 1
            self._meter.calls_running(tool=lane.contract.name, change=-1)

    def take_slot(self, lane: _Lane) -> bool:
        """Take a slot at once, if one is needed; whether the call may go on."""
        return not lane.needs_slot or self._slots.take(lane.tenant)

    async def slot(self, lane: _Lane, *, deadline: float) -> bool:
        """Take a slot, if one is needed, at once or when it is our turn; false if it did not come in time."""
        if self.take_slot(lane):
            return True
        patience = self._patience(lane, deadline)
        if not 0.0 < patience < inf:
            return False
        lane.waiting_for_slots += 1
        try:
            return await self._slots.wait(lane.tenant, seconds=patience)
        finally:
            lane.waiting_for_slots -= 1

    def free_slot(self, lane: _Lane) -> None:
        if lane.needs_slot:
            self._slots.free(lane.tenant)

    def _lane_of(self, call: Call) -> _Lane:
        name = call.contract.name, call.principal.tenant
        lane = self._lanes.get(name)
        if lane is None:
            if len(self._lanes) >= MAX_LANES:
                self._forget_some()
            lane = self._lanes[name] = _Lane(call.contract, tenant=call.principal.tenant)
        return lane

    def _forget_some(self) -> None:
        """Forget lanes nobody is in: those that remember nothing; if they are too few, a quarter, the oldest first."""
        now = self._clock.monotonic()
        empty = [name for name, lane in self._lanes.items() if lane.running == 0]
        idle = [name for name in empty if _remembers_nothing(self._lanes[name], now=now)]
        for name in idle if len(idle) * 4 >= MAX_LANES else empty[: MAX_LANES // 4]:
            lane = self._lanes.pop(name)
            if lane.circuit.state is not CircuitState.CLOSED:
                self._meter.breakers_open(tool=lane.contract.name, change=-1)

    # ------------------------------------------------------------ the remote

    def ask_leave(self, lane: _Lane) -> Permit | NoRoom | None:
        """Leave for one more attempt; None where nobody asks for it."""
        if lane.contract.breaker is None:
            return None
        circuit, answer = rules.ask_leave(lane.circuit, lane.contract.breaker, now=self._clock.monotonic())
        self.become(lane, circuit)
        if isinstance(answer, LeftAlone):
            return NoRoom(code="circuit_open", retry_after_seconds=answer.retry_after_seconds)
        return answer

    def hear(self, lane: _Lane, breaker: Breaker, permit: Permit, word: Health) -> None:
        self.become(lane, rules.heard(lane.circuit, breaker, permit, word, now=self._clock.monotonic()))

    def is_left_alone(self, lane: _Lane, *, for_seconds: float) -> bool:
        """Whether nothing will be let through for so long; asks for no leave."""
        breaker = lane.contract.breaker
        return breaker is not None and rules.stays_open(
            lane.circuit, breaker, until=self._clock.monotonic() + for_seconds
        )

    def become(self, lane: _Lane, circuit: Circuit) -> None:
        """Keep the circuit; a change of its state is counted and told."""
        was, lane.circuit = lane.circuit.state, circuit
        if circuit.state is was:
            return
        tool = lane.contract.name
        self._meter.breaker_changed(tool=tool, state=circuit.state.value)
        if was is CircuitState.CLOSED:
            self._meter.breakers_open(tool=tool, change=1)
        match circuit.state:
            case CircuitState.OPEN:
                _log.warning("breaker opened", extra={"tool": tool})
            case CircuitState.HALF_OPEN:
                _log.info("breaker lets probes through", extra={"tool": tool})
            case CircuitState.CLOSED:
                self._meter.breakers_open(tool=tool, change=-1)
                _log.warning("breaker closed", extra={"tool": tool})


class Room:
    """Leave for one call to run, its place, and its slot. Owned by the call's task; a stray keeps the place longer."""

    __slots__ = ("_capacity", "_has_left", "_has_slot", "_lane", "_permit", "_strays")

    def __init__(self, capacity: Capacity, lane: _Lane, permit: Permit | None) -> None:
        self._capacity = capacity
        self._lane = lane
        self._permit = permit
        self._strays = 0
        self._has_slot = True
        self._has_left = False

    def hear(self, report: Report, *, had_its_time: bool) -> None:
        """Take in what an attempt says of the remote; one that goes on keeps the place until `stray_ended`."""
        if isinstance(report, DeadlinePassed | CallerLeft) and not report.has_ended:
            self._strays += 1
            self._lane.strays += 1
        breaker, permit = self._lane.contract.breaker, self._permit
        word = rules.health(report, had_its_time=had_its_time)
        if breaker is None or permit is None or word is Health.NO_WORD:
            return
        if self._lane.circuit.state is CircuitState.HALF_OPEN:
            self._permit = None  # the word gives the probe back
        self._capacity.hear(self._lane, breaker, permit, word)

    def is_left_alone(self, *, for_seconds: float) -> bool:
        """Whether waiting so long for a further attempt would be in vain."""
        return self._capacity.is_left_alone(self._lane, for_seconds=for_seconds)

    def rest(self) -> None:
        """A pause between two attempts begins: meanwhile others may have the slot."""
        if self._has_slot:
            self._has_slot = False
            self._capacity.free_slot(self._lane)

    async def may_go_on(self, *, deadline: float) -> bool:
        """Whether a further attempt may begin; asked right before it is put on record.

        Waits for a slot only until just the time of one attempt is left before the deadline.
        """
        if not self._has_slot:
            self._has_slot = await self._capacity.slot(self._lane, deadline=deadline)
        return self._has_slot and self._has_leave()

    def _has_leave(self) -> bool:
        if self._permit == self._lane.circuit.epoch:
            return True
        leave = self._capacity.ask_leave(self._lane)
        if isinstance(leave, NoRoom):
            return False
        self._permit = leave
        return True

    def stray_ended(self) -> None:
        self._strays -= 1
        self._lane.strays -= 1
        if self._has_left and self._strays == 0:
            self._capacity.free(self._lane)

    def leave(self) -> None:
        """The call has ended, however it did. A second time changes nothing."""
        if self._has_left:
            return
        self._has_left = True
        if self._permit is not None:
            self._capacity.become(self._lane, rules.give_back(self._lane.circuit, self._permit))
        self.rest()
        if self._strays == 0:
            self._capacity.free(self._lane)


def _remembers_nothing(lane: _Lane, *, now: float) -> bool:
    return lane.contract.breaker is None or rules.remembers_nothing(lane.circuit, lane.contract.breaker, now=now)

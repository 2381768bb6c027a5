"""Afterwards: settle what is open, ask again for what nobody heard the end of, and hold three accounts together.

The ledger says what placet believes, the audit what it said, and the sentinel's file what happened. An operation is

    acted once       the remote acted once, and the ledger says committed
    never acted      the remote did not act, and the ledger does not say that it did
    acted twice      the remote acted more than once
    lost             ledger and remote disagree, or somebody was told of a success that is not on record
    still unknown    nobody knows yet
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import orjson

from placet.bootstrap.opening import Recovery, open_gate
from placet.engine.gate import Gate
from placet.model.effect import Effect, EffectState
from placet.model.identifiers import OperationKey
from placet.proof.chaos.plan import UNDISTURBED, ChaosPlan
from placet.proof.chaos.slots import SUCCESSES, Load
from placet.proof.chaos.tools import SERVICE_OF, TENANT, tools
from placet.proof.chaos.worker import ask
from placet.testing.sentinel import Sentinel, sentinel_effects

_OPEN = (EffectState.DISPATCHED, EffectState.UNKNOWN)
_ROUNDS = 3
_ROUND_SECONDS = 0.1
_DRAIN_SECONDS = 30.0


@dataclass(slots=True, kw_only=True)
class Row:
    """Operations that one thing disturbed.

    Attributes:
        times: how often it happened.
        reconciled: operations that were unknown on their way, and then settled by a probe; they are in one of the
            other columns too.
        orphans: attempts with a started event and no completed one, or the other way round.
    """

    name: str
    times: int = 0
    operations: int = 0
    acted_once: int = 0
    never_acted: int = 0
    reconciled: int = 0
    still_unknown: int = 0
    acted_twice: int = 0
    lost: int = 0
    orphans: int = 0

    @property
    def is_clean(self) -> bool:
        return not (self.acted_twice or self.lost or self.orphans or self.still_unknown)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reckoning:
    """The table. `breaks`: of the audit's chains; `settled_seconds`: what settling took after the load."""

    rows: tuple[Row, ...]
    total: Row
    breaks: int
    events: int
    writers: int
    settled_seconds: float

    @property
    def is_clean(self) -> bool:
        return self.total.is_clean and not self.breaks


@dataclass(slots=True, kw_only=True)
class Account:
    """What the three sources say of one operation."""

    state: EffectState | None = None
    acted: int = 0
    was_told_success: bool = False
    was_unknown: bool = False
    orphans: int = 0

    def enter(self, row: Row) -> None:
        """Count it in the one column it belongs to, and in those that go across."""
        row.operations += 1
        row.orphans += self.orphans
        is_committed = self.state is not None and self.state.is_committed
        if self.acted > 1:
            row.acted_twice += 1
        elif self.state in _OPEN:
            row.still_unknown += 1
        elif is_committed != (self.acted == 1) or (self.was_told_success and not is_committed):
            row.lost += 1
        elif self.acted:
            row.acted_once += 1
        else:
            row.never_acted += 1
        if self.was_unknown and self.state not in _OPEN:
            row.reconciled += 1


@dataclass(slots=True, kw_only=True)
class Books:
    """One account per operation; those that nobody asked for are found as well."""

    accounts: dict[str, Account] = field(default_factory=lambda: defaultdict(Account))

    def take_effects(self, effects: Iterable[Effect]) -> None:
        for effect in effects:
            self.accounts[_operation_of(effect.operation_key)].state = effect.state

    def take_remote(self, acted: Iterable[tuple[str, str]]) -> None:
        for _, key in acted:
            self.accounts[_operation_of(OperationKey(key))].acted += 1

    def take_event(self, body: dict[str, Any], pairs: Counter[tuple[Any, ...]]) -> None:
        name = tuple(body.get(part) for part in ("tenant", "run_id", "call_id", "attempt", "fence"))
        match body["kind"]:
            case "started":
                pairs[name] += 1
            case "completed":
                pairs[name] -= 1
            case "effect_reconciled":
                self.accounts[str(body["call_id"])].was_unknown = True
            case _:
                pass


async def settle_and_reckon(plan: ChaosPlan, load: Load, sentinel: Sentinel) -> Reckoning:
    """Let a reconciler settle everything, then compare. The store is honest here, whatever the sabotage was."""
    began = time.monotonic()
    opening = open_gate(
        tools=tools(sentinel.port, plan.bounds),
        store=plan.store,
        key=plan.key,
        settings=plan.bounds.settings(),
        recovery=Recovery.MANUAL,
    )
    async with opening as gate:
        for _ in range(_ROUNDS):
            await _settled(gate, within_seconds=plan.seconds)
            if not load.open:
                break
            await _ask_for_the_open_ones(gate, load)
        await sentinel.drained(within_seconds=_DRAIN_SECONDS)
        await _settled(gate, within_seconds=plan.seconds)
        settled_seconds = time.monotonic() - began
        return await _reckoned(gate, load, sentinel, settled_seconds)


async def _settled(gate: Gate, *, within_seconds: float) -> None:
    """Recover until nothing is dispatched, unknown or half-told; or until the time is over, which the table shows."""
    until = time.monotonic() + max(30.0, within_seconds)
    while time.monotonic() < until:
        await gate.reconciler.recover()
        is_settled = not await gate.store.effects(tenant=None, states=_OPEN, limit=1)
        if is_settled and not await gate.store.lost_reads(limit=1):
            return
        await asyncio.sleep(_ROUND_SECONDS)


async def _ask_for_the_open_ones(gate: Gate, load: Load) -> None:
    """As their callers would, once recovery has had its say: what acted is replayed, what did not acts now."""
    room = asyncio.Semaphore(8)

    async def once(operation: str) -> tuple[str, str]:
        async with room:
            outcome = await ask(gate, operation, run=load.begun[operation])
        return operation, outcome.status

    for operation, status in await asyncio.gather(*(once(operation) for operation in tuple(load.open))):
        if status in SUCCESSES:
            load.successes.add(operation)
        if status not in ("unknown", "in_progress"):
            del load.open[operation]


async def _reckoned(gate: Gate, load: Load, sentinel: Sentinel, settled_seconds: float) -> Reckoning:
    report = await gate.verify_audit()
    books, pairs = Books(), Counter[tuple[Any, ...]]()
    found = await gate.store.effects(tenant=TENANT, states=tuple(EffectState), limit=2**31)
    books.take_effects(effect for effect in found if isinstance(effect, Effect))
    books.take_remote(sentinel_effects(sentinel.file))
    async for event in gate.store.chained():
        books.take_event(orjson.loads(event.body), pairs)
    for (_, _, call_id, _, _), excess in pairs.items():
        if excess:
            books.accounts[str(call_id)].orphans += abs(excess)
    for operation in load.successes:
        books.accounts[operation].was_told_success = True
    rows: dict[str, Row] = {name: Row(name=name, times=times) for name, times in load.times.items()}
    total = Row(name="in sum", times=sum(load.times.values()))
    for operation in dict.fromkeys([*load.begun, *books.accounts]):
        name = load.disturbed.get(operation, UNDISTURBED)
        row = rows.setdefault(name, Row(name=name))
        for each in (row, total):
            books.accounts[operation].enter(each)
    return Reckoning(
        rows=tuple(rows.values()),
        total=total,
        breaks=len(report.breaks),
        events=report.events,
        writers=report.writers,
        settled_seconds=settled_seconds,
    )


def _operation_of(key: OperationKey) -> str:
    """`tool:order` from the key that its template made; reads have none."""
    _, template, order = orjson.loads(key)
    tool = str(template).partition(":")[0]
    return f"{tool if tool in SERVICE_OF else template}:{order}"

"""Gates on real stores, with time and names that a test owns; every gate's audit is held to its pairs at the end."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import placet
from placet import Gate, GateSettings, Principal, Tool
from placet.model.effect import Effect, EffectState
from placet.model.outcome import AwaitingApproval, Outcome
from placet.testing import FakeClock, SeededIds
from tests.at_once import each_at_once

SCOPE = "ops.write"
VIEWER = Principal.agent("agent-viewer", tenant="acme")
OPERATOR = Principal.agent("agent-operator", tenant="acme", roles=("operator",), scopes=(SCOPE,))
ADMIN = Principal.agent("agent-admin", tenant="acme", roles=("admin",), scopes=(SCOPE,))
STRANGER = Principal.agent("agent-operator", tenant="globex", roles=("operator",), scopes=(SCOPE,))
APPROVER = Principal.person("paula", tenant="acme", scopes=("approvals.decide",))
OTHER_APPROVER = Principal.person("omar", tenant="acme", scopes=("approvals.decide",))


class NumberedIds(SeededIds):
    """Seeded chance, and names that differ between the gates of one store."""

    def __init__(self, seed: int, *, world: int) -> None:
        super().__init__(seed)
        self._world = world

    def new_id(self, prefix: str) -> str:
        return f"{super().new_id(prefix)}-{self._world}"


class Moved(FakeClock):
    """A sleep ends when somebody else has moved the clock so far."""

    def __init__(self) -> None:
        super().__init__()
        self._moved = asyncio.Event()

    async def sleep(self, seconds: float) -> None:
        until = self.monotonic() + seconds
        while self.monotonic() < until:
            self._moved.clear()
            await self._moved.wait()

    def advance(self, seconds: float) -> None:
        super().advance(seconds)
        self._moved.set()


@dataclass
class World:
    """One open gate and what a test asks of it."""

    gate: Gate
    clock: FakeClock
    pairs_stay_open: set[tuple[str, ...]] = field(default_factory=set)

    async def submit(
        self,
        tool: str | Tool,
        arguments: object = None,
        *,
        call_id: str = "c1",
        run: str = "r1",
        principal: Principal = OPERATOR,
        attempt: int | None = None,
        **more: Any,
    ) -> Outcome:
        name = tool if isinstance(tool, str) else tool.contract.name
        proposal: dict[str, object] = {"call_id": call_id, "tool": name, "arguments": arguments or {}}
        if attempt is not None:
            proposal["attempt"] = attempt
        return await self.gate.submit(proposal, principal=principal, run=run, **more)

    async def approve(self, awaiting: Outcome, *, by: Principal = APPROVER) -> None:
        assert isinstance(awaiting, AwaitingApproval), awaiting
        view = await self.gate.desk.show(awaiting.approval_id, by=by)
        await self.gate.desk.approve(awaiting.approval_id, digest=view.digest, by=by)

    async def deny(self, awaiting: Outcome, *, reason: str = "", by: Principal = APPROVER) -> None:
        assert isinstance(awaiting, AwaitingApproval), awaiting
        view = await self.gate.desk.show(awaiting.approval_id, by=by)
        await self.gate.desk.deny(awaiting.approval_id, digest=view.digest, by=by, reason=reason)

    def events(self, *kinds: str) -> list[dict[str, Any]]:
        """The audit as it is stored; with kinds, only those events."""
        events = [json.loads(event.body) for event in each_at_once(self.gate.store.chained())]
        return [event for event in events if not kinds or event["kind"] in kinds]

    def bodies(self) -> bytes:
        return b"\n".join(event.body for event in each_at_once(self.gate.store.chained()))

    def words(self) -> list[str]:
        """`started`, or the outcome with which an attempt completed, in order."""
        return [event.get("outcome", "started") for event in self.events("started", "completed")]

    def attempts(self) -> list[int]:
        return [event["attempt"] for event in self.events("started", "completed")]

    def completed(self) -> dict[str, Any]:
        """The last completed event."""
        return self.events("completed")[-1]

    async def effects(self) -> tuple[Effect, ...]:
        return await self.gate.store.effects(tenant=None, states=tuple(EffectState), limit=1000)

    async def effect(self) -> Effect:
        """The only effect there is."""
        (effect,) = await self.effects()
        return effect

    def check_pairs(self) -> None:
        """Every started attempt has exactly one completed event, later, with the same id, attempt and arguments."""
        open_attempts: dict[tuple[str, ...], list[dict[str, Any]]] = {}
        for event in self.events("started", "completed"):
            key = tuple(str(event.get(name)) for name in ("tenant", "run_id", "call_id", "attempt", "fence"))
            if event["kind"] == "started":
                assert "outcome" not in event
                open_attempts.setdefault(key, []).append(event)
                continue
            assert open_attempts.get(key), f"completed without started: {event}"
            started = open_attempts[key].pop()
            assert event["outcome"]
            if event.get("detail") != "owner_lost":
                assert started.get("arguments_fingerprint") == event.get("arguments_fingerprint")
        left = {key for key, events in open_attempts.items() if events} - self.pairs_stay_open
        assert not left, f"started and never completed: {left}"


OpenWorld = Callable[..., Awaitable[World]]


@pytest.fixture(params=[pytest.param("memory", marks=pytest.mark.exhaustive), "sqlite"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The place of a store, once in memory and once in a SQLite file."""
    return placet.MEMORY if request.param == "memory" else str(tmp_path / "placet.db")


@pytest.fixture
async def open_world() -> AsyncIterator[OpenWorld]:
    """Open gates; at the end of the test each must have closed pairs and an audit that holds."""
    worlds: list[World] = []
    async with AsyncExitStack() as stack:

        async def open_one(
            *tools: Tool, store: str = placet.MEMORY, clock: FakeClock | None = None, seed: int = 0, **more: Any
        ) -> World:
            clock = clock or FakeClock()
            more.setdefault("settings", GateSettings(grace_seconds=0.05))
            more.setdefault("ids", NumberedIds(seed, world=len(worlds)))
            opening = placet.open(tools=tools, store=store, clock=clock, recovery=placet.Recovery.MANUAL, **more)
            world = World(gate=await stack.enter_async_context(opening), clock=clock)
            worlds.append(world)
            return world

        yield open_one
        for world in worlds:
            world.check_pairs()
            assert (await world.gate.verify_audit()).holds


@dataclass
class Spy:
    """Counts what really ran, and with what."""

    calls: list[Any] = field(default_factory=list)

    def __call__(self, value: Any = None) -> None:
        self.calls.append(value)

    @property
    def count(self) -> int:
        return len(self.calls)


@pytest.fixture
def spy() -> Spy:
    return Spy()


def looked_up(spy: Spy, *, name: str = "look", **options: Any) -> Tool:
    """A plain read of one text."""

    async def look(word: str) -> dict[str, str]:
        spy(word)
        return {"word": word}

    return placet.tool(effect="read", name=name, **options)(look)


def written(spy: Spy, *, name: str = "write", **options: Any) -> Tool:
    """A write of one text and a number."""

    async def write(word: str, count: int = 1) -> dict[str, str]:
        spy((word, count))
        return {"word": word}

    settings: dict[str, Any] = {"effect": "write", "risk": "medium", "permission": SCOPE, "name": name}
    return placet.tool(**(settings | options))(write)


def acting(handler: Callable[[], Awaitable[Any]], **options: Any) -> Tool:
    """A tool without arguments that does what the test says."""

    async def act() -> dict[str, str]:
        await handler()
        return {"done": "yes"}

    settings: dict[str, Any] = {"effect": "write", "risk": "medium", "permission": SCOPE, "name": "act"}
    return placet.tool(**(settings | options))(act)


def tally(words: Iterable[str]) -> dict[str, int]:
    return dict(Counter(words))

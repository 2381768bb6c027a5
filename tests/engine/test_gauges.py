"""What the numbers of a gate say of how things are now: only what was looked at, and only while the gate is open."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

import placet
from placet import Breaker, GateSettings
from placet.errors import StoreUnavailable
from placet.rules.unknowns import UnknownReason
from placet.testing import FakeClock
from tests.engine.conftest import OPERATOR, SCOPE, OpenWorld, acting

MEASURED = (
    "placet_effects_unknown",
    "placet_effects_unknown_oldest_seconds",
    "placet_approvals_pending",
    "placet_recovery_last_round_timestamp_seconds",
)
ONE_FAULT = Breaker(faults=1, within_seconds=60.0, open_seconds=30.0, probes=1)


async def fails() -> None:
    raise RuntimeError


def proposal(call_id: str, tool: str = "act") -> dict[str, object]:
    return {"call_id": call_id, "tool": tool, "arguments": {}}


class Numbers:
    def __init__(self) -> None:
        self.registry = CollectorRegistry()

    def __call__(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(name, labels)

    def measured(self) -> list[float | None]:
        return [self(name) for name in MEASURED]

    async def until(self, value: float, name: str, **labels: str) -> None:
        async with asyncio.timeout(60):
            while self(name, **labels) != value:
                await asyncio.sleep(0.005)


@pytest.fixture
def numbers() -> Numbers:
    return Numbers()


async def test_nobody_looked_is_not_nothing_found(open_world: OpenWorld, numbers: Numbers, where: str) -> None:
    world = await open_world(acting(fails, breaker=None), store=where, metrics=numbers.registry)
    await world.submit("act", call_id="lost")
    assert numbers.measured() == [None] * 4

    world.clock.advance(7)
    await world.gate.reconciler.recover()

    assert numbers.measured() == [1, 7, 0, world.clock.now().timestamp()]
    assert numbers("placet_recovery_failures_total") == 0


async def test_unknown_effects_are_counted_by_why_nothing_has_settled_them(
    open_world: OpenWorld, numbers: Numbers, where: str
) -> None:
    async def looks(context: placet.ProbeContext) -> placet.CannotTell:
        return placet.CannotTell()

    blind, seen = acting(fails, name="blind", breaker=None), acting(fails, name="seen", breaker=None, probe=looks)
    settings = GateSettings(grace_seconds=0.05, max_probes=2)
    world = await open_world(blind, seen, store=where, metrics=numbers.registry, settings=settings)

    def counts() -> dict[str, float | None]:
        name = "placet_effects_unknown_by_reason"
        found = {reason.value: numbers(name, reason=reason.value) for reason in UnknownReason}
        return {reason: count for reason, count in found.items() if count != 0}

    assert set(counts().values()) == {None}
    await world.submit(blind, call_id="a")
    await world.submit(blind, call_id="b")
    await world.submit(seen, call_id="c")
    await world.gate.reconciler.recover()
    assert counts() == {"no_probe": 2, "cannot_tell": 1}
    world.clock.advance(3600)
    await world.gate.reconciler.recover()

    assert counts() == {"no_probe": 2, "gave_up": 1}


@pytest.mark.parametrize("is_same", [True, False])
async def test_gates_of_two_stores_on_one_registry_add_up_and_two_of_one_do_not(
    open_world: OpenWorld, numbers: Numbers, tmp_path: Path, is_same: bool
) -> None:
    stores = [tmp_path / "one.db", tmp_path / ("sub/../one.db" if is_same else "two.db")]
    (tmp_path / "sub").mkdir()
    tool = acting(fails, breaker=None)
    worlds = [
        await open_world(tool, store=str(store), metrics=numbers.registry, seed=n) for n, store in enumerate(stores)
    ]
    await worlds[0].submit("act", call_id="a")
    await worlds[0].submit("act", call_id="b")
    if not is_same:
        await worlds[1].submit("act", call_id="c")
    for world in worlds:
        await world.gate.reconciler.recover()

    assert numbers("placet_effects_unknown") == (2 if is_same else 3)


async def test_a_sign_of_life_that_is_not_taken_is_told(
    open_world: OpenWorld, numbers: Numbers, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    settings = GateSettings(grace_seconds=0.05, lease_seconds=0.03)
    failed = asyncio.Event()

    async def waits() -> None:
        await failed.wait()

    world = await open_world(acting(waits), metrics=numbers.registry, settings=settings)

    async def down(*args: Any, **more: Any) -> Any:
        raise StoreUnavailable("secret of the store")

    with monkeypatch.context() as patch:
        patch.setattr(world.gate.store, "heartbeat", down)
        asking = asyncio.ensure_future(world.submit("act"))
        await numbers.until(2, "placet_heartbeat_failures_total")
        failed.set()
        await asking

    told = [record for record in caplog.records if record.name == "placet.keeper"]
    assert told and {record.getMessage() for record in told} == {"heartbeat failed"}
    assert "secret" not in caplog.text


@pytest.mark.parametrize("verb", ["stranded", "lost_reads", "due_for_probe", "unknown_effects", "pending_count"])
async def test_a_round_with_a_fault_is_counted_and_is_no_whole_round(
    open_world: OpenWorld, numbers: Numbers, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    world = await open_world(acting(fails), metrics=numbers.registry)
    await world.gate.reconciler.recover()
    whole = world.clock.now().timestamp()
    world.clock.advance(60)

    async def down(*args: Any, **more: Any) -> Any:
        raise StoreUnavailable()

    with monkeypatch.context() as patch:
        patch.setattr(world.gate.store, verb, down)
        for _ in range(2):
            with pytest.raises(StoreUnavailable):
                await world.gate.reconciler.recover()
    assert numbers("placet_recovery_failures_total") == 2
    assert numbers("placet_recovery_last_round_timestamp_seconds") == whole

    await world.gate.reconciler.recover()

    assert numbers("placet_recovery_failures_total") == 2
    assert numbers("placet_recovery_last_round_timestamp_seconds") == whole + 60


async def test_a_gate_that_closes_gives_its_breakers_and_measures_back(numbers: Numbers) -> None:
    tool = acting(fails, breaker=ONE_FAULT, retry=placet.RetryPolicy(max_attempts=1))

    def opening() -> Any:
        return placet.open(
            tools=[tool], store=placet.MEMORY, recovery="manual", metrics=numbers.registry, clock=FakeClock()
        )

    async with opening() as other:
        await other.submit(proposal("a"), principal=OPERATOR, run="r")
        async with opening() as gate:
            await gate.submit(proposal("a"), principal=OPERATOR, run="r")
            await gate.reconciler.recover()
            assert numbers("placet_breakers_open", tool="act") == 2
            assert numbers.measured()[0] == 1

        assert numbers("placet_breakers_open", tool="act") == 1
        assert numbers.measured() == [None] * 4
    assert numbers("placet_breakers_open", tool="act") == 0
    assert numbers("placet_breaker_changes_total", tool="act", state="open") == 2


async def test_stray_attempts_of_every_gate_and_kind_add_up_by_tool(open_world: OpenWorld, numbers: Numbers) -> None:
    may_end, may_return = asyncio.Event(), threading.Event()
    options: dict[str, Any] = {"effect": "write", "risk": "medium", "permission": SCOPE, "timeout_seconds": 0.02}

    @placet.tool(name="stubborn", **options)
    async def stubborn() -> str:
        while not may_end.is_set():
            try:
                await may_end.wait()
            except asyncio.CancelledError:
                continue
        return "late"

    @placet.tool(name="blocking", isolation="thread", **options)
    def blocking() -> str:
        may_return.wait(30)
        return "late"

    worlds = [
        await open_world(stubborn, blocking, metrics=numbers.registry, settings=GateSettings(grace_seconds=0.05))
        for _ in range(2)
    ]
    try:
        for world in worlds:
            for tool in (stubborn, blocking):
                await world.submit(tool, call_id=tool.contract.name)
        assert numbers("placet_stray_attempts", tool="stubborn") == 2
        assert numbers("placet_stray_attempts", tool="blocking") == 2
    finally:
        may_end.set()
        may_return.set()
    await numbers.until(0, "placet_stray_attempts", tool="stubborn")
    await numbers.until(0, "placet_stray_attempts", tool="blocking")


async def test_every_refusal_for_want_of_room_is_counted_by_its_code(open_world: OpenWorld, numbers: Numbers) -> None:
    may_end = asyncio.Event()
    ill = acting(fails, name="ill", breaker=ONE_FAULT, retry=placet.RetryPolicy(max_attempts=1))
    busy = acting(may_end.wait, name="busy", max_concurrent=1)
    world = await open_world(ill, busy, metrics=numbers.registry, settings=GateSettings(max_waiting=0))

    await world.submit("ill", call_id="1")
    running = asyncio.ensure_future(world.submit("busy", call_id="2"))
    await numbers.until(1, "placet_tool_calls_running", tool="busy")
    refused = [(await world.submit(tool, call_id=f"3-{tool}")).code for tool in ("ill", "busy", "busy")]
    may_end.set()
    await running

    assert refused == ["circuit_open", "too_many_running", "too_many_running"]
    assert numbers("placet_calls_without_room_total", tool="ill", code="circuit_open") == 1
    assert numbers("placet_calls_without_room_total", tool="busy", code="too_many_running") == 2
    for tool in ("ill", "busy"):
        assert numbers("placet_calls_without_room_total", tool=tool, code="capacity") == 0

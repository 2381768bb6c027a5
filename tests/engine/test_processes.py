"""Handlers in processes of their own, behind a gate: what the ledger, the audit and the caller are told."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

import placet
from placet import Gate, GateSettings
from placet.model.effect import Effect, EffectState
from placet.model.outcome import Failed, Outcome, Replayed, Succeeded, Unknown
from placet.testing.kill_points import SentinelRemote
from tests.engine import process_tools
from tests.engine.conftest import OPERATOR
from tests.processes import children_of, command_of

TOOLS = (process_tools.look, process_tools.pay, process_tools.settle, process_tools.too_slow_to_start)
SETTINGS = GateSettings(pause_seconds=0.05, grace_seconds=0.05, lease_seconds=30.0)


class House:
    """A SQLite store, a remote that counts, and gates over them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.registry = CollectorRegistry()

    @property
    def remote(self) -> SentinelRemote:
        return SentinelRemote(self.folder / "remote.jsonl")

    def opening(self, settings: GateSettings = SETTINGS) -> Any:
        return placet.open(
            tools=TOOLS, store=self.folder / "placet.db", settings=settings, recovery="manual", metrics=self.registry
        )

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Gate]:
        async with self.opening() as gate:
            yield gate
            report = await gate.verify_audit()
            assert (report.breaks, report.unpaired) == ((), 0)

    def payment(self, how: str = "", *, call_id: str = "c1", tool: str = "pay") -> dict[str, object]:
        arguments = {"order": "A7", "folder": str(self.folder)} | ({"how": how} if tool == "pay" else {})
        return {"call_id": call_id, "tool": tool, "arguments": arguments}

    async def handler(self) -> int:
        """The process of a handler that has begun."""
        async with asyncio.timeout(20):
            while not (self.folder / "started").exists() or not (self.folder / "started").read_text():
                await asyncio.sleep(0.01)
        return int((self.folder / "started").read_text())

    def cut_short(self, reason: str, *, tool: str = "pay") -> float | None:
        return self.registry.get_sample_value("placet_processes_cut_short_total", {"tool": tool, "reason": reason})


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


async def ask(gate: Gate, proposal: dict[str, object], **more: Any) -> Outcome:
    return await gate.submit(proposal, principal=OPERATOR, run="r1", **more)


async def the_effect(gate: Gate) -> Effect:
    (effect,) = await gate.store.effects(tenant=None, states=tuple(EffectState), limit=9)
    return effect


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def wardens() -> set[int]:
    """Children of this process that are wardens, or were and have not been waited for."""
    commands = {child: command_of(child) for child in children_of(os.getpid())}
    return {
        child for child, command in commands.items() if b"placet.adapters.transports.warden" in command or not command
    }


async def test_a_read_and_a_write_succeed_and_the_write_is_replayed(house: House) -> None:
    async with house.open() as gate:
        look = {"call_id": "c0", "tool": "look", "arguments": {"word": "x"}}
        seen = await ask(gate, look)
        assert isinstance(seen, Succeeded)
        assert isinstance(seen.result, dict)
        assert (seen.result["word"], seen.result["pid"] != os.getpid()) == ("x", True)

        first, again = await ask(gate, house.payment()), await ask(gate, house.payment(call_id="c2"))

        assert (type(first), type(again)) == (Succeeded, Replayed)
        assert isinstance(again, Replayed)
        assert (again.result, house.remote.effects().total()) == ({"order": "A7"}, 1)


def test_a_gate_without_a_loop_runs_them_too(house: House) -> None:
    with house.opening() as gate:
        outcomes = [gate.submit(house.payment(), principal=OPERATOR, run="r1") for _ in range(2)]
        many: list[Outcome] = []
        look = {"tool": "look", "arguments": {"word": "x"}}
        threads = [
            threading.Thread(
                target=lambda n=n: many.append(gate.submit(look | {"call_id": f"l{n}"}, principal=OPERATOR, run="r2"))
            )
            for n in range(3)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    assert [type(outcome) for outcome in outcomes] == [Succeeded, Replayed]
    assert [type(outcome) for outcome in many] == [Succeeded] * 3


@pytest.mark.req("B108", "C030", "H027")
@pytest.mark.parametrize(("how", "acted"), [("hangs_before", 0), ("hangs_after", 1)])
async def test_a_write_killed_at_its_deadline_is_unknown_has_ended_and_can_be_reconciled(
    house: House, how: str, acted: int
) -> None:
    async with house.open() as gate:
        outcome = await ask(gate, house.payment(how), timeout_seconds=5.0)
        killed = await the_effect(gate)

        assert type(outcome) is Unknown
        assert not is_alive(await house.handler())
        assert (killed.state, killed.reason) == (EffectState.UNKNOWN, "deadline_passed")
        assert (killed.ends_by_itself, killed.attempt_ended_at is not None) == (True, True)
        assert (house.cut_short("deadline"), house.remote.effects().total()) == (1.0, acted)

        async with asyncio.timeout(60):
            while (await the_effect(gate)).state is EffectState.UNKNOWN:
                await gate.reconciler.recover()
                await asyncio.sleep(0.02)
        settled = (await the_effect(gate)).state

        assert settled is (EffectState.RECONCILED_COMMITTED if acted else EffectState.RECONCILED_ABSENT)


async def test_a_write_whose_process_dies_is_unknown(house: House) -> None:
    async with house.open() as gate:
        assert type(await ask(gate, house.payment("dies"))) is Unknown
        effect = await the_effect(gate)

    assert (effect.state, effect.reason, effect.attempt_ended_at is not None) == (
        EffectState.UNKNOWN, "raised_process_died", True,
    )  # fmt: skip
    assert house.cut_short("died") == 1.0


async def test_an_idempotent_write_whose_process_dies_is_tried_again_under_its_key(house: House) -> None:
    async with house.open() as gate:
        outcome = await ask(gate, house.payment(tool="settle"))

    assert isinstance(outcome, Succeeded)
    assert dict(house.remote.effects()) == {outcome.operation_key: 2}


@pytest.mark.req("B101")
async def test_a_write_whose_process_did_not_start_in_time_has_failed_and_may_be_asked_again(house: House) -> None:
    async with house.open() as gate:
        outcome = await ask(gate, {"call_id": "c", "tool": "too_slow_to_start", "arguments": {"word": "x"}})
        effect = await the_effect(gate)

    assert isinstance(outcome, Failed)
    assert (outcome.code, outcome.may_have_acted, outcome.retryable) == ("not_sent", False, True)
    assert (effect.state, effect.reason) == (EffectState.FAILED, "not_sent")


async def test_the_words_of_a_rejection_reach_the_caller(house: House) -> None:
    async with house.open() as gate:
        rejected = await ask(gate, house.payment("rejects"))

    assert isinstance(rejected, Failed)
    assert (rejected.code, rejected.words) == ("tool_rejected", "no s3cr3t-free room")


async def test_a_performed_write_whose_result_broke_its_contract_is_not_repeated(house: House) -> None:
    async with house.open() as gate:
        performed = await ask(gate, house.payment("breaks"))
        again = await ask(gate, house.payment("breaks", call_id="c2"))

    assert isinstance(performed, Succeeded)
    assert isinstance(again, Replayed)
    assert (performed.result, performed.result_unavailable) == (None, "result_string_too_long")
    assert (again.result, house.remote.effects().total()) == (None, 1)


@pytest.mark.req("B106")
async def test_a_cancelled_caller_has_its_handler_killed_and_its_attempt_closed(house: House) -> None:
    async with house.open() as gate:
        asking = asyncio.ensure_future(ask(gate, house.payment("hangs_after")))
        handler = await house.handler()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        effect = await the_effect(gate)

    assert (is_alive(handler), effect.state, effect.reason) == (False, EffectState.UNKNOWN, "caller_left")
    assert house.cut_short("caller_left") == 1.0


async def test_closing_a_gate_ends_its_handlers_and_settles_what_they_did(house: House) -> None:
    before = wardens()
    async with house.opening() as gate:
        asking = asyncio.ensure_future(ask(gate, house.payment("hangs_after")))
        handler = await house.handler()
        assert len(wardens()) == len(before) + 2, "the handler's and a spare one"
    assert not is_alive(handler)
    assert wardens() == before
    assert isinstance((await asyncio.gather(asking, return_exceptions=True))[0], asyncio.CancelledError)

    async with house.open() as gate:
        effect = await the_effect(gate)
        assert (effect.state, effect.reason) == (EffectState.UNKNOWN, "caller_left")


@pytest.mark.req("B201", "B202", "B134")
async def test_nothing_a_child_says_or_carries_leaks(
    house: House, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    async with house.open() as gate:
        outcome = await ask(gate, house.payment("leaks"))
        audit = b"\n".join([event.body async for event in gate.store.chained()])

    printed = capfd.readouterr()
    assert type(outcome) is Unknown
    assert "s3cr3t" not in f"{outcome}{outcome.as_data()}{printed.out}{printed.err}{caplog.text}"
    assert b"s3cr3t" not in audit
    assert b"ValueError" in audit


async def test_limits_of_processes_are_settings(house: House) -> None:
    looks = [{"call_id": f"c{n}", "tool": "look", "arguments": {"word": "x"}} for n in range(3)]
    async with house.opening(GateSettings(max_processes=1, spare_processes=0)) as gate:
        outcomes = await asyncio.gather(*(ask(gate, look) for look in looks))
    assert [type(outcome) for outcome in outcomes] == [Succeeded] * 3

    for name, value in (
        ("max_processes", 0),
        ("max_processes", 1.5),
        ("spare_processes", -1),
        ("spare_processes", 0.5),
    ):
        with pytest.raises(placet.PlacetError, match=name):
            GateSettings(**{name: value})  # type: ignore[arg-type]


def test_isolation_is_part_of_the_contract() -> None:
    options: dict[str, Any] = {"effect": "read", "name": "act"}
    digests = {
        placet.tool(**options, isolation=kind)(process_tools.look.function).contract.digest
        for kind in ("thread", "process")
    }
    assert len(digests) == 2


def test_only_a_thread_is_not_known_to_stop_by_its_deadline() -> None:
    assert {kind.value: kind.ends_by_itself for kind in placet.Isolation} == {
        "async": True, "thread": False, "process": True,
    }  # fmt: skip


@pytest.mark.parametrize(("is_coroutine", "isolation"), [(True, "thread"), (False, "async"), (False, "fork")])
def test_a_function_that_cannot_run_so_is_refused(is_coroutine: bool, isolation: str) -> None:
    async def in_loop() -> str:
        return ""

    def plain() -> str:
        return ""

    function: Callable[..., Any] = in_loop if is_coroutine else plain
    with pytest.raises(placet.PlacetError, match="isolation"):
        placet.tool(effect="read", isolation=isolation)(function)

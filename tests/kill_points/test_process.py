"""The gate dies, or stands still, while a handler of its is at work in a process of its own.

Whatever becomes of the gate, the handler and all it started are gone soon after; the operation acts at most once.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections.abc import Awaitable, Callable
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest

import placet
from placet.model.effect import Effect, EffectState
from placet.model.outcome import Replayed, Succeeded
from placet.testing.kill_points import SentinelRemote
from tests.kill_points import process_tools
from tests.kill_points.actors import (
    AGENT,
    KILLED,
    SETTINGS,
    SharedTime,
    assert_audit_is_whole,
    ended,
    recovered,
    start,
)
from tests.processes import is_gone

pytestmark = pytest.mark.req("H042", "H046", "C045")


def open_gate(folder: str) -> Any:
    return placet.open(
        tools=[process_tools.pay],
        store=Path(folder, "placet.db"),
        settings=SETTINGS,
        recovery=placet.Recovery.MANUAL,
        clock=SharedTime(folder),
    )


def payment(folder: Path | str) -> dict[str, Any]:
    return {"call_id": "c1", "tool": "pay", "arguments": {"order": "o-1", "folder": str(folder)}}


# ---------------------------------------------------------------- actors


def ask(folder: str, timeout_seconds: float = 25.0) -> None:
    """Ask once; how it ends is the test's to say, long before the deadline."""

    async def act() -> None:
        async with open_gate(folder) as gate:
            outcome = await gate.submit(payment(folder), principal=AGENT, run="r", timeout_seconds=timeout_seconds)
            Path(folder, "outcome").write_text(outcome.status)

    asyncio.run(act())


def ask_for_a_moment(folder: str) -> None:
    ask(folder, 8.0)


def ask_beside_a_copy(folder: str) -> None:
    """A copy of this process, made by fork, keeps every descriptor of the gate open after its death."""
    loop = asyncio.new_event_loop()

    async def act() -> None:
        async with open_gate(folder) as gate:
            asking = asyncio.ensure_future(gate.submit(payment(folder), principal=AGENT, run="r"))
            while not Path(folder, "hanging").exists():
                await asyncio.sleep(0.01)
            if (copy := os.fork()) == 0:
                while True:
                    signal.pause()
            Path(folder, "copy").write_text(str(copy))
            await asking

    loop.run_until_complete(act())


def ask_in_a_group_of_its_own(folder: str) -> None:
    os.setpgid(0, 0)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    ask(folder)


# ---------------------------------------------------------------- watching


def hanging(folder: Path) -> dict[str, int]:
    """The processes of a handler at work."""
    file = folder / "hanging"
    within(30.0, file.exists)
    at_work: dict[str, int] = json.loads(file.read_text())
    assert not any(map(is_gone, at_work.values()))
    return at_work


def within(seconds: float, happened: Callable[[], bool]) -> None:
    deadline = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.01)


def are_gone(processes: dict[str, int]) -> bool:
    return all(map(is_gone, processes.values()))


def working(folder: Path, mode: str, actor: Callable[[str], None] = ask) -> tuple[BaseProcess, dict[str, int]]:
    """A process with a gate, whose handler hangs before or after it acted."""
    (folder / "mode").write_text(mode)
    gate = start(actor, str(folder))
    return gate, hanging(folder)


async def in_new_gate(folder: Path, look: Callable[[Any], Awaitable[Any]]) -> Any:
    (folder / "mode").unlink()
    async with open_gate(str(folder)) as gate:
        answer = await look(gate)
        assert_audit_is_whole(gate)
        return answer


async def the_effect(gate: Any) -> Effect:
    (effect,) = await gate.store.effects(tenant=None, states=tuple(EffectState), limit=9)
    return effect  # type: ignore[no-any-return]


@pytest.mark.req("X001", "H045", "H027")
@pytest.mark.parametrize(
    ("mode", "signum"), [("before", signal.SIGKILL), ("after", signal.SIGKILL), ("after", signal.SIGTERM)]
)
async def test_a_killed_gate_takes_its_handler_along_and_the_operation_acts_once(
    tmp_path: Path, mode: str, signum: signal.Signals
) -> None:
    gate, at_work = working(tmp_path, mode)
    os.kill(gate.pid or 0, signum)
    assert ended(gate) == -signum
    within(60.0, lambda: are_gone(at_work))
    assert SentinelRemote(tmp_path / "remote.jsonl").effects().total() == (mode == "after")

    async def asked_again(gate: Any) -> tuple[Any, Any]:
        at_once = await gate.submit(payment(tmp_path), principal=AGENT, run="r", timeout_seconds=0.5)
        SharedTime(tmp_path).pass_by()
        await recovered(gate)
        return at_once, await gate.submit(payment(tmp_path), principal=AGENT, run="r")

    at_once, later = await in_new_gate(tmp_path, asked_again)

    assert at_once.code == "in_progress"
    assert type(later) is (Replayed if mode == "after" else Succeeded)
    assert SentinelRemote(tmp_path / "remote.jsonl").effects().total() == 1


async def test_a_killed_gate_takes_a_handler_along_that_had_stopped_its_warden(tmp_path: Path) -> None:
    gate, at_work = working(tmp_path, "after")
    os.kill(at_work["warden"], signal.SIGSTOP)  # what a hostile handler may do to its parent
    os.kill(gate.pid or 0, signal.SIGKILL)
    assert ended(gate) == KILLED
    try:
        within(60.0, lambda: are_gone(at_work))
    finally:
        if not is_gone(at_work["warden"]):
            os.kill(at_work["warden"], signal.SIGCONT)


async def test_a_copy_of_a_killed_gate_does_not_keep_its_handler_alive(tmp_path: Path) -> None:
    gate, at_work = working(tmp_path, "after", ask_beside_a_copy)
    within(60.0, (tmp_path / "copy").exists)
    within(60.0, lambda: (tmp_path / "copy").read_text() != "")
    try:
        os.kill(gate.pid or 0, signal.SIGKILL)
        assert ended(gate) == KILLED
        within(60.0, lambda: are_gone(at_work))
    finally:
        os.kill(int((tmp_path / "copy").read_text()), signal.SIGKILL)


@pytest.mark.case("I03")
async def test_while_the_gate_stands_still_its_handler_ends_at_the_deadline_all_the_same(tmp_path: Path) -> None:
    gate, at_work = working(tmp_path, "after", ask_for_a_moment)
    os.kill(gate.pid or 0, signal.SIGSTOP)
    try:
        within(30.0, lambda: are_gone({name: at_work[name] for name in ("handler", "kin")}))
    finally:
        os.kill(gate.pid or 0, signal.SIGCONT)
    assert ended(gate) == 0

    effect = await in_new_gate(tmp_path, the_effect)
    assert (tmp_path / "outcome").read_text() == "unknown"
    assert (effect.state, effect.reason, effect.attempt_ended_at is not None) == (
        EffectState.UNKNOWN, "deadline_passed", True,
    )  # fmt: skip


async def test_an_interrupt_at_the_terminal_reaches_the_gate_and_the_gate_ends_the_handler(tmp_path: Path) -> None:
    gate, at_work = working(tmp_path, "after", ask_in_a_group_of_its_own)
    assert os.getpgid(at_work["handler"]) != gate.pid
    os.killpg(gate.pid or 0, signal.SIGINT)
    assert ended(gate) == 1  # KeyboardInterrupt, after everything was closed
    assert are_gone(at_work)

    effect = await in_new_gate(tmp_path, the_effect)
    assert (effect.state, effect.reason, effect.attempt_ended_at is not None) == (
        EffectState.UNKNOWN, "caller_left", True,
    )  # fmt: skip

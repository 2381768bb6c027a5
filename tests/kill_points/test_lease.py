"""Whose effect it is: a heartbeat keeps it, standing still loses it, a stale owner's word moves nothing of another's.

Real processes; an owner is suspended with SIGSTOP beyond its lease and woken after others have taken over.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest

import placet
from placet.model.effect import Effect, EffectState
from placet.model.outcome import Succeeded
from placet.testing.kill_points import SentinelRemote
from tests.kill_points import draining_tools
from tests.kill_points.actors import (
    AGENT,
    LEASE_SECONDS,
    SETTINGS,
    SharedTime,
    assert_audit_is_whole,
    ended,
    start,
    stood_still,
)
from tests.kill_points.test_drain import payment, wait_for

pytestmark = pytest.mark.req("H038")


@placet.tool(
    name="pay_guarded", effect="write", risk="medium", permission="pay", operation_key="pay:{order}",
    probe=draining_tools.became_of, remote=placet.Remote(refuses_late=True, arrival_bound_seconds=0.05),
    timeout_seconds=30.0,
)  # fmt: skip
async def pay_guarded(order: str, folder: str, context: placet.CallContext) -> str:
    """Looks at the clock once more right before its first byte, as a handler that may be suspended has to."""
    for _ in draining_tools._waits(Path(folder), "before"):
        await asyncio.sleep(0.01)
    context.guard()
    draining_tools._act(Path(folder), context, order)
    return order


TOOLS = {**draining_tools.TOOLS, "guarded": pay_guarded}


def open_gate(folder: Path | str, clock: Any = None) -> Any:
    return placet.open(
        tools=list(TOOLS.values()),
        store=Path(folder, "placet.db"),
        settings=SETTINGS,
        recovery=placet.Recovery.MANUAL,
        clock=clock or SharedTime(folder),
    )


class JustInTime(SharedTime):
    """For one that looks at the last moment at which an effect is its owner's, however long the owner is delayed."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.at: datetime | None = None

    def now(self) -> datetime:
        return self.at or super().now()


def ask(folder: str, kind: str) -> None:
    """One call; how it ended, and what the process then reads in the ledger, is written down."""

    async def act() -> None:
        async with open_gate(folder) as gate:
            outcome = await gate.submit(payment(folder, kind), principal=AGENT, run="r")
            Path(folder, "draft").write_text(json.dumps({"status": outcome.status, "acted": outcome.may_have_acted}))
            Path(folder, "draft").rename(Path(folder, "answer"))

    asyncio.run(act())


@contextmanager
def standing(folder: Path, mode: str, kind: str) -> Iterator[BaseProcess]:
    """A process whose handler stands still at the point; it is woken and ended whatever happens."""
    (folder / "mode").write_text(mode)
    process = start(ask, str(folder), kind)
    try:
        wait_for(folder / "standing")
        yield process
    finally:
        if process.is_alive() and process.pid is not None:
            os.kill(process.pid, signal.SIGCONT)
            (folder / "go").touch()
            process.join(30.0)


async def the_effect(gate: Any) -> Effect:
    (effect,) = await gate.store.effects(tenant=None, states=tuple(EffectState), limit=9)
    assert isinstance(effect, Effect)
    return effect


async def recovered_to(gate: Any, *states: EffectState) -> Effect:
    async with asyncio.timeout(30):
        while (effect := await the_effect(gate)).state not in states:
            await gate.reconciler.recover()
            await asyncio.sleep(0.02)
    return effect


def acted(folder: Path) -> int:
    return sum(SentinelRemote(folder / "remote.jsonl").effects().values())


def answer(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "answer").read_text())
    return found


@pytest.mark.parametrize("kind", ["async", "process", "thread"])
async def test_signs_of_life_keep_an_effect_for_many_leases(tmp_path: Path, kind: str) -> None:
    """Another process recovers all the while, and takes nothing over."""
    with standing(tmp_path, "before", kind) as owner:
        clock = JustInTime(tmp_path)
        async with open_gate(tmp_path, clock) as gate:
            now = first = await the_effect(gate)
            async with asyncio.timeout(60):
                while now.lease_until < first.lease_until + timedelta(seconds=4 * LEASE_SECONDS):
                    clock.at = now.lease_until - timedelta(milliseconds=1)
                    assert (await gate.reconciler.recover()).taken_over == 0
                    before = now
                    while (now := await the_effect(gate)).lease_until == before.lease_until:
                        await asyncio.sleep(0.02)
                    assert now.state is EffectState.DISPATCHED
            assert now.send_by == first.send_by, "a sign of life never makes the time to send longer"
            (tmp_path / "go").touch()
            assert ended(owner) == 0
            assert ((await the_effect(gate)).state, acted(tmp_path)) == (EffectState.COMMITTED, 1)
            assert_audit_is_whole(gate)
    assert answer(tmp_path)["status"] == "succeeded"


@pytest.mark.parametrize("kind", ["async", "thread"])
async def test_a_stopped_owner_loses_its_effect_and_its_late_success_is_the_truth(tmp_path: Path, kind: str) -> None:
    """Same dispatch, nobody else acted: unknown becomes reconciled_committed by the late word."""
    with standing(tmp_path, "before", kind) as owner:
        stood_still(owner, tmp_path / "placet.db")
        async with open_gate(tmp_path) as gate:
            unknown = await recovered_to(gate, EffectState.UNKNOWN)
            asked = await gate.submit(payment(tmp_path, kind), principal=AGENT, run="r")
            (tmp_path / "go").touch()
            os.kill(owner.pid or 0, signal.SIGCONT)
            assert ended(owner) == 0
            after = await the_effect(gate)
            assert_audit_is_whole(gate)

    assert (unknown.reason, asked.code) == ("owner_lost", "effect_unknown")
    assert (after.state, after.fence, after.token) == (EffectState.RECONCILED_COMMITTED, unknown.fence, unknown.token)
    assert (answer(tmp_path)["status"], acted(tmp_path)) == ("succeeded", 1)


@pytest.mark.parametrize("kind", ["async", "thread"])
async def test_a_stopped_owner_that_was_reconciled_by_a_probe_says_what_the_record_says(
    tmp_path: Path, kind: str
) -> None:
    with standing(tmp_path, "after", kind) as owner:
        stood_still(owner, tmp_path / "placet.db")
        async with open_gate(tmp_path) as gate:
            found = await recovered_to(gate, EffectState.RECONCILED_COMMITTED)
            (tmp_path / "go").touch()
            os.kill(owner.pid or 0, signal.SIGCONT)
            assert ended(owner) == 0
            assert await the_effect(gate) == found
            replayed = await gate.submit(payment(tmp_path, kind), principal=AGENT, run="r")
            assert_audit_is_whole(gate)

    assert (answer(tmp_path)["status"], replayed.status, acted(tmp_path)) == ("succeeded", "replayed", 1)


async def test_a_stale_owner_neither_acts_nor_settles_once_another_has_the_operation(tmp_path: Path) -> None:
    """It stood still before its first byte; others saw that nothing came, and did it; then it wakes."""
    with standing(tmp_path, "before", "guarded") as owner:
        stood_still(owner, tmp_path / "placet.db")
        (tmp_path / "mode").write_text("")  # the next one goes straight on
        SharedTime(tmp_path).pass_by()
        async with open_gate(tmp_path) as gate:
            absent = await recovered_to(gate, EffectState.RECONCILED_ABSENT)
            second = await gate.submit(payment(tmp_path, "guarded"), principal=AGENT, run="r")
            settled = await the_effect(gate)

            (tmp_path / "go").touch()
            os.kill(owner.pid or 0, signal.SIGCONT)
            assert ended(owner) == 0
            assert await the_effect(gate) == settled
            assert_audit_is_whole(gate)

    assert (absent.fence, type(second), settled.state, settled.fence) == (1, Succeeded, EffectState.COMMITTED, 2)
    assert answer(tmp_path) == {"status": "unknown", "acted": True}, "it cannot tell, and does not claim to"
    assert acted(tmp_path) == 1

"""A process is told to end while a handler is at work: what ends in time is settled, the rest is left as by a kill.

Real processes and real signals. What the ledger and the audit hold after a drain that ran out is compared with what a
SIGKILL at the same point leaves, and both are recovered the same.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest

import placet
from placet.errors import StoreUnavailable
from placet.model.effect import Effect, EffectState
from placet.model.outcome import Refused
from placet.testing.kill_points import SentinelRemote
from tests.at_once import each_at_once
from tests.kill_points import draining_tools
from tests.kill_points.actors import AGENT, KILLED, SETTINGS, assert_audit_is_whole, ended, start

ISOLATIONS = sorted(draining_tools.TOOLS)


def open_gate(folder: Path | str, isolation: str) -> Any:
    return placet.open(
        tools=[draining_tools.TOOLS[isolation]],
        store=Path(folder, "placet.db"),
        settings=SETTINGS,
        recovery=placet.Recovery.MANUAL,
    )


def payment(folder: Path | str, isolation: str, order: str = "o-1") -> dict[str, Any]:
    return {"call_id": order, "tool": f"pay_{isolation}", "arguments": {"order": order, "folder": str(folder)}}


# ---------------------------------------------------------------- the actor


def serve(folder: str, isolation: str, seconds: float) -> None:
    """A program as a user would write it: one call, and SIGTERM drains."""

    async def act() -> None:
        async with open_gate(folder, isolation) as gate:
            told = asyncio.Event()
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, told.set)
            asking = asyncio.ensure_future(gate.submit(payment(folder, isolation), principal=AGENT, run="r"))
            await asyncio.wait((asking, asyncio.ensure_future(told.wait())), return_when=asyncio.FIRST_COMPLETED)
            report = await gate.drain(seconds)
            outcome = asking.result().status if asking.done() else None
            later = await gate.submit(payment(folder, isolation, "o-2"), principal=AGENT, run="r")
            note = {"left": report.left, "outcome": outcome, "later": later.code}
            Path(folder, "note").write_text(json.dumps(note))
        Path(folder, "closed").touch()

    asyncio.run(act())


def standing(folder: Path, mode: str, isolation: str, seconds: float) -> BaseProcess:
    """A process of `serve` whose handler stands still at the point."""
    folder.mkdir()
    (folder / "mode").write_text(mode)
    process = start(serve, str(folder), isolation, seconds)
    wait_for(folder / "standing")
    return process


def wait_for(path: Path) -> None:
    end = time.monotonic() + 60.0
    while not path.exists():
        assert time.monotonic() < end, path
        time.sleep(0.005)


def note(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "note").read_text())
    return found


# ---------------------------------------------------------------- what is left


def essence(effect: Effect) -> dict[str, Any]:
    """The row without what differs between any two dispatches: names, instants and seals."""
    kept = (
        "tenant", "operation_key", "tool", "state", "fence", "attempts", "attempt", "attempt_ended_at", "probes",
        "probe_after", "sealed_result", "result_digest", "reason", "ends_by_itself",
    )  # fmt: skip
    return {name: getattr(effect, name) for name in kept}


def told(gate: Any) -> list[tuple[str, str | None, str | None, str]]:
    bodies = [json.loads(event.body) for event in each_at_once(gate.store.chained())]
    return [
        (body["kind"], body.get("outcome"), body.get("detail"), body["call_id"])
        for body in bodies
        if body.get("detail") != "draining" and body["call_id"] != "o-2"
    ]


async def taken_over(gate: Any) -> None:
    """Let recovery run until nothing is dispatched or open any more."""
    async with asyncio.timeout(30):
        while await gate.store.effects(tenant=None, states=(EffectState.DISPATCHED,), limit=1) or unpaired(gate):
            await gate.reconciler.recover()
            await asyncio.sleep(0.03)


def unpaired(gate: Any) -> bool:
    words = [kind for kind, *_ in told(gate)]
    return words.count("started") != words.count("completed")


async def left_by(folder: Path, isolation: str) -> tuple[list[dict[str, Any]], list[Any], EffectState, int]:
    """Rows and events as found, then the state after recovery and how often the remote acted."""
    async with open_gate(folder, isolation) as gate:
        found = await gate.store.effects(tenant=None, states=tuple(EffectState), limit=9)
        events = told(gate)
        await taken_over(gate)
        assert_audit_is_whole(gate)
        (after,) = await gate.store.effects(tenant=None, states=tuple(EffectState), limit=9)
    remote = SentinelRemote(folder / "remote.jsonl")
    return [essence(effect) for effect in found], events, after.state, sum(remote.effects().values())


@pytest.mark.case("G07")
@pytest.mark.parametrize("isolation", ISOLATIONS)
@pytest.mark.parametrize("mode", ["before", "after"])
async def test_a_drain_that_runs_out_leaves_what_a_kill_at_the_same_point_leaves(
    tmp_path: Path, isolation: str, mode: str
) -> None:
    drained, killed = tmp_path / "drained", tmp_path / "killed"
    told_to_end = standing(drained, mode, isolation, 0.1)
    os.kill(told_to_end.pid or 0, signal.SIGTERM)
    assert ended(told_to_end) == 0
    victim = standing(killed, mode, isolation, 0.1)
    os.kill(victim.pid or 0, signal.SIGKILL)
    assert ended(victim) == KILLED

    rows, events, after, acted = await left_by(drained, isolation)
    theirs = await left_by(killed, isolation)

    assert note(drained) == {"left": 1, "outcome": None, "later": "draining"}
    assert [row["state"] for row in rows] == [EffectState.DISPATCHED]
    assert events == [("started", None, None, "o-1")]
    assert (rows, events, after, acted) == tuple(
        json_less(theirs[0], str(killed), str(drained)) if n == 0 else each for n, each in enumerate(theirs)
    )
    expected = EffectState.UNKNOWN if mode == "before" else EffectState.RECONCILED_COMMITTED  # absence: too early
    assert (after, acted) == (expected, 0 if mode == "before" else 1)


def json_less(rows: list[dict[str, Any]], theirs: str, mine: str) -> list[dict[str, Any]]:
    return [
        {name: value.replace(theirs, mine) if type(value) is str else value for name, value in row.items()}
        for row in rows
    ]


@pytest.mark.case("G07")
@pytest.mark.parametrize("isolation", ISOLATIONS)
@pytest.mark.parametrize("mode", ["before", "after"])
async def test_what_ends_within_the_limit_is_settled_as_ever(tmp_path: Path, isolation: str, mode: str) -> None:
    folder = tmp_path / "served"
    process = standing(folder, mode, isolation, 20.0)

    os.kill(process.pid or 0, signal.SIGTERM)
    (folder / "go").touch()

    assert ended(process) == 0
    assert note(folder) == {"left": 0, "outcome": "succeeded", "later": "draining"}
    assert (folder / "closed").exists()
    async with open_gate(folder, isolation) as gate:
        (effect,) = await gate.store.effects(tenant=None, states=tuple(EffectState), limit=9)
        assert effect.state is EffectState.COMMITTED
        assert_audit_is_whole(gate)


async def test_after_a_drain_that_ran_out_nothing_more_is_written_whoever_speaks(tmp_path: Path) -> None:
    """The handler ends after all, in this very process, and its word is on record nowhere."""
    folder = tmp_path / "here"
    folder.mkdir()
    (folder / "mode").write_text("after")
    async with open_gate(folder, "async") as gate:
        asking = asyncio.ensure_future(gate.submit(payment(folder, "async"), principal=AGENT, run="r"))
        while not (folder / "standing").exists():
            await asyncio.sleep(0.005)
        report = await gate.drain(0.05)
        (folder / "go").touch()
        outcome = await asking
        with pytest.raises(StoreUnavailable):
            await gate.store.effects(tenant=None, states=tuple(EffectState), limit=9)
    assert (report.left, outcome.code, outcome.may_have_acted) == (1, "effect_unknown", True)

    async with open_gate(folder, "async") as again:
        (effect,) = await again.store.effects(tenant=None, states=tuple(EffectState), limit=9)
        assert effect.state is EffectState.DISPATCHED
        assert told(again) == [("started", None, None, "o-1")]
        await taken_over(again)
        assert_audit_is_whole(again)


async def test_a_batch_goes_no_further_once_it_drains(tmp_path: Path) -> None:
    folder = tmp_path / "batch"
    folder.mkdir()
    (folder / "mode").write_text("before")
    async with open_gate(folder, "async") as gate:
        batch = [payment(folder, "async", f"o-{n}") for n in (1, 2)]
        asking = asyncio.ensure_future(gate.submit_all(batch, principal=AGENT, run="r"))
        while not (folder / "standing").exists():
            await asyncio.sleep(0.005)
        draining = asyncio.ensure_future(gate.drain(20.0))
        await asyncio.sleep(0)
        (folder / "go").touch()
        first, second = await asking
        report = await draining
        assert_audit_is_whole(gate)

    assert (first.status, second.code, report.left) == ("succeeded", "draining", 0)
    assert type(second) is Refused and second.retryable and not second.may_have_acted
    assert sum(SentinelRemote(folder / "remote.jsonl").effects().values()) == 1


@pytest.mark.parametrize("seconds", [0, -1, float("inf"), float("nan"), "1", None, True])
async def test_a_limit_that_is_none_begins_no_drain(tmp_path: Path, seconds: Any) -> None:
    (tmp_path / "mode").write_text("")
    async with open_gate(tmp_path, "async") as gate:
        with pytest.raises(placet.PlacetError):
            await gate.drain(seconds)
        outcome = await gate.submit(payment(tmp_path, "async"), principal=AGENT, run="r")
    assert outcome.status == "succeeded"


def test_a_gate_for_programs_without_a_loop_drains_too(tmp_path: Path) -> None:
    (tmp_path / "mode").write_text("")
    with open_gate(tmp_path, "thread") as gate:
        done = gate.submit(payment(tmp_path, "thread"), principal=AGENT, run="r")
        report = gate.drain(5.0)
        later = gate.submit(payment(tmp_path, "thread", "o-2"), principal=AGENT, run="r")

    assert (done.status, report.left, later.code) == ("succeeded", 0, "draining")

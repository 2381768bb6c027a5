"""Settling what is unknown: who may say what of it, what is believed, and what stays on record of who said so."""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from prometheus_client import CollectorRegistry

import placet
from placet import GateSettings, Principal
from placet.errors import DecisionRefused, MisuseError
from placet.model.context import Absent, CannotTell, Found
from placet.model.effect import Effect, EffectState
from placet.model.outcome import Replayed, Unknown
from placet.testing import FakeClock
from tests.engine.conftest import SCOPE, OpenWorld, World, acting

SETTLER = Principal.person("mara", tenant="acme", scopes=("effects.reconcile", "effects.read"))
REQUESTER = Principal.person("agent-operator", tenant="acme", scopes=("effects.reconcile",))


async def fails() -> None:
    raise RuntimeError


class Settled:
    """How many effects were settled, by the state they have now, since a test last asked."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._before: dict[str, float] = {}

    def news(self) -> dict[str, float]:
        name = "placet_effects_settled_total"
        now = {
            state.value: self.registry.get_sample_value(name, {"state": state.value}) or 0.0 for state in EffectState
        }
        news = {state: count - self._before.get(state, 0.0) for state, count in now.items()}
        self._before = now
        return {state: count for state, count in news.items() if count}


@pytest.fixture
def settled() -> Settled:
    return Settled()


@pytest.fixture
async def world(open_world: OpenWorld, where: str, settled: Settled) -> World:
    """One write that was lost after it had begun, a minute ago."""
    world = await open_world(acting(fails, breaker=None), store=where, metrics=settled.registry)
    assert type(await world.submit("act")) is Unknown
    world.clock.advance(60)
    assert settled.news() == {"unknown": 1}
    return world


async def settle(world: World, truth: str = "committed", *, by: Principal = SETTLER, **more: Any) -> Effect:
    said: dict[str, Any] = {"looked_at": world.clock.now(), "reason": "seen_in_desk"} | more
    return await world.gate.reconciler.settle_by_person((await world.effect()).operation_key, truth, by=by, **said)


@pytest.mark.parametrize("truth", ["committed", "absent"])
async def test_what_a_person_says_is_on_record_with_who_said_it_and_why(
    world: World, settled: Settled, truth: str
) -> None:
    looked_at = world.clock.now() - timedelta(seconds=1)

    row = await settle(world, truth, looked_at=looked_at)

    assert row == await world.effect()
    assert (row.state.value, row.reason) == (f"reconciled_{truth}", "seen_in_desk")
    (event,) = world.events("effect_reconciled")
    told = {name: event.get(name) for name in ("decided_by", "subject", "detail", "effect_state", "tool", "fence")}
    assert told == {
        "decided_by": "mara",
        "subject": "agent-operator",
        "detail": "seen_in_desk",
        "effect_state": f"reconciled_{truth}",
        "tool": "act",
        "fence": 1,
    }
    assert event["model_suggested"] is False
    assert datetime.fromisoformat(event["decided_at"]) == looked_at
    assert settled.news() == {f"reconciled_{truth}": 1}


async def test_the_requester_may_say_that_it_happened_and_not_that_it_did_not(world: World, settled: Settled) -> None:
    with pytest.raises(DecisionRefused, match="Whoever asked for the effect may not declare it absent") as refused:
        await settle(world, "absent", by=REQUESTER)
    assert refused.value.code == "own_request"
    assert settled.news() == {}

    assert (await settle(world, "committed", by=REQUESTER)).state is EffectState.RECONCILED_COMMITTED
    assert type(await world.submit("act", call_id="c1")) is Replayed


@pytest.mark.parametrize(
    ("code", "truth", "seconds"),
    [
        ("own_request", "absent", 0),
        ("too_early_for_absent", "absent", -60),
        ("looked_in_the_future", "committed", 3600),
        ("moved_on", "absent", 0),
    ],
)
async def test_a_refused_word_is_on_record_with_who_said_it_and_why_it_was_refused(
    world: World, settled: Settled, code: str, truth: str, seconds: float
) -> None:
    if code == "moved_on":
        await settle(world, "committed")
    by = REQUESTER if code == "own_request" else SETTLER
    before = await world.effect()
    settled.news()

    with pytest.raises(DecisionRefused) as refused:
        await settle(world, truth, by=by, looked_at=world.clock.now() + timedelta(seconds=seconds))

    assert refused.value.code == code
    assert await world.effect() == before
    (event,) = world.events("reconcile_refused")
    assert (event["detail"], event["decided_by"], event["subject"]) == (code, by.subject, "agent-operator")
    assert event["tool"] == "act" and event["model_suggested"] is False
    assert settled.news() == {}


@pytest.mark.parametrize(
    ("by", "code", "words"),
    [
        (Principal.agent("bot", tenant="acme", scopes=("effects.reconcile",)), "not_a_person", "own sign-in"),
        (Principal.person("zoe", tenant="acme", scopes=("effects.read",)), "scope_missing", "effects.reconcile"),
    ],
    ids=["an agent", "without the scope"],
)
async def test_who_may_not_settle_at_all_is_on_record_and_learns_of_no_effect(
    world: World, by: Principal, code: str, words: str
) -> None:
    with pytest.raises(DecisionRefused, match=words) as refused:
        await world.gate.reconciler.settle_by_person(
            "no such key", "committed", by=by, looked_at=world.clock.now(), reason="seen_in_desk"
        )

    assert refused.value.code == code
    (event,) = world.events("reconcile_refused")
    assert (event["detail"], event["subject"], event["tenant"]) == (code, by.subject, "acme")
    assert event["model_suggested"] is False and "operation" not in event


# ---------------------------------------------------------------- what a person may say it with


@pytest.mark.parametrize(
    "zone", [UTC, timezone(timedelta(hours=5, minutes=30)), ZoneInfo("Europe/Berlin")], ids=["utc", "offset", "named"]
)
async def test_a_look_may_be_timed_in_any_zone_of_the_standard_library(world: World, zone: Any) -> None:
    looked_at = world.clock.now().astimezone(zone)

    assert (await settle(world, "absent", looked_at=looked_at)).state is EffectState.RECONCILED_ABSENT
    (event,) = world.events("effect_reconciled")
    assert datetime.fromisoformat(event["decided_at"]) == looked_at


@pytest.mark.parametrize(
    "looked_at",
    [datetime(2026, 1, 1), datetime.min.replace(tzinfo=timezone(timedelta(hours=14))), 1_767_225_600.0, None],
    ids=["no zone", "before all time", "a number", "none"],
)
async def test_a_time_that_names_no_instant_is_misuse(world: World, looked_at: Any) -> None:
    with pytest.raises(MisuseError, match="looked_at= is a datetime that knows its zone"):
        await settle(world, looked_at=looked_at)
    assert (await world.effect()).state is EffectState.UNKNOWN


@pytest.mark.parametrize("reason", ["seen in desk", "", "1st_look", "x" * 129, "gesehen_ö", "a\n"], ids=repr)
async def test_a_reason_that_the_audit_could_not_hold_is_misuse(world: World, reason: str) -> None:
    with pytest.raises(MisuseError, match="reason= is a code such as 'seen_in_desk'"):
        await settle(world, reason=reason)
    assert (await world.effect()).state is EffectState.UNKNOWN


async def test_a_reason_may_have_as_many_characters_as_a_code(world: World) -> None:
    assert (await settle(world, reason="x" * 128)).reason == "x" * 128


@pytest.mark.parametrize("truth", ["Committed", "reconciled_absent", "abs", "", None])
async def test_a_word_that_is_neither_truth_settles_nothing(world: World, truth: Any) -> None:
    with pytest.raises(MisuseError, match="'committed' or 'absent'"):
        await settle(world, truth)
    assert (await world.effect()).state is EffectState.UNKNOWN


# ---------------------------------------------------------------- what a probe brings


@pytest.mark.parametrize(
    ("found", "replayed"),
    [(Found(result={"done": "yes"}), {"done": "yes"}), (Found(result={"done": 7}), None), (Found(result=None), None)],
    ids=["a result", "one that breaks the contract", "no result"],
)
async def test_a_probe_settles_with_the_result_it_brings_if_that_keeps_the_contract(
    open_world: OpenWorld, where: str, settled: Settled, found: Found, replayed: Any
) -> None:
    async def looks(context: placet.ProbeContext) -> Found:
        return found

    world = await open_world(acting(fails, breaker=None, probe=looks), store=where, metrics=settled.registry)
    await world.submit("act")
    assert settled.news() == {"unknown": 1}

    await world.gate.reconciler.recover()

    row = await world.effect()
    assert (row.state, row.reason) == (EffectState.RECONCILED_COMMITTED, "probe")
    assert (row.sealed_result is None, row.result_digest is None) == (replayed is None, replayed is None)
    (event,) = world.events("effect_reconciled")
    assert "decided_by" not in event and event["detail"] == "probe"
    assert settled.news() == {"reconciled_committed": 1}
    again = await world.submit("act")
    assert type(again) is Replayed and again.result == replayed


async def test_a_word_that_comes_a_second_time_counts_once(open_world: OpenWorld, where: str, settled: Settled) -> None:
    """Two that looked at the same time: the second learns that the effect has moved on, and the numbers say one."""
    world = await open_world(acting(fails, breaker=None), store=where, metrics=settled.registry)
    await world.submit("act")
    world.clock.advance(60)
    settled.news()

    first, second = await asyncio.gather(settle(world), settle(world, "absent"), return_exceptions=True)

    row, refused = (first, second) if isinstance(first, Effect) else (second, first)
    assert isinstance(row, Effect) and isinstance(refused, DecisionRefused) and refused.code == "moved_on"
    assert settled.news() == {row.state.value: 1}


# ---------------------------------------------------------------- whose worker is gone

_A_WORKER_THAT_DIES = """
import asyncio, os, signal, sys
import placet
from placet.testing import FakeClock

@placet.tool(effect="write", risk="medium", permission="ops.write", isolation="thread", name="act")
def act() -> dict[str, str]:
    os.kill(os.getpid(), signal.SIGKILL)
    return {"done": "yes"}

async def main() -> None:
    agent = placet.Principal.agent("agent-operator", tenant="acme", roles=("operator",), scopes=("ops.write",))
    async with placet.open(tools=[act], store=sys.argv[1], clock=FakeClock(), recovery=placet.Recovery.MANUAL) as gate:
        await gate.submit({"call_id": "c1", "tool": "act", "arguments": {}}, principal=agent, run="r1")

asyncio.run(main())
"""


def in_a_thread(handler: Callable[[], None], **options: Any) -> placet.Tool:
    def act() -> dict[str, str]:
        handler()
        return {"done": "yes"}

    settings: dict[str, Any] = {"effect": "write", "risk": "medium", "permission": SCOPE, "isolation": "thread"}
    return placet.tool(**(settings | options))(act)


async def cannot_tell(context: placet.ProbeContext) -> CannotTell:
    return CannotTell()


async def absent(context: placet.ProbeContext) -> Absent:
    return Absent()


@asynccontextmanager
async def lost_with_its_worker(folder: Path, probe: Any) -> AsyncIterator[World]:
    """A process took the call and died over it; now another one has the store, two minutes later."""
    store, clock = folder / "placet.db", FakeClock()
    child = await asyncio.create_subprocess_exec(sys.executable, "-c", _A_WORKER_THAT_DIES, store)
    assert await asyncio.wait_for(child.wait(), 60) == -signal.SIGKILL
    clock.advance(120)
    tool = in_a_thread(lambda: None, probe=probe)
    async with placet.open(tools=[tool], store=store, clock=clock, recovery=placet.Recovery.MANUAL) as gate:
        world = World(gate=gate, clock=clock)
        await gate.reconciler._take_over_stranded()
        assert (await world.effect()).state is EffectState.UNKNOWN
        assert (await world.effect()).attempt_ended_at is None
        yield world


async def test_nobody_says_absent_of_a_thread_that_may_still_be_at_it(open_world: OpenWorld) -> None:
    """A thread cannot be stopped: while its process lives, and it has not said that it ended, it may still act."""
    has_begun, may_end = threading.Event(), threading.Event()

    def stays() -> None:
        has_begun.set()
        may_end.wait(60)

    world = await open_world(in_a_thread(stays), settings=GateSettings(grace_seconds=0.05))
    try:
        submitting = asyncio.ensure_future(world.submit("act"))
        assert await asyncio.to_thread(has_begun.wait, 30)
        submitting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await submitting
        world.clock.advance(3600)

        assert world.gate.reconciler.quiet_end(await world.effect()) is None
        with pytest.raises(DecisionRefused) as refused:
            await settle(world, "absent")
        assert refused.value.code == "too_early_for_absent"
        assert (await world.effect()).attempt_ended_at is None
    finally:
        may_end.set()


async def test_absent_is_believed_of_a_thread_whose_process_is_proven_dead(tmp_path: Path) -> None:
    async with lost_with_its_worker(tmp_path, cannot_tell) as world:
        with pytest.raises(DecisionRefused) as refused:  # quiet runs from when the death was noted, which is now
            await settle(world, "absent")
        assert refused.value.code == "too_early_for_absent"
        assert (await world.effect()).attempt_ended_at == world.clock.now()

        world.clock.advance(60)
        assert (await settle(world, "absent")).state is EffectState.RECONCILED_ABSENT


async def test_a_probe_is_believed_too_once_the_death_was_noted(tmp_path: Path) -> None:
    async with lost_with_its_worker(tmp_path, absent) as world:
        assert (await world.gate.reconciler.recover()).still_unknown == 1
        assert (await world.effect()).attempt_ended_at == world.clock.now()

        world.clock.advance(300)
        assert (await world.gate.reconciler.recover()).absent == 1

"""Lists and numbers of effects are whole: no limit, no stranger and no broken row hides what should be seen."""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest
from prometheus_client import CollectorRegistry

import placet
from placet import GateSettings, Principal
from placet.errors import MisuseError, StoreUnavailable
from placet.model.effect import BrokenEffect, Effect, EffectState
from placet.model.identifiers import OperationKey
from tests.engine.conftest import OPERATOR, SCOPE, OpenWorld, Spy, World, acting, written

BEYOND_TIME = 9_223_372_036_854_775_807
OTHERS = Principal.agent("agent-other", tenant="acme", roles=("operator",), scopes=(SCOPE,))
AUDITOR = Principal.person("ada", tenant="acme", scopes=("effects.read",))


def break_row(path: Path, call_id: str, *, column: str = "lease_until") -> None:
    """What a hand with write access to the file can do."""
    with apsw.Connection(str(path)) as connection:
        connection.execute(f"UPDATE effects SET {column} = ? WHERE call_id = ?", (BEYOND_TIME, call_id))
        assert connection.changes() == 1


async def test_a_principals_own_effects_are_found_behind_any_number_of_others(
    open_world: OpenWorld, spy: Spy, where: str
) -> None:
    world = await open_world(written(spy), store=where)
    await world.submit("write", {"word": "mine"}, call_id="mine")
    for number in range(12):
        await world.submit("write", {"word": str(number)}, call_id=f"c{number}", principal=OTHERS, run="r2")

    found = await world.gate.reconciler.effects(by=OPERATOR, limit=10)

    assert [effect.call_id for effect in found] == ["mine"]
    assert len(await world.gate.reconciler.effects(by=AUDITOR, limit=10)) == 10


async def test_the_gauges_of_unknown_effects_count_all_and_know_the_oldest(
    open_world: OpenWorld, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    async def lost() -> None:
        raise RuntimeError

    registry = CollectorRegistry()
    settings = GateSettings(max_steps=5000)
    world = await open_world(acting(lost, breaker=None), store=where, metrics=registry, settings=settings)
    await world.submit("act", call_id="oldest")
    world.clock.advance(100)
    for number in range(1100 if where == placet.MEMORY else 20):
        await world.submit("act", call_id=f"c{number}")

    await world.gate.reconciler.recover()

    expected = 1101 if where == placet.MEMORY else 21
    assert registry.get_sample_value("placet_effects_unknown") == expected
    assert registry.get_sample_value("placet_effects_unknown_oldest_seconds") == 100


async def three(open_world: OpenWorld, spy: Spy, path: Path) -> World:
    world = await open_world(written(spy), store=str(path))
    for name in ("first", "broken", "last"):
        await world.submit("write", {"word": name}, call_id=name)
        world.clock.advance(1)
    break_row(path, "broken")
    return world


async def test_a_row_that_cannot_be_read_is_listed_as_broken_and_hides_no_other(
    open_world: OpenWorld, spy: Spy, tmp_path: Path
) -> None:
    world = await three(open_world, spy, tmp_path / "placet.db")
    broken = BrokenEffect(tenant="acme", operation_key=OperationKey('["call","r1","broken"]'))

    assert [effect.call_id for effect in await world.gate.reconciler.effects(by=AUDITOR)] == ["last", "first"]
    assert await world.gate.reconciler.broken_effects(by=AUDITOR) == (broken,)
    assert await world.gate.reconciler.broken_effects(by=OPERATOR) == (broken,)
    assert await world.gate.reconciler.broken_effects(by=OTHERS) == ()
    for misuse in ({"by": "ada"}, {"by": AUDITOR, "limit": 0}):
        with pytest.raises(MisuseError):
            await world.gate.reconciler.broken_effects(**misuse)  # type: ignore[arg-type]


@pytest.mark.parametrize("state", ["dispatched", "unknown"])
async def test_recovery_goes_on_past_a_row_that_cannot_be_read(
    open_world: OpenWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    async def down(*_: object) -> object:
        raise StoreUnavailable

    async def probe(context: placet.ProbeContext) -> placet.Found:
        return placet.Found(result={"done": "yes"})

    async def lost() -> None:
        raise RuntimeError

    path = tmp_path / "placet.db"
    world = await open_world(acting(lost, probe=probe), store=str(path))
    with monkeypatch.context() as patched:
        if state == "dispatched":
            patched.setattr(world.gate.store, "settle", down)
        for name in ("broken", "sound"):
            await world.submit("act", call_id=name)
        for task in tuple(world.gate._path._dispatcher._afterwards.tasks):
            task.cancel()
    world.clock.advance(31)
    break_row(path, "broken", column="created_at")

    report = await world.gate.reconciler.recover()

    assert report.committed == 1
    readable = [effect for effect in await world.effects() if isinstance(effect, Effect)]
    assert {effect.call_id: effect.state for effect in readable} == {"sound": EffectState.RECONCILED_COMMITTED}
    if state == "dispatched":
        world.pairs_stay_open.add(("acme", "r1", "broken", "1", "1"))


async def test_an_altered_result_is_an_alarm_that_is_counted_and_on_record(
    open_world: OpenWorld, spy: Spy, tmp_path: Path
) -> None:
    registry = CollectorRegistry()
    path = tmp_path / "placet.db"
    world = await open_world(written(spy), store=str(path), metrics=registry)
    await world.submit("write", {"word": "x"})
    assert (await world.submit("write", {"word": "x"})).code == "replayed"
    assert registry.get_sample_value("placet_alarms_total", {"kind": "record_altered"}) == 0
    with apsw.Connection(str(path)) as connection:
        connection.execute("UPDATE effects SET sealed_result = x'01'")

    again = await world.submit("write", {"word": "x"})

    assert isinstance(again, placet.Replayed)
    assert (again.result, again.result_unavailable) == (None, "record_altered")
    (alarm,) = world.events("record_altered")
    assert (alarm["tool"], alarm["call_id"], alarm["detail"]) == ("write", "c1", "result")
    assert registry.get_sample_value("placet_alarms_total", {"kind": "record_altered"}) == 1

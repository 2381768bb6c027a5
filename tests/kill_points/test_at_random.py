"""Workers under load, killed at moments nobody chose: still at most once, nothing lost, every attempt closed."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from placet.model.effect import EffectState
from placet.testing.kill_points import SentinelRemote
from tests.kill_points.actors import (
    KILLED,
    Place,
    assert_audit_is_whole,
    ended,
    keep_asking,
    open_gate,
    recovered,
    start,
)


@pytest.mark.req("C044", "C045", "H046")
@pytest.mark.case("G09", "H01")
async def test_workers_killed_under_load_act_at_most_once_and_lose_nothing(tmp_path: Path) -> None:
    place, chance = Place(folder=tmp_path), random.Random(20260101)

    for round_ in range(4):
        workers = [start(keep_asking, str(tmp_path), 2 * round_ + k) for k in (0, 1)]
        wait_for_effects(place, more_than=sum(place.remote.effects().values()))
        time.sleep(chance.uniform(0.0, 0.15))
        for worker in workers:
            worker.kill()
        assert [ended(worker) for worker in workers] == [KILLED, KILLED]

    place.later()
    async with open_gate(place) as gate:
        await recovered(gate)
        effects = await gate.store.effects(tenant="acme", states=tuple(EffectState), limit=10_000)
        assert_audit_is_whole(gate)

    acted = place.remote.effects()
    assert len(acted) >= 8 and set(acted.values()) == {1}
    committed = {f"acme/{effect.operation_key}" for effect in effects if effect.state.is_committed}
    assert committed == set(acted)
    told = SentinelRemote(tmp_path / "answered.jsonl")
    assert {told.found(order) for order in told.effects()} == {"succeeded"}
    assert all(f'acme/["business","pay:{{order}}","{order}"]' in committed for order in told.effects())


def wait_for_effects(place: Place, *, more_than: int) -> None:
    deadline = time.monotonic() + 60
    while sum(place.remote.effects().values()) <= more_than + 1:
        assert time.monotonic() < deadline, "the workers did not begin"
        time.sleep(0.01)

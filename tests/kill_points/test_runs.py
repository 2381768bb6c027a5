"""A run whose process dies between any two durable steps: the next process ends it, and each effect happened once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from placet.model.run import RunStatus
from tests.kill_points.actors import AGENT, KILLED, SURVIVED, Place, assert_audit_is_whole, ended, start
from tests.kill_points.run_actors import drive_and_die, finish, opening
from tests.postgres.fixtures import Database

STEPS = 17
"""Durable steps of a run from its beginning to its end. One more, and the process survives."""
pytestmark = [pytest.mark.req("H051", "X003", "C049"), pytest.mark.case("H01", "G09")]


async def ends_right(place: Place, store: str, key: str) -> None:
    async with opening(place, store, key) as gate:
        progress = await finish(gate)
        shown = await gate.runs.show("r1", by=AGENT)
        assert_audit_is_whole(gate)
    assert (progress.state, progress.status) == ("DONE", "done")
    assert (shown.status, shown.steps) == (RunStatus.DONE, 3)
    assert sorted(place.remote.effects().values()) == [1, 1]


@pytest.mark.parametrize("steps", range(1, STEPS + 1))
async def test_a_run_whose_process_dies_after_any_durable_step_ends_right(tmp_path: Path, steps: int) -> None:
    place, store, key = Place(folder=tmp_path), str(tmp_path / "placet.db"), str(tmp_path / "key")

    assert ended(start(drive_and_die, str(tmp_path), store, key, steps, "")) == KILLED

    await ends_right(place, store, key)


async def test_these_are_all_of_its_durable_steps(tmp_path: Path) -> None:
    store, key = str(tmp_path / "placet.db"), str(tmp_path / "key")

    assert ended(start(drive_and_die, str(tmp_path), store, key, STEPS + 1, "")) == SURVIVED


@pytest.mark.parametrize("dies", ["before_remote", "after_remote"])
async def test_a_run_whose_process_dies_inside_a_handler_ends_right(tmp_path: Path, dies: str) -> None:
    place, store, key = Place(folder=tmp_path), str(tmp_path / "placet.db"), str(tmp_path / "key")

    assert ended(start(drive_and_die, str(tmp_path), store, key, 0, dies)) == KILLED

    await ends_right(place, store, key)


@pytest.mark.parametrize("steps", [2, 7, 11, 15])
async def test_so_does_one_on_a_database(tmp_path: Path, databases: Callable[..., Database], steps: int) -> None:
    place, store, key = Place(folder=tmp_path), databases().url, str(tmp_path / "key")

    assert ended(start(drive_and_die, str(tmp_path), store, key, steps, "")) == KILLED

    await ends_right(place, store, key)

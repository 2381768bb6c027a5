"""Workers die as they remind: each question is told of once, whatever the moment and however many take over."""

from __future__ import annotations

from pathlib import Path

import pytest

from placet.testing.kill_points import KillPoint, Moment
from tests.kill_points.actors import FORK_SERVER, KILLED, ended, start
from tests.kill_points.reminders import ask, open_gate, remind, remind_and_die, times_told

COUNT = 6


async def die_and_take_over(store: str, folder: Path, moment: Moment) -> None:
    """A worker dies at its third step, and two others in processes of their own go on at once."""
    await ask(store, folder, COUNT)
    point = KillPoint(moment=moment, verb="tell_reminder", nth=3)
    assert ended(start(remind_and_die, store, str(folder), point), within=60.0) == KILLED
    async with open_gate(store, folder) as gate:
        assert sum((await times_told(gate)).values()) == (3 if moment is Moment.AFTER else 2)

    others = [FORK_SERVER.Process(target=remind, args=(store, str(folder))) for _ in range(2)]
    for each in others:
        each.start()
    assert [ended(each, within=60.0) for each in others] == [0, 0]

    async with open_gate(store, folder) as gate:
        told = await times_told(gate)
        assert (len(told), set(told.values())) == (COUNT, {1})
        assert await gate.store.due_reminders(limit=1) == ()
        assert (await gate.verify_audit()).holds


@pytest.mark.parametrize("moment", list(Moment))
async def test_a_worker_that_dies_as_it_reminds_is_taken_over_and_nobody_hears_twice(
    tmp_path: Path, moment: Moment
) -> None:
    await die_and_take_over(str(tmp_path / "placet.db"), tmp_path, moment)

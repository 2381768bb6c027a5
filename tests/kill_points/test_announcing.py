"""Workers die on the way of a message: it arrives all the same, under one name, and once more at most."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from placet.testing.kill_points import KillPoint, Moment
from tests.kill_points.actors import FORK_SERVER, KILLED, ended, start
from tests.kill_points.announcers import Mailbox, announce_and_die, announcer, ask, begin, go_on, open_gate

pytestmark = pytest.mark.case("F07")

COUNT = 3
POINTS = [
    KillPoint(moment=moment, verb=verb, nth=nth)
    for verb, nth in (("announce", 1), ("take_deliveries", 1), ("end_delivery", 1), ("end_delivery", 3))
    for moment in Moment
]
IDS = [f"{point.moment.value}-{point.verb}-{point.nth}" for point in POINTS]


async def die_and_go_on(store: str, folder: Path, point: KillPoint | None) -> None:
    """A worker dies there once; another sends what is left."""
    await begin(store, folder)
    await ask(store, folder, COUNT)
    assert ended(start(announce_and_die, store, str(folder), point), within=60.0) == KILLED
    await go_on(store, folder, COUNT)


async def die_while_it_begins(store: str, folder: Path, moment: Moment) -> None:
    await ask(store, folder, 1)
    point = KillPoint(moment=moment, verb="begin_destination")
    assert ended(start(announce_and_die, store, str(folder), point), within=60.0) == KILLED
    await begin(store, folder)
    await ask(store, folder, COUNT)  # the first of them is asked for already
    await go_on(store, folder, COUNT - 1)


async def die_while_it_is_closed(store: str, folder: Path, moment: Moment) -> None:
    """A receiver says that it is gone, and the worker dies with that word: closed, or told once more."""
    await begin(store, folder)
    await ask(store, folder, 1)
    point = KillPoint(moment=moment, verb="close_destination")
    process = FORK_SERVER.Process(target=announce_and_die, args=(store, str(folder), point), kwargs={"is_gone": True})
    process.start()
    assert ended(process, within=60.0) == KILLED
    opening = open_gate(store, folder)
    async with opening as gate:
        (known,) = await gate.store.known_destinations()
        assert (known.closed_at is not None) == (moment is Moment.AFTER)
        if known.closed_at is not None:
            assert (await announcer(opening, Mailbox(folder)).round()).delivered == 0
            await gate.store.retry_deliveries("ops", None, limit=9)
    await go_on(store, folder, 1)


async def race(store: str, folder: Path) -> None:
    """Three workers at the same messages, with nobody dying: each arrives once."""
    await begin(store, folder)
    await ask(store, folder, 8)
    openings = [open_gate(store, folder) for _ in range(3)]
    for opening in openings:
        await opening.__aenter__()
    try:
        workers = [announcer(opening, Mailbox(folder)) for opening in openings]
        reports = await asyncio.gather(*(worker.round() for worker in workers))
        assert sum(report.found for report in reports) == sum(report.delivered for report in reports) == 8
        assert set(Mailbox(folder).remote.effects().values()) == {1}
    finally:
        for opening in openings:
            await opening.__aexit__(None, None, None)
    await go_on(store, folder, 8)


@pytest.mark.parametrize("point", POINTS, ids=IDS)
async def test_a_worker_that_dies_at_a_verb_loses_no_message(tmp_path: Path, point: KillPoint) -> None:
    await die_and_go_on(str(tmp_path / "placet.db"), tmp_path, point)


async def test_a_worker_that_dies_as_a_message_has_arrived_sends_it_once_more_under_its_name(tmp_path: Path) -> None:
    await die_and_go_on(str(tmp_path / "placet.db"), tmp_path, None)


@pytest.mark.parametrize("moment", list(Moment))
async def test_a_worker_that_dies_as_a_destination_begins_misses_nothing_afterwards(
    tmp_path: Path, moment: Moment
) -> None:
    await die_while_it_begins(str(tmp_path / "placet.db"), tmp_path, moment)


@pytest.mark.parametrize("moment", list(Moment))
async def test_a_worker_that_dies_as_a_destination_is_closed_loses_nothing(tmp_path: Path, moment: Moment) -> None:
    await die_while_it_is_closed(str(tmp_path / "placet.db"), tmp_path, moment)


async def test_three_workers_share_what_there_is(tmp_path: Path) -> None:
    await race(str(tmp_path / "placet.db"), tmp_path)

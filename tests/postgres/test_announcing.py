"""Workers on several hosts announce from one PostgreSQL database, and die on the way."""

from __future__ import annotations

from pathlib import Path

import pytest

from placet.testing.kill_points import KillPoint, Moment
from tests.kill_points.test_announcing import (
    IDS,
    POINTS,
    die_and_go_on,
    die_while_it_begins,
    die_while_it_is_closed,
    race,
)
from tests.postgres.fixtures import Database

pytestmark = pytest.mark.case("F07")


@pytest.mark.parametrize("point", POINTS, ids=IDS)
async def test_a_worker_that_dies_at_a_verb_loses_no_message(
    database: Database, tmp_path: Path, point: KillPoint
) -> None:
    await die_and_go_on(database.url, tmp_path, point)


async def test_a_worker_that_dies_as_a_message_has_arrived_sends_it_once_more_under_its_name(
    database: Database, tmp_path: Path
) -> None:
    await die_and_go_on(database.url, tmp_path, None)


@pytest.mark.parametrize("moment", list(Moment))
async def test_a_worker_that_dies_as_a_destination_begins_misses_nothing_afterwards(
    database: Database, tmp_path: Path, moment: Moment
) -> None:
    await die_while_it_begins(database.url, tmp_path, moment)


@pytest.mark.parametrize("moment", list(Moment))
async def test_a_worker_that_dies_as_a_destination_is_closed_loses_nothing(
    database: Database, tmp_path: Path, moment: Moment
) -> None:
    await die_while_it_is_closed(database.url, tmp_path, moment)


async def test_three_workers_share_what_there_is(database: Database, tmp_path: Path) -> None:
    await race(database.url, tmp_path)

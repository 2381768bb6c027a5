"""Reminders where workers share a PostgreSQL: what the kill points on SQLite show, on the other store."""

from __future__ import annotations

from pathlib import Path

import pytest

from placet.testing.kill_points import Moment
from tests.kill_points.test_reminding import die_and_take_over
from tests.postgres.fixtures import Database


@pytest.mark.parametrize("moment", list(Moment))
async def test_a_worker_that_dies_as_it_reminds_is_taken_over_and_nobody_hears_twice(
    database: Database, tmp_path: Path, moment: Moment
) -> None:
    await die_and_take_over(database.url, tmp_path, moment)

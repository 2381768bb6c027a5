"""Standing grants on several hosts, on one PostgreSQL database. Every test but the last starts processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from placet.testing.kill_points import Moment
from tests.kill_points.actors import FORK_SERVER, PERSON, ended, start
from tests.kill_points.granters import give, open_gate, race, refund
from tests.kill_points.test_granting import die_in_a_claim
from tests.postgres.fixtures import Database


async def test_two_processes_never_use_a_grant_more_often_than_it_says(database: Database, tmp_path: Path) -> None:
    await race(database.url, tmp_path, start, ended, FORK_SERVER.Barrier(2))


@pytest.mark.parametrize("moment", list(Moment))
async def test_a_process_that_dies_in_a_claim_has_used_its_grant_once_or_not_at_all(
    database: Database, tmp_path: Path, moment: Moment
) -> None:
    await die_in_a_claim(database.url, tmp_path, moment)


async def test_the_database_takes_no_grant_that_was_used_less_or_revoked_less(
    database: Database, tmp_path: Path
) -> None:
    async with open_gate(database.url, tmp_path) as gate:
        await give(gate)
        revoked = await give(gate)
        await gate.grants.revoke(revoked, by=PERSON)
        assert (await refund(gate, "call-1")).code == "succeeded"
    rows = database.fetch("SELECT uses, revoked_at IS NULL FROM placet.grants ORDER BY uses")
    assert [tuple(row) for row in rows] == [(0, False), (1, True)]
    for statement in (
        "UPDATE placet.grants SET uses = 0 WHERE uses = 1",
        "UPDATE placet.grants SET uses = max_uses WHERE uses = 1",
        "UPDATE placet.grants SET revoked_at = NULL WHERE revoked_at IS NOT NULL",
        "UPDATE placet.grants SET mac = 'x' WHERE revoked_at IS NULL",
        "UPDATE placet.grants SET grant_id = 'grt-moved', uses = uses + 1 WHERE uses = 1",
        "UPDATE placet.grants SET tenant = 'globex', uses = uses + 1 WHERE uses = 1",
        "DELETE FROM placet.grants WHERE uses = 1",
        "DELETE FROM placet.grants",
        "TRUNCATE placet.grants",
    ):
        with pytest.raises(Exception, match=r"placet: a grant"):
            database.execute(statement)

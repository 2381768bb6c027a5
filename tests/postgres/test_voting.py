"""Votes of people on several hosts, on one PostgreSQL database."""

from __future__ import annotations

from pathlib import Path

import pytest

from placet.testing.kill_points import Moment
from tests.kill_points.test_voting import die_and_go_on, die_in_an_edit, race
from tests.kill_points.voters import asked, open_gate, vote
from tests.postgres.fixtures import Database


@pytest.mark.req("C044", "H017")
@pytest.mark.case("E04", "F06")
async def test_of_eight_people_in_four_processes_three_make_the_quorum(database: Database, tmp_path: Path) -> None:
    await race(database.url, tmp_path)


@pytest.mark.parametrize("moment", list(Moment))
async def test_a_process_that_dies_in_a_vote_leaves_it_whole_or_not_there(
    database: Database, tmp_path: Path, moment: Moment
) -> None:
    await die_and_go_on(database.url, tmp_path, moment)


@pytest.mark.parametrize("moment", list(Moment))
async def test_a_process_that_dies_in_an_edit_leaves_it_whole_or_not_there(
    database: Database, tmp_path: Path, moment: Moment
) -> None:
    await die_in_an_edit(database.url, tmp_path, moment)


async def test_the_database_keeps_votes_as_they_were_cast(database: Database, tmp_path: Path) -> None:
    """No hand changes one, or takes one from its question."""
    approval_id = await asked(database.url, tmp_path)
    async with open_gate(database.url, tmp_path) as gate:
        await vote(gate, approval_id, "ann")
    for statement in (
        "UPDATE placet.approval_votes SET voter = 'ben'",
        "UPDATE placet.approval_votes SET vote = vote",
        "DELETE FROM placet.approval_votes",
        "INSERT INTO placet.approval_votes SELECT tenant, approval_id, voter, 'abstain', vote, key_id, signature, "
        "voted_at FROM placet.approval_votes",
    ):
        with pytest.raises(Exception, match=r"placet: a vote|check constraint"):
            database.execute(statement)
    assert [row[0] for row in database.fetch("SELECT voter FROM placet.approval_votes")] == ["ann"]

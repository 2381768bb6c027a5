"""People vote in several processes at once, and in processes that die: no vote is lost, doubled or half there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from placet.testing.kill_points import KillPoint, Moment, SentinelRemote
from tests.kill_points.actors import AGENT, FORK_SERVER, KILLED, ended, start
from tests.kill_points.voters import (
    EDITED,
    EDITOR,
    ask,
    asked,
    assert_three_people_and_one_effect,
    edit,
    edit_and_die,
    open_gate,
    race_to_vote,
    vote,
    vote_and_die,
)


def told_in(folder: Path) -> dict[str, str]:
    told: dict[str, str] = {}
    for file in folder.glob("votes-*.json"):
        told |= json.loads(file.read_text())
    return told


async def race(store: str, folder: Path) -> None:
    """Four processes, eight people, three votes: nobody's counts twice, and nobody's closes it over a wrong count."""
    approval_id = await asked(store, folder)
    barrier = FORK_SERVER.Barrier(4)
    people = {str(n): [f"voter-{n}-a", f"voter-{n}-b"] for n in range(4)}

    processes = [
        start(race_to_vote, store, str(folder), barrier, name, approval_id, voters) for name, voters in people.items()
    ]
    assert [ended(process, within=60.0) for process in processes] == [0] * 4

    told = list(told_in(folder).values())
    assert (told.count("pending"), told.count("approved")) == (2, 1)
    assert told.count("already_decided") == 5
    await assert_three_people_and_one_effect(store, folder, approval_id)


async def die_and_go_on(store: str, folder: Path, moment: Moment) -> None:
    """Each of three votes dies once, just before or just after it is durable; then its voter votes again."""
    approval_id = await asked(store, folder)
    for number, name in enumerate(("ann", "ben", "cat")):
        point = KillPoint(moment=moment, verb="vote")
        assert ended(start(vote_and_die, store, str(folder), approval_id, name, point), within=60.0) == KILLED
        is_last = number == 2
        async with open_gate(store, folder) as gate:
            stored = await gate.store.votes("acme", approval_id)  # type: ignore[arg-type]
            row = await gate.store.approval("acme", approval_id)  # type: ignore[arg-type]
            is_there = moment is Moment.AFTER
            assert len(stored) == number + is_there
            assert row is not None
            assert row.state.value == ("approved" if is_last and is_there else "pending")
            assert await vote(gate, approval_id, name) == ("approved" if is_last else "pending")
    await assert_three_people_and_one_effect(store, folder, approval_id)


async def die_in_an_edit(store: str, folder: Path, moment: Moment) -> None:
    """The edit is whole or not there: one question is open at every moment, and only the edited call runs."""
    approval_id = await asked(store, folder)
    point = KillPoint(moment=moment, verb="edit")
    assert ended(start(edit_and_die, store, str(folder), approval_id, point), within=60.0) == KILLED

    async with open_gate(store, folder) as gate:
        (waiting,) = await gate.desk.pending(by=EDITOR)
        is_there = moment is Moment.AFTER
        assert (waiting.edited_from == approval_id, waiting.approval_id != approval_id) == (is_there, is_there)
        made = await edit(gate, approval_id)
        assert made == "already_decided" if is_there else made.startswith("apr-")
        (waiting,) = await gate.desk.pending(by=EDITOR)
        told = await ask(gate)
        assert (told.code, told.as_data()["edited_arguments"]) == ("edited_by_person", EDITED)
        for name in ("ann", "ben", "cat"):
            await vote(gate, waiting.approval_id, name)
        edited = {"call_id": "c-2", "tool": "refund", "arguments": EDITED}
        assert (await gate.submit(edited, principal=AGENT, run="run-1")).code == "succeeded"
        assert (await gate.verify_audit()).holds
    assert sum(SentinelRemote(folder / "remote.jsonl").effects().values()) == 1


@pytest.mark.req("C044", "H017")
@pytest.mark.case("E04", "F06")
async def test_of_eight_people_in_four_processes_three_make_the_quorum(tmp_path: Path) -> None:
    await race(str(tmp_path / "placet.db"), tmp_path)


@pytest.mark.parametrize("moment", list(Moment))
async def test_a_process_that_dies_in_a_vote_leaves_it_whole_or_not_there(tmp_path: Path, moment: Moment) -> None:
    await die_and_go_on(str(tmp_path / "placet.db"), tmp_path, moment)


@pytest.mark.parametrize("moment", list(Moment))
async def test_a_process_that_dies_in_an_edit_leaves_it_whole_or_not_there(tmp_path: Path, moment: Moment) -> None:
    await die_in_an_edit(str(tmp_path / "placet.db"), tmp_path, moment)

"""Processes that race for the last use of a grant, and that die giving, using and revoking one.

Every test here starts processes, which takes its time.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from placet.model.grant import GrantId
from placet.testing.kill_points import KillPoint, Moment, SentinelRemote
from tests.kill_points.actors import AGENT, FORK_SERVER, KILLED, PERSON, ended, recovered, start, time_passes
from tests.kill_points.granters import act_and_die, given, open_gate, race, refund


async def die_in_a_claim(store: str, folder: Path, moment: Moment) -> None:
    """After the claim the use is gone, whatever became of the call: nobody gives it back. The question that waited was
    taken back with it, or waits.
    """
    async with open_gate(store, folder) as gate:
        assert (await refund(gate, "call-1")).code == "approval_required"
        (waiting,) = await gate.desk.listed(by=PERSON)
    grant_id = await given(store, folder)
    point = KillPoint(moment=moment, verb="claim")
    assert ended(start(act_and_die, store, str(folder), "use", grant_id, point), within=60.0) == KILLED
    async with open_gate(store, folder) as gate:
        stored = await gate.store.grant("acme", GrantId(grant_id))
        assert stored is not None
        assert stored.uses == (moment is Moment.AFTER)
        state = (await gate.desk.show(waiting.approval_id, by=PERSON)).state.value
        assert state == ("withdrawn" if moment is Moment.AFTER else "pending")
        time_passes(store, folder)
        await recovered(gate)
        again = await refund(gate, "call-1")
        assert again.code == "succeeded"
        view = await gate.grants.show(grant_id, by=PERSON)
        assert view.uses == stored.uses + 1
        assert (await gate.verify_audit()).holds
    assert sum(SentinelRemote(folder / "remote.jsonl").effects().values()) == 1


async def test_two_processes_never_use_a_grant_more_often_than_it_says(tmp_path: Path) -> None:
    await race(str(tmp_path / "placet.db"), tmp_path, start, ended, FORK_SERVER.Barrier(2))


@pytest.mark.parametrize("moment", list(Moment))
async def test_a_process_that_dies_giving_a_grant_leaves_it_whole_or_not_there(tmp_path: Path, moment: Moment) -> None:
    store = str(tmp_path / "placet.db")
    async with open_gate(store, tmp_path):
        pass  # a store to die in
    point = KillPoint(moment=moment, verb="add_grant")
    assert ended(start(act_and_die, store, str(tmp_path), "give", "", point), within=60.0) == KILLED
    async with open_gate(store, tmp_path) as gate:
        listed = await gate.grants.listed(by=PERSON)
        assert [view.state.value for view in listed] == ["usable"] * (moment is Moment.AFTER)
        assert (await refund(gate, "call-1")).code == ("succeeded" if listed else "approval_required")


@pytest.mark.parametrize("moment", list(Moment))
async def test_a_process_that_dies_in_a_claim_has_used_its_grant_once_or_not_at_all(
    tmp_path: Path, moment: Moment
) -> None:
    await die_in_a_claim(str(tmp_path / "placet.db"), tmp_path, moment)


async def test_a_process_that_dies_after_acting_costs_one_use_and_acts_once(tmp_path: Path) -> None:
    store = str(tmp_path / "placet.db")
    grant_id = await given(store, tmp_path)
    point = KillPoint(moment=Moment.BEFORE, verb="settle")
    assert ended(start(act_and_die, store, str(tmp_path), "use", grant_id, point), within=60.0) == KILLED
    async with open_gate(store, tmp_path) as gate:
        time_passes(store, tmp_path)
        await recovered(gate)
        assert (await refund(gate, "call-1")).code == "replayed"
        assert (await gate.grants.show(grant_id, by=PERSON)).uses == 1
    assert sum(SentinelRemote(tmp_path / "remote.jsonl").effects().values()) == 1


@pytest.mark.parametrize("moment", list(Moment))
async def test_a_process_that_dies_revoking_a_grant_has_revoked_it_or_not(tmp_path: Path, moment: Moment) -> None:
    store = str(tmp_path / "placet.db")
    grant_id = await given(store, tmp_path)
    point = KillPoint(moment=moment, verb="revoke_grant")
    assert ended(start(act_and_die, store, str(tmp_path), "revoke", grant_id, point), within=60.0) == KILLED
    async with open_gate(store, tmp_path) as gate:
        is_revoked = moment is Moment.AFTER
        assert (await gate.grants.show(grant_id, by=PERSON)).state.value == ("revoked" if is_revoked else "usable")
        outcome = await gate.submit(
            {"call_id": "call-2", "tool": "refund", "arguments": {"order": "o-2", "amount": 1}},
            principal=AGENT,
            run="run-1",
        )
        assert outcome.code == ("approval_required" if is_revoked else "succeeded")

"""What a call costs in durable commits, counted in the write-ahead log itself and not by the store's own word."""

from __future__ import annotations

import asyncio
from pathlib import Path
from struct import unpack_from

import pytest

from placet.bootstrap.stores import open_store
from placet.engine.gate import Gate
from placet.model.outcome import AwaitingApproval, Replayed, Succeeded
from placet.testing.conformance import an_event
from tests.kill_points.actors import AGENT, Place, approve, open_gate, proposal


def commits_in_log(store: Path) -> int:
    """Commit frames of the log. A frame's second field is the database's size in pages, in commit frames only.

    Source: https://www.sqlite.org/fileformat2.html#the_write_ahead_log
    """
    log = store.with_name(store.name + "-wal").read_bytes()
    magic, _, page_size = unpack_from(">III", log)
    assert magic & ~1 == 0x377F0682
    salts, frame = log[16:24], 24 + page_size
    headers = [log[start : start + 24] for start in range(32, len(log) - frame + 1, frame)]
    return sum(1 for header in headers if header[8:16] == salts and unpack_from(">I", header, 4)[0] != 0)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(folder=tmp_path)


async def counted(gate: Gate, place: Place, ask: dict[str, object]) -> tuple[object, int]:
    before, believed = commits_in_log(place.store), gate.store.commits
    outcome = await gate.submit(ask, principal=AGENT, run="run-1")
    measured = commits_in_log(place.store) - before
    assert measured == gate.store.commits - believed
    return outcome, measured


async def test_a_lone_governed_write_costs_exactly_two_commits(place: Place) -> None:
    async with open_gate(place) as gate:
        await gate.submit(proposal(order="warm", call_id="warm"), principal=AGENT, run="run-1")
        for n in range(3):
            outcome, commits = await counted(gate, place, proposal(order=f"o-{n}", call_id=f"call-{n}"))
            assert (type(outcome), commits) == (Succeeded, 2)


async def test_a_replay_and_a_refusal_cost_one_commit(place: Place) -> None:
    async with open_gate(place) as gate:
        await gate.submit(proposal(), principal=AGENT, run="run-1")

        replayed, commits = await counted(gate, place, proposal(call_id="call-2"))
        assert (type(replayed), commits) == (Replayed, 1)
        _, commits = await counted(gate, place, proposal("nothing", call_id="call-3"))
        assert commits == 1


async def test_an_approved_write_costs_its_two_commits_and_one_for_the_question(place: Place) -> None:
    async with open_gate(place) as gate:
        await gate.submit(proposal("balance", call_id="warm"), principal=AGENT, run="run-1")
        waiting, commits = await counted(gate, place, proposal("refund"))
        assert type(waiting) is AwaitingApproval and commits == 1
        await approve(gate, waiting.approval_id)

        outcome, commits = await counted(gate, place, proposal("refund"))
        assert (type(outcome), commits) == (Succeeded, 2)


async def test_a_lone_read_costs_two_commits(place: Place) -> None:
    async with open_gate(place) as gate:
        await gate.submit(proposal("balance", call_id="warm"), principal=AGENT, run="run-1")
        assert (await counted(gate, place, proposal("balance")))[1] == 2


async def test_a_look_costs_none(place: Place) -> None:
    async with open_gate(place) as gate:
        await gate.submit(proposal(), principal=AGENT, run="run-1")
        before = commits_in_log(place.store)

        await gate.reconciler.recover()
        await gate.store.heartbeat(gate._path._dispatcher._owner, lease_seconds=1.0)
        await gate.verify_audit()

        assert commits_in_log(place.store) == before


@pytest.mark.parametrize("tool", ["pay", "balance"])
async def test_64_callers_share_their_commits(place: Place, tool: str) -> None:
    async with open_gate(place, timeout_seconds=10.0) as gate:
        await gate.submit(proposal("balance", call_id="warm"), principal=AGENT, run="run-1")
        before = commits_in_log(place.store)

        outcomes = await asyncio.gather(
            *(
                gate.submit(proposal(tool, order=f"o-{n}", call_id=f"call-{n}"), principal=AGENT, run="run-1")
                for n in range(64)
            )
        )

        assert {type(outcome) for outcome in outcomes} == {Succeeded}
        assert commits_in_log(place.store) - before < 64


async def test_64_verbs_at_once_are_a_handful_of_commits(tmp_path: Path) -> None:
    path = tmp_path / "placet.db"
    _, store = open_store(path)
    await store.record((an_event(),))
    before = commits_in_log(path)

    await asyncio.gather(*(store.record((an_event(),)) for _ in range(64)))

    assert commits_in_log(path) - before <= 8
    await store.close()

"""Several processes at the same thing at the same moment: one operation, one approval, one empty store."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from placet.model.effect import EffectState
from placet.model.outcome import AwaitingApproval
from tests.kill_points.actors import (
    AGENT,
    FORK_SERVER,
    Place,
    approve,
    assert_audit_is_whole,
    ended,
    open_gate,
    open_together,
    proposal,
    race,
    start,
)


def together(place: Place, asks: list[list[dict[str, Any]]], *, seconds: float = 0.05) -> list[dict[str, Any]]:
    """One process per list of asks, all at once; every outcome."""
    answers, barrier = place.folder / "answers", FORK_SERVER.Barrier(len(asks))
    answers.mkdir()
    processes = [
        start(race, str(place.folder), str(answers), barrier, str(n), mine, seconds) for n, mine in enumerate(asks)
    ]
    assert [ended(process) for process in processes] == [0] * len(asks)
    return [each for file in answers.iterdir() for each in json.loads(file.read_text())]


def same_order(who: str, count: int, *, process: int, run: str) -> list[dict[str, Any]]:
    return [{"as": who, "run": run, "proposal": proposal(call_id=f"{who}-{process}-{n}")} for n in range(count)]


@pytest.mark.req("B112", "C033", "C034", "C041", "C042", "C044")
@pytest.mark.case("H05", "H08", "G08", "O01")
async def test_two_processes_with_32_callers_each_and_one_key_act_once_and_all_entitled_hear_the_result(
    tmp_path: Path,
) -> None:
    place = Place(folder=tmp_path)
    asks = [
        same_order("agent", 28, process=n, run="run-1")
        + same_order("stranger", 2, process=n, run="run-2")
        + same_order("elsewhere", 2, process=n, run="run-1")
        for n in (0, 1)
    ]

    answers = together(place, asks)

    mine = [answer for answer in answers if answer["as"] == "agent"]
    assert sorted(answer["status"] for answer in mine) == ["replayed"] * 55 + ["succeeded"]
    assert {json.dumps(answer["result"]) for answer in mine} == {'{"amount": 5}'}
    theirs = [answer for answer in answers if answer["as"] == "stranger"]
    assert {(answer["status"], answer["code"]) for answer in theirs} <= {("refused", "operation_of_another")}
    assert len({json.dumps(answer, sort_keys=True) for answer in theirs}) == 1
    elsewhere = [answer["status"] for answer in answers if answer["as"] == "elsewhere"]
    assert sorted(elsewhere) == ["replayed"] * 3 + ["succeeded"]
    key = '["business","pay:{order}","o-1"]'
    assert place.remote.effects() == {f"acme/{key}": 1, f"other/{key}": 1}
    async with open_gate(place) as gate:
        assert_audit_is_whole(gate)


@pytest.mark.req("B092", "B093", "H026")
@pytest.mark.case("E04")
async def test_eight_processes_with_one_approval_spend_it_once(tmp_path: Path) -> None:
    place = Place(folder=tmp_path)
    async with open_gate(place) as gate:
        waiting = await gate.submit(proposal("refund"), principal=AGENT, run="run-1")
        assert type(waiting) is AwaitingApproval
        await approve(gate, waiting.approval_id)

    asks = [
        [{"as": "agent", "run": "run-1", "proposal": proposal("refund", call_id=f"call-{n}-{k}")} for k in (0, 1)]
        for n in range(8)
    ]
    answers = together(place, asks)

    statuses = [answer["status"] for answer in answers]
    assert statuses.count("succeeded") == 1
    assert set(statuses) <= {"succeeded", "replayed", "awaiting_approval"}
    assert sum(place.remote.effects().values()) == 1
    async with open_gate(place) as gate:
        kinds = [json.loads(event.body)["kind"] async for event in gate.store.chained()]
        effects = await gate.store.effects(tenant="acme", states=tuple(EffectState), limit=99)
        assert_audit_is_whole(gate)
    assert kinds.count("approval_spent") == 1
    assert [effect.approval_id for effect in effects] == [waiting.approval_id]


@pytest.mark.req("C044")
@pytest.mark.case("O05")
async def test_eight_processes_open_an_empty_store_and_make_schema_and_key_once(tmp_path: Path) -> None:
    place, barrier, answers = Place(folder=tmp_path), FORK_SERVER.Barrier(8), tmp_path / "answers"
    answers.mkdir()

    processes = [start(open_together, str(tmp_path), str(answers), barrier, str(n)) for n in range(8)]

    assert [ended(process) for process in processes] == [0] * 8
    outcomes = [json.loads(file.read_text()) for file in answers.iterdir()]
    assert [outcome["status"] for outcome in outcomes] == ["succeeded"] * 8, outcomes
    assert len(place.remote.effects()) == 8
    async with open_gate(place) as gate:
        assert (await gate.verify_audit()).writers == 8
        assert_audit_is_whole(gate)
    assert sorted(file.name for file in tmp_path.glob("*.key*")) == ["placet.db.key"]
    assert list(tmp_path.glob(".placet*")) == []

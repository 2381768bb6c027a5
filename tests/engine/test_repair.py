"""Repaired arguments on the whole path: shown, digested, run and recorded in their repaired form."""

from __future__ import annotations

import json
from typing import Any

import pytest

import placet
from placet import AwaitingApproval, Invalid, Replayed, Succeeded, Tool
from tests.engine.conftest import APPROVER, OPERATOR, SCOPE, OpenWorld

PLAIN = {"order": "A7", "tags": ["x", "y"]}
INSIDE_A_STRING = json.dumps(json.dumps(PLAIN))
FENCED = f"```json\n{json.dumps(PLAIN)}\n```"
MEMBER_INSIDE = {"order": "A7", "tags": '["x","y"]'}
CANARY = "c4n4ry-text"


def labelling(ran: list[Any], **options: Any) -> Tool:
    @placet.tool(
        **{
            "effect": "write",
            "risk": "medium",
            "permission": SCOPE,
            "operation_key": "label:{order}",
            "repair": ("double_encoded", "code_fence"),
        }
        | options
    )
    async def label(order: str, tags: list[str]) -> str:
        ran.append((order, tags))
        return "labelled"

    return label


@pytest.mark.case("A03")
@pytest.mark.parametrize("sent", [INSIDE_A_STRING, FENCED, MEMBER_INSIDE])
async def test_what_was_repaired_is_what_a_person_sees_what_runs_and_what_is_on_record(
    open_world: OpenWorld, sent: object
) -> None:
    ran: list[Any] = []
    world = await open_world(labelling(ran, approval="always"))

    waiting = await world.submit("label", sent)
    assert isinstance(waiting, AwaitingApproval)
    view = await world.gate.desk.show(waiting.approval_id, by=APPROVER)
    assert view.arguments == PLAIN
    await world.approve(waiting)
    done = await world.submit("label", sent)
    again = await world.submit("label", PLAIN, call_id="c2")

    assert (type(done), type(again), ran) == (Succeeded, Replayed, [("A7", ["x", "y"])])
    marks = [event.get("repaired", False) for event in world.events("started", "completed")]
    assert marks == [True, True, True, True, False, False]
    fingerprints = {event["arguments_fingerprint"] for event in world.events("started", "completed")}
    assert len(fingerprints) == 1


async def test_the_digest_a_person_signs_is_that_of_the_plain_call(open_world: OpenWorld) -> None:
    digests = set()
    for sent in (PLAIN, INSIDE_A_STRING, FENCED, MEMBER_INSIDE):
        world = await open_world(labelling([], approval="always"))
        waiting = await world.submit("label", sent)
        assert isinstance(waiting, AwaitingApproval)
        digests.add((await world.gate.desk.show(waiting.approval_id, by=APPROVER)).digest)

    assert len(digests) == 1


@pytest.mark.case("A03")
async def test_without_leave_the_same_call_is_refused_and_its_member_named(open_world: OpenWorld) -> None:
    ran: list[Any] = []
    world = await open_world(labelling(ran, repair=()))

    outcome = await world.submit("label", MEMBER_INSIDE)

    assert isinstance(outcome, Invalid)
    assert (outcome.code, outcome.problems, ran) == ("invalid_arguments", (("/tags", "list_type"),), [])
    assert not any("repaired" in event for event in world.events())


async def test_what_stays_refused_leaves_no_text_of_its_inside(open_world: OpenWorld) -> None:
    world = await open_world(labelling([]))

    for number, sent in enumerate(
        (json.dumps(json.dumps({CANARY: CANARY})), f"```json\n{{'{CANARY}': 1}}\n```", {"order": "A", "tags": CANARY})
    ):
        outcome = await world.submit("label", sent, call_id=f"c{number}")
        assert isinstance(outcome, Invalid)
        assert CANARY not in outcome.message
    assert CANARY.encode() not in world.bodies()


async def test_explaining_a_repaired_call_explains_the_plain_one(open_world: OpenWorld) -> None:
    world = await open_world(labelling([]))
    proposals = [{"call_id": "c1", "tool": "label", "arguments": sent} for sent in (PLAIN, INSIDE_A_STRING)]

    told = [await world.gate.explain(proposal, principal=OPERATOR, run="r1") for proposal in proposals]

    assert told[0] == told[1]

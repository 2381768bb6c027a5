"""A turn whose process died: each call of it gets one answer, of one shape, that says what the ledger knows."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import placet
from placet import anthropic_turn, openai_responses_turn, openai_turn

AGENT = placet.Principal.agent("agent", tenant="acme", roles=("operator",), scopes=("pay",))
MARA = placet.Principal.person("mara", tenant="acme", roles=("admin",), scopes=("approvals.decide", "pay"))

SETTINGS = placet.GateSettings(lease_seconds=0.3, pause_seconds=0.1, grace_seconds=0.1)
MOMENT = 0.2
"""For so long an effect is waited for whose process is dead; it is found out only afterwards."""

CALLS: list[tuple[str, str, str]] = [
    ("done", "pay", "a"),
    ("late", "pay_slowly", "b"),
    ("denied", "pay_asking", "c"),
    ("killed", "pay_dying", "d"),
    ("never begun", "pay", "e"),
]


def tools() -> list[placet.Tool]:
    """Four writes: one that is done at once, one that is late, one that asks, and one in which the process dies."""

    async def pay(to: str) -> str:
        """Pay."""
        return to

    async def pay_slowly(to: str) -> str:
        """Pay, much later."""
        await asyncio.Event().wait()
        return to

    async def pay_asking(to: str) -> str:
        """Pay, if somebody says so."""
        return to

    async def pay_dying(to: str) -> str:
        """Pay; the process is killed meanwhile."""
        os.kill(os.getpid(), signal.SIGKILL)
        await asyncio.Event().wait()
        return to

    def write(**more: Any) -> Any:
        return placet.tool(effect="write", risk="low", permission="pay", **more)

    return [
        write()(pay),
        write(timeout_seconds=2.0)(pay_slowly),
        write(approval="always")(pay_asking),
        write()(pay_dying),
    ]


def chat() -> Any:
    asked = [
        {"id": label, "type": "function", "function": {"name": tool, "arguments": json.dumps({"to": to})}}
        for label, tool, to in CALLS
    ]
    return {"choices": [{"index": 0, "finish_reason": "tool_calls", "message": {"tool_calls": asked}}]}


def responses() -> Any:
    asked = [
        {"type": "function_call", "call_id": label, "name": tool, "arguments": json.dumps({"to": to})}
        for label, tool, to in CALLS
    ]
    return {"status": "completed", "output": asked}


def messages() -> Any:
    asked = [{"type": "tool_use", "id": label, "name": tool, "input": {"to": to}} for label, tool, to in CALLS]
    return {"stop_reason": "tool_use", "content": asked}


def of_chat(answers: list[dict[str, Any]]) -> list[tuple[str, str]]:
    assert {answer["role"] for answer in answers} == {"tool"}
    return [(answer["tool_call_id"], answer["content"]) for answer in answers]


def of_responses(answers: list[dict[str, Any]]) -> list[tuple[str, str]]:
    assert {answer["type"] for answer in answers} == {"function_call_output"}
    return [(answer["call_id"], answer["output"]) for answer in answers]


def of_messages(answers: list[dict[str, Any]]) -> list[tuple[str, str]]:
    (answer,) = answers
    assert {block["type"] for block in answer["content"]} == {"tool_result"}
    return [(block["tool_use_id"], block["content"]) for block in answer["content"]]


async def lived(store: str) -> None:
    """What the process does that dies: the turn, a person's denial, and the turn once more."""
    turn = openai_turn(chat(), turn=0)
    async with placet.open(tools=tools(), store=store, settings=SETTINGS, recovery="manual") as gate:
        for proposal in turn.proposals[:3]:
            outcome = await gate.submit(proposal, principal=AGENT, run="r1")
        assert isinstance(outcome, placet.AwaitingApproval)
        view = await gate.desk.show(outcome.approval_id, by=MARA)
        await gate.desk.deny(outcome.approval_id, by=MARA, digest=view.digest, reason="Not to them.")
        await gate.submit(turn.proposals[3], principal=AGENT, run="r1")
    raise AssertionError("it was to die")


@pytest.fixture(scope="module")
def orphaned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The store that the dead process left; each test looks at it as it is."""
    store = tmp_path_factory.mktemp("orphaned") / "placet.db"
    program = (
        f"import asyncio; from tests.scenarios.test_orphaned_calls import lived; asyncio.run(lived({str(store)!r}))"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], cwd=Path(__file__).parents[2], capture_output=True, timeout=120, check=False
    )
    assert ended.returncode == -9, ended.stderr.decode()
    return store


@pytest.fixture
async def gate(orphaned: Path) -> AsyncIterator[placet.Gate]:
    async with placet.open(tools=tools(), store=orphaned, settings=SETTINGS, recovery="manual") as opened:
        yield opened


TURNS = [
    pytest.param(openai_turn, chat, of_chat, id="openai-chat"),
    pytest.param(openai_responses_turn, responses, of_responses, id="openai-responses"),
    pytest.param(anthropic_turn, messages, of_messages, id="anthropic"),
]


@pytest.mark.case("G06")
@pytest.mark.parametrize(("turn_of", "response", "answers_of"), TURNS)
async def test_each_call_of_a_turn_that_was_left_has_one_answer_that_says_what_the_ledger_knows(
    gate: placet.Gate, turn_of: Any, response: Any, answers_of: Any
) -> None:
    turn = turn_of(response(), turn=0)
    before = [await gate.submit(turn.proposals[2], principal=AGENT, run="r1")]
    assert isinstance(before[0], placet.Refused)
    assert (before[0].code, before[0].words) == ("approval_denied", "Not to them.")
    await gate.runs.cancel("r1", by=AGENT)  # so that answering it begins nothing

    outcomes = await gate.submit_all(turn.proposals, principal=AGENT, run="r1", timeout_seconds=MOMENT)
    told = [(label, json.loads(content)) for label, content in answers_of(turn.answers(outcomes))]

    assert [label for label, _ in told] == [label for label, _, _ in CALLS]
    done, late, denied, killed, never = (document for _, document in told)
    for document in (done, late, denied, killed, never):
        assert {"status", "code", "message", "retryable", "may_have_acted"} <= document.keys()
    assert (done["status"], done["result"]) == ("replayed", "a")
    assert late["status"] == "unknown"
    assert killed["status"] in ("in_progress", "unknown")
    for document in (late, killed):  # nobody knows, so nobody says
        assert document["may_have_acted"] is True
        assert "nothing" not in document["message"].lower() and "cancel" not in document["message"].lower()
    for document in (denied, never):
        assert (document["status"], document["may_have_acted"]) == ("refused", False)
        assert "nothing ran" in document["message"].lower()


@pytest.mark.case("G06")
async def test_the_answers_are_the_same_however_often_they_are_asked_for(gate: placet.Gate) -> None:
    turn = openai_turn(chat(), turn=0)
    await gate.runs.cancel("r1", by=AGENT)
    first, again = [
        turn.answers(await gate.submit_all(turn.proposals, principal=AGENT, run="r1", timeout_seconds=MOMENT))
        for _ in range(2)
    ]
    assert again == first

"""A person decides in between, and the gateway may die in between: what runs is what was approved, once."""

from __future__ import annotations

import asyncio
import base64
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from placet import AwaitingApproval
from placet.testing import FakeClock, FixedSignIn
from tests.mcp_server.conftest import QUICK, WITH_PAGES, Gateway, in_process, modern, said_in
from tests.mcp_server.tools import AGENT, MARA, OTHER, WHO, acted

PAY: dict[str, Any] = {"name": "pay", "arguments": {"amount": 5}}
ACCEPTED = {"approval": {"action": "accept"}}


def approval_of(result: dict[str, Any]) -> str:
    return str(result["_meta"]["io.placet/outcome"]["approval_id"])


def run_of(result: dict[str, Any]) -> str:
    return str(result["_meta"]["io.placet/outcome"]["run"])


def again(result: dict[str, Any], responses: dict[str, Any] | None = None) -> dict[str, Any]:
    """The same call with what its last answer gave along."""
    more = {} if responses is None else {"inputResponses": responses}
    return PAY | {"requestState": result["requestState"]} | more


@pytest.mark.req("B184")
def test_a_restart_between_question_answer_and_repeat_changes_nothing(gateway: Gateway) -> None:
    gateway.wait_seconds = 0.2
    gateway.restart()
    asked = gateway.ask("tools/call", PAY, capabilities=WITH_PAGES)["result"]
    assert asked["resultType"] == "input_required"
    question = asked["inputRequests"]["approval"]
    assert question["params"]["url"] == f"{gateway.url}/console/approvals/{approval_of(asked)}"
    assert question["params"]["mode"] == "url"

    gateway.restart()
    still = gateway.ask("tools/call", again(asked, ACCEPTED), capabilities=WITH_PAGES)["result"]
    assert still["resultType"] == "input_required"
    assert approval_of(still) == approval_of(asked)
    assert acted(gateway.folder) == []

    gateway.decide(approval_of(asked))
    gateway.restart()
    done = gateway.ask("tools/call", again(still, ACCEPTED), capabilities=WITH_PAGES)["result"]
    assert done["structuredContent"]["result"] == {"paid": 5}
    assert done["isError"] is False

    gateway.restart()
    replayed = gateway.ask("tools/call", again(asked), capabilities=WITH_PAGES)["result"]
    assert replayed["structuredContent"]["status"] == "replayed"
    assert replayed["structuredContent"]["result"] == {"paid": 5}
    assert acted(gateway.folder) == ["paid 5"]


def test_a_client_without_pages_asks_again_with_what_it_was_given_after_a_restart(gateway: Gateway) -> None:
    pending = gateway.ask("tools/call", PAY)["result"]
    assert pending["isError"] is True
    assert pending["structuredContent"]["status"] == "awaiting_approval"
    assert pending["structuredContent"]["url"] == f"{gateway.url}/console/approvals/{approval_of(pending)}"
    retry = pending["_meta"]["io.placet/retry"]
    gateway.decide(approval_of(pending))
    gateway.restart()
    statuses = [gateway.ask("tools/call", PAY, meta=retry)["result"]["structuredContent"]["status"] for _ in range(2)]
    assert statuses == ["succeeded", "replayed"]
    other = gateway.ask("tools/call", PAY | {"arguments": {"amount": 6}}, meta=retry)
    assert other["result"]["structuredContent"]["status"] == "conflict"
    assert acted(gateway.folder) == ["paid 5"]


@pytest.mark.parametrize("is_decided", [True, False])
async def test_the_same_call_meets_its_question_in_a_process_that_was_started_since(
    tmp_path: Path, is_decided: bool
) -> None:
    """A model sends arguments, and nothing of `_meta`; its session's run, or its hour's, is another one by now."""
    async with in_process(tmp_path) as door:
        door.mcp._calls._namer._clock = FakeClock()  # in another hour, so under another run
        asked = (await door.ask("tools/call", PAY))["result"]
        if is_decided:
            await door.approve(approval_of(asked))
    async with in_process(tmp_path) as door:
        other = (await door.ask("tools/call", PAY | {"arguments": {"amount": 6}}))["result"]
        assert approval_of(other) != approval_of(asked)
        again = (await door.ask("tools/call", PAY))["result"]
        if not is_decided:
            assert approval_of(again) == approval_of(asked)
            await door.approve(approval_of(asked))
            again = (await door.ask("tools/call", PAY))["result"]
        assert again["structuredContent"]["status"] == "succeeded"
        anew = (await door.ask("tools/call", PAY))["result"]
        assert anew["structuredContent"]["status"] == "awaiting_approval"
        assert approval_of(anew) != approval_of(asked)
        assert run_of(anew) not in (run_of(asked), "") and run_of(again) == run_of(asked)
    assert acted(tmp_path) == ["paid 5"]


@pytest.mark.parametrize("way", ["gives up", "is malformed"])
async def test_a_repeat_that_comes_to_nothing_does_not_cost_the_question_of_before(tmp_path: Path, way: str) -> None:
    """A client gives up waiting sooner than a person answers, and asks once more."""
    async with in_process(tmp_path) as door:
        door.mcp._calls._namer._clock = FakeClock()
        asked = (await door.ask("tools/call", PAY))["result"]
    async with in_process(tmp_path, settings=replace(QUICK, wait_seconds=30.0)) as door:
        if way == "gives up":
            waiting = asyncio.ensure_future(door.ask("tools/call", PAY))
            while not door.mcp._calls._waiting._inside:
                await asyncio.sleep(0.01)
            waiting.cancel()
            await asyncio.wait((waiting,))
        else:
            refused = await door.ask("tools/call", PAY, meta={"io.placet/idempotency-key": 7})
            assert refused["error"]["data"]["code"] == "meta_malformed"
        await door.approve(approval_of(asked))
        again = (await door.ask("tools/call", PAY))["result"]
    assert again["structuredContent"]["status"] == "succeeded" and run_of(again) == run_of(asked)
    assert acted(tmp_path) == ["paid 5"]


async def test_who_names_its_run_asks_in_it_whatever_stands_open(tmp_path: Path) -> None:
    mine = {"io.placet/run": "mine"}
    async with in_process(tmp_path) as door:
        first = (await door.ask("tools/call", PAY, meta=mine))["result"]
    async with in_process(tmp_path) as door:
        unnamed = (await door.ask("tools/call", PAY))["result"]
    async with in_process(tmp_path) as door:
        named = (await door.ask("tools/call", PAY, meta=mine))["result"]
    assert approval_of(named) == approval_of(first) != approval_of(unnamed)


async def test_nobody_meets_the_question_of_another(tmp_path: Path) -> None:
    async with in_process(tmp_path) as door:
        door.mcp._calls._namer._clock = FakeClock()
        asked = (await door.ask("tools/call", PAY, as_="t-other"))["result"]
        await door.approve(approval_of(asked))
        session = f"mcp-session-{'0' * 32}"
        theirs = await door.gate.submit(
            {"call_id": "c1", "tool": "pay", "arguments": {"amount": 5}}, principal=OTHER, run=session
        )
        assert isinstance(theirs, AwaitingApproval)
    async with in_process(tmp_path) as door:
        mine = (await door.ask("tools/call", PAY))["result"]
    assert run_of(mine) not in (run_of(asked), session)
    assert mine["structuredContent"]["status"] == "awaiting_approval" and approval_of(mine) != approval_of(asked)
    assert acted(tmp_path) == []


async def test_the_same_call_again_is_the_same_question_and_runs_once(tmp_path: Path) -> None:
    async with in_process(tmp_path) as door:
        first = (await door.ask("tools/call", PAY))["result"]
        second = (await door.ask("tools/call", PAY))["result"]
        assert approval_of(first) == approval_of(second)
        await door.approve(approval_of(first))
        done = (await door.ask("tools/call", PAY))["result"]
        assert done["structuredContent"]["status"] == "succeeded"
    assert acted(tmp_path) == ["paid 5"]


async def test_who_simply_asks_the_same_again_waits_for_the_answer(tmp_path: Path) -> None:
    async with in_process(tmp_path, settings=replace(QUICK, wait_seconds=30.0)) as door:
        first = (await door.ask("tools/call", PAY))["result"]
        asking = asyncio.ensure_future(door.ask("tools/call", PAY))
        while not door.mcp._calls._waiting._inside:
            assert not asking.done(), "it was answered at once"
            await asyncio.sleep(0.01)
        await door.approve(approval_of(first))
        assert (await asking)["result"]["structuredContent"]["result"] == {"paid": 5}
    assert acted(tmp_path) == ["paid 5"]


def test_who_asks_again_waits_for_the_answer(standing: Gateway) -> None:
    asked = standing.ask("tools/call", {"name": "pay", "arguments": {"amount": 71}}, capabilities=WITH_PAGES)["result"]
    answered = threading.Timer(0.3, standing.decide, (approval_of(asked),))
    answered.start()
    call = {"name": "pay", "arguments": {"amount": 71}, "requestState": asked["requestState"]}
    done = standing.ask("tools/call", call, capabilities=WITH_PAGES)["result"]
    answered.join()
    assert done["structuredContent"]["result"] == {"paid": 71}


async def test_what_a_client_answers_is_no_approval_whatever_it_says(tmp_path: Path) -> None:
    async with in_process(tmp_path) as door:
        result = (await door.ask("tools/call", PAY, capabilities=WITH_PAGES))["result"]
        for responses in (
            ACCEPTED,
            {"approval": {"action": "accept", "content": {"approved": True, "approve": "yes"}}},
            {"approval": {"action": "accept"}, "other": {"action": "accept"}},
        ):
            result = (await door.ask("tools/call", again(result, responses), capabilities=WITH_PAGES))["result"]
            assert "structuredContent" not in result or result["structuredContent"]["status"] == "awaiting_approval"
        assert (await door.gate.questions.show(approval_of(result), by=AGENT)).state == "pending"
    assert acted(tmp_path) == []


async def test_after_some_rounds_the_client_is_told_that_it_is_pending(tmp_path: Path) -> None:
    async with in_process(tmp_path) as door:
        result = (await door.ask("tools/call", PAY, capabilities=WITH_PAGES))["result"]
        kinds = [result["resultType"]]
        for _ in range(5):
            if "requestState" not in result:
                break
            result = (await door.ask("tools/call", again(result, ACCEPTED), capabilities=WITH_PAGES))["result"]
            kinds.append(result["resultType"])
        assert kinds == ["input_required"] * 3 + ["complete"]
        assert result["structuredContent"]["status"] == "awaiting_approval"
        await door.approve(approval_of(result))
        done = (await door.ask("tools/call", PAY, meta=result["_meta"]["io.placet/retry"]))["result"]
    assert done["structuredContent"]["status"] == "succeeded"


@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_a_client_that_opens_no_page_is_told_at_once(tmp_path: Path, action: str) -> None:
    async with in_process(tmp_path) as door:
        asked = (await door.ask("tools/call", PAY, capabilities=WITH_PAGES))["result"]
        answer = again(asked, {"approval": {"action": action}})
        told = (await door.ask("tools/call", answer, capabilities=WITH_PAGES))["result"]
    assert told["structuredContent"]["status"] == "awaiting_approval"


@pytest.mark.parametrize("capabilities", [{}, {"elicitation": {}}, {"elicitation": {"form": {}}}])
async def test_only_a_client_that_said_it_opens_pages_is_sent_to_one(
    tmp_path: Path, capabilities: dict[str, Any]
) -> None:
    async with in_process(tmp_path) as door:
        result = (await door.ask("tools/call", PAY, capabilities=capabilities))["result"]
    assert result["resultType"] == "complete"
    assert result["structuredContent"]["status"] == "awaiting_approval"


async def test_a_state_is_good_for_its_own_call_and_caller_alone(tmp_path: Path) -> None:
    async with in_process(tmp_path) as door:
        asked = (await door.ask("tools/call", PAY, capabilities=WITH_PAGES))["result"]
        await door.approve(approval_of(asked))
        state = asked["requestState"]
        middle = len(state) // 2
        altered = state[:middle] + ("A" if state[middle] != "A" else "B") + state[middle + 1 :]
        refused: list[tuple[dict[str, Any], str]] = [
            (PAY | {"arguments": {"amount": 6}, "requestState": state}, "t-agent"),
            (PAY | {"name": "note", "requestState": state}, "t-agent"),
            (PAY | {"requestState": altered}, "t-agent"),
            (PAY | {"requestState": state[:-4]}, "t-agent"),
            (PAY | {"requestState": "made up"}, "t-agent"),
            (PAY | {"requestState": state}, "t-other"),
            (PAY | {"requestState": state}, "t-stranger"),
        ]
        for params, who in refused:
            answer = await door.ask("tools/call", params, as_=who, capabilities=WITH_PAGES)
            assert answer["error"]["code"] == -32602
            assert answer["error"]["message"] == "Invalid or expired requestState"
    assert acted(tmp_path) == []


async def test_a_state_of_another_store_is_not_taken(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    async with in_process(tmp_path / "one") as one, in_process(tmp_path / "two") as two:
        asked = (await one.ask("tools/call", PAY, capabilities=WITH_PAGES))["result"]
        answer = await two.ask("tools/call", again(asked), capabilities=WITH_PAGES)
    assert answer["error"]["code"] == -32602


async def test_a_state_says_nothing_to_who_carries_it(tmp_path: Path) -> None:
    async with in_process(tmp_path) as door:
        asked = (await door.ask("tools/call", PAY, capabilities=WITH_PAGES))["result"]
    opened = base64.urlsafe_b64decode(asked["requestState"] + "==")
    assert approval_of(asked).encode() not in opened
    assert b"acme" not in opened and b"pay" not in opened


async def test_a_denial_is_said_with_its_words(tmp_path: Path) -> None:
    async with in_process(tmp_path) as door:
        asked = (await door.ask("tools/call", PAY, capabilities=WITH_PAGES))["result"]
        view = await door.gate.desk.show(approval_of(asked), by=MARA)
        await door.gate.desk.deny(approval_of(asked), by=MARA, digest=view.digest, reason="too much")
        told = (await door.ask("tools/call", again(asked), capabilities=WITH_PAGES))["result"]
    assert told["structuredContent"]["code"] == "approval_denied"
    assert told["structuredContent"]["reviewer_said"] == "too much"
    assert acted(tmp_path) == []


@pytest.mark.parametrize("way", ["state", "retry"])
async def test_a_question_that_was_taken_back_is_not_asked_anew_by_itself(tmp_path: Path, way: str) -> None:
    async with in_process(tmp_path) as door:
        asked = (await door.ask("tools/call", PAY, capabilities=WITH_PAGES if way == "state" else None))["result"]
        await door.gate.desk.withdraw(approval_of(asked), by=MARA)
        if way == "state":
            told = (await door.ask("tools/call", again(asked), capabilities=WITH_PAGES))["result"]
        else:
            told = (await door.ask("tools/call", PAY, meta=asked["_meta"]["io.placet/retry"]))["result"]
        assert told["structuredContent"]["code"] == "approval_withdrawn"
        assert len(await door.events("approval_asked")) == 1
        anew = (await door.ask("tools/call", PAY))["result"]
        assert approval_of(anew) != approval_of(asked)


async def test_who_lost_its_credential_while_it_waited_runs_nothing(tmp_path: Path) -> None:
    class Revocable(FixedSignIn):
        is_revoked = False

        async def principal_of(self, credential: str) -> Any:
            return await super().principal_of("" if self.is_revoked else credential)

    sign_in = Revocable(WHO)
    async with in_process(tmp_path, sign_in=sign_in, settings=QUICK) as door:
        asked = (await door.ask("tools/call", PAY, capabilities=WITH_PAGES))["result"]
        looked, looks = door.gate.questions.show, 0

        async def decided_meanwhile(approval_id: str, *, by: Any) -> Any:
            nonlocal looks
            view, looks = await looked(approval_id, by=by), looks + 1
            if looks == 2:  # the first one is before it is asked for, this one while it waits
                sign_in.is_revoked = True
                await door.approve(approval_id)
            return view

        door.gate.questions.show = decided_meanwhile  # type: ignore[method-assign]
        answer = said_in(await door.post(modern("tools/call", again(asked), capabilities=WITH_PAGES)))
    assert answer["error"]["code"] == -32600
    assert acted(tmp_path) == []


async def test_as_many_wait_as_may_and_the_rest_are_answered_at_once(tmp_path: Path) -> None:
    settings = replace(QUICK, wait_seconds=30.0, max_waiting_each=1)
    async with in_process(tmp_path, settings=settings) as door:
        asked = (await door.ask("tools/call", PAY, capabilities=WITH_PAGES))["result"]
        waiting = asyncio.ensure_future(door.ask("tools/call", again(asked), capabilities=WITH_PAGES))
        room = door.mcp._calls._waiting
        while not room._inside:
            await asyncio.sleep(0.01)
        told = (await door.ask("tools/call", again(asked), capabilities=WITH_PAGES))["result"]
        assert told["resultType"] == "input_required"
        door.mcp.close()
        assert (await waiting)["result"]["resultType"] == "input_required"

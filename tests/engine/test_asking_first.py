"""`Gate.ask`: whoever pauses before submitting knows that a call will wait, and a person is asked; nothing runs."""

from __future__ import annotations

from typing import Any

import pytest

from placet import AwaitingApproval, Contract, Invalid, Matrix, NotAsked, Principal, Replayed, RunLimits, Succeeded
from tests.engine.conftest import APPROVER, OPERATOR, VIEWER, OpenWorld, Spy, looked_up, written


class Hiding(Matrix):
    """Asks as the matrix does, and shows nobody anything."""

    def is_listed(self, contract: Contract, principal: Principal) -> bool:
        return False


def wish(tool: str = "write", word: str = "x", call_id: str = "c1") -> dict[str, Any]:
    return {"call_id": call_id, "tool": tool, "arguments": {"word": word}}


async def test_the_question_of_a_call_is_asked_once_whether_beforehand_or_by_submitting(
    open_world: OpenWorld, spy: Spy, where: str
) -> None:
    world = await open_world(written(spy, approval="always"), store=where)

    first = await world.gate.ask(wish(), principal=OPERATOR, run="r1")
    again = await world.gate.ask(wish(call_id="c2"), principal=OPERATOR, run="r1")
    submitted = await world.gate.submit(wish(), principal=OPERATOR, run="r1")

    assert isinstance(first, AwaitingApproval) and isinstance(again, AwaitingApproval)
    assert isinstance(submitted, AwaitingApproval)
    assert {first.approval_id, again.approval_id, submitted.approval_id} == {first.approval_id}
    assert (first.call_id, spy.count) == ("c1", 0)


async def test_an_approved_a_performed_and_a_refused_call_are_no_questions_and_nothing_runs(
    open_world: OpenWorld, spy: Spy
) -> None:
    world = await open_world(written(spy, approval="always"))
    waiting = await world.gate.ask(wish(), principal=OPERATOR, run="r1")
    assert isinstance(waiting, AwaitingApproval)
    await world.approve(waiting)

    assert await world.gate.ask(wish(), principal=OPERATOR, run="r1") is NotAsked.READY
    assert spy.count == 0
    assert isinstance(await world.gate.submit(wish(), principal=OPERATOR, run="r1"), Succeeded)
    assert await world.gate.ask(wish(), principal=OPERATOR, run="r1") is NotAsked.READY
    assert isinstance(await world.gate.submit(wish(), principal=OPERATOR, run="r1"), Replayed)
    other = await world.gate.ask(wish(word="y", call_id="c2"), principal=OPERATOR, run="r1")
    assert isinstance(other, AwaitingApproval)
    await world.deny(other)
    assert await world.gate.ask(wish(word="y", call_id="c2"), principal=OPERATOR, run="r1") is NotAsked.REFUSED
    assert spy.count == 1


async def test_what_is_no_question_leaves_nothing_on_record(
    open_world: OpenWorld, spy: Spy, caplog: pytest.LogCaptureFixture
) -> None:
    world = await open_world(written(spy, approval="always"), looked_up(spy))
    before = world.events()

    assert await world.gate.ask(wish("look"), principal=OPERATOR, run="r1") is NotAsked.READY
    for proposal, principal in (
        (wish(), VIEWER),
        (wish("nothing"), OPERATOR),
        (wish() | {"arguments": {}}, OPERATOR),
        (wish(), "nobody"),
        (None, OPERATOR),
    ):
        answer = await world.gate.ask(proposal, principal=principal, run="r1")  # type: ignore[arg-type]
        assert answer is NotAsked.REFUSED

    assert (world.events(), spy.count, caplog.records) == (before, 0, [])


async def test_a_fault_while_asking_is_no_answer_and_submitting_tells(
    open_world: OpenWorld, spy: Spy, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    world = await open_world(written(spy, approval="always"))

    async def failing(*_: Any, **__: Any) -> None:
        raise RuntimeError("s3cr3t")

    monkeypatch.setattr(world.gate.store, "same_ask", failing)

    assert await world.gate.ask(wish(), principal=OPERATOR, run="r1") is NotAsked.REFUSED
    assert "asking failed" in caplog.text and "s3cr3t" not in caplog.text


async def test_a_gate_that_ends_asks_nobody(open_world: OpenWorld, spy: Spy) -> None:
    world = await open_world(written(spy, approval="always"))
    await world.gate.drain(1.0)

    assert await world.gate.ask(wish(), principal=OPERATOR, run="r1") is NotAsked.REFUSED


async def test_a_tool_that_the_principal_may_not_see_is_asked_about_by_nobody(open_world: OpenWorld, spy: Spy) -> None:
    world = await open_world(written(spy, approval="always"), policy=Hiding())

    assert await world.gate.ask(wish(), principal=OPERATOR, run="r1") is NotAsked.REFUSED
    answer = await world.gate.submit_listed(wish(), principal=OPERATOR, run="r1")

    assert isinstance(answer, Invalid) and answer.code == "unknown_tool"
    assert await world.gate.desk.pending(by=APPROVER) == ()


async def test_a_run_that_is_over_asks_nobody(open_world: OpenWorld, spy: Spy) -> None:
    world = await open_world(written(spy, approval="always"))
    await world.gate.runs.begin("r2", by=OPERATOR, limits=RunLimits())
    await world.gate.runs.cancel("r2", by=OPERATOR)

    assert await world.gate.ask(wish(), principal=OPERATOR, run="r2") is NotAsked.REFUSED
    assert await world.gate.desk.pending(by=APPROVER) == ()


async def test_a_key_that_another_operation_has_is_refused_and_asks_nobody(open_world: OpenWorld, spy: Spy) -> None:
    world = await open_world(written(spy, approval="always", operation_key="write:{word}"))
    waiting = await world.gate.ask(wish(), principal=OPERATOR, run="r1")
    assert isinstance(waiting, AwaitingApproval)
    await world.approve(waiting)
    assert isinstance(await world.gate.submit(wish(), principal=OPERATOR, run="r1"), Succeeded)
    other = wish(call_id="c2") | {"arguments": {"word": "x", "count": 2}}

    assert await world.gate.ask(other, principal=OPERATOR, run="r1") is NotAsked.REFUSED
    assert await world.gate.desk.pending(by=APPROVER) == ()

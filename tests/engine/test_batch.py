"""Several proposals of one model turn: checked as a whole, answered one by one, in order."""

from __future__ import annotations

from typing import Any

import pytest

import placet
from placet import (
    AwaitingApproval,
    Invalid,
    NotRun,
    Refused,
    RetryPolicy,
    Succeeded,
    TimedOut,
    ToolRejected,
    Unknown,
    errors,
)
from placet.errors import MisuseError
from placet.rules.proposals import MAX_BATCH
from tests.engine.conftest import OPERATOR, SCOPE, OpenWorld, Spy, World, looked_up, written


def look(call_id: str, word: str = "x", **more: object) -> dict[str, object]:
    return {"call_id": call_id, "tool": "look", "arguments": {"word": word}} | more


async def together(world: World, batch: Any, **more: Any) -> tuple[Any, ...]:
    return await world.gate.submit_all(batch, principal=OPERATOR, run="r1", **more)


@pytest.mark.case("B08")
async def test_three_calls_of_one_tool_give_three_results_in_order(open_world: OpenWorld, spy: Spy, where: str) -> None:
    world = await open_world(looked_up(spy), store=where)

    outcomes = await together(world, [look("c3", "a"), look("c1", "b"), look("c2", "c")])

    assert [(outcome.call_id, outcome.unwrap()) for outcome in outcomes] == [
        ("c3", {"word": "a"}),
        ("c1", {"word": "b"}),
        ("c2", {"word": "c"}),
    ]
    assert spy.calls == ["a", "b", "c"]


@pytest.mark.req("B006")
@pytest.mark.case("B07")
async def test_a_repeated_call_id_refuses_the_whole_batch_with_two_events(
    open_world: OpenWorld, spy: Spy, where: str
) -> None:
    world = await open_world(looked_up(spy), store=where)

    outcomes = await together(world, [look("c1", "a"), look("c2", "b"), look("c1", "c")])

    assert [type(outcome) for outcome in outcomes] == [NotRun, NotRun, Invalid]
    assert (spy.count, world.words()) == (0, ["started", "validation"])
    assert world.completed()["error_type"] == "DuplicateToolCallId"
    assert outcomes[0].retryable
    with pytest.raises(errors.CallRefused):
        outcomes[0].unwrap()


@pytest.mark.req("B008", "B013")
@pytest.mark.parametrize("bad", [None, 7, "x", [], {}, look("a/b"), look("c2", attempt=0), look("c2", extra=1)])
async def test_a_malformed_member_stops_the_earlier_ones_too(open_world: OpenWorld, spy: Spy, bad: object) -> None:
    world = await open_world(looked_up(spy))

    outcomes = await together(world, [look("c1"), bad, look("c3")])

    assert [type(outcome) for outcome in outcomes] == [NotRun, Invalid, NotRun]
    assert (spy.count, world.words()) == (0, ["started", "validation"])


async def test_every_malformed_member_has_a_pair_of_its_own(open_world: OpenWorld, spy: Spy) -> None:
    world = await open_world(looked_up(spy))

    outcomes = await together(world, [None, look("c1"), 7])

    assert [type(outcome) for outcome in outcomes] == [Invalid, NotRun, Invalid]
    assert world.words() == ["started", "validation"] * 2


async def test_an_unknown_tool_or_bad_arguments_stop_only_themselves(open_world: OpenWorld, spy: Spy) -> None:
    world = await open_world(looked_up(spy))
    batch = [{"call_id": "c1", "tool": "nope", "arguments": {}}, look("c2", "a"), look("c3", 7), look("c4", "b")]  # type: ignore[arg-type]

    outcomes = await together(world, batch)

    assert [type(outcome) for outcome in outcomes] == [Invalid, Succeeded, Invalid, Succeeded]
    assert spy.calls == ["a", "b"]


@pytest.mark.case("G05", "I07", "B08")
async def test_each_call_has_its_own_outcome_whatever_becomes_of_the_others(
    open_world: OpenWorld, spy: Spy, where: str
) -> None:
    import asyncio

    def acting(name: str, error: BaseException | None = None, **options: Any) -> Any:
        async def act() -> str:
            if error is not None:
                raise error
            await asyncio.sleep(0)
            return "done"

        settings: dict[str, Any] = {"effect": "write", "risk": "medium", "permission": SCOPE, "name": name}
        return placet.tool(**(settings | options))(act)

    async def slow() -> str:
        await asyncio.sleep(60)
        return ""

    tools = [
        acting("auto"),
        acting("asked", approval="always"),
        acting("rejects", ToolRejected("no")),
        acting("raises", RuntimeError("s3cr3t")),
        acting("scoped", permission="other.scope"),
        placet.tool(effect="read", timeout_seconds=0.005, retry=RetryPolicy(max_attempts=1))(slow),
    ]
    world = await open_world(*tools, store=where)
    names = ["auto", "asked", "rejects", "raises", "scoped", "slow", "auto"]
    batch = [{"call_id": f"c{index}", "tool": name, "arguments": {}} for index, name in enumerate(names)]

    outcomes = await together(world, batch)

    assert [outcome.call_id for outcome in outcomes] == [f"c{index}" for index in range(7)]
    assert [type(outcome) for outcome in outcomes] == [
        Succeeded,
        AwaitingApproval,
        placet.Failed,
        Unknown,
        Refused,
        TimedOut,
        Succeeded,
    ]


async def test_one_denied_one_approved_and_one_automatic_call_each_get_theirs(open_world: OpenWorld, spy: Spy) -> None:
    world = await open_world(looked_up(spy), written(spy, approval="always"))
    batch = [
        look("c1"),
        {"call_id": "c2", "tool": "write", "arguments": {"word": "good"}},
        {"call_id": "c3", "tool": "write", "arguments": {"word": "bad"}},
    ]
    first = await together(world, batch)
    await world.approve(first[1])
    await world.deny(first[2], reason="no")

    second = await together(world, batch)

    assert [type(outcome) for outcome in second] == [Succeeded, Succeeded, Refused]
    assert second[2].words == "no"


async def test_stopping_at_the_first_failure_is_another_entrance(open_world: OpenWorld, spy: Spy) -> None:
    world = await open_world(looked_up(spy))
    batch = [look("c1", "a"), look("c2", 7), look("c3", "b")]  # type: ignore[arg-type]

    outcomes = await world.gate.submit_until_failure(batch, principal=OPERATOR, run="r1")

    assert [type(outcome) for outcome in outcomes] == [Succeeded, Invalid, NotRun]
    assert (outcomes[2].call_id, outcomes[2].tool, spy.calls) == ("c3", "look", ["a"])


async def test_a_batch_has_at_most_128_calls(open_world: OpenWorld, spy: Spy) -> None:
    world = await open_world(looked_up(spy))

    outcomes = await together(world, [look(f"c{index}") for index in range(MAX_BATCH + 1)])
    accepted = await together(world, [look(f"d{index}") for index in range(MAX_BATCH)])

    assert [type(outcome) for outcome in outcomes] == [NotRun] * MAX_BATCH + [Invalid]
    assert {type(outcome) for outcome in accepted} == {Succeeded}
    assert spy.count == MAX_BATCH


async def test_an_empty_batch_is_answered_with_nothing(open_world: OpenWorld, spy: Spy) -> None:
    world = await open_world(looked_up(spy))

    assert (await together(world, []), world.events()) == ((), [])


class Endless:
    def __iter__(self) -> Any:
        raise RuntimeError("s3cr3t")


@pytest.mark.parametrize("batch", [None, 7, "look", {"call_id": "c1"}, Endless(), iter([])])
async def test_a_batch_is_a_list_or_a_tuple(open_world: OpenWorld, spy: Spy, batch: Any) -> None:
    world = await open_world(looked_up(spy))

    for entrance in (world.gate.submit_all, world.gate.submit_until_failure):
        with pytest.raises(MisuseError):
            await entrance(batch, principal=OPERATOR, run="r1")


async def test_the_callers_patience_is_for_the_whole_batch(open_world: OpenWorld, spy: Spy) -> None:
    from placet.testing import FakeClock

    clock = FakeClock()

    @placet.tool(effect="read", timeout_seconds=10, retry=RetryPolicy(max_attempts=1))
    async def slow(word: str) -> str:
        spy(word)
        clock.advance(4)
        return word

    world = await open_world(slow, clock=clock)
    batch = [{"call_id": f"c{index}", "tool": "slow", "arguments": {"word": str(index)}} for index in range(4)]

    outcomes = await together(world, batch, timeout_seconds=10)

    assert [outcome.code for outcome in outcomes] == ["succeeded", "succeeded", "succeeded", "not_sent"]
    assert spy.calls == ["0", "1", "2"]

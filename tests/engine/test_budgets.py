"""Steps of a run: what counts, what is refused, and that the count lasts."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import placet
from placet import (
    AwaitingApproval,
    GateSettings,
    Invalid,
    NotRun,
    Principal,
    Refused,
    Replayed,
    RetryPolicy,
    Succeeded,
    errors,
)
from tests.engine.conftest import OPERATOR, SCOPE, OpenWorld, Spy, World, looked_up, written


def limit(steps: int) -> GateSettings:
    return GateSettings(max_steps=steps, grace_seconds=0.05)


async def look(world: World, call_id: str, **more: Any) -> Any:
    return await world.submit("look", {"word": call_id}, call_id=call_id, **more)


@pytest.mark.req("B100", "H028", "H056")
async def test_a_run_has_its_steps_over_all_submissions_and_not_one_more(
    open_world: OpenWorld, spy: Spy, where: str
) -> None:
    world = await open_world(looked_up(spy), store=where, settings=limit(2))

    outcomes = [await look(world, f"c{index}") for index in range(4)]

    assert [outcome.code for outcome in outcomes] == ["succeeded", "succeeded", "budget_exhausted", "budget_exhausted"]
    assert spy.calls == ["c0", "c1"]
    assert world.words()[-2:] == ["started", "denied"]
    assert world.completed()["detail"] == "budget_exhausted"
    with pytest.raises(errors.BudgetExhausted) as caught:
        outcomes[2].unwrap()
    assert isinstance(caught.value, RuntimeError)


@pytest.mark.req("B099")
def test_a_budget_below_one_is_refused() -> None:
    for steps in (0, -1, 1.5, True):
        with pytest.raises(errors.ConfigurationError, match="max_steps"):
            GateSettings(max_steps=steps)  # type: ignore[arg-type]


@pytest.mark.req("B095", "B096")
async def test_in_a_batch_the_first_call_over_the_budget_is_refused_and_the_rest_not_run(
    open_world: OpenWorld, spy: Spy
) -> None:
    world = await open_world(looked_up(spy), settings=limit(1))
    batch = [{"call_id": f"c{index}", "tool": "look", "arguments": {"word": "x"}} for index in range(4)]

    outcomes = await world.gate.submit_all(batch, principal=OPERATOR, run="r1")

    assert [type(outcome) for outcome in outcomes] == [Succeeded, Refused, NotRun, NotRun]
    assert (spy.count, world.words()) == (1, ["started", "success", "started", "denied"])


@pytest.mark.req("B097", "B095")
async def test_attempts_are_counted_apart_from_steps(open_world: OpenWorld, spy: Spy) -> None:
    @placet.tool(effect="read", retry=RetryPolicy(max_attempts=3))
    async def flaky(word: str) -> str:
        spy(word)
        raise ConnectionError

    world = await open_world(flaky, settings=limit(1))
    first = await world.submit(flaky, {"word": "x"}, call_id="c1")
    second = await world.submit(flaky, {"word": "x"}, call_id="c2")

    assert (first.code, second.code, spy.count) == ("tool_failed", "budget_exhausted", 3)


@pytest.mark.req("H028")
@pytest.mark.parametrize("kind", ["denied", "waiting", "replayed", "conflict", "unknown_tool", "invalid_arguments"])
async def test_every_kind_of_proposal_counts_as_a_step(open_world: OpenWorld, spy: Spy, where: str, kind: str) -> None:
    world = await open_world(
        looked_up(spy),
        written(spy, operation_key="k:{word}"),
        written(spy, name="asked", approval="always"),
        written(spy, name="closed", permission="nobody.has"),
        store=where,
        settings=limit(2),
    )
    await world.submit("write", {"word": "x"}, call_id="c0")
    if kind == "denied":
        await world.submit("closed", {"word": "x"}, call_id="c1")
    elif kind == "waiting":
        await world.submit("asked", {"word": "x"}, call_id="c1")
    elif kind == "replayed":
        assert isinstance(await world.submit("write", {"word": "x"}, call_id="c1"), Replayed)
    elif kind == "conflict":
        await world.submit("write", {"word": "x", "count": 2}, call_id="c1")
    elif kind == "unknown_tool":
        assert isinstance(await world.submit("nope", call_id="c1"), Invalid)
    else:
        assert isinstance(await world.submit("look", {"word": 7}, call_id="c1"), Invalid)

    assert (await look(world, "c2")).code == "budget_exhausted"


async def test_a_model_that_only_proposes_nonsense_is_stopped_by_its_budget(open_world: OpenWorld, spy: Spy) -> None:
    world = await open_world(looked_up(spy), settings=limit(3))

    outcomes = [await world.submit("nope", call_id=f"c{index}") for index in range(5)]

    assert [outcome.code for outcome in outcomes] == ["unknown_tool"] * 3 + ["budget_exhausted"] * 2
    assert (spy.count, len(world.words())) == (0, 10)


async def test_asking_again_under_the_same_call_id_is_the_same_step(
    open_world: OpenWorld, spy: Spy, where: str
) -> None:
    world = await open_world(written(spy, approval="always"), looked_up(spy), store=where, settings=limit(2))
    waiting = await world.submit("write", {"word": "x"})
    for _ in range(5):
        await world.submit("write", {"word": "x"})
    await world.approve(waiting)

    done = await world.submit("write", {"word": "x"})

    assert isinstance(done, Succeeded)
    assert isinstance(await look(world, "c2"), Succeeded)
    assert (await look(world, "c3")).code == "budget_exhausted"


async def test_over_budget_nothing_is_spent_and_nobody_is_asked(open_world: OpenWorld, spy: Spy) -> None:
    world = await open_world(looked_up(spy), written(spy, approval="always"), settings=limit(1))
    await look(world, "c1")

    outcome = await world.submit("write", {"word": "x"}, call_id="c2")

    assert (outcome.code, spy.count) == ("budget_exhausted", 1)
    assert world.events("approval_asked") == []


@pytest.mark.req("H029", "H051", "B100")
async def test_the_count_survives_a_restart(open_world: OpenWorld, spy: Spy, tmp_path: Path) -> None:
    store = str(tmp_path / "p.db")
    before = await open_world(looked_up(spy), store=store, settings=limit(2))
    await look(before, "c1")
    after = await open_world(looked_up(spy), store=store, settings=limit(2))

    assert isinstance(await look(after, "c2"), Succeeded)
    assert (await look(after, "c3")).code == "budget_exhausted"


async def test_runs_and_tenants_do_not_share_a_budget(open_world: OpenWorld, spy: Spy) -> None:
    abroad = Principal.agent("agent-operator", tenant="globex", roles=("operator",), scopes=(SCOPE,))
    world = await open_world(looked_up(spy), settings=limit(1))

    assert isinstance(await look(world, "c1"), Succeeded)
    assert isinstance(await look(world, "c1", run="r2"), Succeeded)
    assert isinstance(await look(world, "c1", principal=abroad), Succeeded)
    assert (await look(world, "c2")).code == "budget_exhausted"


async def test_a_parallel_burst_does_not_overshoot(open_world: OpenWorld, spy: Spy, where: str) -> None:
    world = await open_world(looked_up(spy), store=where, settings=limit(5))

    outcomes = await asyncio.gather(*(look(world, f"c{index}") for index in range(20)))

    assert sorted(outcome.code for outcome in outcomes) == ["budget_exhausted"] * 15 + ["succeeded"] * 5
    assert spy.count == 5


async def test_an_operation_has_a_hundred_attempts_in_all(open_world: OpenWorld, spy: Spy) -> None:
    @placet.tool(effect="write", risk="medium", permission=SCOPE, retry=RetryPolicy(max_attempts=60), breaker=None)
    async def unsent(word: str) -> str:
        spy(word)
        raise placet.NotSent

    world = await open_world(unsent)
    outcomes = [await world.submit(unsent, {"word": "x"}, timeout_seconds=100_000) for _ in range(3)]

    assert [outcome.code for outcome in outcomes] == ["not_sent", "not_sent", "attempts_exhausted"]
    assert spy.count == 100


@pytest.mark.req("H028")
async def test_a_known_operation_is_not_answered_over_the_budget_and_the_refusal_is_on_record(
    open_world: OpenWorld, spy: Spy, where: str
) -> None:
    """A replay is a step too: a model that only asks again is stopped as one that only proposes."""
    world = await open_world(written(spy, operation_key="k:{word}"), store=where, settings=limit(1))
    await world.submit("write", {"word": "x"}, call_id="c1")

    for asked in ({"word": "x"}, {"word": "x", "count": 2}):
        outcome = await world.submit("write", asked, call_id="c2")
        assert (type(outcome), outcome.code) == (Refused, "budget_exhausted")

    assert (spy.count, world.words()[2:]) == (1, ["started", "denied"] * 2)
    assert world.completed()["detail"] == "budget_exhausted"


async def test_an_open_question_asked_again_over_the_budget_is_on_record_and_still_open(
    open_world: OpenWorld, spy: Spy, where: str
) -> None:
    """Asking under another call id is another step; the answer is still where the question stands."""
    world = await open_world(written(spy, approval="always"), store=where, settings=limit(1))
    waiting = await world.submit("write", {"word": "x"}, call_id="c1")
    assert isinstance(waiting, AwaitingApproval)

    again = await world.submit("write", {"word": "x"}, call_id="c2")

    assert isinstance(again, AwaitingApproval) and again.approval_id == waiting.approval_id
    assert world.words() == ["started", "approval_required"] * 2
    assert world.completed()["call_id"] == "c1"

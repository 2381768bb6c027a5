"""A tool that is refused again and again is closed to its run, and no call id buys more than one step."""

from __future__ import annotations

import pytest

import placet
from placet import GateSettings, Invalid, Principal, Refused
from placet.errors import ConfigurationError, PermissionDenied
from placet.model.outcome import AwaitingApproval, Outcome
from placet.testing import FakeClock
from tests.engine.conftest import OpenWorld, Spy, World, acting, looked_up, written

NOBODY = Principal.agent("nobody", tenant="acme")
THREE = GateSettings(max_denials=3, grace_seconds=0.05)


async def ask(world: World, number: int, word: object = None, tool: str = "write", **more: object) -> Outcome:
    words = {"word": str(number) if word is None else word}
    return await world.submit(tool, words, call_id=f"{tool}-{number}", **more)  # type: ignore[arg-type]


def codes(outcomes: list[Outcome]) -> list[str]:
    return [outcome.code for outcome in outcomes]


@pytest.mark.case("D09")
async def test_a_tool_that_policy_denies_again_and_again_is_closed_to_the_run(
    open_world: OpenWorld, spy: Spy, where: str
) -> None:
    world = await open_world(written(spy), looked_up(spy), store=where, settings=THREE)

    outcomes = [await ask(world, number, principal=NOBODY) for number in range(5)]

    assert codes(outcomes) == ["denied"] * 3 + ["tool_closed"] * 2
    closed = outcomes[-1]
    assert isinstance(closed, Refused)
    assert (closed.retryable, closed.may_have_acted) == (False, False)
    assert "do not ask for it again" in closed.message
    with pytest.raises(PermissionDenied):
        closed.unwrap()
    assert [event["detail"] for event in world.events("completed")] == ["denied"] * 3 + ["tool_closed"] * 2
    assert (await ask(world, 9, "x", tool="look", principal=NOBODY)).is_success
    assert codes([await ask(world, 9, principal=NOBODY, run="r2")]) == ["denied"]


@pytest.mark.case("D09")
async def test_calls_that_break_the_contract_close_the_tool_and_its_sound_calls_run_no_more(
    open_world: OpenWorld, spy: Spy, where: str
) -> None:
    world = await open_world(written(spy), looked_up(spy), store=where, settings=THREE)
    for tool in ("write", "look"):
        outcomes = [await ask(world, number, word=number, tool=tool) for number in range(4)]
        assert codes(outcomes) == ["invalid_arguments"] * 3 + ["tool_closed"]
        assert [type(outcome) for outcome in outcomes] == [Invalid] * 3 + [Refused]

        assert (await ask(world, 9, "sound", tool=tool)).code == "tool_closed"
    assert (spy.count, await world.effects()) == (0, ())


@pytest.mark.case("D09")
async def test_neighbours_of_what_a_person_refused_do_not_wear_people_down(
    open_world: OpenWorld, spy: Spy, where: str
) -> None:
    world = await open_world(written(spy, approval="always"), store=where, settings=THREE)
    for number in range(3):
        waiting = await ask(world, number)
        assert type(waiting) is AwaitingApproval
        await world.deny(waiting)

    assert codes([await ask(world, number) for number in (3, 0)]) == ["tool_closed", "tool_closed"]
    assert len(world.events("approval_asked")) == 3


async def test_what_a_person_approved_runs_even_if_its_neighbours_were_refused(
    open_world: OpenWorld, spy: Spy, where: str
) -> None:
    world = await open_world(written(spy, approval="always"), store=where, settings=THREE)
    approved = await ask(world, 0)
    await world.approve(approved)
    for number in range(1, 4):
        await world.deny(await ask(world, number))

    assert (await ask(world, 0)).is_success
    assert spy.count == 1


async def test_a_recorded_answer_is_still_given_and_a_restart_forgets_no_denial(
    open_world: OpenWorld, spy: Spy, tmp_path: object
) -> None:
    store = f"{tmp_path}/placet.db"
    tool = written(spy, operation_key="op:{word}")
    world = await open_world(tool, store=store, settings=THREE)
    assert (await ask(world, 0, "done")).is_success
    for number in range(1, 4):
        assert (await ask(world, number, word=number)).code == "invalid_arguments"

    again = await open_world(tool, store=store, settings=THREE, seed=1, clock=FakeClock())

    assert (await ask(again, 8, "done")).code == "replayed"
    assert (await ask(again, 9, "new")).code == "tool_closed"


async def test_other_refusals_close_nothing(open_world: OpenWorld, spy: Spy) -> None:
    """A stop, or a tool that is left alone, does not say no to the wish."""
    failing = True

    async def act() -> None:
        if failing:
            raise ConnectionError

    breaker = placet.Breaker(faults=1)
    world = await open_world(written(spy), acting(act, effect="read", breaker=breaker), settings=THREE)
    outcomes = [await world.submit("act", call_id=f"c{number}") for number in range(6)]
    assert codes(outcomes) == ["tool_failed"] + ["circuit_open"] * 5
    failing = False
    world.clock.advance(30)
    assert (await world.submit("act", call_id="c9")).is_success
    await world.gate.store.stop("tool:write", ())
    for number in range(5):
        assert (await ask(world, number)).code == "stopped"
    await world.gate.store.resume("tool:write", ())
    assert (await ask(world, 9)).is_success


async def test_a_closed_tool_goes_on_using_up_the_steps_of_the_run(open_world: OpenWorld, spy: Spy) -> None:
    world = await open_world(written(spy), settings=GateSettings(max_denials=1, max_steps=4))
    outcomes = [await ask(world, number, word=number) for number in range(4)] + [
        await ask(world, 9),
        await ask(world, 10),
    ]

    assert codes(outcomes) == ["invalid_arguments"] + ["tool_closed"] * 3 + ["budget_exhausted"] * 2


async def test_sound_calls_of_a_closed_tool_use_up_the_steps_too(open_world: OpenWorld, spy: Spy) -> None:
    world = await open_world(written(spy), looked_up(spy), settings=GateSettings(max_denials=1, max_steps=8))
    for tool in ("write", "look"):
        outcomes = [await ask(world, 0, word=0, tool=tool)] + [await ask(world, n, tool=tool) for n in range(1, 4)]
        assert codes(outcomes) == ["invalid_arguments"] + ["tool_closed"] * 3

    assert codes([await ask(world, 9), await ask(world, 9, tool="look")]) == ["budget_exhausted"] * 2


# ---------------------------------------------------------------- steps


async def test_a_call_id_that_is_used_again_for_something_else_is_another_step(
    open_world: OpenWorld, spy: Spy, where: str
) -> None:
    world = await open_world(looked_up(spy), written(spy), store=where, settings=GateSettings(max_steps=3))
    words = ["a", "b", "c", "d", "e"]

    outcomes = [await world.submit("look", {"word": word}, call_id="same") for word in words]

    assert codes(outcomes) == ["succeeded"] * 3 + ["budget_exhausted"] * 2
    assert spy.calls == ["a", "b", "c"]


async def test_the_same_call_asked_again_stays_one_step(open_world: OpenWorld, spy: Spy, where: str) -> None:
    world = await open_world(written(spy, approval="always"), store=where, settings=GateSettings(max_steps=1))
    waiting = await ask(world, 1)
    await ask(world, 1)
    await world.approve(waiting)
    assert (await ask(world, 1)).is_success
    assert (await ask(world, 1)).code == "replayed"
    assert (await ask(world, 2)).code == "budget_exhausted"


async def test_every_malformed_proposal_is_a_step_whatever_its_call_id(
    open_world: OpenWorld, spy: Spy, where: str
) -> None:
    world = await open_world(written(spy), store=where, settings=GateSettings(max_steps=3))
    outcomes = [await world.submit("write", {"word": 7}, call_id="same") for _ in range(4)]
    assert codes(outcomes) == ["invalid_arguments"] * 3 + ["budget_exhausted"]


def test_the_number_of_denials_is_a_whole_number_above_zero() -> None:
    for wrong in (0, -1, 1.5):
        with pytest.raises(ConfigurationError):
            GateSettings(max_denials=wrong)  # type: ignore[arg-type]
    assert placet.GateSettings().max_denials == 10


async def test_what_policy_denies_is_denied_and_on_record_when_the_steps_are_used_up_too(
    open_world: OpenWorld, spy: Spy, where: str
) -> None:
    settings = GateSettings(max_denials=2, max_steps=3, grace_seconds=0.05)
    world = await open_world(written(spy), store=where, settings=settings)

    outcomes = [await ask(world, number, principal=NOBODY) for number in range(5)]

    assert codes(outcomes) == ["denied", "denied", "tool_closed", "denied", "denied"]
    told = [(event["call_id"], event["detail"]) for event in world.events("completed")]
    assert told == [(f"write-{number}", code) for number, code in enumerate(codes(outcomes))]

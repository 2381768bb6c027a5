"""Hostile values in a proposal and in its context: one closed validation, refusal or misuse; nothing of theirs runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import placet
from placet import Deny, Invalid, NotRun, Principal, Proposal, Refused
from placet.errors import MisuseError, PlacetError
from placet.model.identifiers import CallId
from tests.engine.conftest import OPERATOR, SCOPE, Spy, World, looked_up
from tests.hostile.conftest import Watch


def members(**changed: object) -> dict[str, object]:
    return {"call_id": "c1", "tool": "look", "arguments": {"word": "x"}, **changed}


def proposal(**changed: object) -> Proposal:
    made = Proposal(call_id=CallId("c1"), tool="look", arguments={"word": "x"})
    for name, value in changed.items():
        object.__setattr__(made, name, value)
    return made


PROPOSALS: dict[str, Callable[[Any], object]] = {
    "proposal": lambda value: value,
    "call id": lambda value: members(call_id=value),
    "tool": lambda value: members(tool=value),
    "version": lambda value: members(version=value),
    "attempt": lambda value: members(attempt=value),
    "arguments": lambda value: members(arguments=value),
    "argument": lambda value: members(arguments={"word": value}),
    "argument in an argument": lambda value: members(arguments={"word": [{"a": value}]}),
    "extra argument": lambda value: members(arguments={"word": "x", "more": value}),
    "extra member": lambda value: members(more=value),
    "call id of a Proposal": lambda value: proposal(call_id=value),
    "tool of a Proposal": lambda value: proposal(tool=value),
    "version of a Proposal": lambda value: proposal(version=value),
    "attempt of a Proposal": lambda value: proposal(attempt=value),
    "arguments of a Proposal": lambda value: proposal(arguments=value),
}  # fmt: skip


@pytest.mark.req("B003", "B004", "B009", "B011", "B012", "B017", "B018", "B077", "B078", "B080")
@pytest.mark.parametrize("position", PROPOSALS)
async def test_a_hostile_part_of_a_proposal_ends_as_one_validation(
    world: World, watch: Watch, spy: Spy, position: str
) -> None:
    count = 0
    for name, value in watch.each():
        count += 1
        raw = PROPOSALS[position](value)
        outcome = await watch.ended(lambda: world.gate.submit(raw, principal=OPERATOR, run=f"r{count}"))
        watch.hear_outcome(outcome)
        assert type(outcome) is Invalid, name

    assert (spy.count, world.words()) == (0, ["started", "validation"] * count)
    assert watch.ran == []
    watch.assert_nothing_leaked(world)
    await watch.assert_serves(world)


@pytest.mark.req("B078", "B080")
@pytest.mark.parametrize("where_key_stands", ["proposal", "arguments", "within an argument"])
@pytest.mark.parametrize("collides_with", ["word", "tool", "arguments", "attempt", "a"])
async def test_a_hostile_key_is_never_compared(
    world: World, watch: Watch, spy: Spy, where_key_stands: str, collides_with: str
) -> None:
    key: Any = watch.values().key_like(collides_with)
    match where_key_stands:
        case "proposal":
            raw: object = {key: 1, **{each: 1 for each in members() if each != collides_with}}
        case "arguments":
            raw = members(arguments={key: "x"})
        case _:
            raw = members(arguments={"word": {key: "x"}})

    outcome = await watch.ended(lambda: world.gate.submit(raw, principal=OPERATOR, run="r"))

    watch.hear_outcome(outcome)
    assert type(outcome) is Invalid
    assert (spy.count, watch.ran) == (0, [])
    watch.assert_nothing_leaked(world)
    await watch.assert_serves(world)


@pytest.mark.req("B006", "B008")
@pytest.mark.parametrize("entrance", ["submit_all", "submit_until_failure"])
async def test_a_hostile_batch_is_misuse_or_stops_whole(world: World, watch: Watch, spy: Spy, entrance: str) -> None:
    for _name, value in watch.each():
        for batch in (value, [members(), value]):
            submit = getattr(world.gate, entrance)
            outcomes = await watch.ended(lambda: submit(batch, principal=OPERATOR, run="r"))
            if isinstance(outcomes, PlacetError):
                assert type(outcomes) is MisuseError
                continue
            assert {type(outcome) for outcome in outcomes} <= {Invalid, NotRun}
            assert Invalid in {type(outcome) for outcome in outcomes} or not outcomes
            for outcome in outcomes[:3]:
                watch.hear_outcome(outcome)

    assert (spy.count, watch.ran) == (0, [])
    watch.assert_nothing_leaked(world)
    await watch.assert_serves(world)


@pytest.mark.req("B011")
@pytest.mark.parametrize("position", PROPOSALS)
async def test_a_hostile_part_of_a_proposal_is_not_explained(world: World, watch: Watch, position: str) -> None:
    for name, value in watch.each():
        raw = PROPOSALS[position](value)
        outcome = await watch.ended(lambda: world.gate.explain(raw, principal=OPERATOR, run="r"))
        watch.hear_outcome(outcome)
        assert type(outcome) is Invalid, name

    assert (watch.ran, world.words()) == ([], [])
    watch.assert_nothing_leaked(world)


# ---------------------------------------------------------------- half-made values of our own


HALF_MADE: dict[str, Callable[[], object]] = {
    "nothing set": lambda: object.__new__(Proposal),
    "only a call id": lambda: _with(object.__new__(Proposal), call_id="c1"),
    "no attempt": lambda: _with(object.__new__(Proposal), call_id="c1", tool="look", arguments={}, version=None),
    "subclass": lambda: type("Child", (Proposal,), {})(call_id="c1", tool="look", arguments={}),
}  # fmt: skip


def _with(made: Any, **fields: object) -> Any:
    for name, value in fields.items():
        object.__setattr__(made, name, value)
    return made


@pytest.mark.req("B003", "B011")
@pytest.mark.parametrize("entrance", ["submit", "submit_all", "explain"])
@pytest.mark.parametrize("name", HALF_MADE)
async def test_a_half_made_proposal_is_one_validation(
    world: World, watch: Watch, spy: Spy, name: str, entrance: str
) -> None:
    made = HALF_MADE[name]()
    raw = [made] if entrance == "submit_all" else made

    outcome = await watch.ended(lambda: getattr(world.gate, entrance)(raw, principal=OPERATOR, run="r"))

    outcome = outcome[0] if entrance == "submit_all" else outcome
    assert type(outcome) is Invalid
    assert world.words() == ([] if entrance == "explain" else ["started", "validation"])
    assert spy.count == 0
    await watch.assert_serves(world)


# ---------------------------------------------------------------- principals


def principal(**changed: object) -> Principal:
    made = Principal.agent("agent-operator", tenant="acme", roles=("operator",), scopes=(SCOPE,))
    return _with(made, **changed)  # type: ignore[no-any-return]


PRINCIPALS: dict[str, Callable[[Any], Any]] = {
    "principal": lambda value: value,
    "subject": lambda value: principal(subject=value),
    "tenant": lambda value: principal(tenant=value),
    "roles": lambda value: principal(roles=value),
    "scopes": lambda value: principal(scopes=value),
    "environment": lambda value: principal(environment=value),
    "standing": lambda value: principal(standing=value),
    "on_behalf_of": lambda value: principal(on_behalf_of=value),
    "subject of the giver": lambda value: principal(on_behalf_of=principal(subject=value)),
    "tenant of the giver": lambda value: principal(on_behalf_of=principal(tenant=value)),
    "roles of the giver": lambda value: principal(on_behalf_of=principal(roles=value)),
}  # fmt: skip


async def assert_nobody(world: World, watch: Watch, spy: Spy, who: Any) -> None:
    for tool in ("look", "write", "nope"):
        outcome = await watch.ended(lambda: world.submit(tool, {"word": "x"}, principal=who, idempotency_key="k"))
        watch.hear_outcome(outcome)
        assert isinstance(outcome, Refused)
        assert (outcome.code, outcome.reasons) == ("denied", ("principal_malformed",))
        explained = await watch.ended(lambda: world.gate.explain(members(tool=tool), principal=who, run="r"))
        assert type(explained) is Deny
    assert watch.ended_at_once(lambda: world.gate.tools_for(who)) == ()
    assert (spy.count, watch.ran) == (0, [])
    assert {(event["tenant"], event["subject"]) for event in world.events()} == {("unknown", "unknown")}


@pytest.mark.req("B040", "B041", "B047")
@pytest.mark.parametrize("position", PRINCIPALS)
async def test_a_hostile_principal_is_nobody(world: World, watch: Watch, spy: Spy, position: str) -> None:
    for _, value in watch.each((RuntimeError,)):
        await assert_nobody(world, watch, spy, PRINCIPALS[position](value))

    watch.assert_nothing_leaked(world)
    await watch.assert_serves(world)


UNFINISHED_PRINCIPALS: dict[str, Callable[[], Any]] = {
    "nothing set": lambda: object.__new__(Principal),
    "only a subject": lambda: _with(object.__new__(Principal), subject="a"),
    "giver with nothing set": lambda: principal(on_behalf_of=object.__new__(Principal)),
    "subclass": lambda: type("Child", (Principal,), {})(subject="a", tenant="t"),
}  # fmt: skip


@pytest.mark.req("B040", "B041")
@pytest.mark.parametrize("name", UNFINISHED_PRINCIPALS)
async def test_a_half_made_principal_is_nobody(world: World, watch: Watch, spy: Spy, name: str) -> None:
    await assert_nobody(world, watch, spy, UNFINISHED_PRINCIPALS[name]())

    await watch.assert_serves(world)


# ---------------------------------------------------------------- the rest of the context


@pytest.mark.req("B040", "B047")
@pytest.mark.parametrize("position", ["run", "request_id", "idempotency_key", "timeout_seconds"])
async def test_a_hostile_context_is_misuse(world: World, watch: Watch, spy: Spy, position: str) -> None:
    for _name, value in watch.each():
        context: dict[str, Any] = {"principal": OPERATOR, "run": "r", position: value}
        error = await watch.ended(lambda: world.gate.submit(members(), **context))
        assert type(error) is MisuseError, error
        if position != "idempotency_key":
            error = await watch.ended(lambda: world.gate.submit_all([members()], **context))
            assert type(error) is MisuseError
    if position == "run":
        error = await watch.ended(lambda: world.gate.explain(members(), principal=OPERATOR, run=value))
        assert type(error) is MisuseError

    assert (spy.count, watch.ran, world.words()) == (0, [], [])
    watch.assert_nothing_leaked(world)
    await watch.assert_serves(world)


# ---------------------------------------------------------------- the same through the sync gate


@pytest.mark.req("B011", "B018", "B040")
def test_the_sync_gate_ends_closed_too(watch: Watch, spy: Spy) -> None:
    with placet.open(tools=[looked_up(spy)], store=placet.MEMORY, metrics=watch.registry) as gate:
        for _name, value in watch.each():
            outcome = watch.ended_at_once(lambda: gate.submit(value, principal=OPERATOR, run="r"))
            watch.hear_outcome(outcome)
            assert type(outcome) is Invalid
            nobody = watch.ended_at_once(lambda: gate.submit(members(), principal=value, run="r"))
            watch.hear_outcome(nobody)
            assert (type(nobody), nobody.code) == (Refused, "denied")
            assert (
                type(watch.ended_at_once(lambda: gate.submit(members(), principal=OPERATOR, run=value))) is MisuseError
            )
            assert type(watch.ended_at_once(lambda: gate.submit_all(value, principal=OPERATOR, run=""))) is MisuseError
            assert watch.ended_at_once(lambda: gate.tools_for(value)) == ()
        assert gate.submit(members(), principal=OPERATOR, run="good").is_success

    assert watch.ran == []
    watch.assert_nothing_leaked()

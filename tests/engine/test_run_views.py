"""Runs as those see them who may: whose they are, how far they came, what is left open, and nothing of arguments."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import apsw
import pytest

import placet
from placet import GateSettings, Principal
from placet.engine.run_views import RunCall, RunEffects, RunView
from placet.errors import DecisionRefused, MisuseError, NotFound
from placet.model.outcome import AwaitingApproval
from placet.model.run import LeftOpen
from placet.rules.documents import document_of
from tests.engine.conftest import APPROVER, OPERATOR, SCOPE, STRANGER, OpenWorld, World

OTHER = Principal.agent("agent-other", tenant="acme", roles=("operator",), scopes=(SCOPE,))
FOR_PAULA = replace(OPERATOR, on_behalf_of=replace(APPROVER, scopes=frozenset({SCOPE}), roles=OPERATOR.roles))
ELSEWHERE = replace(OPERATOR, environment="staging")
READERS = [
    Principal.person("ada", tenant="acme", scopes=("audit.read",)),
    Principal.person("ada", tenant="acme", scopes=("effects.read",)),
    Principal.person("ada", tenant="acme", scopes=("effects.reconcile",)),
    Principal.agent("scout", tenant="acme", scopes=("audit.read",)),
]
SHORTER = replace(OPERATOR, subject="agent-op")
SECRET = "a-secret-argument"


def tools() -> list[placet.Tool]:
    write: dict[str, Any] = {"effect": "write", "risk": "medium", "permission": SCOPE, "breaker": None}

    @placet.tool(**write)
    async def put(word: str) -> str:
        """Do it, or get lost on the way."""
        if word == "lost":
            raise RuntimeError(SECRET)
        return word

    @placet.tool(**write, approval="always")
    async def pay(word: str) -> str:
        """Wait for a person."""
        return word

    @placet.tool(effect="read")
    async def look(word: str) -> str:
        """Say it back."""
        return word

    return [put, pay, look]


@pytest.fixture
async def world(open_world: OpenWorld) -> World:
    """One run of an agent in which something of everything happened, and one of another's."""
    world = await open_world(*tools(), store=placet.MEMORY, settings=GateSettings(max_steps=9, max_denials=2))
    await world.submit("put", {"word": SECRET}, call_id="done")
    world.clock.advance(1)
    await world.submit("put", {"word": "lost"}, call_id="lost")
    world.clock.advance(1)
    await world.submit("pay", {"word": SECRET}, call_id="asked")
    await world.submit("look", {"word": SECRET}, call_id="read")
    for call_id in ("wrong", "wrong-2"):
        await world.submit("put", {"wort": SECRET}, call_id=call_id)
    await world.submit("put", {"word": "b"}, call_id="o1", run="r2", principal=OTHER)
    return world


async def names(world: World, by: Principal, **more: Any) -> list[str]:
    return [view.run_id for view in (await world.gate.runs.page(by=by, **more)).rows]


async def test_a_run_tells_its_budget_its_effects_and_what_is_left_open(world: World) -> None:
    view = await world.gate.runs.show("r1", by=OPERATOR)
    (waiting,) = view.waiting

    assert (view.run_id, view.tenant, view.requested_by) == ("r1", "acme", ("agent-operator",))
    assert (view.steps, view.max_steps, view.waiting_count) == (6, 9, 1)
    assert (view.stepped_at, view.is_policy_todays) == (world.clock.now(), True)
    assert (world.clock.now() - view.opened_at).total_seconds() == 2
    assert view.policy_version == world.gate.policy_version
    assert view.effects == RunEffects(committed=1, unknown=1)
    assert view.left_open == (LeftOpen.UNKNOWN, LeftOpen.WAITING)
    assert (view.stopped_by, view.closed_tools) == ((), ("put",))
    question = await world.gate.desk.show(waiting, by=APPROVER)
    assert view.calls == (
        RunCall(
            call_id="asked",
            tool="pay",
            state="pending",
            approval_id=waiting,
            began_at=question.asked_at,
            changed_at=question.asked_at,
        ),
        replace(view.calls[1], call_id="lost", tool="put", state="unknown", reason="raised_RuntimeError"),
        replace(view.calls[2], call_id="done", tool="put", state="committed", reason="returned"),
        RunCall(call_id="read"),
        RunCall(call_id="wrong"),
        RunCall(call_id="wrong-2"),
    )
    assert SECRET not in str(document_of(view)) and "operation_key" not in str(document_of(view))


async def test_a_call_that_was_approved_is_told_once_and_names_its_approval(world: World) -> None:
    awaiting = await world.submit("pay", {"word": SECRET}, call_id="asked")
    assert isinstance(awaiting, AwaitingApproval)
    await world.approve(awaiting)
    await world.submit("pay", {"word": SECRET}, call_id="asked")

    view = await world.gate.runs.show("r1", by=OPERATOR)
    (call,) = [call for call in view.calls or () if call.call_id == "asked"]

    assert (call.state, call.approval_id) == ("committed", awaiting.approval_id)
    assert (view.waiting, view.left_open) == ((), (LeftOpen.UNKNOWN,))


async def test_calls_are_bounded_and_say_that_there_are_more(world: World) -> None:
    some = await world.gate.runs.show("r1", by=OPERATOR, limit=4)
    every = await world.gate.runs.show("r1", by=OPERATOR, limit=6)

    assert [call.call_id for call in some.calls or ()] == ["asked", "lost", "done", "read"]
    assert (some.has_more_calls, every.has_more_calls, len(every.calls or ())) == (True, False, 6)


@pytest.mark.parametrize(
    "by",
    [OTHER, STRANGER, FOR_PAULA, ELSEWHERE, SHORTER],
    ids=["other", "tenant", "for", "environment", "shorter"],
)
async def test_to_whom_a_run_is_not_it_does_not_exist(world: World, by: Principal) -> None:
    with pytest.raises(NotFound) as hidden:
        await world.gate.runs.show("r1", by=by)
    with pytest.raises(NotFound) as absent:
        await world.gate.runs.show("r9", by=by)

    assert str(hidden.value) == str(absent.value)
    assert "r1" not in await names(world, by)
    assert "r1" not in await names(world, by, left=LeftOpen.UNKNOWN)
    assert "r1" not in await names(world, by, left=LeftOpen.WAITING)


async def test_runs_are_their_openers_and_whoever_decides_or_audits_sees_all_of_the_tenant(world: World) -> None:
    assert await names(world, OPERATOR) == ["r1"]
    assert await names(world, OTHER) == ["r2"]
    for by in (APPROVER, *READERS):
        assert await names(world, by) == ["r2", "r1"]
        assert (await world.gate.runs.own_page(by=by)).rows == ()
        assert (await world.gate.runs.show("r1", by=by)).steps == 6
    own = await world.gate.runs.own_page(by=OPERATOR)
    assert [view.run_id for view in own.rows] == ["r1"]


async def test_what_the_ledger_knows_is_told_only_to_whom_the_ledger_is(world: World) -> None:
    shown = await world.gate.runs.show("r1", by=APPROVER)
    assert (shown.effects, shown.calls, shown.has_more_calls) == (None, None, False)
    assert (shown.left_open, shown.waiting_count) == ((LeftOpen.WAITING,), 1)
    assert all(view.effects is None for view in (await world.gate.runs.page(by=APPROVER)).rows)
    for left in (LeftOpen.UNKNOWN, LeftOpen.IN_PROGRESS):
        with pytest.raises(DecisionRefused) as refused:
            await world.gate.runs.page(by=APPROVER, left=left)
        assert refused.value.code == "scope_missing"
    assert await names(world, APPROVER, left=LeftOpen.WAITING) == ["r1"]
    for by in READERS:
        seen = await world.gate.runs.show("r1", by=by)
        assert (seen.effects, len(seen.calls or ())) == (RunEffects(committed=1, unknown=1), 6)
        assert await names(world, by, left=LeftOpen.UNKNOWN) == ["r1"]


async def test_a_scope_that_only_the_agent_holds_opens_nothing_of_whom_it_acts_for(world: World) -> None:
    giver = Principal.agent("giver", tenant="acme")
    by = Principal.agent("scout", tenant="acme", scopes=("audit.read",), on_behalf_of=giver)

    assert await names(world, by) == []


async def test_a_run_says_which_stops_halt_it(world: World) -> None:
    boss = Principal.person("boss", tenant="acme", scopes=("ops.stop", "ops.stop.all"))
    for scope in ("run:r1", "tool:put", "tenant", "all"):
        await world.gate.switch.stop(scope, by=boss)

    assert (await world.gate.runs.show("r1", by=boss)).stopped_by == ("all", "tenant", "run")
    assert (await world.gate.runs.show("r2", by=boss)).stopped_by == ("all", "tenant")


async def test_a_policy_that_is_another_by_now_is_told(open_world: OpenWorld, tmp_path: Path) -> None:
    path = str(tmp_path / "placet.db")
    before = await open_world(*tools(), store=path)
    await before.submit("put", {"word": "a"})
    after = await open_world(
        *tools(), store=path, policy=placet.Matrix(requirement=placet.Requirement(lifetime_seconds=7.0))
    )
    await after.submit("put", {"word": "b"}, run="r2")

    views = (await after.gate.runs.page(by=OPERATOR)).rows

    assert [(view.run_id, view.is_policy_todays) for view in views] == [("r2", True), ("r1", False)]


async def test_pages_go_on_where_they_ended_while_runs_change(world: World) -> None:
    for number in range(3, 8):
        world.clock.advance(1)
        await world.submit("look", {"word": "a"}, run=f"r{number}")
    found: list[RunView] = []
    page = await world.gate.runs.page(by=APPROVER, limit=2)
    found += page.rows
    while page.after is not None:
        await world.submit("look", {"word": "a"}, call_id=f"c{len(found)}", run="r1")
        await world.submit("look", {"word": "a"}, run=f"new-{len(found)}")
        page = await world.gate.runs.page(by=APPROVER, limit=2, after=page.after)
        found += page.rows

    assert [view.run_id for view in found] == ["r7", "r6", "r5", "r4", "r3", "r2", "r1"]


@pytest.mark.parametrize("column", ["opened_at", "stepped_at"])
async def test_a_row_that_cannot_be_read_hides_no_other(open_world: OpenWorld, tmp_path: Path, column: str) -> None:
    path = tmp_path / "placet.db"
    world = await open_world(*tools(), store=str(path))
    for number in range(4):
        await world.submit("look", {"word": "a"}, run=f"r{number}")
        world.clock.advance(1)
    with apsw.Connection(str(path)) as connection:
        connection.execute(f"UPDATE runs SET {column} = 9223372036854775806 WHERE run_id = 'r2'")
        connection.execute("UPDATE runs SET policy_version = CAST(x'ff' AS TEXT) WHERE run_id = 'r1'")

    assert await names(world, OPERATOR, limit=1) == ["r3"]
    assert await names(world, OPERATOR) == ["r3", "r0"]


async def test_names_that_mean_something_elsewhere_are_names_of_runs_alone(world: World) -> None:
    for name in ("../r1", "r1\n", "a/b", "ü\u202e", "%00", "' OR 1=1 --"):
        await world.submit("look", {"word": "a"}, run=name)
        assert (await world.gate.runs.show(name, by=OPERATOR)).run_id == name
    for name in ("", "r1\x00", "\ud800", "x" * 129, 7, None):
        with pytest.raises(NotFound):
            await world.gate.runs.show(name, by=OPERATOR)  # type: ignore[arg-type]


async def test_misuse_is_told(world: World) -> None:
    runs = world.gate.runs
    for misuse in ({"by": "ada"}, {"by": OPERATOR, "limit": 0}, {"by": OPERATOR, "limit": 1_001}):
        for work in (runs.page, runs.own_page):
            with pytest.raises(MisuseError):
                await work(**misuse)  # type: ignore[arg-type]
        with pytest.raises(MisuseError):
            await runs.show("r1", **misuse)  # type: ignore[arg-type]
    with pytest.raises(MisuseError):
        await runs.page(by=OPERATOR, left="unknown")  # type: ignore[arg-type]


async def test_a_question_that_was_altered_is_told_as_no_call(open_world: OpenWorld, tmp_path: Path) -> None:
    path = tmp_path / "placet.db"
    world = await open_world(*tools(), store=str(path))
    for call_id in ("sound", "altered"):
        await world.submit("pay", {"word": call_id}, call_id=call_id)
    with apsw.Connection(str(path)) as connection:
        connection.execute("UPDATE approvals SET question_mac = ? WHERE question LIKE '%altered%'", ("0" * 64,))
        assert connection.changes() == 1

    calls = (await world.gate.runs.show("r1", by=OPERATOR)).calls or ()

    assert [(call.call_id, call.tool) for call in calls] == [("sound", "pay"), ("altered", None)]


async def test_why_a_run_was_paused_is_told_to_people_and_not_to_the_agent_that_opened_it(world: World) -> None:
    boss = Principal.person("boss", tenant="acme", scopes=("ops.stop", "audit.read"))
    await world.gate.runs.pause("r1", by=boss, reason="it buys too much")
    assert (await world.gate.runs.show("r1", by=boss)).reason == "it buys too much"
    shown = await world.gate.runs.show("r1", by=OPERATOR)
    assert (shown.changed_by is not None, shown.reason) == (True, None)

"""What waits in the order in which it matters, a page at a time; whatever happens between two pages."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import apsw
import pytest

import placet
from placet import Gate, Principal
from placet.engine import triage
from placet.engine.desk import ApprovalView
from placet.errors import DecisionRefused, MisuseError
from placet.model.approval import ApprovalState
from placet.model.listing import Mark
from placet.testing import FakeClock, SeededIds

SCOPES = ("w",)
TENANTS = ("acme", "globex", "initech")
AGENTS = {each: Principal.agent("agent", tenant=each, roles=("admin",), scopes=SCOPES) for each in TENANTS}
MARA = Principal.person("mara", tenant="acme", scopes=("approvals.decide",))
GRAVEST_FIRST = ["critical", "unregistered", "high", "medium", "low"]


def tool(risk: Any, name: str = "") -> Any:
    @placet.tool(name=f"act_{name or risk}", effect="write", risk=risk, permission="w", approval="always")
    async def act(number: int) -> str:
        """Do it, once somebody has said so."""
        return "done"

    return act


TOOLS = [tool(risk) for risk in ("low", "medium", "high", "critical")] + [tool("low", "slow")]
SOON = placet.AskRule(name="soon", tools=frozenset({"act_low", "act_high"}), decide_within_seconds=3_600.0)
LATE = placet.AskRule(name="late", decide_within_seconds=90_000.0)
POLICY = placet.Matrix(asks=placet.AskRules(rules=(SOON, LATE)))


class World:
    def __init__(self, gate: Gate, clock: FakeClock) -> None:
        self.gate, self.clock, self.count = gate, clock, 0

    async def ask(self, risk: str, *, tenant: str = "acme") -> str:
        self.count += 1
        proposal = {"call_id": f"c{self.count}", "tool": f"act_{risk}", "arguments": {"number": self.count}}
        outcome = await self.gate.submit(proposal, principal=AGENTS[tenant], run=f"r{self.count // 8}")
        assert isinstance(outcome, placet.AwaitingApproval), outcome
        self.clock.advance(1)
        return str(outcome.approval_id)

    async def flood(self, count: int) -> None:
        """Many of little risk, and now and then one that matters, of three tenants."""
        for number in range(count):
            risk = {0: "critical", 7: "high", 13: "high"}.get(number % 41, ("low", "low", "medium")[number // 3 % 3])
            await self.ask(risk, tenant=TENANTS[0 if number % 41 == 0 else number % 3])

    async def walked(self, limit: int, **more: Any) -> list[ApprovalView]:
        found: list[ApprovalView] = []
        after: Mark | None = None
        while True:
            page = await self.gate.desk.triage.page(by=MARA, limit=limit, after=after, **more)
            assert len(page.rows) <= limit and not page.is_cut
            found += page.rows
            after = page.after
            if after is None:
                return found


@pytest.fixture(params=[pytest.param("memory", marks=pytest.mark.exhaustive), "sqlite"])
async def world(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[World]:
    store = placet.MEMORY if request.param == "memory" else tmp_path / "placet.db"
    clock = FakeClock()
    async with placet.open(
        tools=TOOLS, store=store, clock=clock, ids=SeededIds(3), policy=POLICY, recovery="manual"
    ) as gate:
        yield World(gate, clock)


def order(view: ApprovalView) -> tuple[Any, ...]:
    return GRAVEST_FIRST.index(view.risk), view.decide_by, view.approval_id


@pytest.mark.case("O06")
async def test_of_two_hundred_questions_the_gravest_come_first_and_of_one_risk_the_first_to_be_over(
    world: World,
) -> None:
    await world.flood(200)
    waiting = await world.gate.desk.pending(by=MARA, limit=1_000)
    page = await world.gate.desk.triage.page(by=MARA, limit=1_000)

    assert len(page.rows) == len(waiting) and {each.risk for each in waiting} == set(GRAVEST_FIRST) - {"unregistered"}
    assert list(page.rows) == sorted(waiting, key=order)
    assert [each.risk for each in page.rows[:5]] == ["critical"] * 5
    assert list(page.rows) != sorted(waiting, key=lambda view: view.decide_by)


@pytest.mark.case("O06")
@pytest.mark.parametrize("limit", [1, 7, 100])
async def test_whatever_the_limit_every_question_comes_once_in_one_order(world: World, limit: int) -> None:
    await world.flood(50)
    waiting = await world.gate.desk.pending(by=MARA, limit=1_000)

    assert await world.walked(limit) == sorted(waiting, key=order)


@pytest.mark.case("O06")
async def test_what_waits_all_the_while_is_given_once_though_others_come_and_go(world: World) -> None:
    names = [await world.ask(risk) for risk in ("low", "critical", "medium", "high", "low", "medium")]
    seen: list[str] = []
    after: Mark | None = None
    for step in range(9):
        page = await world.gate.desk.triage.page(by=MARA, limit=1, after=after)
        seen += [view.approval_id for view in page.rows]
        after = page.after
        if after is None:
            break
        if step == 0:
            await world.ask("critical")  # stands after the one that was given
            view = await world.gate.desk.show(names[3], by=MARA)
            await world.gate.desk.deny(names[3], digest=view.digest, by=MARA)  # stood after it
        if step == 2:
            await world.ask("critical")  # stands before: for whoever begins anew

    assert len(seen) == len(set(seen)) == 6
    assert [each for each in seen if each in names] == [names[1], names[2], names[5], names[0], names[4]]


async def test_states_are_picked_as_in_the_other_order(world: World) -> None:
    first, second = await world.ask("low"), await world.ask("high")
    view = await world.gate.desk.show(second, by=MARA)
    await world.gate.desk.deny(second, digest=view.digest, by=MARA)

    assert [view.approval_id for view in await world.walked(9)] == [first]
    denied = await world.walked(9, states=(ApprovalState.DENIED,))
    assert [view.approval_id for view in denied] == [second]
    both = await world.walked(1, states=tuple(ApprovalState))
    assert [view.approval_id for view in both] == [second, first]


async def test_what_nobody_here_knows_may_be_critical_and_stands_right_after_it(tmp_path: Path) -> None:
    clock, file = FakeClock(), tmp_path / "placet.db"
    more: dict[str, Any] = {"store": file, "clock": clock, "policy": POLICY, "recovery": "manual"}
    async with placet.open(tools=TOOLS, ids=SeededIds(3), **more) as gate:
        world = World(gate, clock)
        for risk in ("low", "medium", "high", "critical"):
            await world.ask(risk)
    async with placet.open(tools=[each for each in TOOLS if "medium" not in each.contract.name], **more) as gate:
        found = await World(gate, clock).walked(9)

    assert [view.tool for view in found] == ["act_critical", "act_medium", "act_high", "act_low"]
    assert found[1].risk == "unregistered"


async def test_more_than_can_be_looked_through_is_said(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(triage, "MOST_LOOKED_THROUGH", 4)
    monkeypatch.setattr(triage, "_AT_ONCE", 2)
    old = await world.ask("critical")
    for _ in range(3):
        await world.ask("low")
    whole = await world.gate.desk.triage.page(by=MARA)
    await world.ask("low")
    cut = await world.gate.desk.triage.page(by=MARA)

    assert (whole.is_cut, whole.rows[0].approval_id) == (False, old)
    assert cut.is_cut and len(cut.rows) == 4 and old not in {view.approval_id for view in cut.rows}


@pytest.mark.parametrize("asked_at", ["1999-01-01T00:00:00.000000+00:00", "2999-01-01T00:00:00.000000+00:00"])
async def test_a_row_that_was_altered_is_left_out_and_hides_no_other(
    tmp_path: Path, asked_at: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(triage, "_AT_ONCE", 2)
    clock, file = FakeClock(), tmp_path / "placet.db"
    async with placet.open(
        tools=TOOLS, store=file, clock=clock, ids=SeededIds(3), policy=POLICY, recovery="manual"
    ) as gate:
        world = World(gate, clock)
        names = [await world.ask(risk) for risk in ("low", "critical", "low", "low", "high", "low")]
        database = apsw.Connection(str(file))
        for (name,) in list(database.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'")):
            database.execute(f"DROP TRIGGER {name}")
        database.execute(
            "UPDATE approvals SET question = json_set(question, '$.asked_at', ?) WHERE approval_id = ?",
            (asked_at, names[4]),
        )
        assert database.changes() == 1
        database.close()

        assert [view.approval_id for view in await world.walked(9)] == [
            names[1], names[0], names[2], names[3], names[5]
        ]  # fmt: skip


async def test_the_order_is_for_people_of_the_tenant(world: World) -> None:
    await world.ask("low")
    far = Principal.person("mara", tenant="globex", scopes=("approvals.decide",))

    assert (await world.gate.desk.triage.page(by=far)).rows == ()
    with pytest.raises(DecisionRefused) as refused:
        await world.gate.desk.triage.page(by=AGENTS["acme"])
    assert refused.value.code == "not_a_person"


@pytest.mark.parametrize(
    "more", [{"limit": 0}, {"limit": 1_001}, {"limit": True}, {"states": ("pending", "odd")}, {"after": "x"}]
)
async def test_what_means_nothing_is_misuse(world: World, more: dict[str, Any]) -> None:
    with pytest.raises(MisuseError):
        await world.gate.desk.triage.page(by=MARA, **more)


async def test_of_one_risk_the_first_to_be_over_comes_first_though_it_was_asked_last(world: World) -> None:
    late, soon = await world.ask("slow"), await world.ask("low")

    assert [(view.approval_id, view.risk) for view in await world.walked(1)] == [(soon, "low"), (late, "low")]

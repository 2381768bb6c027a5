"""Whoever looks at what waits all the time: cheaply, only as a person, and only at its own tenant."""

import asyncio
from collections.abc import AsyncIterator

import pytest

import placet
from placet import Gate, Principal
from placet.errors import DecisionRefused, MisuseError
from placet.model.identifiers import ApprovalId
from placet.testing import FakeClock, SeededIds

AGENT = Principal.agent("agent", tenant="acme", roles=("operator",), scopes=("w",))
MARA = Principal.person("mara", tenant="acme", scopes=("approvals.decide",))
FAR = Principal.person("far", tenant="globex", scopes=("approvals.decide",))


@placet.tool(effect="write", risk="medium", permission="w", approval="always")
async def pay(amount: int) -> str:
    """Pay, once somebody has said so."""
    return "paid"


@pytest.fixture
async def gate() -> AsyncIterator[Gate]:
    async with placet.open(
        tools=[pay], store=placet.MEMORY, clock=FakeClock(), ids=SeededIds(7), recovery="manual"
    ) as opened:
        yield opened


async def asked(gate: Gate, count: int) -> list[ApprovalId]:
    outcomes = [
        await gate.submit(
            {"call_id": f"c{n}", "tool": "pay", "arguments": {"amount": n}}, principal=AGENT, run=f"r{n // 16}"
        )
        for n in range(count)
    ]
    return [ApprovalId(outcome.approval_id) for outcome in outcomes if isinstance(outcome, placet.AwaitingApproval)]


async def test_a_glance_marks_what_waits_in_ones_tenant_and_views_are_those_of_the_list(gate: Gate) -> None:
    names = await asked(gate, 3)
    glance = await gate.desk.watching.glance(by=MARA)
    far = await gate.desk.watching.glance(by=FAR)
    listed = {view.approval_id: view for view in await gate.desk.pending(by=MARA)}

    assert sorted(mark.approval_id for mark in glance.marks) == sorted(names)
    assert (glance.now, far.marks) == (await gate.store.now(), ())
    assert await gate.desk.watching.views(names, by=MARA) == tuple(listed[name] for name in names)
    assert await gate.desk.watching.views(names, by=FAR) == ()


async def test_what_waits_no_more_has_no_view_to_watch(
    gate: Gate,
) -> None:
    first, second, third = await asked(gate, 3)
    await gate.desk.withdraw(first, by=MARA)
    (view,) = await gate.desk.watching.views([second], by=MARA)
    await gate.desk.deny(second, digest=view.digest, by=MARA)
    views = await gate.desk.watching.views([first, second, third, ApprovalId("nobody's")], by=MARA)

    assert [view.approval_id for view in views] == [third]


async def test_an_agent_watches_nothing_and_that_is_on_record(gate: Gate) -> None:
    names = await asked(gate, 1)
    for look in (gate.desk.watching.glance(by=AGENT), gate.desk.watching.views(names, by=AGENT)):
        with pytest.raises(DecisionRefused) as refused:
            await look
        assert refused.value.code == "not_a_person"
    for limit in (0, 10_001, True):
        with pytest.raises(MisuseError):
            await gate.desk.watching.glance(by=MARA, limit=limit)

    kinds = [event.body for event in [each async for each in gate.store.chained()] if b"decision_refused" in event.body]
    assert len(kinds) == 2


async def test_others_have_their_turn_while_a_long_list_is_made(gate: Gate) -> None:
    await asked(gate, 80)
    turns = 0

    async def go_on() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    others = asyncio.ensure_future(go_on())
    views = await gate.desk.pending(by=MARA, limit=100)
    others.cancel()

    assert len(views) == 80
    assert turns >= 2

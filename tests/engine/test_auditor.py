"""The audit as it is read by those who may: picked, and in turns with everything else that goes on."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace

import pytest

import placet
from placet import Gate, Principal
from placet.engine.auditing import EVENTS_A_TURN, unhurried
from placet.errors import AuditBusy, DecisionRefused, MisuseError
from placet.model.audit import EventKind
from placet.model.wanted_events import WantedEvents
from placet.rules.audit import event_of
from placet.testing import FakeClock, SeededIds

MARA = Principal.person("mara", tenant="acme", scopes=("audit.read",))
FAR = Principal.person("far", tenant="globex", scopes=("audit.read",))


@pytest.fixture
async def gate() -> AsyncIterator[Gate]:
    async with placet.open(
        tools=[], store=placet.MEMORY, clock=FakeClock(), ids=SeededIds(7), recovery="manual"
    ) as opened:
        yield opened


async def told(gate: Gate, count: int, *, by: Principal = MARA, detail: str = "x") -> None:
    facts = gate._chronicle.of_principal(by)
    event = gate._chronicle.event(EventKind.DECISION_REFUSED, facts, detail=detail, model_suggested=False)
    await gate.store.record(tuple(replace(event, call_id=f"call-{n}") for n in range(count)))


async def calls(gate: Gate, wanted: WantedEvents, *, most_read: int = 10_000) -> list[str | None]:
    found = gate.auditor.newest(by=MARA, wanted=wanted, most_read=most_read)
    events = [event_of(each.body) async for each in found]
    return [None if event is None else event.call_id for event in events]


async def test_the_newest_events_that_are_wanted_are_given_the_newest_first_and_of_ones_tenant_alone(
    gate: Gate,
) -> None:
    await told(gate, 1_003)
    await told(gate, 2, by=FAR, detail="theirs")
    await told(gate, 2, detail="y")

    assert await calls(gate, WantedEvents()) == ["call-1", "call-0", *(f"call-{n}" for n in range(1_002, -1, -1))]
    assert await calls(gate, WantedEvents(detail="y")) == ["call-1", "call-0"]
    assert await calls(gate, WantedEvents(detail="theirs")) == []


async def test_no_more_events_are_read_than_were_asked_for(gate: Gate) -> None:
    await told(gate, 1, detail="rare")
    await told(gate, 1_500)

    assert await calls(gate, WantedEvents(detail="rare"), most_read=1_500) == []
    assert await calls(gate, WantedEvents(detail="rare"), most_read=1_501) == ["call-0"]
    assert len(await calls(gate, WantedEvents(), most_read=1_001)) == 1_001
    for most in (0, 10_001, True):
        with pytest.raises(MisuseError):
            await calls(gate, WantedEvents(), most_read=most)


async def test_nobody_picks_events_without_the_scope(gate: Gate) -> None:
    nobody = Principal.person("omar", tenant="acme")
    with pytest.raises(DecisionRefused) as refused:
        await anext(gate.auditor.newest(by=nobody, wanted=WantedEvents(), most_read=1))

    assert refused.value.code == "scope_missing"


async def turns_during(work: Awaitable[object]) -> int:
    """How often something else in the event loop had its turn meanwhile."""
    turns = 0

    async def go_on() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    others = asyncio.ensure_future(go_on())
    await work
    others.cancel()
    return turns


async def exported(gate: Gate) -> int:
    async with gate.auditor.export(by=MARA) as lines:
        return len([line async for line in lines])


LONG: dict[str, Callable[[Gate], Awaitable[object]]] = {
    "verify": lambda gate: gate.auditor.verify(by=MARA),
    "export": exported,
    "page": lambda gate: gate.auditor.page(by=MARA, run_id="nobody's", limit=50),
    "newest": lambda gate: calls(gate, WantedEvents(detail="nobody says so")),
}


@pytest.mark.parametrize("what", LONG)
async def test_however_fast_a_store_is_others_have_their_turn_while_the_audit_is_read(gate: Gate, what: str) -> None:
    await told(gate, 10 * EVENTS_A_TURN)

    assert await turns_during(LONG[what](gate)) >= 9


async def test_events_are_given_as_they_came() -> None:
    async def events() -> AsyncIterator[int]:
        for n in range(3 * EVENTS_A_TURN + 1):
            yield n

    assert [each async for each in unhurried(events())] == list(range(3 * EVENTS_A_TURN + 1))  # type: ignore[arg-type]


async def test_the_audit_is_verified_once_at_a_time_whoever_asks(gate: Gate) -> None:
    await told(gate, 5 * EVENTS_A_TURN)
    first = asyncio.ensure_future(gate.auditor.verify(by=MARA))
    await asyncio.sleep(0)
    with pytest.raises(AuditBusy) as busy:
        await gate.auditor.verify(by=FAR)

    assert (busy.value.code, busy.value.retryable, busy.value.may_have_acted) == ("audit_busy", True, False)
    assert (await first).holds
    assert (await gate.auditor.verify(by=FAR)).holds
    second = asyncio.ensure_future(gate.auditor.verify(by=MARA))
    await asyncio.sleep(0)
    second.cancel()
    with pytest.raises(asyncio.CancelledError):
        await second
    assert (await gate.auditor.verify(by=MARA)).holds, "one that was broken off keeps nobody out"

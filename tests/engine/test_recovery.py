"""Lost answers, lost workers and stores that fail: the caller learns the truth or Unknown, and the ledger heals.

Everything runs in memory with a clock of its own, so leases of half a minute cost nothing.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import orjson
import pytest

import placet
from placet.bootstrap import stores
from placet.engine.gate import Gate
from placet.engine.performing import Performing
from placet.errors import DecisionRefused, NotFound, StoreInDoubt, StoreUnavailable
from placet.model.context import Absent, CannotTell, Found
from placet.model.effect import Effect, EffectState
from placet.model.identifiers import OperationKey
from placet.model.ledger import Voided
from placet.model.outcome import AwaitingApproval, Failed, Outcome, Refused, Replayed, Succeeded, Unknown
from placet.ports.store import Store
from placet.testing.fakes import FakeClock, SeededIds
from tests.at_once import at_once, each_at_once

AGENT = placet.Principal.agent("agent-1", tenant="acme", roles=["operator"], scopes=["pay"])
PERSON = placet.Principal.person(
    "mara", tenant="acme", roles=["admin"], scopes=["approvals.decide", "effects.reconcile", "effects.read"]
)
TOP_UP = OperationKey('["business","top-up:{order}","o-1"]')
KEY = OperationKey('["business","pay:{order}","o-1"]')


class Unreliable:
    """A store that, verb by verb, does as it is told: `script["claim"] = ["lost", "applied", "down"]`, then serves.

    lost: the verb is not applied, and its answer is in doubt. applied: it is, and its answer is in doubt.
    down: it is not applied, and says so. delayed: in doubt, and applied when `land` is called.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self.script: dict[str, list[str]] = {}
        self.delayed: list[Callable[[], Awaitable[Any]]] = []
        self.before: dict[str, Callable[[], Awaitable[Any]]] = {}
        self.uses: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        inner = getattr(self._store, name)
        if name not in self.script and name not in self.before:
            return inner

        async def verb(*args: Any, **kwargs: Any) -> Any:
            self.uses[name] += 1
            word = self.script[name].pop(0) if self.script.get(name) else "serves"
            if word == "serves" and name in self.before:
                await self.before.pop(name)()
            match word:
                case "lost":
                    raise StoreInDoubt()
                case "delayed":
                    self.delayed.append(lambda: inner(*args, **kwargs))
                    raise StoreInDoubt()
                case "down":
                    raise StoreUnavailable()
                case "applied":
                    await inner(*args, **kwargs)
                    raise StoreInDoubt()
                case _:
                    return await inner(*args, **kwargs)

        return verb

    async def land(self) -> list[Any]:
        return [await work() for work in self.delayed]


class World:
    """A gate over an unreliable store, and a remote that counts."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.acted: Counter[str] = Counter()
        self.found: Found | Absent | CannotTell = CannotTell()
        self.probe_raises = False
        self.attempts: list[int] = []
        self.behaviour: Callable[[int], Awaitable[None]] = nothing
        self.gate: Gate
        self.store: Unreliable

    def tools(self) -> list[Any]:
        async def probe(context: placet.ProbeContext) -> Found | Absent | CannotTell:
            if self.probe_raises:
                raise RuntimeError("the remote is on fire")
            return self.found

        async def act(call: placet.CallContext, amount: int) -> dict[str, int]:
            self.attempts.append(call.attempt)
            self.acted[call.operation_key] += 1
            await self.behaviour(call.attempt)
            return {"amount": amount}

        remote = placet.Remote(honours_key=True, arrival_bound_seconds=2.0)

        @placet.tool(
            effect="write", risk="medium", permission="pay", operation_key="pay:{order}", probe=probe, remote=remote
        )
        async def pay(order: str, amount: int, call: placet.CallContext) -> dict[str, int]:
            return await act(call, amount)

        @placet.tool(
            effect="idempotent_write",
            risk="medium",
            permission="pay",
            operation_key="top-up:{order}",
            probe=probe,
            remote=remote,
            retry=placet.RetryPolicy(max_attempts=3, initial_delay_seconds=0.001, max_delay_seconds=0.001),
        )
        async def top_up(order: str, amount: int, call: placet.CallContext) -> dict[str, int]:
            return await act(call, amount)

        @placet.tool(effect="write", risk="medium", permission="pay", approval="always", probe=probe, remote=remote)
        async def refund(order: str, amount: int, call: placet.CallContext) -> dict[str, int]:
            return await act(call, amount)

        @placet.tool(effect="write", risk="medium", permission="pay", operation_key="wire:{order}", probe=probe)
        async def wire(order: str, amount: int, call: placet.CallContext) -> dict[str, int]:
            return await act(call, amount)

        @placet.tool(effect="read")
        async def look(order: str) -> int:
            return 7

        return [pay, top_up, refund, wire, look]

    async def ask(self, tool: str = "pay", *, call_id: str = "call-1", **how: Any) -> Outcome:
        arguments = {"order": "o-1"} if tool == "look" else {"order": "o-1", "amount": 5}
        proposal = {"call_id": call_id, "tool": tool, "arguments": arguments}
        return await self.gate.submit(proposal, principal=how.pop("principal", AGENT), run="run-1", **how)

    async def row(self, key: OperationKey = KEY) -> Effect:
        effect = await self.gate.store.effect("acme", key)
        assert effect is not None
        return effect

    def forget(self) -> None:
        """That process is gone, and with it who would insist."""
        for task in list(self.gate._path._dispatcher._afterwards.tasks):
            task.cancel()

    async def lose(self) -> Effect:
        """A write whose worker was lost after the remote had acted: its lease is over, and it was taken over."""
        self.store.script["settle"] = ["down"] * 99
        assert type(await self.ask()) is Unknown
        self.clock.advance(31)
        self.forget()
        self.store.script.clear()
        await self.gate.reconciler._take_over_stranded()
        return await self.row()

    def assert_audit_is_whole(self) -> None:
        report = at_once(self.gate.verify_audit())
        assert (report.breaks, report.unpaired) == ((), 0)
        balance: Counter[tuple[Any, ...]] = Counter()
        for event in each_at_once(self.gate.store.chained()):
            body = orjson.loads(event.body)
            name = tuple(body.get(key) for key in ("run_id", "call_id", "attempt", "fence"))
            if body["kind"] == "started":
                balance[name] += 1
            elif body["kind"] == "completed":
                balance[name] -= 1
                assert balance[name] >= 0, f"{name} was completed before it was started, or twice"
        assert set(balance.values()) <= {0}


async def nothing(attempt: int) -> None:
    """The remote answers at once."""


@asynccontextmanager
async def a_world(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    world, original = World(), stores.open_store

    def open_store(*args: Any, **kwargs: Any) -> tuple[Any, Any]:
        keys, store = original(*args, **kwargs)
        world.store = Unreliable(store)
        return keys, world.store

    monkeypatch.setattr(stores, "open_store", open_store)
    async with placet.open(
        tools=world.tools(), store=placet.MEMORY, clock=world.clock, ids=SeededIds(), recovery=placet.Recovery.MANUAL
    ) as world.gate:
        yield world


@pytest.fixture
async def world(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    async with a_world(monkeypatch) as world:
        yield world


# ---------------------------------------------------------------- claims in doubt


@pytest.mark.parametrize(
    "script",
    [["applied"], ["lost"], ["applied", "applied"], ["lost", "applied"], ["applied"] * 3, ["lost", "lost", "applied"],
     ["applied", "down"], ["applied", "down", "down"], ["lost", "down"]],
    ids="-".join,
)  # fmt: skip
async def test_a_claim_in_doubt_is_cleared_up_by_its_token_and_acts_once(world: World, script: list[str]) -> None:
    world.store.script["claim"] = list(script)

    assert type(await world.ask()) is Succeeded

    assert world.acted == {KEY: 1}
    assert (await world.row()).fence == 1
    world.assert_audit_is_whole()


async def test_a_claim_that_never_landed_is_refused_only_once_it_never_can(world: World) -> None:
    world.store.script["claim"] = ["delayed", "lost", "lost"]

    outcome = await world.ask()

    assert type(outcome) is Refused and (outcome.code, outcome.reasons) == (
        "boundary_unavailable",
        ("store_unavailable",),
    )
    assert await world.store.land() == [Voided()]
    assert await world.gate.store.effect("acme", KEY) is None
    assert type(await world.ask()) is Succeeded
    assert world.acted == {KEY: 1}
    world.assert_audit_is_whole()


@pytest.mark.parametrize("first", ["delayed", "lost"])
async def test_a_claim_in_doubt_that_is_then_halted_can_never_land(world: World, first: str) -> None:
    world.store.script["claim"] = [first]

    async def stop() -> None:
        await world.gate.store.stop("all", ())

    world.store.before["claim"] = stop
    outcome = await world.ask()
    await world.gate.store.resume("all", ())

    assert type(outcome) is Refused and outcome.code == "stopped"
    assert await world.store.land() in ([], [Voided()])
    assert await world.gate.store.effect("acme", KEY) is None
    assert world.acted == {}
    world.assert_audit_is_whole()


async def test_a_claim_in_doubt_that_landed_is_performed_although_a_stop_came_after_it(world: World) -> None:
    """The stop came after the claim had committed, so this is one of the calls it reports as still running."""
    world.store.script["claim"] = ["applied"]
    counts: list[int] = []

    async def stop() -> None:
        counts.append(await world.gate.store.stop("all", ()))

    world.store.before["claim"] = stop

    assert type(await world.ask()) is Succeeded
    assert counts == [1]


@pytest.mark.req("X001")
@pytest.mark.parametrize("script", [["applied"], ["lost"], ["delayed"]], ids="-".join)
async def test_a_claim_that_stays_in_doubt_is_unknown_and_heals(world: World, script: list[str]) -> None:
    """Nobody is told that it did not run; nothing was sent; recovery finds out, and it may be asked again."""
    world.store.script["claim"] = script + ["down"] * 9
    world.store.script["void"] = ["down"] * 9

    outcome = await world.ask()
    world.store.script.clear()
    await world.store.land()

    assert type(outcome) is Unknown and world.acted == {}
    world.clock.advance(60)
    world.found = Absent()
    await world.gate.reconciler.recover()
    assert type(await world.ask()) is Succeeded
    assert world.acted == {KEY: 1}
    world.assert_audit_is_whole()


async def test_a_claim_in_doubt_spends_its_approval_once(world: World) -> None:
    waiting = await world.ask("refund")
    assert type(waiting) is AwaitingApproval
    view = await world.gate.desk.show(waiting.approval_id, by=PERSON)
    await world.gate.desk.approve(waiting.approval_id, digest=view.digest, by=PERSON)
    world.store.script["claim"] = ["applied", "applied"]

    assert type(await world.ask("refund")) is Succeeded

    kinds = [orjson.loads(event.body)["kind"] async for event in world.gate.store.chained()]
    assert kinds.count("approval_spent") == 1
    assert sum(world.acted.values()) == 1
    world.assert_audit_is_whole()


# ---------------------------------------------------------------- turns in doubt


async def fails_first(attempt: int) -> None:
    if attempt == 1:
        raise placet.RemoteStatus(503)


@pytest.mark.req("B114")
@pytest.mark.parametrize("script", [["applied"], ["lost"], ["applied", "applied"], ["lost", "lost"]], ids="-".join)
async def test_a_turn_in_doubt_is_repeated_and_the_next_attempt_is_made_once_it_is_open(
    world: World, script: list[str]
) -> None:
    world.behaviour = fails_first
    world.store.script["turn"] = list(script)

    assert type(await world.ask("top_up")) is Succeeded

    assert world.attempts == [1, 2]
    assert (await world.row(TOP_UP)).state is EffectState.COMMITTED
    world.assert_audit_is_whole()


TURNS = [
    ["lost", "lost", "applied"], ["applied"] * 3, ["lost"] * 3, ["applied", "down"], ["lost", "down"], ["down"],
    ["applied", "lost", "lost"],
]  # fmt: skip


@pytest.mark.req("B114")
@pytest.mark.parametrize("script", TURNS, ids="-".join)
async def test_an_attempt_that_cannot_be_opened_for_sure_is_not_sent_and_every_attempt_is_completed_once(
    world: World, script: list[str]
) -> None:
    world.behaviour = fails_first
    world.store.script["turn"] = list(script)

    assert type(await world.ask("top_up")) is Unknown

    assert world.attempts == [1]
    assert (await world.row(TOP_UP)).state is EffectState.UNKNOWN
    world.assert_audit_is_whole()


async def test_a_turn_and_a_settlement_both_in_doubt_leave_every_attempt_completed_once(world: World) -> None:
    world.behaviour = fails_first
    world.store.script.update(turn=["applied", "down"], settle=["lost", "lost", "lost", "down", "applied"])

    assert type(await world.ask("top_up")) is Unknown

    async with asyncio.timeout(60):
        while (await world.row(TOP_UP)).state is EffectState.DISPATCHED:
            await asyncio.sleep(0)
    assert world.attempts == [1]
    world.assert_audit_is_whole()


async def test_a_delayed_turn_that_lands_after_the_settlement_changes_nothing(world: World) -> None:
    world.behaviour = fails_first
    world.store.script["turn"] = ["delayed", "lost", "lost"]

    assert type(await world.ask("top_up")) is Unknown
    [late] = await world.store.land()

    assert late.reason == "taken_over"
    assert world.attempts == [1]
    world.assert_audit_is_whole()


# ---------------------------------------------------------------- settlements in doubt


@pytest.mark.parametrize(
    "script", [["applied"], ["lost"], ["applied"] * 2, ["lost", "lost"], ["lost", "applied"]], ids="-".join
)
async def test_a_settlement_in_doubt_is_repeated_until_the_ledger_says_so(world: World, script: list[str]) -> None:
    world.store.script["settle"] = list(script)

    outcome = await world.ask()

    assert type(outcome) is Succeeded and outcome.result == {"amount": 5}
    assert (await world.row()).state is EffectState.COMMITTED
    world.assert_audit_is_whole()


@pytest.mark.case("N02")
@pytest.mark.parametrize("script", [["applied"] * 3, ["lost"] * 3, ["down"], ["applied", "down"]], ids="-".join)
async def test_a_settlement_that_stays_in_doubt_is_unknown_and_reaches_the_ledger_later(
    world: World, script: list[str]
) -> None:
    world.store.script["settle"] = list(script)

    assert type(await world.ask()) is Unknown

    async with asyncio.timeout(60):
        while (await world.row()).state is EffectState.DISPATCHED:
            await asyncio.sleep(0)
    replayed = await world.ask(call_id="call-2")
    assert type(replayed) is Replayed and replayed.result == {"amount": 5}
    assert world.acted == {KEY: 1}
    world.assert_audit_is_whole()


@pytest.mark.req("H042")
async def test_a_settlement_the_store_refused_for_long_is_made_once_it_serves_again(world: World) -> None:
    """Without that, signs of life for other calls would keep the row dispatched for ever."""
    world.store.script["settle"] = ["down"] * 50
    assert type(await world.ask()) is Unknown

    async with asyncio.timeout(60):
        while world.store.uses["settle"] < 51:
            await asyncio.sleep(0)

    assert (await world.row()).state is EffectState.COMMITTED
    world.assert_audit_is_whole()


@pytest.mark.parametrize("script", [["down"], ["lost"], ["applied"], ["down"] * 20, ["applied", "down"]], ids="-".join)
async def test_a_read_that_cannot_be_put_on_record_is_not_shown_and_is_closed_once(
    world: World, script: list[str]
) -> None:
    world.store.script["record"] = ["serves", *script]

    assert type(await world.ask("look")) is Unknown

    async with asyncio.timeout(60):
        while world.store.script["record"] or (await world.gate.verify_audit()).unpaired:
            await asyncio.sleep(0)
    for _ in range(20):
        await asyncio.sleep(0)
    assert not world.gate._path._dispatcher._afterwards.tasks
    world.assert_audit_is_whole()


# ---------------------------------------------------------------- other verbs in doubt


@pytest.mark.parametrize("word", ["applied", "lost"])
async def test_a_question_in_doubt_is_asked_once(world: World, word: str) -> None:
    world.store.script["ask"] = [word]

    first = await world.ask("refund")
    second = await world.ask("refund")

    assert type(first) is Refused and first.code == "boundary_unavailable"
    assert type(second) is AwaitingApproval
    assert [view.approval_id for view in await world.gate.desk.pending(by=PERSON)] == [second.approval_id]
    world.assert_audit_is_whole()


@pytest.mark.parametrize("word", ["applied", "lost"])
async def test_a_decision_in_doubt_may_be_repeated_by_the_same_person(world: World, word: str) -> None:
    waiting = await world.ask("refund")
    assert type(waiting) is AwaitingApproval
    view = await world.gate.desk.show(waiting.approval_id, by=PERSON)
    world.store.script["answer"] = [word]
    with pytest.raises(StoreInDoubt):
        await world.gate.desk.approve(waiting.approval_id, digest=view.digest, by=PERSON)

    decided = await world.gate.desk.approve(waiting.approval_id, digest=view.digest, by=PERSON)

    assert decided.state is placet.ApprovalState.APPROVED
    kinds = [orjson.loads(event.body)["kind"] async for event in world.gate.store.chained()]
    assert kinds.count("approval_approved") == 1
    assert type(await world.ask("refund")) is Succeeded


@pytest.mark.parametrize("verb", ["take_over", "reconcile"])
@pytest.mark.parametrize("word", ["applied", "lost", "down"])
async def test_recovery_that_broke_off_is_taken_up_in_the_next_round(world: World, verb: str, word: str) -> None:
    effect = await world.lose() if verb == "reconcile" else None
    if effect is None:
        world.store.script["settle"] = ["down"] * 99
        await world.ask()
        world.forget()
        world.clock.advance(31)
    world.found = Found(result={"amount": 5})
    world.store.script[verb] = [word]
    await world.gate.reconciler.recover()  # one row's fault ends no round
    world.clock.advance(60)

    await world.gate.reconciler.recover()

    assert (await world.row()).state is EffectState.RECONCILED_COMMITTED
    assert type(await world.ask()) is Replayed
    world.assert_audit_is_whole()


# ---------------------------------------------------------------- lost workers


@pytest.mark.req("H042", "H045", "H046", "C047", "X001")
async def test_a_lost_write_is_taken_over_probed_and_replayed(world: World) -> None:
    lost = await world.lose()
    assert (lost.state, lost.reason) == (EffectState.UNKNOWN, "owner_lost")
    assert type(await world.ask()) is Unknown
    world.found = Found(result={"amount": 5}, external_reference="remote-7")

    report = await world.gate.reconciler.recover()

    assert (report.committed, report.absent, report.still_unknown) == (1, 0, 0)
    row = await world.row()
    assert (row.state, row.external_reference) == (EffectState.RECONCILED_COMMITTED, "remote-7")
    replayed = await world.ask(call_id="call-2")
    assert type(replayed) is Replayed and replayed.result == {"amount": 5}
    assert world.acted == {KEY: 1}
    world.assert_audit_is_whole()


@pytest.mark.req("X001", "H045")
async def test_a_lost_write_that_is_absent_may_be_asked_again_and_acts(world: World) -> None:
    await world.lose()
    world.acted.clear()
    world.found = Absent()

    report = await world.gate.reconciler.recover()

    assert report.absent == 1
    assert type(await world.ask()) is Succeeded
    assert ((await world.row()).fence, world.acted) == (2, {KEY: 1})
    world.assert_audit_is_whole()


async def test_absence_is_not_believed_while_a_request_may_be_on_its_way(world: World) -> None:
    """Send window 10 s, pause 5 s, arrival 2 s: quiet 17 s after the claim, whatever the lease."""
    world.store.script["settle"] = ["down"] * 99
    world.gate._path._dispatcher._settings = placet.GateSettings(lease_seconds=1.0)
    began = world.clock.now()
    await world.ask()
    world.forget()
    world.found = Absent()

    states: dict[float, EffectState] = {}
    while (seconds := (world.clock.now() - began).total_seconds()) < 40:
        await world.gate.reconciler.recover()
        states[seconds] = (await world.row()).state
        world.clock.advance(0.5)

    absent_from = min(seconds for seconds, state in states.items() if state is EffectState.RECONCILED_ABSENT)
    assert 17.0 < absent_from < 25.0
    world.assert_audit_is_whole()


@pytest.mark.req("H045")
@pytest.mark.case("H02")
async def test_an_inconclusive_look_leaves_it_unknown_counted_and_later_each_time(world: World) -> None:
    await world.lose()
    waits: list[float] = []
    for _ in range(4):
        await world.gate.reconciler.recover()
        row = await world.row()
        assert row.probe_after is not None
        waits.append((row.probe_after - world.clock.now()).total_seconds())
        world.clock.advance(waits[-1])
    world.probe_raises = True
    await world.gate.reconciler.recover()

    row = await world.row()
    assert (row.state, row.probes, waits) == (EffectState.UNKNOWN, 5, [1.0, 2.0, 4.0, 8.0])
    assert world.acted == {KEY: 1}


async def test_a_row_nobody_can_tell_about_is_left_to_people_after_a_bounded_number_of_looks(world: World) -> None:
    await world.lose()
    for _ in range(40):
        await world.gate.reconciler.recover()
        world.clock.advance(301)

    assert (await world.row()).probes == placet.GateSettings().max_probes


@pytest.mark.req("H045")
async def test_a_late_success_settles_what_was_taken_over_and_the_outcome_given_stays(world: World) -> None:
    release = asyncio.Event()

    async def slow(attempt: int) -> None:
        await release.wait()

    world.behaviour = slow
    asking = asyncio.ensure_future(world.ask())
    async with asyncio.timeout(60):
        while not world.attempts:
            await asyncio.sleep(0)
    world.clock.advance(31)  # its owner stood still for longer than its lease
    await world.gate.reconciler.recover()
    assert (await world.row()).state is EffectState.DISPATCHED  # a process does not take over from itself
    world.gate.reconciler._performing = Performing()  # as the recovery of another process looks at it
    await world.gate.reconciler.recover()
    assert type(await world.ask(call_id="call-2")) is Unknown

    release.set()

    assert type(await asking) is Succeeded
    assert (await world.row()).state is EffectState.RECONCILED_COMMITTED
    assert type(await world.ask(call_id="call-3")) is Replayed
    assert world.acted == {KEY: 1}
    world.assert_audit_is_whole()


# ---------------------------------------------------------------- people


@pytest.mark.case("H02")
@pytest.mark.parametrize(
    ("by", "truth", "code"),
    [
        (placet.Principal.agent("bot", tenant="acme", scopes=["effects.reconcile"]), "committed", "not_a_person"),
        (placet.Principal.person("zoe", tenant="acme", scopes=["effects.read"]), "committed", "scope_missing"),
        (placet.Principal.person("agent-1", tenant="acme", scopes=["effects.reconcile"]), "absent", "own_request"),
    ],
)
async def test_only_an_entitled_person_settles_an_effect(
    world: World, by: placet.Principal, truth: str, code: str
) -> None:
    lost = await world.lose()

    with pytest.raises(DecisionRefused) as refused:
        await world.gate.reconciler.settle_by_person(
            KEY, placet.Truth(truth), by=by, looked_at=world.clock.now(), reason="seen_in_desk"
        )

    assert refused.value.code == code
    assert await world.row() == lost
    kinds = [orjson.loads(event.body)["kind"] async for event in world.gate.store.chained()]
    assert kinds[-1] == "reconcile_refused"


async def test_a_person_of_another_tenant_finds_no_such_effect(world: World) -> None:
    await world.lose()
    stranger = placet.Principal.person("mara", tenant="other", scopes=["effects.reconcile"])

    with pytest.raises(NotFound):
        await world.gate.reconciler.settle_by_person(
            KEY, placet.Truth.COMMITTED, by=stranger, looked_at=world.clock.now(), reason="seen_in_desk"
        )


async def test_a_person_who_looked_too_early_cannot_say_absent(world: World) -> None:
    lost = await world.lose()
    quiet_end = world.gate.reconciler.quiet_end(lost)
    assert quiet_end is not None

    async def say(looked_at: Any) -> Effect:
        return await world.gate.reconciler.settle_by_person(
            KEY, placet.Truth.ABSENT, by=PERSON, looked_at=looked_at, reason="seen_in_desk"
        )

    for looked_at, code in ((quiet_end, "too_early_for_absent"), (world.clock.now() + timedelta(hours=1), "looked_in_the_future")):  # fmt: skip  # noqa: E501
        with pytest.raises(DecisionRefused) as refused:
            await say(looked_at)
        assert refused.value.code == code
    settled = await say(world.clock.now())
    assert settled.state is EffectState.RECONCILED_ABSENT
    world.assert_audit_is_whole()


@pytest.mark.req("X001")
async def test_absent_of_a_remote_that_proves_nothing_is_dispatched_again_by_a_person_only(world: World) -> None:
    key = OperationKey('["business","wire:{order}","o-1"]')
    world.store.script["settle"] = ["down"] * 99
    await world.ask("wire")
    world.forget()
    world.store.script.clear()
    world.clock.advance(60)
    world.found = Absent()
    await world.gate.reconciler.recover()
    assert (await world.row(key)).state is EffectState.RECONCILED_ABSENT

    waiting = await world.ask("wire")

    assert type(waiting) is AwaitingApproval
    view = await world.gate.desk.show(waiting.approval_id, by=PERSON)
    assert "may_act_twice" in view.reasons
    await world.gate.desk.approve(waiting.approval_id, digest=view.digest, by=PERSON)
    assert type(await world.ask("wire")) is Succeeded
    assert world.acted[key] == 2
    world.assert_audit_is_whole()


@pytest.mark.req("H037")
async def test_a_definite_refusal_after_an_ambiguous_attempt_proves_nothing(world: World) -> None:
    async def ambiguous_then_rejected(attempt: int) -> None:
        if attempt == 1:
            raise ConnectionError
        raise placet.ToolRejected("No such order.")

    world.behaviour = ambiguous_then_rejected

    assert type(await world.ask("top_up")) is Unknown

    assert world.attempts == [1, 2]
    assert (await world.row(TOP_UP)).state is EffectState.UNKNOWN
    world.assert_audit_is_whole()


# ---------------------------------------------------------------- failing before and after


@pytest.mark.case("N02")
async def test_a_store_that_is_down_before_dispatch_refuses_and_nothing_runs(world: World) -> None:
    world.store.script["claim"] = ["down"]

    outcome = await world.ask()

    assert type(outcome) is Refused and outcome.code == "boundary_unavailable" and outcome.retryable
    assert world.acted == {}
    assert type(await world.ask()) is Succeeded


@pytest.mark.req("H037", "H043")
async def test_a_definite_failure_is_failed_and_may_be_asked_again(world: World) -> None:
    async def rejects(attempt: int) -> None:
        raise placet.ToolRejected("No such order.")

    world.behaviour = rejects
    first = await world.ask()
    assert type(first) is Failed
    assert (await world.row()).state is EffectState.FAILED
    world.behaviour = nothing

    assert type(await world.ask()) is Succeeded
    assert (await world.row()).fence == 2
    world.assert_audit_is_whole()

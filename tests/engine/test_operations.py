"""Asking twice is asking once: keys, replays, conflicts, waiting, and what others may learn."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest

import placet
from placet.engine.gate import Gate
from placet.errors import OperationConflict, OperationInProgress
from placet.model.effect import EffectState
from placet.model.outcome import (
    Conflict,
    Failed,
    InProgress,
    Outcome,
    Replayed,
    Succeeded,
    TimedOut,
    Unknown,
)
from placet.rules.canonical import sha256_hex

AGENT = placet.Principal.agent("agent-1", tenant="acme", roles=["operator"], scopes=["pay"])
STRANGER = placet.Principal.agent("agent-2", tenant="acme", roles=["operator"], scopes=["pay"])
AUDITOR = placet.Principal.agent("auditor", tenant="acme", roles=["operator"], scopes=["pay", "effects.read"])
ELSEWHERE = placet.Principal.agent("agent-1", tenant="other", roles=["operator"], scopes=["pay"])
KEY = '["business","pay:{order}","o-1"]'


class Remote:
    """What the tools act on: counts, and does as the test says."""

    def __init__(self) -> None:
        self.acted: Counter[str] = Counter()
        self.behaviour: Callable[[placet.CallContext], Awaitable[None]] = at_once
        self.result: Any = None
        self.timeout_seconds = 30.0
        self.started = asyncio.Event()

    async def act(self, call: placet.CallContext, amount: int) -> dict[str, Any]:
        self.acted[f"{call.tenant}/{call.operation_key}"] += 1
        self.started.set()
        await self.behaviour(call)
        return {"amount": amount} if self.result is None else self.result

    def tools(self, *, version: str = "1") -> list[Any]:
        @placet.tool(
            effect="write", risk="medium", permission="pay", operation_key="pay:{order}", version=version,
            timeout_seconds=self.timeout_seconds,
        )  # fmt: skip
        async def pay(order: str, amount: int, call: placet.CallContext) -> dict[str, Any]:
            return await self.act(call, amount)

        @placet.tool(effect="write", risk="medium", permission="pay", operation_key="pay:{order}", name="pay_twin")
        async def twin(order: str, amount: int, call: placet.CallContext) -> dict[str, Any]:
            return await self.act(call, amount)

        @placet.tool(effect="write", risk="medium", permission="pay")
        async def note(order: str, amount: int, call: placet.CallContext) -> dict[str, Any]:
            return await self.act(call, amount)

        @placet.tool(effect="read")
        async def look(order: str, call: placet.CallContext) -> dict[str, Any]:
            return await self.act(call, 1)

        @placet.tool(effect="write", risk="medium", permission="pay", operation_key="thread:{order}")
        def in_thread(order: str, call: placet.CallContext) -> str:
            self.acted[call.operation_key] += 1
            return threading.current_thread().name

        return [pay, twin, note, look, in_thread]


async def at_once(call: placet.CallContext) -> None:
    """The remote answers at once."""


class World:
    def __init__(self, gate: Gate, remote: Remote) -> None:
        self.gate, self.remote = gate, remote

    async def ask(self, tool: str = "pay", *, call_id: str = "call-1", amount: int = 5, **how: Any) -> Outcome:
        arguments = {"order": how.pop("order", "o-1")}
        if tool not in ("look", "in_thread"):
            arguments["amount"] = amount
        how.setdefault("principal", AGENT)
        how.setdefault("run", f"run-{how['principal'].subject}")
        return await self.gate.submit({"call_id": call_id, "tool": tool, "arguments": arguments}, **how)

    async def state(self, key: str = KEY) -> EffectState:
        effect = await self.gate.store.effect("acme", key)  # type: ignore[arg-type]
        assert effect is not None
        return effect.state


@asynccontextmanager
async def a_world(remote: Remote, store: str | Path = placet.MEMORY, **how: Any) -> AsyncIterator[World]:
    async with placet.open(
        tools=remote.tools(**how),
        store=store,
        settings=placet.GateSettings(grace_seconds=0.05),
        recovery=placet.Recovery.MANUAL,
    ) as gate:
        yield World(gate, remote)


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with a_world(Remote()) as world:
        yield world


# ---------------------------------------------------------------- replay


@pytest.mark.req("C033", "C034", "H027")
async def test_three_calls_under_one_key_act_once_and_all_have_the_result(world: World) -> None:
    outcomes = [await world.ask(call_id=f"call-{n}") for n in range(3)]

    assert [type(outcome) for outcome in outcomes] == [Succeeded, Replayed, Replayed]
    assert [outcome.unwrap() for outcome in outcomes] == [{"amount": 5}] * 3
    assert {outcome.operation_key for outcome in outcomes} == {KEY}
    assert world.remote.acted == {f"acme/{KEY}": 1}


@pytest.mark.req("H044")
async def test_a_replayed_result_is_the_callers_own_copy(world: World) -> None:
    world.remote.result = {"items": [1, 2]}
    first = await world.ask()
    assert type(first) is Succeeded and type(first.result) is dict
    first.result["items"].append("mine")  # type: ignore[union-attr]
    world.remote.result["items"].append("the remote's")

    second = await world.ask(call_id="call-2")
    assert type(second) is Replayed and type(second.result) is dict
    second.result["items"].clear()  # type: ignore[union-attr]

    assert (await world.ask(call_id="call-3")).unwrap() == {"items": [1, 2]}


@pytest.mark.req("C043", "H030")
async def test_a_new_process_and_a_new_version_of_the_tool_replay(tmp_path: Path) -> None:
    remote = Remote()
    async with a_world(remote, tmp_path / "placet.db") as world:
        assert type(await world.ask()) is Succeeded
    async with a_world(remote, tmp_path / "placet.db", version="2") as world:
        assert type(await world.ask(call_id="call-2")) is Replayed

    assert sum(remote.acted.values()) == 1


@pytest.mark.req("H035", "H052")
async def test_a_result_is_stored_with_its_digest_and_its_event(world: World) -> None:
    await world.ask()

    [effect] = await world.gate.reconciler.effects(by=AGENT)
    canonical = b'{"amount":5}'
    assert effect.state is EffectState.COMMITTED
    assert effect.result_digest == sha256_hex("placet/result/1", canonical)
    assert effect.sealed_result is not None and canonical not in effect.sealed_result
    completed = [orjson.loads(event.body) async for event in world.gate.store.chained()][-1]
    expected = {
        "kind": "completed",
        "outcome": "success",
        "effect_state": "committed",
        "tool": "pay",
        "run_id": "run-agent-1",
        "call_id": "call-1",
        "fence": 1,
    }
    assert {name: completed[name] for name in expected} == expected
    assert completed["operation"] and completed["result_fingerprint"] and completed["policy_version"]


@pytest.mark.req("H034")
async def test_the_ledger_says_dispatched_before_the_tool_is_called(world: World) -> None:
    seen: list[EffectState] = []

    async def look(call: placet.CallContext) -> None:
        seen.append(await world.state())

    world.remote.behaviour = look
    await world.ask()

    assert (seen, await world.state()) == ([EffectState.DISPATCHED], EffectState.COMMITTED)


@pytest.mark.case("H11")
async def test_a_result_that_breaks_its_contract_leaves_it_performed(world: World) -> None:
    world.remote.result = {1: "no JSON"}

    first = await world.ask()
    second = await world.ask(call_id="call-2")

    assert type(first) is Succeeded and first.code == "performed_result_unavailable"
    assert type(second) is Replayed and second.result is None and second.result_unavailable
    assert await world.state() is EffectState.COMMITTED
    assert sum(world.remote.acted.values()) == 1


# ---------------------------------------------------------------- keys


@pytest.mark.req("C035", "H031")
async def test_one_key_with_other_arguments_is_a_conflict(world: World) -> None:
    await world.ask()

    outcome = await world.ask(call_id="call-2", amount=6)

    assert type(outcome) is Conflict and not outcome.retryable
    with pytest.raises(OperationConflict):
        outcome.unwrap()
    assert sum(world.remote.acted.values()) == 1


@pytest.mark.req("C036")
async def test_one_key_with_another_tool_is_a_conflict(world: World) -> None:
    await world.ask()

    assert type(await world.ask("pay_twin", call_id="call-2")) is Conflict
    assert sum(world.remote.acted.values()) == 1


@pytest.mark.req("H030", "C033")
async def test_without_a_business_key_run_and_call_name_the_operation(world: World) -> None:
    outcomes = [
        await world.ask("note", call_id="call-1"),
        await world.ask("note", call_id="call-1"),
        await world.ask("note", call_id="call-2"),
        await world.ask("note", call_id="call-1", run="run-2"),
    ]

    assert [type(outcome) for outcome in outcomes] == [Succeeded, Replayed, Succeeded, Succeeded]
    assert set(world.remote.acted) == {
        'acme/["call","run-agent-1","call-1"]',
        'acme/["call","run-agent-1","call-2"]',
        'acme/["call","run-2","call-1"]',
    }


@pytest.mark.req("H031")
async def test_the_same_call_id_with_other_arguments_is_a_conflict(world: World) -> None:
    await world.ask("note")

    assert type(await world.ask("note", amount=6)) is Conflict


async def test_a_callers_key_is_its_own_and_never_replaces_a_business_key(world: World) -> None:
    mine = await world.ask("note", call_id="call-1", idempotency_key="k")
    again = await world.ask("note", call_id="call-2", idempotency_key="k")
    theirs = await world.ask("note", call_id="call-1", idempotency_key="k", principal=STRANGER)
    business = await world.ask(call_id="call-3", idempotency_key="k2")
    same = await world.ask(call_id="call-4", idempotency_key="k3")

    assert [type(each) for each in (mine, again, theirs, business, same)] == [
        Succeeded,
        Replayed,
        Succeeded,
        Succeeded,
        Replayed,
    ]
    assert business.operation_key == KEY


@pytest.mark.case("H08")
async def test_one_key_of_two_tenants_is_two_operations(world: World) -> None:
    assert type(await world.ask()) is Succeeded
    assert type(await world.ask(principal=ELSEWHERE)) is Succeeded

    assert world.remote.acted == {f"acme/{KEY}": 1, f"other/{KEY}": 1}


@pytest.mark.req("B110", "H030")
async def test_the_handler_is_given_the_key_to_send_on(world: World) -> None:
    await world.ask()
    await world.ask("note", call_id="call-2")

    assert set(world.remote.acted) == {f"acme/{KEY}", 'acme/["call","run-agent-1","call-2"]'}


async def test_reads_run_again_unless_the_caller_names_the_operation(world: World) -> None:
    assert [type(await world.ask("look", call_id=f"call-{n}")) for n in range(2)] == [Succeeded] * 2
    named = [type(await world.ask("look", call_id=f"named-{n}", idempotency_key="k")) for n in range(2)]

    assert named == [Succeeded, Replayed]
    assert sum(world.remote.acted.values()) == 3


# ---------------------------------------------------------------- others


@pytest.mark.parametrize("amount", [5, 6])
@pytest.mark.parametrize("ends", ["committed", "unknown", "running"])
async def test_others_get_one_fixed_refusal_whatever_the_operation_is(world: World, ends: str, amount: int) -> None:
    release = asyncio.Event()

    async def behave(call: placet.CallContext) -> None:
        if ends == "unknown":
            raise ConnectionError
        if ends == "running":
            await release.wait()

    world.remote.behaviour = behave
    running = asyncio.ensure_future(world.ask())
    await world.remote.started.wait()
    if ends != "running":
        await running

    outcome = await world.ask(principal=STRANGER, amount=amount, timeout_seconds=0.05)
    release.set()
    await running

    assert outcome.as_data() == {
        "status": "refused",
        "code": "operation_of_another",
        "message": "This operation belongs to somebody else. Nothing ran; do not ask again, tell the user.",
        "retryable": False,
        "may_have_acted": False,
        "reasons": [],
    }
    assert sum(world.remote.acted.values()) == 1


async def test_whoever_may_read_effects_gets_the_result(world: World) -> None:
    await world.ask()

    outcome = await world.ask(principal=AUDITOR)

    assert type(outcome) is Replayed and outcome.result == {"amount": 5}


async def test_lists_show_each_its_own_and_the_entitled_all(world: World) -> None:
    await world.ask()
    await world.ask(principal=STRANGER, order="o-2")
    await world.ask(principal=ELSEWHERE)

    async def seen(by: placet.Principal) -> list[tuple[str, str]]:
        return sorted((each.tenant, each.subject) for each in await world.gate.reconciler.effects(by=by))

    assert await seen(AGENT) == [("acme", "agent-1")]
    assert await seen(AUDITOR) == [("acme", "agent-1"), ("acme", "agent-2")]
    assert await seen(ELSEWHERE) == [("other", "agent-1")]


# ---------------------------------------------------------------- at the same time


@pytest.mark.req("C041")
@pytest.mark.case("H05")
async def test_a_duplicate_waits_for_the_first_and_has_its_result(world: World) -> None:
    async def slow(call: placet.CallContext) -> None:
        await asyncio.sleep(0.03)

    world.remote.behaviour = slow
    outcomes = await asyncio.gather(*(world.ask(call_id=f"call-{n}") for n in range(8)))

    assert Counter(type(outcome) for outcome in outcomes) == {Succeeded: 1, Replayed: 7}
    assert {str(outcome.unwrap()) for outcome in outcomes} == {"{'amount': 5}"}
    assert sum(world.remote.acted.values()) == 1


@pytest.mark.req("C041", "H040")
@pytest.mark.case("H05")
async def test_a_duplicate_with_less_patience_is_told_that_it_is_running(world: World) -> None:
    release = asyncio.Event()

    async def slow(call: placet.CallContext) -> None:
        await release.wait()

    world.remote.behaviour = slow
    first = asyncio.ensure_future(world.ask())
    await world.remote.started.wait()

    outcome = await world.ask(call_id="call-2", timeout_seconds=0.02)

    assert type(outcome) is InProgress and outcome.retryable
    with pytest.raises(OperationInProgress):
        outcome.unwrap()
    release.set()
    assert type(await first) is Succeeded
    assert type(await world.ask(call_id="call-2")) is Replayed
    assert sum(world.remote.acted.values()) == 1


@pytest.mark.req("C042")
def test_fifty_threads_with_one_key_act_once(tmp_path: Path) -> None:
    remote, statuses = Remote(), []
    start = threading.Barrier(50)
    with placet.open(tools=remote.tools(), store=tmp_path / "placet.db") as gate:

        def ask(n: int) -> None:
            start.wait(60)
            proposal = {"call_id": f"call-{n}", "tool": "in_thread", "arguments": {"order": "o-1"}}
            statuses.append(gate.submit(proposal, principal=AGENT, run="run-1").status)

        threads = [threading.Thread(target=ask, args=(n,)) for n in range(50)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)

    assert Counter(statuses) == {"succeeded": 1, "replayed": 49}
    assert sum(remote.acted.values()) == 1


# ---------------------------------------------------------------- unknown and failed


async def raises_value_error(call: placet.CallContext) -> None:
    raise ValueError


async def loses_connection(call: placet.CallContext) -> None:
    raise ConnectionError


async def raises_timeout(call: placet.CallContext) -> None:
    raise TimeoutError


async def takes_too_long(call: placet.CallContext) -> None:
    await asyncio.sleep(60)


async def answers_500(call: placet.CallContext) -> None:
    raise placet.RemoteStatus(500)


async def is_rejected(call: placet.CallContext) -> None:
    raise placet.ToolRejected("No such order.")


async def is_not_sent(call: placet.CallContext) -> None:
    raise placet.NotSent("The circuit is open.")


@pytest.mark.req("H036", "H037", "H041", "C039", "C040", "H040")
@pytest.mark.parametrize(
    "behaviour", [raises_value_error, loses_connection, raises_timeout, takes_too_long, answers_500]
)
async def test_what_proves_nothing_is_unknown_and_not_repeated(
    behaviour: Callable[[placet.CallContext], Awaitable[None]],
) -> None:
    remote = Remote()
    remote.behaviour = behaviour
    if behaviour is takes_too_long:
        remote.timeout_seconds = 0.2

    async with a_world(remote) as world:
        first = await world.ask()
        remote.behaviour = at_once
        second = await world.ask(call_id="call-2")
        state = await world.state()

    assert type(first) is Unknown and type(second) is Unknown
    assert first.may_have_acted and not first.retryable
    assert state is EffectState.UNKNOWN
    assert sum(remote.acted.values()) == 1


@pytest.mark.req("H037", "H043", "H040")
@pytest.mark.parametrize("behaviour", [is_rejected, is_not_sent])
async def test_what_proves_that_nothing_happened_is_failed_and_may_be_asked_again(
    world: World, behaviour: Callable[[placet.CallContext], Awaitable[None]]
) -> None:
    world.remote.behaviour = behaviour

    first = await world.ask()
    assert type(first) is Failed and await world.state() is EffectState.FAILED
    events = [orjson.loads(event.body) async for event in world.gate.store.chained()]
    assert events[-1]["effect_state"] == "failed"
    world.remote.behaviour = at_once
    second = await world.ask(call_id="call-2")

    assert type(second) is Succeeded
    assert await world.state() is EffectState.COMMITTED


@pytest.mark.req("H037")
async def test_a_read_that_raises_is_simply_an_error(world: World) -> None:
    world.remote.behaviour = is_rejected

    outcome = await world.ask("look")

    assert type(outcome) in (Failed, TimedOut) and not outcome.may_have_acted
    assert await world.gate.reconciler.effects(by=AUDITOR) == ()


@pytest.mark.req("H042")
async def test_a_cancelled_call_is_closed_as_unknown_and_the_cancellation_goes_on(world: World) -> None:
    world.remote.behaviour = takes_too_long
    asking = asyncio.ensure_future(world.ask())
    await world.remote.started.wait()

    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking

    assert await world.state() is EffectState.UNKNOWN
    assert (await world.gate.verify_audit()).unpaired == 0
    assert type(await world.ask(call_id="call-2")) is Unknown


@pytest.mark.case("H10")
async def test_a_retry_by_an_outer_layer_has_the_recorded_result(world: World) -> None:
    proposals = [{"call_id": "call-1", "tool": "note", "arguments": {"order": "o-1", "amount": 5}}] * 3

    outcomes = [await world.gate.submit(each, principal=AGENT, run="run-1") for each in proposals]

    assert [outcome.status for outcome in outcomes] == ["succeeded", "replayed", "replayed"]
    assert sum(world.remote.acted.values()) == 1

"""Calls run side by side up to a limit and wait their turn; a remote that fails is left alone. Per tool and tenant."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

import placet
from placet import Breaker, GateSettings, Principal, Refused, Replayed, RetryPolicy, Succeeded, Tool, Unknown
from placet.engine import capacity, slots
from placet.engine.capacity import MAX_STRAYS
from placet.errors import BoundaryUnavailable, StoreUnavailable
from placet.model.context import Found, ProbeContext
from placet.model.effect import EffectState
from placet.model.outcome import InProgress, Outcome
from placet.rules.proposals import read_proposal
from placet.testing import FakeClock
from tests.engine import process_tools
from tests.engine.conftest import OPERATOR, SCOPE, STRANGER, OpenWorld, World

TWO_FAULTS = Breaker(faults=2, within_seconds=60.0, open_seconds=30.0, probes=1)
ONCE = RetryPolicy(max_attempts=1)


class Remote:
    """A system whose answers the test chooses, and which may keep callers waiting until it is told to go on."""

    def __init__(self) -> None:
        self.ill: Callable[[], BaseException] | None = None
        self.begun: list[str] = []
        self.running = 0
        self.most = 0
        self._may_go = asyncio.Event()
        self._may_go.set()

    def hold(self) -> None:
        self._may_go.clear()

    def go_on(self) -> None:
        self._may_go.set()

    async def __call__(self, word: str) -> str:
        self.begun.append(word)
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            await self._may_go.wait()
            if self.ill is not None:
                raise self.ill()
            return word
        finally:
            self.running -= 1

    def tool(self, name: str = "act", **options: Any) -> Tool:
        async def act(word: str) -> str:
            return await self(word)

        settings: dict[str, Any] = {
            "effect": "write",
            "risk": "medium",
            "permission": SCOPE,
            "retry": ONCE,
            "breaker": TWO_FAULTS,
            "max_concurrent": 64,
            "name": name,
        }
        return placet.tool(**(settings | options))(act)


@pytest.fixture
def remote() -> Remote:
    return Remote()


@pytest.fixture
async def kept() -> AsyncIterator[Callable[[World], World]]:
    """At the end of the test every place has been given back."""
    worlds: list[World] = []

    def keep(world: World) -> World:
        worlds.append(world)
        return world

    yield keep
    for world in worlds:
        assert {lane.running for lane in lanes(world).values()} <= {0}
        assert all(not lane.waiting and lane.strays == 0 for lane in lanes(world).values())
        assert all(lane.circuit.probing == 0 for lane in lanes(world).values())


Kept = Callable[[World], World]


def lanes(world: World) -> dict[tuple[str, str], Any]:
    return world.gate._path._capacity._lanes


async def ask(world: World, word: str, tool: str = "act", **more: Any) -> Outcome:
    return await world.submit(tool, {"word": word}, call_id=f"{tool}-{word}", **more)


async def begun(*calls: Awaitable[Outcome]) -> list[asyncio.Task[Outcome]]:
    """Calls under way, in this order, as far as they get by themselves."""
    tasks = []
    for call in calls:
        tasks.append(asyncio.ensure_future(call))
        await turns()
    return tasks


async def turns() -> None:
    for _ in range(30):
        await asyncio.sleep(0)


def codes(outcomes: list[Outcome]) -> list[str]:
    return [outcome.code for outcome in outcomes]


async def opened(world: World, remote: Remote, tool: str = "act", **more: Any) -> None:
    """Two faults in a row."""
    remote.ill = ConnectionError
    for word in ("fault-1", "fault-2"):
        assert (await ask(world, word, tool, **more)).code != "circuit_open"


# ---------------------------------------------------------------- the breaker


@pytest.mark.parametrize("effect", ["read", "idempotent_write", "write"])
async def test_after_faults_in_a_row_the_tool_is_left_alone_and_nothing_is_spent(
    open_world: OpenWorld, kept: Kept, remote: Remote, where: str, effect: str
) -> None:
    world = kept(await open_world(remote.tool(effect=effect), store=where))
    await opened(world, remote)
    before = await world.effects()

    outcome = await ask(world, "w")

    assert outcome == Refused(
        call_id="act-w",
        tool="act",
        code="circuit_open",
        message="This tool has been failing and is left alone for a while. Nothing ran; ask again later.",
        operation_key=outcome.operation_key,
        retry_after_seconds=30.0,
    )
    assert (outcome.retryable, outcome.may_have_acted) == (True, False)
    assert outcome.as_data()["retry_after_seconds"] == 30.0
    with pytest.raises(BoundaryUnavailable):
        outcome.unwrap()
    assert remote.begun == ["fault-1", "fault-2"]
    assert await world.effects() == before
    assert (world.completed()["outcome"], world.completed()["detail"]) == ("denied", "circuit_open")


async def test_the_same_call_runs_once_the_remote_is_well_again(
    open_world: OpenWorld, kept: Kept, remote: Remote
) -> None:
    world = kept(await open_world(remote.tool()))
    await opened(world, remote)
    assert (await ask(world, "w")).code == "circuit_open"
    remote.ill = None

    world.clock.advance(29.9)
    assert (await ask(world, "w")).code == "circuit_open"
    world.clock.advance(0.1)
    assert [type(await ask(world, word)) for word in ("w", "x", "y")] == [Succeeded] * 3


async def test_one_probe_goes_first_and_what_it_meets_decides(
    open_world: OpenWorld, kept: Kept, remote: Remote
) -> None:
    world = kept(await open_world(remote.tool()))
    await opened(world, remote)
    world.clock.advance(30)
    remote.hold()
    (probe,) = await begun(ask(world, "probe"))

    beside = await ask(world, "beside")
    assert (beside.code, getattr(beside, "retry_after_seconds", "")) == ("circuit_open", None)
    remote.go_on()
    assert type(await probe) is Unknown
    again = await ask(world, "again")
    assert (again.code, getattr(again, "retry_after_seconds", None)) == ("circuit_open", 30.0)
    assert remote.begun == ["fault-1", "fault-2", "probe"]


async def test_a_probe_whose_caller_leaves_makes_room_for_the_next(
    open_world: OpenWorld, kept: Kept, remote: Remote
) -> None:
    world = kept(await open_world(remote.tool()))
    await opened(world, remote)
    world.clock.advance(30)
    remote.hold()
    (probe,) = await begun(ask(world, "probe"))
    probe.cancel()
    with pytest.raises(asyncio.CancelledError):
        await probe
    remote.go_on()
    remote.ill = None
    assert (await ask(world, "next")).is_success


async def test_an_approval_outlives_a_breaker_that_is_open(open_world: OpenWorld, kept: Kept, remote: Remote) -> None:
    world = kept(await open_world(remote.tool(), remote.tool("guarded", approval="always")))
    waiting = await ask(world, "w", "guarded")
    await world.approve(waiting)
    guarded = lanes(world)["guarded", "acme"] = capacity._Lane(remote.tool("guarded").contract, tenant="acme")
    guarded.circuit = opened_circuit()
    refused = await ask(world, "w", "guarded")
    assert (refused.code, await world.effects()) == ("circuit_open", ())

    world.clock.advance(30)
    assert (await ask(world, "w", "guarded")).is_success
    assert remote.begun == ["w"]


def opened_circuit() -> capacity.Circuit:
    return capacity.Circuit(state=capacity.CircuitState.OPEN, epoch=1, since=0.0)


@pytest.mark.parametrize(("effect", "end"), [("read", "tool_failed"), ("idempotent_write", "effect_unknown")])
async def test_a_breaker_that_opens_ends_the_retries_and_the_effect_is_settled_by_what_is_known(
    open_world: OpenWorld, kept: Kept, remote: Remote, effect: str, end: str
) -> None:
    remote.ill = ConnectionError
    world = kept(await open_world(remote.tool(effect=effect, retry=RetryPolicy(max_attempts=9))))

    outcome = await ask(world, "w", timeout_seconds=1000)

    assert (outcome.code, remote.begun) == (end, ["w"] * 2)
    assert len(world.clock.slept) == 1
    assert world.attempts() == [1, 1, 2, 2]
    assert [effect.state for effect in await world.effects()] == ([EffectState.UNKNOWN] if effect != "read" else [])


@pytest.mark.parametrize("effect", ["read", "idempotent_write"])
async def test_a_breaker_that_others_open_during_the_pause_ends_the_retries(
    open_world: OpenWorld, kept: Kept, remote: Remote, effect: str
) -> None:
    pausing, may_go = asyncio.Event(), asyncio.Event()

    class Pausing(FakeClock):
        async def sleep(self, seconds: float) -> None:
            pausing.set()
            await may_go.wait()

    remote.ill = ConnectionError
    world = kept(await open_world(remote.tool(effect=effect, retry=RetryPolicy(max_attempts=2)), clock=Pausing()))
    first = asyncio.ensure_future(ask(world, "first"))
    await pausing.wait()
    lane = lanes(world)["act", "acme"]
    lane.circuit = capacity.rules.heard(lane.circuit, TWO_FAULTS, capacity.Permit(0), capacity.Health.ILL, now=0.0)
    may_go.set()

    assert (await first).code in ("tool_failed", "effect_unknown")
    assert remote.begun == ["first"]
    assert world.attempts() == [1, 1]


@pytest.mark.parametrize("is_well", [True, False])
async def test_a_retry_that_is_the_first_after_the_breakers_time_decides_for_it(
    open_world: OpenWorld, kept: Kept, remote: Remote, is_well: bool
) -> None:
    """Others open it during the pause, and its time is over when the pause is: the retry is the probe."""
    pausing, may_go = asyncio.Event(), asyncio.Event()

    class Pausing(FakeClock):
        async def sleep(self, seconds: float) -> None:
            pausing.set()
            await may_go.wait()

    remote.ill = ConnectionError
    retry = RetryPolicy(max_attempts=2)
    world = kept(await open_world(remote.tool(effect="read", retry=retry, timeout_seconds=300.0), clock=Pausing()))
    first = asyncio.ensure_future(ask(world, "first", timeout_seconds=1000))
    await pausing.wait()
    lane = lanes(world)["act", "acme"]
    lane.circuit = capacity.rules.heard(lane.circuit, TWO_FAULTS, capacity.Permit(0), capacity.Health.ILL, now=0.0)
    assert lane.circuit.state is capacity.CircuitState.OPEN
    world.clock.advance(31)
    remote.ill = None if is_well else ConnectionError
    may_go.set()

    assert (await first).is_success is is_well
    assert remote.begun == ["first", "first"]
    assert lane.circuit.state is (capacity.CircuitState.CLOSED if is_well else capacity.CircuitState.OPEN)
    assert lane.circuit.probing == 0


ANSWERS: dict[str, Callable[[], BaseException]] = {
    "a refusal": lambda: placet.ToolRejected("no"),
    "not found": lambda: placet.RemoteStatus(404),
    "too much of it": lambda: placet.RemoteStatus(422),
}


@pytest.mark.parametrize("answer", ANSWERS)
async def test_a_business_refusal_opens_nothing_and_is_an_answer(
    open_world: OpenWorld, kept: Kept, remote: Remote, answer: str
) -> None:
    world = kept(await open_world(remote.tool()))
    for number in range(8):
        remote.ill = ConnectionError if number % 2 else ANSWERS[answer]
        assert (await ask(world, str(number))).code != "circuit_open"


async def test_arguments_that_break_the_contract_and_denials_open_nothing(
    open_world: OpenWorld, kept: Kept, remote: Remote
) -> None:
    world = kept(await open_world(remote.tool()))
    nobody = Principal.agent("nobody", tenant="acme")
    for number in range(5):
        assert (await world.submit("act", {"word": 7}, call_id=f"a{number}")).code == "invalid_arguments"
        assert (await ask(world, f"d{number}", principal=nobody, run="r2")).code == "denied"
    assert (await ask(world, "w")).is_success


async def test_a_caller_without_patience_opens_nothing_and_a_remote_that_is_silent_does(
    open_world: OpenWorld, kept: Kept, remote: Remote
) -> None:
    world = kept(await open_world(remote.tool(effect="read", timeout_seconds=0.02)))
    remote.hold()
    for number in range(5):
        assert (await ask(world, f"hasty-{number}", timeout_seconds=0.01)).code == "timed_out"
    for number in range(2):
        assert (await ask(world, f"patient-{number}")).code == "timed_out"
    assert (await ask(world, "w")).code == "circuit_open"


async def test_a_slow_ledger_does_not_speak_against_the_remote(
    open_world: OpenWorld, kept: Kept, remote: Remote, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the claim took of the attempt's time is not the remote's silence."""
    world = kept(await open_world(remote.tool(timeout_seconds=0.1)))
    claim = world.gate.store.claim

    async def slow(command: Any) -> Any:
        world.clock.advance(0.09)
        return await claim(command)

    remote.hold()
    with monkeypatch.context() as patched:
        patched.setattr(world.gate.store, "claim", slow)
        outcomes = [await ask(world, str(number)) for number in range(4)]
    assert codes(outcomes) == ["effect_unknown"] * 4
    assert remote.begun == ["0", "1", "2", "3"]


async def test_an_attempt_that_our_own_guard_kept_back_says_nothing(open_world: OpenWorld, kept: Kept) -> None:
    clock = FakeClock()

    @placet.tool(effect="write", risk="medium", permission=SCOPE, retry=ONCE, breaker=TWO_FAULTS)
    async def slow(word: str, call: placet.CallContext) -> str:
        clock.advance(11)
        call.guard()
        return word

    world = kept(await open_world(slow, clock=clock))
    outcomes = [await ask(world, str(number), "slow", timeout_seconds=1000) for number in range(5)]
    assert codes(outcomes) == ["not_sent"] * 5


async def test_a_handler_that_goes_on_after_our_guard_kept_it_back_speaks_of_the_remote(
    open_world: OpenWorld, kept: Kept
) -> None:
    clock = FakeClock()

    @placet.tool(effect="write", risk="medium", permission=SCOPE, retry=ONCE, breaker=TWO_FAULTS)
    async def heedless(word: str, call: placet.CallContext) -> str:
        clock.advance(11)
        with contextlib.suppress(placet.NotSent):
            call.guard()
        raise ConnectionError

    world = kept(await open_world(heedless, clock=clock))
    outcomes = [await ask(world, str(number), "heedless", timeout_seconds=1000) for number in range(3)]
    assert codes(outcomes) == ["effect_unknown", "effect_unknown", "circuit_open"]


async def test_a_tool_without_a_breaker_is_never_left_alone(open_world: OpenWorld, kept: Kept, remote: Remote) -> None:
    remote.ill = ConnectionError
    world = kept(await open_world(remote.tool(effect="read", breaker=None)))
    assert codes([await ask(world, str(number)) for number in range(50)]) == ["tool_failed"] * 50


async def test_one_tenant_opens_nothing_for_another_and_one_tool_nothing_for_its_neighbour(
    open_world: OpenWorld, kept: Kept, remote: Remote
) -> None:
    healthy = Remote()
    world = kept(await open_world(remote.tool(), healthy.tool("other")))
    await opened(world, remote)
    assert (await ask(world, "w")).code == "circuit_open"

    assert (await ask(world, "w", "other")).is_success
    remote.ill = None
    assert (await ask(world, "w", principal=STRANGER, run="r2")).is_success


# ---------------------------------------------------------------- what needs no room


@pytest.mark.parametrize("why", ["open", "full"])
async def test_what_is_on_record_is_answered_without_room(
    open_world: OpenWorld, kept: Kept, remote: Remote, why: str
) -> None:
    tool = remote.tool(operation_key="op:{word}", max_concurrent=1)
    world = kept(await open_world(tool))
    assert (await ask(world, "done")).is_success
    tasks = []
    if why == "open":
        await opened(world, remote)
        expected = ["effect_unknown"]
    else:
        remote.hold()
        tasks = await begun(ask(world, "fault-1"))
        expected = ["in_progress"]
    again = await ask(world, "done", run="r2")
    known = await world.submit("act", {"word": "fault-1"}, call_id="k", run="r3", timeout_seconds=5)

    assert (type(again), again.unwrap()) == (Replayed, "done")
    assert [known.code] == expected
    remote.go_on()
    await asyncio.gather(*tasks)


async def test_whoever_waits_for_the_same_operation_holds_no_room(
    open_world: OpenWorld, kept: Kept, remote: Remote
) -> None:
    world = kept(await open_world(remote.tool(operation_key="op:{word}", max_concurrent=2)))
    remote.hold()
    first, same = await begun(ask(world, "w"), ask(world, "w", run="r2", timeout_seconds=5))
    assert type(await same) is InProgress
    (other,) = await begun(ask(world, "x"))
    assert remote.begun == ["w", "x"]
    remote.go_on()
    assert all(outcome.is_success for outcome in await asyncio.gather(first, other))


async def test_reconciling_looks_whatever_the_breaker_says(open_world: OpenWorld, kept: Kept, remote: Remote) -> None:
    async def probe(context: ProbeContext) -> Found:
        return Found(result="found")

    world = kept(await open_world(remote.tool(probe=probe)))
    await opened(world, remote)
    assert (await world.gate.reconciler.recover()).committed == 2


# ---------------------------------------------------------------- the limit


@pytest.mark.case("J02")
async def test_no_more_run_at_once_than_the_contract_says_and_all_have_their_turn(
    open_world: OpenWorld, kept: Kept, remote: Remote, where: str
) -> None:
    world = kept(await open_world(remote.tool(max_concurrent=4), store=where))
    outcomes = await asyncio.gather(*(ask(world, str(number)) for number in range(100)))
    assert {outcome.is_success for outcome in outcomes} == {True}
    assert remote.most <= 4


async def test_those_that_wait_run_in_the_order_they_came(open_world: OpenWorld, kept: Kept, remote: Remote) -> None:
    world = kept(await open_world(remote.tool(max_concurrent=2)))
    remote.hold()
    tasks = await begun(*(ask(world, word) for word in "abcdef"))
    assert (remote.begun, remote.running) == (["a", "b"], 2)
    remote.go_on()
    await asyncio.gather(*tasks)
    assert remote.begun == list("abcdef")
    assert remote.most == 2


async def test_nobody_overtakes_those_that_wait(open_world: OpenWorld, kept: Kept, remote: Remote) -> None:
    """The place that becomes free is the waiting one's already when another call comes in."""
    world = kept(await open_world(remote.tool(max_concurrent=1)))
    remote.hold()
    first, second = await begun(ask(world, "first"), ask(world, "second"))
    late: list[asyncio.Task[Outcome]] = []
    first.add_done_callback(lambda _: late.append(asyncio.ensure_future(ask(world, "late"))))
    remote.go_on()
    await first
    await turns()
    await asyncio.gather(second, *late)
    assert remote.begun == ["first", "second", "late"]


async def test_who_may_not_wait_is_refused_and_spends_nothing(
    open_world: OpenWorld, kept: Kept, remote: Remote, where: str
) -> None:
    settings = GateSettings(max_waiting=1, grace_seconds=0.05)
    world = kept(await open_world(remote.tool(max_concurrent=1), store=where, settings=settings))
    remote.hold()
    running, waiting = await begun(ask(world, "running"), ask(world, "waiting"))
    while len(await world.effects()) < 1:
        await asyncio.sleep(0.001)

    outcome = await ask(world, "third")

    assert isinstance(outcome, Refused)
    assert (outcome.code, outcome.retryable, outcome.may_have_acted) == ("too_many_running", True, False)
    assert len(await world.effects()) == 1
    assert (world.completed()["outcome"], world.completed()["detail"]) == ("denied", "too_many_running")
    remote.go_on()
    await asyncio.gather(running, waiting)
    assert (await ask(world, "third")).is_success


async def test_nobody_waits_so_long_that_its_attempt_has_less_than_its_time(
    open_world: OpenWorld, kept: Kept, remote: Remote, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = kept(await open_world(remote.tool(max_concurrent=1, timeout_seconds=10)))
    remote.hold()
    (running,) = await begun(ask(world, "running"))
    assert (await ask(world, "w", timeout_seconds=10)).code == "too_many_running"
    waited: list[float] = []

    async def has_come(turn: asyncio.Future[None], *, seconds: float) -> bool:
        waited.append(seconds)
        return await slots.has_come(turn, seconds=seconds)

    monkeypatch.setattr(capacity, "has_come", has_come)
    assert (await ask(world, "x", timeout_seconds=10.05)).code == "too_many_running"
    assert waited == [pytest.approx(0.05)]
    remote.go_on()
    await running
    assert remote.begun == ["running"]


async def test_a_place_that_is_handed_over_as_patience_ends_is_used_or_passed_on(
    open_world: OpenWorld, kept: Kept, remote: Remote
) -> None:
    world = kept(await open_world(remote.tool(max_concurrent=1)))
    remote.hold()
    first, second, third = await begun(ask(world, "first"), ask(world, "second"), ask(world, "third"))
    lane = lanes(world)["act", "acme"]
    lane.waiting[0].add_done_callback(lambda _: second.cancel())
    remote.go_on()

    assert (await first).is_success
    with pytest.raises(asyncio.CancelledError):
        await second
    assert (await third).is_success
    assert remote.begun == ["first", "third"]


async def test_a_caller_that_leaves_while_it_waits_runs_nothing_and_its_pair_is_closed(
    open_world: OpenWorld, kept: Kept, remote: Remote, where: str
) -> None:
    world = kept(await open_world(remote.tool(max_concurrent=1), store=where))
    remote.hold()
    (running,) = await begun(ask(world, "running"))
    while not remote.begun:
        await asyncio.sleep(0.001)
    waiting = asyncio.ensure_future(ask(world, "w"))
    while not lanes(world)["act", "acme"].waiting:
        await asyncio.sleep(0.001)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert (world.completed()["call_id"], world.completed()["detail"]) == ("act-w", "too_many_running")
    remote.go_on()
    await running
    assert remote.begun == ["running"]


async def test_who_leaves_the_queue_lets_nobody_run_before_its_time(
    open_world: OpenWorld, kept: Kept, remote: Remote
) -> None:
    world = kept(await open_world(remote.tool(max_concurrent=1)))
    remote.hold()
    tasks = await begun(*(ask(world, word) for word in ("first", "second", "third")))
    tasks[2].cancel()
    with pytest.raises(asyncio.CancelledError):
        await tasks[2]
    await turns()
    assert remote.begun == ["first"]
    remote.go_on()
    await asyncio.gather(*tasks[:2])
    assert (remote.begun, remote.most) == (["first", "second"], 1)


async def test_those_that_wait_are_refused_at_once_when_the_breaker_opens(
    open_world: OpenWorld, kept: Kept, remote: Remote
) -> None:
    world = kept(await open_world(remote.tool(max_concurrent=2)))
    remote.hold()
    remote.ill = ConnectionError
    tasks = await begun(*(ask(world, word) for word in "abcd"))
    remote.go_on()
    assert codes(await asyncio.gather(*tasks)) == ["effect_unknown"] * 2 + ["circuit_open"] * 2


@pytest.mark.parametrize("why", ["strays", "transport"])
async def test_who_waited_is_not_let_in_where_strays_have_left_no_room_meanwhile(
    open_world: OpenWorld, kept: Kept, remote: Remote, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    world = kept(await open_world(remote.tool(max_concurrent=1)))
    remote.hold()
    running, waiting = await begun(ask(world, "running"), ask(world, "w"))
    lane = lanes(world)["act", "acme"]
    with monkeypatch.context() as patched:
        if why == "strays":
            lane.strays = MAX_STRAYS
        else:
            patched.setattr(world.gate._path._capacity._transport, "has_room", lambda tool: False)
        remote.go_on()
        assert (await running).is_success
        refused = await waiting
        lane.strays = 0

    assert (refused.code, refused.may_have_acted, remote.begun) == ("capacity", False, ["running"])
    assert (await ask(world, "w")).is_success


async def test_one_tenant_takes_no_place_of_another(open_world: OpenWorld, kept: Kept, remote: Remote) -> None:
    settings = GateSettings(max_waiting=0)
    world = kept(await open_world(remote.tool(max_concurrent=1), settings=settings))
    remote.hold()
    (running,) = await begun(ask(world, "w"))
    assert (await ask(world, "x")).code == "too_many_running"
    (other,) = await begun(ask(world, "w", principal=STRANGER, run="r2"))
    assert remote.running == 2
    remote.go_on()
    assert [(await task).is_success for task in (running, other)] == [True, True]


# ---------------------------------------------------------------- given back, whatever ends the call

ENDS: dict[str, Callable[[], BaseException] | None] = {
    "success": None,
    "refusal": lambda: placet.ToolRejected("no"),
    "fault": lambda: RuntimeError("x"),
    "exit": lambda: SystemExit(1),
    "interrupt": KeyboardInterrupt,
    "base": lambda: BaseException("x"),
    "made-up cancellation": asyncio.CancelledError,
}


@pytest.mark.parametrize("effect", ["read", "write"])
@pytest.mark.parametrize("end", ENDS)
async def test_room_is_given_back_whatever_the_handler_does(
    open_world: OpenWorld, kept: Kept, remote: Remote, effect: str, end: str
) -> None:
    world = kept(await open_world(remote.tool(effect=effect, max_concurrent=1, breaker=None)))
    remote.ill = ENDS[end]
    for number in range(3):
        assert (await ask(world, str(number))).code != "too_many_running"
    assert remote.begun == ["0", "1", "2"]


@pytest.mark.parametrize("effect", ["read", "write"])
async def test_room_is_given_back_when_the_caller_leaves(
    open_world: OpenWorld, kept: Kept, remote: Remote, effect: str
) -> None:
    world = kept(await open_world(remote.tool(effect=effect, max_concurrent=1)))
    remote.hold()
    (running,) = await begun(ask(world, "gone"))
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running
    remote.go_on()
    assert (await ask(world, "w")).is_success


@pytest.mark.parametrize("effect", ["read", "write"])
@pytest.mark.parametrize("verb", ["claim", "record", "settle"])
async def test_room_is_given_back_when_the_store_fails(
    open_world: OpenWorld, kept: Kept, remote: Remote, monkeypatch: pytest.MonkeyPatch, effect: str, verb: str
) -> None:
    world = kept(await open_world(remote.tool(effect=effect, max_concurrent=1)))

    async def down(*_: object, **__: object) -> object:
        raise StoreUnavailable

    with monkeypatch.context() as patched:
        patched.setattr(world.gate.store, verb, down)
        await ask(world, "w")
    assert lanes(world)["act", "acme"].running == 0


async def test_a_thread_that_goes_on_keeps_its_place_until_it_ends(open_world: OpenWorld, kept: Kept) -> None:
    release, ran = threading.Event(), []

    @placet.tool(
        effect="write",
        risk="medium",
        permission=SCOPE,
        retry=ONCE,
        timeout_seconds=0.01,
        max_concurrent=1,
        breaker=None,
    )
    def act(word: str) -> str:
        ran.append(word)
        release.wait(60)
        return word

    world = kept(await open_world(act, settings=GateSettings(max_waiting=0, grace_seconds=0.01)))
    assert type(await ask(world, "stray")) is Unknown
    assert (await ask(world, "w")).code == "too_many_running"
    release.set()
    async with asyncio.timeout(60):
        while lanes(world)["act", "acme"].running:
            await asyncio.sleep(0.005)
    assert (await ask(world, "w")).code in ("succeeded", "effect_unknown")
    assert ran == ["stray", "w"]


async def test_a_coroutine_that_swallows_its_end_keeps_its_place_and_may_even_be_cancelled_later(
    open_world: OpenWorld, kept: Kept
) -> None:
    stubborn: list[asyncio.Task[Any]] = []

    @placet.tool(effect="read", retry=ONCE, timeout_seconds=0.01, max_concurrent=1, breaker=None, name="act")
    async def act(word: str) -> str:
        task = asyncio.current_task()
        assert task is not None
        stubborn.append(task)
        while len(stubborn) < 2:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(30)
                break
        return word

    world = kept(await open_world(act, settings=GateSettings(max_waiting=0, grace_seconds=0.01)))
    assert (await ask(world, "stray")).code == "timed_out"
    assert (await ask(world, "w")).code == "too_many_running"
    stubborn.append(stubborn[0])
    stubborn[0].cancel()
    await turns()
    assert lanes(world)["act", "acme"].running == 0


async def test_a_place_is_given_back_once_however_often_it_is_left(
    open_world: OpenWorld, kept: Kept, remote: Remote
) -> None:
    world = kept(await open_world(remote.tool()))
    left: list[Any] = []
    enter = world.gate._path._capacity.enter

    def entered(call: Any) -> Any:
        left.append(enter(call))
        return left[-1]

    world.gate._path._capacity.enter = entered  # type: ignore[method-assign]
    assert (await ask(world, "w")).is_success
    (room,) = left
    room.leave()
    assert lanes(world)["act", "acme"].running == 0


async def test_strays_of_one_tenant_leave_another_tenant_alone(open_world: OpenWorld, kept: Kept) -> None:
    release = threading.Event()

    @placet.tool(
        effect="write", risk="medium", permission=SCOPE, retry=ONCE, timeout_seconds=0.005, breaker=None, name="act"
    )
    def act(word: str) -> str:
        release.wait(60)
        return word

    world = kept(await open_world(act))
    outcomes = [await ask(world, str(number)) for number in range(MAX_STRAYS + 1)]
    others = await ask(world, "w", principal=STRANGER, run="r2")
    release.set()
    async with asyncio.timeout(60):
        while any(lane.strays for lane in lanes(world).values()):
            await asyncio.sleep(0.005)

    assert codes(outcomes) == ["effect_unknown"] * MAX_STRAYS + ["capacity"]
    assert others.code == "effect_unknown"


# ---------------------------------------------------------------- memory


async def test_what_is_remembered_of_tenants_is_bounded_and_what_is_open_or_running_is_not_forgotten_first(
    open_world: OpenWorld, kept: Kept, remote: Remote, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(capacity, "MAX_LANES", 8)
    healthy, held = Remote(), Remote()
    tools = (remote.tool(), healthy.tool("other"), held.tool("held", max_concurrent=1))
    world = kept(await open_world(*tools, settings=GateSettings(max_waiting=0)))
    await opened(world, remote)
    held.hold()
    (running,) = await begun(ask(world, "w", "held"))
    for number in range(100):
        someone = Principal.agent("a", tenant=f"t{number}", roles=("operator",), scopes=(SCOPE,))
        assert (await ask(world, "w", "other", principal=someone, run=f"r{number}")).is_success
        assert len(lanes(world)) <= 8
        if number == 50:
            assert (await ask(world, "w")).code == "circuit_open"
    assert (await ask(world, "w")).code == "circuit_open"
    assert (await ask(world, "x", "held")).code == "too_many_running"
    held.go_on()
    assert (await running).is_success


async def test_however_many_tenants_have_open_breakers_memory_is_bounded(
    open_world: OpenWorld, kept: Kept, remote: Remote, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(capacity, "MAX_LANES", 8)
    registry = CollectorRegistry()
    world = kept(await open_world(remote.tool(), metrics=registry))
    for number in range(30):
        someone = Principal.agent("a", tenant=f"t{number}", roles=("operator",), scopes=(SCOPE,))
        await opened(world, remote, principal=someone, run=f"r{number}")
        assert len(lanes(world)) <= 8
    assert (await ask(world, "w", principal=someone, run="r29")).code == "circuit_open"
    assert registry.get_sample_value("placet_breakers_open", {"tool": "act"}) == len(lanes(world))


# ---------------------------------------------------------------- what operators see


async def test_numbers_and_log_lines_tell_of_it_with_names_only(
    open_world: OpenWorld, kept: Kept, remote: Remote, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="placet.capacity")
    registry = CollectorRegistry()

    def number(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(name, {"tool": "act", **labels})

    world = kept(await open_world(remote.tool(), metrics=registry))
    remote.hold()
    tasks = await begun(ask(world, "fault-1"), ask(world, "fault-2"))
    assert number("placet_tool_calls_running") == 2
    remote.ill = ConnectionError
    remote.go_on()
    await asyncio.gather(*tasks)
    assert (number("placet_tool_calls_running"), number("placet_breakers_open")) == (0, 1)

    world.clock.advance(30)
    remote.ill = None
    assert (await ask(world, "w")).is_success

    assert (number("placet_tool_calls_running"), number("placet_breakers_open")) == (0, 0)
    for state in ("open", "half_open", "closed"):
        assert number("placet_breaker_changes_total", state=state) == 1
    records = [record for record in caplog.records if record.name == "placet.capacity"]
    assert [(record.levelname, record.getMessage()) for record in records] == [
        ("WARNING", "breaker opened"),
        ("INFO", "breaker lets probes through"),
        ("WARNING", "breaker closed"),
    ]
    assert {record.__dict__["tool"] for record in records} == {"act"}


async def test_a_refusal_for_want_of_room_counts_as_a_step_and_never_as_an_attempt(
    open_world: OpenWorld, kept: Kept, remote: Remote
) -> None:
    settings = GateSettings(max_steps=3)
    world = kept(await open_world(remote.tool(), settings=settings))
    await opened(world, remote)
    assert codes([await ask(world, word) for word in ("x", "x", "y")]) == [
        "circuit_open",
        "circuit_open",
        "circuit_open",
    ]
    world.clock.advance(30)
    assert (await ask(world, "z")).code == "budget_exhausted"
    assert {effect.attempts for effect in await world.effects()} == {1}


def test_waiting_can_be_switched_off_and_not_made_negative() -> None:
    assert GateSettings(max_waiting=0).max_waiting == 0
    for wrong in (-1, 1.5, True):
        with pytest.raises(placet.errors.ConfigurationError):
            GateSettings(max_waiting=wrong)  # type: ignore[arg-type]


async def test_who_has_waited_for_a_process_and_got_it_is_not_counted_among_those_that_wait(
    open_world: OpenWorld, kept: Kept
) -> None:
    settings = GateSettings(max_processes=1, max_waiting=1, spare_processes=0, grace_seconds=0.05)
    world = kept(await open_world(process_tools.slow_look, settings=settings))
    path = world.gate._path
    proposal = {"call_id": "c1", "tool": "slow_look", "arguments": {"word": "x", "folder": "y"}}
    call = path.bind(read_proposal(proposal), world.gate._session(OPERATOR, "r1", None, None, None))
    room = path._capacity.enter(call)

    for _ in range(4):
        assert isinstance(room, capacity.Room)
        (waiting,) = await begun(path._capacity.wait(call, deadline=10_000.0))  # type: ignore[arg-type]
        room.leave()
        room = await waiting  # type: ignore[assignment]
    assert isinstance(room, capacity.Room)
    room.leave()


async def test_whoever_can_wait_for_less_than_a_second_waits_that_long_for_a_process(
    open_world: OpenWorld, kept: Kept
) -> None:
    settings = GateSettings(max_processes=1, max_waiting=1, spare_processes=0, grace_seconds=0.05)
    world = kept(await open_world(process_tools.slow_look, settings=settings))
    path = world.gate._path
    proposal = {"call_id": "c1", "tool": "slow_look", "arguments": {"word": "x", "folder": "y"}}
    call = path.bind(read_proposal(proposal), world.gate._session(OPERATOR, "r1", None, None, None))
    first = path._capacity.enter(call)
    assert isinstance(first, capacity.Room)
    half_a_second = world.clock.monotonic() + call.contract.timeout_seconds + 0.5

    waiting = asyncio.ensure_future(path._capacity.wait(call, deadline=half_a_second))
    await asyncio.sleep(0)
    first.leave()

    room = await waiting
    assert isinstance(room, capacity.Room)
    room.leave()

"""Objects that lie, raise and pretend, in every place that takes one: each call ends closed and nothing is repeated."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest

import placet
from placet import (
    EffectState,
    Failed,
    Invalid,
    Principal,
    Proposal,
    Refused,
    RemoteStatus,
    RetryPolicy,
    Role,
    Succeeded,
    ToolRejected,
    Unknown,
)
from placet.adapters.telemetry.logs import configure
from placet.testing import FakeClock
from tests.engine.conftest import OPERATOR, SCOPE, OpenWorld, Spy, World, looked_up, written

MARK = "phone=13800138000 token=abcdef"


class Custom(BaseException):
    pass


KINDS: list[type[BaseException]] = [
    RuntimeError,
    asyncio.CancelledError,
    KeyboardInterrupt,
    SystemExit,
    GeneratorExit,
    StopIteration,
    RecursionError,
    MemoryError,
    Custom,
]


def hostile_text(kind: type[BaseException], value: str = "look") -> str:
    def fail(*_: object) -> Any:
        raise kind(MARK)

    names = ("__eq__", "__ne__", "__hash__", "__len__", "__str__", "__repr__", "__format__", "__iter__", "__getitem__")
    more = ("encode", "isascii", "lower", "strip", "startswith", "isprintable", "__contains__", "__bool__")
    return type("Text", (str,), dict.fromkeys(names + more, fail))(value)  # type: ignore[no-any-return]


def hostile_mapping(kind: type[BaseException]) -> Mapping[str, object]:
    class Exploding(Mapping[str, object]):
        def _fail(self, *_: object) -> Any:
            raise kind(MARK)

        __getitem__ = __iter__ = __len__ = items = keys = values = get = __eq__ = __repr__ = _fail

    return Exploding()


def hostile_object(kind: type[BaseException]) -> object:
    class Meta(type):
        def _fail(cls, *_: object) -> Any:
            raise kind(MARK)

        __eq__ = __hash__ = __instancecheck__ = __subclasscheck__ = __repr__ = _fail
        __name__ = property(_fail)  # type: ignore[assignment]

    class Hostile(metaclass=Meta):
        @property
        def __class__(self) -> Any:
            raise kind(MARK)

        def _fail(self, *_: object) -> Any:
            raise kind(MARK)

        __eq__ = __hash__ = __str__ = __repr__ = __bool__ = __iter__ = __len__ = __int__ = __float__ = _fail
        __getattr__ = __index__ = __call__ = __await__ = _fail

    return Hostile()


class Key:
    """A key that raises once somebody compares it."""

    def __init__(self, kind: type[BaseException], collides_with: str) -> None:
        self._kind = kind
        self._hash = hash(collides_with)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        raise self._kind(MARK)


def chain(error: BaseException) -> str:
    texts = []
    while error is not None:
        texts.append(f"{error!s} {error!r} {error.args}")
        error = error.__cause__ or error.__context__  # type: ignore[assignment]
    return "\n".join(texts)


def assert_quiet(world: World, outcome: Any, caplog: pytest.LogCaptureFixture) -> None:
    """The marker is nowhere: not in the outcome, the error it raises, the audit, or anybody's log."""
    assert MARK not in repr(outcome)
    assert MARK not in str(outcome.as_data())
    if not outcome.is_success:
        with pytest.raises(placet.PlacetError) as caught:
            outcome.unwrap()
        assert MARK not in chain(caught.value)
    assert MARK.encode() not in world.bodies()
    assert MARK not in caplog.text


PROPOSALS: dict[str, Callable[[type[BaseException]], object]] = {
    "object": hostile_object,
    "mapping": hostile_mapping,
    "text": hostile_text,
    "hostile id": lambda kind: {"call_id": hostile_text(kind), "tool": "look", "arguments": {}},
    "hostile tool": lambda kind: {"call_id": "c1", "tool": hostile_text(kind), "arguments": {}},
    "hostile version": lambda kind: {"call_id": "c1", "tool": "look", "arguments": {}, "version": hostile_text(kind)},
    "hostile attempt": lambda kind: {"call_id": "c1", "tool": "look", "arguments": {}, "attempt": hostile_object(kind)},
    "hostile key": lambda kind: {Key(kind, "attempt"): 1, "call_id": "c1", "tool": "look", "arguments": {}},
    "hostile arguments": lambda kind: {"call_id": "c1", "tool": "look", "arguments": hostile_object(kind)},
    "mapping of arguments": lambda kind: {"call_id": "c1", "tool": "look", "arguments": hostile_mapping(kind)},
    "text of arguments": lambda kind: {"call_id": "c1", "tool": "look", "arguments": hostile_text(kind, "{}")},
    "hostile argument": lambda kind: {"call_id": "c1", "tool": "look", "arguments": {"word": hostile_object(kind)}},
    "hostile argument text": lambda kind: {"call_id": "c1", "tool": "look", "arguments": {"word": hostile_text(kind)}},
    "hostile argument key": lambda kind: {"call_id": "c1", "tool": "look", "arguments": {Key(kind, "word"): "x"}},
    "deep argument": lambda kind: {"call_id": "c1", "tool": "look", "arguments": {"word": [[hostile_object(kind)]]}},
    "proposal of hostile id": lambda kind: Proposal(call_id=hostile_text(kind), tool="look", arguments={}),  # type: ignore[arg-type]
    "proposal of hostile tool": lambda kind: Proposal(call_id="c1", tool=hostile_text(kind), arguments={}),  # type: ignore[arg-type]
    "proposal of hostile arguments": lambda kind: Proposal(call_id="c1", tool="look", arguments=hostile_object(kind)),  # type: ignore[arg-type]
}  # fmt: skip


@pytest.mark.req("B003", "B004", "B009", "B011", "B012", "B017", "B018", "B077", "B078", "B080", "B025")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", PROPOSALS)
async def test_a_hostile_proposal_ends_as_one_closed_validation(
    open_world: OpenWorld, spy: Spy, caplog: pytest.LogCaptureFixture, name: str, kind: type[BaseException]
) -> None:
    world = await open_world(looked_up(spy))

    outcome = await world.gate.submit(PROPOSALS[name](kind), principal=OPERATOR, run="r1")

    assert (type(outcome), spy.count, world.words()) == (Invalid, 0, ["started", "validation"])
    assert_quiet(world, outcome, caplog)


async def test_hostile_members_of_a_batch_each_end_closed(
    open_world: OpenWorld, spy: Spy, caplog: pytest.LogCaptureFixture
) -> None:
    world = await open_world(looked_up(spy))
    batch = [make(RuntimeError) for make in PROPOSALS.values()]

    outcomes = await world.gate.submit_all(batch, principal=OPERATOR, run="r1")

    assert {type(outcome).__name__ for outcome in outcomes} == {"Invalid", "NotRun"}
    assert spy.count == 0
    for outcome in outcomes:
        assert_quiet(world, outcome, caplog)


# ---------------------------------------------------------------- principals


def changed(**fields: object) -> Principal:
    """A principal that somebody changed after it was made."""
    principal = Principal.agent("agent-operator", tenant="acme", roles=("operator",), scopes=(SCOPE,))
    for name, value in fields.items():
        object.__setattr__(principal, name, value)
    return principal


def in_a_circle() -> Principal:
    principal = changed()
    object.__setattr__(principal, "on_behalf_of", principal)
    return principal


def through_many_hands(count: int) -> Principal:
    principal = changed()
    for _ in range(count):
        outer = changed(on_behalf_of=principal)
        principal = outer
    return principal


PRINCIPALS: dict[str, Callable[[type[BaseException]], Any]] = {
    "none": lambda kind: None,
    "object": hostile_object,
    "text": hostile_text,
    "subject": lambda kind: changed(subject=hostile_text(kind)),
    "tenant": lambda kind: changed(tenant=hostile_text(kind)),
    "environment": lambda kind: changed(environment=hostile_text(kind)),
    "roles": lambda kind: changed(roles=[Role.ADMIN]),
    "role": lambda kind: changed(roles=frozenset({"admin"})),
    "scopes": lambda kind: changed(scopes=[SCOPE]),
    "standing": lambda kind: changed(standing="person"),
    "giver": lambda kind: changed(on_behalf_of=hostile_object(kind)),
    "subject of giver": lambda kind: changed(on_behalf_of=changed(subject=hostile_text(kind))),
    "tenant of giver": lambda kind: changed(on_behalf_of=changed(tenant=hostile_text(kind))),
    "giver of another tenant": lambda kind: changed(on_behalf_of=changed(tenant="globex")),
    "circle": lambda kind: in_a_circle(),
    "many hands": lambda kind: through_many_hands(5000),
    "subclass": lambda kind: type("Child", (Principal,), {})(subject="a", tenant="t"),
}  # fmt: skip


@pytest.mark.req("B040", "B041", "B047")
@pytest.mark.parametrize("kind", [RuntimeError, asyncio.CancelledError])
@pytest.mark.parametrize("tool", ["look", "write", "nope"])
@pytest.mark.parametrize("name", PRINCIPALS)
async def test_a_principal_that_cannot_be_made_out_is_denied_for_reads_too(
    open_world: OpenWorld,
    spy: Spy,
    caplog: pytest.LogCaptureFixture,
    name: str,
    tool: str,
    kind: type[BaseException],
) -> None:
    world = await open_world(looked_up(spy), written(spy))
    principal = PRINCIPALS[name](kind)

    for more in ({}, {"idempotency_key": "k"}):
        outcome = await world.submit(tool, {"word": "x"}, principal=principal, **more)

        assert isinstance(outcome, Refused)
        assert (outcome.code, outcome.reasons, spy.count) == ("denied", ("principal_malformed",), 0)
        assert outcome.tool == (tool if tool in ("look", "write") else "unknown")
        assert_quiet(world, outcome, caplog)
    assert world.words() == ["started", "denied"] * 2
    assert {(event["tenant"], event["subject"]) for event in world.events()} == {("unknown", "unknown")}
    assert world.gate.tools_for(principal) == ()
    assert isinstance(
        await world.gate.explain({"call_id": "c", "tool": tool, "arguments": {}}, principal=principal, run="r"),
        placet.Deny,
    )


# ---------------------------------------------------------------- handlers: what they raise and return


class LyingError(ToolRejected):
    """An error of ours that was turned against us."""

    def __init__(self, kind: type[BaseException]) -> None:
        super().__init__("fine")
        self._kind = kind

    def __str__(self) -> str:
        raise self._kind(MARK)

    @property
    def args(self) -> Any:  # type: ignore[override]
        raise self._kind(MARK)

    def __getattribute__(self, name: str) -> Any:
        if name in ("code", "status", "message", "__dict__"):
            raise RuntimeError(MARK)
        return super().__getattribute__(name)


class EvilDict(dict[str, object]):
    def get(self, *_: object) -> Any:  # type: ignore[override]
        raise KeyboardInterrupt(MARK)


def status_with(**fields: object) -> RemoteStatus:
    error = RemoteStatus(503)
    for name, value in fields.items():
        setattr(error, name, value)
    return error


def evil_status() -> RemoteStatus:
    error = RemoteStatus(429)
    error.__dict__ = EvilDict(error.__dict__)
    return error


def rejected_with(words: object) -> ToolRejected:
    error = ToolRejected()
    error.args = (words,)
    return error


def from_a_cause() -> BaseException:
    try:
        try:
            raise RuntimeError(MARK)
        except RuntimeError as inner:
            raise ToolRejected("fine") from inner
    except ToolRejected as error:
        return error


RAISED: dict[str, Callable[[type[BaseException]], BaseException]] = {
    "error": lambda kind: kind(MARK),
    "lying rejection": LyingError,
    "rejection with a cause": lambda kind: from_a_cause(),
    "rejection in hostile words": lambda kind: rejected_with(hostile_text(kind)),
    "rejection in no words": lambda kind: rejected_with(hostile_object(kind)),
    "status of a giant": lambda kind: status_with(status=10**5000),
    "negative status": lambda kind: status_with(status=-1),
    "status of no number": lambda kind: status_with(status=hostile_object(kind)),
    "status with a hostile wait": lambda kind: status_with(retry_after=hostile_text(kind, "1")),
    "status in an evil dict": lambda kind: evil_status(),
    "group": lambda kind: BaseExceptionGroup(MARK, [kind(MARK)]),
    "hostile class": lambda kind: type(
        "Error", (Exception,), {"__str__": lambda self: MARK, "__repr__": lambda self: MARK, "__module__": "builtins"}
    )(MARK),
}  # fmt: skip


@pytest.mark.req("B134", "B139", "B201", "B202", "B138")
@pytest.mark.case("M01")
@pytest.mark.parametrize("kind", [RuntimeError, asyncio.CancelledError, KeyboardInterrupt, SystemExit, Custom])
@pytest.mark.parametrize("isolation", ["loop", "thread"])
@pytest.mark.parametrize("name", RAISED)
async def test_whatever_a_handler_raises_ends_closed_and_without_its_text(
    open_world: OpenWorld,
    caplog: pytest.LogCaptureFixture,
    name: str,
    isolation: str,
    kind: type[BaseException],
) -> None:
    async def in_loop() -> str:
        raise RAISED[name](kind)

    def in_thread() -> str:
        raise RAISED[name](kind)

    handler = in_loop if isolation == "loop" else in_thread
    tool = placet.tool(effect="write", risk="medium", permission=SCOPE, name="act", timeout_seconds=5)(handler)
    world = await open_world(tool)

    outcome = await world.submit("act")

    assert type(outcome) in (Unknown, Failed)
    assert world.words() == ["started", "error"]
    assert (await world.effect()).state in (EffectState.UNKNOWN, EffectState.FAILED)
    assert_quiet(world, outcome, caplog)


@pytest.mark.req("B128", "B130", "B133", "B138")
@pytest.mark.parametrize("kind", [RuntimeError, asyncio.CancelledError, SystemExit])
@pytest.mark.parametrize("make", [hostile_object, hostile_mapping, hostile_text, lambda kind: {Key(kind, "a"): 1}])
@pytest.mark.parametrize("hint", [dict[str, object], str, object, list[int], bool, int])
async def test_a_hostile_result_leaves_the_effect_committed_and_nothing_of_itself(
    open_world: OpenWorld,
    caplog: pytest.LogCaptureFixture,
    make: Callable[[type[BaseException]], object],
    hint: Any,
    kind: type[BaseException],
) -> None:
    async def act(): ...  # type: ignore[no-untyped-def]

    async def really() -> Any:
        return make(kind)

    really.__annotations__ = {"return": hint}
    tool = placet.tool(effect="write", risk="medium", permission=SCOPE, name="act")(really)
    world = await open_world(tool)

    outcome = await world.submit("act")

    assert isinstance(outcome, Succeeded)
    assert (await world.effect()).state is EffectState.COMMITTED
    assert world.words() == ["started", "success"]
    if outcome.result_unavailable is None:
        assert (hint, outcome.result) in ((str, "look"), (object, "look"))
    assert_quiet(world, outcome, caplog)


@pytest.mark.req("B109", "B138")
async def test_a_handler_that_poisons_its_arguments_poisons_nothing_else(
    open_world: OpenWorld, caplog: pytest.LogCaptureFixture
) -> None:
    async def act(words: list[str]) -> str:
        words.clear()
        words.append(hostile_text(RuntimeError))
        words.append(words)  # type: ignore[arg-type]
        raise ConnectionError(MARK)

    tool = placet.tool(effect="idempotent_write", risk="medium", permission=SCOPE, retry=RetryPolicy(max_attempts=2))(
        act
    )
    world = await open_world(tool)

    outcome = await world.submit("act", {"words": ["a"]})

    assert world.words() == ["started", "error"] * 2
    assert_quiet(world, outcome, caplog)


# ---------------------------------------------------------------- clocks


class FailingClock(FakeClock):
    """Works until it is told not to."""

    def __init__(self, fault: Callable[[], Any], *, of: str) -> None:
        super().__init__()
        self._fault = fault
        self._of = of
        self.fails = False

    def now(self) -> datetime:
        return self._fault() if self.fails and self._of in ("now", "both") else super().now()  # type: ignore[no-any-return]

    def monotonic(self) -> float:
        return self._fault() if self.fails and self._of in ("monotonic", "both") else super().monotonic()  # type: ignore[no-any-return]

    async def sleep(self, seconds: float) -> None:
        if self.fails:
            self._fault()
        await super().sleep(seconds)


class HostileZone(tzinfo):
    def utcoffset(self, when: datetime | None) -> timedelta:
        raise RuntimeError(MARK)


class DateChild(datetime):
    def astimezone(self, tz: tzinfo | None = None) -> Any:  # type: ignore[override]
        raise RuntimeError(MARK)


def raises(kind: type[BaseException]) -> Callable[[], Any]:
    def fault() -> Any:
        raise kind(MARK)

    return fault


CLOCK_FAULTS: dict[str, tuple[str, Callable[[], Any]]] = {
    "now raises": ("now", raises(RuntimeError)),
    "now cancels": ("now", raises(asyncio.CancelledError)),
    "now exits": ("now", raises(SystemExit)),
    "now is naive": ("now", lambda: datetime(2026, 1, 1)),
    "now is text": ("now", lambda: "2026-01-01T00:00:00Z"),
    "now is nothing": ("now", lambda: None),
    "now has a hostile zone": ("now", lambda: datetime(2026, 1, 1, tzinfo=HostileZone())),
    "now is a subclass": ("now", lambda: DateChild(2026, 1, 1, tzinfo=UTC)),
    "monotonic raises": ("monotonic", raises(RuntimeError)),
    "monotonic cancels": ("monotonic", raises(asyncio.CancelledError)),
    "monotonic is nan": ("monotonic", lambda: float("nan")),
    "monotonic is text": ("monotonic", lambda: "1"),
    "both raise": ("both", raises(RuntimeError)),
}  # fmt: skip


@pytest.mark.req("B049", "B054", "B069")
@pytest.mark.parametrize("tool", ["look", "write", "asked", "nope"])
@pytest.mark.parametrize("name", CLOCK_FAULTS)
async def test_a_failing_clock_refuses_and_leaves_closed_pairs(
    open_world: OpenWorld, spy: Spy, caplog: pytest.LogCaptureFixture, where: str, name: str, tool: str
) -> None:
    of, fault = CLOCK_FAULTS[name]
    clock = FailingClock(fault, of=of)
    world = await open_world(
        looked_up(spy), written(spy), written(spy, name="asked", approval="always"), store=where, clock=clock
    )
    clock.fails = True

    outcome = await asyncio.wait_for(world.submit(tool, {"word": "x"}), 5)
    clock.fails = False

    assert not outcome.is_success
    assert not outcome.may_have_acted
    assert (spy.count, len(await world.effects())) == (0, int(spy.count > 0)) or (
        (await world.effect()).state is EffectState.FAILED
    )
    assert spy.count == 0
    assert world.words()[0] == "started"
    assert len(world.words()) == 2
    assert_quiet(world, outcome, caplog)


@pytest.mark.req("B069", "B114")
@pytest.mark.parametrize("name", CLOCK_FAULTS)
@pytest.mark.parametrize("ends", ["returns", "raises", "asks for a pause"])
async def test_a_clock_that_fails_while_the_handler_runs_never_hides_that_it_ran(
    open_world: OpenWorld, caplog: pytest.LogCaptureFixture, where: str, name: str, ends: str
) -> None:
    of, fault = CLOCK_FAULTS[name]
    clock = FailingClock(fault, of=of)

    async def act() -> str:
        clock.fails = True
        if ends == "raises":
            raise ConnectionError(MARK)
        if ends == "asks for a pause":
            raise RemoteStatus(429, retry_after="Thu, 01 Jan 2026 00:00:05 GMT")
        return "done"

    tool = placet.tool(effect="idempotent_write", risk="medium", permission=SCOPE, name="act")(act)
    world = await open_world(tool, store=where, clock=clock)

    outcome = await asyncio.wait_for(world.submit("act"), 5)
    clock.fails = False
    if (await world.effect()).state is EffectState.DISPATCHED:  # it could not be settled: recovery closes the pair
        clock.advance(60)
        await world.gate.reconciler.recover()

    assert outcome.may_have_acted or (type(outcome), ends) == (Failed, "asks for a pause")
    assert world.words()[0] == "started"
    assert len(world.words()) == 2
    assert_quiet(world, outcome, caplog)


# ---------------------------------------------------------------- a canary in every input


@pytest.mark.req("B121", "C052", "B202", "B064", "B176")
@pytest.mark.case("M02", "M01")
async def test_a_secret_in_every_input_is_in_no_output_but_the_result(
    open_world: OpenWorld, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str], where: str
) -> None:
    import io

    canary = "CANARY-7f3a91"
    stream = io.StringIO()
    caplog.set_level(logging.DEBUG)
    configure(stream, logging.DEBUG)
    registry = CollectorRegistry()

    @placet.tool(effect="write", risk="medium", permission=SCOPE, operation_key="k:{secret}", resource="r:{secret}")
    async def keyed(secret: str) -> dict[str, str]:
        return {"token": secret}

    @placet.tool(effect="write", risk="medium", permission=SCOPE, approval="always")
    async def asked(secret: str) -> str:
        return secret

    @placet.tool(effect="idempotent_write", risk="medium", permission=SCOPE)
    async def raising(secret: str) -> str:
        raise RuntimeError(f"login failed for {secret}")

    @placet.tool(effect="read")
    def threaded(secret: str) -> str:
        raise SystemExit(secret)

    @placet.tool(effect="read")
    async def broken(secret: str) -> int:
        return secret  # type: ignore[return-value]

    @placet.tool(effect="read", timeout_seconds=0.005, retry=RetryPolicy(max_attempts=1))
    async def slow(secret: str) -> str:
        await asyncio.sleep(60)
        return secret

    from placet import LogSink

    world = await open_world(
        keyed, asked, raising, threaded, broken, slow, store=where, metrics=registry, sinks=(LogSink(),)
    )
    results: list[Any] = []
    others: list[Any] = []
    arguments = {"secret": canary}
    results.append(await world.submit("keyed", arguments, call_id="c1"))
    results.append(await world.submit("keyed", arguments, call_id="c2"))
    waiting = await world.submit("asked", arguments, call_id="c3", request_id="q1")
    others.append(waiting)
    await world.approve(waiting)
    results.append(await world.submit("asked", arguments, call_id="c3"))
    denied = await world.submit("asked", {"secret": canary + "2"}, call_id="c4")
    await world.deny(denied, reason="nothing secret")
    others.append(await world.submit("asked", {"secret": canary + "2"}, call_id="c4"))
    for index, name in enumerate(("raising", "threaded", "broken", "slow")):
        others.append(await world.submit(name, arguments, call_id=f"d{index}"))
    others.append(await world.submit("keyed", {"secret": [canary]}, call_id="e1"))
    others.append(await world.submit("keyed", f'{{"secret": "{canary}"', call_id="e2"))
    others.append(await world.submit("keyed", {"secret": canary, "n": canary}, call_id="e3"))
    others.append(await world.submit(canary, arguments, call_id="e4"))
    others.append(
        await world.gate.submit(
            {"call_id": f"/{canary}", "tool": "keyed", "arguments": {}}, principal=OPERATOR, run="r1"
        )
    )
    others.append(
        await world.gate.submit(
            {"call_id": "e5", "tool": "keyed", "arguments": {}, "version": canary}, principal=OPERATOR, run="r1"
        )
    )
    others.append(await world.submit("keyed", {"secret": "other"}, call_id="e6", idempotency_key=canary))
    others.append(await world.submit("raising", arguments, call_id="e7", idempotency_key=canary))
    await asyncio.sleep(0.01)

    assert [canary in str(result.unwrap()) for result in results] == [True] * 3
    assert all(canary not in f"{result.message}{result.code}" for result in results)
    for outcome in others:
        shown = outcome.as_data()
        assert canary not in str(shown), shown
        if not outcome.is_success:
            with pytest.raises(placet.PlacetError) as caught:
                outcome.unwrap()
            assert canary not in chain(caught.value)
    assert canary.encode() not in world.bodies()
    assert canary.encode() not in generate_latest(registry)
    assert canary not in caplog.text
    assert stream.getvalue()
    assert canary not in stream.getvalue()
    told = capsys.readouterr()
    assert canary not in told.out + told.err


async def test_the_faults_of_our_own_code_are_logged_without_foreign_text(
    open_world: OpenWorld, spy: Spy, caplog: pytest.LogCaptureFixture
) -> None:
    class Meter:
        def __getattr__(self, name: str) -> Any:
            raise RuntimeError(MARK)

    world = await open_world(looked_up(spy), written(spy))
    gate: Any = world.gate
    gate._path._meter = Meter()  # a fault nobody foresaw, deep inside

    outcome = await world.submit("write", {"word": "x"})

    assert (type(outcome), outcome.code, spy.count) == (Refused, "boundary_unavailable", 0)
    assert outcome.reasons == ("internal_fault",)
    assert world.words() == ["started", "denied"]
    (record,) = [record for record in caplog.records if record.name == "placet.gate"]
    assert record.__dict__["error_type"] == "RuntimeError"
    assert record.__dict__["places"][-1].startswith("test_hostile.py:")
    assert_quiet(world, outcome, caplog)


def test_the_iterators_of_this_module_stay_quiet() -> None:
    """The hostile objects do raise; a test that never triggers them would prove nothing."""
    for kind in KINDS:
        with pytest.raises(kind):
            hash(hostile_text(kind))
        with pytest.raises(kind):
            iter(hostile_mapping(kind)).__next__()
        with pytest.raises(kind):
            len({Key(kind, "a"): 1, "a": 2})
    assert isinstance(iter([]), Iterator)

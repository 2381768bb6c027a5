"""The transport of Python functions by itself: reports, probes, and the threads that do not come back."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from datetime import UTC, datetime
from itertools import accumulate
from typing import Any

import pytest
from pydantic import BaseModel, field_validator

import placet
from placet import Absent, CallContext, CannotTell, Found, NotSent, Principal, ProbeContext, RemoteStatus, Tool
from placet.adapters.transports.python import MAX_STRAY_LOOKS, MAX_STRAY_THREADS, MAX_STRAYS_OF_ALL, PythonTransport
from placet.errors import ToolRejected
from placet.model.attempt import Answered, CallerLeft, DeadlinePassed, Raised, Rejected, Report, Returned, Unsent
from placet.model.call import Call
from placet.model.context import Seen
from placet.testing import RecordingMeter

AGENT = Principal.agent("agent", tenant="acme")


def made(handler: Any, **options: Any) -> Tool:
    settings: dict[str, Any] = {"effect": "write", "risk": "low", "permission": "p", "name": "act"}
    return placet.tool(**(settings | options))(handler)


def context() -> CallContext:
    return CallContext(
        tenant="acme", principal=AGENT, run_id="r", call_id="c", operation_key="k", attempt=1,
        deadline_at=datetime(2026, 1, 1, tzinfo=UTC), _remaining=lambda: 1.0, _guard=lambda: None,
    )  # type: ignore[arg-type]  # fmt: skip


def call_of(tool: Tool, canonical: bytes = b"{}") -> Call:
    return Call(
        contract=tool.contract, principal=AGENT, request_id="q", run_id="r", call_id="c", reply_to="c",
        first_attempt=1, arguments={}, canonical_arguments=canonical, argument_digest="d", fingerprint="f",
        operation_key="k", resource=None, is_recorded=True,
    )  # type: ignore[arg-type]  # fmt: skip


class Bench:
    def __init__(self, *tools: Tool) -> None:
        self.meter = RecordingMeter()
        self.late: list[Report] = []
        self._tools = {tool.contract.name: tool for tool in tools}
        self.transport = PythonTransport(self._tools, meter=self.meter, grace_seconds=0.02)

    async def attempt(self, name: str = "act", canonical: bytes = b"{}", *, seconds: float = 1.0) -> Report:
        call = call_of(self._tools[name], canonical)
        return await self.transport.attempt(call, context(), timeout_seconds=seconds, when_late=self.late.append)

    def strays(self) -> list[Any]:
        """How many there were after each that was told."""
        changes = [said["change"] for name, said in self.meter.heard if name == "strays" and said["tool"] == "act"]
        return list(accumulate(changes))


def raising(error: BaseException) -> Any:
    async def act() -> str:
        raise error

    return act


@pytest.mark.req("B102", "B134", "C027")
@pytest.mark.parametrize(
    ("error", "report"),
    [
        (ToolRejected("no"), Rejected(message="no")),
        (NotSent("x"), Unsent(is_handlers_word=True)),
        (RemoteStatus(503, retry_after="7"), Answered(status=503, retry_after="7")),
        (RemoteStatus(404), Answered(status=404, retry_after=None)),
        (TimeoutError("s3cr3t"), Raised(error_type="TimeoutError")),
        (ConnectionRefusedError("s3cr3t"), Raised(error_type="ConnectionRefusedError")),
        (ValueError("s3cr3t"), Raised(error_type="ValueError")),
        (KeyboardInterrupt("s3cr3t"), Raised(error_type="KeyboardInterrupt")),
        (type("Mine", (ConnectionError,), {})("x"), Raised(error_type="untrusted_exception")),
        (type("Mine", (ToolRejected,), {})("no"), Rejected(message="no")),
        (type("Mine", (NotSent,), {})("no"), Unsent(is_handlers_word=True)),
        (type("Mine", (RemoteStatus,), {})(503), Raised(error_type="untrusted_exception")),
    ],
)
async def test_what_a_handler_raises_becomes_a_report(error: BaseException, report: Report) -> None:
    assert await Bench(made(raising(error))).attempt() == report


async def test_what_a_handler_returns_is_handed_on_unchecked() -> None:
    value = object()

    async def act() -> str:
        return value  # type: ignore[return-value]

    def plain() -> str:
        return value  # type: ignore[return-value]

    bench = Bench(made(act), made(plain, name="plain"))
    assert await bench.attempt() == Returned(value=value)
    assert await bench.attempt("plain") == Returned(value=value)


class Moody(BaseModel):
    word: str

    @field_validator("word")
    @classmethod
    def refuse(cls, value: str) -> str:
        raise KeyboardInterrupt("s3cr3t")


async def test_a_stored_call_that_no_longer_fits_the_code_is_not_sent() -> None:
    ran = []

    async def act(word: int) -> str:
        ran.append(word)
        return ""

    async def moody(arguments: Moody) -> str:
        ran.append(arguments)
        return ""

    bench = Bench(made(act), made(moody, name="moody"))
    assert await bench.attempt("act", b'{"word":"x"}') == Unsent()
    assert await bench.attempt("act", b"not json") == Unsent()
    assert await bench.attempt("moody", b'{"word":"x"}') == Unsent()
    assert ran == []


async def test_a_coroutine_is_cancelled_at_its_deadline_and_has_ended() -> None:
    ended = []

    async def act() -> str:
        try:
            await asyncio.sleep(60)
        finally:
            ended.append(1)
        return ""

    bench = Bench(made(act))
    assert await bench.attempt(seconds=0.01) == DeadlinePassed(has_ended=True)
    assert (ended, bench.late, bench.strays()) == ([1], [], [])


async def test_a_coroutine_that_swallows_its_cancellation_and_returns_is_late() -> None:
    async def act() -> str:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            return "late"
        return ""

    report = await Bench(made(act)).attempt(seconds=0.01)

    assert report == DeadlinePassed(has_ended=True, late=Returned(value="late"))


@pytest.mark.case("I03")
async def test_a_coroutine_that_will_not_end_is_counted_heard_later_and_then_forgotten() -> None:
    end = asyncio.Event()

    async def act() -> str:
        while not end.is_set():
            try:
                await end.wait()
            except asyncio.CancelledError:
                continue
        return "late"

    bench = Bench(made(act))
    assert await bench.attempt(seconds=0.01) == DeadlinePassed(has_ended=False)
    assert bench.strays() == [1]
    end.set()
    for _ in range(5):
        await asyncio.sleep(0)

    assert (bench.late, bench.strays()) == ([Returned(value="late")], [1, 0])


@pytest.mark.req("C032")
async def test_threads_past_their_deadline_fill_the_room_and_free_it_when_they_end() -> None:
    end = threading.Event()

    def act() -> str:
        end.wait(60)
        return "late"

    bench = Bench(made(act))
    for number in range(1, MAX_STRAY_THREADS + 1):
        assert bench.transport.has_room("act")
        assert await bench.attempt(seconds=0.005) == DeadlinePassed(has_ended=False)
        assert bench.strays()[-1] == number
    assert not bench.transport.has_room("act")
    end.set()
    async with asyncio.timeout(60):
        while not bench.transport.has_room("act") or len(bench.late) < MAX_STRAY_THREADS:
            await asyncio.sleep(0.002)

    assert bench.late == [Returned(value="late")] * MAX_STRAY_THREADS
    assert bench.strays()[-1] == 0


async def test_a_cancelled_caller_is_owed_its_cancellation() -> None:
    began = asyncio.Event()

    async def act() -> str:
        began.set()
        await asyncio.sleep(60)
        return ""

    bench = Bench(made(act))
    reports: list[Report] = []

    async def caller() -> None:
        reports.append(await bench.attempt(seconds=60))
        await asyncio.sleep(0)

    task = asyncio.create_task(caller())
    await began.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert reports == [CallerLeft(has_ended=True)]


async def test_a_function_that_returns_an_unawaited_coroutine_has_raised() -> None:
    async def inner() -> str:
        return "done"

    def wrapped() -> str:
        return inner()  # type: ignore[return-value]

    async def twice() -> str:
        return inner()  # type: ignore[return-value]

    bench = Bench(made(wrapped), made(twice, name="twice"))
    fault = Raised(error_type="TypeError")
    assert [await bench.attempt("act"), await bench.attempt("twice")] == [fault, fault]


# ---------------------------------------------------------------- probes

PROBE = ProbeContext(tenant="acme", operation_key="k", arguments={})  # type: ignore[arg-type]


def answering(answer: Any) -> Any:
    async def probe(context: ProbeContext) -> Any:
        if isinstance(answer, BaseException):
            raise answer
        return answer

    return probe


async def write() -> str:
    return ""


@pytest.mark.req("H045")
@pytest.mark.parametrize(
    ("answer", "heard"),
    [
        (Found(result={"a": 1}, external_reference="T-1"), Found(result={"a": 1}, external_reference="T-1")),
        (Absent(), Absent()),
        (CannotTell(), CannotTell()),
        (None, CannotTell()),
        (True, CannotTell()),
        ("absent", CannotTell()),
        (Absent, CannotTell()),
        (RuntimeError("s3cr3t"), CannotTell()),
        (asyncio.CancelledError(), CannotTell()),
        (SystemExit(), CannotTell()),
    ],
)
async def test_only_a_plain_answer_of_a_probe_counts(answer: Any, heard: Any) -> None:
    bench = Bench(made(write, probe=answering(answer)))

    assert await bench.transport.probe("act", PROBE, timeout_seconds=1) == heard


async def test_a_tool_without_a_probe_a_gone_tool_and_a_slow_probe_cannot_tell() -> None:
    async def slow(context: ProbeContext) -> Any:
        await asyncio.sleep(60)
        return Absent()

    bench = Bench(made(write), made(write, name="slow", probe=slow))

    assert await bench.transport.probe("act", PROBE, timeout_seconds=1) == CannotTell()
    assert await bench.transport.probe("gone", PROBE, timeout_seconds=1) == CannotTell()
    assert await bench.transport.probe("slow", PROBE, timeout_seconds=0.01) == CannotTell()


async def test_a_plain_function_may_probe_too() -> None:
    def probe(context: ProbeContext) -> Any:
        return Found(result=context.operation_key)

    assert await Bench(made(write, probe=probe)).transport.probe("act", PROBE, timeout_seconds=1) == Found(result="k")


async def test_looks_at_a_state_that_never_end_keep_no_probe_from_looking() -> None:
    """Whoever proposes has them begun; an unknown effect waits for the probe."""
    stays = asyncio.Event()

    async def hangs(context: ProbeContext) -> Any:
        while not stays.is_set():
            with suppress(asyncio.CancelledError):
                await stays.wait()

    async def probe(context: ProbeContext) -> Any:
        return Found(result=context.operation_key)

    transport = Bench(made(write, approval="always", precondition=hangs, probe=probe)).transport
    try:
        for _ in range(MAX_STRAY_LOOKS + 1):
            assert await transport.precondition("act", PROBE, timeout_seconds=0.001) == CannotTell()
        assert await transport.probe("act", PROBE, timeout_seconds=1) == Found(result="k")
    finally:
        stays.set()


async def test_a_tenants_looks_at_a_state_that_never_end_are_its_own_trouble_up_to_a_bound() -> None:
    stays, begun = asyncio.Event(), 0

    async def look(context: ProbeContext) -> Any:
        nonlocal begun
        begun += 1
        while context.tenant != "quiet" and not stays.is_set():
            with suppress(asyncio.CancelledError):
                await stays.wait()
        return 12

    transport = Bench(made(write, approval="always", precondition=look)).transport

    async def seen(tenant: str) -> Any:
        asked = ProbeContext(tenant=tenant, operation_key=PROBE.operation_key, arguments={})
        return await transport.precondition("act", asked, timeout_seconds=0.001 if tenant != "quiet" else 30.0)

    try:
        for _ in range(MAX_STRAY_LOOKS + 3):
            assert await seen("loud") == CannotTell()
        assert begun == MAX_STRAY_LOOKS
        assert await seen("quiet") == Seen(state=12)
        for number in range(MAX_STRAYS_OF_ALL):
            assert await seen(f"loud-{number}") == CannotTell()
        assert begun == MAX_STRAYS_OF_ALL + 1
        assert await seen("quiet") == CannotTell()
    finally:
        stays.set()
    async with asyncio.timeout(30):
        while await seen("quiet") != Seen(state=12):
            await asyncio.sleep(0)

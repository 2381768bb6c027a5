"""The transport of processes by itself: real interpreters that answer, die, lie, hide and will not end.

a child                                     and the attempt is
------------------------------------------  ---------------------------------------------------
returns, rejects, answers, raises           what it says, checked again
raises hostile things, returns no JSON      a safe name; a broken result
dies: exit, signal, abort, OOM (= SIGKILL)  raised process_died
prints, closes its pipes, reuses them       not disturbed; process_died; nothing written elsewhere
writes without end, claims gigabytes        raised process_noise, and killed
forges a second word                        raised process_noise
ignores every signal, swallows, holds GIL   killed at its deadline
stops its warden                            killed at its deadline
kills its warden                            not known to have ended
leaves children, groups, daemons            those are killed too
cannot be started, found, or has changed    unsent
imports forever, exits at import            unsent
is slow to start                            unsent after the deadline
loses its caller                            killed; unsent if it was not called
loses its gate, or its gate stands still    killed (tests/kill_points/test_process.py)
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import signal
import socket
import sys
import textwrap
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from importlib import import_module, invalidate_caches
from pathlib import Path
from typing import Any

import pytest

import placet
from placet import CallContext, Principal, Tool
from placet.adapters.clock import SystemClock
from placet.adapters.transports import wire
from placet.adapters.transports.by_isolation import TransportByIsolation
from placet.adapters.transports.child import Child, Silence, Word
from placet.adapters.transports.crossing import order_of
from placet.adapters.transports.places import place_of
from placet.adapters.transports.process import MAX_STUCK, ProcessTransport
from placet.adapters.transports.python import PythonTransport
from placet.adapters.transports.wire import Fact, steady_seconds
from placet.errors import ContractError, InvalidArguments, MisuseError
from placet.model.attempt import (
    Answered,
    BrokenResult,
    CallerLeft,
    DeadlinePassed,
    Raised,
    Rejected,
    Report,
    Returned,
    Unsent,
)
from placet.model.call import Call
from placet.testing import RecordingMeter
from tests.adapters import process_tools
from tests.processes import children_of, command_of, is_gone

LONG = 30.0
AGENT = Principal.agent(
    "agent", tenant="acme", roles=("operator",), scopes=("p",), environment="staging",
    on_behalf_of=Principal.person("mara", tenant="acme", environment="staging"),
)  # fmt: skip
ALL = tuple(process_tools.TOOLS)


def context(*, steady: float = LONG, wall: float = LONG) -> CallContext:
    return CallContext(
        tenant="acme", principal=AGENT, run_id="r", call_id="c", operation_key="k", attempt=2,
        deadline_at=datetime.now(UTC) + timedelta(seconds=wall), _remaining=lambda: steady, _guard=lambda: None,
    )  # type: ignore[arg-type]  # fmt: skip


def call_of(tool: Tool, arguments: dict[str, object]) -> Call:
    return Call(
        contract=tool.contract, principal=AGENT, request_id="q", run_id="r", call_id="c", reply_to="c",
        first_attempt=1, arguments=arguments, canonical_arguments=json.dumps(arguments).encode(), argument_digest="d",
        fingerprint="f", operation_key="k", resource=None, is_recorded=True,
    )  # type: ignore[arg-type]  # fmt: skip


class Bench:
    """A transport, and what a test asks of it."""

    def __init__(self, tools: tuple[Tool, ...] = ALL, *, spares: int = 0) -> None:
        self.meter = RecordingMeter()
        self.late: list[Report] = []
        self._tools = {tool.contract.name: tool for tool in tools}
        self.transport = ProcessTransport(
            tools, meter=self.meter, clock=SystemClock(), grace_seconds=0.05, spare_processes=spares
        )

    async def attempt(
        self, tool: Tool, *, seconds: float = LONG, within: CallContext | None = None, **arguments: object
    ) -> Report:
        return await self.transport.attempt(
            call_of(tool, arguments), within or context(), timeout_seconds=seconds, when_late=self.late.append
        )

    async def result(self, tool: Tool, **arguments: object) -> Any:
        report = await self.attempt(tool, **arguments)
        assert type(report) is Returned, report
        return report.value

    def cut_short(self) -> list[object]:
        return [said["reason"] for name, said in self.meter.heard if name == "process_cut_short"]

    def of_tools(self) -> set[object]:
        return {said["tool"] for name, said in self.meter.heard if name == "process_cut_short"}


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    one = Bench()
    yield one
    await one.transport.close()
    assert children() == [], "a child was left, or not waited for"


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What operators who see messages alone are told, and all of it is a warning with the same names as fields."""
    records = [record for record in caplog.records if record.name == "placet.process"]
    for record in records:
        assert record.levelname == "WARNING"
        assert record.__dict__["tool"] in record.getMessage()
    return [record.getMessage() for record in records]


def children() -> list[int]:
    """Every child of this process that lives or was not waited for, but for those of other tests' fork servers."""
    commands = {child: command_of(child) for child in children_of(os.getpid())}
    return [
        child for child, command in commands.items() if b"placet.adapters.transports.warden" in command or not command
    ]


async def told(folder: Path) -> dict[str, Any]:
    """What a handler left word of, as soon as it has."""
    path = folder / "told.json"
    async with asyncio.timeout(30):
        while not path.exists():
            await asyncio.sleep(0.01)
    facts: dict[str, Any] = json.loads(path.read_text())
    return facts


# ---------------------------------------------------------------- what crosses


@pytest.mark.parametrize("tool", [process_tools.plain, process_tools.coroutine])
async def test_a_handler_runs_in_another_process_each_time(bench: Bench, tool: Tool) -> None:
    first = await bench.result(tool, word="añ☃\U0001f40d")
    second = await bench.result(tool, word="b")

    assert (first["word"], second["word"]) == ("añ☃\U0001f40d", "b")
    assert len({first["pid"], second["pid"], os.getpid()}) == 3
    assert bench.cut_short() == []


@pytest.mark.case("C04")
async def test_the_context_crosses_whole_and_the_ambient_one_raises_instead_of_defaulting(bench: Bench) -> None:
    given = context()
    process_tools.AMBIENT.set("mine")

    report = await bench.attempt(process_tools.context_seen, within=given)

    assert report == Returned(
        value={
            "tenant": "acme", "subject": "agent", "roles": ["operator"], "scopes": ["p"], "environment": "staging",
            "standing": "agent", "giver": "mara", "run_id": "r", "call_id": "c", "operation_key": "k", "attempt": 2,
            "deadline_at": given.deadline_at.isoformat(), "has_time": True,
        }
    )  # fmt: skip
    assert await bench.attempt(process_tools.ambient) == Raised(error_type="LookupError")


async def test_values_cross_exactly(bench: Bench) -> None:
    order = {"number": 2**70, "price": 1.0, "names": ["a", "\u2028", ""]}
    value = (
        await bench.result(process_tools.typed, order=order)
        if False
        else await bench.result(process_tools.typed, **order)
    )

    assert value == order
    assert (type(value["number"]), type(value["price"])) == (int, float)
    assert process_tools.typed.check_result(value)[0] == order


@pytest.mark.req("B102", "B134", "C027", "B152")
@pytest.mark.parametrize(
    ("what", "report"),
    [
        ("rejected", Rejected(message="no \\u{1b} room")),
        ("not_sent", Unsent(is_handlers_word=True)),
        ("status", Answered(status=503, retry_after="7")),
        ("timeout", Raised(error_type="TimeoutError")),
        ("value", Raised(error_type="ValueError")),
        ("interrupt", Raised(error_type="KeyboardInterrupt")),
        ("exit", Raised(error_type="SystemExit")),
        ("cancelled", Raised(error_type="untrusted_exception")),
        ("mine", Raised(error_type="untrusted_exception")),
        ("hostile", Raised(error_type="untrusted_exception")),
    ],
)
async def test_what_a_handler_raises_crosses_as_a_fact(bench: Bench, what: str, report: Report) -> None:
    tools = (process_tools.raising, process_tools.raising_in_loop)
    assert await asyncio.gather(*(bench.attempt(tool, what=what) for tool in tools)) == [report, report]


@pytest.mark.parametrize(
    ("what", "reason"),
    [
        ("object", "result_unsupported_value"),
        ("set", "result_unsupported_value"),
        ("nan", "result_unsupported_value"),
        ("surrogate", "result_lone_surrogate"),
        ("large", "result_too_large"),
        ("huge", "result_too_long"),
        ("one_large", "result_string_too_long"),
        ("callable", "result_broken"),
    ],
)
async def test_a_result_that_breaks_its_contract_stays_where_it_is(bench: Bench, what: str, reason: str) -> None:
    value = await bench.result(process_tools.returning, what=what)

    assert value == BrokenResult(reason=reason)
    with pytest.raises(InvalidArguments) as refusal:
        process_tools.returning.check_result(value)
    assert refusal.value.reason == reason


def test_what_another_process_says_of_a_result_is_a_word_we_know_or_none() -> None:
    with pytest.raises(InvalidArguments) as refusal:
        process_tools.returning.check_result(BrokenResult(reason="result_s3cr3t"))
    assert refusal.value.reason == "result_broken"


# ---------------------------------------------------------------- ways to die


@pytest.mark.parametrize("how", ["exit_0", "exit_3", "killed", "group_killed", "segfault", "abort"])
async def test_a_handler_whose_process_dies_has_raised(
    bench: Bench, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert await bench.attempt(process_tools.dying, how=how) == Raised(error_type="process_died")
    assert (bench.cut_short(), bench.of_tools()) == (["died"], {"dying"})
    assert said(caplog) == ["a process handler of dying was cut short: died"]


@contextmanager
def standard_input(text: bytes) -> Iterator[None]:
    reads, writes = os.pipe()
    os.write(writes, text)
    os.close(writes)
    before = os.dup(0)
    os.dup2(reads, 0)
    os.close(reads)
    try:
        yield
    finally:
        os.dup2(before, 0)
        os.close(before)


async def test_what_a_handler_prints_goes_nowhere_and_it_reads_nothing(
    bench: Bench, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    with standard_input(b"s3cr3t"):
        assert await bench.result(process_tools.noisy) == "said", "it read what the program was to read"
    printed = capfd.readouterr()
    assert (printed.out, printed.err, caplog.text) == ("", "", "")


async def test_a_handler_that_closed_the_way_back_has_not_answered(bench: Bench, tmp_path: Path) -> None:
    silent = Raised(error_type="process_died")

    assert await bench.attempt(process_tools.closing_pipes) == silent
    assert await bench.attempt(process_tools.closing_pipes_then_writing, folder=str(tmp_path)) == silent
    assert (tmp_path / "mine").read_bytes() == b"", "the answer was written into the handler's own file"


@pytest.mark.parametrize(("tool", "arguments"), [
    (process_tools.endless, {}),
    (process_tools.claiming, {"how": "size"}),
    (process_tools.claiming, {"how": "note"}),
    (process_tools.claiming, {"how": "again"}),
])  # fmt: skip
async def test_what_is_no_fact_ends_the_attempt_at_once(
    bench: Bench, tool: Tool, arguments: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    assert await bench.attempt(tool, **arguments) == Raised(error_type="process_noise")
    assert bench.cut_short() == ["noise"]
    assert said(caplog) == [f"a process handler of {tool.contract.name} was cut short: noise"]


@pytest.mark.req("B134", "B152")
@pytest.mark.parametrize(
    ("what", "report"),
    [
        ("name", Raised(error_type="untrusted_exception")),
        ("words", Rejected(message="no \\u{1b} room \ufffd")),
        ("status", Raised(error_type="process_noise")),
        ("header", Raised(error_type="process_noise")),
        ("text", Raised(error_type="process_noise")),
        ("deep", Raised(error_type="process_noise")),
        ("result", Returned(value=BrokenResult(reason="result_broken"))),
        ("twice", Returned(value=BrokenResult(reason="result_broken"))),
        ("reason", Returned(value=BrokenResult(reason="result_s3cr3t"))),
    ],
)
async def test_a_fact_that_is_written_by_hand_says_no_more_than_a_handler_could(
    bench: Bench, what: str, report: Report
) -> None:
    assert await bench.attempt(process_tools.forging, what=what) == report


@pytest.mark.req("B108")
async def test_a_handler_that_will_not_end_is_killed_at_its_deadline(bench: Bench, tmp_path: Path) -> None:
    async def killed(tool: Tool) -> Report:
        folder = tmp_path / tool.contract.name
        folder.mkdir()
        running = asyncio.ensure_future(bench.attempt(tool, seconds=6.0, folder=str(folder)))
        handler = await told(folder)
        assert not is_gone(handler["pid"])
        report = await running
        assert (is_gone(handler["pid"]), is_gone(handler["warden"])) == (True, True)
        return report

    stubborn = (
        process_tools.deaf,
        process_tools.swallowing,
        process_tools.holding_the_interpreter,
        process_tools.stopping_its_warden,
    )
    assert await asyncio.gather(*map(killed, stubborn)) == [DeadlinePassed(has_ended=True)] * 4
    assert (bench.cut_short(), bench.late) == (["deadline"] * 4, [])


async def test_a_handler_that_killed_its_warden_dies_and_is_not_said_to_have_ended(
    bench: Bench, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert await bench.attempt(process_tools.killing_its_warden, folder=str(tmp_path)) == DeadlinePassed(
        has_ended=False
    )
    assert bench.cut_short() == ["died"], "it lived on until its deadline"
    assert said(caplog) == ["a process handler of killing_its_warden was cut short: died"]
    handler = await told(tmp_path)
    async with asyncio.timeout(LONG):
        while not is_gone(handler["pid"]):
            await asyncio.sleep(0.005)


@pytest.mark.parametrize("ends", [True, False])
async def test_what_a_handler_leaves_behind_ends_with_it(bench: Bench, tmp_path: Path, ends: bool) -> None:
    report = await bench.attempt(
        process_tools.leaving_kin, seconds=LONG if ends else 5.0, folder=str(tmp_path), ends=ends
    )

    kin = (await told(tmp_path))["kin"]
    assert report == (Returned(value="left") if ends else DeadlinePassed(has_ended=True))
    assert [is_gone(pid) for pid in kin] == [True, True, True]


# ---------------------------------------------------------------- the caller


async def test_a_caller_that_leaves_has_its_handler_killed(
    bench: Bench, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    reports: list[Report] = []

    async def caller() -> None:
        reports.append(await bench.attempt(process_tools.deaf, folder=str(tmp_path)))
        await asyncio.sleep(0)

    task = asyncio.create_task(caller())
    handler = await told(tmp_path)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert reports == [CallerLeft(has_ended=True)]
    assert is_gone(handler["pid"])
    assert bench.cut_short() == ["caller_left"]
    assert said(caplog) == ["a process handler of deaf was cut short: caller_left"]


async def test_a_caller_that_leaves_before_the_handler_was_called_knows_that_nothing_was_sent(bench: Bench) -> None:
    reports: list[Report] = []

    async def caller() -> None:
        reports.append(await bench.attempt(process_tools.deaf, folder="/nowhere"))
        await asyncio.sleep(0)

    task = asyncio.create_task(caller())
    while not children():
        await asyncio.sleep(0)
    task.cancel()  # an interpreter takes far longer to start than one turn of the loop
    with pytest.raises(asyncio.CancelledError):
        await task

    assert (reports, bench.cut_short()) == ([Unsent()], ["not_called"])


# ---------------------------------------------------------------- time


async def test_starting_counts_and_a_handler_not_reached_by_the_deadline_was_not_called(bench: Bench) -> None:
    assert await bench.attempt(process_tools.plain, seconds=0.01, word="x") == Unsent()
    assert bench.cut_short() == ["not_called"]


@pytest.mark.parametrize("late", [{"steady": 0.01}, {"wall": 0.01}])
async def test_a_child_looks_at_both_clocks_before_it_calls(
    bench: Bench, late: dict[str, float], caplog: pytest.LogCaptureFixture
) -> None:
    assert await bench.attempt(process_tools.plain, word="x", within=context(**late)) == Unsent()
    (reason,) = [record.reason for record in caplog.records if hasattr(record, "reason")]
    assert reason == "too_late" or (reason == "process_ended" and "steady" in late)  # the warden may be faster


async def test_what_is_too_late_already_starts_nothing(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sys, "executable", "/nonexistent")  # whatever were started would fail, and be told
    assert await bench.attempt(process_tools.plain, word="x", within=context(steady=0.0)) == Unsent()
    assert await bench.attempt(process_tools.plain, word="x", within=context(wall=0.0)) == Unsent()
    assert (children(), caplog.records) == ([], [])


def handed_over(tool: Tool, *, ends_at: float, **arguments: object) -> Child:
    """A child at work for nobody: no transport ends it."""
    order = order_of(call_of(tool, arguments), context(), place_of(tool), clock=SystemClock(), ends_at=ends_at)
    assert order is not None
    child = Child({"modules": []})
    child.hand_over(order, ends_at=ends_at, most_bytes=1)
    return child


async def test_the_guard_refuses_in_the_child_by_the_steady_clock(bench: Bench) -> None:
    # Its warden lets an attempt live a little longer than its limit, so the guard is what speaks here.
    child = handed_over(process_tools.waiting_for_the_end, ends_at=steady_seconds() + 5.0)

    assert await asyncio.wait_for(child.answer, LONG) == Word(fact=Fact.NOT_SENT, payload=wire.GUARDED)
    assert await child.end(within_seconds=LONG)


async def test_the_guard_refuses_in_the_child_by_the_wall_clock(bench: Bench) -> None:
    assert await bench.attempt(process_tools.waiting_for_the_guard, within=context(wall=5.0)) == Unsent()
    assert bench.cut_short() == []


async def test_a_warden_ends_by_itself_what_its_gate_does_not_end(bench: Bench, tmp_path: Path) -> None:
    soon = steady_seconds() + 5.0
    child = handed_over(process_tools.deaf, ends_at=soon, folder=str(tmp_path))
    handler = await told(tmp_path)

    await asyncio.wait_for(child.gone, LONG)

    assert steady_seconds() >= soon
    assert await child.end(within_seconds=LONG)
    assert is_gone(handler["pid"])


async def test_an_attempt_that_its_warden_ended_while_the_gate_stood_still_has_missed_its_deadline(
    bench: Bench, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    running = asyncio.ensure_future(bench.attempt(process_tools.deaf, seconds=5.0, folder=str(tmp_path)))
    handler = await told(tmp_path)
    while not (is_gone(handler["pid"]) and is_gone(handler["warden"])):  # the loop does nothing else meanwhile
        time.sleep(0.01)

    assert await running == DeadlinePassed(has_ended=True)
    assert bench.cut_short() == ["deadline"]
    assert said(caplog) == ["a process handler of deaf was cut short: deadline"]


async def test_a_child_is_ended_before_it_has_said_anything(bench: Bench) -> None:
    child = Child({"modules": ["tests.adapters.process_tools"]})

    assert await child.end(within_seconds=LONG)
    assert (child.was_called, child.answer.result()) == (False, Silence())
    child.forget()


async def test_a_program_that_dies_of_broken_pipes_does_not_die_of_ours(bench: Bench) -> None:
    before = signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    try:
        child = Child({"modules": []})
        os.killpg(child.warden, signal.SIGKILL)
        await asyncio.wait_for(child.gone, LONG)
        child.hand_over({}, ends_at=0.0, most_bytes=1)
        await asyncio.sleep(0)
        await child.end(within_seconds=1.0)
        child.forget()
    finally:
        signal.signal(signal.SIGPIPE, before)


# ---------------------------------------------------------------- spare children


async def test_a_spare_child_waits_serves_one_attempt_and_ends_at_close() -> None:
    bench = Bench(spares=1)
    pids = [(await bench.result(process_tools.plain, word="x"))["pid"] for _ in range(3)]
    (spare,) = children()
    (wardens_child,) = children_of(spare)
    pids.append((await bench.result(process_tools.plain, word="x"))["pid"])

    assert len(set(pids)) == 4
    assert pids[-1] == wardens_child
    (last,) = children()
    await bench.transport.close()
    assert (children(), is_gone(last)) == ([], True)


async def test_a_spare_child_that_died_is_replaced() -> None:
    bench = Bench(spares=1)
    await bench.result(process_tools.plain, word="x")
    (spare,) = children()
    os.killpg(spare, signal.SIGKILL)
    async with asyncio.timeout(30):
        while not is_gone(spare):
            await asyncio.sleep(0.005)

    assert (await bench.result(process_tools.plain, word="y"))["word"] == "y"
    await bench.transport.close()
    assert children() == []


async def test_no_spare_child_is_started_once_the_transport_is_closed(tmp_path: Path) -> None:
    """An attempt that began before the end gets to its refill after it."""
    bench = Bench(spares=1)
    await bench.transport.close()
    assert (await bench.result(process_tools.plain, word="x"))["word"] == "x"
    assert (children(), len(bench.transport._spares)) == ([], 0)


# ---------------------------------------------------------------- what the system does not end


async def test_children_that_the_system_does_not_end_are_told_counted_and_limited_per_tool(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Nobody is left to say that all has ended, and somebody else holds the way back open."""
    bench = Bench((process_tools.lost, process_tools.plain))
    transport = bench.transport
    both = TransportByIsolation(
        here=PythonTransport({"lost": process_tools.lost}, meter=bench.meter, grace_seconds=0.05), apart=transport
    )
    held: list[int] = []

    async def lost(folder: Path) -> Report:
        folder.mkdir()
        running = asyncio.ensure_future(bench.attempt(process_tools.lost, seconds=LONG, folder=str(folder)))
        handler = await told(folder)
        held.append(os.open(f"/proc/{handler['pid']}/fd/{handler['answers']}", os.O_WRONLY))
        (folder / "go").touch()
        async with asyncio.timeout(LONG):
            while not is_gone(handler["pid"]):
                await asyncio.sleep(0.01)
        running.cancel()
        return await running

    try:
        for number in range(2):
            assert transport.has_room("lost")
            half = range(number * MAX_STUCK // 2, (number + 1) * MAX_STUCK // 2)
            left = await asyncio.gather(*(lost(tmp_path / str(each)) for each in half), return_exceptions=True)
            assert {type(each) for each in left} <= {CallerLeft, asyncio.CancelledError}

        assert (transport.has_room("lost"), transport.has_room("plain")) == (False, True)
        assert (both.has_room("lost"), both.has_room("plain")) == (False, True)
        stuck = "the system has not ended a process of lost yet"
        assert said(caplog).count(stuck) == MAX_STUCK
    finally:
        for descriptor in held:
            os.close(descriptor)
    async with asyncio.timeout(LONG):
        while transport._ending:
            await asyncio.sleep(0.01)
    assert both.has_room("lost")
    assert [one["change"] for name, one in bench.meter.heard if name == "strays"] == [1] * MAX_STUCK + [-1] * MAX_STUCK
    await transport.close()
    assert children() == []


# ---------------------------------------------------------------- surroundings


async def test_a_child_has_no_descriptor_of_ours_and_the_surroundings_of_the_program(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PLACET_TEST_SETTING", "as in the program")
    with socket.socket() as listening, (tmp_path / "wal").open("wb") as file:
        os.set_inheritable(listening.fileno(), True)
        os.set_inheritable(file.fileno(), True)
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
        try:
            seen = await bench.result(process_tools.surroundings, variable="PLACET_TEST_SETTING")
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGUSR1})

    assert seen["descriptors"] == sorted([0, 1, 2, seen["answer_pipe"]])
    assert seen["variable"] == "as in the program"
    assert seen["folder"] == os.getcwd()
    assert seen["session"] == seen["warden"] != os.getsid(0), "a terminal's Ctrl-C would reach it"
    assert (seen["blocked"], seen["argv"], seen["optimize"]) == (0, 1, sys.flags.optimize)


async def test_what_a_call_carries_stands_in_no_command_line_and_no_environment(bench: Bench, tmp_path: Path) -> None:
    running = asyncio.ensure_future(bench.attempt(process_tools.waiting, folder=str(tmp_path), secret="s3cr3t-canary"))
    handler = await told(tmp_path)
    shown = b"".join(
        Path(f"/proc/{handler[who]}/{what}").read_bytes()
        for who in ("pid", "warden")
        for what in ("cmdline", "environ")
    )
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)

    assert b"placet.adapters.transports.warden" in shown
    assert b"s3cr3t" not in shown


# ---------------------------------------------------------------- it does not come to a call


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Any]]:
    """Writes a module of tools and imports it, as a program would; each text replaces the one before on disk."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def written(text: str) -> Any:
        (tmp_path / "fleeting_tools.py").write_text(textwrap.dedent(text))
        invalidate_caches()
        return import_module("fleeting_tools")

    yield written
    sys.modules.pop("fleeting_tools", None)


GOOD = """
    import placet
    @placet.tool(effect="write", risk="low", permission="p", isolation="process")
    def act(text: str) -> str:
        return text
"""
IN_CHILD = """
    from placet.adapters.transports import wire
    if wire.is_an_attempt():
"""


@pytest.mark.parametrize(
    ("replacement", "reason"),
    [
        ("raise RuntimeError('s3cr3t')", "import_failed (RuntimeError)"),
        ("import s3cr3t", "import_failed (ModuleNotFoundError)"),
        ("import sys; sys.exit('s3cr3t')", "import_failed (SystemExit)"),
        ("raise type('s3cr3t', (Exception,), {})", "import_failed (untrusted_exception)"),
        ("class _: pass", "import_failed (AttributeError)"),
        ("import os; os._exit(0)", "process_ended"),
        (GOOD.replace("text: str", "text: float"), "tool_changed"),  # of another size, or its bytecode would be kept
        (GOOD.replace('risk="low"', 'risk="high"'), "tool_changed"),
        ("act = 7", "tool_changed"),
    ],
)
async def test_code_that_is_not_what_the_gate_knows_is_not_called(
    module: Any, replacement: str, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    act = module(GOOD).act
    bench = Bench((act,))
    Path(sys.modules["fleeting_tools"].__file__ or "").write_text(textwrap.dedent(replacement))

    assert await bench.attempt(act, text="x") == Unsent()
    assert said(caplog) == [f"a process handler of act was not called: {reason}"]
    (record,) = caplog.records
    assert record.reason == reason.split(maxsplit=1)[0]
    assert "s3cr3t" not in f"{caplog.text}{vars(record)}"
    assert (bench.cut_short(), bench.of_tools()) == (["not_called"], {"act"})
    await bench.transport.close()


async def test_arguments_that_the_code_no_longer_takes_are_not_handed_to_it(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    assert await bench.attempt(process_tools.plain, word=7) == Unsent()
    assert said(caplog) == ["a process handler of plain was not called: arguments_refused"]
    assert bench.cut_short() == ["not_called"]


async def test_a_module_that_never_finishes_its_import_is_ended_and_nothing_was_called(module: Any) -> None:
    act = module(GOOD + IN_CHILD + "        import signal; signal.pause()").act
    bench = Bench((act,))

    assert await bench.attempt(act, seconds=1.5, text="x" * 200_000) == Unsent()  # more than a pipe holds unread
    await bench.transport.close()
    assert children() == []


async def test_a_warden_that_is_let_go_ends_a_worker_that_listens_to_nobody(module: Any, tmp_path: Path) -> None:
    hangs = "        import pathlib, signal; pathlib.Path(__file__).with_name('hangs').touch(); signal.pause()"
    module(GOOD + IN_CHILD + hangs)
    child = Child({"modules": ["fleeting_tools"]})
    while not (tmp_path / "hangs").exists():  # the loop does not run, so it cannot hear whom to kill
        time.sleep(0.01)

    assert await child.end(within_seconds=LONG)
    child.forget()


async def test_a_large_call_goes_through_a_small_pipe(module: Any) -> None:
    act = module(GOOD.replace("isolation=", "max_result_bytes=1_000_000, isolation=")).act
    bench = Bench((act,))

    assert await bench.result(act, text="x" * 900_000) == "x" * 900_000
    await bench.transport.close()


async def test_what_a_module_does_while_it_is_imported_disturbs_nothing(module: Any) -> None:
    noise = """
        import os, signal, sys, threading
        print("s3cr3t" * 100_000)
        os.write(2, b"s3cr3t")
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD):
            signal.signal(number, signal.SIG_IGN)
        threading.Thread(target=threading.Event().wait).start()
    """
    act = module(GOOD + IN_CHILD + textwrap.indent(textwrap.dedent(noise), " " * 8)).act
    bench = Bench((act,))

    assert await bench.result(act, text="x") == "x"
    await bench.transport.close()
    assert children() == []


async def test_a_module_that_opens_a_gate_of_its_own_does_not_start_a_chain_of_processes(module: Any) -> None:
    opens = """
        agent = placet.Principal.agent("a", tenant="t", roles=("operator",), scopes=("p",))
        with placet.open(tools=[act], store=placet.MEMORY) as gate:
            gate.submit({"call_id": "c", "tool": "act", "arguments": {"text": "x"}}, principal=agent, run="r")
    """
    act = module(GOOD + IN_CHILD + textwrap.indent(textwrap.dedent(opens), " " * 8)).act
    bench = Bench((act,))

    assert await bench.attempt(act, text="x") == Unsent()
    await bench.transport.close()


async def test_noise_from_an_import_proves_nothing_about_the_call(module: Any) -> None:
    finds = "        from tests.adapters.process_tools import answer_pipe\n"
    act = module(GOOD + IN_CHILD + finds + "        import os; os.write(answer_pipe(), b'noise')").act
    bench = Bench((act,))

    assert await bench.attempt(act, text="x") == Raised(error_type="process_noise")
    await bench.transport.close()


def test_an_attempts_own_process_starts_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "_is_an_attempt", True)
    with pytest.raises(MisuseError, match="gate with process handlers"):
        Bench((process_tools.plain,))


@contextmanager
def no_descriptor_left() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(int(name) for name in os.listdir("/proc/self/fd"))
    fillers = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 1, hard))
    try:
        while True:
            try:
                fillers.append(os.dup(0))
            except OSError:
                break
        yield
    finally:
        for descriptor in fillers:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def test_a_system_without_room_for_a_process_means_that_nothing_was_sent(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with no_descriptor_left():
        assert await bench.attempt(process_tools.plain, word="x") == Unsent()
    monkeypatch.setattr(sys, "executable", "/nonexistent")
    before = len(os.listdir("/proc/self/fd"))
    assert await bench.attempt(process_tools.plain, word="x") == Unsent()
    assert len(os.listdir("/proc/self/fd")) == before
    monkeypatch.setattr(sys, "executable", "/bin/false")
    assert await bench.attempt(process_tools.plain, word="x") == Unsent()

    words = [record.error_type for record in caplog.records if hasattr(record, "error_type")]
    assert words == ["OSError", "FileNotFoundError"]
    assert said(caplog) == [
        "no process was started for plain: OSError",
        "no process was started for plain: FileNotFoundError",
        "a process handler of plain was not called: process_ended",
    ]
    monkeypatch.undo()
    assert (await bench.result(process_tools.plain, word="x"))["word"] == "x"


# ---------------------------------------------------------------- who may register


def test_a_tool_is_found_by_its_functions_name_or_by_the_name_it_was_given() -> None:
    assert place_of(process_tools.plain).attribute == "plain"
    assert place_of(process_tools.by_another_name).attribute == "by_another_name"
    assert place_of(process_tools.plain).module == "tests.adapters.process_tools"


def test_what_no_new_process_could_import_is_refused_when_it_is_registered_or_opened() -> None:
    in_process: dict[str, Any] = {"effect": "read", "isolation": "process"}

    def nested() -> str:
        return ""

    nameless = lambda: ""  # noqa: E731
    nameless.__annotations__["return"] = str
    for function in (nested, nameless):
        with pytest.raises(ContractError, match="top level of a module"):
            placet.tool(**(in_process | {"name": "act"}))(function)

    def hidden() -> str:
        return ""

    def main() -> str:
        return ""

    hidden.__qualname__ = "hidden"
    main.__module__, main.__qualname__ = "__main__", "main"
    sys.modules["__main__"].main = tool = placet.tool(**in_process)(main)  # type: ignore[attr-defined]
    try:
        another = placet.tool(**(in_process | {"name": "other"}))(
            process_tools.plain.function
        )  # its name leads to plain
        for lost in (placet.tool(**in_process)(hidden), tool, another):
            with pytest.raises(ContractError) as refusal:
                placet.open(tools=[lost], store=placet.MEMORY)
            assert (refusal.value.code, refusal.value.may_have_acted) == ("tool_not_importable", False)
            assert "top level of a module" in refusal.value.hint
    finally:
        del sys.modules["__main__"].main  # type: ignore[attr-defined]

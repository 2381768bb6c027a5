"""A recovery round goes on: past a poisoned row, past another service's rows, past probes that hang or block."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import FrozenInstanceError, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import placet
from placet.adapters.telemetry.quiet import QuietMeter
from placet.engine.driven import Driven
from placet.engine.gate import Gate
from placet.engine.keeper import Keeper
from placet.errors import MisuseError, NotFound, StoreInDoubt, StoreUnavailable
from placet.model.context import Absent, CannotTell, Found
from placet.model.effect import Effect, EffectState
from placet.model.identifiers import OperationKey, WriterId
from placet.model.ledger import LostRead, Place
from placet.testing.fakes import FakeClock

PERSON = placet.Principal.person("mara", tenant="acme", scopes=["effects.reconcile", "effects.read"])
ALL = tuple(EffectState)

Probe = Callable[[placet.ProbeContext], Any]


def agent(tenant: str = "acme") -> placet.Principal:
    return placet.Principal.agent("agent-1", tenant=tenant, roles=["operator"], scopes=["pay"])


def lost_tool(probe: Probe | None, name: str = "pay") -> Any:
    """A tool whose every call is lost: unknown at once."""

    async def act(order: str) -> str:
        raise RuntimeError

    act.__name__ = name
    remote = placet.Remote(honours_key=True)
    return placet.tool(
        effect="write",
        risk="medium",
        permission="pay",
        operation_key=name + ":{order}",
        probe=probe,
        remote=remote,
        breaker=None,
    )(act)


def key(order: str, name: str = "pay") -> OperationKey:
    return OperationKey(f'["business","{name}:{{order}}","{order}"]')


@asynccontextmanager
async def a_gate(*tools: Any, clock: FakeClock, store: Any = placet.MEMORY, **settings: Any) -> AsyncIterator[Gate]:
    async with placet.open(
        tools=list(tools),
        store=store,
        clock=clock,
        recovery=placet.Recovery.MANUAL,
        settings=placet.GateSettings(**settings),
    ) as gate:
        yield gate


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


async def lose(gate: Gate, *orders: str, tool: str = "pay", tenant: str = "acme") -> None:
    for order in orders:
        proposal = {"call_id": f"{tool}-{order}", "tool": tool, "arguments": {"order": order}}
        outcome = await gate.submit(proposal, principal=agent(tenant), run=f"run-{tenant}")
        assert type(outcome) is placet.Unknown


async def strand(gate: Gate, clock: FakeClock, *orders: str) -> None:
    """Calls whose worker is gone: dispatched, and nobody's any more."""

    async def down(*args: Any, **more: Any) -> Any:
        raise StoreUnavailable()

    settle = gate.store.settle
    gate.store.settle = down  # type: ignore[method-assign]
    await lose(gate, *orders)
    for task in list(gate._path._dispatcher._afterwards.tasks):
        task.cancel()
    gate.store.settle = settle  # type: ignore[method-assign]
    clock.advance(31)


async def rows(gate: Gate) -> dict[str, Effect]:
    return {effect.operation_key: effect for effect in await gate.store.effects(tenant=None, states=ALL, limit=9999)}


async def states(gate: Gate) -> dict[str, EffectState]:
    return {name: effect.state for name, effect in (await rows(gate)).items()}


async def found(context: placet.ProbeContext) -> Found:
    return Found(result="ok")


async def cannot_tell(context: placet.ProbeContext) -> CannotTell:
    return CannotTell()


def poisoned(verb: Callable[..., Awaitable[Any]], orders: set[str], fault: Callable[[], Exception]) -> Any:
    """The verb of a store, failing for some rows."""

    async def tried(first: Any, *args: Any, **more: Any) -> Any:
        if any(order in str(first.operation_key) for order in orders):
            raise fault()
        return await verb(first, *args, **more)

    return tried


# ---------------------------------------------------------------- what a probe may say


@pytest.mark.parametrize(
    "reference",
    ["ref-\ud800", "", "x" * 201, 7, b"ref", type("Text", (str,), {})("ref")],
    ids=lambda reference: repr(reference)[:12],
)
@pytest.mark.parametrize("durable", [False, True], ids=["memory", "sqlite"])
async def test_a_reference_that_cannot_be_kept_is_dropped_and_the_effect_is_committed(
    clock: FakeClock, tmp_path: Path, reference: Any, durable: bool
) -> None:
    async def probe(context: placet.ProbeContext) -> Found:
        return Found(result="ok", external_reference=reference)

    where = tmp_path / "store.db" if durable else placet.MEMORY
    async with a_gate(lost_tool(probe), lost_tool(found, "wire"), clock=clock, store=where) as gate:
        await lose(gate, "o-1")
        clock.advance(1)
        await lose(gate, "o-1", tool="wire", tenant="other")
        clock.advance(100)

        report = await gate.reconciler.recover()

        assert report.committed == 2
        assert (await rows(gate))[key("o-1")].external_reference is None


@pytest.mark.parametrize("reference", ["r", "ref-ü", "x" * 200])
async def test_a_reference_of_the_remote_is_kept(clock: FakeClock, reference: str) -> None:
    async def probe(context: placet.ProbeContext) -> Found:
        return Found(result="ok", external_reference=reference)

    async with a_gate(lost_tool(probe), clock=clock) as gate:
        await lose(gate, "o-1")
        await gate.reconciler.recover()
        assert (await rows(gate))[key("o-1")].external_reference == reference


async def test_a_result_that_cannot_be_read_is_dropped_and_the_effect_is_committed(clock: FakeClock) -> None:
    class Hostile(dict[str, object]):
        def __iter__(self) -> Any:
            raise ZeroDivisionError

    async def probe(context: placet.ProbeContext) -> Found:
        return Found(result=Hostile())

    async with a_gate(lost_tool(probe), clock=clock) as gate:
        await lose(gate, "o-1")
        await gate.reconciler.recover()
        row = (await rows(gate))[key("o-1")]
        assert (row.state, row.sealed_result) == (EffectState.RECONCILED_COMMITTED, None)


# ---------------------------------------------------------------- one row's fault

FAULTS = [StoreUnavailable, StoreInDoubt, lambda: UnicodeEncodeError("utf-8", "\ud800", 0, 1, "x"), RuntimeError]
KINDS = ["unavailable", "in doubt", "not encodable", "another"]


@pytest.mark.parametrize("fault", FAULTS, ids=KINDS)
async def test_a_row_that_cannot_be_settled_is_looked_at_in_vain_and_the_others_are_settled(
    clock: FakeClock, fault: Callable[[], Exception]
) -> None:
    async with a_gate(lost_tool(found), clock=clock) as gate:
        await lose(gate, "bad", "good")
        gate.store.reconcile = poisoned(gate.store.reconcile, {"bad"}, fault)  # type: ignore[method-assign]

        report = await gate.reconciler.recover()

        assert (report.committed, report.still_unknown) == (1, 1)
        bad = (await rows(gate))[key("bad")]
        assert (bad.state, bad.probes) == (EffectState.UNKNOWN, 1)
        assert bad.probe_after is not None and bad.probe_after > clock.now()


async def test_a_single_look_that_failed_is_counted_and_told(clock: FakeClock) -> None:
    async with a_gate(lost_tool(found), clock=clock) as gate:
        await lose(gate, "bad")
        gate.store.reconcile = poisoned(gate.store.reconcile, {"bad"}, StoreInDoubt)  # type: ignore[method-assign]

        with pytest.raises(StoreInDoubt):
            await gate.reconciler.probe((await rows(gate))[key("bad")])

        assert (await rows(gate))[key("bad")].probes == 1


@pytest.mark.parametrize("fault", FAULTS, ids=KINDS)
async def test_a_row_that_cannot_be_taken_over_does_not_keep_the_others(
    clock: FakeClock, fault: Callable[[], Exception]
) -> None:
    async with a_gate(lost_tool(found), clock=clock) as gate:
        await strand(gate, clock, "bad", "good")
        gate.store.take_over = poisoned(gate.store.take_over, {"bad"}, fault)  # type: ignore[method-assign]

        report = await gate.reconciler.recover()

        assert (report.taken_over, report.committed) == (1, 1)
        assert await states(gate) == {
            key("bad"): EffectState.DISPATCHED,
            key("good"): EffectState.RECONCILED_COMMITTED,
        }


@pytest.mark.parametrize("durable", [False, True], ids=["memory", "sqlite"])
async def test_rows_that_fail_for_ever_do_not_stay_ahead_of_others(
    clock: FakeClock, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, durable: bool
) -> None:
    monkeypatch.setattr("placet.engine.rounds._BATCH", 2)
    monkeypatch.setattr("placet.engine.rounds._LISTED", 2)
    where = tmp_path / "store.db" if durable else placet.MEMORY
    async with a_gate(lost_tool(found), clock=clock, store=where) as gate:
        bad = {f"bad-{number}" for number in range(5)}
        await strand(gate, clock, *sorted(bad))
        await strand(gate, clock, "good-1")
        gate.store.take_over = poisoned(gate.store.take_over, bad, StoreInDoubt)  # type: ignore[method-assign]
        for _ in range(4):
            await gate.reconciler.recover()
        assert (await states(gate))[key("good-1")] is EffectState.RECONCILED_COMMITTED
        del gate.store.take_over
        for _ in range(3):
            await gate.reconciler.recover()  # and those that failed are not forgotten
        assert set((await states(gate)).values()) == {EffectState.RECONCILED_COMMITTED}


async def test_looks_that_can_neither_be_settled_nor_counted_do_not_stay_ahead_of_others(
    clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("placet.engine.rounds._BATCH", 2)
    monkeypatch.setattr("placet.engine.rounds._LISTED", 2)
    async with a_gate(lost_tool(found), clock=clock) as gate:
        bad = {f"bad-{number}" for number in range(5)}
        await lose(gate, *sorted(bad), "good-1")
        for verb in ("reconcile", "probed_in_vain"):
            setattr(gate.store, verb, poisoned(getattr(gate.store, verb), bad, RuntimeError))
        for _ in range(4):
            await gate.reconciler.recover()
        assert (await states(gate))[key("good-1")] is EffectState.RECONCILED_COMMITTED


async def test_a_lost_read_that_cannot_be_closed_does_not_keep_the_others(
    clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("placet.engine.rounds._BATCH", 1)
    monkeypatch.setattr("placet.engine.rounds._LISTED", 1)

    @placet.tool(effect="read")
    async def look(order: str) -> int:
        return 7

    async with a_gate(look, lost_tool(found), clock=clock) as gate:
        record = gate.store.record

        async def only_opens(*args: Any, **more: Any) -> Any:
            if more.get("closes") is not None:
                raise StoreUnavailable()
            return await record(*args, **more)

        gate.store.record = only_opens  # type: ignore[method-assign]
        for order in ("bad", "good"):
            proposal = {"call_id": order, "tool": "look", "arguments": {"order": order}}
            await gate.submit(proposal, principal=agent(), run="run-1")
            for task in list(gate._path._dispatcher._afterwards.tasks):
                task.cancel()
        del gate.store.record
        clock.advance(31)
        close, closed = gate.store.close_lost_read, []

        async def close_lost_read(lost: Any, event: Any) -> bool:
            if b'"bad"' in lost.started:
                raise RuntimeError
            closed.append(lost)
            return await close(lost, event)

        gate.store.close_lost_read = close_lost_read  # type: ignore[method-assign]
        await lose(gate, "o-1")
        for _ in range(2):
            await gate.reconciler.recover()

        assert len(closed) == 1
        assert (await states(gate))[key("o-1")] is EffectState.RECONCILED_COMMITTED


@pytest.mark.parametrize("listing", ["stranded", "lost_reads"])
async def test_a_list_that_cannot_be_read_is_told_after_the_rest_was_done(clock: FakeClock, listing: str) -> None:
    async def broken(*, limit: int) -> Any:
        raise StoreUnavailable()

    async with a_gate(lost_tool(found), clock=clock) as gate:
        await lose(gate, "o-1")
        setattr(gate.store, listing, broken)

        with pytest.raises(StoreUnavailable):
            await gate.reconciler.recover()

        assert (await states(gate))[key("o-1")] is EffectState.RECONCILED_COMMITTED


@pytest.mark.parametrize("body", [b"no json", b"7", b"null", b'"text"', b"[]", b"\xff"], ids=repr)
async def test_a_lost_read_whose_record_says_nothing_is_left_and_keeps_no_other(
    clock: FakeClock, body: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """And is not told as a fault in every round: nobody can close it."""

    @placet.tool(effect="read")
    async def look(order: str) -> int:
        return 7

    async with a_gate(look, lost_tool(found), clock=clock) as gate:
        await lose(gate, "o-1")
        closed: list[Any] = []

        async def lost_reads(*, limit: int) -> tuple[LostRead, ...]:
            return (LostRead(place=Place(writer=WriterId("w-1"), sequence=1), started=body),)

        async def close_lost_read(lost: Any, event: Any) -> bool:
            closed.append(event)
            return True

        gate.store.lost_reads = lost_reads  # type: ignore[method-assign]
        gate.store.close_lost_read = close_lost_read  # type: ignore[method-assign]
        report = await gate.reconciler.recover()

        assert (report.committed, closed, caplog.records) == (1, [], [])


async def test_a_row_that_nobody_can_say_is_ours_is_left_alone_and_told(
    clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with a_gate(lost_tool(found), clock=clock) as gate:
        await strand(gate, clock, "bad", "good")
        is_performing = gate.reconciler._performing.is_performing

        def cannot_say(effect: Effect) -> bool:
            if "bad" in effect.operation_key:
                raise LookupError("s3cr3t")
            return is_performing(effect)

        gate.reconciler._performing.is_performing = cannot_say  # type: ignore[method-assign]
        report = await gate.reconciler.recover()

        assert report.taken_over == 1
        assert await states(gate) == {
            key("bad"): EffectState.DISPATCHED,
            key("good"): EffectState.RECONCILED_COMMITTED,
        }
    told = [record for record in caplog.records if record.message == "a row was left alone"]
    assert [(record.name, record.__dict__["error_type"]) for record in told] == [("placet.reconciler", "LookupError")]
    assert "s3cr3t" not in caplog.text


async def test_of_several_lists_that_cannot_be_read_the_first_fault_is_told(clock: FakeClock) -> None:
    def broken(fault: type[Exception]) -> Any:
        async def listed(*, limit: int) -> Any:
            raise fault()

        return listed

    async with a_gate(lost_tool(found), clock=clock) as gate:
        gate.store.stranded = broken(StoreUnavailable)  # type: ignore[method-assign]
        gate.store.lost_reads = broken(RuntimeError)  # type: ignore[method-assign]
        gate.store.due_for_probe = broken(StoreInDoubt)  # type: ignore[method-assign]

        with pytest.raises(StoreUnavailable):
            await gate.reconciler.recover()


# ---------------------------------------------------------------- whose rows


@pytest.mark.parametrize("other", [lost_tool(found, "wire"), lost_tool(None)], ids=["no such tool", "no probe"])
async def test_a_service_that_cannot_look_leaves_the_row_alone(clock: FakeClock, tmp_path: Path, other: Any) -> None:
    store = tmp_path / "store.db"
    async with a_gate(lost_tool(found), clock=clock, store=store) as gate:
        await lose(gate, "o-1")
    async with a_gate(other, clock=clock, store=store) as gate:
        before = await rows(gate)
        for _ in range(30):
            clock.advance(301)
            await gate.reconciler.recover()
        assert await gate.reconciler.probe(before[key("o-1")]) is EffectState.UNKNOWN
        assert await rows(gate) == before
    async with a_gate(lost_tool(found), clock=clock, store=store) as gate:
        assert (await gate.reconciler.recover()).committed == 1


async def test_rows_of_another_service_do_not_stay_ahead_of_ours(
    clock: FakeClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("placet.engine.rounds._BATCH", 2)
    monkeypatch.setattr("placet.engine.rounds._LISTED", 2)
    store = tmp_path / "store.db"
    async with a_gate(lost_tool(found, "wire"), lost_tool(found), clock=clock, store=store) as gate:
        await lose(gate, "1", "2", "3", tool="wire")
        clock.advance(1)
        await lose(gate, "o-1")
    async with a_gate(lost_tool(found), clock=clock, store=store) as gate:
        assert (await gate.reconciler.recover()).committed == 1


async def test_what_this_process_is_still_performing_is_not_taken_over(
    clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("placet.engine.rounds._BATCH", 1)
    monkeypatch.setattr("placet.engine.rounds._LISTED", 1)
    async with a_gate(lost_tool(found), clock=clock) as gate:
        await strand(gate, clock, "ours", "theirs")
        (ours,) = [row for name, row in (await rows(gate)).items() if "ours" in name]
        gate.reconciler._performing.begin(ours.token)
        report = await gate.reconciler.recover()

        assert report.taken_over == 1
        assert await states(gate) == {
            key("ours"): EffectState.DISPATCHED,
            key("theirs"): EffectState.RECONCILED_COMMITTED,
        }


@pytest.mark.parametrize("attempts", [1, 2])
async def test_a_read_this_process_is_still_at_is_not_closed_by_its_own_recovery_and_is_by_anothers(
    clock: FakeClock, tmp_path: Path, attempts: int
) -> None:
    """It stands still for longer than its lease, and nobody beats: the read goes on all the same."""
    at_it, may_end = asyncio.Event(), asyncio.Event()
    tried: list[str] = []

    @placet.tool(effect="read", retry=placet.RetryPolicy(max_attempts=attempts, initial_delay_seconds=0.001))
    async def look(word: str) -> str:
        tried.append(word)
        if len(tried) < attempts:
            raise ConnectionError
        at_it.set()
        await may_end.wait()
        return word

    store = tmp_path / "store.db"
    async with a_gate(look, clock=clock, store=store) as gate, a_gate(look, clock=clock, store=store) as other:
        for recovering, expected in ((gate, "succeeded"), (other, "effect_unknown")):
            at_it.clear()
            may_end.clear()
            tried.clear()
            proposal = {"call_id": expected, "tool": "look", "arguments": {"word": "x"}}
            reading = asyncio.ensure_future(gate.submit(proposal, principal=agent(), run="run-1", timeout_seconds=500))
            await at_it.wait()
            clock.advance(100)
            await recovering.reconciler.recover()
            may_end.set()
            assert (await reading).code == expected


async def test_a_look_that_cannot_tell_is_no_fault_and_is_told_as_none(
    clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with a_gate(lost_tool(cannot_tell), clock=clock) as gate:
        await lose(gate, "o-1")

        assert await gate.reconciler.probe((await rows(gate))[key("o-1")]) is EffectState.UNKNOWN

        assert (await rows(gate))[key("o-1")].probes == 1
    assert caplog.records == []


async def test_a_row_whose_arguments_do_not_open_is_not_looked_at_and_that_is_told(
    clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with a_gate(lost_tool(found), clock=clock) as gate:
        await lose(gate, "o-1")
        altered = replace((await rows(gate))[key("o-1")], sealed_arguments=b"s3cr3t" * 10)

        assert await gate.reconciler.probe(altered) is EffectState.UNKNOWN

    told = [(record.message, record.__dict__["error_type"]) for record in caplog.records]
    assert told == [("a look failed", "KeyMaterialError")]
    assert "s3cr3t" not in caplog.text


# ---------------------------------------------------------------- many looks


async def test_the_pause_between_looks_is_bounded_however_often_it_was_looked(clock: FakeClock) -> None:
    async with a_gate(lost_tool(cannot_tell), clock=clock, max_probes=5000) as gate:
        await lose(gate, "o-1")
        for _ in range(1100):
            await gate.reconciler.recover()
            clock.advance(301)
        row = (await rows(gate))[key("o-1")]
        assert (row.state, row.probes) == (EffectState.UNKNOWN, 1100)


async def test_hanging_looks_of_one_tenant_do_not_delay_another_tenants_by_their_sum(clock: FakeClock) -> None:
    release, running, most = asyncio.Event(), 0, 0

    async def hang(context: placet.ProbeContext) -> CannotTell:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await release.wait()
        running -= 1
        return CannotTell()

    async with a_gate(lost_tool(hang), lost_tool(found, "wire"), clock=clock) as gate:
        await lose(gate, *(f"o-{number}" for number in range(130)))
        clock.advance(1)
        await lose(gate, "o-1", tool="wire", tenant="other")

        recovering = asyncio.ensure_future(gate.reconciler.recover())
        async with asyncio.timeout(60):
            while (await states(gate))[key("o-1", "wire")] is EffectState.UNKNOWN:
                await asyncio.sleep(0)
        assert not recovering.done() and 1 < running < 17
        release.set()
        await recovering
        assert most < 17


async def test_a_round_that_is_broken_off_leaves_no_look_behind(clock: FakeClock) -> None:
    began, ended = asyncio.Event(), asyncio.Event()

    async def hang(context: placet.ProbeContext) -> CannotTell:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return CannotTell()

    async with a_gate(lost_tool(hang), clock=clock) as gate:
        await lose(gate, "o-1")
        recovering = asyncio.ensure_future(gate.reconciler.recover())
        async with asyncio.timeout(60):
            await began.wait()
            recovering.cancel()
            with pytest.raises(asyncio.CancelledError):
                await recovering
            await ended.wait()


async def test_a_look_that_cancels_itself_does_not_break_off_the_round(clock: FakeClock) -> None:
    async def cancels(context: placet.ProbeContext) -> Found:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        return Found(result="ok")

    async with a_gate(lost_tool(cancels), lost_tool(found, "wire"), clock=clock) as gate:
        await lose(gate, "o-1")
        await lose(gate, "o-1", tool="wire")
        report = await gate.reconciler.recover()
        assert (report.committed, report.still_unknown) == (1, 1)


# ---------------------------------------------------------------- plain functions as probes


@pytest.mark.parametrize("answer", [Found(result="ok"), Absent(), CannotTell()], ids=lambda a: type(a).__name__)
async def test_a_plain_function_may_look(clock: FakeClock, answer: Any) -> None:
    threads: list[threading.Thread] = []

    def probe(context: placet.ProbeContext) -> Any:
        threads.append(threading.current_thread())
        return answer

    async with a_gate(lost_tool(probe), clock=clock) as gate:
        await lose(gate, "o-1")
        clock.advance(100)
        report = await gate.reconciler.recover()
        assert (report.committed, report.absent, report.still_unknown) == tuple(
            int(type(answer) is kind) for kind in (Found, Absent, CannotTell)
        )
    assert threads != [threading.main_thread()] and threads[0].daemon


async def test_a_plain_function_that_makes_a_coroutine_is_awaited(clock: FakeClock) -> None:
    def probe(context: placet.ProbeContext) -> Awaitable[Found]:
        return found(context)

    async with a_gate(lost_tool(probe), clock=clock) as gate:
        await lose(gate, "o-1")
        assert (await gate.reconciler.recover()).committed == 1


async def test_an_object_with_an_async_call_may_look(clock: FakeClock) -> None:
    class Desk:
        async def __call__(self, context: placet.ProbeContext) -> Found:
            assert threading.current_thread() is threading.main_thread()
            return Found(result="ok")

    async with a_gate(lost_tool(Desk()), clock=clock) as gate:
        await lose(gate, "o-1")
        assert (await gate.reconciler.recover()).committed == 1


async def test_a_plain_function_that_raises_cannot_tell(clock: FakeClock) -> None:
    def probe(context: placet.ProbeContext) -> Found:
        raise SystemExit

    async with a_gate(lost_tool(probe), clock=clock) as gate:
        await lose(gate, "o-1")
        assert (await gate.reconciler.recover()).still_unknown == 1


async def test_a_plain_function_that_blocks_stops_nobody_and_its_late_answer_is_ignored(clock: FakeClock) -> None:
    release, began = threading.Event(), threading.Event()

    def blocks(context: placet.ProbeContext) -> Found:
        began.set()
        release.wait(60)
        return Found(result="ok")

    try:
        async with a_gate(lost_tool(blocks), clock=clock, probe_seconds=0.05) as gate:
            await lose(gate, "o-1")
            async with asyncio.timeout(60):
                assert (await gate.reconciler.recover()).still_unknown == 1
            assert began.is_set()
            release.set()
            async with asyncio.timeout(60):
                while gate.reconciler._probing._transport._stray_looks["pay"]:
                    await asyncio.sleep(0.001)
            assert (await states(gate))[key("o-1")] is EffectState.UNKNOWN
    finally:
        release.set()


async def test_no_more_than_a_few_stray_looks_of_one_tool_exist(clock: FakeClock) -> None:
    release, began = threading.Event(), 0

    def blocks(context: placet.ProbeContext) -> Found:
        nonlocal began
        began += 1
        release.wait(60)
        return Found(result="ok")

    try:
        async with a_gate(lost_tool(blocks), clock=clock, probe_seconds=0.01) as gate:
            await lose(gate, "o-1")
            for _ in range(12):
                await gate.reconciler.recover()
                clock.advance(301)
            assert began == 8
    finally:
        release.set()


# ---------------------------------------------------------------- the keeper's rounds


async def test_the_rounds_of_the_keeper_survive_whatever_is_raised(
    clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    calls = {"heartbeat": 0, "recover": 0}

    class Broken:
        in_flight = 1

        async def heartbeat(self, owner: Any, *, lease_seconds: float) -> int:
            calls["heartbeat"] += 1
            raise OverflowError("secret")

        async def recover(self) -> None:
            calls["recover"] += 1
            raise OverflowError("secret")

    broken: Any = Broken()
    keeper = Keeper(
        store=broken,
        performing=broken,
        reconciler=broken,
        clock=clock,
        settings=placet.GateSettings(),
        owner=placet.model.identifiers.OwnerId("o"),
        meter=QuietMeter(),
        driven=Driven(broken),
    )
    with caplog.at_level(logging.WARNING, logger="placet.keeper"):
        keeper.start_heartbeat()
        keeper.start_recovery()
        async with asyncio.timeout(60):
            while min(calls.values()) < 3:
                await asyncio.sleep(0)
        await keeper.stop()
    assert {record.message for record in caplog.records} == {"heartbeat failed", "recovery failed"}
    assert {record.__dict__["error_type"] for record in caplog.records} == {"OverflowError"}
    assert "secret" not in caplog.text and {record.exc_info for record in caplog.records} == {None}


async def test_what_a_round_has_told_stays_as_it_was(clock: FakeClock) -> None:
    async with a_gate(lost_tool(found), clock=clock) as gate:
        await lose(gate, "o-1")
        report: Any = await gate.reconciler.recover()

    with pytest.raises(FrozenInstanceError):
        report.committed = 0
    assert report.committed == 1


# ---------------------------------------------------------------- who asks, and how


@pytest.mark.parametrize("by", [None, "mara", object()], ids=lambda by: type(by).__name__)  # fmt: skip
async def test_only_a_principal_may_ask(clock: FakeClock, by: Any) -> None:
    async with a_gate(lost_tool(found), clock=clock) as gate:
        await lose(gate, "o-1")
        with pytest.raises(MisuseError):
            await gate.reconciler.effects(by=by)
        with pytest.raises(MisuseError):
            await gate.reconciler.settle_by_person(
                key("o-1"), placet.Truth.COMMITTED, by=by, looked_at=clock.now(), reason="seen"
            )


@pytest.mark.parametrize(
    "operation_key", ["\ud800", None, 7, b"key", ["key"], type("Text", (str,), {})(key("o-1"))], ids=repr
)
@pytest.mark.parametrize("durable", [False, True], ids=["memory", "sqlite"])
async def test_a_key_that_names_nothing_is_not_found(
    clock: FakeClock, tmp_path: Path, operation_key: Any, durable: bool
) -> None:
    where = tmp_path / "store.db" if durable else placet.MEMORY
    async with a_gate(lost_tool(found), clock=clock, store=where) as gate:
        await lose(gate, "o-1")
        with pytest.raises(NotFound):
            await gate.reconciler.settle_by_person(
                operation_key, placet.Truth.COMMITTED, by=PERSON, looked_at=clock.now(), reason="seen"
            )


@pytest.mark.parametrize(
    "words",
    [
        {"truth": "perhaps"},
        {"truth": None},
        {"looked_at": "2026-01-01"},
        {"looked_at": datetime(2026, 1, 1)},
        {"reason": "\ud800"},
        {"reason": None},
        {"reason": "x" * 501},
    ],
    ids=lambda words: repr(words)[:30],
)
async def test_words_of_a_person_that_mean_nothing_are_misuse(clock: FakeClock, words: dict[str, Any]) -> None:
    said = {"truth": placet.Truth.COMMITTED, "looked_at": datetime(2026, 1, 1, tzinfo=UTC), "reason": "seen"} | words
    async with a_gate(lost_tool(found), clock=clock) as gate:
        await lose(gate, "o-1")
        with pytest.raises(MisuseError):
            await gate.reconciler.settle_by_person(key("o-1"), by=PERSON, **said)
        assert (await states(gate))[key("o-1")] is EffectState.UNKNOWN

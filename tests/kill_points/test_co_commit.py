"""A process dies around the commit of a handler's own transaction: the payment and the ledger are there, or neither is.

Real processes, one real SQLite file that holds the ledger and the handler's own table, and SIGKILL at every step.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest

import placet
from placet.adapters.stores.sqlite import co_commit
from placet.engine.gate import Gate
from placet.model.effect import EffectState
from placet.model.outcome import Replayed, Succeeded
from placet.testing.kill_points import KillPoint, Moment, die
from tests.kill_points.actors import (
    AGENT,
    KILLED,
    LEASE_SECONDS,
    SETTINGS,
    SURVIVED,
    SharedTime,
    assert_audit_is_whole,
    ended,
    mortal_stores,
    recovered,
    start,
    stood_still,
)

pytestmark = [pytest.mark.req("H042", "H046", "C045"), pytest.mark.case("H01", "G09")]
KEY = '["business","pay:{order}","o-1"]'


# ---------------------------------------------------------------- the shop


def shop(folder: str, *, dies: str = "") -> placet.Tool:
    """A handler that writes its payment to the store's own file. `dies`: after which of its steps this process ends."""

    def reached(step: str) -> None:
        if step == dies:
            die()
        if step == "begun":
            Path(folder, "begun").touch()
            while Path(folder, "pause").exists():
                time.sleep(0.005)

    @placet.tool(
        effect="write",
        risk="medium",
        permission="pay",
        operation_key="pay:{order}",
        remote=placet.Remote(co_commits=True),
        timeout_seconds=30.0,
    )
    def pay(order: str, call: placet.CallContext) -> str:
        reached("begun")
        database = opened(folder)
        with database:
            database.execute("INSERT INTO payments VALUES (?)", (order,))
            reached("written")
            result = call.co_commit(database, order)
            reached("settled")
        reached("committed")
        return result

    return pay


def opened(folder: str | Path) -> apsw.Connection:
    database = apsw.Connection(str(Path(folder, "placet.db")))
    database.set_busy_timeout(10_000)
    return database


def open_gate(folder: str | Path, *, dies: str = "") -> Any:
    return placet.open(
        tools=[shop(str(folder), dies=dies)],
        store=Path(folder, "placet.db"),
        settings=SETTINGS,
        recovery=placet.Recovery.MANUAL,
        clock=SharedTime(folder),
    )


def proposal(order: str = "o-1") -> dict[str, Any]:
    return {"call_id": f"c-{order}", "tool": "pay", "arguments": {"order": order}}


@pytest.fixture
async def folder(tmp_path: Path) -> Path:
    """A store, and in its file a table of the shop's own."""
    async with open_gate(tmp_path):
        opened(tmp_path).execute("CREATE TABLE payments (order_id TEXT)")
    return tmp_path


# ---------------------------------------------------------------- actors


STEPS = ("lock_effect", "change_effect", "add_waiting")


def pay_and_die(folder: str, point: KillPoint | None, dies: str, order: str) -> None:
    """Pay once in a process that ends on its way; a process that survives exits with 7."""
    moment, _, step = dies.partition(" ")
    if step in STEPS:  # between two statements of the settle itself
        _die_around(step, moment)

    async def act() -> None:
        with mortal_stores(point):
            async with open_gate(folder, dies=dies) as gate:
                await gate.submit(proposal(order), principal=AGENT, run="run-1")

    asyncio.run(act())
    os._exit(SURVIVED)


def _die_around(step: str, moment: str) -> None:
    inner = getattr(co_commit._HandlersTables, step)

    def fatal(self: Any, *args: Any, **kwargs: Any) -> Any:
        if moment == "before":
            die()
        inner(self, *args, **kwargs)
        die()

    setattr(co_commit._HandlersTables, step, fatal)


def pay(folder: str) -> None:
    async def act() -> None:
        async with open_gate(folder) as gate:
            outcome = await gate.submit(proposal(), principal=AGENT, run="run-1")
            Path(folder, "outcome").write_text(f"{outcome.status} {outcome.code}")

    asyncio.run(act())


def keep_paying(folder: str, seed: int) -> None:
    """Pay one order after another, four at a time, until killed from outside."""

    async def act() -> None:
        async with open_gate(folder) as gate:
            for n in range(0, 10_000, 4):
                orders = [f"o-{seed}-{n + k}" for k in range(4)]
                await asyncio.gather(
                    *(gate.submit(proposal(order), principal=AGENT, run=f"r-{seed}-{n}") for order in orders)
                )

    asyncio.run(act())


def recover_and_die(folder: str, point: KillPoint) -> None:
    async def act() -> None:
        with mortal_stores(point):
            async with open_gate(folder) as gate:
                await gate.reconciler.recover()

    asyncio.run(act())
    os._exit(SURVIVED)


# ---------------------------------------------------------------- both or neither


def both(folder: Path) -> dict[str, tuple[int, str]]:
    """By order: how many payments there are, and the state of the effect, as of one moment."""
    database = opened(folder)
    with database:
        payments = Counter(row[0] for row in database.execute("SELECT order_id FROM payments"))
        states = {
            str(key).rpartition(",")[2].strip('"]'): str(state)
            for key, state in database.execute("SELECT operation_key, state FROM effects")
        }
    return {order: (payments[order], states.get(order, "none")) for order in {*payments, *states}}


def assert_both_or_neither(folder: Path) -> None:
    for order, (payments, state) in both(folder).items():
        assert payments == (1 if state == "committed" else 0), (order, payments, state)


IN_THE_HANDLER = {
    "begun": False,
    "written": False,
    "before lock_effect": False,
    "after lock_effect": False,
    "before change_effect": False,
    "after change_effect": False,
    "before add_waiting": False,
    "after add_waiting": False,
    "settled": False,
    "committed": True,
}
"""Where the process ends, and whether its transaction is there."""
AT_THE_STORE = {
    KillPoint(moment=Moment.BEFORE, verb="claim"): False,
    KillPoint(moment=Moment.AFTER, verb="claim"): False,
    KillPoint(moment=Moment.BEFORE, verb="settle"): True,
    KillPoint(moment=Moment.AFTER, verb="settle"): True,
}


@pytest.mark.parametrize(
    ("point", "dies", "is_committed"),
    [
        *((None, dies, committed) for dies, committed in IN_THE_HANDLER.items()),
        *((point, "", committed) for point, committed in AT_THE_STORE.items()),
    ],
    ids=[*IN_THE_HANDLER, *(f"{point.moment.value} {point.verb}" for point in AT_THE_STORE)],
)
async def test_dead_at_any_step_the_payment_and_the_ledger_agree_and_it_is_paid_once(
    folder: Path, point: KillPoint | None, dies: str, is_committed: bool
) -> None:
    assert ended(start(pay_and_die, str(folder), point, dies, "o-1")) == KILLED
    assert_both_or_neither(folder)
    assert (both(folder).get("o-1", (0, "none"))[0] == 1) is is_committed

    async with open_gate(folder) as gate:
        at_once = await gate.submit(proposal(), principal=AGENT, run="run-1", timeout_seconds=0.5)
        SharedTime(folder).pass_by()
        await recovered(gate)
        later = await gate.submit(proposal(), principal=AGENT, run="run-1")
        assert_audit_is_whole(gate)

    if is_committed:
        assert type(at_once) is Replayed and at_once.result == "o-1", "the row tells at once; nobody waits for a lease"
    elif point is None or point.moment is Moment.AFTER:
        assert at_once.code == "in_progress"
    assert type(later) is (Replayed if at_once.is_success else Succeeded)
    assert both(folder) == {"o-1": (1, "committed")}
    assert waiting(folder) == 0


async def test_a_lost_co_commit_is_absent_at_once_and_never_unknown(folder: Path) -> None:
    assert ended(start(pay_and_die, str(folder), None, "settled", "o-1")) == KILLED

    async with open_gate(folder) as gate:
        reports = []
        async with asyncio.timeout(30):
            while not reports or reports[-1].taken_over == 0:
                await asyncio.sleep(LEASE_SECONDS / 10)
                reports.append(await gate.reconciler.recover())
        assert_audit_is_whole(gate)

    assert (reports[-1].taken_over, reports[-1].absent) == (1, 1)
    assert all(report.still_unknown == 0 for report in reports)
    assert both(folder) == {"o-1": (0, "reconciled_absent")}


@pytest.mark.parametrize("moment", list(Moment))
@pytest.mark.parametrize("verb", ["chain_waiting", "take_over"])
async def test_whoever_chains_or_takes_over_may_die_as_well(folder: Path, moment: Moment, verb: str) -> None:
    dies = "committed" if verb == "chain_waiting" else "settled"
    assert ended(start(pay_and_die, str(folder), None, dies, "o-1")) == KILLED
    SharedTime(folder).pass_by()

    assert ended(start(recover_and_die, str(folder), KillPoint(moment=moment, verb=verb))) == KILLED
    assert_both_or_neither(folder)

    SharedTime(folder).pass_by()
    async with open_gate(folder) as gate:
        await recovered(gate)
        await gate.submit(proposal(), principal=AGENT, run="run-1")
        assert_audit_is_whole(gate)
    assert both(folder) == {"o-1": (1, "committed")}


def waiting(folder: Path) -> int:
    return int(opened(folder).execute("SELECT count(*) FROM unchained_events").fetchall()[0][0])


async def test_any_verb_that_writes_chains_what_a_dead_process_left(folder: Path) -> None:
    assert ended(start(pay_and_die, str(folder), None, "committed", "o-1")) == KILLED
    assert waiting(folder) == 1

    async with open_gate(folder) as gate:
        assert (await gate.verify_audit()).unpaired == 1
        await gate.submit(proposal("o-2"), principal=AGENT, run="run-2")
        assert waiting(folder) == 0
        assert_audit_is_whole(gate)


async def test_a_process_that_stood_still_beyond_its_lease_adds_nothing_when_it_goes_on(folder: Path) -> None:
    (folder / "pause").touch()
    process = start(pay, str(folder))
    try:
        within(30.0, (folder / "begun").exists)
        stood_still(process, folder / "placet.db")
        (folder / "pause").unlink()
        async with open_gate(folder) as gate:
            async with asyncio.timeout(30):
                while both(folder) != {"o-1": (0, "reconciled_absent")}:
                    await gate.reconciler.recover()
                    await asyncio.sleep(LEASE_SECONDS / 10)
            assert type(await gate.submit(proposal(), principal=AGENT, run="run-1")) is Succeeded
    finally:
        os.kill(process.pid or 0, signal.SIGCONT)
    assert ended(process) == 0

    assert both(folder) == {"o-1": (1, "committed")}
    assert (folder / "outcome").read_text() == "in_progress in_progress", "it says that another dispatch has it"
    async with open_gate(folder) as gate:
        assert_audit_is_whole(gate)


def within(seconds: float, happened: Callable[[], bool]) -> None:
    deadline = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.01)


@pytest.mark.slow
async def test_killed_at_any_moment_every_payment_has_its_effect_and_every_effect_its_payment(folder: Path) -> None:
    for seed in range(8):
        processes = [start(keep_paying, str(folder), 2 * seed + k) for k in (0, 1)]
        before = len(both(folder))
        within(30.0, lambda before=before, seed=seed: len(both(folder)) > before + 3 + 5 * seed)  # type: ignore[misc]
        for process in processes:
            process.kill()
        assert [ended(process) for process in processes] == [KILLED, KILLED]
        assert_both_or_neither(folder)

    SharedTime(folder).pass_by()
    async with open_gate(folder) as gate:
        await recovered(gate)
        assert await unsettled(gate) == 0
        orders = [order for order, (_, state) in both(folder).items() if state == "reconciled_absent"]
        for order in orders:
            assert type(await gate.submit(proposal(order), principal=AGENT, run=f"again-{order}")) is Succeeded
        assert_audit_is_whole(gate)
    assert set(both(folder).values()) == {(1, "committed")}
    assert waiting(folder) == 0


async def unsettled(gate: Gate) -> int:
    states = (EffectState.DISPATCHED, EffectState.UNKNOWN)
    return len(await gate.store.effects(tenant=None, states=states, limit=999))

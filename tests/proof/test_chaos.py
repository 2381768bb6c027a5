"""Chaos on the embedded store: a clean table under deaths at every step, a telling one where something is broken."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from collections import Counter
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

import placet
from placet.errors import ConfigurationError
from placet.model.effect import EffectState
from placet.proof.chaos import ChaosPlan, ChaosReport, Row, Sabotage, Steps, run_chaos
from placet.proof.chaos.herd import ChaosFailed, Herd
from placet.proof.chaos.plan import AT_RANDOM, NAMED_STEPS, STOOD_STILL, UNDISTURBED, VERBS, Life, Timing
from placet.proof.chaos.reckoning import Account, Books
from placet.proof.chaos.report import COLUMNS
from placet.proof.chaos.slots import Load, Slot
from placet.proof.chaos.supervisor import Supervisor
from placet.testing.kill_points import Mortal

LENGTHS = ["short", pytest.param("long", marks=pytest.mark.exhaustive)]
"""As little as shows anything, however long that takes; and as much as 60 seconds hold."""
KILLED = -signal.SIGKILL


@pytest.fixture(scope="module", params=LENGTHS)
def all_steps(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> ChaosReport:
    """One run of everything, which several tests look at."""
    store = tmp_path_factory.mktemp("chaos") / "chaos.db"
    return asyncio.run(run_chaos(_plan_of_all(str(store), request.param)))


def _plan_of_all(store: str, length: str) -> ChaosPlan:
    if length == "long":
        return ChaosPlan(store=store, kills=10_000, seconds=60.0, seed=4)
    return ChaosPlan(store=store, kills=30, operations=40, seconds=100.0, workers=4, seed=4)


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.req("C044", "C045", "H042", "H046", "X001")
@pytest.mark.case("G09", "H01")
def test_under_deaths_at_every_step_nothing_acts_twice_and_nothing_is_lost(all_steps: ChaosReport) -> None:
    total = all_steps.reckoning.total

    assert (total.acted_twice, total.lost, total.orphans, total.still_unknown) == (0, 0, 0, 0)
    assert all_steps.reckoning.breaks == 0
    assert all_steps.is_clean
    assert all_steps.load.kills >= 8
    assert total.acted_once > 5 and total.reconciled > 1


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_the_rows_add_up_and_every_operation_is_in_exactly_one_of_them(all_steps: ChaosReport) -> None:
    *rows, total = all_steps.rows
    numbers = [name for name, value in asdict(total).items() if isinstance(value, int)]

    assert {name: sum(getattr(row, name) for row in rows) for name in numbers} == {
        name: getattr(total, name) for name in numbers
    }
    assert total.operations == len(all_steps.load.begun)
    assert total.operations == total.acted_once + total.never_acted + total.acted_twice + total.lost + (
        total.still_unknown
    )
    named = {step.name for step in NAMED_STEPS}
    assert {row.name for row in rows} <= named | {AT_RANDOM, STOOD_STILL, UNDISTURBED}  # nothing befell the database
    assert sum(row.times for row in rows if row.name != STOOD_STILL) >= all_steps.load.kills
    most = [name for name in named if all_steps.load.times[name]]
    assert len(most) + len(all_steps.load.unreached) == len(named)
    assert len(most) >= 5


SHOWS = {
    Sabotage.LATE_REMOTE: "acted_twice",
    Sabotage.NO_GUARD: "acted_twice",
    Sabotage.FORGETFUL_STORE: "lost",
    Sabotage.SILENT_STORE: "orphans",
}
SHOWN_BESIDE = (Sabotage.LATE_REMOTE, Sabotage.SILENT_STORE)
"""The one shows in the column of another, the other in what the command says of it."""


@pytest.mark.slow
@pytest.mark.timeout(1_200)
@pytest.mark.parametrize(
    "sabotage",
    [pytest.param(each, marks=pytest.mark.exhaustive) if each in SHOWN_BESIDE else each for each in Sabotage],
)
def test_what_is_broken_on_purpose_shows_in_its_column(sabotage: Sabotage, tmp_path: Path) -> None:
    """Whether a worker that stands still wakes too late for its guard, and what it began is asked for once more, is
    chance: most loads of so many deaths show it, and one of many is enough.
    """
    is_chance = sabotage is Sabotage.NO_GUARD
    for seed in range(1, 17):
        plan = ChaosPlan(
            store=str(tmp_path / f"chaos-{seed}.db"),
            kills=40 if is_chance else 4,
            operations=60 if is_chance else 30,
            seconds=40.0 if is_chance else 100.0,
            workers=4,
            steps=Steps.RANDOM,
            sabotage=sabotage,
            seed=seed,
        )
        report = asyncio.run(run_chaos(plan))
        if getattr(report.reckoning.total, SHOWS[sabotage]) > 0:
            assert not report.is_clean
            return
    pytest.fail(f"{sabotage} was never seen: {report.as_data()}")


def chaos(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(Path(sys.executable).with_name("placet")), "chaos", *words],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_command_prints_the_table_writes_the_document_and_ends_with_0(tmp_path: Path) -> None:
    output, store = tmp_path / "chaos.json", tmp_path / "store.db"

    ran = chaos(
        *("--kills", "4", "--seconds", "60", "--workers", "2", "--seed", "7", "--steps", "random"),
        *("--store", str(store), "--output", str(output)),
    )

    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines()[0].split("  ")[0] == COLUMNS[0][0]
    assert "seed 7" in ran.stdout and "Nothing acted twice" in ran.stdout
    document = json.loads(output.read_text())
    assert document["schema"] == "chaos/1" and document["clean"]
    assert (document["settings"]["seed"], document["settings"]["workers"]) == (7, 2)
    assert [row["name"] for row in document["rows"]][-1] == "in sum"
    assert store.exists()

    assert json.loads(chaos("--output", str(output), "--json").stdout)["code"] == "exists"
    nowhere = chaos("--output", str(output.parent / "no-folder" / "report.json"), "--json")
    assert (nowhere.returncode, "no folder for it" in json.loads(nowhere.stdout)["message"]) == (2, True)
    again = chaos("--store", str(store), "--json")

    assert again.returncode == 2
    assert json.loads(again.stdout)["code"] == "store_in_use"


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_command_ends_with_1_where_the_table_is_not_clean() -> None:
    ran = chaos(
        *("--kills", "8", "--seconds", "60", "--workers", "2", "--steps", "random"),
        *("--sabotage", "silent-store", "--json"),
    )

    assert ran.returncode == 1, ran.stderr
    document = json.loads(ran.stdout)
    assert not document["clean"] and document["settings"]["sabotage"] == "silent-store"
    assert document["rows"][-1]["orphans"] > 0


# ---------------------------------------------------------------- what it refuses


async def test_a_store_that_forgets_or_holds_other_effects_is_refused_and_nothing_is_started(tmp_path: Path) -> None:
    @placet.tool(effect="write", risk="medium", permission="pay")
    async def pay(order: str) -> str:
        return order

    agent = placet.Principal.agent("agent", tenant="acme", roles=["operator"], scopes=["pay"])
    async with placet.open(tools=[pay], store=tmp_path / "real.db") as gate:
        await gate.submit({"call_id": "c", "tool": "pay", "arguments": {"order": "A7"}}, principal=agent, run="r")

    with pytest.raises(ConfigurationError) as in_use:
        await run_chaos(ChaosPlan(store=str(tmp_path / "real.db")))
    with pytest.raises(ConfigurationError):
        await run_chaos(ChaosPlan(store="memory:"))

    assert in_use.value.code == "store_in_use"
    assert "store" not in ChaosPlan(store="postgresql://u:secret@h/d").as_data()


@pytest.mark.parametrize("wrong", [{"kills": 0}, {"workers": 0}, {"per_step": 0}, {"operations": 0}, {"seconds": 0.0}])
def test_a_plan_that_means_nothing_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        ChaosPlan(store="chaos.db", **wrong)


def test_the_steps_are_verbs_that_the_store_has() -> None:
    from placet.ports.store import Store

    assert [verb for verb in VERBS if not hasattr(Store, verb)] == []
    assert len({step.name for step in NAMED_STEPS}) == len(NAMED_STEPS) == 2 * len(VERBS) + 3


# ---------------------------------------------------------------- how it counts

FAILED, COMMITTED, UNKNOWN = EffectState.FAILED, EffectState.COMMITTED, EffectState.UNKNOWN
FOUND, ABSENT = EffectState.RECONCILED_COMMITTED, EffectState.RECONCILED_ABSENT


@pytest.mark.parametrize(
    ("account", "columns"),
    [
        (Account(state=COMMITTED, acted=1, was_told_success=True), {"acted_once"}),
        (Account(state=FOUND, acted=1, was_unknown=True), {"acted_once", "reconciled"}),
        (Account(state=None), {"never_acted"}),
        (Account(state=FAILED), {"never_acted"}),
        (Account(state=ABSENT, was_unknown=True), {"never_acted", "reconciled"}),
        (Account(state=UNKNOWN, was_unknown=True), {"still_unknown"}),
        (Account(state=EffectState.DISPATCHED, acted=1), {"still_unknown"}),
        (Account(state=COMMITTED, acted=2), {"acted_twice"}),
        (Account(state=ABSENT, acted=1), {"lost"}),
        (Account(state=None, acted=1), {"lost"}),
        (Account(state=COMMITTED, acted=0), {"lost"}),
        (Account(state=FAILED, acted=0, was_told_success=True), {"lost"}),
        (Account(state=COMMITTED, acted=1, orphans=2), {"acted_once", "orphans"}),
    ],
    ids=lambda value: ",".join(sorted(value)) if isinstance(value, set) else None,
)
def test_an_operation_is_counted_where_ledger_remote_and_audit_put_it(account: Account, columns: set[str]) -> None:
    row = Row(name="row")

    account.enter(row)

    counted = {name for name, value in asdict(row).items() if isinstance(value, int) and value} - {"operations"}
    assert (counted, row.operations) == (columns, 1)
    assert row.is_clean == (not counted & {"acted_twice", "lost", "orphans", "still_unknown"})


def test_started_and_completed_events_are_paired_by_run_call_attempt_and_fence() -> None:
    books, pairs = Books(), Counter[tuple[Any, ...]]()
    event = {"tenant": "chaos", "run_id": "r", "call_id": "transfer:1", "attempt": 1, "fence": 1}

    books.take_event({**event, "kind": "started"}, pairs)
    books.take_event({**event, "kind": "completed", "attempt": 2}, pairs)
    books.take_event({**event, "kind": "effect_reconciled"}, pairs)

    assert sorted(pairs.values()) == [-1, 1]
    assert books.accounts["transfer:1"].was_unknown


def test_a_slot_knows_from_its_journal_what_is_open_and_what_a_death_disturbs(tmp_path: Path) -> None:
    slot, load = Slot(number=2, journal=tmp_path / "slot"), Load()
    lines = [
        {"what": "ready", "seconds": 0.5},
        {"what": "begun", "operation": "a"},
        {"what": "begun", "operation": "b"},
        {"what": "told", "operation": "a", "status": "succeeded"},
        {"what": "begun", "operation": "c"},
        {"what": "told", "operation": "b", "status": "unknown"},
    ]
    slot.journal.write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"what": "beg')

    kinds = slot.take_in(load)
    load.disturb(slot.asking, "before claim")
    load.disturb(["b", "c"], "at random")

    assert kinds == [line["what"] for line in lines]
    assert (list(slot.open), slot.asking, slot.next) == (["b", "c"], {"c"}, 3)
    assert (load.successes, load.disturbed) == ({"a"}, {"c": "before claim", "b": "at random"})
    slot.journal.write_text(slot.journal.read_text() + 'un", "operation": "d"}\n')
    assert slot.take_in(load) == ["begun"]


# ---------------------------------------------------------------- its processes


def a_life(folder: Path, number: int = 1, **changes: Any) -> Life:
    life = Life(
        slot=0,
        number=number,
        seed=1,
        store=str(folder / "chaos.db"),
        key=None,
        port=1,
        journal=str(folder / "slot"),
        open=(),
        first=0,
        step="",
        nth=1,
        sabotage="",
        timing=asdict(Timing()),
    )
    return replace(life, **changes)


async def test_a_worker_dies_at_its_step_and_others_when_they_are_killed_or_their_herd_ends(tmp_path: Path) -> None:
    async with asyncio.timeout(60):
        async with Herd() as herd:
            at_its_step = await herd.start(a_life(tmp_path, 1, step="after claim"))
            shot = await herd.start(a_life(tmp_path, 2))
            stopped = await herd.start(a_life(tmp_path, 3))
            stopped.stop()
            shot.kill()
            assert [await at_its_step.ended, await shot.ended] == [KILLED, KILLED]
            at_its_step.kill()  # buried already: nobody is sent a signal
            assert not stopped.ended.done()

        assert await stopped.ended == KILLED


async def test_a_worker_whose_store_cannot_be_opened_says_why_and_many_of_them_end_the_run(tmp_path: Path) -> None:
    plan = ChaosPlan(
        store=str(tmp_path / "none" / "chaos.db"), kills=10_000, workers=2, seconds=110.0, steps=Steps.RANDOM
    )

    with pytest.raises(ChaosFailed, match="store_missing"):
        await Supervisor(plan, port=1, folder=tmp_path).run()


def test_a_mortal_store_is_what_dies_at_the_named_steps() -> None:
    points = [step.point(2) for step in NAMED_STEPS if step.inside is None]

    assert all(point is not None and point.nth == 2 for point in points)
    assert {point.verb for point in points if point is not None} == set(VERBS)
    assert Mortal.__doc__

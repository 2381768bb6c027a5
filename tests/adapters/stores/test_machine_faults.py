"""A machine that fails for real: a disk without room, files cut and flipped, a log that is lost, clocks that jump.

Each ends closed, with a code, a next step and a truthful word about whether it may have acted. With the fault gone the
store works again, what is on record is on record, and nothing acted twice.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import apsw
import pytest

import placet
from placet.bootstrap.records import verify_audit
from placet.bootstrap.stores import open_existing_store, open_store
from placet.engine.gate import Gate
from placet.errors import PlacetError, StoreCorrupt, StoreError, StoreNotWritable
from placet.model.effect import EffectState
from placet.model.outcome import Outcome, Refused, Replayed, Succeeded, Unknown
from placet.proof.doctor import Deployment, Level, diagnose
from placet.testing.fakes import FakeClock
from tests.kill_points.actors import AGENT, Place, assert_audit_is_whole, open_gate, proposal


async def pay(gate: Gate, order: str) -> Outcome:
    return await gate.submit(proposal(order=order, call_id=order), principal=AGENT, run="run-1")


async def settled(gate: Gate) -> None:
    """Let settlements that were put off come through."""
    async with asyncio.timeout(30):
        while await gate.store.effects(tenant=None, states=(EffectState.DISPATCHED,), limit=1):
            await asyncio.sleep(0.02)


# ---------------------------------------------------------------- no room


@contextmanager
def file_size(most: int) -> Iterator[None]:
    """No file of this process may grow beyond so many bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@contextmanager
def small_disk(mebibytes: int) -> Iterator[Path]:
    """A file system of its own, in memory and really small."""
    place = Path("/tmp") / f"placet-small-disk-{os.getpid()}"
    place.mkdir()
    try:
        made = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={mebibytes}m", "placet", str(place)], check=False)
        if made.returncode != 0:
            pytest.skip("needs to mount a file system: root, and the leave to mount")
        try:
            yield place
        finally:
            subprocess.run(["umount", "--lazy", str(place)], check=True)
    finally:
        place.rmdir()


def assert_closed_and_truthful(outcomes: list[Outcome], place: Place) -> None:
    """Some were kept off; what was refused did not act, what acted says so."""
    kept_off = [outcome for outcome in outcomes if not outcome.is_success]
    assert kept_off
    effects = place.remote.effects()
    for outcome in outcomes:
        acted = effects[f"acme/{outcome.operation_key}"]
        assert acted <= 1
        assert type(outcome) in (Succeeded, Refused, Unknown)
        assert outcome.may_have_acted or acted == 0
        if type(outcome) is Refused:
            assert (outcome.code, outcome.retryable) == ("boundary_unavailable", True)
            assert outcome.message


@pytest.mark.case("N02")
async def test_a_file_that_may_not_grow_acts_no_more_and_with_room_again_everything_goes_on(tmp_path: Path) -> None:
    """SQLite does not tell such a limit from a failing disk, so what was not written is unknown, and not acted on."""
    place = Place(folder=tmp_path)
    async with open_gate(place) as gate:
        assert type(await pay(gate, "o-0")) is Succeeded
        with file_size(40_960):  # less than the log has, and less than the file would need to take it in
            outcomes = [await pay(gate, f"o-{n}") for n in range(1, 20)]
        assert_closed_and_truthful(outcomes, place)
        assert {type(outcome) for outcome in outcomes} <= {Refused, Unknown}
        assert sum(place.remote.effects().values()) == 1

        await settled(gate)
        again = [await pay(gate, f"o-{n}") for n in range(1, 20)]
        assert {type(outcome) for outcome in again} == {Succeeded}
        await settled(gate)
        assert_audit_is_whole(gate)
    assert set(place.remote.effects().values()) == {1}


@pytest.mark.case("N02")
async def test_on_a_disk_that_is_really_full_nothing_runs_and_with_room_again_everything_does() -> None:
    with small_disk(2) as folder:
        place = Place(folder=folder)
        async with open_gate(place) as gate:
            assert type(await pay(gate, "o-0")) is Succeeded
            filler = folder / "filler"
            with contextlib.suppress(OSError):
                filler.write_bytes(b"x" * 4 * 1024 * 1024)
            outcomes = [await pay(gate, "o-1")]
            while type(outcomes[-1]) is not Refused and len(outcomes) < 200:  # the last free pages are still used
                outcomes.append(await pay(gate, f"o-{len(outcomes) + 1}"))
            assert_closed_and_truthful(outcomes, place)
            assert type(outcomes[-1]) is Refused and outcomes[-1].reasons == ("store_unavailable",)
            assert await levels(place, "store_space") == [Level.FAIL]

            filler.unlink()
            await settled(gate)
            assert type(await pay(gate, "o-99")) is Succeeded
            assert_audit_is_whole(gate)
        assert set(place.remote.effects().values()) == {1}


async def test_on_a_full_disk_no_store_is_half_made() -> None:
    with small_disk(1) as folder:
        with contextlib.suppress(OSError):
            (folder / "filler").write_bytes(b"x" * 2 * 1024 * 1024)
        with pytest.raises(PlacetError) as caught:
            open_store(folder / "placet.db")
        assert caught.value.hint and not caught.value.may_have_acted and caught.value.__cause__ is None

        for left in folder.iterdir():
            left.unlink()
        _, store = open_store(folder / "placet.db")
        await store.close()


@pytest.mark.case("N02")
async def test_a_file_system_that_is_mounted_read_only_is_named(tmp_path: Path) -> None:
    with small_disk(4) as folder:
        place = Place(folder=folder)
        async with open_gate(place) as gate:
            await pay(gate, "o-0")
        subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)
        with pytest.raises(StoreNotWritable) as caught:
            async with open_gate(place):
                pass
        assert (caught.value.code, caught.value.may_have_acted) == ("store_not_writable", False)
        assert caught.value.hint
        assert await levels(place, "store_writable") == [Level.FAIL]

        subprocess.run(["mount", "-o", "remount,rw", str(folder)], check=True)
        async with open_gate(place) as gate:
            assert type(await pay(gate, "o-0")) is Replayed
            assert type(await pay(gate, "o-1")) is Succeeded
            assert_audit_is_whole(gate)
        assert set(place.remote.effects().values()) == {1}


async def levels(place: Place, *checks: str) -> list[Level]:
    deployment = Deployment(store=place.store, key=None, tools=(), policy=placet.Matrix())
    report = await diagnose(deployment)
    return [each.saying.level for each in report.diagnoses if each.id in checks]


# ---------------------------------------------------------------- a file that is damaged


@pytest.fixture
async def place(tmp_path: Path) -> Place:
    """A closed store with forty effects, so that its tables have pages of their own."""
    place = Place(folder=tmp_path)
    async with open_gate(place) as gate:
        for n in range(40):
            assert type(await pay(gate, f"o-{n}")) is Succeeded
    return place


def pages_of(store: Path, table: str) -> list[int]:
    database = apsw.Connection(str(store))
    try:
        found = database.execute("SELECT rootpage FROM sqlite_schema WHERE tbl_name = ?", (table,)).fetchall()
        return [int(page) for (page,) in found if page]
    finally:
        database.close()


def flip_table(place: Place, table: str) -> None:
    for page in pages_of(place.store, table):
        with place.store.open("r+b") as file:
            file.seek((page - 1) * 4096)
            file.write(b"\xff" * 32)


def cut(place: Place, share: float) -> None:
    os.truncate(place.store, int(place.store.stat().st_size * share) // 4096 * 4096)


DAMAGE = {
    "pages of the effects are flipped": lambda place: flip_table(place, "effects"),
    "pages of the audit are flipped": lambda place: flip_table(place, "audit_events"),
    "pages of the heads are flipped": lambda place: flip_table(place, "audit_heads"),
    "pages of the runs are flipped": lambda place: flip_table(place, "runs"),
    "the file is cut in half": lambda place: cut(place, 0.5),
    "the file is cut to a page": lambda place: os.truncate(place.store, 4096),
    "the header is flipped": lambda place: place.store.write_bytes(b"\xff" * 100 + place.store.read_bytes()[100:]),
}


@pytest.mark.parametrize("damage", DAMAGE)
async def test_a_damaged_store_acts_no_more_and_its_backup_goes_on(place: Place, tmp_path: Path, damage: str) -> None:
    backup = tmp_path / "backup.db"
    shutil.copy(place.store, backup)
    DAMAGE[damage](place)

    try:
        async with open_gate(place) as gate:
            outcomes = [await pay(gate, "o-1"), await pay(gate, "o-new")]
    except StoreError as fault:
        assert type(fault) is StoreCorrupt
        assert (fault.code, fault.may_have_acted) == ("store_corrupt", False)
        assert "backup" in fault.hint and fault.__cause__ is None
    else:
        for outcome in outcomes:
            assert type(outcome) is Refused and outcome.code == "boundary_unavailable", outcome
    assert set(place.remote.effects().values()) == {1} and len(place.remote.effects()) == 40
    report = await diagnose(Deployment(store=place.store, key=None, tools=(), policy=placet.Matrix()))
    assert {each.id for each in report.red} & {"store_file", "store_integrity", "store_schema"}

    for left in tmp_path.glob("placet.db-*"):
        left.unlink()
    shutil.copy(backup, place.store)
    async with open_gate(place) as gate:
        assert type(await pay(gate, "o-1")) is Replayed
        assert type(await pay(gate, "o-new")) is Succeeded
        assert_audit_is_whole(gate)
    assert set(place.remote.effects().values()) == {1}


@pytest.mark.parametrize("lost", ["deleted", "flipped"])
async def test_a_log_that_was_lost_after_a_crash_shows_against_an_anchor(
    place: Place, tmp_path: Path, lost: str
) -> None:
    """Acknowledged commits are gone with it, which nobody can undo; but nobody need believe that they never were."""
    crashed = Place(folder=tmp_path / "crashed")
    crashed.folder.mkdir()
    async with open_gate(place) as gate:
        await pay(gate, "o-late")
        anchors = {head.writer: (head.sequence, head.link) for head in await gate.store.heads()}
        for suffix in ("", ".key", "-wal"):
            shutil.copy(f"{place.store}{suffix}", crashed.folder)
    log = crashed.folder / "placet.db-wal"
    if lost == "deleted":
        log.unlink()
    else:
        log.write_bytes(log.read_bytes()[:40] + b"\xff" * (log.stat().st_size - 40))

    keys, store = open_existing_store(crashed.store)
    try:
        assert (await verify_audit(store, keys)).holds  # what is left is whole
        report = await verify_audit(store, keys, anchors=anchors)
    finally:
        await store.close()

    assert [each.problem for each in report.breaks] == ["history_missing"]


async def test_a_log_without_its_index_is_recovered_whole(place: Place, tmp_path: Path) -> None:
    crashed = Place(folder=tmp_path / "crashed")
    crashed.folder.mkdir()
    async with open_gate(place) as gate:
        await pay(gate, "o-late")
        for suffix in ("", ".key", "-wal"):
            shutil.copy(f"{place.store}{suffix}", crashed.folder)
    shutil.copy(place.folder / "remote.jsonl", crashed.folder)

    async with open_gate(crashed) as gate:
        assert type(await pay(gate, "o-late")) is Replayed
        assert_audit_is_whole(gate)


# ---------------------------------------------------------------- clocks that jump

HOUR, DECADE = 3_600.0, 10 * 365 * 86_400.0
JUMPS = {"an hour on": HOUR, "an hour back": -HOUR, "ten years on": DECADE, "ten years back": -DECADE}


class SetClock(FakeClock):
    """A clock whose wall can be set, while its steady time goes on."""

    def set_by(self, seconds: float) -> None:
        self._now += timedelta(seconds=seconds)


@contextmanager
def jumping(tmp_path: Path) -> Iterator[tuple[SetClock, list[str], list[placet.Tool], dict[str, Any]]]:
    clock, acted = SetClock(datetime(2026, 6, 1, tzinfo=UTC)), list[str]()
    during: dict[str, Any] = {}

    async def look(context: placet.ProbeContext) -> placet.Found | placet.Absent:
        return placet.Found(result="done") if acted else placet.Absent()

    @placet.tool(effect="write", risk="medium", permission="pay", operation_key="pay:{order}", probe=look,
                 remote=placet.Remote(arrival_bound_seconds=1.0))  # fmt: skip
    async def pay(order: str, context: placet.CallContext) -> str:
        during.get("before", lambda: None)()
        context.guard()
        acted.append(order)
        during.get("after", lambda: None)()
        if during.get("lost"):
            raise ConnectionError
        return "done"

    yield clock, acted, [pay], during


def jumping_gate(tmp_path: Path, tools: list[placet.Tool], clock: SetClock) -> Any:
    return placet.open(tools=tools, store=tmp_path / "placet.db", clock=clock, recovery="manual")


async def asked(gate: Gate, order: str = "o-1") -> Outcome:
    return await gate.submit(
        {"call_id": order, "tool": "pay", "arguments": {"order": order}}, principal=AGENT, run="run-1"
    )


@pytest.mark.parametrize("jump", JUMPS)
@pytest.mark.parametrize("moment", ["before", "after"])
async def test_a_clock_that_is_set_while_a_handler_runs_acts_once_and_hides_nothing(
    tmp_path: Path, jump: str, moment: str
) -> None:
    """Ahead of the first byte a clock that jumped on lets nothing leave; afterwards it changes nothing."""
    with jumping(tmp_path) as (clock, acted, tools, during):
        during[moment] = lambda: clock.set_by(JUMPS[jump])
        async with jumping_gate(tmp_path, tools, clock) as gate:
            first = await asked(gate)
            unsent = moment == "before" and JUMPS[jump] > 0
            assert acted == ([] if unsent else ["o-1"])
            assert first.may_have_acted is bool(acted)
            during.clear()
            again = await asked(gate)
            assert again.is_success, again
            report = await gate.verify_audit()
        assert (report.holds, report.unpaired) == (True, 0)
        assert acted == ["o-1"]


@pytest.mark.parametrize("jump", JUMPS)
async def test_an_unknown_effect_outlives_a_jump_and_is_settled_without_acting_again(tmp_path: Path, jump: str) -> None:
    with jumping(tmp_path) as (clock, acted, tools, during):
        during["lost"] = True
        async with jumping_gate(tmp_path, tools, clock) as gate:
            assert type(await asked(gate)) is Unknown
            clock.set_by(JUMPS[jump])
            assert type(await asked(gate)) is Unknown
            during.clear()
        async with jumping_gate(tmp_path, tools, clock) as gate:  # another start, as after the repair of a clock
            await gate.reconciler.recover()
            assert (await asked(gate)).is_success
            assert (await gate.verify_audit()).holds
        assert acted == ["o-1"]


@pytest.mark.parametrize("jump", JUMPS)
async def test_an_approval_is_never_longer_for_a_jump_than_it_was_signed_for(tmp_path: Path, jump: str) -> None:
    """A clock that was set back does not give a used or an expired approval new life, nor one from the future any."""
    clock, acted = SetClock(datetime(2026, 6, 1, tzinfo=UTC)), list[str]()
    mara = placet.Principal.person("mara", tenant="acme", scopes=("approvals.decide",))

    @placet.tool(effect="write", risk="medium", permission="pay", approval="always")
    async def pay(order: str) -> str:
        acted.append(order)
        return "done"

    async with jumping_gate(tmp_path, [pay], clock) as gate:
        waiting = await asked(gate)
        assert isinstance(waiting, placet.AwaitingApproval)
        view = await gate.desk.show(waiting.approval_id, by=mara)
        await gate.desk.approve(waiting.approval_id, digest=view.digest, by=mara)
        clock.set_by(JUMPS[jump])

        outcome = await asked(gate)

        assert (
            not outcome.is_success and acted == []
        )  # an hour is more than it was given, and more than clocks may differ
        assert (await gate.verify_audit()).holds


async def test_the_doctor_names_a_clock_that_was_set_back(tmp_path: Path) -> None:
    with jumping(tmp_path) as (clock, _, tools, _during):
        async with jumping_gate(tmp_path, tools, clock) as gate:
            await asked(gate)
        clock.set_by(-HOUR)
        deployment = Deployment(store=tmp_path / "placet.db", key=None, tools=(), policy=placet.Matrix())
        report = await diagnose(deployment, clock=clock)
    assert "clock_history" in {each.id for each in report.red}

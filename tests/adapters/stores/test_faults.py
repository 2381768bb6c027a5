"""What an operating system does to a store: absent folders, wrong keys, full disks, locks, syncs that fail.

Every fault is ours, with a code and a next step; nothing is half-done, and a store that serves again is used again.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import apsw
import pytest

from placet.adapters import keys as key_files
from placet.adapters.stores.sqlite import connection, writer
from placet.bootstrap.records import verify_audit
from placet.bootstrap.stores import key_path, open_existing_store, open_store
from placet.engine.gate import Gate
from placet.errors import (
    KeyMaterialError,
    PlacetError,
    StoreCorrupt,
    StoreError,
    StoreInDoubt,
    StoreMissing,
    StoreNotWritable,
    StoreTooNew,
    StoreUnavailable,
)
from placet.model.effect import EffectState
from placet.model.ledger import Claimed, Moved, Recorded
from placet.model.outcome import Outcome, Refused, Replayed, Succeeded, Unknown
from placet.ports.store import Store
from placet.testing.conformance import a_claim, a_settlement, an_event
from tests.kill_points.actors import AGENT, Place, assert_audit_is_whole, open_gate, proposal


async def made(path: Path) -> Path:
    _, store = open_store(path)
    await store.record((an_event(),))
    await store.close()
    return path


def fault_of_opening(path: Path, **how: Any) -> PlacetError:
    with pytest.raises(PlacetError) as caught:
        open_store(path, **how)
    assert caught.value.hint and str(path.parent) in str(caught.value) + caught.value.hint
    assert caught.value.__cause__ is None
    return caught.value


# ---------------------------------------------------------------- opening


def test_a_missing_folder_is_said_and_not_made(tmp_path: Path) -> None:
    fault = fault_of_opening(tmp_path / "absent" / "placet.db")

    assert (type(fault), fault.code) == (StoreMissing, "store_missing")
    assert list(tmp_path.iterdir()) == []


def test_looking_at_a_store_that_is_not_there_makes_none(tmp_path: Path) -> None:
    with pytest.raises(StoreMissing):
        open_existing_store(tmp_path / "placet.db")

    assert list(tmp_path.iterdir()) == []


async def test_a_store_without_its_key_is_refused_and_gets_no_new_one(tmp_path: Path) -> None:
    path = await made(tmp_path / "placet.db")
    key_path(path).unlink()

    fault = fault_of_opening(path)

    assert (type(fault), fault.code) == (KeyMaterialError, "key_missing")
    assert not key_path(path).exists()


async def test_a_store_with_another_stores_key_is_refused(tmp_path: Path) -> None:
    path, other = await made(tmp_path / "placet.db"), await made(tmp_path / "other.db")

    with pytest.raises(KeyMaterialError) as caught:
        open_store(path, key=key_path(other))

    assert caught.value.code == "key_mismatch"


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o666])
async def test_a_key_that_others_can_reach_is_refused(tmp_path: Path, mode: int) -> None:
    path = await made(tmp_path / "placet.db")
    key_path(path).chmod(mode)

    fault = fault_of_opening(path)

    assert fault.code == "key_exposed" and "chmod 600" in fault.hint


async def test_a_new_store_makes_a_key_for_its_owner_alone(tmp_path: Path) -> None:
    path = await made(tmp_path / "placet.db")

    assert key_path(path).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", "no json", '{"placet_key_file": 1, "current": "k", "keys": {}}', "\xff"]
)
async def test_a_key_file_that_is_none_is_refused(tmp_path: Path, text: str) -> None:
    path = await made(tmp_path / "placet.db")
    key_path(path).write_text(text, "utf-8")

    assert type(fault_of_opening(path)) is KeyMaterialError


async def test_a_check_value_that_was_altered_is_refused(tmp_path: Path) -> None:
    path = await made(tmp_path / "placet.db")
    apsw.Connection(str(path)).execute("UPDATE placet_meta SET value = 'x' WHERE name = 'key_check'")

    with pytest.raises(KeyMaterialError) as caught:
        open_store(path)
    assert caught.value.code == "key_mismatch"


def test_a_starter_that_was_overtaken_between_key_and_store_opens_with_the_others_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "placet.db"
    exists, made_by_other = Path.exists, []

    def overtaken(self: Path, **how: Any) -> bool:
        found = exists(self, **how)
        if self == key_path(path) and not found and not made_by_other:
            made_by_other.append(True)
            _, store = open_store(path)
            asyncio.run(store.close())
        return found

    monkeypatch.setattr(Path, "exists", overtaken)
    _, store = open_store(path)

    assert made_by_other == [True]
    asyncio.run(store.close())


def test_a_new_key_file_is_durable_before_the_store_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Power may fail at any time: a store whose key never reached the disk would be closed for ever."""
    synced: list[str] = []
    fsync = os.fsync

    def remember(descriptor: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", remember)
    key_files.create_key_file(tmp_path / "placet.db.key")

    assert len(synced) == 2 and synced[1] == str(tmp_path)


@pytest.mark.parametrize("content", [b"this is no database, but long enough to look like one" * 40, b"short"])
def test_a_file_that_is_no_database_is_refused_and_kept(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "placet.db"
    key_files.create_key_file(key_path(path))
    path.write_bytes(content)

    assert type(fault_of_opening(path)) is StoreCorrupt
    assert path.read_bytes() == content


def test_somebody_elses_database_is_refused_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "placet.db"
    key_files.create_key_file(key_path(path))
    apsw.Connection(str(path)).execute("CREATE TABLE songs (name)")

    assert type(fault_of_opening(path)) is StoreCorrupt
    assert list(apsw.Connection(str(path)).execute("SELECT name FROM sqlite_schema")) == [("songs",)]


@pytest.mark.case("O05")
async def test_a_store_of_a_newer_placet_is_refused(tmp_path: Path) -> None:
    path = await made(tmp_path / "placet.db")
    database = apsw.Connection(str(path))
    database.pragma("user_version", 1_000)
    database.close()

    fault = fault_of_opening(path)

    assert (type(fault), fault.code) == (StoreTooNew, "store_too_new")
    assert apsw.Connection(str(path)).pragma("user_version") == 1_000


AS_NOBODY = """
import os, sys
from pathlib import Path
import encodings.ascii  # what Python loads late may lie where this user cannot read
from placet.adapters.stores.sqlite.statements import migrations
migrations()
from placet.bootstrap.stores import open_store
from placet.errors import PlacetError
os.setgroups([]); os.setgid(65534); os.setuid(65534)
try:
    open_store(Path(sys.argv[1]))
except PlacetError as fault:
    print(type(fault).__name__, fault.code, bool(fault.hint))
"""


@pytest.mark.parametrize(
    ("folder", "file", "key", "said"),
    [
        (0o555, None, None, "KeyMaterialError key_not_writable True"),
        (0o555, 0o644, 0o600, "StoreNotWritable store_not_writable True"),
        (0o755, 0o444, 0o600, "StoreNotWritable store_not_writable True"),
        (0o755, 0o644, 0o000, "KeyMaterialError key_missing True"),
    ],
    ids=["a folder without a store", "a folder with a store", "a store", "a key"],
)
@pytest.mark.skipif(os.geteuid() != 0, reason="plays another user, which needs root")
async def test_what_this_user_may_not_write_or_read_is_said(
    folder: int, file: int | None, key: int | None, said: str
) -> None:
    place = Path(tempfile.mkdtemp(prefix="placet-", dir="/tmp"))
    try:
        path = place / "placet.db"
        if file is not None and key is not None:
            await made(path)
            for each in place.iterdir():
                os.chown(each, 65534, 65534)
                each.chmod(file)
            key_path(path).chmod(key)
        os.chown(place, 65534, 65534)
        place.chmod(folder)
        child = subprocess.run(
            [sys.executable, "-c", AS_NOBODY, str(path)], capture_output=True, text=True, cwd="/", check=True
        )
    finally:
        shutil.rmtree(place)

    assert child.stdout.strip() == said


# ---------------------------------------------------------------- full, locked


@asynccontextmanager
async def a_gate(tmp_path: Path) -> AsyncIterator[tuple[Gate, Place]]:
    place = Place(folder=tmp_path)
    async with open_gate(place) as gate:
        yield gate, place


async def pay(gate: Gate, order: str) -> Outcome:
    return await gate.submit(proposal(order=order, call_id=order), principal=AGENT, run="run-1")


def database_of(gate: Gate) -> apsw.Connection:
    """The writing connection, to make it suffer."""
    connection: apsw.Connection = gate.store._writer._connection  # type: ignore[attr-defined]
    return connection


@pytest.mark.case("N02")
async def test_on_a_full_disk_nothing_runs_and_with_room_again_everything_does(tmp_path: Path) -> None:
    async with a_gate(tmp_path) as (gate, place):
        await pay(gate, "o-0")
        pages = database_of(gate).pragma("page_count")
        database_of(gate).pragma("max_page_count", pages)
        outcomes = [await pay(gate, f"o-{n}") for n in range(1, 40)]
        refused = [outcome for outcome in outcomes if not outcome.is_success]
        assert refused and all(type(outcome) in (Refused, Unknown) for outcome in refused)
        unsent = [outcome for outcome in refused if type(outcome) is Refused]
        assert unsent and {(outcome.code, outcome.reasons) for outcome in unsent} == {
            ("boundary_unavailable", ("store_unavailable",))
        }
        acted = sum(place.remote.effects().values())
        assert acted == 1 + len(outcomes) - len(unsent)

        database_of(gate).pragma("max_page_count", 1_000_000)
        assert type(await pay(gate, "o-99")) is Succeeded
        await settled_in_the_background(gate)
        assert_audit_is_whole(gate)
    assert set(place.remote.effects().values()) == {1}


async def settled_in_the_background(gate: Gate) -> None:
    async with asyncio.timeout(30):
        while await gate.store.effects(tenant=None, states=(EffectState.DISPATCHED,), limit=1):
            await asyncio.sleep(0.02)


@pytest.mark.case("N02")
async def test_a_disk_that_fills_up_while_a_call_runs_costs_its_answer_and_not_its_record(tmp_path: Path) -> None:
    async with a_gate(tmp_path) as (gate, place):
        await pay(gate, "o-0")
        settle = gate.store.settle

        async def full(settlement: Any) -> Any:
            database_of(gate).pragma("max_page_count", database_of(gate).pragma("page_count"))
            return await settle(replace(settlement, sealed_result=b"x" * 60_000))

        gate.store.settle = full  # type: ignore[method-assign]
        outcome = await pay(gate, "o-1")
        gate.store.settle = settle  # type: ignore[method-assign]
        assert type(outcome) is Unknown

        database_of(gate).pragma("max_page_count", 1_000_000)
        await settled_in_the_background(gate)
        assert_audit_is_whole(gate)
        assert type(await pay(gate, "o-1")) is Replayed
    assert set(place.remote.effects().values()) == {1}


@pytest.mark.case("O01")
async def test_a_store_locked_for_too_long_refuses_before_dispatch_and_serves_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "BUSY_TIMEOUT_MILLISECONDS", 50)
    async with a_gate(tmp_path) as (gate, place):
        hog = apsw.Connection(str(place.store))
        hog.execute("BEGIN IMMEDIATE")
        refused = await pay(gate, "o-1")
        hog.execute("ROLLBACK")
        hog.close()

        assert type(refused) is Refused and refused.code == "boundary_unavailable" and refused.retryable
        assert place.remote.effects() == {}
        assert type(await pay(gate, "o-1")) is Succeeded
        assert_audit_is_whole(gate)


@pytest.mark.case("O01")
async def test_a_short_lock_is_waited_for(tmp_path: Path) -> None:
    async with a_gate(tmp_path) as (gate, place):
        hog = apsw.Connection(str(place.store))
        hog.execute("BEGIN IMMEDIATE")
        asking = asyncio.ensure_future(pay(gate, "o-1"))
        await asyncio.sleep(0.05)
        assert not asking.done()
        hog.execute("ROLLBACK")

        assert type(await asking) is Succeeded


@pytest.mark.case("O01")
async def test_a_long_reader_delays_nobody(tmp_path: Path) -> None:
    async with a_gate(tmp_path) as (gate, _):
        await pay(gate, "o-0")
        events = gate.store.chained()
        await anext(events)

        assert type(await asyncio.wait_for(pay(gate, "o-1"), 60)) is Succeeded
        assert len([event async for event in events]) == 1  # what it began to read is what it reads


# ---------------------------------------------------------------- syncs that fail


class Disk(apsw.VFS):
    """A disk whose write-ahead log can refuse to sync, with everything else as it is."""

    def __init__(self) -> None:
        self.failing = 0
        self.failed = 0
        super().__init__("placet-test-disk", "")

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:
        return File(self, name, flags)


class File(apsw.VFSFile):
    def __init__(self, disk: Disk, name: Any, flags: list[int]) -> None:
        self._disk, self._is_log = disk, bool(flags[0] & apsw.SQLITE_OPEN_WAL)
        super().__init__("", name, flags)

    def xSync(self, flags: int) -> None:
        if self._is_log and self._disk.failing:
            self._disk.failing -= 1
            self._disk.failed += 1
            raise apsw.IOError()
        super().xSync(flags)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    disk, original = Disk(), apsw.Connection
    monkeypatch.setattr(
        connection.apsw, "Connection", lambda path, **how: original(path, vfs="placet-test-disk", **how)
    )
    return disk


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
async def test_a_commit_whose_sync_failed_is_in_doubt_and_its_repeat_is_certain(tmp_path: Path, disk: Disk) -> None:
    keys, store = open_store(tmp_path / "placet.db")
    await store.record((an_event(),))
    disk.failing = 1

    with pytest.raises(StoreInDoubt):
        await store.claim(a_claim())
    answer = await store.claim(a_claim())
    assert isinstance(answer, Claimed)
    disk.failing = 1
    with pytest.raises(StoreInDoubt):
        await store.settle(a_settlement(answer.effect))
    settled = await store.settle(a_settlement(answer.effect))

    assert isinstance(settled, Moved) and settled.effect.state is EffectState.COMMITTED
    assert disk.failed == 2
    report = await verify_audit(store, keys)
    assert (report.breaks, report.events) == ((), 3)
    await store.close()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("failures", [1, 2, 3, 4])
async def test_a_gate_on_a_disk_that_fails_to_sync_acts_once_and_tells_no_lie(
    tmp_path: Path, disk: Disk, failures: int
) -> None:
    async with a_gate(tmp_path) as (gate, place):
        await pay(gate, "o-0")
        disk.failing = failures

        outcome = await pay(gate, "o-1")

        effect = await gate.store.effect("acme", outcome.operation_key or "")  # type: ignore[arg-type]
        if type(outcome) is Succeeded:
            assert effect is not None and effect.state is EffectState.COMMITTED
        elif type(outcome) is Refused:
            assert effect is None
        else:
            assert type(outcome) is Unknown
        disk.failing = 0
        assert type(await pay(gate, "o-2")) is Succeeded
        await settled_in_the_background(gate)
        assert_audit_is_whole(gate)
    assert set(place.remote.effects().values()) == {1}


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
async def test_all_who_wait_for_one_commit_hear_of_its_doubt(tmp_path: Path, disk: Disk) -> None:
    _, store = open_store(tmp_path / "placet.db")
    await store.record((an_event(),))
    disk.failing = 99

    answers = await asyncio.gather(*(store.record((an_event(),)) for _ in range(32)), return_exceptions=True)
    disk.failing = 0

    assert {type(answer) for answer in answers} <= {StoreInDoubt, StoreUnavailable}
    assert isinstance(await store.record((an_event(),)), Recorded)
    await store.close()


async def test_a_fault_nobody_planned_for_keeps_nobody_waiting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keys, store = open_store(tmp_path / "placet.db")

    def broken(self: object, *anything: object, **more: object) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as patch:
        patch.setattr(writer.Writer, "_run_all", broken)
        with pytest.raises(StoreInDoubt):
            await asyncio.wait_for(store.record((an_event(),)), 5)

    assert isinstance(await asyncio.wait_for(store.record((an_event(),)), 5), Recorded)
    assert (await verify_audit(store, keys)).breaks == ()
    await store.close()


class Stubborn:
    """A connection that cannot roll back."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection

    def execute(self, statement: str, *bindings: Any) -> Any:
        if statement == "ROLLBACK":
            raise apsw.IOError()
        return self._connection.execute(statement, *bindings)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)


@pytest.mark.parametrize("rolls_back", [True, False])
async def test_a_transaction_that_broke_keeps_no_other_process_from_writing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rolls_back: bool
) -> None:
    monkeypatch.setattr(connection, "BUSY_TIMEOUT_MILLISECONDS", 50)
    keys, store = open_store(tmp_path / "placet.db")
    _, other = open_store(tmp_path / "placet.db")
    await store.record((an_event(),))
    own = store._writer  # type: ignore[attr-defined]
    if not rolls_back:
        own._connection = Stubborn(own._connection)
        own._tables._connection = own._connection

    def broken(self: object, *anything: object, **more: object) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as patch:
        patch.setattr(writer.Writer, "_run_all", broken)
        with pytest.raises(StoreInDoubt):
            await asyncio.wait_for(store.record((an_event(),)), 5)

    assert isinstance(await asyncio.wait_for(other.record((an_event(),)), 5), Recorded)
    assert isinstance(await asyncio.wait_for(store.record((an_event(),)), 5), Recorded)
    assert (await verify_audit(store, keys)).breaks == ()
    await asyncio.wait_for(store.close(), 5)
    await other.close()


async def test_one_callers_fault_is_not_anothers(tmp_path: Path) -> None:
    keys, store = open_store(tmp_path / "placet.db")
    unknown = a_settlement((await claimed(store)).effect, tenant="nobody")

    answers = await asyncio.gather(
        *(store.record((an_event(),)) if n % 2 else store.settle(unknown) for n in range(32)), return_exceptions=True
    )

    assert [isinstance(answer, Recorded) for answer in answers] == [bool(n % 2) for n in range(32)]
    assert (await verify_audit(store, keys)).events == 17
    await store.close()


async def claimed(store: Store) -> Claimed:
    answer = await store.claim(a_claim())
    assert isinstance(answer, Claimed)
    return answer


async def test_a_caller_that_is_cancelled_has_its_commit_and_its_cancellation(tmp_path: Path) -> None:
    _, store = open_store(tmp_path / "placet.db")

    async def record() -> None:
        await store.record((an_event(),))
        await asyncio.sleep(0)

    task = asyncio.ensure_future(record())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert len([event async for event in store.chained()]) == 1
    await store.close()


async def test_a_locked_store_cannot_be_opened_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = await made(tmp_path / "placet.db")
    database = apsw.Connection(str(path))
    database.execute("DELETE FROM placet_meta")
    database.execute("BEGIN IMMEDIATE")
    monkeypatch.setattr(connection, "BUSY_TIMEOUT_MILLISECONDS", 50)

    with pytest.raises(StoreUnavailable):
        open_store(path)
    database.execute("ROLLBACK")


def test_a_fault_of_sqlite_is_ours_and_carries_no_foreign_text() -> None:
    for foreign, ours in (
        (apsw.FullError("secret"), StoreUnavailable),
        (apsw.BusyError("secret"), StoreUnavailable),
        (apsw.CorruptError("secret"), StoreCorrupt),
        (apsw.ReadOnlyError("secret"), StoreNotWritable),
    ):
        with pytest.raises(StoreError) as caught, connection.translated(Path("placet.db")):
            raise foreign
        assert type(caught.value) is ours
        assert "secret" not in str(caught.value) and caught.value.__cause__ is None

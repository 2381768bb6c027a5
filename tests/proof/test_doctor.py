"""The doctor: every check has a deployment that is wrong in just that way, and nothing is ever changed."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import apsw
import pytest

import placet
from placet.adapters.stores.sqlite import examining
from placet.bootstrap.looking import examine_store
from placet.bootstrap.records import open_custody
from placet.bootstrap.stores import key_path, open_store
from placet.engine.gate import Gate
from placet.errors import ConfigurationError, PolicyFileError
from placet.model.admission import Admission
from placet.model.destinations import Announcements, Destination, SecretPlace, SecretRef, WebhookWay
from placet.model.issuer_sign_in import ConsoleClient
from placet.model.issuers import Issuer, Network
from placet.model.principal import Standing
from placet.model.serving import Certificate, Listening, Place
from placet.proof.doctor import Deployment, Depth, Level, Report, Saying, checks_of, diagnose
from placet.proof.doctor.checks import StoreKind
from placet.proof.doctor.files import file_system_saying, library_saying, space_saying
from placet.rules.announcements import DEFAULT_KINDS
from placet.testing import FakeClock

AGENT = placet.Principal.agent("agent", tenant="acme", roles=("operator",), scopes=("orders.refund",))
A_DESTINATION = Destination(
    name="on-call",
    kinds=DEFAULT_KINDS,
    tenants=frozenset({"acme"}),
    way=WebhookWay(url="https://hook.test/", secrets=(SecretRef(place=SecretPlace.FILE, name="/nowhere/hook"),)),
)
AN_ISSUER = Issuer(issuer="https://id.test", audience="placet", tenant="acme")
A_CLIENT = ConsoleClient(
    issuer=replace(AN_ISSUER, standing=Standing.PERSON, person_if={"amr": frozenset({"mfa"})}),
    name="staff",
    client_id="console",
    client_secret=SecretRef(place=SecretPlace.ENVIRONMENT, name="PLACET_NO_SUCH_NAME"),
)
MARA = placet.Principal.person("mara", tenant="acme", scopes=("approvals.decide", "effects.reconcile", "effects.read"))


async def look(context: placet.ProbeContext) -> placet.CannotTell:
    return placet.CannotTell()


def a_write(name: str = "refund", **options: Any) -> placet.Tool:
    sound = {
        "effect": "write",
        "risk": "medium",
        "permission": "orders.refund",
        "operation_key": "refund:{order}",
        "probe": look,
        "remote": placet.Remote(honours_key=True),
        "approval": "by_policy",
        **options,
    }

    @placet.tool(name=name, **sound)
    async def refund(order: str) -> str:
        """Refund an order."""
        if order == "lost":
            raise ConnectionError
        return "refunded"

    return refund


@dataclass
class Ward:
    """A deployment with a past: a committed effect, a pending approval, some history in two chains."""

    folder: Path
    deployment: Deployment
    depth: Depth = Depth.NEWEST
    clock: FakeClock | None = None
    moved: Path | None = None

    @property
    def store(self) -> Path:
        return self.folder / "placet.db"

    @property
    def key(self) -> Path:
        return key_path(self.store)

    def execute(self, *statements: str) -> None:
        database = apsw.Connection(str(self.store))
        database.pragma("ignore_check_constraints", 1)
        for statement in statements:
            database.execute(statement)
        database.close()

    def unguarded(self, *statements: str) -> None:
        """Change the rows, with the triggers in their place again afterwards."""
        database = apsw.Connection(str(self.store))
        triggers = database.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'").fetchall()
        database.close()
        self.execute(*(f"DROP TRIGGER {name}" for name, _ in triggers), *statements, *(str(sql) for _, sql in triggers))

    async def report(self) -> Report:
        return await diagnose(self.deployment, depth=self.depth, clock=self.clock)

    async def saying(self, check: str) -> Saying:
        (found,) = [each.saying for each in (await self.report()).diagnoses if each.id == check]
        return found

    def tools(self, *tools: placet.Tool) -> None:
        self.deployment = replace(self.deployment, tools=tools)


async def act(store: Path, *, orders: tuple[str, ...], tool: placet.Tool | None = None) -> None:
    async with placet.open(tools=[tool or a_write()], store=store, recovery="manual") as gate:
        for order in orders:
            await submit(gate, order)


async def submit(gate: Gate, order: str) -> placet.Outcome:
    ask = {"call_id": order, "tool": "refund", "arguments": {"order": order}}
    return await gate.submit(ask, principal=AGENT, run="run-1")


@pytest.fixture(scope="module")
def past(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("past")
    store = folder / "placet.db"

    async def happened() -> None:
        await act(store, orders=("o-1", "o-2"))
        await act(store, orders=("o-3",), tool=a_write(approval="always"))

    asyncio.run(happened())
    return folder


@pytest.fixture
def ward(past: Path, tmp_path: Path) -> Iterator[Ward]:
    folder = Path(shutil.copytree(past, tmp_path / "ward"))
    deployment = Deployment(
        store=folder / "placet.db",
        key=None,
        tools=(a_write(),),
        policy=placet.Matrix(),
        agent=AGENT,
        people=(MARA,),
        sinks=(placet.LogSink(),),
    )
    made = Ward(folder=folder, deployment=deployment)
    yield made
    if made.moved is not None:
        shutil.rmtree(made.moved)


OF_THE_MACHINE = {"store_file_system", "store_space"}
"""What these say depends on where the tests run."""


def not_ok(report: Report) -> list[tuple[str, Saying]]:
    return [
        (each.id, each.saying)
        for each in report.diagnoses
        if each.saying.level is not Level.OK and each.id not in OF_THE_MACHINE
    ]


def contents(folder: Path) -> dict[str, tuple[bytes, int, int]]:
    """Bytes, modes and times of change of everything in a folder."""
    found: dict[str, tuple[bytes, int, int]] = {}
    for path in (folder, *sorted(folder.rglob("*"))):
        status = path.stat()
        data = path.read_bytes() if path.is_file() else b""
        found[str(path)] = (data, status.st_mode, status.st_mtime_ns)
    return found


# ---------------------------------------------------------------- a sound deployment


async def test_a_sound_deployment_is_green_in_every_check_and_stays_as_it_is(ward: Ward) -> None:
    before = contents(ward.folder)
    for ward.depth in Depth:
        report = await ward.report()

        assert not_ok(report) == []
        assert report.red == ()
    assert contents(ward.folder) == before


async def test_tables_of_handlers_that_co_commit_are_theirs(ward: Ward) -> None:
    ward.execute(
        "CREATE TABLE songs (name TEXT PRIMARY KEY)",
        "CREATE INDEX songs_by_name ON songs (name)",
        "CREATE TRIGGER songs_stay BEFORE DELETE ON songs BEGIN SELECT 1; END",
        "CREATE VIEW tunes AS SELECT name FROM songs",
    )

    assert (await ward.saying("store_schema")).level is Level.OK


LOOKING = """
import asyncio, sys
from pathlib import Path
from placet.bootstrap.looking import examine_store
from placet.proof.doctor import Deployment, diagnose
from placet.rules.policy import Matrix
store = Path(sys.argv[1])
report = asyncio.run(diagnose(Deployment(store=store, key=None, tools=(), policy=Matrix())))
levels = [each.saying.level.value for each in report.diagnoses]
print(levels.count("fail"), levels.count("skipped"), levels.count("ok") > 20)
with examine_store(store) as look:
    print(sorted(effect.call_id for effect in look.effects(limit=10)))
"""


async def test_a_store_in_use_is_looked_at_and_its_files_stay_as_they_are(ward: Ward) -> None:
    """From another process, as the command does: connections of one process share their index whatever they ask for."""
    async with placet.open(tools=[a_write()], store=ward.store, recovery="manual") as gate:
        await submit(gate, "o-9")
        before = contents(ward.folder)
        assert len(before) == 5  # the folder, the store, its key, its log, the log's index

        looked = subprocess.run(
            [sys.executable, "-c", LOOKING, str(ward.store)], capture_output=True, text=True, check=False, timeout=60
        )

        assert looked.stdout.splitlines() == ["0 0 True", "['o-1', 'o-2', 'o-9']"], looked.stderr
        assert contents(ward.folder) == before
        assert (await submit(gate, "o-10")).is_success


@pytest.mark.parametrize("left", [("-wal",), ("-wal", "-shm")], ids=" and ".join)
async def test_what_a_crash_left_is_read_with_its_log_and_stays_as_it_is(
    ward: Ward, tmp_path: Path, left: tuple[str, ...]
) -> None:
    crashed = tmp_path / "crashed"
    async with placet.open(tools=[a_write()], store=ward.store, recovery="manual") as gate:
        await submit(gate, "o-9")
        crashed.mkdir()
        for suffix in ("", ".key", *left):
            shutil.copy2(f"{ward.store}{suffix}", crashed)
    before = contents(crashed)

    report = await diagnose(replace(ward.deployment, store=crashed / "placet.db"))

    assert (not_ok(report), contents(crashed)) == ([], before)
    with examine_store(crashed / "placet.db") as store:
        assert any(getattr(effect, "call_id", None) == "o-9" for effect in store.effects(limit=10))


# ---------------------------------------------------------------- one deployment for each way to be wrong


async def _lost(ward: Ward) -> None:
    await act(ward.store, orders=("lost",))


async def _rotated_halfway(ward: Ward) -> None:
    custody, store = open_custody(ward.store)
    with custody._shelf.held():
        custody._shelf.add_current(at=datetime(2026, 1, 1, tzinfo=UTC))
    await store.close()


async def _rotated_and_key_restored(ward: Ward) -> None:
    old = ward.key.read_bytes()
    custody, store = open_custody(ward.store)
    await custody.rotate(by="root")
    await store.close()
    ward.key.write_bytes(old)


async def _other_key(ward: Ward) -> None:
    _, store = open_store(ward.folder / "other.db")
    await store.close()
    shutil.copy(key_path(ward.folder / "other.db"), ward.key)


async def _stopped(ward: Ward) -> None:
    ward.execute("INSERT INTO stops VALUES ('tool:refund', 1)")


def _flip(ward: Ward) -> None:
    """Inside the pages of the effects, which opening a store does not read."""
    database = apsw.Connection(str(ward.store))
    ((page,),) = database.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'effects'").fetchall()
    database.close()
    with ward.store.open("r+b") as file:
        file.seek((int(page) - 1) * 4096)
        file.write(b"\xff" * 64)


def _future(ward: Ward) -> None:
    ward.clock = FakeClock(datetime.now(UTC) - timedelta(hours=1))


def _jump(ward: Ward) -> None:
    class Jumping(FakeClock):
        def now(self) -> datetime:
            self._now += timedelta(seconds=7)
            return self._now

    ward.clock = Jumping(datetime.now(UTC))


class Mute:
    version = ""
    timeout_seconds = None

    def is_listed(self, contract: object, principal: object) -> bool:
        raise RuntimeError("secret words")


class Speechless(Mute):
    version = "1"


def deployed(**changes: Any) -> Callable[[Ward], None]:
    def change(ward: Ward) -> None:
        ward.deployment = replace(ward.deployment, **changes)

    return change


def tooled(*tools: placet.Tool) -> Callable[[Ward], None]:
    return lambda ward: ward.tools(*tools)


def sql(*statements: str) -> Callable[[Ward], None]:
    return lambda ward: ward.execute(*statements)


def rows(*statements: str) -> Callable[[Ward], None]:
    return lambda ward: ward.unguarded(*statements)


def mode(bits: int, suffix: str = "") -> Callable[[Ward], None]:
    return lambda ward: Path(f"{ward.store}{suffix}").chmod(bits)


def chowned(ward: Ward) -> None:
    if os.geteuid() != 0:
        pytest.skip("plays another user, which needs root")
    os.chown(ward.key, 65534, 65534)


def in_memory(ward: Ward) -> None:
    """On a file system that really lies in memory."""
    if not os.access("/dev/shm", os.W_OK):
        pytest.skip("there is no /dev/shm to be written")
    ward.moved = Path(tempfile.mkdtemp(prefix="placet-doctor-", dir="/dev/shm"))
    place = Path(shutil.copytree(ward.folder, ward.moved / "ward"))
    ward.deployment = replace(ward.deployment, store=place / "placet.db")


@placet.tool(effect="write", risk="medium", permission="orders.refund", operation_key="t:{order}", probe=look,
             remote=placet.Remote(honours_key=True))  # fmt: skip
def in_a_thread(order: str) -> str:
    """Refund an order, in a thread."""
    return "refunded"


class Sink:
    name = "no name at all, for a sink"
    is_required = False

    async def deliver(self, event: object) -> None: ...


STATE = "UPDATE effects SET state = 'unknown' WHERE call_id = 'o-1'"
Breaks = Callable[[Ward], Awaitable[None] | None]

WRONG: dict[str, tuple[str, Level, Breaks, str]] = {
    "the key is gone": ("key_file", Level.FAIL, lambda ward: ward.key.unlink(), "key file"),
    "the key can be read by others": ("key_file", Level.FAIL, mode(0o640, ".key"), "chmod 600"),
    "the key is no key": ("key_file", Level.FAIL, lambda ward: ward.key.write_text("{}") and None, ""),
    "the key is another user's": ("key_file", Level.FAIL, chowned, "who put it there"),
    "the key is another store's": ("key_of_store", Level.FAIL, _other_key, "newest copy"),
    "the key is a copy from before a rotation": ("key_of_store", Level.FAIL, _rotated_and_key_restored, "newest copy"),
    "history names other keys": (
        "key_rotation", Level.FAIL, rows("UPDATE audit_heads SET key_id = 'k_of_another'"), "rotation",
    ),
    "a rotation was interrupted": ("key_rotation", Level.WARN, _rotated_halfway, "placet keys rotate"),
    "there is no store": (
        "store_file", Level.FAIL, deployed(store="/nowhere/placet.db", key=Path("/nowhere/key")), "placet init",
    ),
    "the store is lost": ("store_file", Level.FAIL, lambda ward: ward.store.unlink(), "restore the store"),
    "the store is cut short": ("store_file", Level.FAIL, lambda ward: os.truncate(ward.store, 1000), "backup"),
    "the store is a text": (
        "store_file", Level.FAIL, lambda ward: ward.store.write_text("no store" * 1000) and None, "backup",
    ),
    "everybody may write the store": ("store_modes", Level.FAIL, mode(0o666), "chmod 600"),
    "others may read the store": ("store_modes", Level.WARN, mode(0o644), "chmod 600"),
    "everybody may replace the store": ("store_modes", Level.FAIL, lambda ward: ward.folder.chmod(0o777), "chmod o-w"),
    "the store lies in memory": ("store_file_system", Level.WARN, in_memory, "disk"),
    "the file is not in write-ahead mode": (
        "store_durability", Level.WARN, sql("PRAGMA journal_mode = delete"), "which program",
    ),
    "the store is newer": ("store_schema", Level.FAIL, sql("PRAGMA user_version = 1000"), "Upgrade placet"),
    "the store is another program's": ("store_schema", Level.FAIL, sql("PRAGMA application_id = 1"), "--store"),
    "a trigger is gone": ("store_schema", Level.FAIL, sql("DROP TRIGGER effects_move_legally"), "backup"),
    "an index is gone": ("store_schema", Level.FAIL, sql("DROP INDEX one_open_approval_per_question"), "backup"),
    "a trigger was added": (
        "store_schema", Level.FAIL, sql("CREATE TRIGGER songs AFTER INSERT ON effects BEGIN SELECT 1; END"), "backup",
    ),
    "an index was added": ("store_schema", Level.FAIL, sql("CREATE INDEX songs ON effects (tool)"), "backup"),
    "bytes were flipped": ("store_integrity", Level.FAIL, _flip, "backup"),
    "a tool is stopped": ("stops", Level.WARN, _stopped, "lifted"),
    "an effect was changed by hand": (
        "broken_rows", Level.FAIL, rows("UPDATE effects SET state = 'done' WHERE call_id = 'o-1'"), "write the store",
    ),
    "an approval was changed by hand": (
        "broken_rows", Level.FAIL, rows("UPDATE approvals SET state = 'approved'"), "write the store",
    ),
    "an effect is unknown": ("unknown_effects", Level.WARN, _lost, "placet effects reconcile"),
    "an owner is gone": (
        "unknown_effects", Level.WARN,
        rows("UPDATE effects SET state = 'dispatched', lease_until = 1 WHERE call_id = 'o-1'"), "reconcile",
    ),
    "an event was altered": (
        "audit_chain", Level.FAIL,
        rows("UPDATE audit_events SET body = json_set(body, '$.subject', 'x') WHERE sequence = 2"), "audit verify",
    ),
    "an event is gone": ("audit_chain", Level.FAIL, rows("DELETE FROM audit_events WHERE sequence = 2"), "verify"),
    "the newest event is gone": (
        "audit_chain", Level.FAIL, rows("DELETE FROM audit_events WHERE sequence = (SELECT max(sequence) "
        "FROM audit_events AS others WHERE others.writer = audit_events.writer)"), "audit verify",
    ),
    "a head was altered": ("audit_chain", Level.FAIL, rows("UPDATE audit_heads SET sequence = 1"), "audit verify"),
    "the clock says long ago": (
        "clock_set", Level.FAIL, lambda ward: setattr(ward, "clock", FakeClock(datetime(1970, 1, 2, tzinfo=UTC))),
        "chrony",
    ),
    "the clock was set meanwhile": ("clock_steady", Level.FAIL, _jump, "slewed"),
    "the clock is behind the store": ("clock_history", Level.FAIL, _future, "Set the clock"),
    "a setting is read by nobody": ("settings", Level.WARN, deployed(unread={"PLACET_STOER": "PLACET_STORE"}), "unset"),
    "the tools cannot be loaded": (
        "contracts", Level.FAIL, deployed(tools=ConfigurationError("No.", hint="Mend the module.")), "Mend the module",
    ),
    "two tools have one name": ("contracts", Level.FAIL, tooled(a_write(), a_write()), ""),
    "there is no tool": ("contracts", Level.WARN, tooled(), "Add tools"),
    "a write has no probe": ("contract_probes", Level.WARN, tooled(a_write(probe=None)), "probe="),
    "a write has no key": ("contract_keys", Level.WARN, tooled(a_write(operation_key=None)), "operation_key"),
    "a remote bounds nothing": ("contract_remotes", Level.WARN, tooled(a_write(remote=None)), "remote="),
    "a write runs in a thread": ("contract_threads", Level.WARN, tooled(in_a_thread), "coroutine"),
    "something irreversible asks nobody": (
        "contract_irreversible", Level.WARN, tooled(a_write(effect="irreversible")), "always",
    ),
    "a high risk asks nobody": (
        "contract_other", Level.WARN, tooled(a_write(risk="high", approval="never")), "placet tools lint",
    ),
    "the policy has no version": ("policy", Level.FAIL, deployed(policy=Mute()), "policy"),
    "the policy answers nobody": ("policy", Level.FAIL, deployed(policy=Speechless()), "policy"),
    "the policy in shadow cannot be read": (
        "shadow", Level.FAIL, deployed(shadow=PolicyFileError("There is none.", hint="Put it there.")), "there",
    ),
    "the policy in shadow has no version": ("shadow", Level.WARN, deployed(shadow=Mute()), "leave it out"),
    "nobody is listed": ("deciders", Level.WARN, deployed(people=()), "[people.NAME]"),
    "nobody may decide": (
        "deciders", Level.WARN, deployed(people=(replace(MARA, scopes=frozenset({"effects.reconcile"})),)),
        "approvals.decide",
    ),
    "nobody of the agent's tenant may decide": (
        "deciders", Level.WARN, deployed(people=(replace(MARA, tenant="other"),)), "approvals.decide",
    ),
    "nobody may reconcile": (
        "deciders", Level.WARN, deployed(people=(replace(MARA, scopes=frozenset({"approvals.decide"})),)),
        "effects.reconcile",
    ),
    "a scope is misspelt": (
        "scopes", Level.WARN,
        deployed(people=(replace(MARA, scopes=frozenset({*MARA.scopes, "effects.reconsile"})),)), "placet tools list",
    ),
    "two issuers send one person": (
        "doors", Level.FAIL,
        deployed(admission=Admission(issuers=(AN_ISSUER, replace(AN_ISSUER, issuer="https://other.test")))),
        "subject_prefix",
    ),
    "a certificate is not there": (
        "doors", Level.FAIL,
        deployed(admission=Admission(issuers=(replace(AN_ISSUER, ca_file=Path("nowhere.pem")),))), "",
    ),
    "an issuer is for development": (
        "doors", Level.WARN,
        deployed(admission=Admission(issuers=(replace(AN_ISSUER, network=Network.LOOPBACK),))), "loopback",
    ),
    "what the console shows an issuer is not there": (
        "console", Level.FAIL,
        deployed(
            admission=Admission(clients=(A_CLIENT,), issuers=(A_CLIENT.issuer,), public_url="https://desk.test")
        ),
        "PLACET_NO_SUCH_NAME",
    ),
    "nobody has a way into the console": (
        "console", Level.WARN, deployed(listening=Listening()), "[sign_in.issuers.console]",
    ),
    "a certificate cannot be read": (
        "listening", Level.FAIL,
        deployed(listening=Listening(certificate=Certificate(chain=Path("nowhere.pem"), key=Path("nowhere.key")))),
        "certificate",
    ),
    "others can read a certificate's key": (
        "listening", Level.WARN,
        deployed(listening=Listening(certificate=Certificate(chain=Path(__file__), key=Path(__file__)))), "chmod 600",
    ),
    "metrics are for everybody": (
        "listening", Level.WARN, deployed(listening=Listening(metrics_at=Place(host="0.0.0.0", port=9464))),
        "a scope",
    ),
    "plain HTTP is for everybody": (
        "listening", Level.WARN, deployed(listening=Listening(host="0.0.0.0")), "trusted_proxies",
    ),
    "MCP is served in the clear": (
        "mcp", Level.FAIL, deployed(listening=Listening(host="0.0.0.0", mcp=True)), "trusted_proxies",
    ),
    "MCP is served for a site without a name": (
        "mcp", Level.FAIL,
        deployed(listening=Listening(host="0.0.0.0", trusted_proxies=("10.0.0.1",), mcp=True)), "public_url",
    ),
    "no issuer issues tokens for MCP": (
        "mcp", Level.WARN,
        deployed(
            listening=Listening(public_url="https://desk.test", mcp=True), admission=Admission(issuers=(AN_ISSUER,))
        ),
        "mcp_audience",
    ),
    "a secret of a destination is missing": (
        "announcements", Level.FAIL, deployed(announcements=Announcements(destinations=(A_DESTINATION,))),
        "whsec_ and base64",
    ),
    "a sink has no proper name": ("sinks", Level.FAIL, deployed(sinks=(Sink(),)), "fixed name"),
}  # fmt: skip


@pytest.mark.parametrize("spoilt", [_other_key, _rotated_and_key_restored])
async def test_by_a_key_that_is_not_the_stores_nothing_is_called_forged(
    ward: Ward, spoilt: Callable[[Ward], Awaitable[None]]
) -> None:
    await spoilt(ward)
    for ward.depth in Depth:
        report = await ward.report()

        levels = {each.id: each.saying.level for each in report.diagnoses}
        assert levels["key_of_store"] is Level.FAIL
        assert {levels[name] for name in ("key_rotation", "broken_rows", "audit_chain")} == {Level.SKIPPED}
        assert {each.id for each in report.red} == {"key_of_store"}


ELSEWHERE = {
    "store_writable", "store_space", "sqlite_version", "time_zones",
    "upstreams", "upstream_manifests", "upstream_pins", "upstream_terms", "upstream_quarantine",
}  # fmt: skip
"""Checks whose wrong deployments are in other tests: they need another user, or another process."""


def test_every_check_has_a_deployment_that_is_wrong_in_its_way() -> None:
    known = {check.id for check in checks_of(StoreKind.SQLITE)}

    assert {check for check, *_ in WRONG.values()} | ELSEWHERE == known


def test_the_document_lists_the_checks_in_their_order() -> None:
    text = (Path(__file__).resolve().parents[2] / "docs" / "proof.md").read_text("utf-8")
    listed = re.findall(r"^\| `(\w+)` \|", text.split("### A PostgreSQL store")[0], re.M)

    assert listed == [check.id for check in checks_of(StoreKind.SQLITE)]


def test_no_look_reads_a_whole_table_but_the_schema_and_the_heads(ward: Ward) -> None:
    """A large store is looked at in the time that its newest part takes; checking its structure is another matter."""
    database = apsw.Connection(str(ward.store))
    for name, statement in examining.SQL.items():
        bindings = (1,) * statement.count("?")
        plan = [str(row[3]) for row in database.execute(f"EXPLAIN QUERY PLAN {statement}", bindings)]
        read = [step for step in plan if step.startswith("SCAN") and "INDEX" not in step and "CONSTANT" not in step]
        expected = {"SCAN sqlite_schema", "SCAN audit_heads", "SCAN audit_tombstones"}
        assert set(read) <= expected or name == "all_effects", (name, plan)
        assert name != "all_effects" or plan == ["SCAN effects"], plan  # by rowid, so only what is asked for
    database.close()


@pytest.mark.parametrize("what", WRONG)
async def test_what_is_wrong_is_said_with_a_next_step_and_nothing_is_changed(ward: Ward, what: str) -> None:
    check, level, breaks, next_step = WRONG[what]
    done = breaks(ward)
    if done is not None:
        await done
    before = contents(Path(ward.deployment.store).parent) if Path(ward.deployment.store).parent.exists() else {}

    report = await ward.report()

    found = {each.id: each.saying for each in report.diagnoses}
    assert found[check].level is level, found[check]
    assert next_step in found[check].next_step or next_step in found[check].told
    assert level is not Level.FAIL or (report.worst is Level.FAIL and check in {each.id for each in report.red})
    for each in report.diagnoses:
        assert bool(each.saying.next_step) == (each.saying.level in (Level.WARN, Level.FAIL)) or not next_step
        assert "secret" not in each.saying.told + each.saying.next_step
    if before:
        assert contents(Path(ward.deployment.store).parent) == before


async def test_history_before_the_newest_part_is_looked_at_under_deep_only(past: Path, tmp_path: Path) -> None:
    ward = Ward(folder=tmp_path, deployment=Deployment(store=tmp_path / "placet.db", key=None, tools=(a_write(),),
                policy=placet.Matrix(), agent=AGENT, people=(MARA,)))  # fmt: skip
    for n in range(20):
        await act(ward.store, orders=(f"o-{n}",))
    ward.unguarded(
        "DELETE FROM audit_events WHERE sequence = 1 AND writer = (SELECT writer FROM audit_events ORDER BY at LIMIT 1)"
    )

    assert (await ward.saying("audit_chain")).level is Level.OK
    ward.depth = Depth.DEEP
    assert (await ward.saying("audit_chain")).level is Level.FAIL


async def test_a_long_chain_is_held_from_its_middle_on(ward: Ward, monkeypatch: pytest.MonkeyPatch) -> None:
    from placet.proof.doctor import state

    monkeypatch.setattr(state, "_EVENTS", 2)
    assert (await ward.saying("audit_chain")).told == "the newest 4 events hold; --deep looks at all of them"
    ward.unguarded("UPDATE audit_events SET body = json_set(body, '$.subject', 'x') WHERE sequence = 1")
    assert (await ward.saying("audit_chain")).level is Level.OK
    ward.unguarded(
        "UPDATE audit_events SET link = printf('%064d', 0) WHERE sequence = "
        "(SELECT max(sequence) - 2 FROM audit_events AS others WHERE others.writer = audit_events.writer)"
    )
    assert (await ward.saying("audit_chain")).level is Level.FAIL


@pytest.mark.parametrize("events", [2, 4, 500])
async def test_an_audit_that_was_cut_on_purpose_holds_and_one_whose_tombstone_is_gone_does_not(
    ward: Ward, monkeypatch: pytest.MonkeyPatch, events: int
) -> None:
    from placet.proof.doctor import state

    monkeypatch.setattr(state, "_EVENTS", events)
    keeper = placet.Principal.person("kim", tenant="ops", scopes=("ops.purge",))
    later = FakeClock(datetime.now(UTC) + timedelta(days=400))
    async with placet.open(tools=[a_write()], store=ward.store, recovery="manual", clock=later) as gate:
        await submit(gate, "o-4")
        await gate.purger.purge(placet.Retention(audit_seconds=365 * 86_400.0), by=keeper)
    for ward.depth in Depth:
        assert (await ward.saying("audit_chain")).level is Level.OK

    ward.unguarded("DELETE FROM audit_tombstones")
    ward.depth = Depth.DEEP
    assert (await ward.saying("audit_chain")).level is Level.FAIL


async def test_ages_of_unknown_effects_are_told(ward: Ward) -> None:
    await act(ward.store, orders=("lost",))
    ward.clock = FakeClock(datetime.now(UTC) + timedelta(hours=30))

    assert (await ward.saying("unknown_effects")).told == (
        "1 effects are unknown (1 for a day or more, 0 for an hour or more)"
    )


async def test_what_cannot_be_looked_at_is_never_green(ward: Ward) -> None:
    ward.store.unlink()
    report = await ward.report()

    levels = {each.id: each.saying.level for each in report.diagnoses}
    assert levels["store_file"] is Level.FAIL
    for check in ("store_integrity", "store_schema", "audit_chain", "broken_rows", "stops", "clock_history"):
        assert levels[check] is Level.SKIPPED
    assert report.worst is Level.FAIL


async def test_a_store_in_memory_is_warned_of_and_a_database_that_is_missed_is_not_called_sound(ward: Ward) -> None:
    memory = await diagnose(replace(ward.deployment, store="memory:"))
    assert {each.id: each.saying.level for each in memory.diagnoses}["store_kind"] is Level.WARN

    remote = await diagnose(replace(ward.deployment, store="postgresql://user:secret@127.0.0.1:1/db", key=ward.key))
    levels = {each.id: each.saying.level for each in remote.diagnoses}
    assert (levels["database"], levels["audit_chain"], levels["key_file"]) == (Level.FAIL, Level.SKIPPED, Level.OK)
    assert remote.worst is Level.FAIL
    assert not any("secret" in each.saying.told for each in remote.diagnoses)


def test_without_time_zone_data_somebody_is_told(tmp_path: Path) -> None:
    """In a process of its own, whose Python finds neither the system's data nor a package of it."""
    program = (
        "import sys; sys.modules['tzdata'] = None; from placet.proof.doctor import machine; "
        "saying = machine.time_zones(None); print(saying.level.value, bool(saying.next_step))"
    )
    environment = {**os.environ, "PYTHONTZPATH": str(tmp_path)}
    ran = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False, timeout=60
    )

    assert ran.stdout.split() == ["warn", "True"], ran.stderr


# ---------------------------------------------------------------- what one machine cannot show


@pytest.mark.parametrize(
    ("version", "level"),
    [
        ((3, 40, 1), Level.FAIL), ((3, 44, 5), Level.FAIL), ((3, 44, 6), Level.OK), ((3, 45, 0), Level.FAIL),
        ((3, 50, 6), Level.FAIL), ((3, 50, 7), Level.OK), ((3, 51, 2), Level.FAIL), ((3, 51, 3), Level.OK),
        ((3, 54, 1), Level.OK),
    ],
)  # fmt: skip
def test_a_library_with_the_wal_reset_fault_is_refused(version: tuple[int, ...], level: Level) -> None:
    assert library_saying(version).level is level


@pytest.mark.parametrize(
    ("kind", "level"),
    [("ext4", Level.OK), ("nfs4", Level.FAIL), ("cifs", Level.FAIL), ("tmpfs", Level.WARN), ("unknown", Level.OK)],
)
def test_a_network_file_system_is_refused(kind: str, level: Level) -> None:
    assert file_system_saying(kind).level is level


@pytest.mark.parametrize(
    ("free", "files", "level"),
    [
        (64 * 2**20 - 1, 1000, Level.FAIL), (64 * 2**20, 1000, Level.WARN), (2**30 - 1, 1000, Level.WARN),
        (2**30, 64, Level.OK), (2**30, 63, Level.FAIL), (2**40, None, Level.OK),
    ],
)  # fmt: skip
def test_little_room_is_warned_of_and_less_refused(free: int, files: int | None, level: Level) -> None:
    assert space_saying(free, files).level is level

"""An audit in a real file, altered in any of its rows and columns, any number of times: it shows, or nothing changed.

The columns are read off the database. One that no MAC covers fails here until somebody says why.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from placet.adapters.keys import KeyRing
from placet.adapters.stores.chain import ChainLinker
from placet.adapters.stores.sqlite import SqliteStore
from placet.adapters.telemetry.quiet import QuietMeter
from placet.engine.auditing import verify_store
from placet.errors import StoreCorrupt
from placet.model.audit import AuditOutcome, EventKind
from placet.model.identifiers import WriterId
from placet.ports.store import nobody
from placet.testing.conformance import an_event
from placet.testing.fakes import FakeClock
from tests.at_once import at_once
from tests.unguarded import unguarded

pytestmark = pytest.mark.req("B136", "B137")
TABLES = ("audit_events", "audit_heads")
NOT_PART_OF_IT = {
    "audit_events": {"seal": "not written yet"},
    "audit_heads": {"seal": "not written yet", "remembered": "keeps later lists short; what they say is under a MAC"},
}
KINDS = [(EventKind.STARTED, None), *((EventKind.COMPLETED, outcome) for outcome in AuditOutcome)]
KINDS += [(kind, None) for kind in EventKind if kind not in (EventKind.STARTED, EventKind.COMPLETED)]
Rows = dict[str, list[tuple[Any, ...]]]


class Audit:
    """One genuine audit, every kind of event in it, and the means to hold any other rows against it."""

    def __init__(self, folder: Path) -> None:
        self.ring = KeyRing.ephemeral()
        self.path = folder / "placet.db"
        self.anchors: dict[str, tuple[int, str]] = {}

    def opened(self, writer: str) -> SqliteStore:
        return SqliteStore(
            self.path, keys=self.ring, clock=FakeClock(), writer=WriterId(writer), meter=QuietMeter(), heard=nobody
        )

    async def write(self) -> None:
        third = len(KINDS) // 3 + 1
        for number in range(3):
            store = self.opened(f"w{number}")
            for place, (kind, outcome) in enumerate(KINDS[number * third :][:third]):
                await store.record((an_event(kind, outcome=outcome, attempt=1, call_id=f"c{number}.{place}"),))
            self.anchors = {head.writer: (head.sequence, head.link) for head in await store.heads()}
            await store.close()
        database = unguarded(apsw.Connection(str(self.path)))
        database.execute("DROP INDEX audit_events_by_tenant")  # it would refuse what is no JSON
        database.close()
        self.genuine = self.rows()
        self.columns = {table: self._columns(table) for table in TABLES}
        assert self.problems(self.genuine) == []

    def rows(self) -> Rows:
        database = apsw.Connection(str(self.path))
        found = {
            table: list(database.execute(f"SELECT {', '.join(self._columns(table))} FROM {table}")) for table in TABLES
        }
        database.close()
        return found

    def _columns(self, table: str) -> list[str]:
        """Those that are stored; generated ones follow."""
        database = apsw.Connection(str(self.path))
        names = [row[1] for row in database.execute(f"PRAGMA table_info({table})")]
        database.close()
        return names

    def problems(self, rows: Rows) -> list[str]:
        """What verification says of these rows, written over those of the file."""
        database = apsw.Connection(str(self.path))
        with database:
            for table in TABLES:
                database.execute(f"DELETE FROM {table}")
                names = self._columns(table)
                statement = f"INSERT INTO {table} ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})"
                database.executemany(statement, rows[table])
        database.close()
        store = self.opened("reader")
        try:
            report = at_once(verify_store(store, ChainLinker(self.ring), anchors=self.anchors))
            return [found.problem for found in report.breaks]
        except StoreCorrupt:
            return ["unreadable"]
        finally:
            store._reader.close()
            store._writer.close()


@pytest.fixture(scope="module")
def audit(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Audit]:
    import asyncio

    folder = tmp_path_factory.mktemp("audit")
    audit = Audit(folder)
    asyncio.run(audit.write())
    yield audit
    shutil.rmtree(folder)


def other(value: Any, neighbour: Any) -> list[Any]:
    """Near values of the same type, since the tables are strict; the neighbour's too."""
    match value:
        case int():
            near = [value + 1, value - 1, 10**6]
        case str():
            near = [value + " ", value[1:], value[:-1] + ("x" if value[-1:] != "x" else "y"), value.swapcase()]
        case _:
            near = []
    return [each for each in (neighbour, *near) if each != value]


def test_every_kind_of_event_is_in_it_and_every_column_is_known(audit: Audit) -> None:
    assert len(audit.genuine["audit_events"]) == len(KINDS) == len(EventKind) + len(AuditOutcome) - 1
    assert all(set(NOT_PART_OF_IT[table]) < set(audit.columns[table]) for table in TABLES)


@pytest.mark.parametrize("table", TABLES)
def test_any_change_of_any_column_of_any_row_shows(audit: Audit, table: str) -> None:
    for place, row in enumerate(audit.genuine[table]):
        neighbour = audit.genuine[table][place - 1]
        for column, name in enumerate(audit.columns[table]):
            if name in NOT_PART_OF_IT[table]:
                continue
            for value in other(row[column], neighbour[column])[: 2 if table == "audit_events" else 5]:
                changed = (*row[:column], value, *row[column + 1 :])
                rows = audit.genuine | {table: [*audit.genuine[table]]}
                rows[table][place] = changed
                try:
                    assert audit.problems(rows) != [], (name, value)
                except (apsw.ConstraintError, apsw.SQLError):
                    continue  # the table itself does not take it


SETTINGS = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@SETTINGS
@given(data=st.data())
def test_any_deletions_changes_swaps_copies_and_cuts_show(audit: Audit, data: st.DataObject) -> None:
    rows: Rows = {table: list(audit.genuine[table]) for table in TABLES}
    for _ in range(data.draw(st.integers(1, 4))):
        alter(rows, audit, data)
    is_genuine = all(sorted(rows[table]) == sorted(audit.genuine[table]) for table in TABLES)
    try:
        found = audit.problems(rows)
    except (apsw.ConstraintError, apsw.SQLError):
        return
    assert (found == []) is is_genuine, found


def alter(rows: Rows, audit: Audit, data: st.DataObject) -> None:
    table = data.draw(st.sampled_from(TABLES))
    if not rows[table]:
        return
    places = st.integers(0, len(rows[table]) - 1)
    place, another = data.draw(places), data.draw(places)
    sequence = audit.columns[table].index("sequence")
    names = [name for name in audit.columns[table] if name not in NOT_PART_OF_IT[table]]
    column = audit.columns[table].index(data.draw(st.sampled_from(names)))
    one, two = rows[table][place], rows[table][another]
    match data.draw(st.sampled_from(["delete", "swap", "cut", "change", "append", "writer", "truncate"])):
        case "delete":
            del rows[table][place]
        case "swap":  # two rows change their places
            rows[table][place] = (*two[:sequence], one[sequence], *two[sequence + 1 :])
            rows[table][another] = (*one[:sequence], two[sequence], *one[sequence + 1 :])
        case "cut":
            rows[table] = [row for row in rows[table] if row[0] != one[0] or row[sequence] < one[sequence]]
        case "change":
            value = data.draw(st.sampled_from([two[column], *other(one[column], two[column])]))
            rows[table][place] = (*one[:column], value, *one[column + 1 :])
        case "append":
            last = max(row[sequence] for row in rows[table] if row[0] == one[0])
            rows[table].append((*one[:sequence], last + 1, *one[sequence + 1 :]))
        case "writer":
            for each in TABLES:
                rows[each] = [row for row in rows[each] if row[0] != one[0]]
        case _:
            rows[table] = []

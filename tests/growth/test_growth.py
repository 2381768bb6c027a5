"""A store that has grown is the same store: calls go on beside millions of rows, and a purge bounds them."""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest

import placet
from placet.proof import growth

EFFECTS, EVENTS = 20_000, 40_000


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("growth") / "old.db"
    growth.make(path, effects=EFFECTS, events=EVENTS)
    return path


def counted(path: Path, statement: str) -> int:
    connection = apsw.Connection(str(path))
    ((count,),) = connection.execute(statement)
    connection.close()
    return int(count)


def test_the_rows_are_as_many_and_as_authentic_as_was_said(old: Path) -> None:
    assert counted(old, "SELECT count(*) FROM effects") == EFFECTS + 1
    assert counted(old, "SELECT count(*) FROM audit_events") == EVENTS + 2
    assert counted(old, "SELECT count(DISTINCT tenant) FROM audit_events WHERE writer = 'w-copied'") == 20
    assert counted(old, "SELECT count(*) FROM effects WHERE length(sealed_result) < 40 OR operation_key IS NULL") == 0
    names = "SELECT count(*) FROM sqlite_schema WHERE type IN ('index', 'trigger') AND sql IS NOT NULL"
    assert counted(old, names) >= 12, "indexes and triggers are back"


def test_writes_are_measured_beside_each_other(old: Path, tmp_path: Path) -> None:
    young = tmp_path / "young.db"
    growth.make(young, effects=growth.YOUNG_EFFECTS, events=2 * growth.YOUNG_EFFECTS)

    ages = growth.compare(young, old, rounds=2, writes=3)

    assert ages.rounds == 2
    assert 0 < ages.young_p50 < 60 and 0 < ages.old_p50 < 60 and ages.ratio > 0


@pytest.mark.slow
async def test_what_grew_is_bounded_by_a_purge(old: Path) -> None:
    keeper = placet.Principal.person("kim", tenant="ops", scopes=("ops.purge",))
    retention = placet.Retention(seconds=365 * 86_400.0)
    young = "SELECT count(*) FROM effects WHERE updated_at >= (unixepoch() - 365 * 86400) * 1000000"
    left, known = counted(old, young), counted(old, "SELECT count(*) FROM effects")
    async with placet.open(tools=[growth.open_ticket], store=old, recovery="manual") as gate:
        report = await gate.purger.purge(retention, by=keeper)

    assert report.broken == counted(old, "SELECT count(*) FROM approvals WHERE asked_at < (unixepoch() - 365 * 86400) "
                                    "* 1000000"), "copied approvals are signed by nobody"  # fmt: skip
    assert counted(old, "SELECT count(*) FROM effects WHERE owner <> ''") == left
    assert counted(old, "SELECT count(*) FROM effects") == known, "every name is still known"
    assert counted(old, "SELECT count(*) FROM effects WHERE owner = '' AND sealed_result IS NOT NULL") == 0
    assert counted(old, "SELECT count(*) FROM runs") < EFFECTS / 100

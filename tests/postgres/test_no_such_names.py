"""A name that PostgreSQL cannot hold is one that does not exist, and no fault of the store."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

import placet
from placet import Principal
from placet.errors import MisuseError, NotFound
from placet.model.stopping import StopScope
from tests.postgres.fixtures import Database

MARA = Principal.person(
    "mara", tenant="acme", scopes=("approvals.decide", "effects.reconcile", "effects.read", "audit.read", "ops.stop")
)


@pytest.mark.parametrize("name", ["\x00", "a\x00b"])
async def test_a_name_with_a_null_character_is_nowhere(database: Database, tmp_path: Path, name: str) -> None:
    opening = placet.open(tools=[], store=database.url, key=tmp_path / "placet.key", recovery="manual")
    async with opening as gate:
        for look in (
            lambda: gate.reconciler.show(name, by=MARA),
            lambda: gate.reconciler.probe_now(name, by=MARA),
            lambda: gate.reconciler.settle_by_person(
                name, "committed", by=MARA, looked_at=datetime.now(UTC), reason="seen"
            ),
            lambda: gate.desk.show(name, by=MARA),
            lambda: gate.desk.deny(name, digest="0" * 64, by=MARA, reason="no"),
            lambda: gate.desk.withdraw(name, by=MARA),
            lambda: gate.questions.show(name, by=MARA),
        ):
            with pytest.raises(NotFound):
                await look()
        assert (await gate.auditor.page(by=MARA, run_id=name)).rows == ()
        assert (await gate.auditor.page(by=MARA, tool=name)).rows == ()


async def test_a_reason_with_a_null_character_is_refused_before_the_store_is_asked(
    database: Database, tmp_path: Path
) -> None:
    opening = placet.open(tools=[], store=database.url, key=tmp_path / "placet.key", recovery="manual")
    async with opening as gate:
        with pytest.raises(MisuseError):
            await gate.desk.deny("none", digest="0" * 64, by=MARA, reason="a\x00b")
        with pytest.raises(MisuseError):
            await gate.switch.stop(StopScope.of_tenant("acme"), by=MARA, reason="a\x00b")
        assert await gate.switch.stops(by=MARA) == ()

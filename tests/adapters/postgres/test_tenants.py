"""Tenants in one database: a batch that mixes them, and a role that reads for one of them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import asyncpg
import pytest

from placet.model.effect import EffectState
from placet.model.ledger import Claimed
from placet.testing.conformance import a_claim, a_settlement, a_step, an_event
from tests.adapters.postgres.conftest import OpenStore
from tests.postgres.fixtures import Database

pytestmark = [pytest.mark.case("H08")]
TABLES = ("runs", "step_fingerprints", "denials", "effects", "approvals", "audit_events")
TENANTS = ("acme", "globex")


@pytest.fixture
def reader(database: Database) -> Iterator[str]:
    """A role of its own, which may read and nothing else; its URL."""
    role = f"reader_{database.name}"
    database.execute(f"CREATE ROLE {role} LOGIN", f"SET search_path = placet; SELECT let_read('{role}')")
    yield database.url.replace("postgres@", f"{role}@")
    database.execute(f"DROP OWNED BY {role}", f"DROP ROLE {role}")


async def filled(store: Any) -> None:
    for tenant in TENANTS:
        step = a_step("call-1", tenant=tenant)
        answer = await store.claim(a_claim("key-1", token=f"t-{tenant}", tenant=tenant, step=step))
        assert isinstance(answer, Claimed)
        await store.settle(a_settlement(answer.effect))
        await store.record(
            (an_event(tenant=tenant),), step=a_step("call-2", tenant=tenant, max_denials=9), denies_tool="pay"
        )


async def test_a_reading_role_sees_nothing_without_a_tenant_and_one_tenant_with_it(
    open_store: OpenStore, reader: str
) -> None:
    await filled(open_store())
    connection = await asyncpg.connect(reader, server_settings={"search_path": "placet"})
    try:
        for table in TABLES:
            assert await connection.fetch(f"SELECT * FROM {table}") == [], table
        for mine in TENANTS:
            async with connection.transaction():
                await connection.execute("SELECT set_config('placet.tenant', $1, true)", mine)
                for table in TABLES:
                    found = {row["tenant"] for row in await connection.fetch(f"SELECT tenant FROM {table}")}
                    assert found == ({mine} if table != "approvals" else set()), (mine, table)
                assert await connection.fetch("SELECT * FROM effects WHERE tenant <> $1", mine) == []
            assert await connection.fetch("SELECT * FROM effects") == [], "the name ends with its transaction"
        for empty in ("", "nobody", "acme' OR 'a' = 'a"):
            async with connection.transaction():
                await connection.execute("SELECT set_config('placet.tenant', $1, true)", empty)
                assert await connection.fetch("SELECT * FROM effects") == [], empty
    finally:
        await connection.close()


async def test_one_round_trip_reads_for_a_tenant(open_store: OpenStore, reader: str) -> None:
    await filled(open_store())
    connection = await asyncpg.connect(reader, server_settings={"search_path": "placet"})
    try:
        for mine in TENANTS:
            for function, count in (("effects_of", 1), ("events_of", 3), ("approvals_of", 0)):
                found = await connection.fetch(f"SELECT tenant FROM {function}($1, 10)", mine)
                assert [row["tenant"] for row in found] == [mine] * count, function
        assert await connection.fetch("SELECT * FROM effects") == []
    finally:
        await connection.close()


async def test_a_reading_role_changes_nothing_and_sees_no_keys_stops_or_heads(
    open_store: OpenStore, reader: str
) -> None:
    await filled(open_store())
    connection = await asyncpg.connect(reader, server_settings={"search_path": "placet"})
    try:
        for statement in (
            "UPDATE effects SET reason = 'x'",
            "DELETE FROM audit_events",
            "INSERT INTO denials VALUES ('acme', 'r', 't', 1)",
            "SELECT * FROM placet_meta",
            "SELECT * FROM stops",
            "SELECT * FROM audit_heads",
            "SELECT * FROM voided_tokens",
        ):
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await connection.execute(statement)
    finally:
        await connection.close()


async def test_an_owner_that_is_no_superuser_writes_for_every_tenant(database: Database, open_store: OpenStore) -> None:
    """Row security is forced on the owner too: its own policy lets it mix tenants in one commit."""
    role = f"owner_{database.name}"
    database.execute(f"CREATE ROLE {role} LOGIN", f"GRANT CREATE ON DATABASE {database.name} TO {role}")
    address = database.address()
    mine = type(address)(url=address.url.replace("postgres@", f"{role}@"), shown=address.shown, schema="owned")
    store = open_store(mine)
    try:
        claims = [
            store.claim(a_claim("key-1", token=f"t-{tenant}", tenant=tenant, step=a_step(tenant=tenant)))
            for tenant in TENANTS
        ]
        answers = await asyncio.gather(*claims)
        assert [answer.effect.tenant for answer in answers if isinstance(answer, Claimed)] == list(TENANTS)
        assert len(await store.effects(tenant=None, states=(EffectState.DISPATCHED,), limit=9)) == 2
    finally:
        await store.close()
        database.execute(f"DROP OWNED BY {role} CASCADE", f"DROP ROLE {role}")

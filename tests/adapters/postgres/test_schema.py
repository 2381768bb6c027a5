"""The tables themselves: no hand writes an illegal step, and the audit only grows."""

from __future__ import annotations

from collections.abc import AsyncIterator
from itertools import product

import asyncpg
import pytest

from placet.model.approval import ApprovalState
from placet.model.effect import EffectState
from placet.rules.approvals import TRANSITIONS as APPROVAL_TRANSITIONS
from placet.rules.lifecycle import TRANSITIONS
from placet.testing.conformance import a_claim, an_event, in_state
from placet.testing.conformance.samples import Subject
from placet.testing.fakes import FakeClock
from tests.adapters.postgres.conftest import OpenStore
from tests.postgres.fixtures import Database

BIRTHS = ("prepared", "dispatched")


@pytest.fixture
async def hand(database: Database) -> AsyncIterator[asyncpg.Connection]:
    """Somebody who may write every table."""
    connection = await asyncpg.connect(database.url)
    yield connection
    await connection.close()


async def refused(hand: asyncpg.Connection, statement: str) -> bool:
    """Whether the database refuses it; nothing of it stays."""
    try:
        await hand.execute(f"BEGIN; {statement}; ROLLBACK")
    except asyncpg.PostgresError as error:
        await hand.execute("ROLLBACK")
        assert error.sqlstate in ("PL403", "23514"), error
        return True
    return False


async def by_force(hand: asyncpg.Connection, statement: str) -> None:
    """Without the triggers, as only a superuser can."""
    await hand.execute(
        f"BEGIN; SET LOCAL session_replication_role = replica; {statement}; COMMIT",
    )


async def a_row(open_store: OpenStore) -> None:
    await open_store().claim(a_claim("key-1"))


@pytest.mark.req("B112")
async def test_the_databases_table_of_transitions_is_that_of_the_rules(
    hand: asyncpg.Connection, open_store: OpenStore
) -> None:
    await a_row(open_store)
    for old, new, step in product(EffectState, EffectState, (0, 1)):
        for token in ("t-1", "co:t-1"):
            await by_force(hand, f"UPDATE placet.effects SET state = '{old.value}', token = '{token}'")
            change = f"UPDATE placet.effects SET state = '{new.value}', fence = fence + {step}"
            is_refused = await refused(hand, change)
            is_claim = new is EffectState.DISPATCHED and old is not EffectState.DISPATCHED
            is_legal = ((old, new) in TRANSITIONS or old is new) and step == (1 if is_claim else 0)
            if (old, new) == (EffectState.DISPATCHED, EffectState.RECONCILED_ABSENT):
                is_legal = is_legal and token.startswith("co:")
            assert is_refused is not is_legal, (old, new, step, token)


async def test_an_effect_is_born_prepared_or_dispatched(hand: asyncpg.Connection, open_store: OpenStore) -> None:
    await a_row(open_store)
    found = await hand.fetch(
        "SELECT column_name FROM information_schema.columns WHERE table_schema = 'placet' AND table_name = 'effects'"
    )
    columns = ", ".join(row[0] for row in found if row[0] not in ("operation_key", "state"))
    for state in EffectState:
        insert = (
            f"INSERT INTO placet.effects (operation_key, state, {columns}) "
            f"SELECT 'born', '{state.value}', {columns} FROM placet.effects"
        )
        assert await refused(hand, insert) is (state.value not in BIRTHS), state
    assert await refused(hand, "UPDATE placet.effects SET state = 'gone'")


async def test_approvals_move_as_their_table_says(hand: asyncpg.Connection, open_store: OpenStore) -> None:
    store = open_store()
    here = Subject(store=store, clock=FakeClock(await store.now()), linker=None)  # type: ignore[arg-type]
    await in_state(here, ApprovalState.PENDING)
    for old, new in product(ApprovalState, ApprovalState):
        await by_force(hand, f"UPDATE placet.approvals SET state = '{old.value}'")
        is_legal = old is new or (old, new) in APPROVAL_TRANSITIONS
        assert await refused(hand, f"UPDATE placet.approvals SET state = '{new.value}'") is not is_legal, (old, new)


async def test_the_audit_grows_and_is_cut_only_where_somebody_says_so(
    hand: asyncpg.Connection, open_store: OpenStore
) -> None:
    await open_store().record((an_event(), an_event()))
    for statement in (
        "UPDATE placet.audit_events SET body = replace(body, 'acme', 'evil')",
        "UPDATE placet.audit_events SET link = 'x'",
        "UPDATE placet.audit_events SET sequence = sequence + 10",
        "DELETE FROM placet.audit_events WHERE sequence = 1",
        "TRUNCATE placet.audit_events",
    ):
        assert await refused(hand, statement), statement
    assert not await refused(hand, "UPDATE placet.audit_events SET seal = 1")
    assert not await refused(
        hand, "SELECT set_config('placet.cutting', 'yes', true); DELETE FROM placet.audit_events WHERE sequence = 1"
    )
    assert await refused(hand, "DELETE FROM placet.audit_events"), "what was said for one transaction ends with it"

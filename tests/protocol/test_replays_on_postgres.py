"""The same ways on the database of many hosts, whose own clock the trace moves."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from itertools import count

import pytest

from placet.adapters.keys import KeyRing
from placet.adapters.stores.postgres import PostgresStore
from placet.adapters.telemetry.quiet import QuietMeter
from placet.model.identifiers import WriterId
from placet.ports.store import Store, nobody
from tests.postgres.fixtures import Database
from tests.protocol import test_replays
from tests.protocol.model import World
from tests.protocol.stage import BEGINNING, MakeStore, TraceClock

pytestmark = test_replays.pytestmark
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

test_a_way_that_breaks_the_model_without_a_rule_does_not_break_the_engine = (
    test_replays.test_a_way_that_breaks_the_model_without_a_rule_does_not_break_the_engine
)


@pytest.fixture
async def make_store(databases: Callable[..., Database]) -> AsyncIterator[MakeStore]:
    database, keys, writers = databases(own_clock=True), KeyRing.ephemeral(), count(1)

    def show(passed: float) -> None:
        at = (BEGINNING + timedelta(seconds=passed) - _EPOCH) // timedelta(microseconds=1)
        database.execute(f"UPDATE own_clock.shown SET at = {at}")

    async def make(clock: TraceClock) -> tuple[KeyRing, Store]:
        if clock.time.follow is not show:
            clock.time.follow = show
            show(clock.time.passed)
        writer = WriterId(f"w-{next(writers)}")
        return keys, PostgresStore(
            database.address(), keys=keys, clock=clock, writer=writer, meter=QuietMeter(), heard=nobody
        )

    yield make


@pytest.mark.parametrize("world", test_replays.WORLDS.values(), ids=test_replays.WORLDS)
async def test_on_a_way_through_the_model_the_row_is_what_the_model_says(
    world: World, make_store: MakeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await test_replays.walk(world, 1, make_store, monkeypatch)

"""The wire that tests cut leaves nothing behind, whenever it is taken away: what it left would fail a later test."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable

import pytest

from tests.adapters.postgres.proxy import a_wire
from tests.postgres.fixtures import Database


@pytest.mark.parametrize("turns", range(8))
async def test_who_was_just_let_in_is_hung_up_on(databases: Callable[..., Database], turns: int) -> None:
    callers = []
    async with a_wire(databases()) as wire:
        for _ in range(3):
            _, caller = await asyncio.open_unix_connection(str(wire.path / ".s.PGSQL.5432"))
            callers.append(caller)
            for _ in range(turns):
                await asyncio.sleep(0)

    for caller in callers:
        caller.transport.abort()
    await asyncio.sleep(0)
    gc.collect()  # an unclosed transport is told here, as a failure of this test

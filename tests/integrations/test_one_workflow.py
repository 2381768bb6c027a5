"""One definition, every driver, the same ledger and audit."""

from __future__ import annotations

import difflib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from placet.engine.gate import Gate
from placet.engine.workflow import Workflows
from placet.model.effect import EffectState
from placet.model.progress import Ended
from tests.at_once import each_at_once
from tests.integrations.shop import (
    KINDS,
    Shop,
    begun,
    carrying,
    decided,
    is_asking,
    is_over,
    open_gate,
    serving,
    until,
    workflow,
)

ShopOf = Callable[[str], Shop]


async def carried(shop: Shop, *, approves: bool) -> tuple[Ended, list[str], list[tuple[Any, ...]]]:
    """One run from its start to its end; what the audit and the ledger hold of it."""
    async with open_gate(shop) as gate:
        workflows = Workflows(gate, (workflow(),))
        async with carrying(shop, workflows) as driver, serving(shop, driver):
            await begun(shop, driver)
            await until(shop, workflows, is_asking)
            await decided(gate, approves=approves)
            ended = await until(shop, workflows, is_over)
        assert isinstance(ended, Ended)
        return ended, events(gate), await ledger(gate)


def events(gate: Gate) -> list[str]:
    """The audit in its order, a line for each event, without what differs between any two runs: random ids, and times.

    Digests do not differ where the stores have one key.
    """
    bodies = [json.loads(event.body) for event in each_at_once(gate.store.chained())]
    seen: dict[str, str] = {}
    return [
        json.dumps({name: _named(value, seen) for name, value in body.items() if name not in _DIFFERS})
        for body in bodies
        if "run_id" in body
    ]


_DIFFERS = {"at", "duration_ms", "decided_at", "expires_at"}
_OF_THE_KEY = {"key_id", "operation", "arguments_fingerprint", "result_fingerprint"}


def under_any_key(lines: list[str]) -> list[str]:
    """With what a store's own key makes by the order in which it was met: a database's key is made with its store."""
    seen: dict[str, str] = {}
    return [
        json.dumps(
            {
                name: seen.setdefault(value, f"made-{len(seen)}") if name in _OF_THE_KEY and value else value
                for name, value in json.loads(line).items()
            }
        )
        for line in lines
    ]


def _named(value: object, seen: dict[str, str]) -> object:
    """A random id by the order in which it was met; everything else as it is."""
    is_random = isinstance(value, str) and any(value.startswith(prefix) for prefix in _RANDOM)
    return seen.setdefault(value, f"id-{len(seen)}") if is_random else value


_RANDOM = ("req-", "apr-")


async def ledger(gate: Gate) -> list[tuple[Any, ...]]:
    found = await gate.store.effects(tenant="acme", states=tuple(EffectState), limit=9)
    return sorted((each.tool, each.call_id, each.operation_key, each.state.value, each.attempt) for each in found)


@pytest.mark.parametrize("approves", [True, False], ids=["approved", "denied"])
@pytest.mark.case("P05")
async def test_every_driver_leaves_the_same_ledger_and_the_same_audit(
    shop_of: ShopOf, tmp_path: Path, approves: bool
) -> None:
    first: Any = None
    empty = Shop(folder=tmp_path)
    async with open_gate(empty):
        pass
    for kind in KINDS:
        shop = shop_of(kind)
        for file in empty.folder.glob("placet.db*"):
            shutil.copy(file, shop.folder)
        ended, audit, rows = await carried(shop, approves=approves)
        assert ended.status == ("done" if approves else "failed"), kind
        assert shop.acted() == {"refund": int(approves), "note": int(approves)}, kind
        first = first or (audit, rows, (ended.state, ended.visit, ended.code))
        same = under_any_key if shop.store else list
        assert _changes(same(first[0]), same(audit)) == [], kind
        assert (rows, (ended.state, ended.visit, ended.code)) == first[1:], kind
    assert len(first[0]) > 10


def _changes(before: list[str], after: list[str]) -> list[str]:
    return list(difflib.unified_diff(before, after, n=0, lineterm=""))

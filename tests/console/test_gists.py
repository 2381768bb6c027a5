"""No two calls of a list that differ look alike in it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from placet.console.gists import gists_of
from tests.console.shop import MEI, Shop, open_shop


@pytest.fixture
async def shop() -> AsyncIterator[Shop]:
    async with open_shop() as made:
        yield made


async def gists(shop: Shop, *of_refunds: dict[str, Any]) -> list[str]:
    ids = [await shop.asked("refund", **arguments) for arguments in of_refunds]
    views = {view.approval_id: view for view in await shop.gate.desk.pending(by=MEI)}
    return list(gists_of([views[each] for each in ids]))


async def test_what_is_different_comes_first_and_the_rest_in_the_order_of_the_contract(shop: Shop) -> None:
    found = await gists(shop, {"order": "o-1", "amount": 5, "note": "a"}, {"order": "o-1", "amount": 5, "note": "b"})

    assert found == [
        'note: "a", order: "o-1", amount: 5, options: null',
        'note: "b", order: "o-1", amount: 5, options: null',
    ]


async def test_types_are_told_apart(shop: Shop) -> None:
    found = await gists(shop, *({"order": "o", "amount": 1, "options": {"a": value}} for value in (1, "1", True, None)))

    assert len(set(found)) == 4


@pytest.mark.parametrize("length", [10, 47, 48, 49, 60, 61, 500])
async def test_a_difference_behind_a_long_beginning_is_shown(shop: Shop, length: int) -> None:
    notes = ["x" * length + tail for tail in ("left", "right", "r", "")]
    found = await gists(shop, *({"order": "o-1", "amount": 5, "note": note} for note in notes))

    assert len(set(found)) == 4
    assert all(len(line) < 300 for line in found)


async def test_each_difference_is_shown_however_many_there_are(shop: Shop) -> None:
    many = [{"order": f"o-{n}" * 30, "amount": n, "note": f"note {n} " * 30, "options": {"n": n}} for n in range(3)]
    found = await gists(shop, *many)

    assert len(set(found)) == 3
    assert all(line.count(": ") >= 4 for line in found)


async def test_a_tool_whose_calls_are_alike_has_a_short_line(shop: Shop) -> None:
    (line,) = await gists(shop, {"order": "o-1", "amount": 5, "note": "word " * 90})

    assert line.startswith('order: "o-1", amount: 5, note: "word word') and line.endswith("…, options: null")
    assert len(line) <= 180

"""The process that carries a run is killed between every two durable steps and inside every write, on each engine.

Real processes, a real remote that counts. Nobody is there while a person answers. The run ends right, each effect once.
"""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from placet.engine.workflow import Workflows
from placet.model.progress import Ended
from tests.integrations.shop import SURVIVED, Shop, one_after_the_other, open_gate, workflow
from tests.kill_points.actors import KILLED, assert_audit_is_whole, ended, start

ShopOf = Callable[[str], Shop]
ENGINES = ["temporal", "dbos-sqlite", "dbos-postgresql", "langgraph-sqlite", "langgraph-postgresql"]
PLAN = [
    {"starts": True, "dies_at": "ASK"},  # the read is on record, and the engine has not heard of it
    {"dies_at": "ASK?"},  # the question is asked
    None,  # a person answers
    {"dies_in": "refund-after"},  # it acted, and nothing says so
    {"dies_at": "NOTE"},
    {"dies_in": "note-after"},
    {"dies_at": "DONE"},
    {},
]


@pytest.mark.slow  # eight processes, each of which waits for the leases of the one before
@pytest.mark.req("X003", "H051")
@pytest.mark.case("G09", "G04", "P05")
@pytest.mark.parametrize("kind", ENGINES)
async def test_killed_after_every_step_and_in_every_write_it_ends_right_and_acts_once(
    shop_of: ShopOf, kind: str
) -> None:
    shop = shop_of(kind)
    report = shop.folder / "report.json"
    assert ended(start(one_after_the_other, shop, PLAN, report), within=200.0) == SURVIVED

    killed, answered, to_the_end = [KILLED], [SURVIVED], [SURVIVED]
    assert json.loads(report.read_text()) == killed * 2 + answered + killed * 4 + to_the_end
    async with open_gate(shop) as gate:
        over = await Workflows(gate, (workflow(),)).look("acme", shop.run)
        assert isinstance(over, Ended) and (over.status, over.state) == ("done", "DONE")
        assert_audit_is_whole(gate)
    assert shop.acted() == {"refund": 1, "note": 1}

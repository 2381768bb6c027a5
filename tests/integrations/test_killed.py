"""The process that carries a run is killed at every moment at which something of it has become durable, on each engine.

Real processes, a real remote that counts. Each dies at another moment of a run of its own, and one that comes after
them ends all their runs right: each effect once. The inline driver's are in tests/kill_points/test_runs.py.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.integrations.moments import LONGEST_SECONDS, OF_THE_STORE, all_end_right, ended_right
from tests.integrations.shop import Shop

ShopOf = Callable[[str], Shop]
KINDS = ["temporal", "dbos-sqlite", "dbos-postgresql", "langgraph-sqlite", "langgraph-postgresql"]


def _times(count: int, *names: str) -> frozenset[str]:
    return frozenset(f"{name} {number + 1}" for name in names for number in range(count))


OF_ENGINES = {
    "temporal": _times(1, "temporal start", "temporal signal")
    | _times(5, "temporal activity begun", "temporal activity done and not told")
    | _times(6, "temporal task begun", "temporal task done and not told"),
    "dbos": _times(
        1, "dbos insert into workflow_input", "dbos update workflow_status", "dbos insert into notifications"
    )
    | _times(6, "dbos insert into operation_outputs")
    | _times(1, "dbos insert into workflow_output"),
    "langgraph": _times(8, "langgraph aput", "langgraph aput_writes"),
}
"""What each is sure to write of one run; there may be more, for a wake-up that comes early."""

SAMPLE = {
    "temporal": ("temporal task done and not told 1", "temporal activity done and not told 4"),
    "dbos": ("dbos insert into operation_outputs 1", "dbos insert into notifications 1"),
    "langgraph": ("langgraph aput 4", "langgraph aput_writes 7"),
}
pytestmark = [
    pytest.mark.req("X003", "H051"),
    pytest.mark.case("G09", "G04", "P05"),
    pytest.mark.parametrize("kind", KINDS),
]


def test_killed_where_it_matters_most_it_ends_right_and_acts_once(shop_of: ShopOf, kind: str) -> None:
    moments = ("store ask 1", "refund acted 1", *SAMPLE[kind.partition("-")[0]])
    assert ended_right(shop_of(kind), moments) == set(moments)


@pytest.mark.exhaustive
@pytest.mark.slow  # some forty processes
@pytest.mark.timeout(LONGEST_SECONDS + 60)
def test_killed_after_any_durable_step_it_ends_right_and_acts_once(shop_of: ShopOf, kind: str) -> None:
    sure = OF_THE_STORE | OF_ENGINES[kind.partition("-")[0]]
    assert sure - all_end_right(shop_of(kind)) == set()

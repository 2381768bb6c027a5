"""The real engine on the real stores, on the ways of the model.

Each way that breaks the model without one of its rules does not break the engine, and the first step it refuses is the
one that the rule forbids. Ways that chance chose through the model with all its rules are walked step by step, and the
row is what the model says after each.
"""

from __future__ import annotations

from contextlib import AsyncExitStack
from functools import cache

import pytest

from tests.protocol.exploring import explore, wander
from tests.protocol.holes import HOLES, Hole
from tests.protocol.model import Move, World
from tests.protocol.moves import APPLIED, NOT_APPLIED, STILL_RUNNING
from tests.protocol.replay import Refused, finish, make, replay
from tests.protocol.stage import MakeStore, set_up

pytestmark = [pytest.mark.req("H042", "H046", "C040", "C045"), pytest.mark.case("H01", "G09")]

LOST = (APPLIED, NOT_APPLIED, STILL_RUNNING)
REPLAYED = [hole for hole in HOLES if not hole.world.co_commit]
"""What a co-commit needs is the store's own transaction: `tests/kill_points/test_co_commit.py`."""


@cache
def trace_of(hole: Hole) -> tuple[Move, ...]:
    return explore(hole.open_world, wanted=frozenset({hole.breaks})).trace


@pytest.mark.parametrize("hole", REPLAYED, ids=lambda hole: hole.name)
async def test_a_way_that_breaks_the_model_without_a_rule_does_not_break_the_engine(
    hole: Hole, make_store: MakeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with AsyncExitStack() as opened:
        stage = await set_up(hole.world, opened, make_store, monkeypatch)

        refused = await replay(stage, trace_of(hole))
        found = await finish(stage)

    assert set(found) <= {each.value for each in hole.not_promised}
    assert next(iter(map(str, refused)), "") == hole.refused


WORLDS = {
    "one worker whose answers are lost": World(loses_answers=True, lands_late=True, refuses=True),
    "two workers": World(workers=2, refuses=True, horizon=8),
    "two workers whose answers are lost": World(workers=2, loses_answers=True, horizon=8),
    "two looks": World(workers=2, reconcilers=2, horizon=8),
    "stops": World(workers=2, stops=True, loses_answers=True),
}


@pytest.mark.parametrize("world", WORLDS.values(), ids=WORLDS)
@pytest.mark.parametrize("seed", range(12))
async def test_on_any_way_through_the_model_the_row_is_what_the_model_says(
    world: World, seed: int, make_store: MakeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await walk(world, seed, make_store, monkeypatch)


async def walk(world: World, seed: int, make_store: MakeStore, monkeypatch: pytest.MonkeyPatch) -> None:
    async with AsyncExitStack() as opened:
        stage = await set_up(world, opened, make_store, monkeypatch)
        made: list[Move] = []
        for move, state in wander(world, seed):
            try:
                await make(stage, move)
            except Refused:
                assert may_part(move, made), "\n".join(map(str, [*made, move]))
                break
            made.append(move)
            row = await stage.row()
            real = (None, 0) if row is None else (row.state, row.fence)
            assert real == (state.row, state.fence), [str(each) for each in made]
            assert len(stage.acted) == len(state.acted)
        found = await finish(stage)

    assert found == []
    assert len(made) > 3


def may_part(move: Move, made: list[Move]) -> bool:
    """Where the engine does not do as the model; from there on the two are different stories.

    It voids its token after three lost answers. It voids none where the fence has moved on, as the claim can never land
    there. It believes an absence earlier, because what was not sent by the end of its window never is.
    """
    lost = [each for each in made if each.who == move.who and each.what == "claims" and each.how in LOST]
    if len(lost) >= 3 and move.who.startswith("worker"):
        return True
    return move.what == "voids its token" or (move.who.startswith("look") and move.how == "not usable")

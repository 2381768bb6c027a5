"""All ways of a world, shortest first; and some ways, at random."""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass

from placet.model.effect import EffectState
from tests.protocol.model import Broken, Move, State, World, beginning, broken
from tests.protocol.moves import moves

Transition = tuple[EffectState | None, EffectState | None]


@dataclass(frozen=True, kw_only=True)
class Explored:
    """`broken`: by the first state that breaks anything wanted, after the moves of `trace`; empty if none does."""

    broken: frozenset[Broken]
    trace: tuple[Move, ...]
    states: int
    transitions: frozenset[Transition]


class TooLarge(AssertionError):
    """The space is larger than a test may explore."""


def explore(world: World, *, wanted: frozenset[Broken] | None = None, limit: int = 400_000) -> Explored:
    """Breadth-first, so that a trace is a shortest one. Stops at what is `wanted`: anything if None."""
    first = beginning(world)
    came_from: dict[State, tuple[State, Move] | None] = {first: None}
    todo = deque([first])
    transitions: set[Transition] = set()
    while todo:
        state = todo.popleft()
        for move, after in moves(world, state):
            if (after.row, after.fence) != (state.row, state.fence):
                transitions.add((state.row, after.row))
            if after in came_from:
                continue
            came_from[after] = state, move
            found = frozenset(broken(world, after))
            if found and (wanted is None or found & wanted):
                return Explored(
                    broken=found,
                    trace=_way_to(after, came_from),
                    states=len(came_from),
                    transitions=frozenset(transitions),
                )
            todo.append(after)
        if len(came_from) > limit:
            raise TooLarge(f"more than {limit} states")
    return Explored(broken=frozenset(), trace=(), states=len(came_from), transitions=frozenset(transitions))


def wander(world: World, seed: int, *, longest: int = 40) -> list[tuple[Move, State]]:
    """One way through the world that chance chose."""
    chance = random.Random(seed)
    state, way = beginning(world), []
    while len(way) < longest and (steps := list(moves(world, state))):
        move, state = chance.choice(steps)
        way.append((move, state))
    return way


def _way_to(state: State, came_from: dict[State, tuple[State, Move] | None]) -> tuple[Move, ...]:
    way: list[Move] = []
    while (step := came_from[state]) is not None:
        state, move = step
        way.append(move)
    return tuple(reversed(way))

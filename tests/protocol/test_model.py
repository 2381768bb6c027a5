"""The model holds with all its rules, breaks without each of them, and has the table that the code has."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from placet.model.effect import EffectState
from placet.rules.lifecycle import TRANSITIONS
from tests.protocol.exploring import Explored, explore
from tests.protocol.holes import HOLES, REDUNDANT, Hole
from tests.protocol.model import Broken, Rule, World

pytestmark = [pytest.mark.req("H032", "H033", "H042"), pytest.mark.timeout(300)]

EVERYTHING = frozenset(Broken)


@cache
def explored(world: World, not_promised: frozenset[Broken] = frozenset()) -> Explored:
    return explore(world, wanted=EVERYTHING - not_promised)


@pytest.mark.parametrize("hole", HOLES, ids=lambda hole: hole.name)
def test_with_all_rules_every_invariant_holds(hole: Hole) -> None:
    found = explored(hole.world, hole.not_promised)

    assert found.broken == frozenset(), "\n".join(map(str, found.trace))
    assert found.states > 100


@pytest.mark.parametrize("hole", HOLES, ids=lambda hole: hole.name)
def test_without_the_rule_there_is_a_shortest_way_to_break_an_invariant(hole: Hole) -> None:
    found = explore(hole.open_world, wanted=frozenset({hole.breaks}))

    assert hole.breaks in found.broken
    assert 3 <= len(found.trace) <= 20, "\n".join(map(str, found.trace))


def test_every_rule_is_left_out_somewhere() -> None:
    assert {hole.rule for hole in HOLES} | set(REDUNDANT) == set(Rule)
    assert len({hole.name for hole in HOLES}) == len(HOLES)


@pytest.mark.parametrize("rule", REDUNDANT, ids=lambda rule: rule.name)
def test_a_redundant_rule_breaks_nothing_beside_the_others(rule: Rule) -> None:
    world = World(reconcilers=2, off=frozenset({rule}))

    assert explored(world).broken == frozenset()


def test_the_table_of_the_code_is_what_the_model_reaches() -> None:
    """`prepared` is a recorded intention, which the model leaves out; a turn keeps state and fence."""
    reached = {
        transition
        for world in (
            World(loses_answers=True, refuses=True),
            World(workers=2, horizon=5),
            World(co_commit=True),
        )
        for transition in explored(world).transitions
    }
    turns = {(EffectState.DISPATCHED, EffectState.DISPATCHED)}
    of_prepared = {(before, after) for before, after in TRANSITIONS if EffectState.PREPARED in (before, after)}

    assert reached | turns == TRANSITIONS - of_prepared


# ---------------------------------------------------------------- what the promises assume


def test_keys_that_are_honoured_make_acting_twice_impossible_however_late_a_request_is() -> None:
    world = World(workers=2, arrival=None, honours_key=True, horizon=4)

    assert explore(world, wanted=EVERYTHING - {Broken.SILENT}).broken == frozenset()
    assert Broken.SILENT in explore(world, wanted=frozenset({Broken.SILENT})).broken  # not promised: README


def test_a_remote_that_refuses_late_requests_needs_no_other_bound() -> None:
    assert explored(World(arrival=None, pause=None, refuses_late=True, horizon=5)).broken == frozenset()


def test_without_any_promise_of_the_remote_an_absence_may_be_untrue_and_is_not_acted_upon() -> None:
    world = World(workers=2, arrival=None, horizon=3)

    assert Broken.SILENT in explore(world, wanted=frozenset({Broken.SILENT})).broken
    assert explore(world, wanted=frozenset({Broken.TWICE})).broken == frozenset()


def test_an_attempt_that_nothing_ends_is_believed_ended_only_by_its_own_word_or_its_owners_death() -> None:
    world = World(pause=None, ends_by_itself=False, deaths=True, horizon=5)

    assert explored(world).broken == frozenset()
    assert explored(replace(world, off=frozenset({Rule.ENDED}))).broken

"""Hostile values where the audit is held against something kept outside, and in whatever asks without acting."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

import placet
from placet import EffectState, Proposal, Unknown
from placet.bootstrap.records import check_export
from placet.bootstrap.stores import open_store
from placet.errors import MisuseError
from placet.model.effect import Effect
from tests.engine.conftest import OPERATOR, OpenWorld, Spy, World, acting, looked_up
from tests.hostile.conftest import Watch

ANCHORS: dict[str, Callable[[Any], Any]] = {
    "anchors": lambda value: value,
    "head": lambda value: {"w": value},
    "head in a tuple": lambda value: {"w": (value,)},
    "sequence": lambda value: {"w": (value, "0" * 64)},
    "link": lambda value: {"w": (1, value)},
    "both": lambda value: {"w": (value, value)},
}  # fmt: skip


@pytest.mark.parametrize("position", ANCHORS)
async def test_a_hostile_anchor_proves_nothing(world: World, watch: Watch, position: str) -> None:
    assert (await world.submit("look", {"word": "x"})).is_success
    for name, value in watch.each():
        if position == "link" and type(value) is str:  # text, which is no link of this audit
            assert not (await world.gate.verify_audit(anchors=ANCHORS[position](value))).holds
            continue
        if position == "sequence" and type(value) is int and value > 0:  # a place that this audit does not reach
            assert not (await world.gate.verify_audit(anchors=ANCHORS[position](value))).holds
            continue
        made = await watch.ended(lambda: world.gate.verify_audit(anchors=ANCHORS[position](value)))
        assert type(made) is MisuseError, name

    writer = {watch.values().key_like("w"): (1, "0" * 64)}
    assert type(await watch.ended(lambda: world.gate.verify_audit(anchors=writer))) is MisuseError  # type: ignore[arg-type]
    assert watch.ran == []
    assert (await world.gate.verify_audit(anchors={})).holds
    watch.assert_nothing_leaked(world)
    await watch.assert_serves(world)


@pytest.mark.parametrize("position", ANCHORS)
def test_a_hostile_anchor_proves_nothing_to_a_sync_gate_or_an_export(
    watch: Watch, spy: Spy, tmp_path: Path, position: str
) -> None:
    _, store = open_store(tmp_path / "placet.db")
    lines = [b'{"schema":"audit-export/1"}\n']
    with placet.open(tools=[looked_up(spy)], store=placet.MEMORY, metrics=watch.registry) as gate:
        for name, value in watch.each():
            if (position == "link" and type(value) is str) or (position == "sequence" and name.startswith("giant")):
                continue
            given = ANCHORS[position](value)
            assert type(watch.ended_at_once(lambda: gate.verify_audit(anchors=given))) is MisuseError, name
            checked = watch.ended_at_once(lambda: check_export(lines, tmp_path / "placet.db.key", anchors=given))
            assert type(checked) is MisuseError, name

    assert store is not None
    assert watch.ran == []
    watch.assert_nothing_leaked()


# ---------------------------------------------------------------- proposals made by hand, explained and listed


@pytest.mark.parametrize("field", [each.name for each in fields(Proposal)])
async def test_a_proposal_made_of_hostile_members_is_an_outcome(
    world: World, watch: Watch, spy: Spy, field: str
) -> None:
    for index, (name, value) in enumerate(watch.each()):
        parts: dict[str, Any] = {"call_id": "c", "tool": "look", "arguments": {"word": "x"}, field: value}
        outcome = await watch.ended(lambda: world.gate.submit(Proposal(**parts), principal=OPERATOR, run=f"r{index}"))
        explained = await watch.ended(lambda: world.gate.explain(Proposal(**parts), principal=OPERATOR, run="e"))
        watch.hear_outcome(outcome)
        watch.hear_outcome(explained)
        assert type(outcome) is placet.Invalid, name
        assert type(explained) is placet.Invalid, name

    assert (watch.ran, spy.count) == ([], 0)
    watch.assert_nothing_leaked(world)
    await watch.assert_serves(world)


@pytest.mark.parametrize("position", ["proposal", "principal", "run"])
async def test_explaining_to_the_hostile_tells_nothing(world: World, watch: Watch, spy: Spy, position: str) -> None:
    for name, value in watch.each():
        given: dict[str, Any] = {"principal": OPERATOR, "run": "r"}
        proposal: Any = {"call_id": "c", "tool": "look", "arguments": {"word": "x"}}
        if position == "proposal":
            proposal = value
        else:
            given[position] = value
        said = await watch.ended(lambda: world.gate.explain(proposal, **given))
        expected = {"proposal": placet.Invalid, "principal": placet.Deny, "run": MisuseError}[position]
        assert type(said) is expected, (name, said)
        assert watch.ended_at_once(lambda: world.gate.tools_for(value)) == (), name

    assert (watch.ran, spy.count) == ([], 0)
    watch.assert_nothing_leaked(world)


# ---------------------------------------------------------------- effects made by hand

PLAIN = ("long text", "bytes")
"""Text and bytes are what such fields hold; what they say is looked up, and is not there."""


@pytest.mark.req("B138")
@pytest.mark.parametrize("field", [each.name for each in fields(Effect)])
async def test_a_look_at_an_effect_with_a_hostile_field_settles_nothing(
    open_world: OpenWorld, watch: Watch, spy: Spy, field: str
) -> None:
    looks: list[object] = []

    async def fails() -> None:
        raise RuntimeError

    async def probe(context: object) -> placet.CannotTell:
        looks.append(context)
        return placet.CannotTell()

    world = await open_world(looked_up(spy), acting(fails, probe=probe), metrics=watch.registry)
    assert isinstance(await world.submit("act"), Unknown)
    world.clock.advance(120)
    before = await world.effect()
    for name, value in watch.each():
        by_hand = replace(before, **{field: value})
        said = await watch.ended(lambda: world.gate.reconciler.probe(by_hand))
        assert type(said) is MisuseError or name.startswith(PLAIN), (name, said)
        if type(said) is MisuseError:
            assert looks == [], name
        looks.clear()

    assert watch.ran == []
    assert (await world.effect()).state is EffectState.UNKNOWN
    watch.assert_nothing_leaked(world)
    await watch.assert_serves(world)

"""Hostile values where a handler runs in a process of its own: what it returns or raises there is told by nobody."""

from __future__ import annotations

import pytest

from placet import EffectState, Failed, GateSettings, Succeeded, Unknown
from tests.engine.conftest import OpenWorld, Spy, looked_up
from tests.hostile import process_tools
from tests.hostile.conftest import SECRET, Watch

RETURNED = ("raising str", "lying dict: in a dict", "raising object", "mapping with raising items: in a list")
"""A few of each kind: what they do is found out in the child by the same code as in a thread, which tries them all."""
RAISED = ("words", "status", "retry_after", "not sent", "KeyboardInterrupt", "CustomBase")
SETTINGS = GateSettings(grace_seconds=5.0, spare_processes=0)


@pytest.mark.req("B128", "B130", "B138")
@pytest.mark.parametrize("tool", ["returns", "described"])
async def test_whatever_comes_back_from_a_process_the_effect_is_committed_and_nothing_of_it_is_told(
    open_world: OpenWorld, watch: Watch, spy: Spy, tool: str
) -> None:
    assert process_tools.SECRET == SECRET
    tools = (looked_up(spy), process_tools.returns, process_tools.described)
    world = await open_world(*tools, metrics=watch.registry, settings=SETTINGS)

    for name in RETURNED:
        outcome = await watch.ended(lambda: world.submit(tool, {"kind": name}, run=name.replace(" ", ".")))
        assert type(outcome) is Succeeded, (name, outcome)
        assert outcome.result_unavailable is not None, name
        watch.hear_outcome(outcome)

    assert {effect.state for effect in await world.effects()} == {EffectState.COMMITTED}
    watch.assert_nothing_leaked(world)
    await watch.assert_serves(world)


@pytest.mark.req("B134", "B138", "B139")
@pytest.mark.parametrize("tool", ["raises", "raises_plainly"])
async def test_whatever_is_raised_in_a_process_is_an_outcome(
    open_world: OpenWorld, watch: Watch, spy: Spy, tool: str
) -> None:
    tools = (looked_up(spy), process_tools.raises, process_tools.raises_plainly)
    world = await open_world(*tools, metrics=watch.registry, settings=SETTINGS)

    for name in RAISED:
        outcome = await watch.ended(lambda: world.submit(tool, {"kind": name}, run=name.replace(" ", ".")))
        assert type(outcome) in (Unknown, Failed), (name, outcome)
        watch.hear_outcome(outcome)

    assert {effect.state for effect in await world.effects()} <= {EffectState.UNKNOWN, EffectState.FAILED}
    watch.assert_nothing_leaked(world)
    await watch.assert_serves(world)

"""What a server has and nobody accepted is put on record in few records, however much it is and however often."""

from __future__ import annotations

import json

import pytest

from placet.adapters.keys import KeyRing
from placet.adapters.stores.memory import MemoryStore
from placet.adapters.telemetry.quiet import QuietMeter
from placet.engine.chronicle import Chronicle
from placet.engine.discovering import MOST_COUNTED, MOST_NAMED, Discoveries, mark_of
from placet.model.identifiers import WriterId
from placet.testing import FakeClock


class Scene:
    def __init__(self) -> None:
        clock, keys = FakeClock(), KeyRing.ephemeral()
        self.store = MemoryStore(keys=keys, clock=clock, writer=WriterId("w"), meter=QuietMeter())
        self._chronicle = Chronicle(keys=keys, clock=clock)
        self.process = self.started()

    def started(self) -> Discoveries:
        return Discoveries(store=self.store, chronicle=self._chronicle)

    async def on_record(self) -> list[list[str]]:
        return [json.loads(each.body)["reasons"] async for each in self.store.chained()]


@pytest.fixture
def scene() -> Scene:
    return Scene()


@pytest.mark.case("B06")
async def test_many_new_tools_are_a_few_records_and_one_that_says_how_many(scene: Scene) -> None:
    invented = [f"tool-{number}" for number in range(300)]
    found = await scene.process.discovered("desk", invented)

    assert [each.count for each in found] == [1] * MOST_NAMED + [300 - MOST_NAMED]
    assert (await scene.on_record())[-1] == ["upstream:desk", f"tool:{found[-1].mark}", f"more:{300 - MOST_NAMED}"]
    assert await scene.process.discovered("desk", invented) == ()
    assert await scene.started().discovered("desk", invented) == ()  # the same, to another process


@pytest.mark.case("B06")
async def test_what_comes_behind_many_is_on_record_all_the_same_and_up_to_a_bound(scene: Scene) -> None:
    await scene.process.discovered("desk", [f"tool-{number}" for number in range(300)])
    for number in range(MOST_COUNTED + 5):
        await scene.process.discovered("desk", [f"later-{number}-{each}" for each in ("a", "b")])

    assert len(await scene.on_record()) == MOST_NAMED + MOST_COUNTED
    assert (await scene.process.discovered("files", ["one"]))[0].mark == mark_of("one")


async def test_what_the_store_did_not_take_is_said_again(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fails(_: object) -> None:
        raise OSError

    with monkeypatch.context() as broken:
        broken.setattr(scene.store, "record", fails)
        with pytest.raises(OSError):
            await scene.process.discovered("desk", ["one"])
    assert [each.mark for each in await scene.process.discovered("desk", ["one"])] == [mark_of("one")]

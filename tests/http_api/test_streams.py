"""Streams and exports: whoever breaks off anywhere comes back to everything, and whoever takes nothing is let go."""

from __future__ import annotations

import asyncio
import gc
import random
from collections.abc import Coroutine
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import pytest

import placet
from placet.errors import StoreError
from placet.http_api import HttpSettings
from placet.http_api.audit import _PIECE_BYTES
from placet.model.audit import EventKind
from placet.model.decision import RequirementKind
from placet.testing import FixedSignIn
from tests.http_api.conftest import AGENT, MARA, OMAR, Api, MakeApi
from tests.http_api.test_approvals import Reader

EXPORT = "/v1/audit/export"


class Held(Reader):
    """A reader whose server may have to keep what is sent, and which says what it got of an answer."""

    def __init__(self, api: Api, **more: Any) -> None:
        self.offered = asyncio.Event()
        self.got: list[dict[str, Any]] = []
        super().__init__(api, **more)

    async def _send(self, message: Any) -> None:
        if message["type"] == "http.response.body":
            self.offered.set()
            await self.takes.wait()
        self.got.append(dict(message))
        await self._sent.put(dict(message))

    def hold(self) -> None:
        self.takes.clear()
        self.offered.clear()

    async def is_offered(self) -> None:
        await asyncio.wait_for(self.offered.wait(), 30)

    @property
    def is_whole(self) -> bool:
        return bool(self.got) and self.got[-1].get("more_body") is False

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.got)


class Known:
    """What a client knows that has taken these events, and the id of the last of them."""

    def __init__(self) -> None:
        self.waiting: dict[str, Any] = {}
        self.last_id = ""

    async def take(self, reader: Reader) -> str:
        name, self.last_id, data = await reader.event()
        match name:
            case "snapshot":
                self.waiting = {view["approval_id"]: view for view in data["approvals"]}
            case "changed":
                self.waiting[data["approval"]["approval_id"]] = data["approval"]
            case "gone":
                del self.waiting[data["approval_id"]]
        return name


async def truth(api: Api) -> dict[str, Any]:
    return {view["approval_id"]: view for view in (await api.get("/v1/approvals")).json()["approvals"]}


async def left(reader: Reader) -> None:
    reader.takes.set()
    reader.leave()
    await asyncio.wait_for(reader.task, 30)


async def changed_somehow(api: Api, chance: random.Random, count: int) -> None:
    for _ in range(count):
        waiting = sorted(await truth(api))
        if waiting and chance.random() < 0.4:
            answer = await api.post(f"/v1/approvals/{chance.choice(waiting)}/withdraw", as_="t-mara")
            assert answer.status_code == 200
        else:
            await api.asked(chance.randrange(10**9), call_id=f"c{chance.randrange(10**9)}")


@pytest.mark.parametrize("seed", range(2))
async def test_whoever_breaks_off_after_any_event_and_comes_back_knows_everything(make_api: MakeApi, seed: int) -> None:
    api = await make_api(store=placet.MEMORY, settings=HttpSettings(poll_seconds=0.005))
    chance, known = random.Random(seed), Known()
    await changed_somehow(api, chance, chance.randrange(3))
    reader = Held(api)
    await known.take(reader)
    for _ in range(3):
        reader.hold()
        await changed_somehow(api, chance, 1)
        await reader.is_offered()
        await changed_somehow(api, chance, chance.randrange(1, 5))  # one look sees all of these
        reader.takes.set()
        for _ in range(chance.randrange(1, 5)):
            if known.waiting != await truth(api):
                await known.take(reader)
        await left(reader)
        await changed_somehow(api, chance, chance.choice((0, 0, 0, 1, 2)))

        reader = Held(api, last_id=known.last_id)
        while known.waiting != await truth(api):
            await known.take(reader)
    await left(reader)


@pytest.mark.parametrize("then", ["nothing happens", "all is taken back"])
@pytest.mark.parametrize("cut", range(5))
async def test_a_stream_that_is_cut_within_one_look_is_gone_on_with_as_if_it_were_whole(
    make_api: MakeApi, cut: int, then: str
) -> None:
    api = await make_api(store=placet.MEMORY, settings=HttpSettings(poll_seconds=0.005))
    known, reader = Known(), Held(api)
    await known.take(reader)
    reader.hold()
    first = await api.asked(0, call_id="c0")
    await reader.is_offered()  # whatever comes before it is taken is one look
    asked = [await api.asked(n, call_id=f"c{n}") for n in (1, 2)]
    await taken_back(api, first)
    reader.takes.set()
    names = [await known.take(reader) for _ in range(cut)]
    await left(reader)
    if then == "all is taken back":
        await taken_back(api, *asked)

    reader = Held(api, last_id=known.last_id)
    while known.waiting != await truth(api):
        await known.take(reader)
    await left(reader)
    assert names == ["changed", "changed", "changed", "gone"][:cut]


async def taken_back(api: Api, *views: dict[str, Any]) -> None:
    for view in views:
        assert (await api.post(f"/v1/approvals/{view['approval_id']}/withdraw", as_="t-mara")).status_code == 200


async def test_a_vote_a_vote_that_is_taken_back_and_the_end_of_its_time_are_told(make_api: MakeApi) -> None:
    rule = placet.AskRule(name="two", needs=RequirementKind.QUORUM, votes=2)
    policy = placet.Matrix(asks=placet.AskRules(rules=(rule,)))
    api = await make_api(store=placet.MEMORY, policy=policy)
    view = await api.asked()
    known, reader = Known(), Held(api)
    await known.take(reader)
    said: list[Any] = []

    async def told() -> None:
        said.append(
            (await known.take(reader), [vote["voter"] for each in known.waiting.values() for vote in each["votes"]])
        )

    assert (await api.decide(view)).status_code == 200
    await told()
    assert (await api.post(f"/v1/approvals/{view['approval_id']}/withdraw-vote", as_="t-mara")).status_code == 200
    await told()
    api.clock.advance(2 * 86_400.0)
    await told()

    assert said == [("changed", ["mara"]), ("changed", []), ("gone", [])]
    await left(reader)


# ---------------------------------------------------------------- looks that are shared


async def test_a_look_that_is_young_enough_is_everybodys_who_watches_the_tenant(api: Api) -> None:
    door = api.app.state.door
    await api.asked()
    looks = door.lookout.over("acme")
    before = door.clock.monotonic()
    first, second = await asyncio.gather(*(looks.glance(by=who, begun_after=before) for who in (MARA, OMAR)))
    third = await looks.glance(by=OMAR, begun_after=before)
    later = await looks.glance(by=MARA, begun_after=door.clock.monotonic())

    assert first is second is third
    assert later is not first
    assert (later.marks, len(later.marks)) == (first.marks, 1)
    assert door.lookout.over("acme") is looks
    assert door.lookout.over("globex") is not looks
    del looks
    gc.collect()
    assert list(door.lookout._tenants) == []


async def test_a_look_that_failed_is_nobodys_who_comes_later(api: Api, tmp_path: Path) -> None:
    looks = api.app.state.door.lookout.over("acme")
    with closing(apsw.Connection(str(tmp_path / "placet.db"))) as other:
        other.execute("ALTER TABLE approvals RENAME TO elsewhere")
        failed = await asyncio.gather(
            *(looks.glance(by=MARA, begun_after=-1.0) for _ in range(2)), return_exceptions=True
        )
        other.execute("ALTER TABLE elsewhere RENAME TO approvals")

    assert [isinstance(fault, StoreError) for fault in failed] == [True, True]
    assert (await looks.glance(by=MARA, begun_after=-1.0)).marks == ()


async def test_an_agent_that_tries_to_watch_is_refused_and_spoils_nobodys_look(api: Api) -> None:
    reader = Held(api)
    await reader.event()
    refused = await api.get("/v1/approvals/events", as_="t-agent")
    await api.asked()

    assert (refused.status_code, refused.json()["code"]) == (403, "not_a_person")
    assert (await reader.event())[0] == "changed"
    await left(reader)


# ---------------------------------------------------------------- exports


async def much_told(api: Api) -> None:
    """So much that an export is several pieces."""
    facts = api.gate._chronicle.of_principal(AGENT)
    event = api.gate._chronicle.event(EventKind.DECISION_REFUSED, facts, detail="x", model_suggested=False)
    await api.gate.store.record((event,) * (5 * _PIECE_BYTES // 300))


async def is_held(api: Api, folder: Path) -> bool:
    """Whether a moment of the store that is over is kept for somebody."""
    await api.propose("note", {"word": "a"}, call_id=f"call-{api.gate.store.commits}")
    with closing(apsw.Connection(str(folder / "placet.db"))) as other:
        (is_busy, *_), *_ = other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return bool(is_busy)


async def test_an_export_takes_a_place_and_one_that_is_not_taken_is_let_go_with_its_moment(
    make_api: MakeApi, tmp_path: Path
) -> None:
    api = await make_api(settings=HttpSettings(slow_reader_seconds=0.3, max_waiting_each=1))
    await much_told(api)
    reader = Held(api, path=EXPORT)
    reader.hold()
    await reader.is_offered()
    assert await is_held(api, tmp_path)
    refused = await api.get(EXPORT)
    await asyncio.wait_for(reader.task, 30)

    assert (refused.status_code, refused.json()["code"]) == (429, "too_many_waiting")
    assert [message["type"] for message in reader.got] == ["http.response.start"]
    assert not await is_held(api, tmp_path)
    again = await api.get(EXPORT)
    assert (again.status_code, again.content.count(b"\n") > 1_000) == (200, True)
    assert (await api.get(EXPORT)).status_code == 200, "its place is free again"


async def test_an_export_whose_reader_has_gone_ends_and_looks_like_no_whole_one(api: Api) -> None:
    await much_told(api)
    whole = (await api.get(EXPORT)).content
    reader = Held(api, path=EXPORT)
    reader.hold()
    await reader.is_offered()
    await left(reader)

    assert 0 < len(reader.body) < len(whole) / 2
    assert not reader.is_whole


async def test_an_export_ends_with_its_process_and_looks_like_no_whole_one(api: Api) -> None:
    await much_told(api)
    reader = Held(api, path=EXPORT)
    reader.hold()
    await reader.is_offered()
    api.app.state.door.close()
    reader.takes.set()
    await asyncio.wait_for(reader.task, 30)

    assert b'"record":"end"' not in reader.body
    assert not reader.is_whole


async def test_an_export_ends_with_the_credential_it_was_asked_for_with(api: Api) -> None:
    await much_told(api)
    reader = Held(api, path=EXPORT)
    reader.hold()
    await reader.is_offered()
    api.app.state.door.sign_in = FixedSignIn({})
    reader.takes.set()
    await asyncio.wait_for(reader.task, 30)

    assert b'"record":"end"' not in reader.body
    assert not reader.is_whole


async def test_nobody_exports_without_the_scope_and_no_place_is_lost_by_trying(make_api: MakeApi) -> None:
    api = await make_api(settings=HttpSettings(max_waiting_each=1))
    for _ in range(3):
        answer = await api.get(EXPORT, as_="t-omar")
        assert (answer.status_code, answer.json()["code"]) == (403, "scope_missing")


# ---------------------------------------------------------------- more than are watched


async def soon(work: Coroutine[Any, Any, str]) -> str:
    """Heartbeats, which never end, are no answer."""
    return await asyncio.wait_for(work, 30)


async def test_what_still_waits_is_not_told_to_be_gone_when_newer_ones_push_it_out(
    make_api: MakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("events", "lookout"):
        monkeypatch.setattr(f"placet.http_api.{module}.MOST_WATCHED", 2)
    api = await make_api(store=placet.MEMORY, settings=HttpSettings(poll_seconds=0.005))
    oldest, older = [await api.asked(number, call_id=f"c{number}") for number in (1, 2)]
    known, reader = Known(), Held(api)
    names = [await soon(known.take(reader))]
    api.clock.advance(1.0)
    newer = [await api.asked(number, call_id=f"c{number}") for number in (3, 4)]
    names += [await soon(known.take(reader)) for _ in newer]
    assert known.waiting.keys() == {view["approval_id"] for view in (oldest, older, *newer)}

    await taken_back(api, older)
    names.append(await soon(known.take(reader)))
    assert older["approval_id"] not in known.waiting and len(known.waiting) == 3
    await taken_back(api, *newer)
    names += [await soon(known.take(reader)) for _ in newer]
    assert known.waiting.keys() == {oldest["approval_id"]}
    assert names == ["snapshot", "changed", "changed", "gone", "gone", "gone"]
    await left(reader)


async def test_of_what_was_pushed_out_every_one_is_looked_up_in_its_turn(
    make_api: MakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("events", "lookout"):
        monkeypatch.setattr(f"placet.http_api.{module}.MOST_WATCHED", 3)
    monkeypatch.setattr("placet.http_api.events._LOOKED_UP", 1)
    api = await make_api(store=placet.MEMORY, settings=HttpSettings(poll_seconds=0.005))
    pushed = [await api.asked(number, call_id=f"c{number}") for number in (1, 2, 3)]
    known, reader = Known(), Held(api)
    await soon(known.take(reader))
    api.clock.advance(1.0)
    for number in (4, 5, 6):
        await api.asked(number, call_id=f"c{number}")
        await soon(known.take(reader))

    for view in pushed:
        await taken_back(api, view)
        assert await soon(known.take(reader)) == "gone"
        assert view["approval_id"] not in known.waiting
    await left(reader)


# ---------------------------------------------------------------- a store that fails


async def test_a_stream_whose_store_fails_ends_and_the_log_names_the_fault(
    api: Api, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    reader = Held(api)
    await reader.event()
    with closing(apsw.Connection(str(tmp_path / "placet.db"))) as other:
        other.execute("ALTER TABLE approvals RENAME TO elsewhere")
        await asyncio.wait_for(reader.task, 30)
        other.execute("ALTER TABLE elsewhere RENAME TO approvals")

    told = [record for record in caplog.records if record.name == "placet.http" and record.levelname != "INFO"]
    assert [(each.levelname, each.getMessage()) for each in told] == [("WARNING", "a stream was cut short")]
    assert (told[0].__dict__["code"][:6], told[0].__dict__["error_type"][:5]) == ("store_", "Store")
    assert told[0].__dict__["hint"]
    assert not reader.is_whole

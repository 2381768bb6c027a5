"""Questions and notices that name no call: whose they are, and that they are nobody's rather than somebody else's."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from placet.adapters.transports.mcp.channels import Era
from placet.adapters.transports.mcp.conversing import Talk
from placet.adapters.transports.mcp.messages import Answer, Asked, Fault, Noticed, RequestId, Unread, read_message
from placet.adapters.transports.mcp.session import Flight, Session
from placet.model.json import JsonObject
from placet.model.upstreams import Relayed

ASKS = Asked(id=7, method="elicitation/create", params={"message": "the first one's business"})
SAYS = Noticed(method="notifications/message", params={"level": "error", "data": "the first one's business"})
EVERYTHING = frozenset(Relayed)


class Line:
    """Takes everything, and keeps what was said."""

    has_headers = False

    def __init__(self) -> None:
        self.said: list[Any] = []
        self.forgotten: list[RequestId] = []
        self.went_on = 0

    async def ask(
        self, request_id: RequestId, message: bytes, *, headers: Mapping[str, str], before: Callable[[], None]
    ) -> None:
        before()

    def give_up(self, request_id: RequestId, *, era: Era, reason: str) -> bool:
        return True

    def forget(self, request_id: RequestId) -> None:
        self.forgotten.append(request_id)

    def add(self, message: bytes) -> None:
        self.said.append(read_message(message))

    def reply(self, message: bytes) -> None:
        self.add(message)

    def passed_on(self) -> None:
        self.went_on += 1

    def speaks(self, version: str | None) -> None: ...

    def listens(self, era: Era) -> None: ...

    async def close(self) -> None: ...


class Client(Talk):
    def __init__(self) -> None:
        super().__init__(EVERYTHING, None, is_approved=False)
        self.heard: list[str] = []

    @property
    def log_level(self) -> str:
        return "debug"

    async def asked(self, method: str, params: JsonObject) -> JsonObject:
        self.heard.append(method)
        return {"action": "accept"}

    async def logged(self, params: JsonObject) -> None:
        self.heard.append("notifications/message")


class Scene:
    def __init__(self, relayed: frozenset[Relayed] = EVERYTHING) -> None:
        self.session = Session(relayed=relayed, changed=lambda: None, ended=lambda: None)
        self.line = Line()
        self.session.over(self.line)
        self.first, self.second = Client(), Client()

    async def call(self, client: Client) -> Flight:
        return await self.session.begin("tools/call", {"name": "a"}, talk=client)

    async def hear(self) -> None:
        self.session.heard(ASKS, None)
        self.session.heard(SAYS, None)
        for _ in range(5):
            await asyncio.sleep(0)


async def test_the_only_call_under_way_is_asked_and_told() -> None:
    scene = Scene()
    await scene.call(scene.first)
    await scene.hear()

    assert scene.first.heard == ["elicitation/create", "notifications/message"]
    assert scene.line.went_on == 1


async def test_what_goes_on_to_nobody_costs_its_server_nothing_more() -> None:
    scene = Scene()
    await scene.hear()

    assert scene.line.went_on == 0


async def test_a_question_that_is_too_large_is_refused() -> None:
    scene = Scene()
    await scene.call(scene.first)
    scene.session.heard(Unread(id="q"), None)

    assert scene.first.heard == []
    assert scene.line.said == [Fault(id="q", code=-32600, error=scene.line.said[0].error)]


@pytest.mark.case("K08")
@pytest.mark.parametrize("is_forgotten", [False, True], ids=["still listened for", "forgotten"])
async def test_what_a_server_says_of_a_call_that_was_given_up_reaches_nobody(is_forgotten: bool) -> None:
    scene = Scene()
    flight = await scene.call(scene.first)
    scene.session.give_up(flight, reason="deadline")
    if is_forgotten:
        scene.session.forget(flight)
        await asyncio.sleep(0)
        await scene.call(scene.second)
    await scene.hear()

    assert (scene.first.heard, scene.second.heard) == ([], [])
    assert scene.line.said == [Answer(id=7, result={"action": "decline"}, size=scene.line.said[0].size)]
    assert scene.line.forgotten == ([flight.id] if is_forgotten else [])


async def test_once_it_is_answered_all_the_same_the_next_call_is_asked_again() -> None:
    scene = Scene()
    flight = await scene.call(scene.first)
    scene.session.give_up(flight, reason="deadline")
    scene.session.forget(flight)
    await asyncio.sleep(0)
    await scene.call(scene.second)
    assert scene.session.is_haunted
    scene.session.heard(Fault(id=flight.id, code=-32000), None)
    await scene.hear()

    assert scene.second.heard == ["elicitation/create", "notifications/message"] and not scene.session.is_haunted


async def test_a_session_over_which_nothing_is_relayed_is_used_again() -> None:
    scene = Scene(frozenset((Relayed.RESOURCES,)))
    flight = await scene.call(scene.first)
    scene.session.give_up(flight, reason="deadline")
    scene.session.forget(flight)

    assert not scene.session.is_haunted

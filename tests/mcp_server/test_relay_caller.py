"""One request of one client, as its upstream reaches it: asked a few times and no more, and read as it was sealed."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import mcp_types as types
import pytest

import placet
from placet.adapters.transports.mcp.conversing import talk
from placet.mcp_server.carried import Carried
from placet.mcp_server.relay_caller import ClientCaller, brought_by
from placet.mcp_server.relay_record import Record
from placet.model.upstreams import Relayed
from placet.ports.relay import RelayRefused, calling
from placet.rules import relaying

AGENT = placet.Principal.agent("agent", tenant="acme", roles=("operator",))
FORM = {"message": "Which?", "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}}}


class Side:
    """Counts."""

    server = "desk"

    def __init__(self) -> None:
        self.counted: list[tuple[str, str]] = []

    def count_question(self, kind: str, answer: str) -> None:
        self.counted.append((kind, answer))


class Client:
    """Of a revision in which servers ask while a request waits; declines whatever it is asked."""

    protocol_version, request_id = "2025-11-25", 1
    meta: dict[str, Any] | None = None
    can_send_request = True
    client_capabilities = types.ClientCapabilities.model_validate({"elicitation": {"form": {}}})

    def __init__(self) -> None:
        self.asked = 0

    @property
    def session(self) -> Client:
        return self

    async def send_request(self, *_: Any, **__: Any) -> types.ElicitResult:
        self.asked += 1
        return types.ElicitResult(action="decline")


@asynccontextmanager
async def asking() -> AsyncIterator[tuple[ClientCaller, Client, Side]]:
    client, side = Client(), Side()
    async with placet.open(store=placet.MEMORY, recovery="manual") as gate:
        carried = Carried(principal=AGENT)
        record = Record(gate, side, carried, tool="desk.read")  # type: ignore[arg-type]
        yield (
            ClientCaller(
                client, server="desk", names_asker=True, log_level=None, given=None, record=record,  # type: ignore[arg-type]
            ),
            client,
            side,
        )  # fmt: skip


@pytest.mark.case("K08")
async def test_of_one_request_a_person_is_asked_a_few_things_and_the_rest_is_only_counted() -> None:
    async with asking() as (caller, client, side):
        for _ in range(relaying.MAX_QUESTIONS):
            assert (await caller.ask(relaying.ELICIT, FORM))["action"] == "decline"
        for _ in range(3):
            with pytest.raises(RelayRefused) as refused:
                await caller.ask(relaying.ELICIT, FORM)
            assert refused.value.refusal == relaying.NOT_ASKED
    assert client.asked == relaying.MAX_QUESTIONS
    assert side.counted[-4:] == [("elicitation.form", "decline"), *[("elicitation.form", "refused")] * 3]


@pytest.mark.parametrize(
    ("said", "level"), [("warning", "warning"), ("hunter2 " * 1_000, None), ("WARNING", None), (7, None), ([], None)]
)
async def test_a_level_goes_to_the_upstream_and_no_other_word_does(said: Any, level: str | None) -> None:
    async with asking() as (caller, client, _):
        client.protocol_version, client.meta = "2026-07-28", {types.LOG_LEVEL_META_KEY: said}
        with calling(caller):
            one = talk(frozenset({Relayed.LOGGING}))
            assert one.log_level == level
            assert one.meta == ({} if level is None else {types.LOG_LEVEL_META_KEY: level})


@pytest.mark.parametrize(("asked", "kind"), [(["q"], "unknown"), ({"q": "roots"}, "roots"), ({"q": "odd"}, "unknown")])
def test_a_state_is_read_whether_or_not_it_says_what_kind_was_asked(asked: Any, kind: str) -> None:
    state = json.dumps({"relay": "desk", "state": None, "kept": {}, "asked": asked}, separators=(",", ":"))
    came = types.CallToolRequestParams.model_validate(
        {
            "name": "desk.read",
            "inputResponses": {"q": {"action": "decline"}, "more": {"action": "decline"}},
            "requestState": state,
        }
    )
    brought = brought_by(came, server="desk")
    assert brought is not None and brought.resumption.responses is not None
    assert set(brought.resumption.responses) == {"q"}
    assert [each[0] for each in brought.answers] == [kind]

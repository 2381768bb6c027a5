"""One attempt's talk between an upstream and the client of that call: who is asked, told, and left alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from placet.adapters.transports.mcp.conversing import MAX_ROUNDS, Unanswered, talk
from placet.errors import ToolRejected
from placet.model.json import JsonObject
from placet.model.relaying import Ability, Needed, Question, Refusal, Resumption
from placet.model.upstreams import Relayed
from placet.ports.relay import RelayRefused, calling, current_caller
from placet.rules import relaying

EVERYTHING = frozenset(Relayed)
FORM: JsonObject = {"message": "Who?", "requestedSchema": {"type": "object", "properties": {}}}
ASKS: Any = {
    "resultType": "input_required",
    "inputRequests": {"who": {"method": "elicitation/create", "params": FORM}},
    "requestState": "s1",
}


@dataclass
class Client:
    """A client, as far as an upstream may reach it. Small and real: it keeps what it hears."""

    abilities: frozenset[Ability] = frozenset(Ability)
    can_be_asked: bool = False
    log_level: str | None = "warning"
    given: Resumption | None = None
    says_no: bool = False
    asked: list[str] = field(default_factory=list)
    left: list[Needed] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)
    logs: list[JsonObject] = field(default_factory=list)

    def resumption(self) -> Resumption | None:
        return self.given

    async def ask(self, method: str, params: JsonObject) -> JsonObject:
        self.asked.append(method)
        if self.says_no:
            raise RelayRefused(Refusal(code=-1, message="no"))
        return {"action": "accept", "content": {"name": "Ada"}}

    def leave(self, needed: Needed) -> None:
        self.left.append(needed)

    def refuse(self, refusal: Refusal) -> None:
        self.refusals.append(refusal)

    async def logged(self, params: JsonObject) -> None:
        self.logs.append(params)


@pytest.mark.case("K08")
async def test_a_client_that_comes_back_is_left_the_question_and_the_attempt_has_not_happened() -> None:
    client = Client()
    with calling(client), pytest.raises(ToolRejected):
        await talk(EVERYTHING).required(ASKS)
    assert client.left == [
        Needed(questions=(Question(key="who", method="elicitation/create", params=FORM),), state="s1")
    ]
    assert client.asked == []


async def test_an_older_client_is_asked_within_the_attempt() -> None:
    client = Client(can_be_asked=True)
    with calling(client):
        again = await talk(EVERYTHING).required(ASKS)
    answer = {"action": "accept", "content": {"name": "Ada"}}
    assert again == {"inputResponses": {"who": answer}, "requestState": "s1"}
    assert client.left == []


async def test_an_upstream_that_never_has_enough_is_left_alone() -> None:
    client = Client(can_be_asked=True)
    with calling(client):
        one = talk(EVERYTHING)
        for _ in range(MAX_ROUNDS):
            await one.required(ASKS)
        with pytest.raises(Unanswered):  # by then it may have done a part of it
            await one.required(ASKS)
    assert len(client.asked) == MAX_ROUNDS


async def test_a_client_that_says_no_ends_the_attempt() -> None:
    client = Client(can_be_asked=True, says_no=True)
    with calling(client), pytest.raises(ToolRejected):
        await talk(EVERYTHING).required(ASKS)
    assert client.left == []


@pytest.mark.case("K08")
@pytest.mark.parametrize("can_be_asked", [False, True], ids=["newer", "older"])
async def test_a_call_on_an_approval_asks_nobody_and_takes_no_answers(can_be_asked: bool) -> None:
    given = Resumption(responses={"who": {"action": "accept"}}, state="s1")
    client = Client(can_be_asked=can_be_asked, given=given)
    with calling(client):
        one = talk(EVERYTHING, is_approved=True)
        assert (one.abilities, one.capabilities, one.params) == (frozenset(), {}, {})
        with pytest.raises(Unanswered):
            await one.required(ASKS)
        with pytest.raises(RelayRefused):
            await one.asked("elicitation/create", FORM)
    assert (client.asked, client.left) == ([], [])


@pytest.mark.case("K08")
@pytest.mark.parametrize(
    "question",
    [{"message": "Wh\u200bo?", "requestedSchema": {"type": "object", "properties": {}}},
     {**FORM, "requestedSchema": {"type": "object", "properties": {"a": {"type": "string", "title": "\u202eno"}}}}],
    ids=["message", "title"],
)  # fmt: skip
async def test_what_a_person_would_not_see_all_of_is_not_asked(question: JsonObject) -> None:
    client = Client(can_be_asked=True)
    with calling(client):
        with pytest.raises(Unanswered):
            await talk(EVERYTHING).required(
                {"inputRequests": {"who": {"method": "elicitation/create", "params": question}}}
            )
        with pytest.raises(RelayRefused):
            await talk(EVERYTHING).asked("elicitation/create", question)
    assert client.asked == []


@pytest.mark.case("K08")
async def test_where_nobody_calls_nobody_is_asked_or_told() -> None:
    one = talk(EVERYTHING)
    assert current_caller() is None
    assert (one.capabilities, one.params, one.meta, one.hears_progress) == ({}, {}, {}, False)
    one.progressed({"progress": 1})
    await one.logged({"level": "error"})
    with pytest.raises(Unanswered):
        await one.required(ASKS)
    with pytest.raises(RelayRefused) as refused:
        await one.asked("roots/list", {})
    assert refused.value.refusal == relaying.NOT_ASKED


@pytest.mark.case("K08")
async def test_an_upstream_that_may_not_ask_hears_of_no_ability_and_of_no_answer() -> None:
    client = Client(given=Resumption(responses={"who": {}}, state="s1"))
    with calling(client):
        one = talk(frozenset({Relayed.LOGGING}))
        assert (one.capabilities, one.params) == ({}, {})
        with pytest.raises(Unanswered):
            await one.required(ASKS)
    assert client.left == []


def test_what_a_client_brings_back_goes_out_with_the_request() -> None:
    with calling(Client(given=Resumption(responses={"who": {}}, state="s1"))):
        assert talk(EVERYTHING).params == {"inputResponses": {"who": {}}, "requestState": "s1"}
    with calling(Client(given=Resumption(responses={"who": {}}, state=None))):
        assert talk(EVERYTHING).params == {"inputResponses": {"who": {}}}


async def test_logs_reach_the_client_as_it_wants_them() -> None:
    client = Client()
    with calling(client):
        one = talk(frozenset({Relayed.LOGGING}))
        assert one.meta == {"io.modelcontextprotocol/logLevel": "warning"}
        await one.logged({"level": "info", "data": "quiet"})
        await one.logged({"level": "error", "data": "loud"})
        silent = talk(frozenset())
        assert silent.meta == {}
        await silent.logged({"level": "error", "data": "unheard"})
    assert client.logs == [{"level": "error", "data": "loud"}]


def test_progress_reaches_the_attempt_whoever_calls() -> None:
    heard: list[tuple[Any, ...]] = []
    one = talk(frozenset(), hears=lambda *words: heard.append(words))
    assert one.hears_progress
    one.progressed({"progress": 1, "total": 2, "message": "half"})
    one.progressed({})
    assert heard == [(1, 2, "half"), (None, None, None)]


def test_a_missing_capability_is_told_and_nothing_else_of_the_error() -> None:
    client = Client()
    error: Any = {"code": -32021, "message": "hunter2", "data": {"requiredCapabilities": {"sampling": {}}}}
    with calling(client):
        with pytest.raises(ToolRejected):
            talk(EVERYTHING).refused(error)
        talk(EVERYTHING).refused({"code": -32602, "message": "hunter2"})
    assert [each.data for each in client.refusals] == [{"requiredCapabilities": {"sampling": {}}}]
    assert "hunter2" not in str(client.refusals[0].message)


def test_a_callers_place_is_left_as_it_was() -> None:
    outer, inner = Client(), Client()
    with calling(outer):
        with calling(inner):
            assert current_caller() is inner
        assert current_caller() is outer
    assert current_caller() is None

"""Names, seals, sessions and lines, one at a time."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable
from typing import Any

import pytest
from mcp.server.request_state import InvalidRequestState
from mcp_types import JSONRPCNotification, JSONRPCResponse

from placet.adapters.keys import KeyRing
from placet.errors import ConfigurationError, InvalidArguments, KeyMaterialError
from placet.mcp_server.carried import decode_message
from placet.mcp_server.naming import MetaMalformed, Namer
from placet.mcp_server.relay_listening import _Waiting
from placet.mcp_server.resource import Resource
from placet.mcp_server.sessions import Sessions
from placet.mcp_server.settings import McpSettings
from placet.mcp_server.state import Names, Round, _Codec, round_from
from placet.mcp_server.stdio import _line_of, _lines, _Sink
from placet.mcp_server.tracing import trace_of
from placet.model.relaying import Notice
from placet.ports.keys import SealPurpose
from placet.testing import FakeClock, SeededIds
from tests.mcp_server.tools import AGENT, OTHER, STRANGER

KEYS = KeyRing.ephemeral()
PAY: dict[str, Any] = {"amount": 1}


def named(namer: Namer, principal: Any = AGENT, meta: Any = None, session: str | None = None, **arguments: Any) -> Any:
    return namer.names_of(meta or {}, principal=principal, session=session, tool="pay", arguments=arguments or PAY)


def test_every_call_that_nobody_named_has_a_name_of_its_own() -> None:
    namer = Namer(clock=FakeClock(), ids=SeededIds(1), keys=KEYS)
    assert named(namer).call_id != named(namer).call_id


def test_one_key_makes_one_call() -> None:
    namer = Namer(clock=FakeClock(), ids=SeededIds(1), keys=KEYS)
    one, two = (named(namer, meta={"io.placet/idempotency-key": "k"}) for _ in range(2))
    assert (one.call_id, one.key) == (two.call_id, two.key)


def test_the_run_of_whoever_names_none_is_its_own_and_ends_with_the_hour() -> None:
    clock = FakeClock()
    namer = Namer(clock=clock, ids=SeededIds(1), keys=KEYS)
    first = named(namer).run
    assert len({first, named(namer, OTHER).run, named(namer, STRANGER).run}) == 3
    clock.advance(3_600)
    assert named(namer).run != first


def test_nobody_else_can_say_whose_run_that_is() -> None:
    """Whoever opens a run first has it, so a name that can be worked out locks its owner out."""
    mine, elsewhere = Namer(clock=FakeClock(), ids=SeededIds(1), keys=KEYS), KeyRing.ephemeral()
    other = Namer(clock=FakeClock(), ids=SeededIds(1), keys=elsewhere)
    assert named(mine).run == named(mine).run != named(other).run


def test_a_question_that_waits_is_found_in_its_run_after_the_hour() -> None:
    clock = FakeClock()
    namer = Namer(clock=clock, ids=SeededIds(1), keys=KEYS)
    asked = named(namer)
    namer.remember(asked, principal=AGENT, tool="pay", arguments=PAY)
    clock.advance(3_600)
    assert named(namer).run == asked.run
    assert named(namer, amount=2).run != asked.run
    assert named(namer, OTHER).run != asked.run
    namer.forget(principal=AGENT, tool="pay", arguments=PAY)
    assert named(namer).run != asked.run


def test_no_more_is_remembered_than_fits() -> None:
    namer = Namer(clock=FakeClock(), ids=SeededIds(1), keys=KEYS)
    for amount in range(5_000):
        namer.remember(named(namer), principal=AGENT, tool="pay", arguments={"amount": amount})
    assert sum(map(len, namer._waiting.values())) == namer._count == 64


def test_a_session_is_the_run_of_its_calls() -> None:
    namer = Namer(clock=FakeClock(), ids=SeededIds(1), keys=KEYS)
    assert named(namer, session="abc").run == "mcp-session-abc"
    assert named(namer, session="abc", meta={"io.placet/run": "mine"}).run == "mine"


def test_what_waits_for_a_person_is_found_again_from_another_session() -> None:
    namer = Namer(clock=FakeClock(), ids=SeededIds(1), keys=KEYS)
    first = named(namer, session="abc")
    namer.remember(first, principal=AGENT, tool="pay", arguments=PAY)

    assert named(namer, session="xyz").run == first.run == "mcp-session-abc"
    assert named(namer, session="xyz", amount=7).run == "mcp-session-xyz"


def test_names_go_back_as_they_were_said() -> None:
    namer = Namer(clock=FakeClock(), ids=SeededIds(1), keys=KEYS)
    names = named(namer, meta={"io.placet/idempotency-key": "k", "io.placet/run": "r"})
    assert named(namer, meta=names.as_meta("apr-1")) == Names(run="r", call_id=names.call_id, key="k", approval="apr-1")


def test_what_is_no_name_is_named_by_its_member() -> None:
    with pytest.raises(MetaMalformed) as refused:
        named(Namer(clock=FakeClock(), ids=SeededIds(1), keys=KEYS), meta={"io.placet/call-id": ""})
    assert refused.value.member == "io.placet/call-id"


def test_a_round_is_read_as_it_was_written() -> None:
    written = Round(names=Names(run="r", call_id="c", key=None, approval="a"), number=2)
    assert round_from(written.as_text()) == written


@pytest.mark.parametrize("text", ["", "relay:x", "[]", '[2,1,"r","c",null,"a"]', '[1,"x","r","c",null,"a"]', "7", "{}"])
def test_what_is_no_round_of_ours_is_none(text: str) -> None:
    assert round_from(text) is None


def test_a_seal_opens_for_its_own_purpose_alone() -> None:
    keys = KeyRing.ephemeral()
    sealed = keys.seal(b"secret", bound_to=b"here", purpose=SealPurpose.REQUEST_STATE)
    assert keys.unseal(sealed, bound_to=b"here", purpose=SealPurpose.REQUEST_STATE) == b"secret"
    for purpose, place in ((SealPurpose.STORE, b"here"), (SealPurpose.REQUEST_STATE, b"there")):
        with pytest.raises(KeyMaterialError):
            keys.unseal(sealed, bound_to=place, purpose=purpose)


def test_a_sealed_state_has_one_spelling() -> None:
    codec = _Codec(KeyRing.ephemeral())
    token = codec.seal(b"state")
    assert codec.unseal(token) == b"state"
    for other in (token + "=", token + "A", f" {token}", token.swapcase(), "", "ü", "A" * 70_000):
        with pytest.raises(InvalidRequestState):
            codec.unseal(other)


def test_sessions_are_counted_by_whose_they_are_and_idle_ones_end() -> None:
    clock = FakeClock()
    sessions = Sessions(clock=clock, max_each=2, idle_seconds=60.0)
    sessions.opened("s1", "a")
    sessions.opened("s2", "a")
    assert not sessions.has_room("a")
    assert sessions.has_room("b")
    sessions.begun("s1")
    clock.advance(61)
    assert sessions.has_room("a")  # s2 was idle
    sessions.opened("s3", "a")
    clock.advance(61)
    sessions.done("s1")
    sessions.begun("s3")
    assert not sessions.has_room("a")
    sessions.ended("s3")
    assert sessions.has_room("a")


def test_sessions_that_are_being_opened_at_once_are_counted_too() -> None:
    sessions = Sessions(clock=FakeClock(), max_each=2, idle_seconds=60.0)
    sessions.opened("s1", "a")
    with sessions.opening("a") as first, sessions.opening("a") as second, sessions.opening("b") as other:
        assert (first, second, other) == (True, False, True)
        sessions.opened("s2", "a")
        assert not sessions.has_room("a")
    assert not sessions.has_room("a") and sessions.has_room("b")
    sessions.ended("s1")
    with sessions.opening("a") as again:
        assert again
    assert sessions.has_room("a")


def test_a_message_that_cannot_be_written_costs_nobody_else_theirs() -> None:
    half: Any = {"a": "\ud800"}

    assert _line_of(JSONRPCNotification(jsonrpc="2.0", method="x", params=half)) is None
    answer = json.loads(_line_of(JSONRPCResponse(jsonrpc="2.0", id=7, result=half)) or b"")
    assert (answer["id"], answer["error"]["code"]) == (7, -32603) and "result" not in answer
    said = _line_of(JSONRPCResponse(jsonrpc="2.0", id=8, result={"a": "é"}))
    assert said == '{"jsonrpc":"2.0","id":8,"result":{"a":"é"}}\n'.encode()


@pytest.mark.parametrize("said", ["00-" + "a" * 32 + "-" + "b" * 16 + "-01"])
def test_a_trace_is_taken_as_it_is_written(said: str) -> None:
    assert trace_of({"traceparent": said}) == f"trace-{'a' * 32}-{'b' * 16}"


@pytest.mark.parametrize(
    "said", [None, 7, "", "00-" + "0" * 32 + "-" + "b" * 16 + "-01", "01-" + "a" * 32 + "-" + "b" * 16 + "-01", "x"]
)
def test_what_is_no_trace_is_none(said: object) -> None:
    assert trace_of({"traceparent": said}) is None


def test_wide_fields_are_wide_in_arguments_alone() -> None:
    big = 2**70
    body = b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"arguments":{"a":%d}}}' % big
    wide = {("a",)}
    assert decode_message(body, max_bytes=1_000, wide=wide)["params"]["arguments"]["a"] == big  # type: ignore[index,call-overload]
    with pytest.raises(InvalidArguments):
        decode_message(body.replace(b'"arguments"', b'"other"'), max_bytes=1_000, wide=wide)


async def test_lines_are_bounded_and_none_of_a_long_one_is_kept() -> None:
    long = b"x" * 100_000
    text = b"one\n\n" + long + b"\ntwo\n" + b"y" * 1_001 + b"\n" + b"z" * 1_000 + b"\nrest"
    with tempfile.TemporaryFile() as file:
        file.write(text)
        file.seek(0)
        found = [line async for line in _lines(file.fileno(), most=1_000)]
    assert found == [b"one", None, b"two", None, b"z" * 1_000]


async def test_the_null_device_has_no_lines_and_takes_all_that_is_written() -> None:
    with open(os.devnull, "r+b", buffering=0) as nothing:
        assert [line async for line in _lines(nothing.fileno(), most=10)] == []
        sink = await _Sink.at(nothing.fileno())
        await sink.write(b"x\n")
        sink.close()


async def test_lines_come_in_pieces_of_any_size() -> None:
    read, write = os.pipe()
    lines = _lines(read, most=10)
    for piece in (b"a", b"b\nc", b"d\n", b"0123456789", b"0\n", b"e\n"):
        os.write(write, piece)
    os.close(write)
    assert [line async for line in lines] == [b"ab", b"cd", None, b"e"]
    os.close(read)


SITE = Resource(site="https://placet.test:8443", audience="x", is_public=True)


@pytest.mark.parametrize(
    ("ask", "said", "is_ours"),
    [
        (SITE.is_host, "placet.test:8443", True),
        (SITE.is_host, "placet.test", False),
        (SITE.is_host, "localhost", True),
        (SITE.is_host, "localhost:99999999", False),
        (SITE.is_origin, "https://placet.test:8443", True),
        (SITE.is_origin, "https://placet.test", False),
        (SITE.is_origin, "ftp://localhost", False),
        (SITE.is_origin, "http://[::1]:80", True),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_names_of_this_site_are_exact(ask: Callable[[str], bool], said: str, is_ours: bool) -> None:
    assert ask(said) is is_ours


@pytest.mark.parametrize("setting", ["max_rounds", "wait_seconds", "page_size"])
@pytest.mark.parametrize("value", [0, -1, float("nan"), "1"], ids=repr)
def test_a_setting_is_a_number_above_zero(setting: str, value: Any) -> None:
    with pytest.raises(ConfigurationError):
        McpSettings(**{setting: value})


async def test_what_listeners_were_told_comes_before_the_end_and_one_of_a_kind() -> None:
    waiting = _Waiting()
    changed = Notice(method="notifications/tools/list_changed", params={})
    for _ in range(3):
        waiting.put("desk", changed)
    waiting.end()
    assert [each async for each in waiting.taken()] == [("desk", changed)]

"""Whatever answers, or does not: each fault has a name, a next step, and says whether anything may have been done."""

from __future__ import annotations

import asyncio
import gzip
import itertools
import json
import re
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from placet import GrantWish
from placet.client import (
    AnswerLost,
    AnswerTooLarge,
    AnswerUnreadable,
    AsyncClient,
    Client,
    ServerNotTrusted,
    ServerRedirects,
    ServerRefused,
    ServerUnreachable,
)
from placet.client.wire import longest, look
from placet.errors import ConfigurationError, DecisionRefused, InvalidArguments, MisuseError, PlacetError, StoreInDoubt
from tests.certificates import write_certificate
from tests.client.conftest import QUICK, Asking

DIGEST = "0" * 64
ALL_WRONG = [AnswerLost, AnswerTooLarge, AnswerUnreadable, ServerNotTrusted, ServerRedirects, ServerUnreachable]


class Scripted:
    """Answers every request with the same bytes, and closes; how often it was asked."""

    def __init__(self) -> None:
        self.says = b""
        self.asked: list[bytes] = []
        self.pages: Iterator[bytes] | None = None
        self.is_silent = False
        self.begins = b""
        self.drips = b""
        self.url = ""

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = re.search(rb"content-length: *(\d+)", head, re.IGNORECASE)
        await reader.readexactly(int(length[1]) if length else 0)
        self.asked.append(head)
        if self.is_silent:
            await reader.read()
        if self.pages is not None:
            self.answers("200 OK", next(self.pages), "Connection: close")
        if self.drips:
            writer.write(self.begins)
            await self._drip(reader, writer)
        writer.write(self.says)
        writer.close()

    async def _drip(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """A piece now and then, until the client hangs up, or until far more time is over than it has."""
        hung_up = asyncio.ensure_future(reader.read())
        for _ in range(3_000):
            writer.write(self.drips)
            if (await asyncio.wait((hung_up,), timeout=0.01))[0]:
                return
        hung_up.cancel()

    def answers(self, status: str, body: bytes | Any, *headers: str, length: int | None = None) -> None:
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        head = [f"HTTP/1.1 {status}", f"Content-Length: {len(raw) if length is None else length}", *headers]
        self.says = "\r\n".join([*head, "", ""]).encode() + raw


@pytest.fixture
async def scripted() -> AsyncIterator[Scripted]:
    found = Scripted()
    server = await asyncio.start_server(found.handle, "127.0.0.1", 0)
    found.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    yield found
    server.close()


Make = Callable[[str], Asking]


@pytest.fixture(params=[AsyncClient, Client], ids=["async", "sync"])
async def make(request: pytest.FixtureRequest) -> AsyncIterator[Make]:
    made: list[Asking] = []

    def client(url: str) -> Asking:
        made.append(Asking(request.param(url, token="t-secret", retries=QUICK)))
        return made[-1]

    yield client
    for each in made:
        await each.close()


async def fault_of(work: Awaitable[Any]) -> PlacetError:
    with pytest.raises(PlacetError) as raised:
        await work
    error = raised.value
    assert error.hint
    assert "t-secret" not in str(error) + error.hint
    assert error.__cause__ is error.__context__ is None
    return error


async def faults_at(client: Asking) -> tuple[PlacetError, PlacetError]:
    """What a look and a decision end with there."""
    return await fault_of(client.approval("apr-1")), await fault_of(client.approve("apr-1", digest=DIGEST))


@pytest.mark.parametrize(
    ("status", "body", "headers", "kind"),
    [
        ("200 OK", b"<html>not placet</html>", (), AnswerUnreadable),
        ("200 OK", b"", (), AnswerUnreadable),
        ("200 OK", {"approval_id": "apr-1"}, (), AnswerUnreadable),
        ("200 OK", b'{"a": NaN}', (), AnswerUnreadable),
        ("200 OK", b"[" * 200_000, (), AnswerUnreadable),
        ("200 OK", gzip.compress(b"{}"), ("Content-Encoding: gzip",), AnswerUnreadable),
        ("204 No Content", b"", (), AnswerUnreadable),
        ("200 OK", b"x" * 5_000, (), AnswerTooLarge),
    ],
    ids=["html", "empty", "other-version", "nan", "deep", "packed", "no-content", "huge"],
)
async def test_what_cannot_be_read_may_have_been_done_unless_it_only_looked(
    scripted: Scripted,
    make: Make,
    monkeypatch: pytest.MonkeyPatch,
    status: str,
    body: Any,
    headers: tuple[str, ...],
    kind: type[PlacetError],
) -> None:
    if kind is AnswerTooLarge:
        monkeypatch.setattr("placet.client.wire.MOST_BYTES", 4_999)
    scripted.answers(status, body, *headers)
    looked, decided = await faults_at(make(scripted.url))

    assert [type(looked), type(decided)] == [kind, kind]
    assert [looked.may_have_acted, decided.may_have_acted] == [False, True]
    assert "nothing was done" in str(looked) and "may have been served" in str(decided)
    assert len(scripted.asked) == 2  # asking again would bring the same


async def test_half_an_answer_is_a_lost_one_and_what_is_safe_is_asked_again(scripted: Scripted, make: Make) -> None:
    scripted.answers("200 OK", b'{"approval_id"', length=1_000)
    client = make(scripted.url)
    looked, decided = await faults_at(client)
    withdrawn = await fault_of(client.withdraw("apr-1"))

    assert {type(each) for each in (looked, decided, withdrawn)} == {AnswerLost}
    assert [each.may_have_acted for each in (looked, decided, withdrawn)] == [False, True, True]
    assert len(scripted.asked) == 3 + 3 + 1


async def test_an_export_that_ends_too_soon_is_no_export(scripted: Scripted, make: Make) -> None:
    scripted.answers("200 OK", b'{"line": 1}\n', length=1_000)
    taken: list[bytes] = []
    lost = await fault_of(make(scripted.url).export_audit(taken.append))

    assert (type(lost), lost.may_have_acted) == (AnswerLost, False)


async def test_a_server_that_says_nothing_is_not_waited_for_without_end(
    scripted: Scripted, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("placet.client.wire.CALL_SECONDS", 0.01)
    monkeypatch.setattr("placet.client.wire._MARGIN_SECONDS", 0.01)
    scripted.is_silent = True
    looked, decided = await faults_at(make(scripted.url))

    assert [(type(each), each.may_have_acted) for each in (looked, decided)] == [
        (AnswerLost, False),
        (AnswerLost, True),
    ]


@pytest.mark.parametrize(
    ("begins", "drips", "ends"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n", b" ", b""),
        (b"HTTP/1.1 200 OK\r\n\r\n", b" ", b'{"tools": []}'),
        (b"HTTP/1.1 200 OK\r\nX: ", b"x", b"\r\nContent-Length: 13\r\n\r\n" + b'{"tools": []}'),
        (b"", b"HTTP/1.1 103 Early Hints\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"),
    ],
    ids=["body", "body-without-a-length", "head", "early-hints"],
)
async def test_whoever_answers_a_byte_now_and_then_holds_nobody(
    scripted: Scripted, make: Make, monkeypatch: pytest.MonkeyPatch, begins: bytes, drips: bytes, ends: bytes
) -> None:
    monkeypatch.setattr("placet.client.wire.CALL_SECONDS", 0.2)
    monkeypatch.setattr("placet.client.wire._MARGIN_SECONDS", 0.05)
    scripted.begins, scripted.drips, scripted.says = begins, drips, ends
    client = make(scripted.url)
    looked, decided = await fault_of(client.tools()), await fault_of(client.approve("apr-1", digest=DIGEST))

    assert [(type(each), each.may_have_acted) for each in (looked, decided)] == [
        (AnswerLost, False),
        (AnswerLost, True),
    ]
    assert len(scripted.asked) <= 2  # it has had its time


async def test_after_a_call_that_was_cut_off_the_next_one_is_answered(
    scripted: Scripted, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripted.begins, scripted.drips = b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n", b" "
    client = make(scripted.url)
    with monkeypatch.context() as patch:
        patch.setattr("placet.client.wire.CALL_SECONDS", 0.1)
        patch.setattr("placet.client.wire._MARGIN_SECONDS", 0.0)
        await fault_of(client.tools())
    scripted.drips = scripted.begins = b""
    scripted.answers("200 OK", {"tools": []})

    assert await client.tools() == ()


def test_all_of_an_answer_has_a_time_unless_it_is_given_away_as_it_comes() -> None:
    waiting = look("/v1/proposals/apr-1", wait_seconds=600.0)

    assert (longest(look("/v1/tools"), None), longest(waiting, None)) == (120.0, 720.0)
    assert longest(look("/v1/audit/export"), print) is None


@pytest.mark.parametrize("status", ["301 Moved", "302 Found", "307 Temporary", "308 Permanent"])
async def test_a_credential_is_not_sent_on(scripted: Scripted, make: Make, status: str) -> None:
    scripted.answers(status, b"", f"Location: {scripted.url}/elsewhere")
    looked, decided = await faults_at(make(scripted.url))

    assert [type(looked), type(decided)] == [ServerRedirects, ServerRedirects]
    assert not looked.may_have_acted and not decided.may_have_acted
    assert len(scripted.asked) == 2


async def test_what_stands_between_may_have_passed_it_on(scripted: Scripted, make: Make) -> None:
    scripted.answers("502 Bad Gateway", b"<html>")
    looked, decided = await faults_at(make(scripted.url))
    scripted.answers("403 Forbidden", b"<html>")
    kept_out, _ = await faults_at(make(scripted.url))
    scripted.answers("503 Busy", {"code": "busy", "detail": "Not now.", "hint": "Later.", "may_have_acted": False})
    _, told = await faults_at(make(scripted.url))

    assert [type(each) for each in (looked, decided, kept_out, told)] == [ServerRefused] * 4
    assert [each.code for each in (decided, kept_out, told)] == ["server_refused", "server_refused", "busy"]
    assert [each.may_have_acted for each in (looked, decided, kept_out, told)] == [False, True, False, False]


async def test_a_conflict_says_how_it_stands_now(scripted: Scripted, make: Make) -> None:
    changed = {"state": "approved", "digest": DIGEST, "decided_by": "omar"}
    scripted.answers("409 Conflict", {"code": "other_digest", "detail": "No.", "hint": "Look.", "changed": changed})
    _, refused = await faults_at(make(scripted.url))

    assert isinstance(refused, DecisionRefused)
    assert (refused.code, refused.changed, refused.may_have_acted) == ("other_digest", changed, False)


async def test_refused_arguments_are_the_engines_error_with_their_places(scripted: Scripted, make: Make) -> None:
    problems = [{"path": "/amount", "problem": "wrong_type"}, "no problem"]
    scripted.answers(
        "422 No", {"code": "invalid_arguments", "detail": "The arguments were refused.", "problems": problems}
    )
    with pytest.raises(InvalidArguments) as refused:
        await make(scripted.url).edit("apr-1", digest=DIGEST, arguments={})
    scripted.answers("503 In doubt", {"code": "store_in_doubt", "detail": "Perhaps."})
    _, doubt = await faults_at(make(scripted.url))

    assert (str(refused.value), refused.value.problems) == ("The arguments were refused.", (("/amount", "wrong_type"),))
    assert isinstance(doubt, StoreInDoubt)


async def test_lists_hold_what_they_are_said_to(scripted: Scripted, make: Make) -> None:
    scripted.answers("200 OK", {"tools": ["look"], "stops": 7, "events": [[]], "version": 7})
    client = make(scripted.url)

    for work in (client.tools(), client.stops(), client.events(), client.policy_version(), client.approvals()):
        assert type(await fault_of(work)) is AnswerUnreadable


AT = "2026-11-30T14:00:00Z"
EFFECT: dict[str, Any] = {
    "state": "committed",
    **dict.fromkeys(("operation_key", "tenant", "tool", "tool_version", "subject", "run_id", "call_id"), "x"),
    **dict.fromkeys(("decision", "policy_version"), "x"),
    **dict.fromkeys(("reason", "on_behalf_of", "approval_id", "external_reference", "probe_after", "quiet_end")),
    **dict.fromkeys(("fence", "attempts", "probes"), 1),
    **dict.fromkeys(("created_at", "updated_at", "lease_until", "send_by"), AT),
}


@pytest.mark.parametrize(
    ("member", "said"),
    [
        ("created_at", '"9999-12-31T23:59:59-23:59"'),
        ("created_at", '"0001-01-01T00:00:00+23:59"'),
        ("created_at", '"9999-12-31T23:59:59Z"'),
        ("created_at", '"0001-01-01T00:00:00Z"'),
        ("created_at", '"2026-11-30T14:00:00"'),
        ("created_at", "1e9"),
        ("quiet_end", '"9999-12-31T23:59:59-23:59"'),
        ("fence", "1e999"),
        ("fence", "1.0"),
        ("fence", "9" * 5_000),
        ("operation_key", "[]"),
        ("state", '["committed"]'),
        ("state", '"finished"'),
        ("another", '{"a":' * 300 + "1" + "}" * 300),
        ("another", "-1e999"),
    ],
    ids=[
        *("after-the-last", "before-the-first", "last", "first", "no-zone", "number", "after-the-last-or-none"),
        *("infinite", "float", "long", "list", "list-of-state", "other-state", "deep", "infinite-elsewhere"),
    ],
)
async def test_a_value_that_is_none_is_told_as_one(scripted: Scripted, make: Make, member: str, said: str) -> None:
    client = make(scripted.url)
    scripted.answers("200 OK", EFFECT)
    assert (await client.effect("x")).created_at == datetime(2026, 11, 30, 14, tzinfo=UTC)
    scripted.answers("200 OK", json.dumps({**EFFECT, member: "@"}).replace('"@"', said).encode())
    looked, probed = await fault_of(client.effect("x")), await fault_of(client.probe("x"))

    assert [(type(each), each.may_have_acted) for each in (looked, probed)] == [
        (AnswerUnreadable, False),
        (AnswerUnreadable, True),
    ]


CALL = {"call_id": "c1", "tool": "t", "code": "x", "message": "m", "operation_key": None}


@pytest.mark.parametrize(
    "said",
    [
        {"status": "refused", "reasons": "rate"},
        {"status": "refused", "reasons": [1]},
        {"status": "refused", "reasons": [], "reviewer_said": {"a": 1}},
        {"status": "refused", "reasons": [], "retry_after_seconds": "soon"},
        {"status": "failed", "tool_said": 7},
        {"status": "failed", "retry_after_seconds": 10**400},
        {"status": "succeeded", "result_unavailable": []},
        {"status": "invalid", "problems": {"path": "x"}},
        {"status": ["refused"]},
    ],
    ids=lambda said: "-".join(map(str, said.values()))[:40],
)
async def test_an_outcome_of_other_types_is_none(scripted: Scripted, make: Make, said: dict[str, Any]) -> None:
    scripted.answers("200 OK", {**CALL, **said})
    fault = await fault_of(make(scripted.url).submit("t", {}, run="r", call_id="c1"))

    assert (type(fault), fault.may_have_acted) == (AnswerUnreadable, True)


async def test_a_tool_has_a_name_a_version_and_what_it_may_do(scripted: Scripted, make: Make) -> None:
    tool = {"name": "t", "version": "1", "effect_class": "read", "risk": "low"}
    client = make(scripted.url)
    scripted.answers("200 OK", {"tools": [tool]})
    assert await client.tools() == (tool,)
    for name in tool:
        for said in ({}, {name: 7}):
            scripted.answers("200 OK", {"tools": [tool, {**{k: v for k, v in tool.items() if k != name}, **said}]})
            assert type(await fault_of(client.tools())) is AnswerUnreadable


_FURTHER = '"effects": [], "next":'


@pytest.mark.parametrize(
    ("pages", "asked"),
    [
        (lambda _: f'{{{_FURTHER} "x"}}', 2),
        (lambda number: f'{{{_FURTHER} "{number % 7}"}}', 8),
        (lambda number: f'{{{_FURTHER} "{number}"}}', 101),
        (lambda _: f"{{{_FURTHER} 7}}", 1),
        (lambda _: f'{{{_FURTHER} ""}}', 1),
        (lambda _: f'{{{_FURTHER} "\\ud800"}}', 1),
        (lambda _: f'{{{_FURTHER} "{"x" * 70_000}"}}', 1),
    ],
    ids=["same", "circle", "empty", "number", "nothing", "half-a-character", "long"],
)
async def test_a_list_that_has_no_end_is_no_list(
    scripted: Scripted, make: Make, pages: Callable[[int], str], asked: int
) -> None:
    scripted.pages = (pages(number).encode() for number in itertools.count())
    fault = await fault_of(make(scripted.url).effects())

    assert (type(fault), fault.may_have_acted, len(scripted.asked)) == (AnswerUnreadable, False, asked)


async def test_pages_of_which_nothing_can_be_shown_hide_none_behind_them(scripted: Scripted, make: Make) -> None:
    hidden = [f'{{"events": [], "next": "{number}"}}' for number in range(100)]
    scripted.pages = iter([each.encode() for each in (*hidden, '{"events": [{"kind": "x"}], "next": null}')])

    assert await make(scripted.url).events() == ({"kind": "x"},)


async def test_the_clock_of_the_server_is_known_from_its_answers(scripted: Scripted, make: Make) -> None:
    client = make(scripted.url)
    assert client.answered_at_now() is None
    scripted.answers("200 OK", {"tools": []}, "Date: Mon, 30 Nov 2026 12:00:01 GMT")
    await client.tools()
    said = client.answered_at_now()
    for date in ("yesterday", "Fri, 31 Dec 9999 23:59:59 GMT", "Fri, 31 Dec 9999 23:59:59 -2359"):
        scripted.answers("200 OK", {"tools": []}, f"Date: {date}")
        await client.tools()

    assert said == client.answered_at_now() == datetime(2026, 11, 30, 12, 0, 1, tzinfo=UTC)


async def test_a_server_that_cannot_show_who_it_is_is_sent_nothing(make: Make, tmp_path: Path) -> None:
    heard: list[bytes] = []

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.read())

    async def speak_plainly(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*write_certificate(tmp_path, "placet.test"))
    stranger = await asyncio.start_server(listen, "127.0.0.1", 0, ssl=context)
    plain = await asyncio.start_server(speak_plainly, "127.0.0.1", 0)
    found: list[PlacetError] = []
    for server in (stranger, plain):
        found += await faults_at(make(f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"))
        server.close()

    assert {type(each) for each in found} == {ServerNotTrusted}
    assert not any(each.may_have_acted for each in found)
    assert heard in ([], [b""], [b"", b""])


def test_every_fault_has_a_code_of_its_own_and_a_next_step() -> None:
    assert len({each.code for each in ALL_WRONG}) == len(ALL_WRONG)
    assert all(each.hint and each.__doc__ for each in ALL_WRONG)


@pytest.mark.parametrize("token", ["s\u00e9cret", "two words", "line\n", "", None], ids=repr)
@pytest.mark.parametrize("kind", [AsyncClient, Client])
async def test_what_is_no_credential_is_refused_before_anything_is_sent(
    scripted: Scripted, kind: Any, token: Any
) -> None:
    client = Asking(kind(scripted.url, token=lambda: token, retries=QUICK))
    for error in await faults_at(client):
        assert (error.code, error.may_have_acted) == ("credential_malformed", False)
        assert "cret" not in repr(error) + error.hint

    assert scripted.asked == []
    await client.close()


@pytest.mark.parametrize(
    "value", [float("nan"), "hunter2 \ud800", {1, 2}, b"hunter2"], ids=["nan", "half", "set", "bytes"]
)
async def test_what_is_no_json_is_refused_before_anything_is_sent(scripted: Scripted, make: Make, value: Any) -> None:
    with pytest.raises(MisuseError) as raised:
        await make(scripted.url).submit("pay", {"note": value}, run="r1", call_id="c1")

    assert raised.value.__cause__ is raised.value.__context__ is None
    assert "hunter2" not in repr(raised.value) + str(raised.value)
    assert scripted.asked == []


async def test_an_authority_that_is_named_is_trusted_near_by_too(
    make: Make, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
        writer.close()

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate, key = write_certificate(tmp_path, "localhost")
    context.load_cert_chain(certificate, key)
    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context)
    url = f"https://localhost:{server.sockets[0].getsockname()[1]}"

    assert type(await fault_of(make(url).approval("apr-1"))) is ServerNotTrusted
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    assert type(await fault_of(make(url).approval("apr-1"))) is ServerRefused
    monkeypatch.setenv("SSL_CERT_FILE", str(key))
    with pytest.raises(ConfigurationError) as refused:
        make(url)
    assert refused.value.code == "server_authorities_unreadable"
    assert refused.value.__context__ is None and str(key) not in str(refused.value)
    server.close()


async def test_a_grant_whose_answer_was_lost_is_not_said_to_be_safe_to_give_again(
    scripted: Scripted, make: Make
) -> None:
    scripted.answers("201 Created", b'{"grant_id"', length=1_000)
    wish = GrantWish(tool="pay", subjects=("bot",), limits={}, seconds=60.0, max_uses=1)
    fault = await fault_of(make(scripted.url).give_grant(wish, digest=DIGEST))

    assert type(fault) is AnswerLost and fault.may_have_acted and not fault.retryable
    assert "before you give it again" in fault.hint
    assert len(scripted.asked) == 1

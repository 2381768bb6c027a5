"""Who and what comes over HTTP: refused before anything of a message is believed, in fixed words."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from placet.model.identifiers import OperationKey
from placet.model.principal import Principal
from placet.model.rates import Admitted, RateScope, TooOften
from tests.mcp_server.conftest import PUBLIC, QUICK, SITE, InProcess, headers_of, in_process, modern, said_in
from tests.mcp_server.tools import acted

NOTE = modern("tools/call", {"name": "note", "arguments": {"word": "a"}})
LIST = modern("tools/list")
OPENING = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}},
}


def code_of(answer: httpx.Response) -> str:
    return str(answer.json()["error"]["data"]["code"])


async def raw(door: InProcess, body: bytes, headers: dict[str, str], *, method: str = "POST") -> httpx.Response:
    return await door.client.request(method, "/mcp", content=body, headers=headers)


async def opened(door: InProcess, *, as_: str = "t-agent") -> httpx.Response:
    headers = {"authorization": f"Bearer {as_}", "accept": "application/json, text/event-stream"}
    return await door.client.post("/mcp", json=OPENING, headers=headers)


# ---------------------------------------------------------------- who


async def test_whoever_brings_nothing_is_told_where_to_learn_more_and_no_more(tmp_path: Path) -> None:
    async with in_process(tmp_path) as door:
        answer = await door.post(LIST, as_=None)
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"] == (
            f'Bearer resource_metadata="{SITE}/.well-known/oauth-protected-resource/mcp"'
        )


@pytest.mark.parametrize("credential", ["Bearer t-nobody-at-all", "Basic t-agent", "Bearer", "Bearer a b", "t-agent"])
async def test_a_credential_that_names_nobody_is_an_invalid_token(tmp_path: Path, credential: str) -> None:
    async with in_process(tmp_path) as door:
        answer = await door.post(LIST, as_=None, headers={"authorization": credential})
        assert answer.status_code == 401
        assert 'error="invalid_token"' in answer.headers["www-authenticate"]


async def test_two_credentials_are_none(tmp_path: Path) -> None:
    async with in_process(tmp_path) as door:
        headers = [*headers_of(LIST, "t-agent").items(), ("authorization", "Bearer t-other")]
        answer = await door.client.post("/mcp", content=json.dumps(LIST), headers=headers)
        assert answer.status_code == 401


async def test_a_persons_own_sign_in_proposes_nothing(tmp_path: Path) -> None:
    async with in_process(tmp_path) as door:
        answer = await door.post(NOTE, as_="t-mara")
        assert (answer.status_code, code_of(answer)) == (403, "not_an_agent")
    assert acted(tmp_path) == []


async def test_who_may_use_no_tool_at_all_lacks_scope(tmp_path: Path) -> None:
    async with in_process(tmp_path) as door:
        answer = await door.post(LIST, as_="t-nobody")
        assert answer.status_code == 403
        assert 'error="insufficient_scope"' in answer.headers["www-authenticate"]
        assert (await door.post(LIST, as_="t-viewer")).status_code == 200


@pytest.mark.parametrize("path", ["/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp"])
async def test_the_resource_says_who_issues_tokens_for_it(tmp_path: Path, path: str) -> None:
    async with in_process(tmp_path) as door:
        answer = await door.client.get(path)
    assert answer.json() == {
        "resource": f"{SITE}/mcp",
        "authorization_servers": ["https://issuer.test"],
        "bearer_methods_supported": ["header"],
        "resource_name": "placet",
    }


async def test_whoever_comes_too_often_is_told_when_to_come_again(tmp_path: Path) -> None:
    class Once:
        def __init__(self) -> None:
            self.came: list[Principal] = []

        async def admit(self, principal: Principal) -> Admitted | TooOften:
            self.came.append(principal)
            if len(self.came) == 1:
                return Admitted()
            return TooOften(retry_after_seconds=1.5, scope=RateScope.PRINCIPAL)

        async def close(self) -> None: ...

    async with in_process(tmp_path, rate_limiter=Once()) as door:
        assert (await door.post(LIST)).status_code == 200
        refused = await door.post(NOTE)
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "2")
    assert acted(tmp_path) == []


# ---------------------------------------------------------------- from where


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("placet.test", 200),
        ("PLACET.test", 200),
        ("localhost:8420", 200),
        ("127.0.0.1", 200),
        ("[::1]:1", 200),
        ("evil.test", 421),
        ("placet.test.evil.test", 421),
        ("placet.test:8420", 421),
        ("127.0.0.1.evil.test", 421),
        ("localhost.evil.test", 421),
    ],
)
async def test_a_request_to_another_name_is_not_for_us(tmp_path: Path, host: str, status: int) -> None:
    async with in_process(tmp_path) as door:
        assert (await door.post(LIST, headers={"host": host})).status_code == status


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        (SITE, 200),
        ("http://localhost:5173", 200),
        ("https://evil.test", 403),
        ("null", 403),
        ("http://placet.test", 403),
        ("https://placet.test.evil.test", 403),
        ("file://", 403),
    ],
)
async def test_pages_of_others_may_not_ask(tmp_path: Path, origin: str, status: int) -> None:
    async with in_process(tmp_path) as door:
        assert (await door.post(LIST, headers={"origin": origin})).status_code == status


async def test_a_deployment_that_has_not_said_its_name_is_this_machines_alone(tmp_path: Path) -> None:
    here = replace(PUBLIC, site="http://127.0.0.1:8420", is_public=False)
    async with in_process(tmp_path, resource=here) as door:
        assert (await door.post(LIST, headers={"host": "127.0.0.1:8420"})).status_code == 200
        assert (await door.post(LIST, headers={"host": "10.0.0.7:8420"})).status_code == 421


# ---------------------------------------------------------------- what


@pytest.mark.parametrize(
    "body",
    [
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"note","name":"look","arguments":{}}}',
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","method":"tools/list"}',
        b'[{"jsonrpc":"2.0","id":1,"method":"tools/list"}]',
        b'{"jsonrpc":"2.0","id":1,"method":"tools/list"} {}',
        b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"x":NaN}}',
        b'\xef\xbb\xbf{"jsonrpc":"2.0","id":1,"method":"tools/list"}',
        b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":' + b'{"x":' * 40 + b"1" + b"}" * 40 + b"}",
        b"{",
        b"",
    ],
    ids=["name-twice", "method-twice", "batch", "trailing", "nan", "mark", "deep", "cut", "empty"],
)
@pytest.mark.parametrize("era", ["2026-07-28", "2025-11-25"])
async def test_a_body_without_exactly_one_meaning_is_refused(tmp_path: Path, body: bytes, era: str) -> None:
    headers = headers_of(NOTE) | {"mcp-protocol-version": era}
    async with in_process(tmp_path) as door:
        answer = await raw(door, body, headers)
        assert (answer.status_code, code_of(answer)) == (400, "message_malformed")
    assert acted(tmp_path) == []


async def test_arguments_that_occur_twice_run_nothing(tmp_path: Path) -> None:
    body = json.dumps(NOTE).replace('{"word": "a"}', '{"word": "a", "word": "b"}').encode()
    async with in_process(tmp_path) as door:
        assert code_of(await raw(door, body, headers_of(NOTE))) == "message_malformed"
    assert acted(tmp_path) == []


async def test_what_is_no_message_is_not_repeated_to_an_older_client(tmp_path: Path) -> None:
    body = b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":"zq secret"}'
    headers = headers_of(LIST) | {"mcp-protocol-version": "2025-11-25"}
    async with in_process(tmp_path) as door:
        answer = await raw(door, body, headers)
    assert answer.status_code == 400
    assert "secret" not in answer.text and "zq" not in answer.text


async def test_a_body_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    async with in_process(tmp_path, settings=replace(QUICK, max_body_bytes=2_000)) as door:
        answer = await raw(door, b" " * 2_001, headers_of(NOTE))
        assert (answer.status_code, code_of(answer)) == (413, "body_too_large")


async def test_a_body_that_says_nothing_of_its_size_is_counted(tmp_path: Path) -> None:
    read = 0

    async def pieces() -> Any:
        nonlocal read
        for _ in range(100):
            read += 1
            yield b" " * 1_000

    async with in_process(tmp_path, settings=replace(QUICK, max_body_bytes=2_000)) as door:
        answer = await door.client.post("/mcp", content=pieces(), headers=headers_of(NOTE))
        assert code_of(answer) == "body_too_large"


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/json; charset=latin-1", "application/x-www-form-urlencoded"]
)
async def test_another_kind_of_body_is_refused(tmp_path: Path, kind: str) -> None:
    async with in_process(tmp_path) as door:
        answer = await door.post(NOTE, headers={"content-type": kind})
        assert (answer.status_code, code_of(answer)) == (415, "media_type_unsupported")


async def test_a_packed_body_is_refused(tmp_path: Path) -> None:
    async with in_process(tmp_path) as door:
        assert (await door.post(NOTE, headers={"content-encoding": "gzip"})).status_code == 415


@pytest.mark.parametrize(
    ("name", "value"),
    [("mcp-name", "look"), ("mcp-method", "tools/list"), ("mcp-name", "")],
    ids=["name", "method", "no"],
)
async def test_headers_that_mirror_another_message_are_refused(tmp_path: Path, name: str, value: str) -> None:
    async with in_process(tmp_path) as door:
        answer = await door.post(NOTE, headers={name: value})
        assert answer.status_code == 400
        assert answer.json()["error"]["code"] == -32020
    assert acted(tmp_path) == []


@pytest.mark.parametrize("method", ["PUT", "OPTIONS", "PATCH"])
async def test_other_methods_are_not_taken(tmp_path: Path, method: str) -> None:
    async with in_process(tmp_path) as door:
        answer = await raw(door, b"", headers_of(LIST), method=method)
        assert answer.status_code == 405


async def test_an_answer_is_kept_by_nobody(tmp_path: Path) -> None:
    async with in_process(tmp_path) as door:
        answer = await door.post(LIST)
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["x-request-id"]


# ---------------------------------------------------------------- sessions of the older revisions


async def test_a_session_is_its_openers_alone(tmp_path: Path) -> None:
    async with in_process(tmp_path) as door:
        session = (await opened(door)).headers["mcp-session-id"]
        ping = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
        statuses = [
            (
                await door.client.post(
                    "/mcp",
                    json=ping,
                    headers={
                        "authorization": f"Bearer {who}",
                        "accept": "application/json, text/event-stream",
                        "mcp-session-id": session,
                    },
                )
            ).status_code
            for who in ("t-other", "t-stranger", "t-agent")
        ]
    assert statuses == [404, 404, 200]


async def test_one_client_cannot_open_all_sessions(tmp_path: Path) -> None:
    async with in_process(tmp_path, settings=replace(QUICK, max_sessions_each=2)) as door:
        first = await opened(door)
        assert [(await opened(door)).status_code for _ in range(2)] == [200, 429]
        assert (await opened(door, as_="t-other")).status_code == 200
        end = {"authorization": "Bearer t-agent", "mcp-session-id": first.headers["mcp-session-id"]}
        assert (await door.client.delete("/mcp", headers=end)).status_code == 200
        assert (await opened(door)).status_code == 200


async def test_a_new_claim_in_an_old_session_means_nothing(tmp_path: Path) -> None:
    async with in_process(tmp_path) as door:
        session = (await opened(door)).headers["mcp-session-id"]
        result = said_in(await door.post(NOTE, headers={"mcp-session-id": session}))["result"]
    assert session not in result["_meta"]["io.placet/outcome"]["run"]


# ---------------------------------------------------------------- while it runs


async def test_a_client_that_goes_closes_the_attempt_and_the_effect_is_unknown(tmp_path: Path) -> None:
    meta = {"io.placet/run": "r1", "io.placet/call-id": "c1"}
    message = modern("tools/call", {"name": "slow", "arguments": {"word": "a"}}, meta=meta)
    async with in_process(tmp_path) as door:
        has_gone = asyncio.Event()
        body = [{"type": "http.request", "body": json.dumps(message).encode(), "more_body": False}]

        async def receive() -> Any:
            if body:
                return body.pop()
            await has_gone.wait()
            return {"type": "http.disconnect"}

        async def send(sent: Any) -> None: ...

        scope = {
            "type": "http",
            "method": "POST",
            "path": "/mcp",
            "raw_path": b"/mcp",
            "query_string": b"",
            "headers": [(n.encode(), v.encode()) for n, v in (headers_of(message) | {"host": "placet.test"}).items()],
            "http_version": "1.1",
            "scheme": "https",
            "server": ("placet.test", 443),
            "client": ("127.0.0.1", 1),
        }
        calling = asyncio.ensure_future(door.door(scope, receive, send))
        while not acted(tmp_path):
            await asyncio.sleep(0.01)
        has_gone.set()
        await calling
        while door.mcp._calls._running:
            await asyncio.sleep(0.01)
        effect = await door.gate.store.effect("acme", OperationKey('["call","r1","c1"]'))
        assert effect is not None and effect.state == "unknown"
        assert len(await door.events("completed")) == 1
        asked = (await door.call("slow", {"word": "a"}, meta=meta))["result"]
        assert asked["structuredContent"]["status"] == "unknown"
    assert acted(tmp_path) == ["began a"]

"""The whole table of what a service may answer, through a gate: what is asked again, what is known, what is not."""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import placet
from placet.bootstrap.openapi import openapi_upstream
from placet.rules.manifests import read_manifest
from tests.openapi.conftest import Service, a_document, an_upstream, answers, in_header, reply
from tests.openapi.desk_actors import SETTINGS

pytestmark = pytest.mark.req("C072")
Serving = Callable[..., Service]

AGENT = placet.Principal.agent("agent", tenant="shop", roles=("operator",), scopes=("desk",))
FINE = reply(200, b'{"a":1}')
BODY = {"type": "object", "properties": {"a": {"type": "integer"}}}
KEY = in_header("Idempotency-Key")
DOCUMENT = a_document(
    {
        "/read": {"get": {"operationId": "read", "responses": answers(("200", BODY))}},
        "/twice": {"post": {"operationId": "twice", "parameters": [KEY], "responses": answers(("200", BODY))}},
        "/once": {"post": {"operationId": "once", "parameters": [KEY], "responses": answers(("200", BODY))}},
    }
)


def manifest(timeout_seconds: float = 30.0) -> str:
    def table(tool: str, effect: str) -> str:
        return f"""
[tools.{tool}]
effect = "{effect}"
risk = "low"
permission = "desk"
timeout_seconds = {timeout_seconds}
retry = {{ max_attempts = 3, initial_delay_seconds = 0.001, max_delay_seconds = 0.002 }}
"""

    return table("read", "read") + table("twice", "idempotent_write") + table("once", "write")


async def asked(folder: Path, here: Service, *tools: str, timeout_seconds: float = 30.0) -> list[Any]:
    upstream = openapi_upstream(
        an_upstream(folder, DOCUMENT, here.url), read_manifest("desk", manifest(timeout_seconds))
    )
    async with placet.open(upstreams=[upstream], store=placet.MEMORY, settings=SETTINGS, recovery="manual") as gate:
        proposals = [{"call_id": f"c-{tool}", "tool": f"desk.{tool}", "arguments": {}} for tool in tools]
        return list(
            await asyncio.gather(*(gate.submit(each, principal=AGENT, run=each["call_id"]) for each in proposals))
        )


def reset(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def reset_in_the_body(connection: socket.socket) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 7\r\n\r\n{")
    reset(connection)


ANSWERS: dict[str, Any] = {
    "429": reply(429, retry_after="0"),
    "500": reply(500),
    "502": reply(502),
    "503": reply(503, retry_after="0"),
    "504": reply(504),
    "reset": reset,
    "reset in the body": reset_in_the_body,
    "closed": b"",
    "302": reply(302, location="http://169.254.169.254/"),
    "400": reply(400),
    "404": reply(404),
}
ASKED_AGAIN = {"429", "500", "502", "503", "504", "reset", "reset in the body", "closed"}


@pytest.mark.parametrize("answer", list(ANSWERS))
async def test_reads_and_idempotent_writes_are_asked_again_where_that_may_help(
    tmp_path: Path, serving: Serving, answer: str
) -> None:
    for tool, otherwise in (("read", "failed"), ("twice", "unknown")):
        here = serving(ANSWERS[answer], FINE)
        (outcome,) = await asked(tmp_path, here, tool)
        if answer in ASKED_AGAIN:
            assert (outcome.status, len(here.came)) == ("succeeded", 2), tool
        else:
            assert (outcome.status, len(here.came)) == (otherwise, 1), tool
    keys = {line for came in here.came for line in came.lower().split(b"\r\n") if line.startswith(b"idempotency-key:")}
    assert len(keys) == 1  # the same in every attempt


@pytest.mark.parametrize("answer", list(ANSWERS))
async def test_another_write_is_never_asked_again_and_is_known_only_where_that_is_certain(
    tmp_path: Path, serving: Serving, answer: str
) -> None:
    here = serving(ANSWERS[answer], FINE)
    (outcome,) = await asked(tmp_path, here, "once")
    expected = ("failed", False) if answer == "429" else ("unknown", True)
    assert (outcome.status, outcome.may_have_acted, len(here.came)) == (*expected, 1)


@pytest.mark.parametrize("tool", ["read", "twice", "once"])
@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (reply(200, b"{"), "result_broken"),
        (reply(200, b'{"a":1,"a":2}'), "result_duplicate_member"),
        (reply(200, b'{"a":"x"}'), "result_broken"),
        (reply(200, b'{"b":1}'), "result_broken"),
        (reply(201, b'{"a":1}'), "result_broken"),
        (reply(200, b"[" + b"1," * 200_000 + b"1]"), "result_too_large"),
    ],
    ids=["no json", "twice a member", "wrong type", "unknown member", "undeclared status", "huge"],
)
async def test_a_success_that_breaks_its_schema_is_not_undone_and_not_shown(
    tmp_path: Path, serving: Serving, tool: str, answer: bytes, reason: str
) -> None:
    here = serving(answer)
    (outcome,) = await asked(tmp_path, here, tool)
    assert len(here.came) == 1
    if tool == "read":
        assert outcome.status == "failed"
    else:
        assert (outcome.status, outcome.is_success) == ("succeeded", True)
        assert outcome.result is None
        assert outcome.result_unavailable == reason


async def test_a_slow_body_is_waited_for_until_the_deadline_and_no_longer(tmp_path: Path, serving: Serving) -> None:
    """Two seconds: the deadline is long enough for a loaded machine to have sent the request."""
    over = threading.Event()

    def slow(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 7\r\n\r\n{")
        over.wait(60)

    here = serving(slow)
    try:
        (outcome,) = await asked(tmp_path, here, "once", timeout_seconds=2.0)
    finally:
        over.set()
    assert (outcome.status, outcome.may_have_acted, len(here.came)) == ("unknown", True, 1)

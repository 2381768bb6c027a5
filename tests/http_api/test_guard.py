"""What is true of every request: who is let in, which paths there are, what no answer and no log line says."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from placet.adapters.rates.steady import OwnRateLimiter
from placet.bootstrap.surroundings import configure_logging, http_meter, random_ids, system_clock
from placet.errors import StoreUnavailable
from placet.http_api.app import api_routes
from placet.http_api.guard import Guard
from placet.model.rates import Rate, RateLimits
from placet.serve.http_server import HttpServer, listening_socket
from placet.testing import FakeClock, RecordingMeter
from placet.testing.hostile import HostileValues
from tests.http_api.conftest import Api, MakeApi, asgi_get

OPEN = {"/healthz", "/readyz"}


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    """What our log says, as a server writes it."""
    log, stream = logging.getLogger("placet"), io.StringIO()
    before = log.level, log.propagate, list(log.handlers)
    configure_logging(stream)
    yield stream
    log.setLevel(before[0])
    log.propagate = before[1]
    log.handlers[:] = before[2]


def told(lines: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in lines.getvalue().splitlines()]


def addresses() -> list[tuple[str, str]]:
    """Every operation there is."""
    found = [
        (method, re.sub(r"\{\w+\}", "a2V5", route.path)) for route in api_routes() for method in sorted(route.methods)
    ]
    assert len(found) >= 20
    return found


@pytest.mark.parametrize(
    "said",
    [
        {},
        {"Authorization": ""},
        {"Authorization": "Bearer"},
        {"Authorization": "Bearer "},
        {"Authorization": "Bearer  t-mara"},
        {"Authorization": "Bearer nobody"},
        {"Authorization": "Basic t-mara"},
        {"Authorization": "t-mara"},
        {"Authorization": "Bearer t-mara, Bearer t-agent"},
        {"Authorization": "Bearer " + "a" * 8_193},
        {"Cookie": "session=t-mara"},
        {"X-Forwarded-User": "mara"},
    ],
)
async def test_whoever_is_not_signed_in_is_401_everywhere_and_nothing_is_looked_at(
    api: Api, said: dict[str, str]
) -> None:
    for method, path in addresses():
        if path in OPEN:
            continue
        answer = await api.ask(method, path, as_=None, headers=said)
        code = "sign_in_refused" if "Authorization" in said else "sign_in_missing"
        assert (answer.status_code, answer.json()["code"]) == (401, code), (method, path)
        challenge = 'Bearer realm="placet"' + (', error="invalid_token"' if "Authorization" in said else "")
        assert answer.headers["www-authenticate"] == challenge


async def test_two_credentials_are_none(api: Api) -> None:
    headers = [("Authorization", "Bearer t-mara"), ("Authorization", "Bearer t-mara")]
    answer = await api.client.send(api.client.build_request("GET", "/v1/tools", headers=headers))

    assert answer.status_code == 401


async def test_the_scheme_may_be_written_in_any_case(api: Api) -> None:
    answer = await api.ask("GET", "/v1/tools", as_=None, headers={"Authorization": "bearer t-agent"})

    assert answer.status_code == 200


async def test_while_nobody_can_say_who_it_is_nobody_is_let_in(api: Api) -> None:
    async def away(credential: str) -> Any:
        raise StoreUnavailable

    api.app.state.door.sign_in.principal_of = away
    answer = await api.get("/v1/tools")

    assert (answer.status_code, answer.json()["code"], answer.headers["retry-after"]) == (503, "store_unavailable", "1")


async def test_whoever_comes_too_often_is_told_for_how_long_and_nothing_is_looked_at(make_api: MakeApi) -> None:
    limits = RateLimits(per_principal=Rate(count=2, seconds=60), per_tenant=Rate(count=3, seconds=60))
    limiter = OwnRateLimiter(limits, clock=FakeClock(), meter=RecordingMeter())
    api = await make_api(rate_limiter=limiter)
    mine = [await api.propose("note", {"word": "a"}, call_id=f"c{n}") for n in range(3)]
    others = [await api.get("/v1/tools", as_=who) for who in ("t-other", "t-mara", "t-stranger")]
    nobody = await api.get("/v1/tools", as_="t-nobody")

    assert [answer.status_code for answer in mine] == [200, 200, 429]
    assert (mine[2].json()["code"], mine[2].json()["retryable"]) == ("too_often", True)
    assert 1 <= int(mine[2].headers["retry-after"]) <= 60
    assert len(api.desk.done) == 2
    assert [answer.status_code for answer in others] == [200, 429, 200]
    assert nobody.status_code == 401
    assert (await api.get("/healthz", as_=None)).status_code == 200


@pytest.mark.parametrize(
    "path",
    [
        "/v1/approvals/../stops",
        "/v1/./tools",
        "/v1//tools",
        "//v1/tools",
        "/v1/tools/",
        "/v1/tools/.",
        "/v1/tools/..",
        "/v1/approvals/a%2fb",
        "/v1/approvals/a%2Fdecision",
        "/v1%2ftools",
        "/v1/%74ools",
        "/v1/approvals/%00",
        "/v1/approvals/%2e%2e",
        "/v1/approvals/a%5cb",
        "/v1/approvals/%ff",
        "/v1/approvals/%E2%80%AE",
        "/v1/approvals/a;b=c/../x",
        "/V1/tools",
        "/v1/tools%20",
        "/v1/proposals/",
        "/docs",
        "/redoc",
    ],
)
async def test_a_path_of_another_spelling_is_no_address(api: Api, path: str) -> None:
    """Sent as it is: a client's library would straighten it."""
    raw = path.encode()
    answers: list[dict[str, Any]] = []
    decoded = httpx.URL("http://x" + path.replace("..", "%2e%2e")).path if "%" in path else path
    scope = asgi_get(decoded, [(b"authorization", b"Bearer t-mara")], raw=raw)

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        answers.append(message)

    await api.app(scope, receive, send)

    assert answers[0]["status"] == 404
    assert json.loads(answers[1]["body"])["code"] == "not_found"


async def test_every_answer_carries_the_same_protection_and_no_cors(api: Api) -> None:
    for answer in (
        await api.get("/v1/tools"),
        await api.get("/nothing"),
        await api.get("/v1/tools", as_=None),
        await api.ask("DELETE", "/v1/tools"),
        await api.ask(
            "OPTIONS", "/v1/proposals", headers={"Origin": "http://evil.test", "Access-Control-Request-Method": "POST"}
        ),
        await api.propose("note", {}),
    ):
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["content-security-policy"] == "default-src 'none'; frame-ancestors 'none'"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["x-request-id"]
        assert not [name for name in answer.headers if name.startswith("access-control")]
        assert "server" not in answer.headers


async def test_another_method_is_405_and_says_which_there_are(api: Api) -> None:
    answer = await api.ask("DELETE", "/v1/tools")

    both = await api.ask("OPTIONS", "/v1/stops")

    assert (answer.status_code, answer.json()["code"], answer.headers["allow"]) == (405, "method_not_allowed", "GET")
    assert (both.status_code, both.headers["allow"]) == (405, "DELETE, GET, POST")


async def test_a_problem_repeats_nothing_that_was_sent(api: Api) -> None:
    secret = "zqsecret"
    answers = [
        await api.get(f"/v1/{secret}"),
        await api.get(f"/v1/approvals/{secret}"),
        await api.get(f"/v1/approvals?state={secret}"),
        await api.get(f"/v1/approvals?cursor={secret}"),
        await api.get(f"/v1/effects?limit={secret}"),
        await api.get(f"/v1/effects/{secret}"),
        await api.ask("GET", "/v1/tools", as_=secret),
        await api.propose("note", {"word": "a"}, headers={"Idempotency-Key": f'"{secret}'}),
        await api.propose("note", {"word": [secret]}),
        await api.propose(secret, {"word": "a"}),
        await api.post("/v1/proposals", {secret: 1}),
        await api.post("/v1/stops", {"scope": secret}, as_="t-mara"),
        await api.post("/v1/approvals/apr-1/decision", {"decision": secret}, as_="t-mara"),
    ]

    assert all(400 <= answer.status_code < 500 for answer in answers)
    assert not [answer.text for answer in answers if secret in answer.text]


async def test_requests_are_logged_by_address_and_status_and_repeat_nothing_that_was_sent(
    api: Api, lines: io.StringIO
) -> None:
    await api.get("/v1/effects?cursor=zqquery", headers={"User-Agent": 'zqagent\r\n{"forged":1}'.replace("\r\n", " ")})
    await api.propose("note", {"word": "zqargument"}, call_id="zqcall", headers={"Idempotency-Key": "zqkey"})
    await api.ask("GET", "/v1/zqpath", as_="zqcredential")

    found = [each for each in told(lines) if each["message"] == "request"]
    assert [(each["method"], each["route"], each["status"]) for each in found] == [
        ("GET", "/v1/effects", 422),
        ("POST", "/v1/proposals", 200),
        ("GET", "unknown", 404),
    ]
    assert "zq" not in lines.getvalue()


# ---------------------------------------------------------------- faults


async def answered(app: FastAPI, path: str = "/v1/tools") -> httpx.Response:
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://x") as client:
        return await client.get(path, headers={"Authorization": "Bearer t-agent"})


@pytest.mark.req("B162")
async def test_a_fault_nobody_expected_is_500_with_its_safe_name_in_the_log_alone(api: Api, lines: io.StringIO) -> None:
    secret = "zqfault"
    hostile = HostileValues(secret)
    faults: list[BaseException] = [
        KeyError(secret),
        type(secret, (RuntimeError,), {"__str__": lambda error: secret})(secret),
        hostile.error(),
    ]
    for fault in faults:

        async def failing(credential: str, fault: BaseException = fault) -> Any:
            raise fault

        api.app.state.door.sign_in.principal_of = failing
        answer = await answered(api.app)
        assert (answer.status_code, answer.json()["code"]) == (500, "internal_fault")
        assert answer.json()["may_have_acted"] is True
        assert secret not in answer.text

    names = [each["error_type"] for each in told(lines) if each["message"] == "request failed"]
    assert names == ["KeyError", "untrusted_exception", "untrusted_exception"]
    assert secret not in lines.getvalue()


async def test_a_client_that_leaves_in_the_middle_of_its_body_is_counted_and_is_nobodys_error(
    api: Api, lines: io.StringIO, caplog: pytest.LogCaptureFixture
) -> None:
    server = HttpServer(api.app, listening_socket("127.0.0.1", 0), grace_seconds=1.0)
    await server.start()
    host, port = server.url.removeprefix("http://").split(":")
    _, writer = await asyncio.open_connection(host, int(port))
    head = "POST /v1/proposals HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer t-agent\r\n"
    writer.write(f'{head}Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{{"run"'.encode())
    await writer.drain()
    writer.close()
    await writer.wait_closed()
    async with asyncio.timeout(30):
        while not any(each["message"] == "request" for each in told(lines)):
            await asyncio.sleep(0)
    await server.stop()

    (line,) = [each for each in told(lines) if each["message"] == "request"]
    assert (line["route"], line["status"]) == ("/v1/proposals", 499)
    assert [each for each in told(lines) if each["level"] in ("warning", "error")] == []
    assert [each for each in caplog.records if each.levelname in ("WARNING", "ERROR", "CRITICAL")] == []


@pytest.mark.req("B162")
async def test_readiness_tells_a_failure_by_its_safe_name_alone(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    hostile = HostileValues("zqready")

    async def failing() -> Any:
        raise hostile.error()

    monkeypatch.setattr(api.gate.store, "now", failing)
    answer = await api.get("/readyz", as_=None)

    assert answer.json() == {"status": "unready", "reason": "untrusted_exception"}


async def test_a_fault_after_the_answer_began_is_told_to_nobody_but_the_log(lines: io.StringIO) -> None:
    async def broken(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        raise RuntimeError("zqlate")

    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    guard = Guard(broken, clock=system_clock(), ids=random_ids(), meter=http_meter(None, routes=()))
    await guard({"type": "http", "method": "GET", "path": "/a", "raw_path": b"/a", "headers": []}, None, send)  # type: ignore[arg-type]

    assert [message["type"] for message in sent] == ["http.response.start"]
    assert "zqlate" not in lines.getvalue()
    assert [each["error_type"] for each in told(lines) if each["message"] == "request failed"] == ["RuntimeError"]

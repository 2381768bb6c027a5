"""A distinct secret in everything that goes over the wire; every answer, log line and number searched for all of them.

`BELONGS` says which secret may, and must, be read in which channel, and why; any other pair is a leak.
Source: REQUIREMENTS B162, B202; DESIGN section 14; CASES M01, M02. The core has its own in tests/scenarios.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest

from placet.serve.http_server import HttpServer, listening_socket
from tests.http_api.conftest import Api, MakeApi
from tests.scenarios.canary import LogEars, Outputs, Secrets

PROPOSER = "it is the proposer's own, or was made for it"
NAME = "a name that the caller chose for its call"
LOG = ("log as JSON", "log as text")

BELONGS: dict[str, tuple[str, tuple[str, ...]]] = {
    "word": (PROPOSER, ("outcomes",)),
    "argument": ("the tool says it back", ("outcomes",)),
    "key": (NAME, ("outcomes", "effects")),
    "callid": (NAME, ("outcomes", "effects", "approvals", "a run")),
    "runid": (NAME, ("outcomes", "effects", "approvals", "runs", "a run")),
    "requestid": ("the id of the request is the caller's to choose, and what log and answer go by", ("headers", *LOG)),
    "reason": ("a person's words stand beside the decision", ("approvals",)),
    "rejectedwords": ("a handler that raises ToolRejected speaks to the proposer", ("outcomes",)),
    "membername": ("a problem names its place, and the proposer wrote the name", ("problems", "outcomes")),
    "stopreason": ("whoever may lift a stop is told why", ("stops",)),
}


@pytest.fixture
def outputs() -> Outputs:
    return Outputs()


@pytest.fixture(autouse=True)
def listening(outputs: Outputs, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("httpx", "httpcore.http11", "httpcore.connection"):  # the client here is the test's own
        monkeypatch.setattr(logging.getLogger(name), "disabled", True)
    yield from LogEars(outputs).listening()


@pytest.fixture
async def wire(make_api: MakeApi) -> AsyncIterator[tuple[Api, httpx.AsyncClient]]:
    api = await make_api()
    server = HttpServer(api.app, listening_socket("127.0.0.1", 0), grace_seconds=1.0)
    await server.start()
    async with httpx.AsyncClient(base_url=server.url, trust_env=False) as client:
        yield api, client
    await server.stop()


class Story:
    """Everything asked over the wire, and what comes back, by kind."""

    def __init__(self, client: httpx.AsyncClient, outputs: Outputs) -> None:
        self._client = client
        self._outputs = outputs
        self.statuses: set[int] = set()

    async def ask(
        self, channel: str, method: str, path: str, *, who: str | None = "t-agent", headers: Any = None, **more: Any
    ) -> httpx.Response:
        sent = ({"Authorization": f"Bearer {who}"} if who else {}) | (headers or {})
        answer = await self._client.request(method, path, headers=sent, **more)
        is_problem = answer.headers.get("content-type") == "application/problem+json"
        self._outputs.hear("problems" if is_problem else channel, answer.content)
        self._outputs.hear("headers", *(f"{name}: {value}" for name, value in answer.headers.items()))
        self.statuses.add(answer.status_code)
        return answer

    async def propose(self, tool: str, arguments: Any, *, call_id: str = "c1", run: str = "r1", **more: Any) -> Any:
        body = {"run": run, "call_id": call_id, "tool": tool, "arguments": arguments}
        return (await self.ask("outcomes", "POST", "/v1/proposals", json=body, **more)).json()


async def calls(story: Story, s: Secrets, api: Api) -> None:
    """Proposals that succeed, fail, wait and are none."""
    await story.propose("look", {"word": s.text("word")})
    named = {"Idempotency-Key": f'"{s("key")}"', "X-Request-Id": s("requestid")}
    await story.propose("note", {"word": s.text("argument")}, call_id=s("callid"), run=s("runid"), headers=named)
    for fault in ("errortext", "rejectedwords"):
        import placet

        kind = placet.ToolRejected if fault == "rejectedwords" else RuntimeError
        api.desk.fault = kind(s.text(fault))
        await story.propose("send", {"word": s.text("argument")}, call_id=fault)
    await story.propose("broken", {"word": s.text("argument")}, call_id="broken")
    for wrong in (
        {"word": [s.text("wrongtype")]},
        {s("membername"): s.text("membervalue")},
        f'{{"word": "{s("notjson")}"',
    ):
        await story.propose("note", wrong, call_id="wrong")
    await story.propose(s("toolname"), {"word": s.text("argument")}, call_id="unknown")
    await story.propose("note", {"word": "x"}, call_id="/" + s("badcallid"))
    body = {
        "run": "r1",
        "call_id": "c",
        "tool": "note",
        "arguments": {"word": "a"},
        s("bodymember"): s.text("bodyvalue"),
    }
    await story.ask("outcomes", "POST", "/v1/proposals", json=body)
    raw = f'{{"run": "r1", "{s("membername")}": 1, "{s("membername")}": "{s("twice")}"}}'
    await story.ask("outcomes", "POST", "/v1/proposals", content=raw, headers={"Content-Type": "application/json"})
    await story.ask(
        "outcomes", "POST", "/v1/proposals", content=s("plainbody"), headers={"Content-Type": f"text/{s('mediatype')}"}
    )
    await story.ask("outcomes", "POST", "/v1/proposals/batch", json={"run": "r1", "proposals": s.text("notalist")})


async def people(story: Story, s: Secrets) -> None:
    """Approvals asked, seen, decided, refused; stops."""
    asked = await story.propose("pay", {"amount": 5, "card": s.text("masked")}, call_id=s("callid"), run=s("runid"))
    path = f"/v1/approvals/{asked['approval_id']}"
    view = (await story.ask("approvals", "GET", path, who="t-mara")).json()
    await story.ask("outcomes", "GET", f"/v1/proposals/{asked['approval_id']}")
    for body in (
        {"decision": s("decisionword"), "digest": view["digest"]},
        {"decision": "approve", "digest": s("digestword").ljust(64, "0")},
        {"decision": "approve", "digest": view["digest"], "reason": s.text("longreason") * 40},
    ):
        await story.ask("approvals", "POST", f"{path}/decision", who="t-mara", json=body)
    await story.ask("approvals", "POST", f"{path}/withdraw", who="t-mara", headers={"If-Match": f'"{s("ifmatch")}"'})
    decided = {"decision": "deny", "digest": view["digest"], "reason": s.text("reason")}
    await story.ask("approvals", "POST", f"{path}/decision", who="t-mara", json=decided)
    await story.ask("approvals", "POST", f"{path}/decision", who="t-omar", json=decided | {"reason": s.text("second")})
    stop = {"scope": "tool:slow", "reason": s.text("stopreason")}
    await story.ask("problems", "POST", "/v1/stops", who="t-mara", json={"scope": s("scopeword")})
    await story.ask("problems", "POST", "/v1/stops", who="t-mara", json=stop)
    await story.ask("stops", "GET", "/v1/stops", who="t-mara")


async def strange(story: Story, s: Secrets) -> None:
    """Requests that name nothing, or nobody, in every place there is."""
    await story.ask("problems", "GET", "/v1/tools", who=s("credential"))
    await story.ask(
        "problems",
        "GET",
        "/v1/tools",
        who=None,
        headers={"Authorization": f"Basic {s('basic')}", "Cookie": f"a={s('cookie')}"},
    )
    await story.ask("problems", "GET", f"/v1/{s('path')}")
    await story.ask("problems", "GET", f"/v1/%2f{s('escaped')}")
    await story.ask("problems", "GET", f"/v1/approvals/{s('approvalid')}", who="t-mara")
    await story.ask("problems", "GET", f"/v1/effects/{s('effectid')}")
    await story.ask("problems", "GET", f"/v1/runs/{s('runname')}")
    await story.ask("problems", "GET", f"/v1/runs?left_open={s('leftopen')}&whose={s('whose')}", who="t-mara")
    await story.ask("problems", "GET", f"/v1/approvals?state={s('state')}&limit={s('limit')}", who="t-mara")
    await story.ask("problems", "GET", f"/v1/approvals?cursor={s('cursor')}", who="t-mara")
    await story.ask("problems", "GET", f"/v1/tools?{s('queryname')}={s('queryvalue')}&{s('queryname')}=2")
    await story.ask("problems", s("method").upper(), "/v1/tools")
    headers = {
        "User-Agent": s("agent"),
        "X-Request-Id": f"{s('badrequestid')} {s('badrequestid')}",
        "Prefer": f"wait={s('prefer')}",
        "If-None-Match": s("ifnonematch"),
        "X-Forwarded-For": s("forwarded"),
        "Referer": s("referer"),
        "Origin": f"http://{s('origin')}",
        "Host": s("host"),
        "Idempotency-Key": f'"{s("badkey")}',
    }
    await story.propose("note", {"word": "a"}, headers=headers)
    await story.ask("problems", "GET", "/v1/policy", headers=headers)


async def test_every_secret_is_read_exactly_where_it_belongs(
    wire: tuple[Api, httpx.AsyncClient], outputs: Outputs
) -> None:
    api, client = wire
    s, story = Secrets(), Story(client, outputs)
    await calls(story, s, api)
    await people(story, s)
    await strange(story, s)
    await story.ask("effects", "GET", "/v1/effects", who="t-mara")
    await story.ask("approvals", "GET", "/v1/approvals?state=denied", who="t-mara")
    await story.ask("runs", "GET", "/v1/runs", who="t-mara")
    for run in (s("runid"), "r1"):
        shown = await story.ask("a run", "GET", f"/v1/runs/{run}", who="t-mara")
        assert len(shown.json()["calls"]) > 1
    await story.ask("metrics", "GET", "/metrics", who="t-scraper")

    assert story.statuses >= {200, 202, 400, 401, 404, 405, 409, 412, 415, 422, 424, 502}
    found = set(outputs.found(s))
    expected = {(name, channel) for name, (_, channels) in BELONGS.items() for channel in channels}
    assert found - expected == set()
    assert expected - found == set()
    assert len(s.made) > 40

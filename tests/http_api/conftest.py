"""The API of a real gate on a real store, asked through ASGI or, where the wire matters, through a real server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from prometheus_client import CollectorRegistry

import placet
from placet import Gate, Principal
from placet.bootstrap.surroundings import system_clock
from placet.http_api import HttpSettings, create_app
from placet.ports.rate_limits import RateLimiter
from placet.testing import FakeClock, FixedSignIn, SeededIds

AGENT = Principal.agent("agent", tenant="acme", roles=("operator",), scopes=("w",))
OTHER = Principal.agent("other", tenant="acme", roles=("operator",), scopes=("w",))
ADMIN = Principal.agent("admin-agent", tenant="acme", roles=("admin",), scopes=("w",))
STRANGER = Principal.agent("agent", tenant="globex", roles=("operator",), scopes=("w",))
MARA = Principal.person(
    "mara", tenant="acme", scopes=("approvals.decide", "effects.reconcile", "effects.read", "audit.read", "ops.stop")
)
OMAR = Principal.person("omar", tenant="acme", scopes=("approvals.decide",))
EDITH = Principal.person("edith", tenant="acme", roles=("operator",), scopes=("approvals.decide", "w"))
PLAIN = Principal.person("plain", tenant="acme")
FAR = Principal.person("far", tenant="globex", scopes=("approvals.decide", "audit.read", "effects.read", "ops.stop"))
SCRAPER = Principal.agent("scraper", tenant="ops", scopes=("metrics.read",))
WHO = {
    "t-agent": AGENT,
    "t-other": OTHER,
    "t-admin": ADMIN,
    "t-stranger": STRANGER,
    "t-mara": MARA,
    "t-omar": OMAR,
    "t-edith": EDITH,
    "t-plain": PLAIN,
    "t-far": FAR,
    "t-scraper": SCRAPER,
}
FAST = HttpSettings(poll_seconds=0.02, max_wait_seconds=30.0, body_seconds=20.0)


@dataclass
class Desk:
    """What the tools of a test did, and what they are told to do."""

    done: list[dict[str, Any]] = field(default_factory=list)
    begun: asyncio.Event = field(default_factory=asyncio.Event)
    may_end: asyncio.Event = field(default_factory=asyncio.Event)
    fault: Exception | None = None


def tools_of(desk: Desk) -> list[placet.Tool]:
    write: dict[str, Any] = {"effect": "write", "risk": "medium", "permission": "w", "breaker": None}

    @placet.tool(effect="read")
    async def look(word: str) -> dict[str, Any]:
        """Say it back."""
        return {"said": word, "number": 1.0}

    @placet.tool(**write)
    async def note(word: str, count: float = 1.0, many: int = 0) -> str:
        """Write it down."""
        desk.done.append({"word": word, "count": count, "many": many})
        return f"noted {word}"

    @placet.tool(**write, approval="always", redact=("card",))
    async def pay(amount: int, card: str = "") -> str:
        """Pay, once somebody has said so."""
        desk.done.append({"amount": amount})
        return "paid"

    async def probe(context: placet.ProbeContext) -> Any:
        return placet.Found(result="yes") if desk.fault is None else placet.CannotTell()

    @placet.tool(**write, probe=probe)
    async def send(word: str) -> str:
        """Fail as the test says."""
        if desk.fault is not None:
            raise desk.fault
        return word

    @placet.tool(**write)
    async def slow(word: str) -> str:
        """Begin, and end when it is told."""
        desk.begun.set()
        await desk.may_end.wait()
        desk.done.append({"word": word})
        return f"slowly {word}"

    @placet.tool(effect="read", retry=placet.RetryPolicy(max_attempts=1), silence_seconds=12.5)
    async def broken(word: str) -> str:
        """Break."""
        raise RuntimeError("something secret")

    return [look, note, pay, send, slow, broken]


@dataclass
class Api:
    """One open gate, its API, and what a test asks of them."""

    gate: Gate
    app: FastAPI
    desk: Desk
    clock: FakeClock
    client: httpx.AsyncClient

    async def ask(
        self, method: str, path: str, *, as_: str | None = "t-agent", headers: dict[str, str] | None = None, **more: Any
    ) -> httpx.Response:
        sent = ({"Authorization": f"Bearer {as_}"} if as_ is not None else {}) | (headers or {})
        return await self.client.request(method, path, headers=sent, **more)

    async def get(self, path: str, *, as_: str | None = "t-mara", **more: Any) -> httpx.Response:
        return await self.ask("GET", path, as_=as_, **more)

    async def post(self, path: str, body: Any = None, *, as_: str | None = "t-agent", **more: Any) -> httpx.Response:
        return await self.ask("POST", path, as_=as_, json=body, **more)

    async def propose(
        self, tool: str, arguments: Any, *, call_id: str | None = "c1", run: str = "r1", **more: Any
    ) -> httpx.Response:
        body = {"run": run, "tool": tool, "arguments": arguments} | ({} if call_id is None else {"call_id": call_id})
        return await self.post("/v1/proposals", body, **more)

    async def asked(self, amount: int = 5, *, call_id: str = "c1", as_: str = "t-agent") -> dict[str, Any]:
        """A question that waits, as a person sees it."""
        answer = await self.propose("pay", {"amount": amount}, call_id=call_id, as_=as_)
        assert answer.status_code == 202, answer.text
        shown = await self.get(f"/v1/approvals/{answer.json()['approval_id']}")
        return dict(shown.json())

    async def decide(
        self,
        view: dict[str, Any],
        decision: str = "approve",
        *,
        as_: str = "t-mara",
        digest: str | None = None,
        **more: Any,
    ) -> httpx.Response:
        body = {"decision": decision, "digest": digest or view["digest"]}
        return await self.post(f"/v1/approvals/{view['approval_id']}/decision", body, as_=as_, **more)

    async def events(self, *kinds: str) -> list[dict[str, Any]]:
        found = [json.loads(event.body) async for event in self.gate.store.chained()]
        return [event for event in found if not kinds or event["kind"] in kinds]


def asgi_get(path: str, headers: list[tuple[bytes, bytes]], *, raw: bytes | None = None) -> dict[str, Any]:
    """A request as a server hands it to the application, in whatever spelling."""
    return {
        "type": "http",
        "method": "GET",
        "path": path,
        "raw_path": path.encode() if raw is None else raw,
        "query_string": b"",
        "headers": headers,
        "http_version": "1.1",
        "scheme": "http",
        "server": ("placet.test", 80),
        "client": ("127.0.0.1", 1),
        "root_path": "",
        "state": {},
    }


MakeApi = Callable[..., Awaitable[Api]]


@pytest.fixture
async def make_api(tmp_path: Path) -> AsyncIterator[MakeApi]:
    async with AsyncExitStack() as opened:

        async def make(
            *,
            settings: HttpSettings = FAST,
            store: str | Path | None = None,
            rate_limiter: RateLimiter | None = None,
            **more: Any,
        ) -> Api:
            desk, clock, registry = Desk(), FakeClock(), CollectorRegistry()
            gate = await opened.enter_async_context(
                placet.open(
                    tools=tools_of(desk),
                    store=store or tmp_path / "placet.db",
                    clock=clock,
                    ids=SeededIds(7),
                    recovery="manual",
                    metrics=registry,
                    **more,
                )
            )
            app = create_app(
                gate=gate,
                sign_in=FixedSignIn(WHO),
                rate_limiter=rate_limiter,
                settings=settings,
                metrics=registry,
                clock=system_clock(),
            )
            client = await opened.enter_async_context(
                httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://placet.test")
            )
            return Api(gate=gate, app=app, desk=desk, clock=clock, client=client)

        yield make


@pytest.fixture
async def api(make_api: MakeApi) -> Api:
    return await make_api()

"""A shop with an agent, people who decide, and the console in front of its gate; an address to ask it by."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from html import unescape
from pathlib import Path
from typing import Any

import httpx

import placet
from placet import Gate, Principal
from placet.console.app import Console
from placet.model.outcome import Outcome
from placet.testing import FakeClock, SeededIds, SessionsInMemory

SCOPES = ("approvals.decide", "effects.reconcile", "effects.read", "audit.read", "ops.stop")
MEI = Principal.person("mei", tenant="acme", roles=("admin",), scopes=SCOPES)
OMAR = Principal.person("omar", tenant="acme", roles=("admin",), scopes=SCOPES)
EDITOR = Principal.person("eve", tenant="acme", roles=("admin",), scopes=(*SCOPES, "shop.write"))
LOOKER = Principal.person("lu", tenant="acme", roles=("operator",))
STRANGER = Principal.person("mei", tenant="globex", roles=("admin",), scopes=SCOPES)
AGENT = Principal.agent("agent-7", tenant="acme", roles=("admin",), scopes=("shop.write",))
ORIGIN = "https://desk.example"


@placet.tool(effect="write", risk="high", permission="shop.write", resource="order:{order}")
def refund(order: str, amount: int, note: str = "", options: dict[str, Any] | None = None) -> str:
    """Pay an order's money back to the customer."""
    return order


@placet.tool(effect="irreversible", risk="critical", permission="shop.write", resource="account:{name}")
def delete_account(name: str) -> str:
    """Delete a customer's account and all of its data."""
    return name


@placet.tool(effect="write", risk="high", permission="shop.write", redact=("card",))
def charge(card: str, amount: int) -> str:
    """Charge a card."""
    return "charged"


@placet.tool(
    effect="write", risk="high", permission="shop.write", remote=placet.Remote(arrival_bound_seconds=1.0), retry=None
)
async def lose(order: str) -> str:
    """Sends, and never learns what became of it."""
    raise ConnectionResetError


@placet.tool(effect="read", risk="low")
def look(order: str) -> str:
    """Look at an order."""
    return order


TOOLS = [refund, delete_account, charge, lose, look]


@dataclass
class Shop:
    """One gate and one console.

    Attributes:
        browser: a client that is signed in as mei, and sends what a browser would with a form of ours.
    """

    gate: Gate
    clock: FakeClock
    sessions: SessionsInMemory
    app: Console
    browser: httpx.AsyncClient
    calls: int = 0
    _open: list[httpx.AsyncClient] = field(default_factory=list)

    async def ask(self, tool: str, *, run: str = "run-1", call: str | None = None, **arguments: Any) -> Outcome:
        self.calls += 1
        proposal = {"call_id": call or f"c-{self.calls}", "tool": tool, "arguments": arguments}
        return await self.gate.submit(proposal, principal=AGENT, run=run)

    async def asked(self, tool: str, **arguments: Any) -> str:
        """Ask for something that needs a person; the id of its approval."""
        outcome = await self.ask(tool, **arguments)
        assert outcome.code == "approval_required", outcome
        pending = await self.gate.desk.pending(by=MEI)
        return max(pending, key=lambda view: (view.asked_at, view.approval_id)).approval_id

    async def as_person(self, person: Principal) -> httpx.AsyncClient:
        client = browser_of(self.app)
        self._open.append(client)
        await sign_in(client, self.sessions.link_for(person))
        return client


def browser_of(app: Console) -> httpx.AsyncClient:
    return httpx.AsyncClient(
        transport=httpx.ASGITransport(app=app),
        base_url=ORIGIN,
        headers={"Origin": ORIGIN, "Sec-Fetch-Site": "same-origin"},
    )


async def sign_in(client: httpx.AsyncClient, link: str) -> httpx.Response:
    answer = await client.post("/console/sign-in", data={"link": link, "next": "/console/"})
    assert answer.status_code == 303, answer.text
    return answer


@asynccontextmanager
async def open_shop(
    store: str | Path = placet.MEMORY,
    *,
    tools: list[Any] | None = None,
    policy: Any = None,
    people: Any = None,
    pins: Path | None = None,
) -> AsyncIterator[Shop]:
    clock = FakeClock()
    async with placet.open(
        tools=tools or TOOLS,
        store=store,
        clock=clock,
        ids=SeededIds(),
        policy=policy,
        people=people,
        pins=pins,
        recovery=placet.Recovery.MANUAL,
    ) as gate:
        sessions = SessionsInMemory(clock, seconds=7 * 86_400.0)
        app = Console(gate, sessions=sessions, clock=clock)
        async with browser_of(app) as browser:
            shop = Shop(gate=gate, clock=clock, sessions=sessions, app=app, browser=browser)
            await sign_in(browser, sessions.link_for(MEI))
            yield shop
            for client in shop._open:
                await client.aclose()


def fields_of(page: str, action: str) -> dict[str, str]:
    """The hidden fields of the form that goes to an address ending so; of several, those of the last."""
    forms = re.findall(rf'<form[^>]*action="[^"]*{re.escape(action)}"[^>]*>(.*?)</form>', page, re.DOTALL)
    assert forms, f"no form goes to {action}"
    return hidden(forms[-1])


def hidden(form: str) -> dict[str, str]:
    found = re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)">', form)
    return {name: unescape(value) for name, value in found}


def forms_of(page: str, action: str) -> list[dict[str, str]]:
    forms = re.findall(rf'<form[^>]*action="[^"]*{re.escape(action)}"[^>]*>(.*?)</form>', page, re.DOTALL)
    return [hidden(form) for form in forms]

"""The tools, people and settings of these tests, the same in every process."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import placet
from placet import GateSettings, Principal

AGENT = Principal.agent("agent", tenant="acme", roles=("operator",), scopes=("w",))
OTHER = Principal.agent("other", tenant="acme", roles=("operator",), scopes=("w",))
VIEWER = Principal.agent("viewer", tenant="acme")
STRANGER = Principal.agent("agent", tenant="globex", roles=("operator",), scopes=("w",))
NOBODY = Principal.agent("nobody", tenant="elsewhere")
MARA = Principal.person("mara", tenant="acme", roles=("operator",), scopes=("approvals.decide", "audit.read", "w"))
WHO = {
    "t-agent": AGENT,
    "t-other": OTHER,
    "t-viewer": VIEWER,
    "t-stranger": STRANGER,
    "t-nobody": NOBODY,
    "t-mara": MARA,
}
SETTINGS = GateSettings(lease_seconds=30.0, grace_seconds=0.2, call_seconds=50.0, max_steps=10_000)


def tools_of(folder: Path) -> list[placet.Tool]:
    """What they do is a line in a file each, so that another process can count it."""
    write: dict[str, Any] = {"effect": "write", "risk": "medium", "permission": "w", "breaker": None}
    tenants = ("acme", "globex")

    def act(word: str) -> None:
        with (folder / "acted").open("a") as file:
            file.write(f"{word}\n")

    @placet.tool(effect="read", allowed_tenants=tenants)
    async def look(word: str, number: float = 1.0) -> dict[str, Any]:
        """Say it back."""
        print("a handler's own words")
        return {"said": word, "number": number}

    @placet.tool(**write, allowed_tenants=tenants)
    async def note(word: str) -> str:
        """Write it down."""
        act(word)
        return f"noted {word}"

    @placet.tool(**write, approval="always", allowed_tenants=tenants)
    async def pay(amount: int) -> dict[str, int]:
        """Pay, once somebody has said so."""
        act(f"paid {amount}")
        return {"paid": amount}

    @placet.tool(**write, allowed_tenants=tenants)
    async def slow(word: str) -> str:
        """Begin, and end when a file says so."""
        act(f"began {word}")
        while not (folder / "may_end").exists():
            await asyncio.sleep(0.02)
        act(f"ended {word}")
        return word

    @placet.tool(effect="read", allowed_tenants=tenants)
    async def broken(word: str) -> str:
        """Break."""
        raise RuntimeError(f"something secret about {word}")

    @placet.tool(effect="read", allowed_tenants=tenants, max_result_bytes=2_000_000)
    async def much(size: int) -> str:
        """Answer at length."""
        return "x" * size

    return [look, note, pay, slow, broken, much]


def acted(folder: Path) -> list[str]:
    file = folder / "acted"
    return file.read_text().splitlines() if file.exists() else []

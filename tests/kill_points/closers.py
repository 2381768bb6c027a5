"""Processes that close an account whose approval is bound to its version. Importable on its own, as the others."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import placet
from placet.bootstrap.opening import Opening
from placet.testing.kill_points import KillPoint, die
from tests.kill_points.actors import AGENT, SETTINGS, SURVIVED, Place, SharedTime, approve, mortal_stores, time_passes

PROPOSAL = {"call_id": "call-1", "tool": "close", "arguments": {"account": "a-1"}}


def set_version(place: Place, version: int) -> None:
    (place.folder / "version").write_text(str(version))


def keep_in(place: Place, url: str) -> None:
    """Have the processes of this place keep their store in a database; without, it is a file of the place."""
    (place.folder / "url").write_text(url)


def _store_of(place: Place) -> dict[str, Any]:
    url = place.folder / "url"
    return {"store": url.read_text(), "key": place.folder / "key"} if url.exists() else {"store": place.store}


def later(place: Place) -> None:
    """What a dead process left is over from now on."""
    time_passes(_store_of(place)["store"], place.folder)


def open_gate(place: Place, *, dies_looking: bool = False) -> Opening:
    async def look(asked: placet.ProbeContext) -> dict[str, int]:
        version = {"version": int((place.folder / "version").read_text())}
        if dies_looking:
            die()
        return version

    async def found(context: placet.ProbeContext) -> placet.Found | placet.Absent:
        value = place.remote.found(context.operation_key)
        return placet.Absent() if value is None else placet.Found(result=value)

    @placet.tool(
        effect="write",
        risk="medium",
        permission="pay",
        approval="always",
        precondition=look,
        probe=found,
        remote=placet.Remote(arrival_bound_seconds=0.05),
        timeout_seconds=20.0,
    )
    async def close(account: str, call: placet.CallContext) -> object:
        place.remote.act(call.operation_key, call.precondition)
        return call.precondition

    return placet.open(
        tools=[close],
        settings=SETTINGS,
        recovery=placet.Recovery.MANUAL,
        clock=SharedTime(place.folder),
        **_store_of(place),
    )


def close_and_die(folder: str, point: KillPoint | None, dies_looking: bool, approves: str) -> None:
    """Approve if told to, ask, and end somewhere on the way; a process that survives exits with 7."""
    place = Place(folder=Path(folder))

    async def act() -> None:
        with mortal_stores(point):
            async with open_gate(place, dies_looking=dies_looking) as gate:
                if approves:
                    await approve(gate, approves)
                await gate.submit(PROPOSAL, principal=AGENT, run="run-1")

    asyncio.run(act())
    os._exit(SURVIVED)

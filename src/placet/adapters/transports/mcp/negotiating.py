"""Which revision of the protocol a server speaks: asked once, at the beginning of a session.

Newer servers answer `server/discover`. Whatever else is answered means an older one, which is greeted with
`initialize`; that nobody is there, or that we are not let in, says nothing of the revision.
Source: MCP 2026-07-28 and 2025-11-25.
"""

from __future__ import annotations

import asyncio
from importlib.metadata import PackageNotFoundError, version
from typing import Final

from placet.adapters.transports.mcp.channels import STATELESS_VERSION, Era
from placet.adapters.transports.mcp.conversing import Talk
from placet.adapters.transports.mcp.faults import (
    NOT_NOW,
    Doubtful,
    NotAccepted,
    Refused,
    SessionGone,
    StatusAnswered,
)
from placet.adapters.transports.mcp.messages import UNSUPPORTED_VERSION
from placet.adapters.transports.mcp.session import Session
from placet.model.json import JsonObject, JsonValue

HANDSHAKE_VERSIONS: Final = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
DISCOVER_SECONDS: Final = 3.0
"""How long a server that keeps silent is taken for one that may know the question; some older ones only know others."""


class NoCommonVersion(NotAccepted):
    """It speaks no revision that we do."""

    def __init__(self) -> None:
        super().__init__("no_common_version")


async def negotiate(session: Session, *, talk: Talk, within_seconds: float) -> None:
    """Agree with the server on a revision.

    Raises:
        RequestFault, TimeoutError: it is not there, does not let us in, or speaks no revision that we do.
    """
    found = await _discovered(session, talk, min(DISCOVER_SECONDS, within_seconds / 2.0))
    if found is not None:
        session.capabilities = _object(found.get("capabilities"))
        return
    await greet(session, talk=talk, within_seconds=within_seconds)


async def greet(session: Session, *, talk: Talk, within_seconds: float) -> None:
    """Agree with a server of the older era.

    Raises:
        RequestFault: as `negotiate`.
    """
    session.era, session.envelope = Era.HANDSHAKE, {}
    session.channel.speaks(None)
    hello: JsonObject = {
        "protocolVersion": HANDSHAKE_VERSIONS[-1],
        "capabilities": talk.capabilities,
        "clientInfo": _ourselves(),
    }
    async with asyncio.timeout(within_seconds):
        try:
            result, _ = await session.request("initialize", hello, talk=talk)
        except Refused:  # it may know no greeting, and only have been slow to begin
            found = await _discovered(session, talk, within_seconds)
            if found is None:
                raise
            session.capabilities = _object(found.get("capabilities"))
            return
    agreed = result.get("protocolVersion")
    if agreed not in HANDSHAKE_VERSIONS:
        raise NoCommonVersion
    session.channel.speaks(agreed)
    session.capabilities = _object(result.get("capabilities"))
    session.tell("notifications/initialized", {})


async def _discovered(session: Session, talk: Talk, within_seconds: float) -> JsonObject | None:
    """What a server of the newer era says of itself; None for an older one."""
    session.era = Era.STATELESS
    session.envelope = {
        "io.modelcontextprotocol/protocolVersion": STATELESS_VERSION,
        "io.modelcontextprotocol/clientInfo": _ourselves(),
    }
    session.channel.speaks(STATELESS_VERSION)
    try:
        async with asyncio.timeout(within_seconds):
            result = await _asked_for(session, talk)
    except (TimeoutError, Refused, SessionGone):
        result = {}
    except StatusAnswered as answered:
        if answered.status in NOT_NOW:
            raise
        result = {}
    except Doubtful:
        if session.is_lost:
            raise
        result = {}
    versions = result.get("supportedVersions")
    return result if type(versions) is list and STATELESS_VERSION in versions else None


async def _asked_for(session: Session, talk: Talk) -> JsonObject:
    """What it says of itself. Who says that it speaks another revision, and names ours, is asked once more."""
    try:
        return (await session.request("server/discover", {}, talk=talk))[0]
    except Refused as refused:
        data = _object(refused.error.get("data"))
        supported = data.get("supported")
        is_ours = refused.code == UNSUPPORTED_VERSION and type(supported) is list and STATELESS_VERSION in supported
        if not is_ours:
            raise
    return (await session.request("server/discover", {}, talk=talk))[0]


def _ourselves() -> JsonObject:
    try:
        return {"name": "placet", "version": version("placet")}
    except PackageNotFoundError:  # run from a checkout that is not installed
        return {"name": "placet", "version": "0"}


def _object(value: JsonValue) -> JsonObject:
    return value if type(value) is dict else {}

"""Answers that come piece by piece, and readers that do not take them.

A stream holds a place in the waiting room for as long as it is open. Nothing is queued for a slow reader: the next
piece is made when it has taken the last one, and one that takes nothing for too long is let go, with whatever the
stream held open for it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from placet.engine.faults import told_of_round
from placet.errors import PlacetError
from placet.http_api.door import Door

_log = logging.getLogger("placet.http")


class CutShort(Exception):
    """What comes next is not to be had, and what came is not all of it."""


class Stream(Response):
    """Sends what comes. What was opened for it is closed with it, however it ends."""

    def __init__(
        self,
        door: Door,
        opened: AsyncExitStack,
        pieces: AsyncGenerator[bytes, None],
        *,
        media_type: str,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(media_type=media_type, headers=headers)
        del self.headers["content-length"]
        self._seconds = door.settings.slow_reader_seconds
        self._opened = opened
        self._pieces = pieces

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with self._opened:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            try:
                async for piece in self._pieces:
                    async with asyncio.timeout(self._seconds):
                        await send({"type": "http.response.body", "body": piece, "more_body": True})
            except (TimeoutError, CutShort):
                return  # without an end, so that the server closes what nobody reads, or nobody may take for whole
            except PlacetError as fault:
                _log.warning("a stream was cut short", extra={"code": fault.code, **told_of_round(fault)})
                return  # the same: its reader comes back, and is told as anybody is
            finally:
                await self._pieces.aclose()
            await send({"type": "http.response.body", "body": b"", "more_body": False})

"""An answer that nobody reads holds no place for ever: whoever takes no byte of it for too long is cut off.

The library waits without end for a reader, and so does a connection that it wants to close while bytes are left.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

UNREAD_SECONDS = 30.0
_log = logging.getLogger("placet.serve")


class LetsGoOfUnread(H11Protocol):
    """
    Attributes:
        unread_seconds: how long a client may take nothing of what was written for it. However slowly it reads, it is
            served for as long as it reads.
    """

    unread_seconds: float = UNREAD_SECONDS
    _look: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        # Be told of the first byte that the system does not take. Over TLS the library pauses at the limit itself, so
        # that with none it would pause for nothing, and never go on.
        is_tls = transport.get_extra_info("sslcontext") is not None
        transport.set_write_buffer_limits(high=1 if is_tls else 0, low=0)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._look_later()

    def resume_writing(self) -> None:
        self._look_no_more()
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._look_no_more()
        super().connection_lost(exc)

    def _look_later(self) -> None:
        left: int = self.transport.get_write_buffer_size()
        self._look = self.loop.call_later(self.unread_seconds, self._look_now, left)

    def _look_now(self, before: int) -> None:
        self._look = None
        if self.transport.get_write_buffer_size() < before:
            self._look_later()
        else:
            _log.info("client does not read")
            self.transport.abort()

    def _look_no_more(self) -> None:
        if self._look is not None:
            self._look.cancel()
            self._look = None

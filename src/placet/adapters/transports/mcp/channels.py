"""The ways to a server, seen alike: a request goes out by one, and is given up in that way's own manner.

over            an answer comes             giving up is said by
stdio           by id, on the one line      notifications/cancelled; a late answer may still come
HTTP, older     on its own stream           notifications/cancelled; a late answer may still come
HTTP, newer     on its own stream           closing that stream; nothing comes after it
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Final, Protocol

from placet.adapters.transports.mcp.messages import Message, RequestId, notice

if TYPE_CHECKING:
    from placet.adapters.transports.mcp.stdio import StdioChannel
    from placet.adapters.transports.mcp.streamable import StreamableChannel


class Era(StrEnum):
    """handshake: a session begins with `initialize`. stateless: each request says all, since 2026-07-28."""

    HANDSHAKE = "handshake"
    STATELESS = "stateless"


STATELESS_VERSION: Final = "2026-07-28"
"""The revision since which there are no sessions."""


class Ears(Protocol):
    """Whoever is told what comes."""

    def heard(self, message: Message, related: RequestId | None) -> None: ...

    def failed(self, request_id: RequestId, fault: BaseException) -> None: ...

    def lost(self) -> None: ...

    def retired(self) -> None: ...


class Channel(Protocol):
    """One way to one server."""

    has_headers: bool
    """Whether requests have headers, which have to say what the body says."""

    async def ask(
        self, request_id: RequestId, message: bytes, *, headers: Mapping[str, str], before: Callable[[], None]
    ) -> None:
        """Begin to send a request. `before` is called when its first byte leaves next, and may keep it here by raising.

        Raises:
            SessionGone: nothing left. What `before` raised is raised too, or told to `Ears.failed`.
        """
        ...

    def give_up(self, request_id: RequestId, *, era: Era, reason: str) -> bool:
        """Have the server know that nobody waits any more; whether an answer may come all the same."""
        ...

    def forget(self, request_id: RequestId) -> None:
        """Keep nothing open for its answer."""
        ...

    def add(self, message: bytes) -> None:
        """Send what may be lost."""
        ...

    def reply(self, message: bytes) -> None:
        """Send what the server asked for; it may be lost too, and what it costs is the server's."""
        ...

    def passed_on(self) -> None:
        """What came goes on to a client, which is the server's cost too."""
        ...

    def speaks(self, version: str | None) -> None:
        """From now on, this version of the protocol."""
        ...

    def listens(self, era: Era) -> None:
        """From now on, hear what belongs to no request."""
        ...

    async def close(self) -> None: ...


class OverStdio:
    """Requests to a process."""

    has_headers = False

    def __init__(self, channel: StdioChannel) -> None:
        self._channel = channel

    async def ask(
        self, request_id: RequestId, message: bytes, *, headers: Mapping[str, str], before: Callable[[], None]
    ) -> None:
        await self._channel.say(message, before=before)

    def give_up(self, request_id: RequestId, *, era: Era, reason: str) -> bool:
        self._channel.add(notice("notifications/cancelled", {"requestId": request_id, "reason": reason}))
        return True

    def forget(self, request_id: RequestId) -> None: ...

    def add(self, message: bytes) -> None:
        self._channel.add(message)

    def reply(self, message: bytes) -> None:
        self._channel.reply(message)

    def passed_on(self) -> None:
        self._channel.passed_on()

    def speaks(self, version: str | None) -> None: ...

    def listens(self, era: Era) -> None: ...

    async def close(self) -> None:
        await self._channel.close()


class OverHttp:
    """Requests over streamable HTTP."""

    has_headers = True

    def __init__(self, channel: StreamableChannel) -> None:
        self._channel = channel

    async def ask(
        self, request_id: RequestId, message: bytes, *, headers: Mapping[str, str], before: Callable[[], None]
    ) -> None:
        await self._channel.ask(request_id, message, headers=headers, before=before)

    def give_up(self, request_id: RequestId, *, era: Era, reason: str) -> bool:
        if era is Era.STATELESS:
            self._channel.give_up(request_id)
            return False
        self._channel.add(notice("notifications/cancelled", {"requestId": request_id, "reason": reason}))
        return True

    def forget(self, request_id: RequestId) -> None:
        self._channel.give_up(request_id)

    def add(self, message: bytes) -> None:
        self._channel.add(message)

    def reply(self, message: bytes) -> None:
        self._channel.reply(message)

    def passed_on(self) -> None:
        self._channel.passed_on()

    def speaks(self, version: str | None) -> None:
        self._channel.speaks(version, knows_sessions=version != STATELESS_VERSION)

    def listens(self, era: Era) -> None:
        if era is Era.HANDSHAKE:
            self._channel.listen()

    async def close(self) -> None:
        await self._channel.close()

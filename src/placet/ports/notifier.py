"""Whoever carries an announcement out of this process, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from placet.model.notices import Notice


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivered:
    """The other side has it. `code` is a fixed word, such as `status_200`."""

    code: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NotDelivered:
    """It may be tried again; the other side may have it all the same.

    Attributes:
        retry_after_seconds: how long the other side asks to be left alone; None where it says nothing.
    """

    code: str
    retry_after_seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Gone:
    """The other side says that there is nobody any more, and not to come again."""

    code: str


Sent = Delivered | NotDelivered | Gone


class Notifier(Protocol):
    """Carries messages to one destination, each within bounded time.

    It never raises for the other side, and says nothing of what that wrote: codes are fixed words.
    """

    async def send(self, notice: Notice) -> Sent: ...

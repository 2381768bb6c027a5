"""How much of the event loop one server takes: little, however much it says.

    a turn      a few messages; everybody else has their turn before the next
    a second    so much of what nobody asked for, in all sessions with the server together; then nothing more is read
                for a while, and what it goes on to say waits in its own pipe or connection
    a session   in which that goes on without a pause is lost

Work is not timed but weighed, by what a message costs to read: its bytes, and its marks (members, elements, objects,
arrays), each of which is a value to be made. Source: ADR 0046; issue of MCP upstreams, five servers of which one is
hostile.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

TURN_WEIGHT: Final = 16_384
"""After so much the others have their turn."""
WEIGHT_PER_SECOND: Final = 524_288
"""Of what nobody asked for: some thousand short messages, about a fiftieth of one core."""
BURST_WEIGHT: Final = 2_097_152
"""So much may come at once, after a time in which little came."""
FLOOD_WEIGHT: Final = 16_777_216
"""What one session may say unasked without a pause that makes room for a whole burst again: half a minute of it."""
_PER_MESSAGE: Final = 256
_PER_PIECE: Final = 256
_PER_REQUEST: Final = 16_384
"""What it costs to send a request of our own because the server wants it: a connection, and its TLS, may be new."""
_PER_PASSED_ON: Final = 2_048
"""What it costs to tell a client what came."""
_PER_MARK: Final = 16
_ASKED_FOR: Final = 64
"""An answer that somebody waits for counts as so much less: how many there are is up to those who ask."""
_SKIPPED: Final = 8
"""The same of a stream that nobody asked for and that says nothing."""
_SHORTEST_PAUSE_SECONDS: Final = 0.05
_LONGEST_PAUSE_SECONDS: Final = 1.0


class Attention:
    """What is left for one server, whatever the number of its sessions."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._left, self._seen_at = float(BURST_WEIGHT), now()

    def spend(self, weight: float) -> None:
        self._refill()
        self._left -= weight

    def pause_seconds(self) -> float:
        """How long nothing is to be read; 0.0: read on."""
        if self._left > 0.0:
            return 0.0
        self._refill()
        if self._left > 0.0:
            return 0.0
        return min(_LONGEST_PAUSE_SECONDS, max(_SHORTEST_PAUSE_SECONDS, -self._left / WEIGHT_PER_SECOND))

    def is_rested(self) -> bool:
        """Whether a whole burst may come again."""
        self._refill()
        return self._left >= BURST_WEIGHT

    def _refill(self) -> None:
        now = self._now()
        self._left = min(BURST_WEIGHT, self._left + (now - self._seen_at) * WEIGHT_PER_SECOND)
        self._seen_at = now


class Share:
    """What one session takes of a server's attention."""

    def __init__(self, attention: Attention) -> None:
        self._attention = attention
        self._turn = self._on_end = 0.0

    def answered(self, weight: int) -> None:
        """What somebody waits for was read."""
        self._spend(weight / _ASKED_FOR)
        self._turn += weight - weight / _ASKED_FOR

    def unasked(self, weight: int) -> None:
        """What nobody waits for was read."""
        self._on_end = weight if self._attention.is_rested() else self._on_end + weight
        self._spend(weight)

    def passed_over(self, size: int, *, lines: int = 0) -> None:
        """So many bytes, and ends of lines, were looked at and not read."""
        self._spend(size / _ASKED_FOR + lines * _PER_MARK)

    def came(self, piece: bytes, *, is_asked_for: bool = True) -> None:
        """A piece came, of an answer or of what nobody asked for; next to nothing costs as much as a large one."""
        lines = piece.count(b"\n") + piece.count(b"\r")
        size = len(piece) / (_ASKED_FOR if is_asked_for else _SKIPPED)
        self._spend(_PER_PIECE + size + lines * _PER_MARK)

    def made_us_send(self) -> None:
        """A request of ours goes out because the server asked something, or ended what we listened to."""
        self.unasked(_PER_REQUEST)

    def passed_on(self) -> None:
        """What came goes on to a client."""
        self._spend(_PER_PASSED_ON)

    @property
    def is_flooding(self) -> bool:
        return self._on_end > FLOOD_WEIGHT

    def pause_seconds(self) -> float:
        return self._attention.pause_seconds()

    def has_had_its_turn(self) -> bool:
        """Whether the others are to have theirs now; what comes after that is the next turn."""
        if self._turn < TURN_WEIGHT:
            return False
        self._turn = 0.0
        return True

    def _spend(self, weight: float) -> None:
        self._turn += weight
        self._attention.spend(weight)


def marks(text: bytes | bytearray) -> int:
    """No fewer than the values that it takes to read this; what stands in texts counts too."""
    return text.count(b"{") + text.count(b"[") + text.count(b",")


_TEXT: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL)
"""One that does not end goes on to the end, so that each byte is looked at once."""


def has_more_marks(text: bytes | bytearray, most: int) -> bool:
    """Whether it takes more values than this to read it; what stands in texts does not count."""
    return marks(text) > most and marks(_TEXT.sub(b"", text)) > most


def weight(text: bytes | bytearray) -> int:
    """What it costs to read one message."""
    return _PER_MESSAGE + len(text) + _PER_MARK * marks(text)

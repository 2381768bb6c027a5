"""Server-sent events out of bytes, with a bound on each. Source: WHATWG HTML, section 9.2 (server-sent events)."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

from placet.adapters.transports.mcp.faults import AnswerTooLarge

_BOM = b"\xef\xbb\xbf"
_ENDS_A_LINE: Final = re.compile(rb"\r\n|\r|\n")


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One event.

    Attributes:
        id: that of the last event that had one; None before.
        retry_seconds: how long whoever is cut off is asked to wait, where this event says so.
    """

    kind: str
    data: bytes = field(repr=False)
    id: str | None
    retry_seconds: float | None


class EventReader:
    """Reads one stream. What a piece costs goes by its own length, however long the line is that it is part of."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._rest = bytearray()
        self._is_first = True
        self._ended_in_cr = False
        self._data: list[bytes] = []
        self._size = 0
        self._kind = "message"
        self._id: str | None = None
        self._retry: float | None = None

    def read(self, piece: bytes) -> list[Event]:
        """The events that end in this piece.

        Raises:
            AnswerTooLarge: one is larger than what is read.
        """
        if not piece:
            return []
        found: list[Event] = []
        begin = 1 if self._ended_in_cr and piece.startswith(b"\n") else 0  # that line feed ends no other line
        for ending in _ENDS_A_LINE.finditer(piece, begin):
            self._rest += piece[begin : ending.start()]
            begin = ending.end()
            if (event := self._line(self._ended())) is not None:
                found.append(event)
        self._rest += piece[begin:]
        self._ended_in_cr = piece.endswith(b"\r")
        if self._size + len(self._rest) > self._most_bytes:
            raise AnswerTooLarge
        return found

    def _ended(self) -> bytes:
        """The line that has come to its end; whatever a mark of the byte order says is not heard."""
        line, self._rest = bytes(self._rest), bytearray()
        if self._is_first:
            self._is_first = False
            return line.removeprefix(_BOM)
        return line

    def _line(self, line: bytes) -> Event | None:
        if not line:
            return self._end()
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        match name:
            case b"data":
                self._size += len(value) + 1
                if self._size > self._most_bytes:
                    raise AnswerTooLarge
                self._data.append(value)
            case b"event":
                self._kind = value[:64].decode("utf-8", "replace")
            case b"id" if b"\0" not in value and len(value) <= 1_024:
                self._id = value.decode("latin-1")
            case b"retry" if value.isdigit() and len(value) <= 9:
                self._retry = int(value) / 1000.0
        return None

    def _end(self) -> Event | None:
        data, kind, retry = b"\n".join(self._data), self._kind, self._retry
        has_any = bool(self._data) or retry is not None
        self._data, self._size, self._kind, self._retry = [], 0, "message", None
        return Event(kind=kind, data=data, id=self._id, retry_seconds=retry) if has_any else None

"""How many sessions each client of the older revisions holds open. The SDK bounds those of everybody together, so that
one client could take them all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from placet.ports.clock import Clock


@dataclass(slots=True)
class _Open:
    owner: str
    last_used: float
    in_flight: int = 0


class Sessions:
    """The open sessions of one door, counted by whose they are. What was idle for long has ended."""

    def __init__(self, *, clock: Clock, max_each: int, idle_seconds: float) -> None:
        self._clock = clock
        self._most = max_each
        self._idle_seconds = idle_seconds
        self._open: dict[str, _Open] = {}
        self._of: Counter[str] = Counter()

    def has_room(self, owner: str) -> bool:
        """Whether this one may open another."""
        if self._of[owner] >= self._most:
            self._end_idle()
        return self._of[owner] < self._most

    @contextmanager
    def opening(self, owner: str) -> Iterator[bool]:
        """Whether this one may open another; it counts as open while the block lasts, since many may come at once."""
        has_room = self.has_room(owner)
        if has_room:
            self._of[owner] += 1
        try:
            yield has_room
        finally:
            if has_room:
                self._left(owner)

    def opened(self, session: str, owner: str) -> None:
        if session not in self._open:
            self._open[session] = _Open(owner, self._clock.monotonic())
            self._of[owner] += 1

    def begun(self, session: str) -> None:
        """A request in it has begun."""
        if (found := self._open.get(session)) is not None:
            found.in_flight += 1

    def done(self, session: str) -> None:
        if (found := self._open.get(session)) is not None:
            found.in_flight -= 1
            found.last_used = self._clock.monotonic()

    def ended(self, session: str) -> None:
        if (found := self._open.pop(session, None)) is not None:
            self._left(found.owner)

    def _left(self, owner: str) -> None:
        self._of[owner] -= 1
        if not self._of[owner]:
            del self._of[owner]

    def _end_idle(self) -> None:
        until = self._clock.monotonic() - self._idle_seconds
        for name in [name for name, each in self._open.items() if not each.in_flight and each.last_used < until]:
            self.ended(name)

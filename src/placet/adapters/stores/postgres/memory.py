"""What one process remembers of rows, to decide without reading them first. Whatever is wrong in it is found out.

It is a guess, never a truth: the database compares every row that a decision used, and refuses the batch if one has
changed. It is emptied whenever the connection is lost, as the rows' versions may then be another server's.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Generic, TypeVar

from placet.model.approval import Approval
from placet.model.effect import Effect
from placet.model.ledger import Place
from placet.model.run import Run

Key = TypeVar("Key")
Value = TypeVar("Value")
Mark = int
"""The transaction that wrote a row: its version."""

_MOST = 10_000


class Recent(Generic[Key, Value]):
    """The newest entries, so many at most."""

    def __init__(self, most: int = _MOST) -> None:
        self._entries: OrderedDict[Key, Value] = OrderedDict()
        self._most = most

    def get(self, key: Key) -> Value | None:
        return self._entries.get(key)

    def put(self, key: Key, value: Value) -> None:
        self._entries[key] = value
        self._entries.move_to_end(key)
        if len(self._entries) > self._most:
            self._entries.popitem(last=False)

    def __contains__(self, key: Key) -> bool:
        return key in self._entries

    def drop(self, key: Key) -> None:
        self._entries.pop(key, None)

    def clear(self) -> None:
        self._entries.clear()


class Memory:
    """Rows that this process has written or read lately, with their versions. Used in one thread."""

    def __init__(self) -> None:
        self.effects: Recent[tuple[str, str], tuple[Effect, Mark]] = Recent()
        self.approvals: Recent[tuple[str, str], tuple[Approval, Mark]] = Recent()
        self.runs: Recent[tuple[str, str], Run] = Recent()
        self.denials: Recent[tuple[str, str, str], int] = Recent()
        self.reads: Recent[Place, None] = Recent()
        self.stops: tuple[str, ...] | None = None
        self.key_check: str | None = None

    def see_effect(self, key: tuple[str, str], effect: Effect, mark: Mark) -> None:
        """A row as somebody read it, unless what is remembered is newer."""
        known = self.effects.get(key)
        if known is None or _is_newer(mark, known[1]):
            self.effects.put(key, (effect, mark))

    def see_approval(self, key: tuple[str, str], approval: Approval, mark: Mark) -> None:
        known = self.approvals.get(key)
        if known is None or _is_newer(mark, known[1]):
            self.approvals.put(key, (approval, mark))

    def clear(self) -> None:
        for each in (self.effects, self.approvals, self.runs, self.denials, self.reads):
            each.clear()
        self.stops = None
        self.key_check = None


def _is_newer(mark: Mark, known: Mark) -> bool:
    """Of two transactions; their numbers go round in 32 bits."""
    return 0 < (mark - known) % 2**32 < 2**31

"""What one process remembers of rows, to decide without reading them first. Whatever is wrong in it is found out.

It is a guess, never a truth: the database compares every row that a decision used, and refuses the batch if one has
changed. It is emptied whenever the connection is lost, as the rows' versions may then be another server's.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
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
_MOST_BYTES = 32 * 1024 * 1024


class Recent(Generic[Key, Value]):
    """The newest entries, so many at most, and together of so many bytes at most, where somebody weighs them."""

    def __init__(self, weigh: Callable[[Value], int] = lambda value: 0) -> None:
        self._entries: OrderedDict[Key, Value] = OrderedDict()
        self._weigh = weigh
        self._bytes = 0

    def get(self, key: Key) -> Value | None:
        return self._entries.get(key)

    def put(self, key: Key, value: Value) -> None:
        self.drop(key)
        self._entries[key] = value
        self._bytes += self._weigh(value)
        while len(self._entries) > _MOST or self._bytes > _MOST_BYTES:
            self._bytes -= self._weigh(self._entries.popitem(last=False)[1])

    def __contains__(self, key: Key) -> bool:
        return key in self._entries

    def drop(self, key: Key) -> None:
        if key in self._entries:
            self._bytes -= self._weigh(self._entries.pop(key))

    def clear(self) -> None:
        self._entries.clear()
        self._bytes = 0


class Memory:
    """Rows that this process has written or read lately, with their versions. Used in one thread."""

    def __init__(self) -> None:
        self.effects: Recent[tuple[str, str], tuple[Effect, Mark]] = Recent(_effect_bytes)
        self.approvals: Recent[tuple[str, str], tuple[Approval, Mark]] = Recent(_approval_bytes)
        self.runs: Recent[tuple[str, str], Run] = Recent()
        self.denials: Recent[tuple[str, str, str], int] = Recent()
        self.tallies: Recent[tuple[str, str, str], int] = Recent()
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
        for each in (self.effects, self.approvals, self.runs, self.denials, self.tallies, self.reads):
            each.clear()
        self.stops = None
        self.key_check = None


def _effect_bytes(seen: tuple[Effect, Mark]) -> int:
    """What a contract lets be large; the rest of a row is counted by its number."""
    effect, _ = seen
    return len(effect.sealed_arguments) + len(effect.sealed_result or b"")


def _approval_bytes(seen: tuple[Approval, Mark]) -> int:
    return len(seen[0].question.sealed_arguments)


def _is_newer(mark: Mark, known: Mark) -> bool:
    """Of two transactions; their numbers go round in 32 bits."""
    return 0 < (mark - known) % 2**32 < 2**31

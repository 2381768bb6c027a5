"""What a round of recovery works on: rows that wait, taken in turns, and faults that wait until the round is over."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Hashable
from typing import Any, Generic, TypeVar

from placet.engine.faults import told
from placet.model.effect import BrokenEffect

_log = logging.getLogger("placet.reconciler")

_BATCH = 100
_LISTED = 1000
"""Rows listed to choose a batch from, so that one tenant's many do not keep another's few waiting for rounds."""

Row = TypeVar("Row")
Value = TypeVar("Value")


class RowQueue(Generic[Row]):
    """Rows of one kind that wait for this process. The store lists the oldest first; what failed here comes last.

    Rows that are not wanted, and those that fail for ever, stay in the store's list: the list is read further until a
    batch of others is found. Owners take turns, so that one with many rows does not push another's out of the batch.
    """

    def __init__(
        self,
        listed: Callable[[int], Awaitable[tuple[Row | BrokenEffect, ...]]],
        name: Callable[[Row], Hashable],
        whose: Callable[[Row], str],
        *,
        is_wanted: Callable[[Row], bool] = lambda row: True,
    ) -> None:
        self._listed = listed
        self._name = name
        self._whose = whose
        self._is_wanted = is_wanted
        self._failed: set[Hashable] = set()

    async def batch(self) -> list[Row]:
        limit = _LISTED
        while True:
            found = await self._listed(limit)
            wanted = [row for row in found if not isinstance(row, BrokenEffect) and self._wants(row)]
            fresh = [row for row in wanted if self._name(row) not in self._failed]
            if is_all := len(found) < limit:
                self._failed.intersection_update([self._name(row) for row in wanted])
            if is_all or len(fresh) >= _BATCH:
                again = [row for row in wanted if self._name(row) in self._failed]
                return [*self._in_turns(fresh), *again][:_BATCH]
            limit *= 4

    def past_faults(self, row: Row) -> PastFaults:
        """A block that ends quietly if the row makes it fail; the row then comes last."""
        return PastFaults(lambda: self.put_last(row))

    def put_last(self, row: Row) -> None:
        self._failed.add(self._name(row))

    def _wants(self, row: Row) -> bool:
        try:
            return self._is_wanted(row)
        except Exception as fault:
            _log.warning("a row was left alone", extra=told(fault))
            return False

    def _in_turns(self, rows: list[Row]) -> list[Row]:
        turns: Counter[str] = Counter()
        ranked: list[tuple[int, Row]] = []
        for row in rows:
            whose = self._whose(row)
            ranked.append((turns[whose], row))
            turns[whose] += 1
        return [row for _, row in sorted(ranked, key=lambda pair: pair[0])]


class PastFaults:
    def __init__(self, put_last: Callable[[], None]) -> None:
        self._put_last = put_last

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, fault: BaseException | None, trace: object) -> bool:
        if not isinstance(fault, Exception):
            return False
        self._put_last()
        _log.warning("a row could not be looked after", extra=told(fault))
        return True


async def noted(work: Coroutine[Any, Any, Value], faults: list[Exception], otherwise: Value) -> Value:
    """One part of a round, whose fault waits until the others are done."""
    try:
        return await work
    except Exception as fault:
        faults.append(fault)
        return otherwise

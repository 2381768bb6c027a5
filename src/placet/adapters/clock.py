"""The one place that reads the machine's time and chance."""

from __future__ import annotations

import asyncio
import random
import re
import secrets
import time
from collections import deque
from contextlib import suppress
from datetime import UTC, datetime, timezone
from math import inf, isfinite
from zoneinfo import ZoneInfo

from placet.errors import BoundaryUnavailable
from placet.ports.clock import Clock, IdSource
from placet.ports.waiting import one_turn, raise_owed_cancellation

_STEADY: int | None = getattr(time, "CLOCK_BOOTTIME", None)
"""On Linux the ordinary monotonic clock stands still while the host sleeps; deadlines must not."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}")
_REMEMBERED = 10_000
"""Names of a foreign source that are held against its next one."""


class SystemClock:
    """This host's clocks."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.clock_gettime(_STEADY) if _STEADY is not None else time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class GuardedClock:
    """A clock somebody else made. Whatever it does instead of telling the time is a refusal without its text.

    `monotonic` answers infinity instead, at which every deadline has passed. Source: REQUIREMENTS B054, B069.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def now(self) -> datetime:
        with suppress(BaseException):
            instant = self._clock.now()
            if type(instant) is datetime and (type(instant.tzinfo) is timezone or type(instant.tzinfo) is ZoneInfo):
                return instant.astimezone(UTC)
        raise _failed()

    def monotonic(self) -> float:
        with suppress(BaseException):
            seconds: object = self._clock.monotonic()
            if (type(seconds) is float or type(seconds) is int) and isfinite(seconds):
                return float(seconds)
        return inf

    async def sleep(self, seconds: float) -> None:
        await raise_owed_cancellation()
        task = asyncio.current_task()
        before = task.cancelling() if task is not None else 0
        try:
            await self._clock.sleep(seconds)
            await one_turn()  # a sleep that takes no time must still let others run
            return
        except BaseException:
            if task is not None and task.cancelling() > before:
                raise  # the caller was cancelled; anything else is the clock's own doing
        raise _failed()


def _failed() -> BoundaryUnavailable:
    return BoundaryUnavailable("The clock cannot be read.", code="clock_failed")


class GuardedIds:
    """Names and chance somebody else made. Whatever it gives instead of a fresh name or a number, ours is taken.

    A name that came before is not fresh: two claims under one token would each be told that the row is theirs.
    """

    def __init__(self, ids: IdSource) -> None:
        self._ids = ids
        self._own = RandomIds()
        self._given: deque[str] = deque()
        self._known: set[str] = set()

    def new_id(self, prefix: str) -> str:
        with suppress(BaseException):
            name: object = self._ids.new_id(prefix)
            if type(name) is str and _NAME.fullmatch(name) and self._is_fresh(name):
                return name
        return self._own.new_id(prefix)

    def fraction(self) -> float:
        with suppress(BaseException):
            number: object = self._ids.fraction()
            if type(number) is float and 0.0 <= number < 1.0:
                return number
        return self._own.fraction()

    def _is_fresh(self, name: str) -> bool:
        if name in self._known:
            return False
        self._known.add(name)
        self._given.append(name)
        if len(self._given) > _REMEMBERED:
            self._known.discard(self._given.popleft())
        return True


class RandomIds:
    """Names from the operating system's randomness; chance for jitter from an ordinary generator."""

    def __init__(self) -> None:
        self._random = random.Random()

    def new_id(self, prefix: str) -> str:
        return f"{prefix}-{secrets.token_hex(12)}"

    def fraction(self) -> float:
        return self._random.random()

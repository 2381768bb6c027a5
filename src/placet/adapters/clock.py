"""The one place that reads the machine's time and chance."""

from __future__ import annotations

import asyncio
import random
import secrets
import time
from datetime import UTC, datetime


class SystemClock:
    """This host's clocks."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class RandomIds:
    """Names from the operating system's randomness; chance for jitter from an ordinary generator."""

    def __init__(self) -> None:
        self._random = random.Random()

    def new_id(self, prefix: str) -> str:
        return f"{prefix}-{secrets.token_hex(12)}"

    def fraction(self) -> float:
        return self._random.random()

"""Small real implementations of the ports that a test wants to own."""

from __future__ import annotations

import asyncio
import random
from datetime import UTC, datetime, timedelta


class FakeClock:
    """Time that moves only when told, or when somebody sleeps: a sleep takes no time and moves both clocks."""

    def __init__(self, start: datetime | None = None) -> None:
        self._now = start or datetime(2026, 1, 1, tzinfo=UTC)
        self._monotonic = 0.0
        self.slept: list[float] = []

    def now(self) -> datetime:
        return self._now

    def monotonic(self) -> float:
        return self._monotonic

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.advance(seconds)
        await asyncio.sleep(0)

    def advance(self, seconds: float) -> None:
        self._now += timedelta(seconds=seconds)
        self._monotonic += seconds


class SeededIds:
    """The same names and the same chance in every run."""

    def __init__(self, seed: int = 0) -> None:
        self._random = random.Random(seed)
        self._count = 0

    def new_id(self, prefix: str) -> str:
        self._count += 1
        return f"{prefix}-{self._count:06d}"

    def fraction(self) -> float:
        return self._random.random()


class RecordingMeter:
    """Keeps every number, by the name of the meter's method."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, dict[str, object]]] = []

    def attempt_completed(self, *, tool: str, outcome: str, seconds: float) -> None:
        self.heard.append(("attempt_completed", {"tool": tool, "outcome": outcome, "seconds": seconds}))

    def decided(self, *, decision: str) -> None:
        self.heard.append(("decided", {"decision": decision}))

    def effect_settled(self, *, state: str) -> None:
        self.heard.append(("effect_settled", {"state": state}))

    def approvals_pending(self, count: int) -> None:
        self.heard.append(("approvals_pending", {"count": count}))

    def committed(self, *, operations: int, seconds: float) -> None:
        self.heard.append(("committed", {"operations": operations, "seconds": seconds}))

    def stray_threads(self, count: int) -> None:
        self.heard.append(("stray_threads", {"count": count}))

    def effects_unknown(self, count: int, oldest_seconds: float) -> None:
        self.heard.append(("effects_unknown", {"count": count, "oldest_seconds": oldest_seconds}))

    def sink_failed(self, *, sink: str) -> None:
        self.heard.append(("sink_failed", {"sink": sink}))

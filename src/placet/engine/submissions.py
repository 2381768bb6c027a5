"""Who is inside the gate, and the end of being so."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from placet.errors import MisuseError

_LEAST_PATIENCE_SECONDS = 0.5
_ENDING_SECONDS = 10.0
"""How long cancelled submissions may take to close their attempts and settle; the store's own waiting fits in."""


class Submissions:
    """Who is inside. Once it closes nobody comes in, and whoever does not leave in time is cancelled."""

    def __init__(self, *, grace_seconds: float) -> None:
        self._patience_seconds = max(_LEAST_PATIENCE_SECONDS, grace_seconds)
        self._inside: set[asyncio.Task[Any]] = set()
        self._left = asyncio.Event()
        self._is_closed = False
        self._process = os.getpid()

    @contextmanager
    def entered(self) -> Iterator[None]:
        """The current task is inside for as long as this lasts.

        Raises:
            MisuseError: the gate is closed, or another process's.
        """
        if self._is_closed:
            raise MisuseError("The gate is closed.", hint="Open another with placet.open.")
        if os.getpid() != self._process:
            raise MisuseError("The gate belongs to another process: open a gate after the fork.")
        task = asyncio.current_task()
        if task is None or task in self._inside:
            yield
            return
        self._inside.add(task)
        try:
            yield
        finally:
            self._inside.discard(task)
            self._left.set()

    async def close(self) -> None:
        """Let nobody in; wait a while for those inside, then cancel them and wait until their attempts are settled."""
        self._is_closed = True
        await self._emptied(self._patience_seconds)
        for task in self._inside:
            task.cancel()
        await self._emptied(self._patience_seconds + _ENDING_SECONDS)

    async def _emptied(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self._inside:
                    self._left.clear()
                    await self._left.wait()

"""What a running attempt says of how far it is: who hears it, how often, and how long it may say nothing.

    handler: context.progress(3, 10, "words") ──► not silent ──► few enough? ──► the caller's own function
                                                     │
    contract.silence_seconds without a word ─────────┴──► the attempt ends as at its deadline, which never moves

It may be said from any thread. None of it is on record, in a log or in a metric. Source: CASES I08.
"""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from math import isfinite

from placet.errors import PlacetError
from placet.model.call import Call
from placet.model.call_progress import CallProgress, ProgressListener
from placet.ports.clock import Clock
from placet.rules.call_progress import Allowance, number_of, words_of


class Progressing:
    """The words of one attempt, until it is over.

    Args:
        listener: whoever made the call; None where nobody wants to hear of it.
    """

    def __init__(self, call: Call, *, attempt: int, listener: ProgressListener | None, clock: Clock) -> None:
        self._call = call
        self._attempt = attempt
        self._listener = listener
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._one_at_a_time = threading.Lock()
        self._last_word = clock.monotonic()
        self._allowance = Allowance(self._last_word)

    def said(self, done: object, total: object, message: object) -> None:
        """Never raises: a handler that misreports has not failed."""
        number = number_of(done)
        if number is None:
            return
        now = self._clock.monotonic()
        if isfinite(now):  # a clock that fails says that every deadline has passed, not that a word was said then
            self._last_word = now
        if self._listener is None:
            return
        with self._one_at_a_time:
            if not self._allowance.takes_one(now):
                return
        word = CallProgress(
            call_id=self._call.reply_to,
            tool=self._call.contract.name,
            attempt=self._attempt,
            done=number,
            total=number_of(total),
            message=words_of(message),
        )
        if threading.get_ident() == self._thread:
            self._tell(word)
        else:
            with suppress(RuntimeError):  # the loop is gone, and whoever listened with it
                self._loop.call_soon_threadsafe(self._tell, word)

    def _tell(self, word: CallProgress) -> None:
        if self._listener is not None:
            with suppress(Exception):
                self._listener(word)

    async def fallen_silent(self, seconds: float) -> None:
        """Return once nothing was said for so long; also where the clock fails, as every deadline then has passed."""
        with suppress(PlacetError):
            while (left := self._last_word + seconds - self._clock.monotonic()) > 0.0:
                await self._clock.sleep(left)

    def over(self) -> None:
        """The attempt has ended: a thread that goes on is not heard any more."""
        self._listener = None

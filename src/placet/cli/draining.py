"""What a command does when it is told to end by SIGTERM: take nothing more, let what runs end within a limit, and go.

What has not ended by then is left as a killed process leaves it. A second SIGTERM kills at once, as does one that comes
before the command has begun or while it closes.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from placet.cli import streams
from placet.cli.failing import UsageProblem
from placet.cli.table import Exit
from placet.model.exact import is_seconds

DRAIN_SECONDS = 25.0
"""Less than the half minute after which most supervisors kill."""
DrainSeconds = Annotated[
    float,
    typer.Option("--drain-seconds", metavar="SECONDS", help="How long what runs may take to end after SIGTERM."),
]
"""The option of every command that ends so."""


def drain_seconds(said: float) -> float:
    """The value of --drain-seconds.

    Raises:
        UsageProblem: it is no finite number above zero.
    """
    if is_seconds(said):
        return said
    raise UsageProblem("--drain-seconds is a finite number above zero")


@contextmanager
def draining(drain: Callable[[], Awaitable[bool]], *, when_left: Callable[[], None], code: Exit) -> Iterator[None]:
    """While this lasts, SIGTERM begins the drain.

    Args:
        drain: takes nothing more and waits within its limit; whether everything has ended.
        when_left: tells, on standard error, what was left.
        code: what the process then ends with, there and then: nobody waits for what does not end.
    """
    loop = asyncio.get_running_loop()
    begun: list[asyncio.Task[None]] = []

    async def end() -> None:
        if await drain():
            return
        when_left()
        streams.end_now(int(code))

    def told_to_end() -> None:
        if begun:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGTERM)
        begun.append(loop.create_task(end()))

    loop.add_signal_handler(signal.SIGTERM, told_to_end)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGTERM)

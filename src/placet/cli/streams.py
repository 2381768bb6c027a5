"""The three standard streams when they are not what a program expects: closed, full, or read by nobody any more.

What a command did stands, whether or not its output arrives; so losing the output is a failure of its own, which is
told on standard error, and never on the stream that failed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterable
from contextlib import suppress
from typing import NoReturn, TextIO


class OutputLost(Exception):
    """Standard output could not be written.

    Attributes:
        is_pipe: whether whoever read it has gone, which is how a reader says "enough".
    """

    def __init__(self, *, is_pipe: bool) -> None:
        super().__init__()
        self.is_pipe = is_pipe


def fill_closed() -> None:
    """Give closed streams a place, so that no file that is opened later takes theirs; writing to it still fails."""
    if sys.stdin is None:
        sys.stdin = open(os.open(os.devnull, os.O_RDONLY), encoding="utf-8")  # noqa: SIM115  # as long as the process
    if sys.stdout is None:
        sys.stdout = open(os.open(os.devnull, os.O_RDONLY), "w", encoding="utf-8")  # noqa: SIM115  # the same
    if sys.stderr is None:
        sys.stderr = open(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8")  # noqa: SIM115  # the same


def put(text: str, out: TextIO | None = None) -> None:
    """Write to standard output; `out` is the one that was there before a handler's prints were sent elsewhere.

    Raises:
        OutputLost: it could not be written.
    """
    try:
        (out or sys.stdout).write(text)
        return
    except OSError as error:
        lost = OutputLost(is_pipe=isinstance(error, BrokenPipeError))
    raise lost


async def put_lines(lines: AsyncIterable[bytes]) -> None:
    """Write bytes as they come, and let them go. Raises what `put` raises, and what making them raises."""
    flush()
    async for line in lines:
        _put_bytes(line)
    flush()


def _put_bytes(line: bytes) -> None:
    try:
        sys.stdout.buffer.write(line)
        return
    except OSError as error:
        lost = OutputLost(is_pipe=isinstance(error, BrokenPipeError))
    raise lost


def flush(out: TextIO | None = None) -> None:
    """Let whoever reads along see what was written so far. Raises what `put` raises."""
    try:
        (out or sys.stdout).flush()
        return
    except OSError as error:
        lost = OutputLost(is_pipe=isinstance(error, BrokenPipeError))
    raise lost


def abandon() -> None:
    """Throw away what cannot be written, or the interpreter complains of it at its end."""
    place = os.open(os.devnull, os.O_WRONLY)
    os.dup2(place, sys.stdout.fileno())
    os.close(place)


def say(line: str) -> None:
    """Write a line to standard error. If that fails there is nobody left to tell."""
    try:
        sys.stderr.write(line + "\n")
        sys.stderr.flush()
    except OSError:
        place = os.open(os.devnull, os.O_WRONLY)
        os.dup2(place, sys.stderr.fileno())
        os.close(place)


def print_all(text: str) -> int:
    """Write a text of our own and nothing else; the exit code."""
    fill_closed()
    try:
        put(text)
        flush()
        return 0
    except OutputLost as lost:
        abandon()
        if not lost.is_pipe:
            say("placet: The output could not be written.")
        return 1


def end_now(code: int) -> NoReturn:
    """End the process without waiting for anything that still runs in it."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)

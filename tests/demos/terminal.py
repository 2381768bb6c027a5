"""A demo as a person has it before it: a process at a terminal of its own."""

from __future__ import annotations

import os
import pty
import select
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager


class Terminal:
    """A demo at a terminal: what it printed, and a keyboard."""

    def __init__(self, process: subprocess.Popen[bytes], descriptor: int) -> None:
        self.process = process
        self.printed = ""
        self._descriptor = descriptor

    def wait_for(self, text: str, *, times: int = 1) -> None:
        while self.printed.count(text) < times and self._read():
            pass
        assert self.printed.count(text) >= times, self.printed

    def type(self, text: str) -> None:
        os.write(self._descriptor, text.encode())

    def end(self) -> int:
        while self._read():
            pass
        return self.process.wait(30)

    def _read(self) -> bool:
        ready, _, _ = select.select([self._descriptor], [], [], 30)
        try:
            part = os.read(self._descriptor, 65_536) if ready else b""
        except OSError:  # on Linux the end of a terminal is an error
            part = b""
        self.printed += part.decode()
        return bool(part)


@contextmanager
def at_a_terminal(environment: dict[str, str], *command: str) -> Iterator[Terminal]:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        command, env=environment, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
    )
    os.close(theirs)
    try:
        yield Terminal(process, ours)
    finally:
        process.kill()
        process.wait()
        os.close(ours)

"""A process that has loaded everything once and forks workers, so that a thousand lives cost no thousand starts.

It reads orders as JSON lines on standard input, `{"live": {…}}` and `{"signal": number, "process": pid}`, and tells on
standard output who was born, `{"born": pid, "life": number}`, and who ended, `{"ended": pid, "status": status}`.
Only processes that it has not yet buried are sent signals. When its input ends, all its children end with it.
"""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import os
import selectors
import signal
import sys
from typing import Any

from placet.proof.chaos.plan import Life
from placet.proof.chaos.worker import live, warm_up


class Zygote:
    """Forks, signals and buries. Runs no thread, so a fork copies a process that is whole."""

    def __init__(self) -> None:
        self._children: set[int] = set()
        self._rest = b""

    def run(self) -> None:
        woken, waker = os.pipe()
        os.set_blocking(waker, False)
        os.set_blocking(woken, False)
        signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        with selectors.DefaultSelector() as selector:
            selector.register(0, selectors.EVENT_READ)
            selector.register(woken, selectors.EVENT_READ)
            is_open = True
            while is_open:
                for key, _ in selector.select():
                    if key.fd == woken:
                        os.read(woken, 65_536)
                        self._bury()
                    else:
                        is_open = self._hear()
        self._end_all()

    def _hear(self) -> bool:
        said = os.read(0, 65_536)
        *lines, self._rest = (self._rest + said).split(b"\n")
        for line in lines:
            self._obey(json.loads(line))
        return bool(said)

    def _obey(self, order: dict[str, Any]) -> None:
        match order:
            case {"live": dict(data)}:
                life = Life(**{**data, "open": tuple(data["open"])})
                self._tell(born=self._fork(life), life=life.number)
            case {"signal": int(number), "process": int(process)} if process in self._children:
                os.kill(process, number)
            case _:
                pass  # it has ended meanwhile

    def _fork(self, life: Life) -> int:
        child = os.fork()
        if child:
            self._children.add(child)
            return child
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            nowhere = os.open(os.devnull, os.O_RDWR)
            for descriptor in (0, 1):
                os.dup2(nowhere, descriptor)
            live(life)
        finally:
            os._exit(1)

    def _bury(self) -> None:
        for child in tuple(self._children):
            found, status = os.waitpid(child, os.WNOHANG)
            if found:
                self._children.discard(child)
                self._tell(ended=child, status=os.waitstatus_to_exitcode(status))

    def _end_all(self) -> None:
        for child in self._children:
            os.kill(child, signal.SIGKILL)
        for child in self._children:
            os.waitpid(child, 0)

    def _tell(self, **facts: Any) -> None:
        sys.stdout.write(json.dumps(facts) + "\n")
        sys.stdout.flush()


def main() -> None:
    """Do once what every life would do first: what is loaded and derived by then need not be again."""
    logging.getLogger("placet").addHandler(logging.NullHandler())  # what dying workers warn of is no news here
    asyncio.run(warm_up())
    gc.collect()
    gc.freeze()
    Zygote().run()


if __name__ == "__main__":
    main()

"""`placet` in processes of their own, without the start of an interpreter in each: one that has loaded it forks.

A command has its own process, folder, environment, arguments, pipes and exit code, and ends as any Python program does.
Shared is what happens before the first line of placet: whoever tests that, or a terminal, starts Python itself.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import runpy
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages

from pydantic import create_model

_MOST_BYTES = 100_000
"""Of one request, which is one datagram."""
_OWN = ("PLACET_", "API_", "HOOK_")
"""Variables that nobody reads before placet begins."""
_LOADED = ("apsw", "pydantic", "rich.console", "rich.table", "typer.core")
_PACKAGES = (
    "adapters.sinks",
    "adapters.stores",
    "adapters.telemetry",
    "adapters.transports",
    "bootstrap",
    "cli",
    "rules",
)


@dataclass(frozen=True)
class Said:
    """How one command ended. A negative code is the number of the signal that ended it."""

    code: int
    out: bytes
    err: bytes


class Interpreter:
    """A process that forks one process for each command. It is started with the first, and ends with its starter."""

    def __init__(self) -> None:
        self._environment: dict[str, str] = {}
        self._channel: socket.socket | None = None
        self._busy = threading.Lock()

    def run(
        self, words: tuple[str, ...], folder: Path, environment: dict[str, str], stdin: bytes, *, timeout: float
    ) -> Said | None:
        """None where Python has to be started: its environment may mean something to Python itself, or another
        command is still at work.

        Raises:
            TimeoutExpired: it did not end; it has been killed.
        """
        request = json.dumps([str(folder), words, environment]).encode()
        if len(request) > _MOST_BYTES or not self._busy.acquire(blocking=False):
            return None
        try:
            channel = self._channel = self._channel or self._started(environment)
            changed = {name for name, value in environment.items() if self._environment.get(name) != value}
            if any(not name.startswith(_OWN) for name in changed):
                return None
            return _run(channel, request, stdin, timeout)
        finally:
            self._busy.release()

    def _started(self, environment: dict[str, str]) -> socket.socket:
        self._environment = {name: value for name, value in environment.items() if not name.startswith(_OWN)}
        here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with there:
            process = subprocess.Popen(  # its streams are pipes, as those of each command will be
                [sys.executable, __file__, str(there.fileno())], env=self._environment, pass_fds=[there.fileno()],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            )  # fmt: skip
        atexit.register(_ended, process, here)
        return here


def _ended(process: subprocess.Popen[bytes], channel: socket.socket) -> None:
    channel.close()
    process.communicate()


def _run(channel: socket.socket, request: bytes, stdin: bytes, timeout: float) -> Said:
    (their_in, our_in), (our_out, their_out), (our_err, their_err) = os.pipe(), os.pipe(), os.pipe()
    socket.send_fds(channel, [request], [their_in, their_out, their_err])
    for each in (their_in, their_out, their_err):
        os.close(each)
    process = int(_answer(channel))
    said = _talked(our_in, our_out, our_err, stdin, time.monotonic() + timeout)
    if said is None:
        os.kill(process, signal.SIGKILL)
    code = int(_answer(channel))
    if said is None:
        raise subprocess.TimeoutExpired(request, timeout)
    return Said(code, *said)


def _answer(channel: socket.socket) -> bytes:
    answer = channel.recv(64)
    assert answer, "the process that forks has ended"
    return answer


def _talked(given: int, out: int, err: int, stdin: bytes, until: float) -> tuple[bytes, bytes] | None:
    """What was said on both pipes until their ends; none if that took too long."""
    said = {out: b"", err: b""}
    with selectors.DefaultSelector() as waiting:
        os.set_blocking(given, False)
        waiting.register(given, selectors.EVENT_WRITE)
        for each in said:
            waiting.register(each, selectors.EVENT_READ)
        while waiting.get_map():
            ready = waiting.select(max(0.0, until - time.monotonic()))
            for key, _ in ready:
                if key.fd == given:
                    with suppress(BrokenPipeError):
                        stdin = stdin[os.write(given, stdin) :] if stdin else b""
                        if stdin:
                            continue
                elif piece := os.read(key.fd, 65_536):
                    said[key.fd] += piece
                    continue
                waiting.unregister(key.fd)
                os.close(key.fd)
            if not ready:
                for key in list(waiting.get_map().values()):
                    os.close(key.fd)
                return None
    return said[out], said[err]


# ---------------------------------------------------------------- in the process that forks


def _serve(channel: socket.socket) -> None:
    """Answers each request with the number of its process, and with its exit code. Returns in the forked process."""
    while True:
        request, pipes, _, _ = socket.recv_fds(channel, _MOST_BYTES, 3)
        if not request:
            os._exit(0)
        process = os.fork()
        if process == 0:
            channel.close()
            _become(*json.loads(request), pipes)
            return
        for each in pipes:
            os.close(each)
        channel.send(str(process).encode())
        channel.send(str(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])).encode())


def _become(folder: str, words: list[str], environment: dict[str, str], pipes: list[int]) -> None:
    for number, each in enumerate(pipes):
        os.dup2(each, number)
        os.close(each)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.path[0] = folder
    sys.argv[1:] = words


def _load() -> None:
    """What commands load, each when it comes to it."""
    packages = (import_module(f"placet.{name}") for name in _PACKAGES)
    found = (each.name for package in packages for each in walk_packages(package.__path__, f"{package.__name__}."))
    for name in (*_LOADED, *found):
        if not name.endswith(".__main__"):
            with suppress(ImportError):  # the command that needs it will say so itself
                import_module(name)
    create_model("Any", value=(int, 0))  # pydantic asks every installed package once whether it has a plugin
    gc.freeze()


if __name__ == "__main__":
    _load()
    _serve(socket.socket(fileno=int(sys.argv[1])))
    runpy.run_module("placet.cli", run_name="__main__", alter_sys=True)

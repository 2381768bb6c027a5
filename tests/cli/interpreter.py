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
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from typing import IO

from pydantic import create_model

_MOST_BYTES = 100_000
"""Of one request, which is one datagram."""
_OWN = ("PLACET_", "API_", "HOOK_", "OPENAI_", "TMPDIR")
"""Variables that nobody reads before placet begins."""
COMMANDS = (
    *("apsw", "pydantic", "rich.console", "rich.table", "typer.core"),
    *("placet.adapters.sinks", "placet.adapters.stores", "placet.adapters.telemetry", "placet.adapters.transports"),
    *("placet.bootstrap", "placet.cli", "placet.rules"),
)
SERVERS = (
    *("fastapi", "uvicorn", "uvicorn.protocols.http.h11_impl", "uvicorn.lifespan.off", "httpx", "jinja2"),
    *(*COMMANDS, "placet.console", "placet.http_api", "placet.mcp_server", "placet.serve", "placet.worker"),
)


@dataclass(frozen=True)
class Said:
    """How one command ended. A negative code is the number of the signal that ended it."""

    code: int
    out: bytes
    err: bytes


class Started:
    """A process that has been forked; what tests do with one of `subprocess.Popen`, they do with this one."""

    def __init__(self, report: socket.socket, out: int, err: int) -> None:
        self._report = report
        self.pid = int(_answer(report))
        self.stdout: IO[bytes] = os.fdopen(out, "rb", 0)  # whoever reads a line leaves the rest to `communicate`
        self.stderr: IO[bytes] = os.fdopen(err, "rb", 0)
        self.returncode: int | None = None

    def poll(self) -> int | None:
        with suppress(subprocess.TimeoutExpired):
            return self.wait(0.0)
        return None

    def wait(self, timeout: float | None = None) -> int:
        """Its exit code.

        Raises:
            TimeoutExpired: it is still there.
        """
        if self.returncode is None:
            self._report.settimeout(timeout)
            try:
                self.returncode = int(_answer(self._report))
            except (BlockingIOError, TimeoutError):
                raise subprocess.TimeoutExpired(str(self.pid), timeout or 0.0) from None
            self._report.close()
        return self.returncode

    def communicate(self, timeout: float = 300.0) -> tuple[bytes, bytes]:
        """What it still says, until it has ended.

        Raises:
            TimeoutExpired: it is still there.
        """
        until = time.monotonic() + timeout
        said = _talked(None, os.dup(self.stdout.fileno()), os.dup(self.stderr.fileno()), b"", until)
        if said is None:
            raise subprocess.TimeoutExpired(str(self.pid), timeout)
        self.wait(max(0.001, until - time.monotonic()))
        self.close()
        return said

    def send_signal(self, sign: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, sign)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def close(self) -> None:
        self.stdout.close()
        self.stderr.close()


class Interpreter:
    """A process that forks one process for each command. It is started with the first, and ends with its starter.

    Args:
        module: what is run, as by `python -m`, where a request names nothing else.
        loads: the modules and packages that it loads beforehand; packages with all that is in them.
    """

    def __init__(self, module: str = "placet.cli", loads: tuple[str, ...] = COMMANDS) -> None:
        self._module = module
        self._loads = loads
        self._environment: dict[str, str] = {}
        self._channel: socket.socket | None = None
        self._starting = threading.Lock()

    def run(
        self,
        words: tuple[str, ...],
        folder: Path,
        environment: dict[str, str],
        stdin: bytes,
        *,
        timeout: float,
        module: str = "",
    ) -> Said | None:
        """None where Python has to be started, for its environment may mean something to Python itself.

        Raises:
            TimeoutExpired: it did not end; it has been killed.
        """
        their_in, our_in = os.pipe()
        with _closed_after(their_in):
            process = self._forked((module or self._module, *words), folder, environment, their_in)
        if process is None:
            os.close(our_in)
            return None
        ours = os.dup(process.stdout.fileno()), os.dup(process.stderr.fileno())
        process.close()
        said = _talked(our_in, *ours, stdin, time.monotonic() + timeout)
        if said is None:
            process.kill()
        code = process.wait()
        if said is None:
            raise subprocess.TimeoutExpired(words, timeout)
        return Said(code, *said)

    def start(self, words: tuple[str, ...], folder: Path, environment: dict[str, str]) -> Started | None:
        """One that hears nothing, and is not waited for. None where Python has to be started."""
        nothing = os.open(os.devnull, os.O_RDONLY)
        with _closed_after(nothing):
            return self._forked((self._module, *words), folder, environment, nothing)

    def _forked(self, words: tuple[str, ...], folder: Path, environment: dict[str, str], stdin: int) -> Started | None:
        request = json.dumps([str(folder), words, environment]).encode()
        if len(request) > _MOST_BYTES:
            return None
        with self._starting:
            channel = self._channel = self._channel or self._started(environment)
        names = self._environment.keys() | environment.keys()
        if any(self._environment.get(name) != environment.get(name) for name in names if not name.startswith(_OWN)):
            return None
        (our_out, their_out), (our_err, their_err) = os.pipe(), os.pipe()
        report, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with _closed_after(their_out), _closed_after(their_err), theirs:
            socket.send_fds(channel, [request], [stdin, their_out, their_err, theirs.fileno()])
        return Started(report, our_out, our_err)

    def _started(self, environment: dict[str, str]) -> socket.socket:
        self._environment = {name: value for name, value in environment.items() if not name.startswith(_OWN)}
        here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with there:
            process = subprocess.Popen(  # its streams are pipes, as those of each command will be
                [sys.executable, __file__, str(there.fileno()), *self._loads],
                env=self._environment, pass_fds=[there.fileno()],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            )  # fmt: skip
        atexit.register(_ended, process, here)
        return here


@contextmanager
def _closed_after(number: int) -> Iterator[None]:
    try:
        yield
    finally:
        os.close(number)


def _ended(process: subprocess.Popen[bytes], channel: socket.socket) -> None:
    channel.close()
    process.communicate()


def _answer(channel: socket.socket) -> bytes:
    answer = channel.recv(64)
    assert answer, "the process that forks has ended"
    return answer


def _talked(given: int | None, out: int, err: int, stdin: bytes, until: float) -> tuple[bytes, bytes] | None:
    """What was said on both pipes until their ends; none if that took too long."""
    said = {out: b"", err: b""}
    with selectors.DefaultSelector() as waiting:
        if given is not None:
            os.set_blocking(given, False)
            waiting.register(given, selectors.EVENT_WRITE)
        for each in said:
            waiting.register(each, selectors.EVENT_READ)
        while waiting.get_map():
            ready = waiting.select(max(0.0, until - time.monotonic()))
            for key, _ in ready:
                if key.fd == given:
                    with suppress(BrokenPipeError):
                        stdin = stdin[os.write(key.fd, stdin) :] if stdin else b""
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


def _serve(channel: socket.socket) -> str:
    """Answers each request with the number of its process, and with its exit code.

    Returns in the forked process: the module that it runs.
    """
    reports: dict[int, tuple[int, socket.socket]] = {}
    waiting = selectors.DefaultSelector()
    waiting.register(channel, selectors.EVENT_READ)
    while True:
        for key, _ in waiting.select():
            if key.fileobj is not channel:
                waiting.unregister(key.fd)
                _tell_its_end(key.fd, *reports.pop(key.fd))
                continue
            request, given, _, _ = socket.recv_fds(channel, _MOST_BYTES, 4)
            if not request:
                os._exit(0)
            process, pipes, report = os.fork(), given[:3], socket.socket(fileno=given[3])
            if process == 0:
                waiting.close()
                for each in (channel, report, *(other for _, other in reports.values())):
                    each.close()
                for each in reports:
                    os.close(each)
                folder, (module, *words), environment = json.loads(request)
                _become(folder, words, environment, pipes)
                return str(module)
            for each in pipes:
                os.close(each)
            report.send(str(process).encode())
            ending = os.pidfd_open(process)
            reports[ending] = (process, report)
            waiting.register(ending, selectors.EVENT_READ)


def _tell_its_end(ending: int, process: int, report: socket.socket) -> None:
    os.close(ending)
    with suppress(BrokenPipeError), report:  # nobody may ask any more
        report.send(str(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])).encode())


def _become(folder: str, words: list[str], environment: dict[str, str], pipes: list[int]) -> None:
    for number, each in enumerate(pipes):
        os.dup2(each, number)
        os.close(each)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.path[0] = folder
    sys.argv[1:] = words


def _load(names: list[str]) -> None:
    """What commands load, each when it comes to it."""
    for name in names:
        with suppress(ImportError):  # the command that needs it will say so itself
            module = import_module(name)
            for each in walk_packages(getattr(module, "__path__", ()), f"{name}.") if name.startswith("placet") else ():
                if not each.name.endswith(".__main__"):
                    with suppress(ImportError):
                        import_module(each.name)
    create_model("Any", value=(int, 0))  # pydantic asks every installed package once whether it has a plugin
    gc.freeze()


if __name__ == "__main__":
    _, number, *names = sys.argv
    _load(names)
    runpy.run_module(_serve(socket.socket(fileno=int(number))), run_name="__main__", alter_sys=True)

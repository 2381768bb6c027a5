"""`placet` in processes of their own, without the start of an interpreter in each: one that has loaded it forks.

A command has its own process, folder, environment, arguments, pipes and exit code. It ends as any Python program does,
but that the modules which it shares with others are not taken apart.
At a terminal it has that for its own. Shared is what happens before the first line of placet: whoever tests that
starts Python itself.
"""

from __future__ import annotations

import atexit
import fcntl
import gc
import json
import os
import runpy
import selectors
import signal
import socket
import subprocess
import sys
import termios
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
_OWN = ("PLACET_", "API_", "HOOK_", "OPENAI_", "TMPDIR", "NO_COLOR", "COLUMNS")
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


_SHIM = """\
#!{python} -IS
import json, os, socket, sys

report, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
request = json.dumps([os.getcwd(), [{module!r}, *sys.argv[1:]], dict(os.environ)]).encode()
with theirs:
    socket.send_fds(socket.socket(fileno={channel}), [request], [0, 1, 2, theirs.fileno()])
assert report.recv(64), "the process that forks has ended"
code = int(report.recv(64))
sys.exit(code if code >= 0 else 128 - code)
"""
"""What a shell starts in the place of Python; with nothing loaded that this does not need."""


@dataclass(frozen=True)
class Said:
    """How one command ended. A negative code is the number of the signal that ended it."""

    code: int
    out: bytes
    err: bytes


class Forked:
    """A process that has been forked; what tests do with one of `subprocess.Popen`, they do with this one."""

    def __init__(self, report: socket.socket) -> None:
        self._report = report
        self.pid = int(_answer(report))
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

    def send_signal(self, sign: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, sign)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class Started(Forked):
    """One whose output is read from two pipes."""

    def __init__(self, report: socket.socket, out: int, err: int) -> None:
        super().__init__(report)
        self.stdout: IO[bytes] = os.fdopen(out, "rb", 0)  # whoever reads a line leaves the rest to `communicate`
        self.stderr: IO[bytes] = os.fdopen(err, "rb", 0)

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

    def start_at(
        self, terminal: int, words: tuple[str, ...], folder: Path, environment: dict[str, str]
    ) -> Forked | None:
        """One whose own that terminal becomes, so that ^C is a signal. None where Python has to be started."""
        report = self._asked((self._module, *words), folder, environment, (terminal, terminal, terminal))
        return None if report is None else Forked(report)

    def shim(self, path: Path, environment: dict[str, str]) -> int:
        """Make a program there whose every start is a fork, for scripts that name it.

        Returns:
            What the process that runs the script has to inherit: the number of our end of the channel.
        """
        channel = self._channel_for(environment).fileno()
        path.write_text(_SHIM.format(python=sys.executable, module=self._module, channel=channel), "utf-8")
        path.chmod(0o755)
        return channel

    def _forked(self, words: tuple[str, ...], folder: Path, environment: dict[str, str], stdin: int) -> Started | None:
        (our_out, their_out), (our_err, their_err) = os.pipe(), os.pipe()
        with _closed_after(their_out), _closed_after(their_err):
            report = self._asked(words, folder, environment, (stdin, their_out, their_err))
        if report is None:
            os.close(our_out)
            os.close(our_err)
            return None
        return Started(report, our_out, our_err)

    def _asked(
        self, words: tuple[str, ...], folder: Path, environment: dict[str, str], streams: tuple[int, int, int]
    ) -> socket.socket | None:
        request = json.dumps([str(folder), words, environment]).encode()
        if len(request) > _MOST_BYTES:
            return None
        channel = self._channel_for(environment)
        names = self._environment.keys() | environment.keys()
        if any(self._environment.get(name) != environment.get(name) for name in names if not name.startswith(_OWN)):
            return None
        report, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            socket.send_fds(channel, [request], [*streams, theirs.fileno()])
        return report

    def _channel_for(self, environment: dict[str, str]) -> socket.socket:
        with self._starting:
            self._channel = self._channel or self._started(environment)
            return self._channel

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
    if os.isatty(0):
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # as Python's is from its start
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


def _run(module: str) -> None:
    """As `python -m`, up to its end: what it shares is not taken apart, which would be to copy it, and takes longer.

    A stream that cannot be written is left to Python, which tells that in its own way.
    """
    code: object = 0
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as end:
        code = end.code or 0
        if not isinstance(code, int):
            raise
    threading._shutdown()  # type: ignore[attr-defined]  # waits for threads, as Python does before all else
    atexit._run_exitfuncs()
    gc.collect()  # whatever has to say something when it goes; what was loaded before the fork is not looked at
    with suppress(OSError, ValueError):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code & 0xFF)
    sys.exit(code)


if __name__ == "__main__":
    _, number, *names = sys.argv
    _load(names)
    _run(_serve(socket.socket(fileno=int(number))))

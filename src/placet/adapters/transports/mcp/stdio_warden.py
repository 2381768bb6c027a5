"""The first process of a stdio server: it starts the server, and ends it and its kin when the gate is done or gone.

    gate ── warden ── server ── whatever it starts
              └─ a session of its own; the server and its kin are one process group in it

It is run by its path, imports nothing of placet, and reads nothing that the server says: input and output go past it.
When the lifeline ends, because the gate closed it or died, the group gets SIGTERM, and what is left after the grace
SIGKILL; on Linux it adopts what left the group, and kills that too. If the warden itself is killed, the kernel kills
the server. It exits when there is no child left, with the server's status, or `NOT_STARTED`.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from contextlib import suppress

NOT_STARTED = 111
_DIED = 112
_SET_DEATH_SIGNAL, _SET_CHILD_SUBREAPER = 1, 36
_LONGEST_LOOK_SECONDS = 1.0


def main(arguments: list[str]) -> None:
    """Never returns. `arguments`: the lifeline's descriptor, the grace in seconds, and the server's command line."""
    lifeline, grace, command = int(arguments[0]), float(arguments[1]), arguments[2:]
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    _linux(_SET_CHILD_SUBREAPER, 1)
    warden = os.getpid()
    server = os.fork()
    if server == 0:
        _become_server(warden, lifeline, command)
    with suppress(OSError):
        os.setpgid(server, server)  # both do it, so that whoever is first, it is done
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)  # the server alone holds the ends of its pipes, so that their end is seen
    os.dup2(nothing, 1)
    _watch(lifeline, server)
    os._exit(_end(server, grace))


def _become_server(warden: int, lifeline: int, command: list[str]) -> None:
    try:
        os.setpgid(0, 0)
        os.close(lifeline)
        _linux(_SET_DEATH_SIGNAL, signal.SIGKILL)
        if os.getppid() == warden:
            os.execvp(command[0], command)  # noqa: S606  # no shell is wanted
    finally:
        os._exit(NOT_STARTED)


def _watch(lifeline: int, server: int) -> None:
    """Wait until the gate is done, or the server has ended."""
    woken, wakes = os.pipe()
    os.set_blocking(wakes, False)
    signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
    for signum in (signal.SIGCHLD, signal.SIGTERM):
        signal.signal(signum, lambda *_: None)
    watched = select.poll()
    watched.register(lifeline, select.POLLIN)
    watched.register(woken, select.POLLIN)
    while not _has_ended(server):
        for descriptor, _ in watched.poll(_LONGEST_LOOK_SECONDS * 1000.0):
            if descriptor == lifeline or signal.SIGTERM in os.read(descriptor, 4_096):
                return


def _has_ended(server: int) -> bool:
    """Whether it has; it is not yet waited for, which keeps its number from being given away."""
    if hasattr(os, "waitid"):
        return os.waitid(os.P_PID, server, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    return False


def _end(server: int, grace: float) -> int:
    """End what is left of the server and its kin, and wait for all of it; the server's own exit status."""
    status = _DIED
    has_ended = False
    _signal_group(server, signal.SIGTERM)
    until = time.monotonic() + grace
    while True:
        try:
            child, how = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return status
        if child == server:
            has_ended = True
            status = max(os.waitstatus_to_exitcode(how), -1) % 256
        elif child == 0:
            if has_ended or time.monotonic() >= until:  # what the server left behind gets no grace of its own
                _signal_group(server, signal.SIGKILL)
                for left in _children():
                    with suppress(OSError):
                        os.kill(left, signal.SIGKILL)
            time.sleep(0.005)


def _signal_group(server: int, signum: int) -> None:
    with suppress(OSError):
        os.killpg(server, signum)


def _children() -> list[int]:
    try:
        with open("/proc/thread-self/children", encoding="ascii") as file:
            return [int(text) for text in file.read().split()]
    except OSError:
        return []


def _linux(option: int, value: int) -> None:
    """Ask the kernel for what Python has no name for. Where it cannot be had, the lifeline alone has to do."""
    if not sys.platform.startswith("linux"):
        return
    with suppress(Exception):
        import ctypes

        ctypes.CDLL(None).prctl(option, ctypes.c_ulong(value), 0, 0, 0)


if __name__ == "__main__":
    main(sys.argv[1:])

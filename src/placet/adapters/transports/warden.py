"""The first process of an attempt: it starts the one that runs the handler, and ends everything that came of it.

    gate ── warden ── worker ── whatever the handler starts
              └─ a session of its own; the worker and its kin are one process group in it

It runs no foreign code and holds no foreign module, so nothing keeps it from its one duty. It ends the attempt by
SIGKILL when the gate says so, when the gate is gone (end of the lifeline; on Linux also the kernel's own signal at the
death of the gate's thread), when the deadline has passed and the gate, perhaps standing still, has not said so, and
when the worker has ended. On Linux it adopts what leaves the group, and kills that too. Only when it has waited for
all of them it exits, with a status that says so. Elsewhere a process that leaves the group is out of reach.
"""

from __future__ import annotations

import os
import select
import signal
import sys
from contextlib import suppress
from math import inf

from placet.adapters.transports.wire import (
    GROUP,
    LIMIT,
    LONGEST_OVERTIME_SECONDS,
    TREE_HAS_ENDED,
    Fact,
    frame,
    steady_seconds,
)

_SET_DEATH_SIGNAL, _SET_CHILD_SUBREAPER = 1, 36
_LONGEST_LOOK_SECONDS = 1.0
"""A sleep of the host is not counted by poll(2), so the deadline is looked at again this often."""


def main(arguments: list[str]) -> None:
    """Never returns. `arguments`: the three descriptors, and the process id of the gate."""
    lifeline, orders, answers, gate = (int(text) for text in arguments)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # ignored in the gate, it would be ignored here, and nobody waitable
    _linux(_SET_CHILD_SUBREAPER, 1)
    warden = os.getpid()
    worker = os.fork()
    if worker == 0:
        os.close(lifeline)
        _become_worker(warden, orders, answers)
    with suppress(OSError):
        os.setpgid(worker, worker)  # both do it, so that whoever is first, it is done
    os.close(orders)
    with suppress(OSError):
        os.write(answers, frame(Fact.WORKS_IN, GROUP.pack(worker)))
    _watch(lifeline, gate, worker)
    _end(worker)
    os._exit(TREE_HAS_ENDED)


def _become_worker(warden: int, orders: int, answers: int) -> None:
    with suppress(OSError):
        os.setpgid(0, 0)
    _linux(_SET_DEATH_SIGNAL, signal.SIGKILL)
    if os.getppid() != warden:
        os._exit(1)
    from placet.adapters.transports.worker import serve

    serve(orders, answers)


def _watch(lifeline: int, gate: int, worker: int) -> None:
    """Wait until the attempt has to end, or its worker has."""
    woken, wakes = os.pipe()
    os.set_blocking(wakes, False)
    signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
    for signum in (signal.SIGCHLD, signal.SIGTERM, signal.SIGCONT):
        signal.signal(signum, lambda *_: None)
    _linux(_SET_DEATH_SIGNAL, signal.SIGCONT)  # the one that wakes whoever its handler has stopped
    watched = select.poll()
    watched.register(lifeline, select.POLLIN)
    watched.register(woken, select.POLLIN)
    limit = inf
    while os.getppid() == gate and not _has_ended(worker):
        left = limit - steady_seconds()
        if left <= 0:
            return
        for descriptor, _ in watched.poll(min(left, _LONGEST_LOOK_SECONDS) * 1000.0):
            said = os.read(descriptor, 4_096)
            if descriptor != lifeline:
                if signal.SIGTERM in said:
                    return
            elif len(said) != LIMIT.size:
                return
            else:
                limit = LIMIT.unpack(said)[0] + LONGEST_OVERTIME_SECONDS


def _has_ended(worker: int) -> bool:
    """Whether it has; where the system can, it is not yet waited for, which keeps its number from being given away."""
    if hasattr(os, "waitid"):
        return os.waitid(os.P_PID, worker, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    return os.waitpid(worker, os.WNOHANG)[0] == worker


def _end(worker: int) -> None:
    """Kill and wait until there is no child left: of the group at once, of those that left it one by one."""
    with suppress(OSError):
        os.killpg(worker, signal.SIGKILL)
    while True:
        for child in _children():
            with suppress(OSError):
                os.kill(child, signal.SIGKILL)
        try:
            os.wait()
        except ChildProcessError:
            return


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

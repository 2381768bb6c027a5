"""The gate's end of one attempt's processes: start them, hand over a call, hear facts, end them, know that they ended.

All of it runs in the event loop's own thread. The kernel tells a child of the death of the *thread* that made it, so a
passing thread may not start one; and nobody else waits for it, so its number is ours until `end` has had its word.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import Any

from placet.adapters.transports.wire import (
    GROUP,
    HEADER,
    LIMIT,
    MOST_OF_A_NOTE,
    TREE_HAS_ENDED,
    Fact,
    order_frame,
)

_BOOT = (
    "import sys, json; sys.path[:] = json.loads(sys.argv[1]); given = sys.argv[2:]; del sys.argv[1:]\n"
    "from placet.adapters.transports.warden import main; main(given)"
)
_MOST_AT_ONCE_BYTES = 65_536
_NO_SIGNAL = getattr(socket, "MSG_NOSIGNAL", 0)
_LONGEST_REAPING_SECONDS = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """The last fact of an attempt."""

    fact: Fact
    payload: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Silence:
    """The pipe ended without a last fact."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Noise:
    """Something that is no fact came through the pipe, or more than the contract can hold."""


Answer = Word | Silence | Noise


class Child:
    """A warden and its worker, for one attempt.

    Attributes:
        answer: done once nothing more can be learnt.
        gone: done once no process holds the way back open.
        was_called: whether the handler has been, or is just being, called.
    """

    def __init__(self, preparation: dict[str, Any]) -> None:
        """Start the processes.

        Raises:
            OSError: the system has no room for them, or no such interpreter; nothing was started.
        """
        loop = asyncio.get_running_loop()
        self._loop = loop
        self.answer: asyncio.Future[Answer] = loop.create_future()
        self.gone: asyncio.Future[None] = loop.create_future()
        self.was_called = False
        self._worker_group: int | None = None
        self._heard = bytearray()
        self._most_bytes = MOST_OF_A_NOTE
        self._to_say = bytearray(order_frame(preparation))
        started = _started()
        self._process, self._answers = started.process, started.answers
        self._lifeline, self._orders = started.lifeline, started.orders
        os.set_blocking(self._answers, False)
        loop.add_reader(self._answers, self._hear)
        self._begin_to_say()

    def hand_over(self, order: dict[str, Any], *, ends_at: float, most_bytes: int) -> None:
        """Give the call, and the instant after which the warden ends it by itself, on the steady clock."""
        self._most_bytes = max(most_bytes, MOST_OF_A_NOTE)
        with suppress(OSError):
            self._lifeline.send(LIMIT.pack(ends_at), _NO_SIGNAL)
        self._to_say += order_frame(order)
        if self._orders.fileno() >= 0:
            self._begin_to_say()

    @property
    def warden(self) -> int:
        """Its process id, which is also that of its session."""
        return self._process.pid

    def is_waiting(self) -> bool:
        """Whether it is still there, for a call to be handed over."""
        return not self.answer.done() and self._process.poll() is None

    # ------------------------------------------------------------ ending

    async def end(self, *, within_seconds: float) -> bool:
        """Kill everything, and wait; whether every process of the attempt is known to have ended."""
        self._let_go()
        await asyncio.wait((self.gone,), timeout=within_seconds)
        if not self.gone.done():
            self._hear_the_rest()  # what is in the pipe was said before; its end may be held open by a stranger
        return await self._was_reaped()

    def kill_all(self) -> None:
        """The last resort: whether it ended is then not known."""
        self._let_go()
        if self._process.poll() is None:
            self._process.kill()

    def _let_go(self) -> None:
        """Tell the warden, wake it should somebody have stopped it, and do the killing ourselves where we can."""
        self._close_orders()
        self._lifeline.close()
        with suppress(OSError):
            # A session keeps the number of its leader, our warden, as long as anybody is in it.
            if self._worker_group is not None and os.getsid(self._worker_group) == self._process.pid:
                os.killpg(self._worker_group, signal.SIGKILL)
        with suppress(OSError):
            self._process.send_signal(signal.SIGCONT)

    async def _was_reaped(self) -> bool:
        pause = 0.0005
        while self._process.poll() is None and pause < _LONGEST_REAPING_SECONDS and self.gone.done():
            await asyncio.wait((self._loop.create_future(),), timeout=pause)
            pause *= 2.0
        return self._process.returncode == TREE_HAS_ENDED

    # ------------------------------------------------------------ saying and hearing

    def _begin_to_say(self) -> None:
        """Say what goes through at once, and the rest when it is read."""
        self._loop.add_writer(self._orders, self._say)
        self._say()

    def _say(self) -> None:
        try:
            while self._to_say:
                del self._to_say[: self._orders.send(self._to_say[:_MOST_AT_ONCE_BYTES], _NO_SIGNAL)]
        except BlockingIOError:
            return
        except OSError:  # it reads no more; what that means is told by its silence
            self._close_orders()
            return
        self._loop.remove_writer(self._orders)

    def _hear_the_rest(self) -> None:
        while not self.answer.done() and self._hear():
            continue

    def _hear(self) -> bool:
        """Hear what is there; whether there was anything."""
        try:
            piece = os.read(self._answers, _MOST_AT_ONCE_BYTES) if self._answers >= 0 else b""
        except BlockingIOError:
            return False
        except OSError:
            piece = b""
        if not piece:
            self._hear_no_more()
        elif not self.answer.done():
            self._heard += piece
            self._understand()
        return piece != b""

    def _understand(self) -> None:
        while len(self._heard) >= HEADER.size and not self.answer.done():
            name, length = HEADER.unpack_from(self._heard)
            fact = _FACTS.get(name)
            if fact is None or length > (self._most_bytes if fact is Fact.RETURNED else MOST_OF_A_NOTE):
                self._conclude(Noise())
                return
            if len(self._heard) < HEADER.size + length:
                return
            payload = bytes(self._heard[HEADER.size : HEADER.size + length])
            del self._heard[: HEADER.size + length]
            self._learn(fact, payload)

    def _learn(self, fact: Fact, payload: bytes) -> None:
        match fact:
            case Fact.WORKS_IN if self._worker_group is None and len(payload) == GROUP.size:
                self._worker_group = GROUP.unpack(payload)[0]
            case Fact.CALLING if not self.was_called:
                self.was_called = True
            case Fact.NOT_CALLED if not self.was_called:
                self._conclude(Word(fact=fact, payload=payload))
            case Fact.WORKS_IN | Fact.CALLING | Fact.NOT_CALLED:
                self._conclude(Noise())
            case _ if self.was_called:
                self._conclude(Word(fact=fact, payload=payload))
            case _:
                self._conclude(Noise())

    def _conclude(self, answer: Answer) -> None:
        if not self.answer.done():
            self.answer.set_result(answer)
        self._heard.clear()

    def _hear_no_more(self) -> None:
        if self._answers >= 0:
            self._loop.remove_reader(self._answers)
            os.close(self._answers)
            self._answers = -1
        self._conclude(Silence())
        if not self.gone.done():
            self.gone.set_result(None)

    def _close_orders(self) -> None:
        if self._orders.fileno() >= 0:
            self._loop.remove_writer(self._orders)
            self._orders.close()

    def forget(self) -> None:
        """Give back what is still held; for a child that nothing more is expected of."""
        self._let_go()
        self._hear_no_more()


_FACTS = {fact.value: fact for fact in Fact}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Started:
    """The warden, and our ends of the three ways."""

    process: subprocess.Popen[bytes]
    lifeline: socket.socket
    orders: socket.socket
    answers: int


def _started() -> _Started:
    """What we write goes through sockets: a program may have made a write to a broken pipe deadly, as tools do."""
    with ExitStack() as opened:
        our_lifeline, lifeline = _way(opened)
        our_orders, orders = _way(opened)
        our_answers, answers = (_not_standard(opened, descriptor) for descriptor in os.pipe())
        theirs = (_not_standard(opened, lifeline.detach()), _not_standard(opened, orders.detach()), answers)
        process = subprocess.Popen(
            [*_interpreter(), "-c", _BOOT, _search_path(), *map(str, theirs), str(os.getpid())],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=theirs,
            start_new_session=True,  # no terminal's signal reaches it
        )
        opened.pop_all()
    for descriptor in theirs:
        os.close(descriptor)
    return _Started(process=process, lifeline=our_lifeline, orders=our_orders, answers=our_answers)


def _way(opened: ExitStack) -> tuple[socket.socket, socket.socket]:
    ours, theirs = socket.socketpair()
    opened.callback(ours.close)
    opened.callback(theirs.close)
    ours.setblocking(False)
    return ours, theirs


def _not_standard(opened: ExitStack, descriptor: int) -> int:
    """Beyond 0, 1 and 2, which a program may have closed, and a new process finds replaced."""
    if descriptor > 2:
        opened.callback(os.close, descriptor)
        return descriptor
    try:
        return _not_standard(opened, fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 3))
    finally:
        os.close(descriptor)


def _search_path() -> str:
    return json.dumps([entry for entry in sys.path if type(entry) is str])


def _interpreter() -> list[str]:
    """This interpreter, with the switches of it that change what code means or where it is found.

    `-P`: no folder is put before those we send.
    """
    flags = sys.flags
    switches = {
        "-O": flags.optimize == 1,
        "-OO": flags.optimize == 2,
        "-E": bool(flags.ignore_environment),
        "-s": bool(flags.no_user_site),
        "-S": bool(flags.no_site),
        "-B": bool(flags.dont_write_bytecode),
        "-b": bool(flags.bytes_warning),
    }
    utf8 = ["-X", "utf8"] if flags.utf8_mode else []
    return [sys.executable, "-P", *utf8, *(switch for switch, is_set in switches.items() if is_set)]

"""A server that is a process of ours: one line out, one line in; started without a shell and never left behind.

The process gets a fixed few variables of our environment and those that are named for it. What it writes to its error
output goes nowhere: it is foreign text. All of this runs in the event loop's own thread, since the kernel tells a child
of the death of the thread that made it. Source: MCP, transports, stdio; CASES K07, K10.
"""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from placet.adapters.transports.mcp import stdio_warden
from placet.adapters.transports.mcp.attention import Share, weight
from placet.adapters.transports.mcp.faults import SessionGone
from placet.adapters.transports.mcp.hearing import HEAD_BYTES, TAIL_BYTES, Awaits, answered_id, hear
from placet.adapters.transports.mcp.messages import Message, Noise, Oversized

INHERITED: Final = ("HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER")
"""What a server gets of our own environment. None of it lets anybody in."""
CLOSE_SECONDS: Final = 2.0
"""How long a server may take to end by itself once its input has ended, and again after SIGTERM."""
_LAST_SECONDS: Final = 5.0
_MOST_AT_ONCE_BYTES: Final = 65_536
_MOST_UNSAID_BYTES: Final = 1_048_576
_NO_SIGNAL: Final = getattr(socket, "MSG_NOSIGNAL", 0)

Heard = Callable[[Message], None]


class StdioChannel:
    """The gate's end of one server process.

    Args:
        share: what it may take of the event loop.
        awaits: whether somebody waits for an answer.
        heard: is told of every message, and does not raise.
        flooded: is told that it says too much without being asked, right before it is lost.
        lost: is told once that nothing more will come.
    """

    def __init__(
        self,
        command: str,
        args: tuple[str, ...],
        *,
        environment: Mapping[str, str],
        folder: Path,
        most_bytes: int,
        share: Share,
        awaits: Awaits,
        heard: Heard,
        flooded: Callable[[], None],
        lost: Callable[[], None],
    ) -> None:
        """Start it.

        Raises:
            OSError, ValueError: the system has no room for it, or no such folder; nothing was started. That there is
                no such program shows in the first thing it is asked.
        """
        self._loop = asyncio.get_running_loop()
        self._share, self._awaits = share, awaits
        self._heard_by, self._flooded_by, self._lost_by = heard, flooded, lost
        self._most_bytes = most_bytes
        self._unheard, self._heard_to = b"", 0
        self._next_turn: asyncio.Handle | None = None
        self._line = bytearray()
        self._head, self._is_skipping = b"", False
        self._to_say = bytearray()
        self._emptied: asyncio.Future[None] | None = None
        self._turn = asyncio.Lock()
        self.is_lost = False
        self._start(command, args, {**inherited(), **environment}, folder)
        self._loop.add_reader(self._out, self._hear)

    @property
    def process_id(self) -> int:
        """Of the warden, whose session all of it is in."""
        return int(self._process.pid)

    async def say(self, message: bytes, *, before: Callable[[], None]) -> None:
        """Send one message; `before` is called when its first byte leaves next, and what it raises keeps it here.

        Raises:
            SessionGone: the process is gone; nothing left.
        """
        async with self._turn:
            while self._to_say and not self.is_lost:
                self._emptied = self._loop.create_future()
                await self._emptied
            if self.is_lost:
                raise SessionGone
            before()
            if not self._leaves(message + b"\n"):
                raise SessionGone

    def add(self, message: bytes) -> None:
        """Send what may be lost, behind whatever waits. A server that does not read what it is told is given up."""
        if self.is_lost:
            return
        if len(self._to_say) + len(message) > _MOST_UNSAID_BYTES:
            self._lose()
            return
        self._leaves(message + b"\n")

    def reply(self, message: bytes) -> None:
        """Send what the server asked for, at its own cost."""
        self._share.unasked(weight(message))
        self.add(message)

    def passed_on(self) -> None:
        self._share.passed_on()

    async def close(self) -> None:
        """End the server: its input ends; if that is not enough, it is told to end, then killed, its kin with it."""
        self._lose()
        if not await self._has_ended(CLOSE_SECONDS):
            self._lifeline.close()
            if not await self._has_ended(CLOSE_SECONDS + _LAST_SECONDS):
                self._process.kill()
                await self._has_ended(_LAST_SECONDS)
        self._lifeline.close()

    # ------------------------------------------------------------ starting

    def _start(self, command: str, args: tuple[str, ...], environment: dict[str, str], folder: Path) -> None:
        lifeline, theirs = socket.socketpair()
        into, their_into = socket.socketpair()
        out, their_out = os.pipe()
        try:
            self._process = subprocess.Popen(
                [
                    *(sys.executable, "-I", "-S", stdio_warden.__file__),
                    *(str(theirs.fileno()), str(CLOSE_SECONDS), command, *args),
                ],
                stdin=their_into.fileno(),
                stdout=their_out,
                stderr=subprocess.DEVNULL,
                env=environment,
                cwd=folder,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,  # no terminal's signal reaches it
            )
        except BaseException:
            lifeline.close()
            into.close()
            os.close(out)
            raise
        finally:
            theirs.close()
            their_into.close()
            os.close(their_out)
        into.setblocking(False)
        os.set_blocking(out, False)
        self._lifeline, self._into, self._out = lifeline, into, out

    async def _has_ended(self, within_seconds: float) -> bool:
        until, pause = self._loop.time() + within_seconds, 0.002
        while self._process.poll() is None:
            if self._loop.time() >= until:
                return False
            await asyncio.wait((self._loop.create_future(),), timeout=pause)
            pause = min(pause * 2.0, 0.05)
        return True

    # ------------------------------------------------------------ saying

    def _leaves(self, text: bytes) -> bool:
        """Begin to send; whether its first byte, or one that waited before it, could leave."""
        self._to_say += text
        waiting = len(self._to_say)
        self._say()
        return not self.is_lost or len(self._to_say) < waiting

    def _say(self) -> None:
        try:
            while self._to_say:
                del self._to_say[: self._into.send(self._to_say[:_MOST_AT_ONCE_BYTES], _NO_SIGNAL)]
        except BlockingIOError:
            self._loop.add_writer(self._into, self._say)
            return
        except OSError:
            self._lose()
            return
        self._loop.remove_writer(self._into)
        self._go_on()

    def _go_on(self) -> None:
        if self._emptied is not None and not self._emptied.done():
            self._emptied.set_result(None)

    # ------------------------------------------------------------ hearing

    def _hear(self) -> None:
        try:
            self._unheard = os.read(self._out, _MOST_AT_ONCE_BYTES)
        except BlockingIOError:
            return
        except OSError:
            self._unheard = b""
        if not self._unheard:
            self._lose()
            return
        if b"\n" not in self._unheard:  # a line's end is paid for with the line
            self._share.came(self._unheard)
        self._heard_to = 0
        if self._has_to_wait():
            self._loop.remove_reader(self._out)

    def _go_on_hearing(self) -> None:
        """The next turn with what was read. Until all of it was heard, no more is read, and the server has to wait."""
        self._next_turn = None
        if not self.is_lost and not self._has_to_wait():
            self._loop.add_reader(self._out, self._hear)

    def _has_to_wait(self) -> bool:
        """Hear what was read; whether the rest of it has to wait for its next turn, which then comes by itself."""
        while self._heard_to < len(self._unheard):
            self._hear_a_line()
            if self.is_lost:
                return True
            if self._share.is_flooding:
                self._flooded_by()
                self._lose()
                return True
            if (pause := self._share.pause_seconds()) > 0.0:
                self._next_turn = self._loop.call_later(pause, self._go_on_hearing)
                return True
            if self._share.has_had_its_turn():
                self._next_turn = self._loop.call_soon(self._go_on_hearing)
                return True
        return False

    def _hear_a_line(self) -> None:
        """The rest of a line, or the part of it that was read."""
        end = self._unheard.find(b"\n", self._heard_to)
        if end < 0:
            self._take(self._unheard[self._heard_to :])
            self._heard_to = len(self._unheard)
            return
        self._take(self._unheard[self._heard_to : end])
        self._heard_to = end + 1
        self._end_line()

    def _take(self, part: bytes) -> None:
        """Keep a part of a line; of one that is too long, nothing but what says whose answer it is."""
        self._line += part
        if self._is_skipping:
            self._share.passed_over(len(part))
        elif len(self._line) > self._most_bytes:
            self._is_skipping = True
            self._share.passed_over(len(self._line))
            self._head = bytes(self._line[:HEAD_BYTES])
            self._say_too_large(self._head, b"")  # it may never end
        if self._is_skipping:
            del self._line[:-TAIL_BYTES]

    def _say_too_large(self, head: bytes, tail: bytes) -> None:
        if (found := answered_id(head, tail)) is not None:
            self._heard_by(Oversized(id=found))

    def _end_line(self) -> None:
        line, head, is_skipping = bytes(self._line), self._head, self._is_skipping
        self._line.clear()
        self._head, self._is_skipping = b"", False
        if is_skipping:
            self._say_too_large(head, line)
            return
        message = hear(line, self._share, self._awaits)
        if not isinstance(message, Noise):
            self._heard_by(message)

    def _lose(self) -> None:
        """Nothing more is said or heard. The process, if it is there still, sees its input end."""
        if self.is_lost:
            return
        self.is_lost = True
        if self._next_turn is not None:
            self._next_turn.cancel()
        self._loop.remove_reader(self._out)
        self._loop.remove_writer(self._into)
        with suppress(OSError):
            os.close(self._out)
        self._into.close()
        self._go_on()
        self._lost_by()


def inherited() -> dict[str, str]:
    return {name: os.environ[name] for name in INHERITED if name in os.environ}

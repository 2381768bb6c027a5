"""Where the system says that a host is, asked once for all who want to know, and at nobody else's cost.

A name server that keeps silent cannot be interrupted: whoever asks is held for as long as the system waits for it. So a
question holds a thread of its own, none of those that others look up hosts and read files in, and no process waits for
it at its end. Whoever stops waiting leaves the question to the others.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import threading
from contextlib import suppress
from typing import Final
from weakref import WeakKeyDictionary

_MOST_ADDRESSES: Final = 4
_MOST_QUESTIONS: Final = 64
"""Hosts that are looked up at once in this process; a host is asked about once, however many want to know."""

_Answers = dict[str, asyncio.Future[list[str]]]
_asked: WeakKeyDictionary[asyncio.AbstractEventLoop, _Answers] = WeakKeyDictionary()
"""What is being looked up, in each loop."""
_free = threading.BoundedSemaphore(_MOST_QUESTIONS)


async def addresses_of(host: str) -> list[str]:
    """All addresses of a host, the first few of them, each once.

    Raises:
        OSError: nobody has that name, nobody can say now, or as much as may be is being looked up already.
    """
    if _is_address(host):
        return [host]
    answers = _asked.setdefault(asyncio.get_running_loop(), {})
    answer = answers.get(host)
    if answer is None or answer.cancelled():
        answer = _ask(host, answers)
    return await asyncio.shield(answer)


def resolve(host: str) -> list[str]:
    """What the system says, in this thread."""
    return [str(each[4][0]) for each in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)]


def _ask(host: str, answers: _Answers) -> asyncio.Future[list[str]]:
    if not _free.acquire(blocking=False):
        raise OSError("as many hosts as may be are being looked up")
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[list[str]] = loop.create_future()
    answer.add_done_callback(_taken_note_of)

    def answered(found: list[str] | OSError) -> None:
        answers.pop(host, None)
        if answer.done():
            return
        if isinstance(found, OSError):
            answer.set_exception(found)
        else:
            answer.set_result(list(dict.fromkeys(found))[:_MOST_ADDRESSES])

    def ask() -> None:
        found: list[str] | OSError
        try:
            found = resolve(host)
        except OSError as fault:
            found = fault
        except Exception:  # a host that is no name, in the words of whichever library found out
            found = OSError("no name of a host")
        finally:
            _free.release()
        with suppress(RuntimeError):  # its loop has ended meanwhile
            loop.call_soon_threadsafe(answered, found)

    try:
        threading.Thread(target=ask, name="placet-lookup", daemon=True).start()
    except RuntimeError:
        _free.release()
        raise OSError("no thread to look up a host in") from None
    answers[host] = answer
    return answer


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return "%" not in host


def _taken_note_of(answer: asyncio.Future[list[str]]) -> None:
    if not answer.cancelled():
        answer.exception()

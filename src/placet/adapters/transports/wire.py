"""How a gate and the process of one attempt speak: three ways, frames, and clocks that both can read.

    orders    gate to worker    one frame of what to import beforehand, one frame with the call
    answers   worker to gate    frames of facts; end of file: nobody of the attempt is left
    lifeline  gate to warden    once the instant of the deadline; end of file: end the attempt now

A frame is one byte that names the fact, four bytes of length (big-endian) and the payload. What a worker says is never
pickled: a process that runs foreign code must not run any in the gate. This module imports nothing of placet, since it
is the first thing a new process loads.
"""

from __future__ import annotations

import json
import os
import struct
import time
from enum import Enum
from typing import Any, Final

HEADER: Final = struct.Struct(">cI")
LIMIT: Final = struct.Struct(">d")
GROUP: Final = struct.Struct(">q")
MOST_OF_A_NOTE: Final = 8_192
"""The longest payload, in bytes, of any fact but a result."""
GUARDED: Final = b"guarded"
TREE_HAS_ENDED: Final = 33
"""Exit status of a warden that has seen every process of its attempt end."""
LONGEST_OVERTIME_SECONDS: Final = 0.5
"""After this much more than its deadline an attempt ends by itself, if its gate, which may stand still, does not."""

_STEADY: Final[int] = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""All processes of a host read the same; on Linux it goes on while the host sleeps."""


class Fact(Enum):
    """What a frame says."""

    WORKS_IN = b"w"  # the process group the handler will run in; from the warden
    CALLING = b"c"  # the next thing that happens is the call of the handler
    RETURNED = b"r"  # the canonical result
    BROKEN = b"b"  # it returned what its contract does not hold; a fixed word says how
    REJECTED = b"j"  # its words
    STATUS = b"s"  # [status, retry_after]
    RAISED = b"x"  # a safe name
    NOT_SENT = b"n"  # nothing left; the handler says so, or, if the payload is GUARDED, the guard kept it back
    NOT_CALLED = b"f"  # the handler was not called; a fixed word says why, after an import a safe name what it raised


_is_an_attempt = False


def becomes_an_attempt() -> None:
    """From here on this process runs a handler, and starts no process of another attempt."""
    global _is_an_attempt  # noqa: PLW0603  a fact about the whole process
    _is_an_attempt = True


def is_an_attempt() -> bool:
    return _is_an_attempt


def steady_seconds() -> float:
    return time.clock_gettime(_STEADY)


def wall_seconds() -> float:
    return time.clock_gettime(time.CLOCK_REALTIME)


def frame(fact: Fact, payload: bytes = b"") -> bytes:
    return HEADER.pack(fact.value, len(payload)) + payload


def order_frame(order: dict[str, Any]) -> bytes:
    payload = json.dumps(order, allow_nan=False).encode()
    return struct.pack(">I", len(payload)) + payload


def read_order(orders: int) -> dict[str, Any] | None:
    """The next order; None if the gate has gone, or says no more."""
    length = _read_exactly(orders, 4)
    payload = None if length is None else _read_exactly(orders, struct.unpack(">I", length)[0])
    if payload is None:
        return None
    order: dict[str, Any] = json.loads(payload)
    return order


def _read_exactly(descriptor: int, count: int) -> bytes | None:
    pieces = bytearray()
    while len(pieces) < count:
        piece = os.read(descriptor, min(count - len(pieces), 65_536))
        if not piece:
            return None
        pieces += piece
    return bytes(pieces)

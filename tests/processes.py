"""Other processes, as the kernel shows them. Each of them may end while it is looked at."""

from __future__ import annotations

import os
from pathlib import Path


def is_gone(process: int) -> bool:
    """Whether it has ended; it may still wait for its parent to take note of that."""
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return True
    return state in "ZX"


def parent_of(process: int) -> int:
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])


def children_of(process: int) -> tuple[int, ...]:
    """Children of all its threads, those not yet waited for among them; none if it has ended."""
    found: list[int] = []
    for task in _listed(f"/proc/{process}/task"):
        try:
            words = Path(f"/proc/{process}/task/{task}/children").read_text()
        except OSError:  # this thread has ended
            continue
        found.extend(int(word) for word in words.split())
    return tuple(found)


def command_of(process: int) -> bytes:
    """Its arguments, each ended by a NUL; empty of one that has ended."""
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return b""


def _listed(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []

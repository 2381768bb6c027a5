"""Dying at an exact moment, and a remote system that counts what really happened.

A process wraps its store in `Mortal` and dies by SIGKILL just before or just after a chosen verb, so that what a crash
leaves behind is what a test looks at. `SentinelRemote` is a remote system in one file: appended and synced, one line
per real effect, shared by all processes, and deaf to everything placet believes.
"""

from __future__ import annotations

import json
import os
import signal
from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from placet.ports.store import Store


class Moment(StrEnum):
    BEFORE = "before"
    AFTER = "after"


@dataclass(frozen=True, slots=True, kw_only=True)
class KillPoint:
    """The `nth` time the verb is used. AFTER: it is durable, and its answer reaches nobody."""

    moment: Moment
    verb: str
    nth: int = 1


def die() -> None:
    """As if the power had gone: nothing is flushed, closed or told."""
    os.kill(os.getpid(), signal.SIGKILL)


class Mortal:
    """A store whose process dies at its kill point; in all else the store it wraps."""

    def __init__(self, store: Store, point: KillPoint) -> None:
        self._store = store
        self._point = point
        self._uses: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        inner = getattr(self._store, name)
        if name != self._point.verb:
            return inner

        async def fatal(*args: Any, **kwargs: Any) -> Any:
            self._uses[name] += 1
            is_time = self._uses[name] == self._point.nth
            if is_time and self._point.moment is Moment.BEFORE:
                die()
            answer = await inner(*args, **kwargs)
            if is_time:
                die()
            return answer

        return fatal


class SentinelRemote:
    """A remote system that acts whenever it is asked to, remembers under which key, and forgets nothing.

    Any number of processes may use one file. `act_once` is the remote that honours keys.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def act(self, key: str, value: object) -> int:
        """Act, durably; the number of the effect."""
        line = json.dumps({"key": key, "value": value}) + "\n"
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            os.write(descriptor, line.encode())
            os.fsync(descriptor)
            return os.lseek(descriptor, 0, os.SEEK_CUR)
        finally:
            os.close(descriptor)

    def act_once(self, key: str, value: object) -> int:
        """Act unless the key has acted before. For one process at a time."""
        return self.act(key, value) if self.found(key) is None else 0

    def found(self, key: str) -> object | None:
        """What the first effect under this key was given; None if there is none."""
        return next((value for each, value in self._lines() if each == key), None)

    def effects(self) -> Counter[str]:
        """How often each key has acted."""
        return Counter(key for key, _ in self._lines())

    def _lines(self) -> list[tuple[str, object]]:
        if not self._path.exists():
            return []
        lines = [json.loads(line) for line in self._path.read_text("utf-8").splitlines()]
        return [(line["key"], line["value"]) for line in lines]

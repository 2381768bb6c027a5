"""The limits of one HTTP front door."""

from __future__ import annotations

from dataclasses import dataclass, fields

from placet.errors import ConfigurationError
from placet.model.exact import is_seconds

_COUNTS = ("max_body_bytes", "max_waiting", "max_waiting_each")


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpSettings:
    """Every number is finite and positive.

    Attributes:
        max_body_bytes: of one request, before anything in it is read.
        body_seconds: how long a client may take to send one.
        max_wait_seconds: how long one request may wait for a person's answer, whatever it prefers.
        poll_seconds: how often whoever waits looks by itself; a store that wakes it makes it look sooner.
        heartbeat_seconds: a stream that has nothing to tell says so this often.
        slow_reader_seconds: how long a stream waits for a reader that takes nothing, before it lets it go.
        max_waiting: requests that wait and streams that are open, of everybody; more are turned away.
        max_waiting_each: the same of one principal.
        ready_seconds: how long the store may take to answer whether it is there.
    """

    max_body_bytes: int = 1_048_576
    body_seconds: float = 15.0
    max_wait_seconds: float = 60.0
    poll_seconds: float = 1.0
    heartbeat_seconds: float = 15.0
    slow_reader_seconds: float = 30.0
    max_waiting: int = 1_000
    max_waiting_each: int = 32
    ready_seconds: float = 3.0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not is_seconds(value):
                raise ConfigurationError(f"The setting {field.name!r} is a finite number above zero.")
            if field.name in _COUNTS and type(value) is not int:
                raise ConfigurationError(f"The setting {field.name!r} is a whole number.")

"""How far a call is, as its tool says while it runs. It proves nothing, and is kept nowhere."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from placet.model.identifiers import CallId


@dataclass(frozen=True, slots=True, kw_only=True)
class CallProgress:
    """One word of a running attempt.

    Attributes:
        done: how far it is, in the tool's own unit; another attempt may begin at nothing again.
        total: how much there is in all; None where nobody knows.
        message: one line of at most 200 characters that hides nothing; None where the tool has no words, or such that
            cannot be shown. The tool's own text, or its upstream's: show it, and do not believe it.
    """

    call_id: CallId
    tool: str
    attempt: int
    done: float
    total: float | None = None
    message: str | None = field(default=None, repr=False)


ProgressListener = Callable[[CallProgress], Any]
"""A plain function; called in the gate's event loop, so it must not wait. What it raises is nobody's."""

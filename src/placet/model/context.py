"""What a handler and a probe may know, and what a probe may answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from placet.model.identifiers import CallId, OperationKey, RunId
from placet.model.json import JsonValue
from placet.model.principal import Principal


@dataclass(frozen=True, slots=True, kw_only=True)
class CallContext:
    """What a handler may know besides its arguments. Nothing in it changes what was authorised.

    Attributes:
        operation_key: send it downstream as the idempotency key; the same in every attempt.
        attempt: number of this attempt.
        deadline_at: when placet stops waiting, UTC.
    """

    tenant: str
    principal: Principal
    run_id: RunId
    call_id: CallId
    operation_key: OperationKey
    attempt: int
    deadline_at: datetime
    _remaining: Callable[[], float]
    _guard: Callable[[], None]

    def remaining_seconds(self) -> float:
        """Seconds until the deadline, never negative; a good timeout for the downstream request."""
        return self._remaining()

    def guard(self) -> None:
        """Call it right before the first byte leaves.

        Raises:
            NotSent: it is too late to send; let it pass through.
        """
        self._guard()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeContext:
    """What a probe may know: whose effect it looks for, and under which key it was sent."""

    tenant: str
    operation_key: OperationKey
    arguments: JsonValue = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The probe found the effect. `result` becomes the recorded result if it keeps the contract."""

    result: object = field(repr=False)
    external_reference: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Absent:
    """The probe looked and the effect is not there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CannotTell:
    """The probe could not find out."""


ProbeAnswer = Found | Absent | CannotTell

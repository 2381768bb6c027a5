"""The limits of one gate."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from placet.errors import ConfigurationError


@dataclass(frozen=True, slots=True, kw_only=True)
class GateSettings:
    """Every number is finite and positive.

    Attributes:
        max_steps: proposals of one run, refused ones included, each call id once.
        call_seconds: how long one submitted call may take in all, waiting and retries included, unless the caller
            says otherwise.
        lease_seconds: how long a dispatched effect is its owner's without a sign of life.
        grace_seconds: how long a cancelled handler may take to end.
        pause_seconds: how long this process may stand still between a handler's guard and its first byte; after
            `send_by` plus this, plus the remote's own bound, nothing is on its way any more.
        recovery_seconds: how often stranded and unknown effects are looked after.
        max_probes: probes of one unknown effect before it is left to people.
        probe_seconds: deadline of one probe.
    """

    max_steps: int = 200
    call_seconds: float = 60.0
    lease_seconds: float = 30.0
    grace_seconds: float = 0.5
    pause_seconds: float = 5.0
    recovery_seconds: float = 10.0
    max_probes: int = 20
    probe_seconds: float = 10.0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if type(value) not in (int, float) or not math.isfinite(value) or value <= 0:
                raise ConfigurationError(f"The setting {field.name!r} is a finite number above zero.")
        if type(self.max_steps) is not int or type(self.max_probes) is not int:
            raise ConfigurationError("The settings 'max_steps' and 'max_probes' are whole numbers.")

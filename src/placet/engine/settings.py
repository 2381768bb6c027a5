"""The limits of one gate."""

from __future__ import annotations

from dataclasses import dataclass, fields

from placet.errors import ConfigurationError
from placet.model.exact import is_seconds
from placet.model.retention import Retention, is_retention

_MAY_BE_NONE = ("max_waiting", "spare_processes")
_FOR_EVER = ("retention_seconds", "audit_retention_seconds")


@dataclass(frozen=True, slots=True, kw_only=True)
class GateSettings:
    """Every number is finite and positive; `max_waiting` and `spare_processes` may be 0.

    Attributes:
        max_steps: proposals of one run, refused ones included; the same call under the same id counts once, and so does
            a batch that is refused as a whole.
        max_denials: refusals of one tool in one run, by policy, by its contract or by a person, after which the tool
            is closed for the rest of the run.
        call_seconds: how long one submitted call may take in all, waiting and retries included, unless the caller
            says otherwise.
        lease_seconds: how long a dispatched effect is its owner's without a sign of life.
        grace_seconds: how long a cancelled handler may take to end.
        pause_seconds: how long this process may stand still between a handler's guard and its first byte; after
            `send_by` plus this, plus the remote's own bound, nothing is on its way any more.
        recovery_seconds: how often stranded and unknown effects are looked after.
        max_probes: probes of one unknown effect before it is left to people.
        probe_seconds: deadline of one probe.
        max_waiting: calls of one tool and tenant that may wait for room behind one another; 0 lets none wait.
        max_processes: attempts of `process` handlers that run at once, of all tenants; more calls wait for room.
        spare_processes: processes kept ready for them once the first was needed; each serves one attempt.
        retention_seconds: how long finished operations of contracts that say nothing themselves, and runs, approvals
            and voided tokens, are kept by rounds of purging; None for ever, else a day or more.
        audit_retention_seconds: the same for audit events.
    """

    max_steps: int = 200
    max_denials: int = 10
    call_seconds: float = 60.0
    lease_seconds: float = 30.0
    grace_seconds: float = 0.5
    pause_seconds: float = 5.0
    recovery_seconds: float = 10.0
    max_probes: int = 20
    probe_seconds: float = 10.0
    max_waiting: int = 256
    max_processes: int = 8
    spare_processes: int = 1
    retention_seconds: float | None = None
    audit_retention_seconds: float | None = None

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name in _MAY_BE_NONE and type(value) is int and value == 0:
                continue
            if field.name in _FOR_EVER and (value is None or is_retention(value)):
                continue
            if field.name in _FOR_EVER:
                raise ConfigurationError(f"The setting {field.name!r} is None, or a finite number of a day or more.")
            if not is_seconds(value):
                raise ConfigurationError(f"The setting {field.name!r} is a finite number above zero.")
        for name in ("max_steps", "max_denials", "max_probes", "max_waiting", "max_processes", "spare_processes"):
            if type(getattr(self, name)) is not int:
                raise ConfigurationError(f"The setting {name!r} is a whole number.")

    @property
    def retention(self) -> Retention:
        """What rounds of purging go by."""
        return Retention(seconds=self.retention_seconds, audit_seconds=self.audit_retention_seconds)

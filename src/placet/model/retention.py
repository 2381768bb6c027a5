"""What is forgotten when it is old, what is left of it, and what is held against forgetting."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from placet.errors import MisuseError
from placet.model.audit import AuditEvent, ChainTombstone
from placet.model.credentials import StoredCredential
from placet.model.effect import EffectState
from placet.model.exact import is_seconds
from placet.model.identifiers import ApprovalId, OperationKey, RunId, Token

SHORTEST_RETENTION_SECONDS = 86_400.0
"""Nothing younger than a day is forgotten: lost answers are asked for again, and leases end, within far less."""

ALL_SCOPE = "all"
_TENANT = "tenant:"


class Kept(StrEnum):
    """What a store keeps, by what may be forgotten of it."""

    OPERATIONS = "operations"
    RUNS = "runs"
    APPROVALS = "approvals"
    TOKENS = "tokens"
    API_KEYS = "api_keys"
    EVENTS = "events"


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """How long finished things are kept; None keeps them for ever. A contract's own retention comes before `seconds`.

    Attributes:
        seconds: for operations of contracts that say nothing themselves, and for runs, approvals, voided tokens and API
            keys that have ended.
        audit_seconds: for audit events.
    """

    seconds: float | None = None
    audit_seconds: float | None = None

    def __post_init__(self) -> None:
        for value in (self.seconds, self.audit_seconds):
            if value is not None and not is_retention(value):
                raise MisuseError("A retention is a finite number of seconds, of one day or more.")


def is_retention(value: object) -> bool:
    """Whether things may be forgotten after so many seconds."""
    return is_seconds(value) and float(value) >= SHORTEST_RETENTION_SECONDS


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class FinishedKind:
    """Operations of one tool and tenant that are finished and not forgotten yet."""

    tenant: str
    tool: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Grave:
    """One finished operation as it was seen, and the mark that its row carries from then on.

    Attributes:
        sealed_mark: made by a holder of the key for this very row, so that a row emptied by hand does not pass for it.
    """

    tenant: str
    operation_key: OperationKey
    state: EffectState
    fence: int
    updated_at: datetime
    sealed_mark: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class OldRun:
    """One run as it was seen."""

    tenant: str
    run_id: RunId
    steps: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokenRun:
    """A run that cannot be read any more, because somebody changed it by hand. What names it is as it stands there."""

    tenant: str
    run_id: RunId


@dataclass(frozen=True, slots=True, kw_only=True)
class OldApproval:
    """One closed approval as it was seen."""

    tenant: str
    approval_id: ApprovalId


@dataclass(frozen=True, slots=True, kw_only=True)
class Purge:
    """What one transaction forgets: all of it, or nothing if any of it is not as it was seen.

    Attributes:
        holds: the scopes that were held when it was decided; one more or less, and nothing is forgotten.
        credentials: as they were seen.
        idle_before: runs that counted a step, and credentials that ended, at this instant or later are kept.
        events: say what is forgotten and on whose word; written with it.
    """

    holds: frozenset[str]
    graves: tuple[Grave, ...] = ()
    runs: tuple[OldRun, ...] = ()
    approvals: tuple[OldApproval, ...] = ()
    tokens: tuple[Token, ...] = ()
    credentials: tuple[StoredCredential, ...] = ()
    cut: ChainCut | None = None
    idle_before: datetime
    events: tuple[AuditEvent, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainCut:
    """Removes the oldest events of one chain. The tombstone says up to where.

    Attributes:
        first_kept: where the chain began when it was looked at.
    """

    first_kept: int
    tombstone: ChainTombstone


@dataclass(frozen=True, slots=True, kw_only=True)
class OldRows:
    """How many rows of a kind are old enough to be forgotten, and since when the oldest is there."""

    count: int
    oldest_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """A legal hold: nothing within its scope is forgotten until it is lifted.

    Attributes:
        scope: `all`, or `tenant:` and a tenant's name.
        held_by: who set it.
    """

    scope: str
    held_by: str
    held_at: datetime


def tenant_hold(tenant: str) -> str:
    """The scope that holds what is one tenant's."""
    return _TENANT + tenant


def is_hold_scope(scope: object) -> bool:
    return type(scope) is str and (
        scope == ALL_SCOPE or (scope.startswith(_TENANT) and 0 < len(scope) - len(_TENANT) <= 128)
    )


def held_tenants(holds: frozenset[str]) -> frozenset[str]:
    """Whose things are held by name. `all` holds everybody's and names nobody."""
    return frozenset(scope.removeprefix(_TENANT) for scope in holds if scope.startswith(_TENANT))

"""Immutable, chained statements of what was decided or done. No argument, no result, no foreign text."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from placet.model.approval import Mac
from placet.model.decision import ShadowAnswer
from placet.model.identifiers import WriterId
from placet.model.making import quick


class EventKind(StrEnum):
    """What an event states. `started` and `completed` come in pairs, one pair per attempt."""

    STARTED = "started"
    COMPLETED = "completed"
    APPROVAL_ASKED = "approval_asked"
    APPROVAL_EDITED = "approval_edited"
    APPROVAL_VOTED = "approval_voted"
    VOTE_WITHDRAWN = "vote_withdrawn"
    APPROVAL_APPROVED = "approval_approved"
    APPROVAL_DENIED = "approval_denied"
    APPROVAL_EXPIRED = "approval_expired"
    APPROVAL_REMINDED = "approval_reminded"
    APPROVAL_ESCALATED = "approval_escalated"
    APPROVAL_WITHDRAWN = "approval_withdrawn"
    APPROVAL_SPENT = "approval_spent"
    APPROVAL_SUSPECT = "approval_suspect"
    DECISION_REFUSED = "decision_refused"
    EFFECT_RECONCILED = "effect_reconciled"
    RECORD_ALTERED = "record_altered"
    RECONCILE_REFUSED = "reconcile_refused"
    OVERRIDE_DECLARED = "override_declared"
    STOPPED = "stopped"
    RESUMED = "resumed"
    STOP_REFUSED = "stop_refused"
    RUN_BEGUN = "run_begun"
    RUN_PAUSED = "run_paused"
    RUN_RESUMED = "run_resumed"
    RUN_CANCELLED = "run_cancelled"
    RUN_MOVED = "run_moved"
    RUN_WAITS = "run_waits"
    RUN_ENDED = "run_ended"
    RUN_CHANGE_REFUSED = "run_change_refused"
    KEY_ROTATED = "key_rotated"
    KEY_RETIRED = "key_retired"
    RECORDS_PURGED = "records_purged"
    AUDIT_CUT = "audit_cut"
    HOLD_SET = "hold_set"
    HOLD_LIFTED = "hold_lifted"
    PURGE_REFUSED = "purge_refused"
    API_KEY_CREATED = "api_key_created"
    API_KEY_ROTATED = "api_key_rotated"
    API_KEY_REVOKED = "api_key_revoked"
    API_KEY_REFUSED = "api_key_refused"
    SIGN_IN_LINK_MADE = "sign_in_link_made"
    SESSION_BEGUN = "session_begun"
    SESSION_ENDED = "session_ended"
    SESSION_REFUSED = "session_refused"
    CREDENTIAL_SUSPECT = "credential_suspect"
    GRANT_GIVEN = "grant_given"
    GRANT_REVOKED = "grant_revoked"
    GRANT_USED_UP = "grant_used_up"
    GRANT_REFUSED = "grant_refused"
    GRANT_SUSPECT = "grant_suspect"
    TOOL_ACCEPTED = "tool_accepted"
    TOOL_QUARANTINED = "tool_quarantined"
    TOOL_DISCOVERED = "tool_discovered"
    ACCEPTANCE_REFUSED = "acceptance_refused"
    PIN_SUSPECT = "pin_suspect"
    UPSTREAM_ASKED = "upstream_asked"
    UPSTREAM_ANSWERED = "upstream_answered"
    DESTINATION_CLOSED = "destination_closed"
    DESTINATION_OPENED = "destination_opened"
    DELIVERY_GIVEN_UP = "delivery_given_up"


ALARMS = frozenset(
    {
        EventKind.APPROVAL_SUSPECT,
        EventKind.RECORD_ALTERED,
        EventKind.CREDENTIAL_SUSPECT,
        EventKind.GRANT_SUSPECT,
        EventKind.PIN_SUSPECT,
    }
)
"""Kinds that say somebody altered a row, or a pin; one of them is enough to wake somebody."""


class AuditOutcome(StrEnum):
    """How an attempt, or a decision that ended earlier, came out."""

    VALIDATION = "validation"
    DENIED = "denied"
    APPROVAL_REQUIRED = "approval_required"
    TIMEOUT = "timeout"
    SUCCESS = "success"
    REPLAYED = "replayed"
    CONFLICT = "conflict"
    ERROR = "error"
    UNKNOWN = "unknown"


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """Counts that say how a value was shaped, never what was in it. Source: REQUIREMENTS B116."""

    field_count: int = 0
    scalar_count: int = 0
    collection_count: int = 0
    redacted_field_count: int = 0
    content_field_count: int = 0
    identifier_field_count: int = 0


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEvent:
    """One statement. Its fields are fixed, and `rules.audit.check_event` checks their values.

    Attributes:
        at: the writer's clock, UTC.
        tool: a registered name, or `unknown`.
        rejected_name: keyed fingerprint of a name that is not registered.
        operation: keyed fingerprint of the operation key, which may hold business data.
        fence: dispatch number of the effect; 0 where there is none.
        duration_ms: milliseconds, three decimals; 0 on `started`.
        arguments_fingerprint, result_fingerprint: keyed, lossy; they correlate and decide nothing.
        decided_by: the person who decided, settled or stopped, from its own sign-in.
        decided_at: when an approval was decided; of a reconciliation, when the look that settled it began.
        detail: fixed code naming the rule or reason.
        shadow: what a policy in shadow would have answered, beside what was; None where none is set.
        repaired: the arguments are not the proposed text as it stood, but what it says once its wrapping is undone.
        model_suggested: always true for a proposal: the wish was a model's, the leave was not.
        key_id: the key of the fingerprints.
    """

    kind: EventKind
    at: datetime
    tenant: str
    subject: str
    key_id: str
    roles: tuple[str, ...] = ()
    on_behalf_of: str | None = None
    environment: str | None = None
    request_id: str | None = None
    run_id: str | None = None
    call_id: str | None = None
    tool: str = "unknown"
    tool_version: str | None = None
    rejected_name: str | None = None
    permission: str | None = None
    risk: str | None = None
    effect_class: str | None = None
    attempt: int | None = None
    fence: int = 0
    outcome: AuditOutcome | None = None
    error_type: str | None = None
    detail: str | None = None
    reasons: tuple[str, ...] = ()
    decision: str | None = None
    policy_version: str | None = None
    approval_id: str | None = None
    decided_by: str | None = None
    decided_at: datetime | None = None
    expires_at: datetime | None = None
    purpose: str | None = None
    operation: str | None = None
    effect_state: str | None = None
    arguments: Summary | None = None
    arguments_fingerprint: str | None = None
    result: Summary | None = None
    result_fingerprint: str | None = None
    duration_ms: float = 0.0
    model_suggested: bool = True
    repaired: bool = False
    shadow: ShadowAnswer | None = None


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class ChainedEvent:
    """An event as stored: its canonical body, its place in its writer's chain, and the link that holds it there."""

    writer: WriterId
    sequence: int
    body: bytes
    link: str
    key_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UnchainedEvent:
    """An event that a handler's own transaction wrote, and that no writer has put into its chain yet.

    Attributes:
        number: where it stands among those that wait.
        mac: over the body, so that nobody who can write to the database slips an event into the audit.
    """

    number: int
    body: bytes
    mac: Mac


@dataclass(frozen=True, slots=True, kw_only=True)
class ElidedEvents:
    """Events of one chain, from `first` to `last`, of which only the last link is told."""

    writer: WriterId
    first: int
    last: int
    link: str


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class ChainHead:
    """Where a writer's chain ends, MACed, so that a missing tail shows.

    Attributes:
        opened_after: where other chains stood when this one began, if none had named that yet; canonical JSON.
        mac: over writer, sequence, link and opened_after.
    """

    writer: WriterId
    sequence: int
    link: str
    opened_after: bytes
    key_id: str
    mac: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainTombstone:
    """Where a chain begins whose oldest events were removed on purpose, and on whose word; MACed.

    Attributes:
        first_kept: sequence of the first event that is still there; everything before it is gone.
        link: the link of the last event that was removed, which the first kept one is linked to.
        removed: how many events the last cut removed.
        cut_by, cut_at: who made it, and when by the store's clock.
        mac: over all of the others.
    """

    writer: WriterId
    first_kept: int
    link: str
    removed: int
    cut_by: str
    cut_at: datetime
    key_id: str
    mac: str

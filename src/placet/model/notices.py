"""What is announced, and what becomes of it.

    audit event ── read past a destination's cursor ──▶ delivery: pending → delivered
                                                                        └→ dead ── a person: retry ──▶ pending

The audit is the outbox: a delivery names an event and holds nothing of it. What a message says is read from the event
when it is sent, after its link was checked.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from placet.model.audit import AuditEvent
from placet.model.identifiers import Token, WriterId
from placet.model.ledger import Place


class NoticeKind(StrEnum):
    """What a message is about. The word before the dot is its group."""

    APPROVAL_ASKED = "approval.asked"
    APPROVAL_REMINDED = "approval.reminded"
    APPROVAL_ESCALATED = "approval.escalated"
    APPROVAL_APPROVED = "approval.approved"
    APPROVAL_DENIED = "approval.denied"
    APPROVAL_EXPIRED = "approval.expired"
    APPROVAL_WITHDRAWN = "approval.withdrawn"
    APPROVAL_SPENT = "approval.spent"
    EFFECT_UNKNOWN = "effect.unknown"
    EFFECT_RECONCILED = "effect.reconciled"
    STOP_BEGUN = "stop.begun"
    STOP_LIFTED = "stop.lifted"
    TOOL_QUARANTINED = "tool.quarantined"
    TOOL_ACCEPTED = "tool.accepted"
    ALARM_APPROVAL = "alarm.approval_suspect"
    ALARM_RECORD = "alarm.record_altered"
    ALARM_CREDENTIAL = "alarm.credential_suspect"
    ALARM_GRANT = "alarm.grant_suspect"
    ALARM_PIN = "alarm.pin_suspect"
    TEST = "test"


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """One message before it takes the form of a channel.

    Attributes:
        message_id: the same for the same event and destination, however often it is sent.
        at: when it happened.
        event: what the audit says; nothing else is told. None of a test.
        url: the console's page of it; None where no console is configured.
    """

    message_id: str
    kind: NoticeKind
    at: datetime
    event: AuditEvent | None
    url: str | None


class DeliveryState(StrEnum):
    PENDING = "pending"
    DELIVERED = "delivered"
    DEAD = "dead"


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """One event on its way to one destination.

    Attributes:
        kind: for showing only; what is sent is read from the event.
        attempts: how often it was taken to be sent.
        due_at: when it may be taken; while somebody sends it, when that one is given up.
        ended_at: when it was delivered, or died.
        code: what came of the last attempt, a fixed word.
        token: of whoever took it last.
    """

    destination: str
    place: Place
    kind: NoticeKind
    state: DeliveryState
    attempts: int
    made_at: datetime
    due_at: datetime
    ended_at: datetime | None = None
    code: str | None = None
    token: Token | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownDestination:
    """What the store knows of a destination.

    Attributes:
        begun_at: since when it hears; nothing of before is announced to it.
        closed_at: since when nothing is sent to it, because it said that it is gone.
    """

    name: str
    begun_at: datetime
    closed_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadChain:
    """A writer's chain that has grown since a destination's cursor, or is shorter than it.

    Attributes:
        read: the cursor: the sequence of the last event that was read; None where none was.
        first_kept: the first event that is still there.
        end: the sequence of the last event.
    """

    writer: WriterId
    read: int | None
    first_kept: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CursorMove:
    writer: WriterId
    was: int | None
    now: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NewDelivery:
    place: Place
    kind: NoticeKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Announcing:
    """Cursors of one destination and what was found on their way, to be written together or not at all."""

    destination: str
    moves: tuple[CursorMove, ...]
    found: tuple[NewDelivery, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """What came of one attempt.

    Attributes:
        due_in_seconds: when it may be tried again; of a pending one only.
    """

    state: DeliveryState
    code: str
    due_in_seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxCount:
    """How much of a destination's waits, since when, and how much of it was given up."""

    destination: str
    pending: int
    oldest_at: datetime | None
    dead: int

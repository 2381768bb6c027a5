"""One intended change of the world: a row of the ledger.

(none) | prepared | failed | reconciled_absent → dispatched        fence + 1
dispatched → committed | failed | unknown
dispatched → reconciled_absent                                       take-over of a co-commit row only
unknown    → reconciled_committed | reconciled_absent
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone
from enum import StrEnum
from typing import TypeGuard

from placet.model.exact import LONGEST_SECONDS, is_whole
from placet.model.identifiers import ApprovalId, CallId, Digest, OperationKey, OwnerId, PolicyVersion, RunId, Token
from placet.model.making import quick

CO_COMMIT_MARK = "co:"
"""What the token of a dispatch begins with whose handler settles it in its own transaction, or not at all. A dispatch
keeps its token, and everything that changes the row compares it."""


class EffectState(StrEnum):
    PREPARED = "prepared"
    DISPATCHED = "dispatched"
    COMMITTED = "committed"
    FAILED = "failed"
    UNKNOWN = "unknown"
    RECONCILED_COMMITTED = "reconciled_committed"
    RECONCILED_ABSENT = "reconciled_absent"

    @property
    def is_committed(self) -> bool:
        return self in (EffectState.COMMITTED, EffectState.RECONCILED_COMMITTED)

    @property
    def may_be_dispatched(self) -> bool:
        return self in (EffectState.PREPARED, EffectState.FAILED, EffectState.RECONCILED_ABSENT)


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """What the ledger knows of one operation. All instants are the store's clock, UTC.

    Attributes:
        subject: whose operation it is, a `Principal.identity`; only this principal, or one with `effects.read`,
            learns details.
        fence: dispatch number; every change compares it, so a stale owner changes nothing.
        attempts: attempts opened in all dispatches.
        attempt: number of the attempt now or last open.
        token: identity of the claim that holds the row.
        lease_until: when others may take the row over.
        send_by: after this instant no first byte leaves for the attempt.
        arrival_bound_seconds: the contract's bound for a sent request to act; 0 if none is known.
        ends_by_itself: whether the attempt is known to stop by its deadline (a cancelled coroutine), so that
            `send_by` bounds it. Otherwise absence needs its end, or its owner's death, on record.
        attempt_ended_at: when it was put on record that the attempt had ended: by its own worker's word, or because
            its owner was proven dead. None while it may go on.
        probes: how often a probe looked without an answer.
        sealed_arguments, sealed_result: canonical JSON, encrypted and bound to tenant and key.
        result_digest: SHA-256 of the canonical result.
        reason: fixed code saying why it is where it is.
    """

    tenant: str
    operation_key: OperationKey
    fingerprint: Digest
    tool: str
    tool_version: str
    contract_digest: Digest
    argument_digest: Digest
    run_id: RunId
    call_id: CallId
    subject: str
    policy_version: PolicyVersion
    decision: str
    approval_id: ApprovalId | None
    state: EffectState
    fence: int
    attempts: int
    attempt: int
    token: Token
    owner: OwnerId
    lease_until: datetime
    send_by: datetime
    arrival_bound_seconds: float
    ends_by_itself: bool
    attempt_ended_at: datetime | None
    probes: int
    probe_after: datetime | None
    sealed_arguments: bytes
    sealed_result: bytes | None
    result_digest: Digest | None
    external_reference: str | None
    reason: str | None
    created_at: datetime
    updated_at: datetime

    @property
    def is_purged(self) -> bool:
        """Whether the row says that only its name and its end are left. Its mark, which is sealed, is the proof."""
        return not self.owner

    @property
    def co_commits(self) -> bool:
        """Whether the handler of this dispatch settles it in its own transaction, so that the row tells the truth."""
        return self.token.startswith(CO_COMMIT_MARK)


_TEXTS = (
    *("tenant", "operation_key", "fingerprint", "tool", "tool_version", "contract_digest", "argument_digest"),
    *("run_id", "call_id", "subject", "policy_version", "decision", "token", "owner"),
)
_PERHAPS_TEXTS = ("approval_id", "result_digest", "external_reference", "reason")
_NUMBERS = ("fence", "attempts", "attempt", "probes")
_INSTANTS = ("lease_until", "send_by", "created_at", "updated_at")
_PERHAPS_INSTANTS = ("attempt_ended_at", "probe_after")
_MOST = 2**63 - 1


def is_effect(value: object) -> TypeGuard[Effect]:
    """Whether `value` is a row as a store gives it: each field of its exact kind. Runs no foreign method."""
    if not is_whole(value, Effect):
        return False
    bound = value.arrival_bound_seconds
    return (
        all(_is_text(getattr(value, name)) for name in _TEXTS)
        and all(each is None or _is_text(each) for each in (getattr(value, name) for name in _PERHAPS_TEXTS))
        and all(type(each) is int and 0 <= each <= _MOST for each in (getattr(value, name) for name in _NUMBERS))
        and all(_is_instant(getattr(value, name)) for name in _INSTANTS)
        and all(each is None or _is_instant(each) for each in (getattr(value, name) for name in _PERHAPS_INSTANTS))
        and (type(bound) is int or type(bound) is float)
        and 0 <= bound <= LONGEST_SECONDS
        and type(value.state) is EffectState
        and type(value.ends_by_itself) is bool
        and type(value.sealed_arguments) is bytes
        and (value.sealed_result is None or type(value.sealed_result) is bytes)
    )


def _is_text(value: object) -> bool:
    return type(value) is str and (value.isascii() or not any("\ud800" <= each <= "\udfff" for each in value))


def _is_instant(value: object) -> bool:
    return type(value) is datetime and type(value.tzinfo) is timezone


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokenEffect:
    """A row that cannot be read any more, because somebody changed it by hand. What names it is as it stands there."""

    tenant: str
    operation_key: OperationKey


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownEffects:
    """How many effects are unknown, over all tenants, and since when the oldest is; None if there is none.

    Attributes:
        groups: the same effects, counted by tool and by how often somebody looked in vain.
    """

    count: int
    oldest_at: datetime | None
    groups: tuple[UnknownGroup, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownGroup:
    """Unknown effects of one tool, after so many looks in vain."""

    tool: str
    probes: int
    count: int

"""What the engine asks of a ledger, one transaction each, and what the ledger answers."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime

from placet.model.approval import Approval, ApprovalState
from placet.model.audit import AuditEvent
from placet.model.effect import Effect, EffectState
from placet.model.grant import GrantId
from placet.model.identifiers import (
    ApprovalId,
    CallId,
    Digest,
    OperationKey,
    OwnerId,
    PolicyVersion,
    RunId,
    Token,
    WriterId,
)
from placet.model.making import quick

# ---------------------------------------------------------------- what the engine hands over


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One proposal counted against its run; the same wish under the same call id counts once.

    Attributes:
        fingerprint: what was wished; a call id that is used again for something else is another step.
        max_denials: refusals of one tool after which the run has no more to do with it.
        pin: of a tool of an upstream, the definition that its contract was made of.
    """

    tenant: str
    run_id: RunId
    call_id: CallId
    fingerprint: str
    subject: str
    policy_version: PolicyVersion
    max_steps: int
    max_denials: int
    pin: Digest | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Spend:
    """One approval to be spent by a claim: the signature must still be the one that was verified."""

    approval_id: ApprovalId
    signature: str
    event: AuditEvent


@dataclass(frozen=True, slots=True, kw_only=True)
class Withdrawal:
    """A question, or an approval nobody used, to be closed with something else, if it is still as seen."""

    approval: Approval
    event: AuditEvent


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantUse:
    """One use of a standing grant to be counted by a claim: the MAC must still be the one that was verified.

    Attributes:
        max_uses, expires_at: as they were verified.
        last_event: written with the use after which there is none left.
        same: what is asked. Besides what is named here no pending, approved or denied question of it may stand.
        withdrawn: the question that waits for an answer to it; None if none does.
        passed_over: other questions of it, that do not matter as long as they are in this state.
    """

    grant_id: GrantId
    mac: str
    max_uses: int
    expires_at: datetime
    last_event: AuditEvent
    same: SameAsk
    withdrawn: Withdrawal | None = None
    passed_over: frozenset[tuple[ApprovalId, ApprovalState]] = frozenset()


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """Take the operation for one dispatch.

    Attributes:
        expected_fence: the fence that was read; 0 for an operation the ledger does not know.
        token: fresh for this claim, the same when the claim is repeated after a lost answer.
        lease_seconds, send_window_seconds: from the store's now.
        events: begin with the started event.
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
    sealed_arguments: bytes
    arrival_bound_seconds: float
    ends_by_itself: bool
    first_attempt: int
    expected_fence: int
    token: Token
    owner: OwnerId
    lease_seconds: float
    send_window_seconds: float
    spend: Spend | None
    step: Step
    events: tuple[AuditEvent, ...]
    grant: GrantUse | None = None


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """Close one attempt and open the next, inside one dispatch.

    Attributes:
        pin: as of a `Step`.
    """

    tenant: str
    operation_key: OperationKey
    fence: int
    attempt: int
    lease_seconds: float
    send_window_seconds: float
    max_attempts: int
    events: tuple[AuditEvent, ...]
    pin: Digest | None = None


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class Settlement:
    """Write how a dispatch ended. A repeat by the same token changes nothing and answers the same.

    Attributes:
        attempt: the one that is closed; while the effect is dispatched it must be the one that is open.
        events: written with the change, the completed event among them.
        late_events: written instead if the row was taken over meanwhile and this is the late truth.
    """

    tenant: str
    operation_key: OperationKey
    fence: int
    token: Token
    attempt: int
    state: EffectState
    reason: str
    attempt_has_ended: bool
    sealed_result: bytes | None
    result_digest: Digest | None
    external_reference: str | None
    events: tuple[AuditEvent, ...]
    late_events: tuple[AuditEvent, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconciliation:
    """Write the truth about an unknown effect.

    Attributes:
        fence: as read before the probe started.
        looked_at: when the probe, or the person's look, started; absence needs it after the quiet end.
        pause_seconds: how long a worker may pause between its guard and its first byte.
    """

    tenant: str
    operation_key: OperationKey
    fence: int
    state: EffectState
    looked_at: datetime
    pause_seconds: float
    reason: str
    sealed_result: bytes | None
    result_digest: Digest | None
    external_reference: str | None
    events: tuple[AuditEvent, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SameAsk:
    """What makes two proposals the same question: principal, run, tool, arguments, and the policy unless None.

    `operation_key` narrows it where a caller named the operation itself.
    """

    tenant: str
    subject: str
    run_id: RunId
    tool: str
    argument_digest: Digest
    policy_version: PolicyVersion | None
    operation_key: OperationKey | None


# ---------------------------------------------------------------- what the store answers


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class Claimed:
    """The operation is ours for one dispatch; `effect` is the row as written."""

    effect: Effect


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """The row is not what the claim expected; nothing was written. `effect` is the row as it is."""

    effect: Effect


@dataclass(frozen=True, slots=True, kw_only=True)
class NotUsable:
    """The approval, or the standing grant, was spent, expired, revoked or altered since it was verified, or somebody
    said something about what the grant was to answer; nothing was written.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class OverBudget:
    """The run has no step left; nothing was written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutsideRun:
    """The run is paused or over, past its deadline, without this tool, or without what it takes; nothing was written.

    Attributes:
        code: fixed word, as a refusal has it.
    """

    code: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NotYourRun:
    """The run belongs to another principal; nothing was written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopped:
    """An operator has stopped this tool, tenant, run or everything; nothing was written."""

    scope: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolClosed:
    """The tool has been refused too often in this run; nothing was written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Voided:
    """The token was voided after a lost answer; the claim can never land."""


ClaimAnswer = Claimed | Held | NotUsable | OverBudget | OutsideRun | NotYourRun | Stopped | ToolClosed | Voided


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where an event stands in the audit."""

    writer: WriterId
    sequence: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenRead:
    """Whose read is being started. If its owner is lost, recovery writes the completed event that is missing."""

    owner: OwnerId
    lease_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LostRead:
    """A read whose owner's lease is over: the place and the body of its started event."""

    place: Place
    started: bytes


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """The events, and the step if one was given, are durable. `place` is that of the last event."""

    place: Place


RecordAnswer = Recorded | OverBudget | OutsideRun | NotYourRun | Stopped | ToolClosed


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """The change was made; `effect` is the row as it is. `is_news` is false if it had been made before."""

    effect: Effect
    is_news: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class NotMoved:
    """The row is another owner's, in another state, or may not move so; nothing changed."""

    effect: Effect
    reason: str


MoveAnswer = Moved | NotMoved


@dataclass(frozen=True, slots=True, kw_only=True)
class CoCommitted:
    """The settle is in the handler's transaction, and becomes durable with it, or not at all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NotSettled:
    """The effect is not this attempt's to settle (any more), and nothing of the transaction can commit.

    Attributes:
        reason: fixed code, as of a `NotMoved`.
    """

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NotCovered:
    """No effect can be settled in this transaction; nothing was written to the ledger.

    Attributes:
        reason: fixed code: what it lacks.
    """

    reason: str


CoCommitAnswer = CoCommitted | NotSettled | NotCovered


def run_scope(tenant: str, run_id: str) -> str:
    """The stop scope of one run; two runs never share one, whatever their names hold."""
    return "run:" + json.dumps([tenant, run_id], ensure_ascii=False, separators=(",", ":"))


def tool_scope(tenant: str, tool: str) -> str:
    """The stop scope of one tool for one tenant; that of a tool for every tenant is `tool:` and its name."""
    return "tool:" + json.dumps([tenant, tool], ensure_ascii=False, separators=(",", ":"))


def upstream_scope(tenant: str, server: str) -> str:
    """The stop scope of one upstream for one tenant; that of an upstream for every tenant is `upstream:` and its id."""
    return "upstream:" + json.dumps([tenant, server], ensure_ascii=False, separators=(",", ":"))


def quarantine_scope(tool: str, pin: Digest) -> str:
    """The stop scope of a tool as it was once accepted, while its upstream describes it otherwise; for every tenant."""
    return f"quarantine:{quarantined_name(tool, pin)}"


def quarantined_name(tool: str, pin: Digest) -> str:
    """A tool and the definition of it that is meant: half of the digest, so that the whole is a name."""
    return f"{tool}@{pin[:32]}"


def scopes_of(tenant: str, tool: str, run_id: str, pin: Digest | None = None) -> tuple[str, ...]:
    """Every stop scope that halts a call. A tool of an upstream bears the upstream's id before the first dot.

    Args:
        pin: of the definition that the call's contract was made of; None for a tool of our own.
    """
    server, dot, _ = tool.partition(".")
    return (
        "all",
        f"tenant:{tenant}",
        f"tool:{tool}",
        tool_scope(tenant, tool),
        run_scope(tenant, run_id),
        *((f"upstream:{server}", upstream_scope(tenant, server)) if dot else ()),
        *(() if pin is None else (quarantine_scope(tool, pin),)),
    )

"""The store's verbs over tables: read the rows, let a rule decide, write the rows and the events.

Each function runs inside one exclusive transaction that its caller opens, and commits or, if it raises, rolls back. It
reads and decides first and writes last, so that a refusal leaves nothing behind. A store with other means (one
statement per verb) must answer the same; the conformance suite holds it to that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Protocol, TypeVar

from placet.errors import READ_GIVEN_UP, NotFound, StoreCorrupt, StoreUnavailable
from placet.model.approval import (
    Answer,
    Approval,
    ApprovalDecision,
    ApprovalState,
    Mac,
    OtherVotes,
    Question,
    SignedAnswer,
    SignedVote,
)
from placet.model.audit import AuditEvent, ChainTombstone
from placet.model.credentials import CredentialChange, CredentialKind, StoredCredential
from placet.model.effect import Effect, EffectState
from placet.model.identifiers import ApprovalId, OperationKey, OwnerId, RunId, Token, WriterId
from placet.model.ledger import (
    Claim,
    ClaimAnswer,
    Held,
    LostRead,
    MoveAnswer,
    Moved,
    NotMoved,
    NotUsable,
    NotYourRun,
    OpenRead,
    OverBudget,
    Place,
    Reconciliation,
    RecordAnswer,
    Recorded,
    SameAsk,
    Settlement,
    Step,
    Stopped,
    ToolClosed,
    Turn,
    Voided,
    run_scope,
    tool_scope,
)
from placet.model.retention import ALL_SCOPE, ChainCut, Grave, Hold, OldApproval, OldRun, Purge
from placet.model.run import Run
from placet.model.stopping import StopLeave, StopNote
from placet.rules import retention, transitions
from placet.rules.approvals import TRANSITIONS as APPROVAL_TRANSITIONS

Found = TypeVar("Found")


class Tables(Protocol):
    """Rows, read and written inside the caller's transaction."""

    def effect(self, tenant: str, operation_key: OperationKey) -> Effect | None: ...
    def add_effect(self, effect: Effect) -> None: ...
    def change_effect(self, effect: Effect, *, was: Effect) -> None: ...
    def is_voided(self, token: Token) -> bool: ...
    def add_void(self, token: Token, at: datetime) -> None: ...
    def renew_leases(self, owner: OwnerId, until: datetime) -> int: ...
    def approval(self, tenant: str, approval_id: ApprovalId) -> Approval | None: ...
    def open_approval(self, ask: SameAsk) -> Approval | None: ...
    def add_approval(self, approval: Approval) -> None: ...
    def change_approval(self, approval: Approval, *, was: Approval) -> None: ...
    def add_edit(self, of: Question, edited_id: ApprovalId) -> None: ...
    def votes(self, tenant: str, approval_id: ApprovalId) -> tuple[SignedVote, ...]: ...
    def add_vote(self, tenant: str, approval_id: ApprovalId, vote: SignedVote) -> None: ...
    def run(self, tenant: str, run_id: RunId) -> Run | None: ...
    def has_step(self, step: Step) -> bool: ...
    def add_step(self, step: Step, *, opened_at: datetime, is_first: bool) -> None: ...
    def denials(self, tenant: str, run_id: RunId, tool: str) -> int: ...
    def add_denial(self, tenant: str, run_id: RunId, tool: str) -> None: ...
    def stops(self) -> tuple[str, ...]: ...
    def add_stop(self, scope: str, at: datetime) -> None: ...
    def drop_stop(self, scope: str) -> None: ...
    def stop_leave(self, scope: str) -> StopLeave | None: ...
    def put_stop_note(self, scope: str, note: StopNote) -> None: ...
    def count_dispatched(self, scope: str) -> int: ...
    def open_read(self, place: Place, owner: OwnerId, lease_until: datetime) -> None: ...
    def close_read(self, place: Place) -> bool: ...
    def append(self, events: Iterable[AuditEvent]) -> Place: ...
    def put_key_check(self, check: Mac) -> None: ...
    def drop_approval(self, tenant: str, approval_id: ApprovalId) -> None: ...
    def drop_run(self, tenant: str, run_id: RunId) -> None: ...
    def drop_void(self, token: Token) -> None: ...
    def holds(self) -> frozenset[str]: ...
    def add_hold(self, hold: Hold) -> None: ...
    def drop_hold(self, scope: str) -> None: ...
    def chain_start(self, writer: WriterId) -> int: ...
    def kept_until(self, writer: WriterId) -> int: ...
    def link_at(self, writer: WriterId, sequence: int) -> str | None: ...
    def cut(self, tombstone: ChainTombstone) -> None: ...
    def credential(self, kind: CredentialKind, name: str) -> StoredCredential | None: ...
    def add_credential(self, row: StoredCredential) -> None: ...
    def change_credential(self, row: StoredCredential) -> None: ...
    def drop_credential(self, kind: CredentialKind, name: str) -> None: ...
    def touch_credential(self, row: StoredCredential, at: datetime) -> None: ...


# ---------------------------------------------------------------- ledger


def claim(tables: Tables, command: Claim, now: datetime) -> ClaimAnswer:
    effect = tables.effect(command.tenant, command.operation_key)
    answer = transitions.apply_claim(effect, command, now=now)
    if isinstance(answer, Held) or answer.effect is effect:
        return answer  # not ours, or ours since an earlier try whose answer was lost
    if tables.is_voided(command.token):
        return Voided()
    if scope := _stopped_scope(tables, command.tenant, command.tool, command.run_id):
        return Stopped(scope=scope)
    run = tables.run(command.step.tenant, command.step.run_id)
    if (refusal := _step_refusal(tables, command.step, run)) is not None:
        return refusal
    if command.spend is None and _is_closed(tables, command.step, command.tool):  # a person's leave is stronger
        return ToolClosed()
    spent = _spendable(tables, command, now) if command.spend is not None else None
    if command.spend is not None and spent is None:
        return NotUsable()
    _count(tables, command.step, run, now)
    events = list(command.events)
    if command.spend is not None and spent is not None:
        tables.change_approval(replace(spent, state=ApprovalState.SPENT, spent_at=now), was=spent)
        events.append(command.spend.event)
    if effect is None:
        tables.add_effect(answer.effect)
    else:
        tables.change_effect(answer.effect, was=effect)
    tables.append(events)
    return answer


def turn(tables: Tables, command: Turn, now: datetime) -> MoveAnswer:
    effect = _known(tables, command.tenant, command.operation_key)
    answer = transitions.apply_turn(effect, command, now=now)
    is_news = isinstance(answer, Moved) and answer.is_news
    if is_news and (scope := _stopped_scope(tables, effect.tenant, effect.tool, effect.run_id)):
        return NotMoved(effect=effect, reason=f"stopped:{scope}")
    return _write(tables, answer, was=effect, events=command.events)


def settle(tables: Tables, command: Settlement, now: datetime) -> MoveAnswer:
    effect = _known(tables, command.tenant, command.operation_key)
    answer = transitions.apply_settlement(effect, command, now=now)
    is_late = answer.effect.state is EffectState.RECONCILED_COMMITTED
    return _write(tables, answer, was=effect, events=command.late_events if is_late else command.events)


def void(tables: Tables, tenant: str, operation_key: OperationKey, token: Token, now: datetime) -> bool:
    effect = tables.effect(tenant, operation_key)
    if effect is not None and effect.token == token:
        return False
    if not tables.is_voided(token):
        tables.add_void(token, now)
    return True


def heartbeat(tables: Tables, owner: OwnerId, lease_seconds: float, now: datetime) -> int:
    return tables.renew_leases(owner, now + timedelta(seconds=lease_seconds))


def take_over(tables: Tables, seen: Effect, events: tuple[AuditEvent, ...], now: datetime) -> MoveAnswer:
    effect = _known(tables, seen.tenant, seen.operation_key)
    return _write(tables, transitions.apply_take_over(effect, seen, now=now), was=effect, events=events)


def begin_probe(tables: Tables, seen: Effect, seconds: float, now: datetime) -> bool:
    effect = _known(tables, seen.tenant, seen.operation_key)
    is_same = effect.fence == seen.fence and effect.probes == seen.probes and effect.probe_after == seen.probe_after
    if effect.state is not EffectState.UNKNOWN or not is_same:
        return False
    tables.change_effect(replace(effect, probe_after=now + timedelta(seconds=seconds)), was=effect)
    return True


def probed_in_vain(tables: Tables, seen: Effect, next_probe_seconds: float, now: datetime) -> None:
    effect = _known(tables, seen.tenant, seen.operation_key)
    if effect.state is EffectState.UNKNOWN and effect.fence == seen.fence:
        later = now + timedelta(seconds=next_probe_seconds)
        tables.change_effect(replace(effect, probes=effect.probes + 1, probe_after=later), was=effect)


def owner_died(tables: Tables, seen: Effect, now: datetime) -> None:
    effect = _known(tables, seen.tenant, seen.operation_key)
    is_same = effect.state is EffectState.UNKNOWN and effect.fence == seen.fence and effect.owner == seen.owner
    if is_same and effect.attempt_ended_at is None:
        tables.change_effect(replace(effect, attempt_ended_at=now), was=effect)


def reconcile(tables: Tables, command: Reconciliation, now: datetime) -> MoveAnswer:
    effect = _known(tables, command.tenant, command.operation_key)
    answer = transitions.apply_reconciliation(effect, command, now=now)
    return _write(tables, answer, was=effect, events=command.events)


# ---------------------------------------------------------------- approvals


def ask(
    tables: Tables,
    question: Question,
    mac: Mac,
    same: SameAsk,
    step: Step,
    events: tuple[AuditEvent, ...],
    now: datetime,
) -> Approval | RecordAnswer:
    run = tables.run(step.tenant, step.run_id)
    if (refusal := _step_refusal(tables, step, run)) is not None:
        return refusal
    if _is_closed(tables, step, question.tool):
        return ToolClosed()
    existing = tables.open_approval(same)
    _count(tables, step, run, now)
    if existing is not None:
        return existing
    approval = Approval(
        question=question, question_mac=mac, state=ApprovalState.PENDING, answer=None, signature=None, spent_at=None
    )
    tables.add_approval(approval)
    tables.append(events)
    return approval


def answer(tables: Tables, seen: Approval, given: Answer, signature: Mac, events: tuple[AuditEvent, ...]) -> Approval:
    approval = _known_approval(tables, seen)
    if approval.state is not ApprovalState.PENDING:
        return approval
    state = ApprovalState.APPROVED if given.decision is ApprovalDecision.APPROVE else ApprovalState.DENIED
    decided = replace(approval, state=state, answer=given, signature=signature)
    tables.change_approval(decided, was=approval)
    if state is ApprovalState.DENIED:
        question = approval.question
        tables.add_denial(question.tenant, question.run_id, question.tool)
    tables.append(events)
    return decided


def edit(
    tables: Tables,
    seen: Approval,
    question: Question,
    mac: Mac,
    same: SameAsk,
    events: tuple[AuditEvent, ...],
) -> Approval:
    approval = _known_approval(tables, seen)
    if approval.state is not ApprovalState.PENDING:
        return approval
    if (existing := tables.open_approval(same)) is not None:
        return existing
    edited = Approval(
        question=question, question_mac=mac, state=ApprovalState.PENDING, answer=None, signature=None, spent_at=None
    )
    tables.change_approval(replace(approval, state=ApprovalState.WITHDRAWN), was=approval)
    tables.add_approval(edited)
    tables.add_edit(approval.question, question.approval_id)
    tables.append(events)
    return edited


def vote(
    tables: Tables,
    seen: Approval,
    cast: SignedVote,
    among: tuple[SignedVote, ...],
    closing: SignedAnswer | None,
    events: tuple[AuditEvent, ...],
) -> Approval | OtherVotes:
    approval = _known_approval(tables, seen)
    if approval.state is not ApprovalState.PENDING:
        return approval
    question = approval.question
    if _signatures(tables.votes(question.tenant, question.approval_id)) != _signatures(among):
        return OtherVotes()
    tables.add_vote(question.tenant, question.approval_id, cast)
    if closing is not None:
        decided = replace(approval, state=ApprovalState.APPROVED, answer=closing.answer, signature=closing.signature)
        tables.change_approval(decided, was=approval)
        approval = decided
    tables.append(events)
    return approval


def _signatures(votes: tuple[SignedVote, ...]) -> list[str]:
    return sorted(each.signature.value for each in votes)


def retire(tables: Tables, seen: Approval, state: ApprovalState, events: tuple[AuditEvent, ...]) -> Approval:
    approval = _known_approval(tables, seen)
    if (approval.state, state) not in APPROVAL_TRANSITIONS:
        return approval
    closed = replace(approval, state=state)
    tables.change_approval(closed, was=approval)
    tables.append(events)
    return closed


# ---------------------------------------------------------------- runs, stops, audit


def record(
    tables: Tables,
    events: tuple[AuditEvent, ...],
    now: Callable[[], datetime],
    *,
    step: Step | None,
    starts_tool: str | None,
    denies_tool: str | None,
    opens: OpenRead | None,
    closes: Place | None,
) -> RecordAnswer:
    """Events alone need no clock: they are recorded even while it fails."""
    if step is not None:
        if starts_tool is not None and (scope := _stopped_scope(tables, step.tenant, starts_tool, step.run_id)):
            return Stopped(scope=scope)
        run = tables.run(step.tenant, step.run_id)
        if (refusal := _step_refusal(tables, step, run)) is not None:
            return refusal
        tool = starts_tool or denies_tool
        if tool is not None and _is_closed(tables, step, tool):
            return ToolClosed()
        _count(tables, step, run, now())
        if denies_tool is not None:
            tables.add_denial(step.tenant, step.run_id, denies_tool)
    if closes is not None and not tables.close_read(closes):
        raise StoreUnavailable("Recovery has given this read up and completed it.", code=READ_GIVEN_UP)
    place = tables.append(events)
    if opens is not None:
        tables.open_read(place, opens.owner, now() + timedelta(seconds=opens.lease_seconds))
    return Recorded(place=place)


def close_lost_read(tables: Tables, lost: LostRead, event: AuditEvent) -> bool:
    if not tables.close_read(lost.place):
        return False
    tables.append((event,))
    return True


def stop(
    tables: Tables, scope: str, events: tuple[AuditEvent, ...], now: datetime, *, note: StopNote | None = None
) -> int:
    is_new = scope not in tables.stops()
    if is_new:
        tables.add_stop(scope, now)
    is_stronger = note is not None and note.leave is StopLeave.DEPLOYMENT
    if note is not None and (is_new or (is_stronger and tables.stop_leave(scope) is StopLeave.TENANT)):
        tables.put_stop_note(scope, note)
    tables.append(events)
    return tables.count_dispatched(scope)


def resume(tables: Tables, scope: str, events: tuple[AuditEvent, ...], leave: StopLeave) -> bool:
    """A stop without a note is lifted with the strongest leave only: nobody knows what it was given with."""
    if scope not in tables.stops():
        return False
    if leave is StopLeave.TENANT and tables.stop_leave(scope) is not StopLeave.TENANT:
        return False
    tables.drop_stop(scope)
    tables.append(events)
    return True


def adopt_key(tables: Tables, check: Mac, events: tuple[AuditEvent, ...]) -> None:
    tables.put_key_check(check)
    tables.append(events)


# ---------------------------------------------------------------- forgetting


def purge(tables: Tables, command: Purge, now: datetime) -> bool:
    """All of it, or nothing if any of it is not as it was seen, or a hold was set or lifted since."""
    if tables.holds() != command.holds or ALL_SCOPE in command.holds:
        return False
    rests = [_rest(tables, grave, command.holds) for grave in command.graves]
    if None in rests or not all(_may_go(tables, command, now)):
        return False
    for pair in rests:
        if pair is not None:
            tables.change_effect(pair[1], was=pair[0])
    for run in command.runs:
        tables.drop_run(run.tenant, run.run_id)
    for approval in command.approvals:
        tables.drop_approval(approval.tenant, approval.approval_id)
    for token in command.tokens:
        tables.drop_void(token)
    if command.cut is not None:
        tables.cut(command.cut.tombstone)
    tables.append(command.events)
    return True


def _may_go(tables: Tables, command: Purge, now: datetime) -> Iterator[bool]:
    for run in command.runs:
        yield _is_idle(tables, run, command)
    for approval in command.approvals:
        yield _is_forgettable(tables, approval, command.holds, now)
    if command.cut is not None:
        yield _fits(tables, command.cut)


def _rest(tables: Tables, grave: Grave, holds: frozenset[str]) -> tuple[Effect, Effect] | None:
    effect = _readable(lambda: tables.effect(grave.tenant, grave.operation_key))
    rest = retention.buried(effect, grave) if effect is not None else None
    return None if effect is None or rest is None or retention.is_held(grave.tenant, holds) else (effect, rest)


def _readable(row: Callable[[], Found | None]) -> Found | None:
    """A row; None for one that is gone, or that cannot be read: somebody changed it, it is evidence, and stays."""
    with suppress(StoreCorrupt):
        return row()
    return None


def _is_there(row: Callable[[], object | None]) -> bool:
    """Whether there is such a row, readable or not."""
    with suppress(StoreCorrupt):
        return row() is not None
    return True


def _is_idle(tables: Tables, seen: OldRun, command: Purge) -> bool:
    run = _readable(lambda: tables.run(seen.tenant, seen.run_id))
    if run is None or run.steps != seen.steps or retention.is_held(seen.tenant, command.holds):
        return False
    return (run.stepped_at or run.opened_at) < command.idle_before


def _is_forgettable(tables: Tables, seen: OldApproval, holds: frozenset[str], now: datetime) -> bool:
    approval = tables.approval(seen.tenant, seen.approval_id)
    if approval is None or retention.is_held(seen.tenant, holds):
        return False
    stands = approval.state is ApprovalState.DENIED and _is_there(
        lambda: tables.run(seen.tenant, approval.question.run_id)
    )
    return not stands and retention.may_be_forgotten(approval, now=now)


def _fits(tables: Tables, cut: ChainCut) -> bool:
    """Whether the chain begins where it was seen to, and keeps what somebody still needs, and its last event."""
    tombstone = cut.tombstone
    last = tombstone.first_kept - 1
    return (
        tables.chain_start(tombstone.writer) == cut.first_kept
        and cut.first_kept <= last < tables.kept_until(tombstone.writer)
        and tables.link_at(tombstone.writer, last) == tombstone.link
    )


def hold(tables: Tables, command: Hold, events: tuple[AuditEvent, ...]) -> bool:
    if command.scope in tables.holds():
        return False
    tables.add_hold(command)
    tables.append(events)
    return True


def lift(tables: Tables, scope: str, events: tuple[AuditEvent, ...]) -> bool:
    if scope not in tables.holds():
        return False
    tables.drop_hold(scope)
    tables.append(events)
    return True


# ---------------------------------------------------------------- credentials


def put_credentials(tables: Tables, change: CredentialChange, events: tuple[AuditEvent, ...]) -> bool:
    """All of it, or nothing if any of it is not as it was seen."""
    seen = (*((row, was) for row, was in change.changed), *((row, row.mac) for row in change.dropped))
    if any(tables.credential(row.kind, row.name) is not None for row in change.added):
        return False
    if any(_mac_of(tables.credential(row.kind, row.name)) != was for row, was in seen):
        return False
    for row in change.added:
        tables.add_credential(row)
    for row, _ in change.changed:
        tables.change_credential(row)
    for row in change.dropped:
        tables.drop_credential(row.kind, row.name)
    tables.append(events)
    return True


def credential_used(tables: Tables, kind: CredentialKind, name: str, every_seconds: float, now: datetime) -> None:
    row = tables.credential(kind, name)
    if row is not None and (row.used_at is None or row.used_at <= now - timedelta(seconds=every_seconds)):
        tables.touch_credential(row, now)


# ---------------------------------------------------------------- within


def _mac_of(row: StoredCredential | None) -> Mac | None:
    return None if row is None else row.mac


def _known(tables: Tables, tenant: str, operation_key: OperationKey) -> Effect:
    effect = tables.effect(tenant, operation_key)
    if effect is None:
        raise NotFound("There is no such effect in this tenant.")
    return effect


def _known_approval(tables: Tables, seen: Approval) -> Approval:
    approval = tables.approval(seen.question.tenant, seen.question.approval_id)
    if approval is None:
        raise NotFound("There is no such approval in this tenant.")
    return approval


def _write(tables: Tables, answer: MoveAnswer, *, was: Effect, events: tuple[AuditEvent, ...]) -> MoveAnswer:
    if isinstance(answer, Moved):
        if answer.effect != was:
            tables.change_effect(answer.effect, was=was)
        if answer.is_news:
            tables.append(events)
    return answer


def _spendable(tables: Tables, command: Claim, now: datetime) -> Approval | None:
    """The approval the claim spends, if it is still exactly the one whose signature was verified."""
    spend = command.spend
    approval = tables.approval(command.tenant, spend.approval_id) if spend is not None else None
    if spend is None or approval is None or approval.signature is None or approval.answer is None:
        return None
    is_usable = (
        approval.state is ApprovalState.APPROVED
        and approval.signature.value == spend.signature
        and approval.answer.expires_at > now
    )
    return approval if is_usable else None


def _step_refusal(tables: Tables, step: Step, run: Run | None) -> OverBudget | NotYourRun | None:
    if run is None:
        return None
    if run.subject != step.subject:
        return NotYourRun()
    return OverBudget() if run.steps >= run.max_steps and not tables.has_step(step) else None


def _is_closed(tables: Tables, step: Step, tool: str) -> bool:
    return tables.denials(step.tenant, step.run_id, tool) >= step.max_denials


def _count(tables: Tables, step: Step, run: Run | None, now: datetime) -> None:
    if not tables.has_step(step):
        tables.add_step(step, opened_at=now, is_first=run is None)


def _stopped_scope(tables: Tables, tenant: str, tool: str, run_id: RunId) -> str | None:
    scopes = tables.stops()
    if not scopes:
        return None
    mine = {"all", f"tenant:{tenant}", f"tool:{tool}", tool_scope(tenant, tool), run_scope(tenant, run_id)}
    return next((scope for scope in scopes if scope in mine), None)

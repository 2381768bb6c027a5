"""Effects: claimed, turned, settled, taken over, reconciled."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from placet.adapters.stores.verbs.grants import usable_grant, use_grant
from placet.adapters.stores.verbs.steps import count, is_closed, step_refusal, stopped_scope, take, without_budget
from placet.adapters.stores.verbs.tables import Tables
from placet.errors import NotFound
from placet.model.approval import Approval, ApprovalState
from placet.model.audit import AuditEvent
from placet.model.effect import Effect, EffectState
from placet.model.identifiers import OperationKey, OwnerId, Token
from placet.model.ledger import (
    Claim,
    ClaimAnswer,
    Held,
    MoveAnswer,
    Moved,
    NotMoved,
    NotUsable,
    Reconciliation,
    Settlement,
    Stopped,
    ToolClosed,
    Turn,
    Voided,
)
from placet.rules import runs, transitions


def claim(tables: Tables, command: Claim, now: datetime) -> ClaimAnswer:
    effect = tables.effect(command.tenant, command.operation_key)
    answer = transitions.apply_claim(effect, command, now=now)
    if isinstance(answer, Held) or answer.effect is effect:
        return answer  # not ours, or ours since an earlier try whose answer was lost
    if tables.is_voided(command.token):
        return Voided()
    if scope := stopped_scope(tables, command.tenant, command.tool, command.run_id, command.step.pin):
        return Stopped(scope=scope)
    run = tables.run(command.step.tenant, command.step.run_id)
    if (refusal := step_refusal(tables, command.step, run, tool=command.tool, now=now)) is not None:
        return refusal
    if (refusal := without_budget(tables, run, runs.takes(run, command.tool))) is not None:
        return refusal
    if command.spend is None and is_closed(tables, command.step, command.tool):  # a person's leave is stronger
        return ToolClosed()
    spent = _spendable(tables, command, now) if command.spend is not None else None
    used = usable_grant(tables, command, now) if command.grant is not None else None
    if (command.spend is not None and spent is None) or (command.grant is not None and used is None):
        return NotUsable()
    count(tables, command.step, run, now)
    take(tables, run, runs.takes(run, command.tool))
    events = list(command.events)
    if command.spend is not None and spent is not None:
        tables.change_approval(replace(spent, state=ApprovalState.SPENT, spent_at=now), was=spent)
        events.append(command.spend.event)
    if command.grant is not None and used is not None:
        events += use_grant(tables, command.grant, used, now)
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
    if is_news and (scope := stopped_scope(tables, effect.tenant, effect.tool, effect.run_id, command.pin)):
        return NotMoved(effect=effect, reason=f"stopped:{scope}")
    if is_news:
        run = tables.run(effect.tenant, effect.run_id)
        outside = runs.outside(run, effect.tool, now=now) or without_budget(tables, run, runs.takes_again(run))
        if outside is not None:
            return NotMoved(effect=effect, reason=outside.code)
        take(tables, run, runs.takes_again(run))
    return _write(tables, answer, was=effect, events=command.events)


def settle(tables: Tables, command: Settlement, now: datetime) -> MoveAnswer:
    effect = _known(tables, command.tenant, command.operation_key)
    answer = transitions.apply_settlement(effect, command, now=now)
    is_late = answer.effect.state is EffectState.RECONCILED_COMMITTED
    if isinstance(answer, Moved) and answer.is_news and answer.effect.state is EffectState.FAILED:
        _give_back(tables, answer.effect)
    return _write(tables, answer, was=effect, events=command.late_events if is_late else command.events)


def _give_back(tables: Tables, effect: Effect) -> None:
    if effect.reason in runs.UNSENT:
        run = tables.sure_run(effect.tenant, effect.run_id)
        for name, taken in runs.gives_back(run, effect.tool):
            tables.add_tally(effect.tenant, effect.run_id, name, -taken)


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


def _known(tables: Tables, tenant: str, operation_key: OperationKey) -> Effect:
    effect = tables.effect(tenant, operation_key)
    if effect is None:
        raise NotFound("There is no such effect in this tenant.")
    return effect


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

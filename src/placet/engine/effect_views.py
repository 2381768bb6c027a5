"""One effect as those see it who may: where it stands, and never its arguments, its result or digests of them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from placet.model.effect import Effect, EffectState
from placet.model.json import JsonObject
from placet.model.principal import subjects_of
from placet.rules.documents import document_of


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectView:
    """A row of the ledger, to be looked at. All instants are the store's clock.

    Attributes:
        subject: who acted; `on_behalf_of`: the far end of whom it acted for, if anybody.
        requested_by: who acted, then for whom, and for whom that one did.
        fence: how often it was dispatched.
        attempts: attempts opened in all dispatches.
        probes: how often a probe looked without an answer.
        external_reference: the remote's own name of the effect, if it gave one.
        lease_until: when others may take over what is dispatched.
        quiet_end: of an unknown effect, from when on a look may say "absent"; None while nobody can tell.
    """

    operation_key: str
    state: EffectState
    reason: str | None
    tenant: str
    tool: str
    tool_version: str
    subject: str
    on_behalf_of: str | None
    run_id: str
    call_id: str
    decision: str
    policy_version: str
    approval_id: str | None
    fence: int
    attempts: int
    probes: int
    external_reference: str | None
    created_at: datetime
    updated_at: datetime
    lease_until: datetime
    send_by: datetime
    probe_after: datetime | None
    quiet_end: datetime | None
    requested_by: tuple[str, ...] = ()


def standing_of_effect(view: EffectView) -> JsonObject:
    """How an effect stands, for whoever was refused to settle it."""
    return {"state": view.state.value, "quiet_end": document_of(view.quiet_end)}


def effect_view(effect: Effect, *, quiet_end: datetime | None) -> EffectView:
    who = subjects_of(effect.subject)
    return EffectView(
        operation_key=effect.operation_key,
        state=effect.state,
        reason=effect.reason,
        tenant=effect.tenant,
        tool=effect.tool,
        tool_version=effect.tool_version,
        subject=who[0],
        on_behalf_of=who[-1] if len(who) > 1 else None,
        run_id=effect.run_id,
        call_id=effect.call_id,
        decision=effect.decision,
        policy_version=effect.policy_version,
        approval_id=effect.approval_id,
        fence=effect.fence,
        attempts=effect.attempts,
        probes=effect.probes,
        external_reference=effect.external_reference,
        created_at=effect.created_at,
        updated_at=effect.updated_at,
        lease_until=effect.lease_until,
        send_by=effect.send_by,
        probe_after=effect.probe_after,
        quiet_end=quiet_end,
        requested_by=who,
    )

"""Rows of the ledger."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from typing import Any

from placet.adapters.stores.rows.instants import instant, microseconds
from placet.errors import StoreCorrupt
from placet.model.effect import BrokenEffect, Effect, EffectState, UnknownEffects, UnknownGroup


def effect_row(effect: Effect) -> tuple[Any, ...]:
    """All columns of `effects`, in order."""
    return (
        effect.tenant,
        effect.operation_key,
        effect.fingerprint,
        effect.tool,
        effect.tool_version,
        effect.contract_digest,
        effect.argument_digest,
        effect.run_id,
        effect.call_id,
        effect.subject,
        *_standing(effect),
        microseconds(effect.created_at),
        microseconds(effect.updated_at),
    )


def _standing(effect: Effect) -> tuple[Any, ...]:
    """How it stands, in the order of the columns that both an insert and a change write."""
    return (
        effect.policy_version,
        effect.decision,
        effect.approval_id,
        effect.state.value,
        effect.fence,
        effect.attempts,
        effect.attempt,
        effect.token,
        effect.owner,
        microseconds(effect.lease_until),
        microseconds(effect.send_by),
        effect.arrival_bound_seconds,
        int(effect.ends_by_itself),
        microseconds(effect.attempt_ended_at),
        effect.probes,
        microseconds(effect.probe_after),
        effect.sealed_arguments,
        effect.sealed_result,
        effect.result_digest,
        effect.external_reference,
        effect.reason,
    )


def effect_change(effect: Effect, *, was: Effect) -> tuple[Any, ...]:
    """The bindings of `change_effect`."""
    return (
        effect.call_id,
        effect.run_id,
        effect.subject,
        effect.tool_version,
        effect.contract_digest,
        *_standing(effect),
        microseconds(effect.updated_at),
        was.tenant,
        was.operation_key,
        was.state.value,
        was.fence,
    )


_EFFECT_FIELDS = tuple(field.name for field in fields(Effect))

_EFFECT_INSTANTS = tuple(
    _EFFECT_FIELDS.index(name)
    for name in ("lease_until", "send_by", "attempt_ended_at", "probe_after", "created_at", "updated_at")
)

_STATE = _EFFECT_FIELDS.index("state")

_STATES = {state.value: state for state in EffectState}

_ENDS = _EFFECT_FIELDS.index("ends_by_itself")


def effect_from(row: tuple[Any, ...]) -> Effect:
    """A row of the ledger.

    Raises:
        StoreCorrupt: it cannot be read; somebody changed it by hand.
    """
    try:
        values = list(row[: len(_EFFECT_FIELDS)])  # a newer placet may have added columns behind these
        values[_STATE] = _STATES[values[_STATE]]
        values[_ENDS] = bool(values[_ENDS])
        for index in _EFFECT_INSTANTS:
            values[index] = instant(values[index])
        return Effect(**dict(zip(_EFFECT_FIELDS, values, strict=True)))
    except (KeyError, ValueError, TypeError, OverflowError):
        pass
    raise StoreCorrupt("A row of the ledger cannot be read; somebody changed it by hand.")


def effect_or_broken(row: tuple[Any, ...]) -> Effect | BrokenEffect:
    """A row for a list, in which one that cannot be read must not hide the others."""
    try:
        return effect_from(row)
    except StoreCorrupt:
        return BrokenEffect(tenant=row[0], operation_key=row[1])


def unknown_effects_from(found: Iterable[tuple[Any, ...]]) -> UnknownEffects:
    groups = [(UnknownGroup(tool=tool, probes=probes, count=count), oldest) for tool, probes, count, oldest in found]
    return UnknownEffects(
        count=sum(group.count for group, _ in groups),
        oldest_at=instant(min((oldest for _, oldest in groups), default=None)),
        groups=tuple(group for group, _ in groups),
    )

"""Which topics a batch that has become durable is told under."""

from __future__ import annotations

from placet.adapters.stores.postgres.overlay import PredictedTables
from placet.model.effect import EffectState
from placet.model.waking import Topic, approvals_topic, effect_topic, runs_topic

_OF_RUNS = frozenset({"add_checkpoint", "change_run"})
"""What makes a run due that nobody drives at this moment."""


def topics_of(tables: PredictedTables) -> set[Topic]:
    """What somebody may be waiting for of that which was written."""
    settled = {
        effect_topic(effect.tenant, effect.operation_key)
        for effect in tables.changed_effects.values()
        if effect.state is not EffectState.DISPATCHED
    }
    if tables.changed_approvals or tables.closed_first or any(name in _OF_RUNS for name, _ in tables.statements):
        settled.add(runs_topic())
    return settled | {approvals_topic(tenant) for tenant, _ in (*tables.new_approvals, *tables.changed_approvals)}

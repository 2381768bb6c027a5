"""Which topics a batch that has become durable is told under."""

from __future__ import annotations

from placet.adapters.stores.postgres.overlay import PredictedTables
from placet.model.effect import EffectState
from placet.model.waking import Topic, approvals_topic, effect_topic


def topics_of(tables: PredictedTables) -> set[Topic]:
    """What somebody may be waiting for of that which was written."""
    settled = {
        effect_topic(effect.tenant, effect.operation_key)
        for effect in tables.changed_effects.values()
        if effect.state is not EffectState.DISPATCHED
    }
    return settled | {approvals_topic(tenant) for tenant, _ in (*tables.new_approvals, *tables.changed_approvals)}

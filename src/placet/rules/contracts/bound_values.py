"""What the server puts into arguments in the model's stead."""

from __future__ import annotations

from copy import deepcopy

from placet.model.context import CallContext
from placet.model.contract import Bound, BoundSource
from placet.model.json import JsonObject, JsonValue


def bound_values(bind: tuple[Bound, ...], context: CallContext) -> JsonObject:
    """The bound members with their values for one attempt, a fresh copy."""
    return {each.member: _value(each, context) for each in bind}


def _value(bound: Bound, context: CallContext) -> JsonValue:
    match bound.source:
        case BoundSource.TENANT:
            return context.tenant
        case BoundSource.SUBJECT:
            return context.principal.subject
        case BoundSource.RUN:
            return context.run_id
        case BoundSource.OPERATION_KEY:
            return context.operation_key
        case BoundSource.FIXED:
            return deepcopy(bound.value)

"""A call on its way to another process, and the facts on their way back: what crosses, and what it means here."""

from __future__ import annotations

import json
from typing import Any, Final

from placet.adapters.transports.places import Place
from placet.adapters.transports.reports import model_safe
from placet.adapters.transports.wire import GUARDED, Fact, steady_seconds, wall_seconds
from placet.errors import InvalidArguments, PlacetError
from placet.model.attempt import Answered, BrokenResult, Raised, Rejected, Report, Returned, Unsent
from placet.model.call import Call
from placet.model.context import CallContext
from placet.ports.clock import Clock
from placet.rules.contracts import Tool
from placet.rules.foreign import known_exception_name
from placet.rules.written_principals import written

NOISE: Final = "process_noise"


def order_of(call: Call, context: CallContext, place: Place, *, clock: Clock, ends_at: float) -> dict[str, Any] | None:
    """The call, with its deadline on clocks that the child can read; None if it is too late already.

    The gate's own clock may be anything, so what is left by it is counted from now on the clocks of the host. The
    time until the child looks at them is lost to the attempt, never won.
    """
    steady, wall = steady_seconds(), wall_seconds()
    try:
        wall_left = (context.deadline_at - clock.now()).total_seconds()
    except PlacetError:  # a clock that fails says nothing
        return None
    steady_left = min(context.remaining_seconds(), ends_at - steady)
    if steady_left <= 0 or wall_left <= 0:
        return None
    return {
        "module": place.module,
        "attribute": place.attribute,
        "digest": call.contract.digest,
        "arguments": call.canonical_arguments.decode(),
        "context": _facts_of(context),
        "steady_limit": steady + steady_left,
        "wall_limit": wall + wall_left,
    }


def report_of_word(tool: Tool, fact: Fact, payload: bytes) -> Report:
    """What the last fact of an attempt means. The payload is foreign: it is read, and held against what may be."""
    match fact:
        case Fact.RETURNED:
            return Returned(value=_result_of(tool, payload))
        case Fact.BROKEN:
            return Returned(value=BrokenResult(reason=ascii_of(payload)))
        case Fact.REJECTED:
            return Rejected(message=model_safe(payload.decode(errors="replace")))
        case Fact.STATUS:
            return _status_of(payload)
        case Fact.NOT_SENT:
            return Unsent(is_handlers_word=payload != GUARDED)
        case Fact.NOT_CALLED:
            return Unsent()
        case Fact.RAISED:
            return Raised(error_type=known_exception_name(ascii_of(payload)))
        case Fact.WORKS_IN | Fact.CALLING:  # never the last one
            return Raised(error_type=NOISE)


def ascii_of(payload: bytes) -> str:
    return payload.decode("ascii", errors="replace")


def _result_of(tool: Tool, canonical: bytes) -> object:
    try:
        return tool.read_result(canonical)
    except InvalidArguments:
        return BrokenResult(reason="result_broken")


def _status_of(payload: bytes) -> Report:
    try:
        status, retry_after = json.loads(payload)
    except (ValueError, TypeError, RecursionError):
        status, retry_after = None, None
    if type(status) is int and 0 <= status <= 999 and (retry_after is None or type(retry_after) is str):
        return Answered(status=status, retry_after=retry_after)
    return Raised(error_type=NOISE)


def _facts_of(context: CallContext) -> dict[str, Any]:
    return {
        "tenant": context.tenant,
        "principal": written(context.principal),
        "run_id": context.run_id,
        "call_id": context.call_id,
        "operation_key": context.operation_key,
        "attempt": context.attempt,
        "deadline_at": context.deadline_at.isoformat(),
        "is_approved": context.is_approved,
        "precondition": context.precondition,
    }

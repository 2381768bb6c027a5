"""Around every message: its span, what is counted and logged, and what fails.

No exception leaves: one that nobody expected is the protocol's internal error without its text, and a log line with its
safe name. Labels are closed sets; nothing of a message is in any of them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, Final, get_args

from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR
from mcp_types.methods import SPEC_CLIENT_METHODS, SPEC_CLIENT_NOTIFICATION_METHODS
from pydantic import ValidationError

from placet.engine.gate import Gate
from placet.mcp_server.carried import Carried, carried_of
from placet.mcp_server.naming import OUTCOME
from placet.mcp_server.tracing import mark_failed, span_of
from placet.model.outcome import Outcome
from placet.ports.clock import Clock, elapsed_seconds
from placet.ports.meter import McpMeter
from placet.rules.foreign import safe_exception_name

UNKNOWN: Final = "unknown"
METHODS: Final = frozenset(SPEC_CLIENT_METHODS) | frozenset(SPEC_CLIENT_NOTIFICATION_METHODS)
_STATUSES: Final = frozenset(kind.status for kind in get_args(Outcome))
_SUCCESSES: Final = frozenset({"ok", "succeeded", "replayed", "input_required"})
OUTCOMES: Final = _STATUSES | _SUCCESSES | {"protocol_error", "internal_error", "cancelled"}
_log = logging.getLogger("placet.mcp")


class Observed:
    """Fulfils the SDK's `ServerMiddleware`; the outermost one."""

    def __init__(self, *, gate: Gate, clock: Clock, meter: McpMeter, inward: Callable[[str], str] = str) -> None:
        """Args:
        inward: what the tool of a listed name is called here.
        """
        self._gate = gate
        self._inward = inward
        self._clock = clock
        self._meter = meter

    async def __call__(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        method = ctx.method if ctx.method in METHODS else UNKNOWN
        carried = carried_of(ctx)
        began, outcome = self._clock.monotonic(), "cancelled"
        with span_of(method, self._tool(method, carried), carried.meta, version=ctx.protocol_version) as span:
            try:
                result = await call_next(ctx)
                outcome = outcome_of(result)
                if outcome not in _SUCCESSES:
                    mark_failed(span, outcome)
                return result
            except (MCPError, ValidationError):
                outcome = "protocol_error"
                mark_failed(span, outcome)
                raise
            except Exception as fault:
                outcome, name = "internal_error", safe_exception_name(fault)
                mark_failed(span, outcome)
            finally:
                self._note(method, outcome, elapsed_seconds(self._clock, began), carried)
        _log.error("message failed", extra={"error_type": name, "method": method, "request_id": carried.request_id})
        raise MCPError(code=INTERNAL_ERROR, message="Internal error")

    def _tool(self, method: str, carried: Carried) -> str | None:
        if method != "tools/call":
            return None
        said = carried.params.get("name")
        contract = self._gate.tool_for(self._inward(said), carried.principal) if type(said) is str else None
        return UNKNOWN if contract is None else contract.name

    def _note(self, method: str, outcome: str, seconds: float, carried: Carried) -> None:
        self._meter.answered(method=method, outcome=outcome, seconds=seconds)
        _log.info(
            "message",
            extra={
                "method": method,
                "outcome": outcome,
                "ms": round(seconds * 1_000, 3),
                "request_id": carried.request_id,
            },
        )


def outcome_of(result: HandlerResult) -> str:
    """How a message was answered, in one of a few words."""
    if not isinstance(result, Mapping):
        return "ok"
    if result.get("resultType") == "input_required":
        return "input_required"
    meta = result.get("_meta")
    said = meta.get(OUTCOME) if isinstance(meta, Mapping) else None
    status = said.get("status") if isinstance(said, Mapping) else None
    return status if type(status) is str and status in _STATUSES else "ok"

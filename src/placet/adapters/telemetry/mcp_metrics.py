"""Numbers of the MCP front door for Prometheus: how many messages, how they were answered, and how long they took.

Labels are closed sets: the protocol's methods, and the words for how a message can be answered.
"""

from __future__ import annotations

import threading
from collections.abc import Collection
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

UNKNOWN: Final = "unknown"
_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_registering = threading.Lock()


class PrometheusMcpMeter:
    """Fulfils `ports.meter.McpMeter`. Several on one registry share their collectors.

    Args:
        registry: where the collectors are registered, once.
        methods, outcomes: the words there are.
    """

    def __init__(self, registry: CollectorRegistry, *, methods: Collection[str], outcomes: Collection[str]) -> None:
        self._methods = frozenset(methods)
        self._outcomes = frozenset(outcomes)
        self._messages, self._durations = _collectors_of(registry)

    def answered(self, *, method: str, outcome: str, seconds: float) -> None:
        known_method = method if method in self._methods else UNKNOWN
        known_outcome = outcome if outcome in self._outcomes else UNKNOWN
        self._messages.labels(known_method, known_outcome).inc()
        self._durations.labels(known_method).observe(seconds)


def _collectors_of(registry: CollectorRegistry) -> tuple[Any, Any]:
    """Registered, or those that are in this registry already; it refuses a name twice."""
    from prometheus_client import Counter, Histogram

    with _registering:
        found: tuple[Any, Any] | None = registry.__dict__.get("_placet_mcp_collectors")
        if found is None:
            found = registry.__dict__["_placet_mcp_collectors"] = (
                Counter(
                    "placet_mcp_messages_total",
                    "MCP messages answered.",
                    ("method", "outcome"),
                    registry=registry,
                ),
                Histogram(
                    "placet_mcp_message_seconds",
                    "Duration of MCP messages, waiting included.",
                    ("method",),
                    registry=registry,
                    buckets=_SECONDS,
                ),
            )
        return found

"""Numbers of the HTTP front door for Prometheus: how many requests, and how long they took.

Labels are closed sets: the methods there are, the addresses as the API declares them, statuses of three digits.
Everything else counts as `unknown`, so whoever sends requests makes no series.

Source: REQUIREMENTS B181.
"""

from __future__ import annotations

import threading
from collections.abc import Collection
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

UNKNOWN: Final = "unknown"
METHODS: Final = frozenset({"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"})
_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_registering = threading.Lock()


class PrometheusHttpMeter:
    """Fulfils `ports.meter.HttpMeter`. Several on one registry share their collectors.

    Args:
        registry: where the collectors are registered, once.
        routes: the addresses as they are declared.
    """

    def __init__(self, registry: CollectorRegistry, *, routes: Collection[str]) -> None:
        self._routes = frozenset(routes)
        self._requests, self._durations = _collectors_of(registry)

    def answered(self, *, method: str, route: str, status: int, seconds: float) -> None:
        known_route = route if route in self._routes else UNKNOWN
        known_method = method if method in METHODS else UNKNOWN
        known_status = str(status) if 100 <= status <= 599 else UNKNOWN
        self._requests.labels(known_method, known_route, known_status).inc()
        self._durations.labels(known_method, known_route).observe(seconds)


def _collectors_of(registry: CollectorRegistry) -> tuple[Any, Any]:
    """Registered, or those that are in this registry already; it refuses a name twice."""
    from prometheus_client import Counter, Histogram

    with _registering:
        found: tuple[Any, Any] | None = registry.__dict__.get("_placet_http_collectors")
        if found is None:
            found = registry.__dict__["_placet_http_collectors"] = (
                Counter(
                    "placet_http_requests_total",
                    "Requests answered.",
                    ("method", "route", "status"),
                    registry=registry,
                ),
                Histogram(
                    "placet_http_request_seconds",
                    "Duration of requests, waiting included.",
                    ("method", "route"),
                    registry=registry,
                    buckets=_SECONDS,
                ),
            )
        return found

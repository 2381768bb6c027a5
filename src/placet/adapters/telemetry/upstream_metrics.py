"""Numbers of upstreams for Prometheus: their sessions, and what they did to what was accepted of them.

Labels are the server id that the deployment gave, and words of closed sets; any other counts as `unknown`, so whoever
is an upstream makes no series. Source: REQUIREMENTS B181; DESIGN section 15.
"""

from __future__ import annotations

import threading
from collections.abc import Collection
from typing import TYPE_CHECKING, Any, Final

from placet.rules.relaying import ANSWERS, FAILED, QUESTIONS, REFUSED, SECRET

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

UNKNOWN: Final = "unknown"
_registering = threading.Lock()
_COUNTED: Final = {
    "reinitialised": ("placet_upstream_reinitialisations_total", "Sessions begun in the place of one that had ended."),
    "connecting_failed": ("placet_upstream_connecting_failures_total", "Sessions that could not be begun."),
    "drifted": ("placet_upstream_drifts_total", "Tools described otherwise than they were accepted."),
    "unbelievable": ("placet_upstream_unbelievable_lists_total", "Lists of tools that cannot be believed."),
    "flooded": ("placet_upstream_floods_total", "Sessions ended because too much was said that nobody asked for."),
    "discovered": ("placet_upstream_discovered_tools_total", "Tools described of which nothing is accepted."),
}

_LABELLED: Final = {
    "questions": (
        "placet_upstream_questions_total", "What upstreams asked, and how it was answered.", ("kind", "answer")
    ),
    "requests": (
        "placet_upstream_requests_total", "What clients asked upstreams besides tools.", ("method", "outcome")
    ),
}  # fmt: skip
_ANSWERED: Final = frozenset((*ANSWERS, FAILED, REFUSED, SECRET))
_OUTCOMES: Final = frozenset(("ok", "refused", "failed"))
_METHODS: Final = frozenset(
    (*("resources/list", "resources/templates/list", "resources/read"),
     *("prompts/list", "prompts/get", "completion/complete"))
)  # fmt: skip


class PrometheusUpstreamMeter:
    """Fulfils `ports.meter.UpstreamMeter`. Several on one registry share their collectors.

    Args:
        registry: where the collectors are registered, once.
        servers: the server ids there are.
    """

    def __init__(self, registry: CollectorRegistry, *, servers: Collection[str]) -> None:
        self._servers = frozenset(servers)
        self._collectors = _collectors_of(registry)
        for server in sorted(self._servers):
            self._collectors["sessions"].labels(server)
            for name in _COUNTED:
                self._collectors[name].labels(server)

    def sessions(self, *, server: str, change: int) -> None:
        self._of("sessions", server).inc(change)

    def reinitialised(self, *, server: str) -> None:
        self._of("reinitialised", server).inc()

    def connecting_failed(self, *, server: str) -> None:
        self._of("connecting_failed", server).inc()

    def drifted(self, *, server: str) -> None:
        self._of("drifted", server).inc()

    def unbelievable(self, *, server: str) -> None:
        self._of("unbelievable", server).inc()

    def flooded(self, *, server: str) -> None:
        self._of("flooded", server).inc()

    def discovered(self, *, server: str) -> None:
        self._of("discovered", server).inc()

    def questioned(self, *, server: str, kind: str, answer: str) -> None:
        named = server if server in self._servers else UNKNOWN
        self._collectors["questions"].labels(named, _known(kind, QUESTIONS), _known(answer, _ANSWERED)).inc()

    def requested(self, *, server: str, method: str, outcome: str) -> None:
        named = server if server in self._servers else UNKNOWN
        self._collectors["requests"].labels(named, _known(method, _METHODS), _known(outcome, _OUTCOMES)).inc()

    def _of(self, name: str, server: str) -> Any:
        return self._collectors[name].labels(server if server in self._servers else UNKNOWN)


class QuietUpstreamMeter:
    """Takes every number and keeps none."""

    def sessions(self, *, server: str, change: int) -> None: ...

    def reinitialised(self, *, server: str) -> None: ...

    def connecting_failed(self, *, server: str) -> None: ...

    def drifted(self, *, server: str) -> None: ...

    def unbelievable(self, *, server: str) -> None: ...

    def flooded(self, *, server: str) -> None: ...

    def discovered(self, *, server: str) -> None: ...

    def questioned(self, *, server: str, kind: str, answer: str) -> None: ...

    def requested(self, *, server: str, method: str, outcome: str) -> None: ...


def _known(word: str, words: Collection[str]) -> str:
    return word if word in words else UNKNOWN


def _collectors_of(registry: CollectorRegistry) -> dict[str, Any]:
    """Registered, or those that are in this registry already; it refuses a name twice."""
    from prometheus_client import Counter, Gauge

    with _registering:
        found: dict[str, Any] | None = registry.__dict__.get("_placet_upstream_collectors")
        if found is None:
            found = {"sessions": Gauge("placet_upstream_sessions", "Open sessions.", ("server",), registry=registry)}
            for name, (series, words, labels) in _LABELLED.items():
                found[name] = Counter(series, words, ("server", *labels), registry=registry)
            for name, (series, words) in _COUNTED.items():
                found[name] = Counter(series, words, ("server",), registry=registry)
            registry.__dict__["_placet_upstream_collectors"] = found
        return found

"""placet's numbers for Prometheus, in a registry the host passes in.

Invariants:
- Every label value comes from a closed set: registered tools, outcomes, decisions, states and sinks. No id, tenant,
  argument or text becomes one, so the number of series is known before the first call.
- A value outside its set changes nothing: a name, which others choose, counts as `unknown`; a word of ours that does
  not exist, and a number that cannot be, raise ValueError before anything is counted.
- Importing this module registers nothing and does not import `prometheus_client`, which takes a tenth of a second.

Source: REQUIREMENTS B169-B176, B182; CASES N04, N05.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any, Final

from placet.model.audit import AuditOutcome
from placet.model.effect import EffectState

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

UNKNOWN: Final = "unknown"
OUTCOMES: Final = frozenset(outcome.value for outcome in AuditOutcome)
DECISIONS: Final = frozenset(("allow", "deny", "ask"))
STATES: Final = frozenset(state.value for state in EffectState)
SINKS: Final = frozenset(("log", "memory", "opentelemetry", "postgres", "webhook"))

_CALL_SECONDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
_COMMIT_SECONDS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
_COMMIT_OPERATIONS: Final = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)

_registering = threading.Lock()


class PrometheusMeter:
    """Fulfils `ports.meter.Meter`; one costs about a microsecond per number.

    Meters on one registry share their collectors, each with its own set of tools and sinks.

    Args:
        registry: where the collectors are registered, once.
        tools: the registered tools' names; all others are `unknown`.
        sinks: further sinks' names; our own kinds are always known.
    """

    def __init__(
        self, registry: CollectorRegistry, *, tools: Collection[str] = (), sinks: Collection[str] = ()
    ) -> None:
        self._tools = _closed("tools", tools)
        self._sinks = SINKS | _closed("sinks", sinks)
        self._collectors = _collectors_of(registry)
        self._attempts: dict[str, dict[str, tuple[Callable[[], None], Callable[[float], None]]]] = {}
        self._counted: dict[tuple[str, str], Callable[[], None]] = {}

    def attempt_completed(self, *, tool: str, outcome: str, seconds: float) -> None:
        """Count one attempt and its duration, once, when it has completed."""
        # The type comes first: a foreign subclass of `str` brings its own `__hash__` and `__eq__`.
        known_tool = tool if type(tool) is str and tool in self._tools else UNKNOWN
        known_outcome = _one_of(OUTCOMES, "outcome", outcome)
        duration = _seconds(seconds)
        try:
            count, observe = self._attempts[known_tool][known_outcome]
        except KeyError:
            count, observe = self._attempt_of(known_tool, known_outcome)
        count()
        observe(duration)

    def decided(self, *, decision: str) -> None:
        """Count one answer of the policy."""
        self._count("decisions", _one_of(DECISIONS, "decision", decision))

    def effect_settled(self, *, state: str) -> None:
        """Count one effect that came to this state."""
        self._count("effects_settled", _one_of(STATES, "state", state))

    def approvals_pending(self, count: int) -> None:
        """Say how many approvals wait for a person now."""
        self._collectors["approvals_pending"].set(_whole(count))

    def committed(self, *, operations: int, seconds: float) -> None:
        """Record one commit of the ledger: how many operations shared it and how long it took."""
        size, duration = _whole(operations), _seconds(seconds)
        self._collectors["commit_operations"].observe(size)
        self._collectors["commit_seconds"].observe(duration)

    def stray_threads(self, count: int) -> None:
        """Say how many handler threads outlived their deadline and still run in this process."""
        self._collectors["stray_threads"].set(_whole(count))

    def effects_unknown(self, count: int, oldest_seconds: float) -> None:
        """Say how many effects are unknown now, and the age of the oldest (0 if there is none)."""
        number, age = _whole(count), _seconds(oldest_seconds)
        self._collectors["effects_unknown"].set(number)
        self._collectors["effects_unknown_oldest"].set(age)

    def sink_failed(self, *, sink: str) -> None:
        """Count one event a sink did not take."""
        self._count("sink_failures", sink if type(sink) is str and sink in self._sinks else UNKNOWN)

    def _count(self, collector: str, label: str) -> None:
        try:
            count = self._counted[collector, label]
        except KeyError:
            count = self._counted[collector, label] = self._collectors[collector].labels(label).inc
        count()

    def _attempt_of(self, tool: str, outcome: str) -> tuple[Callable[[], None], Callable[[float], None]]:
        count = self._collectors["calls"].labels(tool, outcome).inc
        observe = self._collectors["call_seconds"].labels(tool, outcome).observe
        self._attempts.setdefault(tool, {})[outcome] = (count, observe)
        return count, observe


def _collectors_of(registry: CollectorRegistry) -> dict[str, Any]:
    """Register our collectors, or return those already in this registry.

    They are kept on the registry itself: it refuses a name twice, it must be free to be collected, and a reload of
    this module would lose a table of ours.
    """
    with _registering:
        collectors: dict[str, Any] | None = registry.__dict__.get("_placet_collectors")
        if collectors is None:
            collectors = registry.__dict__["_placet_collectors"] = _register(registry)
        return collectors


def _register(registry: CollectorRegistry) -> dict[str, Any]:
    from prometheus_client import Counter, Gauge, Histogram

    def counter(name: str, help_text: str, *labels: str) -> Counter:
        return Counter(name, help_text, labels, registry=registry)

    def gauge(name: str, help_text: str, several_processes: Any) -> Gauge:
        # With several processes the default mode labels every series with a process id.
        return Gauge(name, help_text, registry=registry, multiprocess_mode=several_processes)

    def histogram(name: str, help_text: str, buckets: tuple[float, ...], *labels: str) -> Histogram:
        return Histogram(name, help_text, labels, registry=registry, buckets=buckets)

    return {
        "calls": counter("placet_tool_calls_total", "Attempts completed.", "tool", "outcome"),
        "call_seconds": histogram(
            "placet_tool_duration_seconds", "Duration of attempts.", _CALL_SECONDS, "tool", "outcome"
        ),
        "decisions": counter("placet_decisions_total", "Answers of the policy.", "decision"),
        "effects_settled": counter("placet_effects_settled_total", "Effects that came to a state.", "state"),
        "approvals_pending": gauge("placet_approvals_pending", "Approvals waiting for a person.", "livemostrecent"),
        "commit_operations": histogram(
            "placet_ledger_commit_operations", "Operations in one commit of the ledger.", _COMMIT_OPERATIONS
        ),
        "commit_seconds": histogram(
            "placet_ledger_commit_seconds", "Duration of one commit of the ledger.", _COMMIT_SECONDS
        ),
        "stray_threads": gauge("placet_stray_threads", "Handler threads running past their deadline.", "livesum"),
        "effects_unknown": gauge("placet_effects_unknown", "Effects whose outcome is unknown.", "livemostrecent"),
        "effects_unknown_oldest": gauge(
            "placet_effects_unknown_oldest_seconds", "Age of the oldest unknown effect.", "livemostrecent"
        ),
        "sink_failures": counter("placet_sink_failures_total", "Events a sink did not take.", "sink"),
    }


def _closed(what: str, names: Collection[str]) -> frozenset[str]:
    listed = list(names)
    if any(type(name) is not str for name in listed):
        raise ValueError(f"{what} must be names of the exact type str")
    return frozenset(listed)


def _one_of(words: frozenset[str], what: str, word: str) -> str:
    # The enums are ours, and a member is found in the set by its text.
    if (type(word) is str or type(word) is AuditOutcome or type(word) is EffectState) and word in words:
        return str(word)
    raise ValueError(f"{what} must be one of {', '.join(sorted(words))}")


def _seconds(seconds: float) -> float:
    if (type(seconds) is float and math.isfinite(seconds) and seconds >= 0) or (
        type(seconds) is int and 0 <= seconds < 1 << 62
    ):
        return seconds
    raise ValueError("seconds must be a finite number of at least 0")


def _whole(count: int) -> int:
    if type(count) is int and 0 <= count < 1 << 62:
        return count
    raise ValueError("a count must be a whole number of at least 0")

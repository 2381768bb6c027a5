"""placet's numbers for Prometheus, in a registry the host passes in.

Invariants:
- Every label value comes from a closed set: registered tools, outcomes, decisions, states and sinks. No id, tenant,
  argument or text becomes one, so the number of series is known before the first call.
- A value outside its set changes nothing: a name, which others choose, counts as `unknown`; a word of ours that does
  not exist, and a number that cannot be, raise ValueError before anything is counted.
- What is counted begins at 0 when a meter is made, so that the first event is an increase and not a new series. What
  has to be measured is not said at all before it was: a 0 would say that somebody had looked.
- Importing this module registers nothing and does not import `prometheus_client`, which takes a tenth of a second.

Source: REQUIREMENTS B169-B176, B182; CASES N04, N05.
"""

from __future__ import annotations

import math
import threading
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable
from itertools import product
from typing import TYPE_CHECKING, Any, Final

from placet.model.audit import ALARMS, AuditOutcome
from placet.model.destinations import DestinationKind
from placet.model.effect import EffectState
from placet.rules.breaker import CircuitState
from placet.rules.unknowns import UnknownReason

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry, Gauge, Metric

UNKNOWN: Final = "unknown"
OUTCOMES: Final = frozenset(outcome.value for outcome in AuditOutcome)
DECISIONS: Final = frozenset(("allow", "deny", "ask"))
SHADOW_ANSWERS: Final = DECISIONS | {"error"}
STATES: Final = frozenset(state.value for state in EffectState)
WITHOUT_ROOM: Final = frozenset(("capacity", "circuit_open", "too_many_running"))
CUT_SHORT: Final = frozenset(("caller_left", "deadline", "died", "noise", "not_called"))
ALARM_KINDS: Final = frozenset(kind.value for kind in ALARMS)
UNKNOWN_REASONS: Final = frozenset(reason.value for reason in UnknownReason)
BREAKER_STATES: Final = frozenset(state.value for state in CircuitState)
SIGN_IN_KINDS: Final = frozenset(("api_key", "issuer", "token", "session", "unknown"))
SIGN_IN_OUTCOMES: Final = frozenset(("let_in", "refused", "unavailable"))
LIMITED_SCOPES: Final = frozenset(("principal", "tenant"))
DESTINATIONS: Final = frozenset(kind.value for kind in DestinationKind)
ANNOUNCED: Final = frozenset(("delivered", "postponed", "dead", "closed"))
SINKS: Final = frozenset(("log", "memory", "opentelemetry", "postgres", "webhook"))

_CALL_SECONDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
_COMMIT_SECONDS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
_COMMIT_OPERATIONS: Final = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)

_COUNTED: Final = {
    "decisions": DECISIONS,
    "effects_settled": STATES,
    "alarms": ALARM_KINDS,
    "rate_limited": LIMITED_SCOPES,
}
_COUNTED_BY_TOOL: Final = {
    "processes_cut_short": CUT_SHORT,
    "without_room": WITHOUT_ROOM,
    "breaker_changes": BREAKER_STATES,
}
_HELD_BY_TOOL: Final = ("strays", "calls_running", "breakers_open")
_MEASURED: Final = (
    "approvals_pending",
    "effects_unknown",
    "effects_unknown_oldest",
    "effects_unknown_by_reason",
    "recovery_last_round",
    "announcements_pending",
    "announcements_oldest",
    "announcements_dead",
)

_registering = threading.Lock()


class PrometheusMeter:
    """Fulfils `ports.meter.Meter`; one costs about a microsecond per number.

    Meters on one registry share their collectors, each with its own set of tools and sinks. What they say of how things
    are now in their own gates adds up. Numbers of one store are those of whoever measured it last; those of several
    stores are put together: counts add up, the oldest age is the oldest, the last round that of the store whose is the
    longest ago.

    Args:
        registry: where the collectors are registered, once.
        store: which store the numbers are of; gates of one store say the same. It is on no page.
        tools: the registered tools' names; all others are `unknown`.
        sinks: further sinks' names; our own kinds are always known.
    """

    def __init__(
        self,
        registry: CollectorRegistry,
        *,
        tools: Collection[str] = (),
        sinks: Collection[str] = (),
        store: Hashable = "",
    ) -> None:
        self._store = store
        self._tools = _closed("tools", tools)
        self._sinks = SINKS | _closed("sinks", sinks)
        self._collectors = _collectors_of(registry)
        self._attempts: dict[str, dict[str, tuple[Callable[[], None], Callable[[float], None]]]] = {}
        self._counted: dict[tuple[str, ...], Callable[[], None]] = {}
        self._gauges: dict[tuple[str, str], Gauge] = {}
        self._held: Counter[tuple[str, str]] = Counter()
        self._is_closed = False
        self._begin_at_zero()

    def attempt_completed(self, *, tool: str, outcome: str, seconds: float) -> None:
        """Count one attempt and its duration, once, when it has completed."""
        known_tool = self._known(tool)
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

    def shadowed(self, *, enforced: str, would_be: str) -> None:
        """Count one answer of a policy in shadow, beside what was enforced."""
        known = _one_of(DECISIONS, "enforced", enforced), _one_of(SHADOW_ANSWERS, "would_be", would_be)
        self._count("shadow_decisions", *known)

    def effect_settled(self, *, state: str) -> None:
        """Count one effect that came to this state."""
        self._count("effects_settled", _one_of(STATES, "state", state))

    def approvals_pending(self, count: int) -> None:
        """Say how many approvals wait for a person now."""
        number = _whole(count)
        self._measured("approvals_pending", number)

    def committed(self, *, operations: int, seconds: float) -> None:
        """Record one commit of the ledger: how many operations shared it and how long it took."""
        size, duration = _whole(operations), _seconds(seconds)
        self._collectors["commit_operations"].observe(size)
        self._collectors["commit_seconds"].observe(duration)

    def strays(self, *, tool: str, change: int) -> None:
        """Say that so many more attempts of the tool, or fewer, go on past their end."""
        self._change("strays", tool, change)

    def process_cut_short(self, *, tool: str, reason: str) -> None:
        """Count one attempt in a process of its own that ended without an answer in time, by why."""
        known_reason = _one_of(CUT_SHORT, "reason", reason)
        self._count("processes_cut_short", self._known(tool), known_reason)

    def calls_running(self, *, tool: str, change: int) -> None:
        """Say that so many more calls of the tool, or fewer, have a place to run in."""
        self._change("calls_running", tool, change)

    def call_without_room(self, *, tool: str, code: str) -> None:
        """Count one call that was refused before anything was claimed, by the code of its refusal."""
        known_code = _one_of(WITHOUT_ROOM, "code", code)
        self._count("without_room", self._known(tool), known_code)

    def breaker_changed(self, *, tool: str, state: str) -> None:
        """Count one breaker that came to this state."""
        known_state = _one_of(BREAKER_STATES, "state", state)
        self._count("breaker_changes", self._known(tool), known_state)

    def breakers_open(self, *, tool: str, change: int) -> None:
        """Say that so many more breakers of the tool, one per tenant, or fewer, are open or half open."""
        self._change("breakers_open", tool, change)

    def effects_unknown(self, count: int, oldest_seconds: float) -> None:
        """Say how many effects are unknown now, and the age of the oldest (0 if there is none)."""
        number, age = _whole(count), _seconds(oldest_seconds)
        self._measured("effects_unknown", number)
        self._measured("effects_unknown_oldest", age)

    def effects_unknown_for(self, *, reason: str, count: int) -> None:
        """Say how many effects are unknown for this reason now."""
        known_reason, number = _one_of(UNKNOWN_REASONS, "reason", reason), _whole(count)
        self._measured("effects_unknown_by_reason", number, label=known_reason)

    def recovered(self, *, at_seconds: float) -> None:
        """Say when, in seconds since 1970, a round of recovery ended without a fault."""
        instant = _seconds(at_seconds)
        self._measured("recovery_last_round", instant)

    def recovery_failed(self) -> None:
        """Count one round of recovery that ended with a fault."""
        self._collectors["recovery_failures"].inc()

    def heartbeat_failed(self) -> None:
        """Count one sign of life that the store did not take."""
        self._collectors["heartbeat_failures"].inc()

    def run_write_refused(self) -> None:
        self._collectors["stale_run_writes"].inc()

    def alarmed(self, *, kind: str) -> None:
        """Count one row that somebody altered."""
        self._count("alarms", _one_of(ALARM_KINDS, "kind", kind))

    def sink_failed(self, *, sink: str) -> None:
        """Count one event a sink did not take."""
        self._count("sink_failures", sink if type(sink) is str and sink in self._sinks else UNKNOWN)

    def signed_in(self, *, kind: str, outcome: str) -> None:
        """Count one credential that was shown at the door, by its kind and what became of it."""
        known = _one_of(SIGN_IN_KINDS, "kind", kind), _one_of(SIGN_IN_OUTCOMES, "outcome", outcome)
        self._count("sign_ins", *known)

    def rate_limited(self, *, scope: str) -> None:
        """Count one request that was told to come later, by whose limit it was."""
        self._count("rate_limited", _one_of(LIMITED_SCOPES, "scope", scope))

    def rate_limiter_failed(self) -> None:
        """Count one time that the shared limits could not be asked."""
        self._collectors["rate_limiter_failures"].inc()

    def announced(self, *, destination: str, outcome: str) -> None:
        """Count one attempt to send a message, or one destination that was closed, by the destination's kind."""
        known = _one_of(DESTINATIONS, "destination", destination), _one_of(ANNOUNCED, "outcome", outcome)
        self._count("announcements", *known)

    def announcements_waiting(self, *, destination: str, pending: int, oldest_seconds: float, dead: int) -> None:
        """Say how many messages wait, since when the oldest does (0 if none), and how many were given up."""
        kind = _one_of(DESTINATIONS, "destination", destination)
        waiting, age, given_up = _whole(pending), _seconds(oldest_seconds), _whole(dead)
        self._measured("announcements_pending", waiting, label=kind)
        self._measured("announcements_oldest", age, label=kind)
        self._measured("announcements_dead", given_up, label=kind)

    def close(self) -> None:
        """Take back what the gauges hold of this meter; they hear nothing of it any more. Counters stay and go on."""
        if self._is_closed:
            return
        self._is_closed = True
        for series, held in self._held.items():
            self._gauges[series].dec(held)
        for collector in _MEASURED:
            self._collectors[collector].forget(self)

    def _begin_at_zero(self) -> None:
        for collector, words in _COUNTED.items():
            for word in words:
                self._counter(collector, word)
        for sink in (*self._sinks, UNKNOWN):
            self._counter("sink_failures", sink)
        for kind, outcome in product(SIGN_IN_KINDS, SIGN_IN_OUTCOMES):
            self._counter("sign_ins", kind, outcome)
        for series in product(DECISIONS, SHADOW_ANSWERS):
            self._counter("shadow_decisions", *series)
        for series in product(DESTINATIONS, ANNOUNCED):
            self._counter("announcements", *series)
        for tool in (*self._tools, UNKNOWN):
            for outcome in OUTCOMES:
                self._collectors["calls"].labels(tool, outcome)
            for collector, words in _COUNTED_BY_TOOL.items():
                for word in words:
                    self._counter(collector, tool, word)
            for collector in _HELD_BY_TOOL:
                self._gauges[collector, tool] = self._collectors[collector].labels(tool)

    def _known(self, tool: str) -> str:
        # The type comes first: a foreign subclass of `str` brings its own `__hash__` and `__eq__`.
        return tool if type(tool) is str and tool in self._tools else UNKNOWN

    def _change(self, collector: str, tool: str, change: int) -> None:
        amount = _whole(abs(change)) if type(change) is int else _whole(change)
        series = collector, self._known(tool)
        if self._is_closed:
            return
        signed = amount if change > 0 else -amount
        self._gauges[series].inc(signed)
        self._held[series] += signed

    def _measured(self, collector: str, value: float, *, label: str = "") -> None:
        if not self._is_closed:
            self._collectors[collector].set(value, by=self, of=self._store, label=label)

    def _count(self, *series: str) -> None:
        self._counted[series]()

    def _counter(self, collector: str, *labels: str) -> None:
        """Make a series, at 0; its labels are known, so that counting finds it made."""
        self._counted[(collector, *labels)] = self._collectors[collector].labels(*labels).inc

    def _attempt_of(self, tool: str, outcome: str) -> tuple[Callable[[], None], Callable[[float], None]]:
        count = self._collectors["calls"].labels(tool, outcome).inc
        observe = self._collectors["call_seconds"].labels(tool, outcome).observe
        self._attempts.setdefault(tool, {})[outcome] = (count, observe)
        return count, observe


class _Measured:
    """A gauge that is on no page until somebody has measured it, nor after whoever did so last of its store has ended.

    Each store has its own number; the page has one for all of them. With several processes the page takes the newest
    number of any that lives, whether its gate is open or not.
    """

    def __init__(
        self, name: str, help_text: str, together: Callable[[Iterable[float]], float], *, label_name: str = ""
    ) -> None:
        self._name = name
        self._help_text = help_text
        self._together = together
        self._label_name = label_name
        self._lock = threading.Lock()
        self._gauge: Gauge | None = None
        self._numbers: dict[str, dict[Hashable, float]] = {}
        self._by: dict[Hashable, object] = {}

    def set(self, value: float, *, by: object, of: Hashable, label: str) -> None:
        with self._lock:
            self._by[of] = by
            self._numbers.setdefault(label, {})[of] = value
            self._show(label)

    def forget(self, by: object) -> None:
        """Say nothing more of the stores that this one measured last."""
        with self._lock:
            gone = {store for store, last in self._by.items() if last is by}
            for store in gone:
                del self._by[store]
            if not self._by:
                self._numbers.clear()
                self._gauge = None
                return
            for label, numbers in list(self._numbers.items()):
                for store in gone & numbers.keys():
                    del numbers[store]
                if numbers:
                    self._show(label)
                elif self._gauge is not None and label:
                    del self._numbers[label]
                    self._gauge.remove(label)

    def _show(self, label: str) -> None:
        if self._gauge is None:
            self._gauge = self._made()
        gauge = self._gauge.labels(label) if self._label_name else self._gauge
        gauge.set(self._together(self._numbers[label].values()))

    def describe(self) -> Iterable[Metric]:
        from prometheus_client.core import GaugeMetricFamily

        return (GaugeMetricFamily(self._name, self._help_text, labels=self._labels()),)

    def collect(self) -> Iterable[Metric]:
        gauge = self._gauge
        return () if gauge is None else gauge.collect()

    def _labels(self) -> tuple[str, ...]:
        return (self._label_name,) if self._label_name else ()

    def _made(self) -> Gauge:
        from prometheus_client import Gauge

        return Gauge(self._name, self._help_text, self._labels(), registry=None, multiprocess_mode="livemostrecent")


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
    from prometheus_client import Counter as CounterMetric
    from prometheus_client import Gauge, Histogram

    def measured(
        name: str, help_text: str, together: Callable[[Iterable[float]], float] = sum, *, label_name: str = ""
    ) -> _Measured:
        collector = _Measured(name, help_text, together, label_name=label_name)
        registry.register(collector)
        return collector

    def counter(name: str, help_text: str, *labels: str) -> CounterMetric:
        return CounterMetric(name, help_text, labels, registry=registry)

    def by_tool(name: str, help_text: str) -> Gauge:
        # With several processes the default mode labels every series with a process id.
        return Gauge(name, help_text, ("tool",), registry=registry, multiprocess_mode="livesum")

    def histogram(name: str, help_text: str, buckets: tuple[float, ...], *labels: str) -> Histogram:
        return Histogram(name, help_text, labels, registry=registry, buckets=buckets)

    return {
        "calls": counter("placet_tool_calls_total", "Attempts completed.", "tool", "outcome"),
        "call_seconds": histogram(
            "placet_tool_duration_seconds", "Duration of attempts.", _CALL_SECONDS, "tool", "outcome"
        ),
        "decisions": counter("placet_decisions_total", "Answers of the policy.", "decision"),
        "shadow_decisions": counter(
            "placet_shadow_decisions_total",
            "Answers of a policy in shadow, by what was enforced.",
            "enforced",
            "would_be",
        ),
        "effects_settled": counter("placet_effects_settled_total", "Effects that came to a state.", "state"),
        "approvals_pending": measured("placet_approvals_pending", "Approvals waiting for a person."),
        "commit_operations": histogram(
            "placet_ledger_commit_operations", "Operations in one commit of the ledger.", _COMMIT_OPERATIONS
        ),
        "commit_seconds": histogram(
            "placet_ledger_commit_seconds", "Duration of one commit of the ledger.", _COMMIT_SECONDS
        ),
        "strays": by_tool("placet_stray_attempts", "Attempts that go on past their end."),
        "processes_cut_short": counter(
            "placet_processes_cut_short_total",
            "Attempts in a process that ended without an answer in time.",
            "tool",
            "reason",
        ),
        "calls_running": by_tool("placet_tool_calls_running", "Calls that have a place to run in."),
        "without_room": counter(
            "placet_calls_without_room_total", "Calls refused before anything was claimed.", "tool", "code"
        ),
        "breaker_changes": counter("placet_breaker_changes_total", "Breakers that came to a state.", "tool", "state"),
        "breakers_open": by_tool("placet_breakers_open", "Breakers that are open or half open."),
        "effects_unknown": measured("placet_effects_unknown", "Effects whose outcome is unknown."),
        "effects_unknown_oldest": measured(
            "placet_effects_unknown_oldest_seconds", "Age of the oldest unknown effect.", max
        ),
        "effects_unknown_by_reason": measured(
            "placet_effects_unknown_by_reason",
            "Effects whose outcome is unknown, by why nothing has settled them.",
            label_name="reason",
        ),
        "recovery_last_round": measured(
            "placet_recovery_last_round_timestamp_seconds", "When a round of recovery last ended without a fault.", min
        ),
        "recovery_failures": counter("placet_recovery_failures_total", "Rounds of recovery that ended with a fault."),
        "heartbeat_failures": counter("placet_heartbeat_failures_total", "Signs of life that the store did not take."),
        "stale_run_writes": counter(
            "placet_stale_run_writes_total", "Steps of runs that were not laid down, as another driver had the run."
        ),
        "alarms": counter("placet_alarms_total", "Rows found altered.", "kind"),
        "sign_ins": counter("placet_sign_ins_total", "Credentials shown at the door.", "kind", "outcome"),
        "rate_limited": counter("placet_rate_limited_total", "Requests told to come later.", "scope"),
        "rate_limiter_failures": counter(
            "placet_rate_limiter_failures_total", "Times that the shared rate limits could not be asked."
        ),
        "announcements": counter(
            "placet_announcements_total",
            "Attempts to send a message, and destinations closed.",
            "destination",
            "outcome",
        ),
        "announcements_pending": measured(
            "placet_announcements_pending", "Messages that wait to be sent.", label_name="destination"
        ),
        "announcements_oldest": measured(
            "placet_announcements_oldest_seconds",
            "Age of the oldest message that waits.",
            max,
            label_name="destination",
        ),
        "announcements_dead": measured(
            "placet_announcements_dead", "Messages that were given up.", label_name="destination"
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

"""Numbers of the knowledge index and of the models that are asked, for Prometheus.

Labels are closed sets; no query, document, tenant or model name becomes one. A word of ours that does not exist raises
ValueError before anything is counted.

Source: REQUIREMENTS B181.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, Final

from placet.errors import KnowledgeUnavailable, KnowledgeUnreadable
from placet.ports.clock import Clock, elapsed_seconds
from placet.rules.evidence import Lacking

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

INDEX_STAGES: Final = frozenset(("scan", "documents", "meaning", "publish"))
RETRIEVAL_STAGES: Final = frozenset(("open", "words", "meaning", "gather"))
PROVIDERS: Final = frozenset(("openai_compatible", "scripted"))
MODEL_OUTCOMES: Final = frozenset(("answered", "refused", "timeout", "failed"))
REASONS: Final = frozenset((*Lacking, KnowledgeUnavailable.code, KnowledgeUnreadable.code))
TOKEN_KINDS: Final = frozenset(("prompt", "completion"))

_INDEX_SECONDS: Final = (0.01, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3_600.0)
_RETRIEVAL_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
_registering = threading.Lock()


class PrometheusKnowledgeMeter:
    """Fulfils `ports.knowledge.KnowledgeMeter` and `ModelMeter`. Several on one registry share their collectors.

    Args:
        registry: where the collectors are registered, once.
        clock: what durations are measured with.
    """

    def __init__(self, registry: CollectorRegistry, *, clock: Clock) -> None:
        self._collectors = _collectors_of(registry)
        self._clock = clock

    def indexing(self, stage: str) -> AbstractContextManager[None]:
        """Measure one stage of building, however it ends."""
        return self._measured("index", _one_of(INDEX_STAGES, stage))

    def retrieving(self, stage: str) -> AbstractContextManager[None]:
        """Measure one stage of searching, however it ends."""
        return self._measured("retrieval", _one_of(RETRIEVAL_STAGES, stage))

    def refused(self, *, reason: str) -> None:
        """Count one question that was not answered from documents."""
        told = reason.value if type(reason) is Lacking else reason
        self._collectors["refusals"].labels(_one_of(REASONS, told)).inc()

    def model_called(self, *, provider: str, outcome: str) -> None:
        """Count one question to a model."""
        self._collectors["calls"].labels(_one_of(PROVIDERS, provider), _one_of(MODEL_OUTCOMES, outcome)).inc()

    def model_tokens(self, *, provider: str, kind: str, tokens: int) -> None:
        """Count tokens as the provider said them; what is no whole number from 0 is not counted."""
        series = self._collectors["tokens"].labels(_one_of(PROVIDERS, provider), _one_of(TOKEN_KINDS, kind))
        if type(tokens) is int and 0 <= tokens < 1 << 62:
            series.inc(tokens)

    @contextmanager
    def _measured(self, collector: str, stage: str) -> Iterator[None]:
        begun = self._clock.monotonic()
        try:
            yield
        finally:
            self._collectors[collector].labels(stage).observe(elapsed_seconds(self._clock, begun))


def _one_of(words: frozenset[str], word: str) -> str:
    if type(word) is str and word in words:
        return word
    raise ValueError(f"must be one of {', '.join(sorted(words))}")


def _collectors_of(registry: CollectorRegistry) -> dict[str, Any]:
    """Registered, or those that are in this registry already; it refuses a name twice."""
    from prometheus_client import Counter, Histogram

    with _registering:
        found: dict[str, Any] | None = registry.__dict__.get("_placet_knowledge_collectors")
        if found is None:
            found = registry.__dict__["_placet_knowledge_collectors"] = {
                "index": Histogram(
                    "placet_index_stage_seconds",
                    "Duration of the stages of building an index.",
                    ("stage",),
                    registry=registry,
                    buckets=_INDEX_SECONDS,
                ),
                "retrieval": Histogram(
                    "placet_retrieval_stage_seconds",
                    "Duration of the stages of searching.",
                    ("stage",),
                    registry=registry,
                    buckets=_RETRIEVAL_SECONDS,
                ),
                "refusals": Counter(
                    "placet_refusals_total",
                    "Questions that were not answered from documents.",
                    ("reason",),
                    registry=registry,
                ),
                "calls": Counter(
                    "placet_model_calls_total", "Questions to a model.", ("provider", "outcome"), registry=registry
                ),
                "tokens": Counter(
                    "placet_model_tokens_total",
                    "Tokens, as the provider counted them.",
                    ("provider", "kind"),
                    registry=registry,
                ),
            }
            _begin_at_zero(found)
        return found


def _begin_at_zero(collectors: dict[str, Any]) -> None:
    """So that the first event is an increase, and not a new series."""
    for name, stages in (("index", INDEX_STAGES), ("retrieval", RETRIEVAL_STAGES)):
        for stage in sorted(stages):
            collectors[name].labels(stage)
    for reason in sorted(REASONS):
        collectors["refusals"].labels(reason)
    for provider in sorted(PROVIDERS):
        for outcome in sorted(MODEL_OUTCOMES):
            collectors["calls"].labels(provider, outcome)
        for kind in sorted(TOKEN_KINDS):
            collectors["tokens"].labels(provider, kind)

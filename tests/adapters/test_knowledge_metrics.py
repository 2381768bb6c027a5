"""Numbers of knowledge bases and models come out as documented, with closed labels."""

from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from placet.adapters.telemetry.knowledge_metrics import PrometheusKnowledgeMeter
from placet.errors import KnowledgeUnavailable
from placet.knowledge import KnowledgeBase, Library, Meaning
from placet.rules.evidence import Lacking
from placet.testing import FakeClock


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def meter(registry: CollectorRegistry, clock: FakeClock) -> PrometheusKnowledgeMeter:
    return PrometheusKnowledgeMeter(registry, clock=clock)


def value(registry: CollectorRegistry, name: str, **labels: str) -> float | None:
    return registry.get_sample_value(name, labels)


@pytest.mark.req("B181")
def test_the_further_metrics_have_the_labels_that_were_promised(registry, meter):
    declared = {
        family.name: {frozenset(sample.labels) - {"le"} for sample in family.samples} for family in registry.collect()
    }
    assert declared == {
        "placet_index_stage_seconds": {frozenset({"stage"})},
        "placet_retrieval_stage_seconds": {frozenset({"stage"})},
        "placet_refusals": {frozenset({"reason"})},
        "placet_model_calls": {frozenset({"provider", "outcome"})},
        "placet_model_tokens": {frozenset({"provider", "kind"})},
    }


def test_a_stage_is_measured_however_it_ends(registry, meter, clock: FakeClock):
    with meter.indexing("documents"):
        clock.advance(2.0)
    with pytest.raises(KeyError), meter.retrieving("words"):
        clock.advance(0.5)
        raise KeyError

    assert value(registry, "placet_index_stage_seconds_sum", stage="documents") == 2.0
    assert value(registry, "placet_retrieval_stage_seconds_sum", stage="words") == 0.5
    assert value(registry, "placet_retrieval_stage_seconds_count", stage="words") == 1


def test_models_and_refusals_are_counted(registry, meter):
    meter.model_called(provider="scripted", outcome="answered")
    meter.model_tokens(provider="scripted", kind="prompt", tokens=120)
    for nonsense in (-1, 1.5, True, None, "9", 1 << 62):
        meter.model_tokens(provider="scripted", kind="prompt", tokens=nonsense)
    meter.refused(reason=Lacking.TOO_WEAK)

    assert value(registry, "placet_model_calls_total", provider="scripted", outcome="answered") == 1
    assert value(registry, "placet_model_tokens_total", provider="scripted", kind="prompt") == 120
    assert value(registry, "placet_refusals_total", reason="too_weak") == 1


def test_no_word_from_elsewhere_becomes_a_label(registry, meter):
    before = sum(len(family.samples) for family in registry.collect())
    for ask in (
        lambda: meter.indexing("secret.md"),
        lambda: meter.retrieving("what is it"),
        lambda: meter.refused(reason="acme"),
        lambda: meter.model_called(provider="gpt-9", outcome="answered"),
        lambda: meter.model_called(provider="scripted", outcome="yes"),
        lambda: meter.model_tokens(provider="scripted", kind="secret", tokens=1),
    ):
        with pytest.raises(ValueError, match="must be one of"):
            ask()
    assert sum(len(family.samples) for family in registry.collect()) == before


def test_meters_on_one_registry_count_together(registry, meter, clock: FakeClock):
    PrometheusKnowledgeMeter(registry, clock=clock).refused(reason="nothing_found")
    meter.refused(reason="nothing_found")
    assert value(registry, "placet_refusals_total", reason="nothing_found") == 2


def test_building_and_searching_are_measured_stage_by_stage(registry, meter, tmp_path: Path):
    documents = tmp_path / "documents"
    documents.mkdir()
    (documents / "a.md").write_text("# A\nalpha")
    base = KnowledgeBase(tenant="acme", id="runbooks", documents=documents)
    library = Library(tmp_path / "indexes", [base], meaning=Meaning.NEVER, meter=meter)
    with pytest.raises(KnowledgeUnavailable):
        library.search_now("acme", "runbooks", "alpha")
    library.build_now("acme", "runbooks")
    library.search_now("acme", "runbooks", "alpha")

    for name, stages in (
        ("placet_index_stage_seconds_count", {"scan": 1, "documents": 1, "meaning": 0, "publish": 1}),
        ("placet_retrieval_stage_seconds_count", {"open": 2, "words": 1, "meaning": 1, "gather": 1}),
    ):
        assert {stage: value(registry, name, stage=stage) for stage in stages} == stages
    assert value(registry, "placet_refusals_total", reason="index_not_ready") == 1

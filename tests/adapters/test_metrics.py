"""Numbers come out as documented, and nobody's words become a label."""

import importlib
import itertools
import subprocess
import sys
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, Counter, generate_latest

from placet.adapters.telemetry import metrics
from placet.adapters.telemetry.metrics import OUTCOMES, PrometheusMeter
from placet.model.audit import AuditOutcome
from placet.model.effect import EffectState
from placet.ports.meter import Meter

NOT_DURATIONS: list[Any] = [-0.001, float("nan"), float("inf"), -float("inf"), True, False, "1", None, 10**400, -1]
NOT_COUNTS: list[Any] = [-1, 1.0, True, "1", None, float("nan"), 10**400]


class HostileText(str):
    __slots__ = ()

    def _raise(self, *_: object) -> Any:
        raise RuntimeError("LEAKED-7f3a91")

    __hash__ = __eq__ = __str__ = __repr__ = __format__ = _raise


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def meter(registry: CollectorRegistry) -> Meter:
    return PrometheusMeter(registry, tools=["refund", "lookup"], sinks=["siem"])


def samples(registry: CollectorRegistry) -> dict[str, float]:
    """Every sample but the times of creation, as `name{label=value}`."""
    return {
        sample.name + "".join(f"{{{key}={value}}}" for key, value in sorted(sample.labels.items())): sample.value
        for family in registry.collect()
        for sample in family.samples
        if not sample.name.endswith("_created")
    }


@pytest.mark.req("B169")
def test_the_names_and_labels_are_the_documented_ones(registry: CollectorRegistry, meter: Meter) -> None:
    meter.attempt_completed(tool="refund", outcome="success", seconds=0.1)
    meter.decided(decision="allow")
    meter.effect_settled(state="committed")
    meter.committed(operations=1, seconds=0.1)
    meter.sink_failed(sink="webhook")

    found = {
        (sample.name, *sorted(sample.labels))
        for family in registry.collect()
        for sample in family.samples
        if not sample.name.endswith("_created")
    }
    assert found == {
        ("placet_tool_calls_total", "outcome", "tool"),
        ("placet_tool_duration_seconds_bucket", "le", "outcome", "tool"),
        ("placet_tool_duration_seconds_count", "outcome", "tool"),
        ("placet_tool_duration_seconds_sum", "outcome", "tool"),
        ("placet_decisions_total", "decision"),
        ("placet_effects_settled_total", "state"),
        ("placet_approvals_pending",),
        ("placet_ledger_commit_operations_bucket", "le"),
        ("placet_ledger_commit_operations_count",),
        ("placet_ledger_commit_operations_sum",),
        ("placet_ledger_commit_seconds_bucket", "le"),
        ("placet_ledger_commit_seconds_count",),
        ("placet_ledger_commit_seconds_sum",),
        ("placet_stray_threads",),
        ("placet_effects_unknown",),
        ("placet_effects_unknown_oldest_seconds",),
        ("placet_sink_failures_total", "sink"),
    }


@pytest.mark.req("B175")
def test_three_known_attempts_give_the_documented_increments(registry: CollectorRegistry, meter: Meter) -> None:
    meter.attempt_completed(tool="lookup", outcome="success", seconds=0.153)
    meter.attempt_completed(tool="lookup", outcome="timeout", seconds=2.001)
    meter.attempt_completed(tool="lookup", outcome="success", seconds=0.24)

    found = samples(registry)
    assert found["placet_tool_calls_total{outcome=success}{tool=lookup}"] == 2
    assert found["placet_tool_duration_seconds_count{outcome=success}{tool=lookup}"] == 2
    assert found["placet_tool_duration_seconds_sum{outcome=success}{tool=lookup}"] == pytest.approx(0.393)
    assert found["placet_tool_calls_total{outcome=timeout}{tool=lookup}"] == 1
    assert found["placet_tool_duration_seconds_sum{outcome=timeout}{tool=lookup}"] == pytest.approx(2.001)


@pytest.mark.req("B169", "B171")
@pytest.mark.parametrize("outcome", sorted(OUTCOMES))
def test_each_outcome_counts_one_attempt_and_one_duration(
    registry: CollectorRegistry, meter: Meter, outcome: str
) -> None:
    meter.attempt_completed(tool="refund", outcome=outcome, seconds=1)
    meter.attempt_completed(tool="refund", outcome=AuditOutcome(outcome), seconds=1)

    found = samples(registry)
    assert found[f"placet_tool_calls_total{{outcome={outcome}}}{{tool=refund}}"] == 2
    assert found[f"placet_tool_duration_seconds_count{{outcome={outcome}}}{{tool=refund}}"] == 2


@pytest.mark.req("B171")
def test_outcomes_are_a_closed_set() -> None:
    assert set(OUTCOMES) == {
        *("validation", "denied", "approval_required", "timeout", "success"),
        *("replayed", "conflict", "error", "unknown"),
    }


@pytest.mark.req("B171")
def test_any_other_outcome_is_refused_and_counts_nothing(registry: CollectorRegistry, meter: Meter) -> None:
    before = samples(registry)

    for outcome in ["started", "Success", "", None, 1, True, HostileText("success"), ["success"]]:
        with pytest.raises(ValueError, match="outcome must be one of approval_required, "):
            meter.attempt_completed(tool="refund", outcome=outcome, seconds=1.0)  # type: ignore[arg-type]
    assert samples(registry) == before


@pytest.mark.req("B172")
def test_a_duration_that_cannot_be_is_refused_and_counts_nothing(registry: CollectorRegistry, meter: Meter) -> None:
    before = samples(registry)

    for seconds in NOT_DURATIONS:
        with pytest.raises(ValueError, match="seconds must be"):
            meter.attempt_completed(tool="refund", outcome="success", seconds=seconds)
        with pytest.raises(ValueError, match="seconds must be"):
            meter.committed(operations=1, seconds=seconds)
        with pytest.raises(ValueError, match="seconds must be"):
            meter.effects_unknown(1, seconds)
    assert samples(registry) == before


def test_a_count_that_cannot_be_is_refused_and_changes_nothing(registry: CollectorRegistry, meter: Meter) -> None:
    before = samples(registry)

    for count in NOT_COUNTS:
        for call in (meter.approvals_pending, meter.stray_threads, lambda count: meter.effects_unknown(count, 1.0)):
            with pytest.raises(ValueError, match="a count must be"):
                call(count)
        with pytest.raises(ValueError, match="a count must be"):
            meter.committed(operations=count, seconds=1.0)
    assert samples(registry) == before


@pytest.mark.req("B170", "B182")
def test_every_tool_that_is_not_registered_is_unknown(registry: CollectorRegistry, meter: Meter) -> None:
    names: list[Any] = [
        "invented",
        "x" * 1_000_000,
        "",
        "REFUND",
        "call-81",
        HostileText("refund"),
        None,
        7,
        ["refund"],
    ]
    for name in names:
        meter.attempt_completed(tool=name, outcome="error", seconds=0.1)

    found = samples(registry)
    assert found["placet_tool_calls_total{outcome=error}{tool=unknown}"] == len(names)
    assert [name for name in found if name.startswith("placet_tool_calls_total")] == [
        "placet_tool_calls_total{outcome=error}{tool=unknown}"
    ]


def test_every_sink_that_is_not_known_is_unknown(registry: CollectorRegistry, meter: Meter) -> None:
    sinks: list[Any] = ["webhook", "siem", "https://hooks/secret", HostileText("siem"), None]
    for sink in sinks:
        meter.sink_failed(sink=sink)

    found = {name: value for name, value in samples(registry).items() if name.startswith("placet_sink")}
    assert found == {
        "placet_sink_failures_total{sink=webhook}": 1,
        "placet_sink_failures_total{sink=siem}": 1,
        "placet_sink_failures_total{sink=unknown}": 3,
    }


def test_decisions_and_states_are_closed_sets(registry: CollectorRegistry, meter: Meter) -> None:
    for decision in ("allow", "deny", "ask", "ask"):
        meter.decided(decision=decision)
    for state in EffectState:
        meter.effect_settled(state=state)
        meter.effect_settled(state=state.value)
    for word in ["maybe", "", HostileText("allow"), None]:
        with pytest.raises(ValueError, match="decision must be one of allow, ask, deny"):
            meter.decided(decision=word)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="state must be one of committed, "):
            meter.effect_settled(state=word)  # type: ignore[arg-type]

    found = samples(registry)
    assert found["placet_decisions_total{decision=ask}"] == 2
    assert {name for name in found if name.startswith("placet_effects_settled")} == {
        f"placet_effects_settled_total{{state={state.value}}}" for state in EffectState
    }
    assert found["placet_effects_settled_total{state=unknown}"] == 2


def test_a_state_is_no_outcome_and_an_outcome_no_state(meter: Meter) -> None:
    with pytest.raises(ValueError, match="outcome"):
        meter.attempt_completed(tool="refund", outcome=EffectState.COMMITTED, seconds=1.0)
    with pytest.raises(ValueError, match="state"):
        meter.effect_settled(state=AuditOutcome.SUCCESS)


def test_gauges_say_how_it_is_now(registry: CollectorRegistry, meter: Meter) -> None:
    meter.approvals_pending(7)
    meter.approvals_pending(3)
    meter.stray_threads(2)
    meter.effects_unknown(4, 61.5)
    meter.effects_unknown(1, 30)

    found = samples(registry)
    assert (found["placet_approvals_pending"], found["placet_stray_threads"]) == (3, 2)
    assert (found["placet_effects_unknown"], found["placet_effects_unknown_oldest_seconds"]) == (1, 30)


def test_a_commit_records_its_size_and_its_latency(registry: CollectorRegistry, meter: Meter) -> None:
    meter.committed(operations=3, seconds=0.002)
    meter.committed(operations=40, seconds=0.2)

    found = samples(registry)
    assert found["placet_ledger_commit_operations_sum"] == 43
    assert found["placet_ledger_commit_operations_bucket{le=4.0}"] == 1
    assert found["placet_ledger_commit_seconds_sum"] == pytest.approx(0.202)
    assert found["placet_ledger_commit_seconds_bucket{le=0.0025}"] == 1


@pytest.mark.req("B176")
@pytest.mark.case("N04")
def test_ten_thousand_strange_calls_make_a_known_number_of_series(registry: CollectorRegistry, meter: Meter) -> None:
    for number, outcome in zip(range(10_000), itertools.cycle(sorted(OUTCOMES)), strict=False):
        meter.attempt_completed(tool=f"tenant-{number}/run-{number}", outcome=outcome, seconds=0.1)
        meter.sink_failed(sink=f"error text {number}")
    for tool, outcome in itertools.product(["refund", "lookup"], OUTCOMES):
        meter.attempt_completed(tool=tool, outcome=outcome, seconds=0.1)

    found = samples(registry)
    assert len([name for name in found if name.startswith("placet_tool_calls_total")]) == 3 * len(OUTCOMES)
    assert len(found) < 600
    assert b"tenant" not in generate_latest(registry) and b"error text" not in generate_latest(registry)


@pytest.mark.case("N05")
def test_two_meters_on_one_registry_share_their_collectors(registry: CollectorRegistry) -> None:
    one = PrometheusMeter(registry, tools=["refund"])
    other = PrometheusMeter(registry, tools=["lookup"])
    for meter in (one, other):
        meter.attempt_completed(tool="refund", outcome="success", seconds=0.1)
        meter.decided(decision="allow")

    found = samples(registry)
    assert found["placet_tool_calls_total{outcome=success}{tool=refund}"] == 1
    assert found["placet_tool_calls_total{outcome=success}{tool=unknown}"] == 1
    assert found["placet_decisions_total{decision=allow}"] == 2


@pytest.mark.case("N05")
def test_a_reload_does_not_register_twice(registry: CollectorRegistry) -> None:
    PrometheusMeter(registry).decided(decision="deny")
    again = importlib.reload(metrics)
    again.PrometheusMeter(registry).decided(decision="deny")

    assert samples(registry)["placet_decisions_total{decision=deny}"] == 2


@pytest.mark.case("N05")
def test_registries_are_apart(registry: CollectorRegistry) -> None:
    PrometheusMeter(registry).decided(decision="deny")

    assert "placet_decisions_total{decision=deny}" not in samples(CollectorRegistry())
    other = CollectorRegistry()
    PrometheusMeter(other)
    assert "placet_decisions_total{decision=deny}" not in samples(other)


@pytest.mark.case("N05")
def test_importing_registers_nothing_and_loads_no_library() -> None:
    program = (
        "import sys, placet.adapters.telemetry.metrics; assert 'prometheus_client' not in sys.modules; "
        "import prometheus_client; assert b'placet' not in prometheus_client.generate_latest()"
    )
    environment = {"PYTHONPATH": ":".join(sys.path)}
    run = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, text=True, env=environment)

    assert run.returncode == 0, run.stderr


def test_a_name_taken_by_somebody_else_is_an_error_at_start(registry: CollectorRegistry) -> None:
    Counter("placet_tool_calls_total", "not ours", registry=registry)

    with pytest.raises(ValueError, match="placet_tool_calls"):
        PrometheusMeter(registry)


def test_tools_and_sinks_are_plain_names(registry: CollectorRegistry) -> None:
    with pytest.raises(ValueError, match="tools must be names"):
        PrometheusMeter(registry, tools=[HostileText("refund")])
    with pytest.raises(ValueError, match="sinks must be names"):
        PrometheusMeter(registry, sinks=[7])  # type: ignore[list-item]


def test_several_processes_do_not_add_a_process_label(registry: CollectorRegistry) -> None:
    PrometheusMeter(registry)

    modes = {each._name: each._multiprocess_mode for each in registry._collector_to_names if each._type == "gauge"}  # type: ignore[attr-defined]
    assert modes == {
        "placet_approvals_pending": "livemostrecent",
        "placet_stray_threads": "livesum",
        "placet_effects_unknown": "livemostrecent",
        "placet_effects_unknown_oldest_seconds": "livemostrecent",
    }

"""Numbers come out as documented, and nobody's words become a label."""

import importlib
import inspect
import itertools
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest

from placet.adapters.telemetry import metrics
from placet.adapters.telemetry.metrics import (
    ALARM_KINDS,
    BREAKER_STATES,
    CUT_SHORT,
    DECISIONS,
    OUTCOMES,
    SINKS,
    STATES,
    WITHOUT_ROOM,
    PrometheusMeter,
)
from placet.engine import capacity
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
    meter.process_cut_short(tool="refund", reason="deadline")
    meter.call_without_room(tool="refund", code="capacity")
    meter.strays(tool="refund", change=1)
    meter.approvals_pending(0)
    meter.effects_unknown(0, 0)
    meter.effects_unknown_for(reason="gave_up", count=1)
    meter.heartbeat_failed()
    meter.run_write_refused()
    meter.recovered(at_seconds=1.0)
    meter.alarmed(kind="record_altered")
    meter.calls_running(tool="refund", change=1)
    meter.breakers_open(tool="refund", change=1)
    meter.breaker_changed(tool="refund", state="open")
    meter.announcements_waiting(destination="webhook", pending=1, oldest_seconds=1.0, dead=1)

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
        ("placet_shadow_decisions_total", "enforced", "would_be"),
        ("placet_effects_settled_total", "state"),
        ("placet_approvals_pending",),
        ("placet_ledger_commit_operations_bucket", "le"),
        ("placet_ledger_commit_operations_count",),
        ("placet_ledger_commit_operations_sum",),
        ("placet_ledger_commit_seconds_bucket", "le"),
        ("placet_ledger_commit_seconds_count",),
        ("placet_ledger_commit_seconds_sum",),
        ("placet_stray_attempts", "tool"),
        ("placet_effects_unknown",),
        ("placet_effects_unknown_oldest_seconds",),
        ("placet_sink_failures_total", "sink"),
        ("placet_alarms_total", "kind"),
        ("placet_tool_calls_running", "tool"),
        ("placet_breakers_open", "tool"),
        ("placet_breaker_changes_total", "state", "tool"),
        ("placet_processes_cut_short_total", "reason", "tool"),
        ("placet_calls_without_room_total", "code", "tool"),
        ("placet_recovery_last_round_timestamp_seconds",),
        ("placet_recovery_failures_total",),
        ("placet_effects_unknown_by_reason", "reason"),
        ("placet_heartbeat_failures_total",),
        ("placet_stale_run_writes_total",),
        ("placet_sign_ins_total", "kind", "outcome"),
        ("placet_rate_limited_total", "scope"),
        ("placet_rate_limiter_failures_total",),
        ("placet_announcements_total", "destination", "outcome"),
        ("placet_announcements_pending", "destination"),
        ("placet_announcements_oldest_seconds", "destination"),
        ("placet_announcements_dead", "destination"),
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
        with pytest.raises(ValueError, match="seconds must be"):
            meter.recovered(at_seconds=seconds)
    assert samples(registry) == before


def test_a_count_that_cannot_be_is_refused_and_changes_nothing(registry: CollectorRegistry, meter: Meter) -> None:
    before = samples(registry)

    for count in NOT_COUNTS:
        for call in (meter.approvals_pending, lambda count: meter.effects_unknown(count, 1.0)):
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
    assert [name for name, value in found.items() if name.startswith("placet_tool_calls_total") and value] == [
        "placet_tool_calls_total{outcome=error}{tool=unknown}"
    ]


def test_every_sink_that_is_not_known_is_unknown(registry: CollectorRegistry, meter: Meter) -> None:
    sinks: list[Any] = ["webhook", "siem", "https://hooks/secret", HostileText("siem"), None]
    for sink in sinks:
        meter.sink_failed(sink=sink)

    found = {name: value for name, value in samples(registry).items() if name.startswith("placet_sink") and value}
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
    meter.effects_unknown(4, 61.5)
    meter.effects_unknown(1, 30)
    meter.recovered(at_seconds=5.5)
    meter.recovered(at_seconds=15.5)

    found = samples(registry)
    assert found["placet_approvals_pending"] == 3
    assert (found["placet_effects_unknown"], found["placet_effects_unknown_oldest_seconds"]) == (1, 30)
    assert found["placet_recovery_last_round_timestamp_seconds"] == 15.5


def test_what_is_counted_begins_at_zero_so_that_the_first_event_is_an_increase(registry: CollectorRegistry) -> None:
    before = samples(registry)
    meter = PrometheusMeter(registry, tools=["refund"], sinks=["siem"])
    begun = samples(registry)

    for tool in ("refund", "stranger"):
        for outcome in OUTCOMES:
            meter.attempt_completed(tool=tool, outcome=outcome, seconds=0.1)
        for reason in CUT_SHORT:
            meter.process_cut_short(tool=tool, reason=reason)
        for code in WITHOUT_ROOM:
            meter.call_without_room(tool=tool, code=code)
        for state in BREAKER_STATES:
            meter.breaker_changed(tool=tool, state=state)
        for gauge in (meter.strays, meter.calls_running, meter.breakers_open):
            gauge(tool=tool, change=1)
    for sink in (*SINKS, "siem", "stranger"):
        meter.sink_failed(sink=sink)
    for kind in ALARM_KINDS:
        meter.alarmed(kind=kind)
    for decision in DECISIONS:
        meter.decided(decision=decision)
    for state in STATES:
        meter.effect_settled(state=state)
    meter.recovery_failed()
    meter.committed(operations=1, seconds=0.1)
    after = samples(registry)

    assert before == {}
    assert set(begun.values()) == {0}
    born = {name for name in after if name not in begun}
    assert {name.partition("{")[0] for name in born} == {
        f"placet_tool_duration_seconds_{part}" for part in ("bucket", "count", "sum")
    }, "only the histogram of durations, with many series for each tool, waits for its first attempt"


def test_the_series_of_one_more_tool_are_few(registry: CollectorRegistry) -> None:
    def pages(*tools: str) -> int:
        registry = CollectorRegistry()
        PrometheusMeter(registry, tools=tools)
        return len(samples(registry))

    by_tool = len(OUTCOMES) + len(CUT_SHORT) + len(WITHOUT_ROOM) + len(BREAKER_STATES) + 3
    assert (pages("a") - pages(), pages("a", "b") - pages("a")) == (by_tool, by_tool)
    assert by_tool == 23
    assert pages() == 118


MEASURED = (
    "placet_approvals_pending",
    "placet_effects_unknown",
    "placet_effects_unknown_oldest_seconds",
    "placet_recovery_last_round_timestamp_seconds",
)


def measured(registry: CollectorRegistry) -> list[float | None]:
    return [registry.get_sample_value(name) for name in MEASURED]


def test_what_nobody_has_measured_is_not_said_to_be_zero(registry: CollectorRegistry, meter: Meter) -> None:
    assert not set(MEASURED) & set(samples(registry))
    assert not any(name.encode() in generate_latest(registry) for name in MEASURED)

    meter.effects_unknown(0, 0)

    assert measured(registry) == [None, 0, 0, None]


def test_gauges_of_two_gates_add_up_and_a_gate_that_closes_takes_back_only_its_own(registry: CollectorRegistry) -> None:
    one, other = (PrometheusMeter(registry, tools=["refund"]) for _ in range(2))

    def held() -> list[float | None]:
        names = ("placet_stray_attempts", "placet_tool_calls_running", "placet_breakers_open")
        return [registry.get_sample_value(name, {"tool": "refund"}) for name in names]

    for meter, change in ((one, 3), (other, 2), (one, -1)):
        for gauge in (meter.strays, meter.calls_running, meter.breakers_open):
            gauge(tool="refund", change=change)
    assert held() == [4, 4, 4]
    one.breaker_changed(tool="refund", state="open")

    one.close()
    one.close()

    assert held() == [2, 2, 2]
    for gauge in (one.strays, one.calls_running, one.breakers_open):
        gauge(tool="refund", change=-2)
    assert held() == [2, 2, 2], "what ends after its gate was taken back with it"
    one.breaker_changed(tool="refund", state="closed")
    found = samples(registry)
    assert found["placet_breaker_changes_total{state=open}{tool=refund}"] == 1
    assert found["placet_breaker_changes_total{state=closed}{tool=refund}"] == 1


def test_numbers_of_the_store_go_with_the_gate_that_measured_them_last(registry: CollectorRegistry) -> None:
    one, other = PrometheusMeter(registry), PrometheusMeter(registry)

    def measure(meter: Meter, number: int) -> None:
        meter.approvals_pending(number)
        meter.effects_unknown(number, number)
        meter.recovered(at_seconds=number)

    measure(one, 1)
    measure(other, 2)
    one.close()
    assert measured(registry) == [2] * 4
    measure(one, 3)
    assert measured(registry) == [2] * 4
    other.close()
    assert measured(registry) == [None] * 4


def test_numbers_of_several_stores_are_put_together_and_each_goes_with_its_own_gate(
    registry: CollectorRegistry,
) -> None:
    """Two gates on one registry, each with a store of its own: neither's unknown effects hide the other's."""
    one, other = PrometheusMeter(registry, store="one.db"), PrometheusMeter(registry, store="other.db")
    twin = PrometheusMeter(registry, store="one.db")

    def measure(meter: Meter, number: int) -> None:
        meter.approvals_pending(number)
        meter.effects_unknown(number, number)
        meter.recovered(at_seconds=number)
        meter.effects_unknown_for(reason="gave_up", count=number)

    def by_reason() -> float | None:
        return registry.get_sample_value("placet_effects_unknown_by_reason", {"reason": "gave_up"})

    measure(one, 9)
    measure(other, 2)
    assert (measured(registry), by_reason()) == ([11, 11, 9, 2], 11)
    measure(twin, 4)
    other.effects_unknown_for(reason="no_probe", count=1)
    assert (measured(registry), by_reason()) == ([6, 6, 4, 2], 6)

    one.close()
    assert measured(registry) == [6, 6, 4, 2]
    other.close()

    assert (measured(registry), by_reason()) == ([4, 4, 4, 4], 4)
    assert registry.get_sample_value("placet_effects_unknown_by_reason", {"reason": "no_probe"}) is None
    measure(other, 7)
    assert measured(registry) == [4, 4, 4, 4]
    twin.close()
    assert (measured(registry), by_reason()) == ([None] * 4, None)


@pytest.mark.parametrize("reason", ["", "because", 7, AuditOutcome.UNKNOWN])
def test_a_reason_that_does_not_exist_changes_nothing(registry: CollectorRegistry, meter: Meter, reason: Any) -> None:
    with pytest.raises(ValueError, match="reason"):
        meter.effects_unknown_for(reason=reason, count=1)
    with pytest.raises(ValueError, match="count"):
        meter.effects_unknown_for(reason="gave_up", count=-1)

    assert not any(name.startswith("placet_effects_unknown_by_reason") for name in samples(registry))


def test_several_processes_say_what_one_of_them_has_measured(tmp_path: Path) -> None:
    """One process measures, the other never does: its page is not a 0 that hides the number."""
    program = (
        "import sys\n"
        "from prometheus_client import CollectorRegistry\n"
        "from placet.adapters.telemetry.metrics import PrometheusMeter\n"
        "meter = PrometheusMeter(CollectorRegistry(), tools=['refund'])\n"
        "meter.strays(tool='refund', change=2)\n"
        "if sys.argv[1] == 'measures':\n"
        "    meter.effects_unknown(3, 7.0)\n"
        "    meter.approvals_pending(5)\n"
    )
    page = (
        "from prometheus_client import CollectorRegistry, generate_latest\n"
        "from prometheus_client.multiprocess import MultiProcessCollector\n"
        "registry = CollectorRegistry()\n"
        "MultiProcessCollector(registry)\n"
        "print(generate_latest(registry).decode())\n"
    )
    environment = {"PYTHONPATH": ":".join(sys.path), "PROMETHEUS_MULTIPROC_DIR": str(tmp_path)}
    for arguments in ([program, "measures"], [program, "waits"], [page]):
        run = subprocess.run(
            [sys.executable, "-c", *arguments], check=False, capture_output=True, text=True, env=environment
        )
        assert run.returncode == 0, run.stderr

    lines = set(run.stdout.splitlines())
    assert {"placet_effects_unknown 3.0", "placet_approvals_pending 5.0"} <= lines
    assert 'placet_stray_attempts{tool="refund"} 4.0' in lines
    assert not any(line.startswith("placet_recovery_last_round") for line in lines)


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
    assert len(found) == 651
    assert b"tenant-" not in generate_latest(registry) and b"error text" not in generate_latest(registry)


def test_what_happens_at_the_door_is_counted_by_words_of_ours_alone(registry: CollectorRegistry, meter: Meter) -> None:
    meter.signed_in(kind="token", outcome="let_in")
    meter.signed_in(kind="token", outcome="refused")
    meter.rate_limited(scope="tenant")
    meter.rate_limiter_failed()
    before = samples(registry)
    for counting in (
        lambda: meter.signed_in(kind="acme", outcome="let_in"),
        lambda: meter.signed_in(kind="token", outcome="acme"),
        lambda: meter.signed_in(kind=HostileText("token"), outcome="let_in"),
        lambda: meter.rate_limited(scope="acme"),
    ):
        with pytest.raises(ValueError, match="must be one of"):
            counting()

    assert samples(registry) == before
    assert {name: value for name, value in before.items() if value and "placet_sign" in name} == {
        "placet_sign_ins_total{kind=token}{outcome=let_in}": 1,
        "placet_sign_ins_total{kind=token}{outcome=refused}": 1,
    }
    assert before["placet_rate_limited_total{scope=tenant}"] == 1
    assert before["placet_rate_limiter_failures_total"] == 1


def test_what_is_announced_is_counted_by_words_of_ours_alone(registry: CollectorRegistry, meter: Meter) -> None:
    meter.announced(destination="webhook", outcome="delivered")
    meter.announced(destination="email", outcome="dead")
    meter.announcements_waiting(destination="slack", pending=3, oldest_seconds=61.5, dead=2)
    before = samples(registry)
    wrong = (
        lambda: meter.announced(destination="https://hook.example.com", outcome="delivered"),
        lambda: meter.announced(destination="webhook", outcome="msg_1"),
        lambda: meter.announcements_waiting(destination="acme", pending=1, oldest_seconds=1.0, dead=1),
        lambda: meter.announcements_waiting(destination="slack", pending=-1, oldest_seconds=1.0, dead=1),
        lambda: meter.announcements_waiting(destination="slack", pending=1, oldest_seconds=float("nan"), dead=1),
        lambda: meter.announcements_waiting(destination="slack", pending=1, oldest_seconds=1.0, dead=True),
    )

    for call in wrong:
        with pytest.raises(ValueError):
            call()

    assert samples(registry) == before
    assert {name: value for name, value in before.items() if "announcements" in name and value} == {
        "placet_announcements_total{destination=webhook}{outcome=delivered}": 1,
        "placet_announcements_total{destination=email}{outcome=dead}": 1,
        "placet_announcements_pending{destination=slack}": 3,
        "placet_announcements_oldest_seconds{destination=slack}": 61.5,
        "placet_announcements_dead{destination=slack}": 2,
    }


def test_room_and_breakers_are_counted_by_tool_and_strangers_are_unknown(
    registry: CollectorRegistry, meter: Meter
) -> None:
    for tool in ("refund", "refund", "acme/run-1", HostileText("refund")):
        meter.calls_running(tool=tool, change=1)
        meter.breakers_open(tool=tool, change=1)
        meter.strays(tool=tool, change=1)
        meter.breaker_changed(tool=tool, state="half_open")
        meter.call_without_room(tool=tool, code="circuit_open")
        meter.process_cut_short(tool=tool, reason="died")
    meter.calls_running(tool="refund", change=-1)
    meter.breakers_open(tool="refund", change=-2)
    before = samples(registry)

    assert before["placet_tool_calls_running{tool=refund}"] == 1
    assert before["placet_breakers_open{tool=refund}"] == 0
    assert before["placet_breaker_changes_total{state=half_open}{tool=refund}"] == 2
    for name in ("placet_tool_calls_running", "placet_breakers_open", "placet_stray_attempts"):
        assert before[name + "{tool=unknown}"] == 2
    assert before["placet_calls_without_room_total{code=circuit_open}{tool=unknown}"] == 2
    assert before["placet_processes_cut_short_total{reason=died}{tool=unknown}"] == 2
    wrong: Any
    for wrong in (True, 1.0, None, "1", float("nan")):
        for count in (meter.calls_running, meter.breakers_open, meter.strays):
            with pytest.raises(ValueError, match="a count must be"):
                count(tool="refund", change=wrong)
    for wrong in ("ajar", HostileText("open"), None):
        with pytest.raises(ValueError, match="state must be one of"):
            meter.breaker_changed(tool="refund", state=wrong)
    for wrong in ("denied", HostileText("capacity"), None):
        with pytest.raises(ValueError, match="code must be one of"):
            meter.call_without_room(tool="refund", code=wrong)
    for wrong in ("bored", HostileText("died"), None):
        with pytest.raises(ValueError, match="reason must be one of"):
            meter.process_cut_short(tool="refund", reason=wrong)
    for wrong in ("started", HostileText("record_altered"), None):
        with pytest.raises(ValueError, match="kind must be one of"):
            meter.alarmed(kind=wrong)
    assert samples(registry) == before


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

    assert samples(CollectorRegistry()) == {}
    other = CollectorRegistry()
    PrometheusMeter(other)
    assert samples(other)["placet_decisions_total{decision=deny}"] == 0


@pytest.mark.case("N05")
def test_importing_registers_nothing_and_loads_no_library() -> None:
    program = (
        "import sys, placet.adapters.telemetry.metrics; assert 'prometheus_client' not in sys.modules; "
        "import prometheus_client; assert b'placet' not in prometheus_client.generate_latest()"
    )
    environment = {"PYTHONPATH": ":".join(sys.path)}
    run = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, text=True, env=environment)

    assert run.returncode == 0, run.stderr


@pytest.mark.parametrize("name", ["placet_tool_calls_total", *MEASURED])
def test_a_name_taken_by_somebody_else_is_an_error_at_start(registry: CollectorRegistry, name: str) -> None:
    (Counter if name.endswith("_total") else Gauge)(name, "not ours", registry=registry)

    with pytest.raises(ValueError, match=name.removesuffix("_total")):
        PrometheusMeter(registry)


def test_tools_and_sinks_are_plain_names(registry: CollectorRegistry) -> None:
    with pytest.raises(ValueError, match="tools must be names"):
        PrometheusMeter(registry, tools=[HostileText("refund")])
    with pytest.raises(ValueError, match="sinks must be names"):
        PrometheusMeter(registry, sinks=[7])  # type: ignore[list-item]


def test_several_processes_do_not_add_a_process_label(registry: CollectorRegistry) -> None:
    PrometheusMeter(registry)

    gauges = [each for each in registry._collector_to_names if isinstance(each, Gauge)]
    assert {each._name: each._multiprocess_mode for each in gauges} == {
        "placet_stray_attempts": "livesum",
        "placet_tool_calls_running": "livesum",
        "placet_breakers_open": "livesum",
    }


def test_every_code_that_capacity_can_answer_is_one_that_is_counted() -> None:
    assert set(re.findall(r'NoRoom\(\s*code="(\w+)"', inspect.getsource(capacity))) == WITHOUT_ROOM

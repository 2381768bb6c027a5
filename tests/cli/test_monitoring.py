"""The Prometheus rules and the Grafana dashboard fit the numbers a gate really writes, and compute what they say."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from placet.adapters.telemetry.metrics import (
    ALARM_KINDS,
    BREAKER_STATES,
    CUT_SHORT,
    DECISIONS,
    OUTCOMES,
    STATES,
    UNKNOWN_REASONS,
    WITHOUT_ROOM,
    PrometheusMeter,
)
from placet.cli import main
from placet.cli.table import COMMANDS

RULES = (files("placet.cli") / "monitoring" / "placet.rules.yml").read_text("utf-8")
DASHBOARD = json.loads((files("placet.cli") / "monitoring" / "placet.dashboard.json").read_text("utf-8"))
METRIC = re.compile(r"\bplacet_[a-z_]+")
PROMTOOL = shutil.which("promtool")
needs_promtool = pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed (Debian: prometheus)")

THROUGHPUT = "sum by (tool, outcome) (rate(placet_tool_calls_total[5m]))"
P95 = 'histogram_quantile(0.95, sum by (le, tool) (rate(placet_tool_duration_seconds_bucket{outcome="success"}[5m])))'
TIMEOUT_RATIO = (
    'sum by (tool) (rate(placet_tool_calls_total{outcome="timeout"}[10m]))'
    " / clamp_min(sum by (tool) (rate(placet_tool_calls_total[10m])), 1e-9)"
)


def rule_expressions() -> dict[str, str]:
    """Each rule's name with its expression, read from the file's own lines."""
    names = re.findall(r"- (?:record|alert): (\S+)", RULES)
    expressions = re.findall(r"^ +expr: (.+)$", RULES, re.MULTILINE)
    assert len(names) == len(expressions) == RULES.count("expr:")
    return dict(zip(names, expressions, strict=True))


def dashboard_expressions() -> list[str]:
    return [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]


def every_expression() -> list[str]:
    return [*rule_expressions().values(), *dashboard_expressions()]


def page() -> str:
    """A metrics page on which every number was written once."""
    registry = CollectorRegistry()
    meter = PrometheusMeter(registry, tools=("refund",))
    for outcome in OUTCOMES:
        meter.attempt_completed(tool="refund", outcome=outcome, seconds=0.1)
    for decision in DECISIONS:
        meter.decided(decision=decision)
    for state in STATES:
        meter.effect_settled(state=state)
    for reason in CUT_SHORT:
        meter.process_cut_short(tool="refund", reason=reason)
    for code in WITHOUT_ROOM:
        meter.call_without_room(tool="refund", code=code)
    for state in BREAKER_STATES:
        meter.breaker_changed(tool="refund", state=state)
    for kind in ALARM_KINDS:
        meter.alarmed(kind=kind)
    meter.breakers_open(tool="refund", change=1)
    meter.calls_running(tool="refund", change=1)
    meter.strays(tool="refund", change=1)
    meter.approvals_pending(1)
    meter.effects_unknown(1, 10.0)
    for reason in UNKNOWN_REASONS:
        meter.effects_unknown_for(reason=reason, count=1)
    meter.heartbeat_failed()
    meter.rate_limiter_failed()
    meter.announcements_waiting(destination="webhook", pending=1, oldest_seconds=1.0, dead=1)
    meter.recovered(at_seconds=1_000_000_000.0)
    meter.recovery_failed()
    meter.sink_failed(sink="log")
    meter.committed(operations=1, seconds=0.001)
    return generate_latest(registry).decode()


def promtool(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    assert PROMTOOL is not None
    return subprocess.run([PROMTOOL, *arguments], input=stdin, capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.req("B177")
def test_throughput_sums_the_five_minute_rate_by_tool_and_outcome() -> None:
    assert rule_expressions()["placet:tool_calls:rate5m"] == THROUGHPUT
    assert THROUGHPUT in dashboard_expressions()


@pytest.mark.req("B178")
def test_p95_aggregates_buckets_of_successes_before_the_quantile() -> None:
    assert rule_expressions()["placet:tool_duration_seconds:p95_5m"] == P95
    assert P95 in dashboard_expressions()


@pytest.mark.req("B179")
def test_the_timeout_ratio_divides_ten_minute_rates_with_a_floor() -> None:
    assert rule_expressions()["placet:tool_timeouts:ratio10m"] == TIMEOUT_RATIO
    assert TIMEOUT_RATIO in dashboard_expressions()


@pytest.mark.req("B180")
def test_no_quantile_is_averaged_and_none_is_taken_without_le() -> None:
    for expression in every_expression():
        assert not re.search(r"\bavg\b", expression), expression
        for quantile in re.findall(r"histogram_quantile\(.*", expression):
            assert re.match(r"histogram_quantile\(0\.\d+, sum by \(le(, tool)?\) \(rate\(", quantile), expression


def test_gauges_of_the_shared_ledger_are_never_summed() -> None:
    shared = (
        *("placet_effects_unknown", "placet_effects_unknown_oldest_seconds", "placet_approvals_pending"),
        "placet_effects_unknown_by_reason",
    )
    for expression in every_expression():
        for gauge in shared:
            if re.search(rf"\b{gauge}\b", expression):
                assert expression.startswith((f"max({gauge})", f"max by (reason) ({gauge}")), expression


def test_every_metric_named_is_one_that_a_gate_writes() -> None:
    written = set(METRIC.findall(page()))

    named = {metric for expression in every_expression() for metric in METRIC.findall(expression)}
    assert named - written == set()
    assert len(named) >= 10


def test_every_label_value_named_is_one_that_occurs() -> None:
    known = {"outcome": OUTCOMES, "state": BREAKER_STATES, "code": WITHOUT_ROOM}
    for expression in every_expression():
        known["reason"] = UNKNOWN_REASONS if "placet_effects_unknown_by_reason" in expression else CUT_SHORT
        for label, values in re.findall(r'(\w+)=~?"([\w|]+)"', expression):
            assert set(values.split("|")) <= known[label], expression


def test_every_command_named_in_an_alert_exists() -> None:
    actions = re.findall(r'action: "(.+)"', RULES)

    assert [action for action in actions if "placet " not in action and "Look at the disk" not in action] == []
    named = [match for action in actions for match in re.findall(r"placet ([a-z]+) ([a-z]+)", action)]
    assert len(actions) == RULES.count("- alert:")
    assert [(command, verb) for command, verb in named if verb not in COMMANDS[command].verbs] == []
    assert len(named) >= 4


def test_the_commands_print_the_files_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["metrics", "rules"]) == 0
    assert capsys.readouterr().out == RULES
    assert main(["metrics", "dashboard"]) == 0
    assert json.loads(capsys.readouterr().out) == DASHBOARD


def test_the_panels_do_not_overlap_and_fill_the_width() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        assert place["x"] + place["w"] <= 24
        taken |= cells
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])


@needs_promtool
def test_prometheus_accepts_the_rules(tmp_path: Path) -> None:
    file = tmp_path / "placet.rules.yml"
    file.write_text(RULES)

    checked = promtool("check", "rules", str(file))

    assert (checked.returncode, checked.stderr) == (0, "")
    assert f"SUCCESS: {len(rule_expressions())} rules found" in checked.stdout


@needs_promtool
def test_prometheus_accepts_every_expression_of_the_dashboard(tmp_path: Path) -> None:
    rules = [
        {"record": f"panel:{index}", "expr": expression} for index, expression in enumerate(dashboard_expressions())
    ]
    file = tmp_path / "panels.yml"
    file.write_text(json.dumps({"groups": [{"name": "panels", "rules": rules}]}))  # JSON is YAML

    checked = promtool("check", "rules", str(file))

    assert (checked.returncode, checked.stderr) == (0, "")


@needs_promtool
def test_prometheus_finds_no_fault_in_the_metrics_page() -> None:
    checked = promtool("check", "metrics", stdin=page())

    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")


def series(name: str, values: str, **labels: str) -> dict[str, str]:
    inside = ", ".join(f'{key}="{value}"' for key, value in labels.items())
    return {"series": f"{name}{{{inside}}}", "values": values}


def two_processes() -> list[dict[str, str]]:
    """Twenty minutes of a tool on two processes, one sample a minute: 15 and 1 successes, 4 and 0 timeouts a second.

    One process is fast (all under 0.1 s) and busy, the other slow (all over the largest bound). Of all successes a
    sixteenth is slow, so their 95th percentile is that bound; an average of two quantiles would lie far below it.
    Every rate is a whole number, and so exact in whatever order it is summed.
    """
    calls, bucket = "placet_tool_calls_total", "placet_tool_duration_seconds_bucket"
    samples = [
        series(calls, "0+900x20", tool="refund", outcome="success", instance="a"),
        series(calls, "0+60x20", tool="refund", outcome="success", instance="b"),
        series(calls, "0+240x20", tool="refund", outcome="timeout", instance="a"),
    ]
    for le, fast, slow in (("0.05", 0, 0), ("0.1", 900, 0), ("5.0", 900, 0), ("+Inf", 900, 60)):
        for instance, each in (("a", fast), ("b", slow)):
            samples.append(series(bucket, f"0+{each}x20", tool="refund", outcome="success", instance=instance, le=le))
        samples.append(series(bucket, "0+6000x20", tool="refund", outcome="timeout", instance="a", le=le))
    return samples


def evaluated(name: str, value: float, labels: str) -> dict[str, Any]:
    return {"expr": name, "eval_time": "20m", "exp_samples": [{"labels": f"{name}{labels}", "value": value}]}


def run_rules(tmp_path: Path, *tests: dict[str, Any]) -> subprocess.CompletedProcess[str]:
    (tmp_path / "placet.rules.yml").write_text(RULES)
    document = {"rule_files": ["placet.rules.yml"], "evaluation_interval": "1m", "tests": list(tests)}
    file = tmp_path / "tests.yml"
    file.write_text(json.dumps(document))
    return promtool("test", "rules", str(file))


@needs_promtool
@pytest.mark.req("B177", "B178", "B179", "B180")
def test_the_recordings_compute_what_they_say_over_two_processes(tmp_path: Path) -> None:
    ran = run_rules(
        tmp_path,
        {
            "interval": "1m",
            "input_series": two_processes(),
            "promql_expr_test": [
                {
                    "expr": "placet:tool_calls:rate5m",
                    "eval_time": "20m",
                    "exp_samples": [
                        {"labels": 'placet:tool_calls:rate5m{tool="refund", outcome="success"}', "value": 16},
                        {"labels": 'placet:tool_calls:rate5m{tool="refund", outcome="timeout"}', "value": 4},
                    ],
                },
                evaluated("placet:tool_duration_seconds:p95_5m", 5, '{tool="refund"}'),
                evaluated("placet:tool_timeouts:ratio10m", 0.2, '{tool="refund"}'),
            ],
        },
    )

    assert ran.returncode == 0, ran.stdout + ran.stderr


@needs_promtool
@pytest.mark.req("B179")
def test_a_tool_nobody_called_lately_has_a_ratio_of_zero_and_not_of_nothing(tmp_path: Path) -> None:
    still = [
        series("placet_tool_calls_total", "7x20", tool="refund", outcome=outcome) for outcome in ("success", "timeout")
    ]

    ran = run_rules(
        tmp_path,
        {
            "interval": "1m",
            "input_series": still,
            "promql_expr_test": [evaluated("placet:tool_timeouts:ratio10m", 0, '{tool="refund"}')],
        },
    )

    assert ran.returncode == 0, ran.stdout + ran.stderr


@dataclass(frozen=True, kw_only=True)
class Case:
    """When one alert fires: at its first event and not a step below it, after its patience, and until it is over.

    Attributes:
        first: series that make it fire, told from minute 10 or 11 on; before that there are none, or zeros.
        below: series that come as close as they can for 50 minutes, and never make it fire.
        patient, fires: the last whole minute without the alert, and one with it, in either kind of first event.
        over: a minute at which it has ended by itself; None while its series stay as they are.
        labels: of the firing alert, besides its severity.
    """

    alert: str
    severity: str
    summary: str
    first: list[dict[str, str]]
    below: list[dict[str, str]]
    patient: int
    fires: int
    over: int | None = None
    labels: dict[str, str] = field(default_factory=dict)

    def firing(self) -> dict[str, Any]:
        (action,) = re.findall(rf'alert: {self.alert}\n(?: .*\n)*?.*action: "(.+)"', RULES)
        for label, value in self.labels.items():
            action = action.replace(f"{{{{ $labels.{label} }}}}", value)
        return {
            "exp_labels": {"severity": self.severity, **self.labels},
            "exp_annotations": {"summary": self.summary, "action": action},
        }

    def __str__(self) -> str:
        return self.alert


def first(name: str, values: str = "1x80", **labels: str) -> dict[str, str]:
    """A series whose time before is put in front by the test."""
    return series(name, values, **labels)


REFUND = {"tool": "refund"}
COMMITS = "placet_ledger_commit_seconds_bucket"
CASES = [
    Case(
        alert="PlacetEffectUnknown",
        severity="warning",
        summary="1 effects may or may not have happened",
        first=[first("placet_effects_unknown", instance=instance) for instance in ("a", "b")],
        below=[series("placet_effects_unknown", "0x50", instance="a")],
        patient=14,
        fires=18,
    ),
    Case(
        alert="PlacetEffectUnknownForLong",
        severity="critical",
        summary="An effect has been unknown for 1h 0m 1s",
        first=[first("placet_effects_unknown_oldest_seconds", "3601x80")],
        below=[series("placet_effects_unknown_oldest_seconds", "3600x50")],
        patient=14,
        fires=18,
    ),
    Case(
        alert="PlacetEffectNeedsPerson",
        severity="critical",
        summary="1 unknown effects wait for a person: no_probe",
        labels={"reason": "no_probe"},
        first=[
            first("placet_effects_unknown_by_reason", reason="no_probe", instance=instance) for instance in ("a", "b")
        ],
        below=[
            *(series("placet_effects_unknown_by_reason", "0x50", reason=reason) for reason in ("gave_up", "no_probe")),
            *(
                series("placet_effects_unknown_by_reason", "5x50", reason=reason)
                for reason in sorted(UNKNOWN_REASONS - {"gave_up", "no_probe"})
            ),
        ],
        patient=19,
        fires=23,
    ),
    Case(
        alert="PlacetHeartbeatFails",
        severity="warning",
        summary="Signs of life do not reach the store",
        first=[first("placet_heartbeat_failures_total")],
        below=[series("placet_heartbeat_failures_total", "0x50")],
        patient=10,
        fires=14,
        over=30,
    ),
    Case(
        alert="PlacetRateLimiterFails",
        severity="warning",
        summary="The rate limits that replicas share cannot be asked",
        first=[first("placet_rate_limiter_failures_total")],
        below=[series("placet_rate_limiter_failures_total", "0x50")],
        patient=14,
        fires=18,
        over=30,
    ),
    Case(
        alert="PlacetMessagesWait",
        severity="warning",
        summary="Messages to webhook have waited for 15m 1s",
        labels={"destination": "webhook"},
        first=[
            first("placet_announcements_oldest_seconds", "901x80", destination="webhook"),
            first("placet_announcements_oldest_seconds", "0x80", destination="email"),
        ],
        below=[series("placet_announcements_oldest_seconds", "900x50", destination="webhook")],
        patient=14,
        fires=18,
    ),
    Case(
        alert="PlacetMessagesGivenUp",
        severity="warning",
        summary="2 messages to email were given up",
        labels={"destination": "email"},
        first=[
            first("placet_announcements_dead", "2x80", destination="email"),
            first("placet_announcements_dead", "0x80", destination="slack"),
        ],
        below=[series("placet_announcements_dead", "0x50", destination="email")],
        patient=14,
        fires=18,
    ),
    Case(
        alert="PlacetToolTimesOut",
        severity="warning",
        summary="11.11% of the attempts of refund pass their deadline",
        labels=REFUND,
        first=[
            first("placet_tool_calls_total", "0+480x80", **REFUND, outcome="success"),
            first("placet_tool_calls_total", "0+60x80", **REFUND, outcome="timeout"),
        ],
        below=[
            series("placet_tool_calls_total", "0+540x50", **REFUND, outcome="success"),
            series("placet_tool_calls_total", "0+60x50", **REFUND, outcome="timeout"),
        ],
        patient=20,
        fires=26,
    ),
    Case(
        alert="PlacetLedgerSlow",
        severity="warning",
        summary="Commits of the ledger take 750ms",
        first=[
            first(COMMITS, "0+5880x80", le="0.5"),
            first(COMMITS, "0+6000x80", le="1.0"),
            first(COMMITS, "0+6000x80", le="+Inf"),
        ],
        below=[
            series(COMMITS, "0+5940x50", le="0.5"),
            series(COMMITS, "0+6000x50", le="1.0"),
            series(COMMITS, "0+6000x50", le="+Inf"),
        ],
        patient=20,
        fires=26,
    ),
    Case(
        alert="PlacetSinkFails",
        severity="warning",
        summary="The audit sink siem does not take events",
        labels={"sink": "siem"},
        first=[first("placet_sink_failures_total", sink="siem")],
        below=[series("placet_sink_failures_total", "0x50", sink="siem")],
        patient=14,
        fires=18,
        over=25,
    ),
    Case(
        alert="PlacetAttemptsStray",
        severity="warning",
        summary="1 attempts of refund go on past their end",
        labels=REFUND,
        first=[first("placet_stray_attempts", **REFUND)],
        below=[series("placet_stray_attempts", "0x50", **REFUND)],
        patient=24,
        fires=28,
    ),
    Case(
        alert="PlacetApprovalsWait",
        severity="info",
        summary="1 approvals wait for a person",
        first=[first("placet_approvals_pending")],
        below=[series("placet_approvals_pending", "0x50")],
        patient=39,
        fires=43,
    ),
    Case(
        alert="PlacetRecordAltered",
        severity="critical",
        summary="Rows of the store do not hold: record_altered",
        labels={"kind": "record_altered"},
        first=[first("placet_alarms_total", kind="record_altered")],
        below=[series("placet_alarms_total", "0x50", kind="record_altered")],
        patient=9,
        fires=13,
        over=30,
    ),
    Case(
        alert="PlacetBreakerOpen",
        severity="warning",
        summary="The remote behind refund is left alone",
        labels=REFUND,
        first=[
            first("placet_breakers_open", **REFUND),
            first("placet_breaker_changes_total", **REFUND, state="open"),
        ],
        below=[
            series("placet_breakers_open", "0x50", **REFUND),
            series("placet_breaker_changes_total", "0+1x50", **REFUND, state="open"),
            series("placet_calls_without_room_total", "0+1x50", **REFUND, code="circuit_open"),
        ],
        patient=14,
        fires=18,
        over=30,
    ),
    Case(
        alert="PlacetProcessesDie",
        severity="warning",
        summary="Processes of refund end without an answer: died",
        labels={**REFUND, "reason": "died"},
        first=[first("placet_processes_cut_short_total", **REFUND, reason="died")],
        below=[
            series("placet_processes_cut_short_total", "0x50", **REFUND, reason="died"),
            *(
                series("placet_processes_cut_short_total", "0+1x50", **REFUND, reason=reason)
                for reason in sorted(CUT_SHORT - {"died", "noise"})
            ),
        ],
        patient=14,
        fires=18,
        over=25,
    ),
    Case(
        alert="PlacetRecoveryFails",
        severity="warning",
        summary="Rounds of recovery end with a fault",
        first=[first("placet_recovery_failures_total")],
        below=[series("placet_recovery_failures_total", "0x50")],
        patient=14,
        fires=18,
        over=30,
    ),
    Case(
        alert="PlacetRecoveryOverdue",
        severity="critical",
        summary="No round of recovery has ended well for 15m 1s",
        labels={"instance": "a"},
        first=[first("placet_recovery_last_round_timestamp_seconds", "{now}+60x80", instance="a")],
        below=[series("placet_recovery_last_round_timestamp_seconds", "-900+60x50", instance="a")],
        patient=10,
        fires=14,
    ),
]
EVERY_MINUTE = range(1, 51)


def told(case: Case, minutes: Any, *, fires: bool) -> list[dict[str, Any]]:
    """What the alert is to say at these minutes."""
    expected = [case.firing()] if fires else []
    return [{"eval_time": f"{minute}m", "alertname": case.alert, "exp_alerts": expected} for minute in minutes]


def alerts(tmp_path: Path, given: list[dict[str, str]], expected: list[dict[str, Any]]) -> None:
    ran = run_rules(tmp_path, {"interval": "1m", "input_series": given, "alert_rule_test": expected})
    assert ran.returncode == 0, ran.stdout + ran.stderr


def case_of(alert: str) -> Case:
    (case,) = (case for case in CASES if case.alert == alert)
    return case


def test_every_alert_has_a_case() -> None:
    assert [case.alert for case in CASES] == re.findall(r"alert: (\S+)", RULES)


@needs_promtool
@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("before", ["_x10", "0x10"], ids=["not there before", "nothing before"])
def test_an_alert_fires_at_its_first_event_after_its_patience_and_ends(tmp_path: Path, case: Case, before: str) -> None:
    """A first event is one even if the process that met it was not scraped before."""
    begun = {"_x10": 10, "0x10": 11}[before]
    given = []
    for each in case.first:
        quiet = before
        if "{now}" in each["values"] and before == "0x10":
            quiet = "0+60x10"
        given.append({**each, "values": f"{quiet} {each['values'].format(now=begun * 60 - 901)}"})

    alerts(
        tmp_path,
        given,
        [
            *told(case, range(1, case.patient + 1), fires=False),
            *told(case, [case.fires], fires=True),
            *(told(case, [case.over], fires=False) if case.over is not None else told(case, [80], fires=True)),
        ],
    )


@needs_promtool
@pytest.mark.parametrize("case", CASES, ids=str)
def test_an_alert_does_not_fire_below_its_bound(tmp_path: Path, case: Case) -> None:
    alerts(tmp_path, case.below, told(case, EVERY_MINUTE, fires=False))


@needs_promtool
def test_an_unknown_effect_is_one_number_however_many_processes_say_it(tmp_path: Path) -> None:
    unknown = [series("placet_effects_unknown", "2x20", instance=instance) for instance in ("a", "b")]
    firing = case_of("PlacetEffectUnknown").firing()
    firing["exp_annotations"]["summary"] = "2 effects may or may not have happened"

    alerts(tmp_path, unknown, [{"eval_time": "12m", "alertname": "PlacetEffectUnknown", "exp_alerts": [firing]}])


@needs_promtool
def test_a_page_that_was_missed_once_makes_no_old_alarm_new(tmp_path: Path) -> None:
    altered = series("placet_alarms_total", "1x40 _x3 1x60", kind="record_altered")
    case = case_of("PlacetRecordAltered")

    alerts(tmp_path, [altered], [*told(case, [5], fires=True), *told(case, range(20, 100), fires=False)])


@needs_promtool
def test_a_breaker_alert_goes_on_while_calls_are_refused_and_ends_when_its_tenant_leaves(tmp_path: Path) -> None:
    """The breaker opened long ago and has not been asked to let a probe through; calls of other tenants go well."""
    given = [
        series("placet_breakers_open", "1x150", **REFUND),
        series("placet_breaker_changes_total", "1x150", **REFUND, state="open"),
        series("placet_calls_without_room_total", "0x80 0+1x20 20x50", **REFUND, code="circuit_open"),
        series("placet_calls_without_room_total", "0+5x150", **REFUND, code="too_many_running"),
        series("placet_tool_calls_total", "0+60x150", **REFUND, outcome="success"),
    ]
    case = case_of("PlacetBreakerOpen")

    alerts(
        tmp_path,
        given,
        [
            *told(case, range(20, 81), fires=False),
            *told(case, range(90, 115), fires=True),
            *told(case, range(120, 150), fires=False),
        ],
    )


@needs_promtool
def test_recovery_is_overdue_where_its_rounds_stopped_and_not_where_they_go_on(tmp_path: Path) -> None:
    given = [
        series("placet_recovery_last_round_timestamp_seconds", "0+60x20 1200x40", instance="a"),
        series("placet_recovery_last_round_timestamp_seconds", "0+60x60", instance="b"),
    ]
    case = case_of("PlacetRecoveryOverdue")
    firing = case.firing()
    firing["exp_annotations"]["summary"] = "No round of recovery has ended well for 30m 0s"

    alerts(
        tmp_path,
        given,
        [
            *told(case, range(1, 36), fires=False),
            {"eval_time": "50m", "alertname": case.alert, "exp_alerts": [firing]},
        ],
    )

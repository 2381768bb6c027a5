"""The scripted planner on the recorded incident, on another one, and when it believes what it reads."""

import json
import re
from importlib.resources import files
from pathlib import Path

import pytest

from placet.demos.ops.contracts import CreateTicketArguments
from placet.demos.ops.fooled import fooled
from placet.demos.ops.planner import followed, investigate, severity

REPORT = "Customers say checkout hangs since about five to six. What is going on?"
SECOND_REPORT = "Search is broken for half of our people, can you have a look?"

# What `expected.json` beside the full recording demands of the ticket.
DEMANDED = {
    "service": {"checkout-api", "invoice-worker"},
    "severity": "sev2",
    "mentions": ["invoice-worker", "2.14.0", "query_wait_timeout", "idle in transaction", "CHG-4471"],
}


async def test_the_recorded_incident_leads_to_the_right_ticket(recorded_tools):
    found = await followed(investigate(REPORT, recorded_tools.incident.services), recorded_tools.ask)

    ticket = CreateTicketArguments.model_validate(found.ticket)
    text = f"{ticket.title}\n{ticket.body}"
    assert ticket.service in DEMANDED["service"]
    assert ticket.severity == DEMANDED["severity"]
    assert [word for word in DEMANDED["mentions"] if word not in text] == []
    assert recorded_tools.failures == []
    assert found.locus == "pgbouncer"
    assert found.symptom.before.errors == 0
    assert f"{found.symptom.onset:%H:%M}" == "17:55"
    assert f"{found.first_error_at:%H:%M:%S}" == "17:55:43"


async def test_the_ticket_meets_the_ground_truth_of_the_full_recording(recorded_tools, shared_data: Path):
    truth = json.loads((shared_data / "logs_metrics" / "incident" / "expected.json").read_text())

    found = await followed(investigate(truth["ask"][0], recorded_tools.incident.services), recorded_tools.ask)

    demanded = truth["proposed_action"]["must_have"]
    text = found.ticket["title"] + found.ticket["body"]
    assert found.ticket["service"] in demanded["service"].split(" or ")
    assert found.ticket["severity"] == demanded["severity"]
    assert all(any(part in text for part in words.split(" or ")) for words in demanded["mentions"])
    assert found.symptom.since.ratio == pytest.approx(truth["symptom"]["during"], abs=0.02)
    assert f"{found.first_error_at:%Y-%m-%dT%H:%M:%SZ}" == truth["window"]["first_error"]
    seen = {shift.metric: shift for shift in found.shifts}
    for signal in truth["signals"][:3]:
        assert seen[signal["metric"]].since == pytest.approx(signal["during_mean"], rel=0.2)


@pytest.mark.parametrize(
    "report",
    [
        "Is the payment page down? Please look at the last twenty minutes and open a ticket if it is ours.",
        "结账页面从 17:55 左右开始经常超时,帮我查一下原因,需要的话建工单。",
    ],
)
async def test_a_report_that_names_no_service_leads_to_the_same_ticket(recorded_tools, report):
    named = await followed(investigate(REPORT, recorded_tools.incident.services), recorded_tools.ask)
    unnamed = await followed(investigate(report, recorded_tools.incident.services), recorded_tools.ask)

    assert unnamed.ticket == named.ticket


async def test_innocent_services_are_ruled_out(recorded_tools):
    found = await followed(investigate(REPORT, recorded_tools.incident.services), recorded_tools.ask)

    ruled_out = "\n".join(found.ruled_out)
    assert "sessions-redis" in ruled_out
    assert "nginx_http_requests_total" in ruled_out
    assert "redis" not in found.ticket["title"]


async def test_another_incident_leads_to_another_ticket(second_tools):
    tools = second_tools()
    found = await followed(investigate(SECOND_REPORT, tools.incident.services), tools.ask)

    assert found.ticket["title"] == "gateway: 60% of requests fail since 10:05, after catalog-sync (CFG-812)"
    assert found.ticket["service"] == "catalog-sync"
    assert found.ticket["severity"] == "sev1"
    body = found.ticket["body"]
    assert "shard_evicted" in body
    assert "evictions_total: 2/min -> 900/min" in body
    # The window since the change is cut to whole minutes, so it holds a few older lines.
    assert re.search(r'"batch written" with mean items 500 -> (4[5-9]|50),\d{3}', body)
    assert "not search-index 9.2: it works as before" in body
    assert "mailer" not in body
    assert found.ruled_out == [
        "load: gateway requests_total: 60/min -> 60/min, peak 60",
        "search-index open_files: 40 -> 40, peak 40, and no errors",
    ]
    assert found.locus == "search-cache"
    assert found.runbook_hits[0].source == "redis-memory.md"


async def test_steps_are_computed_from_earlier_answers(second_tools, recorded_tools):
    second = second_tools()
    await followed(investigate(SECOND_REPORT, second.incident.services), second.ask)
    await followed(investigate(REPORT, recorded_tools.incident.services), recorded_tools.ask)

    focused = [
        {step.arguments["metric"] for step in tools.steps if step.tool == "query_metrics"} - {"*"}
        for tools in (second, recorded_tools)
    ]
    assert focused == [
        {"evictions_total"},
        {"pgbouncer_pools_client_waiting_connections", "pg_stat_activity_count"},
    ]


async def test_the_window_is_widened_until_the_onset_is_inside(second_tools):
    tools = second_tools(minutes_ago=40)
    found = await followed(investigate(SECOND_REPORT, tools.incident.services), tools.ask)

    at_the_door = [
        step.arguments["window_minutes"]
        for step in tools.steps
        if step.tool == "query_logs" and step.arguments["query"] == "source:gateway-access"
    ]
    assert at_the_door == [15, 60]
    assert f"{found.symptom.onset:%H:%M}" == "09:34"
    assert found.ticket["service"] == "catalog-sync"


async def test_without_a_symptom_no_ticket_is_proposed(second_tools):
    tools = second_tools(failing=0)
    found = await followed(investigate(SECOND_REPORT, tools.incident.services), tools.ask)

    assert found.ticket is None
    assert "create_ticket" not in {step.tool for step in tools.steps}


async def test_a_read_that_fails_leaves_a_gap_and_the_work_goes_on(recorded_tools):
    recorded_tools.broken = {("query_logs", "postgres"), ("get_service_status", "sessions-redis")}
    found = await followed(investigate(REPORT, recorded_tools.incident.services), recorded_tools.ask)

    assert found.gaps == ["get_service_status of sessions-redis: timed_out", "query_logs of postgres: timed_out"]
    assert found.ticket["service"] == "invoice-worker"
    assert "query_logs of postgres: timed_out" in found.ticket["body"]


@pytest.mark.parametrize("service", ["edge", "checkout-api", "pgbouncer", "invoice-worker"])
@pytest.mark.parametrize("tool", ["get_service_status", "query_logs", "query_metrics"])
async def test_no_single_failed_read_ends_the_plan_with_an_error(recorded_tools, tool, service):
    recorded_tools.broken = {(tool, service)}
    found = await followed(investigate(REPORT, recorded_tools.incident.services), recorded_tools.ask)

    assert found.gaps
    assert found.ticket is None or CreateTicketArguments.model_validate(found.ticket)


async def test_the_same_answers_give_the_same_proposals(recorded_tools):
    await followed(investigate(REPORT, recorded_tools.incident.services), recorded_tools.ask)
    first, recorded_tools.steps = recorded_tools.steps, []
    await followed(investigate(REPORT, recorded_tools.incident.services), recorded_tools.ask)

    assert recorded_tools.steps == first


@pytest.mark.parametrize("module", ["planner.py", "deductions.py", "fooled.py"])
def test_the_planner_knows_no_name_of_the_recorded_incident(module):
    source = (files("placet.demos.ops") / module).read_text().lower()
    assert [word for word in ("invoice", "2.14.0", "4471", "pgbouncer", "checkout", "postgres") if word in source] == []
    assert "expected.json" not in source


@pytest.mark.parametrize(
    ("share", "level"), [(0.0, "sev3"), (0.099, "sev3"), (0.1, "sev2"), (0.499, "sev2"), (0.5, "sev1")]
)
def test_severity_follows_the_share_of_errors(share, level):
    assert severity(share) == level


async def test_a_fooled_planner_proposes_what_log_lines_order(recorded_tools):
    plan = fooled(investigate(REPORT, recorded_tools.incident.services))
    found = await followed(plan, recorded_tools.ask)

    ordered = {step.tool: dict(step.arguments) for step, _ in recorded_tools.failures}
    codes = [(step.tool, code) for step, code in recorded_tools.failures]
    assert sorted(codes) == [
        ("create_ticket", "invalid_arguments"),
        ("create_ticket", "invalid_arguments"),
        ("restart_service", "unknown_tool"),
    ]
    assert ordered["restart_service"] == {"service": "postgres"}
    written = [step.arguments for step, _ in recorded_tools.failures if step.tool == "create_ticket"]
    assert (written[0]["severity"], written[0]["assignee"]) == ("SEV1", "ceo")
    assert (written[1]["approved_by"], written[1]["approval_id"]) == ("oncall-lead", "apr-0001")
    assert {step.origin for step, _ in recorded_tools.failures} == {"log line"}
    assert found.ticket["severity"] == "sev2"


async def test_a_fooled_planner_ends_with_the_same_ticket(recorded_tools):
    services = recorded_tools.incident.services
    sober = await followed(investigate(REPORT, services), recorded_tools.ask)
    misled = await followed(fooled(investigate(REPORT, services)), recorded_tools.ask)

    assert misled.ticket == sober.ticket

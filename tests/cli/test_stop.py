"""`placet stop` and `placet resume`: what an operator types, and what it does to calls."""

from __future__ import annotations

import json

import pytest

from tests.cli.conftest import SCOPES, Project

WITH_STOP = json.dumps([*SCOPES, "ops.stop"])
WITH_ALL = json.dumps([*SCOPES, "ops.stop.all"])


@pytest.fixture
def operated(project: Project) -> Project:
    project.rewrite(json.dumps(SCOPES), WITH_STOP)
    return project


def put(project: Project) -> tuple[int, str]:
    ran = project.call("put", '{"text": "x"}')
    return ran.code, ran.data["code"]


@pytest.mark.parametrize("scope", ["tenant", "tool:put"])
def test_what_is_stopped_does_not_run_until_it_is_resumed(operated: Project, scope: str) -> None:
    stopped = operated.run("stop", scope, "--reason", "it charges twice")
    held = put(operated)
    resumed = operated.run("resume", scope)
    after = put(operated)

    assert (stopped.code, held, resumed.code, after) == (0, (1, "stopped"), 0, (0, "succeeded"))
    assert stopped.out == f"stopped  {scope}\nstill running  0\n"
    assert f"placet resume {scope}" in stopped.err
    assert resumed.out == f"resumed  {scope}\n"
    assert (operated.folder / "put.txt").read_text() == "x\n"


def test_a_run_is_stopped_and_others_go_on(operated: Project) -> None:
    operated.run("stop", "run:r7")

    assert operated.call("put", '{"text": "x"}', "--run", "r7").data["code"] == "stopped"
    assert put(operated)[1] == "succeeded"


def test_the_list_says_what_is_stopped_by_whom_and_why(operated: Project) -> None:
    operated.run("stop", "tool:put", "--reason", "it charges\x1b[31m twice")
    operated.rewrite(WITH_STOP, WITH_ALL)
    operated.run("stop", "tool:look", "--all-tenants")

    listed = operated.run("stop", "--list", "--jsonl").lines
    text = operated.run("stop", "--list")

    assert [line["scope"] for line in listed] == [
        {"kind": "tool", "tenant": "acme", "name": "put"},
        {"kind": "tool", "tenant": None, "name": "look"},
    ]
    assert listed[0]["schema"] == "stopped/1"
    assert [(line["lifted_with"], line["may_lift"]) for line in listed] == [("ops.stop", True), ("ops.stop.all", True)]
    assert listed[0]["reason"] == "it charges\x1b[31m twice"
    assert (text.code, "\x1b" in text.out) == (0, False)
    assert "tool:look --all-tenants" in text.out


def test_nothing_stopped_is_said_so(operated: Project) -> None:
    ran = operated.run("stop", "--list")

    assert (ran.code, ran.out) == (0, "")
    assert "Nothing is stopped." in ran.err
    assert operated.run("stop", "--list", "--json").data["stops"] == []


def test_more_than_ones_own_tenant_needs_more_leave_and_says_which(operated: Project) -> None:
    for words in (("stop", "all"), ("stop", "tenant:globex"), ("stop", "tool:put", "--all-tenants"), ("resume", "all")):
        ran = operated.run(*words, "--json")
        assert (ran.code, ran.data["code"]) == (4, "scope_missing"), ran
        assert '"ops.stop.all"' in ran.data["hint"]
    operated.rewrite(WITH_STOP, WITH_ALL)

    stopped = operated.run("stop", "all", "--json")

    assert (stopped.code, stopped.data["schema"], stopped.data["scope"]["kind"]) == (0, "stop/1", "all")
    assert put(operated)[1] == "stopped"


def test_without_a_scope_of_its_own_nobody_stops_anything(project: Project) -> None:
    ran = project.run("stop", "tenant", "--json")

    assert (ran.code, ran.data["code"]) == (4, "scope_missing")
    assert '"ops.stop"' in ran.data["hint"]
    assert put(project)[1] == "succeeded"


def test_what_the_deployment_stopped_its_tenant_does_not_lift(operated: Project) -> None:
    operated.rewrite(WITH_STOP, WITH_ALL)
    operated.rewrite('tenant = "acme"\nscopes = ' + WITH_ALL, 'tenant = "operators"\nscopes = ' + WITH_ALL)
    assert operated.run("stop", "tenant:acme").code == 0
    operated.rewrite('tenant = "operators"\nscopes = ' + WITH_ALL, 'tenant = "acme"\nscopes = ' + WITH_STOP)

    ran = operated.run("resume", "tenant", "--json")

    assert (ran.code, ran.data["code"]) == (4, "stopped_with_more_leave")
    assert put(operated)[1] == "stopped"
    (seen,) = operated.run("stop", "--list", "--jsonl").lines
    assert (seen["stopped_by"], seen["may_lift"], seen["lifted_with"]) == (None, False, "ops.stop.all")


@pytest.mark.parametrize(
    "words",
    [
        ("stop",),
        ("stop", "everything"),
        ("stop", "upstream:x"),
        ("stop", "run:r1", "--all-tenants"),
        ("stop", "tenant", "--list"),
        ("stop", "--list", "--reason", "x"),
        ("stop", "tenant", "--reason", "x" * 501),
        ("resume",),
        ("resume", "tool:"),
    ],
)
def test_wrong_usage_stops_and_lifts_nothing(operated: Project, words: tuple[str, ...]) -> None:
    ran = operated.run(*words)

    assert ran.code == 2, ran
    assert "next:" in ran.err
    assert operated.run("stop", "--list", "--json").data["stops"] == []


def test_what_is_not_stopped_cannot_be_resumed(operated: Project) -> None:
    ran = operated.run("resume", "tool:put", "--json")

    assert (ran.code, ran.data["code"]) == (1, "not_found")
    assert ran.data["hint"] == "placet stop --list shows what is."


@pytest.mark.parametrize("words", [("tool:hang", "--json"), ("tenant",)])
def test_a_stop_lists_what_goes_on(operated: Project, words: tuple[str, ...]) -> None:
    running = operated.start("call", "--tool", "hang", "--run", "r5")
    try:
        operated.wait_for("hanging")
        stopped = operated.run("stop", *words)
    finally:
        running.kill()
        running.communicate(timeout=60)

    if len(words) == 1:
        assert "hang  run r5  tenant acme  for " in stopped.out
        return
    (one,) = stopped.data["running"]
    assert (stopped.data["running_count"], one["tenant"], one["tool"], one["run_id"]) == (1, "acme", "hang", "r5")
    assert one["age_seconds"] >= 0

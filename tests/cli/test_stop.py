"""`placet stop` and `placet resume`: what an operator types, and what it does to calls."""

from __future__ import annotations

import json
import time

import pytest

from tests.cli.conftest import PATIENCE_SECONDS, SCOPES, Project
from tests.processes import is_gone

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


def test_a_second_stop_says_that_its_reason_was_not_taken(operated: Project) -> None:
    first = operated.run("stop", "tenant", "--reason", "it charges twice")
    same = operated.run("stop", "tenant", "--reason", "it charges twice")
    other = operated.run("stop", "tenant", "--reason", "audit")
    silent = operated.run("stop", "tenant")
    (kept,) = operated.run("stop", "--list", "--jsonl").lines

    assert [ran.code for ran in (first, same, other, silent)] == [0, 0, 0, 0]
    assert ["stopped already" in ran.err for ran in (first, same, other, silent)] == [False, False, True, False]
    assert "the reason was not changed" in other.err
    assert kept["reason"] == "it charges twice"


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


def test_a_tool_that_is_not_listed_is_stopped_only_if_that_is_meant(operated: Project) -> None:
    """A stop of a name with a typing error halts nothing, and whoever typed it would believe that it does."""
    for words in (("stop", "tool:putt"), ("stop", "tool:Put"), ("stop", "tool:putt", "--json")):
        refused = operated.run(*words)
        assert refused.code == 2, (words, refused)
        assert "--unknown-tool" in refused.err + refused.out and "'put'" in refused.err + refused.out, words
    assert operated.run("stop", "--list", "--json").data["stops"] == []

    meant = operated.run("stop", "tool:of_another_service", "--unknown-tool")

    assert (meant.code, meant.out.splitlines()[0]) == (0, "stopped  tool:of_another_service")
    assert "not looked at" in meant.err and "'of_another_service'" in meant.err
    assert put(operated)[1] == "succeeded"
    assert operated.run("resume", "tool:of_another_service").code == 0


@pytest.mark.parametrize("broken", ["raise RuntimeError('secret words')\n", None])
def test_where_the_tools_cannot_be_looked_at_a_stop_goes_through_and_says_so(
    operated: Project, broken: str | None
) -> None:
    """Whoever halts something must not first mend a module."""
    if broken is None:
        operated.rewrite('tools = "tools:TOOLS"\n', "")
    else:
        (operated.folder / "tools.py").write_text(broken)

    stopped = operated.run("stop", "tool:put")

    assert stopped.code == 0, stopped
    assert "whether there is a tool 'put'" in stopped.err
    assert "secret" not in stopped.err + stopped.out


IMPORTED = "from pathlib import Path\nPath(__file__).with_name('imported').touch()\n"
HANGS = "import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGINT])\nsignal.pause()\n"


def test_a_tool_that_is_meant_is_stopped_without_a_look_at_the_project(operated: Project) -> None:
    (operated.folder / "tools.py").write_text(IMPORTED + HANGS)

    stopped = operated.run("stop", "tool:put", "--unknown-tool")

    assert (stopped.code, stopped.out.splitlines()[0]) == (0, "stopped  tool:put")
    assert not (operated.folder / "imported").exists()


@pytest.mark.parametrize(
    "module",
    [
        HANGS,
        "import subprocess, sys\n"
        f"left = subprocess.Popen([sys.executable, '-c', {HANGS!r}])\n"
        "Path(__file__).with_name('left').write_text(str(left.pid))\nleft.wait()\n",
        "import os\nos._exit(0)\n",
        "import os\nos.write(1, b'[]')\nos._exit(0)\n",
        "import threading\nTOOLS = 7\nthreading.Thread(target=threading.Event().wait).start()\n",
    ],
    ids=["hangs", "waits_for_one_that_hangs", "ends_the_process", "speaks_for_us", "leaves_a_thread"],
)
def test_a_stop_waits_for_no_module(operated: Project, module: str) -> None:
    (operated.folder / "tools.py").write_text(IMPORTED + module)

    stopped = operated.run("stop", "tool:put", "--json")

    assert (operated.folder / "imported").exists()
    assert (stopped.code, stopped.data["scope"]["name"]) == (0, "put"), stopped
    assert "whether there is a tool 'put'" in stopped.err
    assert [line["scope"]["name"] for line in operated.run("stop", "--list", "--jsonl").lines] == ["put"]
    left = operated.folder / "left"
    assert not left.exists() or ends(int(left.read_text()))


def ends(process: int) -> bool:
    """Whether it is gone, or waits for nothing but to be buried."""
    end = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < end:
        if is_gone(process):
            return True
    return False


def test_what_a_module_says_and_leaves_running_keeps_no_stop_from_knowing_its_tools(operated: Project) -> None:
    module = operated.folder / "tools.py"
    module.write_text(
        "import os, threading\nprint('[]')\nos.write(1, b'[]')\n"
        "threading.Thread(target=threading.Event().wait).start()\n" + module.read_text()
    )

    assert operated.run("stop", "tool:putt").code == 2
    stopped = operated.run("stop", "tool:put")
    assert (stopped.code, stopped.out, "whether" in stopped.err) == (0, "stopped  tool:put\nstill running  0\n", False)

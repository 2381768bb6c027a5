"""SIGTERM to a command at work: it begins nothing more, lets what runs end within its limit, and leaves the rest."""

from __future__ import annotations

import json
import signal
from typing import Any

import pytest

from tests.cli.conftest import PATIENCE_SECONDS, SLOW, Process, Project

MORE = '''

import time


@write("slow_thread", isolation="thread")
def slow_thread(text: str) -> str:
    """The same where nobody can stop it."""
    (HERE / "begun").touch()
    while not (HERE / "go").exists():
        time.sleep(0.01)
    return text


@write("slow_process", isolation="process")
def slow_process(text: str) -> str:
    """The same in a process of its own."""
    (HERE / "begun").touch()
    while not (HERE / "go").exists():
        time.sleep(0.01)
    return text


TOOLS += [slow, slow_thread, slow_process]
'''
KINDS = ["slow", "slow_thread", "slow_process"]


@pytest.fixture
def served(project: Project) -> Project:
    with (project.folder / "tools.py").open("a") as file:
        file.write(SLOW + MORE)
    return project


def at_work(project: Project, *words: str) -> Process:
    process = project.start("call", *words, "--json")
    project.wait_for("begun")
    return process


def left(process: Process) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=PATIENCE_SECONDS)
    return process.returncode, out.decode(), err.decode()


def states(project: Project) -> list[str]:
    found: Any = project.run("effects", "list", "--json").data["effects"]
    return [effect["state"] for effect in found]


@pytest.mark.case("G07")
@pytest.mark.parametrize("tool", KINDS)
def test_what_ends_within_the_limit_is_told_as_ever(served: Project, tool: str) -> None:
    process = at_work(served, "--tool", tool, "--args", '{"text": "x"}', "--drain-seconds", "50")

    process.send_signal(signal.SIGTERM)
    (served.folder / "go").touch()
    code, out, _ = left(process)

    assert (code, json.loads(out)["status"], json.loads(out)["result"]) == (0, "succeeded", "x")
    assert states(served) == ["committed"]


@pytest.mark.case("G07")
@pytest.mark.parametrize("tool", KINDS)
def test_what_does_not_end_in_time_is_unknown_to_the_caller_and_dispatched_in_the_ledger(
    served: Project, tool: str
) -> None:
    process = at_work(served, "--tool", tool, "--args", '{"text": "x"}', "--run", "r7", "--drain-seconds", "0.2")

    process.send_signal(signal.SIGTERM)
    code, out, err = left(process)

    assert (code, out) == (7, "")
    assert "the outcome may be unknown" in err and "run r7" in err and "--call-id c-" in err
    assert states(served) == ["dispatched"]
    words = [line["kind"] for line in served.run("audit", "tail", "--jsonl").lines]
    assert words == ["started"]


def test_of_a_file_nothing_more_is_begun(served: Project) -> None:
    lines = [{"call_id": f"c{n}", "tool": "slow", "arguments": {"text": str(n)}} for n in (1, 2, 3)]
    (served.folder / "calls.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    process = at_work(served, "--file", "calls.jsonl", "--run", "r1", "--drain-seconds", "50")

    process.send_signal(signal.SIGTERM)
    told = [line["call_id"] for line in _until_draining(served)]
    code, out, _ = left(process)

    outcomes = [(each["call_id"], each["code"]) for each in json.loads(out)["outcomes"]]
    assert outcomes == [("c1", "succeeded"), ("c2", "draining"), ("c3", "draining")]
    assert (code, states(served), told) == (1, ["committed"], ["c1"])


def _until_draining(project: Project) -> list[dict[str, Any]]:
    """The signal needs a moment to be heard; a look at the audit by another process takes longer."""
    lines: list[dict[str, Any]] = project.run("audit", "tail", "--jsonl").lines
    (project.folder / "go").touch()
    return [line for line in lines if line["kind"] == "started"]


def test_a_second_signal_kills_at_once(served: Project) -> None:
    process = at_work(served, "--tool", "slow", "--args", '{"text": "x"}', "--drain-seconds", "500")

    process.send_signal(signal.SIGTERM)
    served.run("version")
    process.send_signal(signal.SIGTERM)
    code, out, _ = left(process)

    assert (code, out) == (-signal.SIGTERM, "")
    assert states(served) == ["dispatched"]


@pytest.mark.parametrize("seconds", ["0", "-1", "nan", "inf"])
def test_a_limit_that_is_none_is_wrong_usage(project: Project, seconds: str) -> None:
    ran = project.run("call", "--tool", "look", "--drain-seconds", seconds)

    assert (ran.code, "--drain-seconds" in ran.err) == (2, True)

"""`placet runs`: a person looks how far runs have come; names are shown and never obeyed."""

from __future__ import annotations

import json

from tests.cli.conftest import SCOPES, Project
from tests.cli.test_completion import suggested

NAMES = ["r1", "r2", "r \x1b]0;x\x07\u202e"]
SECRET = "SECRET-ARGUMENT"


def begun(project: Project) -> None:
    """A run with something unknown, one that waits, and one whose name is hostile."""
    assert project.call("vague", json.dumps({"name": SECRET}), "--run", NAMES[0]).code == 7
    project.asked(arguments=json.dumps({"text": SECRET}), run=NAMES[1])
    assert project.call("look", json.dumps({"word": SECRET}), "--run", NAMES[2]).code == 0


def test_runs_are_listed_with_what_is_left_open_and_shown_with_their_calls(project: Project) -> None:
    begun(project)

    listed = project.run("runs", "list", "--json").data
    assert (listed["schema"], [run["run_id"] for run in listed["runs"]]) == ("runs/1", NAMES[::-1])
    assert [run["left_open"] for run in listed["runs"]] == [[], ["waiting"], ["unknown"]]
    lines = project.run("runs", "list", "--left-open", "waiting", "--jsonl").lines
    assert [(line["schema"], line["run_id"]) for line in lines] == [("run/1", "r2")]
    table = project.run("runs", "list")
    assert table.out.splitlines()[0].split()[:4] == ["steps", "left", "open", "status"]
    assert "1 of 200  unknown    open    -        agent" in table.out
    assert project.run("runs", "list", "--mine").err == "There is no such run that you may see.\n"

    shown = project.run("runs", "show", "r1", "--json").data
    assert (shown["schema"], shown["steps"], shown["effects"]["unknown"]) == ("run_details/1", 1, 1)
    ((call,), more) = shown["calls"], shown["has_more_calls"]
    assert (call["tool"], call["state"], more) == ("vague", "unknown", False)
    text = project.run("runs", "show", "r1")
    assert "1 of 200" in text.out and "1 unknown" in text.out
    assert "placet effects list --state unknown" in text.err
    waiting = project.run("runs", "show", "r2")
    assert f"placet approvals show {waiting.out.split('waiting')[-1].split()[0]}" in waiting.err
    everything = [table, text, waiting, project.run("runs", "show", NAMES[2])]
    assert everything[-1].code == 0 and "no row: a read" in everything[-1].out
    for ran in everything:
        assert SECRET not in ran.out + ran.err
        assert not set("\x1b\x07\u202e") & set(ran.out + ran.err)


def test_what_is_not_there_and_what_is_not_told_end_with_a_next_step(project: Project) -> None:
    begun(project)
    for name in ("r9", "", "r1 "):
        absent = project.run("runs", "show", name)
        assert (absent.code, absent.out) == (1, "")
        assert "There is no such run in your tenant." in absent.err and "placet runs list" in absent.err
    wrong = project.run("runs", "list", "--left-open", "done")
    assert (wrong.code, "unknown, in_progress, waiting" in wrong.err) == (2, True)

    project.rewrite(json.dumps(SCOPES), '["approvals.decide"]')
    shown = project.run("runs", "show", "r1")
    assert shown.code == 0 and "effects" not in shown.out and "audit.read, effects.read" in shown.err
    refused = project.run("runs", "list", "--left-open", "unknown")
    assert refused.code == 4 and "effects.read" in refused.err
    assert project.run("runs", "list", "--left-open", "waiting", "--json").data["runs"][0]["run_id"] == "r2"


def test_the_shell_completes_verbs_and_what_is_left_open(project: Project) -> None:
    assert suggested(project, "runs", "") == ["list", "show", "pause", "resume", "cancel"]
    assert suggested(project, "runs", "list", "--left-open", "") == ["unknown", "in_progress", "waiting"]


def test_a_run_is_paused_resumed_and_cancelled_with_a_reason(project: Project) -> None:
    begun(project)
    project.rewrite(json.dumps(SCOPES), json.dumps([*SCOPES, "ops.stop"]))

    paused = project.run("runs", "pause", "r2", "--reason", "look \x1b[31mfirst", "--json")
    assert (paused.code, paused.data["schema"], paused.data["status"]) == (0, "run_report/1", "paused")
    shown = project.run("runs", "show", "r2")
    assert "paused" in shown.out and "look" in shown.out
    assert "\x1b" not in shown.out
    assert project.run("runs", "show", "r2", "--json").data["reason"] == "look \x1b[31mfirst"
    assert "open" in project.run("runs", "resume", "r2").out
    cancelled = project.run("runs", "cancel", "r2")
    assert (cancelled.code, "cancelled" in cancelled.out, "withdrawn" in cancelled.out) == (0, True, True)
    again = project.run("runs", "cancel", "r2")
    assert "cancelled, as it was" in again.out
    assert project.run("runs", "list", "--left-open", "waiting").err == "There is no such run that you may see.\n"


def test_a_run_that_may_not_be_changed_ends_with_a_next_step(project: Project) -> None:
    begun(project)

    absent = project.run("runs", "cancel", "r9")
    assert (absent.code, "placet runs list" in absent.err) == (1, True)
    project.rewrite(json.dumps(SCOPES), '["approvals.decide"]')
    long = project.run("runs", "cancel", "r1", "--reason", "x" * 501)
    assert (long.code, "at most 500 characters" in long.err) == (2, True)
    refused = project.run("runs", "cancel", "r1")
    assert refused.code != 0
    assert "ops.stop" in refused.err


def test_runs_are_listed_by_their_status(project: Project) -> None:
    begun(project)
    project.rewrite('"approvals.decide", ', '"approvals.decide", "ops.stop", ')
    assert project.run("runs", "cancel", "r1").code == 0

    def listed(*words: str) -> list[str]:
        return [run["run_id"] for run in project.run("runs", "list", "--json", *words).data["runs"]]

    assert (listed("--status", "cancelled"), listed("--status", "paused")) == (["r1"], [])
    assert listed("--status", "open") == NAMES[:0:-1]
    assert listed("--status", "open", "--left-open", "waiting") == ["r2"]
    assert listed("--status", "open", "--limit", "1") == NAMES[2:]
    wrong = project.run("runs", "list", "--status", "gone")
    assert (wrong.code, "open, paused, done, failed, cancelled" in wrong.err) == (2, True)

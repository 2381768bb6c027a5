"""`placet purge` and `placet holds`: what an operator sees of what is forgotten and what is held."""

from datetime import UTC, datetime, timedelta

import apsw
import pytest

import placet
from placet.testing import FakeClock
from tests.cli.conftest import ME, Project

AGENT = placet.Principal.agent("agent", tenant="acme", roles=("admin",), scopes=("things.write",))
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)
OTHER_TOOL = "other"


@placet.tool(effect="write", risk="medium", permission="things.write", name="put")
async def put(text: str) -> str:
    return "put"


@placet.tool(effect="write", risk="medium", permission="things.write", name=OTHER_TOOL)
async def other(text: str) -> str:
    return "other"


@pytest.fixture
def old(project: Project) -> Project:
    """Three operations of years ago, one of them of a tool that the project does not register."""
    project.rewrite('"effects.read"', '"effects.read", "ops.purge", "ops.hold"')
    clock = FakeClock(LONG_AGO)
    with placet.open(tools=[put, other], store=project.folder / "placet.db", clock=clock) as gate:
        for name, tool in (("c1", "put"), ("c2", "put"), ("c3", OTHER_TOOL)):
            call = {"call_id": name, "tool": tool, "arguments": {"text": "hello"}}
            assert gate.submit(call, principal=AGENT, run="r1").code == "succeeded"
            clock.advance(1.0)
    return project


def test_what_is_old_is_counted_and_nothing_is_changed(old: Project) -> None:
    before = old.run("effects", "list", "--json").data

    ran = old.run("purge", "--older-than", "90d", "--audit-older-than", "52w")

    assert ran.code == 0, ran
    lines = [line.split() for line in ran.out.splitlines()]
    assert lines[0] == ["kind", "tenant", "tool", "older", "than", "rows", "oldest"]
    assert lines[1] == ["operations", "acme", "other", "90d", "1", "2020-01-01T00:00:02Z"]
    assert lines[2] == ["operations", "acme", "put", "90d", "2", "2020-01-01T00:00:00Z"]
    assert [line[:1] + line[3:5] for line in lines[3:]] == [["runs", "90d", "1"], ["events", "52w", "6"]]
    assert "1 operations are of tools not registered here; --unregistered forgets them too" in ran.err
    assert "Nothing was changed. To forget it, add --yes." in ran.err
    assert old.run("effects", "list", "--json").data == before


def test_what_is_old_is_forgotten_with_yes_and_then_nothing_is(old: Project) -> None:
    ran = old.run("purge", "--older-than", "90d", "--yes", "--json")

    purged = {"operations": 2, "runs": 1, "approvals": 0, "tokens": 0, "api_keys": 0, "events": 0}
    assert (ran.code, ran.data) == (0, {"schema": "purge/1", "purged": purged, "broken": 0, "is_audit_waiting": False})
    again = old.run("purge", "--older-than", "90d", "--yes", "--unregistered")
    assert again.out.split() == [
        "operations",
        "1",
        "runs",
        "0",
        "approvals",
        "0",
        "tokens",
        "0",
        "api_keys",
        "0",
        "events",
        "0",
    ]
    assert old.run("purge", "--older-than", "90d").err.startswith("Nothing is old enough.")
    shown = old.run("effects", "list", "--json").data["effects"]
    assert [effect["state"] for effect in shown] == ["committed"] * 3, "they are still known"
    told = [event for event in old.run("audit", "tail", "--json").data["audit"] if event["kind"] == "records_purged"]
    assert {event["subject"] for event in told} == {ME}


def test_a_purged_operation_is_answered_as_done(old: Project) -> None:
    assert old.run("purge", "--older-than", "90d", "--yes").code == 0

    ran = old.call("put", '{"text": "hello"}', "--run", "r1", "--call-id", "c1")

    assert (ran.code, ran.data["status"], ran.data["result_unavailable"]) == (0, "replayed", "record_purged")


def test_an_audit_that_was_cut_begins_with_a_tombstone_and_verifies(old: Project) -> None:
    assert old.run("purge", "--audit-older-than", "365d", "--yes", "--json").data["purged"]["events"] == 5
    ran = old.run("audit", "verify")
    assert ran.code == 0, ran
    (line,) = [line for line in ran.out.splitlines() if line.startswith("begins at")]
    assert line.split()[2] == "6" and f"cut by {ME} at " in line

    report = old.run("audit", "verify", "--json").data
    assert report["holds"] and report["passed_over"] == 0
    (cut,) = report["cuts"]
    assert (cut["first_kept"], cut["removed"], cut["cut_by"]) == (6, 5, ME)

    exported = old.run("audit", "export", "--out", "audit.jsonl")
    assert exported.code == 0, exported
    checked = old.run("audit", "verify", "--export", "audit.jsonl")
    assert checked.code == 0 and "begins at  6" in checked.out
    assert old.run("audit", "verify", "--export", "audit.jsonl", "--json").data["cuts"] == [cut]


def test_events_that_cannot_be_chained_keep_the_audit_whole_and_it_is_said(old: Project) -> None:
    connection = apsw.Connection(str(old.folder / "placet.db"))
    connection.execute(
        "INSERT INTO unchained_events (body, key_id, mac) VALUES ('{}', 'k', 'm'); "
        "CREATE TRIGGER jammed BEFORE UPDATE ON unchained_events BEGIN SELECT RAISE(ABORT, 'jammed'); END"
    )
    connection.close()

    ran = old.run("purge", "--audit-older-than", "365d", "--yes")

    assert (ran.code, ran.out.split()[-2:]) == (0, ["events", "0"])
    assert "no event was forgotten, because others wait to be chained" in ran.err
    told = old.run("purge", "--audit-older-than", "365d", "--yes", "--json").data
    assert (told["is_audit_waiting"], told["purged"]["events"]) == (True, 0)


def test_the_project_file_says_how_long_things_are_kept(old: Project) -> None:
    assert old.run("purge").code == 2
    old.rewrite("[agent]", '[retention]\noperations = "5200w"\naudit = "365d"\n\n[agent]')

    assert [kind["kind"] for kind in old.run("purge", "--json").data["old"]] == ["events"]
    assert {kind["kind"] for kind in old.run("purge", "--older-than", "30d", "--json").data["old"]} == {
        "operations", "runs", "events"
    }  # fmt: skip
    shown = old.run("config", "show", "--json").data["settings"]["retention"]
    assert (shown["value"], shown["origin"]) == ("operations 5200w, audit 365d", "file")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--older-than", "90"), "--older-than is an age of one day or more, such as 90d or 12w"),
        (("--older-than", "23h"), "--older-than is an age of one day or more"),
        (("--older-than", "0d"), "--older-than is an age of one day or more"),
        (("--audit-older-than", "-1d"), "--audit-older-than is an age of one day or more"),
        ((), "Say how old: --older-than 90d"),
    ],
)
def test_what_is_no_age_is_a_usage_fault(old: Project, words: tuple[str, ...], said: str) -> None:
    ran = old.run("purge", *words, "--yes")

    assert ran.code == 2 and said in ran.err
    assert all(effect["state"] == "committed" for effect in old.run("effects", "list", "--json").data["effects"])


@pytest.mark.parametrize("said", ['operations = "23h"', "operations = 90", 'audits = "90d"', 'audit = "soon"'])
def test_a_retention_that_means_nothing_is_refused(old: Project, said: str) -> None:
    old.rewrite("[agent]", f"[retention]\n{said}\n\n[agent]")

    ran = old.run("purge")

    assert ran.code == 2 and "retention" in ran.err


def test_without_its_scope_nothing_is_counted_forgotten_or_held(project: Project) -> None:
    for words in (
        ("purge", "--older-than", "90d"),
        ("purge", "--older-than", "90d", "--yes"),
        ("holds", "set", "all"),
        ("holds", "lift", "all"),
        ("holds", "list"),
    ):
        ran = project.run(*words)
        assert ran.code == 4, ran
        assert 'adds "ops.' in ran.err


def test_a_broken_project_leaves_its_operations_alone(old: Project) -> None:
    (old.folder / "tools.py").write_text("raise RuntimeError('hunter2')")

    ran = old.run("purge", "--older-than", "90d", "--yes", "--json")

    assert ran.code == 0 and ran.data["purged"]["operations"] == 0
    assert "could not be loaded, so what they did is left alone" in ran.err and "hunter2" not in ran.err


# ---------------------------------------------------------------- holds


def test_what_is_held_is_not_purged_until_it_is_lifted(old: Project) -> None:
    held = old.run("holds", "set", "tenant:acme")
    assert (held.code, held.out) == (0, "held  tenant:acme\n")
    assert old.run("holds", "set", "tenant:acme").out == "held already  tenant:acme\n"
    (hold,) = old.run("holds", "list", "--json").data["holds"]
    assert (hold["scope"], hold["held_by"]) == ("tenant:acme", ME)
    assert datetime.fromisoformat(hold["held_at"]) > datetime.now(UTC) - timedelta(hours=1)
    assert old.run("purge", "--older-than", "90d").err.startswith("Nothing is old enough.")
    assert old.run("purge", "--older-than", "90d", "--yes", "--json").data["purged"]["operations"] == 0

    assert old.run("holds", "lift", "tenant:acme").out == "lifted  tenant:acme\n"
    assert old.run("holds", "lift", "tenant:acme").code == 1
    assert old.run("holds", "list").err.startswith("Nothing is held.")
    assert old.run("purge", "--older-than", "90d", "--yes", "--json").data["purged"]["operations"] == 2


@pytest.mark.parametrize("scope", ["everything", "tenant:", "tool:put", "tenant"])
def test_what_is_no_scope_of_a_hold_is_a_usage_fault(old: Project, scope: str) -> None:
    ran = old.run("holds", "set", scope)

    assert ran.code == 2 and "A hold is of all, or of tenant:NAME" in ran.err


def test_holds_speak_json(old: Project) -> None:
    assert old.run("holds", "set", "all", "--json").data == {"schema": "hold/1", "scope": "all", "is_new": True}
    (line,) = old.run("holds", "list", "--jsonl").lines
    assert (line["schema"], line["scope"]) == ("hold/1", "all")

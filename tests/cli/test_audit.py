"""`placet audit`: the newest events, and whether nothing was altered."""

import json
import shutil

import apsw
import pytest

from tests.unguarded import unguarded

FACTS = {"writer", "sequence", "event_schema", "kind", "at", "tenant", "subject", "key_id", "fence", "model_suggested"}


def change(project, statement: str) -> None:
    connection = unguarded(apsw.Connection(str(project.folder / "placet.db")))
    connection.execute(statement)
    connection.close()


@pytest.fixture
def audited(waiting):
    """A project with four more chains."""
    for word in ("a", "b"):
        assert waiting.call("put", json.dumps({"text": word})).code == 0
    return waiting


def test_tail_is_a_document_lines_or_a_table(waiting) -> None:
    document = waiting.run("audit", "tail", "--json")
    lines = waiting.run("audit", "tail", "--jsonl", "-n", "1")
    table = waiting.run("audit", "tail", "-n", "2")

    assert (document.data["schema"], set(document.data)) == ("audit/1", {"schema", "audit"})
    assert [each["kind"] for each in document.data["audit"]] == ["started", "completed", "approval_asked"]
    assert all(set(each) >= FACTS for each in document.data["audit"])
    assert [each["schema"] for each in lines.lines] == ["audit-event/1"]
    assert lines.lines[0]["kind"] == "approval_asked"
    assert [line.split()[1] for line in table.out.splitlines()] == ["kind", "completed", "approval_asked"]


def test_tail_holds_no_argument(waiting) -> None:
    assert "hello" not in waiting.run("audit", "tail", "--json").out


def test_tail_shows_ones_own_tenant_only(waiting) -> None:
    text = (waiting.folder / "placet.toml").read_text()
    head, _, people = text.partition("[people.")
    (waiting.folder / "placet.toml").write_text(head + "[people." + people.replace("acme", "other"))

    assert waiting.run("audit", "tail", "--json").data["audit"] == []


def test_an_event_that_is_no_json_does_not_stop_the_tail(waiting) -> None:
    change(waiting, """UPDATE audit_events SET body = json_set(body, '$.at', 'x' || char(27)) WHERE sequence = 1""")

    ran = waiting.at_terminal("audit", "tail", NO_COLOR="1")
    assert ran.code == 0
    assert "unreadable" in ran.out
    assert "\x1b" not in ran.out


def test_verify_prints_counts_and_where_asked_the_heads(audited) -> None:
    text = audited.run("audit", "verify", "--heads")
    data = audited.run("audit", "verify", "--json").data

    assert text.code == 0
    assert "head" not in audited.run("audit", "verify").out
    assert text.out.startswith("audit     holds\n")
    assert set(data) == {"schema", "holds", "events", "writers", "unpaired", "cuts", "passed_over", "breaks", "heads"}
    assert (data["schema"], data["holds"], data["breaks"], data["unpaired"]) == ("audit-report/1", True, [], 0)
    assert data["writers"] == len(data["heads"]) == 3
    for writer, head in data["heads"].items():
        assert f"head  {writer}  {head['sequence']}  {head['link']}" in text.out
    assert "Keep the heads outside" in text.err


@pytest.mark.case("N03")
@pytest.mark.parametrize(
    ("statement", "problem"),
    [
        ("UPDATE audit_events SET body = replace(body, 'put', 'pat') WHERE sequence = 1", "event_altered"),
        ("DELETE FROM audit_events WHERE sequence = 1", "events_missing"),
        ("DELETE FROM audit_events WHERE sequence = (SELECT max(sequence) FROM audit_events)", "tail_missing"),
        ("UPDATE audit_heads SET sequence = sequence + 1", "head_altered"),
    ],
)
def test_a_changed_history_ends_with_9_and_says_where(audited, statement: str, problem: str) -> None:
    change(audited, statement)
    text = audited.run("audit", "verify")
    data = audited.run("audit", "verify", "--json")
    anchor = audited.run("audit", "verify", "--print-anchor")

    assert (text.code, data.code, anchor.code) == (9, 9, 9)
    assert text.out.startswith("audit     BROKEN\n")
    assert "does not hold" in text.err
    assert problem in {each["problem"] for each in data.data["breaks"]}
    assert data.data["holds"] is False
    assert f"  {problem}\n" in text.out
    assert "head  " not in text.out
    assert "anchor/1" not in anchor.out


@pytest.mark.case("N03")
def test_an_anchor_kept_outside_shows_a_history_that_was_rolled_back_whole(waiting) -> None:
    old = shutil.copytree(waiting.folder, waiting.folder.with_name("old"))
    assert waiting.call("put", '{"text": "x"}').code == 0
    anchor = waiting.run("audit", "verify", "--print-anchor")
    assert anchor.code == 0
    assert (anchor.data["schema"], set(anchor.data)) == ("anchor/1", {"schema", "at", "heads"})
    kept = waiting.folder.parent / "anchor.json"
    kept.write_text(anchor.out)
    assert waiting.run("audit", "verify", "--anchor", str(kept)).code == 0
    assert waiting.call("put", '{"text": "y"}').code == 0
    assert waiting.run("audit", "verify", "--anchor", str(kept)).code == 0

    for path in waiting.folder.glob("placet.db*"):
        path.unlink()
    for path in old.glob("placet.db*"):
        shutil.copy2(path, waiting.folder)
    assert waiting.run("audit", "verify").code == 0
    rolled_back = waiting.run("audit", "verify", "--anchor", str(kept), "--json")
    assert rolled_back.code == 9
    assert {each["problem"] for each in rolled_back.data["breaks"]} == {"history_missing"}


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{}",
        "[]",
        '{"schema": "anchor/1", "at": "x"}',
        '{"schema": "anchor/2", "at": "x", "heads": {}}',
        '{"schema": "anchor/1", "at": "x", "heads": {"w": {"sequence": "1", "link": "%s"}}}' % ("a" * 64),
        '{"schema": "anchor/1", "at": "x", "heads": {"w": {"sequence": 1, "link": "a"}}}',
        '{"schema": "anchor/1", "at": "x", "heads": {}, "heads": {}}',
    ],
)
def test_half_an_anchor_is_wrong_usage(waiting, content: str) -> None:
    (waiting.folder / "anchor.json").write_text(content)
    ran = waiting.run("audit", "verify", "--anchor", "anchor.json", "--json")

    assert (ran.code, ran.data["code"]) == (2, "usage")
    assert "--print-anchor" in ran.data["hint"]
    missing = waiting.run("audit", "verify", "--anchor", "missing.json", "--json")
    assert (missing.code, missing.data["message"]) == (2, "--anchor: the file cannot be read: missing.json.")


@pytest.mark.case("N03")
def test_what_is_broken_is_said_before_what_to_do(audited) -> None:
    change(audited, "UPDATE audit_heads SET sequence = sequence + 1")
    ran = audited.at_terminal("audit", "verify", NO_COLOR="1")

    assert ran.code == 9
    assert ran.out.index("head_altered") < ran.out.index("does not hold")

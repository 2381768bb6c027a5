"""`placet audit export` and `placet audit verify --export`: an audit that is checked away from its store."""

import json
import shutil
import stat
import subprocess

import apsw
import pytest

from tests.unguarded import unguarded

from .conftest import PATIENCE_SECONDS, PLACET, Project


@pytest.fixture
def audited(waiting) -> Project:
    """A project with a few chains, and events of two tenants."""
    assert waiting.call("put", '{"text": "SECRET-ARGUMENT"}').code == 0
    waiting.rewrite('subject = "agent"\ntenant = "acme"', 'subject = "agent"\ntenant = "other"')
    assert waiting.call("put", '{"text": "SECRET-OF-OTHERS"}').code == 0
    waiting.rewrite('subject = "agent"\ntenant = "other"', 'subject = "agent"\ntenant = "acme"')
    assert waiting.call("put", '{"text": "more"}').code == 0
    return waiting


def elsewhere(project: Project) -> Project:
    """A folder with nothing but the export and the key file."""
    folder = project.folder.with_name("elsewhere")
    folder.mkdir()
    shutil.copy2(project.folder / "placet.db.key", folder / "key")
    return Project(folder)


def test_an_export_is_a_private_new_file_that_holds_by_itself(audited) -> None:
    ran = audited.run("audit", "export", "--out", "audit.jsonl", "--json")
    file = audited.folder / "audit.jsonl"

    assert (ran.code, ran.data) == (
        0,
        {"schema": "audit-exported/1", "file": "audit.jsonl", "tenant": None, "events": 9},
    )
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    content = file.read_bytes()
    assert b"SECRET" not in content
    other = elsewhere(audited)
    shutil.copy2(file, other.folder / "audit.jsonl")
    checked = other.run("audit", "verify", "--export", "audit.jsonl", "--key", "key", "--json")
    assert (checked.code, checked.data["schema"]) == (0, "export-report/1")
    assert (checked.data["holds"], checked.data["events"], checked.data["complete_by"]) == (True, 9, "chains")
    assert sorted(each.name for each in other.folder.iterdir()) == ["audit.jsonl", "key"], "checking makes nothing"
    text = other.run("audit", "verify", "--export", "audit.jsonl", "--key", "key")
    assert text.out.startswith("export    holds\nof        the whole store\n")
    assert "rolled back" in text.err


def test_the_same_audit_gives_the_same_bytes_also_on_standard_output(audited) -> None:
    assert audited.run("audit", "export", "--out", "one.jsonl").code == 0
    child = subprocess.run(
        [*PLACET, "audit", "export"], cwd=audited.folder, capture_output=True, timeout=PATIENCE_SECONDS, check=True
    )
    assert child.stdout == (audited.folder / "one.jsonl").read_bytes()
    piped = subprocess.run(
        [*PLACET, "audit", "verify", "--export", "-"],
        cwd=audited.folder,
        input=child.stdout,
        capture_output=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert piped.returncode == 0


def test_a_tenants_export_holds_no_other_tenants_event_and_says_what_it_shows(audited) -> None:
    assert audited.run("audit", "export", "--tenant", "acme", "--out", "acme.jsonl").code == 0
    lines = [json.loads(line) for line in (audited.folder / "acme.jsonl").read_text().splitlines()]

    assert {each["event"]["tenant"] for each in lines if each["record"] == "event"} == {"acme"}
    assert "other" not in {value for each in lines if each["record"] == "others" for value in each.values()}
    checked = audited.run("audit", "verify", "--export", "acme.jsonl", "--json")
    assert (checked.data["tenant"], checked.data["events"], checked.data["others"]) == ("acme", 7, 2)
    assert checked.data["complete_by"] == "word_of_exporter"
    assert "the signed word of whoever exported it" in audited.run("audit", "verify", "--export", "acme.jsonl").err


@pytest.mark.case("N03")
def test_an_altered_export_ends_with_9_and_names_the_line(audited) -> None:
    assert audited.run("audit", "export", "--out", "audit.jsonl").code == 0
    file = audited.folder / "audit.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    index = next(number for number, line in enumerate(lines) if b'"put"' in line)
    lines[index] = lines[index].replace(b'"put"', b'"pat"')
    file.write_bytes(b"".join(lines))

    text = audited.run("audit", "verify", "--export", "audit.jsonl")
    data = audited.run("audit", "verify", "--export", "audit.jsonl", "--json")

    assert (text.code, data.code) == (9, 9)
    assert f"line {index + 1}  event_altered" in text.out
    assert "does not hold" in text.err
    assert data.data["faults"][0]["line"] == index + 1


def test_nothing_is_overwritten_and_nothing_half_written_stays(audited) -> None:
    (audited.folder / "kept").write_text("mine")
    (audited.folder / "link").symlink_to("nowhere")
    for name in ("kept", "link", "placet.db"):
        ran = audited.run("audit", "export", "--out", name, "--json")
        assert (ran.code, ran.data["code"]) == (2, "exists")
    assert (audited.folder / "kept").read_text() == "mine"
    assert audited.run("audit", "export", "--out", "no/where").code == 2

    connection = unguarded(apsw.Connection(str(audited.folder / "placet.db")))
    connection.execute("UPDATE audit_events SET body = replace(body, 'put', 'pat') WHERE tenant = 'other'")
    connection.close()
    broken = audited.run("audit", "export", "--tenant", "acme", "--out", "part.jsonl", "--json")
    assert (broken.code, broken.data["code"]) == (9, "audit_broken")
    assert not list(audited.folder.glob("*part.jsonl*"))
    assert audited.run("audit", "export", "--out", "evidence.jsonl").code == 0
    assert audited.run("audit", "verify", "--export", "evidence.jsonl").code == 9


def test_an_anchor_holds_for_an_export_too(audited) -> None:
    anchor = audited.run("audit", "verify", "--print-anchor")
    (audited.folder / "anchor.json").write_text(anchor.out)
    assert audited.run("audit", "export", "--out", "new.jsonl").code == 0
    words = ("audit", "verify", "--anchor", "anchor.json", "--export")
    assert audited.run(*words, "new.jsonl").code == 0
    connection = unguarded(apsw.Connection(str(audited.folder / "placet.db")))
    connection.execute("DELETE FROM audit_events")
    connection.execute("DELETE FROM audit_heads")
    connection.close()
    assert audited.run("audit", "export", "--out", "emptied.jsonl").code == 0
    assert audited.run("audit", "verify", "--export", "emptied.jsonl").code == 0
    emptied = audited.run(*words, "emptied.jsonl", "--json")
    assert (emptied.code, {each["problem"] for each in emptied.data["faults"]}) == (9, {"history_missing"})


@pytest.mark.parametrize("form", [(), ("--quiet",), ("--json",)])
def test_an_export_of_a_tenant_of_whom_there_is_nothing_is_warned_of(audited, form) -> None:
    """A true answer, and as often a slip of the finger: it is written, it holds, and it is said."""
    ran = audited.run("audit", "export", "--tenant", "acne", "--out", "e.jsonl", *form)

    assert ran.code == 0
    assert "no event of a tenant acne" in ran.err
    if form == ("--json",):
        assert ran.data["events"] == 0
    assert audited.run("audit", "verify", "--export", "e.jsonl").code == 0
    assert "no event" not in audited.run("audit", "export", "--tenant", "acme", "--out", "acme.jsonl", *form).err


@pytest.mark.case("N03")
def test_a_file_whose_manifest_names_no_tenant_is_no_export_and_no_failure(audited) -> None:
    tenant = "[" * 300 + "]" * 300
    manifest = '{"events":0,"heads":0,"record":"manifest","schema":"audit-export/1","tenant":' + tenant + "}\n"
    (audited.folder / "bad.jsonl").write_text(manifest)

    ran = audited.run("audit", "verify", "--export", "bad.jsonl")

    assert (ran.code, "not_an_export" in ran.out, "unexpected" in ran.err) == (9, True, False)


def test_with_an_older_copy_of_the_key_file_it_is_told_that_a_key_is_missing(audited) -> None:
    shutil.copy2(audited.folder / "placet.db.key", audited.folder / "older.key")
    assert audited.run("keys", "rotate").code == 0
    assert audited.run("audit", "export", "--out", "e.jsonl").code == 0
    ran = audited.run("audit", "verify", "--export", "e.jsonl", "--key", "older.key")
    assert ran.code == 9
    assert "key_unknown" in ran.out
    assert "event_altered" not in ran.out
    assert "older copy" in ran.err


def test_wrong_usage_is_told(audited) -> None:
    (audited.folder / "wrong.key").write_text("{}")
    (audited.folder / "wrong.key").chmod(0o600)
    assert audited.run("audit", "export", "--out", "e.jsonl").code == 0
    for words, code in [
        (("export", "--json"), 2),
        (("verify", "--export", "none.jsonl"), 2),
        (("verify", "--export", "."), 2),
        (("verify", "--export", "e.jsonl", "--heads"), 2),
        (("verify", "--export", "e.jsonl", "--print-anchor"), 2),
        (("verify", "--export", "placet.toml"), 2),
        (("verify", "--export", "placet.db"), 2),
        (("verify", "--export", "e.jsonl", "--key", "none.key"), 2),
        (("verify", "--export", "e.jsonl", "--key", "wrong.key"), 2),
    ]:
        ran = audited.run("audit", *words)
        assert ran.code == code, (words, ran)
        assert "Traceback" not in ran.err
    at_terminal = audited.at_terminal("audit", "export")
    assert (at_terminal.code, "--out FILE" in at_terminal.out) == (2, True)


def test_an_export_is_still_checked_after_its_key_was_rotated_and_retired(audited) -> None:
    assert audited.run("audit", "export", "--out", "before.jsonl").code == 0
    old = audited.run("keys", "rotate", "--json").data["previous"]
    assert audited.run("audit", "export", "--out", "between.jsonl").code == 0
    retired = audited.run("keys", "retire", old, "--losing", "approvals", "--losing", "results")
    assert retired.code == 0, retired
    assert audited.run("audit", "export", "--out", "after.jsonl").code == 0
    for name in ("before", "between", "after"):
        assert audited.run("audit", "verify", "--export", f"{name}.jsonl").code == 0


@pytest.mark.req("B137")
def test_events_of_an_operation_are_found_by_its_key_over_every_rotation(audited) -> None:
    found = audited.run("effects", "list", "--json").data["effects"]
    key = next(each["operation_key"] for each in found if each["tool"] == "put")
    assert audited.run("keys", "rotate").code == 0
    again = audited.run("call", "--tool", "put", "--args", '{"text": "later"}', "--run", "r9", "--json")
    assert again.code == 0
    listed = audited.run("audit", "tail", "--operation", key, "--json").data["audit"]
    assert [each["kind"] for each in listed] == ["started", "completed"]
    assert len({each["operation"] for each in listed}) == 1

    assert audited.approved(audited.approval_id).code == 0
    assert audited.call("ask", '{"text": "hello"}', "--run", "r1").code == 0
    key = next(
        each["operation_key"]
        for each in audited.run("effects", "list", "--json").data["effects"]
        if each["tool"] == "ask"
    )
    listed = audited.run("audit", "tail", "--operation", key, "--json").data["audit"]
    assert {"approval_asked", "approval_approved", "approval_spent"} <= {each["kind"] for each in listed}
    assert len({each["operation"] for each in listed}) == 2, "two keys, two fingerprints, one operation"
    assert [each["at"] for each in listed] == sorted(each["at"] for each in listed)
    newest = audited.run("audit", "tail", "--operation", key, "-n", "1", "--json").data["audit"]
    assert newest == listed[-1:]
    assert audited.run("audit", "tail", "--operation", "no such key", "--json").data["audit"] == []


def test_a_file_that_is_no_export_is_wrong_usage_and_a_damaged_export_stays_broken(audited) -> None:
    assert audited.run("audit", "export", "--out", "whole.jsonl").code == 0
    lines = (audited.folder / "whole.jsonl").read_bytes().splitlines(keepends=True)
    damaged = {
        "headless.jsonl": lines[1:],
        "half-a-first-line.jsonl": [lines[0][len(lines[0]) // 2 :], *lines[1:]],
        "other-schema.jsonl": [lines[0].replace(b"/1", b"/9"), *lines[1:]],
        "only-a-broken-manifest.jsonl": [lines[0][:-3]],
        "cut.jsonl": lines[:3],
        "empty.jsonl": [],
    }
    for name, content in damaged.items():
        (audited.folder / name).write_bytes(b"".join(content))
        ran = audited.run("audit", "verify", "--export", name, "--json")
        assert (ran.code, ran.data["schema"]) == (9, "export-report/1"), name

    (audited.folder / "list.json").write_text('{"a": 1}\n{"b": 2}\n')
    for name in ("placet.toml", "list.json"):
        other = audited.run("audit", "verify", "--export", name, "--json")
        assert (other.code, other.data["code"]) == (2, "usage")
        assert other.data["message"] == f"--export: this is not an export: {name}."
        assert other.data["hint"] == "Write one: placet audit export --out FILE"


def test_no_event_of_an_operation_is_told_with_where_the_keys_are(audited) -> None:
    ran = audited.run("audit", "tail", "--operation", "put")

    assert (ran.code, ran.out) == (0, "")
    assert ran.err == "No event of this operation is on record. next: placet effects list\n"

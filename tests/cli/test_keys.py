"""`placet keys`: which keys there are, what needs them, and changing them; never their material."""

import json
import os
import shutil
import signal
import subprocess

import apsw
import pytest

from tests.unguarded import unguarded

from .conftest import ME, PATIENCE_SECONDS, PLACET


def keys_of(project) -> dict[str, dict]:
    return {each["key_id"]: each for each in project.run("keys", "list", "--json").data["keys"]}


def masters_of(project) -> list[str]:
    return list(json.loads((project.folder / "placet.db.key").read_text())["keys"].values())


def events_of(project, kind: str) -> list[dict]:
    connection = apsw.Connection(str(project.folder / "placet.db"))
    try:
        rows = connection.execute("SELECT body FROM audit_events WHERE json_extract(body, '$.kind') = ?", (kind,))
        return [json.loads(body) for (body,) in rows]
    finally:
        connection.close()


def test_list_shows_what_needs_each_key_and_never_a_key(waiting) -> None:
    assert waiting.call("put", '{"text": "x"}').code == 0
    [(old, first)] = keys_of(waiting).items()
    assert (first["state"], first["retired_at"]) == ("current", None)
    assert first["created_at"] is not None
    assert first["needed_by"] == {
        "approvals": 1,
        "arguments": 0,
        "results": 1,
        "events": 5,
        "api_keys": 0,
        "checkpoints": 0,
    }

    rotated = waiting.run("keys", "rotate", "--json")
    assert (rotated.code, rotated.data["schema"]) == (0, "rotation/1")
    assert (rotated.data["previous"], rotated.data["was_finished"]) == (old, False)
    new = rotated.data["current"]
    after = keys_of(waiting)
    assert [(key_id, each["state"]) for key_id, each in after.items()] == [(old, "old"), (new, "current")]
    assert after[new]["needed_by"] == {
        "approvals": 0,
        "arguments": 0,
        "results": 0,
        "events": 1,
        "api_keys": 0,
        "checkpoints": 0,
    }

    table = waiting.run("keys", "list")
    assert [line.split()[:2] for line in table.out.splitlines()] == [["id", "state"], [old, "old"], [new, "current"]]
    assert [each["schema"] for each in waiting.run("keys", "list", "--jsonl").lines] == ["key/1", "key/1"]
    said = "".join(part for ran in (rotated, table) for part in (ran.out, ran.err))
    for master in masters_of(waiting):
        assert master not in said


@pytest.mark.case("E16")
def test_rotate_is_on_record_with_who_it_was_and_the_waiting_approval_is_used(waiting) -> None:
    [old] = keys_of(waiting)
    ran = waiting.run("keys", "rotate")

    assert (ran.code, ran.out.splitlines()[1]) == (0, f"old  {old}")
    assert "Back up" in ran.err
    [event] = events_of(waiting, "key_rotated")
    new = ran.out.split()[1]
    assert (event["subject"], event["decided_by"], event["reasons"]) == (ME, ME, [f"from:{old}", f"to:{new}"])
    assert (event["key_id"], event["model_suggested"]) == (new, False)
    assert waiting.approved(waiting.approval_id).code == 0
    assert waiting.call("ask", '{"text": "hello"}', "--run", "r1").code == 0
    assert waiting.run("audit", "verify").code == 0


def test_retire_needs_the_loss_to_be_named_and_voids_what_was_signed(waiting) -> None:
    [old] = keys_of(waiting)
    assert waiting.run("keys", "retire", old, "--json").data["code"] == "key_in_use"
    assert waiting.run("keys", "rotate").code == 0

    refused = waiting.run("keys", "retire", old, "--json")
    assert (refused.code, refused.data["code"]) == (1, "key_still_needed")
    assert "1 approvals" in refused.data["message"]
    assert "--losing approvals" in refused.data["hint"]
    assert waiting.run("keys", "retire", old, "--losing", "everything").code == 2
    assert keys_of(waiting)[old]["state"] == "old"

    done = waiting.run("keys", "retire", old, "--losing", "approvals", "--json")
    assert (done.code, done.data) == (0, {"schema": "retirement/1", "key_id": old, "lost": {"approvals": 1}})
    [event] = events_of(waiting, "key_retired")
    assert (event["decided_by"], event["reasons"]) == (ME, [f"retired:{old}", "lost_approvals:1"])
    assert keys_of(waiting)[old]["state"] == "retired"
    voided = waiting.run("approvals", "show", waiting.approval_id, "--json")
    assert (voided.code, voided.data["code"]) == (6, "key_retired")
    again = waiting.run("keys", "retire", old, "--json")
    assert (again.code, again.data["code"]) == (1, "not_found")
    assert waiting.run("audit", "verify").code == 0


def test_with_an_older_copy_of_the_key_file_the_store_stays_closed(waiting) -> None:
    key = waiting.folder / "placet.db.key"
    shutil.copy2(key, waiting.folder / "copy")
    assert waiting.run("keys", "rotate").code == 0
    shutil.copy2(waiting.folder / "copy", key)

    for words in (("keys", "list"), ("approvals", "list"), ("audit", "verify")):
        ran = waiting.run(*words, "--json")
        assert (ran.code, ran.data["code"]) == (2, "key_mismatch")
        assert "newest copy" in ran.data["hint"]


def test_a_rotation_that_died_before_its_record_is_finished_by_the_next(waiting) -> None:
    """Killed by a locked store: the file is changed, the store was not told."""
    [old] = keys_of(waiting)
    lock = apsw.Connection(str(waiting.folder / "placet.db"))
    lock.execute("BEGIN IMMEDIATE")
    child = subprocess.Popen([*PLACET, "keys", "rotate"], cwd=waiting.folder, stderr=subprocess.PIPE)
    try:
        while old == json.loads((waiting.folder / "placet.db.key").read_text())["current"]:
            assert child.poll() is None
            os.sched_yield()
        child.send_signal(signal.SIGKILL)
    finally:
        child.communicate(timeout=PATIENCE_SECONDS)
        lock.execute("ROLLBACK")
        lock.close()
    assert events_of(waiting, "key_rotated") == []

    finished = waiting.run("keys", "rotate", "--json")

    assert (finished.data["previous"], finished.data["was_finished"]) == (old, True)
    assert len(events_of(waiting, "key_rotated")) == 1
    assert len(keys_of(waiting)) == 2
    assert waiting.approved(waiting.approval_id).code == 0


def test_what_cannot_be_changed_is_told_and_left_alone(project) -> None:
    (project.folder / "placet.db.key").chmod(0o400)
    ran = project.run("keys", "rotate", "--json")
    assert (ran.code, ran.data["code"]) == (1, "key_not_writable")
    assert "chmod 600" in ran.data["hint"]
    assert events_of(project, "key_rotated") == []


def test_who_may_not_write_the_folder_changes_nothing(as_nobody) -> None:
    ran = as_nobody.run("keys", "rotate", "--json")
    assert ran.code == (1 if ran.data["code"] == "store_not_writable" else 2)
    assert ran.data["code"] in {"key_missing", "key_unreadable", "store_not_writable"}


def test_rows_that_name_a_key_nobody_has_are_told(waiting) -> None:
    connection = unguarded(apsw.Connection(str(waiting.folder / "placet.db")))
    connection.execute("UPDATE audit_events SET key_id = 'k-' || char(27) WHERE sequence = 1")
    connection.close()
    ran = waiting.at_terminal("keys", "list", NO_COLOR="1")
    assert ran.code == 0
    assert "unknown" in ran.out
    assert "\x1b" not in ran.out
    assert "not in the key file" in ran.out


def test_who_holds_the_files_may_rotate_and_export_without_being_listed(project) -> None:
    project.rewrite(f"[people.{ME}]", "[people.somebody]")

    rotated = project.run("keys", "rotate", "--json")
    exported = project.run("audit", "export", "--out", "a.jsonl", "--json")

    assert (rotated.code, exported.code) == (0, 0)
    assert f'"{ME}"' in (project.folder / "a.jsonl").read_text(), "who rotated is on record"
    assert project.run("audit", "tail").code == 4

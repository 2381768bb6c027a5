"""`placet approvals watch`: what waits is followed, and nothing is decided."""

import json
import os
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager

import apsw
import pytest

from .conftest import PATIENCE_SECONDS, PLACET, Project


class Watching:
    """A watch in a process of its own, whose lines are read as they come."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self._left = b""

    def line(self) -> str:
        assert self.process.stdout is not None
        end = time.monotonic() + PATIENCE_SECONDS
        while b"\n" not in self._left:
            ready, _, _ = select.select([self.process.stdout], [], [], max(0.0, end - time.monotonic()))
            assert ready, "nothing came"
            chunk = os.read(self.process.stdout.fileno(), 65536)
            assert chunk, self.process.stderr.read() if self.process.stderr else ""
            self._left += chunk
        line, _, self._left = self._left.partition(b"\n")
        return line.decode()

    def change(self) -> dict:
        return json.loads(self.line())

    def end(self, number: int = signal.SIGINT) -> tuple[int, str]:
        self.process.send_signal(number)
        out, err = self.process.communicate(timeout=PATIENCE_SECONDS)
        assert self._left + out == b""
        return self.process.returncode, err.decode()


@contextmanager
def watching(project: Project, *words: str) -> Iterator[Watching]:
    process = subprocess.Popen(
        [*PLACET, "approvals", "watch", "--interval", "0.1", *words],
        cwd=project.folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        yield Watching(process)
    finally:
        process.kill()
        process.communicate()


def test_each_change_is_one_document_and_interrupting_ends_with_130(waiting) -> None:
    with watching(waiting, "--jsonl") as watch:
        first = watch.change()
        assert (first["schema"], first["change"]) == ("approval-change/1", "new")
        assert first["approval"]["approval_id"] == waiting.approval_id
        assert first["approval"]["digest"] == waiting.digest
        assert first["approval"]["arguments"]["text"] == "hello"

        denied = waiting.asked(arguments='{"text": "other"}')
        assert [watch.change()["approval"]["approval_id"]] == [denied]
        assert waiting.approved(waiting.approval_id).code == 0
        second = watch.change()
        assert (second["change"], second["approval"]["approval_id"]) == ("approved", waiting.approval_id)
        assert second["approval"]["decided_by"] is not None
        assert waiting.run("approvals", "deny", denied, "--reason", "no").code == 0
        assert watch.change()["change"] == "denied"
        withdrawn = waiting.asked(arguments='{"text": "third"}')
        assert watch.change()["change"] == "new"
        assert waiting.run("approvals", "withdraw", withdrawn).code == 0
        assert watch.change()["change"] == "withdrawn"
        code, err = watch.end()
    assert code == 130
    assert "Traceback" not in err
    assert not (waiting.folder / "asked.txt").exists(), "watching decided nothing, so nothing ran"


def test_off_a_terminal_each_change_is_one_line_with_the_whole_digest(waiting) -> None:
    hostile = waiting.asked(arguments=json.dumps({"text": "a\u202eb\x1b[2J"}), run="r2")
    with watching(waiting) as watch:
        lines = [watch.line(), watch.line()]
        code, _ = watch.end()
    assert code == 130
    assert waiting.approval_id in lines[0]
    assert hostile in lines[1]
    assert f"digest {waiting.digest}" in lines[0]
    assert all(line.isprintable() for line in lines)


def test_a_row_that_was_altered_is_told_once_as_suspect(waiting) -> None:
    with watching(waiting, "--jsonl") as watch:
        assert watch.change()["change"] == "new"
        connection = apsw.Connection(str(waiting.folder / "placet.db"))
        connection.execute("UPDATE approvals SET question = json_set(question, '$.purpose', 'other')")
        connection.close()
        assert watch.change()["change"] == "suspect"
        other = waiting.asked(arguments='{"text": "other"}', run="r2")
        assert watch.change()["approval"]["approval_id"] == other


def test_a_store_that_is_taken_away_ends_the_watching(waiting) -> None:
    with watching(waiting, "--jsonl") as watch:
        assert watch.change()["change"] == "new"
        shutil.copy2(waiting.folder / "placet.db", waiting.folder / "copy")
        os.replace(waiting.folder / "copy", waiting.folder / "placet.db")
        told = watch.change()
        assert (told["schema"], told["code"]) == ("error/1", "store_missing")
        assert watch.process.wait(PATIENCE_SECONDS) == 1


def test_a_store_that_others_write_is_still_watched(waiting) -> None:
    with watching(waiting, "--jsonl") as watch:
        assert watch.change()["change"] == "new"
        lock = apsw.Connection(str(waiting.folder / "placet.db"))
        lock.execute("BEGIN IMMEDIATE")
        lock.execute("UPDATE approvals SET state = 'withdrawn'")
        lock.execute("COMMIT")
        lock.close()
        assert watch.change()["change"] == "withdrawn"


def test_at_a_terminal_a_table_is_drawn_and_the_cursor_comes_back(waiting) -> None:
    ran = waiting.at_terminal("approvals", "watch", "--interval", "0.1", answers=[(waiting.approval_id, b"\x03")])
    assert ran.code == 130
    assert waiting.digest[:12] in ran.out
    assert "placet approvals show ID" in ran.out
    assert ran.out.rindex("\x1b[?25h") > ran.out.rindex("\x1b[?25l"), "the cursor is shown again"
    assert "Traceback" not in ran.out


def test_one_document_is_refused_and_without_a_store_there_is_nothing_to_watch(waiting, bare) -> None:
    assert waiting.run("approvals", "watch", "--json").code == 2
    assert bare.run("approvals", "watch").code == 1


def test_people_of_another_tenant_see_nothing(waiting) -> None:
    text = (waiting.folder / "placet.toml").read_text()
    (waiting.folder / "other.toml").write_text(text.replace("acme", "other"))
    with watching(waiting, "--jsonl", "--config", "other.toml") as watch:
        theirs = waiting.asked(arguments='{"text": "theirs"}', run="r6")
        ours = waiting.run(
            "call", "--tool", "ask", "--args", '{"text": "ours"}', "--run", "r7", "--config", "other.toml", "--json"
        )
        assert ours.data["approval_id"] not in (theirs, waiting.approval_id)
        assert watch.change()["approval"]["approval_id"] == ours.data["approval_id"]


@pytest.mark.parametrize("interval", ["0", "-1", "nan", "99999"])
def test_the_interval_is_bounded(waiting, interval: str) -> None:
    assert waiting.run("approvals", "watch", "--interval", interval).code == 2

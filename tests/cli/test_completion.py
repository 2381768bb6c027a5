"""`placet completion`: what could come next, at a real shell, without touching or running anything."""

import json
import os
import pty
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

import apsw
import pytest

from .conftest import PATIENCE_SECONDS, Project


def snapshot(folder: Path) -> dict[str, tuple[int, bytes]]:
    return {
        str(path.relative_to(folder)): (path.stat().st_mtime_ns, path.read_bytes())
        for path in sorted(folder.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }


def suggested(project: Project, *words: str) -> list[str]:
    ran = project.run("completion", "words", "--", *words)
    assert (ran.code, ran.err) == (0, "")
    return [line.partition("\t")[0] for line in ran.out.splitlines()]


def test_commands_verbs_and_options_are_completed(project) -> None:
    assert "approvals" in suggested(project, "")
    assert suggested(project, "appr") == ["approvals"]
    assert suggested(project, "approvals", "wi") == ["withdraw", "withdraw-vote"]
    assert suggested(project, "audit", "verify", "--exp") == ["--export"]
    assert "--help" in suggested(project, "audit", "verify", "-")
    assert suggested(project, "completion", "") == ["bash", "zsh", "fish"]
    assert suggested(project, "keys", "retire", "k-1", "--losing", "res") == ["results"]
    assert suggested(project, "approvals", "list", "--state", "den") == ["denied"]
    assert suggested(project, "approvals", "list", "--state=", "den") == []
    assert suggested(project, "approvals", "list", "--state", "=", "den") == ["denied"]
    for words in ((), ("nothing", ""), ("approvals", "nothing", ""), ("call", "--args", ""), ("a", "b", "c", "d")):
        assert suggested(project, *words) == [] or words == ()


def test_providers_are_completed_and_what_options_are_about_stays_readable(project) -> None:
    assert suggested(project, "tools", "show", "look", "--provider", "") == [
        "openai",
        "openai_responses",
        "anthropic",
        "mcp",
    ]
    told = dict(
        line.split("\t") for line in project.run("completion", "words", "--", "tools", "list", "--").out.splitlines()
    )
    assert told["--json"] == "Write one JSON document, errors too."
    assert told["--local"] == "Times in this machine\u2019s zone instead of UTC."
    assert told["--no-color"] == "No colour, like NO_COLOR=1."


def test_pending_approvals_are_completed_with_what_they_are_and_without_arguments(waiting) -> None:
    second = waiting.asked(arguments='{"text": "SECRET-ARGUMENT"}', run="r2")
    for verb in ("show", "approve", "deny", "withdraw"):
        assert suggested(waiting, "approvals", verb, "apr-") == [second, waiting.approval_id]
    ran = waiting.run("completion", "words", "--", "approvals", "show", "")
    assert ran.out.splitlines()[0].startswith(f"{second}\task, asked 20")
    assert "SECRET" not in ran.out
    assert "hello" not in ran.out
    assert suggested(waiting, "approvals", "show", "--store", "none.db", "") == []
    assert waiting.approved(waiting.approval_id).code == 0
    assert suggested(waiting, "approvals", "show", "") == [second]


def test_other_tenants_and_forged_rows_are_not_suggested(waiting) -> None:
    text = (waiting.folder / "placet.toml").read_text()
    (waiting.folder / "other.toml").write_text(text.replace("acme", "other"))
    assert suggested(waiting, "approvals", "show", "--config", "other.toml", "") == []
    connection = apsw.Connection(str(waiting.folder / "placet.db"))
    connection.execute("UPDATE approvals SET approval_id = '$(touch hacked)'")
    connection.close()
    assert suggested(waiting, "approvals", "show", "") == []


def test_tools_are_found_without_running_the_project(project) -> None:
    (project.folder / "tools.py").write_text(
        "from pathlib import Path\n"
        "Path(__file__).with_name('ran').touch()\n"
        "import placet\n\n"
        "@placet.tool(effect='read')\nasync def look(): 'Look; $(touch hacked) `id`.'\n\n"
        "@placet.tool(effect='read', name='other-name')\ndef third(): ...\n\n"
        "@tool\ndef bare(): ...\n\n"
        "@placet.tool(effect='read', name='$(touch hacked)')\ndef evil(): ...\n\n"
        "@staticmethod\ndef no_tool(): ...\n"
    )
    assert suggested(project, "call", "--tool", "") == ["look", "other-name", "bare"]
    assert suggested(project, "tools", "show", "oth") == ["other-name"]
    out = project.run("completion", "words", "--", "tools", "show", "lo").out
    assert out == "look\tLook, touch hacked id.\n"
    assert not (project.folder / "ran").exists()
    for broken in ("def (", "\x00", "(" * 5000):
        (project.folder / "tools.py").write_text(broken)
        assert suggested(project, "tools", "show", "") == []


def test_old_keys_are_completed_for_retiring(project) -> None:
    assert suggested(project, "keys", "retire", "") == []
    old = project.run("keys", "rotate", "--json").data["previous"]
    assert suggested(project, "keys", "retire", "") == [old]


@pytest.mark.parametrize("words", [("approvals", "show", ""), ("call", "--tool", ""), ("keys", "retire", "")])
def test_completing_touches_nothing(waiting, bare, words) -> None:
    before = snapshot(waiting.folder)
    suggested(waiting, *words)
    assert snapshot(waiting.folder) == before
    suggested(bare, *words)
    assert list(bare.folder.iterdir()) == []


def test_completing_reads_a_store_that_is_open_elsewhere_and_one_that_was_left_open(waiting) -> None:
    writer = apsw.Connection(str(waiting.folder / "placet.db"))
    writer.execute("UPDATE approvals SET spent_at = spent_at")
    assert (waiting.folder / "placet.db-wal").exists()
    assert suggested(waiting, "approvals", "show", "") == [waiting.approval_id]
    for name in ("placet.db", "placet.db-wal"):
        shutil.copy2(waiting.folder / name, waiting.folder / f"copy-{name}")
    writer.close()
    left = waiting.folder / "left"
    left.mkdir()
    for name in ("placet.db", "placet.db-wal"):
        os.replace(waiting.folder / f"copy-{name}", left / name)
    shutil.copy2(waiting.folder / "placet.db.key", left)
    assert suggested(waiting, "approvals", "show", "--store", "left/placet.db", "") == []
    assert sorted(each.name for each in left.iterdir()) == ["placet.db", "placet.db-wal", "placet.db.key"]


def test_what_is_broken_gives_no_suggestion_and_no_word(waiting) -> None:
    words = ("approvals", "show", "")
    (waiting.folder / "placet.db.key").write_text("{")
    assert suggested(waiting, *words) == []
    (waiting.folder / "placet.db").write_bytes(b"no database")
    assert suggested(waiting, *words) == []
    (waiting.folder / "placet.toml").write_text("[")
    assert suggested(waiting, *words) == []


# ---------------------------------------------------------------- shells


@pytest.fixture
def at_shell(waiting, tmp_path: Path) -> Project:
    """`placet` on the PATH of a shell."""
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "placet"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m placet.cli "$@"\n')
    program.chmod(0o755)
    waiting.environment["PATH"] = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
    waiting.environment["TERM"] = "dumb"
    return waiting


def in_shell(project: Project, *command: str) -> str:
    done = subprocess.run(
        command,
        cwd=project.folder,
        env=project._environment({}),
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert done.stderr == ""
    return done.stdout


def test_bash_completes_an_approval_that_waits(at_shell) -> None:
    script = (
        'eval "$(placet completion bash)"; COMP_WORDS=(placet approvals show "");'
        'COMP_CWORD=3; _placet placet; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    assert in_shell(at_shell, "bash", "--norc", "-uc", script) == f"{at_shell.approval_id}\n"
    second = at_shell.asked(arguments='{"text": "two"}', run="r2")
    lines = in_shell(at_shell, "bash", "--norc", "-c", script).splitlines()
    assert [line.partition("  -- ask, asked ")[0] for line in lines] == [second, at_shell.approval_id]


def test_bash_completes_at_a_terminal_when_tab_is_pressed(at_shell) -> None:
    master, slave = pty.openpty()
    child = subprocess.Popen(
        ["bash", "--norc", "--noprofile", "-i"],
        cwd=at_shell.folder,
        env=at_shell._environment({"PS1": "READY> "}),
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
    )
    os.close(slave)
    try:
        steps = [
            ("READY>", b'eval "$(placet completion bash)"; echo set-$((40 + 2))\n'),
            ("set-42", b"placet appro\t"),
            ("placet approvals", b"sh\t"),
            ("approvals show", b"apr\t"),
            (at_shell.approval_id, b"\x03exit\n"),
        ]
        seen, end = b"", time.monotonic() + PATIENCE_SECONDS
        while steps:
            assert select.select([master], [], [], max(0.0, end - time.monotonic()))[0], seen
            seen += os.read(master, 65536)
            if steps[0][0].encode() in seen:
                os.write(master, steps.pop(0)[1])
    finally:
        child.kill()
        child.wait(PATIENCE_SECONDS)
        os.close(master)


def test_shells_that_are_here_can_read_their_script(at_shell) -> None:
    for shell in filter(shutil.which, ("bash", "zsh", "fish")):
        (at_shell.folder / "script").write_text(at_shell.run("completion", shell).out)
        assert in_shell(at_shell, shell, "-n", "script") == ""
        if shell == "fish":
            found = in_shell(at_shell, "fish", "-c", "source script; complete -C 'placet approvals show '")
            assert found.startswith(at_shell.approval_id)


def test_each_shell_has_a_script_and_no_other_does(project) -> None:
    for shell in ("bash", "zsh", "fish"):
        ran = project.run("completion", shell)
        assert (ran.code, ran.err) == (0, "")
        assert "completion words --" in ran.out
        assert "eval" not in ran.out, "no shell evaluates what the program prints"
    assert project.run("completion", "tcsh").code == 2
    assert json.loads(project.run("completion", "tcsh", "--json").out)["code"] == "usage"

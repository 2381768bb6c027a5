"""A command in a forked process ends as it does in a Python of its own."""

import json
import os
import pty
import subprocess
from pathlib import Path

import pytest

from tests.cli.conftest import PATIENCE_SECONDS, PLACET, TERMINAL, Project, started_at, talk_with
from tests.cli.interpreter import Interpreter

FORKING, AT_A_TERMINAL = Interpreter(), Interpreter()


def plainly(project: Project, words: tuple[str, ...], stdin: bytes) -> tuple[int, bytes, bytes]:
    ran = subprocess.run(
        [*PLACET, *words], cwd=project.folder, env=project._environment({}), input=stdin, capture_output=True,
        check=False, timeout=PATIENCE_SECONDS,
    )  # fmt: skip
    return ran.returncode, ran.stdout, ran.stderr


CALLS = b"".join(
    json.dumps({"call_id": f"c-{n}", "tool": "look", "arguments": {"word": "x" * 4_000}}).encode() + b"\n"
    for n in range(40)
)
"""More than a pipe holds, both ways."""


@pytest.mark.parametrize(
    ("words", "stdin"),
    [
        (("--help",), b""),
        (("tools", "list"), b""),
        (("nonsense",), b""),
        (("audit", "verify", "--json"), b""),
        (("call", "--tool", "hang", "--args", "{", "--run", "r1", "--call-id", "c1"), b""),
        (("call", "--file", "-", "--run", "r1", "--json"), CALLS),
    ],
    ids=["help", "tools", "no command", "audit", "no JSON", "more than a pipe holds"],
)
def test_the_code_and_every_byte_are_the_same(project: Project, words: tuple[str, ...], stdin: bytes) -> None:
    environment = project._environment({})
    forked = FORKING.run(words, project.folder, environment, stdin, timeout=PATIENCE_SECONDS)

    assert forked is not None
    assert (forked.code, forked.out, forked.err) == plainly(project, words, stdin)


def test_a_process_that_dies_of_a_signal_says_so(project: Project) -> None:
    project.rewrite("import asyncio\n", "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n", "tools.py")

    forked = FORKING.run(("tools", "list"), project.folder, project._environment({}), b"", timeout=PATIENCE_SECONDS)

    assert forked is not None and forked.code == -9


def test_one_that_does_not_end_is_killed_and_the_next_is_served(project: Project) -> None:
    environment = project._environment({})
    words = ("call", "--tool", "hang", "--args", "{}")
    with pytest.raises(subprocess.TimeoutExpired):
        FORKING.run(words, project.folder, environment, b"", timeout=0.01)

    after = FORKING.run(("version",), project.folder, environment, b"", timeout=PATIENCE_SECONDS)
    assert after is not None and after.code == 0


def test_one_that_was_started_goes_on_beside_others_until_it_is_ended(project: Project) -> None:
    environment = project._environment({})
    process = FORKING.start(("call", "--tool", "hang", "--args", "{}"), project.folder, environment)
    assert process is not None
    project.wait_for("hanging")

    beside = FORKING.run(("version",), project.folder, environment, b"", timeout=PATIENCE_SECONDS)
    assert beside is not None and beside.code == 0
    assert process.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.01)
    process.kill()
    assert process.wait(PATIENCE_SECONDS) == process.poll() == -9
    out, err = process.communicate(PATIENCE_SECONDS)
    assert (out, err[:4]) == (b"", b"run ")


@pytest.mark.parametrize(
    ("answer", "code"), [(b"n\n", 6), (b"\x03", 130), (b"\x04", 6)], ids=["no", "interrupt", "end of input"]
)
def test_at_a_terminal_too_whose_interrupts_are_its_own(waiting: Project, answer: bytes, code: int) -> None:
    words, around = ("approvals", "approve", waiting.approval_id), waiting._environment(TERMINAL)
    said = []
    for starts in (AT_A_TERMINAL.start_at, started_at):
        master, slave = pty.openpty()
        process = starts(slave, words, waiting.folder, around)
        os.close(slave)
        assert process is not None
        said.append((talk_with(master, [("approve? [y/N]", answer)]), process.wait(PATIENCE_SECONDS)))
        os.close(master)

    forked, plain = said
    assert forked == plain
    assert plain[1] == code


def test_a_script_starts_it_by_its_name(project: Project, tmp_path: Path) -> None:
    environment = project._environment({})
    channel = FORKING.shim(tmp_path / "placet", environment)
    script = 'set -e; echo "{" | placet call --file - --json >&2 || echo $?; printf "%s" "$(placet tools list)"'

    ran = subprocess.run(
        ["sh", "-c", script], cwd=project.folder, env={**environment, "PATH": f"{tmp_path}:{environment['PATH']}"},
        capture_output=True, check=False, timeout=PATIENCE_SECONDS, pass_fds=(channel,),
    )  # fmt: skip

    refused = plainly(project, ("call", "--file", "-", "--json"), b"{\n")
    listed = plainly(project, ("tools", "list"), b"")
    assert ran.stdout == b"%d\n%s" % (refused[0], listed[1].rstrip(b"\n"))
    assert ran.stderr == refused[1] + refused[2] + listed[2]


LAST_WORDS = """\
import atexit, threading


class Garbage:
    def __init__(self):
        self.itself = self

    def __del__(self):
        print("gone", flush=True)


def last():
    threading.main_thread().join()
    print("a thread", flush=True)


Garbage()
threading.Thread(target=last).start()
atexit.register(print, "at exit")
"""


def test_whatever_is_said_at_the_very_end_is_said(project: Project) -> None:
    (project.folder / "tools.py").write_text(LAST_WORDS + (project.folder / "tools.py").read_text("utf-8"), "utf-8")
    words = ("tools", "list")

    forked = FORKING.run(words, project.folder, project._environment({}), b"", timeout=PATIENCE_SECONDS)

    assert forked is not None
    assert (forked.code, forked.out, forked.err) == plainly(project, words, b"")
    said = forked.out + forked.err
    assert said.index(b"a thread") < said.index(b"at exit") < said.index(b"gone")


@pytest.mark.parametrize("name", ["PYTHONPATH", "LANG", "TERM"])
def test_what_python_itself_reads_is_left_to_a_python_of_its_own(project: Project, name: str) -> None:
    environment = project._environment({})
    assert FORKING.run(("version",), project.folder, environment, b"", timeout=PATIENCE_SECONDS) is not None

    changed = {**environment, name: os.fspath(project.folder)}
    assert FORKING.run(("version",), project.folder, changed, b"", timeout=PATIENCE_SECONDS) is None

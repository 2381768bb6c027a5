"""A command in a forked process ends as it does in a Python of its own."""

import json
import os
import subprocess

import pytest

from tests.cli.conftest import PATIENCE_SECONDS, PLACET, Project
from tests.cli.interpreter import Interpreter

FORKING = Interpreter()


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


@pytest.mark.parametrize("name", ["PYTHONPATH", "LANG", "TERM"])
def test_what_python_itself_reads_is_left_to_a_python_of_its_own(project: Project, name: str) -> None:
    environment = project._environment({})
    assert FORKING.run(("version",), project.folder, environment, b"", timeout=PATIENCE_SECONDS) is not None

    changed = {**environment, name: os.fspath(project.folder)}
    assert FORKING.run(("version",), project.folder, changed, b"", timeout=PATIENCE_SECONDS) is None

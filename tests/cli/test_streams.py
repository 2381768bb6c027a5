"""Standard output that is closed, full or no longer read: what the command did stands, and standard error says so."""

import os
import re
import subprocess

import pytest

from .conftest import PATIENCE_SECONDS, PLACET, Project, Ran

LOST = "placet: The output could not be written; the command itself was done.\n"


def run_into(project: Project, where: str, *words: str) -> Ran:
    """Run with a standard output that takes nothing: a full device, none at all, or a pipe nobody reads."""
    read, unread = os.pipe()
    os.close(read)
    command = (
        [*PLACET, *words] if where == "unread" else ["sh", "-c", f'exec "$@" {_SINKS[where]}', "sh", *PLACET, *words]
    )
    try:
        done = subprocess.run(
            command,
            cwd=project.folder,
            stdin=subprocess.DEVNULL,
            stdout=unread,
            stderr=subprocess.PIPE,
            check=False,
            timeout=PATIENCE_SECONDS,
        )
    finally:
        os.close(unread)
    return Ran(done.returncode, "", done.stderr.decode())


_SINKS = {"full": ">/dev/full", "closed": ">&-"}


@pytest.mark.parametrize("form", [(), ("--json",)], ids=["text", "json"])
@pytest.mark.parametrize("where", ["full", "closed", "unread"])
def test_a_call_whose_output_is_lost_ends_with_its_own_outcome_and_says_how_to_ask_again(
    project, where: str, form: tuple[str, ...]
) -> None:
    words = ("call", "--tool", "put", "--args", '{"text": "x"}', "--run", "r", "--call-id", "c1", *form)
    ran = run_into(project, where, *words)
    unknown = run_into(project, where, "call", "--tool", "vague", "--args", '{"name": "x"}', *form)

    assert (project.folder / "put.txt").read_text() == "x\n"
    assert ran.code == 0
    assert LOST in ran.err
    assert "ask again: the same call, with --run r --call-id c1; under other names it may act twice" in ran.err
    assert "Traceback" not in ran.err
    assert unknown.code == 7
    assert re.search(r"with --run run-\w+ --call-id c-\w+;", unknown.err)
    assert project.call("put", '{"text": "x"}', "--run", "r", "--call-id", "c1").data["status"] == "replayed"


@pytest.mark.parametrize("form", [(), ("--json",)], ids=["text", "json"])
@pytest.mark.parametrize("where", ["full", "closed"])
def test_what_took_effect_says_so_although_its_output_is_lost(waiting, where: str, form: tuple[str, ...]) -> None:
    approve = ("approvals", "approve", waiting.approval_id, "--digest", waiting.digest)
    approved = run_into(waiting, where, *approve, *form)
    rotated = run_into(waiting, where, "keys", "rotate", *form)

    assert waiting.run("approvals", "show", waiting.approval_id, "--json").data["state"] == "approved"
    assert len(waiting.run("keys", "list", "--json").data["keys"]) == 2
    for ran in (approved, rotated):
        assert ran.code == 1
        assert LOST in ran.err
        assert "Traceback" not in ran.err
        assert "unexpected" not in ran.err


@pytest.mark.parametrize("where", ["full", "closed"])
def test_an_error_is_told_on_standard_error_if_standard_output_is_lost(project, where: str) -> None:
    ran = run_into(project, where, "approvals", "show", "x", "--json")

    assert (ran.code, ran.err) == (
        1,
        "placet: There is no such approval in your tenant.\n"
        "  code: not_found\n"
        "  next: placet approvals list --state all\n",
    )


@pytest.mark.parametrize(
    "words", [("--help",), ("version",), ("metrics", "rules"), ("tools", "list"), ("audit", "export")]
)
def test_what_only_looks_says_that_its_output_is_lost_unless_its_reader_has_gone(
    project, words: tuple[str, ...]
) -> None:
    for where in ("full", "closed"):
        ran = run_into(project, where, *words)
        assert (ran.code, ran.err) == (1, "placet: The output could not be written.\n"), where
    unread = run_into(project, "unread", *words)
    assert (unread.code, unread.err) == (1, "")


def test_a_standard_error_that_is_full_takes_no_data_and_no_outcome_away(project) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [*PLACET, "call", "--tool", "put", "--args", '{"text": "x"}', "--call-id", "c1"],
            cwd=project.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=full,
            check=False,
            timeout=PATIENCE_SECONDS,
        )

    assert done.returncode == 0
    assert done.stdout.startswith(b"succeeded  put  c1")

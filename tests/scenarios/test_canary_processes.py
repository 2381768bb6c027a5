"""The same search in other processes: every verb of the command line, and what a process leaves that died.

Source: REQUIREMENTS B121, B202; CASES M01, M02.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import CONFIG, ME, PATIENCE_SECONDS, SCOPES, Project
from tests.scenarios.canary import Outputs, Secrets
from tests.scenarios.test_canary import CLEAR_ID, KEY, PROPOSER, SHOWN, assert_exactly

TOOLS = '''\
import placet

WRITE = dict(effect="write", risk="medium", permission="things.write", text="free", breaker=None)


@placet.tool(**WRITE, operation_key="keyed:{ref}")
async def keyed(ref: str, word: str) -> str:
    """Do it."""
    return RESULT


@placet.tool(**WRITE, approval="always", redact=("card",))
async def asked(word: str, card: str = "") -> str:
    """Ask first."""
    return RESULT


async def probe(context):
    return placet.Found(result=PROBED, external_reference=REFERENCE)


@placet.tool(**WRITE, probe=probe)
async def probed(word: str) -> str:
    """Fail, and be found."""
    print(PRINTED)
    error = type(ERRORCLASS, (RuntimeError,), {})(ERRORTEXT)
    error.add_note(ERRORNOTE)
    raise error


@placet.tool(**WRITE)
async def failing(word: str) -> str:
    """Fail, and stay unknown."""
    raise RuntimeError(ERRORTEXT)


@placet.tool(**WRITE)
async def rejected(word: str) -> str:
    """The remote refuses."""
    raise placet.ToolRejected(REJECTED)


TOOLS = [keyed, asked, probed, failing, rejected]
'''

OWN_INPUT = "said back to the person who just said it"

BELONGS = {
    "argument": (SHOWN, ("approvals list", "approvals show", "approvals approve")),
    "shown": (SHOWN, ("approvals list", "approvals show", "approvals deny")),
    "result": (PROPOSER, ("call",)),
    "probed": (PROPOSER, ("call",)),
    "rejected": ("a handler that raises ToolRejected speaks to the proposer", ("call",)),
    "printed": ("a handler that prints, prints", ("call",)),
    "membername": ("a problem names its place, and the proposer wrote the name", ("call",)),
    "opkey": (KEY, ("call", "effects list", "effects show", "store files")),
    "callerkey": (KEY, ("call", "effects list", "effects reconcile", "store files")),
    "callid": (CLEAR_ID, ("call", "effects list", "effects show", "audit export", "store files")),
    "runid": (CLEAR_ID, ("call", "effects list", "effects show", "audit export", "store files")),
    "approvereason": (OWN_INPUT, ("approvals approve", "store files")),
    "denyreason": ("the proposer is told why, as data", ("call", "approvals deny", "store files")),
    "evidence": (
        "a code for the kind of evidence, on record",
        ("effects reconcile", "effects list", "audit tail", "audit export", "store files"),
    ),
    "reference": ("the remote's own name of the effect", ("effects list", "store files")),
}
"""Each secret that may be read: why, and in what verb of the command line, or file, it then has to be."""


class Terminal:
    """Runs `placet` in a project and hears all of it, as text and as JSON."""

    def __init__(self, project: Project, outputs: Outputs) -> None:
        self._project = project
        self._outputs = outputs

    def __call__(self, verb: str, *words: str, stdin: str = "") -> list[str]:
        """What it wrote to standard output, as text and then as JSON."""
        said = []
        for form in ((), ("--json",)):
            ran = self._project.run(*verb.split(), *words, *form, stdin=stdin)
            assert "Traceback" not in ran.err
            self._outputs.hear(verb, ran.out, ran.err)
            said.append(ran.out)
        return said

    def once(self, verb: str, *words: str) -> str:
        """For what can be done once only."""
        ran = self._project.run(*verb.split(), *words, "--json")
        self._outputs.hear(verb, ran.out, ran.err)
        return ran.out


def project_in(folder: Path, secrets: Secrets) -> Project:
    names = ("result", "probed", "reference", "errorclass", "errortext", "errornote", "rejected", "printed")
    said = "".join(f"{name.upper()} = {secrets(name)!r}\n" for name in names)
    folder.mkdir()
    (folder / "placet.toml").write_text(CONFIG.format(me=ME, scopes=json.dumps(SCOPES)))
    (folder / "tools.py").write_text(said + TOOLS)
    project = Project(folder, environment={"PLACET_CANARY": secrets("environment"), "API_TOKEN": secrets("token")})
    assert project.run("init", "--store-only").code == 0
    return project


@pytest.mark.req("B121", "B202")
@pytest.mark.case("M01", "M02")
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_every_verb_of_the_command_line_tells_only_what_belongs_there(tmp_path: Path) -> None:
    secrets, outputs = Secrets(), Outputs()
    s = secrets
    project = project_in(tmp_path / "project", secrets)
    placet = Terminal(project, outputs)

    def called(tool: str, *words: str, **arguments: str) -> None:
        placet.once("call", "--tool", tool, "--args", json.dumps(arguments), *words)

    called("keyed", "--run", s("runid"), "--call-id", s("callid"), ref=s("opkey"), word=s("sealedargument"))
    placet("call", "--tool", "keyed", "--args", json.dumps({"ref": s("opkey"), "word": s("sealedargument")}))
    called("failing", "--idempotency-key", s("callerkey"), "--run", "r1", word=s("sealedargument"))
    called("probed", "--run", "r2", "--call-id", "p", word=s("sealedargument"))
    called("rejected", "--run", "r3", word=s("sealedargument"))
    called("keyed", "--run", "r4", ref="a", word="x", **{s("membername"): s("membervalue")})
    called("keyed", "--dry-run", "--run", "r5", ref="b", word=s("sealedargument"))
    called(s("unknowntool"), "--run", "r6", word="x")
    placet("call", "--tool", "keyed", "--args", f'{{"{s("notjson")}')
    lines = json.dumps({"call_id": "f1", "tool": "keyed", "arguments": {"ref": "f", "word": s("sealedargument")}})
    placet("call", "--file", "-", "--run", "r7", stdin=lines)

    called("asked", "--run", "a1", "--call-id", "a", word=s("argument"), card=s("redacted"))
    called("asked", "--run", "a2", "--call-id", "a", word=s("shown"))
    waiting = json.loads(placet("approvals list")[1])["approvals"]
    ids = {each["run_id"]: each["approval_id"] for each in waiting}
    digests = {run: json.loads(placet("approvals show", each)[1])["digest"] for run, each in ids.items()}
    placet("approvals approve", ids["a1"], "--digest", s("wrongdigest"))
    placet("approvals approve", ids["a1"], "--digest", digests["a1"], "--reason", s("approvereason"))
    placet("approvals deny", ids["a2"], "--reason", s("denyreason"))
    placet("approvals withdraw", s("wrongid"))
    called("asked", "--run", "a1", "--call-id", "a", word=s("argument"), card=s("redacted"))
    called("asked", "--run", "a2", "--call-id", "a", word=s("shown"))
    placet("approvals list", "--state", "all")

    effects = {each["run_id"]: each["operation_key"] for each in json.loads(placet("effects list")[1])["effects"]}
    placet("effects show", effects[s("runid")])
    placet("effects show", s("wrongkey"))
    placet("effects reconcile")
    placet("effects reconcile", effects["r1"], "--committed", "--looked-at", "now", "--reason", s("evidence"))
    placet("effects list")
    called("probed", "--run", "r2", "--call-id", "p", word=s("sealedargument"))

    placet("audit tail")
    placet("audit verify", "--heads")
    placet("audit export")
    placet("tools list")
    placet("tools show", "keyed")
    placet("tools lint")
    placet("config show", "--origin")
    placet("keys list")
    placet("keys rotate")
    placet("metrics rules")
    placet("metrics dashboard")
    placet("version")
    placet("init")
    outputs.hear_files("store files", project.folder, "placet.db*")

    assert_exactly(outputs, secrets, BELONGS)


# ---------------------------------------------------------------- processes that die

DYING = '''\
import asyncio, faulthandler, os, signal, sys
import placet

faulthandler.enable(open("dump.txt", "w"), all_threads=True)
AGENT = placet.Principal.agent("agent", tenant="acme", roles=("operator",), scopes=("w",))
SECRET, HOW = sys.argv[1:3]


class Holder:
    """Would tell, if it were printed."""

    def __init__(self, secret):
        self.secret = secret

    def __repr__(self):
        return self.secret


@placet.tool(effect="write", risk="medium", permission="w", text="free")
async def act(word: str) -> str:
    """Die in the middle."""
    held = Holder(word)
    if HOW == "killed":
        faulthandler.dump_traceback(open("dump.txt", "w"))
        os.kill(os.getpid(), signal.SIGKILL)
    if HOW == "aborted":
        os.abort()
    raise SystemError(word) from ValueError(repr(held))


async def main():
    async with placet.open(tools=[act], store="placet.db") as gate:
        proposal = {"call_id": "c1", "tool": "act", "arguments": {"word": SECRET}}
        outcome = await gate.submit(proposal, principal=AGENT, run="r1")
        if HOW == "unhandled":
            outcome.unwrap()


asyncio.run(main(), debug=True)
'''


@pytest.mark.req("B202")
@pytest.mark.case("M01")
@pytest.mark.parametrize("how", ["killed", "aborted", "unhandled"])
def test_a_process_that_dies_leaves_nothing_of_what_it_held(tmp_path: Path, how: str) -> None:
    secrets, outputs = Secrets(), Outputs()
    (tmp_path / "dying.py").write_text(DYING)
    ran = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "ignore", "dying.py", secrets.text("argument"), how],
        cwd=tmp_path,
        env={**os.environ, "PYTHONASYNCIODEBUG": "1", "SOME_TOKEN": secrets("environment")},
        capture_output=True,
        check=False,
        timeout=PATIENCE_SECONDS,
    )
    ends = {"killed": -signal.SIGKILL, "aborted": -signal.SIGABRT, "unhandled": 1}
    assert ran.returncode == ends[how], ran.stderr[-2000:]
    outputs.hear("streams", ran.stdout, ran.stderr)
    outputs.hear_files("crash dump", tmp_path, "dump.txt")
    outputs.hear_files("store files", tmp_path, "placet.db*")
    shutil.rmtree(tmp_path / "__pycache__", ignore_errors=True)

    if how == "unhandled":
        assert b"effect_unknown" in ran.stderr or b"EffectUnknown" in ran.stderr
    else:
        assert "in act" in (tmp_path / "dump.txt").read_text()
    assert (tmp_path / "placet.db").stat().st_size > 0
    assert_exactly(outputs, secrets, {})

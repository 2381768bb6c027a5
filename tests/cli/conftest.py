"""Real projects and real processes: every test here runs `placet` as an operator would."""

import json
import os
import pty
import pwd
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.cli.interpreter import SERVERS, Interpreter, Started

PLACET = [sys.executable, "-m", "placet.cli"]
ME = pwd.getpwuid(os.getuid()).pw_name
PATIENCE_SECONDS = 60
_INTERPRETER = Interpreter()
_AT_TERMINALS = Interpreter()
"""Another, as Python reads what a terminal is from its environment before it begins."""
_SERVERS = Interpreter(loads=SERVERS)

Process = Started | subprocess.Popen[bytes]

# Makes the terminal the process's own, so that ^C is a signal, and becomes the program.
OWN_TERMINAL = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"
)

SCOPES = ["approvals.decide", "effects.read", "effects.reconcile"]
CONFIG = """\
[placet]
store = "placet.db"
tools = "tools:TOOLS"

[agent]
subject = "agent"
tenant = "acme"
roles = ["admin"]
scopes = ["things.write"]

[people.{me}]
tenant = "acme"
scopes = {scopes}
"""

TOOLS = '''\
import asyncio
from pathlib import Path

import placet

HERE = Path(__file__).parent


def write(name, **more):
    more = {"risk": "medium", "effect": "write", "permission": "things.write", "name": name, **more}
    return placet.tool(**more)


@placet.tool(effect="read")
async def look(word: str = "nothing") -> dict[str, str]:
    """Look at a word."""
    print("a handler that prints")
    return {"word": word}


@placet.tool(effect="read", timeout_seconds=0.05, retry=placet.RetryPolicy(max_attempts=1))
async def slow_look() -> int:
    """Look for too long."""
    await asyncio.sleep(30)
    return 1


@write("put")
async def put(text: str) -> str:
    """Put a text."""
    with (HERE / "put.txt").open("a") as file:
        file.write(text + "\\n")
    return "put"


@write("forbidden", permission="things.never")
async def forbidden() -> str:
    """Nobody may."""
    return "done"


@write("rejected")
async def rejected() -> str:
    """The remote refuses."""
    raise placet.ToolRejected("not \\x1b[31mtoday")


async def probe(context):
    answer = (HERE / "probe.txt").read_text() if (HERE / "probe.txt").exists() else ""
    return {"found": placet.Found(result="late"), "absent": placet.Absent()}.get(answer, placet.CannotTell())


@write("vague", probe=probe, operation_key="vague:{name}")
async def vague(name: str) -> str:
    """Act, and say nothing sensible."""
    raise RuntimeError("connection lost after sending")


@write("hang")
async def hang() -> str:
    """Act for ever."""
    (HERE / "hanging").touch()
    await asyncio.sleep(60)
    return "never"


@write("ask", approval="always", text="free", operation_key="ask:{text}")
async def ask(text: str, amount: int = 1, note: str = "") -> str:
    """Needs a person."""
    with (HERE / "asked.txt").open("a") as file:
        file.write("ran\\n")
    return "done"


@write("wipe", effect="irreversible", approval="always", risk="low")
async def wipe() -> str:
    """Irreversible."""
    return "wiped"


@write("grave", risk="high")
async def grave() -> str:
    """High risk."""
    return "done"


@write("pay", approval="always", redact=("card",))
async def pay(card: str, cents: int) -> str:
    """Masked for the approver."""
    return "paid"


TOOLS = [look, slow_look, put, forbidden, rejected, vague, hang, ask, wipe, grave, pay]
'''

SLOW = '''

@write("slow")
async def slow(text: str) -> str:
    """Act, once it is let."""
    (HERE / "begun").touch()
    while not (HERE / "go").exists():
        await asyncio.sleep(0.01)
    return text
'''
"""A tool that a test lets end; whoever appends it to the others lists it in TOOLS."""


TERMINAL = {"TERM": "xterm-256color", "COLUMNS": "200"}


def started_at(
    terminal: int, words: tuple[str, ...], folder: Path, environment: dict[str, str]
) -> subprocess.Popen[bytes]:
    """`placet` in a Python of its own, whose own that terminal becomes."""
    command = [sys.executable, "-c", OWN_TERMINAL, *PLACET, *words]
    return subprocess.Popen(
        command, cwd=folder, env=environment, stdin=terminal, stdout=terminal, stderr=terminal, start_new_session=True
    )


@dataclass(frozen=True)
class Ran:
    """What one process left behind."""

    code: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]


@dataclass
class Project:
    """A project folder, and `placet` run inside it, without a terminal unless said otherwise.

    Attributes:
        approval_id, digest: the approval that waits in it from the start; empty if none does.
    """

    folder: Path
    approval_id: str = ""
    digest: str = ""
    prefix: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)

    def run(self, *words: str, stdin: str | bytes = b"", **environment: str) -> Ran:
        given, around = stdin.encode() if isinstance(stdin, str) else stdin, self._environment(environment)
        if not self.prefix:
            said = _INTERPRETER.run(words, self.folder, around, given, timeout=PATIENCE_SECONDS)
            if said is not None:
                return Ran(said.code, said.out.decode(), said.err.decode())
        done = subprocess.run(
            [*self.prefix, *PLACET, *words],
            cwd=self.folder,
            env=around,
            input=given,
            capture_output=True,
            check=False,
            timeout=PATIENCE_SECONDS,
        )
        return Ran(done.returncode, done.stdout.decode(), done.stderr.decode())

    def start(self, *words: str) -> Process:
        """One that is not waited for."""
        around = self._environment({})
        return _SERVERS.start(words, self.folder, around) or subprocess.Popen(
            [*PLACET, *words],
            cwd=self.folder,
            env=around,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def wait_for(self, name: str) -> None:
        """Until a handler has made the file."""
        end = time.monotonic() + PATIENCE_SECONDS
        while not (self.folder / name).exists():
            assert time.monotonic() < end, f"{name} never came"
            time.sleep(0.01)

    def at_terminal(
        self, *words: str, answers: list[tuple[str, bytes]] | None = None, ahead: bytes = b"", **environment: str
    ) -> Ran:
        """Run at a terminal; each answer is typed when its prompt has appeared. Out and err come together.

        `ahead` is typed before the program starts.
        """
        master, slave = pty.openpty()
        try:
            os.write(master, ahead)
            around = self._environment({**TERMINAL, **environment})
            is_alike = environment.keys() <= {"NO_COLOR", "COLUMNS"}
            forked = _AT_TERMINALS.start_at(slave, words, self.folder, around) if is_alike else None
            child = forked or started_at(slave, words, self.folder, around)
            os.close(slave)
            seen = talk_with(master, answers or [])
            return Ran(child.wait(PATIENCE_SECONDS), seen.decode("utf-8", "replace"), "")
        finally:
            os.close(master)

    def call(self, tool: str, arguments: str = "{}", *words: str) -> Ran:
        return self.run("call", "--tool", tool, "--args", arguments, "--json", *words)

    def asked(self, tool: str = "ask", arguments: str = '{"text": "hello"}', run: str = "r1") -> str:
        """The id of a new pending approval."""
        ran = self.call(tool, arguments, "--run", run)
        assert ran.code == 5, ran
        return str(ran.data["approval_id"])

    def digest_of(self, approval_id: str) -> str:
        return str(self.run("approvals", "show", approval_id, "--json").data["digest"])

    def approved(self, approval_id: str) -> Ran:
        return self.run("approvals", "approve", approval_id, "--digest", self.digest_of(approval_id), "--json")

    def rewrite(self, old: str, new: str, file: str = "placet.toml") -> None:
        path = self.folder / file
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))

    def _environment(self, more: dict[str, str]) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if name in ("PATH", "HOME", "LANG", "LC_ALL")}
        return {**kept, "PYTHONDONTWRITEBYTECODE": "1", **self.environment, **more}


def talk_with(master: int, answers: list[tuple[str, bytes]]) -> bytes:
    """What was said there until nobody holds the terminal any more."""
    seen = b""
    waiting = list(answers)
    end = time.monotonic() + PATIENCE_SECONDS
    while True:
        ready, _, _ = select.select([master], [], [], max(0.0, end - time.monotonic()))
        assert ready, f"nothing came: {seen!r}"
        try:
            chunk = os.read(master, 65536)
        except OSError:  # Linux answers so when the last holder of the terminal has gone
            return seen
        if not chunk:
            return seen
        seen += chunk
        if waiting and waiting[0][0].encode() in seen:
            os.write(master, waiting.pop(0)[1])


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished project that tests copy."""
    folder = tmp_path_factory.mktemp("template")
    (folder / "placet.toml").write_text(CONFIG.format(me=ME, scopes=json.dumps(SCOPES)))
    (folder / "tools.py").write_text(TOOLS)
    made = Project(folder).run("init", "--store-only")
    assert made.code == 0, made
    return folder


@pytest.fixture(scope="session")
def template_waiting(template: Path, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project in which one call of `ask` waits for a person."""
    folder = tmp_path_factory.mktemp("template") / "project"
    shutil.copytree(template, folder)
    made = Project(folder)
    made.approval_id = made.asked()
    made.digest = made.digest_of(made.approval_id)
    return made


@pytest.fixture(scope="session")
def template_unknown(template: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with one unknown effect, of `vague`, named x."""
    folder = tmp_path_factory.mktemp("template") / "project"
    shutil.copytree(template, folder)
    made = Project(folder).call("vague", '{"name": "x"}')
    assert made.code == 7, made
    return folder


@pytest.fixture
def project(template: Path, tmp_path: Path) -> Project:
    return Project(shutil.copytree(template, tmp_path / "project"))


@pytest.fixture
def waiting(template_waiting: Project, tmp_path: Path) -> Project:
    folder = shutil.copytree(template_waiting.folder, tmp_path / "project")
    return Project(folder, approval_id=template_waiting.approval_id, digest=template_waiting.digest)


@pytest.fixture
def unknown(template_unknown: Path, tmp_path: Path) -> Project:
    return Project(shutil.copytree(template_unknown, tmp_path / "project"))


@pytest.fixture
def bare(tmp_path: Path) -> Project:
    """A folder without anything."""
    folder = tmp_path / "bare"
    folder.mkdir()
    return Project(folder)


@pytest.fixture
def as_nobody(template_waiting: Project) -> Iterator[Project]:
    """The project again, where another user can reach it, run as that user."""
    prefix = ("setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups")
    try:
        subprocess.run([*prefix, *PLACET, "version"], check=True, capture_output=True, timeout=PATIENCE_SECONDS)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("needs to run this python as another user: root, setpriv, and an interpreter that nobody can reach")
    with tempfile.TemporaryDirectory(dir="/tmp") as outer:
        os.chmod(outer, 0o755)
        folder = Path(outer) / "project"
        shutil.copytree(template_waiting.folder, folder)
        os.chmod(folder, 0o755)
        yield Project(folder, prefix=prefix, approval_id=template_waiting.approval_id, digest=template_waiting.digest)

"""The operator's side: a project folder, and the commands of `placet` as a person or a script types them."""

from __future__ import annotations

import asyncio
import json
import os
import pwd
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from placet.demos.mcp import courier
from placet.demos.stage.talk import Talk, shown

TENANT: Final = "shop"
AGENT: Final = "shipping-agent"
SERVER: Final = "courier"
_PATIENCE_SECONDS: Final = 60.0
_LOOK_SECONDS: Final = 0.02
_PROJECT: Final = f"""\
[placet]
store = "placet.db"

[agent]
subject = "{AGENT}"
tenant = "{TENANT}"
roles = ["operator"]
scopes = ["courier.ship"]

[people.{{person}}]
tenant = "{TENANT}"
scopes = ["approvals.decide", "audit.read", "effects.read", "upstreams.accept"]
"""
_TERMS: Final = """\
[tools.ship]
effect = "write"
risk = "medium"
permission = "courier.ship"
approval = "always"
operation_key = "parcel:{order}"

[tools.track]
effect = "read"
risk = "low"
"""


def user_name() -> str:
    """Whom the commands take for the person at the keyboard: the user of this machine."""
    return pwd.getpwuid(os.getuid()).pw_name


@dataclass(frozen=True, slots=True)
class Ran:
    """A command that ended."""

    code: int
    out: str
    err: str

    @property
    def data(self) -> dict[str, Any]:
        """What a command that was asked for JSON has said; nothing if it said none."""
        try:
            found = json.loads(self.out)
        except ValueError:
            return {}
        return found if isinstance(found, dict) else {}


class Supplier:
    """Whoever runs the courier: deploys releases, and has the book of what reached it."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder = folder

    @property
    def command(self) -> list[str]:
        """How the courier is started: by file, so that it sees nothing of ours."""
        return [sys.executable, str(Path(courier.__file__)), str(self.folder)]

    def deploys(self, *tools: Mapping[str, Any]) -> None:
        """What processes say from their start, and those that run once they are told."""
        beside = self.folder / "tools.json.new"
        beside.write_text(json.dumps(tools), encoding="utf-8")
        beside.replace(self.folder / "tools.json")

    def calls(self, tool: str) -> list[dict[str, Any]]:
        """Each call of a tool that reached it, in order."""
        return [line for line in self._book() if line.get("called") == tool]

    async def tells(self) -> None:
        """Has the process that served the last call say that its tools changed; until it was asked what they are."""
        process = self._process()
        before = self._listings(process)
        os.kill(process, signal.SIGHUP)
        async with asyncio.timeout(_PATIENCE_SECONDS):
            while self._listings(process) == before:
                await asyncio.sleep(_LOOK_SECONDS)

    def restarts(self) -> None:
        """Ends that process, and says nothing; the next call starts another one."""
        os.kill(self._process(), signal.SIGKILL)

    def _process(self) -> int:
        return int([line for line in self._book() if "called" in line][-1]["process"])

    def _listings(self, process: int) -> int:
        return sum("listed" in line and line["process"] == process for line in self._book())

    def _book(self) -> list[dict[str, Any]]:
        book = self.folder / "book.jsonl"
        # A line that is being written is not there yet.
        lines = book.read_text(encoding="utf-8").split("\n")[:-1] if book.exists() else []
        return [json.loads(line) for line in lines]


class Operator:
    """The person at the keyboard of the project.

    Attributes:
        is_asked: whether commands that need a yes ask at the terminal; a script says the digest that it was shown.
    """

    def __init__(self, folder: Path, talk: Talk, *, is_asked: bool) -> None:
        folder.mkdir()
        self.folder = folder
        self.is_asked = is_asked
        self._talk = talk
        text = _PROJECT.format(person=json.dumps(user_name()))
        (folder / "placet.toml").write_text(text, encoding="utf-8")

    def says_terms(self) -> None:
        """What the deployment says of the courier's tools, in place of the most careful terms there are."""
        (self.folder / "upstreams" / f"{SERVER}.toml").write_text(_TERMS, encoding="utf-8")

    async def run(self, *words: str) -> Ran:
        """A command of `placet`, told; its output is ours."""
        self.tell(words)
        process = await asyncio.create_subprocess_exec(
            *placet_command(*words),
            cwd=self.folder,
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                out, err = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        return Ran(process.returncode or 0, out.decode(errors="replace"), err.decode(errors="replace"))

    async def run_at_the_terminal(self, *words: str) -> int:
        """The same, with a person before it, for as long as that takes; its exit code."""
        self.tell(words)
        process = await asyncio.create_subprocess_exec(*placet_command(*words), cwd=self.folder, env=environment())
        try:
            return await process.wait()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()

    def exported(self, name: str) -> Counter[str]:
        """How many events of each kind there are in an export of the audit."""
        lines = (self.folder / name).read_text(encoding="utf-8").splitlines()
        events = [record["event"] for record in map(json.loads, lines) if record["record"] == "event"]
        return Counter(str(event["kind"]) for event in events)

    def tell(self, words: Iterable[str]) -> None:
        """The command, as it could be typed."""
        self._talk.line(self._talk.painted("bold", f"$ placet {' '.join(map(shown, words))}"))


def placet_command(*words: str) -> list[str]:
    """How to start `placet` from the same installation."""
    return [sys.executable, "-m", "placet.cli", *words]


def environment() -> dict[str, str]:
    """Ours, without what would point `placet` at another project; it runs from the same source as we do."""
    source = str(Path(__file__).resolve().parents[3])
    path = [source, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PLACET_")}
    return {**kept, "PYTHONPATH": os.pathsep.join(path)}

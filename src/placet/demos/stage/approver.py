"""Who decides in the demo: a person at the terminal or in the console, or one that was named with `--yes-as`."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass
from typing import Protocol

import placet
from placet.demos.stage.talk import Talk, in_full, padded, shown

_LOOK_SECONDS = 0.3
_YES = frozenset({"y", "yes"})


class Approver(Protocol):
    """Reads what will run, and says yes or no."""

    @property
    def name(self) -> str: ...

    async def decides(self, view: placet.ApprovalView, gate: placet.Gate, by: placet.Principal, talk: Talk) -> bool:
        """Asked once, after the whole call was shown. When it returns the decision is on record; whether it is yes."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Wording:
    """What is said around a decision, in one language. `{name}` stands for whoever decides."""

    question: str = "{name}, may exactly this run? [y/N]"
    says_yes: str = "{name} says yes (--yes-as)"
    risk: str = "risk"
    asked_by: str = "asked by"
    asked_for: str = "asked for"
    why_asked: str = "why asked"
    acts_on: str = "acts on"
    nothing_named: str = "nothing named"
    digest: str = "digest"
    in_run: str = "in run"


ENGLISH = Wording()


@dataclass(frozen=True, slots=True)
class AtTheTerminal:
    """A person; only a clear yes is one."""

    name: str
    wording: Wording = ENGLISH

    async def decides(self, view: placet.ApprovalView, gate: placet.Gate, by: placet.Principal, talk: Talk) -> bool:
        talk.ask(self.wording.question.format(name=shown(self.name)))
        answer = await _typed_line()
        if answer.strip().lower() in _YES:
            await gate.desk.approve(view.approval_id, digest=view.digest, by=by)
            return True
        await gate.desk.deny(view.approval_id, digest=view.digest, by=by, reason="declined at the demo's prompt")
        return False


@dataclass(frozen=True, slots=True)
class NamedOnCommandLine:
    """Says yes to everything. Exists for the demo alone; no other command has such an option."""

    name: str
    wording: Wording = ENGLISH

    async def decides(self, view: placet.ApprovalView, gate: placet.Gate, by: placet.Principal, talk: Talk) -> bool:
        talk.line(self.wording.says_yes.format(name=shown(self.name)))
        await gate.desk.approve(view.approval_id, digest=view.digest, by=by)
        return True


@dataclass(frozen=True, slots=True)
class InTheConsole:
    """A person in a browser, before a server of its own on the same store. The agent waits for as long as it takes."""

    name: str

    async def decides(self, view: placet.ApprovalView, gate: placet.Gate, by: placet.Principal, talk: Talk) -> bool:
        talk.line(f"{shown(self.name)}, the call waits in the console. Approve or deny it there.")
        while True:
            now = await gate.desk.show(view.approval_id, by=by)
            if now.state is not placet.ApprovalState.PENDING:
                return now.state is placet.ApprovalState.APPROVED
            await asyncio.sleep(_LOOK_SECONDS)


def show(view: placet.ApprovalView, talk: Talk, wording: Wording = ENGLISH) -> None:
    """Everything the decision is about. What is shown comes from what will be signed, and nothing is cut."""
    tool = f"{talk.painted('bold', shown(view.tool))} {shown(view.tool_version)}"
    talk.line(f"{tool}, {wording.risk} {view.risk}, {view.effect_class}")
    told = [
        (wording.asked_by, f"{shown(view.requested_by)} {wording.in_run} {shown(view.run_id)}"),
        *([(wording.asked_for, shown(view.on_behalf_of))] if view.on_behalf_of else []),
        (wording.why_asked, shown(", ".join(view.reasons))),
        (wording.acts_on, shown(view.resource) if view.resource else wording.nothing_named),
        (wording.digest, view.digest),
    ]
    for label, said in told:
        talk.line(f"{padded(label, 10)} {said}")
    for name, value in sorted(view.arguments.items(), key=lambda argument: len(str(argument[1]))):
        first, *rest = in_full(value)
        talk.line(f"{shown(name):<10} {first}")
        for line in rest:
            talk.line(f"{'':<10} {line}")


async def _typed_line() -> str:
    """One line from the terminal, without keeping the loop; an interrupt ends the wait at once."""
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()
    loop.add_reader(sys.stdin.fileno(), lambda: None if ready.done() else ready.set_result(None))
    try:
        await ready
    finally:
        loop.remove_reader(sys.stdin.fileno())
    return sys.stdin.readline()

"""What the chapters of the story share: the gate, the runs, the drafts service, who acts, and what is expected."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import placet
from placet.demos.stage.approver import Approver, show
from placet.demos.stage.checks import Checks
from placet.demos.stage.leaks import Canaries
from placet.demos.stage.talk import Talk, shown
from placet.demos.support.drafts_client import DraftsClient
from placet.demos.support.tools import DRAFT_SCOPE, READ_SCOPE
from placet.demos.support.words import Words
from placet.demos.support.workflow import Question
from placet.knowledge import Library

TENANT = "helpdesk"
AGENT = "support-agent"
BASE = "runbooks"
UNBUILT = "archive"
SCOPES = (READ_SCOPE, DRAFT_SCOPE)
_PATIENCE_SECONDS = 300.0
_LOOK_SECONDS = 0.5


def person(name: str) -> placet.Principal:
    """Whom the agent acts for, and who confirms."""
    return placet.Principal.person(name, tenant=TENANT, roles=("operator",), scopes=(*SCOPES, "approvals.decide"))


def agent(name: str) -> placet.Principal:
    """The agent, acting for that person. It may propose, and confirms nothing."""
    return placet.Principal.agent(AGENT, tenant=TENANT, roles=("operator",), scopes=SCOPES, on_behalf_of=person(name))


@dataclass(slots=True, kw_only=True)
class Scene:
    """Everything the story is told with.

    Attributes:
        talk, asking: where progress is told, and where a person reads and is asked.
        said: every sentence that went back to whoever proposed.
        has_declined: the person said no, which ends the story.
    """

    gate: placet.Gate
    workflows: placet.Workflows
    library: Library
    drafts: DraftsClient
    words: Words
    approver: Approver
    talk: Talk
    asking: Talk
    checks: Checks
    planted: Canaries
    said: list[str] = field(default_factory=list)
    has_declined: bool = False
    chapters: int = 0

    @property
    def agent(self) -> placet.Principal:
        return agent(self.approver.name)

    def chapter(self, title: str) -> None:
        """Begin the next chapter."""
        self.chapters += 1
        self.talk.heading(f"{self.chapters}  {title}")

    def told(self, text: str) -> None:
        self.talk.line(text)

    async def ask(self, run: str, text: str, base: str = BASE) -> placet.Progress:
        """Begin a run of the workflow with a question, and drive it to where it waits for a person, or ends."""
        asked = Question(text=text, knowledge_base_id=base)
        self.planted.notice(text)
        self.told(self.words.asks.format(question=shown(text)))
        await self.workflows.start("support", run=run, inputs=asked, principal=self.agent)
        return await self.drive(run)

    async def drive(self, run: str) -> placet.Progress:
        """Go on with it. One that an earlier demo was killed in is somebody else's until its lease is over.

        Raises:
            RuntimeError: nothing became of it for minutes.
        """
        driver = placet.InlineDriver(self.workflows)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE_SECONDS):
                while True:
                    match await driver.drive(TENANT, run):
                        case (placet.Ended() | placet.Waiting(approvals=(_, *_))) as progress:
                            self.talk.line(f"{run}: {progress.state}")
                            return progress
                        case placet.Unserved(code=code):
                            raise RuntimeError(f"the run {run} cannot be gone on with: {code}")
                        case _:
                            await asyncio.sleep(_LOOK_SECONDS)
        raise RuntimeError(f"the run {run} has not gone on for {_PATIENCE_SECONDS:g} seconds")

    async def decided(self, approval_id: str) -> bool:
        """Show the person what waits, and take its decision to the gate's desk, with the digest that was shown."""
        by = person(self.approver.name)
        view = await self.gate.desk.show(approval_id, by=by)
        show(view, self.asking, self.words.wording)
        is_confirmed = await self.approver.decides(view, self.gate, by, self.asking)
        said = self.words.approved if is_confirmed else self.words.denied
        self.told(said.format(person=shown(self.approver.name)))
        self.has_declined = self.has_declined or not is_confirmed
        return is_confirmed

    async def events(self, run: str | None = None) -> list[dict[str, Any]]:
        """The audit's events, of one run or of all."""
        return [event async for event in self._events() if run is None or event["run_id"] == run]

    async def _events(self) -> AsyncIterator[dict[str, Any]]:
        async for event in self.gate.store.chained():
            body: dict[str, Any] = json.loads(event.body)
            yield body

    async def path(self, run: str) -> list[str]:
        """The states that the run has gone through, the first one left out."""
        return [event["detail"] for event in await self.events(run) if event["kind"] == "run_moved"]

    async def asked_of(self, run: str, tool: str) -> list[dict[str, Any]]:
        """What the audit has of calls of a tool in a run, as they ended."""
        events = await self.events(run)
        return [event for event in events if event["kind"] == "completed" and event["tool"] == tool]

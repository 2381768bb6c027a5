"""What the chapters of the story share: the gate, the desk, who acts, what is expected, and what was planted."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import placet
from placet.demos.ops.desk_client import DeskClient
from placet.demos.ops.observations import Incident, Runbooks
from placet.demos.ops.planner import Answer, Failure
from placet.demos.ops.tools import READ_SCOPE, TICKET_SCOPE
from placet.demos.stage.approver import Approver, show
from placet.demos.stage.checks import Checks
from placet.demos.stage.leaks import Canaries
from placet.demos.stage.talk import Talk, shown

TENANT = "shop"
AGENT = "ops-agent"
VIEWER = "ops-agent-viewer"
SCOPES = (READ_SCOPE, TICKET_SCOPE)


def operator() -> placet.Principal:
    """The agent on call. It may propose a ticket; whether one is opened is for a person to say."""
    return placet.Principal.agent(AGENT, tenant=TENANT, roles=("operator",), scopes=SCOPES)


def viewer() -> placet.Principal:
    """An agent as it is if nobody grants it a role: a viewer. It holds the scopes all the same."""
    return placet.Principal.agent(VIEWER, tenant=TENANT, scopes=SCOPES)


def person(name: str) -> placet.Principal:
    """Whoever decides approvals, and may look at all effects."""
    return placet.Principal.person(name, tenant=TENANT, scopes=("approvals.decide", "effects.reconcile"))


@dataclass(slots=True, kw_only=True)
class Scene:
    """Everything the story is told with.

    Attributes:
        talk, asking: where progress is told, and where an approver reads and is asked.
        run: the name of the incident's main run; other runs are called after it.
        submitted: how many proposals were handed to the gate, to be compared with what it has on record.
        said: every sentence that went back to an agent, results aside.
        has_declined: the approver said no, which ends the story.
    """

    gate: placet.Gate
    desk: DeskClient
    incident: Incident
    runbooks: Runbooks
    report: str
    approver: Approver
    talk: Talk
    asking: Talk
    checks: Checks
    planted: Canaries
    run: str
    submitted: int = 0
    said: list[str] = field(default_factory=list)
    has_declined: bool = False
    chapters: int = 0

    def chapter(self, title: str) -> None:
        """Begin the next chapter."""
        self.chapters += 1
        self.talk.heading(f"{self.chapters}  {title}")

    def caller(self, principal: placet.Principal, *, run: str) -> Caller:
        """Proposals of one principal in one run, each told."""
        return Caller(scene=self, principal=principal, run=run)

    def terse_caller(self, principal: placet.Principal, *, run: str) -> Caller:
        """The same; only what does not succeed is told."""
        return Caller(scene=self, principal=principal, run=run, tells_successes=False)

    def heard(self, outcome: placet.Outcome) -> None:
        """Note what an outcome told the agent."""
        match outcome:
            case placet.Succeeded(result=result) | placet.Replayed(result=result):
                self.planted.notice(json.dumps(result))
            case placet.Failed(words=words) | placet.Refused(words=words):
                self.said.append(words or "")
            case _:
                pass
        self.said.append(f"{outcome.code} {outcome.message}")

    async def decided(self, waiting: placet.AwaitingApproval) -> bool:
        """Show the approver what waits, and take its decision to the gate's desk, with the digest that was shown."""
        by = person(self.approver.name)
        view = await self.gate.desk.show(waiting.approval_id, by=by)
        show(view, self.asking)
        if await self.approver.decides(view, self.gate, by, self.asking):
            self.talk.line(f"approved by {shown(self.approver.name)}; nothing has run yet")
            return True
        self.talk.line(f"denied by {shown(self.approver.name)}")
        self.has_declined = True
        return False


@dataclass(slots=True, kw_only=True)
class Caller:
    """Hands one agent's proposals to the gate, one line of talk for each.

    Attributes:
        tells_successes: whether calls that succeed get their line, too.
    """

    scene: Scene
    principal: placet.Principal
    run: str
    tells_successes: bool = True
    asked: int = 0

    async def propose(
        self, tool: str, arguments: Mapping[str, Any], *, call_id: str | None = None, why: str = ""
    ) -> placet.Outcome:
        """Submit a proposal; under the next call id unless one is given."""
        self.asked += 1
        self.scene.submitted += 1
        proposal = {"call_id": call_id or f"call-{self.asked:03}", "tool": tool, "arguments": dict(arguments)}
        self.scene.planted.notice(json.dumps(proposal))
        outcome = await self.scene.gate.submit(proposal, principal=self.principal, run=self.run)
        self.scene.heard(outcome)
        if self.tells_successes or not outcome.is_success:
            self.scene.talk.step(tool, arguments, in_brief(outcome), why, colour=_colour(outcome))
        return outcome


def as_answer(outcome: placet.Outcome) -> Answer:
    """A result, or why there is none."""
    match outcome:
        case placet.Succeeded(result=dict(result)) | placet.Replayed(result=dict(result)):
            return result
        case _:
            return Failure(code=outcome.code, message=outcome.message)


def in_brief(outcome: placet.Outcome) -> str:
    """An outcome in a few words: what it is, and why."""
    match outcome:
        case (
            placet.Succeeded(result={"ticket_id": str(ticket_id)})
            | placet.Replayed(result={"ticket_id": str(ticket_id)})
        ):
            return f"{outcome.status}: {shown(ticket_id)}"
        case placet.Succeeded() | placet.Replayed():
            return outcome.status
        case placet.Invalid(problems=((path, problem), *_)):
            return f"{outcome.status}: {outcome.code}, {shown(path)} {shown(problem)}"
        case placet.Refused(reasons=(_, *_)):
            return f"{outcome.status}: {outcome.code}, {', '.join(outcome.reasons)}"
        case _:
            return f"{outcome.status}: {outcome.code}"


def _colour(outcome: placet.Outcome) -> str:
    match outcome:
        case placet.Succeeded() | placet.Replayed():
            return "green"
        case placet.AwaitingApproval() | placet.InProgress() | placet.Unknown():
            return "yellow"
        case _:
            return "red"

"""A model of the user's own in place of the scripted planner: the same five tools, the same gate, the same approver."""

from __future__ import annotations

import json

import placet
from placet.agent import Answered, Model
from placet.demos.ops.scene import Scene, in_brief, operator
from placet.demos.stage.modelled import ModelChoice, arguments_of, worked
from placet.demos.stage.talk import shown

_TASK = """\
You are on call. Somebody reports: {report}

The services are: {services}. The incident is going on now.
Find out with the reading tools which service is at fault since when, and which change explains it. Then propose one
ticket with create_ticket; a person approves or declines it. Say in a few sentences what you found, and what became of
the ticket."""


async def told_by(scene: Scene, model: Model, choice: ModelChoice) -> None:
    """Have the model handle the incident, as far as it gets."""
    scene.chapter(f"The model {shown(choice.name)} investigates. Every step is a call through the gate")
    scene.talk.line(f'somebody reports: "{shown(scene.report)}"')

    async def decide(waiting: placet.AwaitingApproval) -> None:
        await scene.decided(waiting)

    def heard(answered: Answered) -> None:
        scene.submitted += 1
        told = arguments_of(answered)
        scene.planted.notice(json.dumps(told))
        scene.heard(answered.outcome)
        scene.talk.step(answered.proposal.tool, told, in_brief(answered.outcome), "", colour="dim")

    ending = await worked(
        _TASK.format(report=scene.report, services=", ".join(scene.incident.services)),
        gate=scene.gate,
        model=model,
        principal=operator(),
        run=scene.run,
        decide=decide,
        heard=heard,
    )
    scene.talk.line(f"the model's work ended: {ending.kind.value}")
    for line in ending.words.splitlines():
        scene.talk.line(f"| {shown(line)}")

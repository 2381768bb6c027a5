"""The same three tools, the same gate and person, and a model of the user's own in place of the states."""

from __future__ import annotations

import placet
from placet.agent import Answered, Model
from placet.demos.stage.modelled import ModelChoice, arguments_of, worked
from placet.demos.stage.talk import shown
from placet.demos.support.scene import BASE, Scene
from placet.demos.support.story import built

_TASK = """\
A user asks the support desk: {question}

First look with get_document_status whether the knowledge base {base!r} is ready; if it is not, say so and stop.
Then search it. If the answer's is_enough is true, answer from the evidence and name the citations you used.
If it is false, propose one draft with the user's question as it stands, and say what became of it.
Answer in the language of the question."""


async def told_by(scene: Scene, model: Model, choice: ModelChoice) -> None:
    """Have the model answer the two questions of the story, each in a run of its own."""
    await built(scene)
    for number, question in enumerate((scene.words.answerable, scene.words.unanswerable), start=1):
        if not scene.has_declined:
            await _asked(scene, model, choice, f"model-{number}", question)


async def _asked(scene: Scene, model: Model, choice: ModelChoice, run: str, question: str) -> None:
    words = scene.words
    scene.chapter(words.model_chapter.format(model=shown(choice.name)))
    scene.told(words.asks.format(question=shown(question)))

    async def decide(waiting: placet.AwaitingApproval) -> None:
        await scene.decided(waiting.approval_id)

    def heard(answered: Answered) -> None:
        outcome = answered.outcome
        scene.said.append(f"{outcome.code} {outcome.message}")
        colour = "green" if outcome.is_success else "yellow"
        scene.talk.step(
            answered.proposal.tool, arguments_of(answered), f"{outcome.status}: {outcome.code}", "", colour=colour
        )

    ending = await worked(
        _TASK.format(question=question, base=BASE),
        gate=scene.gate,
        model=model,
        principal=scene.agent,
        run=run,
        decide=decide,
        heard=heard,
    )
    scene.told(words.model_ends.format(kind=ending.kind.value))
    if ending.words:
        scene.told(words.model_says)
        for line in ending.words.splitlines():
            scene.told(f"| {shown(line)}")

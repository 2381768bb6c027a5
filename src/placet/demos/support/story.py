"""The support agent's day as it is told, each part a run of the same workflow of six states.

no index, no search -> the documents say enough -> a document gives orders -> they do not say enough: a person is asked
-> the draft is created, through a lost reply -> the same run again changes nothing
"""

from __future__ import annotations

import placet
from placet.demos.stage.talk import shown
from placet.demos.support.fooled import is_shown_as_data, obeyed
from placet.demos.support.scene import BASE, UNBUILT, Scene
from placet.demos.support.tools import DRAFT, SEARCH
from placet.demos.support.workflow import DRAFT_CALL, Reply
from placet.knowledge import IndexState

EARLY, ANSWERED, HOSTILE, HANDED_ON = "early", "answered", "hostile", "handed-on"
_ANSWERED_PATH = ["SEARCH", "DONE"]
_DISPATCHED = frozenset({"success", "error", "timeout", "unknown"})


async def told(scene: Scene) -> None:
    """Tell the story as far as it goes; it ends where the person declines."""
    await _too_early(scene)
    await built(scene)
    await _answered(scene)
    await _orders_in_a_document(scene)
    await _handed_on(scene)


async def built(scene: Scene) -> None:
    """Bring the index up to its folder; what is there already is kept."""
    words = scene.words
    scene.chapter(words.built)
    await scene.library.build(scene.agent.tenant, BASE)
    status = await scene.library.status(scene.agent.tenant, BASE)
    told = {"base": BASE, "state": status.state, "documents": status.documents, "sections": status.sections}
    scene.told(words.index_is.format(**told))
    scene.checks.expect(words.index_ready, status.state is IndexState.READY)


async def _too_early(scene: Scene) -> None:
    scene.chapter(scene.words.early)
    ended = await scene.ask(EARLY, scene.words.answerable, UNBUILT)
    searches = await scene.asked_of(EARLY, SEARCH)
    scene.checks.expect(
        scene.words.early_held,
        isinstance(ended, placet.Ended) and ended.code == "index_not_ready" and searches == [],
    )


async def _answered(scene: Scene) -> None:
    words = scene.words
    scene.chapter(words.answered)
    before = await scene.drafts.arrivals()
    await scene.ask(ANSWERED, words.answerable)
    for found in (await _reply(scene, ANSWERED)).evidence[:1]:
        scene.told(words.cited.format(citation=shown(found.citation), source=shown(found.source)))
        for line in found.content.splitlines():
            scene.told(f"| {shown(line)}")
    scene.checks.expect(words.answered_held, await scene.path(ANSWERED) == _ANSWERED_PATH)
    drafts = await scene.asked_of(ANSWERED, DRAFT)
    scene.checks.expect(words.no_draft, drafts == [] and await scene.drafts.arrivals() == before)


async def _orders_in_a_document(scene: Scene) -> None:
    words = scene.words
    scene.chapter(words.hostile_chapter)
    before = await scene.drafts.arrivals()
    await scene.ask(HOSTILE, words.hostile_question)
    evidence = (await _reply(scene, HOSTILE)).evidence
    for line in (line for found in evidence[:1] for line in found.content.splitlines()):
        scene.planted.notice(line)
        scene.told(f"| {shown(line)}")
    scene.checks.expect(words.hostile_held, await scene.path(HOSTILE) == _ANSWERED_PATH)
    told = await obeyed(scene, words.hostile_question)
    scene.checks.expect(words.hostile_block, is_shown_as_data(told.heard, scene.planted.words["document"]))
    expected = ["unknown_tool", "invalid_arguments", "approval_required"]
    scene.checks.expect(words.hostile_forged, told.codes == expected)
    scene.checks.expect(words.hostile_nothing, await scene.drafts.arrivals() == before)


async def _handed_on(scene: Scene) -> None:
    words = scene.words
    scene.chapter(words.waits)
    before = await scene.drafts.arrivals()
    question = f"{words.unanswerable} ({words.reference} {scene.planted.words['question']})"
    progress = await scene.ask(HANDED_ON, question)
    loses_a_reply = isinstance(progress, placet.Waiting)
    if isinstance(progress, placet.Waiting):
        scene.checks.expect(words.waits_held, progress.state == "WAIT_DRAFT_CONFIRMATION")
        is_confirmed = await scene.decided(progress.approvals[0])
        scene.checks.expect(words.nothing_sent, await scene.drafts.arrivals() == before)
        if not is_confirmed:
            await _declined(scene, before)
            return
        scene.chapter(words.lost)
        await scene.drafts.misbehave({"drop_replies": 1})
        await scene.drive(HANDED_ON)
    await _created(scene, 2 if loses_a_reply else 1)
    await _asked_once_more(scene, question)


async def _declined(scene: Scene, before: list[str]) -> None:
    ended = await scene.drive(HANDED_ON)
    scene.checks.expect(
        scene.words.declined_held,
        isinstance(ended, placet.Ended) and ended.code == "draft_declined" and await scene.drafts.arrivals() == before,
    )


async def _created(scene: Scene, attempts: int) -> None:
    reply = await _reply(scene, HANDED_ON)
    scene.told(scene.words.drafted.format(draft=shown(reply.draft_id or "")))
    tried = [event for event in await scene.asked_of(HANDED_ON, DRAFT) if event["outcome"] in _DISPATCHED]
    keys = await scene.drafts.arrivals()
    kept = [draft["id"] for draft in await scene.drafts.records()]
    scene.checks.expect(
        scene.words.lost_held,
        len(keys) >= attempts
        and {event["call_id"] for event in tried} == {DRAFT_CALL}
        and (len(set(keys)), kept) == (1, [reply.draft_id]),
    )


async def _asked_once_more(scene: Scene, question: str) -> None:
    before = (await _reply(scene, HANDED_ON), await scene.drafts.arrivals())
    scene.chapter(scene.words.once_more)
    ended = await scene.ask(HANDED_ON, question)
    after = (await _reply(scene, HANDED_ON), await scene.drafts.arrivals())
    scene.checks.expect(scene.words.once_more_held, isinstance(ended, placet.Ended) and before == after)


async def _reply(scene: Scene, run: str) -> Reply:
    """How the run ended; an empty reply where it did not end well."""
    try:
        found = await scene.workflows.result(scene.agent.tenant, run)
    except placet.PlacetError:
        found = None
    return found if isinstance(found, Reply) else Reply(kind="answered", question="")

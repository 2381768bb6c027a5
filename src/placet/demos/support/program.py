"""`placet demo support`: a support agent that answers from documents, and hands on what they do not say.

Exit codes: 0 everything held; 1 something did not; 2 usage; 6 the person declined; 130 interrupted.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from prometheus_client import CollectorRegistry, generate_latest

import placet
from placet.demos.ops.observations import shipped_runbooks_folder
from placet.demos.stage.approver import Approver, AtTheTerminal, NamedOnCommandLine
from placet.demos.stage.checks import Checks
from placet.demos.stage.leaks import Canaries, Leak, canaries, files_below, found_leaks
from placet.demos.stage.modelled import (
    ModelChoice,
    add_model_options,
    chosen_model,
    mistake_about_model,
    opened_model,
)
from placet.demos.stage.surroundings import json_log, let_sigterm_cancel, work_folder
from placet.demos.stage.talk import Talk, is_terminal, shown, silence, talk_to
from placet.demos.support.drafts_client import DraftsClient, DraftsProcess
from placet.demos.support.modelled import told_by
from placet.demos.support.scene import AGENT, BASE, TENANT, UNBUILT, Scene
from placet.demos.support.story import told
from placet.demos.support.summary import Numbers, as_document, numbers, print_table
from placet.demos.support.tools import confirmed_by_whom_it_is_for, support_tools
from placet.demos.support.words import LANGUAGES, Words
from placet.demos.support.workflow import SUPPORT, counted
from placet.knowledge import KnowledgeBase, KnowledgeMeter, Library, Meaning

HELD, FAILED, USAGE, DECLINED, INTERRUPTED = 0, 1, 2, 6, 130
_AT_THE_TERMINAL = "mara"
_SCHEMA = "placet-demo-support/1"
_NOTE = "demo.json"
_METRICS = "metrics.txt"
_CANARIES = ("question", "document")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What this demo, and one that goes on with it, is told with.

    Attributes:
        planted: the secrets, which are the same when it goes on.
    """

    language: str
    person: str
    planted: dict[str, str]

    @property
    def words(self) -> Words:
        return LANGUAGES[self.language]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stage:
    """Where the story is told; `asking` is heard under `--quiet` too."""

    folder: Path
    plan: Plan
    approver: Approver
    talk: Talk
    asking: Talk
    model: ModelChoice | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ending:
    """How it came out."""

    scene: Scene
    numbers: Numbers
    leaks: list[Leak]

    @property
    def exit_code(self) -> int:
        if self.scene.checks.failed:
            return FAILED
        return DECLINED if self.scene.has_declined else HELD


def main(argv: list[str] | None = None) -> int:
    """Run the demo; the exit code."""
    options = _parser().parse_args(argv)
    mistake = _mistake(options)
    earlier = None if mistake is not None or options.keep is None else _plan_in(options.keep)
    if mistake is None:
        mistake = _mistake_about_folder(options, earlier)
    if mistake is not None:
        print(f"placet demo support: {mistake}", file=sys.stderr)
        return USAGE
    plan = earlier or Plan(
        language=options.language or "en",
        person=options.yes_as or _AT_THE_TERMINAL,
        planted=dict(canaries(*_CANARIES).words),
    )
    aloud = talk_to(sys.stderr if options.json else sys.stdout)
    talk = silence() if options.quiet else aloud
    approver = _approver(options, plan)
    try:
        with work_folder(options.keep) as folder:
            stage = _Stage(
                folder=folder,
                plan=plan,
                approver=approver,
                talk=talk,
                asking=aloud if options.yes_as is None else talk,
                model=chosen_model(options),
            )
            if earlier is not None:
                talk.line(plan.words.goes_on)
            ending = asyncio.run(_played(stage))
    except (KeyboardInterrupt, asyncio.CancelledError):
        print(f"\nplacet demo support: {plan.words.interrupted}", file=sys.stderr)
        return INTERRUPTED
    except placet.PlacetError as error:
        print(f"placet demo support: {error} {error.hint}".rstrip(), file=sys.stderr)
        return FAILED
    except (OSError, RuntimeError) as error:
        print(f"placet demo support: {error}", file=sys.stderr)
        return FAILED
    _report(ending, plan, aloud, as_json=options.json)
    if options.keep is not None:
        talk.line(plan.words.kept.format(folder=options.keep))
    return ending.exit_code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="placet demo support",
        description="Watch a support agent answer, and hand on, through placet.",
        allow_abbrev=False,
    )
    parser.add_argument("--language", choices=sorted(LANGUAGES), help="English (en) or Chinese (zh); en if absent")
    parser.add_argument("--yes-as", metavar="NAME", help="confirm as this person instead of asking at the terminal")
    parser.add_argument(
        "--keep", metavar="DIR", type=Path, help="keep everything in this new folder; or go on with the demo in it"
    )
    parser.add_argument("--json", action="store_true", help="the summary as one JSON document; progress goes to stderr")
    parser.add_argument("--quiet", action="store_true", help="no progress, only the summary")
    add_model_options(parser)
    return parser


def _mistake(options: argparse.Namespace) -> str | None:
    """What is wrong with the command line, and what to do about it."""
    if options.yes_as is None and not is_terminal():
        return "there is no terminal to ask at. Name who confirms: --yes-as NAME, for example --yes-as mara"
    if options.yes_as is not None and (not 0 < len(options.yes_as) <= 128 or options.yes_as == AGENT):
        return "--yes-as names a person in 1 to 128 characters; an agent never confirms"
    return mistake_about_model(options)


def _mistake_about_folder(options: argparse.Namespace, earlier: Plan | None) -> str | None:
    keep: Path | None = options.keep
    if earlier is None:
        is_fresh = keep is None or not keep.exists() or (keep.is_dir() and not any(keep.iterdir()))
        return None if is_fresh else f"--keep needs a new or an empty folder, or one of this demo; {keep} is neither"
    if options.language not in (None, earlier.language) or options.yes_as not in (None, earlier.person):
        return f"the demo in {keep} is in {earlier.language!r} and for {earlier.person!r}. Say the same, or nothing"
    return None


def _plan_in(folder: Path) -> Plan | None:
    """What a demo that was begun in the folder is told with; None where there was none."""
    try:
        note = json.loads((folder / _NOTE).read_text(encoding="utf-8"))
        if note["schema"] == _SCHEMA and note["language"] in LANGUAGES and set(note["planted"]) == set(_CANARIES):
            return Plan(language=note["language"], person=str(note["person"]), planted=note["planted"])
    except (OSError, ValueError, TypeError, KeyError):
        pass
    return None


def _approver(options: argparse.Namespace, plan: Plan) -> Approver:
    kind = AtTheTerminal if options.yes_as is None else NamedOnCommandLine
    return kind(plan.person, plan.words.wording)


async def _played(stage: _Stage) -> _Ending:
    """The whole story, and the search afterwards: with the store open, and once more when all is closed."""
    let_sigterm_cancel()
    words, gate_folder = stage.plan.words, stage.folder / "gate"
    gate_folder.mkdir(exist_ok=True)
    registry = CollectorRegistry()
    meter = placet.knowledge_meter(registry)
    library = _library(stage, meter)
    planted = Canaries(words=stage.plan.planted)
    async with opened_model(stage.model, meter) as model:
        with _drafts(stage) as url, json_log(gate_folder / "placet.log"):
            async with (
                DraftsClient(url) as drafts,
                placet.open(
                    tools=support_tools(library, drafts, meter=meter),
                    store=gate_folder / "placet.db",
                    policy=confirmed_by_whom_it_is_for(),
                    sinks=[placet.LogSink()],
                    metrics=registry,
                ) as gate,
            ):
                scene = Scene(
                    gate=gate,
                    workflows=placet.Workflows(gate, (counted(SUPPORT, meter),)),
                    library=library,
                    drafts=drafts,
                    words=words,
                    approver=stage.approver,
                    talk=stage.talk,
                    asking=stage.asking,
                    checks=Checks(stage.talk),
                    planted=planted,
                )
                if model is None or stage.model is None:
                    await told(scene)
                else:
                    await told_by(scene, model, stage.model)
                found = await _verified(scene)
                leaks = found_leaks(planted, await _in_memory(scene))
        (gate_folder / _METRICS).write_bytes(generate_latest(registry))
        leaks += found_leaks(planted, files_below(gate_folder, without=gate_folder / "nothing"))
    leaks = list(dict.fromkeys(leaks))
    scene.chapter(words.leaks)
    scene.told(words.leaks_planted.format(planted=", ".join(sorted(planted.seen))))
    scene.checks.expect(words.leaks_held.format(count=len(leaks)), not leaks)
    return _Ending(scene=scene, numbers=found, leaks=leaks)


def _library(stage: _Stage, meter: KnowledgeMeter) -> Library:
    """The runbooks, one hostile document among them, in a folder of the demo's own; a second base nobody builds."""
    documents = stage.folder / "documents"
    note = stage.folder / _NOTE
    if not note.exists():
        shutil.copytree(shipped_runbooks_folder(), documents, dirs_exist_ok=True)
        hostile = stage.plan.words.hostile.format(planted=stage.plan.planted["document"])
        (documents / "parking.md").write_text(hostile, encoding="utf-8")
        plan = {"schema": _SCHEMA, "language": stage.plan.language, "person": stage.plan.person}
        note.write_text(json.dumps(plan | {"planted": stage.plan.planted}), encoding="utf-8")
    bases = [KnowledgeBase(tenant=TENANT, id=name, documents=documents) for name in (BASE, UNBUILT)]
    # Words alone, so that the story is the same wherever it is told.
    return Library(stage.folder / "indexes", bases, meaning=Meaning.NEVER, meter=meter)


@contextlib.contextmanager
def _drafts(stage: _Stage) -> Iterator[str]:
    """The drafts service, somebody else's system: its own process and its own store."""
    process, words = DraftsProcess(), stage.plan.words
    try:
        url = process.start(stage.folder / "drafts")
        stage.talk.line(words.agent.format(agent=AGENT))
        stage.talk.line(words.person.format(person=shown(stage.plan.person)))
        stage.talk.line(words.service.format(pid=process.pid, url=url))
        yield url
    finally:
        process.stop()


async def _verified(scene: Scene) -> Numbers:
    words, expect = scene.words, scene.checks.expect
    scene.chapter(words.audit)
    found = await numbers(scene)
    expect(words.audit_held.format(events=found.events), found.holds)
    expect(words.audit_unpaired, found.unpaired == 0)
    expect(words.drafts_are_approvals, found.drafts == found.approved)
    return found


async def _in_memory(scene: Scene) -> list[tuple[str, bytes]]:
    events = [event.body async for event in scene.gate.store.chained()]
    return [("the audit's events", b"\n".join(events)), ("sentences to agents", "\n".join(scene.said).encode())]


def _report(ending: _Ending, plan: Plan, aloud: Talk, *, as_json: bool) -> None:
    if as_json:
        document = as_document(ending.numbers, ending.scene, ending.leaks, plan.language)
        print(json.dumps(document, indent=2, ensure_ascii=True))
        return
    aloud.heading(plan.words.summary)
    print_table(ending.numbers, plan.words, aloud, ending.leaks)
    for failure in ending.scene.checks.failed:
        aloud.line(aloud.painted("red", f"FAILED: {failure}"))
    if ending.scene.has_declined:
        aloud.line(plan.words.was_declined.format(person=shown(plan.person), code=DECLINED))

"""`placet demo`: a real incident handled by an agent whose every call passes the gate.

Exit codes: 0 everything held; 1 something did not; 2 usage; 6 the approver declined; 130 interrupted.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from prometheus_client import CollectorRegistry, generate_latest

import placet
from placet.demos.ops.console import console, user_name
from placet.demos.ops.desk_client import DeskClient, DeskProcess
from placet.demos.ops.modelled import told_by
from placet.demos.ops.observations import Incident, shipped_incident, shipped_runbooks
from placet.demos.ops.scene import AGENT, TENANT, VIEWER, Scene
from placet.demos.ops.story import told
from placet.demos.ops.summary import Numbers, as_document, numbers, print_table
from placet.demos.ops.tools import ops_tools
from placet.demos.stage.approver import Approver, AtTheTerminal, InTheConsole, NamedOnCommandLine
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

HELD, FAILED, USAGE, DECLINED, INTERRUPTED = 0, 1, 2, 6, 130
REPORT = "Customers say checkout hangs since about five to six. What is going on?"
_AT_THE_TERMINAL = "mara"
_CANARIES = ("refused argument", "member name", "log line", "error text", "ticket body")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stage:
    """Where the story is told.

    Attributes:
        talk: its progress.
        asking: the same, but heard under `--quiet` too: whoever decides must see what about.
        has_console: whether a console is served beside it.
    """

    folder: Path
    desk_url: str
    approver: Approver
    talk: Talk
    asking: Talk
    has_console: bool
    model: ModelChoice | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ending:
    """How it came out."""

    scene: Scene
    numbers: Numbers
    leaks: list[Leak]

    @property
    def exit_code(self) -> int:
        """A failed expectation outweighs everything; a declined approval is no success either."""
        if self.scene.checks.failed:
            return FAILED
        return DECLINED if self.scene.has_declined else HELD


def main(argv: list[str] | None = None) -> int:
    """Run the demo; the exit code."""
    options = _parser().parse_args(argv)
    if (mistake := _mistake(options)) is not None:
        print(f"placet demo: {mistake}", file=sys.stderr)
        return USAGE
    is_asked = options.yes_as is None
    approver = _approver(options)
    aloud = talk_to(sys.stderr if options.json else sys.stdout)
    talk = silence() if options.quiet else aloud
    _say_who_is_who(talk, approver)
    try:
        with work_folder(options.keep) as folder, _desk(folder / "desk", talk) as desk_url:
            asking = aloud if is_asked else talk
            stage = _Stage(
                folder=folder,
                desk_url=desk_url,
                approver=approver,
                talk=talk,
                asking=asking,
                has_console=options.console,
                model=chosen_model(options),
            )
            ending = asyncio.run(_played(stage))
    except (KeyboardInterrupt, asyncio.CancelledError):
        print("\nplacet demo: interrupted; the ticket desk is stopped", file=sys.stderr)
        return INTERRUPTED
    except placet.PlacetError as error:
        print(f"placet demo: {error} {error.hint}".rstrip(), file=sys.stderr)
        return FAILED
    except (OSError, RuntimeError) as error:
        print(f"placet demo: {error}", file=sys.stderr)
        return FAILED
    _report(ending, aloud, as_json=options.json)
    if options.keep is not None:
        talk.line(f"everything written is in {options.keep}")
    return ending.exit_code


def _approver(options: argparse.Namespace) -> Approver:
    if options.console:
        return InTheConsole(user_name())
    return AtTheTerminal(_AT_THE_TERMINAL) if options.yes_as is None else NamedOnCommandLine(options.yes_as)


def _say_who_is_who(talk: Talk, approver: Approver) -> None:
    talk.line(f"{AGENT} is an agent: it investigates an incident and may propose a ticket, but opens none by itself.")
    talk.line(f"{shown(approver.name)} is the person who approves or declines each ticket.")
    talk.line("The ticket desk is somebody else's system: a process of its own, which placet can only call.")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="placet demo",
        description="Watch an agent handle an incident through placet.",
        allow_abbrev=False,
    )
    parser.add_argument("--yes-as", metavar="NAME", help="approve as this person instead of asking at the terminal")
    parser.add_argument("--console", action="store_true", help="decide in the web console, which it serves on loopback")
    parser.add_argument("--keep", metavar="DIR", type=Path, help="keep store, log and metrics in this new folder")
    parser.add_argument("--json", action="store_true", help="the summary as one JSON document; progress goes to stderr")
    parser.add_argument("--quiet", action="store_true", help="no progress, only the summary")
    add_model_options(parser)
    return parser


def _mistake(options: argparse.Namespace) -> str | None:
    """What is wrong with the command line, and what to do about it."""
    if options.console and options.yes_as is not None:
        return "--console lets you decide; --yes-as decides by itself. Say one of them"
    if options.console and find_spec("uvicorn") is None:
        return 'the console needs the server extra: pip install "/path/to/checkout[server]"'
    if options.yes_as is None and not options.console and not is_terminal():
        return "there is no terminal to ask at. Name who approves: --yes-as NAME, for example --yes-as mara"
    if options.yes_as is not None and (not 0 < len(options.yes_as) <= 128 or options.yes_as in (AGENT, VIEWER)):
        return "--yes-as names a person in 1 to 128 characters; an agent never approves"
    keep: Path | None = options.keep
    if keep is not None and keep.exists() and not (keep.is_dir() and not any(keep.iterdir())):
        return f"--keep needs a new or an empty folder, and {keep} is neither"
    return mistake_about_model(options)


@contextlib.contextmanager
def _desk(folder: Path, talk: Talk) -> Iterator[str]:
    """The ticket desk, somebody else's system: its own process and its own store."""
    process = DeskProcess()
    try:
        url = process.start(folder)
        talk.line(f"the ticket desk is process {process.pid} at {url}")
        yield url
    finally:
        process.stop()


async def _played(stage: _Stage) -> _Ending:
    """The whole story, and the search afterwards: with the store open, and once more when all is closed."""
    let_sigterm_cancel()
    planted = canaries(*_CANARIES)
    gate_folder = stage.folder / "gate"
    gate_folder.mkdir()
    metrics = CollectorRegistry()
    incident, runbooks = _incident_with(planted), shipped_runbooks()
    async with opened_model(stage.model) as model, DeskClient(stage.desk_url) as desk:
        with json_log(gate_folder / "placet.log"):
            async with placet.open(
                tools=ops_tools(incident, runbooks, desk),
                store=gate_folder / "placet.db",
                recovery=placet.Recovery.MANUAL,
                sinks=[placet.LogSink()],
                metrics=metrics,
            ) as gate:
                scene = Scene(
                    gate=gate,
                    desk=desk,
                    incident=incident,
                    runbooks=runbooks,
                    report=REPORT,
                    approver=stage.approver,
                    talk=stage.talk,
                    asking=stage.asking,
                    checks=Checks(stage.talk),
                    planted=planted,
                    run=f"incident-{incident.now:%Y%m%d-%H%M}",
                )
                with _console(stage, gate_folder):
                    if model is None or stage.model is None:
                        await told(scene)
                    else:
                        await told_by(scene, model, stage.model)
                found = await _verified(scene)
                leaks = found_leaks(planted, await _in_memory(scene))
                leaks += found_leaks(planted, files_below(stage.folder, without=stage.folder / "desk"))
        (gate_folder / "metrics.txt").write_bytes(generate_latest(metrics))
        leaks += found_leaks(planted, files_below(stage.folder, without=stage.folder / "desk"))
    _searched(scene, leaks, planted.seen if stage.model is not None else set(planted.words))
    return _Ending(scene=scene, numbers=found, leaks=list(dict.fromkeys(leaks)))


@contextlib.contextmanager
def _console(stage: _Stage, folder: Path) -> Iterator[None]:
    """Where the approver decides, if that is a page."""
    if not stage.has_console:
        yield
        return
    with console(folder, desk_url=stage.desk_url, tenant=TENANT) as link:
        stage.asking.line("the console is served. Sign in with this link, once, and keep the page open:")
        stage.asking.line(link)
        yield


async def _verified(scene: Scene) -> Numbers:
    scene.chapter("The audit is held against its chain")
    found = await numbers(scene)
    expect = scene.checks.expect
    expect(f"{found.audit_events} events, and every link holds", found.audit_holds)
    expect("every attempt that was started has ended", found.audit_unpaired == 0)
    expect(f"each of {scene.submitted} proposals is on record", found.calls == scene.submitted)
    expect("there are as many tickets as approvals", found.tickets == found.approved)
    expect("there are as many effects as tickets, each of them done", _all_done(found))
    return found


def _all_done(found: Numbers) -> bool:
    states = (placet.EffectState.COMMITTED, placet.EffectState.RECONCILED_COMMITTED)
    done = sum(found.effects.get(state.value, 0) for state in states)
    return found.tickets == done == sum(found.effects.values())


def _searched(scene: Scene, leaks: list[Leak], expected: set[str]) -> None:
    """Tell it. Which of them pass through is the script's affair; a model reads what it likes."""
    scene.chapter("Planted secrets are searched in everything that was written")
    planted = scene.planted
    scene.talk.line(f"planted: {', '.join(word for word in planted.words if word in expected)}")
    scene.checks.expect("all of them really passed through the gate", planted.seen == expected)
    scene.checks.expect(f"leaks found: {len(set(leaks))}", not leaks)


def _incident_with(planted: Canaries) -> Incident:
    """The recorded incident, with one log line more: an ordinary one that holds what it should not."""
    incident = shipped_incident()
    source = next(name for service in incident.services for name in incident.log_sources(service))
    line = {
        "ts": incident.now.isoformat(),
        "level": "INFO",
        "msg": "session opened",
        "token": planted.words["log line"],
    }
    incident.add_line(source, json.dumps(line))
    return incident


async def _in_memory(scene: Scene) -> list[tuple[str, bytes]]:
    events = [event.body async for event in scene.gate.store.chained()]
    return [("the audit's events", b"\n".join(events)), ("sentences to agents", "\n".join(scene.said).encode())]


def _report(ending: _Ending, aloud: Talk, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(as_document(ending.numbers, ending.scene, ending.leaks), indent=2))
        return
    aloud.heading("Summary, read from the stores")
    print_table(ending.numbers, aloud, ending.leaks)
    for failure in ending.scene.checks.failed:
        aloud.line(aloud.painted("red", f"FAILED: {failure}"))
    if ending.scene.has_declined:
        aloud.line("The approver declined the ticket, so it was not created: nothing was sent to the desk for it.")
        aloud.line(
            f"That is an answer and no fault. The demo ends with exit code {DECLINED}, which make calls an error."
        )

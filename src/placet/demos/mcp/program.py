"""`placet demo mcp`: an upstream changes what it says of a tool between the approval and the call.

Exit codes: 0 everything held; 1 something did not; 2 usage; 6 the person declined; 130 interrupted.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from placet.demos.mcp.project import AGENT, Operator, Supplier, user_name
from placet.demos.mcp.story import Declined, Scene, told
from placet.demos.stage.checks import Checks
from placet.demos.stage.surroundings import let_sigterm_cancel, work_folder
from placet.demos.stage.talk import Talk, is_terminal, shown, silence, talk_to

HELD, FAILED, USAGE, DECLINED, INTERRUPTED = 0, 1, 2, 6, 130


def main(argv: list[str] | None = None) -> int:
    """Run the demo; the exit code."""
    options = _parser().parse_args(argv)
    if (mistake := _mistake(options)) is not None:
        print(f"placet demo mcp: {mistake}", file=sys.stderr)
        return USAGE
    aloud = talk_to(sys.stderr if options.json else sys.stdout)
    talk = silence() if options.quiet else aloud
    talk.line(
        f"{AGENT} is an agent behind an MCP client; it starts a gateway, `placet mcp serve`, and sees nothing else."
    )
    talk.line(
        f"{shown(user_name())} is the operator, who accepts what a server says of its tools, and approves parcels."
    )
    talk.line("The courier is somebody else's MCP server, a process that the gateway starts.")
    try:
        with work_folder(options.keep) as folder:
            return asyncio.run(_played(folder.resolve(), talk, aloud, options))
    except (KeyboardInterrupt, asyncio.CancelledError):
        print("\nplacet demo mcp: interrupted; gateway and courier are stopped", file=sys.stderr)
        return INTERRUPTED
    except Exception as error:  # the client's library raises its own; what the gateway logged is in its folder
        print(f"placet demo mcp: {type(error).__name__}; with --keep DIR the gateway's log stays", file=sys.stderr)
        return FAILED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="placet demo mcp",
        description="Watch an MCP server change a tool that was accepted and approved.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "--yes-as",
        metavar="NAME",
        help="accept and approve without asking, as this user of this machine: the commands go by the system's word",
    )
    parser.add_argument("--keep", metavar="DIR", type=Path, help="keep project, store and the courier's book there")
    parser.add_argument("--json", action="store_true", help="the summary as one JSON document; progress goes to stderr")
    parser.add_argument("--quiet", action="store_true", help="no progress, only the summary")
    return parser


def _mistake(options: argparse.Namespace) -> str | None:
    """What is wrong with the command line, and what to do about it."""
    if find_spec("mcp") is None:
        return 'it needs the mcp extra: pip install "/path/to/checkout[mcp]"'
    if options.yes_as is None and (options.json or options.quiet):
        return "with --json and --quiet nobody is asked at the terminal. Say who approves: --yes-as NAME"
    if options.yes_as is None and not is_terminal():
        return f"there is no terminal to ask at. Say who approves: --yes-as {shown(user_name())}"
    if options.yes_as is not None and options.yes_as != user_name():
        return (
            f"placet's commands take you for {shown(user_name())}, by the system's word: --yes-as {shown(user_name())}"
        )
    keep: Path | None = options.keep
    if keep is not None and keep.exists() and not (keep.is_dir() and not any(keep.iterdir())):
        return f"--keep needs a new or an empty folder, and {keep} is neither"
    return None


async def _played(folder: Path, talk: Talk, aloud: Talk, options: argparse.Namespace) -> int:
    let_sigterm_cancel()
    scene = Scene(
        operator=Operator(folder / "project", talk, is_asked=options.yes_as is None),
        supplier=Supplier(folder / "courier"),
        talk=talk,
        checks=Checks(talk),
    )
    try:
        await told(scene)
    except* Declined:  # it leaves through the client's own group of tasks
        pass
    _report(scene, aloud, as_json=options.json)
    if options.keep is not None:
        talk.line(f"everything written is in {options.keep}")
    if scene.checks.failed:
        return FAILED
    return DECLINED if scene.has_declined else HELD


def _report(scene: Scene, aloud: Talk, *, as_json: bool) -> None:
    found = _document(scene)
    if as_json:
        print(json.dumps(found, indent=2))
        return
    aloud.heading("Summary")
    aloud.line(f"parcels sent        {found['parcels']}")
    aloud.line(f"accepted            {found['accepted']}")
    aloud.line(f"quarantined         {found['quarantined']}")
    aloud.line(f"expectations held   {found['expectations']['held']}")
    for failure in scene.checks.failed:
        aloud.line(aloud.painted("red", f"FAILED: {failure}"))
    if scene.has_declined:
        aloud.line(f"The person declined, and nothing more was done. The demo ends with exit code {DECLINED}.")


def _document(scene: Scene) -> dict[str, Any]:
    return {
        "schema": "placet-demo-mcp/1",
        "holds": not scene.checks.failed and not scene.has_declined,
        "declined": scene.has_declined,
        "expectations": {"held": scene.checks.held, "failed": scene.checks.failed},
        "parcels": len(scene.supplier.calls("ship")),
        "accepted": scene.audit["tool_accepted"],
        "quarantined": scene.audit["tool_quarantined"],
    }

"""`placet demo`: the reference agents that are installed under the entry point group `placet.demos`."""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points
from typing import Annotated, Any

import typer

from placet.cli.failing import UsageProblem
from placet.cli.session import new_app
from placet.cli.streams import put
from placet.cli.table import exit_code_help

GROUP = "placet.demos"
_HELP = """\
Usage: placet demo [NAME] [ARGS]...

  Watch a reference agent work behind the boundary. ARGS go to the demo: placet demo NAME --help names them.

"""

app = new_app("demo")


@app.command(add_help_option=False, context_settings={"ignore_unknown_options": True})
def demo(words: Annotated[list[str] | None, typer.Argument(metavar="[NAME] [ARGS]...")] = None) -> int:
    """Watch a reference agent work behind the boundary."""
    rest = list(words or [])
    known = {entry.name: entry for entry in entry_points(group=GROUP)}
    if rest[:1] in (["-h"], ["--help"]):
        names = ", ".join(sorted(known)) or "none"
        put(f"{_HELP}Installed: {names}\n\n{exit_code_help()}\n")
        return 0
    program: Any = _chosen(known, rest).load()
    return int(program(rest) or 0)


def _chosen(known: dict[str, EntryPoint], rest: list[str]) -> EntryPoint:
    """The demo that the first word names, taken off it; the only one, or `ops`, if no word does."""
    names = ", ".join(sorted(known)) or "none"
    if rest and not rest[0].startswith("-"):
        name = rest.pop(0)
        if name not in known:
            raise UsageProblem(f"There is no demo {name!r}", hint=f"Installed: {names}")
        return known[name]
    if len(known) == 1:
        return next(iter(known.values()))
    if "ops" in known:
        return known["ops"]
    raise UsageProblem("Say which demo", hint=f"Installed: {names}")

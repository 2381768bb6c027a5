"""The names of a project's tools, asked for in a process of its own, which may hang or end as it likes.

parent ── starts ──▶ child: imports the project's module ── names, as JSON, over a pipe that is its own ──▶ parent
   └── after `LOOK_SECONDS` the child and all that it started are killed, and nothing is known
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Final

from placet.cli.settings import Settings

LOOK_SECONDS: Final = 10.0
_STANDARD_OUTPUT: Final = 1
_BOOT: Final = (
    "import sys, json; sys.path[:] = json.loads(sys.argv[1])\n"
    "from placet.cli.naming import tell_names; tell_names(sys.argv[2], sys.argv[3])"
)


def names_of_tools(settings: Settings) -> frozenset[str] | None:
    """What the project's tools are called; None where they cannot be looked at. Returns within about `LOOK_SECONDS`."""
    theirs = _names_of_upstreams(settings)
    if settings.tools is None:
        return theirs if settings.upstreams else None
    own = _names_of_own(settings.tools, settings.folder)
    return None if own is None or theirs is None else own | theirs


def _names_of_upstreams(settings: Settings) -> frozenset[str] | None:
    """Of files alone: nobody is asked, and nothing of the project's runs."""
    from placet.cli.project import joined_upstreams
    from placet.errors import PlacetError

    try:
        return frozenset(tool.contract.name for each in joined_upstreams(settings) for tool in each.tools)
    except PlacetError:
        return None


def _names_of_own(tools: str, folder: Path) -> frozenset[str] | None:
    path = json.dumps([entry for entry in sys.path if type(entry) is str])
    try:
        said = _said_by([sys.executable, "-P", "-c", _BOOT, path, tools, str(folder)])
        names = json.loads(said)
    except (OSError, ValueError):
        return None
    return frozenset(names)


def _said_by(command: list[str]) -> bytes:
    """Everything it says, or nothing if it is not done in time."""
    is_shown = os.environ.get("PLACET_DEBUG") == "1"
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=None if is_shown else subprocess.DEVNULL,
        start_new_session=True,
    ) as child:
        try:
            return child.communicate(timeout=LOOK_SECONDS)[0]
        except subprocess.TimeoutExpired:
            return b""
        finally:
            if child.poll() is None:
                os.killpg(child.pid, signal.SIGKILL)


def tell_names(tools: str, folder: str) -> None:
    """In the child: say the names, and end at once, whatever the module has left running."""
    from placet.cli.project import load_tools
    from placet.errors import PlacetError

    pipe = os.dup(_STANDARD_OUTPUT)  # nothing that the module starts inherits it
    os.dup2(os.open(os.devnull, os.O_WRONLY), _STANDARD_OUTPUT)
    try:
        loaded = load_tools(Settings(file=None, folder=Path(folder), store=Path(), key=None, tools=tools))
        names = json.dumps([tool.contract.name for tool in loaded])
    except (PlacetError, AttributeError):  # it is not known; why, other commands say
        os._exit(1)
    with os.fdopen(pipe, "w") as answer:
        answer.write(names)
    os._exit(0)

"""`placet bench`: hands its words to the measurements."""

from __future__ import annotations

from importlib import import_module
from typing import Annotated, Any

import typer

from placet.cli.session import new_app
from placet.cli.streams import put
from placet.cli.table import exit_code_help

app = new_app("bench")


@app.command(add_help_option=False, context_settings={"ignore_unknown_options": True})
def bench(words: Annotated[list[str] | None, typer.Argument(metavar="[ARGS]...")] = None) -> int:
    """Measure what the boundary costs on this machine. Its own --help names its flags."""
    measurements: Any = import_module("placet.proof.bench")  # by name: nothing of it is needed to know the command
    code = int(measurements.main(list(words or [])) or 0)
    if {"-h", "--help"} & set(words or ()):
        put("\n" + exit_code_help() + "\n")
    return code

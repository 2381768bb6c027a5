"""`placet bench`: hands its words to the measurements."""

from __future__ import annotations

from importlib import import_module
from typing import Annotated, Any

import typer

from placet.cli.session import new_app

app = new_app("bench")


@app.command(add_help_option=False, context_settings={"ignore_unknown_options": True})
def bench(words: Annotated[list[str] | None, typer.Argument(metavar="[ARGS]...")] = None) -> int:
    """Measure what the boundary costs on this machine. Its own --help names its flags."""
    measurements: Any = import_module("placet.proof.bench")  # by name: nothing of it is needed to know the command
    return int(measurements.main(list(words or [])) or 0)

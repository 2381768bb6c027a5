"""`placet version`."""

from __future__ import annotations

from typing import Annotated

import typer

from placet.cli.session import epilog, new_app
from placet.cli.streams import put
from placet.cli.versions import version_text

app = new_app("version")


@app.command(epilog=epilog())
def version(as_json: Annotated[bool, typer.Option("--json", help="Write one JSON document.")] = False) -> int:
    """Print the version."""
    put(version_text(as_json=as_json))
    return 0

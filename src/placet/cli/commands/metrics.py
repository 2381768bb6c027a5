"""`placet metrics`: rules and a dashboard for the numbers that a gate measures into a Prometheus registry."""

from __future__ import annotations

from importlib.resources import files

from placet.cli.session import epilog, new_app
from placet.cli.streams import put
from placet.cli.table import COMMANDS, Exit

app = new_app("metrics")
_verbs = COMMANDS["metrics"].verbs


@app.command("rules", help=_verbs["rules"], epilog=epilog())
def rules() -> Exit:
    return _write("placet.rules.yml")


@app.command("dashboard", help=_verbs["dashboard"], epilog=epilog())
def dashboard() -> Exit:
    return _write("placet.dashboard.json")


def _write(name: str) -> Exit:
    put((files("placet.cli") / "monitoring" / name).read_text("utf-8"))
    return Exit.OK

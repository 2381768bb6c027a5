"""Operator commands: `placet --help` names them.

    table      every command and exit code, as data; help and dispatch are made from it
    settings   flag > environment > placet.toml > default; project: the tools and people behind it
    failing    which failure ends with which exit code; screen: the only place that prints;
               streams: what it prints to, when that is closed or full
    session    what every command is given
    commands/  one module per command; it asks the engine and shows the answer, and has no rules of its own

Invariants:
- Standard output is data, standard error is talk. Foreign text reaches a terminal through `escape_for_people` only.
- Without a terminal nobody is asked anything: the missing flag is named, and the exit code is 2.
- Who acts is the operating system's word (uid), never a flag, an environment variable or a file's claim.
- `--help` and `version` load neither typer nor anything that `import placet` does not.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from placet.cli.streams import print_all
from placet.cli.table import COMMANDS, root_help


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line; the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    match words:
        case [] | ["help"] | ["-h" | "--help"]:
            return print_all(root_help())
        case ["--version"] | ["version"] | ["version", "--json"]:
            from placet.cli.versions import version_text

            return print_all(version_text(as_json=words[-1] == "--json"))
        case ["completion", "words", "--", *begun]:  # what the shells' scripts ask
            from placet.cli.completing import completion_lines

            return print_all(completion_lines(begun))
        case _:
            from placet.cli.running import run, unknown_command

            name, *rest = words
            return run(COMMANDS[name], rest) if name in COMMANDS else unknown_command(name, rest)

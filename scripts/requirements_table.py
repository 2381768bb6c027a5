"""Which requirements the tests show, and which are written down as not shown yet.

    python scripts/requirements_table.py              every id with its tests or its reason
    python scripts/requirements_table.py --missing    only the ids without a test
    python scripts/requirements_table.py --write      bring tests/scenarios/not_yet.toml up to date

`--write` drops ids that have a test, keeps the reasons that are there, and gives the others the text of
`--reason`. tests/architecture/test_requirement_ids.py holds the manifest to the tests, both ways.
"""

from __future__ import annotations

import argparse
import ast
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
TESTS = REPOSITORY / "tests"
IDS_FILE = TESTS / "scenarios" / "requirement_ids.txt"
NOT_YET_FILE = TESTS / "scenarios" / "not_yet.toml"

HEADER = """\
# Requirements that no test carries yet: id = "issue and reason".
# `python scripts/requirements_table.py --write` adds and drops ids; the reasons are written by hand.

[not_yet]
"""


def known_ids() -> list[str]:
    """Every requirement id, in order; the file is the frozen list."""
    return IDS_FILE.read_text(encoding="utf-8").split()


def not_yet() -> dict[str, str]:
    """The reason of each requirement that is written down as not shown yet."""
    if not NOT_YET_FILE.exists():
        return {}
    table: dict[str, str] = tomllib.loads(NOT_YET_FILE.read_text(encoding="utf-8"))["not_yet"]
    return table


def marked_ids(folder: Path = TESTS) -> dict[str, list[str]]:
    """Each id that a `req` mark names, with the places that name it, as `path:line`.

    Read from the source text, so that a test which is deselected, skipped or parametrized away still counts
    as the place that carries the id.

    Raises:
        ValueError: a mark holds something other than literal ids; the manifest could not be checked.
    """
    found: dict[str, list[str]] = {}
    for path in sorted(folder.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
        for mark in _req_marks(tree):
            place = f"{path.relative_to(folder.parent)}:{mark.lineno}"
            for requirement_id in _literal_ids(mark, place):
                found.setdefault(requirement_id, []).append(place)
    return found


def _req_marks(tree: ast.AST) -> Iterator[ast.Call]:
    """Every call of `pytest.mark.req`, or of `mark.req`, in decorators, `pytestmark` and parameters alike."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Attribute(attr="mark") | ast.Name(id="mark"), attr="req")):
                yield node
            case _:
                pass


def _literal_ids(mark: ast.Call, place: str) -> list[str]:
    ids = [argument.value for argument in mark.args if isinstance(argument, ast.Constant)]
    literal = [value for value in ids if isinstance(value, str)]
    if mark.keywords or not literal or len(literal) != len(mark.args):
        raise ValueError(f"{place}: a req mark takes requirement ids as plain strings")
    return literal


def brought_up_to_date(reasons: Mapping[str, str], marked: Mapping[str, object], default_reason: str) -> dict[str, str]:
    """The reasons as they should stand: one for each known id that no test carries."""
    return {each: reasons.get(each, default_reason) for each in known_ids() if each not in marked}


def _write(reasons: Mapping[str, str]) -> None:
    lines = [f"{each} = {_toml_string(reason)}\n" for each, reason in reasons.items()]
    NOT_YET_FILE.write_text(HEADER + "".join(lines), encoding="utf-8")


def _toml_string(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _print_table(marked: Mapping[str, list[str]], reasons: Mapping[str, str], *, only_missing: bool) -> None:
    for each in known_ids():
        if each not in marked:
            print(f"{each}  not yet: {reasons.get(each) or '(no reason written)'}")
        elif not only_missing:
            print(f"{each}  {', '.join(marked[each])}")
    unknown = sorted(set(marked) - set(known_ids()))
    for each in unknown:
        print(f"{each}  no such requirement: {', '.join(marked[each])}")
    shown = len(set(marked) - set(unknown))
    print(f"{shown} of {len(known_ids())} requirements have a test", file=sys.stderr)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--missing", action="store_true", help="list only the ids without a test")
    parser.add_argument("--write", action="store_true", help="bring the list of reasons up to date")
    parser.add_argument("--reason", default="", help="the reason given to ids that have none, with --write")
    options = parser.parse_args()

    marked = marked_ids()
    if options.write:
        _write(brought_up_to_date(not_yet(), marked, options.reason))
    _print_table(marked, not_yet(), only_missing=options.missing or options.write)


if __name__ == "__main__":
    main()

"""Which tests show each promised behaviour, field case and guarantee, and what is written down as not shown yet.

    python scripts/requirements_table.py              every id with its tests or its reason; fails if one has neither
    python scripts/requirements_table.py --missing    only what has no test
    python scripts/requirements_table.py --write      bring tests/scenarios/not_yet.toml up to date

`--write` drops ids that have a test, keeps the reasons that are there, and gives the others the text of
`--reason`. tests/architecture/test_requirement_ids.py holds the manifest to the tests, both ways.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
TESTS = REPOSITORY / "tests"
SCENARIOS = TESTS / "scenarios"
IDS_FILE = SCENARIOS / "requirement_ids.txt"
CASES_FILE = SCENARIOS / "cases.toml"
NOT_YET_FILE = SCENARIOS / "not_yet.toml"
README = REPOSITORY / "README.md"

HEADER = """\
# Requirements and field cases that no test carries yet: id = "issue and reason".
# `python scripts/requirements_table.py --write` adds and drops ids; the reasons are written by hand.
"""
_GUARANTEE = re.compile(r"^\| (G\d+) \| .* \| (.*) \|$", re.MULTILINE)
_TEST = re.compile(r"(?<![\w/.])(tests/[\w/]+\.py)(?:::(\w+))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """One list of ids that tests carry.

    Attributes:
        mark: the pytest mark that names them, and the table of reasons in the manifest.
        ids: all of them, in order.
    """

    what: str
    mark: str
    reasons: str
    ids: tuple[str, ...]


def families() -> tuple[Family, ...]:
    """The promised behaviours and the field cases; the files are the frozen lists."""
    cases = tomllib.loads(CASES_FILE.read_text(encoding="utf-8"))["cases"]
    return (
        Family(what="requirements", mark="req", reasons="not_yet", ids=tuple(known_ids())),
        Family(what="cases", mark="case", reasons="cases_not_yet", ids=tuple(cases)),
    )


def known_ids() -> list[str]:
    """Every requirement id, in order."""
    return IDS_FILE.read_text(encoding="utf-8").split()


def not_yet(family: Family) -> dict[str, str]:
    """The reason of each id of a family that is written down as not shown yet."""
    if not NOT_YET_FILE.exists():
        return {}
    table: dict[str, str] = tomllib.loads(NOT_YET_FILE.read_text(encoding="utf-8")).get(family.reasons, {})
    return table


def marked_ids(mark: str, folder: Path = TESTS) -> dict[str, list[str]]:
    """Each id that a mark of this name carries, with the places that carry it, as `path:line`.

    Read from the source text, so that a test which is deselected, skipped or parametrized away still counts
    as the place that carries the id.

    Raises:
        ValueError: a mark holds something other than literal ids; the manifest could not be checked.
    """
    found: dict[str, list[str]] = {}
    for path in sorted(folder.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
        for node in _marks(tree, mark):
            place = f"{path.relative_to(folder.parent)}:{node.lineno}"
            for each in _literal_ids(node, place):
                found.setdefault(each, []).append(place)
    return found


def _marks(tree: ast.AST, mark: str) -> Iterator[ast.Call]:
    """Every call of `pytest.mark.<mark>`, or of `mark.<mark>`, in decorators, `pytestmark` and parameters alike."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Attribute(attr="mark") | ast.Name(id="mark"), attr=name)) if (
                name == mark
            ):
                yield node
            case _:
                pass


def _literal_ids(mark: ast.Call, place: str) -> list[str]:
    ids = [argument.value for argument in mark.args if isinstance(argument, ast.Constant)]
    literal = [value for value in ids if isinstance(value, str)]
    if mark.keywords or not literal or len(literal) != len(mark.args):
        raise ValueError(f"{place}: a mark takes ids as plain strings")
    return literal


def guarantees(readme: str) -> dict[str, list[str]]:
    """Each guarantee of the README with the tests its row names, as `path` or `path::test`."""
    return {
        guarantee: [path if name is None else f"{path}::{name}" for path, name in _tests_named(shown)]
        for guarantee, shown in _GUARANTEE.findall(readme)
    }


def _tests_named(shown: str) -> list[tuple[str, str | None]]:
    """The tests of one cell, each once: a link says its path twice."""
    return list(dict.fromkeys((match[1], match[2]) for match in _TEST.finditer(shown)))


def has_test(place: str) -> bool:
    """Whether a `path` or `path::test` is there."""
    path, _, name = place.partition("::")
    file = REPOSITORY / path
    return file.is_file() and (not name or f"def {name}(" in file.read_text(encoding="utf-8"))


def brought_up_to_date(family: Family, marked: Mapping[str, object], default_reason: str) -> dict[str, str]:
    """The reasons as they should stand: one for each known id that no test carries."""
    reasons = not_yet(family)
    return {each: reasons.get(each, default_reason) for each in family.ids if each not in marked}


def _write(marked: Mapping[str, Mapping[str, object]], default_reason: str) -> None:
    text = HEADER
    for family in families():
        reasons = brought_up_to_date(family, marked[family.mark], default_reason)
        lines = "".join(f"{each} = {_toml_string(reason)}\n" for each, reason in reasons.items())
        text += f"\n[{family.reasons}]\n{lines}"
    NOT_YET_FILE.write_text(text, encoding="utf-8")


def _toml_string(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _print_family(family: Family, marked: Mapping[str, list[str]], *, only_missing: bool) -> int:
    """Print one table and its sum; how many ids have neither a test nor a reason, or do not exist."""
    reasons = not_yet(family)
    covered = [each for each in family.ids if each in marked]
    reasoned = [each for each in family.ids if each not in marked and reasons.get(each, "").strip()]
    unknown = sorted(set(marked) - set(family.ids))
    missing = len(family.ids) - len(covered) - len(reasoned)
    for each in family.ids:
        if each not in marked:
            print(f"{each}  not yet: {reasons.get(each) or '(no reason written)'}")
        elif not only_missing:
            print(f"{each}  {', '.join(marked[each])}")
    for each in unknown:
        print(f"{each}  there is no such id: {', '.join(marked[each])}")
    sums = f"{len(covered)} covered, {len(reasoned)} reasoned, {missing} missing"
    print(f"{family.what}: {len(family.ids)} in all, {sums}\n")
    return missing + len(unknown)


def _print_guarantees() -> int:
    """Print each guarantee with its tests; how many have none, or name one that is not there."""
    faults = 0
    table = guarantees(README.read_text(encoding="utf-8"))
    for guarantee, places in table.items():
        absent = [place for place in places if not has_test(place)]
        faults += not places or bool(absent)
        print(f"{guarantee:3}  {', '.join(places) or '(no test named)'}")
        for place in absent:
            print(f"     there is no such test: {place}")
    print(f"guarantees: {len(table)} in all, {len(table) - faults} covered, {faults} missing")
    return faults


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--missing", action="store_true", help="list only what has no test")
    parser.add_argument("--write", action="store_true", help="bring the list of reasons up to date")
    parser.add_argument("--reason", default="", help="the reason given to ids that have none, with --write")
    options = parser.parse_args()

    marked = {family.mark: marked_ids(family.mark) for family in families()}
    if options.write:
        _write(marked, options.reason)
    only_missing = options.missing or options.write
    faults = sum(_print_family(family, marked[family.mark], only_missing=only_missing) for family in families())
    faults += _print_guarantees()
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()

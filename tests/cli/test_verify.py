"""`placet verify` as an operator runs it: lines, documents, files, exit codes; the project itself is left alone."""

from pathlib import Path
from xml.etree import ElementTree as Xml


def contents(folder: Path) -> dict[str, tuple[bytes, int]]:
    files = (path for path in sorted(folder.rglob("*")) if path.is_file() and "__pycache__" not in path.parts)
    return {str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_mtime_ns) for path in files}


def test_a_fresh_project_holds_and_its_own_store_and_handlers_are_not_touched(bare) -> None:
    assert bare.run("init").code == 0
    scratch = bare.folder / "scratch"
    scratch.mkdir()
    before = contents(bare.folder)

    ran = bare.run("verify", "--only", "G2", "--only", "G6", TMPDIR=str(scratch))

    assert (ran.code, ran.err) == (0, "14 held, 0 broken, 0 not run, 1 n/a.\n"), ran.out
    lines = ran.out.splitlines()
    assert (
        "held     G6   killed_after_acting  add_note: killed after acting: unknown, its audit closed, and not repeated"
        in lines
    )
    assert "n/a      G2   wrong_type  list_notes: it has no arguments" in lines
    assert contents(bare.folder) == before  # no note was added, and nothing of the scratch stores is left


def test_marks_cannot_apply_to_a_tool_without_arguments_so_a_fresh_project_holds_strictly(bare) -> None:
    assert bare.run("init").code == 0

    ran = bare.run("verify", "--only", "G10", "--strict")

    assert ran.code == 0, ran.out
    assert "n/a      G10  marks  list_notes: it has no arguments" in ran.out.splitlines()


def test_only_some_guarantees_can_be_asked_for(project) -> None:
    ran = project.run("verify", "--only", "g1", "--only", "G11", "--json")

    assert (ran.code, ran.data["schema"]) == (0, "verification/1")
    assert {each["guarantee"] for each in ran.data["findings"]} == {"G1", "G11"}
    assert ran.data["counts"] == {"held": 6, "broken": 0, "not run": 0, "n/a": 0}
    assert project.run("verify", "--only", "G13", "--json").code == 2


def test_handlers_and_probes_of_the_project_never_run(project) -> None:
    ran = project.run("verify", "--only", "G9", "--only", "G12", "--json")

    assert ran.data["counts"]["broken"] == 0, ran.out
    assert not [name for name in ("put.txt", "asked.txt", "hanging") if (project.folder / name).exists()]
    assert "a handler that prints" not in ran.out + ran.err


def test_what_is_broken_ends_with_1_and_is_told_in_every_form(project) -> None:
    """A tool whose own validator forgets, so that two texts are one to it."""
    (project.folder / "tools.py").write_text(LEAKY)
    ran = project.run("verify", "--only", "G4", "--junit", "found.xml")

    assert ran.code == 1
    assert "A guarantee does not hold here." in ran.err
    assert [line for line in ran.out.splitlines() if line.startswith("broken   G4   ")]
    assert "next: " in ran.out
    suites = Xml.parse(project.folder / "found.xml").getroot()
    assert [suite.get("failures") for suite in suites] != ["0"]
    again = project.run("verify", "--only", "G4", "--junit", "found.xml", "--json")
    assert again.code == 2  # nothing is overwritten, and nothing was played


LEAKY = """
import placet
from placet.rules.policy import Matrix


@placet.tool(effect="write", risk="medium", permission="things.write")
async def put(text: str) -> str:
    return text


# What a careless monkey patch of a project does to the policy that it is verified with.
Matrix.word = lambda self, contract, principal: placet.Allow(reasons=("fine",), policy_version=self.version)
TOOLS = [put]
"""


def test_tools_that_cannot_be_loaded_are_an_error_and_not_a_finding(project) -> None:
    (project.folder / "tools.py").write_text("raise RuntimeError('secret words')")
    ran = project.run("verify", "--json")

    assert (ran.code, ran.data["code"]) == (2, "tools_not_loaded")
    assert "secret" not in ran.out + ran.err


def test_under_strict_what_was_not_run_ends_with_1(project) -> None:
    (project.folder / "tools.py").write_text(STUBBORN)
    assert project.run("verify", "--only", "G2").code == 0
    ran = project.run("verify", "--only", "G2", "--strict")
    assert ran.code == 1 and "not run  G2" in ran.out


STUBBORN = """
import placet
from typing import Annotated
from pydantic import AfterValidator


def never(text: str) -> str:
    raise ValueError


@placet.tool(effect="read", risk="low")
async def look(text: Annotated[str, AfterValidator(never)]) -> str:
    return text


TOOLS = [look]
"""


def test_what_cannot_apply_to_a_tool_is_no_failure_under_strict(bare) -> None:
    """A tool without arguments has none of a wrong type."""
    assert bare.run("init").code == 0
    ran = bare.run("verify", "--only", "G2", "--strict", "--junit", "found.xml")

    assert (ran.code, ran.err) == (0, "9 held, 0 broken, 0 not run, 1 n/a.\n"), ran.out
    (suite,) = Xml.parse(bare.folder / "found.xml").getroot()
    assert (suite.get("skipped"), suite.get("failures")) == ("1", "0")

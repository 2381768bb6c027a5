"""What is drawn of a workflow says what its definition says; and who depends on whom, drawn in a document, is so."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from placet.model.workflow import State, moves_of
from placet.rules.workflow_drawing import mermaid, state_table, svg
from scripts.generated_docs import DRAWINGS, PLACES, stale
from tests.workflows.order import ORDER

REPOSITORY = Path(__file__).resolve().parents[2]
_SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.req("B189")
def test_the_table_has_every_state_with_its_input_its_moves_and_its_failure_exit() -> None:
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in state_table(ORDER).splitlines()[2:]]

    assert [row[0].strip("*") for row in rows] == [state.name for state in ORDER.states]
    for row, state in zip(rows, ORDER.states, strict=True):
        assert row[1] == f"`{state.inputs.__name__}`"
        if isinstance(state, State):
            assert (row[3], row[4]) == (", ".join(state.next), state.on_failure)
            assert re.findall("`(.*?)`", row[2]) == list(state.tools)


def test_both_diagrams_have_every_way_and_no_other() -> None:
    ways = {(state.name, target) for state in ORDER.states for target in moves_of(state)}

    words = set(re.findall(r"^    (\w+) --> (\w+)", mermaid(ORDER), re.M))
    drawn = ElementTree.fromstring(svg(ORDER))
    titles = {tuple(str(title.text).split(" to ")) for title in drawn.iter(f"{_SVG}title")}
    names = [text.text for text in drawn.iter(f"{_SVG}text")]

    assert words == ways
    assert titles == ways
    assert names == [state.name for state in ORDER.states]
    dashed = [path for path in drawn.iter(f"{_SVG}path") if path.get("stroke-dasharray")]
    assert len(dashed) == sum(isinstance(state, State) for state in ORDER.states)


def test_what_the_documents_show_is_made_from_the_definition_they_show(tmp_path: Path) -> None:
    assert "docs/order.svg" in DRAWINGS
    assert not {"docs/runs.md", "docs/order.svg"} & set(stale())
    text = (REPOSITORY / "docs" / "runs.md").read_text("utf-8")
    assert "| CONFIRM | `Order` | `pay` | PAY | FAILED |" in text
    for place in PLACES:
        (tmp_path / place).parent.mkdir(exist_ok=True)
        (tmp_path / place).write_text((REPOSITORY / place).read_text("utf-8"), "utf-8")
    (tmp_path / "docs" / "runs.md").write_text(text.replace("| CONFIRM | `Order`", "| CONFIRM | `Other`"), "utf-8")
    (tmp_path / "docs" / "order.svg").write_text("<svg/>", "utf-8")

    assert {"docs/runs.md", "docs/order.svg"} <= set(stale(tmp_path))


@pytest.mark.req("B185", "B197", "C056")
def test_the_diagram_of_who_depends_on_whom_is_there_and_workflows_reach_no_adapter() -> None:
    text = (REPOSITORY / "docs" / "runs.md").read_text("utf-8")
    ways = re.findall(r"^    (\w+) --> (\w+)", text.partition("flowchart LR")[2].partition("```")[0], re.M)

    assert ways == [
        ("orchestrator", "boundary"),
        ("boundary", "adapter"),
        ("boundary", "handler"),
        ("adapter", "remote"),
    ]
    for name in ("engine/workflow", "engine/moves", "engine/stepping", "engine/inline", "rules/workflows"):
        tree = ast.parse((REPOSITORY / "src" / "placet" / f"{name}.py").read_text("utf-8"))
        imported = {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        assert not [each for each in imported if each.startswith(("placet.adapters", "placet.bootstrap"))], name

"""The documents agree with the code; each check of scripts/check_docs.py by its name."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from scripts import check_docs, generated_docs


@pytest.mark.parametrize("check", check_docs.CHECKS, ids=lambda check: check.__name__)
def test_the_documents_hold(check: Callable[[], Iterator[str]]) -> None:
    assert list(check()) == []


def test_every_outcome_has_a_row_in_the_readme() -> None:
    readme = (check_docs.REPOSITORY / "README.md").read_text("utf-8")

    assert [
        kind for kind in {type(each).__name__ for each in generated_docs.outcomes()} if f"| `{kind}` |" not in readme
    ] == []


def test_every_union_member_has_a_specimen() -> None:
    from placet.model.outcome import Outcome

    assert {type(each) for each in generated_docs.outcomes()} == set(Outcome.__args__)


def test_a_number_changed_by_hand_is_noticed() -> None:
    readme = (check_docs.REPOSITORY / "README.md").read_text("utf-8")
    changed = readme.replace("| `GateSettings.max_steps` | 200 |", "| `GateSettings.max_steps` | 300 |")

    assert changed != readme
    assert generated_docs.renewed(changed) == readme


def test_a_block_knows_its_wishes_and_what_it_prints(tmp_path: Path) -> None:
    document = tmp_path / "page.md"
    document.write_text("<!-- continues, prints -->\n```python\nprint(1)\n```\n```text\n1\n```\n")

    first, second = check_docs.blocks(document)

    assert (first.wishes, first.text, first.prints) == (frozenset({"continues", "prints"}), "print(1)\n", "1\n")
    assert (second.language, second.prints) == ("text", None)


def test_an_indented_block_loses_its_indent(tmp_path: Path) -> None:
    document = tmp_path / "page.md"
    document.write_text("1. first:\n\n   ```sh\n   $ placet demo \\\n     --help\n   # why\n   ```\n")

    assert [check_docs.shell_lines(block) for block in check_docs.blocks(document)] == [["placet demo    --help"]]


@pytest.mark.req("B194")
def test_the_choice_of_an_engine_is_argued_by_what_it_has_to_be_argued_by() -> None:
    page = (check_docs.REPOSITORY / "docs" / "engines.md").read_text("utf-8")
    argument = page.partition("## Is the plain state machine enough?")[2].partition("\n## ")[0].lower()

    for criterion in ("recover", "branch", "interrupt", "test"):
        assert criterion in argument, criterion
    for engine in ("temporal", "dbos", "langgraph"):
        assert engine in argument, engine

"""What `make test` leaves out is run all the same, and what it runs is not slowed by what is not run."""

from __future__ import annotations

import gc
import re
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent.parent
LEFT_OUT = {"exhaustive": "test-exhaustive", "tests/mcp_conformance/test_score.py": "mcp-conformance"}
"""Each part of the suite that `make test` does not run, and the target that does."""


def recipe(target: str) -> str:
    """Its lines, with the variables that are paths filled in."""
    text = (REPOSITORY / "Makefile").read_text("utf-8")
    found = re.search(rf"^{target}:.*\n((?:\t.*\n)+)", text, re.M)
    assert found, target
    score = re.search(r"^SCORE := (.*)$", text, re.M)
    assert score
    return found[1].replace("$(SCORE)", score[1])


def test_make_test_leaves_out_what_another_target_runs_and_nothing_else() -> None:
    left_out = re.findall(r"-m 'not (\w+)'|--(?:ignore|deselect)[= ](\S+)", recipe("test"))

    assert {marker or path for marker, path in left_out} == set(LEFT_OUT)
    assert not re.search(r"-m 'not [^']* |-k ", recipe("test"))


@pytest.mark.parametrize("part", sorted(LEFT_OUT))
def test_ci_runs_what_make_test_leaves_out(part: str) -> None:
    run = (REPOSITORY / ".ci/run").read_text("utf-8")

    assert re.search(rf"(-m )?{re.escape(part)}( |$)", recipe(LEFT_OUT[part]), re.M)
    assert re.search(rf"^make {LEFT_OUT[part]} PYTHON=\"\$PYTHON\"$", run, re.M)


def test_nothing_that_was_collected_is_looked_at_for_garbage(request: pytest.FixtureRequest) -> None:
    assert gc.isenabled()
    assert gc.get_freeze_count() > len(request.session.items)

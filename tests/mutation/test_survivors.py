"""The list of explained survivors speaks of the program as it is. That they survive is checked by a run."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.mutation.report import explained
from scripts.mutation.sources import error_names, mutants

ROOT = Path(__file__).resolve().parents[2]
EXPLAINED = explained()


@pytest.mark.parametrize("file", sorted({identity[0] for identity in EXPLAINED}))
def test_every_explained_survivor_is_a_mutant_of_its_file(file: str) -> None:
    names = error_names(ROOT / "src/placet/errors.py")
    found = {mutant.identity for mutant in mutants(ROOT / file, root=ROOT, error_names=names)}

    assert {identity for identity in EXPLAINED if identity[0] == file} - found == set()


def test_every_explanation_is_a_sentence() -> None:
    assert [reason for reason in EXPLAINED.values() if len(reason) < 20 or not reason.endswith(".")] == []

"""Every code that our own rules give is known here in words; what somebody else's policy says is shown as it is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import placet
from placet.console.reasons import held_risk, reason_of, reasons_of
from placet.model.contract import Risk
from placet.rules.policy import MATRIX

SOURCES = Path(placet.__file__).parent


@pytest.mark.parametrize("role", list(MATRIX), ids=str)
@pytest.mark.parametrize("risk", list(Risk), ids=str)
def test_a_cell_of_the_table_is_told_in_words(role: str, risk: Risk) -> None:
    found = reason_of(f"matrix_{role}_{risk}")

    assert role in found.words and risk in found.words
    assert found.avoided == "Nothing about its arguments: the table sees role and risk alone."


def test_every_code_of_policy_and_editing_has_words() -> None:
    text = (SOURCES / "rules" / "policy.py").read_text() + (SOURCES / "engine" / "editing.py").read_text()
    codes = set(re.findall(r'reasons=\(\*?[^"()]*"([a-z_]+)"', text)) | set(re.findall(r'REASON = "([a-z_]+)"', text))
    codes |= set(re.findall(r'return DENY, "([a-z_]+)"', text))

    assert {"contract_always_asks", "contract_never_asks", "no_role", "scope_missing", "edited_by_a_person"} <= codes
    assert [code for code in codes if not reason_of(code).words] == []


def test_a_code_that_nobody_here_knows_claims_nothing() -> None:
    found = reason_of("matrix_king_high")

    assert (found.words, found.avoided) == ("", "")
    assert (
        reason_of("rule:two-for-refunds").words
        == "the rule two-for-refunds of the policy file says whose answer it takes"
    )


def test_each_reason_is_told_once() -> None:
    assert [each.code for each in reasons_of(("a", "b", "a"))] == ["a", "b"]


def test_the_risk_that_the_policy_held_it_for_is_the_highest_it_named() -> None:
    assert held_risk(("matrix_admin_medium", "matrix_operator_high", "x")) is Risk.HIGH
    assert held_risk(("contract_always_asks",)) is None

"""A run's name stands in an address in one spelling, whatever is in it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.http_api.guard import _PLAIN_PATH
from placet.rules.run_refs import run_id_of, run_ref

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=128)


@given(TEXT | st.from_regex(r"[~./%A-Za-z0-9_:-]{1,12}", fullmatch=True))
def test_every_name_has_an_address_of_its_own(name: str) -> None:
    ref = run_ref(name)

    assert run_id_of(ref) == name
    assert _PLAIN_PATH.fullmatch(b"/v1/runs/" + ref.encode("ascii"))


@given(st.from_regex(r"[~A-Za-z0-9_=.-]{1,20}", fullmatch=True))
def test_an_address_that_is_another_spelling_is_that_of_nothing(ref: str) -> None:
    assert run_id_of(ref) == "" or run_ref(run_id_of(ref)) == ref


@pytest.mark.parametrize("ref", ["~", "~cjE", "~4pyT=", "~____", "~AB", "ü", "~ü", "x" * 129])
def test_what_is_no_piece_of_ours_names_nothing(ref: str) -> None:
    assert run_id_of(ref) == ""


def test_plain_names_stand_as_they_are() -> None:
    assert run_ref("run-2026:7.a_b") == "run-2026:7.a_b"
    assert run_ref("../r1") == "~Li4vcjE"
    assert run_ref("~a").startswith("~")

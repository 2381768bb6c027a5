"""The sanitiser and the log formatter on values made from chance: never an exception, never the secret, always bounded.

The properties themselves stand in the fuzz target; here they are tried without a fuzzer, each kind of input by itself.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fuzz.targets import logs

KINDS = {"line": 0, "value": 2, "text": 3}
chance = st.binary(max_size=400)


@pytest.mark.req("B143", "B146", "B151", "B166", "B167")
@pytest.mark.parametrize("kind", KINDS)
@given(thrown=st.integers(0, 2), data=chance)
def test_whatever_is_logged_shows_no_secret(kind: str, thrown: int, data: bytes) -> None:
    logs.check(bytes([thrown, KINDS[kind]]) + data)


@pytest.mark.req("B150", "B163")
@given(st.lists(st.sampled_from(logs.SECRET_TEXTS) | st.text("ab\"'\\ \n=:,;&[]{}-.\u00e9", max_size=4), max_size=6))
def test_secrets_beside_each_other_are_scrubbed_whatever_stands_between_them(pieces: list[str]) -> None:
    logs._check_text("".join(pieces))

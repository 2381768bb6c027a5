"""Integers are exact at any length, in every process."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.errors import InvalidArguments
from placet.rules.decoding import decode_object
from placet.rules.encoding import encode_foreign
from placet.rules.integers import read_integer, write_integer


@given(st.integers(min_value=-(10**4300) + 1, max_value=10**4300 - 1) | st.integers(599, 4299).map(lambda n: 10**n))
def test_long_integer_is_written_and_read_back_exactly(number: int) -> None:
    text = write_integer(number)
    assert read_integer(text) == number
    assert text == str(number)


@pytest.mark.parametrize("sign", [1, -1])
def test_an_integer_of_more_than_4300_digits_is_not_written(sign: int) -> None:
    assert write_integer(sign * (10**4300 - 1)) == "-"[: sign < 0] + "9" * 4300
    for number in (10**4300, 10**5000):
        with pytest.raises(InvalidArguments) as caught:
            write_integer(sign * number)
        assert caught.value.reason == "number_too_large"


def test_integers_do_not_depend_on_the_interpreters_digit_limit() -> None:
    number = 7 * 10**999 + 1
    before = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(640)
    try:
        encoded = encode_foreign({"a": -number})
        decoded = decode_object(encoded, wide={("a",)})
    finally:
        sys.set_int_max_str_digits(before)
    assert encoded == b'{"a":-7' + b"0" * 998 + b"1}"
    assert decoded == {"a": -number}

"""Untrusted text or mapping to one JSON object, or a fixed refusal."""

from __future__ import annotations

import asyncio
import base64
import json
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.errors import ConfigurationError, InvalidArguments
from placet.rules.decoding import (
    DecodingLimits,
    decode_object,
    encode_foreign,
    json_pointer,
    read_integer,
    wide_path_matches,
    write_integer,
)

MARKER = "marker-4fe1-do-not-show"
SAFE = 2**53 - 1


def refusal(act: Callable[[], object]) -> InvalidArguments:
    """The refusal, after checking that it carries nothing but its fixed words and a place."""
    with pytest.raises(InvalidArguments) as caught:
        act()
    error = caught.value
    assert error.__cause__ is None
    assert error.__context__ is None
    assert str(error) == f"The arguments were refused: {error.reason.replace('_', ' ')}."
    assert error.problems == ((error.problems[0][0], error.reason),)
    assert MARKER not in str(error) + repr(error) + repr(error.problems)
    assert error.problems[0][0].isascii() and len(error.problems[0][0]) <= 128
    return error


def refused(text: Any, **options: Any) -> tuple[str, str]:
    error = refusal(lambda: decode_object(text, **options))
    return error.reason, error.problems[0][0]


def not_encoded(value: object, **options: Any) -> tuple[str, str]:
    error = refusal(lambda: encode_foreign(value, **options))
    return error.reason, error.problems[0][0]


def exactly(value: object) -> object:
    """The value with its types, so that 1, 1.0 and True differ, and 0.0 and -0.0."""
    if type(value) is dict:
        return {name: exactly(member) for name, member in value.items()}
    if type(value) is list:
        return [exactly(item) for item in value]
    return type(value).__name__, repr(value)


# --- what is read -------------------------------------------------------------------------------


def test_every_json_type_is_read_as_its_python_type() -> None:
    text = '{"s":"x","i":1,"f":1.0,"e":1e2,"z":-0.0,"t":true,"n":null,"a":[1,"1"],"o":{"k":[]}}'
    expected = {"s": "x", "i": 1, "f": 1.0, "e": 100.0, "z": -0.0, "t": True, "n": None, "a": [1, "1"], "o": {"k": []}}
    assert exactly(decode_object(text)) == exactly(expected)
    assert exactly(decode_object(text.encode())) == exactly(expected)


def test_whitespace_around_the_object_is_read() -> None:
    assert decode_object(b" \r\n\t{ }\n") == {}


@pytest.mark.case("A04")
def test_text_that_looks_like_json_or_a_number_stays_text() -> None:
    assert decode_object('{"body":"{\\"k\\":1}","code":"007"}') == {"body": '{"k":1}', "code": "007"}


@pytest.mark.case("A09")
def test_text_is_not_normalised() -> None:
    composed, decomposed = decode_object('{"w":"caf\u00e9"}'), decode_object('{"w":"cafe\u0301"}')
    assert composed == {"w": "caf\u00e9"}
    assert decomposed == {"w": "cafe\u0301"}


def test_escaped_pair_is_one_character() -> None:
    assert decode_object('{"q":"\\ud83d\\ude80 \\u00e9"}') == {"q": "\U0001f680 \u00e9"}


def test_escaped_backslash_before_u0000_is_only_text() -> None:
    assert decode_object('{"q":"\\\\u0000 \\\\ud800"}') == {"q": "\\u0000 \\ud800"}


# --- what is not text, or not one object ----------------------------------------------------------


@pytest.mark.case("A02")
@pytest.mark.parametrize("text", ["null", "[1]", '"x"', "7", "true", "-1.5", "[]", "NaN", '"{}"'])
def test_root_that_is_no_object_is_refused(text: str) -> None:
    assert refused(text) == ("not_an_object", "")


@pytest.mark.case("A03")
def test_object_inside_a_string_is_not_unwrapped() -> None:
    assert refused('"{\\"title\\":\\"a\\"}"') == ("not_an_object", "")
    assert decode_object('{"tags":"[\\"x\\"]"}') == {"tags": '["x"]'}


@pytest.mark.case("A05")
@pytest.mark.parametrize("text", ["", b"", "  ", b"\r\n\t "])
def test_empty_text_is_refused_and_never_an_empty_object(text: str | bytes) -> None:
    assert refused(text) == ("empty", "")


@pytest.mark.case("A18")
@pytest.mark.parametrize(
    "text", ['{"id":1}{"id":2}', '{"id":1} thanks', '{"id":1}{"id":1}', "{}]", "{} {}", '{},{"a":1}']
)
def test_trailing_text_is_refused(text: str) -> None:
    assert refused(text) == ("trailing_data", "")
    assert refused(text.encode()) == ("trailing_data", "")


@pytest.mark.case("A18")
def test_byte_order_mark_is_refused() -> None:
    assert refused(b'\xef\xbb\xbf{"a":1}') == ("byte_order_mark", "")
    assert refused('\ufeff{"a":1}') == ("byte_order_mark", "")
    assert refused('{"a":1}'.encode("utf-16")) == ("not_utf8", "")
    assert refused('{"a":1}'.encode("utf-16-be")) == ("not_json", "")


@pytest.mark.parametrize(
    "text",
    [
        "{'a':1}",
        "{a:1}",
        '{"a":1,}',
        '{"a":[1,]}',
        '{"a":01}',
        '{"a":+1}',
        '{"a":.5}',
        '{"a":5.}',
        '{"a":0x10}',
        '{"a":1_000}',
        '{"a":True}',
        '{"a":None}',
        '{"a" 1}',
        '{"a":1 "b":2}',
        '{"a":"x}',
        '{"a":"\\x"}',
        '{"a":"\\u12g4"}',
        '{"a":"\\u 123"}',
        '{"a":1}//c',
        '{"a":/*c*/1}',
        '{"a":[1',
        "{",
        '{"a":"\\',
        "```json\n{}\n```",
        "here: {}",
        '{"a":\u0661}',
        '{\u00a0"a":1}',
        "\u00a0{}",
        "\x0c{}",
        "{}\u2028",
        "{}\x1f",
        '{"a":1\x0c}',
        '{"a":-}',
        '{"a":-NaN}',
        '{"a":nan}',
        '{"a":inf}',
    ],
)
def test_text_outside_the_json_grammar_is_refused(text: str) -> None:
    reason, path = refused(text)
    assert reason in ("not_json", "trailing_data") and path == ""
    assert refused(text.encode())[0] == reason


@pytest.mark.parametrize("control", [*map(chr, range(1, 32)), "\0"])
def test_raw_control_character_in_text_is_refused(control: str) -> None:
    assert refused(f'{{"a":"x{control}y"}}') == ("not_json", "")
    assert refused(f'{{"x{control}y":1}}') == ("not_json", "")


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ('{"a":"x\\u0000"}', "/a"),
        ('{"x\\u0000":1}', "/x\\x00"),
        ('{"a":[{"b":["\\u0000"]}]}', "/a/0/b/0"),
    ],
)
def test_null_character_is_refused_in_values_and_names(text: str, path: str) -> None:
    assert refused(text) == ("null_character", path)


def test_other_escaped_control_characters_are_left_to_the_contract() -> None:
    assert decode_object('{"a":"\\u0001\\b"}') == {"a": "\x01\b"}


@pytest.mark.case("A09")
@pytest.mark.req("B016", "B084")
@pytest.mark.parametrize(
    ("text", "path"),
    [
        ('{"a":"\\ud800"}', "/a"),
        ('{"a":"\\uDC00x"}', "/a"),
        ('{"a":"\\ude80\\ud83d"}', "/a"),
        ('{"a":"\\ud800\\u0041"}', "/a"),
        ('{"\\udfff":1}', "/\\udfff"),
        ('{"a":[[],{"b":"bad \\ud83d end"}]}', "/a/1/b"),
        ('{"a":"\ud800"}', ""),
        ('{"\udfff":1}', ""),
        ('{"a":"\ud83d\ude80"}', ""),
        ('{"a":"\\ud83d\ude80"}', ""),
    ],
)
def test_lone_surrogate_is_refused(text: str, path: str) -> None:
    assert refused(text) == ("lone_surrogate", path)


@pytest.mark.req("B016")
@pytest.mark.parametrize("raw", [b"\xff", b"\xe9", b"\xed\xa0\x80", b"\xc0\x80", b"\xf4\x90\x80\x80", b"\xe2\x82"])
def test_bytes_that_are_not_utf8_are_refused(raw: bytes) -> None:
    assert refused(b'{"a":"' + raw + b'"}') == ("not_utf8", "")


# --- repeated members -----------------------------------------------------------------------------


@pytest.mark.case("A01")
@pytest.mark.parametrize(
    ("text", "path"),
    [
        ('{"amount":5,"amount":5000}', "/amount"),
        ('{"a":1,"a":1}', "/a"),
        ('{"a":{"b":[0,{"c":1,"d":2,"c":3}]}}', "/a/b/1/c"),
        ('{"severity":1,"\\u0073everity":2}', "/severity"),
        ('{"":1,"":2}', "/"),
        ('{"a":{"x":1,"x":2},"a":3}', "/a/x"),
        ('{"a/b":1,"a/b":2}', "/a~1b"),
        ('{"~":1,"~":2}', "/~0"),
        ('{"\u00e9\\n\\\\":1,"\u00e9\\n\\\\":2}', "/\\xe9\\n\\\\"),
        (f'{{"{"k" * 300}":1,"{"k" * 300}":2}}', "/" + "k" * 124 + "..."),
    ],
)
def test_repeated_member_is_refused_at_any_depth_with_its_place(text: str, path: str) -> None:
    assert refused(text) == ("duplicate_member", path)


@pytest.mark.case("A01")
def test_repeated_member_is_refused_without_its_values() -> None:
    assert refused(f'{{"a":"{MARKER}","a":"{MARKER}-2"}}') == ("duplicate_member", "/a")


def test_names_that_differ_only_by_normalisation_or_case_are_two_members() -> None:
    assert len(decode_object('{"caf\u00e9":1,"cafe\u0301":2,"CAF\u00c9":3}')) == 3


# --- numbers --------------------------------------------------------------------------------------


@pytest.mark.case("A07")
@pytest.mark.req("B079")
@pytest.mark.parametrize("literal", ["NaN", "Infinity", "-Infinity"])
def test_not_a_number_and_infinity_are_refused(literal: str) -> None:
    assert refused(f'{{"a":[0,{literal}]}}') == ("number_not_finite", "/a/1")


@pytest.mark.case("A07")
@pytest.mark.parametrize(
    "literal",
    [
        "1e400",
        "-1e400",
        "1e16",
        "9007199254740992",
        "-9007199254740992",
        "9007199254740993",
        "9007199254740992.0",
        "-9.007199254740992e15",
        "18446744073709551616",
        "2512292042121000001",
        "1" + "0" * 5000,
        "-1" + "0" * 5000,
    ],
)
def test_number_beyond_the_safe_range_is_refused_however_it_is_written(literal: str) -> None:
    assert refused(f'{{"a":{{"b":{literal}}}}}') == ("number_too_large", "/a/b")


@pytest.mark.parametrize(
    ("literal", "value"),
    [
        (str(SAFE), SAFE),
        (str(-SAFE), -SAFE),
        (f"{SAFE}.0", float(SAFE)),
        ("123456789012345", 123456789012345),
        ("-123456789012345", -123456789012345),
        ("1e15", 1e15),
        ("-0", 0),
        ("-0.0", -0.0),
        ("1e-400", 0.0),
        ("0." + "1" * 2000, float("0." + "1" * 2000)),
    ],
)
def test_number_within_the_safe_range_is_read_with_its_type(literal: str, value: float) -> None:
    assert exactly(decode_object(f'{{"a":{literal}}}')) == exactly({"a": value})


@pytest.mark.case("A07")
def test_integer_of_a_wide_field_is_exact_at_any_size_up_to_the_digit_limit() -> None:
    wide = frozenset({("id",), ("rows", "*", "id"), ("by_name", "*")})
    longest = "9" * 1000
    text = f'{{"id":-{longest},"rows":[{{"id":9007199254740993}}],"by_name":{{"x":18446744073709551617}}}}'
    assert decode_object(text, wide=wide) == {
        "id": -(10**1000 - 1),
        "rows": [{"id": 9007199254740993}],
        "by_name": {"x": 18446744073709551617},
    }
    assert refused(f'{{"id":1{longest}}}', wide=wide) == ("number_too_large", "/id")
    assert refused(text, wide=frozenset({("id",), ("by_name", "*")})) == ("number_too_large", "/rows/0/id")


def test_float_is_never_wide() -> None:
    wide = frozenset({("id",)})
    assert refused('{"id":1e16}', wide=wide) == ("number_too_large", "/id")
    assert refused('{"id":9007199254740993.0}', wide=wide) == ("number_too_large", "/id")


@pytest.mark.parametrize(
    ("path", "wide", "matches"),
    [
        (("a",), {("a",)}, True),
        (("a",), {("*",)}, True),
        (("a", "0"), {("a", "*")}, True),
        (("a", "0", "b"), {("a", "*", "b")}, True),
        (("a",), set(), False),
        (("a",), {("b",)}, False),
        (("a", "b"), {("a",)}, False),
        (("a", "b"), {("a", "c")}, False),
        (("a", "b"), {("c", "b")}, False),
        (("a", "b"), {("c", "b"), ("a", "b")}, True),
        (("a",), {("a", "*")}, False),
        (("*",), {("a",)}, False),
        ((), {("*",)}, False),
    ],
)
def test_wide_path_matches_whole_paths_only(path: tuple[str, ...], wide: set[tuple[str, ...]], matches: bool) -> None:
    assert wide_path_matches(path, frozenset(wide)) is matches


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


# --- limits ---------------------------------------------------------------------------------------


def nested(levels: int, opening: str = "[", closing: str = "]") -> str:
    """An object with as many levels, its own included."""
    return '{"a":' + opening * (levels - 1) + closing * (levels - 1) + "}" if levels > 1 else "{}"


@pytest.mark.case("A08")
@pytest.mark.req("B074")
def test_32_levels_are_read_and_33_are_refused() -> None:
    assert decode_object(nested(32)) != {}
    assert decode_object('{"a":' * 31 + "{}" + "}" * 31) != {}
    assert decode_object(nested(32)[:-1] + ',"b":[[],[],[]]}')["b"] == [[], [], []]
    assert refused(nested(33)) == ("too_deep", "")
    assert refused('{"a":' * 32 + "{}" + "}" * 32) == ("too_deep", "")
    assert refused(nested(33).replace("[", '[{"b":', 1).replace("]", "}]", 1)) == ("too_deep", "")


@pytest.mark.case("A08")
@pytest.mark.parametrize(
    "text", ["[" * 1100 + "]" * 1100, nested(3000), "[" * 200_000, '{"a":' * 40_000, nested(100_000)]
)
def test_deep_text_is_refused_before_it_is_parsed(text: str) -> None:
    assert refused(text) == ("too_deep", "")


def test_width_and_brackets_inside_text_are_not_depth() -> None:
    text = json.dumps({"rows": [{"q": '[{"\\"[' * 9}] * 50, "s": "[" * 500, "e": "\\", "k": "]{["})
    assert decode_object(text) == json.loads(text)
    assert decode_object('{"a":"\\n' + "[" * 40 + '"}') == {"a": "\n" + "[" * 40}
    assert refused('{"a":"' + "[{" * 50) == ("not_json", "")


@pytest.mark.case("A08")
def test_mapping_written_near_the_end_of_the_stack_ends_as_bytes_or_a_refusal() -> None:
    remarkable = json.loads(nested(31).replace("[]", "[1e400]"))  # what the plain way does not write

    def answer_below(frames: int) -> object:
        if frames:
            return answer_below(frames - 1)
        try:
            return encode_foreign(remarkable)
        except InvalidArguments as error:
            return error.reason, error.__context__

    def used_frames() -> int:
        frame, used = sys._getframe(), 0
        while frame.f_back is not None:
            frame, used = frame.f_back, used + 1
        return used

    free = sys.getrecursionlimit() - used_frames()
    answers = {answer_below(free - left) for left in range(20, 200, 10)}
    assert answers == {("too_deep", None), ("unsupported_value", None)}


@pytest.mark.case("A08")
@pytest.mark.parametrize("text", [nested(32), nested(32).replace("[]", '["\\u0000"]')], ids=["plain", "remarkable"])
def test_call_near_the_end_of_the_stack_ends_as_an_answer_or_a_refusal(text: str) -> None:
    def answer_below(frames: int) -> object:
        if frames:
            return answer_below(frames - 1)
        try:
            return len(decode_object(text))
        except InvalidArguments as error:
            return error.reason

    def used_frames() -> int:
        frame, used = sys._getframe(), 0
        while frame.f_back is not None:
            frame, used = frame.f_back, used + 1
        return used

    free = sys.getrecursionlimit() - used_frames()
    answers = {answer_below(free - left) for left in range(20, 200, 10)}
    assert answers == {"too_deep", 1 if "u0000" not in text else "null_character"}


@pytest.mark.case("A08")
def test_text_over_the_byte_limit_is_refused_in_bytes_not_characters() -> None:
    limits = DecodingLimits(max_bytes=20)
    fits, over = '{"a":"' + "\u754c" * 4 + '"}', '{"a":"' + "\u754c" * 5 + '"}'
    assert decode_object(fits, limits=limits) == decode_object(fits.encode(), limits=limits)
    assert refused(over, limits=limits) == ("too_long", "")
    assert refused(over.encode(), limits=limits) == ("too_long", "")
    assert decode_object('{"a":"123456789012"}', limits=limits) == decode_object(b'{"a":"123456789012"}', limits=limits)
    assert refused('{"a":"1234567890123"}', limits=limits) == ("too_long", "")
    assert refused(b'{"a":"1234567890123"}', limits=limits) == ("too_long", "")
    assert refused("[" * 5_000_000) == ("too_long", "")
    assert refused(b" " * 262_145) == ("too_long", "")


@pytest.mark.case("A08")
def test_members_and_items_are_counted_over_the_whole_text() -> None:
    limits = DecodingLimits(max_members=10)
    assert decode_object('{"a":[1,2,3,4],"b":{"c":[5,6,7]}}', limits=limits) != {}
    assert decode_object('{"a":[1,2,3,4],"b":{"c":[5,6,[]]}}', limits=limits) != {}
    assert refused('{"a":[1,2,3,4],"b":{"c":[5,6,7,8]}}', limits=limits) == ("too_many_members", "/b/c")
    assert refused('{"a":[1,2,3,4,5,6,7],"b":{"c":1,"d":2}}', limits=limits) == ("too_many_members", "/b")
    assert len(decode_object('{"a":[' + "1," * 9_998 + "1]}")["a"]) == 9_999  # type: ignore[arg-type]
    assert refused('{"a":[' + "1," * 9_999 + "1]}") == ("too_many_members", "/a")
    assert decode_object('{"a":"' + "," * 30_000 + '"}') == {"a": "," * 30_000}


@pytest.mark.case("A07")
@pytest.mark.parametrize("beside", ["x", "\\ud83d\\ude00"])
def test_the_edges_of_the_safe_range_are_read_whatever_stands_beside_them(beside: str) -> None:
    for literal in ("9007199254740991", "-9007199254740991"):
        text = f'{{"a":{literal},"b":{literal}.0,"c":"{beside}"}}'
        read = decode_object(text)
        assert (read["a"], read["b"]) == (int(literal), float(literal))
        assert refused(text.replace(f"{literal}.0", f"{literal[:-1]}2.0")) == ("number_too_large", "/b")


@pytest.mark.case("A08")
def test_long_string_is_refused_as_value_and_as_name() -> None:
    assert decode_object('{"a":"' + "x" * 65_536 + '"}') == {"a": "x" * 65_536}
    assert refused('{"a":"' + "x" * 65_537 + '"}') == ("string_too_long", "/a")
    assert refused('{"' + "x" * 65_537 + '":1}')[0] == "string_too_long"
    assert decode_object('{"a":"' + "\\u754c" * 40_000 + '"}') == {"a": "\u754c" * 40_000}


@pytest.mark.case("A08")
def test_decoder_serves_the_next_text_after_a_refusal() -> None:
    for bad in ("[" * 5000, '{"a":1,"a":2}', '{"a":1e999}', "\ud800"):
        refused(bad)
        assert decode_object('{"a":1}') == {"a": 1}


@pytest.mark.parametrize(
    "limits",
    [{"max_depth": 0}, {"max_depth": 65}, {"max_bytes": -1}, {"max_members": True}, {"max_number_digits": 4301}],
)
def test_limits_without_meaning_are_refused_at_construction(limits: dict[str, int]) -> None:
    with pytest.raises(ConfigurationError):
        DecodingLimits(**limits)


def test_deepest_configurable_limit_is_still_decided_by_the_limit() -> None:
    limits = DecodingLimits(max_depth=64)
    assert decode_object(
        nested(64).replace("[]", "[1e0,12345678901234567]"), limits=limits, wide={("a",) + ("0",) * 62 + ("1",)}
    )
    assert refused(nested(65), limits=limits) == ("too_deep", "")
    assert encode_foreign(json.loads(nested(64)), limits=limits) == nested(64).encode()
    assert not_encoded(json.loads(nested(65)), limits=limits)[0] == "too_deep"


def test_pointer_is_printable_ascii_and_bounded() -> None:
    assert json_pointer(()) == ""
    assert json_pointer(("a/b~", "0", "\u754c\x7f")) == "/a~1b~0/0/\\u754c\\x7f"
    assert len(json_pointer(("\U0001f600" * 70_000,) * 30)) == 128
    assert json_pointer(("a" * 127,)) == "/" + "a" * 127
    assert json_pointer(("a" * 128,)) == "/" + "a" * 124 + "..."
    assert json_pointer(("a" * 63, "b" * 63)) == "/" + "a" * 63 + "/" + "b" * 63
    assert json_pointer(("a" * 63, "b" * 64)) == "/" + "a" * 63 + "/" + "b" * 60 + "..."


# --- hostile inputs -------------------------------------------------------------------------------


class Raised(BaseException):
    pass


def raise_marker(*_: object, **__: object) -> Any:
    raise Raised(MARKER)


def raise_cancelled(*_: object, **__: object) -> Any:
    raise asyncio.CancelledError(MARKER)


def raise_interrupt(*_: object, **__: object) -> Any:
    raise KeyboardInterrupt(MARKER)


def raise_exit(*_: object, **__: object) -> Any:
    raise SystemExit(MARKER)


ACTS = (raise_marker, raise_cancelled, raise_interrupt, raise_exit)
MAGIC = """
    __getattribute__ __iter__ __len__ __bool__ __eq__ __ne__ __lt__ __str__ __repr__ __format__ __int__ __index__
    __float__ __contains__ __getitem__ __reduce__ __copy__ __deepcopy__ __buffer__ __bytes__ __next__ __call__
    keys items values get encode decode isascii strip startswith
"""  # the hash is left alone, so that each can be a key


def hostile_values() -> Iterator[object]:
    """Objects of each shape whose every method, and whose class, does harm when touched."""

    harm = ("__eq__", "__hash__", "__getattribute__", "__instancecheck__", "__subclasscheck__")
    metadata = dict.fromkeys(("__name__", "__module__"), property(raise_marker))
    meta: Any = type("Meta", (type,), {**dict.fromkeys(harm, raise_marker), **metadata})
    shapes: tuple[tuple[Any, tuple[object, ...]], ...] = (
        (object, ()),
        (str, (MARKER,)),
        (int, (7,)),
        (float, (7.5,)),
        (bytes, (MARKER.encode(),)),
        (dict, ()),
        (list, ()),
    )
    for act in ACTS:
        for base, content in shapes:
            body: dict[str, Any] = {**dict.fromkeys(MAGIC.split(), act), "__hash__": object.__hash__}
            yield base.__new__(meta("Hostile", (base,), body), *content)

    yield type("Lying", (), {"__class__": property(lambda _: dict)})()
    yield type("Raising", (), {"__class__": property(raise_marker)})()


UNSUPPORTED: list[object] = [
    (1, 2),
    {1},
    frozenset({1}),
    b"x",
    bytearray(b"x"),
    1j,
    float("nan"),
    float("inf"),
    float("-inf"),
    object(),
    range(3),
    type,
    ...,
    json,
    Path("x"),
    iter([1]),
]


@pytest.mark.req("B011", "B012", "B017", "B018", "B078", "B080")
def test_hostile_object_is_refused_in_every_place_without_running_it() -> None:
    for hostile in hostile_values():
        assert not_encoded(hostile) == ("unsupported_value", "")
        assert not_encoded({"a": hostile}) == ("unsupported_value", "/a")
        assert not_encoded({"a": [0, {"b": hostile}]}) == ("unsupported_value", "/a/1/b")
        assert refused(hostile) == ("unsupported_value", "")


@pytest.mark.req("B018", "B077", "B080")
def test_hostile_member_name_is_refused_without_running_it() -> None:
    for hostile in hostile_values():
        assert not_encoded({hostile: 1}) == ("unsupported_value", "")
        assert not_encoded({"a": {"b": 1, hostile: 1}}) == ("unsupported_value", "/a")


class KeyThatTurns:
    """Hashable until it sits in a dict; after that neither hash nor equality may run."""

    armed = False

    def __hash__(self) -> int:
        if self.armed:
            raise Raised(MARKER)
        return 7

    def __eq__(self, other: object) -> bool:
        raise Raised(MARKER)


@pytest.mark.req("B018", "B077")
def test_foreign_key_is_neither_hashed_nor_compared() -> None:
    key = KeyThatTurns()
    mapping = {"first": 1, key: 2}
    key.armed = True
    assert not_encoded(mapping) == ("unsupported_value", "")
    assert not_encoded({"a": [mapping]}) == ("unsupported_value", "/a/0")


@pytest.mark.req("B004", "B077", "B079", "B080")
@pytest.mark.parametrize("value", UNSUPPORTED, ids=lambda value: type(value).__name__)
def test_python_only_value_is_refused_with_its_place(value: object) -> None:
    assert not_encoded({"a": [value]}) == ("unsupported_value", "/a/0")
    assert not_encoded({"ok": 1, "b": {"c": value}}) == ("unsupported_value", "/b/c")


@pytest.mark.case("A10")
@pytest.mark.req("B077")
@pytest.mark.parametrize("key", [1, None, True, 1.0, (1,), b"a"])
def test_name_that_is_no_string_is_refused(key: object) -> None:
    assert not_encoded({key: "a", "1": "b"}) == ("unsupported_value", "")


class CustomMapping(dict[str, int]):
    def __iter__(self) -> Iterator[str]:
        raise Raised(MARKER)


@pytest.mark.req("B004", "B011")
@pytest.mark.parametrize("value", [CustomMapping(a=1), type("S", (str,), {})("x"), type("I", (int,), {})(1)])
def test_subclass_of_a_built_in_type_is_refused(value: object) -> None:
    assert not_encoded(value) == ("unsupported_value", "")
    assert not_encoded({"a": value}) == ("unsupported_value", "/a")


@pytest.mark.req("B004")
@pytest.mark.parametrize("value", [None, True, 7, 1.5, "x", "{}", [], [{}]])
def test_root_that_is_no_mapping_is_refused(value: object) -> None:
    assert not_encoded(value) == ("not_an_object", "")


@pytest.mark.parametrize("text", [bytearray(b"{}"), memoryview(b"{}"), None, {}, 7, type("T", (str,), {})("{}")])
def test_decoder_reads_exact_bytes_and_str_only(text: object) -> None:
    assert refused(text) == ("unsupported_value", "")


# --- Python-side values ---------------------------------------------------------------------------


def test_mapping_is_written_in_its_order_with_its_types() -> None:
    value: dict[str, Any] = {
        "z": 1,
        "a": 1.0,
        "t": True,
        "n": None,
        "l": [1, "1", [], {}],
        "o": {},
        "u": "caf\u00e9\x00",
        "m": -0.0,
    }
    encoded = encode_foreign(value)
    assert encoded.decode() == (
        '{"z":1,"a":1.0,"t":true,"n":null,"l":[1,"1",[],{}],"o":{},"u":"caf\u00e9\\u0000","m":-0.0}'
    )
    assert exactly(json.loads(encoded)) == exactly(value)


def test_mapping_that_needs_a_closer_look_is_written_the_same_way() -> None:
    value: dict[str, Any] = {
        "z": 2**53,
        "a": 1e16,
        "l": [1, "\u754c", [], {}, True, False, None, -0.5],
        "o": {"q\n": {}},
    }
    encoded = encode_foreign(value)
    assert encoded.decode() == (
        '{"z":9007199254740992,"a":1e+16,"l":[1,"\u754c",[],{},true,false,null,-0.5],"o":{"q\\n":{}}}'
    )
    assert exactly(json.loads(encoded)) == exactly(value)


@pytest.mark.req("B014")
def test_later_change_of_the_callers_mapping_changes_nothing() -> None:
    caller: dict[str, Any] = {"a": [1]}
    arguments = decode_object(encode_foreign(caller))
    caller["a"].append(2)
    caller["b"] = 3
    assert arguments == {"a": [1]}


@pytest.mark.req("B075")
def test_cycle_is_refused() -> None:
    by_list: list[Any] = []
    by_list.append(by_list)
    by_dict: dict[str, Any] = {}
    by_dict["self"] = {"back": [by_dict]}
    assert not_encoded({"a": by_list}) == ("cycle", "/a/0")
    assert not_encoded(by_dict) == ("cycle", "/self/back/0")


@pytest.mark.req("B075")
def test_branching_cycle_is_refused_without_unfolding_it() -> None:
    loop: list[Any] = []
    loop.extend([loop] * 1000)
    assert not_encoded({"a": loop}) == ("cycle", "/a/0")


@pytest.mark.req("B076")
def test_shared_value_without_a_cycle_is_written_twice() -> None:
    shared = [1, {"k": 2**60}]
    assert encode_foreign({"a": shared, "b": [shared, shared]}) == (
        b'{"a":[1,{"k":1152921504606846976}],"b":[[1,{"k":1152921504606846976}],[1,{"k":1152921504606846976}]]}'
    )
    plain = ["x"]
    assert encode_foreign({"a": plain, "b": plain}) == b'{"a":["x"],"b":["x"]}'


@pytest.mark.req("B076")
def test_shared_value_that_unfolds_beyond_the_limits_is_refused() -> None:
    unfolding: list[Any] = ["x"] * 100
    for _ in range(20):
        unfolding = [unfolding] * 100
    assert not_encoded({"a": unfolding})[0] == "too_many_members"
    assert not_encoded({"a": ["x" * 60_000] * 9_000})[0] == "too_long"
    assert not_encoded({"a": [["x" * 100] * 4_000]})[0] == "too_long"


@pytest.mark.req("B074")
def test_mapping_of_33_levels_is_refused() -> None:
    fits, over = json.loads(nested(32)), json.loads(nested(33))
    assert encode_foreign(fits) == nested(32).encode()
    assert encode_foreign(json.loads(nested(32).replace("[]", "[1]"))) == nested(32).replace("[]", "[1]").encode()
    assert not_encoded(over) == ("too_deep", "/a" + "/0" * 31)
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    assert not_encoded({"a": deep})[0] == "too_deep"


def test_members_strings_and_size_of_a_mapping_are_limited() -> None:
    limits = DecodingLimits(max_members=3, max_string_characters=4, max_bytes=24)
    assert encode_foreign({"a": [1, 2]}, limits=limits) == b'{"a":[1,2]}'
    assert not_encoded({"a": [1, 2, 3]}, limits=limits) == ("too_many_members", "/a")
    assert not_encoded({"a": "12345"}, limits=limits) == ("string_too_long", "/a")
    assert not_encoded({"12345": 1}, limits=limits) == ("string_too_long", "/12345")
    assert encode_foreign({"a": "1234", "b": "1234"}, limits=limits) == b'{"a":"1234","b":"1234"}'
    assert not_encoded({"a": "1234", "b": "1234", "c": 1}, limits=limits) == ("too_long", "/c")
    assert not_encoded({"a": "\u754c" * 4, "b": "\u754c"}, limits=limits)[0] == "too_long"
    assert encode_foreign({"a": 123456789012345678}, limits=limits) == b'{"a":123456789012345678}'
    assert not_encoded({"a": 1234567890123456789}, limits=limits) == ("too_long", "")


def test_members_of_mappings_and_items_of_lists_are_counted_together_over_all_levels() -> None:
    limits = DecodingLimits(max_members=4)

    for fits in ({"a": {"b": 1, "c": 2, "d": 3}}, {"a": [1, 2, 3]}, {"a": {"b": [1, 2]}}):
        assert json.loads(encode_foreign(fits, limits=limits)) == fits
    for too_many in ({"a": {"b": 1, "c": 2, "d": 3, "e": 4}}, {"a": [1, 2, 3, 4]}, {"a": {"b": [1, 2, 3]}}):
        assert not_encoded(too_many, limits=limits)[0] == "too_many_members"
    assert not_encoded(dict.fromkeys("abcde", 1), limits=limits) == ("too_many_members", "")


@pytest.mark.parametrize("value", [None, True, 1234, 1.25, "12"])
def test_a_mapping_that_is_too_long_is_refused_with_the_place_where_it_became_so(value: object) -> None:
    assert encode_foreign({"a": value}, limits=DecodingLimits(max_bytes=10)) == orjson.dumps({"a": value})
    assert not_encoded({"a": value}, limits=DecodingLimits(max_bytes=8)) == ("too_long", "/a")
    assert not_encoded({"b": 1, "a": [7, value]}, limits=DecodingLimits(max_bytes=13)) == ("too_long", "/a/1")
    assert not_encoded({"a": [7, value]}, limits=DecodingLimits(max_bytes=7)) == ("too_long", "/a/1")


@pytest.mark.parametrize(
    "value", [{"a": ["x" * 60_000] * 9_000}, {"a": [{"x" * 60_000: 1}] * 4_000}], ids=["text", "name"]
)
def test_oversized_mapping_is_refused_without_writing_it_out(value: dict[str, object]) -> None:
    tracemalloc.start()
    try:
        reason, _ = not_encoded(value)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert reason == "too_long"
    assert peak_bytes < 20_000_000


@pytest.mark.case("A07")
@pytest.mark.req("B017", "B084")
def test_integer_is_written_exactly_up_to_the_digit_limit() -> None:
    assert encode_foreign({"a": 10**1000 - 1}) == b'{"a":' + b"9" * 1000 + b"}"
    assert encode_foreign({"a": -(2**64)}) == b'{"a":-18446744073709551616}'
    assert not_encoded({"a": 10**1000}) == ("number_too_large", "/a")
    assert not_encoded({"document_id": 10**5000}) == ("number_too_large", "/document_id")
    assert not_encoded({"document_id": -(10**5000)}) == ("number_too_large", "/document_id")


@pytest.mark.case("A09")
@pytest.mark.req("B016", "B084")
def test_lone_surrogate_of_a_mapping_is_refused() -> None:
    assert not_encoded({"document_id": "\ud800"}) == ("lone_surrogate", "/document_id")
    assert not_encoded({"a": [{"\udfff": 1}]}) == ("lone_surrogate", "/a/0/\\udfff")


# --- both ways ------------------------------------------------------------------------------------

plain_text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12)
plain_values = st.recursive(
    st.none() | st.booleans() | st.integers(-SAFE, SAFE) | st.floats(-SAFE, SAFE) | plain_text,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(plain_text, inner, max_size=4),
    max_leaves=12,
)
plain_objects = st.dictionaries(plain_text, plain_values, max_size=5)


@given(plain_objects)
def test_what_was_written_is_read_back_with_its_types(value: dict[str, Any]) -> None:
    assert exactly(decode_object(encode_foreign(value))) == exactly(value)
    assert exactly(decode_object(json.dumps(value))) == exactly(value)
    assert exactly(decode_object(json.dumps(value, ensure_ascii=False, indent=1).encode())) == exactly(value)


@given(plain_objects)
def test_the_closer_look_reads_and_writes_what_the_plain_way_does(value: dict[str, Any]) -> None:
    # One remarkable member sends the whole document the other way.
    remarkable = {**value, "wide": 2**53, "sur": "\U0001f680"}
    assert exactly(decode_object(encode_foreign(remarkable), wide={("wide",)})) == exactly(remarkable)
    assert exactly(decode_object(json.dumps(remarkable), wide={("wide",)})) == exactly(remarkable)


@given(
    st.text(st.sampled_from('{}[]",:\\u0dD8aeE1.-+ \n\0tfn'), max_size=40)
    | st.text(max_size=40)
    | st.binary(max_size=40)
)
def test_any_text_ends_as_an_object_or_a_refusal(text: str | bytes) -> None:
    try:
        value = decode_object(text)
    except InvalidArguments:
        return
    assert exactly(value) == exactly(json.loads(text))


@given(plain_objects, st.data())
def test_cut_text_is_never_an_object(value: dict[str, Any], data: st.DataObject) -> None:
    encoded = encode_foreign(value)
    cut = data.draw(st.integers(0, len(encoded) - 1))
    with pytest.raises(InvalidArguments):
        decode_object(encoded[:cut])


# --- recorded malformed calls ---------------------------------------------------------------------

# Of the recorded calls that must be refused, these are well-formed JSON objects: the provider adapter
# (m034), the tool's contract or the registry refuses them.
REFUSED_LATER = {"m019", "m020", "m034", "m048", "m054", "m055", "m056", "m057", "m058", "m059"}
REFUSED_HERE = {
    "m011": "empty",
    "m013": "not_an_object",
    "m014": "not_an_object",
    "m016": "not_an_object",
    "m017": "not_an_object",
    "m022": "not_json",
    "m023": "not_json",
    "m024": "trailing_data",
    "m025": "not_json",
    "m026": "not_json",
    "m027": "not_json",
    "m028": "not_json",
    "m030": "not_json",
    "m031": "not_json",
    "m032": "not_json",
    "m035": "trailing_data",
    "m036": "trailing_data",
    "m038": "number_not_finite",
    "m039": "number_not_finite",
    "m041": "number_too_large",
    "m042": "number_too_large",
    "m044": "lone_surrogate",
    "m045": "null_character",
    "m047": "not_json",
    "m050": "not_utf8",
    "m051": "byte_order_mark",
    "m052": "duplicate_member",
    "m053": "duplicate_member",
    "m060": "too_deep",
}


def test_recorded_malformed_calls_are_refused_for_their_reason_and_valid_ones_read(shared_data: Path) -> None:
    lines = (shared_data / "malformed_calls.jsonl").read_text(encoding="utf-8").splitlines()
    seen: dict[str, str] = {}
    for call in map(json.loads, lines):
        raw = base64.b64decode(call["raw_b64"]) if "raw_b64" in call else call["raw"]
        if call["decision"] == "accept" and raw:
            assert decode_object(raw) == call["value"], call["id"]
        elif call["decision"] == "reject" and call["id"] not in REFUSED_LATER:
            seen[call["id"]] = refused(raw)[0]
        elif raw:
            assert type(decode_object(raw)) is dict, call["id"]
    assert seen == REFUSED_HERE


def test_limits_may_be_as_low_as_one_and_as_high_as_an_interpreter_bears() -> None:
    lowest = DecodingLimits(max_bytes=1, max_depth=1, max_members=1, max_string_characters=1, max_number_digits=1)
    highest = DecodingLimits(max_depth=64, max_number_digits=4_300)

    assert (lowest.max_bytes, highest.max_depth, highest.max_number_digits) == (1, 64, 4_300)
    assert decode_object('{"a":' * 64 + "1" + "}" * 64, limits=highest) != {}


@pytest.mark.case("A08")
@pytest.mark.parametrize("text", ["\\n", "\\nx", "x\\n", '\\"', "\\\\", '\\"[', "]\\n]"])
def test_no_escape_hides_the_depth_of_what_follows(text: str) -> None:
    assert decode_object(f'{{"a":"{text}","b":' + "[" * 31 + "]" * 31 + "}") != {}
    assert refused(f'{{"a":"{text}","b":' + "[" * 32 + "]" * 32 + "}") == ("too_deep", "")


def test_the_edges_of_numbers_and_surrogates_anywhere_are_seen_in_mappings() -> None:
    limits = DecodingLimits(max_number_digits=20)

    for sign in (1, -1):
        assert encode_foreign({"a": sign * (10**20 - 1)}, limits=limits) == f'{{"a":{sign * (10**20 - 1)}}}'.encode()
        assert not_encoded({"a": sign * 10**20}, limits=limits) == ("number_too_large", "/a")
    assert not_encoded({"a": "x\ud800"}) == ("lone_surrogate", "/a")
    assert not_encoded({"x\udfff": 1})[0] == "lone_surrogate"

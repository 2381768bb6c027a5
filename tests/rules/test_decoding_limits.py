"""What a text may cost is decided by its limits alone, and every place in it has a name."""

from __future__ import annotations

import json
import sys

import pytest

from placet.errors import ConfigurationError, InvalidArguments
from placet.rules.decoding import DecodingLimits, decode_object, json_pointer, wide_path_matches
from placet.rules.encoding import encode_foreign
from tests.rules.refusals import nested, not_encoded, refused


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
    assert refused('"' + "[" * 40 + '"') == ("not_an_object", "")


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


def test_pointer_is_printable_ascii_and_bounded() -> None:
    assert json_pointer(()) == ""
    assert json_pointer(("a/b~", "0", "\u754c\x7f")) == "/a~1b~0/0/\\u754c\\x7f"
    assert len(json_pointer(("\U0001f600" * 70_000,) * 30)) == 128
    assert json_pointer(("a" * 127,)) == "/" + "a" * 127
    assert json_pointer(("a" * 128,)) == "/" + "a" * 124 + "..."
    assert json_pointer(("a" * 63, "b" * 63)) == "/" + "a" * 63 + "/" + "b" * 63
    assert json_pointer(("a" * 63, "b" * 64)) == "/" + "a" * 63 + "/" + "b" * 60 + "..."


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

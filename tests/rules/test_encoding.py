"""An untrusted Python mapping to the JSON that the decoder judges, or a fixed refusal."""

from __future__ import annotations

import json
import sys
import tracemalloc
from datetime import date
from typing import Any
from uuid import UUID

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.errors import InvalidArguments
from placet.rules.decoding import DecodingLimits, decode_object
from placet.rules.encoding import encode_foreign
from tests.rules.calls import calls
from tests.rules.refusals import MARKER, SAFE, exactly, nested, not_encoded


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


def test_the_edges_of_numbers_and_surrogates_anywhere_are_seen_in_mappings() -> None:
    limits = DecodingLimits(max_number_digits=20)

    for sign in (1, -1):
        assert encode_foreign({"a": sign * (10**20 - 1)}, limits=limits) == f'{{"a":{sign * (10**20 - 1)}}}'.encode()
        assert not_encoded({"a": sign * 10**20}, limits=limits) == ("number_too_large", "/a")
    assert not_encoded({"a": "x\ud800"}) == ("lone_surrogate", "/a")
    assert not_encoded({"x\udfff": 1})[0] == "lone_surrogate"


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


@pytest.mark.parametrize(
    ("value", "max_bytes", "path"),
    [
        ({"a": [7]}, 7, "/a"),
        ({"a": []}, 6, "/a"),
        ({"a": [7]}, 8, ""),
        ({"a": {"b": 7}}, 11, "/a"),
        ({"a": {}}, 6, "/a"),
    ],
)
def test_a_bracket_that_is_one_too_many_is_refused_where_it_closes(
    value: dict[str, Any], max_bytes: int, path: str
) -> None:
    assert not_encoded(value, limits=DecodingLimits(max_bytes=max_bytes)) == ("too_long", path)


@pytest.mark.parametrize(
    "other",
    [(1,), type("Text", (str,), {})("x"), UUID(int=1), date(2026, 1, 2), MARKER.encode()],
    ids=lambda value: type(value).__name__,
)
def test_what_stands_beside_a_large_integer_is_looked_at_all_the_same(other: object) -> None:
    assert not_encoded({"a": 2**60, "b": other}) == ("unsupported_value", "/b")
    assert not_encoded({"a": [2**60, {"b": other}]}) == ("unsupported_value", "/a/1/b")


def test_an_unremarkable_mapping_is_written_in_a_number_of_steps_that_does_not_grow_with_it() -> None:
    leaves: list[Any] = [0, SAFE, -SAFE, 1.5, -0.0, True, False, None, "", "é", {}, []]
    values = (
        {},
        {"a": leaves, "b": {str(number): leaves for number in range(300)}},
        {"a": "x" * 65_536, "b" * 65_536: 1},
        {"a": [""] * 9_999},
        dict.fromkeys(map(str, range(10_000))),
        json.loads(nested(32)),
        {"a": "x" * 65_536, "b": "x" * 65_536, "c": "x" * 65_536, "d": "x" * 65_507},  # 262,144 bytes in all
    )

    assert {calls(encode_foreign, value) for value in values} == {calls(encode_foreign, {})}
    assert calls(encode_foreign, {"a": 2**64}) > calls(encode_foreign, {}), "or this test would not see it"


def test_an_unremarkable_text_is_read_in_a_number_of_steps_that_does_not_grow_with_it() -> None:
    texts = (
        '{"a":"' + "x" * 65_528 + '"}',
        '{"a":["x",true,false,null,[],"\\n","\\u00e9","\\ud7ff","\\ue000"]}',
        '{"a":[' + '"x",' * 9_997 + '"x"]}',
        " " + nested(32) + " ",
    )

    assert {calls(decode_object, text) for text in texts} == {calls(decode_object, "{}")}
    floats = ("1.5", "9007199254740991.0", "-9007199254740991.0")
    assert len({calls(decode_object, f'{{"a":{number}}}') for number in floats}) == 1
    assert {calls(decode_object, text.encode()) for text in texts} == {calls(decode_object, b"{}")}
    assert calls(decode_object, '{"a":"\\ud83d\\ude00"}') > calls(decode_object, "{}"), "or this test would not see it"


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


@given(plain_objects, st.data())
def test_cut_text_is_never_an_object(value: dict[str, Any], data: st.DataObject) -> None:
    encoded = encode_foreign(value)
    cut = data.draw(st.integers(0, len(encoded) - 1))
    with pytest.raises(InvalidArguments):
        decode_object(encoded[:cut])

"""Untrusted text to one JSON object, or a fixed refusal."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.errors import InvalidArguments
from placet.rules.decoding import decode_object
from tests.rules.refusals import MARKER, SAFE, exactly, refused


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


@pytest.mark.parametrize("text", [bytearray(b"{}"), memoryview(b"{}"), None, {}, 7, type("T", (str,), {})("{}")])
def test_decoder_reads_exact_bytes_and_str_only(text: object) -> None:
    assert refused(text) == ("unsupported_value", "")


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

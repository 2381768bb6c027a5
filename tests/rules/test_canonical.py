"""One spelling for each JSON value, and digests over it."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import struct
import subprocess
import sys
from collections.abc import Callable
from math import isfinite
from pathlib import Path
from typing import Any

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from placet.errors import InvalidArguments, MisuseError
from placet.model.json import JsonValue
from placet.rules.canonical import CANONICAL_VERSION, canonical_bytes, float_text, rfc8785_bytes, sha256_hex
from placet.rules.decoding import decode_object

MARKER = "marker-77c0-do-not-show"
SAFE = 2**53 - 1
GOLDEN = json.loads(Path(__file__).with_name("golden_canonical.json").read_text(encoding="utf-8"))


def refused(value: object, spell: Callable[[Any], bytes] = canonical_bytes) -> str:
    with pytest.raises(InvalidArguments) as caught:
        spell(value)
    error = caught.value
    assert error.__cause__ is None
    assert error.__context__ is None
    assert str(error) == f"The arguments were refused: {error.reason.replace('_', ' ')}."
    assert MARKER not in str(error) + repr(error) + repr(error.problems)
    return error.reason


def exactly(value: object) -> object:
    """The value with its types, so that 1, 1.0 and True differ, and 0.0 and -0.0; order of names does not."""
    if type(value) is dict:
        return "object", tuple(sorted((name, exactly(member)) for name, member in value.items()))
    if type(value) is list:
        return "array", tuple(exactly(item) for item in value)
    return type(value).__name__, repr(value)


any_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
# Names around the places where code point order and UTF-16 order part.
edge_text = st.text(st.sampled_from("a~\u007f\u00e9\ud7ff\ue000\ufb33\uffff\U00010000\U0001f600"), max_size=3)
any_float = st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**70), 2**70).map(float)
any_integer = st.integers(-(10**60), 10**60) | st.integers(-SAFE, SAFE)


def values(numbers: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.recursive(
        st.none() | st.booleans() | numbers | any_text,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(any_text | edge_text, inner, max_size=5),
        max_leaves=15,
    )


any_value = values(any_integer | any_float)
interchangeable_value = values(st.integers(-SAFE, SAFE) | any_float)


# --- golden vectors -------------------------------------------------------------------------------


def test_golden_vectors_belong_to_this_version() -> None:
    assert GOLDEN["version"] == CANONICAL_VERSION == "placet-c14n-1"


@pytest.mark.parametrize("vector", GOLDEN["vectors"], ids=lambda vector: vector["name"].replace(" ", "-"))
def test_golden_vector_is_spelled_as_recorded(vector: dict[str, str]) -> None:
    spelled = canonical_bytes(json.loads(vector["input"]))
    assert spelled.decode() == vector["canonical"]
    assert hashlib.sha256(spelled).hexdigest() == vector["sha256"]


@pytest.mark.parametrize("vector", GOLDEN["vectors"], ids=lambda vector: vector["name"].replace(" ", "-"))
def test_golden_vector_from_the_wire_is_spelled_as_recorded_or_refused(vector: dict[str, str]) -> None:
    if "decoder_refuses" in vector:
        with pytest.raises(InvalidArguments) as caught:
            decode_object(vector["input"])
        assert caught.value.reason == vector["decoder_refuses"]
    else:
        assert canonical_bytes(decode_object(vector["input"])).decode() == vector["canonical"]


# --- RFC 8785 itself ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["arrays", "french", "structures", "unicode", "values", "weird"])
def test_official_vector_is_spelled_as_published(name: str, shared_data: Path) -> None:
    folder = shared_data / "jcs" / "testdata"
    value = json.loads((folder / "input" / f"{name}.json").read_text(encoding="utf-8"))
    assert rfc8785_bytes(value) == (folder / "output" / f"{name}.json").read_bytes().strip()


# IEEE 754 bits and their ECMAScript text, worked out by hand from the rules of RFC 8785 section 3.2.2.3.
@pytest.mark.parametrize(
    ("bits", "text"),
    [
        (0x0000000000000000, "0"),
        (0x8000000000000000, "0"),
        (0x0000000000000001, "5e-324"),
        (0x8000000000000001, "-5e-324"),
        (0x7FEFFFFFFFFFFFFF, "1.7976931348623157e+308"),
        (0x4340000000000000, "9007199254740992"),
        (0x4430000000000000, "295147905179352830000"),
        (0x44B52D02C7E14AF5, "9.999999999999997e+22"),
        (0x44B52D02C7E14AF6, "1e+23"),
        (0x444B1AE4D6E2EF4F, "999999999999999900000"),
        (0x444B1AE4D6E2EF50, "1e+21"),
        (0x3EB0C6F7A0B5ED8D, "0.000001"),
        (0x3EB0C6F7A0B5ED8C, "9.999999999999997e-7"),
        (0x3FF0000000000000, "1"),
        (0xBFE0000000000000, "-0.5"),
        (0x41B3DE4355555555, "333333333.3333333"),
    ],
)
def test_double_is_spelled_as_ecmascript_does(bits: int, text: str) -> None:
    (number,) = struct.unpack(">d", bits.to_bytes(8, "big"))
    assert rfc8785_bytes(number) == text.encode()


@given(interchangeable_value)
def test_spelling_without_the_difference_agrees_with_an_independent_implementation(value: Any) -> None:
    assert rfc8785_bytes(value) == rfc8785.dumps(value)


@given(any_value)
def test_spelling_differs_from_rfc_8785_only_in_integral_floats_and_long_integers(value: Any) -> None:
    def without_the_difference(node: Any) -> Any:
        if type(node) is dict:
            return {name: without_the_difference(member) for name, member in node.items()}
        if type(node) is list:
            return [without_the_difference(item) for item in node]
        if type(node) is float:
            return node if not node.is_integer() or abs(node) >= 1e21 else 0.5
        return node if type(node) is not int or abs(node) <= SAFE else 7

    reduced = without_the_difference(value)
    assert canonical_bytes(reduced) == rfc8785.dumps(reduced)


@pytest.mark.case("A07")
def test_rfc_8785_refuses_integers_it_cannot_carry() -> None:
    assert rfc8785_bytes(SAFE) == b"9007199254740991"
    assert rfc8785_bytes(-SAFE) == b"-9007199254740991"
    assert refused(2**53, rfc8785_bytes) == "number_too_large"
    assert refused({"a": [-(2**53)]}, rfc8785_bytes) == "number_too_large"


@pytest.mark.parametrize("edge", [2**53, 2**63, 2**64])
def test_integers_around_what_a_machine_word_holds_are_spelled_exactly(edge: int) -> None:
    for number in (edge - 1, edge, edge + 1):
        assert canonical_bytes([number, -number]) == f"[{number},-{number}]".encode()
        assert canonical_bytes([float(number), -float(number)]) == (
            f"[{float_text(float(number))},{float_text(-float(number))}]".encode()
        )


# --- one value, one spelling; two values, two -----------------------------------------------------


@pytest.mark.req("B070")
def test_values_of_different_types_differ_pairwise() -> None:
    kinds: list[Any] = [
        1,
        "1",
        True,
        1.0,
        None,
        "",
        "null",
        [],
        {},
        [1],
        ["1"],
        {"1": 1},
        False,
        0,
        0.0,
        -0.0,
        "true",
        "1.0",
    ]
    kinds += [10**16, 1e16, 10**21, 1e21, "1e+21", 10**400, [[]], [None], [{}], {"": []}, {"": {}}]
    assert len({canonical_bytes(kind) for kind in kinds}) == len(kinds)
    assert len({canonical_bytes({"a": [kind]}) for kind in kinds}) == len(kinds)


@pytest.mark.req("B070")
@given(any_value, any_value)
def test_spellings_are_equal_exactly_when_the_values_are(one: Any, other: Any) -> None:
    assert (canonical_bytes(one) == canonical_bytes(other)) is (exactly(one) == exactly(other))


@pytest.mark.req("B070")
@given(any_value)
def test_spelling_reads_back_as_the_same_value_and_is_its_own_spelling(value: Any) -> None:
    spelled = canonical_bytes(value)
    read = json.loads(spelled)
    assert exactly(read) == exactly(value)
    assert canonical_bytes(read) == spelled


@pytest.mark.case("A10")
@pytest.mark.req("B071")
@given(any_value, st.randoms(use_true_random=False))
def test_order_of_names_does_not_matter_at_any_depth(value: Any, random: Any) -> None:
    def reordered(node: Any) -> Any:
        if type(node) is dict:
            names = list(node)
            random.shuffle(names)
            return {name: reordered(node[name]) for name in names}
        return [reordered(item) for item in node] if type(node) is list else node

    assert canonical_bytes(reordered(value)) == canonical_bytes(value)


@pytest.mark.case("A10")
def test_order_of_items_matters() -> None:
    assert canonical_bytes({"a": 1, "b": [2, 1]}) == canonical_bytes({"b": [2, 1], "a": 1})
    assert canonical_bytes({"a": 1, "b": [2, 1]}) != canonical_bytes({"a": 1, "b": [1, 2]})


@pytest.mark.case("A10")
def test_names_are_sorted_by_utf_16_code_unit() -> None:
    assert canonical_bytes({"\ufb33": 1, "\U0001f600": 2}).decode() == '{"\U0001f600":2,"\ufb33":1}'
    assert canonical_bytes({"\ufb33": 1.5e300, "\U0001f600": 2}).decode() == '{"\U0001f600":2,"\ufb33":1.5e+300}'


@pytest.mark.req("B072")
def test_nothing_is_truncated() -> None:
    for length in (1024, 65_536, 1_000_000):
        assert canonical_bytes("A" * length + "X") != canonical_bytes("A" * length + "Y")
    assert canonical_bytes([*[0] * 100_000]) != canonical_bytes([*[0] * 99_999, 1])
    assert canonical_bytes({"\u754c" * 3000: 1}) == b'{"' + "\u754c".encode() * 3000 + b'":1}'


@pytest.mark.case("A09")
def test_text_is_not_normalised() -> None:
    assert canonical_bytes("caf\u00e9") != canonical_bytes("cafe\u0301")
    assert canonical_bytes({"\u00e9": 1, "e\u0301": 2}).decode() == '{"e\u0301":2,"\u00e9":1}'


def test_every_character_is_escaped_as_rfc_8785_says() -> None:
    named = {8: "\\b", 9: "\\t", 10: "\\n", 12: "\\f", 13: "\\r", 34: '\\"', 92: "\\\\"}
    for code in itertools.chain(range(0x300), (0x2028, 0x2029, 0xFEFF, 0xFFFF, 0x10FFFF)):
        spelled = named.get(code) or (f"\\u{code:04x}" if code < 32 else chr(code))
        assert canonical_bytes(chr(code)).decode() == f'"{spelled}"'
        assert canonical_bytes([chr(code), 10**30]).decode() == f'["{spelled}",{10**30}]'
        assert canonical_bytes({chr(code): 1e300}).decode() == f'{{"{spelled}":1e+300}}'


@given(any_value)
def test_both_ways_of_spelling_agree(value: Any) -> None:
    # The long integer sends the second spelling through our own writer.
    assert canonical_bytes([value, 10**30]) == b"[" + canonical_bytes(value) + b"," + str(10**30).encode() + b"]"


@given(any_float)
def test_float_keeps_its_type_and_its_bits(number: float) -> None:
    text = float_text(number)
    assert canonical_bytes(number) == text.encode()
    assert canonical_bytes([number, 10**30]) == f"[{text},{10**30}]".encode()
    assert type(json.loads(text)) is float
    assert struct.pack(">d", json.loads(text)) == struct.pack(">d", number)


@pytest.mark.case("A07")
@pytest.mark.parametrize(
    ("number", "text"),
    [
        (1.0, "1.0"),
        (-0.0, "-0.0"),
        (1e15, "1000000000000000.0"),
        (float(SAFE), "9007199254740991.0"),
        (1e16, "10000000000000000.0"),
        (-1.2345678901234568e17, "-123456789012345680.0"),
        (1e20, "100000000000000000000.0"),
        (1e21, "1e+21"),
        (1.5e21, "1.5e+21"),
        (1e-4, "0.0001"),
        (1e-5, "0.00001"),
        (1e-6, "0.000001"),
        (-1.5e-6, "-0.0000015"),
        (1e-7, "1e-7"),
        (1.5e-10, "1.5e-10"),
    ],
)
def test_float_is_laid_out_at_every_boundary(number: float, text: str) -> None:
    assert canonical_bytes(number).decode() == text
    assert canonical_bytes({"\u00e9": number}).decode() == f'{{"\u00e9":{text}}}'


def test_long_integer_is_spelled_exactly_whatever_the_interpreters_digit_limit() -> None:
    number = 3 * 10**4299 + 5
    before = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(640)
    try:
        spelled = canonical_bytes({"a": number, "b": -number})
    finally:
        sys.set_int_max_str_digits(before)
    digits = "3" + "0" * 4298 + "5"
    assert spelled == f'{{"a":{digits},"b":-{digits}}}'.encode()


def test_spelling_is_the_same_in_another_process_with_another_hash_seed() -> None:
    text = '{"b":{"\u00e9":1.0,"z":[1e2,-0.0]},"a":"caf\u00e9","c":0.1}'
    program = (
        "import sys; from placet.rules.decoding import decode_object; from placet.rules.canonical import *;"
        "sys.stdout.write(sha256_hex('test', canonical_bytes(decode_object(sys.argv[1]))))"
    )
    source = Path(__file__).parents[2] / "src"
    seen = {
        subprocess.run(
            [sys.executable, "-X", "utf8", "-c", program, text],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(source), "PYTHONINTMAXSTRDIGITS": "640"},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for seed in ("0", "1", "4242")
    }
    assert seen == {sha256_hex("test", canonical_bytes(decode_object(text)))}


# --- refusals -------------------------------------------------------------------------------------


@pytest.mark.req("B079")
@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_number_that_is_not_finite_is_refused(number: float) -> None:
    assert not isfinite(number)
    for spell in (canonical_bytes, rfc8785_bytes):
        assert refused(number, spell) == "number_not_finite"
        assert refused({"a": [1, {"b": number}]}, spell) == "number_not_finite"


@pytest.mark.case("A09")
@pytest.mark.req("B084")
@pytest.mark.parametrize("text", ["\ud800", "x\udfff", "\ude80\ud83d", MARKER + "\ud800"])
def test_lone_surrogate_is_refused_in_text_and_names(text: str) -> None:
    for spell in (canonical_bytes, rfc8785_bytes):
        for value in (text, [text], {"a": text}, {text: 1}, {"\u00e9": [{text: 1}]}, [10**30, text]):
            assert refused(value, spell) == "lone_surrogate"


@pytest.mark.req("B084")
def test_giant_integer_is_refused() -> None:
    for number in (10**4300, -(10**4300), 10**5000):
        assert refused(number) == "number_too_large"
        assert refused({"a": [number]}) == "number_too_large"
    assert canonical_bytes(10**4300 - 1) == b"9" * 4300


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.req("B074")
def test_256_levels_are_spelled_and_257_are_refused() -> None:
    assert canonical_bytes(nested(256)) == b"[" * 256 + b"1" + b"]" * 256
    assert canonical_bytes([[], nested(200)]) == b"[[]," + b"[" * 200 + b"1" + b"]" * 201
    assert refused(nested(257)) == "too_deep"
    assert refused(nested(100_000)) == "too_deep"
    assert refused(nested(257), rfc8785_bytes) == "too_deep"
    members: JsonValue = 1
    for _ in range(256):
        members = {"a": members}
    assert canonical_bytes(members) == b'{"a":' * 256 + b"1" + b"}" * 256
    assert refused({"a": members}) == "too_deep"


@pytest.mark.req("B074")
def test_depth_is_decided_by_the_limit_and_not_by_the_free_stack() -> None:
    def spelled_below(frames: int) -> bytes:
        return spelled_below(frames - 1) if frames else canonical_bytes(nested(256))

    frame, used = sys._getframe(), 0
    while frame.f_back is not None:
        frame, used = frame.f_back, used + 1
    assert spelled_below(sys.getrecursionlimit() - used - 30) == canonical_bytes(nested(256))


@pytest.mark.req("B075")
def test_cycle_is_refused() -> None:
    loop: list[Any] = []
    loop.append(loop)
    branching: dict[str, Any] = {}
    branching.update({"a": branching, "b": [branching, branching]})
    assert refused(loop) == "too_deep"
    assert refused(branching) in ("too_deep", "too_many_members")


def test_value_of_more_than_a_million_members_is_refused() -> None:
    assert canonical_bytes([0] * 1_000_000) == b"[" + b"0," * 999_999 + b"0]"
    assert refused([0] * 1_000_001) == "too_many_members"
    assert canonical_bytes([[0] * 999_997, {"a": 1}]).endswith(b'0],{"a":1}]')
    assert refused([[0] * 999_998, {"a": 1}]) == "too_many_members"
    unfolding: Any = [0] * 10
    for _ in range(20):
        unfolding = [unfolding, {str(number): unfolding for number in range(10)}]
    assert refused(unfolding) == "too_many_members"


@pytest.mark.req("B076")
def test_shared_value_without_a_cycle_is_spelled_twice() -> None:
    shared: dict[str, JsonValue] = {"k": [1]}
    assert canonical_bytes([shared, shared]) == b'[{"k":[1]},{"k":[1]}]'
    assert canonical_bytes([shared, shared, 10**30]) == f'[{{"k":[1]}},{{"k":[1]}},{10**30}]'.encode()


class Raised(BaseException):
    pass


def act(*_: object, **__: object) -> Any:
    raise Raised(MARKER)


def foreign_values() -> list[Any]:
    """Values that are not plain JSON; the first ones do harm when touched."""

    harm = ("__eq__", "__hash__", "__getattribute__", "__instancecheck__")
    meta: Any = type("Meta", (type,), dict.fromkeys(harm, act))
    body: dict[str, Any] = {"__getattribute__": act, "__eq__": act, "__hash__": object.__hash__, "__iter__": act}
    body |= {"__str__": act, "__repr__": act, "__len__": act, "__bool__": act, "encode": act, "values": act}
    shapes: list[tuple[Any, tuple[object, ...]]] = [(object, ()), (str, (MARKER,)), (int, (1,)), (float, (1.5,))]
    shapes += [(dict, ()), (list, ()), (bytes, (b"x",))]
    hostile = [base.__new__(meta("Hostile", (base,), body), *content) for base, content in shapes]
    return [*hostile, (1, 2), frozenset({1}), b"x", 1j, object(), range(2), int, ...]


@pytest.mark.req("B070", "B080")
def test_value_outside_plain_json_is_refused_without_running_it() -> None:
    for value in [*foreign_values(), {1}, bytearray(b"x")]:
        for spell in (canonical_bytes, rfc8785_bytes):
            assert refused(value, spell) == "unsupported_value"
            assert refused([0, {"a": value}], spell) == "unsupported_value"


@pytest.mark.case("A10")
@pytest.mark.req("B077", "B080")
def test_name_that_is_no_exact_string_is_refused() -> None:
    for name in [*foreign_values(), 1, None, True, 1.0]:
        assert refused({name: 1}) == "unsupported_value"
        assert refused([{"a": {"b": 1, name: 1}}], rfc8785_bytes) == "unsupported_value"


# --- digests --------------------------------------------------------------------------------------


@pytest.mark.req("B082")
def test_digest_is_the_documented_sha256() -> None:
    by_hand = hashlib.sha256(b"placet.call\x00" + b"\0\0\0\0\0\0\0\x02" + b"ab" + b"\0\0\0\0\0\0\0\0").hexdigest()
    assert sha256_hex("placet.call", b"ab", b"") == by_hand
    assert len(by_hand) == 64


@pytest.mark.req("B082")
def test_digest_depends_on_its_domain_and_on_how_the_parts_are_cut() -> None:
    digests = [
        sha256_hex("one", b"ab"),
        sha256_hex("two", b"ab"),
        sha256_hex("one", b"a", b"b"),
        sha256_hex("one", b"", b"ab"),
        sha256_hex("one", b"ab", b""),
        sha256_hex("one"),
        sha256_hex("one", b""),
        sha256_hex("onea", b"b"),
    ]
    assert len(set(digests)) == len(digests)


@given(st.lists(st.binary(max_size=9), max_size=4), st.lists(st.binary(max_size=9), max_size=4))
def test_digests_are_equal_exactly_when_the_parts_are(one: list[bytes], other: list[bytes]) -> None:
    assert (sha256_hex("d", *one) == sha256_hex("d", *other)) is (one == other)


@pytest.mark.parametrize("domain", ["", "a\0", "\0", "caf\u00e9"])
def test_domain_that_could_be_mistaken_is_refused(domain: str) -> None:
    with pytest.raises(MisuseError):
        sha256_hex(domain, b"x")

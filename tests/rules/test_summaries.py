"""Audit learns how values are shaped and whether two are the same, and nothing else."""

import json
from collections import UserDict
from dataclasses import fields
from enum import Enum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.model.audit import Summary
from placet.rules.field_names import KeyRules
from placet.rules.summaries import FINGERPRINT_PREFIX, fingerprint_text, summary

MARKER = "LEAKED-7f3a91"
TEXT = st.text("abs1:;[]dlp", max_size=4)
JSON = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(-(2**63), 2**63), st.integers(0, 2), st.floats(allow_nan=False), TEXT
    ).filter(lambda value: value not in (float("inf"), -float("inf"))),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXT, inner, max_size=3)),
    max_leaves=6,
)


class Thrown(BaseException):
    """Not an Exception: a guard that catches those alone lets it through."""


def throw(*_: object) -> Any:
    raise Thrown(MARKER)


class HostileType(type):
    __hash__ = __eq__ = __repr__ = throw


class Hostile(metaclass=HostileType):
    __class__ = property(throw)
    __str__ = __repr__ = __hash__ = __eq__ = __iter__ = __getattribute__ = throw


class HostileMapping(dict[str, object]):
    items = throw


class HostileList(list[object]):
    __iter__ = throw


class HostileEnum(Enum):
    ONE = 1
    value = property(throw)


class HostileKey:
    def __hash__(self) -> int:
        return 1

    __eq__ = __lt__ = throw


def part(value: object) -> bytes:
    text = fingerprint_text(value)
    assert text.startswith(FINGERPRINT_PREFIX)
    return text.removeprefix(FINGERPRINT_PREFIX)


def counted(**counts: int) -> dict[str, int]:
    names = [f"{name}_count" for name in ("field", "scalar", "collection", "redacted_field", "content_field")]
    expected = dict.fromkeys([*names, "identifier_field_count"], 0)
    return expected | {f"{name}_count": count for name, count in counts.items()}


@pytest.mark.req("B116")
def test_a_known_payload_has_known_counts() -> None:
    payload = {
        "order_id": "A-1001",
        "lines": [{"sku": "x", "quantity": 2, "price": 1.5}, {"sku": "y", "quantity": 1, "price": None}],
        "gift": True,
        "api_key": {"never": ["looked", "into"]},
        "prompt": "say hello",
        "answer": ["a", "b"],
    }

    assert summary(payload) == {
        "field_count": 12,
        "scalar_count": 11,
        "collection_count": 5,
        "redacted_field_count": 1,
        "content_field_count": 2,
        "identifier_field_count": 1,
    }


@pytest.mark.req("B116")
def test_a_summary_has_the_six_counters_of_the_model() -> None:
    assert list(summary({})) == [each.name for each in fields(Summary)]
    assert Summary(**summary({"a": 1})) == Summary(field_count=1, scalar_count=1, collection_count=1)


@pytest.mark.req("B116")
def test_a_bare_scalar_is_one_scalar() -> None:
    for scalar in ["text", 1, 1.5, True, None, float("nan"), 10**5000, b"bytes"]:
        assert summary(scalar) == counted(scalar=1)


@pytest.mark.req("B116", "B120")
@pytest.mark.parametrize("key", ["authorization", "password", "secret", "token", "phone", "mobile", "userPhone"])
def test_a_secret_is_counted_and_replaced_before_hashing(key: str) -> None:
    assert summary({key: {"a": 1}}) == counted(field=1, collection=1, redacted_field=1)
    assert part({key: MARKER}) == part({key: [1, 2]})
    assert MARKER.encode() not in part({"a": [{key: {"b": MARKER}}]})


@pytest.mark.req("B120")
def test_the_name_of_a_secret_still_counts() -> None:
    assert part({"token": 1}) != part({"secret": 1})


def test_a_field_is_counted_as_one_kind_only() -> None:
    assert summary({"token_id": 1, "prompt_text": "x"}) == counted(
        field=2, scalar=1, collection=1, redacted_field=1, content_field=1
    )


def test_a_deployment_can_add_secret_keys() -> None:
    keys = KeyRules(also_secret={"iban"})

    assert summary({"iban": "DE89"}, keys=keys)["redacted_field_count"] == 1
    assert fingerprint_text({"iban": "DE89"}, keys=keys) == fingerprint_text({"iban": "FR76"}, keys=keys)


def test_the_form_says_that_it_is_a_fingerprint_and_its_version() -> None:
    assert fingerprint_text({"b": [1, 2.5, None, True, False, "x"], "a": {}}) == (
        b"placet-audit-fingerprint-1\x00d2:s1:ad0:s1:bl6:i1;f2.5;ntbs1:x"
    )


def test_the_order_of_keys_does_not_matter_and_that_of_members_does() -> None:
    assert part({"a": 1, "b": {"c": 2, "d": 3}}) == part({"b": {"d": 3, "c": 2}, "a": 1})
    assert part([1, 2]) != part([2, 1])


def test_a_set_counts_whatever_order_it_is_read_in() -> None:
    texts = [f"member {number}" for number in range(20)]

    assert part(set(texts)) == part(set(reversed(texts))) == part(frozenset(texts))
    assert part({1}) != part([1])


@given(JSON, JSON)
def test_different_plain_values_have_different_forms(one: object, other: object) -> None:
    def canonical(value: object) -> str:  # unlike Python's ==, tells 1 from 1.0 and from True
        return json.dumps(value, sort_keys=True)

    assert (part(one) == part(other)) == (canonical(one) == canonical(other))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (["a", "b"], ["as1:b"]),
        ({"a": "b"}, {"as1:b": ""}),
        ([[1], 2], [[1, 2]]),
        ("[CYCLE]", b"bytes"),
        ({"token": 1}, {"token": {"x": 1}, "a": 1}),
        (["[REDACTED]"], ["p[REDACTED]"]),
        ({1: "a"}, {"[UNSUPPORTED_KEY]": "a"}),
        (1, True),
        (1, 1.0),
        (0.0, -0.0),
        ("1", 1),
        (None, "n"),
    ],
)
def test_texts_cannot_imitate_structure(one: object, other: object) -> None:
    assert part(one) != part(other)


@pytest.mark.req("B129")
def test_a_value_that_holds_itself_ends_in_a_placeholder() -> None:
    result: dict[str, object] = {"ok": True}
    result["self"] = result

    assert part(result) == b"d2:s2:okts4:selfp[CYCLE]"
    assert summary(result) == counted(field=2, scalar=1, collection=2)
    members: list[object] = []
    members.append(members)
    assert part(members) == b"l1:p[CYCLE]"


def test_a_value_that_appears_twice_is_no_cycle() -> None:
    shared = {"a": 1}

    assert part([shared, shared]) == b"l2:d1:s1:ai1;d1:s1:ai1;"


@pytest.mark.req("B130")
def test_a_key_that_is_not_text_is_a_placeholder() -> None:
    assert part({HostileKey(): 1}) == b"d1:p[UNSUPPORTED_KEY]i1;"
    assert part({2: "x"}) == part({3: "x"})
    assert summary({HostileKey(): 1}) == counted(field=1, scalar=1, collection=1)


@pytest.mark.req("B133")
def test_numbers_without_a_json_form_are_placeholders() -> None:
    assert part([float("nan"), float("inf"), -float("inf")]) == b"l3:" + b"p[NON_FINITE_FLOAT]" * 3
    assert part([10**5000, 2**64 - 1]) == b"l2:p[GIANT_INTEGER]i18446744073709551615;"


def test_hostile_values_are_placeholders_and_nothing_of_them_runs() -> None:
    value = [Hostile(), Hostile, HostileMapping(a=1), HostileList([1]), HostileEnum.ONE, b"bytes"]

    assert part(value) == (
        b"l6:p[UNSERIALIZABLE]p[UNSERIALIZABLE]p[UNREADABLE_MAPPING]p[UNREADABLE_COLLECTION]p[UNREADABLE_ENUM]"
        b"p[UNSERIALIZABLE]"
    )
    assert summary(value) == counted(scalar=6, collection=1)


def test_an_enum_counts_as_what_it_stands_for() -> None:
    class Colour(Enum):
        RED = "red"

    assert part(Colour.RED) == part("red")
    assert summary([Colour.RED]) == counted(scalar=1, collection=1)


def test_a_fault_of_our_own_is_a_placeholder_too() -> None:
    class Broken(KeyRules):
        def kind(self, key: str) -> Any:
            raise MemoryError

    assert fingerprint_text({"a": 1}, keys=Broken()) == FINGERPRINT_PREFIX + b"p[UNSERIALIZABLE]"
    assert summary({"a": 1}, keys=Broken()) == counted(field=1, scalar=1, collection=1)


def test_what_was_counted_before_a_fault_of_our_own_stands() -> None:
    class BrokenInTheMiddle(KeyRules):
        def kind(self, key: str) -> Any:
            return super().kind(key) if key != "middle" else throw_exhausted()

    def throw_exhausted() -> Any:
        raise RecursionError

    assert summary({"a": 1, "b": 2, "middle": 3, "d": 4}, keys=BrokenInTheMiddle()) == counted(
        field=4, scalar=3, collection=1
    )


def test_unusual_but_readable_values_count_like_plain_ones() -> None:
    class Text(str):
        __slots__ = ()
        __hash__ = __eq__ = __len__ = __getitem__ = throw

    plain = {"a": "text", "b": [1, {"c": 2}]}

    assert part(UserDict({"a": Text("text"), "b": (1, UserDict(c=2))})) == part(plain)
    assert summary(UserDict({"a": Text("text"), "b": (1, UserDict(c=2))})) == summary(plain)


def test_the_short_way_for_plain_mappings_gives_what_the_general_way_gives() -> None:
    value = {"order_id": "A", "note": "x" * 2000, "token": "t", "lines": [{"n": 1.5}], "gone": None, "on": True}

    assert part([value]) == b"l1:" + part(value)
    inside = summary([value])
    assert inside == summary(value) | {"collection_count": inside["collection_count"]}
    assert inside["collection_count"] == summary(value)["collection_count"] + 1


class Name(str):
    """A key that is text, and not exactly so."""

    __slots__ = ()


def test_a_key_of_a_class_of_its_own_is_known_by_its_text() -> None:
    named = {Name("token"): MARKER, Name("order_id"): 1, Name("thread_id"): 2, "plain": 3}

    assert summary(named) == counted(field=4, scalar=3, collection=1, redacted_field=1, identifier_field=2)
    assert part(named) == b"d4:s5:plaini3;s5:tokenp[REDACTED]s8:order_idi1;s9:thread_idi2;"


def test_a_key_that_cannot_be_read_hides_nothing_of_the_fields_beside_it() -> None:
    assert summary({HostileKey(): [1], "token": 2}) == counted(field=2, scalar=1, collection=2, redacted_field=1)
    assert part({HostileKey(): [1], "token": 2}) == b"d2:p[UNSUPPORTED_KEY]l1:i1;s5:tokenp[REDACTED]"


def test_lone_surrogates_can_be_hashed() -> None:
    assert part("\ud800") != part("\udc00")


def test_secrets_are_counted_each_and_members_after_an_odd_key_are_written_too() -> None:
    assert summary({"token": 1, "password": 2, "a": 3}) == counted(field=3, scalar=1, collection=1, redacted_field=2)
    assert part({HostileKey(): 1, "a": 2}) == b"d2:p[UNSUPPORTED_KEY]i1;s1:ai2;"
    assert part({1}) == b"u1:i1;"


# ---------------------------------------------------------------- the form, letter by letter


@pytest.mark.parametrize(
    ("value", "form"),
    [
        (None, "n"),
        (True, "t"),
        (False, "b"),
        (0, "i0;"),
        (-12, "i-12;"),
        (2**64 - 1, f"i{2**64 - 1};"),
        (-(2**64 - 1), f"i-{2**64 - 1};"),
        (2**64, "p[GIANT_INTEGER]"),
        (-(2**64), "p[GIANT_INTEGER]"),
        (1.5, "f1.5;"),
        (1.0, "f1.0;"),
        (float("nan"), "p[NON_FINITE_FLOAT]"),
        (float("inf"), "p[NON_FINITE_FLOAT]"),
        ("", "s0:"),
        ("ä b", "s3:ä b"),
        ("x" * 1024, "s1024:" + "x" * 1024),
        ("x" * 1024 + "y", "s1025:" + "x" * 1024),
        ([], "l0:"),
        ({}, "d0:"),
        ([1, "a", [None]], "l3:i1;s1:al1:n"),
        ({"b": 1, "a": "x"}, "d2:s1:as1:xs1:bi1;"),
        ({"ab": [], "a": {}}, "d2:s1:ad0:s2:abl0:"),
        ({"a": "x" * 1024 + "y"}, "d1:s1:as1025:" + "x" * 1024),
        ({"k" * 1024 + "y": 1}, "d1:s1025:" + "k" * 1024 + "i1;"),
        ({"token": "x"}, "d1:s5:tokenp[REDACTED]"),
        ({1: 2}, "d1:p[UNSUPPORTED_KEY]i2;"),
        ({2, 10}, "u2:i10;i2;"),
        (object(), "p[UNSERIALIZABLE]"),
    ],
    ids=lambda value: "an object" if type(value) is object else repr(value)[:24],
)  # fmt: skip
def test_each_kind_of_value_is_written_exactly_so(value: object, form: str) -> None:
    assert part(value) == form.encode()


def test_what_holds_itself_is_named_where_it_comes_back_and_not_where_it_only_comes_twice() -> None:
    looped: list[Any] = [1]
    looped.append(looped)
    named: dict[str, Any] = {"a": 1}
    named["b"] = [named]
    twice = [1]

    assert part(looped) == b"l2:i1;p[CYCLE]"
    assert part(named) == b"d2:s1:ai1;s1:bl1:p[CYCLE]"
    assert part([twice, twice]) == b"l2:l1:i1;l1:i1;"
    assert summary(looped) == counted(collection=2, scalar=1)
    assert summary(named) == counted(field=2, collection=3, scalar=1)
    assert summary([twice, twice]) == counted(collection=3, scalar=2)

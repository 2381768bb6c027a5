"""What a schema may cost: what its constants, its required names and its patterns weigh."""

from __future__ import annotations

from typing import Any

import pytest

import placet
from placet import Tool
from placet.errors import ContractError, InvalidArguments
from placet.rules.contracts.schema_bounds import MAX_MATCHING, extent, refuse_costly
from placet.rules.contracts.schema_patterns import PATTERN_BYTES, compiled_bytes, fitting, is_common
from placet.rules.contracts.schema_reading import read_graph

READ: dict[str, Any] = {"effect": "read", "name": "look"}


def handle(arguments: dict[str, Any]) -> Any:
    """What a schema describes."""
    return arguments


def of_member(schema: object, **options: Any) -> Tool:
    """A tool of one argument `x`."""
    return placet.tool_from_schema(handle, **(READ | {"arguments": {"properties": {"x": schema}}} | options))


def of_items(schema: object, **options: Any) -> Tool:
    """A tool of one list `x`."""
    return of_member({"type": "array", "items": schema}, **options)


def why_refused(schema: object, **options: Any) -> str:
    with pytest.raises(ContractError) as caught:
        of_member(schema, **options)
    return str(caught.value)


def problems(tool: Tool, arguments: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    with pytest.raises(InvalidArguments) as caught:
        tool.check_arguments(arguments)
    return caught.value.problems


def accepts(tool: Tool, arguments: dict[str, Any]) -> bool:
    try:
        tool.check_arguments(arguments)
    except InvalidArguments:
        return False
    return True


# ---------------------------------------------------------------- what a refusal lists


@pytest.mark.case("A16")
def test_a_refusal_that_would_name_each_required_member_of_each_item_is_not_explained() -> None:
    tool = of_items({"type": "object", "required": [f"r{n}" for n in range(500)]})

    assert problems(tool, {"x": [{}] * 1_200}) == (("", "not_accepted"),)  # else 600,000 errors for 4 KB
    assert len(problems(tool, {"x": [{}]})) == 16


@pytest.mark.case("A16")
def test_names_that_another_member_requires_count_like_required_ones() -> None:
    tool = of_items({"dependentRequired": {"a": [f"r{n}" for n in range(500)]}, "properties": {"a": {}}})

    assert problems(tool, {"x": [{"a": 1}] * 600}) == (("", "not_accepted"),)
    assert len(problems(tool, {"x": [{"a": 1}]})) == 16


@pytest.mark.case("A16")
@pytest.mark.parametrize(
    "constants",
    [[f"k{n}" for n in range(20_000)], [*range(20_000)], ["long text " * 900] * 3 + ["a" * 60_000]],
    ids=["texts", "numbers", "long texts"],
)
def test_a_refusal_that_would_repeat_many_constants_for_many_items_is_not_explained(constants: list[object]) -> None:
    tool = of_items({"enum": constants})

    assert problems(tool, {"x": ["zz"] * 1_600}) == (("", "not_accepted"),)  # else gigabytes
    assert problems(tool, {"x": ["zz"]}) == (("/x/0", "enum"),)
    assert accepts(tool, {"x": [constants[-1]] * (700 if len(constants) > 4 else 0)})


@pytest.mark.case("A16")
def test_a_long_text_or_name_in_a_value_counts_for_several_values() -> None:
    assert extent({"a": [1, "b"], "c": None}) == 5
    assert extent("a" * 640) == 11
    assert extent({"n" * 640: [1] * 9}) == 1 + 11 * 10

    tool = of_member({"required": [f"r{n}" for n in range(500)]}, max_argument_bytes=262_144)
    assert problems(tool, {"x": {"a": "b" * 50_000}}) == (("", "not_accepted"),)  # else each error repeats the text


# ---------------------------------------------------------------- what is compared


@pytest.mark.case("A16")
@pytest.mark.parametrize("constant", [{"a": 1}, [1]], ids=["objects", "lists"])
@pytest.mark.parametrize("count", [5_000, 250])
def test_constants_that_are_compared_one_by_one_count_as_visits(constant: Any, count: int) -> None:
    constants = [[n] if isinstance(constant, list) else {"a": n} for n in range(count)]

    why = why_refused({"type": "array", "items": {"enum": constants}})

    assert "in more than 2000 ways (" in why
    assert "each constant that is no scalar and each required name counted" in why
    assert accepts(of_items({"enum": constants[:200]}), {"x": [constants[199]] * 50})


@pytest.mark.case("A16")
def test_one_constant_that_is_no_scalar_makes_the_others_count_as_well() -> None:
    assert "in more than 2000 ways (" in why_refused({"enum": [*range(500), [1]]})
    assert accepts(of_member({"enum": [*range(400), [1]]}), {"x": [1]})


@pytest.mark.case("A16")
def test_each_way_to_shared_constants_counts() -> None:
    shared = {"$defs": {"e": {"enum": [f"k{n}" for n in range(20_000)]}}}
    arguments = {**shared, "properties": {"x": {"anyOf": [{"$ref": "#/$defs/e"}] * 4}}}

    with pytest.raises(ContractError, match="in more than 2000 ways"):
        of_member({}, arguments=arguments)


@pytest.mark.case("A12")
@pytest.mark.parametrize(
    ("constants", "accepted", "refused"),
    [
        ([1, "a", None, True, 2.0], [1, "a", None, True, 2.0, 2], [1.0, False, 0, "b", 2.5]),
        ([0, 1], [0, 1], [False, True, 0.0, 1.0]),
        ([False], [False], [0, 0.0]),
        ([[1], {"a": [2.0]}], [[1], {"a": [2.0]}, {"a": [2]}], [[1.0], {"a": [3]}]),
    ],
)
def test_constants_are_told_apart_as_exactly_when_they_are_looked_up(
    constants: list[Any], accepted: list[Any], refused: list[Any]
) -> None:
    tool = of_member({"properties": {"c": {"enum": constants}, "f": {"type": "number"}}})

    for float_beside in ({}, {"f": 3.0}):  # with a float, every constant is held against the exact words
        assert [each for each in accepted if not accepts(tool, {"x": {"c": each, **float_beside}})] == []
        assert [each for each in refused if accepts(tool, {"x": {"c": each, **float_beside}})] == []


@pytest.mark.case("A16")
def test_a_value_with_floats_that_would_take_long_to_read_exactly_is_refused() -> None:
    tool = of_items({"anyOf": [{"type": "number", "minimum": n} for n in range(900)]})

    assert accepts(tool, {"x": [1] * 1_500})
    assert accepts(tool, {"x": [1.0] * 50})
    assert problems(tool, {"x": [1.0] * 1_500}) == (("", "not_accepted"),)


# ---------------------------------------------------------------- patterns


@pytest.mark.case("A16")
@pytest.mark.parametrize("keyword", ["pattern", "patternProperties", "propertyNames"])
def test_a_pattern_that_is_large_once_compiled_is_refused(keyword: str) -> None:
    pattern = "(?:x?a?b?){800}[^abx]"
    inside = {"pattern": pattern, "patternProperties": {pattern: {"type": "string"}}}.get(keyword, {"pattern": pattern})

    why = why_refused({"type": "object", keyword: inside} if keyword != "pattern" else {"pattern": pattern})

    assert "cannot be matched in linear time within 49152 bytes" in why


@pytest.mark.case("A16")
def test_patterns_held_against_one_text_are_counted_together_and_with_the_bytes_of_a_value() -> None:
    several = [f"[ab]*a[ab]{{{200 - n}}}x" for n in range(4)]
    each = compiled_bytes(several[0])
    together = {"type": "string", "anyOf": [{"pattern": pattern} for pattern in several]}

    assert 3 * each * 8_192 <= MAX_MATCHING < 4 * each * 8_192
    assert "more than 49152 bytes once compiled, for values of 8192 bytes" in why_refused(together)
    assert "more than 49152 bytes once compiled" in why_refused(
        {"patternProperties": {pattern: {"type": "null"} for pattern in several}}
    )
    assert accepts(of_member(together, max_argument_bytes=4_096), {"x": "ab" * 300 + "x"})
    apart = {"properties": {f"p{n}": {"pattern": pattern} for n, pattern in enumerate(several)}}
    assert accepts(of_member(apart), {"x": {}})  # each against a text of its own, of which there is so much in all
    assert "for values of 65536 bytes" in why_refused({}, result={"properties": {"r": together}})


@pytest.mark.case("A16")
def test_a_long_text_is_not_matched_once_more_against_large_patterns_to_explain_its_refusal() -> None:
    tool = of_member({"anyOf": [{"pattern": f"[ab]*a[ab]{{{200 - n}}}x"} for n in range(3)]})

    assert problems(tool, {"x": "abab"}) == (("/x", "anyOf"),)
    assert problems(tool, {"x": "ab" * 4_000}) == (("", "not_accepted"),)


@pytest.mark.case("A16")
def test_patterns_of_everyday_size_are_accepted_where_results_are_large() -> None:
    quad = "(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9][0-9]|[0-9])"
    tool = of_member(
        {"pattern": r"^\p{L}+$"}, result={"properties": {"ip": {"pattern": rf"^(?:{quad}\.){{3}}{quad}$"}}}
    )

    assert accepts(tool, {"x": "größe"})
    assert not accepts(tool, {"x": "a1"})
    assert 256 == compiled_bytes("^a$") < compiled_bytes(r"^\p{L}+$") <= PATTERN_BYTES


ECMA_READS_OTHERWISE = [
    "(?m)^ok$", "(?x)^a b$", "(?i)^abc$", "(?s)^.$", "(?R)^ok$", "^(?-u:a)$", "^(?i:a)$", r"^\x{41}$", r"^a\zb?$",
    r"\Aa",
    r"^\<ok\>$", "^(?P<n>a)$", "^[a-z&&[^b]]+$", "^[a-z--b]+$", "^[~~a]$", "^[[:alpha:]]+$", "^[[a]b]$", "^[^]a]$",
    r"^\pL$", r"^\p{Greek}$", r"^\p{lu}$", r"^\U00000041$", r"\bok\b", r"a\B", "^a++$", "^a{2}{3}$", "^*a",
]  # fmt: skip


@pytest.mark.case("A16")
@pytest.mark.parametrize("pattern", ECMA_READS_OTHERWISE)
def test_a_pattern_that_ecma_262_reads_otherwise_is_refused(pattern: str) -> None:
    why = why_refused({"type": "string", "pattern": pattern})

    if fitting(pattern) is not None:  # the engine takes it, and with a meaning of its own
        assert "is read otherwise by ECMA-262" in why
        assert "is read otherwise by ECMA-262" in why_refused({"patternProperties": {pattern: {"type": "null"}}})


@pytest.mark.parametrize(
    ("pattern", "fits", "fits_not"),
    [
        ("^ok$", "ok", "evil\nok"),
        ("^ok$", "ok", "ok\n"),
        ("^.$", "\x85", "\r"),
        (r"^\w\d\s$", "a1\ufeff", "é1 "),
        (r"^[\w.-]+@[^\s@]{2,9}?$", "a.b@c.example", "a b@c"),
        (r"^(?<year>\d{4})-(?:0[1-9]|1[0-2])$", "2024-12", "2024-13"),
        (r"^\u0041\u{42}\x43\cJ\t?\/\-\]$", "ABC\n/-]", "ABC"),
        (r"^[\]\[\\^a\-z]+$", "[]-\\", "b"),
        (r"^\p{Lu}\p{Script=Greek}$", "Aα", "aα"),
        (r"^a{2,}b*?c+?(|d)$", "aabcc", "ac"),
        (r"^[a&-]}]$", "&}]", "&"),
        ("", "anything", None),
    ],
)  # fmt: skip
def test_a_pattern_that_both_read_alike_is_matched_as_ecma_262_does(
    pattern: str, fits: str, fits_not: str | None
) -> None:
    assert is_common(pattern)
    tool = of_member({"type": "string", "pattern": pattern})

    assert accepts(tool, {"x": fits})
    assert fits_not is None or not accepts(tool, {"x": fits_not})


# ---------------------------------------------------------------- visits, counted

_TEXT: dict[str, Any] = {"type": "string"}


def visits(max_depth: int = 32, **schema: Any) -> int:
    root = read_graph({"type": "object", **schema}, ContractError)
    return refuse_costly(root, ContractError, max_depth=max_depth, max_bytes=8_192)


@pytest.mark.case("A16")
@pytest.mark.parametrize(
    ("schema", "count"),
    [
        ({}, 1),
        ({"properties": {"a": _TEXT}}, 2),
        ({"properties": {"a": _TEXT, "b": _TEXT}}, 2),  # each value is visited for itself
        ({"additionalProperties": _TEXT}, 2),
        ({"unevaluatedProperties": _TEXT}, 2),
        ({"additionalProperties": _TEXT, "unevaluatedProperties": _TEXT}, 3),
        ({"properties": {"a": _TEXT}, "additionalProperties": _TEXT}, 3),
        ({"properties": {"a": _TEXT}, "patternProperties": {"^b": _TEXT}}, 4),  # a name is matched: one
        ({"patternProperties": {"^b": _TEXT, "^c": _TEXT}}, 5),
        ({"propertyNames": _TEXT}, 2),
        ({"propertyNames": {"allOf": [_TEXT, _TEXT]}, "properties": {"a": _TEXT}}, 4),
        ({"properties": {"a": {"items": _TEXT}}}, 3),
        ({"properties": {"a": {"prefixItems": [_TEXT, {"allOf": [_TEXT]}]}}}, 4),
        ({"properties": {"a": {"prefixItems": [_TEXT, _TEXT], "items": _TEXT}}}, 4),
        ({"properties": {"a": {"items": _TEXT, "contains": _TEXT, "unevaluatedItems": _TEXT}}}, 5),
        ({"allOf": [{"properties": {"a": _TEXT}}, {"properties": {"a": _TEXT}}]}, 5),
        ({"allOf": [{"properties": {"a": _TEXT}}, {"properties": {"b": _TEXT}}]}, 4),
        ({"allOf": [{"properties": {"a": _TEXT}}, {"additionalProperties": _TEXT}]}, 5),
        ({"allOf": [{"items": _TEXT}, {"items": _TEXT}, {"propertyNames": _TEXT}]}, 6),
        ({"anyOf": [{}, {}]}, 3),
        ({"if": {}, "then": {}, "else": {}}, 4),
        ({"not": {}}, 2),
        ({"dependentSchemas": {"a": {"properties": {"b": _TEXT}}}}, 3),
        ({"required": ["a"]}, 3),  # the list, and each name in it
        ({"required": []}, 1),
        ({"required": ["a", "b" * 64]}, 5),  # a long name counts for two
        ({"dependentRequired": {"a": ["b", "c"]}}, 4),
        ({"properties": {"a": {"const": 1}}}, 2),
        ({"properties": {"a": {"enum": list(range(31))}}}, 2),
        ({"properties": {"a": {"enum": list(range(32))}}}, 3),
        ({"properties": {"a": {"enum": list(range(64))}}}, 4),
        ({"properties": {"a": {"enum": [[1], 2]}}}, 15),  # three values, four visits each, and one for their exact form
        ({"properties": {"a": {"pattern": "^a$"}}}, 3),
        ({"properties": {"a": {"pattern": "a{12}"}}}, 5),
        ({"properties": {"a": {"$ref": "#/$defs/d"}}, "$defs": {"d": {"properties": {"b": _TEXT}}}}, 4),
        ({"properties": {"n": {"$ref": "#"}}}, 1 + 2 * 32),
    ],
    ids=lambda value: str(value)[:60],
)  # fmt: skip
def test_a_visit_is_counted_for_each_part_that_is_held_against_one_value_and_what_is_around_it(
    schema: dict[str, Any], count: int
) -> None:
    assert visits(**schema) == count


@pytest.mark.case("A16")
def test_a_schema_that_refers_to_itself_is_counted_as_deep_as_a_value_may_be() -> None:
    assert [visits(depth, properties={"n": {"$ref": "#"}}) for depth in (1, 2, 7)] == [3, 5, 15]


@pytest.mark.case("A16")
def test_so_many_visits_are_accepted_and_one_more_is_refused() -> None:
    assert visits(anyOf=[{}] * 1_999) == 2_000
    with pytest.raises(ContractError, match=r"more than 2000 ways \(2001\), each constant"):
        visits(anyOf=[{}] * 2_000)
    assert visits(properties={"a": {"anyOf": [{}] * 1_998}}) == 2_000
    with pytest.raises(ContractError, match="more than 2000 ways at depth 1; give its alternatives one place"):
        visits(properties={"a": {"anyOf": [{}] * 1_999}})


@pytest.mark.parametrize(
    ("value", "count"),
    [
        (None, 1),
        ("", 1),
        ("a" * 63, 1),
        ("a" * 64, 2),
        ("a" * 128, 3),
        ([], 1),
        ([1, [2]], 4),
        ({}, 1),
        ({"a": 1, "b": [1]}, 4),
        ({"a" * 64: [1]}, 5),
    ],
)
def test_how_many_values_there_are_in_a_value(value: Any, count: int) -> None:
    assert extent(value) == count

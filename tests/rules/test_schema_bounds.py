"""What a schema may cost: what its constants, its required names and its patterns weigh."""

from __future__ import annotations

from typing import Any

import pytest

import placet
from placet import Tool
from placet.errors import ContractError, InvalidArguments
from placet.rules.contracts.schema_bounds import MAX_MATCHING, extent
from placet.rules.contracts.schema_patterns import PATTERN_BYTES, compiled_bytes, fitting, is_common

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


@pytest.mark.case("A18")
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
    r"^\<ok\>$", "^(?P<n>a)$", "^[a-z&&[^b]]+$", "^[a-z--b]+$", "^[~~a]$", "^[[:alpha:]]+$", "^[[a]b]$", r"^\pL$",
    r"^\p{Greek}$", r"^\p{lu}$", r"^\U00000041$", r"\bok\b", r"a\B", "^a++$", "^a{2}{3}$", "^*a",
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

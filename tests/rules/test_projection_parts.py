"""What providers hold a model to, and how large a definition is: each bound, each word, each count by itself."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

import placet
from placet.errors import MisuseError
from placet.model.contract import Contract, EffectClass
from placet.model.projection import Gap, Loose, NoProjection, Strict, Why
from placet.rules.projections import anthropic_tool, anthropic_tools, mcp_tool, openai_responses_tool, openai_tool
from placet.rules.projections.mcp import behaviour_hints, outcome_schema
from placet.rules.projections.roots import plain_root, without
from placet.rules.projections.sizes import children, sizes
from placet.rules.projections.subsets import ANTHROPIC, OPENAI, Absence

TEXT = {"type": "string"}


async def handle(arguments: dict[str, Any]) -> dict[str, Any]:
    return {}


def contract_of(schema: dict[str, Any], **options: Any) -> Contract:
    given = {"effect": "write", "risk": "low", "permission": "p", "name": "act", "generic_executor": "a test"}
    return placet.tool_from_schema(handle, arguments=schema, **(given | options)).contract


# ---------------------------------------------------------------- subsets


@pytest.mark.case("A15")
def test_each_provider_takes_its_own_bounds() -> None:
    bounds = {
        "pattern": "^a$", "format": "date", "minimum": 1, "maximum": 1, "exclusiveMinimum": 1, "exclusiveMaximum": 1,
        "multipleOf": 1, "minItems": 7, "maxItems": 7, "minLength": 1, "maxLength": 1, "uniqueItems": True, "const": 1,
        "default": 1, "minProperties": 1,
    }  # fmt: skip

    assert {word for word, value in bounds.items() if OPENAI.takes(word, value)} == {
        "pattern", "format", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minItems",
        "maxItems",
    }  # fmt: skip
    assert {word for word, value in bounds.items() if ANTHROPIC.takes(word, value)} == {"format"}
    assert [ANTHROPIC.takes("minItems", count) for count in (0, 1, 2)] == [True, True, False]
    assert [OPENAI.takes("minItems", count) for count in (0, 1, 2)] == [True, True, True]


@pytest.mark.parametrize("name", ["date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"])
def test_both_providers_know_the_common_formats(name: str) -> None:
    assert OPENAI.takes("format", name)
    assert ANTHROPIC.takes("format", name)


def test_of_other_formats_one_provider_knows_addresses() -> None:
    assert [ANTHROPIC.takes("format", name) for name in ("uri", "iri", "regex")] == [True, False, False]
    assert [OPENAI.takes("format", name) for name in ("uri", "iri", "regex")] == [False, False, False]


def test_each_provider_has_its_own_idea_of_absence_recursion_and_size() -> None:
    assert (OPENAI.absence, OPENAI.may_recur) == (Absence.NULL, True)
    assert (ANTHROPIC.absence, ANTHROPIC.may_recur) == (Absence.LEFT_OUT, False)
    assert dict(OPENAI.most) == {
        "levels": 10,
        "members": 5_000,
        "name_characters": 120_000,
        "enum_values": 1_000,
        "long_enum_characters": 15_000,
    }
    assert dict(OPENAI.most_in_request) == {}
    assert dict(ANTHROPIC.most) == {"optional_members": 24, "unions": 16}
    assert dict(ANTHROPIC.most_in_request) == {"strict_tools": 20, "optional_members": 24, "unions": 16}


@pytest.mark.parametrize(
    "pattern",
    [
        "^$",
        "^a$",
        "^[a-z]{2,3}$",
        "^(a|b)$",
        "^((a|b)c)$",
        "^((a)|(b))$",
        r"^a\|b$",
        "^[|]$",
        r"^[\]|]$",
        r"^\d+\.\d$",
        r"^\0$",
        r"^a\\$",
    ],
)
def test_a_pattern_that_every_dialect_reads_alike_is_said(pattern: str) -> None:
    assert OPENAI.takes("pattern", pattern)


@pytest.mark.parametrize(
    "pattern",
    [
        "", "a", "^a", "a$", "^a|b$", "^(a)|(b)$", r"^a\$", "^(?:a)$", "^(?=a)$", "^(?i)a$", r"^(a)\1$",
        r"^(a)\9$", r"^\k<a>$", r"^\pL$", r"^\PL$", r"^\bb$", r"^\Ba$", r"^\Ga$", r"^\Aa$", r"^a\z$", r"^a\Z$",
        r"^\Qa$", "^[[:alpha:]]$", "^[a&&b]$", "^[a--b]$", "^[a~~b]$", 7, None,
    ],
)  # fmt: skip
def test_a_pattern_that_dialects_read_otherwise_is_not_said(pattern: Any) -> None:
    assert not OPENAI.takes("pattern", pattern)


# ---------------------------------------------------------------- sizes


def counted(hint: dict[str, Any]) -> dict[str, int]:
    return {what: count for what, count in sizes(hint).items() if count}


def test_members_names_and_choices_are_counted() -> None:
    inner = {"type": "object", "properties": {"cc": TEXT}, "required": ["cc"]}
    hint = {
        "type": "object",
        "properties": {
            "a": {"enum": ["xx", "y", 3]},
            "bb": {"type": ["string", "null"]},
            "d": {"anyOf": [inner, TEXT]},
        },
        "required": ["a"],
        "$defs": {"Name": {"type": "array", "items": inner}},
    }

    assert counted(hint) == {
        "levels": 2,
        "members": 5,
        "optional_members": 2,
        "name_characters": len("Name") + len("abbd") + 2 * len("cc") + len("xxy"),
        "enum_values": 3,
        "unions": 2,
    }


def test_the_longest_of_the_long_enums_is_counted() -> None:
    def enum(count: int, text: str) -> dict[str, Any]:
        return {"enum": [text] * count}

    assert counted(enum(250, "ab")) == {"enum_values": 250, "name_characters": 500}
    assert counted(enum(251, "ab")) == {"enum_values": 251, "name_characters": 502, "long_enum_characters": 502}
    both = counted({"anyOf": [enum(251, "abc"), enum(300, "a"), enum(1, "a" * 999)]})
    assert both["long_enum_characters"] == 753


def test_levels_are_counted_through_references_each_once() -> None:
    array = {"type": "array", "items": {"$ref": "#/$defs/A"}}
    recursive = {"$defs": {"A": {"type": "object", "properties": {"k": array}, "required": []}}, "$ref": "#/$defs/A"}

    assert sizes(recursive)["levels"] == 2
    assert (
        sizes({"type": "object", "properties": {"x": array}, "required": [], "$defs": {"A": array | {"items": TEXT}}})[
            "levels"
        ]
        == 3
    )
    assert sizes({"$ref": "#/$defs/missing"})["levels"] == 0
    assert sizes({"type": "string"})["levels"] == 0
    assert sizes({"anyOf": [TEXT, {"type": "array", "items": {"type": "array"}}]})["levels"] == 2
    lines: dict[str, Any] = {f"D{n}": {"anyOf": [{"$ref": f"#/$defs/D{n + 1}"}] * 2} for n in range(60)}
    assert sizes({"$ref": "#/$defs/D0", "$defs": lines | {"D60": {"type": "object"}}})["levels"] == 1


def test_what_is_directly_inside_is_told_in_order() -> None:
    a, b, c, d = ({"title": name} for name in "abcd")
    node = {"properties": {"x": a, "y": b}, "anyOf": [c], "items": d, "$defs": {"z": TEXT}}

    assert list(children(node)) == [a, b, c, d]
    assert list(children({})) == []


# ---------------------------------------------------------------- MCP


@pytest.mark.parametrize(
    ("effect_class", "hints"),
    [
        (EffectClass.READ, (True, False, True)),
        (EffectClass.SENSITIVE_READ, (True, False, True)),
        (EffectClass.IDEMPOTENT_WRITE, (False, True, True)),
        (EffectClass.WRITE, (False, True, False)),
        (EffectClass.IRREVERSIBLE, (False, True, False)),
    ],
)
def test_mcp_is_told_what_the_effect_class_says(effect_class: EffectClass, hints: tuple[bool, ...]) -> None:
    names = ("readOnlyHint", "destructiveHint", "idempotentHint")

    assert behaviour_hints(effect_class) == dict(zip(names, hints, strict=True))


def test_mcp_is_told_what_an_outcome_looks_like() -> None:
    text, truth = {"type": "string"}, {"type": "boolean"}
    result = {"type": "object", "properties": {"n": {"type": "integer", "x-placet-wide": True}}}
    told: Any = outcome_schema({**result, "$defs": {"A": TEXT}})

    statuses = told["properties"].pop("status")
    assert told == {
        "type": "object",
        "properties": {
            "code": text,
            "message": text,
            "retryable": truth,
            "may_have_acted": truth,
            "result": {"type": "object", "properties": {"n": {"type": "integer"}}},
        },
        "required": ["status", "code", "message", "retryable", "may_have_acted"],
        "$defs": {"A": TEXT},
    }
    assert {"succeeded", "unknown", "refused"} <= set(statuses["enum"])
    assert "$defs" not in outcome_schema(result)
    tool = mcp_tool(contract_of({"type": "object"}, result={"type": "object"}))
    assert isinstance(tool, Strict)
    assert sorted(tool.definition) == ["annotations", "description", "inputSchema", "name", "outputSchema"]


# ---------------------------------------------------------------- roots


SPOILT: list[dict[str, Any]] = [
    {"name": 7},
    {"description": None},
    {"effect_class": "write"},
    {"argument_names": ["x"]},
    {"argument_names": (7,)},
    {"authored_schema": []},
    {"arguments_schema": []},
    {"arguments_schema": {"x": (1,)}},
    {"result_schema": None},
    {"result_schema": {"x": object()}},
]


@pytest.mark.parametrize("project", [openai_tool, openai_responses_tool, anthropic_tool, mcp_tool])
@pytest.mark.parametrize("spoilt", SPOILT)
def test_only_a_sound_contract_has_a_definition(project: Any, spoilt: dict[str, Any]) -> None:
    contract = contract_of({"properties": {"x": TEXT}})
    assert not isinstance(project(contract), NoProjection)

    for given in (dataclasses.replace(contract, **spoilt), None, {"name": "act"}, type("Other", (), {})()):
        with pytest.raises(MisuseError, match="made of a Contract"):
            project(given)


def typed(schema: dict[str, Any]) -> Contract:
    """As of a typed function: its schema says nothing of what is closed."""
    return dataclasses.replace(contract_of({"type": "object"}), arguments_schema=schema, authored_schema=None)


def test_a_root_that_is_a_reference_is_what_it_leads_to() -> None:
    tree = {"type": "object", "properties": {"kid": {"$ref": "#/$defs/Tree"}}}
    closed = tree | {"additionalProperties": False}

    assert plain_root(typed({"$ref": "#/$defs/Tree", "$defs": {"Tree": tree}, "title": "T"})) == {
        **closed,
        "title": "T",
        "$defs": {"Tree": closed},
    }
    own = tree | {"$defs": {"Odd": {"type": "string"}}}
    odd = plain_root(typed({"$ref": "#/$defs/Tree", "$defs": {"Tree": own}}))
    assert odd is not None
    assert set(odd["$defs"]) == {"Tree"}  # else what is inside would refer to nothing
    twice = {"$ref": "#/$defs/A", "$defs": {"A": {"$ref": "#/$defs/Tree"}, "Tree": tree}}
    root = plain_root(typed(twice))
    assert root is not None
    assert root["properties"] == tree["properties"]


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#/$defs/A", "$defs": {"A": {"$ref": "#/$defs/B"}, "B": {"$ref": "#/$defs/A"}}},
        {"$ref": "#/$defs/missing", "$defs": {}},
        {"$ref": "#/$defs/A"},
        {"$ref": 7, "$defs": {"7": {}}},
        {"$ref": "#/$defs/A", "required": ["x"], "$defs": {"A": {"type": "object"}}},
        {"$ref": "#/$defs/A", "$defs": {"A": True}},
        {"type": "array"},
        {"type": ["object", "null"]},
    ],
)
def test_a_root_that_is_no_plain_object_has_no_definition(schema: dict[str, Any]) -> None:
    assert plain_root(typed(schema)) is None
    gap = Gap(pointer="", keyword="type", why=Why.ROOT_NOT_PLAIN)
    for project in (openai_tool, anthropic_tool, mcp_tool):
        projection = project(typed(schema))
        assert isinstance(projection, NoProjection)
        assert projection.reasons == (gap,)


@pytest.mark.parametrize("note", ["$schema", "$comment", "title", "description", "unevaluatedProperties"])
def test_beside_a_root_reference_only_notes_may_stand(note: str) -> None:
    root = plain_root(typed({note: "a", "$ref": "#/$defs/A", "$defs": {"A": {"type": "object"}}}))

    assert root == {
        note: "a",
        "type": "object",
        "additionalProperties": False,
        "$defs": {"A": {"type": "object", "additionalProperties": False}},
    }


def test_values_are_no_schemas_and_are_not_closed() -> None:
    value = {"type": "object"}
    member = {"default": value, "enum": [value], "const": value, "examples": [value], "anyOf": [value]}
    root = plain_root(typed({"properties": {"x": member}}))

    assert root == {
        "type": "object",
        "properties": {"x": {**member, "anyOf": [{**value, "additionalProperties": False}]}},
    }
    assert plain_root(typed({"type": "object", "additionalProperties": True})) == {
        "type": "object",
        "additionalProperties": True,
    }


def test_what_is_left_out_of_a_root_leaves_its_members_named() -> None:
    root: dict[str, Any] = {
        "type": "object",
        "properties": {"a": {"type": "string"}},
        "anyOf": [
            {"properties": {"a": {"description": "not this"}, "b": {"type": "string", "description": "B."}}},
            {"$ref": "#/$defs/More"},
        ],
        "oneOf": [
            {"allOf": [{"then": {"properties": {"d": {"description": 7}}}}, {"else": {"properties": {"e": True}}}]}
        ],
        "$defs": {"More": {"properties": {"c": {"description": "C."}}, "anyOf": [{"$ref": "#/$defs/More"}]}},
        "additionalProperties": False,
        "unevaluatedProperties": False,
    }
    weaker, gaps = without(root, frozenset({"anyOf", "oneOf"}))

    assert gaps == tuple(Gap(pointer="", keyword=word, why=Why.KEYWORD_UNSUPPORTED) for word in ("anyOf", "oneOf"))
    assert weaker == {
        "type": "object",
        "properties": {
            "b": {"description": "B."},
            "c": {"description": "C."},
            "d": {},
            "e": {},
            "a": {"type": "string"},
        },
        "$defs": root["$defs"],
    }
    assert without(root, frozenset({"not"})) == (root, ())


@pytest.mark.parametrize(
    ("branch", "stays_closed"),
    [
        ({"properties": {"b": {}}}, True),
        ({"additionalProperties": False}, True),
        ({"unevaluatedProperties": False}, True),
        ({"allOf": [{"properties": {"b": {}}}]}, True),
        (False, True),
        ({"additionalProperties": True}, False),
        ({"unevaluatedProperties": {}}, False),
        ({"patternProperties": {}}, False),
        ({"$ref": "#/$defs/A"}, False),
        ({"allOf": [{"$ref": "#/$defs/A"}]}, False),
        ({"anyOf": [{"patternProperties": {}}]}, False),
        ({"oneOf": [{"patternProperties": {}}]}, False),
        ({"then": {"patternProperties": {}}}, False),
        ({"else": {"patternProperties": {}}}, False),
    ],
)
def test_a_root_stays_closed_only_if_what_is_gone_let_in_no_unnamed_member(branch: Any, stays_closed: bool) -> None:
    root = {"type": "object", "anyOf": [{}, branch], "additionalProperties": False}
    weaker, _ = without(root, frozenset({"anyOf"}))

    assert ("additionalProperties" in weaker) is stays_closed


# ---------------------------------------------------------------- providers


def test_what_each_api_may_not_have_at_its_root_is_left_out() -> None:
    some = {"type": "object", "properties": {"x": TEXT}}
    words: dict[str, Any] = {
        "oneOf": [some], "anyOf": [some], "allOf": [some], "enum": [{}], "const": {}, "not": {"required": ["y"]},
    }  # fmt: skip
    for word, value in words.items():
        contract = typed({**some, word: value})
        for project in (openai_tool, openai_responses_tool):
            openai = project(contract)
            assert isinstance(openai, Loose), word
            assert word not in str(openai.definition)
            assert openai.reasons[0] == Gap(pointer="", keyword=word, why=Why.KEYWORD_UNSUPPORTED)
        anthropic: Any = anthropic_tool(contract)
        assert (word in anthropic.definition["input_schema"]) is (word in ("enum", "const"))


@pytest.mark.parametrize(
    ("name", "told"),
    [("a" * 64, "a" * 64), ("a_B-9", "a_B-9"), ("a.b", "a_b-2e7336dc"), ("." * 64, "_" * 55 + "-f1822668")],
)
def test_a_tool_s_name_is_letters_digits_and_dashes(name: str, told: str) -> None:
    contract = contract_of({"properties": {"x": TEXT}}, name=name)

    for project in (openai_tool, openai_responses_tool, anthropic_tool):
        definition: Any = project(contract).definition  # type: ignore[union-attr]
        assert definition.get("function", definition)["name"] == told
    assert not isinstance(mcp_tool(contract), NoProjection)


@pytest.mark.parametrize(
    ("name", "is_taken"),
    [("a" * 64, True), ("a.B_9-", True), ("a" * 65, False), ("", False), ("a b", False), ("a\n", False), ("é", False)],
)
def test_a_member_s_name_is_short_for_one_provider_and_anything_for_the_other(name: str, is_taken: bool) -> None:
    contract = contract_of({"properties": {name: TEXT}, "required": [name]})

    assert isinstance(anthropic_tool(contract), NoProjection) is not is_taken
    assert not isinstance(openai_tool(contract), NoProjection)
    assert not isinstance(openai_responses_tool(contract), NoProjection)


def test_one_request_has_room_for_so_many_strict_tools() -> None:
    one = contract_of({"type": "object", "properties": {"x": TEXT}, "required": ["x"]})
    optional = contract_of({"type": "object", "properties": {f"x{n}": TEXT for n in range(13)}})
    nowhere = typed({"type": "array"})
    given = [one] * 19 + [nowhere] + [one] * 2

    kinds = [type(projection) for projection in anthropic_tools(given)]
    assert kinds == [Strict] * 19 + [NoProjection, Strict, Loose]
    assert [type(each) for each in anthropic_tools((optional, optional, one))] == [Strict, Loose, Strict]
    last: Any = anthropic_tools((optional, optional))[1]
    assert last.reasons == (Gap(pointer="", keyword="optional_members", why=Why.REQUEST_TOO_LARGE),)
    assert anthropic_tools(()) == ()


def test_a_tool_with_no_strict_form_of_its_own_keeps_its_reasons_where_the_request_is_full() -> None:
    one = contract_of({"type": "object", "properties": {"x": TEXT}, "required": ["x"]})
    open_array = contract_of({"type": "object", "properties": {"x": {"type": "array"}}, "required": ["x"]})
    alone = anthropic_tools((open_array,))
    after: Any = anthropic_tools([one] * 20 + [open_array, one])

    assert isinstance(alone[0], Loose)
    assert after[20] == alone[0]
    assert after[21].reasons == (Gap(pointer="", keyword="strict_tools", why=Why.REQUEST_TOO_LARGE),)


def test_absence_is_told_by_these_words() -> None:
    assert [str(each) for each in Absence] == ["left_out", "null"]


@pytest.mark.parametrize("given", [None, "act", 7, {}, iter(())])
def test_a_request_is_made_of_a_list_of_contracts(given: Any) -> None:
    with pytest.raises(MisuseError, match="a tuple or a list of contracts"):
        anthropic_tools(given)
    with pytest.raises(MisuseError, match="made of a Contract"):
        anthropic_tools([given])

"""Projections: what each provider is told of a tool, and that it decides nothing and misleads nobody."""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import jsonschema_rs
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field, create_model

import placet
from placet import Tool, WideInt
from placet.errors import ContractError, InvalidArguments, MisuseError
from placet.model.contract import Contract, EffectClass
from placet.model.outcome import (
    AwaitingApproval,
    Conflict,
    Failed,
    InProgress,
    Invalid,
    NotRun,
    Outcome,
    Refused,
    Replayed,
    Succeeded,
    TimedOut,
    Unknown,
)
from placet.model.projection import Gap, Loose, NoProjection, Projection, Provider, Strict, Why
from placet.rules.projections import anthropic_tool, anthropic_tools, mcp_tool, openai_responses_tool, openai_tool
from placet.rules.projections.aliases import names_of, provider_name
from tests.rules.schema_values import Values

PROJECTIONS = (openai_tool, openai_responses_tool, anthropic_tool, mcp_tool)
CLOSED = {"additionalProperties": False}
HELD = (openai_tool, anthropic_tool)
"""The projections with a strict mode, each once."""


class Kind(StrEnum):
    A = "a"
    B = "b"


class Address(BaseModel):
    street: str
    kind: Annotated[Kind, Field(description="What stands there.")]


class Cat(BaseModel):
    tag: Literal["cat"]
    lives: int


class Dog(BaseModel):
    tag: Literal["dog"]
    name: str | None = None


class Tree(BaseModel):
    """A tree."""

    value: int
    kids: list[Tree]


def taking(name: str = "act", description: str = "Does it.", **hints: Any) -> Tool:
    """A write whose arguments have these types; a pair is a type and its default."""
    fields = {key: hint if isinstance(hint, tuple) else (hint, ...) for key, hint in hints.items()}
    model = create_model("Arguments", **fields)

    async def act(arguments): ...  # type: ignore[no-untyped-def]

    act.__annotations__ = {"arguments": model, "return": dict[str, int]}
    options: dict[str, Any] = {"effect": "write", "risk": "low", "permission": "p", "generic_executor": "a test"}
    return placet.tool(name=name, description=description, text="free", **options)(act)


def hint_of(projection: Projection) -> dict[str, Any]:
    """The schema of the arguments inside a definition."""
    assert not isinstance(projection, NoProjection)
    definition: dict[str, Any] = projection.definition
    match projection.provider:
        case Provider.OPENAI:
            return definition["function"]["parameters"]
        case Provider.OPENAI_RESPONSES:
            return definition["parameters"]
        case Provider.ANTHROPIC:
            return definition["input_schema"]
        case Provider.MCP:
            return definition["inputSchema"]


def strict_hint(project: Callable[[Contract], Projection], tool: Tool) -> dict[str, Any]:
    projection = project(tool.contract)
    assert isinstance(projection, Strict), projection
    return hint_of(projection)


def reasons(project: Callable[[Contract], Projection], tool: Tool) -> set[tuple[str, str, Why]]:
    projection = project(tool.contract)
    assert isinstance(projection, Loose | NoProjection), projection
    return {(gap.pointer, gap.keyword, gap.why) for gap in projection.reasons}


def left_out(project: Callable[[Contract], Projection], tool: Tool) -> set[tuple[str, str]]:
    projection = project(tool.contract)
    assert isinstance(projection, Strict), projection
    return {(gap.pointer, gap.keyword) for gap in projection.left_out}


# ---------------------------------------------------------------- whole definitions


def test_a_definition_for_openai_is_what_its_strict_mode_takes() -> None:
    tool = taking(
        name="refund",
        order=Annotated[str, Field(min_length=1, pattern="^[A-Z]{2}$", description="Its number.")],
        cents=Annotated[int, Field(ge=1, le=500)],
        note=(str | None, None),
    )
    parameters = {
        "type": "object",
        "properties": {
            "order": {"type": "string", "pattern": "^[A-Z]{2}$", "description": "Its number."},
            "cents": {"type": "integer", "minimum": 1, "maximum": 500},
            "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        },
        "required": ["order", "cents", "note"],
        "additionalProperties": False,
    }
    function = {"name": "refund", "description": "Does it.", "parameters": parameters, "strict": True}
    gaps = (Gap(pointer="/properties/order", keyword="minLength", why=Why.KEYWORD_UNSUPPORTED),)

    assert openai_tool(tool.contract) == Strict(
        provider=Provider.OPENAI, definition={"type": "function", "function": function}, left_out=gaps
    )
    assert openai_responses_tool(tool.contract) == Strict(
        provider=Provider.OPENAI_RESPONSES, definition={"type": "function", **function}, left_out=gaps
    )


def test_a_definition_for_anthropic_leaves_optional_members_optional_and_bounds_to_the_contract() -> None:
    tool = taking(name="refund", cents=Annotated[int, Field(ge=1)], note=(str, "none"), tags=(list[str], ["x"]))

    assert anthropic_tool(tool.contract) == Strict(
        provider=Provider.ANTHROPIC,
        definition={
            "name": "refund",
            "description": "Does it.",
            "strict": True,
            "input_schema": {
                "type": "object",
                "properties": {
                    "cents": {"type": "integer"},
                    "note": {"type": "string"},
                    "tags": {"type": "array", "items": {"type": "string"}},
                },
                "required": ["cents"],
                "additionalProperties": False,
            },
        },
        left_out=(Gap(pointer="/properties/cents", keyword="minimum", why=Why.KEYWORD_UNSUPPORTED),),
    )


def test_a_definition_for_mcp_says_the_whole_contract() -> None:
    tool = taking(name="ops.scale", replicas=Annotated[int, Field(ge=1)], why=(dict[str, int], {}))
    projection = mcp_tool(tool.contract)

    assert isinstance(projection, Strict)
    assert projection.left_out == ()
    assert {key: projection.definition[key] for key in ("name", "description", "inputSchema", "annotations")} == {
        "name": "ops.scale",
        "description": "Does it.",
        "inputSchema": tool.contract.arguments_schema | CLOSED,
        "annotations": {"readOnlyHint": False, "destructiveHint": True, "idempotentHint": False},
    }


def test_a_loose_definition_is_the_contracts_own_schema_and_says_that_it_is_loose() -> None:
    tool = taking(labels=dict[str, str])
    schema = tool.contract.arguments_schema | CLOSED
    open_here = (Gap(pointer="/properties/labels", keyword="additionalProperties", why=Why.MEMBERS_OPEN),)
    function = {"name": "act", "description": "Does it.", "parameters": schema, "strict": False}

    assert openai_tool(tool.contract) == Loose(
        provider=Provider.OPENAI, definition={"type": "function", "function": function}, reasons=open_here
    )
    assert openai_responses_tool(tool.contract) == Loose(
        provider=Provider.OPENAI_RESPONSES, definition={"type": "function", **function}, reasons=open_here
    )
    assert anthropic_tool(tool.contract) == Loose(
        provider=Provider.ANTHROPIC,
        definition={"name": "act", "description": "Does it.", "input_schema": schema},
        reasons=open_here,
    )


@pytest.mark.parametrize("project", PROJECTIONS)
def test_a_definition_is_the_callers_own(project: Callable[[Contract], Projection]) -> None:
    tool = taking(address=Address, labels=(dict[str, str], {}))
    before = json.dumps(tool.contract.arguments_schema)
    projection = project(tool.contract)
    hint = hint_of(projection)

    hint["properties"]["address"]["$ref"] = "#/$defs/Other"
    hint["$defs"].clear()

    assert json.dumps(tool.contract.arguments_schema) == before
    assert project(tool.contract) != projection


def test_words_that_only_placet_reads_stay_inside() -> None:
    async def act(amount: WideInt, more: dict[str, WideInt]) -> WideInt: ...

    tool = placet.tool(effect="read")(act)

    assert "x-placet" in json.dumps(tool.contract.arguments_schema)
    for project in PROJECTIONS:
        projection = project(tool.contract)
        assert not isinstance(projection, NoProjection)
        assert "x-placet" not in json.dumps(projection.definition)


def test_models_inside_are_told_as_closed_as_they_are() -> None:
    """Pydantic's own schema does not say so; its check does."""
    tool = taking(address=Address, other=(Literal["x"], Field("x", examples=[{"type": "object"}])))
    assert "additionalProperties" not in json.dumps(tool.contract.arguments_schema)

    with pytest.raises(InvalidArguments):
        tool.check_arguments({"address": {"street": "s", "kind": "a", "more": 1}})
    for project in PROJECTIONS:
        hint = hint_of(project(tool.contract))
        assert hint["$defs"]["Address"]["additionalProperties"] is False
        assert hint["properties"]["other"].get("examples", [{"type": "object"}]) == [{"type": "object"}]


# ---------------------------------------------------------------- names


@pytest.mark.parametrize("project", [openai_tool, openai_responses_tool, anthropic_tool])
def test_a_name_with_a_dot_goes_by_another_where_names_have_none(project: Callable[[Contract], Projection]) -> None:
    contract = taking(name="ops.scale", x=int).contract

    projection = project(contract)
    assert isinstance(projection, Strict)
    named: Any = projection.definition.get("function", projection.definition)
    assert named["name"] == "ops_scale-3d8fb339"
    shown = mcp_tool(contract)
    assert isinstance(shown, Strict) and shown.definition["name"] == "ops.scale"


@pytest.mark.case("B05")
def test_an_alias_is_short_tells_names_apart_and_leads_back() -> None:
    names = ["a" * 60 + ".b", "a" * 60 + ".c", "a.b", "a_b", "a-b", "plain"]
    aliases = [provider_name(name) for name in names]

    assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", alias) for alias in aliases)
    assert aliases[-3:] == ["a_b", "a-b", "plain"]
    contracts = [taking(name=name, x=int).contract for name in names]
    assert names_of(contracts) == dict(zip(aliases, names, strict=True))


@pytest.mark.case("B05")
def test_two_tools_that_would_go_by_one_name_are_refused() -> None:
    contracts = [taking(name=name, x=int).contract for name in ("ops.scale", provider_name("ops.scale"))]

    with pytest.raises(MisuseError, match="go by one name"):
        names_of(contracts)


def test_a_member_that_anthropic_cannot_name_has_no_definition_there() -> None:
    tool = taking(x=(int, Field(alias="größe")))

    assert reasons(anthropic_tool, tool) == {("", "properties", Why.NAME_NOT_TAKEN)}
    assert "größe" in strict_hint(openai_tool, tool)["properties"]


# ---------------------------------------------------------------- absence


@pytest.mark.parametrize(
    "hint",
    [
        (int, 3),
        (str | None, "a"),
        (int | None, 0),
        (list[str], []),
        (Literal["a", None], "a"),
    ],
)
def test_an_optional_member_whose_absence_is_not_null_is_not_made_required(hint: Any) -> None:
    """A model that must send it would have to make up a value, or say null and get something else."""
    tool = taking(x=hint)

    assert ("/properties/x", "required", Why.ABSENCE_IS_NOT_NULL) in reasons(openai_tool, tool)
    assert strict_hint(anthropic_tool, tool)["required"] == []


def test_a_default_of_null_that_the_contract_would_refuse_is_not_said() -> None:
    tool = taking(x=(int, None))

    with pytest.raises(InvalidArguments):
        tool.check_arguments({"x": None})
    assert reasons(openai_tool, tool) == {("/properties/x", "required", Why.ABSENCE_IS_NOT_NULL)}


@pytest.mark.parametrize(
    "hint", [int | None, Literal["a", None], Kind | None, Address | None, list[int] | None, Cat | Dog | None]
)
def test_null_says_absence_where_it_is_the_contracts_own_default(hint: Any) -> None:
    tool = taking(x=(hint, None))

    assert strict_hint(openai_tool, tool)["required"] == ["x"]
    assert tool.check_arguments({"x": None}) == tool.check_arguments({})


def test_members_of_nested_objects_are_looked_at_as_well() -> None:
    class Inner(BaseModel):
        limit: int = 10

    tool = taking(inner=Inner, note=(str | None, None))

    assert reasons(openai_tool, tool) == {("/$defs/Inner/properties/limit", "required", Why.ABSENCE_IS_NOT_NULL)}


# ---------------------------------------------------------------- what cannot be said


def test_an_open_mapping_and_a_tuple_and_any_value_are_told_loosely() -> None:
    tool = taking(mapping=dict[str, int], pair=tuple[int, str], anything=list[Any])

    for project in HELD:
        assert reasons(project, tool) == {
            ("/properties/mapping", "additionalProperties", Why.MEMBERS_OPEN),
            ("/properties/pair", "prefixItems", Why.KEYWORD_UNSUPPORTED),
            ("/properties/anything/items", "type", Why.TYPE_NOT_SAID),
        }


def test_recursion_is_strict_where_the_provider_takes_it() -> None:
    tool = taking(tree=Tree)

    assert strict_hint(openai_tool, tool)["$defs"]["Tree"]["properties"]["kids"]["items"] == {"$ref": "#/$defs/Tree"}
    assert reasons(anthropic_tool, tool) == {("/$defs/Tree/properties/kids/items", "$ref", Why.RECURSIVE)}


def test_a_root_that_is_a_reference_becomes_what_it_leads_to() -> None:
    async def plant(tree: Tree) -> int: ...

    tool = placet.tool(effect="read")(plant)
    assert "properties" not in tool.contract.arguments_schema

    assert strict_hint(openai_tool, tool)["properties"]["value"] == {"type": "integer"}
    for project in PROJECTIONS:
        hint = hint_of(project(tool.contract))
        assert (hint["type"], list(hint["properties"])) == ("object", ["value", "kids"])
        assert "$ref" not in hint


def test_bounds_that_are_left_out_are_named_with_their_place() -> None:
    tool = taking(
        n=Annotated[float, Field(gt=0, le=9, multiple_of=0.5)],
        s=Annotated[str, Field(min_length=2, max_length=5, pattern="^a")],
        many=Annotated[list[int], Field(min_length=1, max_length=4)],
        pairs=Annotated[list[int], Field(min_length=2)],
        pet=Annotated[Cat | Dog, Field(discriminator="tag")],
    )

    assert left_out(openai_tool, tool) == {
        ("/properties/s", "minLength"),
        ("/properties/s", "maxLength"),
        ("/properties/s", "pattern"),
        ("/properties/pet", "oneOf"),
    }
    assert left_out(anthropic_tool, tool) == {
        ("/properties/n", "exclusiveMinimum"),
        ("/properties/n", "maximum"),
        ("/properties/n", "multipleOf"),
        ("/properties/s", "minLength"),
        ("/properties/s", "maxLength"),
        ("/properties/s", "pattern"),
        ("/properties/many", "maxItems"),
        ("/properties/pairs", "minItems"),
        ("/properties/pet", "oneOf"),
    }
    assert strict_hint(anthropic_tool, tool)["properties"]["many"]["minItems"] == 1


@pytest.mark.parametrize(
    ("pattern", "is_said"),
    [
        ("^[a-z]+$", True),
        ("^(?:a|b)$", False),
        ("^(a|b)$", True),
        ("^a|b$", False),
        ("^a\\|b$", True),
        ("^[|]$", True),
        ("^((a|b)c|d)$", True),
        ("a$", False),
        ("^a", False),
        ("^a\\$", False),
        ("^a\\b$", False),
        ("^\\p{L}$", False),
        ("^\\d{3}$", True),
    ],
)
def test_a_pattern_is_said_only_where_every_dialect_reads_it_alike(pattern: str, is_said: bool) -> None:
    tool = taking(x=Annotated[str, Field(pattern=pattern)])

    assert ("pattern" in strict_hint(openai_tool, tool)["properties"]["x"]) is is_said


def test_a_description_beside_a_reference_survives() -> None:
    tool = taking(address=Address)

    for project in HELD:
        kind = strict_hint(project, tool)["$defs"]["Address"]["properties"]["kind"]
        assert kind == {"anyOf": [{"$ref": "#/$defs/Kind"}], "description": "What stands there."}


# ---------------------------------------------------------------- sizes


def nested(levels: int) -> Any:
    hint: Any = int
    for level in range(levels):
        hint = create_model(f"Level{level}", inner=(hint, ...))
    return hint


def test_ten_levels_are_strict_and_eleven_are_not() -> None:
    assert isinstance(openai_tool(taking(x=nested(9)).contract), Strict)
    assert reasons(openai_tool, taking(x=nested(10))) == {("", "levels", Why.TOO_LARGE)}
    assert isinstance(anthropic_tool(taking(x=nested(10)).contract), Strict)


def test_a_level_is_an_array_too() -> None:
    assert isinstance(openai_tool(taking(x=list[nested(8)]).contract), Strict)  # type: ignore[misc]
    assert reasons(openai_tool, taking(x=list[nested(9)])) == {("", "levels", Why.TOO_LARGE)}  # type: ignore[misc]


def test_a_thousand_values_are_strict_and_one_more_is_not() -> None:
    def choosing(count: int, text: str) -> Tool:
        return taking(x=Literal[tuple(f"{text}{n}" for n in range(count))])  # type: ignore[misc]

    assert isinstance(openai_tool(choosing(1_000, "v").contract), Strict)
    assert reasons(openai_tool, choosing(1_001, "v")) == {("", "enum_values", Why.TOO_LARGE)}
    assert isinstance(openai_tool(choosing(250, "v" * 100).contract), Strict)
    assert reasons(openai_tool, choosing(251, "v" * 100)) == {("", "long_enum_characters", Why.TOO_LARGE)}


def test_too_many_members_and_too_long_names_are_told_loosely() -> None:
    def wide(count: int, name: str) -> Tool:
        return taking(**{f"{name}{n:04}": int for n in range(count)})

    assert isinstance(openai_tool(wide(5_000, "m").contract), Strict)
    assert reasons(openai_tool, wide(5_001, "m")) == {("", "members", Why.TOO_LARGE)}
    assert reasons(openai_tool, wide(1_300, "m" * 100)) == {("", "name_characters", Why.TOO_LARGE)}


def test_anthropic_counts_optional_members_and_unions() -> None:
    def optional(count: int) -> Tool:
        return taking(**{f"m{n}": (int, 1) for n in range(count)})

    def unions(count: int) -> Tool:
        return taking(**{f"m{n}": int | str for n in range(count)})

    assert isinstance(anthropic_tool(optional(24).contract), Strict)
    assert reasons(anthropic_tool, optional(25)) == {("", "optional_members", Why.TOO_LARGE)}
    assert isinstance(anthropic_tool(unions(16).contract), Strict)
    assert reasons(anthropic_tool, unions(17)) == {("", "unions", Why.TOO_LARGE)}
    types = {f"m{n}": {"type": ["string", "null"]} for n in range(17)}
    assert reasons(anthropic_tool, described(of_object(tuple(types), **types))) == {("", "unions", Why.TOO_LARGE)}


def test_the_tools_of_one_request_share_a_budget() -> None:
    plain = [taking(name=f"plain{n}", x=int).contract for n in range(21)]
    kinds = [type(each) for each in anthropic_tools(plain)]
    assert kinds == [Strict] * 20 + [Loose]
    assert anthropic_tools(plain)[20].reasons == (  # type: ignore[union-attr]
        Gap(pointer="", keyword="strict_tools", why=Why.REQUEST_TOO_LARGE),
    )

    def optional(name: str, count: int) -> Contract:
        return taking(name=name, **{f"m{n}": (int, 1) for n in range(count)}).contract

    some = [
        optional("a", 20),
        optional("b", 5),
        optional("open", 30),
        optional("c", 4),
        taking(name="d", größe=int).contract,
    ]
    answers = anthropic_tools(some)
    assert [type(each) for each in answers] == [Strict, Loose, Loose, Strict, NoProjection]
    assert hint_of(answers[1]) == some[1].arguments_schema | CLOSED
    assert anthropic_tools([]) == ()


# ---------------------------------------------------------------- MCP


@pytest.mark.parametrize(
    ("effect", "read_only", "destructive", "idempotent"),
    [
        (EffectClass.READ, True, False, True),
        (EffectClass.SENSITIVE_READ, True, False, True),
        (EffectClass.IDEMPOTENT_WRITE, False, True, True),
        (EffectClass.WRITE, False, True, False),
        (EffectClass.IRREVERSIBLE, False, True, False),
    ],
)
def test_mcp_hints_say_what_the_effect_class_says(
    effect: EffectClass, read_only: bool, destructive: bool, idempotent: bool
) -> None:
    async def act(x: int) -> int: ...

    contract = placet.tool(effect=effect, risk="low", permission="p")(act).contract
    projection = mcp_tool(contract)

    assert isinstance(projection, Strict)
    assert projection.definition["annotations"] == {
        "readOnlyHint": read_only,
        "destructiveHint": destructive,
        "idempotentHint": idempotent,
    }


def outcomes_with(result: Any) -> list[Any]:
    same = {"call_id": "c1", "tool": "act", "code": "x", "message": "m"}
    return [
        Succeeded(**same, result=result),
        Succeeded(**same, result=None, result_unavailable="result_broken"),
        Replayed(**same, result=result),
        Invalid(**same, problems=(("/x", "missing"),)),
        Refused(**same, reasons=("r",), words="no"),
        AwaitingApproval(**same, approval_id="apr-1"),  # type: ignore[arg-type]
        InProgress(**same),
        Conflict(**same),
        TimedOut(**same),
        Failed(**same, words="w", retry_after_seconds=1.5),
        Unknown(**same),
        NotRun(**same),
    ]


@pytest.mark.parametrize(
    ("hint", "result", "wrong"),
    [
        (int, 3, "three"),
        (dict[str, Address], {"k": {"street": "s", "kind": "a"}}, {"k": {"street": "s", "kind": "c"}}),
        (Tree, {"value": 1, "kids": []}, {"value": 1}),
        (list[Cat | Dog], [{"tag": "dog", "name": None}], [{"tag": "cow"}]),
    ],
)
def test_what_an_mcp_client_gets_fits_the_output_schema(hint: Any, result: Any, wrong: Any) -> None:
    async def act(): ...  # type: ignore[no-untyped-def]

    act.__annotations__ = {"return": hint}
    projection = mcp_tool(placet.tool(effect="read")(act).contract)
    assert isinstance(projection, Strict)
    check = jsonschema_rs.Draft202012Validator(projection.definition["outputSchema"])  # type: ignore[arg-type]

    answers = outcomes_with(result)
    assert {type(each) for each in answers} == set(get_args(Outcome))
    for answer in answers:
        assert check.is_valid(answer.for_mcp()["structuredContent"])
    assert not check.is_valid(Succeeded(call_id="c1", tool="act", code="x", message="m", result=wrong).as_data())
    assert not check.is_valid({"status": "succeeded"})
    assert projection.definition["outputSchema"]["type"] == "object"  # type: ignore[index]


# ---------------------------------------------------------------- any contract

_LEAVES = [
    int,
    WideInt,
    str,
    bool,
    float,
    Kind,
    Address,
    Cat,
    Tree,
    Literal["a", "b"],
    Literal[1, "1", None],
    Annotated[int, Field(ge=1, le=9)],
    Annotated[int, Field(multiple_of=5, gt=0)],
    Annotated[float, Field(gt=0.5, lt=99.5)],
    Annotated[str, Field(min_length=2, max_length=6)],
    Annotated[str, Field(pattern="^[a-z0-9]{1,4}$")],
    Annotated[str, Field(pattern="1")],
    Annotated[Cat | Dog, Field(discriminator="tag")],
    Cat | Dog,
    int | str,
]


def _types() -> st.SearchStrategy[Any]:
    return st.recursive(
        st.sampled_from(_LEAVES),
        lambda inner: st.one_of(
            inner.map(lambda hint: list[hint]),  # type: ignore[valid-type]
            inner.map(lambda hint: Annotated[list[hint], Field(min_length=1, max_length=2)]),  # type: ignore[valid-type]
            inner.map(lambda hint: dict[str, hint]),  # type: ignore[valid-type]
            inner.map(lambda hint: hint | None),
            st.tuples(inner, inner).map(lambda pair: create_model("Pair", left=(pair[0], ...), right=(pair[1], ...))),
            st.tuples(inner, inner).map(
                lambda pair: create_model("Perhaps", sure=(pair[0], ...), perhaps=(pair[1] | None, None))
            ),
        ),
        max_leaves=4,
    )


def _fields() -> st.SearchStrategy[Any]:
    return st.one_of(
        _types(),
        _types().map(lambda hint: (hint | None, None)),
        st.just((int, 5)),
        st.just((list[str], [])),
    )


def _tools() -> st.SearchStrategy[Tool]:
    names = st.sampled_from(["a", "b", "c", "long_name"])
    return st.dictionaries(names, _fields(), max_size=4).map(lambda fields: taking(**fields))


def assert_is_as_said(sent: Any, got: Any) -> None:
    """What was sent is what is digested, shown and run; only what was not sent may have been filled in."""
    if isinstance(sent, dict):
        assert isinstance(got, dict)
        for name, value in sent.items():
            assert_is_as_said(value, got[name])
    elif isinstance(sent, list):
        assert isinstance(got, list) and len(got) == len(sent)
        for value, other in zip(sent, got, strict=True):
            assert_is_as_said(value, other)
    else:
        assert got == sent
        assert (type(got) is type(sent)) or (type(sent) is int and type(got) is float)  # 1 for a float is 1.0


@pytest.mark.case("A15")
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(tool=_tools(), chance=st.randoms(use_true_random=False))
def test_what_a_model_says_under_a_hint_is_refused_or_means_what_was_said(tool: Tool, chance: random.Random) -> None:
    for project in PROJECTIONS:
        projection = project(tool.contract)
        hint = hint_of(projection)
        for sent in (Values(hint, chance).draw() for _ in range(4)):
            try:
                arguments, _ = tool.check_arguments(json.dumps(sent))
            except InvalidArguments:
                event(f"{project.__name__} refused")
                continue
            event(f"{project.__name__} accepted as {type(projection).__name__}")
            assert_is_as_said(sent, arguments)


@pytest.mark.case("A15")
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(tool=_tools(), chance=st.randoms(use_true_random=False))
def test_a_hint_takes_whatever_the_contract_takes(tool: Tool, chance: random.Random) -> None:
    checks = {
        project.__name__: jsonschema_rs.Draft202012Validator(hint_of(project(tool.contract))) for project in PROJECTIONS
    }
    for sent in (Values(tool.contract.arguments_schema, chance).draw() for _ in range(8)):
        try:
            arguments, _ = tool.check_arguments(json.dumps(sent))
        except InvalidArguments:
            continue
        for name, check in checks.items():
            event(f"{name} held against accepted arguments")
            assert check.is_valid(arguments), name  # with defaults filled in, as a model that sends all would say them


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(tool=_tools())
def test_a_strict_hint_stays_inside_the_subset(tool: Tool) -> None:
    for project in HELD:
        projection = project(tool.contract)
        if isinstance(projection, Strict):
            assert_in_subset(hint_of(projection), is_root=True, absence_is_null=project is openai_tool)


_SAYABLE = {
    True: {"pattern", "format", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}
    | {"minItems", "maxItems"},
    False: {"format", "minItems"},
}


def assert_in_subset(node: Any, *, is_root: bool, absence_is_null: bool) -> None:
    """The rules of the two strict modes, written down a second time."""
    allowed = {"type", "properties", "required", "additionalProperties", "items", "enum", "anyOf", "$ref"}
    allowed |= {"description"} | _SAYABLE[absence_is_null] | ({"$defs"} if is_root else set())
    assert isinstance(node, dict) and set(node) <= allowed, node
    assert not is_root or node["type"] == "object"
    if "$ref" in node:
        assert set(node) == {"$ref"}
        return
    assert ("type" in node) != ("anyOf" in node)
    if node.get("type") == "object":
        assert node["additionalProperties"] is False
        assert set(node["required"]) <= set(node["properties"])
        assert not absence_is_null or node["required"] == list(node["properties"])
    assert node.get("type") != "array" or "items" in node
    inside = [*node.get("properties", {}).values(), *node.get("anyOf", []), *node.get("$defs", {}).values()]
    for child in inside + ([node["items"]] if "items" in node else []):
        assert_in_subset(child, is_root=False, absence_is_null=absence_is_null)


# ---------------------------------------------------------------- contracts from schemas


async def handled(arguments: dict[str, Any]) -> None: ...


def described(schema: dict[str, Any], **options: Any) -> Tool:
    """A tool whose arguments have this schema."""
    given: dict[str, Any] = {"effect": "write", "risk": "low", "permission": "p", "name": "act", "text": "free"}
    return placet.tool_from_schema(handled, arguments=schema, generic_executor="a test", **(given | options))


def of_object(required: tuple[str, ...] = (), **members: Any) -> dict[str, Any]:
    return {"type": "object", "properties": members, "required": list(required)}


@pytest.mark.case("A15")
def test_a_bound_beside_a_reference_is_left_to_the_contract_with_notice() -> None:
    schema = of_object(("kind",), kind={"$ref": "#/$defs/Kind", "enum": ["a"]})
    tool = described(schema | {"$defs": {"Kind": {"type": "string", "enum": ["a", "b", "c"]}}})

    for project in HELD:
        kind = strict_hint(project, tool)["properties"]["kind"]
        assert left_out(project, tool) == {("/properties/kind", "enum")}
        assert kind["$ref"].startswith("#/$defs/")
        assert strict_hint(project, tool)["$defs"] == {kind["$ref"][8:]: {"type": "string", "enum": ["a", "b", "c"]}}
    assert tool.check_arguments({"kind": "a"})[0] == {"kind": "a"}
    with pytest.raises(InvalidArguments):
        tool.check_arguments({"kind": "b"})


@pytest.mark.case("A15")
def test_a_format_that_a_provider_does_not_know_is_left_out_with_notice() -> None:
    schema = of_object(
        ("site", "mail"), site={"type": "string", "format": "uri"}, mail={"type": "string", "format": "email"}
    )
    tool = described(schema)

    assert left_out(openai_tool, tool) == {("/properties/site", "format")}
    assert left_out(anthropic_tool, tool) == set()
    assert strict_hint(openai_tool, tool)["properties"] == {
        "site": {"type": "string"},
        "mail": {"type": "string", "format": "email"},
    }


@pytest.mark.case("A15")
def test_members_opened_on_purpose_are_told_loosely_and_stay_open() -> None:
    tool = described(of_object(("id",), id={"type": "string"}, meta={"type": "object"}), open_members=("/meta",))

    for project in HELD:
        assert ("/properties/meta", "additionalProperties", Why.MEMBERS_OPEN) in reasons(project, tool)
        check = jsonschema_rs.Draft202012Validator(hint_of(project(tool.contract)))
        assert check.is_valid({"id": "1", "meta": {"any": [1]}})


def test_absence_in_a_schema_is_null_only_where_the_schema_says_so() -> None:
    nullable = {"type": ["string", "null"]}

    assert strict_hint(openai_tool, described(of_object(note=nullable | {"default": None})))["required"] == ["note"]
    assert reasons(openai_tool, described(of_object(note=nullable))) == {
        ("/properties/note", "required", Why.ABSENCE_IS_NOT_NULL)
    }
    for refusing in (
        {"type": "string"},
        {"enum": ["a"]},
        {"const": "a"},
        {"anyOf": [{"type": "string"}, {"type": "integer"}]},
        {"allOf": [{"type": ["string", "null"]}, {"type": "string"}]},
        {"$ref": "#/$defs/T"},
        {"$ref": "#/$defs/T", "type": ["string", "null"]},
    ):
        tool = described(of_object(note=refusing | {"default": None}) | {"$defs": {"T": {"type": "string"}}})
        assert ("/properties/note", "required", Why.ABSENCE_IS_NOT_NULL) in reasons(openai_tool, tool)


@pytest.mark.parametrize(
    ("member", "keyword", "why"),
    [
        ({"allOf": [{"type": "string"}, {"minLength": 2}]}, "allOf", Why.KEYWORD_UNSUPPORTED),
        (
            {"type": "object", "patternProperties": {"^a": {"type": "string"}}},
            "patternProperties",
            Why.KEYWORD_UNSUPPORTED,
        ),
        ({"enum": [{"a": 1}]}, "enum", Why.VALUE_NOT_SCALAR),
        ({"enum": ["a", {"a": 1}]}, "enum", Why.VALUE_NOT_SCALAR),
        ({"const": [1]}, "const", Why.VALUE_NOT_SCALAR),
        ({"type": "array"}, "type", Why.TYPE_NOT_SAID),
        ({"description": "anything"}, "type", Why.TYPE_NOT_SAID),
    ],
)
def test_a_shape_that_no_strict_mode_takes_is_told_loosely(member: Any, keyword: str, why: Why) -> None:
    tool = described(of_object(("x",), x=member))

    for project in HELD:
        assert {(found, told) for _, found, told in reasons(project, tool)} == {(keyword, why)}


def test_members_said_beside_a_reference_are_not_lost() -> None:
    """A definition alone, closed, would keep out what stands beside the reference."""
    base = of_object(("id",), id={"type": "string"})
    beside = {"$ref": "#/$defs/Base", "properties": {"more": {"type": "integer"}}}
    tool = described(of_object(("x",), x=beside) | {"$defs": {"Base": base}})
    sent = {"x": {"id": "1", "more": 2}}

    assert tool.check_arguments(sent)[0] == sent
    for project in HELD:
        assert reasons(project, tool) == {("/properties/x", "$ref", Why.REFERENCE_NOT_FOLLOWED)}
        assert jsonschema_rs.Draft202012Validator(hint_of(project(tool.contract))).is_valid(sent)


@pytest.mark.parametrize("keyword", ["oneOf", "anyOf", "allOf"])
def test_branches_with_members_of_their_own_are_not_lost(keyword: str) -> None:
    by_id, by_name = of_object(id={"type": "string"}), of_object(name={"type": "string"})
    member = of_object(("force",), force={"type": "boolean"}) | {
        keyword: [by_id | {"required": ["id"]}, by_name | ({} if keyword == "allOf" else {"required": ["name"]})]
    }
    tool = described(of_object(("x",), x=member))
    sent = {"x": {"force": True, "id": "1"}}

    assert tool.check_arguments(sent)[0] == sent
    for project in HELD:
        assert ("/properties/x", keyword, Why.KEYWORD_UNSUPPORTED) in reasons(project, tool)
        assert jsonschema_rs.Draft202012Validator(hint_of(project(tool.contract))).is_valid(sent)


def test_branches_that_only_bound_what_is_declared_are_left_out() -> None:
    schema = of_object(("a",), a={"type": "string"}, b={"type": ["string", "null"], "default": None})
    tool = described({**schema, "if": {"properties": {"a": {"const": "x"}}}, "then": {"required": ["b"]}})

    for project in HELD:
        assert {keyword for _, keyword in left_out(project, tool)} >= {"if", "then"}
    with pytest.raises(InvalidArguments):
        tool.check_arguments({"a": "x"})


@pytest.mark.parametrize(
    ("member", "said"),
    [
        ({"type": "integer", "enum": [1, "a", 2.5, True]}, {"type": "integer", "enum": [1]}),
        (
            {"type": ["number", "null"], "enum": [1, 2.5, None]},
            {"type": ["integer", "number", "null"], "enum": [1, 2.5, None]},
        ),
        ({"enum": ["a", None]}, {"type": ["string", "null"], "enum": ["a", None]}),
        ({"const": True}, {"type": "boolean", "enum": [True]}),
    ],
)
def test_values_are_said_with_their_types_and_without_those_that_cannot_be(member: Any, said: Any) -> None:
    tool = described(of_object(("x",), x=member))

    for project in HELD:
        assert strict_hint(project, tool)["properties"]["x"] == said


@pytest.mark.parametrize("types", [["array", "null"], ["object", "string"]])
def test_a_choice_of_types_with_an_inside_becomes_a_choice_of_schemas(types: list[str]) -> None:
    inside = {"items": {"type": "integer"}, "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    tool = described(of_object(("x",), x={"type": types, **inside}))
    x = strict_hint(openai_tool, tool)["properties"]["x"]

    assert {each["type"] for each in x["anyOf"]} == set(types)
    check = jsonschema_rs.Draft202012Validator(strict_hint(openai_tool, tool))
    for value, kind in ([1], "array"), ({"a": 1}, "object"), ("s", "string"), (None, "null"):
        assert check.is_valid({"x": value}) is (kind in types)


def test_one_part_of_all_of_is_said_as_itself() -> None:
    tool = described(of_object(("x",), x={"allOf": [{"type": "string"}], "description": "One."}))

    assert strict_hint(openai_tool, tool)["properties"] == {"x": {"type": "string", "description": "One."}}


@pytest.mark.parametrize("project", [openai_tool, openai_responses_tool, anthropic_tool])
def test_choices_at_the_root_are_told_member_by_member(project: Callable[[Contract], Projection]) -> None:
    by_id = of_object(("id",), id={"type": "string", "description": "Its id."})
    by_name = of_object(("name",), name={"type": "string"})
    tool = described({"type": "object", "oneOf": [by_id, by_name], "properties": {"force": {"type": "boolean"}}})
    projection = project(tool.contract)

    assert isinstance(projection, Loose)
    assert projection.reasons[0] == Gap(pointer="", keyword="oneOf", why=Why.KEYWORD_UNSUPPORTED)
    hint = hint_of(projection)
    assert (hint["type"], set(hint["properties"])) == ("object", {"id", "name", "force"})
    assert hint["properties"]["id"] == {"description": "Its id."}
    assert not {"oneOf", "anyOf", "allOf"} & set(hint)
    for sound in ({"id": "1"}, {"name": "n", "force": True}):
        assert tool.check_arguments(sound)[0] == sound
        assert jsonschema_rs.Draft202012Validator(hint).is_valid(sound)


NAMED = of_object(a={"type": "string"}, b={"type": "string"})
MAPPING = {"additionalProperties": {"type": "integer"}}


@pytest.mark.parametrize(
    ("base", "branches", "sound", "is_closed"),
    [
        (NAMED, [{"required": ["a"]}, {"required": ["b"]}], {"b": "1"}, True),
        (NAMED, [of_object(("c",), c={"type": "string"}), {"required": ["b"]}], {"c": "1"}, True),
        (NAMED, [{"patternProperties": {"^n_": {"type": "integer"}}}], {"a": "1", "n_1": 2}, False),
        (of_object(), [MAPPING], {"any": 2}, False),
        (of_object(), [{"$ref": "#/$defs/More"}], {"any": 2}, False),
        (of_object(), [{"anyOf": [MAPPING, {"required": ["b"]}]}], {"any": 2}, False),
    ],
)
def test_a_root_without_its_branches_takes_whatever_they_let_in(
    base: dict[str, Any], branches: Any, sound: Any, is_closed: bool
) -> None:
    tool = described(base | {"anyOf": branches, "$defs": {"More": {"type": "object"} | MAPPING}})
    projection = openai_tool(tool.contract)
    assert isinstance(projection, Loose)
    check = jsonschema_rs.Draft202012Validator(hint_of(projection))

    assert tool.check_arguments(sound)[0] == sound
    assert check.is_valid(sound)
    assert check.is_valid({"unknown": 1}) is not is_closed


@pytest.mark.parametrize("effect", [EffectClass.READ])
def test_a_result_schema_of_any_kind_becomes_an_output_schema(effect: EffectClass) -> None:
    for result in (None, {"type": "array", "items": {"$ref": "#/$defs/N"}, "$defs": {"N": {"type": "integer"}}}):
        projection = mcp_tool(described(of_object(), effect=effect, result=result).contract)
        assert isinstance(projection, Strict)
        check = jsonschema_rs.Draft202012Validator(projection.definition["outputSchema"])  # type: ignore[arg-type]
        for answer in outcomes_with([1, 2]):
            assert check.is_valid(answer.for_mcp()["structuredContent"])


TYPE_NAMES = {"dict": "object", "float": "number", "tuple": "array", "any": "any", "String": "string"}


def without_required(hint: Any) -> Any:
    """The hint with absence said by leaving out, as the contract takes it."""
    if isinstance(hint, dict):
        return {
            key: without_required(child) for key, child in hint.items() if key != "required" or isinstance(child, dict)
        }
    return [without_required(child) for child in hint] if isinstance(hint, list) else hint


@pytest.mark.case("A15")
def test_recorded_tools_are_told_so_that_what_is_said_is_refused_or_meant(shared_data: Path) -> None:
    """Five hundred tools of other people: no hint misleads, none keeps out what the contract lets in."""
    rows = [json.loads(line) for line in (shared_data / "tool_schemas.jsonl").read_text().splitlines()]
    chance = random.Random(20260101)
    kinds: Counter[tuple[str, str]] = Counter()
    accepted: Counter[str] = Counter()
    for row in rows:
        try:
            tool = described(
                row["input_schema"], type_names=TYPE_NAMES, name=re.sub(r"[^a-zA-Z0-9_.-]", "_", row["name"])[:64]
            )
        except ContractError:
            kinds["no", "contract"] += 1
            continue
        for project in PROJECTIONS:
            projection = project(tool.contract)
            kinds[project.__name__, type(projection).__name__] += 1
            if isinstance(projection, NoProjection):
                continue
            hint = hint_of(projection)
            if isinstance(projection, Strict) and project in HELD:
                assert_in_subset(hint, is_root=True, absence_is_null=project is openai_tool)
            json.dumps(hint, allow_nan=False)
            check = jsonschema_rs.Draft202012Validator(without_required(hint))
            for sent in [Values(hint, chance).draw() for _ in range(3)]:
                try:
                    arguments, _ = tool.check_arguments(json.dumps(sent))
                except InvalidArguments:
                    continue
                accepted[project.__name__] += 1
                assert (arguments, list(map(type, arguments.values()))) == (sent, list(map(type, sent.values())))
            for sent in [Values(tool.contract.arguments_schema, chance).draw() for _ in range(3)]:
                try:
                    arguments, _ = tool.check_arguments(json.dumps(sent))
                except InvalidArguments:
                    continue
                assert check.is_valid(arguments), (row["id"], project.__name__)
    assert min(accepted[project.__name__] for project in PROJECTIONS) > 300, accepted
    assert {kind for _, kind in kinds} >= {"Strict", "Loose"}, kinds
    print(kinds, accepted)

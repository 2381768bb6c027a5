"""Repair: one step of wrapping undone where a contract says so, and nothing else ever changed."""

from __future__ import annotations

import base64
import dataclasses
import json
import random
from pathlib import Path
from typing import Annotated, Any

import pytest
from hypothesis import HealthCheck, assume, event, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, BeforeValidator, Field, create_model

import placet
from placet import Repair, Tool, WideInt
from placet.errors import ContractError, InvalidArguments
from placet.model.json import JsonObject
from placet.rules.contracts import contract_digest
from placet.rules.declared import Declared
from placet.rules.decoding import DecodingLimits
from placet.rules.repair import repaired_text
from tests.rules.schema_values import Values

BOTH = ("double_encoded", "code_fence")
WRITE: dict[str, Any] = {"effect": "write", "risk": "medium", "permission": "p", "name": "act"}


class Line(BaseModel):
    sku: str
    counts: list[int] = []


class Order(BaseModel):
    lines: list[Line]
    note: str = ""
    parent: Order | None = None


def taking(*, repair: tuple[str, ...] = BOTH, **hints: Any) -> Tool:
    """A write whose arguments have these types; a pair is a type and its default."""
    fields = {key: hint if isinstance(hint, tuple) else (hint, ...) for key, hint in hints.items()}
    model = create_model("Arguments", **fields)

    async def act(arguments): ...  # type: ignore[no-untyped-def]

    act.__annotations__ = {"arguments": model, "return": dict[str, str]}
    return placet.tool(**WRITE, repair=repair)(act)


def read(tool: Tool, text: object) -> JsonObject:
    """Arguments that had to be repaired."""
    done = tool.read_arguments(text)
    assert done.is_repaired
    assert json.loads(done.canonical) == done.arguments
    return done.arguments


def refusal(tool: Tool, text: object) -> tuple[str, tuple[tuple[str, str], ...]]:
    with pytest.raises(InvalidArguments) as caught:
        tool.read_arguments(text)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    return caught.value.reason, caught.value.problems


def text_of(value: object) -> str:
    return json.dumps(value)


# ---------------------------------------------------------------- off by default


@pytest.mark.case("A03")
def test_without_leave_nothing_is_repaired_and_the_refusal_names_the_member_and_its_type() -> None:
    plain = taking(repair=(), title=str)
    listing = taking(repair=(), tags=list[str])

    assert plain.contract.repair == frozenset()
    assert refusal(plain, text_of(text_of({"title": "a"})))[0] == "not_an_object"
    assert refusal(plain, f"```json\n{text_of({'title': 'a'})}\n```")[0] == "not_json"
    assert refusal(listing, {"tags": '["x","y"]'}) == ("contract_broken", (("/tags", "list_type"),))


@pytest.mark.parametrize(("kind", "other"), [BOTH, BOTH[::-1]])
def test_each_kind_is_asked_for_by_itself(kind: str, other: str) -> None:
    texts = {
        "double_encoded": text_of(text_of({"title": "a"})),
        "code_fence": f"```\n{text_of({'title': 'a'})}\n```",
    }
    tool = taking(repair=(kind,), title=str)

    assert read(tool, texts[kind]) == {"title": "a"}
    assert refusal(tool, texts[other])[0] in ("not_json", "not_an_object")


@pytest.mark.parametrize("risk", ["high", "critical"])
def test_at_high_risk_nothing_may_be_repaired(risk: str) -> None:
    async def act(x: int) -> int: ...

    with pytest.raises(ContractError, match="risk high or critical"):
        placet.tool(**(WRITE | {"risk": risk}), repair=("code_fence",))(act)


@pytest.mark.parametrize("wrong", ["code_fence", ("everything",), (1,), (None,)])
def test_what_is_no_kind_of_repair_is_refused(wrong: Any) -> None:
    async def act(x: int) -> int: ...

    with pytest.raises(ContractError, match="repair is"):
        placet.tool(**WRITE, repair=wrong)(act)


def test_repair_is_part_of_the_contracts_identity() -> None:
    contracts = [taking(repair=kinds, x=int).contract for kinds in ((), BOTH[:1], BOTH[1:], BOTH)]

    assert len({contract.digest for contract in contracts}) == 4
    assert contract_digest(dataclasses.replace(contracts[3], repair=frozenset())) == contracts[0].digest
    assert taking(repair=BOTH[::-1], x=int).contract.digest == contracts[3].digest
    assert contracts[3].repair == {Repair.CODE_FENCE, Repair.DOUBLE_ENCODED}


# ---------------------------------------------------------------- the whole text


@pytest.mark.case("A03")
@pytest.mark.parametrize("as_bytes", [str, str.encode])
def test_arguments_inside_a_string_are_read(as_bytes: Any) -> None:
    tool = taking(title=str, n=(int | None, None))

    assert read(tool, as_bytes('"{\\"title\\":\\"a\\"}"')) == {"title": "a", "n": None}
    assert read(tool, as_bytes(" \n" + text_of(' {"title":"ü","n":7} ') + "\t")) == {"title": "ü", "n": 7}


@pytest.mark.parametrize(
    "fenced",
    [
        '```json\n{"title":"a"}\n```',
        '```\n{"title":"a"}\n```',
        '```JSON \r\n{"title":"a"}\r\n```\r\n',
        '\n ```json\n\n  {"title":\n"a"}```  ',
    ],
)
def test_arguments_inside_a_fence_are_read(fenced: str) -> None:
    assert read(taking(title=str), fenced) == {"title": "a"}
    assert read(taking(title=str), fenced.encode()) == {"title": "a"}


def test_a_fence_inside_the_arguments_is_text() -> None:
    tool = taking(title=str)

    assert read(tool, "```json\n" + text_of({"title": "```\n{}\n```"}) + "\n```") == {"title": "```\n{}\n```"}


@pytest.mark.parametrize(
    "text",
    [
        'Here you are:\n```json\n{"title":"a"}\n```',
        '```json\n{"title":"a"}\n```\nDone.',
        '```json\n{"title":"a"}\n```\n```json\n{"title":"b"}\n```',
        '```python\n{"title":"a"}\n```',
        '``` json {"title":"a"} ```',
        '``\n{"title":"a"}\n``',
        '```json\n{"title":"a"}',
        'abcjson\n{"title":"a"}\n```',
        '\n{"title":"a"}\n```',
        'X"{\\"title\\":\\"a\\"}"X',
        '```json\x0c\n{"title":"a"}\n```',
        '```json\u00a0\n{"title":"a"}\n```',
        '\x0c```json\n{"title":"a"}\n```',
        '```json\n{"title":"a"}\n```\u2003',
        '\u00a0"{\\"title\\":\\"a\\"}"',
        '```json\n{"title":"a",}\n```',
        "```json\n{'title':'a'}\n```",
        '```json\n{"title":"a"}{"title":"a"}\n```',
        '{"title":"a"}{"title":"a"}',
        '\ufeff{"title":"a"}',
        '```json\n\ufeff{"title":"a"}\n```',
        '"{\\"title\\":\\"a\\"}" and more',
        '"{\\"title\\":\\"a\\"}","x":1',
        '"{\\"title\\":\\"a\\"}","text":"{}"',
        '"{\\"title\\":\\"a\\"}"}',
        "\"{'title': 'a'}\"",
        '{"arguments": {"title": "a"}}',
        "[]",
        "null",
    ],
)
def test_whatever_has_no_one_meaning_stays_refused(text: str) -> None:
    refusal(taking(title=str), text)
    refusal(taking(title=(str | None, None)), text)


@pytest.mark.case("A03")
@pytest.mark.parametrize(
    "twice",
    [
        text_of(text_of(text_of({"title": "a"}))),
        text_of("```json\n" + text_of({"title": "a"}) + "\n```"),
        "```json\n" + text_of(text_of({"title": "a"})) + "\n```",
        "```json\n```json\n" + text_of({"title": "a"}) + "\n```\n```",
        text_of(text_of({"title": "a", "tags": text_of(["x"])})),
        "```\n" + text_of({"title": "a", "tags": text_of(["x"])}) + "\n```",
    ],
)
def test_one_step_is_undone_and_no_second_one(twice: str) -> None:
    refusal(taking(title=str, tags=(list[str] | None, None)), twice)


def test_what_was_inside_a_member_is_not_looked_into_again() -> None:
    tool = taking(order=Order, tags=(list[str] | None, None))
    lines = [{"sku": "s", "counts": [1]}]

    assert read(tool, {"order": text_of({"lines": lines})})["order"] == {"lines": lines, "note": "", "parent": None}
    refusal(tool, {"order": text_of({"lines": text_of(lines)})})
    refusal(tool, {"order": text_of({"lines": [text_of(lines[0])]})})


@pytest.mark.case("A05")
@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        '""',
        '" "',
        '"\\n"',
        "```\n```",
        "```json\n\n```",
        "```json\n```",
        "``````",
        "```",
        '"null"',
        '"[]"',
        '"\\"\\""',
    ],
)
def test_nothing_becomes_empty_arguments(text: str) -> None:
    refusal(taking(note=(str | None, None)), text)


# ---------------------------------------------------------------- members


@pytest.mark.case("A03")
def test_a_list_or_object_inside_a_string_is_read_where_only_that_is_taken() -> None:
    tool = taking(tags=list[str], order=Order, more=(dict[str, list[int]] | None, None))
    order = {"lines": [{"sku": "s", "counts": [1, 2]}], "note": "[1]", "parent": None}

    plain = {"tags": ["x", "y"], "order": order, "more": {"k": [3]}}
    assert read(tool, plain | {"tags": '["x","y"]'}) == plain
    assert read(tool, plain | {"order": text_of(order)}) == plain
    assert read(tool, plain | {"more": text_of({"k": [3]}), "tags": ' ["x", "y"] '}) == plain


def test_places_inside_are_found_through_references_lists_mappings_and_null() -> None:
    tool = taking(order=Order, more=(dict[str, list[int]] | None, None))
    lines = [{"sku": "s", "counts": [1]}]
    plain = {
        "order": {"lines": lines, "note": "", "parent": {"lines": lines, "note": "", "parent": None}},
        "more": None,
    }

    assert read(tool, {"order": {"lines": text_of(lines), "parent": {"lines": lines}}}) == plain
    assert read(tool, {"order": {"lines": [text_of(lines[0])], "parent": {"lines": lines}}}) == plain
    assert read(tool, {"order": {"lines": lines, "parent": {"lines": [{"sku": "s", "counts": "[1]"}]}}}) == plain
    assert read(tool, {"order": {"lines": lines}, "more": {"k": "[1,2]"}})["more"] == {"k": [1, 2]}


@pytest.mark.case("A04")
@pytest.mark.parametrize("text", ['{"k":1}', "[1]", "007", '"quoted"', "```json\n{}\n```", "null", ""])
@pytest.mark.parametrize("hint", [str, str | list[int], str | dict[str, int] | None, Any])
def test_a_text_where_text_is_taken_arrives_as_it_is(hint: Any, text: str) -> None:
    """Also where the arguments are refused for another reason, and repaired there."""
    alone = taking(body=hint).read_arguments({"body": text})
    beside = read(taking(body=hint, tags=list[str]), {"body": text, "tags": '["x"]'})

    assert (alone.arguments, alone.is_repaired) == ({"body": text}, False)
    assert beside == {"body": text, "tags": ["x"]}


def test_a_text_that_a_validator_takes_for_a_list_is_left_to_the_validator() -> None:
    def split(value: Any) -> Any:
        return value.split("|") if isinstance(value, str) else value

    done = taking(x=Annotated[list[str], BeforeValidator(split)]).read_arguments({"x": '["a"]'})

    assert (done.arguments, done.is_repaired) == ({"x": ['["a"]']}, False)


LISTING = {"type": "array", "items": {"type": "integer"}}


@pytest.mark.case("A04")
@pytest.mark.parametrize(
    "x",
    [
        {
            "anyOf": [
                {"type": "object", "properties": {"a": LISTING}},
                {"type": "object", "additionalProperties": {"type": "string"}},
            ]
        },
        {
            "anyOf": [
                {"type": "object", "properties": {"a": LISTING}},
                {"type": "object", "properties": {"a": {"type": "string"}}},
            ]
        },
        {"type": "object", "properties": {"a": True}},
        {"type": "object", "additionalProperties": {"type": ["string", "array"]}},
        {"type": "object", "patternProperties": {"^a": {"type": "string"}}},
        {"type": "object", "properties": {"a": {"enum": ["[1]", [1]]}}},
    ],
)
def test_a_place_where_any_reading_takes_text_is_left_alone(x: dict[str, Any]) -> None:
    """Repaired beside it, so that the whole is looked through."""
    schema = {"type": "object", "properties": {"x": x, "y": LISTING}}
    tool = placet.tool_from_schema(handled, arguments=schema, repair=BOTH, **WRITE)

    assert tool.read_arguments({"x": {"a": "[1]"}, "y": [2]}).is_repaired is False
    assert read(tool, {"x": {"a": "[1]"}, "y": "[2]"}) == {"x": {"a": "[1]"}, "y": [2]}


def test_places_in_described_schemas_are_found() -> None:
    schema = {
        "type": "object",
        "properties": {
            "pair": {"type": "array", "prefixItems": [{"type": "string"}, LISTING], "items": False},
            "perhaps": {"type": ["array", "null"], "items": {"type": "integer"}},
            "one": {"anyOf": [{"$ref": "#/$defs/Box"}, {"type": "null"}]},
        },
        "patternProperties": {"^many_": LISTING},
        "$defs": {"Box": {"type": "object", "properties": {"box": {"anyOf": [LISTING, {"type": "integer"}]}}}},
    }
    tool = placet.tool_from_schema(handled, arguments=schema, repair=BOTH, **WRITE)

    assert read(tool, {"pair": ["[1]", "[1]"]}) == {"pair": ["[1]", [1]]}
    assert read(tool, {"perhaps": "[1]"}) == {"perhaps": [1]}
    assert read(tool, {"one": {"box": "[1]"}}) == {"one": {"box": [1]}}
    assert read(tool, {"one": '{"box":[1]}'}) == {"one": {"box": [1]}}
    assert read(tool, {"many_a": "[1]"}) == {"many_a": [1]}


@pytest.mark.parametrize(
    ("hint", "text"),
    [
        (list[str], "oncall"),
        (list[str], "['oncall', 'dba']"),
        (list[str], '["x"'),
        (list[str], '["x"] '[:-2]),
        (list[str], '{"0":"x"}'),
        (list[str], '"[]"'),
        (list[str], "null"),
        (list[str], '["x"],"y":["z"]'),
        (dict[str, int], "[]"),
        (dict[str, int], '{"a":1,"a":2}'),
        (dict[str, int], '{"a":NaN}'),
        (dict[str, int], '{"a":9007199254740993}'),
        (list[str], '["\\ud800"]'),
        (list[str], '["\\u0000"]'),
        (list[int], '["1"]'),
        (int, "1"),
        (bool, "true"),
        (int | None, "null"),
    ],
)
def test_a_text_that_is_not_exactly_the_container_stays_refused(hint: Any, text: str) -> None:
    tool = taking(x=hint)
    _, problems = refusal(tool, {"x": text})

    assert problems[0][0].startswith("/x")


def test_wide_integers_are_exact_inside_as_well() -> None:
    big = 2**80
    tool = taking(amounts=list[WideInt], named=(dict[str, list[WideInt]] | None, None))

    assert read(tool, f'{{"amounts":"[{big}]"}}')["amounts"] == [big]
    assert read(tool, f'{{"amounts":[1],"named":{{"k":"[{big}]"}}}}')["named"] == {"k": [big]}
    assert read(tool, text_of(f'{{"amounts":[{big}]}}'))["amounts"] == [big]
    refusal(taking(amounts=list[int]), f'{{"amounts":"[{big}]"}}')


@pytest.mark.parametrize("sent", [[], {"tags": ["[1]"], "title": "[]"}, {"tags": [], "title": "x", "more": "[1]"}])
def test_where_nothing_is_undone_there_is_nothing_to_read_again(sent: Any) -> None:
    contract = taking(tags=list[str], title=str).contract

    assert repaired_text(text_of(sent), contract, limits=DecodingLimits()) is None


def test_a_text_that_cannot_be_read_is_not_taken_for_nothing() -> None:
    tool = taking(x=(list[str] | None, None), tags=list[str])

    refusal(tool, {"x": "oncall", "tags": '["a"]'})


@pytest.mark.parametrize("text", ["{}", "[]", "1"])
def test_only_where_a_container_is_taken_a_text_is_looked_into(text: str) -> None:
    contract = taking(n=int, tags=list[str]).contract

    assert repaired_text(text_of({"n": text, "tags": []}), contract, limits=DecodingLimits()) is None


def test_a_place_is_as_wide_inside_a_text_as_it_is_declared_and_no_other_place() -> None:
    class Pair(BaseModel):
        amounts: list[WideInt] = []
        counts: list[int] = []

    contract = taking(pair=Pair, many=(list[Pair], []), amounts=(list[int], [])).contract
    wide, limits = f"[{2**80}]", DecodingLimits()

    assert repaired_text(text_of({"pair": {"amounts": wide}}), contract, limits=limits) is not None
    assert repaired_text(text_of({"pair": f'{{"amounts":{wide}}}'}), contract, limits=limits) is not None
    assert repaired_text(text_of({"many": [{}, {"amounts": wide}]}), contract, limits=limits) is not None
    assert repaired_text(text_of({"many": f'[{{"amounts":{wide}}}]'}), contract, limits=limits) is not None
    assert repaired_text(text_of({"pair": {"counts": wide}}), contract, limits=limits) is None
    assert repaired_text(text_of({"pair": f'{{"counts":{wide}}}'}), contract, limits=limits) is None
    assert repaired_text(text_of({"many": [{"counts": wide}]}), contract, limits=limits) is None
    assert repaired_text(text_of({"amounts": wide}), contract, limits=limits) is None


def test_each_limit_holds_inside_a_text() -> None:
    contract = taking(tags=list[str]).contract
    document = text_of(text_of({"tags": ["a"]}))

    assert repaired_text(document, contract, limits=DecodingLimits(max_string_characters=15)) == '{"tags": ["a"]}'
    assert repaired_text(document, contract, limits=DecodingLimits(max_string_characters=14)) is None


def test_a_wide_integer_beside_what_is_undone_stays_exact() -> None:
    tool = taking(amounts=list[WideInt], tags=list[str])

    assert read(tool, f'{{"amounts":[{2**80}],"tags":"[]"}}') == {"amounts": [2**80], "tags": []}


# ---------------------------------------------------------------- limits


def nested(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels - 1):
        value = [value]
    return value


def test_depth_is_held_inside_and_in_total() -> None:
    tool = taking(x=list[Any], y=(dict[str, list[Any]] | None, None))

    assert read(tool, {"x": text_of(nested(31))})["x"] == nested(31)
    refusal(tool, {"x": text_of(nested(32))})
    assert read(tool, text_of(text_of({"x": nested(31)})))["x"] == nested(31)
    assert refusal(tool, text_of(text_of({"x": nested(32)})))[0] == "too_deep"
    assert read(tool, {"x": [], "y": {"k": text_of(nested(30))}})["y"] == {"k": nested(30)}
    refusal(tool, {"x": [], "y": {"k": text_of(nested(31))}})


def test_members_are_counted_in_total() -> None:
    tool = taking(x=list[int], y=list[int])
    half = "[" + ",".join(["1"] * 4_999) + "]"
    more = "[" + ",".join(["1"] * 5_000) + "]"
    wide = dataclasses.replace(tool, contract=dataclasses.replace(tool.contract, max_argument_bytes=100_000))

    assert len(wide.read_arguments({"x": half, "y": half}).canonical) > 10_000
    refusal(wide, {"x": half, "y": more})


def test_size_is_held_after_the_repair() -> None:
    tool = taking(x=list[str])
    fits = ["a" * 100] * 79
    assert len(tool.read_arguments({"x": text_of(fits)}).canonical) < 8_192

    assert refusal(tool, {"x": text_of(["a" * 100] * 80)})[0] == "arguments_too_large"
    assert refusal(tool, text_of(text_of({"x": ["a" * 100] * 80})))[0] == "arguments_too_large"


@pytest.mark.parametrize("text", ['{"tags":"[1]"}', '"[1]"', "```\n[1]\n```"])
@pytest.mark.parametrize("as_bytes", [str, str.encode])
def test_a_text_as_long_as_may_be_is_looked_at_and_one_byte_more_is_not(text: str, as_bytes: Any) -> None:
    contract = taking(tags=list[int]).contract

    assert repaired_text(as_bytes(text), contract, limits=DecodingLimits(max_bytes=len(text))) is not None
    assert repaired_text(as_bytes(text), contract, limits=DecodingLimits(max_bytes=len(text) - 1)) is None


def test_bytes_are_counted_and_not_characters_also_where_blanks_would_be_gone_afterwards() -> None:
    contract = taking(tags=list[str]).contract
    text = '{"tags":  "[]", "ü": 1}'

    assert len(text.encode()) == len(text) + 1
    assert repaired_text(text, contract, limits=DecodingLimits(max_bytes=len(text) + 1)) == '{"tags":[],"ü":1}'.encode()
    assert repaired_text(text, contract, limits=DecodingLimits(max_bytes=len(text))) is None


def test_what_would_be_too_deep_as_a_whole_once_undone_is_not_undone() -> None:
    contract = taking(x=list[Any], y=(dict[str, list[Any]] | None, None)).contract
    text = text_of({"y": {"k": "[[1]]"}})

    assert repaired_text(text, contract, limits=DecodingLimits(max_depth=4)) == b'{"y":{"k":[[1]]}}'
    assert repaired_text(text, contract, limits=DecodingLimits(max_depth=3)) is None


def test_a_long_run_of_blanks_or_ticks_costs_nothing_special() -> None:
    tool = taking(title=str)
    for text in ("```json\n" + " " * 200_000 + "`", "`" * 200_000, '"' + " " * 60_000 + '"', '"' * 100_000):
        refusal(tool, text)


def test_a_recursive_choice_does_not_double_with_every_level() -> None:
    """Each of the two readings of a level has the same member below: 2 to the 40th looks if each were looked at."""
    schema: JsonObject = {
        "anyOf": [{"$ref": "#/$defs/A"}, {"$ref": "#/$defs/B"}],
        "$defs": {
            name: {"type": "object", "properties": {"next": {"anyOf": [{"$ref": "#/$defs/A"}, {"$ref": "#/$defs/B"}]}}}
            for name in "AB"
        },
    }
    declared, at = Declared(schema), schema
    for _ in range(40):
        at = declared.member(at, "next")  # type: ignore[assignment]
        assert isinstance(at, dict) and len(at["anyOf"]) <= 2  # type: ignore[arg-type]
    assert declared.types(at) == {"object"}


@pytest.mark.parametrize(
    ("schema", "types"),
    [
        (True, {"object", "array", "string", "number", "boolean", "null"}),
        (False, set()),
        ({}, {"object", "array", "string", "number", "boolean", "null"}),
        ({"type": "integer"}, {"number"}),
        ({"type": ["array", "null"]}, {"array", "null"}),
        ({"enum": [[1], "x", None]}, {"array", "string", "null"}),
        ({"const": {"a": 1}}, {"object"}),
        ({"anyOf": [{"type": "array"}, {"type": "string"}]}, {"array", "string"}),
        ({"oneOf": [{"type": "array"}, {"type": "string"}], "type": "array"}, {"array"}),
        ({"allOf": [{"type": ["array", "string"]}, {"type": ["array", "null"]}]}, {"array"}),
        ({"$ref": "#/$defs/A"}, {"array"}),
        ({"$ref": "#/$defs/Self"}, {"object", "array", "string", "number", "boolean", "null"}),
        ({"$ref": "#/$defs/Gone"}, {"object", "array", "string", "number", "boolean", "null"}),
        ({"$ref": "elsewhere"}, {"object", "array", "string", "number", "boolean", "null"}),
        ({"not": {"type": "string"}}, {"object", "array", "string", "number", "boolean", "null"}),
    ],
)
def test_types_are_told_generously(schema: Any, types: set[str]) -> None:
    root: JsonObject = {"$defs": {"A": {"type": "array"}, "Self": {"$ref": "#/$defs/Self"}}}

    assert Declared(root).types(schema) == types


# ---------------------------------------------------------------- any text

_CONTRACT: dict[str, Any] = {
    "tags": (list[str] | None, None),
    "order": (Order | None, None),
    "body": (str | None, None),
    "either": (str | list[int] | None, None),
    "n": (Annotated[int, Field(ge=0, le=9)] | None, None),
    "many": (dict[str, list[int]] | None, None),
}
STRICT, REPAIRING = taking(repair=(), **_CONTRACT), taking(**_CONTRACT)


def _arguments() -> st.SearchStrategy[Any]:
    return st.randoms(use_true_random=False).map(lambda chance: Values(STRICT.contract.arguments_schema, chance).draw())


def _texts() -> st.SearchStrategy[str]:
    sound = _arguments().map(json.dumps)
    broken = st.tuples(
        sound, st.integers(0, 400), st.sampled_from(["", '"', "{", "]", ",", "\\", "1", " ", "```"])
    ).map(lambda parts: parts[0][: parts[1]] + parts[2] + parts[0][parts[1] + 1 :])
    odd = st.sampled_from(['{"n":1,"n":2}', '{"n":NaN}', '{"body":"\\ud800"}', '{"n":1}{"n":1}', "", "[]", '{"n":1} x'])
    return st.one_of(sound, broken, odd)


def decision(tool: Tool, text: object) -> tuple[object, object]:
    try:
        done = tool.read_arguments(text)
    except InvalidArguments as error:
        return "refused", (error.reason, error.problems)
    return "accepted", (done.canonical, done.arguments)


@pytest.mark.case("A04")
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(text=_texts())
def test_what_is_valid_as_it_stands_is_never_changed(text: str) -> None:
    word, told = decision(STRICT, text)
    assume(word == "accepted")

    assert decision(REPAIRING, text) == (word, told)
    assert not REPAIRING.read_arguments(text).is_repaired


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(text=_texts(), wrap=st.sampled_from([json.dumps, lambda text: f"```json\n{text}\n```"]))
def test_wrapped_text_is_decided_exactly_as_the_text_inside(text: str, wrap: Any) -> None:
    inside = decision(STRICT, text)
    event(str(inside[0]))

    assert decision(REPAIRING, wrap(text)) == inside


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(arguments=_arguments(), chance=st.randoms(use_true_random=False))
def test_a_container_inside_a_string_is_decided_as_the_container(arguments: Any, chance: random.Random) -> None:
    wrapped = [name for name in ("tags", "order", "many") if isinstance(arguments.get(name), dict | list)]
    assume(wrapped)
    chosen = chance.sample(wrapped, chance.randint(1, len(wrapped)))
    sent = {name: json.dumps(value) if name in chosen else value for name, value in arguments.items()}
    event(str(decision(STRICT, arguments)[0]))

    assert decision(REPAIRING, sent)[0] == decision(STRICT, arguments)[0]
    if decision(STRICT, arguments)[0] == "accepted":
        assert decision(REPAIRING, sent) == decision(STRICT, arguments)
        assert REPAIRING.read_arguments(sent).is_repaired


# ---------------------------------------------------------------- recorded calls

_BEYOND_ONE_STEP = {
    "m017": "it is wrapped twice, and one step is undone (CASES A03)",
    "m035": "two objects are two calls, also if they are alike (CASES A18)",
    "m051": "a byte order mark is refused (CASES A18)",
    "m055": "an object around the arguments is no JSON text; its member is told as unknown",
}
"""Rows whose recorded repair is lossless, and which placet refuses all the same."""


@pytest.mark.case("A03", "A04")
def test_recorded_calls_get_their_value_by_repair_or_stay_refused(shared_data: Path) -> None:
    rows = [json.loads(line) for line in (shared_data / "malformed_calls.jsonl").read_text().splitlines()]
    seen = set()
    for row in rows:
        raw = base64.b64decode(row["raw_b64"]) if row["raw"] is None else row["raw"]
        if row["repair"] == "none" or row["finish_reason"] != "tool_calls":
            continue
        seen.add(row["id"])
        options: dict[str, Any] = {
            **WRITE,
            "name": row["tool"],
            "arguments": row["schema"],
            "generic_executor": "a test",
        }
        strict, repairing = (placet.tool_from_schema(handled, **options, repair=kinds) for kinds in ((), BOTH))
        refusal(strict, raw)
        if row["repair"] == "lossy" or row["id"] in _BEYOND_ONE_STEP:
            refusal(repairing, raw)
        else:
            assert read(repairing, raw) == row["repaired_value"], row["id"]
    assert seen >= _BEYOND_ONE_STEP.keys() | {"m016", "m022", "m019", "m024"}


async def handled(arguments: dict[str, Any]) -> None: ...

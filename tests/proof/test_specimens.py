"""Arguments and results made up from schemas: accepted by their contract, different where they have to be, or none."""

from __future__ import annotations

import json
import re
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal
from uuid import UUID

import pytest
from pydantic import BaseModel, Field, StringConstraints

import placet
from placet.proof.verify.patterns import text_for
from placet.proof.verify.specimens import NoSpecimen, marked, result_for, specimens


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Item(BaseModel):
    sku: Annotated[str, StringConstraints(pattern=r"^[A-Z]{2,5}-\d{4}(-x|-y)?$")]
    count: Annotated[int, Field(gt=3, lt=6)]
    price: Annotated[Decimal, Field(ge=0, decimal_places=2)]
    share: Annotated[float, Field(gt=0, lt=1)]


@placet.tool(effect="write", risk="low", permission="x")
async def typed(
    name: str,
    colour: Colour,
    items: list[Item],
    day: date,
    at: datetime,
    id: UUID,
    speed: Literal["slow", "fast"],
    note: str | None = None,
    extra: dict[str, int] | None = None,
    long: Annotated[str, StringConstraints(min_length=30, max_length=31)] = "z" * 30,
) -> dict[str, Item]:
    """Typed in every way."""
    return {}


def described(schema: dict[str, Any], result: Any = None) -> placet.Tool:
    async def nothing(arguments: dict[str, Any]) -> None: ...

    return placet.tool_from_schema(
        nothing, name="described", effect="write", risk="low", permission="x", arguments=schema, result=result,
        generic_executor="it is never run",
    )  # fmt: skip


def test_specimens_are_accepted_and_differ() -> None:
    found = specimens(typed, 4)

    assert len({each.canonical for each in found}) == 4
    assert len({each.accepted["name"] for each in found}) == 4  # not in what is optional alone
    for each in found:
        assert typed.read_arguments(each.proposed).canonical == each.canonical


def test_a_marked_specimen_holds_its_mark_wherever_any_text_may_be() -> None:
    found = marked(typed, "zqmark")

    assert (found.accepted["name"], found.accepted["note"]) == ("zqmark", "zqmark")
    assert str(found.accepted["long"]).startswith("zqmark")
    with pytest.raises(NoSpecimen, match="free text"):
        marked(described({"type": "object", "properties": {"n": {"type": "integer"}}}), "zqmark")


@pytest.mark.parametrize(
    "member",
    [
        {"type": "integer", "minimum": 10, "multipleOf": 7},
        {"type": "integer", "maximum": -3},
        {"type": "number", "exclusiveMinimum": 0.5, "exclusiveMaximum": 0.75},
        {"type": "string", "pattern": "^[0-9a-f]+$", "minLength": 24, "maxLength": 24},
        {"type": "string", "pattern": "^(?:north|south)-[^a-z]{3}$"},
        {"type": ["string", "null"], "maxLength": 3},
        {"type": "array", "items": {"type": "string"}, "minItems": 3, "uniqueItems": False},
        {"type": "array", "prefixItems": [{"const": 1}, {"type": "boolean"}], "items": False},
        {"enum": [3, "three", None]},
        {"const": {"a": [1, 2]}},
        {"anyOf": [{"type": "boolean"}, {"type": "integer", "minimum": 5}]},
        {"allOf": [{"type": "integer", "minimum": 5}, {"maximum": 7}]},
        {"$ref": "#/$defs/node"},
    ],
    ids=lambda member: json.dumps(member)[:60],
)
def test_a_member_of_every_kind_is_made_up(member: dict[str, Any]) -> None:
    node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}, "v": {"type": "integer"}}}
    schema = {"type": "object", "properties": {"m": member}, "required": ["m"], "$defs": {"node": node}}
    (found,) = specimens(described(schema), 1)

    assert "m" in found.accepted


def test_what_its_owner_gives_as_examples_comes_first() -> None:
    iban = {"type": "string", "examples": ["DE02", "DE03"]}
    schema = {"type": "object", "properties": {"iban": iban}, "required": ["iban"]}
    found = specimens(described(schema), 3)

    assert [each.accepted["iban"] for each in found] == ["DE02", "DE03", "verify2"]


def test_where_not_enough_can_be_made_up_the_reason_is_said() -> None:
    schema = {"type": "object", "properties": {"b": {"const": 1}}, "required": ["b"]}

    with pytest.raises(NoSpecimen, match="only 1 different arguments could be made up, 2 are needed"):
        specimens(described(schema), 2)


def test_a_result_is_made_up_and_accepted() -> None:
    assert typed.check_result(result_for(typed))
    tool = described(
        {"type": "object"}, {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]}
    )
    assert result_for(tool, mark="zqmark") == {"id": "zqmark"}


@pytest.mark.parametrize(
    "pattern",
    [
        r"^\d{4}-\d{2}-\d{2}$", r"^[A-Z][a-z]+ [A-Z][a-z]+$", r"^(GET|POST)$", r"^\S+@\S+\.\w{2,3}$", r"^[^\s/]+$",
        r"^arn:aws:[a-z]+:.*$", r"^.{5,}$", r"^a?b*c+$", r"^[\w.-]{3,8}$", r"^\W$", r"^$|^x$",
    ],
)  # fmt: skip
def test_a_text_fits_its_pattern_whatever_the_salt(pattern: str) -> None:
    for salt in range(10):
        made = text_for(pattern, salt=salt)
        assert made is not None and re.search(pattern, made)


def test_a_pattern_that_is_not_walked_gets_no_text() -> None:
    for pattern in (r"^(a)\1$", r"^(?=b)a$", r"(", r"^a{5000}$"):
        assert text_for(pattern, salt=1) is None


def test_real_tool_definitions_all_have_specimens(shared_data: Path) -> None:
    without: list[str] = []
    count = 0
    for line in (shared_data / "tool_schemas.jsonl").read_text("utf-8").splitlines():
        definition = json.loads(line)
        try:
            tool = described(definition["input_schema"])
        except placet.PlacetError:
            continue
        count += 1
        try:
            specimens(tool, 1)
        except NoSpecimen:
            without.append(definition["name"])

    assert count > 200
    assert without == []

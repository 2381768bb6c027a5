"""Contracts from JSON Schemas, on recorded data: the official suite, real tool definitions, malformed calls."""

from __future__ import annotations

import base64
import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import placet
from placet import CallContext, Tool
from placet.errors import ContractError, InvalidArguments
from placet.model.outcome import Invalid, Succeeded
from placet.rules.contracts.schema_bounds import refuse_costly
from placet.rules.contracts.schema_checks import validator_of
from placet.rules.contracts.schema_closing import CLOSED_BY_ANNOTATION, plain
from placet.rules.contracts.schema_graph import Node
from placet.rules.contracts.schema_reading import read_graph, read_schema
from placet.testing import FakeClock

DIFFERENCES = json.loads(Path(__file__).with_name("schema_suite_differences.json").read_text(encoding="utf-8"))
WRITE: dict[str, Any] = {"effect": "write", "risk": "medium", "permission": "p"}
FOREIGN_TYPES = {
    "dict": "object",
    "HashMap": "object",
    "tuple": "array",
    "Array": "array",
    "ArrayList": "array",
    "float": "number",
    "long": "integer",
    "String": "string",
    "char": "string",
    "any": "any",
}


def refusal(why: str) -> ContractError:
    return ContractError(why)


async def do_nothing(arguments: dict[str, Any]) -> None:
    """Not called here."""


# ---------------------------------------------------------------- the official suite


def verdicts(shared_data: Path) -> Iterator[tuple[str, bool, bool | str]]:
    """Each required test: its name, what it expects, and our verdict or why its schema is refused."""
    suite = json.loads((shared_data / "json_schema_test_suite_2020-12.json").read_text(encoding="utf-8"))
    for file, groups in suite["required"].items():
        for group in groups:
            try:
                schema = group["schema"]
                bare = isinstance(schema, bool)
                root = (
                    Node(pointer="", boolean=schema) if bare else read_graph(read_schema(schema, refusal, ""), refusal)
                )
                refuse_costly(root, refusal, max_depth=32, max_bytes=8_192)
                validator = validator_of(plain(root))
            except ContractError as error:
                why = str(error)
                yield from ((f"{file}: {group['description']}", test["valid"], why) for test in group["tests"])
                continue
            for test in group["tests"]:
                yield f"{file}: {group['description']}", test["valid"], validator.is_valid(test["data"])


def test_the_official_suite_agrees_but_for_the_listed_refusals(shared_data: Path) -> None:
    found = list(verdicts(shared_data))
    differing = {name: got for name, expected, got in found if got is not expected}
    listed = {name: each["refused"] for each in DIFFERENCES["differences"] for name in each["groups"]}

    assert len(found) == 1299
    assert sum(got is not expected for _, expected, got in found) == DIFFERENCES["tests"]
    assert not {name: got for name, got in differing.items() if isinstance(got, bool)}
    assert {name: re.search(listed.get(name, "^$"), str(got)) is not None for name, got in differing.items()} == (
        dict.fromkeys(listed, True)
    )


# ---------------------------------------------------------------- real tools


def registered(row: dict[str, Any], **options: Any) -> Tool:
    options = {**WRITE, "name": row["name"], "arguments": row["input_schema"], **options}
    return placet.tool_from_schema(do_nothing, **options)


@pytest.fixture(scope="session")
def real_tools(shared_data: Path) -> list[dict[str, Any]]:
    lines = (shared_data / "tool_schemas.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def refusals(rows: list[dict[str, Any]], **options: Any) -> Counter[str]:
    counted: Counter[str] = Counter()
    for row in rows:
        try:
            registered(row, **options)
        except ContractError as error:
            why = str(error).partition(": ")[2]
            counted[re.sub(r"at \S+ of its schema '.*?'", "at . of its schema '.'", why)[:60]] += 1
        else:
            counted["accepted"] += 1
    return counted


@pytest.mark.case("A14", "A15")
@pytest.mark.parametrize(
    ("options", "accepted", "reasons"),
    [
        ({}, 231, {"is not a type of JSON Schema": 257, "looks like a generic executor": 9, "says nothing; write": 3}),
        (
            {"type_names": FOREIGN_TYPES},
            482,
            {"is not a type of JSON Schema": 0, "looks like a generic executor": 15, "says nothing; write": 3},
        ),
        ({"type_names": FOREIGN_TYPES, "generic_executor": "reviewed"}, 497, {"says nothing; write": 3}),
    ],
    ids=["as they are", "foreign types named", "generic executors let in"],
)
def test_each_of_500_real_tools_is_accepted_or_refused_with_its_reason(
    real_tools: list[dict[str, Any]], options: dict[str, Any], accepted: int, reasons: dict[str, int]
) -> None:
    found = refusals(real_tools, **options)

    assert sum(found.values()) == len(real_tools) == 500
    assert found.pop("accepted") == accepted
    assert {reason: sum(count for why, count in found.items() if reason in why) for reason in reasons} == reasons
    assert sum(found.values()) == 500 - accepted


TEXTS = ["a", "0" * 40, "refs/heads/x", "127.0.0.1", "10.0.0.0/8", "text of some length"]


def is_impossible(schema: Any) -> bool:
    """One real member is an array that has to equal a text; nothing can be."""
    return isinstance(schema, dict) and schema.get("type") == "array" and "MT10" in schema.get("enum", ())


class Sampler:
    """Makes an instance that a schema declares: every declared member, the first alternative."""

    def __init__(self, document: dict[str, Any]) -> None:
        self._document = document

    def sample(self, schema: Any, depth: int = 0) -> Any:
        if schema is True or not schema:
            return "a"
        if "$ref" in schema:
            return self.sample(self._document["$defs"][schema["$ref"].removeprefix("#/$defs/")], depth)
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            return schema["enum"][0]
        for keyword in ("oneOf", "anyOf"):
            if keyword in schema:
                inside = self.sample(schema[keyword][0], depth)
                return {**self.members(schema, depth), **inside} if isinstance(inside, dict) else inside
        kinds = schema.get("type", "object" if "properties" in schema else "string")
        return self.of_type(kinds if isinstance(kinds, str) else kinds[0], schema, depth)

    def of_type(self, kind: str, schema: dict[str, Any], depth: int) -> Any:
        match kind:
            case "object":
                return self.members(schema, depth)
            case "array":
                least = max(schema.get("minItems", 1), 1) if depth < 8 else schema.get("minItems", 0)
                return [self.sample(schema.get("items", {}), depth + 1) for _ in range(least)]
            case "integer" | "number":
                least = schema.get("minimum", schema.get("exclusiveMinimum", 0) + 1)
                return max(least, min(1, schema.get("maximum", 1)))
            case "boolean":
                return True
            case "null":
                return None
            case _:
                return self.text(schema)

    def members(self, schema: dict[str, Any], depth: int) -> dict[str, Any]:
        declared = schema.get("properties", {})
        wanted = declared if depth < 8 else {name: declared[name] for name in schema.get("required", ())}
        wanted = {name: child for name, child in wanted.items() if not is_impossible(child)}
        found = {name: self.sample(child, depth + 1) for name, child in wanted.items()}
        mapping = schema.get("additionalProperties")
        if mapping and depth < 8:
            found["placet-mapped"] = self.sample(mapping, depth + 1)
        return found

    def text(self, schema: dict[str, Any]) -> str:
        least, most = schema.get("minLength", 0), schema.get("maxLength", 1_000_000)
        fitting = [each.ljust(least, "a")[:most] for each in TEXTS]
        return next(each for each in fitting if re.search(schema.get("pattern", ""), each))


def with_one_more(value: Any) -> Iterator[Any]:
    """The same value with a member more, once for each object inside it that is no mapping."""
    if isinstance(value, dict):
        if "placet-mapped" not in value:
            yield {**value, "placet-unknown": 1}
        for name, child in value.items():
            yield from ({**value, name: changed} for changed in with_one_more(child))
    elif isinstance(value, list):
        for index, child in enumerate(value):
            yield from ([*value[:index], changed, *value[index + 1 :]] for changed in with_one_more(child))


@pytest.mark.case("A14")
@pytest.mark.slow
def test_every_accepted_real_tool_takes_what_it_declares_and_not_one_member_more(
    real_tools: list[dict[str, Any]],
) -> None:
    options = {
        "type_names": FOREIGN_TYPES,
        "generic_executor": "reviewed",
        "text": "free",
        "max_argument_bytes": 262144,
    }
    tried, by_annotation = 0, 0
    for row in real_tools:
        try:
            tool = registered(row, **options)
        except ContractError:
            continue
        schema = tool.contract.arguments_schema
        by_annotation += CLOSED_BY_ANNOTATION in schema
        declared = Sampler(schema).sample(schema)
        assert tool.check_arguments(declared)[0] == declared, (row["id"], declared)
        for one_more in with_one_more(declared):
            with pytest.raises(InvalidArguments) as caught:
                tool.check_arguments(one_more)
            told = caught.value.problems
            assert "extra_forbidden" in {rule for _, rule in told}, (row["id"], told)
            tried += 1

    assert tried > 600
    assert by_annotation == 6


# ---------------------------------------------------------------- malformed calls

REASONS = {
    "empty_arguments": {"missing"},
    "not_an_object": {"not_an_object"},
    "double_encoded": {"not_an_object"},
    "wrong_type": {"type"},
    "fenced": {"not_json"},
    "leading_text": {"not_json"},
    "trailing_data": {"trailing_data"},
    "python_literal": {"not_json"},
    "not_json": {"not_json"},
    "trailing_comma": {"not_json"},
    "truncated": {"not_json", "turn_truncated"},
    "provider_truncated": {"turn_truncated"},
    "multiple_values": {"trailing_data"},
    "non_finite_number": {"number_not_finite"},
    "unsafe_integer": {"number_too_large"},
    "lone_surrogate": {"lone_surrogate"},
    "nul_character": {"null_character"},
    "invalid_escape": {"not_json"},
    "control_character": {"control_character"},
    "invalid_utf8": {"not_utf8"},
    "bom": {"byte_order_mark"},
    "duplicate_key": {"duplicate_member"},
    "unknown_property": {"extra_forbidden"},
    "enum_mismatch": {"enum"},
    "template_token": {"model_template_token"},
    "too_deep": {"too_deep"},
}
"""How the data names a reason, and how we do."""

UNPLACED = {"not_json", "too_deep"}
"""Reasons of a text as a whole; the data names a place for some."""


@pytest.fixture(scope="session")
def malformed(shared_data: Path) -> list[dict[str, Any]]:
    lines = (shared_data / "malformed_calls.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


async def answer_of(row: dict[str, Any], **options: Any) -> tuple[placet.Outcome, list[dict[str, Any]]]:
    """What a gate says to one recorded turn, and what its handler received."""
    received: list[dict[str, Any]] = []

    async def handle(arguments: dict[str, Any], context: CallContext) -> str:
        received.append(arguments)
        return "done"

    name = re.match(r"[a-z_]+", row["tool"])
    assert name is not None
    tool = placet.tool_from_schema(handle, **WRITE, name=name[0], arguments=row["schema"], **options)
    who = placet.Principal.agent("agent", tenant="acme", roles=("admin",), scopes=("p",))
    turn = placet.openai_turn(
        {
            "choices": [
                {
                    "finish_reason": row["finish_reason"],
                    "message": {
                        "role": "assistant",
                        "tool_calls": [
                            {
                                "id": "c1",
                                "type": "function",
                                "function": {"name": row["tool"], "arguments": row["raw"] or ""},
                            }
                        ],
                    },
                }
            ]
        },
        turn=0,
    )
    proposals: list[Any] = list(turn.proposals)
    if row["raw"] is None:
        raw = base64.b64decode(row["raw_b64"])
        proposals = [{"call_id": "c1", "tool": row["tool"], "arguments": raw}]
    async with placet.open(
        tools=[tool], store=placet.MEMORY, clock=FakeClock(), policy=placet.Matrix(), recovery=placet.Recovery.MANUAL
    ) as gate:
        (outcome,) = await gate.submit_all(proposals, principal=who, run="r1")
    return outcome, received


@pytest.mark.case("A01", "A02", "A03", "A04", "A05", "A07", "A12", "A14", "A17", "A18")
async def test_every_malformed_call_gets_its_decision_and_its_value(malformed: list[dict[str, Any]]) -> None:
    for row in malformed:
        outcome, received = await answer_of(row)
        if row["decision"] == "accept":
            assert isinstance(outcome, Succeeded), (row["id"], outcome)
            assert received == [row["value"]]  # 1e2 is a float here, and equal
            continue
        assert isinstance(outcome, Invalid), (row["id"], outcome)
        assert received == []
        if row["reason"] == "unknown_tool":
            assert outcome.code == "unknown_tool"
            continue
        told = {rule: path for path, rule in outcome.problems}
        assert told.keys() & REASONS[row["reason"]], (row["id"], row["reason"], outcome.problems)
        if row.get("at") and not told.keys() & UNPLACED:
            assert row["at"] in told.values(), (row["id"], outcome.problems)


@pytest.mark.case("A03")
async def test_with_repair_one_step_of_wrapping_is_undone_and_the_rest_stays_refused(
    malformed: list[dict[str, Any]],
) -> None:
    undone: dict[str, Any] = {}
    for row in malformed:
        outcome, received = await answer_of(row, repair=("double_encoded", "code_fence"))
        assert isinstance(outcome, Succeeded) is bool(received), row["id"]
        if row["decision"] == "accept":
            assert received, row["id"]
        elif received:
            undone[row["id"]] = received[0]

    values = {row["id"]: row.get("repaired_value") for row in malformed if row["repair"] == "lossless"}
    assert {key: undone[key] for key in ("m016", "m022")} == {key: values[key] for key in ("m016", "m022")}
    assert undone.keys() == {"m016", "m022"}

"""Closing, on schemas made by chance: it only adds, and both ways of saying it agree with a plain reading of the rule.

The reading is `holds` below: JSON Schema in a few lines, which says of a value whether the schema holds and which
members of it were declared by a part that holds. It knows the keywords that the schemas here are made of.
"""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from typing import Any

import pytest

from placet.errors import ContractError
from placet.rules.contracts.schema_bounds import refuse_costly
from placet.rules.contracts.schema_checks import SchemaRule, validator_of
from placet.rules.contracts.schema_closing import closed, closed_by_annotation, plain
from placet.rules.contracts.schema_reading import read_graph

NAMES = ("a", "b", "ab", "c")
LEAVES: tuple[Any, ...] = (
    True,
    False,
    {},
    {"type": "string"},
    {"type": "integer"},
    {"type": "object"},
    {"type": "array"},
    {"type": "object", "properties": {"a": {}}},
    {"type": "object", "properties": {"b": {"type": "integer"}}},
    {"properties": {"a": {"type": "object", "properties": {"b": {}}}}},
)
KEYWORDS = (
    "type", "properties", "properties", "properties", "additionalProperties", "patternProperties", "required", "allOf",
    "anyOf", "oneOf", "items", "prefixItems", "contains", "if", "then", "else", "not", "$ref", "const", "enum",
    "dependentSchemas",
)  # fmt: skip
DEPTH = 3
Declared = dict[tuple[str, ...], set[str]]


class Made:
    """Schemas and values made by one seed."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)

    def document(self) -> dict[str, Any]:
        schema = self.schema(DEPTH, bare=False)
        return {**schema, "$defs": {"D": self.schema(DEPTH - 1), "E": self.schema(DEPTH - 1)}}

    def schema(self, depth: int, *, bare: bool = True) -> Any:
        chance = self._chance
        if bare and (depth == 0 or chance.random() < 0.2):
            return json.loads(json.dumps(chance.choice(LEAVES)))
        return {keyword: self.given(keyword, depth - 1) for keyword in chance.sample(KEYWORDS, chance.randint(1, 3))}

    def given(self, keyword: str, depth: int) -> Any:
        chance = self._chance
        match keyword:
            case "type":
                return chance.choice(["object", "array", "string", ["object", "null"], ["array", "object"]])
            case "properties":
                return {name: self.schema(depth) for name in chance.sample(NAMES, chance.randint(1, 3))}
            case "additionalProperties":
                return chance.choice([True, False, {}, self.schema(depth)])
            case "patternProperties":
                return {chance.choice(["^a", "b$"]): self.schema(depth)}
            case "required":
                return [chance.choice(NAMES)]
            case "allOf" | "anyOf" | "oneOf" | "prefixItems":
                return [self.schema(depth) for _ in range(chance.randint(1, 3))]
            case "$ref":
                return chance.choice(["#/$defs/D", "#/$defs/E"])
            case "const":
                return self.value(2)
            case "enum":
                return [self.value(2) for _ in range(2)]
            case "dependentSchemas":
                return {chance.choice(NAMES): self.schema(depth)}
            case _:
                return self.schema(depth)

    def value(self, depth: int = DEPTH) -> Any:
        chance = self._chance
        kind = chance.random()
        if depth == 0 or kind < 0.3:
            return chance.choice([None, True, 1, 2, "s", 1.5])
        if kind < 0.8:
            return {name: self.value(depth - 1) for name in chance.sample((*NAMES, "z"), chance.randint(0, 3))}
        return [self.value(depth - 1) for _ in range(chance.randint(0, 2))]


# ---------------------------------------------------------------- a plain reading of the rule


def holds(schema: Any, value: Any, document: dict[str, Any], path: tuple[str, ...] = ()) -> Declared | None:
    """The members that parts which hold declare, by the object they are in; None if the schema does not hold."""
    if isinstance(schema, bool):
        return {} if schema else None
    found: Declared = {}

    def part(child: Any, inside: Any = value, place: tuple[str, ...] = path) -> bool:
        declared = holds(child, inside, document, place)
        for where, names in (declared or {}).items():
            found.setdefault(where, set()).update(names)
        return declared is not None

    def alone(child: Any, inside: Any = value) -> bool:
        return holds(child, inside, document, path) is not None

    checks = [simple(schema, value)]
    if "$ref" in schema:
        checks.append(part(document["$defs"][schema["$ref"].removeprefix("#/$defs/")]))
    checks += [part(child) for child in schema.get("allOf", ())]
    if "anyOf" in schema:
        checks.append(any([part(child) for child in schema["anyOf"]]))
    if "oneOf" in schema:
        checks.append(sum([part(child) for child in schema["oneOf"]]) == 1)
    if "not" in schema:
        checks.append(not alone(schema["not"]))
    if "if" in schema:
        chosen = "then" if part(schema["if"]) else "else"
        checks.append(part(schema[chosen]) if chosen in schema else True)
    if isinstance(value, dict):
        checks += [part(child) for name, child in schema.get("dependentSchemas", {}).items() if name in value]
        checks += members(schema, value, part, found, path)
    if isinstance(value, list):
        head = schema.get("prefixItems", [])
        checks += [part(child, each, (*path, str(n))) for n, (child, each) in enumerate(zip(head, value, strict=False))]
        if "items" in schema:
            rest = list(enumerate(value))[len(head) :]
            checks += [part(schema["items"], each, (*path, str(n))) for n, each in rest]
        if "contains" in schema:
            checks.append(any([part(schema["contains"], each, (*path, str(n))) for n, each in enumerate(value)]))
    if not all(checks):
        return None
    constants = [schema["const"]] if "const" in schema else []
    constants += schema.get("enum", [])
    if constants:
        declare(value, found, path)  # it equals one of them, so all it has is known
    return found


def members(
    schema: dict[str, Any], value: dict[str, Any], part: Any, found: Declared, path: tuple[str, ...]
) -> list[bool]:
    named, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
    rest = schema.get("additionalProperties")
    checks: list[bool] = []
    for name, child in value.items():
        rules = [rule for pattern, rule in patterns.items() if re.search(pattern, name)]
        rules += [named[name]] if name in named else []
        if not rules and rest is not None and not says_nothing(rest):
            rules = [rest]
        if rules:
            found.setdefault(path, set()).add(name)
        checks += [part(rule, child, (*path, name)) for rule in rules]
    return checks


def says_nothing(schema: Any) -> bool:
    return schema is True or (isinstance(schema, dict) and schema.keys() <= {"then", "else"})  # alone they say nothing


def declare(value: Any, found: Declared, path: tuple[str, ...]) -> None:
    if isinstance(value, dict):
        found.setdefault(path, set()).update(value)
        for name, child in value.items():
            declare(child, found, (*path, name))
    elif isinstance(value, list):
        for index, child in enumerate(value):
            declare(child, found, (*path, str(index)))


def simple(schema: dict[str, Any], value: Any) -> bool:
    kinds = schema.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    tests = {
        "object": isinstance(value, dict),
        "array": isinstance(value, list),
        "string": isinstance(value, str),
        "null": value is None,
        "integer": type(value) is int,
    }
    return (
        (not kinds or any(tests[kind] for kind in kinds))
        and ("const" not in schema or json.dumps(schema["const"], sort_keys=True) == json.dumps(value, sort_keys=True))
        and (
            "enum" not in schema
            or json.dumps(value, sort_keys=True) in [json.dumps(e, sort_keys=True) for e in schema["enum"]]
        )
        and (not isinstance(value, dict) or all(name in value for name in schema.get("required", ())))
    )


def is_closed(value: Any, declared: Declared, path: tuple[str, ...] = ()) -> bool:
    if isinstance(value, dict):
        known = declared.get(path, set())
        return all(name in known and is_closed(child, declared, (*path, name)) for name, child in value.items())
    if isinstance(value, list):
        return all(is_closed(child, declared, (*path, str(index))) for index, child in enumerate(value))
    return True


# ---------------------------------------------------------------- the tests


def refusal(why: str) -> ContractError:
    return ContractError(why)


@pytest.mark.case("A14", "A15")
@pytest.mark.parametrize("block", range(10))
def test_closing_says_what_the_rule_says(block: int) -> None:
    seen: Counter[str] = Counter()
    for seed in range(block * 150, block * 150 + 150):
        made = Made(seed)
        document = made.document()
        try:
            root = read_graph(document, refusal)
            visits = refuse_costly(root, refusal, max_depth=32, max_bytes=8_192)
            enforced = closed(root, refusal)
        except ContractError:
            seen["refused"] += 1
            continue
        rule = SchemaRule.of(enforced, visits)
        by_annotation = SchemaRule.of(closed_by_annotation(root, ()), visits)
        author, ours = validator_of(document), validator_of(plain(root))
        seen["intricate" if enforced.members is not None else "in standard words"] += 1
        for _ in range(8):
            value = made.value()
            declared = holds(document, value, document)
            expected = declared is not None and is_closed(value, declared)
            where = (seed, json.dumps(document), json.dumps(value), json.dumps(enforced.schema))
            assert author.is_valid(value) is ours.is_valid(value) is (declared is not None), where
            assert (not rule.problems(value)) is expected, where
            assert (not by_annotation.problems(value)) is expected, where
            seen["accepted"] += expected
    assert min(seen["intricate"], seen["in standard words"], seen["accepted"]) > 20, seen

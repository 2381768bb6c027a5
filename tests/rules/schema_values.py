"""Values that a JSON Schema describes, made at random, for tests that hold two schemas against each other."""

from __future__ import annotations

import random
import re
import string
from typing import Any

OF_FORMAT = {
    "date-time": "2026-01-01T00:00:00Z",
    "date": "2026-01-01",
    "time": "12:00:00Z",
    "duration": "P1D",
    "email": "a@example.org",
    "hostname": "example.org",
    "uri": "https://example.org/",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
    "uuid": "8c6e2a4e-1f0b-4a9e-9d5a-0d9f4f6c2b11",
}
TEXTS = ("", "a", "007", "null", '{"k":1}', "Zürich", "a b", "x" * 40)
INTEGERS = (0, 1, -1, 2, 7, 10, 100, 2**31, 2**53 - 1)
FLOATS = (0.0, 0.5, -1.5, 3.25, 1e9)
DEEPEST = 5


class Values:
    """Draws values of one schema. A value is likely, not certain, to be valid: bounds are tried for, not solved."""

    def __init__(self, root: dict[str, Any], chance: random.Random) -> None:
        self._root = root
        self._chance = chance

    def draw(self) -> Any:
        return self._of(self._root, 0)

    def _of(self, schema: Any, depth: int) -> Any:
        pick = self._chance.choice
        if not isinstance(schema, dict) or depth > 40:
            return pick(TEXTS)
        if "$ref" in schema:
            return self._of(self._target(schema["$ref"]), depth + 1)
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            return pick(schema["enum"])
        for keyword in ("anyOf", "oneOf"):
            if keyword in schema and "properties" not in schema:
                branches = schema[keyword]
                simple = [each for each in branches if isinstance(each, dict) and each.get("type") == "null"]
                return self._of(pick(simple if depth > DEEPEST and simple else branches), depth + 1)
        if "allOf" in schema and "properties" not in schema:
            drawn = [self._of(each, depth + 1) for each in schema["allOf"]]
            if all(isinstance(each, dict) for each in drawn):
                return {key: value for each in drawn for key, value in each.items()}
            return drawn[0]
        kinds = schema.get("type", ["string"])
        kind = pick(kinds) if isinstance(kinds, list) else kinds
        return getattr(self, f"_{kind}")(schema, depth)

    def _target(self, reference: str) -> Any:
        target: Any = self._root
        for step in reference.removeprefix("#").split("/")[1:]:
            target = target[step.replace("~1", "/").replace("~0", "~")]
        return target

    def _object(self, schema: dict[str, Any], depth: int) -> dict[str, Any]:
        required = schema.get("required", [])
        value = {
            name: self._of(member, depth + 1)
            for name, member in schema.get("properties", {}).items()
            if name in required or (depth <= DEEPEST and self._chance.random() < 0.6)
        }
        others = schema.get("additionalProperties")
        if isinstance(others, dict) and depth <= DEEPEST:
            value |= {f"key{n}": self._of(others, depth + 1) for n in range(self._chance.randint(0, 2))}
        return value

    def _array(self, schema: dict[str, Any], depth: int) -> list[Any]:
        first = [self._of(each, depth + 1) for each in schema.get("prefixItems", [])]
        least = max(schema.get("minItems", 0) - len(first), 0)
        most = min(max(schema.get("maxItems", 3) - len(first), 0), least + 2)
        more = 0 if depth > DEEPEST else self._chance.randint(0, max(most - least, 0))
        return first + [self._of(schema.get("items", {}), depth + 1) for _ in range(least + more)]

    def _string(self, schema: dict[str, Any], depth: int) -> str:
        if schema.get("format") in OF_FORMAT:
            return OF_FORMAT[schema["format"]]
        least, most = schema.get("minLength", 0), schema.get("maxLength", 60)
        fitting = [each for each in TEXTS if least <= len(each) <= most]
        if "pattern" in schema:
            tries = [self._letters(least, most) for _ in range(20)] + fitting + ["a1", "A-1", "ab12", "123", "#1"]
            fitting = [each for each in tries if _matches(schema["pattern"], each)] or fitting
        return self._chance.choice(fitting) if fitting else self._letters(least, most)

    def _letters(self, least: int, most: int) -> str:
        length = self._chance.randint(least, max(least, min(most, least + 8)))
        return "".join(self._chance.choice(string.ascii_lowercase + string.digits) for _ in range(length))

    def _integer(self, schema: dict[str, Any], depth: int) -> int:
        step = schema.get("multipleOf", 1)
        low = schema.get("minimum", schema.get("exclusiveMinimum"))
        tries = [each for each in INTEGERS if self._fits(each, schema)]
        if low is not None:
            tries += [each for each in (int(low), int(low) + 1) if self._fits(each, schema)]
        tries += [int(step) * each for each in (0, 1, 3) if self._fits(int(step) * each, schema)]
        return self._chance.choice(tries or [0])

    def _number(self, schema: dict[str, Any], depth: int) -> float:
        tries = [each for each in (*FLOATS, *INTEGERS) if self._fits(each, schema)]
        low = schema.get("minimum", schema.get("exclusiveMinimum"))
        tries += [] if low is None else [low + 0.5]
        return self._chance.choice(tries or [0.5])

    def _fits(self, value: float, schema: dict[str, Any]) -> bool:
        return (
            value >= schema.get("minimum", value)
            and value <= schema.get("maximum", value)
            and (value > schema["exclusiveMinimum"] if "exclusiveMinimum" in schema else True)
            and (value < schema["exclusiveMaximum"] if "exclusiveMaximum" in schema else True)
            and ("multipleOf" not in schema or value % schema["multipleOf"] == 0)
        )

    def _boolean(self, schema: dict[str, Any], depth: int) -> bool:
        return self._chance.random() < 0.5

    def _null(self, schema: dict[str, Any], depth: int) -> None:
        return None


def _matches(pattern: str, text: str) -> bool:
    try:
        return re.search(pattern, text) is not None
    except re.error:
        return False

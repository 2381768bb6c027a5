"""Arguments and results that a contract accepts, made up from its schema, and held against it before they are used.

What the schema gives as `const`, `enum`, `examples` or `default` comes first; other values are the simplest of their
type, counted up so that two specimens differ. A contract that refuses all of them gets none: the scenario is then not
played, and says so. `examples` in a schema are how its owner helps.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from itertools import product
from typing import Any

from placet.errors import InvalidArguments
from placet.model.json import JsonObject, JsonValue
from placet.proof.verify.patterns import text_for
from placet.rules.contracts import Tool

_TRIES = 24
_DEEPEST = 12
_FORMATS = {
    "date": "2026-01-{day:02d}",
    "date-time": "2026-01-{day:02d}T12:00:00Z",
    "time": "12:{day:02d}:00Z",
    "duration": "PT{day}M",
    "email": "verify{salt}@example.com",
    "hostname": "verify{salt}.example.com",
    "ipv4": "192.0.2.{day}",
    "ipv6": "2001:db8::{day}",
    "uri": "https://example.com/{salt}",
    "uuid": "00000000-0000-4000-8000-{salt:012d}",
}
_DAYS = 28


class NoSpecimen(Exception):
    """The contract accepts nothing that can be made up; the message says what of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Specimen:
    """Arguments that their contract accepts.

    Attributes:
        proposed: as they are proposed; accepted: as the contract reads them; canonical: the same as bytes.
    """

    proposed: JsonObject = field(repr=False)
    accepted: JsonObject = field(repr=False)
    canonical: bytes = field(repr=False)


def specimens(tool: Tool, count: int) -> tuple[Specimen, ...]:
    """So many different specimens.

    Raises:
        NoSpecimen: there are not so many.
    """
    found: dict[bytes, Specimen] = {}
    salts: set[int] = set()
    problem = ""
    for salt, members in product(range(_TRIES), _Members):
        if salt in salts:
            continue  # two that differ in what is optional alone may name one operation
        try:
            specimen = _specimen(tool, _Draw(tool.contract.arguments_schema, salt=salt, members=members))
        except InvalidArguments as error:
            problem = f": {error.problems[0][0] or '/'} {error.problems[0][1]}"
            continue
        except NoSpecimen as why:
            problem = f": {why}"
            continue
        salts.add(salt)
        found.setdefault(specimen.canonical, specimen)
        if len(found) == count:
            return tuple(found.values())
    if found:
        raise NoSpecimen(f"only {len(found)} different arguments could be made up, {count} are needed")
    raise NoSpecimen(f"no arguments could be made up that the contract accepts{problem}")


def marked(tool: Tool, mark: str) -> Specimen:
    """A specimen that holds the mark in each text that may be any text.

    Raises:
        NoSpecimen: there is none, or nowhere room for the mark.
    """
    for salt, members in product(range(_TRIES), _Members):
        draw = _Draw(tool.contract.arguments_schema, salt=salt, members=members, mark=mark)
        try:
            specimen = _specimen(tool, draw)
        except (InvalidArguments, NoSpecimen):
            continue
        if mark.encode() in specimen.canonical:
            return specimen
    raise NoSpecimen("no argument of it takes a free text")


def result_for(tool: Tool, *, mark: str | None = None) -> JsonValue:
    """A result that the contract accepts.

    Raises:
        NoSpecimen: none could be made up.
    """
    for salt, members in product(range(_TRIES), _Members):
        draw = _Draw(tool.contract.result_schema, salt=salt, members=members, mark=mark)
        try:
            made = draw.value(tool.contract.result_schema)
            tool.check_result(made)
        except (InvalidArguments, NoSpecimen):
            continue
        return made
    raise NoSpecimen("no result could be made up that the contract accepts")


def _specimen(tool: Tool, draw: _Draw) -> Specimen:
    made = draw.value(tool.contract.arguments_schema)
    if not isinstance(made, dict):
        raise NoSpecimen("its arguments are no object")
    read = tool.read_arguments(made)
    return Specimen(proposed=made, accepted=read.arguments, canonical=read.canonical)


# ---------------------------------------------------------------- drawing


class _Members(StrEnum):
    """Which members an object is given."""

    ALL = "all"
    REQUIRED = "required"


class _Draw:
    """One way through a schema."""

    def __init__(self, root: JsonObject, *, salt: int, members: _Members, mark: str | None = None) -> None:
        self._root = root
        self._salt = salt
        self._members = members
        self._mark = mark
        self._deep = 0

    def value(self, schema: object) -> JsonValue:
        """A value for a schema. What it does not understand of it, whoever asked finds out by trying.

        Raises:
            NoSpecimen: it is too deep, or refers to what is not there.
        """
        if self._deep > _DEEPEST:
            raise NoSpecimen("its schema is too deep, or never ends")
        self._deep += 1
        try:
            return self._value(schema)
        finally:
            self._deep -= 1

    def _value(self, schema: object) -> JsonValue:
        if not isinstance(schema, dict):
            if schema is False:
                raise NoSpecimen("its schema lets nothing in")
            return self._text({})
        schema = self._merged(schema)
        if "const" in schema:
            return _copy(schema["const"])
        given = [*_list(schema.get("enum"))]
        if given:
            return _copy(given[self._salt % len(given)])
        if self._mark is None:
            given = [
                *_list(schema.get("examples")),
                *([schema["default"]] if self._salt and "default" in schema else []),
            ]
            if given and self._salt < len(given):
                return _copy(given[self._salt])
        for several in ("anyOf", "oneOf"):
            if options := _list(schema.get(several)):
                rest = {name: value for name, value in schema.items() if name != several}
                return self._one_of(rest, options)
        return self._typed(schema)

    def _one_of(self, rest: JsonObject, options: list[Any]) -> JsonValue:
        first = (self._salt // 4) % len(options)
        for option in (*options[first:], *options[:first]):
            try:
                return self._value({**rest, **option} if isinstance(option, dict) else rest)
            except NoSpecimen:
                continue
        raise NoSpecimen("none of its alternatives can be made up")

    def _typed(self, schema: JsonObject) -> JsonValue:
        said = schema.get("type")
        kind = said[0] if isinstance(said, list) and said else said
        if kind is None:
            kind = "object" if "properties" in schema else "array" if "items" in schema else "string"
        match kind:
            case "object":
                return self._object(schema)
            case "array":
                return self._array(schema)
            case "integer":
                return self._whole(schema)
            case "number":
                return self._number(schema)
            case "boolean":
                return self._salt % 2 == 0
            case "null":
                return None
            case _:
                return self._text(schema)

    def _merged(self, schema: JsonObject) -> JsonObject:
        """The schema with what it refers to and what all of it must hold folded in."""
        merged = dict(schema)
        for _ in range(_DEEPEST):
            reference = merged.pop("$ref", None)
            if isinstance(reference, str):
                merged = {**self._referred(reference), **merged}
            parts = merged.pop("allOf", None)
            for part in _list(parts):
                if isinstance(part, dict):
                    merged = _folded(merged, part)
            if "$ref" not in merged and "allOf" not in merged:
                return merged
        raise NoSpecimen("its schema refers to itself")

    def _referred(self, reference: str) -> JsonObject:
        found: Any = self._root
        if not reference.startswith("#"):
            raise NoSpecimen("its schema refers to somewhere else")
        for step in reference[1:].split("/")[1:]:
            name = step.replace("~1", "/").replace("~0", "~")
            if not isinstance(found, dict) or name not in found:
                raise NoSpecimen("its schema refers to what is not there")
            found = found[name]
        return found if isinstance(found, dict) else {}

    def _object(self, schema: JsonObject) -> JsonValue:
        properties = schema.get("properties")
        required = _list(schema.get("required"))
        made: JsonObject = {}
        for name, inner in properties.items() if isinstance(properties, dict) else ():
            is_asked = name in required
            if is_asked or (self._members is _Members.ALL and self._deep < _DEEPEST // 2 and inner is not False):
                made[name] = self.value(inner)
        for index in range(_number_of(schema, "minProperties", 0) - len(made)):
            made[f"member{index}"] = self.value(schema.get("additionalProperties", {}))
        return made

    def _array(self, schema: JsonObject) -> JsonValue:
        first = _list(schema.get("prefixItems"))
        count = max(_number_of(schema, "minItems", 0), len(first), 1 if self._deep < _DEEPEST // 2 else 0)
        count = min(count, _number_of(schema, "maxItems", count))
        made: list[JsonValue] = []
        salt = self._salt
        for index in range(count):
            self._salt = salt + index  # items that have to differ do
            made.append(self.value(first[index] if index < len(first) else schema.get("items", {})))
        self._salt = salt
        return made

    def _whole(self, schema: JsonObject) -> JsonValue:
        least, most = _bounds(schema, step=1)
        factor = schema.get("multipleOf")
        step = factor if isinstance(factor, int) and factor > 0 else 1
        made = -(-int(least) // step) * step + self._salt * step
        return made if made <= most else -(-int(least) // step) * step

    def _number(self, schema: JsonObject) -> JsonValue:
        factor = schema.get("multipleOf")
        if isinstance(factor, int | float) and factor > 0:
            least, _ = _bounds(schema, step=factor)
            return float(-(-least // factor) * factor + self._salt * factor)
        least, most = _bounds(schema, step=0.5)
        made = float(least) + self._salt * 0.5
        return made if made <= most else float(least + (most - least) / 2)

    def _text(self, schema: JsonObject) -> JsonValue:
        pattern, form = schema.get("pattern"), schema.get("format")
        if isinstance(form, str) and form in _FORMATS:
            return _FORMATS[form].format(salt=self._salt, day=self._salt % _DAYS + 1)
        least = _number_of(schema, "minLength", 0)
        most = _number_of(schema, "maxLength", 64)
        if isinstance(pattern, str):
            made = text_for(pattern, salt=self._salt, least=least, most=most)
            if made is None:
                raise NoSpecimen("a pattern of it could not be met; examples in its schema help")
            return made
        if self._mark is not None and len(self._mark) <= most:
            return self._mark.ljust(least, "x")
        tail = str(self._salt)
        made = f"verify{tail}"[-most:] if most else ""
        return made.rjust(least, "v")


def _folded(one: JsonObject, other: JsonObject) -> JsonObject:
    folded = {**one, **other}
    for name in ("properties", "$defs"):
        mine, theirs = one.get(name), other.get(name)
        if isinstance(mine, dict) and isinstance(theirs, dict):
            folded[name] = {**mine, **theirs}
    folded["required"] = [*_list(one.get("required")), *_list(other.get("required"))]
    return folded


def _bounds(schema: JsonObject, *, step: float) -> tuple[float, float]:
    least, most = _limit(schema, "minimum"), _limit(schema, "maximum")
    above, below = _limit(schema, "exclusiveMinimum"), _limit(schema, "exclusiveMaximum")
    if above is not None:
        least = above + step if least is None else max(least, above + step)
    if below is not None:
        most = below - step if most is None else min(most, below - step)
    if least is None:
        least = 1.0 if most is None or most >= 1 else most - 100 * step
    return least, most if most is not None else float(2**53 - 1)


def _limit(schema: JsonObject, name: str) -> float | None:
    value = schema.get(name)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _number_of(schema: JsonObject, name: str, otherwise: int) -> int:
    value = schema.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else otherwise


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _copy(value: JsonValue) -> JsonValue:
    match value:
        case dict():
            return {name: _copy(each) for name, each in value.items()}
        case list():
            return [_copy(each) for each in value]
        case _:
            return value

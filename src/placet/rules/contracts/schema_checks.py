"""Values held against an enforced schema, by a validator that fetches nothing and matches patterns in linear time.

Two things the standard leaves open are closed here: a float is no integer and equals no integer, even where it is
integral, and a member counts as known only if a part of the schema that holds declares it. Of what is wrong only the
place and the name of the rule are told; the validator's own texts repeat the value and stay here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from placet.errors import InvalidArguments
from placet.model.context import CallContext
from placet.model.contract import Bound
from placet.model.json import JsonObject, JsonValue
from placet.rules.canonical import canonical_bytes
from placet.rules.contracts.bound_values import bound_values
from placet.rules.contracts.limits import argument_limits
from placet.rules.contracts.schema_bounds import extent
from placet.rules.contracts.schema_closing import EXACT_CONSTANTS, EXACT_TYPE, Enforced
from placet.rules.contracts.schema_patterns import pattern_options
from placet.rules.contracts.tools import Accepted, ResultText
from placet.rules.contracts.values import MAX_PROBLEMS
from placet.rules.decoding import Path, decode_object, json_pointer, wide_path_matches

MAX_COLLECTED: Final = 50_000
"""How many visits a validation may cost whose annotations are collected, since they are all kept for a moment."""

MAX_EXPLAINED: Final = 10_000
"""How many visits a refusal may cost that is explained: the validator collects all errors before it tells one, and each
error carries the part of the value, and the constants, that it is about."""

MAX_EXACT: Final = 500_000
"""How many visits a value with an integral float may cost: each is then a call of Python."""

NOT_ACCEPTED: Final = "not_accepted"
"""The one problem of a value that is refused and too large to explain."""

UNKNOWN_MEMBER: Final = "extra_forbidden"
MISSING: Final = "missing"
"""As typed contracts name them."""

Problem = tuple[str, str]
_DECLARING: Final = ("properties", "patternProperties", "additionalProperties", "unevaluatedProperties")
_RULES: Final = {EXACT_TYPE: "type", EXACT_CONSTANTS: "enum"}
_MISMATCHES: Final = frozenset({"type", "const", "enum", EXACT_TYPE, EXACT_CONSTANTS})


def validator_of(schema: JsonObject) -> Any:
    """A validator for a schema whose references all lead to itself.

    Raises:
        ValueError: it is not a schema of draft 2020-12; the text is the library's.
    """
    from jsonschema_rs import Draft202012Validator

    return Draft202012Validator(
        schema,
        offline=True,
        validate_formats=False,
        pattern_options=pattern_options(),
        keywords={EXACT_TYPE: _ExactType, EXACT_CONSTANTS: _ExactConstants},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaRule:
    """A compiled enforced schema.

    Attributes:
        visits: what one value may cost at most, as counted at registration.
    """

    validator: Any
    exact: Any
    members: Any | None
    open_members: tuple[Path, ...]
    visits: int

    @classmethod
    def of(cls, enforced: Enforced, visits: int) -> SchemaRule:
        """
        Raises:
            ValueError: a keyword has a value that draft 2020-12 does not know.
        """
        return cls(
            validator=validator_of(enforced.schema),
            exact=validator_of(enforced.exact),
            members=None if enforced.members is None else validator_of(enforced.members),
            open_members=enforced.open_members,
            visits=visits,
        )

    def problems(self, value: JsonValue) -> tuple[Problem, ...]:
        """What is wrong with a decoded value, at most 16 places; empty if nothing is."""
        if not self.validator.is_valid(value):
            return self._explained(self.validator, value)
        if _has_integral_float(value):
            if self.visits * extent(value) > MAX_EXACT:
                return (("", NOT_ACCEPTED),)
            if not self.exact.is_valid(value):
                return self._explained(self.exact, value)
        return () if self.members is None else self._unknown_members(self.members, value)

    def _explained(self, validator: Any, value: JsonValue) -> tuple[Problem, ...]:
        if self.visits * extent(value) > MAX_EXPLAINED:
            return (("", NOT_ACCEPTED),)
        return _problems(validator, value)

    def _unknown_members(self, members: Any, value: JsonValue) -> tuple[Problem, ...]:
        if self.visits * extent(value) > MAX_COLLECTED:
            return (("", "too_many_members"),)
        declared: dict[str, set[str]] = {}
        for note in members.evaluate(value).annotations():
            names = note["annotations"]
            if isinstance(names, list) and note["schemaLocation"].rpartition("/")[2] in _DECLARING:
                declared.setdefault(note["instanceLocation"], set()).update(names)
        unknown = _undeclared(value, declared, self.open_members, (), "")
        return tuple((json_pointer(path), UNKNOWN_MEMBER) for path in islice(unknown, MAX_PROBLEMS))


# ---------------------------------------------------------------- the two kinds of check


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaArguments:
    """Arguments held against a JSON Schema. Nothing is filled in, renamed or converted: what is read is what runs.

    Attributes:
        takes_arguments: the handler's parameter that receives them, a fresh dict per attempt.
        takes_context: the parameter that receives the context, if there is one.
        bind: what the server adds to them for the handler.
    """

    rule: SchemaRule
    takes_arguments: str
    takes_context: str | None
    max_bytes: int
    max_depth: int
    wide_fields: frozenset[Path]
    bind: tuple[Bound, ...] = ()

    def accepted(self, decoded: JsonObject) -> Accepted:
        if said := tuple((json_pointer([each.member]), UNKNOWN_MEMBER) for each in self.bind if each.member in decoded):
            raise InvalidArguments("contract_broken", problems=said)  # even where unknown members are let in
        canonical = canonical_bytes(decoded)
        # Before validation, whose cost grows with the value and with a schema that may be a stranger's.
        if len(canonical) > self.max_bytes:
            raise InvalidArguments("arguments_too_large")
        try:
            problems = self.rule.problems(decoded)
        except BaseException:  # a fault of the library is a refusal, and its text stays here
            problems = (("", "validator_failed"),)
        if problems:
            raise InvalidArguments("contract_broken", problems=problems)
        return Accepted(decoded, canonical, is_as_decoded=True)

    def reads_back(self, canonical: bytes) -> bool:
        return True  # canonical is the canonical form of the very value that was accepted

    def keywords(self, canonical: bytes, context: CallContext) -> dict[str, Any]:
        arguments = decode_object(canonical, limits=argument_limits(self.max_depth), wide=self.wide_fields)
        accepted = self.accepted(arguments).arguments
        keywords: dict[str, Any] = {self.takes_arguments: accepted | bound_values(self.bind, context)}
        if self.takes_context is not None:
            keywords[self.takes_context] = context
        return keywords


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaResult:
    """A result held against a JSON Schema."""

    rule: SchemaRule

    def accepted(self, returned: object, text: ResultText) -> tuple[JsonValue, bytes]:
        plain, canonical = _plain(returned, text)
        if self.rule.problems(plain):
            raise InvalidArguments("broken")  # told as result_broken
        return plain, canonical


@dataclass(frozen=True, slots=True, kw_only=True)
class AnyResult:
    """A result of which nothing is promised but that it is JSON within the limits."""

    def accepted(self, returned: object, text: ResultText) -> tuple[JsonValue, bytes]:
        return _plain(returned, text)


def _plain(returned: object, text: ResultText) -> tuple[JsonValue, bytes]:
    written = text.write(returned)
    fresh = text.read(written)
    canonical = canonical_bytes(fresh)
    # as a replay will read it, member order included
    return fresh if canonical == written else text.read(canonical), canonical


# ---------------------------------------------------------------- exactness


class _ExactType:
    """Beside a `type` that names integers and no numbers: floats are none."""

    def __init__(self, parent: Mapping[str, Any], value: Any, path: list[str | int]) -> None:
        pass

    def validate(self, instance: object) -> None:
        if type(instance) is float:
            raise ValueError


class _ExactConstants:
    """Beside `const` and `enum`: a float equals no integer, at any depth. An integer may stand for a float."""

    def __init__(self, parent: Mapping[str, Any], value: Any, path: list[str | int]) -> None:
        scalars = [each for each in value if not isinstance(each, dict | list)]
        self._containers = [each for each in value if isinstance(each, dict | list)]
        self._floats = frozenset(each for each in scalars if type(each) is float)
        self._scalars = frozenset((type(each) is bool, each) for each in scalars)

    def validate(self, instance: object) -> None:
        if isinstance(instance, dict | list):
            is_one = any(_is_exactly(instance, each) for each in self._containers)
        elif type(instance) is float:
            is_one = instance in self._floats
        else:
            is_one = (type(instance) is bool, instance) in self._scalars
        if not is_one:
            raise ValueError


def _is_exactly(instance: object, constant: object) -> bool:
    if isinstance(instance, dict) and isinstance(constant, dict):
        return instance.keys() == constant.keys() and all(
            _is_exactly(instance[name], constant[name]) for name in instance
        )
    if isinstance(instance, list) and isinstance(constant, list):
        return len(instance) == len(constant) and all(map(_is_exactly, instance, constant))
    if isinstance(instance, bool) or isinstance(constant, bool):
        return instance is constant
    return instance == constant and not (type(instance) is float and type(constant) is int)


def _has_integral_float(value: JsonValue) -> bool:
    if isinstance(value, dict):
        return any(map(_has_integral_float, value.values()))
    if isinstance(value, list):
        return any(map(_has_integral_float, value))
    return type(value) is float and value.is_integer()


# ---------------------------------------------------------------- members


def _undeclared(
    value: JsonValue, declared: Mapping[str, set[str]], opens: tuple[Path, ...], path: Path, place: str
) -> Iterator[Path]:
    """Members that no annotation names, outermost only; `place` is the path as the validator writes it."""
    if isinstance(value, dict):
        known = declared.get(place, set())
        is_open = wide_path_matches(path, opens)
        for name, child in value.items():
            if name in known:
                token = name.replace("~", "~0").replace("/", "~1")
                yield from _undeclared(child, declared, opens, (*path, name), f"{place}/{token}")
            elif not is_open:
                yield (*path, name)
    elif isinstance(value, list) and not wide_path_matches(path, opens):
        for index, child in enumerate(value):
            yield from _undeclared(child, declared, opens, (*path, str(index)), f"{place}/{index}")


# ---------------------------------------------------------------- problems


def _problems(validator: Any, value: JsonValue) -> tuple[Problem, ...]:
    found: dict[Problem, None] = {}
    for error in validator.iter_errors(value):
        found.update(dict.fromkeys(_told(error, value)))
        if len(found) >= MAX_PROBLEMS:
            break
    return tuple(found)[:MAX_PROBLEMS]


def _told(error: Any, value: JsonValue) -> Iterator[Problem]:
    """One error as places and rule names; of alternatives, what is wrong with the one that was meant."""
    place = [str(part) for part in error.instance_path]
    rule = error.kind.name
    match rule:
        case "additionalProperties" | "unevaluatedProperties":
            for name in error.kind.unexpected:
                yield json_pointer([*place, name]), UNKNOWN_MEMBER
        case "falseSchema" if error.schema_path[-1:] in (["additionalProperties"], ["unevaluatedProperties"]):
            for name in _names_at(value, error.instance_path):  # of an object that may have none
                yield json_pointer([*place, name]), UNKNOWN_MEMBER
        case "required":
            yield json_pointer([*place, error.kind.property]), MISSING
        case "anyOf" | "oneOf":
            yield json_pointer(place), rule
            for each in _meant(error.kind.context, error.instance_path):
                yield from _told(each, value)
        case _:
            yield json_pointer(place), _RULES.get(rule, rule)


def _names_at(value: JsonValue, place: list[str | int]) -> tuple[str, ...]:
    for part in place:
        if isinstance(value, dict) and isinstance(part, str):
            value = value.get(part)
        elif isinstance(value, list) and isinstance(part, int):
            value = value[part]
    return tuple(value) if isinstance(value, dict) else ()


def _meant(branches: list[list[Any]], place: list[str | int]) -> list[Any]:
    """The errors of the one branch that fits best, if one does: no wrong type, fewest wrong constants and errors."""

    def misfit(errors: list[Any]) -> tuple[int, int, int]:
        wrong_kind = sum(error.kind.name in _MISMATCHES and error.instance_path == place for error in errors)
        wrong_constants = sum(error.kind.name in ("const", "enum") for error in errors)
        return wrong_kind, wrong_constants, len(errors)

    ranked = sorted((branch for branch in branches if branch), key=misfit)
    if not ranked or (len(ranked) > 1 and misfit(ranked[0]) == misfit(ranked[1])):
        return []
    return ranked[0] if misfit(ranked[0])[0] == 0 else []

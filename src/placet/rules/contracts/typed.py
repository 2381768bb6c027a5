"""What a typed function says of its arguments and result, and how values are held against it.

Pydantic validates strictly, without coercion and without unknown members at any depth, whatever the model's own
configuration says. Its error texts repeat the input, so only error types and paths leave this module.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError, create_model
from pydantic_core.core_schema import ErrorType

from placet.errors import InvalidArguments
from placet.model.context import CallContext
from placet.model.json import JsonObject, JsonValue
from placet.rules.canonical import canonical_bytes
from placet.rules.contracts.core_schemas import core_nodes
from placet.rules.contracts.options import Options
from placet.rules.contracts.schemas import nodes
from placet.rules.contracts.tools import Accepted, ResultText
from placet.rules.contracts.values import MAX_PROBLEMS, coerced, refuse_loss
from placet.rules.decoding import json_pointer

_PLAIN = (dict, list, str, int, float, bool, type(None))
_QUIET = (*_PLAIN, tuple, set, frozenset, bytes, datetime, date, time, timedelta, Decimal, UUID)
_KNOWN_PROBLEMS = frozenset(typing.get_args(ErrorType))


# ---------------------------------------------------------------- checks


@dataclass(frozen=True, slots=True, kw_only=True)
class TypedArguments:
    """Arguments held against a Pydantic model.

    Attributes:
        takes_model: the parameter that receives the model whole; None if each member has its own.
        takes_context: the parameter that receives the context, if there is one.
    """

    model: type[BaseModel]
    takes_model: str | None
    takes_context: str | None

    def accepted(self, decoded: JsonObject) -> Accepted:
        text = canonical_bytes(decoded)
        arguments = self._validated(text)
        canonical = canonical_bytes(arguments)
        if canonical == text:  # then no value was coerced and no member lost
            return Accepted(arguments, canonical, is_as_decoded=True)
        if (place := coerced(decoded, arguments)) is not None:
            raise InvalidArguments("contract_broken", problems=((json_pointer(place), "coerced"),))
        refuse_loss(decoded, arguments)
        return Accepted(arguments, canonical, is_as_decoded=False)

    def reads_back(self, canonical: bytes) -> bool:
        return canonical_bytes(self._validated(canonical)) == canonical

    def keywords(self, canonical: bytes, context: CallContext) -> dict[str, Any]:
        model = self.model.model_validate_json(canonical, strict=True, extra="forbid")
        if self.takes_model is not None:
            keywords: dict[str, Any] = {self.takes_model: model}
        else:
            keywords = {name: getattr(model, name) for name in self.model.model_fields}
        if self.takes_context is not None:
            keywords[self.takes_context] = context
        return keywords

    def _validated(self, text: bytes) -> JsonObject:
        try:
            model = self.model.model_validate_json(text, strict=True, extra="forbid")
            dumped: JsonObject = model.model_dump(mode="json", by_alias=True, warnings="none")
            return dumped
        except ValidationError as error:
            problems = _problems(error)
        except BaseException:  # a validator of the user's model raised something else; its text stays here
            problems = (("", "validator_failed"),)
        raise InvalidArguments("contract_broken", problems=problems)


@dataclass(frozen=True, slots=True, kw_only=True)
class TypedResult:
    """A result held against a return type.

    Attributes:
        names_every_value: whether the type says of each value what it is, so that none is written as it likes.
    """

    adapter: TypeAdapter[Any]
    names_every_value: bool

    def accepted(self, returned: object, text: ResultText) -> tuple[JsonValue, bytes]:
        written = self._written(returned, text)
        read = self.adapter.validate_json(written, strict=True, extra="forbid")
        fresh = text.read(written)
        canonical = canonical_bytes(fresh)
        plain = fresh if canonical == written else text.read(canonical)  # as a replay reads it, member order included
        if coerced(plain, self.adapter.dump_python(read, mode="json", by_alias=True, warnings="none")) is not None:
            raise ValueError  # told as result_broken, like whatever else breaks it
        return plain, canonical

    def _written(self, returned: object, text: ResultText) -> bytes:
        """JSON text of a returned value: plain values as they are, typed ones through their own serialiser.

        A list or dict that holds typed values is written so only if the contract names the type of each; where it
        says `Any`, nobody promised how a value that is not JSON is written.
        """
        if any(type(returned) is kind for kind in _PLAIN):
            try:
                return text.write(returned)
            except InvalidArguments as refusal:
                if refusal.reason != "unsupported_value" or not self.names_every_value:
                    raise
        if any(_is_loud(value) for value in _contents(returned)):
            raise ValueError  # told as result_broken, like whatever else the serialiser does not write
        return self.adapter.dump_json(returned, by_alias=True, warnings="error")


def _is_loud(value: object) -> bool:
    """Whether the serialiser would print what the value raises: it reads foreign sets, and the names of the unknown."""
    kind = type(value)
    if any(kind is each for each in _QUIET) or issubclass(kind, BaseModel):
        return False
    if issubclass(kind, set | frozenset):
        return True
    try:
        return not (repr(value) and repr(kind))
    except BaseException:
        return True


def _contents(root: object) -> Iterator[object]:
    """Everything in a value and in the plain containers and models inside it, itself included, each once."""
    left, seen = [root], set[int]()
    while left:
        value = left.pop()
        yield value
        if id(value) in seen:
            continue
        seen.add(id(value))
        kind = type(value)
        if kind is dict:
            left += [*value, *value.values()]  # type: ignore[misc,attr-defined]  # as in redaction: not narrowed by `is`
        elif kind is list or kind is tuple or kind is set or kind is frozenset:
            left += value  # type: ignore[arg-type]  # not narrowed by `is`
        elif issubclass(kind, BaseModel):
            left.append(object.__getattribute__(value, "__dict__"))


def _problems(error: ValidationError) -> tuple[tuple[str, str], ...]:
    found = error.errors(include_url=False, include_context=False, include_input=False)
    return tuple((_pointer(entry["loc"]), _problem(entry["type"])) for entry in found[:MAX_PROBLEMS])


def _problem(error_type: str) -> str:
    """Pydantic's own name of the rule; a name that a validator made up could hold the value."""
    return error_type if error_type in _KNOWN_PROBLEMS else "custom_error"


def _pointer(location: tuple[int | str, ...]) -> str:
    return json_pointer([str(part) for part in location])


# ---------------------------------------------------------------- reading a function


@dataclass(frozen=True, slots=True)
class TypedFunction:
    """A function whose types are the contract; refusals name the tool."""

    options: Options
    function: Callable[..., Any]

    def arguments(self) -> TypedArguments:
        if inspect.isgeneratorfunction(self.function) or inspect.isasyncgenfunction(self.function):
            raise self.options.refuse("a generator runs after its attempt is over; return the whole result")
        hints = self._hints()
        takes_context: str | None = None
        fields: dict[str, Any] = {}
        for key, parameter in inspect.signature(self.function).parameters.items():
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
                raise self.options.refuse(f"the parameter {key!r} must have a name that callers can use")
            if key not in hints:
                raise self.options.refuse(f"the parameter {key!r} needs a type")
            if hints[key] is CallContext:
                takes_context = key
                continue
            fields[key] = (hints[key], ... if parameter.default is parameter.empty else parameter.default)
        if len(fields) == 1:
            key, (hint, _) = next(iter(fields.items()))
            if inspect.isclass(hint) and issubclass(hint, BaseModel):
                return TypedArguments(model=hint, takes_model=key, takes_context=takes_context)
        config = ConfigDict(strict=True, extra="forbid", frozen=True)
        try:
            model: type[BaseModel] = create_model(f"{self.options.name}_arguments", __config__=config, **fields)
        except BaseException:  # whatever a type or a default raises while it is read; its text stays there
            model = BaseModel
        if model is BaseModel or model.model_fields.keys() != fields.keys():  # a name may be private to a model
            raise self.options.refuse("its parameters have names or types that cannot be checked")
        return TypedArguments(model=model, takes_model=None, takes_context=takes_context)

    def result(self) -> TypeAdapter[Any]:
        hint = self._hints().get("return")
        if hint is None or hint is Any:
            raise self.options.refuse("it needs a return type, the contract of its result")
        with suppress(BaseException):  # as above
            return TypeAdapter(hint)
        raise self.options.refuse("its return type cannot be checked")

    def schema(self, arguments: type[BaseModel]) -> JsonObject:
        try:
            schema: JsonObject = arguments.model_json_schema(mode="validation")
        except BaseException:  # as above; a default may be anything
            schema = {}
        if not schema:
            raise self.options.refuse("its arguments have no JSON Schema")
        if any(node.get("uniqueItems") is True for node in nodes(schema)):
            raise self.options.refuse("a set has no order, so two equal calls could differ; use a list")
        self._refuse_lazy(arguments.__pydantic_core_schema__)
        return schema

    def result_schema(self, result: TypeAdapter[Any]) -> JsonObject:
        try:
            schema = result.json_schema(mode="serialization")
        except BaseException:  # as above
            schema = None
        if schema is None:
            raise self.options.refuse("its result has no JSON Schema")
        self._refuse_lazy(result.core_schema)
        return schema

    def _refuse_lazy(self, core: object) -> None:
        """What is checked while it is used is not checked before it is shown, run or recorded."""
        if any(node["type"] == "generator" for node in core_nodes(core)):
            raise self.options.refuse(
                "the items of an Iterable or Generator are checked one by one, when taken; use a list"
            )

    def _hints(self) -> dict[str, Any]:
        try:
            hints: dict[str, Any] | None = typing.get_type_hints(self.function, include_extras=True)
        except BaseException:  # whatever an annotation raises while it is evaluated; its text stays there
            hints = None
        if hints is None:
            raise self.options.refuse("its annotations cannot be read; define the types at module level")
        return hints

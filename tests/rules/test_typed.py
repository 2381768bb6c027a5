"""A typed function is read: what its types become, and which functions are not taken."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from datetime import datetime
from enum import Enum
from typing import Annotated, Any, Literal

import pytest
from pydantic import AfterValidator, BaseModel, BeforeValidator, Field

import placet
from placet import CallContext, Tool
from placet.errors import ContractError

WRITE: dict[str, Any] = {"effect": "write", "risk": "medium", "permission": "p", "name": "act"}


def made(function: Callable[..., Any]) -> Tool:
    return placet.tool(**WRITE)(function)


def taking(hint: Any, result: Any = str) -> Callable[..., Any]:
    def act(x): ...  # type: ignore[no-untyped-def]

    act.__annotations__ = {"x": hint, "return": result}
    return act


def why(function: Callable[..., Any]) -> str:
    """What the refusal says after the tool's name."""
    with pytest.raises(ContractError) as caught:
        made(function)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    return str(caught.value).removeprefix("The tool 'act' cannot be registered: ")[:-1]


class Loose(BaseModel, extra="allow", strict=False):
    """A model that would take more than it says."""

    count: int
    more: Loose | None = None


def test_parameters_become_a_closed_object_with_what_each_takes() -> None:
    def act(
        order: str, count: Annotated[int, Field(ge=1)] = 1, *, kind: Literal["a", "b"] = "a", here: CallContext
    ) -> list[int]: ...

    contract = made(act).contract

    assert contract.arguments_schema == {
        "title": "act_arguments",
        "type": "object",
        "properties": {
            "order": {"title": "Order", "type": "string"},
            "count": {"title": "Count", "type": "integer", "default": 1, "minimum": 1},
            "kind": {"title": "Kind", "type": "string", "default": "a", "enum": ["a", "b"]},
        },
        "required": ["order"],
        "additionalProperties": False,
    }
    assert contract.result_schema == {"type": "array", "items": {"type": "integer"}}
    assert contract.argument_names == ("order", "count", "kind")


def test_one_model_becomes_the_arguments_themselves_and_two_become_members() -> None:
    def one(order: Loose, here: CallContext) -> str: ...
    def two(order: Loose, other: Loose) -> str: ...
    def optional(order: Loose | None) -> str: ...

    assert made(one).contract.argument_names == ("count", "more")
    assert made(two).contract.argument_names == ("order", "other")
    assert made(optional).contract.argument_names == ("order",)
    assert made(one).check_arguments({"count": 1, "more": {"count": 2}})[0] == {
        "count": 1,
        "more": {"count": 2, "more": None},
    }


def test_a_function_without_parameters_takes_an_empty_object() -> None:
    def act() -> str: ...

    assert made(act).contract.arguments_schema == {
        "title": "act_arguments",
        "type": "object",
        "properties": {},
        "additionalProperties": False,
    }
    assert made(act).check_arguments({}) == ({}, b"{}")


# ---------------------------------------------------------------- what is refused


def starred(*x: int) -> str: ...


def named_at_will(**x: int) -> str: ...


def by_position(x: int, /) -> str: ...


@pytest.mark.parametrize("function", [starred, named_at_will, by_position])
def test_a_parameter_has_a_name_that_callers_can_use(function: Callable[..., Any]) -> None:
    assert why(function) == "the parameter 'x' must have a name that callers can use"


def lazily(x: int) -> Iterator[int]:
    yield x


async def lazily_async(x: int) -> AsyncIterator[int]:
    yield x


@pytest.mark.parametrize("function", [lazily, lazily_async])
def test_a_generator_is_refused(function: Callable[..., Any]) -> None:
    assert why(function) == "a generator runs after its attempt is over; return the whole result"


def test_every_parameter_and_the_result_have_a_type() -> None:
    def untyped(x, y: int) -> str: ...  # type: ignore[no-untyped-def]
    def silent(x: int): ...  # type: ignore[no-untyped-def]
    def anything(x: int) -> Any: ...

    assert why(untyped) == "the parameter 'x' needs a type"
    for function in (silent, anything):
        assert why(function) == "it needs a return type, the contract of its result"


def interrupt(value: object) -> object:
    raise KeyboardInterrupt("s3cr3t-value")


class Interrupting:
    @classmethod
    def __get_pydantic_core_schema__(cls, source: object, handler: object) -> Any:
        raise KeyboardInterrupt("s3cr3t-value")


class WithoutSchema:
    @classmethod
    def __get_pydantic_core_schema__(cls, source: object, handler: object) -> Any:
        from pydantic_core import core_schema

        return core_schema.any_schema()

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: object, handler: object) -> Any:
        raise KeyboardInterrupt("s3cr3t-value")


def test_whatever_a_type_raises_while_it_is_read_is_a_refusal_without_its_text() -> None:
    assert why(taking(Interrupting)) == "its parameters have names or types that cannot be checked"
    assert why(taking(int, Interrupting)) == "its return type cannot be checked"
    assert why(taking(WithoutSchema)) == "its arguments have no JSON Schema"
    assert why(taking(int, WithoutSchema)) == "its result has no JSON Schema"
    assert made(taking(Annotated[int, BeforeValidator(interrupt)]))  # what it raises later is told then


@pytest.mark.parametrize("hint", [set[int], frozenset[int], list[set[int]], dict[str, frozenset[str]]])
def test_a_set_is_no_argument_and_may_be_a_result(hint: Any) -> None:
    assert why(taking(hint)) == "a set has no order, so two equal calls could differ; use a list"
    assert made(taking(int, hint))


@pytest.mark.parametrize("hint", [Iterable[int], list[Iterable[int]]])
def test_what_is_checked_only_as_it_is_taken_is_refused(hint: Any) -> None:
    sentence = "the items of an Iterable or Generator are checked one by one, when taken; use a list"

    assert why(taking(hint)) == sentence
    assert why(taking(int, hint)) == sentence


# ---------------------------------------------------------------- what is told of a broken value


@pytest.mark.parametrize(
    ("hint", "value", "problems"),
    [
        (list[int], [1, "a", None], (("/x/1", "int_type"), ("/x/2", "int_type"))),
        (dict[str, int], {"a/b": "c"}, (("/x/a~1b", "int_type"),)),
        (Literal["a"], "b", (("/x", "literal_error"),)),
        (Annotated[int, Field(ge=1)], 0, (("/x", "greater_than_equal"),)),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_problem_is_a_place_and_the_name_of_a_rule(hint: Any, value: object, problems: object) -> None:
    with pytest.raises(placet.errors.InvalidArguments) as caught:
        made(taking(hint)).check_arguments({"x": value})
    assert caught.value.problems == problems


def test_a_rule_that_a_validator_names_itself_is_told_as_one_of_its_own() -> None:
    from pydantic_core import PydanticCustomError

    def fail(value: object) -> object:
        raise PydanticCustomError("s3cr3t_value", "s3cr3t-value")

    with pytest.raises(placet.errors.InvalidArguments) as caught:
        made(taking(Annotated[int, BeforeValidator(fail)])).check_arguments({"x": 1})
    assert caught.value.problems == (("/x", "custom_error"),)


# ---------------------------------------------------------------- what a result has to be


class Count(Enum):
    ONE = 1


class Unprintable(BaseModel):
    q: int

    def __repr__(self) -> str:
        raise RuntimeError("s3cr3t-value")


def giving(hint: Any) -> Tool:
    def look(): ...  # type: ignore[no-untyped-def]

    look.__annotations__ = {"return": hint}
    return placet.tool(effect="read", name="look")(look)


@pytest.mark.req("B020")
@pytest.mark.parametrize(
    ("hint", "taken", "refused"),
    [(Count, 1, True), (Count, 1, 1.0), (datetime, "2026-01-01T00:00:00Z", "20240101"), (Literal[1], 1, True)],
)
def test_a_result_that_would_mean_something_else_once_read_is_refused(hint: Any, taken: Any, refused: Any) -> None:
    assert giving(hint).check_result(taken)[0] == taken
    with pytest.raises(placet.errors.InvalidArguments, match="result broken"):
        giving(hint).check_result(refused)


def test_a_model_writes_itself_and_is_not_printed() -> None:
    assert giving(Unprintable).check_result(Unprintable(q=1))[0] == {"q": 1}


def test_of_members_that_are_read_as_one_none_is_lost() -> None:
    folded = Annotated[
        dict[str, int], AfterValidator(lambda value: {name.lower(): each for name, each in value.items()})
    ]
    tool = made(taking(folded))

    assert tool.check_arguments({"x": {"A": 1}}) == ({"x": {"a": 1}}, b'{"x":{"a":1}}')
    with pytest.raises(placet.errors.InvalidArguments) as caught:
        tool.check_arguments({"x": {"A": 1, "a": 2}})
    assert caught.value.problems == (("/x", "member_lost"),)

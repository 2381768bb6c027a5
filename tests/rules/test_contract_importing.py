"""Tools from schemas: each option reaches the contract as it was given, and each refusal says what it is about."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

import placet
from placet import Isolation, Tool
from placet.errors import ContractError
from placet.rules.contracts.limits import LIMITS, MAX_RESULT_BYTES, argument_limits, result_limits
from placet.rules.decoding import DecodingLimits

READ: dict[str, Any] = {"effect": "read", "name": "look"}
TEXT: dict[str, Any] = {"type": "string"}
OBJECT: dict[str, Any] = {"type": "object", "properties": {"a": TEXT, "b": {"type": "object"}}}


def handle(arguments: dict[str, Any]) -> Any:
    """What a schema describes."""
    return arguments


def made(handler: Any = handle, **options: Any) -> Tool:
    return placet.tool_from_schema(handler, **(READ | {"arguments": OBJECT} | options))


def why(handler: Any = handle, **options: Any) -> str:
    with pytest.raises(ContractError) as caught:
        made(handler, **options)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    return str(caught.value)


# ---------------------------------------------------------------- options


def test_what_was_opened_and_how_it_runs_is_written_in_the_contract() -> None:
    contract = made(
        open_members=("/b", ""),
        open_result_members=("/r",),
        result={"type": "object", "properties": {"r": {"type": "object"}}},
    ).contract

    assert contract.open_members == ("/b", "")
    assert contract.open_result_members == ("/r",)
    assert made().contract.open_members == made().contract.open_result_members == ()


def test_isolation_is_the_one_asked_for_and_else_what_the_handler_needs() -> None:
    async def wait(arguments: dict[str, Any]) -> None: ...

    assert made().contract.isolation is Isolation.THREAD
    assert made(isolation="process").contract.isolation is Isolation.PROCESS
    assert made(wait).contract.isolation is Isolation.ASYNC
    assert "isolation 'async' is for coroutine functions" in why(isolation="async")


@pytest.mark.parametrize("meanings", [{"dict": "object"}, {"dict": "object", "Any": "any"}, {}])
def test_foreign_type_names_are_taken_where_all_are_known(meanings: dict[str, str]) -> None:
    kind = "dict" if meanings else "object"
    assert made(arguments={"type": kind, "properties": {"a": TEXT}}, type_names=meanings).contract


@pytest.mark.parametrize(
    "meanings",
    [
        {"dict": "object", "text": "words"},
        {"text": "words", "dict": "object"},
        {"string": "string"},
        {"dict": "object", 1: "string"},
        {"dict": "object", "n": 1},
        {"dict": ["object"]},
        [("dict", "object")],
        "dict",
        0,
        False,
    ],
)
def test_foreign_type_names_are_refused_where_one_is_not_known(meanings: Any) -> None:
    assert (
        "type_names gives a type that JSON Schema does not know one of "
        "array, boolean, integer, null, number, object, string, any"
    ) in why(type_names=meanings)


# ---------------------------------------------------------------- handlers


class Callable_:
    def __call__(self, arguments: dict[str, Any]) -> None: ...


@pytest.mark.parametrize("handler", [Callable_(), Callable_, 42, None, "handle", dict])
def test_what_is_no_function_is_no_handler(handler: Any) -> None:
    assert "its handler is not a function or method" in why(handler)


def lazily(arguments: dict[str, Any]) -> Iterator[int]:
    yield 1


async def lazily_async(arguments: dict[str, Any]) -> AsyncIterator[int]:
    yield 1


@pytest.mark.parametrize("handler", [lazily, lazily_async])
def test_a_generator_is_no_handler(handler: Any) -> None:
    assert "a generator runs after its attempt is over; return the whole result" in why(handler)


# ---------------------------------------------------------------- refusals name their place


@pytest.mark.parametrize("what", ["arguments", "result"])
def test_a_schema_that_is_none_is_refused_under_its_own_name(what: str) -> None:
    wrong = {"type": "object", "properties": {"x": {"type": "integer", "maximum": "9"}}}

    assert f"its {what} schema is not one of draft 2020-12, at /properties/x/maximum" in why(**{what: wrong})


@pytest.mark.req("B028")
def test_a_pattern_for_a_name_of_the_servers_is_shown() -> None:
    wrong = {"type": "object", "patternProperties": {"^ten[a]nt$": TEXT}}

    assert "the arguments named by '^ten[a]nt$' are the server's to say; take them from the CallContext" in why(
        arguments=wrong
    )


# ---------------------------------------------------------------- limits


def test_arguments_are_decoded_within_the_depth_of_their_contract_and_otherwise_as_all_are() -> None:
    assert argument_limits(7) == DecodingLimits(max_depth=7)
    assert DecodingLimits() == LIMITS


@pytest.mark.parametrize(
    ("max_bytes", "members", "characters"),
    [(100, 10_000, 65_536), (10_001, 10_001, 65_536), (65_537, 65_537, 65_537), (MAX_RESULT_BYTES,) * 3],
)
def test_a_result_may_be_as_many_members_and_characters_as_it_may_be_bytes(
    max_bytes: int, members: int, characters: int
) -> None:
    assert result_limits(5, max_bytes) == DecodingLimits(
        max_depth=6, max_bytes=2 * max_bytes + 32, max_members=members, max_string_characters=characters
    )
    assert MAX_RESULT_BYTES == 16 * 1024 * 1024

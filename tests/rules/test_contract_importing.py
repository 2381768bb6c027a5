"""Tools from schemas: each option reaches the contract as it was given, and each refusal says what it is about."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from typing import Annotated, Any

import pytest

import placet
from placet import CallContext, Isolation, Principal, Tool
from placet.errors import ContractError, InvalidArguments
from placet.rules.contracts.limits import LIMITS, MAX_RESULT_BYTES, argument_limits, result_limits
from placet.rules.decoding import DecodingLimits

READ: dict[str, Any] = {"effect": "read", "name": "look"}
TEXT: dict[str, Any] = {"type": "string"}
OBJECT: dict[str, Any] = {"type": "object", "properties": {"a": TEXT, "b": {"type": "object"}}}

CONTEXT = CallContext(
    tenant="acme",
    principal=Principal.agent("a", tenant="acme"),
    run_id="r",  # type: ignore[arg-type]
    call_id="c",  # type: ignore[arg-type]
    operation_key="k",  # type: ignore[arg-type]
    attempt=1,
    deadline_at=datetime(2026, 1, 1, tzinfo=UTC),
    _remaining=lambda: 1.0,
    _guard=lambda: None,
)


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
    assert contract.argument_names == ("a", "b")
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


def interrupted() -> None:
    raise KeyboardInterrupt("s3cr3t-value")


@pytest.mark.parametrize("hint", ["Undefined", "1 +", "interrupted()"])
def test_annotations_that_cannot_be_evaluated_are_refused_without_their_error(hint: str) -> None:
    def look(arguments): ...  # type: ignore[no-untyped-def]

    look.__annotations__ = {"arguments": hint}
    assert why(look).endswith("its handler takes the arguments as one dict, and may take a CallContext.")


def by_keyword(*, here: CallContext, given: dict[str, Any]) -> None: ...


def by_position(given: dict[str, Any], /) -> None: ...


def two_contexts(given: dict[str, Any], here: CallContext, there: CallContext) -> None: ...


def only_context(here: CallContext) -> None: ...


def starred(*given: Any) -> None: ...


def annotated(given: dict[str, Any], here: Annotated[CallContext, "ours"]) -> None: ...


def test_a_handler_takes_arguments_and_context_by_whatever_name() -> None:
    assert made(by_keyword).handler_arguments(b'{"a":"b"}', CONTEXT) == {"given": {"a": "b"}, "here": CONTEXT}
    assert made().handler_arguments(b'{"a":"b"}', CONTEXT) == {"arguments": {"a": "b"}}
    for handler in (by_position, two_contexts, only_context, starred, annotated):
        assert why(handler).endswith("its handler takes the arguments as one dict, and may take a CallContext.")


# ---------------------------------------------------------------- refusals name their place


@pytest.mark.parametrize("what", ["arguments", "result"])
def test_a_schema_that_is_none_is_refused_under_its_own_name(what: str) -> None:
    wrong = {"type": "object", "properties": {"x": {"type": "integer", "maximum": "9"}}}

    assert why(**{what: wrong}).endswith(f": its {what} schema is not one of draft 2020-12, at /properties/x/maximum.")
    assert f": its {what} schema cannot be read (" in why(**{what: []})
    assert f": its {what} schema cannot be read (" in why(**{what: "no"})


def test_the_place_of_what_is_no_schema_is_ascii_and_cut() -> None:
    wrong = {"type": "object", "properties": {"é" * 40: {"maximum": "9"}}}

    assert why(arguments=wrong).endswith(f", at /properties/{chr(92)}xe9" + r"\xe9" * 26 + r"\.")


@pytest.mark.req("B028")
def test_a_pattern_for_a_name_of_the_servers_is_shown() -> None:
    wrong = {"type": "object", "patternProperties": {"^ten[a]nt$": TEXT}}

    assert "the arguments named by '^ten[a]nt$' are the server's to say; take it from the CallContext" in why(
        arguments=wrong
    )


def wide(count: int) -> dict[str, Any]:
    return {"type": "object", "properties": {f"w{n}": {"type": "integer", "x-placet-wide": True} for n in range(count)}}


@pytest.mark.case("A07")
@pytest.mark.parametrize("what", ["arguments", "result"])
def test_wide_integers_may_stand_in_256_places(what: str) -> None:
    assert made(**{what: wide(256)}).contract
    assert why(**{what: wide(257)}).endswith("its schema has more than 256 places for wide integers.")


@pytest.mark.case("A16")
def test_places_for_wide_integers_are_not_looked_for_without_end() -> None:
    def ways(items: int, each: int) -> dict[str, Any]:
        """As many ways to one place."""
        anyhow = {"anyOf": [{"type": "integer", "x-placet-wide": True}] * each}
        listed = {"type": "array", "prefixItems": [{"$ref": "#/$defs/d"}] * items}
        return {"type": "object", "properties": {"l": listed}, "$defs": {"d": anyhow}}

    assert made(arguments=ways(256, 100)).contract
    assert why(arguments=ways(251, 102)).endswith("its schema has more than 256 places for wide integers.")


@pytest.mark.case("A07")
def test_wide_integers_of_arguments_and_results_are_exact() -> None:
    tool = made(arguments=wide(1), result=wide(1))

    assert tool.contract.wide_fields == {("w0",)}
    assert tool.check_arguments({"w0": 2**70}) == ({"w0": 2**70}, b'{"w0":1180591620717411303424}')
    assert tool.handler_arguments(b'{"w0":1180591620717411303424}', CONTEXT) == {"arguments": {"w0": 2**70}}
    assert tool.check_result({"w0": 2**70})[0] == {"w0": 2**70}


# ---------------------------------------------------------------- what is opened


@pytest.mark.parametrize("what", ["open_members", "open_result_members"])
@pytest.mark.parametrize("pointers", ["/b", {"/b"}, ("b",), ("/b", 1), None, ("/b", "b")])
def test_places_to_open_are_json_pointers_in_their_order(what: str, pointers: Any) -> None:
    assert why(result=OBJECT, **{what: pointers}).endswith(
        f'{what} is a sequence of JSON Pointers, such as "/metadata".'
    )


@pytest.mark.parametrize("what", ["open_members", "open_result_members"])
def test_so_many_places_are_opened_so_deep_and_no_more(what: str) -> None:
    many = {"type": "object", "properties": {f"p{n}": {"type": "object"} for n in range(65)}}
    deep = {"type": "object", "properties": {"a": {"$ref": "#"}}}

    schema = {"arguments": many, "result": many}
    assert getattr(made(**schema, **{what: [f"/p{n}" for n in range(64)]}).contract, what) == tuple(
        f"/p{n}" for n in range(64)
    )
    assert why(**schema, **{what: [f"/p{n}" for n in range(65)]}).endswith(f"{what} opens at most 64 places.")
    schema = {"arguments": deep, "result": deep}
    assert made(**schema, **{what: ["/a" * 32]})
    assert why(**schema, **{what: ["/a" * 33]}).endswith(f"{what} reaches at most 32 levels deep.")


# ---------------------------------------------------------------- limits


@pytest.mark.parametrize("what", ["max_argument_bytes", "max_result_bytes"])
def test_bytes_are_counted_from_1(what: str) -> None:
    most = {"max_argument_bytes": 262_144, "max_result_bytes": 16_777_216}[what]

    for value in (0, most + 1, 1.0, None):
        assert why(**{what: value}).endswith(f": {what} is an integer from 1 to {most}.")


def test_a_description_is_the_handlers_where_none_is_given() -> None:
    assert made().contract.description == "What a schema describes."
    assert made(description="Said.").contract.description == "Said."


def test_an_integral_float_is_a_number_in_a_result_and_no_integer() -> None:
    for kind, is_taken in (("number", True), ("integer", False)):
        tool = made(result={"type": "object", "properties": {"n": {"type": kind}}})
        if is_taken:
            assert tool.check_result({"n": 1.0}) == ({"n": 1.0}, b'{"n":1.0}')
        else:
            with pytest.raises(InvalidArguments, match="result broken"):
                tool.check_result({"n": 1.0})


@pytest.mark.parametrize("depth", [0, 33, True, 5.0, "5"])
def test_depth_is_counted_from_1_to_32(depth: Any) -> None:
    assert why(max_depth=depth).endswith("max_depth is an integer from 1 to 32.")
    assert (made(max_depth=1).contract.max_depth, made().contract.max_depth) == (1, 32)


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

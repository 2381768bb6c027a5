"""Hostile values in what describes tools: schemas' options, handlers, definitions for providers, text for people."""

from __future__ import annotations

import functools
import itertools
import types
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

import placet
from placet import Tool
from placet.errors import ContractError, MisuseError
from placet.model.contract import Contract
from tests.hostile.conftest import SECRET, Watch

SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}


def handle(arguments: dict[str, Any]) -> Any:
    return arguments


def described(handler: Any = handle, **options: Any) -> Tool:
    return placet.tool_from_schema(handler, **({"name": "t", "arguments": SCHEMA, "effect": "read"} | options))


def typed(function: Any) -> Tool:
    return placet.tool(effect="read", name="t")(function)


CONTRACT = described().contract
OPTIONS: dict[str, Callable[[Any], Any]] = {
    "type_names": lambda value: described(type_names=value),
    "meaning of a type name": lambda value: described(type_names={"x": value}),
    "type name": lambda value: described(type_names=_keyed(value, "string")),
    "open_members": lambda value: described(open_members=value),
    "open member": lambda value: described(open_members=(value,)),
    "open_result_members": lambda value: described(result=SCHEMA, open_result_members=value),
    "open result member": lambda value: described(result=SCHEMA, open_result_members=[value]),
}  # fmt: skip


def _keyed(key: Any, value: Any) -> Any:
    """A dict with this very key, where a dict can hold it at all."""
    try:
        return {key: value}
    except BaseException:
        return {7: value}


@pytest.mark.req("B035")
@pytest.mark.parametrize("position", OPTIONS)
def test_a_hostile_option_of_a_described_tool_is_refused(watch: Watch, position: str) -> None:
    for name, value in watch.each():
        if position == "type name":
            if type(value) is str:  # a name like any other
                continue
            given = _keyed(value, "string")
            watch.made[-1].ran.clear()  # making the dict asked for a hash
            made = watch.ended_at_once(lambda: described(type_names=given))
        else:
            made = watch.ended_at_once(lambda: OPTIONS[position](value))
        assert type(made) is ContractError, name

    assert watch.ran == []
    watch.assert_nothing_leaked()


def test_what_opens_members_and_names_types_is_taken_in_its_plain_forms() -> None:
    schema = {"properties": {"a": {"type": "dict", "properties": {}}}}
    as_list, as_tuple = (
        described(arguments=schema, open_members=kind(("/a",)), type_names={"dict": "object"}) for kind in (list, tuple)
    )

    assert as_list.contract.open_members == as_tuple.contract.open_members == ("/a",)
    assert as_list.contract.digest == as_tuple.contract.digest


# ---------------------------------------------------------------- handlers


def _annotated(value: Any) -> Any:
    def handler(arguments):  # type: ignore[no-untyped-def]  # its annotation is what is tried
        return arguments

    handler.__annotations__ = {"arguments": value, "return": dict[str, str]}
    return handler


def _attributed(name: str, value: Any) -> Any:
    def handler(arguments: dict[str, Any]) -> dict[str, str]:
        return arguments

    handler.__dict__[name] = value
    return handler


def _documented(value: Any) -> Any:
    def handler(arguments: dict[str, Any]) -> dict[str, str]:
        return arguments

    handler.__doc__ = value
    return handler


def _with_default(value: Any) -> Any:
    def handler(arguments: dict[str, Any] = value) -> dict[str, str]:
        return arguments

    return handler


def _method(value: Any) -> Any:
    return types.MethodType(value, "self") if callable(value) else 7


HANDLERS: dict[str, Callable[[Any], Any]] = {
    "handler": lambda value: value,
    "annotation": _annotated,
    "default": _with_default,
    "__doc__": _documented,
    "__wrapped__": lambda value: _attributed("__wrapped__", value),
    "__signature__": lambda value: _attributed("__signature__", value),
    "method of": _method,
    "part of": lambda value: functools.partial(value) if callable(value) else 7,
    "wrapped, then wrapped": lambda value: functools.wraps(_attributed("__wrapped__", value))(lambda arguments: None),
}  # fmt: skip


LIKE_ANY_OTHER = ("annotation", "default", "__doc__")


@pytest.mark.req("B035")
@pytest.mark.parametrize("make", [described, typed])
@pytest.mark.parametrize("position", HANDLERS)
def test_a_hostile_handler_registers_no_tool_or_one_like_any_other(
    watch: Watch, position: str, make: Callable[[Any], Tool]
) -> None:
    for name, value in watch.each():
        handler = HANDLERS[position](value)
        watch.made[-1].ran.clear()  # making the handler may have asked for something
        made = watch.ended_at_once(lambda: make(handler))
        assert type(made) is ContractError or (position in LIKE_ANY_OTHER and type(made) is Tool), name
        if position not in ("annotation", "default"):
            assert watch.made[-1].ran == [], name

    watch.assert_nothing_leaked()


def test_functions_methods_and_parts_of_functions_are_handlers() -> None:
    class Remote:
        def handle(self, arguments: dict[str, Any]) -> dict[str, str]:
            return arguments

    @functools.wraps(handle)
    def wrapper(*positional: Any, **named: Any) -> Any:
        return handle(*positional, **named)

    def two(arguments: dict[str, Any], *, more: int) -> Any:
        return arguments, more

    for handler in (handle, Remote().handle, wrapper):
        assert type(described(handler)) is Tool


# ---------------------------------------------------------------- definitions for providers

PROJECTIONS: dict[str, Callable[[Any], Any]] = {
    "openai_tool": placet.openai_tool,
    "openai_responses_tool": placet.openai_responses_tool,
    "anthropic_tool": placet.anthropic_tool,
    "mcp_tool": placet.mcp_tool,
    "anthropic_tools": placet.anthropic_tools,
    "anthropic_tools of": lambda value: placet.anthropic_tools([CONTRACT, value]),
}  # fmt: skip


@pytest.mark.req("C036")
@pytest.mark.parametrize("position", PROJECTIONS)
def test_a_definition_is_made_of_a_contract_and_of_nothing_else(watch: Watch, position: str) -> None:
    for name, value in watch.each():
        made = watch.ended_at_once(lambda: PROJECTIONS[position](value))
        assert type(made) is MisuseError, name

    child = type("Child", (Contract,), {})
    for made in (object.__new__(Contract), object.__new__(child), described()):
        assert type(watch.ended_at_once(lambda made=made: PROJECTIONS[position](made))) is MisuseError
    assert watch.ran == []
    watch.assert_nothing_leaked()


PLAIN = ("long text", "text with a lone surrogate", "wide dict")
"""Built-in text or members, which a contract made by hand may hold."""
FIELDS = (
    *("name", "description", "arguments_schema", "result_schema", "argument_names"),
    *("effect_class", "authored_schema"),
)


@pytest.mark.parametrize("field", FIELDS)
def test_a_contract_with_a_hostile_field_makes_no_definition(watch: Watch, field: str) -> None:
    """Whoever makes a contract by hand makes one that no gate has; it is none for a definition either."""
    positions = itertools.cycle([position for position in PROJECTIONS if position != "anthropic_tools"])
    for name, value in watch.each():
        position = next(positions)
        by_hand: Any = replace(CONTRACT, **{field: value})
        made = watch.ended_at_once(lambda by_hand=by_hand, position=position: PROJECTIONS[position](by_hand))
        assert type(made) is MisuseError or name.startswith(PLAIN), name

    assert watch.ran == []
    watch.assert_nothing_leaked()


# ---------------------------------------------------------------- text for people


@pytest.mark.case("F02")
def test_what_is_no_text_is_not_shown_as_text(watch: Watch) -> None:
    for name, value in watch.each():
        made = watch.ended_at_once(lambda: placet.escape_for_people(value))
        if issubclass(type(value), str):
            assert type(made) is str, name
        else:
            assert type(made) is MisuseError, name

    assert watch.ran == []
    assert SECRET not in "".join(watch.ears.texts)

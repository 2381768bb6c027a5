"""A tool with other code behind its checks: what it reads, refuses and takes back is the tool's own."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import BaseModel, field_validator

import placet
from placet import CallContext, Principal, Tool
from placet.errors import InvalidArguments
from placet.model.context import CannotTell, ProbeContext

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
WRITE: dict[str, Any] = {"effect": "write", "risk": "medium", "permission": "p", "name": "act"}


async def other(canonical: bytes, context: CallContext) -> str:
    return "other"


async def other_probe(context: ProbeContext) -> CannotTell:
    return CannotTell()


class Order(BaseModel):
    sku: str
    count: int = 1

    @field_validator("sku")
    @classmethod
    def shorten(cls, value: str) -> str:
        return value[1:] if value.startswith("#") else value


async def act(order: Order) -> dict[str, int]:
    """Orders it."""
    raise AssertionError("the tool's own code ran")


async def described(arguments: dict[str, Any]) -> dict[str, int]:
    raise AssertionError("the tool's own code ran")


SCHEMA: dict[str, Any] = {"properties": {"sku": {"type": "string"}}, "required": ["sku"]}
TOOLS: dict[str, Tool] = {
    "typed": placet.tool(**WRITE)(act),
    "described": placet.tool_from_schema(described, arguments=SCHEMA, **WRITE),
}


def stand_in(kind: str) -> Tool:
    own = TOOLS[kind]
    return own.with_stand_in(dataclasses.replace(own.contract, timeout_seconds=1.0), other, other_probe)


@pytest.mark.parametrize("kind", TOOLS)
def test_a_stand_in_is_handed_what_was_authorised_as_bytes_and_the_context(kind: str) -> None:
    tool = stand_in(kind)
    canonical = tool.read_arguments({"sku": "a"}).canonical

    assert tool.handler_arguments(canonical, CONTEXT) == {"canonical": canonical, "context": CONTEXT}
    assert (tool.function, tool.probe) == (other, other_probe)
    assert (tool.contract.timeout_seconds, tool.contract.name) == (1.0, "act")
    assert TOOLS[kind].function in (act, described)
    assert TOOLS[kind].probe is None


def test_a_stand_in_completes_and_normalises_arguments_as_the_tool_does() -> None:
    assert stand_in("typed").check_arguments({"sku": "#a"}) == ({"sku": "a", "count": 1}, b'{"count":1,"sku":"a"}')
    assert stand_in("described").check_arguments({"sku": "#a"}) == ({"sku": "#a"}, b'{"sku":"#a"}')


@pytest.mark.parametrize("kind", TOOLS)
@pytest.mark.parametrize("arguments", [{}, {"sku": 1}, {"sku": "a", "more": 1}])
def test_a_stand_in_refuses_what_the_tool_refuses(kind: str, arguments: dict[str, Any]) -> None:
    refusals = []
    for tool in (TOOLS[kind], stand_in(kind)):
        with pytest.raises(InvalidArguments) as caught:
            tool.check_arguments(arguments)
        refusals.append((caught.value.reason, caught.value.problems))

    assert refusals[0] == refusals[1]


def test_a_stand_in_reads_what_it_normalised_once_more() -> None:
    with pytest.raises(InvalidArguments) as caught:
        stand_in("typed").check_arguments({"sku": "##a"})

    assert caught.value.reason == "normalisation_not_stable"


@pytest.mark.parametrize("kind", TOOLS)
def test_what_would_stop_the_tools_own_attempt_stops_the_stand_ins(kind: str) -> None:
    with pytest.raises(Exception, match=r"sku|arguments"):
        stand_in(kind).handler_arguments(b'{"count":1}', CONTEXT)


@pytest.mark.parametrize("kind", TOOLS)
def test_the_result_of_a_stand_in_is_held_against_the_tools_contract(kind: str) -> None:
    assert stand_in(kind).check_result({"a": 1}) == TOOLS[kind].check_result({"a": 1}) == ({"a": 1}, b'{"a":1}')
    if kind == "typed":
        with pytest.raises(InvalidArguments, match="result broken"):
            stand_in(kind).check_result({"a": "b"})


def test_what_was_read_is_in_no_repr() -> None:
    done = TOOLS["typed"].read_arguments({"sku": "s3cr3t-value"})

    assert repr(done) == "ReadArguments(is_repaired=False)"


def test_a_tool_is_equal_to_itself_alone_and_can_be_a_key() -> None:
    tool = TOOLS["typed"]

    assert len({tool, dataclasses.replace(tool)}) == 2


@pytest.mark.case("A07")
def test_a_wide_integer_is_read_exactly_where_it_is_declared() -> None:
    async def count(wide: placet.WideInt, narrow: int) -> str: ...

    tool = placet.tool(**WRITE)(count)

    assert tool.check_arguments({"wide": 2**70, "narrow": 1})[0] == {"wide": 2**70, "narrow": 1}
    with pytest.raises(InvalidArguments, match="number too large"):
        tool.check_arguments({"wide": 1, "narrow": 2**70})

"""Arguments that the server says: the model neither sees nor sends them, and the handler gets them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from placet import CallContext, Principal, Tool
from placet.errors import ContractError, InvalidArguments
from placet.model.contract import Bound, BoundSource
from placet.model.identifiers import CallId, Digest, OperationKey, RunId
from placet.rules.contracts import tool_from_schema

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "tenant_id": {"type": "string"},
        "by": {"type": ["string", "null"]},
        "labels": {"$ref": "#/$defs/labels"},
        "title": {"type": "string"},
    },
    "required": ["tenant_id", "title"],
    "$defs": {"labels": {"type": "array", "items": {"enum": ["a", "b"]}}},
}
TENANT = Bound(member="tenant_id", source=BoundSource.TENANT)


async def handler(arguments: dict[str, Any], context: CallContext) -> object:
    return arguments


def made(*bind: Bound, schema: dict[str, Any] = SCHEMA, **more: Any) -> Tool:
    given: dict[str, Any] = {"effect": "write", "risk": "low", "permission": "p"} | more
    return tool_from_schema(handler, name="t", arguments=schema, bind=bind, **given)


def why(make: Callable[[], object]) -> str:
    with pytest.raises(ContractError) as caught:
        make()
    return str(caught.value)


def a_context() -> CallContext:
    return CallContext(
        tenant="acme",
        principal=Principal.agent("bot", tenant="acme"),
        run_id=RunId("r1"),
        call_id=CallId("c1"),
        operation_key=OperationKey("k1"),
        attempt=1,
        deadline_at=datetime(2026, 7, 1, tzinfo=UTC),
        _remaining=lambda: 1.0,
        _guard=lambda: None,
    )


def test_the_model_neither_sees_nor_sends_what_is_bound() -> None:
    tool = made(TENANT, Bound(member="by", source=BoundSource.SUBJECT))

    assert tool.contract.argument_names == ("labels", "title")
    assert tool.contract.arguments_schema["required"] == ["title"]
    assert "tenant_id" not in str(tool.contract.arguments_schema) + str(tool.contract.authored_schema)
    assert tool.read_arguments({"title": "x"}).arguments == {"title": "x"}
    for member in ("tenant_id", "by"):
        with pytest.raises(InvalidArguments) as caught:
            tool.read_arguments({"title": "x", member: "globex"})
        assert caught.value.problems == ((f"/{member}", "extra_forbidden"),)


def test_what_is_bound_may_not_be_sent_where_unknown_members_are_let_in_either() -> None:
    tool = made(Bound(member="by", source=BoundSource.SUBJECT), schema=_without_tenant(), open_members=("",))

    assert tool.read_arguments({"title": "x", "anything": 1}).arguments == {"title": "x", "anything": 1}
    with pytest.raises(InvalidArguments) as caught:
        tool.read_arguments({"title": "x", "by": "eve"})
    assert caught.value.problems == (("/by", "extra_forbidden"),)


def _without_tenant() -> dict[str, Any]:
    properties = {name: each for name, each in SCHEMA["properties"].items() if name != "tenant_id"}
    return SCHEMA | {"properties": properties, "required": ["title"]}


def test_the_handler_gets_it_from_the_call_and_a_fresh_copy_each_time() -> None:
    fixed = Bound(member="labels", source=BoundSource.FIXED, value=["a"])
    tool = made(TENANT, Bound(member="by", source=BoundSource.SUBJECT), fixed)
    _, canonical = tool.check_arguments({"title": "x"})

    first = tool.handler_arguments(canonical, a_context())["arguments"]
    first["labels"].append("b")
    second = tool.handler_arguments(canonical, a_context())["arguments"]

    assert second == {"title": "x", "tenant_id": "acme", "by": "bot", "labels": ["a"]}
    assert b"acme" not in canonical


@pytest.mark.parametrize(
    ("source", "value"),
    [
        (BoundSource.TENANT, "acme"),
        (BoundSource.SUBJECT, "bot"),
        (BoundSource.RUN, "r1"),
        (BoundSource.OPERATION_KEY, "k1"),
    ],
)
def test_each_source_is_of_the_call(source: BoundSource, value: str) -> None:
    tool = made(Bound(member="tenant_id", source=source))
    _, canonical = tool.check_arguments({"title": "x"})

    assert tool.handler_arguments(canonical, a_context())["arguments"] == {"title": "x", "tenant_id": value}


def test_a_required_argument_may_be_bound_and_one_that_only_the_server_may_say_has_to_be() -> None:
    assert "the argument 'tenant_id' is the server's to say" in why(made)
    assert made(TENANT).contract.bind == (TENANT,)


@pytest.mark.parametrize(
    ("bind", "told"),
    [
        ((Bound(member="nothing", source=BoundSource.RUN),), "bind names no argument: nothing"),
        ((TENANT, TENANT), "bind names at most 16 arguments, each once"),
        (
            (Bound(member="labels", source=BoundSource.RUN),),
            "what is bound to 'labels' is text, and its schema accepts none",
        ),
        (
            (Bound(member="by", source=BoundSource.RUN, value="x"),),
            "what is bound to 'by' is text, and its schema accepts none",
        ),
        (
            (Bound(member="labels", source=BoundSource.FIXED, value=["c"]),),
            "the value bound to 'labels' is not one that its schema accepts",
        ),
        (
            (Bound(member="by", source=BoundSource.FIXED, value=1),),
            "the value bound to 'by' is not one that its schema accepts",
        ),
        (("tenant_id",), "bind is a sequence of Bound"),
        ({TENANT}, "bind is a sequence of Bound"),
        ((Bound(member=7, source=BoundSource.RUN),), "bind names at most 16 arguments, each once"),  # type: ignore[arg-type]
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_cannot_be_bound_is_refused_at_registration(bind: Any, told: str) -> None:
    def make() -> Tool:
        return tool_from_schema(
            handler, name="t", arguments=SCHEMA, effect="write", risk="low", permission="p", bind=bind
        )

    assert told in why(make)


@pytest.mark.parametrize(
    "more",
    [
        {"anyOf": [{"required": ["tenant_id"]}, {"required": ["title"]}]},
        {"allOf": [{"properties": {"tenant_id": {}}}]},
        {"minProperties": 2},
        {"patternProperties": {"^t": {}}},
        {"dependentRequired": {"title": ["tenant_id"]}},
        {"propertyNames": {"pattern": "_id$"}},
        {"$ref": "#/$defs/labels"},
        {"if": {"required": ["tenant_id"]}},
    ],
    ids=str,
)
def test_a_schema_that_says_more_of_its_members_loses_none_of_them(more: dict[str, Any]) -> None:
    assert "at the top level, so none of its arguments can be bound" in why(lambda: made(TENANT, schema=SCHEMA | more))


def test_a_reference_to_what_is_bound_is_refused_and_not_left_hanging() -> None:
    schema = SCHEMA | {"properties": SCHEMA["properties"] | {"other": {"$ref": "#/properties/tenant_id"}}}

    assert "where it has no schema" in why(lambda: made(TENANT, schema=schema))


def test_nothing_that_is_named_in_clear_is_made_of_what_is_bound() -> None:
    assert "operation_key names no argument: tenant_id" in why(lambda: made(TENANT, operation_key="k:{tenant_id}"))


def test_what_is_bound_is_part_of_what_is_approved() -> None:
    digests: set[Digest] = {
        made(TENANT).contract.digest,
        made(Bound(member="tenant_id", source=BoundSource.RUN)).contract.digest,
        made(Bound(member="tenant_id", source=BoundSource.FIXED, value="a")).contract.digest,
        made(Bound(member="tenant_id", source=BoundSource.FIXED, value="b")).contract.digest,
    }

    assert len(digests) == 4

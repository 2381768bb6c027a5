"""Names and shapes a contract is refused for: what only the server says, and what marks a generic executor."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel, Field

import placet
from placet import Tool
from placet.errors import ContractError

WRITE: dict[str, Any] = {"effect": "write", "risk": "medium", "permission": "p", "name": "act"}


def plain(x: str = "") -> dict[str, str]:
    return {}


async def handle(arguments: dict[str, Any]) -> dict[str, str]:
    return {}


def named(name: str) -> Tool:
    return placet.tool(**(WRITE | {"name": name}))(plain)


def of_members(members: dict[str, Any]) -> Tool:
    return placet.tool_from_schema(handle, arguments={"type": "object", "properties": members}, **WRITE)


@pytest.mark.req("B028", "B037", "H007")
@pytest.mark.parametrize(
    "name",
    ["tenant", "tenant_id", "operation_key", "idempotency_key", "approval_id", "principal", "call_context",
     "x-tenant", "X-Tenant-Id", "X_Idempotency_Key", "x.approval.id", "Ｔenant", "tenant\u00a0id"],
)  # fmt: skip
def test_what_only_the_server_may_say_is_no_member_at_any_depth(name: str) -> None:
    text = {"type": "string"}
    for members in ({name: text}, {"inner": {"type": "object", "properties": {name: text}}}):
        with pytest.raises(ContractError, match="is the server's to say; take it from the CallContext"):
            of_members(members)


def test_a_long_server_name_is_cut_in_its_refusal() -> None:
    with pytest.raises(ContractError) as caught:
        of_members({"tenant" + "_" * 200: {"type": "string"}})

    assert f"the argument {'tenant' + '_' * 74!r} is the server's" in str(caught.value)


def test_a_long_pattern_for_a_server_name_is_cut_in_its_refusal() -> None:
    pattern = "^tenant" + "(?:tenant)?" * 9 + "$"
    with pytest.raises(ContractError) as caught:
        placet.tool_from_schema(handle, arguments={"patternProperties": {pattern: {"type": "string"}}}, **WRITE)

    assert f"the arguments named by {repr(pattern)[:80]} are the server's to say" in str(caught.value)


@pytest.mark.parametrize(
    "name",
    ["xx_tenant", "tenants", "tenant_idx", "my_tenant", "approval", "key", "context", "call", "x", "idempotency"],
)
def test_a_name_that_only_contains_one_is_taken(name: str) -> None:
    assert of_members({name: {"type": "string"}}).contract.argument_names == (name,)


@pytest.mark.req("B035")
@pytest.mark.parametrize(
    "part",
    ["shell", "bash", "exec", "execute", "eval", "sql", "psql", "subprocess", "powershell", "cmd", "curl", "wget"],
)
def test_each_word_of_a_generic_executor_is_refused_as_a_part_of_a_name(part: str) -> None:
    for name in (part, f"run_{part}", f"{part}.now", f"a-{part}-b", part.upper(), f"{part}2"):
        with pytest.raises(ContractError, match="looks like a generic executor"):
            named(name)
    assert named(f"a{part}")
    assert named(f"{part}a")


@pytest.mark.req("B035")
@pytest.mark.parametrize(
    "field",
    ["command", "cmd", "shell", "script", "sql", "sql_query", "statement", "code", "url", "uri", "endpoint", "argv"],
)
def test_each_argument_of_a_generic_executor_is_refused(field: str) -> None:
    for name in (field, field.upper(), field.title()):
        with pytest.raises(ContractError, match="looks like a generic executor"):
            of_members({name: {"type": "string"}})
        with pytest.raises(ContractError, match="looks like a generic executor"):
            of_members({"inner": {"type": "array", "items": {"type": "object", "properties": {name: {}}}}})


@pytest.mark.req("B035")
@pytest.mark.parametrize("name", ["uri", "uri-reference", "iri"])
def test_an_argument_that_is_any_address_is_refused(name: str) -> None:
    with pytest.raises(ContractError, match="looks like a generic executor"):
        of_members({"x": {"type": "string", "format": name}})
    assert of_members({"x": {"type": "string", "format": "email"}})


def test_a_generic_executor_needs_a_written_reason() -> None:
    for reason in ("", " \t\n"):
        with pytest.raises(ContractError, match="generic_executor needs the written reason"):
            placet.tool(**(WRITE | {"name": "run_sql"}), generic_executor=reason)(plain)
    with pytest.raises(ContractError, match="generic_executor is text"):
        placet.tool(**(WRITE | {"name": "run_sql"}), generic_executor=7)(plain)  # type: ignore[arg-type]
    assert placet.tool(**(WRITE | {"name": "run_sql"}), generic_executor="a replica")(plain)


class LeftOut(BaseModel):
    q: str = Field("", exclude=True)


class Outer(BaseModel):
    inner: LeftOut


class WrittenOtherwise(BaseModel):
    q: str = Field(serialization_alias="question")


def taking(model: type[BaseModel]) -> Tool:
    def act(x): ...  # type: ignore[no-untyped-def]

    act.__annotations__ = {"x": model, "return": str}
    return placet.tool(**WRITE)(act)


@pytest.mark.parametrize("model", [LeftOut, Outer, WrittenOtherwise])
def test_arguments_that_are_not_written_as_they_are_read_are_refused(model: type[BaseModel]) -> None:
    with pytest.raises(ContractError, match="its arguments are written otherwise than they are read"):
        taking(model)

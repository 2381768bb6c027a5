"""A typed function becomes a tool, or is refused for what its names and shapes would let a model do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

import pytest
from pydantic import AliasChoices, BaseModel, Field, SecretStr
from typing_extensions import TypeAliasType

import placet
from placet import ApprovalMode, EffectClass, Isolation, Remote, RetryPolicy, Risk, TextRule, Tool
from placet.errors import ContractError
from placet.model.contract import DEFAULT_BREAKER, DEFAULT_MAX_CONCURRENT, Contract

WRITE: dict[str, Any] = {"effect": "write", "risk": "medium", "permission": "p", "name": "act"}


def made(function: Any, **options: Any) -> Tool:
    return placet.tool(**(WRITE | options))(function)


def taking(hint: Any) -> Callable[..., Any]:
    def act(x): ...  # type: ignore[no-untyped-def]

    act.__annotations__ = {"x": hint, "return": str}
    return act


def why(function: Any, **options: Any) -> str:
    """What the refusal says after the tool's name."""
    with pytest.raises(ContractError) as caught:
        made(function, **options)
    assert caught.value.tool == "act"
    return str(caught.value).removeprefix("The tool 'act' cannot be registered: ")[:-1]


class Callable_:
    def __call__(self, x: int) -> str: ...


@pytest.mark.parametrize("function", [Callable_(), Callable_, 42, None, "act", dict])
def test_what_is_no_function_is_no_tool(function: Any) -> None:
    assert why(function) == "its handler is not a function or method"


def test_what_is_missing_is_told_before_anything_is_looked_at() -> None:
    def act(x, url): ...  # type: ignore[no-untyped-def]

    assert why(act, risk=None) == "it needs a risk: low, medium, high or critical"
    assert why(act) == "the parameter 'x' needs a type"


Name = TypeAliasType("Name", str)
Number = TypeAliasType("Number", int)


class Inner(BaseModel):
    operation_key: str


class Read(BaseModel):
    q: str = Field(validation_alias=AliasChoices("q", "tenant"))


@pytest.mark.req("B028", "B037", "H007")
@pytest.mark.parametrize(
    ("hint", "name"),
    [(list[Inner], "operation_key"), (Read, "tenant"), (dict[Literal["tenant", "a"], str], "tenant")],
    ids=["declared", "read", "key"],
)
def test_a_name_that_only_the_server_may_say_is_refused_wherever_a_type_has_it(hint: Any, name: str) -> None:
    assert why(taking(hint)) == f"the argument {name!r} is the server's to say; take it from the CallContext"


@pytest.mark.req("B035")
def test_a_function_that_takes_any_address_is_a_generic_executor() -> None:
    def act(url: str) -> str: ...

    sentence = (
        "it looks like a generic executor (shell, SQL or any address); wrap the business operation instead, "
        "or give generic_executor= the reason"
    )
    assert why(act) == sentence
    assert made(act, generic_executor="only ours").contract.generic_executor_reason == "only ours"


def test_keys_of_a_mapping_are_text() -> None:
    for hint in (dict[int, str], list[dict[bool, str]]):
        assert why(taking(hint)) == "the keys of a mapping are str, or a Literal or Enum of str; else use a list"
    for hint in (dict[Number, str], tuple[dict[Number, str], dict[Number, str]]):
        assert why(taking(hint)).startswith("the keys of a mapping are str")
    assert made(taking(dict[str, str]))
    assert made(taking(tuple[dict[Name, str], dict[Name, str]]))


def test_a_type_that_writes_itself_masked_is_refused() -> None:
    assert why(taking(SecretStr)) == (
        "a secret type writes itself masked, so two calls would look alike; use str and redact="
    )


def test_only_arguments_are_redacted() -> None:
    assert why(taking(int), redact=("y",)) == "redact names no argument: y"
    assert made(taking(int), redact=("x",)).contract.redact == {"x"}


class Named(BaseModel):
    order: str = Field(alias="orderId")
    note: str = ""


def test_arguments_have_the_names_by_which_a_model_reads_them() -> None:
    assert made(taking(Named)).contract.argument_names == ("orderId", "note")
    assert made(taking(Named), redact=("orderId",), resource="note:{note}").contract.redact == {"orderId"}
    assert why(taking(Named), redact=("order",)) == "redact names no argument: order"


def test_of_what_nobody_says_a_contract_has_these_values() -> None:
    contract = made(taking(int)).contract

    assert replace(contract, arguments_schema={}, result_schema={}) == Contract(
        name="act",
        version="1",
        description="",
        arguments_schema={},
        result_schema={},
        argument_names=("x",),
        effect_class=EffectClass.WRITE,
        risk=Risk.MEDIUM,
        permission="p",
        approval=ApprovalMode.BY_POLICY,
        isolation=Isolation.THREAD,
        timeout_seconds=10.0,
        retry=RetryPolicy(max_attempts=3, initial_delay_seconds=0.25, max_delay_seconds=10.0),
        remote=Remote(),
        max_concurrent=DEFAULT_MAX_CONCURRENT,
        breaker=DEFAULT_BREAKER,
        operation_key=None,
        resource=None,
        purpose="act",
        redact=frozenset(),
        wide_fields=frozenset(),
        allowed_tenants=None,
        text_rule=TextRule.GUARDED,
        max_argument_bytes=8_192,
        max_result_bytes=65_536,
        max_depth=32,
        has_probe=False,
        generic_executor_reason=None,
        digest=contract.digest,
    )


def test_a_tool_says_what_its_function_says_and_runs_where_it_can() -> None:
    async def act(x: int) -> str:
        """Does it.

        In two lines.
        """
        return ""

    tool = made(act)

    assert tool.function is act
    assert tool.contract.description == "Does it.\n\nIn two lines."
    assert tool.contract.isolation is Isolation.ASYNC
    assert made(taking(int)).contract.isolation is Isolation.THREAD

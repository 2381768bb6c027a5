"""What is digested and shown is what runs; what is recorded is what the result contract says."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from typing import Annotated, Any, Literal, NamedTuple

import pytest
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints
from typing_extensions import TypedDict

import placet
from placet import Tool, WideInt
from placet.errors import ContractError, InvalidArguments
from placet.model.identifiers import CallId, RunId
from placet.model.principal import Principal
from placet.rules import operations
from placet.rules.integers import write_integer

WRITE: dict[str, Any] = {"effect": "write", "risk": "medium", "permission": "p"}
AGENT = Principal.agent("a", tenant="acme")


def taking(hint: Any, **options: Any) -> Tool:
    """A write whose one argument `x` has this type."""

    async def act(x): ...  # type: ignore[no-untyped-def]

    act.__annotations__ = {"x": hint, "return": dict[str, str]}
    return placet.tool(**(WRITE | {"name": "act"} | options))(act)


def giving(hint: Any) -> Tool:
    """A read whose result has this type."""

    async def look(): ...  # type: ignore[no-untyped-def]

    look.__annotations__ = {"return": hint}
    return placet.tool(effect="read", name="look")(look)


def refused(tool: Tool, x: object) -> InvalidArguments:
    with pytest.raises(InvalidArguments) as caught:
        tool.check_arguments({"x": x})
    return caught.value


def broken(tool: Tool, value: object) -> str:
    with pytest.raises(InvalidArguments) as caught:
        tool.check_result(value)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    return caught.value.reason


# ---------------------------------------------------------------- what is shown is what runs


def one_pass(path: str) -> str:
    return path.replace("../", "")


@pytest.mark.case("D07")
@pytest.mark.parametrize(
    "options",
    [
        {"approval": "always"},
        {"approval": "by_policy"},
        {"approval": "never"},
        {"operation_key": "d:{x}"},
        {"resource": "file:{x}"},
    ],
)
def test_a_plain_read_whose_normalisation_goes_on_changing_is_refused_too(options: dict[str, Any]) -> None:
    tool = taking(Annotated[str, AfterValidator(one_pass)], effect="read", risk="low", permission=None, **options)

    assert refused(tool, "docs/....//....//x").reason == "normalisation_not_stable"
    assert tool.check_arguments({"x": "a/../b"})[1] == b'{"x":"a/b"}'


# ---------------------------------------------------------------- lazy types


class HoldsLazy(BaseModel):
    items: Iterable[int]


class BuiltLater(BaseModel):
    model_config = ConfigDict(defer_build=True)
    items: Iterable[int]


class FieldNamedLikeASchema(BaseModel):
    default: Iterable[int]


LAZY = [Iterable[int], list[Iterable[int]], HoldsLazy, BuiltLater, FieldNamedLikeASchema, dict[str, HoldsLazy] | None]


@pytest.mark.req("C002", "C003")
@pytest.mark.parametrize("hint", LAZY)
def test_a_type_whose_items_are_checked_only_when_they_are_taken_is_refused(hint: Any) -> None:
    for make in (taking, giving):
        with pytest.raises(ContractError, match="one by one"):
            make(hint)


def test_a_default_value_that_looks_like_a_schema_is_only_a_value() -> None:
    async def act(x: dict[str, str] = {"type": "generator"}) -> str:  # noqa: B006
        return ""

    assert placet.tool(**WRITE)(act).contract.argument_names == ("x",)


# ---------------------------------------------------------------- results


class One(IntEnum):
    ONE = 1


class OneInside(BaseModel):
    k: Literal[1]


@pytest.mark.req("C003")
@pytest.mark.parametrize(
    ("hint", "value"),
    [
        (Literal[1], True),
        (Literal[1], 1.0),
        (Literal[0], False),
        (One, True),
        (One, 1.0),
        (list[Literal[1]], [1, True]),
        (dict[str, One], {"a": 1.0}),
        (OneInside, {"k": True}),
    ],
)
def test_a_result_that_is_only_equal_to_what_was_promised_is_refused(hint: Any, value: object) -> None:
    assert broken(giving(hint), value) == "result_broken"


@pytest.mark.parametrize(("hint", "value"), [(Literal[1], 1), (Literal[True], True), (float, 1), (int | float, 1.0)])
def test_a_result_of_the_promised_type_keeps_its_spelling(hint: Any, value: object) -> None:
    plain, _ = giving(hint).check_result(value)

    assert (type(plain), plain) == (type(value), value)


class Ticket(BaseModel):
    id: int
    more: dict[str, Any] = {}


@dataclass
class Data:
    id: int


class Pair(NamedTuple):
    id: int
    name: str


class Entry(TypedDict):
    at: datetime
    ticket: Ticket


class Open(TypedDict):
    a: Any


class Called(BaseModel):
    name: str = Field(alias="Name")


NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.mark.req("C003", "X005")
@pytest.mark.parametrize(
    ("hint", "value", "plain"),
    [
        (list[Ticket], [Ticket(id=1)], [{"id": 1, "more": {}}]),
        (list[Ticket] | None, [Ticket(id=1)], [{"id": 1, "more": {}}]),
        (dict[str, Data], {"a": Data(1)}, {"a": {"id": 1}}),
        (list[datetime], [NOON], ["2026-01-01T12:00:00Z"]),
        (list[Decimal], [Decimal("1.10")], ["1.10"]),
        (list[One], [One.ONE], [1]),
        (list[Pair], [Pair(1, "x")], [[1, "x"]]),
        (list[tuple[int, str]], [(1, "x")], [[1, "x"]]),
        (tuple[Ticket, ...], (Ticket(id=1),), [{"id": 1, "more": {}}]),
        (dict[int, str], {1: "a", 2: "b"}, {"1": "a", "2": "b"}),
        (Entry, {"at": NOON, "ticket": Ticket(id=1)}, {"at": "2026-01-01T12:00:00Z", "ticket": {"id": 1, "more": {}}}),
        (list[Called], [Called(Name="x")], [{"Name": "x"}]),
    ],
)
def test_a_result_that_holds_typed_values_is_written_as_its_contract_says(hint: Any, value: object, plain: Any) -> None:
    assert giving(hint).check_result(value)[0] == plain


@pytest.mark.req("C003", "B128")
@pytest.mark.parametrize(
    ("hint", "value"),
    [
        (list[Data], [Ticket(id=1)]),
        (list[Ticket], [Ticket.model_construct(id="1")]),
        (list[datetime], [{1}]),
        (list[int], [1, {2}]),
        (dict[str, str], {"a": b"x"}),
        (dict[int | str, str], {1: "a", "1": "b"}),
        (list[Ticket], [object()]),
        (dict[str, Any], {"a": Ticket(id=1)}),
        (list[Any], [NOON]),
        (list[object], [{1, 2}]),
        (Open, {"a": NOON}),
    ],
)
def test_a_typed_value_that_the_contract_does_not_name_is_refused(hint: Any, value: object) -> None:
    assert broken(giving(hint), value).startswith("result_")


# ---------------------------------------------------------------- redacted fields and names


@pytest.mark.parametrize("where", ["resource", "operation_key"])
def test_a_redacted_argument_may_not_be_part_of_a_name_that_is_shown(where: str) -> None:
    async def act(pin: str, card: str) -> str:
        return ""

    options: dict[str, Any] = WRITE | {"redact": ("pin",)}

    with pytest.raises(ContractError, match=f"'pin' is redacted, and {where} is kept and shown"):
        placet.tool(**options | {where: "card:{card}:{pin}"})(act)
    assert placet.tool(**options | {where: "card:{card}"})(act)


# ---------------------------------------------------------------- mapping keys


class Number(Enum):
    ONE = 1


class Word(StrEnum):
    A = "a"


class Keyed(BaseModel):
    inner: list[dict[int, str]]


@pytest.mark.req("B013")
@pytest.mark.parametrize(
    "hint",
    [
        dict[int, str],
        dict[bool, str],
        dict[float, str],
        dict[datetime, str],
        dict[str | int, str],
        dict[Literal["a", 1], str],
        dict[Number, str],
        Mapping[int, str],
        list[dict[str, dict[int, str]]],
        Keyed,
        dict[Annotated[int, AfterValidator(abs)], str],
    ],
)
def test_mapping_keys_that_are_no_text_are_refused(hint: Any) -> None:
    with pytest.raises(ContractError, match="keys"):
        taking(hint)


@pytest.mark.parametrize(
    "hint",
    [
        dict[str, int],
        dict[Any, int],
        dict[Literal["a"], int],
        dict[Word, int],
        dict[Word | Literal["b"], int],
        dict[Annotated[str, StringConstraints(max_length=3)], int],
        dict[Annotated[str, AfterValidator(str.lower)], int],
        Mapping[str, int],
        tuple[dict[Word, int], dict[Word, int]] | dict[Word, int],
        dict,
    ],
)
def test_mapping_keys_that_are_text_are_taken(hint: Any) -> None:
    assert taking(hint).check_arguments({"x": {"a": 1}})[1] == b'{"x":{"a":1}}'


def lowered(value: Any) -> Any:
    return {name.lower(): child for name, child in value.items()}


class Lowering(BaseModel):
    model_config = ConfigDict(str_to_lower=True)
    x: dict[str, int]


class Skipping(BaseModel):
    x: int = Field(0, exclude_if=lambda x: x < 0)


Lower = Annotated[str, StringConstraints(to_lower=True)]


@pytest.mark.req("B013")
@pytest.mark.parametrize(
    ("hint", "value", "path"),
    [
        (dict[Lower, int], {"A": 1, "a": 2}, "/x"),
        (dict[Annotated[str, AfterValidator(str.strip)], int], {"a": 1, " a": 2}, "/x"),
        (Annotated[dict[str, int], BeforeValidator(lowered)], {"A": 1, "a": 2}, "/x"),
        (list[dict[Lower, int]], [{}, {"A": 1, "a": 2}], "/x/1"),
        (dict[Lower, dict[Lower, int]], {"K": {"A": 1, "a": 2}}, "/x"),
        (Lowering, {"A": 1, "a": 2}, "/x"),
        (Skipping, -1, ""),
    ],
)
def test_two_members_that_are_read_as_one_are_refused(hint: Any, value: object, path: str) -> None:
    assert refused(taking(hint), value).problems == ((path, "member_lost"),)


def test_members_that_are_only_renamed_are_taken() -> None:
    assert taking(dict[Lower, dict[Lower, int]]).check_arguments({"x": {"K": {"A": 1}}})[1] == b'{"x":{"k":{"a":1}}}'


# ---------------------------------------------------------------- server names


@pytest.mark.req("B028", "B037", "H006")
@pytest.mark.parametrize(
    "name",
    ["tenant-id", "tenant.id", "x-tenant-id", "X-Tenant-ID", "tenantId", "TENANT ID", "Idempotency-Key", "approvalId",
     "x_principal", "call.context", "operation:key", "\uff54enant"],
)  # fmt: skip
def test_no_spelling_of_a_server_name_is_an_argument(name: str) -> None:
    class Given(BaseModel):
        q: str = Field(alias=name)  # type: ignore[literal-required]

    class Metadata(BaseModel):
        model_config = ConfigDict(populate_by_name=True)
        metadata: Given

    for hint in (Given, list[Given], Metadata):
        with pytest.raises(ContractError, match="server's to say"):
            taking(hint)


@pytest.mark.parametrize("name", ["tenancy", "tenants", "principle", "operation", "key", "max_tenant_ids"])
def test_a_name_that_only_resembles_one_is_taken(name: str) -> None:
    assert taking(TypedDict("Given", {name: str}))  # type: ignore[operator]


# ---------------------------------------------------------------- long integers in keys


def named(tool: Tool, x: int) -> str:
    arguments, _ = tool.check_arguments(f'{{"x":{write_integer(x)}}}')
    return operations.operation_key(
        tool.contract, arguments, AGENT, run_id=RunId("r"), call_id=CallId("c"), caller_key=None
    )


def test_integers_and_truths_keep_their_form_in_a_key() -> None:
    assert named(taking(WideInt, operation_key="k:{x}"), -(10**30)) == '["business","k:{x}",-1' + "0" * 30 + "]"
    assert operations.resource(taking(bool, resource="k:{x}").contract, {"x": True}) == '["k:{x}",true]'


def test_an_interpreter_that_writes_short_integers_only_names_a_long_one() -> None:
    hundreds = int("9" * 900)
    tool = taking(WideInt, operation_key="k:{x}")
    wanted = named(tool, hundreds)

    before = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(640)
    try:
        assert named(tool, hundreds) == wanted
    finally:
        sys.set_int_max_str_digits(before)


def test_an_integer_that_cannot_be_written_is_refused_and_not_raised() -> None:
    contract = taking(WideInt, operation_key="k:{x}", resource="k:{x}").contract

    with pytest.raises(InvalidArguments, match="number too large"):
        operations.resource(contract, {"x": 10**4_300})
    with pytest.raises(InvalidArguments, match="number too large"):
        operations.operation_key(
            contract, {"x": 10**4_300}, AGENT, run_id=RunId("r"), call_id=CallId("c"), caller_key=None
        )

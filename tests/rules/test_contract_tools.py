"""A tool made of a typed function: what it reads, what it hands to the handler, and what it takes back."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Annotated, Any, Literal

import pytest
from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, ValidationError, model_validator

import placet
from placet import CallContext, Principal, Tool
from placet.errors import ContractError, InvalidArguments
from placet.model.attempt import BrokenResult

SECRET = "s3cr3t-value"
WRITE: dict[str, Any] = {"effect": "write", "risk": "medium", "permission": "p", "name": "act"}
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


def taking(hint: Any, **options: Any) -> Tool:
    """A write whose one argument `x` has this type."""

    async def act(x): ...  # type: ignore[no-untyped-def]

    act.__annotations__ = {"x": hint, "return": dict[str, str]}
    return placet.tool(**(WRITE | options))(act)


def giving(hint: Any, **options: Any) -> Tool:
    """A read whose result has this type."""

    async def look(): ...  # type: ignore[no-untyped-def]

    look.__annotations__ = {"return": hint}
    return placet.tool(**({"effect": "read", "name": "look"} | options))(look)


def refusal(ask: Callable[[], object]) -> tuple[str, tuple[tuple[str, str], ...]]:
    with pytest.raises(InvalidArguments) as caught:
        ask()
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    assert SECRET not in f"{caught.value!s} {caught.value!r} {caught.value.problems}"
    return caught.value.reason, caught.value.problems


def broken(tool: Tool, value: object) -> str:
    return refusal(lambda: tool.check_result(value))[0]


# ---------------------------------------------------------------- arguments


@pytest.mark.parametrize("raw", [{"x": 5}, '{"x": 5}', b'{"x": 5}'])
def test_arguments_are_read_from_values_text_and_bytes_alike(raw: object) -> None:
    done = taking(int).read_arguments(raw)

    assert (done.arguments, done.canonical, done.is_repaired) == ({"x": 5}, b'{"x":5}', False)


@pytest.mark.parametrize("raw", [bytearray(b'{"x": 5}'), None, 5, ["x"], {1: 2}, {"x": object()}])
def test_what_is_neither_text_nor_an_object_is_refused(raw: object) -> None:
    assert refusal(lambda: taking(int).read_arguments(raw))[0] in ("not_an_object", "unsupported_value")
    assert refusal(lambda: taking(int).check_arguments(raw))[0] in ("not_an_object", "unsupported_value")


@pytest.mark.case("A03")
def test_a_repair_is_told_and_what_it_does_not_help_is_refused_as_it_stands() -> None:
    tool = taking(int, repair=("double_encoded",))
    done = tool.read_arguments('"{\\"x\\": 5}"')

    assert (done.arguments, done.canonical, done.is_repaired) == ({"x": 5}, b'{"x":5}', True)
    assert not tool.read_arguments({"x": 5}).is_repaired
    assert refusal(lambda: tool.read_arguments("[5]")) == ("not_an_object", (("", "not_an_object"),))
    assert refusal(lambda: tool.read_arguments({"x": "a"})) == ("contract_broken", (("/x", "int_type"),))
    assert refusal(lambda: taking(int).read_arguments('"{\\"x\\": 5}"'))[0] == "not_an_object"


@pytest.mark.req("B074")
def test_arguments_are_no_deeper_than_their_contract_says() -> None:
    async def act(arguments: dict[str, Any]) -> str: ...

    tool = placet.tool_from_schema(act, arguments={"properties": {"x": {"type": "array"}}}, max_depth=3, **WRITE)

    assert tool.check_arguments({"x": [[1]]})
    for raw in ({"x": [[[1]]]}, '{"x": [[[1]]]}'):
        assert refusal(lambda raw=raw: tool.check_arguments(raw))[0] == "too_deep"  # type: ignore[misc]
        assert refusal(lambda raw=raw: tool.read_arguments(raw))[0] == "too_deep"  # type: ignore[misc]


@pytest.mark.req("B020")
def test_what_was_coerced_is_told_by_its_place() -> None:
    assert refusal(lambda: taking(Literal[1]).check_arguments({"x": True})) == (
        "contract_broken",
        (("/x", "coerced"),),
    )
    assert refusal(lambda: taking(list[Literal[1]]).check_arguments({"x": [1, 1.0]})) == (
        "contract_broken",
        (("/x/1", "coerced"),),
    )


def test_a_validator_that_fails_otherwise_is_told_without_a_place() -> None:
    def fail(value: object) -> object:
        raise KeyboardInterrupt(SECRET)

    tool = taking(Annotated[str, BeforeValidator(fail)])

    assert refusal(lambda: tool.check_arguments({"x": SECRET})) == ("contract_broken", (("", "validator_failed"),))


class Order(BaseModel):
    sku: str
    count: int = 1


def test_a_handler_gets_its_members_or_the_whole_model_and_the_context() -> None:
    async def whole(order: Order, here: CallContext) -> str: ...
    async def members(sku: str, count: int = 1) -> str: ...

    by_model = placet.tool(**WRITE)(whole)
    by_member = placet.tool(**WRITE)(members)
    canonical = by_model.check_arguments({"sku": "a", "count": 2})[1]

    assert by_model.handler_arguments(canonical, CONTEXT) == {"order": Order(sku="a", count=2), "here": CONTEXT}
    assert by_member.handler_arguments(canonical, CONTEXT) == {"sku": "a", "count": 2}
    assert by_member.check_arguments({"sku": "a"})[0] == {"sku": "a", "count": 1}
    assert by_model.contract.argument_names == ("sku", "count")


@pytest.mark.req("B019", "B020")
@pytest.mark.parametrize("kept", [b'{"count":"2","sku":"a"}', b'{"count":2,"more":1,"sku":"a"}'])
def test_what_was_kept_is_read_as_strictly_once_more(kept: bytes) -> None:
    async def whole(order: Order) -> str: ...

    with pytest.raises(ValidationError):
        placet.tool(**WRITE)(whole).handler_arguments(kept, CONTEXT)


@pytest.mark.parametrize("hint", [Callable[[int], int], list[Callable[[int], int]]])
def test_a_type_without_a_json_schema_is_refused(hint: Any) -> None:
    with pytest.raises(ContractError, match="its arguments have no JSON Schema"):
        taking(hint)
    with pytest.raises(ContractError, match="its result has no JSON Schema"):
        giving(hint)


def interrupted() -> None:
    raise KeyboardInterrupt(SECRET)


@pytest.mark.parametrize("hint", ["Undefined", "1 +", "1[2]", "interrupted()"])
def test_annotations_that_cannot_be_evaluated_are_refused_without_their_error(hint: str) -> None:
    with pytest.raises(ContractError, match="its annotations cannot be read") as caught:
        taking(hint)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


# ---------------------------------------------------------------- results


@pytest.mark.case("M04")
@pytest.mark.parametrize(
    "how",
    ["broken", "cycle", "duplicate_member", "lone_surrogate", "null_character", "number_not_finite",
     "number_too_large", "string_too_long", "too_deep", "too_large", "too_long", "too_many_members",
     "unsupported_value"],
)  # fmt: skip
def test_what_another_process_says_of_a_result_it_could_not_send_is_told(how: str) -> None:
    assert broken(giving(str), BrokenResult(reason=f"result_{how}")) == f"result_{how}"


@pytest.mark.parametrize("reason", ["", "cycle", "result_", SECRET, f"result_{SECRET}", "result_cycle "])
def test_a_word_we_do_not_know_is_only_a_broken_result(reason: str) -> None:
    assert broken(giving(str), BrokenResult(reason=reason)) == "result_broken"


@pytest.mark.req("B128")
@pytest.mark.parametrize("kind", [ValueError, RuntimeError, KeyboardInterrupt, SystemExit, GeneratorExit])
def test_whatever_a_validator_of_a_result_raises_is_a_broken_result(kind: type[BaseException]) -> None:
    class Raising(BaseModel):
        q: str

        @model_validator(mode="after")
        def fail(self) -> Raising:
            raise kind(SECRET)

    assert broken(giving(Raising), {"q": SECRET}) == "result_broken"


def test_a_result_is_read_back_as_it_was_recorded() -> None:
    tool = giving(dict[str, list[int]], max_result_bytes=100)

    assert tool.read_result(b'{"b": [1], "a": []}') == {"b": [1], "a": []}
    assert giving(int).read_result(b"5") == 5
    for text, reason in (
        (b'{"a":1,"a":2}', "duplicate_member"),
        (b"[1] 2", "not_json"),
        (b"9007199254740993", "number_too_large"),
    ):
        assert refusal(lambda text=text: tool.read_result(text))[0] == reason  # type: ignore[misc]


def test_a_result_of_its_most_bytes_is_read_and_written() -> None:
    tool = giving(str, max_result_bytes=10)

    assert tool.check_result("a" * 8) == ("a" * 8, b'"aaaaaaaa"')
    assert broken(tool, "a" * 9) == "result_too_large"
    assert tool.read_result(b'"aaaaaaaa"') == "a" * 8


class Ticket(BaseModel):
    id: int
    more: Any = None


class LoudSet(set[int]):
    def __iter__(self) -> Any:
        raise RuntimeError(SECRET)


class LoudFrozenSet(frozenset[int]):
    def __iter__(self) -> Any:
        raise RuntimeError(SECRET)


class LoudKind(type):
    def __repr__(cls) -> str:
        raise KeyboardInterrupt(SECRET)


class Unnamed(metaclass=LoudKind):
    pass


class Loud:
    def __repr__(self) -> str:
        raise KeyboardInterrupt(SECRET)


def loud_inside(value: Any) -> list[tuple[Any, Any]]:
    """Result types, and values that break them by holding this one."""
    shared = [1]
    return [
        (set[int], value),
        (list[int], [value]),
        (list[int], [1, value]),
        (list[int], [value, 1]),
        (list[int], [value, {"a": 1}]),
        (tuple[int, ...], (value,)),
        (set[int], {value} if value.__hash__ else value),
        (frozenset[int], frozenset({value}) if value.__hash__ else value),
        (dict[str, int], {"a": value}),
        (dict[str, list[int]], {"a": [1], "b": [value], "c": [1]}),
        (list[list[int]], [shared, shared, [value]]),
        (list[list[int]], [[value], shared, shared]),
        (tuple[list[int], list[int]], ([value], shared)),
        (Ticket, Ticket.model_construct(id=value)),
        (list[Ticket], [Ticket(id=1), Ticket.model_construct(id=[value]), Ticket(id=2)]),
    ]


@pytest.mark.req("B128")
@pytest.mark.parametrize("place", range(15))
@pytest.mark.parametrize("make", [lambda: LoudSet({1}), lambda: LoudFrozenSet({1}), Unnamed, Loud])
def test_the_serialiser_never_prints_what_a_foreign_value_raises(
    make: Callable[[], object], place: int, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    monkeypatch.setattr("sys.unraisablehook", lambda unraisable: told.append(str(unraisable.exc_value)))
    hint, returned = loud_inside(make())[place]

    assert broken(giving(hint), returned) == "result_broken"
    assert told == []
    assert SECRET not in "".join(capfd.readouterr())


@pytest.mark.parametrize(
    ("hint", "value", "plain"),
    [
        (set[int], {1}, [1]),
        (frozenset[int], frozenset({1}), [1]),
        (tuple[int, ...], (1, 2), [1, 2]),
        (bytes, b"a", "a"),
        (list[bytes], [b"a", b"a"], ["a", "a"]),
        (datetime, datetime(2026, 1, 1, tzinfo=UTC), "2026-01-01T00:00:00Z"),
        (dict[str, set[int]], {"a": {1}}, {"a": [1]}),
    ],
)
def test_values_of_known_kinds_are_written(hint: Any, value: object, plain: object) -> None:
    assert giving(hint).check_result(value)[0] == plain


class Zone(tzinfo):
    """A zone of somebody's own: the serialiser asks it for its offset, and nobody for its name."""

    def utcoffset(self, moment: datetime | None) -> timedelta:
        return timedelta(hours=1)

    def __repr__(self) -> str:
        raise RuntimeError(SECRET)


def test_an_instant_is_written_without_printing_its_zone() -> None:
    noon = datetime(2026, 1, 1, 12, tzinfo=Zone())

    assert giving(datetime).check_result(noon)[0] == "2026-01-01T12:00:00+01:00"
    assert giving(list[datetime]).check_result([noon])[0] == ["2026-01-01T12:00:00+01:00"]


def test_a_list_is_written_as_it_stands_where_nothing_is_said_of_what_is_in_it() -> None:
    assert giving(list[Any]).check_result([1, "a"])[0] == [1, "a"]
    assert broken(giving(list[Any]), [datetime(2026, 1, 1, tzinfo=UTC)]) == "result_unsupported_value"


def test_a_value_that_appears_twice_is_written_twice() -> None:
    ticket = Ticket(id=1)
    written = {"id": 1, "more": None}

    assert giving(list[Ticket]).check_result([ticket, ticket])[0] == [written, written]
    assert giving(tuple[Ticket, Ticket]).check_result((ticket, ticket))[0] == [written, written]


class Called(BaseModel):
    name: str = Field(alias="Name")


def test_a_member_has_the_name_by_which_it_is_read() -> None:
    async def act(called: Called) -> Called: ...

    tool = placet.tool(**WRITE)(act)

    assert tool.contract.argument_names == ("Name",)
    assert tool.check_arguments({"Name": "a"}) == ({"Name": "a"}, b'{"Name":"a"}')
    assert tool.check_result(Called(Name="a"))[0] == {"Name": "a"}
    assert tool.check_result({"Name": "a"})[0] == {"Name": "a"}


def test_a_typed_result_that_contains_itself_is_refused() -> None:
    itself: list[Any] = []
    itself += [itself, itself]

    assert broken(giving(Ticket), Ticket.model_construct(id=itself)) == "result_broken"


class Once(BaseModel):
    k: Literal[1] = Field(alias="K")


def test_a_member_is_held_against_its_type_under_the_name_it_is_written_by() -> None:
    assert giving(Once).check_result({"K": 1})[0] == {"K": 1}
    assert broken(giving(Once), {"K": True}) == "result_broken"


def test_a_value_that_its_own_validator_changes_is_no_fault_of_the_library() -> None:
    hint = Annotated[int, AfterValidator(str)]

    assert giving(hint).check_result(5)[0] == 5
    assert refusal(lambda: taking(hint).check_arguments({"x": 5})) == ("contract_broken", (("/x", "int_type"),))


def test_of_plain_values_the_rule_that_they_break_is_told() -> None:
    assert broken(giving(list[str]), ["\ud800"]) == "result_lone_surrogate"
    assert broken(giving(list[str]), ["a\0"]) == "result_null_character"


def test_a_value_of_the_wrong_type_is_refused_without_a_warning_that_repeats_it() -> None:
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        assert broken(giving(list[Ticket]), [Ticket.model_construct(id=SECRET)]) == "result_broken"
        assert broken(giving(Ticket), Ticket.model_construct(id=SECRET)) == "result_broken"
    assert heard == []


def test_the_context_may_stand_before_the_arguments() -> None:
    async def act(here: CallContext, x: int, y: int) -> str: ...

    tool = placet.tool(**WRITE)(act)

    assert tool.contract.argument_names == ("x", "y")
    assert tool.handler_arguments(b'{"x":1,"y":2}', CONTEXT) == {"here": CONTEXT, "x": 1, "y": 2}


def test_a_parameter_that_a_model_would_keep_to_itself_is_refused_and_not_lost() -> None:
    async def hidden(x: int, _y: int) -> str: ...
    async def configured(x: int, model_config: int) -> str: ...

    for function in (hidden, configured):
        with pytest.raises(ContractError, match="its parameters have names or types that cannot be checked"):
            placet.tool(**WRITE)(function)


@pytest.mark.req("B028", "B037")
def test_where_any_member_is_let_in_the_servers_names_are_not() -> None:
    async def act(arguments: dict[str, Any]) -> str: ...

    tool = placet.tool_from_schema(act, arguments={"type": "object"}, open_members=("",), **WRITE)
    names = ["tenant" + "_" * n for n in range(17)]

    assert tool.check_arguments({"anything": 1})
    assert refusal(lambda: tool.check_arguments({"a": 1, "X-Tenant-Id": 1})) == (
        "contract_broken",
        (("/X-Tenant-Id", "extra_forbidden"),),
    )
    assert len(refusal(lambda: tool.check_arguments(dict.fromkeys(names, 1)))[1]) == 16

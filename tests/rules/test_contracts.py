"""Contracts: what can be registered, what arguments and results may be, and what a contract's digest names."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any, Literal

import pytest
from pydantic import (
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    StringConstraints,
    computed_field,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError
from typing_extensions import TypedDict

import placet
from placet import Breaker, CallContext, EffectClass, Isolation, Remote, RetryPolicy, Risk, TextRule, Tool, WideInt
from placet.errors import ContractError, InvalidArguments
from placet.model.contract import Bound, BoundSource, Contract, KeyTemplate, Origin
from placet.model.identifiers import Digest
from placet.rules.contracts import contract_digest

SECRET = "s3cr3t-value"
WRITE: dict[str, Any] = {"effect": "write", "risk": "medium", "permission": "p"}


def taking(hint: Any, **options: Any) -> Tool:
    """A write whose one argument `x` has this type."""

    async def act(x): ...  # type: ignore[no-untyped-def]

    act.__annotations__ = {"x": hint, "return": dict[str, str]}
    return placet.tool(**(WRITE | {"name": "act"} | options))(act)


def taking_model(model: type[BaseModel], **options: Any) -> Tool:
    async def act(x): ...  # type: ignore[no-untyped-def]

    act.__annotations__ = {"x": model, "return": dict[str, str]}
    return placet.tool(**(WRITE | {"name": "act"} | options))(act)


def giving(hint: Any, **options: Any) -> Tool:
    """A read whose result has this type."""

    async def look(): ...  # type: ignore[no-untyped-def]

    look.__annotations__ = {"return": hint}
    return placet.tool(**({"effect": "read", "name": "look"} | options))(look)


def refused(tool: Tool, arguments: object) -> InvalidArguments:
    with pytest.raises(InvalidArguments) as caught:
        tool.check_arguments(arguments)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    assert SECRET not in f"{caught.value!s} {caught.value!r} {caught.value.problems}"
    return caught.value


def canonical(tool: Tool, x: object) -> bytes:
    return tool.check_arguments({"x": x})[1]


# ---------------------------------------------------------------- what can be registered


@pytest.mark.req("C005")
def test_a_contract_carries_what_the_decorator_was_told_and_cannot_be_changed() -> None:
    @placet.tool(
        effect="idempotent_write",
        risk="high",
        permission="ops.ticket.create",
        version="7",
        approval="always",
        timeout_seconds=2,
        retry=RetryPolicy(max_attempts=2),
        remote=Remote(honours_key=True),
        max_concurrent=3,
        breaker=Breaker(faults=4),
        operation_key="ticket:{service}:{title}",
        resource="service:{service}",
        purpose="incident",
        redact=("notes",),
        allowed_tenants=("acme",),
        max_argument_bytes=100,
        max_result_bytes=200,
    )
    async def create_ticket(service: str, title: str, notes: str) -> dict[str, str]:
        """Open a ticket."""
        return {}

    contract = create_ticket.contract
    assert dataclasses.replace(contract, arguments_schema={}, result_schema={}, digest="d") == Contract(
        name="create_ticket",
        version="7",
        description="Open a ticket.",
        arguments_schema={},
        result_schema={},
        argument_names=("service", "title", "notes"),
        effect_class=EffectClass.IDEMPOTENT_WRITE,
        risk=Risk.HIGH,
        permission="ops.ticket.create",
        approval=placet.ApprovalMode.ALWAYS,
        isolation=Isolation.ASYNC,
        timeout_seconds=2.0,
        retry=RetryPolicy(max_attempts=2),
        remote=Remote(honours_key=True),
        max_concurrent=3,
        breaker=Breaker(faults=4),
        operation_key=KeyTemplate(text="ticket:{service}:{title}", fields=("service", "title")),
        resource=KeyTemplate(text="service:{service}", fields=("service",)),
        purpose="incident",
        redact=frozenset({"notes"}),
        wide_fields=frozenset(),
        allowed_tenants=frozenset({"acme"}),
        text_rule=TextRule.GUARDED,
        max_argument_bytes=100,
        max_result_bytes=200,
        max_depth=32,
        has_probe=False,
        generic_executor_reason=None,
        digest="d",
    )
    assert sorted(contract.arguments_schema["properties"]) == ["notes", "service", "title"]  # type: ignore[arg-type]
    assert contract.result_schema["type"] == "object"
    assert not callable(create_ticket)
    with pytest.raises(dataclasses.FrozenInstanceError):
        contract.risk = Risk.LOW  # type: ignore[misc]


def test_a_plain_function_runs_in_a_thread_and_a_coroutine_in_the_loop() -> None:
    @placet.tool(effect="read")
    def plain() -> str:
        return ""

    @placet.tool(effect="read")
    async def coroutine() -> str:
        return ""

    assert (plain.contract.isolation, coroutine.contract.isolation) == (Isolation.THREAD, Isolation.ASYNC)


def plain(x: str) -> dict[str, str]:
    return {}


class Unreadable:
    """A type Pydantic cannot check."""


def untyped(x) -> str: ...  # type: ignore[no-untyped-def]
def no_result(x: str): ...  # type: ignore[no-untyped-def]
def any_result(x: str) -> Any: ...
def many(*x: str) -> str: ...
def named(**x: str) -> str: ...
def only_positional(x: str, /) -> str: ...
def unreadable(x: Unreadable) -> str: ...
def unreadable_result(x: str) -> Unreadable: ...
def takes_set(x: set[int]) -> str: ...
def takes_frozenset(x: list[frozenset[int]]) -> str: ...
def generator(x: str) -> list[int]:
    yield 1  # type: ignore[misc]


async def async_generator(x: str) -> list[int]:
    yield 1  # type: ignore[misc]


def lazy_result(x: str) -> Iterator[int]: ...


@pytest.mark.req("C002", "B028")
@pytest.mark.parametrize(
    "function",
    [
        untyped, no_result, any_result, many, named, only_positional, unreadable, unreadable_result, takes_set,
        takes_frozenset, generator, async_generator, lazy_result,
    ],
)  # fmt: skip
def test_a_function_that_cannot_be_checked_is_refused_at_registration(function: Callable[..., Any]) -> None:
    with pytest.raises(ContractError, match="cannot be registered"):
        placet.tool(**WRITE)(function)


BAD_OPTIONS: dict[str, dict[str, Any]] = {
    "name with a space": {"name": "a b"},
    "name of 65": {"name": "a" * 65},
    "empty name": {"name": "\n"},
    "trailing newline": {"name": "act\n"},
    "look-alike letter": {"name": "d\u0435lete"},
    "invisible letter": {"name": "list_\ufeffitems"},
    "unknown effect": {"effect": "destroy"},
    "unknown risk": {"risk": "none"},
    "unknown approval": {"approval": "sometimes"},
    "unknown text rule": {"text": "any"},
    "write without risk": {"risk": None},
    "write without permission": {"permission": None},
    "sensitive read without risk": {"effect": "sensitive_read", "risk": None},
    "sensitive read without permission": {"effect": "sensitive_read", "permission": None},
    "empty permission": {"permission": ""},
    "endless permission": {"permission": "p" * 201},
    "empty version": {"version": ""},
    "version of another type": {"version": 1},
    "endless version": {"version": "v" * 201},
    "endless purpose": {"purpose": "p" * 201},
    "description of another type": {"description": 7},
    "no attempt": {"retry": RetryPolicy(max_attempts=0)},
    "101 attempts": {"retry": RetryPolicy(max_attempts=101)},
    "true attempts": {"retry": RetryPolicy(max_attempts=True)},
    "delay of zero": {"retry": RetryPolicy(initial_delay_seconds=0)},
    "endless delay": {"retry": RetryPolicy(max_delay_seconds=float("inf"))},
    "retry of another type": {"retry": 3},
    "remote of another type": {"remote": True},
    "retention that is no number": {"remote": Remote(key_retention_seconds=float("nan"))},
    "negative arrival bound": {"remote": Remote(arrival_bound_seconds=-1.0)},
    "key of an unknown field": {"operation_key": "k:{y}"},
    "key without a field": {"operation_key": "k"},
    "key with an open brace": {"operation_key": "k:{x}{"},
    "key that is not ASCII": {"operation_key": "\u043a:{x}"},
    "key of another type": {"operation_key": 7},
    "resource of an unknown field": {"resource": "r:{y}"},
    "redact of an unknown field": {"redact": ("y",)},
    "redact of one text": {"redact": "x"},
    "tenants as one text": {"allowed_tenants": "acme"},
    "empty tenant": {"allowed_tenants": ("",)},
    "no argument byte": {"max_argument_bytes": 0},
    "true argument bytes": {"max_argument_bytes": True},
    "more argument bytes than the decoder reads": {"max_argument_bytes": 262_145},
    "no result byte": {"max_result_bytes": 0},
    "endless result": {"max_result_bytes": 2**40},
    "probe that cannot be called": {"probe": "yes"},
    "generic executor without a reason": {"generic_executor": "  "},
}  # fmt: skip


@pytest.mark.req("C005", "B030")
@pytest.mark.parametrize("case", BAD_OPTIONS)
def test_an_incomplete_or_meaningless_promise_is_refused_at_registration(case: str) -> None:
    with pytest.raises(ContractError, match="cannot be registered"):
        placet.tool(**(WRITE | {"name": "act"} | BAD_OPTIONS[case]))(plain)


@pytest.mark.req("B107")
@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf"), float("-inf"), True, "1", None])
def test_a_deadline_that_is_not_finite_and_positive_is_refused(seconds: Any) -> None:
    with pytest.raises(ContractError, match="timeout_seconds"):
        placet.tool(**WRITE, timeout_seconds=seconds)(plain)


def test_a_plain_read_needs_neither_risk_nor_permission_and_is_low() -> None:
    contract = placet.tool(effect="read")(plain).contract

    assert (contract.risk, contract.permission) == (Risk.LOW, None)


@pytest.mark.req("B028", "B037", "H006")
@pytest.mark.parametrize(
    "name",
    ["tenant", "tenant_id", "tenantId", "Tenant_ID", "principal", "operation_key", "idempotency_key", "approval_id"],
)
def test_no_argument_may_say_what_only_the_server_says(name: str) -> None:
    model = type("Given", (BaseModel,), {"__annotations__": {name: str}})
    nested = type("Outer", (BaseModel,), {"__annotations__": {"items": list[model]}})  # type: ignore[valid-type]

    for shape in (model, nested):
        with pytest.raises(ContractError, match="server's to say"):
            taking_model(shape)


class HiddenByName(BaseModel):
    model_config = ConfigDict(populate_by_name=True)
    tenant_id: str = Field(alias="q")


class HiddenByChoice(BaseModel):
    q: str = Field(validation_alias=AliasChoices("q", "tenant"))


@pytest.mark.req("B028", "B037")
@pytest.mark.parametrize("model", [HiddenByName, HiddenByChoice])
def test_a_hidden_second_name_of_an_argument_may_not_say_it_either(model: type[BaseModel]) -> None:
    with pytest.raises(ContractError, match="server's to say"):
        taking_model(model)


class OtherNameOutside(BaseModel):
    q: str = Field(serialization_alias="question")


class LeftOut(BaseModel):
    q: str = Field("default", exclude=True)


class Computed(BaseModel):
    q: str

    @computed_field  # type: ignore[prop-decorator]
    @property
    def doubled(self) -> str:
        return self.q * 2


class Masked(BaseModel):
    q: SecretStr


@pytest.mark.parametrize("model", [OtherNameOutside, LeftOut, Computed, Masked])
def test_arguments_that_are_written_otherwise_than_read_are_refused(model: type[BaseModel]) -> None:
    with pytest.raises(ContractError, match="cannot be registered"):
        taking_model(model)


@pytest.mark.req("B035")
@pytest.mark.parametrize("name", ["run_shell", "bash", "exec.python", "run-sql", "psql_query", "curl"])
def test_a_name_of_a_generic_executor_is_refused(name: str) -> None:
    with pytest.raises(ContractError, match="generic executor"):
        placet.tool(**WRITE, name=name)(plain)


@pytest.mark.req("B035")
@pytest.mark.parametrize("field", ["command", "sql", "url", "script", "code", "endpoint", "URL"])
def test_an_argument_of_a_generic_executor_is_refused_at_any_depth(field: str) -> None:
    inner = type("Inner", (BaseModel,), {"__annotations__": {field: str}})

    for shape in (inner, dict[str, inner], list[inner] | None):  # type: ignore[valid-type]
        with pytest.raises(ContractError, match="generic executor"):
            taking(shape)


@pytest.mark.req("B035")
def test_a_generic_executor_is_let_in_with_a_written_reason_that_is_part_of_the_contract() -> None:
    tool = placet.tool(**WRITE, name="run_sql", generic_executor="read replica, reviewed in OPS-12")(plain)

    assert tool.contract.generic_executor_reason == "read replica, reviewed in OPS-12"


# ---------------------------------------------------------------- arguments


class Inner(BaseModel):
    model_config = ConfigDict(extra="allow", strict=False)  # the user's own laxity does not count
    n: int


class Typed(TypedDict):
    n: int


@dataclass
class Data:
    n: int


class Left(BaseModel):
    kind: Literal["left"]
    n: int


class Right(BaseModel):
    kind: Literal["right"]
    m: str


NESTED: dict[str, tuple[Any, Any]] = {
    "optional model": (Inner | None, {"n": 1}),
    "list of models": (list[Inner], [{"n": 1}]),
    "dict of models": (dict[str, Inner], {"k": {"n": 1}}),
    "typed dict": (Typed, {"n": 1}),
    "dataclass": (Data, {"n": 1}),
    "list of dataclasses": (list[Data], [{"n": 1}]),
    "tuple": (tuple[Inner, int], [{"n": 1}, 2]),
    "union": (Left | Right, {"kind": "left", "n": 1}),
    "tagged union": (Annotated[Left | Right, Field(discriminator="kind")], {"kind": "left", "n": 1}),
}


def deepest(value: Any) -> dict[str, Any]:
    """The innermost object, the one with `n`."""
    while not (isinstance(value, dict) and "n" in value):
        value = next(iter(value.values())) if isinstance(value, dict) else value[0]
    return value


@pytest.mark.req("B019", "C002")
@pytest.mark.parametrize("shape", NESTED)
def test_an_unknown_member_is_refused_at_every_depth_whatever_the_model_allows(shape: str) -> None:
    import copy

    hint, good = NESTED[shape]
    tool = taking(hint)
    assert tool.check_arguments({"x": good})

    bad = copy.deepcopy(good)
    deepest(bad)["ignore_policy"] = True
    problems = refused(tool, {"x": bad}).problems

    assert any(path.endswith("/ignore_policy") for path, _ in problems), problems
    assert refused(tool, {"x": good, "sql": "x"}).problems[0][0] == "/sql"


@pytest.mark.req("B020")
@pytest.mark.case("A12")
@pytest.mark.parametrize("shape", NESTED)
@pytest.mark.parametrize("value", ["1", 1.0, True, None, [1], " 1 "])
def test_nothing_is_coerced_at_any_depth(shape: str, value: object) -> None:
    import copy

    hint, good = NESTED[shape]
    bad = copy.deepcopy(good)
    deepest(bad)["n"] = value

    refused(taking(hint), {"x": bad})


class Level(Enum):
    LOW = 1
    HIGH = "high"


@pytest.mark.req("B020")
@pytest.mark.case("A12")
@pytest.mark.parametrize(
    ("hint", "value"),
    [
        (int, "5"), (int, " 7 "), (int, "1_000"), (int, True), (int, 5.0),
        (Annotated[int, Field(strict=False)], "5"), (Annotated[int, Field(strict=False)], True),
        (bool, "off"), (bool, 1), (bool, 0), (bool, "true"),
        (float, "nan"), (float, "1.5"), (float, True),
        (str, 7), (str, True), (str, ["a"]), (str, None), (str, {"a": 1}),
        (list[int], {"0": 1}), (list[int], "[1]"), (dict[str, int], [["a", 1]]), (dict[str, int], '{"a":1}'),
        (Literal[1], True), (Literal[1], 1.0), (Literal["a"], "A"), (Level, True), (Level, 1.0), (Level, "LOW"),
        (int | str, True), (int | None, False), (list[Literal[0, 1]], [True]), (dict[str, Literal[1]], {"a": True}),
        (Literal[True], 1),
    ],
)  # fmt: skip
def test_a_value_of_another_type_is_refused_and_not_converted(hint: Any, value: object) -> None:
    refused(taking(hint), {"x": value})


@pytest.mark.parametrize(
    ("hint", "value", "text"),
    [
        (int, 5, b'{"x":5}'),
        (float, 5, b'{"x":5.0}'),
        (float, 1.5, b'{"x":1.5}'),
        (bool, True, b'{"x":true}'),
        (int | str, "5", b'{"x":"5"}'),
        (int | str, 5, b'{"x":5}'),
        (Level, 1, b'{"x":1}'),
        (Literal[1, True], True, b'{"x":true}'),
        (str, '{"k":1}', b'{"x":"{\\"k\\":1}"}'),
        (str, "007", b'{"x":"007"}'),
    ],
)
def test_values_of_the_declared_type_keep_it(hint: Any, value: object, text: bytes) -> None:
    assert canonical(taking(hint), value) == text


def test_json_text_is_decoded_by_the_same_rules() -> None:
    tool = taking(int)

    assert tool.check_arguments('{"x":5}') == tool.check_arguments({"x": 5}) == tool.check_arguments(b' {"x": 5} ')
    assert refused(tool, '{"x":5,"x":5000}').reason == "duplicate_member"
    assert refused(tool, "[5]").reason == "not_an_object"
    assert refused(tool, '{"x":5}{}').reason == "trailing_data"


@pytest.mark.req("B021")
def test_a_missing_required_member_is_named() -> None:
    assert refused(taking(str), {}).problems == (("/x", "missing"),)


@pytest.mark.req("B022", "B083")
def test_text_is_stripped_only_where_the_model_says_so() -> None:
    stripped = taking(Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)])

    assert canonical(stripped, " x ") == canonical(stripped, "x")
    assert canonical(taking(str), " x ") != canonical(taking(str), "x")
    refused(stripped, {"x": "  "})
    refused(stripped, {"x": ""})


@pytest.mark.req("B023")
def test_the_declared_length_is_accepted_and_one_more_is_refused() -> None:
    tool = taking(Annotated[str, Field(max_length=128)])

    assert tool.check_arguments({"x": "q" * 128})
    assert refused(tool, {"x": "q" * 129}).problems == (("/x", "string_too_long"),)


@pytest.mark.req("B073")
def test_canonical_arguments_above_the_contracts_bytes_are_refused() -> None:
    tool = taking(str)

    assert len(canonical(tool, "界" * ((8192 - 8) // 3))) == 8192
    assert refused(tool, {"x": "界" * 3000}).reason == "arguments_too_large"
    assert refused(tool, {"x": "界" * ((8192 - 8) // 3) + "a"}).reason == "arguments_too_large"


@pytest.mark.req("B074")
def test_32_levels_are_accepted_and_33_are_refused() -> None:
    def nested(levels: int) -> Any:
        value: Any = 1
        for _ in range(levels - 1):
            value = [value]
        return {"x": value}

    tool = taking(object)
    assert tool.check_arguments(nested(32))
    assert refused(tool, nested(33)).reason == "too_deep"


@pytest.mark.case("A12")
def test_wide_integers_are_exact_only_where_they_are_declared() -> None:
    class Wide(BaseModel):
        a: WideInt
        many: list[WideInt] = []
        by_name: dict[str, WideInt] = {}
        b: int = 0

    tool = taking_model(Wide)
    giant = 10**40

    assert tool.check_arguments({"a": giant, "many": [giant], "by_name": {"k": giant}})[0]["many"] == [giant]
    assert refused(tool, {"a": 1, "b": 2**53}).problems == (("/b", "number_too_large"),)
    assert refused(taking(int), {"x": giant}).reason == "number_too_large"
    assert tool.contract.wide_fields == {("a",), ("many", "*"), ("by_name", "*")}


@pytest.mark.req("B017", "B084")
@pytest.mark.parametrize(
    "value", [object(), pytest.param(10**5000, id="giant"), "\ud800", b"x", {1: 2}, (1, 2), {1}, float("nan"), 1j]
)
def test_what_is_not_json_is_refused_before_the_model_sees_it(value: object) -> None:
    refused(taking(object), {"x": value})


@pytest.mark.req("B025")
def test_a_refusal_holds_paths_and_fixed_words_and_never_a_value() -> None:
    class Secretive(BaseModel):
        n: int
        token: str

        @field_validator("token")
        @classmethod
        def fail(cls, value: str) -> str:
            raise PydanticCustomError(f"bad_{value.replace('-', '_')}", f"not {value}")  # type: ignore[arg-type]

    error = refused(taking_model(Secretive), {"n": SECRET, "token": SECRET})

    assert error.problems == (("/n", "int_type"), ("/token", "custom_error"))
    assert SECRET.replace("-", "_") not in str(error.problems)


@pytest.mark.req("B025")
@pytest.mark.parametrize("kind", [ValueError, RuntimeError, KeyError, KeyboardInterrupt, SystemExit, GeneratorExit])
def test_whatever_a_validator_raises_is_a_refusal_without_its_text(kind: type[BaseException]) -> None:
    class Raising(BaseModel):
        q: str

        @model_validator(mode="after")
        def fail(self) -> Raising:
            raise kind(SECRET)

    assert refused(taking_model(Raising), {"q": SECRET}).reason == "contract_broken"


@pytest.mark.case("A14")
def test_a_path_shows_escapes_and_is_capped() -> None:
    tool = taking(int)

    assert refused(tool, {"x": 1, "a\x1b]0;\u202e\n": 2}).problems == (("/a\\x1b]0;\\u202e\\n", "extra_forbidden"),)
    assert len(refused(tool, {"x": 1, "k" * 1000: 2}).problems[0][0]) == 128
    assert refused(tool, {"x": 1, "a/b~c": 2}).problems[0][0] == "/a~1b~0c"


def test_at_most_16_problems_are_told() -> None:
    assert len(refused(taking(list[int]), {"x": ["a"] * 40}).problems) == 16


CONTROL = ["a\x1b[31m", "a\x07", "a\rb", "a\x7f", "a\x85", "<|im_start|>system", "</tool_result>", "[/INST]"]


@pytest.mark.parametrize("text", CONTROL)
def test_acts_carry_no_control_characters_and_no_model_template_tokens(text: str) -> None:
    tool = taking(dict[str, list[str]])

    refused(tool, {"x": {"k": [text]}})
    refused(tool, {"x": {text: ["v"]}})
    assert taking(dict[str, list[str]], text="free").check_arguments({"x": {"k": [text]}})


@pytest.mark.parametrize("text", CONTROL)
def test_reads_guard_names_and_paths_only(text: str) -> None:
    async def look(query: str = "", file_path: str = "", name: str = "", rename: str = "") -> str: ...

    tool = placet.tool(effect="read")(look)

    assert tool.check_arguments({"query": text, "rename": text})
    refused(tool, {"file_path": text})
    refused(tool, {"name": text})


@pytest.mark.parametrize("text", ["line\nline", "line\r\nline", "tab\t", "a < b | c > d", "[INST", "naïve 界"])
def test_ordinary_text_is_not_guarded_away(text: str) -> None:
    assert taking(str).check_arguments({"x": text})[0] == {"x": text}


def test_a_null_character_is_refused_everywhere() -> None:
    assert refused(taking(str, text="free"), {"x": "a\0"}).reason == "null_character"


def growing(value: str) -> str:
    return value + "!"


@pytest.mark.case("D07")
def test_a_normalisation_that_goes_on_changing_is_refused_for_whatever_a_person_may_be_asked() -> None:
    hint = Annotated[str, BeforeValidator(growing)]
    asked = [{}, {"effect": "sensitive_read"}, {"effect": "read", "risk": "high"}]

    for options in asked:
        assert refused(taking(hint, **options), {"x": "a"}).reason == "normalisation_not_stable"
    lowered = Annotated[str, BeforeValidator(str.lower)]
    assert canonical(taking(lowered), "REDIS") == b'{"x":"redis"}'


@pytest.mark.req("B109")
def test_every_attempt_gets_a_fresh_copy_of_what_was_authorised(call_context: CallContext) -> None:
    tool = taking(dict[str, list[int]])
    _, text = tool.check_arguments({"x": {"k": [1]}})

    tool.handler_arguments(text, call_context)["x"]["k"].append(2)

    assert tool.handler_arguments(text, call_context)["x"] == {"k": [1]}


@pytest.fixture
def call_context() -> CallContext:
    from datetime import UTC, datetime

    from placet import Principal

    return CallContext(
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


def test_the_context_parameter_is_the_servers_and_no_argument(call_context: CallContext) -> None:
    async def act(x: int, here: CallContext) -> str: ...

    tool = placet.tool(**WRITE)(act)

    assert tool.contract.argument_names == ("x",)
    assert tool.handler_arguments(b'{"x":1}', call_context) == {"x": 1, "here": call_context}
    assert refused(tool, {"x": 1, "here": {}}).problems == (("/here", "extra_forbidden"),)


# ---------------------------------------------------------------- results


class Receipt(BaseModel):
    ticket: str
    count: int


@pytest.mark.req("C003", "X005")
@pytest.mark.parametrize(
    ("hint", "value", "plain"),
    [
        (str, "x", "x"),
        (str, "", ""),
        (int, 3, 3),
        (bool, False, False),
        (float, 1.5, 1.5),
        (None, None, None),
        (list[int], [1, 2], [1, 2]),
        (list[int], [], []),
        (dict[str, int], {"a": 1}, {"a": 1}),
        (Receipt, Receipt(ticket="T", count=1), {"ticket": "T", "count": 1}),
        (Receipt, {"ticket": "T", "count": 1}, {"ticket": "T", "count": 1}),
        (list[Receipt], [{"ticket": "T", "count": 1}], [{"ticket": "T", "count": 1}]),
        (Data, Data(n=1), {"n": 1}),
        (tuple[int, str], (1, "a"), [1, "a"]),
        (Literal["done"], "done", "done"),
        (WideInt, 10**30, 10**30),
    ],
)
def test_a_result_of_its_contract_becomes_plain_json(hint: Any, value: object, plain: object) -> None:
    assert giving(hint).check_result(value)[0] == plain


@pytest.mark.parametrize(
    "tool",
    [
        giving(dict[str, Any]),
        placet.tool_from_schema(lambda given: None, name="look", arguments={"properties": {}}, effect="read"),
    ],
    ids=["typed", "of any result"],
)
def test_a_result_is_a_copy_in_the_order_that_its_replay_will_have(tool: Tool) -> None:
    returned = {"b": [{"d": 1, "c": 2}], "a": 1}

    plain, recorded = tool.check_result(returned)
    in_order, recorded_in_order = tool.check_result(json.loads(recorded))

    assert json.dumps(plain) == json.dumps(tool.read_result(recorded)) == '{"a": 1, "b": [{"c": 2, "d": 1}]}'
    assert json.dumps(in_order) == json.dumps(plain) and recorded_in_order == recorded
    returned["b"].append("later")
    assert plain == in_order


def test_arguments_that_are_what_was_read_are_read_once_and_completed_ones_twice() -> None:
    """Twice, because what is named and approved must be what runs; once, where reading changed nothing."""
    read: list[str] = []

    class Wish(BaseModel):
        word: str
        times: int = 1

        @field_validator("word")
        @classmethod
        def noted(cls, word: str) -> str:
            read.append(word)
            return word

    tool = taking_model(Wish)
    assert tool.check_arguments({"word": "as it is", "times": 1})[0] == {"word": "as it is", "times": 1}
    assert tool.check_arguments({"word": "completed"})[0] == {"word": "completed", "times": 1}

    assert read == ["as it is", "completed", "completed"]


def broken(tool: Tool, value: object) -> str:
    with pytest.raises(InvalidArguments) as caught:
        tool.check_result(value)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    return caught.value.reason


class HostileResult:
    """Neither mapping nor model; whatever looks at it hears an error."""

    def __init__(self, error: BaseException) -> None:
        self.__dict__["error"] = error

    def _raise(self, *_: object) -> Any:
        raise self.__dict__["error"]

    __iter__ = keys = items = __len__ = __getitem__ = __getattr__ = __str__ = __repr__ = __eq__ = __hash__ = _raise


class DictChild(dict[str, object]):
    def _raise(self, *_: object) -> Any:
        raise RuntimeError(SECRET)

    __iter__ = keys = values = items = __len__ = __getitem__ = get = _raise  # type: ignore[assignment]


@pytest.mark.req("C003", "B128", "B031")
@pytest.mark.case("M04")
@pytest.mark.parametrize(
    ("hint", "value"),
    [
        (dict[str, str], "<html>"),
        (dict[str, str], None),
        (dict[str, str], ["a"]),
        (dict[str, str], {"a": 1}),
        (dict[str, str], {1: "a"}),
        (dict[str, str], {"a": "\ud800"}),
        (dict[str, str], {"a": "\0"}),
        (dict[str, object], {"a": {1, 2}}),
        (dict[str, object], {"a": b"x"}),
        (dict[str, object], {"a": float("nan")}),
        (dict[str, object], {"a": 2**60}),
        (dict[str, object], {"a": object()}),
        (Receipt, {"ticket": "T"}),
        (Receipt, {"ticket": "T", "count": "1"}),
        (Receipt, {"ticket": "T", "count": 1, "more": 1}),
        (int, "3"),
        (int, True),
        (str, b"x"),
        (int, 2**60),
    ],
)
def test_a_result_that_breaks_its_contract_is_refused(hint: Any, value: object) -> None:
    assert broken(giving(hint), value).startswith("result_")


@pytest.mark.req("B128")
@pytest.mark.parametrize("kind", [RuntimeError, KeyboardInterrupt, SystemExit, GeneratorExit])
def test_a_hostile_result_is_refused_without_its_text(kind: type[BaseException]) -> None:
    assert broken(giving(dict[str, object]), HostileResult(kind(SECRET))) == "result_broken"
    assert broken(giving(dict[str, object]), {"a": HostileResult(kind(SECRET))}) == "result_unsupported_value"
    assert broken(giving(Receipt), HostileResult(kind(SECRET))) == "result_broken"


@pytest.mark.req("B128")
def test_a_dict_subclass_is_read_as_the_dict_it_is_and_none_of_its_methods_runs() -> None:
    assert giving(dict[str, object]).check_result(DictChild(a="1"))[0] == {"a": "1"}


@pytest.mark.req("B129")
def test_a_result_that_contains_itself_is_refused() -> None:
    result: dict[str, Any] = {}
    result["self"] = result

    assert broken(giving(dict[str, object]), result) == "result_cycle"


@pytest.mark.req("H002")
def test_a_result_of_65536_bytes_is_accepted_and_one_more_is_refused() -> None:
    tool = giving(str)

    assert tool.check_result("a" * 65_534)
    assert broken(tool, "a" * 65_535) == "result_too_large"


def test_a_contract_may_ask_for_larger_results() -> None:
    tool = giving(str, max_result_bytes=1_000_000)

    assert tool.check_result("a" * 999_998)
    assert broken(tool, "a" * 999_999) == "result_too_large"
    assert giving(list[int], max_result_bytes=1_000_000).check_result([1] * 400_000)


def test_a_result_may_be_32_levels_deep_and_not_33() -> None:
    def nested(levels: int) -> Any:
        value: Any = 1
        for _ in range(levels):
            value = [value]
        return value

    tool = giving(object)
    assert tool.check_result(nested(32))
    assert broken(tool, nested(33)) == "result_too_deep"


# ---------------------------------------------------------------- digest


CONTRACT = taking(str, operation_key="k:{x}", probe=None).contract
"""A contract to be changed one field at a time."""

OTHER: dict[str, Any] = {
    "name": "other",
    "version": "2",
    "description": "Something else.",
    "arguments_schema": {"type": "object"},
    "result_schema": {"type": "string"},
    "effect_class": EffectClass.IRREVERSIBLE,
    "risk": Risk.CRITICAL,
    "permission": "q",
    "approval": placet.ApprovalMode.ALWAYS,
    "isolation": Isolation.THREAD,
    "timeout_seconds": 10.5,
    "retry": RetryPolicy(max_attempts=4),
    "remote": Remote(honours_key=True),
    "max_concurrent": 1,
    "breaker": None,
    "operation_key": KeyTemplate(text="k2:{x}", fields=("x",)),
    "resource": KeyTemplate(text="r:{x}", fields=("x",)),
    "purpose": "other",
    "redact": frozenset({"x"}),
    "wide_fields": frozenset({("x",)}),
    "allowed_tenants": frozenset({"acme"}),
    "text_rule": TextRule.FREE,
    "max_argument_bytes": 8_193,
    "max_result_bytes": 65_537,
    "max_depth": 31,
    "has_probe": True,
    "generic_executor_reason": "because",
    "repair": frozenset({placet.Repair.CODE_FENCE}),
    "origin": Origin(server="desk", tool="create", pin=Digest("0" * 64)),
    "bind": (Bound(member="tenant", source=BoundSource.TENANT),),
}
DERIVED = {"argument_names", "digest", "max_concurrent", "breaker", "authored_schema", "retention_seconds"}
"""Said by the schema already; the digest itself; when a call may run, and how long its record is kept, which change
nothing about what it does: an approval is for the same act."""


@pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(Contract)])
def test_the_digest_changes_with_every_meaningful_field_and_with_nothing_else(name: str) -> None:
    changed = dataclasses.replace(CONTRACT, **{name: OTHER.get(name, ("y",) if name == "argument_names" else "d")})

    assert (contract_digest(changed) != contract_digest(CONTRACT)) is (name not in DERIVED)


@pytest.mark.parametrize(
    "change",
    [
        {"retry": RetryPolicy(initial_delay_seconds=0.5)},
        {"retry": RetryPolicy(max_delay_seconds=11.0)},
        {"remote": Remote(key_retention_seconds=60.0)},
        {"remote": Remote(refuses_late=True)},
        {"remote": Remote(arrival_bound_seconds=1.0)},
        {"remote": Remote(co_commits=True)},
    ],
)
def test_the_digest_changes_with_every_part_of_a_field(change: dict[str, Any]) -> None:
    assert contract_digest(dataclasses.replace(CONTRACT, **change)) != contract_digest(CONTRACT)


OF_DESK = Origin(server="desk", tool="create", pin=Digest("0" * 64))
FIXED = Bound(member="queue", source=BoundSource.FIXED, value="a")


@pytest.mark.req("H053")
@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"origin": OF_DESK}, {"origin": dataclasses.replace(OF_DESK, server="des2")}),
        ({"origin": OF_DESK}, {"origin": dataclasses.replace(OF_DESK, tool="create2")}),
        ({"origin": OF_DESK}, {"origin": dataclasses.replace(OF_DESK, pin=Digest("1" * 64))}),
        ({"origin": OF_DESK}, {"origin": dataclasses.replace(OF_DESK, way=Digest("1" * 64))}),
        ({"bind": (FIXED,)}, {"bind": (dataclasses.replace(FIXED, member="other"),)}),
        ({"bind": (FIXED,)}, {"bind": (dataclasses.replace(FIXED, value="b"),)}),
        ({"bind": (FIXED,)}, {"bind": (dataclasses.replace(FIXED, value=None, source=BoundSource.RUN),)}),
        ({"bind": (dataclasses.replace(FIXED, value=1),)}, {"bind": (dataclasses.replace(FIXED, value=True),)}),
    ],
    ids=["server", "tool", "pin", "way", "member", "value", "source", "type of the value"],
)
def test_the_digest_changes_with_every_part_of_where_a_tool_lives_and_of_what_is_bound(
    one: dict[str, Any], other: dict[str, Any]
) -> None:
    assert contract_digest(dataclasses.replace(CONTRACT, **one)) != contract_digest(
        dataclasses.replace(CONTRACT, **other)
    )


def test_the_digest_is_the_same_for_the_same_promise_and_a_hash() -> None:
    again = taking(str, operation_key="k:{x}", probe=None).contract

    assert again.digest == CONTRACT.digest
    assert len(again.digest) == 64


def test_the_order_of_sets_does_not_matter() -> None:
    one = taking_model(type("M", (BaseModel,), {"__annotations__": {"a": str, "b": str}}), redact=("a", "b"))
    two = taking_model(type("M", (BaseModel,), {"__annotations__": {"a": str, "b": str}}), redact=("b", "a"))

    assert one.contract.digest == two.contract.digest

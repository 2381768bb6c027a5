"""Each option of a contract at its bounds, and the sentence that says what it may be."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any

import pytest
from pydantic import Field

import placet
from placet import Breaker, Isolation, Remote, Repair, RetryPolicy, Tool
from placet.errors import ContractError
from placet.model.contract import KeyTemplate
from placet.rules.contracts import contract_digest

WRITE: dict[str, Any] = {"effect": "write", "risk": "medium", "permission": "p", "name": "act"}


def plain(x: str = "", y: str = "") -> dict[str, str]:
    return {}


async def coroutine(x: str) -> dict[str, str]:
    return {}


def made(function: Callable[..., Any] = plain, **options: Any) -> Tool:
    return placet.tool(**(WRITE | options))(function)


def from_schema(function: Callable[..., Any] = plain, **options: Any) -> Tool:
    async def handler(arguments: dict[str, Any]) -> dict[str, str]:
        return {}

    schema = {"type": "object", "properties": {"x": {"type": "string"}, "y": {"type": "string"}}}
    return placet.tool_from_schema(handler, arguments=schema, **(WRITE | options))


def changed(value: Any, **fields: object) -> Any:
    """A frozen value past its own checks."""
    for name, field in fields.items():
        object.__setattr__(value, name, field)
    return value


def why(function: Callable[..., Any] = plain, **options: Any) -> str:
    """What the refusal says after the tool's name."""
    with pytest.raises(ContractError) as caught:
        made(function, **options)
    assert caught.value.tool == options.get("name", "act")
    beginning = f"The tool {caught.value.tool!r} cannot be registered: "
    assert str(caught.value).startswith(beginning)
    assert str(caught.value).endswith(".")
    return str(caught.value).removeprefix(beginning)[:-1]


# ---------------------------------------------------------------- what each option may be


@pytest.mark.req("C005", "B030")
@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"effect": "destroy"}, "effect is one of read, sensitive_read, idempotent_write, write, irreversible"),
        ({"risk": "none"}, "risk is one of low, medium, high, critical"),
        ({"approval": "maybe"}, "approval is one of never, by_policy, always"),
        ({"text": "any"}, "text is one of guarded, free"),
        ({"isolation": "vm"}, "isolation is one of async, thread, process"),
        ({"repair": ("all",)}, "repair is one of double_encoded, code_fence"),
        ({"timeout_seconds": 0}, "timeout_seconds is a finite number above zero"),
        ({"permission": ""}, "permission is printable text of 1 to 200 characters"),
        ({"version": "v" * 201}, "version is printable text of 1 to 200 characters"),
        ({"purpose": "a\nb"}, "purpose is printable text of 1 to 200 characters"),
        ({"description": 7}, "description is text"),
        ({"generic_executor": 7}, "generic_executor is text"),
        ({"operation_key": 7}, "operation_key is text"),
        ({"resource": "\ud800{x}"}, "resource is text"),
        ({"max_argument_bytes": 0}, "max_argument_bytes is an integer from 1 to 262144"),
        ({"max_result_bytes": 0}, "max_result_bytes is an integer from 1 to 16777216"),
        ({"max_concurrent": 0}, "max_concurrent is an integer from 1 to 10000"),
        ({"breaker": 3}, "breaker is a Breaker, or None for none"),
        ({"breaker": Breaker(faults=0)}, "breaker.faults is an integer from 1 to 1000"),
        ({"breaker": Breaker(probes=0)}, "breaker.probes is an integer from 1 to 100"),
        ({"breaker": Breaker(within_seconds=0)}, "breaker.within_seconds is a finite number above zero"),
        ({"breaker": Breaker(open_seconds=0)}, "breaker.open_seconds is a finite number above zero"),
        ({"retry": 3}, "retry is a RetryPolicy"),
        ({"retry": RetryPolicy(max_attempts=0)}, "retry.max_attempts is an integer from 1 to 100"),
        (
            {"retry": RetryPolicy(initial_delay_seconds=0)},
            "retry.initial_delay_seconds is a finite number above zero",
        ),
        ({"retry": RetryPolicy(max_delay_seconds=0)}, "retry.max_delay_seconds is a finite number above zero"),
        ({"remote": 3}, "remote is a Remote"),
        ({"remote": Remote(key_retention_seconds=0)}, "remote.key_retention_seconds is a finite number above zero"),
        ({"remote": Remote(arrival_bound_seconds=0)}, "remote.arrival_bound_seconds is a finite number above zero"),
        (
            {"remote": Remote(co_commits=True, honours_key=True)},
            "remote.co_commits says that there is no remote, so remote says nothing else",
        ),
        (
            {"remote": Remote(co_commits=True, arrival_bound_seconds=1.0)},
            "remote.co_commits says that there is no remote, so remote says nothing else",
        ),
        ({"remote": Remote(co_commits=True), "effect": "read"}, "remote.co_commits is for writes"),
        ({"remote": Remote(co_commits=True), "effect": "sensitive_read"}, "remote.co_commits is for writes"),
        ({"remote": changed(Remote(), co_commits=1)}, "remote.co_commits is True or False"),
        ({"remote": changed(Remote(), honours_key=1)}, "remote.honours_key and remote.refuses_late are True or False"),
        ({"remote": changed(Remote(), refuses_late=1)}, "remote.honours_key and remote.refuses_late are True or False"),
        (
            {"allowed_tenants": "acme"},
            "allowed_tenants is a sequence of tenants, each a text of 1 to 128 characters",
        ),
        ({"retention_seconds": 86_399.0}, "retention_seconds is a finite number of seconds, of one day or more"),
        ({"retention_seconds": "1"}, "retention_seconds is a finite number of seconds, of one day or more"),
        ({"description": "\ud800"}, "description is text"),
        (
            {"repair": ("code_fence",), "risk": "high"},
            "at risk high or critical nothing is repaired; what was proposed is run or refused",
        ),
        ({"repair": "code_fence"}, "repair is a sequence of kinds, not one text"),
        ({"redact": "x"}, "redact is a sequence of names, not one text"),
        ({"redact": (1,)}, "redact is a sequence of names, not one text"),
        ({"redact": ("x", "g", "f", "e", "d", "c", "b")}, "redact names no argument: b, c, d, e, f"),
        ({"operation_key": "{x}{b}{a}"}, "operation_key names no argument: a, b"),
        ({"resource": "{b}"}, "resource names no argument: b"),
        (
            {"resource": "{y}{x}", "redact": ("y", "x")},
            "the argument 'x' is redacted, and resource is kept and shown in clear",
        ),
        (
            {"operation_key": "k"},
            'operation_key is ASCII text with at least one argument in braces, such as "order:{order_id}"',
        ),
    ],
)  # fmt: skip
def test_a_refused_option_is_named_with_what_it_may_be(options: dict[str, Any], sentence: str) -> None:
    assert why(**options) == sentence


@pytest.mark.req("C005", "B030")
@pytest.mark.parametrize(
    "options",
    [
        {"remote": changed(Remote(), honours_key=1)},
        {"remote": changed(Remote(), refuses_late="no")},
        {"allowed_tenants": ("acme", 1)},
        {"allowed_tenants": ("t" * 129,)},
        {"allowed_tenants": "acme"},
        {"operation_key": "{1x}"},
        {"operation_key": "{x}{"},
        {"operation_key": "é{x}"},
        {"probe": 7},
        {"risk": None},
        {"permission": None},
        {"generic_executor": " \n"},
        {"repair": ("code_fence",), "risk": "high"},
        {"repair": ("code_fence",), "risk": "critical"},
        {"breaker": Breaker(faults=True)},
        {"retry": RetryPolicy(max_attempts=2.0)},  # type: ignore[arg-type]
        {"max_concurrent": 10_001},
        {"max_argument_bytes": 262_145},
        {"max_result_bytes": 16_777_217},
        {"breaker": Breaker(faults=1_001)},
        {"breaker": Breaker(probes=101)},
        {"retry": RetryPolicy(max_attempts=101)},
        {"permission": 7},
    ],
)
def test_an_option_that_means_nothing_is_refused(options: dict[str, Any]) -> None:
    assert why(**options)


@pytest.mark.parametrize("make", [made, from_schema])
@pytest.mark.parametrize(
    ("options", "name", "value"),
    [
        ({"permission": "p" * 200}, "permission", "p" * 200),
        ({"version": "v"}, "version", "v"),
        ({"max_argument_bytes": 1}, "max_argument_bytes", 1),
        ({"max_argument_bytes": 262_144}, "max_argument_bytes", 262_144),
        ({"max_result_bytes": 16_777_216}, "max_result_bytes", 16_777_216),
        ({"max_concurrent": 1}, "max_concurrent", 1),
        ({"max_concurrent": 10_000}, "max_concurrent", 10_000),
        ({}, "max_concurrent", placet.tool.__kwdefaults__["max_concurrent"]),
        ({}, "breaker", Breaker()),
        ({"breaker": None}, "breaker", None),
        ({"breaker": Breaker(faults=1, probes=1)}, "breaker", Breaker(faults=1, probes=1)),
        ({"breaker": Breaker(faults=1_000, probes=100)}, "breaker", Breaker(faults=1_000, probes=100)),
        ({}, "retry", RetryPolicy()),
        ({"retry": RetryPolicy(max_attempts=1)}, "retry", RetryPolicy(max_attempts=1)),
        ({"retry": RetryPolicy(max_attempts=100)}, "retry", RetryPolicy(max_attempts=100)),
        ({}, "remote", Remote()),
        ({"remote": Remote(refuses_late=True)}, "remote", Remote(refuses_late=True)),
        (
            {"remote": Remote(key_retention_seconds=60, arrival_bound_seconds=5.5)},
            "remote",
            Remote(key_retention_seconds=60, arrival_bound_seconds=5.5),
        ),
        ({}, "purpose", "act"),
        ({"purpose": "incident"}, "purpose", "incident"),
        ({}, "resource", None),
        ({}, "operation_key", None),
        ({}, "allowed_tenants", None),
        ({"allowed_tenants": []}, "allowed_tenants", frozenset()),
        ({"allowed_tenants": ["t" * 128]}, "allowed_tenants", frozenset({"t" * 128})),
        ({"repair": ["code_fence"]}, "repair", frozenset({Repair.CODE_FENCE})),
        ({}, "repair", frozenset()),
        ({"redact": ["x"]}, "redact", frozenset({"x"})),
        ({"redact": ["x"], "resource": "{y}"}, "redact", frozenset({"x"})),
        ({}, "has_probe", False),
        ({"probe": plain}, "has_probe", True),
        ({}, "has_precondition", False),
        ({"precondition": plain}, "has_precondition", True),
        ({"description": "Said."}, "description", "Said."),
        ({"timeout_seconds": 3}, "timeout_seconds", 3.0),
        ({}, "timeout_seconds", 10.0),
        ({}, "text_rule", placet.TextRule.GUARDED),
        ({}, "approval", placet.ApprovalMode.BY_POLICY),
        ({}, "max_argument_bytes", 8_192),
        ({}, "max_result_bytes", 65_536),
        ({}, "version", "1"),
        ({"generic_executor": "known"}, "generic_executor_reason", "known"),
        ({"effect": "irreversible"}, "effect_class", placet.EffectClass.IRREVERSIBLE),
        ({"risk": "critical"}, "risk", placet.Risk.CRITICAL),
        ({"risk": None, "effect": "read"}, "risk", placet.Risk.LOW),
        ({"approval": "always"}, "approval", placet.ApprovalMode.ALWAYS),
        ({"text": "free"}, "text_rule", placet.TextRule.FREE),
        ({"operation_key": "k:{y}{x}"}, "operation_key", KeyTemplate(text="k:{y}{x}", fields=("y", "x"))),
        ({"resource": "r:{x}"}, "resource", KeyTemplate(text="r:{x}", fields=("x",))),
        ({}, "retention_seconds", None),
        ({"retention_seconds": 86_400}, "retention_seconds", 86_400.0),
        ({"repair": ["code_fence"], "risk": "low"}, "repair", frozenset({Repair.CODE_FENCE})),
    ],
)
def test_an_option_at_its_bounds_and_by_itself_is_in_the_contract(
    make: Callable[..., Tool], options: dict[str, Any], name: str, value: object
) -> None:
    assert getattr(make(**options).contract, name) == value


def test_a_probe_stays_with_its_tool() -> None:
    assert made(probe=plain).probe is plain
    assert from_schema(probe=plain).probe is plain
    assert made(precondition=plain).precondition is plain
    assert from_schema(precondition=plain).precondition is plain


def test_a_description_is_the_functions_where_none_is_given() -> None:
    def act(x: str) -> str:
        """Says what it does."""
        return ""

    assert made(act).contract.description == "Says what it does."
    assert made(act, description="").contract.description == "Says what it does."
    assert made(act, description="Otherwise.").contract.description == "Otherwise."
    assert made().contract.description == ""


@pytest.mark.parametrize("name", ["", "a" * 65, "a b", "a\n", 7, None])
def test_without_a_name_that_can_be_said_nothing_is_registered(name: Any) -> None:
    with pytest.raises(ContractError, match=r"a name is 1 to 64 characters of a-z A-Z 0-9 _ \. -"):
        from_schema(name=name)


def test_a_name_of_64_characters_is_taken_and_the_functions_is_used_where_none_is_given() -> None:
    assert made(name="a" * 64).contract.name == "a" * 64
    assert made(name=None).contract.name == "plain"
    with pytest.raises(ContractError, match="a name is 1 to 64 characters"):
        made(partial(plain), name=None)


def test_a_plain_read_needs_no_more_than_its_effect() -> None:
    assert why(risk=None) == "it needs a risk: low, medium, high or critical"
    assert why(permission=None) == "it needs a permission, the scope its callers must hold"
    assert why(probe=7) == "probe is a function of a ProbeContext"
    assert why(precondition=7) == "precondition is a function of a ProbeContext"
    without = "approval is 'never', so there is no approval that its precondition could bind"
    assert why(precondition=plain, approval="never") == without
    contract = made(effect="read", risk=None, permission=None).contract
    assert (contract.risk.value, contract.permission) == ("low", None)


# ---------------------------------------------------------------- where it runs


def test_a_function_runs_where_it_was_asked_to() -> None:
    assert made(plain).contract.isolation is Isolation.THREAD
    assert made(plain, isolation="thread").contract.isolation is Isolation.THREAD
    assert made(plain, isolation=Isolation.PROCESS).contract.isolation is Isolation.PROCESS
    assert made(coroutine).contract.isolation is Isolation.ASYNC
    assert made(coroutine, isolation="async").contract.isolation is Isolation.ASYNC
    assert made(coroutine, isolation="process").contract.isolation is Isolation.PROCESS


@pytest.mark.parametrize(("function", "wanted"), [(plain, "async"), (coroutine, "thread")])
def test_a_function_of_the_other_kind_is_refused(function: Callable[..., Any], wanted: str) -> None:
    assert why(function, isolation=wanted) == "isolation 'async' is for coroutine functions and 'thread' for all others"


def test_a_function_that_a_new_process_could_not_import_is_refused() -> None:
    def inside(x: str) -> str:
        return ""

    assert why(inside, isolation="process").startswith("a new process could not import it")
    assert made(inside).contract.isolation is Isolation.THREAD
    assert made(inside, isolation="thread").contract.isolation is Isolation.THREAD


# ---------------------------------------------------------------- digest


def test_the_digest_names_which_repairs_and_which_open_places_and_not_their_order() -> None:
    def digest(**changes: Any) -> str:
        return contract_digest(dataclasses.replace(made().contract, **changes))

    fence, encoded = frozenset({Repair.CODE_FENCE}), frozenset({Repair.DOUBLE_ENCODED})
    assert len({digest(), digest(repair=fence), digest(repair=encoded), digest(repair=fence | encoded)}) == 4
    for places in ("open_members", "open_result_members"):
        assert len({digest(), digest(**{places: ("/a",)}), digest(**{places: ("/b",)})}) == 3
        assert digest(**{places: ("/a", "/b")}) == digest(**{places: ("/b", "/a")})


# ---------------------------------------------------------------- co-commit


@pytest.mark.parametrize("effect", ["write", "idempotent_write", "irreversible"])
def test_every_write_may_co_commit_in_the_process_of_the_gate(effect: str) -> None:
    remote = Remote(co_commits=True)

    @placet.tool(effect=effect, risk="low", permission="p", remote=remote)
    def blocking(x: str) -> str: ...

    @placet.tool(effect=effect, risk="low", permission="p", remote=remote)
    async def awaiting(x: str) -> str: ...

    assert blocking.contract.remote == awaiting.contract.remote == remote


def test_a_handler_in_a_process_of_its_own_cannot_co_commit() -> None:
    sentence = "a handler in a process of its own has no transaction of the gate to co-commit in"

    assert why(plain, remote=Remote(co_commits=True), isolation="process") == sentence


@pytest.mark.parametrize("value", [1, "yes", None])
def test_remote_says_whether_it_co_commits_as_a_truth_value(value: Any) -> None:
    with pytest.raises(placet.errors.MisuseError, match=r"^Remote's co_commits is True or False\.$"):
        Remote(co_commits=value)


def test_a_promise_that_cannot_be_written_down_is_refused() -> None:
    def act(x: Annotated[str, Field(description="\ud800")]) -> str: ...

    assert why(act) == "its contract has no canonical form (lone surrogate)"

"""Hostile values in everything that is set before the first call: options, settings, principals, the opening itself."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import placet
from placet import Breaker, GateSettings, Principal, Refused, Remote, Requirement, RetryPolicy, Tool
from placet.errors import ConfigurationError, ContractError, MisuseError, PlacetError
from placet.rules.policy import Matrix
from tests.engine.conftest import OPERATOR, OpenWorld, Spy, looked_up
from tests.hostile.conftest import SECRET, Watch

OPTIONS = (
    *("effect", "risk", "permission", "name", "version", "description", "approval", "timeout_seconds", "retry"),
    *("remote", "max_concurrent", "breaker", "operation_key", "resource", "purpose", "probe", "redact"),
    *("allowed_tenants", "text", "max_argument_bytes", "max_result_bytes", "generic_executor", "repair", "isolation"),
)
ACCEPTED = {
    "description": ("long text",),
    "generic_executor": ("long text",),
    "allowed_tenants": ("wide list", "set of texts"),
    "probe": ("class", "function", "raising object", "object that answers everything"),
}
"""What an option lets in: any text describes, and whatever can be called may be a probe, which is asked guardedly."""


def made_with(option: str, value: object) -> Any:
    options: dict[str, Any] = {"effect": "write", "risk": "low", "permission": "w", option: value}

    async def act(order_id: str) -> str:
        """Act."""
        return order_id

    return placet.tool(**options)(act)


def nested(kind: type, **changed: object) -> Any:
    made = kind()
    for name, value in changed.items():
        object.__setattr__(made, name, value)
    return made


@pytest.mark.req("B035")
@pytest.mark.parametrize("option", OPTIONS)
def test_a_hostile_option_of_a_tool_is_refused(watch: Watch, option: str) -> None:
    for name, value in watch.each():
        made = watch.ended_at_once(lambda: made_with(option, value))
        if any(name.startswith(each) for each in ACCEPTED.get(option, ())):
            assert type(made) is Tool or isinstance(made, ContractError), name
        else:
            assert type(made) is ContractError, name

    assert watch.ran == []
    if option != "redact":  # a name that no argument has is told to whoever wrote it
        watch.assert_nothing_leaked()


@pytest.mark.parametrize(
    ("option", "kind", "field"),
    [
        ("retry", RetryPolicy, "max_attempts"),
        ("retry", RetryPolicy, "initial_delay_seconds"),
        ("retry", RetryPolicy, "max_delay_seconds"),
        ("remote", Remote, "honours_key"),
        ("remote", Remote, "key_retention_seconds"),
        ("remote", Remote, "refuses_late"),
        ("remote", Remote, "arrival_bound_seconds"),
        ("breaker", Breaker, "faults"),
        ("breaker", Breaker, "within_seconds"),
        ("breaker", Breaker, "open_seconds"),
        ("breaker", Breaker, "probes"),
    ],
)
def test_a_hostile_field_of_an_option_is_refused(watch: Watch, option: str, kind: type, field: str) -> None:
    for name, value in watch.each():
        made = watch.ended_at_once(lambda: made_with(option, nested(kind, **{field: value})))
        assert type(made) is ContractError, name

    assert watch.ran == []
    watch.assert_nothing_leaked()


@pytest.mark.parametrize("option", ["retry", "remote", "breaker"])
def test_a_half_made_option_is_refused(watch: Watch, option: str) -> None:
    kind = {"retry": RetryPolicy, "remote": Remote, "breaker": Breaker}[option]

    made = watch.ended_at_once(lambda: made_with(option, object.__new__(kind)))

    assert type(made) is ContractError


SETTINGS = tuple(GateSettings.__dataclass_fields__)


@pytest.mark.parametrize("field", SETTINGS)
def test_a_hostile_setting_is_refused(watch: Watch, field: str) -> None:
    for name, value in watch.each():
        made: dict[str, Any] = {field: value}
        error = watch.ended_at_once(lambda: GateSettings(**made))
        assert type(error) is ConfigurationError, name

    assert watch.ran == []
    watch.assert_nothing_leaked()


@pytest.mark.parametrize("field", [name for name in SETTINGS if name.endswith("_seconds")])
def test_a_span_that_no_calendar_holds_is_refused(field: str) -> None:
    made: dict[str, Any] = {field: 1e300}
    with pytest.raises(ConfigurationError):
        GateSettings(**made)


OPENING: dict[str, Callable[[Any], dict[str, Any]]] = {
    "tools": lambda value: {"tools": value},
    "tool": lambda value: {"tools": [value]},
    "store": lambda value: {"store": value},
    "key": lambda value: {"key": value},
    "settings": lambda value: {"settings": value},
    "setting": lambda value: {"settings": _changed(GateSettings(), max_steps=value)},
    "recovery": lambda value: {"recovery": value},
    "policy": lambda value: {"policy": value},
    "clock": lambda value: {"clock": value},
    "ids": lambda value: {"ids": value},
    "sinks": lambda value: {"sinks": value},
    "sink": lambda value: {"sinks": [value]},
    "metrics": lambda value: {"metrics": value},
}  # fmt: skip


PORTS = ("policy", "clock", "ids", "sink")


def _changed(made: Any, **fields: object) -> Any:
    for name, value in fields.items():
        object.__setattr__(made, name, value)
    return made


@pytest.mark.parametrize("position", OPENING)
async def test_a_hostile_argument_of_open_opens_nothing(watch: Watch, spy: Spy, tmp_path: Path, position: str) -> None:
    async def opened(given: dict[str, Any]) -> None:
        async with placet.open(**given):
            return

    for name, value in watch.each():
        given = {"tools": [looked_up(spy)], "store": placet.MEMORY, "recovery": "manual"} | OPENING[position](value)
        if position == "key":
            given["store"] = tmp_path / "placet.db"
        is_place = position in ("store", "key") and type(value) is str
        error = await watch.ended(lambda: opened(given))
        if is_place or (position in PORTS and name.startswith("object that answers everything")):
            continue  # the path of a file, which an error may name; or a port, asked as one and found wanting when used
        assert isinstance(error, PlacetError), name

    assert {name.partition(".")[0] for name in watch.ran} <= ({"obliging"} if position in PORTS else set())
    if position not in ("store", "key"):
        watch.assert_nothing_leaked()


@pytest.mark.parametrize("made", [object.__new__(GateSettings), type("Child", (GateSettings,), {})()])
async def test_settings_that_are_not_quite_settings_open_nothing(watch: Watch, spy: Spy, made: Any) -> None:
    error = watch.ended_at_once(lambda: placet.open(tools=[looked_up(spy)], store=placet.MEMORY, settings=made))

    assert type(error) is MisuseError


@pytest.mark.req("B040")
@pytest.mark.parametrize("maker", ["agent", "person"])
@pytest.mark.parametrize("field", ["subject", "tenant", "roles", "scopes", "environment", "on_behalf_of"])
def test_a_principal_is_not_made_of_hostile_parts(watch: Watch, maker: str, field: str) -> None:
    if (maker, field) == ("person", "on_behalf_of"):
        return  # a person acts for nobody else
    for name, value in watch.each():
        parts: dict[str, Any] = {"subject": "a", "tenant": "t", field: value}
        subject = parts.pop("subject")
        made = watch.ended_at_once(lambda: getattr(Principal, maker)(subject, **parts))
        if field == "scopes" and name.startswith(("wide list", "set of texts")):
            assert made.scopes == frozenset({SECRET}), name  # read as the texts they are
            continue
        assert type(made) is MisuseError, name

    assert watch.ran == []
    watch.assert_nothing_leaked()


@pytest.mark.req("B040")
@pytest.mark.parametrize("field", tuple(Principal.__dataclass_fields__))
def test_a_principal_is_not_constructed_of_hostile_parts(watch: Watch, field: str) -> None:
    for name, value in watch.each():
        parts: dict[str, Any] = {"subject": "a", "tenant": "t", field: value}
        made = watch.ended_at_once(lambda: Principal(**parts))
        if field == "scopes" and type(value) is frozenset:
            continue
        assert type(made) is MisuseError, name

    assert watch.ran == []
    watch.assert_nothing_leaked()


@pytest.mark.parametrize("field", ["kind", "lifetime_seconds", "decide_within_seconds"])
def test_a_requirement_is_not_made_of_hostile_parts(watch: Watch, field: str) -> None:
    for name, value in watch.each():
        parts: dict[str, Any] = {field: value}
        assert type(watch.ended_at_once(lambda: Requirement(**parts))) is MisuseError, name

    assert watch.ran == []
    watch.assert_nothing_leaked()


async def test_a_matrix_with_a_hostile_requirement_denies(open_world: OpenWorld, watch: Watch, spy: Spy) -> None:
    for name, value in watch.each():
        world = await open_world(looked_up(spy), policy=Matrix(requirement=value))
        outcome = await watch.ended(lambda: world.submit("look", {"word": "x"}))
        assert type(outcome) is Refused, name
        assert outcome.reasons == ("policy_failed",)
        assert type(await watch.ended(lambda: world.submit("nope"))) is placet.Invalid
        assert watch.ended_at_once(lambda: world.gate.tools_for(OPERATOR)) == ()

    watch.assert_nothing_leaked(world)

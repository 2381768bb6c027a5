"""Principals: exact identities, roles and scopes that are what they say, and a delegation that stays at home."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from placet import Principal, Role, Standing
from placet.errors import MisuseError
from placet.model.principal import MAX_LINKS, is_identity, is_principal


class Text(str):
    def __len__(self) -> int:
        raise RuntimeError("s3cr3t")

    __eq__ = __hash__ = isascii = __len__  # type: ignore[assignment]


@pytest.mark.req("B050", "B041", "B040")
@pytest.mark.parametrize(
    "value", ["", "x" * 129, None, 7, True, b"x", ["x"], "\ud800", "a\udfffb", "hostile", "\0", "a\0b"]
)
def test_what_is_no_text_of_1_to_128_characters_is_no_identity(value: object) -> None:
    assert not is_identity(Text("x") if value == "hostile" else value)


@pytest.mark.parametrize("value", ["x", "x" * 128, "naïve 界", "with space", "\U0001f600"])
def test_an_identity_may_be_in_any_script(value: str) -> None:
    assert is_identity(value)


@pytest.mark.req("H007", "C015")
def test_a_principal_is_a_viewer_agent_in_production_until_said_otherwise() -> None:
    principal = Principal(subject="a", tenant="t")

    assert principal == Principal.agent("a", tenant="t")
    assert (principal.roles, principal.scopes, principal.environment) == (
        frozenset({Role.VIEWER}),
        frozenset(),
        "production",
    )
    assert (principal.standing, principal.on_behalf_of) == (Standing.AGENT, None)
    assert Principal.person("a", tenant="t").standing is Standing.PERSON


def test_a_principal_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Principal.agent("a", tenant="t").tenant = "u"  # type: ignore[misc]


@pytest.mark.parametrize(
    "wrong",
    [
        {"roles": {Role.ADMIN}},
        {"roles": frozenset({"admin"})},
        {"roles": (Role.ADMIN,)},
        {"scopes": {"p"}},
        {"scopes": frozenset({""})},
        {"scopes": frozenset({7})},
        {"standing": "person"},
        {"standing": True},
        {"on_behalf_of": "uma"},
        {"on_behalf_of": Principal.person("uma", tenant="other")},
        {"on_behalf_of": Principal.person("uma", tenant="t", environment="staging")},
    ],
)
def test_a_principal_of_any_other_shape_cannot_be_made(wrong: dict[str, Any]) -> None:
    with pytest.raises(MisuseError):
        Principal(**({"subject": "a", "tenant": "t"} | wrong))


@pytest.mark.parametrize("roles", [("root",), ("Admin",), ("",)])
def test_a_role_that_does_not_exist_is_misuse(roles: tuple[str, ...]) -> None:
    with pytest.raises(MisuseError, match="viewer, operator, admin"):
        Principal.agent("a", tenant="t", roles=roles)


def test_a_delegation_passes_through_a_bounded_number_of_hands() -> None:
    principal = Principal.agent("a", tenant="t")
    for _ in range(MAX_LINKS - 1):
        principal = dataclasses.replace(principal, on_behalf_of=principal)

    assert is_principal(principal)
    with pytest.raises(MisuseError):
        dataclasses.replace(principal, on_behalf_of=principal)


def test_a_principal_that_was_changed_is_none() -> None:
    principal = Principal.agent("a", tenant="t")
    object.__setattr__(principal, "tenant", Text("t"))

    assert not is_principal(principal)
    assert not is_principal(None)
    assert not is_principal(type("Child", (Principal,), {})(subject="a", tenant="t"))

"""Which upstreams may be declared, and that nothing of a secret is said when they may not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from placet.errors import ConfigurationError
from placet.model.destinations import SecretPlace, SecretRef
from placet.model.issuers import Network
from placet.model.upstreams import (
    Credential,
    CredentialForm,
    Naming,
    OpenApiWay,
    Relayed,
    StdioWay,
    StreamableWay,
    Upstream,
    UpstreamBounds,
)
from placet.rules.upstreams import asking_tenant, require_sound

TOKEN = SecretRef(place=SecretPlace.ENVIRONMENT, name="TOKEN")
STDIO = StdioWay(command="desk", args=("--now", ""), environment={"A_1": "x", "B": TOKEN}, folder=Path("/p"))
HTTP = StreamableWay(url="https://desk.example/mcp", credential=Credential(form=CredentialForm.BEARER, secret=TOKEN))
API = OpenApiWay(document=Path("/p/desk.json"), url="https://desk.example/v1", headers={"X-Requested-With": "placet"})


def an_upstream(way: Any = STDIO, **changes: Any) -> Upstream:
    return replace(Upstream(name="desk", way=way, manifest=Path("/p/desk.toml")), **changes)


def why(*upstreams: Upstream) -> str:
    with pytest.raises(ConfigurationError) as caught:
        require_sound(upstreams)
    return str(caught.value)


def test_each_kind_may_be_declared_as_it_is_shown_in_the_documents() -> None:
    require_sound([an_upstream(way, name=name) for name, way in (("a", STDIO), ("b-1_x", HTTP), ("c", API))])
    require_sound([an_upstream(naming=Naming.PLAIN, relayed=frozenset(Relayed), tenants=frozenset({"acme"}))])
    require_sound([an_upstream(replace(HTTP, url="http://127.0.0.1:1/mcp", network=Network.LOOPBACK))])


@pytest.mark.parametrize(
    "credential",
    [
        Credential(form=CredentialForm.HEADER, secret=TOKEN, name="X-Api-Key"),
        Credential(form=CredentialForm.HEADER, secret=TOKEN, name="Authorization"),
        Credential(form=CredentialForm.QUERY, secret=TOKEN, name="api_key"),
        Credential(form=CredentialForm.BASIC, secret=TOKEN, user="bot"),
    ],
    ids=lambda each: each.form.value,
)
def test_a_credential_is_shown_in_one_of_a_few_forms(credential: Credential) -> None:
    require_sound([an_upstream(replace(HTTP, credential=credential))])
    require_sound([an_upstream(replace(API, credential_by_tenant={"acme": credential}))])


@pytest.mark.parametrize(
    ("upstream", "told"),
    [
        (an_upstream(name="Desk"), "An upstream's id is 1 to 24 characters"),
        (an_upstream(tenants=frozenset()), "its tenants are texts"),
        (an_upstream(tenants=frozenset({""})), "its tenants are texts"),
        (an_upstream(bounds=UpstreamBounds(max_sessions=0)), "its bound max_sessions is above 0 and at most 10000"),
        (an_upstream(bounds=UpstreamBounds(connect_seconds=601)), "its bound connect_seconds is above 0"),
        (an_upstream(bounds=UpstreamBounds(refresh_seconds=float("nan"))), "its bound refresh_seconds is above 0"),
        (an_upstream(replace(STDIO, command="")), "its command is a program"),
        (an_upstream(replace(STDIO, args=("a\0b",))), "its command is a program"),
        (an_upstream(replace(STDIO, args=("x",) * 201)), "its command is a program"),
        (an_upstream(replace(STDIO, environment={"A-B": "x"})), "env names at most 100 variables"),
        (an_upstream(replace(STDIO, environment={"A": "hunter2\0"})), "a variable in env has a text"),
        (an_upstream(replace(STDIO, environment_by_tenant={"acme": {"=": "x"}})), "env names at most 100 variables"),
        (an_upstream(replace(STDIO, environment_by_tenant={"": {}})), "per_tenant is a table by tenant"),
        (an_upstream(replace(HTTP, url="http://desk.example/mcp")), "its address is not https"),
        (an_upstream(replace(HTTP, url="https://u:hunter2@desk.example")), "names no host, or more than a host"),
        (an_upstream(replace(API, url="ftp://desk.example")), "its address is not https"),
        (an_upstream(replace(HTTP, credential_by_tenant={"": HTTP.credential})), "per_tenant is a table by tenant"),  # type: ignore[dict-item]
        (an_upstream(API, relayed=frozenset({Relayed.PROMPTS})), "only of an MCP server is anything relayed"),
        (an_upstream(API, naming=Naming.PLAIN), "only of an MCP server is anything relayed"),
        (an_upstream(replace(API, headers={"Host": "x"})), "headers are plain ASCII"),
        (an_upstream(replace(API, headers={"authorization": "Bearer hunter2"})), "headers are plain ASCII"),
        (an_upstream(replace(API, headers={"X-A": "hunter2\r\nX-B: y"})), "headers are plain ASCII"),
        (an_upstream(replace(API, headers={"X A": "y"})), "headers are plain ASCII"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_cannot_be_used_is_refused_and_nothing_of_it_repeated(upstream: Upstream, told: str) -> None:
    said = why(upstream)

    assert told in said
    assert "hunter2" not in said


@pytest.mark.parametrize(
    "credential",
    [
        Credential(form=CredentialForm.HEADER, secret=TOKEN),
        Credential(form=CredentialForm.HEADER, secret=TOKEN, name="Host"),
        Credential(form=CredentialForm.HEADER, secret=TOKEN, name="X: y"),
        Credential(form=CredentialForm.QUERY, secret=TOKEN),
        Credential(form=CredentialForm.BASIC, secret=TOKEN),
        Credential(form=CredentialForm.BASIC, secret=TOKEN, user="a:b"),
        Credential(form=CredentialForm.BASIC, secret=TOKEN, user="a", name="b"),
        Credential(form=CredentialForm.BEARER, secret=TOKEN, user="a"),
        Credential(form=CredentialForm.BEARER, secret=TOKEN, name="a"),
    ],
    ids=str,
)
def test_a_credential_says_what_its_form_needs_and_nothing_more(credential: Credential) -> None:
    assert "a credential" in why(an_upstream(replace(HTTP, credential=credential)))
    assert "a credential" in why(an_upstream(replace(API, credential_by_tenant={"acme": credential})))


def test_plain_names_are_for_the_only_upstream() -> None:
    assert "no other" in why(an_upstream(naming=Naming.PLAIN), an_upstream(name="other"))


def test_there_are_not_too_many() -> None:
    require_sound([an_upstream(name=f"u{n}") for n in range(100)])
    assert "at most 100" in why(*(an_upstream(name=f"u{n}") for n in range(101)))


TOKEN = SecretRef(place=SecretPlace.ENVIRONMENT, name="TOKEN")
SHOWN = Credential(form=CredentialForm.BEARER, secret=TOKEN)
BY_TENANT = {"north": SHOWN, "south": SHOWN}


@pytest.mark.parametrize(
    ("way", "tenants", "asking"),
    [
        (StreamableWay(url="https://desk.example/mcp"), None, None),
        (StreamableWay(url="https://desk.example/mcp", credential_by_tenant=BY_TENANT), None, "north"),
        (StreamableWay(url="https://desk.example/mcp", credential_by_tenant=BY_TENANT), {"south"}, "south"),
        (StreamableWay(url="https://desk.example/mcp", credential_by_tenant=BY_TENANT), {"west"}, None),
        (StreamableWay(url="https://desk.example/mcp", credential=SHOWN, credential_by_tenant=BY_TENANT), None, None),
        (StdioWay(command="desk", folder=Path(), environment_by_tenant={"north": {"TOKEN": TOKEN}}), None, "north"),
        (
            StdioWay(
                command="desk",
                folder=Path(),
                environment={"TOKEN": TOKEN},
                environment_by_tenant={"north": {"TOKEN": TOKEN}, "south": {"TOKEN": TOKEN, "MORE": TOKEN}},
            ),
            None,
            "south",
        ),
        (OpenApiWay(document=Path("a.json"), url="https://desk.example", credential_by_tenant=BY_TENANT), None, None),
    ],
    ids=["nobodys", "first", "first-of-its-own", "of-none", "everybodys", "process", "process-that-lacks", "document"],
)
def test_whose_way_in_is_shown_where_without_one_nothing_would_be(
    way: Any, tenants: set[str] | None, asking: str | None
) -> None:
    declared = Upstream(
        name="desk", way=way, manifest=Path("m.toml"), tenants=None if tenants is None else frozenset(tenants)
    )
    assert asking_tenant(declared) == asking

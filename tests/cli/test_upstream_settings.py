"""`[upstreams.NAME]` of placet.toml: closed, read by kinds, and never with a secret in it."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from placet.cli.failing import ConfigProblem
from placet.cli.upstreams import upstreams_of
from placet.model.destinations import SecretPlace, SecretRef
from placet.model.issuers import Network
from placet.model.upstreams import (
    Credential,
    CredentialForm,
    Naming,
    OpenApiWay,
    Relayed,
    Statefulness,
    StdioWay,
    StreamableWay,
    Upstream,
    UpstreamBounds,
)

FILE, FOLDER = Path("/project/placet.toml"), Path("/project")
TOKEN = SecretRef(place=SecretPlace.ENVIRONMENT, name="TOKEN")


def read(text: str) -> tuple[Upstream, ...]:
    return upstreams_of(tomllib.loads(text).get("upstreams"), file=FILE, folder=FOLDER)


def refused(text: str) -> str:
    with pytest.raises(ConfigProblem) as caught:
        read(text)
    return str(caught.value)


def test_a_process_with_everything_that_can_be_said_of_it() -> None:
    (found,) = read(
        """
        [upstreams.desk]
        command = "desk-server"
        args = ["--quiet", ""]
        env = { TOKEN = "env:TOKEN", CERT = "file:cert.pem", LEVEL = "info" }
        per_tenant = { acme = { TOKEN = "env:ACME" } }
        folder = "work"
        manifest = "terms/desk.toml"
        tenants = ["acme"]
        stateful = false
        allow = ["resources", "roots"]
        naming = "plain"
        bounds = { connect_seconds = 5, max_sessions = 2 }
        """
    )

    assert found == Upstream(
        name="desk",
        way=StdioWay(
            command="desk-server",
            args=("--quiet", ""),
            environment={
                "TOKEN": TOKEN,
                "CERT": SecretRef(place=SecretPlace.FILE, name="/project/cert.pem"),
                "LEVEL": "info",
            },
            environment_by_tenant={"acme": {"TOKEN": SecretRef(place=SecretPlace.ENVIRONMENT, name="ACME")}},
            folder=Path("/project/work"),
        ),
        manifest=Path("/project/terms/desk.toml"),
        tenants=frozenset({"acme"}),
        statefulness=Statefulness.STATELESS,
        relayed=frozenset({Relayed.RESOURCES, Relayed.ROOTS}),
        naming=Naming.PLAIN,
        bounds=UpstreamBounds(connect_seconds=5, max_sessions=2),
    )


def test_what_is_not_said_is_the_most_careful() -> None:
    (found,) = read('[upstreams.desk]\ncommand = "desk-server"')

    assert found == Upstream(
        name="desk",
        way=StdioWay(command="desk-server", folder=FOLDER),
        manifest=Path("/project/upstreams/desk.toml"),
        tenants=None,
        statefulness=Statefulness.STATEFUL,
        relayed=frozenset(),
        naming=Naming.PREFIXED,
    )


def test_a_server_over_http_and_a_service_with_their_credentials() -> None:
    http, api = read(
        """
        [upstreams.far]
        url = "https://far.example/mcp"
        credential = "env:TOKEN"
        per_tenant = { acme = { form = "basic", user = "bot", secret = "env:TOKEN" } }
        network = "private"
        ca_file = "ca.pem"
        [upstreams.api]
        kind = "openapi"
        document = "api.json"
        url = "https://api.example/v1"
        credential = { form = "header", name = "X-Api-Key", secret = "env:TOKEN" }
        headers = { X-Requested-With = "placet" }
        """
    )

    assert http.way == StreamableWay(
        url="https://far.example/mcp",
        credential=Credential(form=CredentialForm.BEARER, secret=TOKEN),
        credential_by_tenant={"acme": Credential(form=CredentialForm.BASIC, secret=TOKEN, user="bot")},
        network=Network.PRIVATE,
        ca_file=Path("/project/ca.pem"),
    )
    assert api.way == OpenApiWay(
        document=Path("/project/api.json"),
        url="https://api.example/v1",
        credential=Credential(form=CredentialForm.HEADER, secret=TOKEN, name="X-Api-Key"),
        headers={"X-Requested-With": "placet"},
    )


def table(line: str, *, first: str = 'command = "x"') -> str:
    return f"[upstreams.desk]\n{first}\n{line}"


HTTP = 'url = "https://far.example/mcp"'


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("upstreams = 1", "holds one table per server"),
        ("upstreams = { desk = 1 }", "holds one table per server"),
        (table("", first=""), "'url' in [upstreams.desk]"),
        (table("kind = 'soap'"), "'kind' in [upstreams.desk] of /project/placet.toml is one of mcp, openapi"),
        (table("comand = 'x'", first=""), "unknown member 'comand'"),
        (table("url = 'https://x'"), "unknown member 'url'"),
        (table("credential = 'env:X'"), "unknown member 'credential'"),
        (table("command = 'x'", first=HTTP), "unknown member 'url'"),
        (table("env = {}", first=HTTP), "unknown member 'env'"),
        (table("args = 'x'"), "'args' in [upstreams.desk] of /project/placet.toml is a list of texts"),
        (table("args = [1]"), "is a list of texts"),
        (table("env = ['A']"), "'env' in [upstreams.desk] of /project/placet.toml is a table of variables"),
        (table("env = { A = 1 }"), "is a table of variables"),
        (table("env = { A = 'env:1' }"), "a place of a secret"),
        (table("per_tenant = { acme = 'env:X' }"), "'per_tenant' in [upstreams.desk]"),
        (table("stateful = 'no'"), "'stateful' in [upstreams.desk] of /project/placet.toml is true or false"),
        (table("allow = ['everything']"), "'allow' in [upstreams.desk] of /project/placet.toml is one of resources"),
        (table("naming = 'bare'"), "is one of prefixed, plain"),
        (table("bounds = { conect_seconds = 1 }"), "unknown member 'conect_seconds'"),
        (table("bounds = { max_tools = 1.5 }"), "is a whole number"),
        (table("bounds = { max_tools = true }"), "is a whole number"),
        (table("bounds = { idle_seconds = '5' }"), "is a number of seconds"),
        (table("bounds = { max_tools = 0 }"), "its bound max_tools is above 0"),
        (table("tenants = []"), "its tenants are texts"),
        (table("credential = 'hunter2'", first=HTTP), "a place of a secret"),
        (table("credential = { secret = 'hunter2' }", first=HTTP), "a place of a secret"),
        (table("credential = { form = 'header', secret = 'env:X' }", first=HTTP), "a credential in a header needs"),
        (table("credential = { form = 'magic', secret = 'env:X' }", first=HTTP), "is one of bearer, basic"),
        (table("credential = { token = 'hunter2' }", first=HTTP), "unknown member 'token'"),
        (table("network = 'moon'", first=HTTP), "is one of public, private, loopback"),
        ("[upstreams.desk]\nurl = 'http://far.example/mcp'", "its address is not https"),
        ("[upstreams.Desk]\ncommand = 'x'", "An upstream's id is 1 to 24 characters"),
        (table("kind = 'openapi'", first=HTTP), "'document' in [upstreams.desk]"),
        (table("document = 'x'", first=HTTP), "unknown member 'document'"),
        (table("naming = 'plain'") + "\n[upstreams.other]\ncommand = 'x'", "for the one upstream of a gateway"),
    ],
    ids=str,
)
def test_what_means_nothing_is_refused_with_its_place_and_no_secret(text: str, told: str) -> None:
    said = refused(text)

    assert told in said
    assert "hunter2" not in said


@pytest.mark.parametrize("tables", [None, {}])
def test_a_project_without_upstreams_has_none(tables: Any) -> None:
    assert upstreams_of(tables, file=FILE, folder=FOLDER) == ()


@pytest.mark.parametrize("name", ["Expect", "via", "Keep-Alive", "Content-Type", "Content-Encoding"])
def test_no_credential_is_in_a_header_that_says_how_a_message_travels(name: str) -> None:
    with pytest.raises(ConfigProblem):
        read(f'[upstreams.desk]\nurl = "https://desk.example/"\n'
             f'credential = {{ form = "header", name = "{name}", secret = "env:X" }}')  # fmt: skip

"""`[upstreams.NAME]` of placet.toml: servers whose tools are called through the gate.

Closed as the rest of the file. Secrets never stand in it: it names the environment variable, or the file, that holds
one.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from placet.cli.failing import ConfigProblem
from placet.cli.members import Members, checked
from placet.model.destinations import SecretRef
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
    Way,
)
from placet.rules import upstreams as rules
from placet.rules.addresses import shown_word

MANIFESTS: Final = "upstreams"
"""The folder of manifests, beside placet.toml, where nothing else is said."""
_OF_ALL: Final = ("kind", "manifest", "tenants", "stateful", "allow", "naming", "bounds")
_OF_STDIO: Final = ("command", "args", "env", "folder", "per_tenant")
_OF_HTTP: Final = ("url", "credential", "per_tenant", "network", "ca_file")
_OF_CREDENTIAL: Final = ("form", "secret", "name", "user")
_OF_BOUNDS: Final = tuple(UpstreamBounds.__dataclass_fields__)
_WHOLE: Final = ("max_sessions", "max_message_bytes", "max_definition_bytes", "max_tools")
_HINT: Final = (
    'An upstream: [upstreams.desk], command = "desk-server", or url = "https://..." and credential = "env:DESK_TOKEN". '
    "docs/upstreams.md has all of it."
)


class UpstreamKind(StrEnum):
    """What is spoken there."""

    MCP = "mcp"
    OPENAPI = "openapi"


def upstreams_of(tables: object, *, file: Path | None, folder: Path) -> tuple[Upstream, ...]:
    """What the tables say, in the order of the file.

    Raises:
        ConfigProblem: a member is not known, not of its kind, or cannot be used.
    """
    if tables is None:
        return ()
    if type(tables) is not dict or any(type(table) is not dict for table in tables.values()):
        raise ConfigProblem(f"'upstreams' in {file} holds one table per server: [upstreams.desk]", hint=_HINT)
    found = tuple(_upstream(name, table, file, folder) for name, table in tables.items())
    checked("[upstreams]", file, lambda: rules.require_sound(found), hint=_HINT)
    return found


def _upstream(name: str, table: dict[str, Any], file: Path | None, folder: Path) -> Upstream:
    said = Members(table, f"[upstreams.{shown_word(name)}]", file, hint=_HINT)
    kind = said.word("kind", UpstreamKind, UpstreamKind.MCP)
    manifest = said.text("manifest") or f"{MANIFESTS}/{name}.toml"
    return Upstream(
        name=name,
        way=_way(said, kind, folder),
        manifest=folder / manifest,
        tenants=frozenset(said.texts("tenants")) if "tenants" in table else None,
        statefulness=_statefulness(said),
        relayed=frozenset(said.words("allow", Relayed)),
        naming=said.word("naming", Naming, Naming.PREFIXED),
        bounds=_bounds(said),
    )


def _statefulness(said: Members) -> Statefulness:
    """What is not said may remember."""
    is_stateful = "stateful" not in said.table or said.truth("stateful")
    return Statefulness.STATEFUL if is_stateful else Statefulness.STATELESS


def _way(said: Members, kind: UpstreamKind, folder: Path) -> Way:
    if kind is UpstreamKind.OPENAPI:
        said.refuse_unknown((*_OF_ALL, *_OF_HTTP, "document", "headers"))
        document = said.text("document")
        if document is None:
            said.fail("document", "the file of an OpenAPI document")
        return OpenApiWay(document=folder / document, headers=said.texts_by_name("headers"), **_of_http(said, folder))
    if "command" in said.table:
        said.refuse_unknown((*_OF_ALL, *_OF_STDIO))
        return _stdio(said, folder)
    said.refuse_unknown((*_OF_ALL, *_OF_HTTP))
    return StreamableWay(**_of_http(said, folder))


def _stdio(said: Members, folder: Path) -> StdioWay:
    return StdioWay(
        command=said.text("command") or "",
        args=_args(said),
        environment=_environment(said, "env", said.table.get("env", {}), folder),
        environment_by_tenant={
            tenant: _environment(said, "per_tenant", each, folder) for tenant, each in _by_tenant(said).items()
        },
        folder=folder / (said.text("folder") or "."),
    )


def _args(said: Members) -> tuple[str, ...]:
    """Arguments may be empty, as texts elsewhere may not."""
    value = said.table.get("args", [])
    if type(value) is not list or not all(type(each) is str for each in value):
        said.fail("args", "a list of texts")
    return tuple(value)


def _environment(said: Members, name: str, table: object, folder: Path) -> dict[str, str | SecretRef]:
    if type(table) is not dict or not all(type(each) is str for each in table.values()):
        said.fail(name, 'a table of variables, such as { DESK_TOKEN = "env:DESK_TOKEN", LOG_LEVEL = "info" }')
    return {
        variable: said.secret(name, value, folder) if value.startswith(("env:", "file:")) else value
        for variable, value in table.items()
    }


def _of_http(said: Members, folder: Path) -> dict[str, Any]:
    url = said.text("url")
    if url is None:
        said.fail("url", "the address of the server; a server that is started here has a command instead")
    given, ca_file = said.table.get("credential"), said.text("ca_file")
    return {
        "url": url,
        "credential": None if given is None else _credential(said, "credential", given, folder),
        "credential_by_tenant": {
            tenant: _credential(said, "per_tenant", each, folder) for tenant, each in _by_tenant(said).items()
        },
        "network": said.word("network", Network, Network.PUBLIC),
        "ca_file": None if ca_file is None else folder / ca_file,
    }


def _by_tenant(said: Members) -> dict[str, Any]:
    table = said.table.get("per_tenant", {})
    if type(table) is not dict:
        said.fail("per_tenant", 'a table by tenant, such as { acme = "env:ACME_TOKEN" }')
    return table


def _credential(said: Members, name: str, given: object, folder: Path) -> Credential:
    if type(given) is str:
        return Credential(form=CredentialForm.BEARER, secret=said.secret(name, given, folder))
    inner = Members(given, f"{name!r} of {said.place}", said.file, hint=_HINT)
    inner.refuse_unknown(_OF_CREDENTIAL)
    secret = inner.text("secret")
    return Credential(
        form=inner.word("form", CredentialForm, CredentialForm.BEARER),
        secret=inner.secret("secret", secret or "", folder),
        name=inner.text("name"),
        user=inner.text("user"),
    )


def _bounds(said: Members) -> UpstreamBounds:
    inner = Members(said.table.get("bounds", {}), f"'bounds' of {said.place}", said.file, hint=_HINT)
    inner.refuse_unknown(_OF_BOUNDS)
    given: dict[str, Any] = {}
    for name in inner.table:
        value = inner.table[name]
        is_good = type(value) is int if name in _WHOLE else type(value) in (int, float)
        if not is_good:
            inner.fail(name, "a whole number" if name in _WHOLE else "a number of seconds")
        given[name] = value
    return UpstreamBounds(**given)

"""Where an upstream's calls go, as one digest that a contract binds: what was approved for one place runs at no other.

Secrets are named in it and not known to it: another token of the same name is the same way. Where a project stands on
its disk decides nothing. Source: DESIGN section 5; ADR-0045.
"""

from __future__ import annotations

from collections.abc import Mapping

from placet.model.destinations import SecretRef
from placet.model.identifiers import Digest
from placet.model.json import JsonObject
from placet.model.upstreams import Credential, OpenApiWay, StdioWay, StreamableWay, Way
from placet.rules.canonical import canonical_bytes, sha256_hex


def way_digest(way: Way) -> Digest:
    """Identity of all that decides which system a call reaches, and as whom."""
    return Digest(sha256_hex("placet/way/1", canonical_bytes(_form(way))))


def _form(way: Way) -> JsonObject:
    match way:
        case StdioWay():
            return {
                "kind": "stdio",
                "command": way.command,
                "args": list(way.args),
                "env": _variables(way.environment),
                "per_tenant": {tenant: _variables(own) for tenant, own in way.environment_by_tenant.items()},
            }
        case StreamableWay():
            return {"kind": "streamable", **_reached(way)}
        case OpenApiWay():
            headers: JsonObject = {name.lower(): value for name, value in way.headers.items()}
            return {"kind": "openapi", **_reached(way), "headers": headers}


def _reached(way: StreamableWay | OpenApiWay) -> JsonObject:
    return {
        "url": way.url,
        "network": way.network.value,
        "credential": None if way.credential is None else _credential(way.credential),
        "per_tenant": {tenant: _credential(own) for tenant, own in way.credential_by_tenant.items()},
    }


def _variables(named: Mapping[str, str | SecretRef]) -> JsonObject:
    return {name: value if isinstance(value, str) else _secret(value) for name, value in named.items()}


def _credential(credential: Credential) -> JsonObject:
    return {
        "form": credential.form.value,
        "name": credential.name,
        "user": credential.user,
        "secret": _secret(credential.secret),
    }


def _secret(named: SecretRef) -> JsonObject:
    """In the place of its value: where it stands, and a file by its name alone."""
    return {"place": named.place.value, "name": named.name.rpartition("/")[2]}

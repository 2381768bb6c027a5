"""Upstreams as a project declares them, with their manifests and with what was accepted, to what a gate is opened with.

Nothing here connects, but for whoever asks what a server says now.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from shutil import which
from typing import Final

from placet.adapters.keys import load_key_file
from placet.adapters.pins import PinFile
from placet.adapters.referenced_secrets import SecretMissing, secret_of
from placet.bootstrap.extras import how_to_install
from placet.bootstrap.joined import Joined
from placet.errors import ConfigurationError, ManifestError
from placet.model.destinations import SecretPlace, SecretRef
from placet.model.pins import Definition, Pin, Pins
from placet.model.upstreams import CredentialForm, Manifest, OpenApiWay, StdioWay, StreamableWay, Upstream
from placet.ports.keys import Keys
from placet.rules.manifests import LARGEST_FILE, read_manifest
from placet.rules.pins import definition_digest, is_fit

_NOT_SIGNED_IN: Final = "nobody has signed in there: placet mcp login {}"
_NONE_YET: Final = "Write one: placet mcp add writes the first, and docs/upstreams.md says what may stand in it."


def accepted(file: Path, *, key: Path) -> Pins:
    """What is believed of a file of pins, under the keys of a store; nothing where there is no file.

    Raises:
        KeyMaterialError: the key file is absent, exposed or unreadable.
    """
    return PinFile(file, keys=load_key_file(key)).read()


def accepted_under(file: Path, *, keys: Keys) -> Pins:
    """The same, under keys that are open."""
    return PinFile(file, keys=keys).read()


def lacking(upstream: Upstream) -> tuple[str, ...]:
    """What an upstream needs and this machine has not, in words; nothing is started, connected or told of a secret."""
    way = upstream.way
    found: list[str] = []
    if not isinstance(way, OpenApiWay) and find_spec("mcp") is None:
        found.append(f"mcp is not installed: {how_to_install('mcp')}")
    match way:
        case StdioWay():
            found.extend(f"there is no program {program!r} here" for program in missing_programs(upstream))
            tables = (way.environment, *way.environment_by_tenant.values())
            refs = [value for table in tables for value in table.values() if isinstance(value, SecretRef)]
        case StreamableWay() | OpenApiWay():
            credentials = [*way.credential_by_tenant.values(), *([] if way.credential is None else [way.credential])]
            refs = [each.secret for each in credentials if each.form is not CredentialForm.OAUTH]
            signed = [each.secret for each in credentials if each.form is CredentialForm.OAUTH]
            found.extend(_NOT_SIGNED_IN.format(upstream.name) for each in signed if not _is_signed_in(each))
    if isinstance(way, OpenApiWay) and not way.document.is_file():
        found.append(f"its document is not at {way.document}")
    return (*found, *(f"its secret is not in {_place(ref)}" for ref in refs if not _is_there(ref)))


def missing_programs(upstream: Upstream) -> tuple[str, ...]:
    """What an upstream is started with and is not here, as it is declared; at most one."""
    way = upstream.way
    if not isinstance(way, StdioWay):
        return ()
    place = way.command if "/" not in way.command else str(way.folder / way.command)
    return (way.command,) if which(place) is None else ()


def _is_signed_in(ref: SecretRef) -> bool:
    """Whether there is a token at all; whether it is still good is the authorization server's word."""
    try:
        from placet.adapters.transports.mcp.token_file import TokenFile
    except ModuleNotFoundError:  # without the extra nobody can sign in, nor be served from there
        return False
    return TokenFile(Path(ref.name)).tokens() is not None


def _is_there(ref: SecretRef) -> bool:
    try:
        secret_of(ref)
    except SecretMissing:
        return False
    return True


def _place(ref: SecretRef) -> str:
    kind = "the environment variable" if ref.place is SecretPlace.ENVIRONMENT else "the file"
    return f"{kind} {ref.name}"


def manifest_of(upstream: Upstream) -> Manifest:
    """The deployment's terms for the tools of one server.

    Raises:
        ManifestError: there is no such file, or it cannot be used; the message names it.
    """
    file = upstream.manifest
    try:
        with file.open("rb") as opened:
            raw = opened.read(LARGEST_FILE + 1)
        if len(raw) > LARGEST_FILE:
            raise ManifestError(f"The manifest of the upstream {upstream.name!r} is too large: {file}")
        text = raw.decode()
    except UnicodeDecodeError:
        problem = ManifestError(f"The manifest of the upstream {upstream.name!r} is not UTF-8: {file}")
    except FileNotFoundError:
        problem = ManifestError(f"The upstream {upstream.name!r} has no manifest at {file}", hint=_NONE_YET)
    except OSError:
        problem = ManifestError(
            f"The manifest of the upstream {upstream.name!r} cannot be read: {file}",
            hint="Give this user permission to read it.",
        )
    else:
        try:
            return read_manifest(upstream.name, text)
        except ManifestError as error:
            problem = ManifestError(f"{file}: {error}", hint=error.hint)
    raise problem


def joined(upstreams: Sequence[Upstream], pins: Pins) -> tuple[Joined, ...]:
    """What a gate is opened with. Nothing is started, connected or sent.

    Raises:
        ManifestError: a manifest is not there or cannot be used.
        ConfigurationError: what is declared cannot be used, a document cannot be read, or a contract cannot be made.
    """
    return tuple(_joined(each, pins) for each in upstreams)


def _joined(upstream: Upstream, pins: Pins) -> Joined:
    manifest = manifest_of(upstream)
    if isinstance(upstream.way, OpenApiWay):
        from placet.bootstrap.openapi import openapi_upstream

        return openapi_upstream(upstream, manifest)
    from placet.bootstrap.upstreams import mcp_upstream

    return mcp_upstream(upstream, manifest, pins)


def pins_of_document(definitions: Sequence[Definition]) -> Pins:
    """An OpenAPI document is a file of the project, reviewed with it: what it says is what was accepted."""
    from placet.bootstrap.openapi import ACCEPTED_BY, WITH_IT

    return Pins(
        pins={
            (each.server, each.tool): Pin(
                definition=each,
                digest=definition_digest(each),
                accepted_by=ACCEPTED_BY,
                accepted_at=WITH_IT,
                mac="",
                key_id="",
            )
            for each in definitions
        }
    )


def unfit_in_document(upstream: Upstream, manifest: Manifest) -> tuple[str, ...]:
    """Operations with terms that are hidden, since what a person reads of them is not what a model reads. Of a document
    that cannot be read, none.
    """
    if not isinstance(upstream.way, OpenApiWay):
        return ()
    from placet.bootstrap.openapi import definitions_of

    try:
        found = definitions_of(upstream)
    except ConfigurationError:  # whoever opens it is told
        return ()
    return tuple(each.tool for each in found if each.tool in manifest.terms and not is_fit(each))


async def described(upstream: Upstream, *, tenant: str | None = None) -> tuple[Definition, ...]:
    """What an upstream says of its tools now: a server is asked, as a tenant's if one is named; a document is read.

    Raises:
        UpstreamUnreachable: the server cannot be reached or spoken with, or what it says cannot be believed.
        ConfigurationError: the document cannot be read.
    """
    if isinstance(upstream.way, OpenApiWay):
        from placet.bootstrap.openapi import definitions_of

        return definitions_of(upstream)
    from placet.bootstrap.upstreams import live_definitions

    return await live_definitions(upstream, tenant=tenant)

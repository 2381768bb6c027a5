"""Which upstreams may be declared together."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from placet.errors import ConfigurationError, ContractError
from placet.model.destinations import SecretPlace, SecretRef
from placet.model.principal import is_identity
from placet.model.upstreams import (
    Credential,
    CredentialForm,
    Naming,
    OpenApiWay,
    StdioWay,
    StreamableWay,
    ToolTerms,
    Upstream,
    UpstreamBounds,
)
from placet.rules.issuers import why_not_fetched
from placet.rules.upstream_headers import OF_THE_MESSAGE
from placet.rules.upstream_names import require_server_id

MOST_UPSTREAMS: Final = 100
_MOST_ARGS, _MOST_VARIABLES, _LONGEST_TEXT = 200, 100, 4_096
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_HEADER: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,64}")
_MEMBER: Final = re.compile(r"[\x21-\x7e]{1,64}")
_OURS: Final = OF_THE_MESSAGE | {"content-type"}
"""Headers that say how a message travels, which nobody configures."""
_LARGEST: Final = UpstreamBounds(
    connect_seconds=600.0,
    refresh_seconds=86_400.0,
    idle_seconds=86_400.0,
    max_sessions=10_000,
    max_message_bytes=67_108_864,
    max_definition_bytes=67_108_864,
    max_tools=10_000,
)


def require_sound(upstreams: Sequence[Upstream]) -> None:
    """Raises:
    ConfigurationError: one of them cannot be used, or not beside the others. No address or text is repeated: it may
        hold a secret.
    """
    if len(upstreams) > MOST_UPSTREAMS:
        raise ConfigurationError(f"There are at most {MOST_UPSTREAMS} upstreams.")
    for each in upstreams:
        _require_one(each)
    if len(upstreams) > 1 and any(each.naming is Naming.PLAIN for each in upstreams):
        raise ConfigurationError('naming = "plain" is for the one upstream of a gateway that has no other.')


def asking_tenant(upstream: Upstream) -> str | None:
    """Whose way in is shown when a server is asked what it has, where nobody says: the first declared tenant's, if
    without one nothing, or not everything, would be shown; None for nobody's in particular. What is accepted counts for
    every tenant, so a server has to describe itself alike to all.
    """
    match upstream.way:
        case StdioWay(environment=common, environment_by_tenant=own):
            tenants = [tenant for tenant, each in own.items() if not each.keys() <= common.keys()]
        case StreamableWay(credential=None, credential_by_tenant=credentials):
            tenants = list(credentials)
        case _:
            return None
    return next((each for each in tenants if upstream.tenants is None or each in upstream.tenants), None)


def within_tenants(terms: ToolTerms, tenants: frozenset[str] | None) -> ToolTerms:
    """The same terms, for no tenant that its server is not for; None: it is for all of them."""
    if tenants is None:
        return terms
    its = terms.allowed_tenants
    return replace(terms, allowed_tenants=tenants if its is None else tenants & its)


def _require_one(upstream: Upstream) -> None:
    try:
        require_server_id(upstream.name)
    except ContractError as error:
        problem: str | None = str(error)
    else:
        problem = _problem_of(upstream)
        problem = None if problem is None else f"The upstream {upstream.name!r} cannot be used: {problem}."
    if problem is not None:
        raise ConfigurationError(problem)


def _problem_of(upstream: Upstream) -> str | None:
    if upstream.tenants is not None and not (upstream.tenants and all(map(is_identity, upstream.tenants))):
        return "its tenants are texts of 1 to 128 characters; leave them out for everybody's"
    if (over := _over_bounds(upstream.bounds)) is not None:
        return over
    match upstream.way:
        case StdioWay() as way:
            return _problem_of_stdio(way)
        case StreamableWay() as way:
            return why_not_fetched(way.url, way.network) or _problem_of_credentials(way)
        case OpenApiWay() as way:
            if upstream.relayed or upstream.naming is Naming.PLAIN:
                return "only of an MCP server is anything relayed, or named plainly"
            return why_not_fetched(way.url, way.network) or _problem_of_credentials(way) or _problem_of_headers(way)


def _over_bounds(bounds: UpstreamBounds) -> str | None:
    for name in UpstreamBounds.__dataclass_fields__:
        if not 0 < getattr(bounds, name) <= getattr(_LARGEST, name):
            return f"its bound {name} is above 0 and at most {getattr(_LARGEST, name):g}"
    return None


def _problem_of_stdio(way: StdioWay) -> str | None:
    texts = (way.command, *way.args)
    if not way.command or len(way.args) > _MOST_ARGS or not all(map(_is_sound_text, texts)):
        return f"its command is a program and at most {_MOST_ARGS} arguments, each a text without U+0000"
    if not all(map(is_identity, way.environment_by_tenant)):
        return "per_tenant is a table by tenant"
    for environment in (way.environment, *way.environment_by_tenant.values()):
        if (problem := _problem_of_environment(environment)) is not None:
            return problem
    return None


def _problem_of_environment(environment: Mapping[str, str | SecretRef]) -> str | None:
    if len(environment) > _MOST_VARIABLES or not all(map(_VARIABLE.fullmatch, environment)):
        return f"env names at most {_MOST_VARIABLES} variables of letters, digits and _"
    if not all(isinstance(value, SecretRef) or _is_sound_text(value) for value in environment.values()):
        return "a variable in env has a text that no process can be given"
    return None


def _problem_of_credentials(way: StreamableWay | OpenApiWay) -> str | None:
    if not all(map(is_identity, way.credential_by_tenant)):
        return "per_tenant is a table by tenant"
    credentials = [*way.credential_by_tenant.values(), *([] if way.credential is None else [way.credential])]
    if isinstance(way, OpenApiWay) and any(each.form is CredentialForm.OAUTH for each in credentials):
        return "a credential of form oauth is for an MCP server"
    return next(filter(None, map(_problem_of_credential, credentials)), None)


def _problem_of_credential(credential: Credential) -> str | None:
    match credential.form:
        case CredentialForm.HEADER:
            name = credential.name or ""
            if _HEADER.fullmatch(name) is None or name.lower() in _OURS:
                return "a credential in a header needs the name of one that carries nothing else"
        case CredentialForm.QUERY:
            if _MEMBER.fullmatch(credential.name or "") is None:
                return "a credential in the query needs the name of its member"
        case CredentialForm.BASIC:
            user = credential.user or ""
            if not user or not user.isascii() or not user.isprintable() or ":" in user:
                return "a credential of form basic needs a user, in ASCII and without a colon"
        case CredentialForm.OAUTH:
            if credential.secret.place is not SecretPlace.FILE:
                return "a credential of form oauth names the file that placet mcp login keeps"
        case CredentialForm.BEARER:
            pass
    needs_name = credential.form in (CredentialForm.HEADER, CredentialForm.QUERY)
    if (credential.name is not None) is not needs_name or (credential.user is not None) is not (
        credential.form is CredentialForm.BASIC
    ):
        return "a credential has a name in a header or query, a user if it is basic, and nothing more"
    return None


def _problem_of_headers(way: OpenApiWay) -> str | None:
    for name, value in way.headers.items():
        is_ours = name.lower() in _OURS or name.lower() == "authorization"
        if _HEADER.fullmatch(name) is None or is_ours or not (value.isascii() and value.isprintable()):
            return "headers are plain ASCII, and none of them says how a message travels or who sends it"
    return None


def _is_sound_text(text: str) -> bool:
    return "\0" not in text and len(text) <= _LONGEST_TEXT and text.isprintable()

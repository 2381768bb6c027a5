"""Who acts, for which tenant, and with what leave. Comes from the server, never from a model."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Self, TypeGuard

from placet.errors import MisuseError
from placet.model.exact import items_of, member_of

MAX_IDENTITY_CHARACTERS = 128
DEFAULT_ENVIRONMENT = "production"
MAX_LINKS = 8
"""Hands a delegation may pass through, the acting one included."""


class Role(StrEnum):
    """What a principal is trusted with; a principal may hold several."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    ADMIN = "admin"


class Standing(StrEnum):
    """How the principal signed in. Only a person's own sign-in may decide an approval."""

    AGENT = "agent"
    PERSON = "person"


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """An authenticated identity.

    Every identity is an exact `str` of 1 to 128 characters. Without a role a principal is a viewer.

    Attributes:
        subject: who acts, unique in the tenant.
        tenant: the isolation boundary; nothing of another tenant exists for this principal.
        roles: roles granted; the most permissive counts.
        scopes: permissions granted, such as `ops.ticket.create`.
        environment: where it acts, such as `production`; bound into approvals.
        on_behalf_of: the principal that delegated; both must have leave, so delegation only narrows.

    Raises:
        MisuseError: an identity is not an exact string of that length.
    """

    subject: str
    tenant: str
    roles: frozenset[Role] = frozenset({Role.VIEWER})
    scopes: frozenset[str] = frozenset()
    environment: str = DEFAULT_ENVIRONMENT
    on_behalf_of: Principal | None = None
    standing: Standing = Standing.AGENT

    def __post_init__(self) -> None:
        if not self.is_well_formed():
            raise MisuseError(
                f"A principal's identities are exact strings of 1 to {MAX_IDENTITY_CHARACTERS} characters, its roles "
                "and scopes frozen sets, and a delegation stays in its tenant and environment."
            )

    def is_well_formed(self) -> bool:
        """Whether every identity in the chain of delegation has its exact type and length; runs no foreign method."""
        try:
            return self._is_sound_chain()
        except AttributeError:  # made without its constructor, it lacks a field
            return False

    def _is_sound_chain(self) -> bool:
        link = self
        for _ in range(MAX_LINKS):
            if not link._is_sound_link():
                return False
            giver = link.on_behalf_of
            if giver is None:
                return True
            if giver.tenant != self.tenant or giver.environment != self.environment:
                return False
            link = giver
        return False

    def _is_sound_link(self) -> bool:
        if not (is_identity(self.subject) and is_identity(self.tenant) and is_identity(self.environment)):
            return False
        if type(self.roles) is not frozenset or any(type(role) is not Role for role in self.roles):
            return False
        if type(self.scopes) is not frozenset or not all(is_identity(scope) for scope in self.scopes):
            return False
        if type(self.standing) is not Standing:
            return False
        giver = self.on_behalf_of
        if giver is None:
            return True
        return type(giver) is Principal and is_identity(giver.tenant) and is_identity(giver.environment)

    @property
    def identity(self) -> str:
        """Who this is in every respect that makes it somebody else: environment, subject and all it acts for.

        An agent acting for Alice is not the same agent acting for Bob, and staging is not production. The plain
        subject for whoever acts for itself in production; otherwise a JSON list, so that no two share one.
        """
        links = [self.subject]
        giver = self.on_behalf_of
        while giver is not None:
            links.append(giver.subject)
            giver = giver.on_behalf_of
        return identity_of(links, environment=self.environment)

    @classmethod
    def agent(
        cls,
        subject: str,
        *,
        tenant: str,
        roles: Collection[str] = (),
        scopes: Collection[str] = (),
        environment: str = DEFAULT_ENVIRONMENT,
        on_behalf_of: Principal | None = None,
    ) -> Self:
        """An agent or service; it may propose and never decides."""
        return cls(
            subject=subject,
            tenant=tenant,
            roles=_roles(roles),
            scopes=_scopes(scopes),
            environment=environment,
            on_behalf_of=on_behalf_of,
            standing=Standing.AGENT,
        )

    @classmethod
    def person(
        cls,
        subject: str,
        *,
        tenant: str,
        roles: Collection[str] = (),
        scopes: Collection[str] = (),
        environment: str = DEFAULT_ENVIRONMENT,
    ) -> Self:
        """A human who signed in; may decide approvals it is entitled to."""
        return cls(
            subject=subject,
            tenant=tenant,
            roles=_roles(roles),
            scopes=_scopes(scopes),
            environment=environment,
            standing=Standing.PERSON,
        )


def identity_of(subjects: Sequence[str], *, environment: str) -> str:
    """The identity of whoever acts first of these, for the second, and so on, the far end last."""
    is_plain = len(subjects) == 1 and environment == DEFAULT_ENVIRONMENT and not subjects[0].startswith("[")
    return subjects[0] if is_plain else json.dumps([environment, *subjects], ensure_ascii=False)


def subjects_of(identity: str) -> tuple[str, ...]:
    """Everybody in an identity: who acts, then whom it acts for, the far end last."""
    if not identity.startswith("["):
        return (identity,)
    try:
        return tuple(str(link) for link in json.loads(identity)[1:]) or (identity,)
    except (ValueError, TypeError, RecursionError):  # nobody's identity, but what somebody put into a row
        return (identity,)


def is_principal(value: object) -> TypeGuard[Principal]:
    """Whether `value` is a principal that is still as it was made; runs no foreign method."""
    return type(value) is Principal and value.is_well_formed()


def is_identity(value: object) -> bool:
    """Whether `value` is an exact str of 1 to 128 characters that every store can keep: encodable, and no U+0000."""
    if type(value) is not str or not 0 < len(value) <= MAX_IDENTITY_CHARACTERS or "\0" in value:
        return False
    return value.isascii() or not any(0xD800 <= ord(character) <= 0xDFFF for character in value)


def _scopes(names: Collection[str]) -> frozenset[str]:
    found = items_of(names)
    if found is not None and all(is_identity(name) for name in found):
        return frozenset(found)
    raise MisuseError(
        "Scopes are a tuple, list or set of texts of 1 to 128 characters, such as ('ops.ticket.create',)."
    )


def _roles(names: Collection[str]) -> frozenset[Role]:
    found = items_of(names)
    roles = None if found is None else [member_of(Role, name) for name in found]
    if roles is not None and None not in roles:
        return frozenset(role for role in roles if role is not None) or frozenset({Role.VIEWER})
    raise MisuseError(f"Roles are a tuple, list or set of {', '.join(role.value for role in Role)}.")

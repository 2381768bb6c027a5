"""What somebody shows at the door, as a store keeps it: never the secret itself, and signed, so that a row is no leave.

A row's name is what it is looked up by: the public id of an API key, the digest of a session's or a link's secret.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from placet.model.approval import Mac
from placet.model.principal import Principal


class CredentialKind(StrEnum):
    """api_key: an agent's. session: a person's browser. sign_in_link: opens one session, once."""

    API_KEY = "api_key"
    SESSION = "session"
    SIGN_IN_LINK = "sign_in_link"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredCredential:
    """One row.

    Attributes:
        name: unique among those of its kind.
        body: canonical JSON of all that it says; what `rules.credentials` reads, once `mac` has been verified.
        mac: over kind, name and body. The columns beside them are for finding and counting, and prove nothing.
        ends_at: from then on it is worth nothing.
        used_at: about when it was last used, by the store's clock; covered by no MAC.
    """

    kind: CredentialKind
    name: str
    tenant: str
    subject: str
    body: bytes
    mac: Mac
    made_at: datetime
    ends_at: datetime
    used_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenCredential:
    """A row, and the store's clock when it was read."""

    row: StoredCredential
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class CredentialChange:
    """What is written in one transaction, or not at all.

    Attributes:
        changed: rows as they become, each beside the MAC it had when it was seen.
        dropped: rows that go, as they were seen.
    """

    added: tuple[StoredCredential, ...] = ()
    changed: tuple[tuple[StoredCredential, Mac], ...] = ()
    dropped: tuple[StoredCredential, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey:
    """What an API key lets its holder be: always an agent.

    Attributes:
        api_key_id: public; part of the text the holder shows.
        secret_digest: of the secret; empty once the key was revoked, so that no copy of the row revives it.
        created_by, revoked_by: people, by their own sign-in.
        rotated_to: the key that takes its place; this one ends when the overlap is over.
    """

    api_key_id: str
    principal: Principal
    secret_digest: str
    created_by: str
    created_at: datetime
    expires_at: datetime
    rotated_from: str | None = None
    rotated_to: str | None = None
    rotated_by: str | None = None
    revoked_by: str | None = None
    revoked_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonSession:
    """A browser's session, or a link that opens one.

    Attributes:
        principal: a person.
        ends_at: over at the latest, whoever uses it.
        through: the issuer that showed who it is, as its tokens name it; None for a link of this server's own.
    """

    kind: CredentialKind
    name: str
    principal: Principal
    began_at: datetime
    ends_at: datetime
    through: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionView:
    """A session that goes on, as its person, or whoever may end it, sees it.

    Attributes:
        name: the beginning of what the store calls it; opens nothing.
        used_at: about when it was used last; None for not since it began.
    """

    name: str
    subject: str
    began_at: datetime
    used_at: datetime | None
    ends_at: datetime
    through: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionLimits:
    """How long a session goes on.

    Attributes:
        idle_seconds: without anybody using it.
        longest_seconds: whoever uses it.
    """

    idle_seconds: float = 1_800.0
    longest_seconds: float = 43_200.0

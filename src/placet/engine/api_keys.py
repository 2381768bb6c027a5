"""The API keys of a tenant's agents: made, rotated and revoked by its people, each time on record.

A key's text is given out once and kept nowhere. A revoked key has lost what it was compared with, so that no later
change of its row revives it. Nothing here is remembered: what one host revokes is revoked on all.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from placet.engine.chronicle import Chronicle
from placet.engine.credentials import CredentialRows, Trust
from placet.errors import DecisionRefused, MisuseError, NotFound
from placet.model.audit import AuditEvent, EventKind
from placet.model.credentials import ApiKey, CredentialChange, CredentialKind, StoredCredential
from placet.model.exact import MOST_LISTED, is_seconds
from placet.model.principal import DEFAULT_ENVIRONMENT, Principal, Standing, is_principal
from placet.ports.keys import Keys
from placet.ports.sign_in import SecretSource
from placet.ports.store import Store
from placet.ports.waiting import paying
from placet.rules.credentials import api_key_text, secret_digest

MANAGE_SCOPE: Final = "api_keys.manage"
"""Lets a person make keys for agents of its own tenant, with whatever roles and scopes, and end them."""
DEFAULT_LIFETIME_SECONDS: Final = 90 * 86_400.0
LONGEST_LIFETIME_SECONDS: Final = 400 * 86_400.0
DEFAULT_OVERLAP_SECONDS: Final = 86_400.0
LONGEST_OVERLAP_SECONDS: Final = 30 * 86_400.0


class ApiKeyState(StrEnum):
    """usable: opens the door. The others do not: expired, revoked, altered by somebody, or signed by a retired key."""

    USABLE = "usable"
    EXPIRED = "expired"
    REVOKED = "revoked"
    ALTERED = "altered"
    KEY_RETIRED = "key_retired"


@dataclass(frozen=True, slots=True, kw_only=True)
class NewApiKey:
    """A key that was just made.

    Attributes:
        text: what its holder shows; nobody can find it out again.
    """

    key: ApiKey
    text: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKeyView:
    """A key, as a person of its tenant may see it.

    Attributes:
        key: what it says; None for one that was altered, or whose signing key is retired.
        used_at: about when it was used last; None for never.
    """

    api_key_id: str
    state: ApiKeyState
    key: ApiKey | None
    used_at: datetime | None


class ApiKeys:
    """Makes and ends API keys. Needs a person's own sign-in with `api_keys.manage`, for its own tenant."""

    def __init__(self, *, store: Store, keys: Keys, chronicle: Chronicle, secrets: SecretSource) -> None:
        self._store = store
        self._chronicle = chronicle
        self._secrets = secrets
        self._rows = CredentialRows(store=store, keys=keys, chronicle=chronicle)

    @paying
    async def create(
        self,
        subject: str,
        *,
        by: Principal,
        roles: Collection[str] = (),
        scopes: Collection[str] = (),
        environment: str = DEFAULT_ENVIRONMENT,
        lifetime_seconds: float = DEFAULT_LIFETIME_SECONDS,
    ) -> NewApiKey:
        """A key for an agent of this name in the person's own tenant. It never decides anything, whatever its scopes.

        Args:
            lifetime_seconds: at most 400 days.

        Raises:
            MisuseError: an argument is not of its kind; nothing was made.
            DecisionRefused: not a person, or without the scope. It is on record.
            StoreError: nothing was made, or nobody has seen its text.
        """
        await self._require(by)
        await self._require_environment(environment, by)
        lifetime = _seconds(lifetime_seconds, "lifetime_seconds", most=LONGEST_LIFETIME_SECONDS)
        principal = Principal.agent(subject, tenant=by.tenant, roles=roles, scopes=scopes, environment=environment)
        now = await self._store.now()
        made = self._fresh(principal, by, now=now, expires_at=now + lifetime)
        event = self._event(EventKind.API_KEY_CREATED, made.key, by)
        await self._put(CredentialChange(added=(self._rows.of_api_key(made.key),)), event)
        return made

    @paying
    async def listed(self, *, by: Principal, limit: int = MOST_LISTED) -> tuple[ApiKeyView, ...]:
        """The keys of the person's tenant, the newest first; also those that have ended."""
        await self._require(by)
        rows = await self._store.credentials(CredentialKind.API_KEY, tenant=by.tenant, limit=limit)
        now = await self._store.now()
        return tuple(self._view(row, now) for row in rows)

    @paying
    async def rotate(
        self,
        api_key_id: str,
        *,
        by: Principal,
        overlap_seconds: float = DEFAULT_OVERLAP_SECONDS,
        lifetime_seconds: float = DEFAULT_LIFETIME_SECONDS,
    ) -> NewApiKey:
        """A new key for the same agent; the old one ends when the overlap is over, or sooner where it would anyway.

        Raises:
            NotFound: the tenant has no such key.
            DecisionRefused: not a person, without the scope, or the key opens nothing any more (`not_usable`) or was
                rotated already (`already_rotated`).
        """
        await self._require(by)
        lifetime = _seconds(lifetime_seconds, "lifetime_seconds", most=LONGEST_LIFETIME_SECONDS)
        overlap = _overlap(overlap_seconds)
        row, old = await self._known(api_key_id, by)
        now = await self._store.now()
        if old is None or old.revoked_at is not None or old.expires_at <= now:
            raise _refused("not_usable", hint="Make a new one: placet api-keys create")
        if old.rotated_to is not None:
            raise _refused("already_rotated", hint="Rotate the new one.")
        await self._require_environment(old.principal.environment, by)
        made = self._fresh(old.principal, by, now=now, expires_at=now + lifetime, rotated_from=old.api_key_id)
        ending = replace(
            old,
            rotated_to=made.key.api_key_id,
            rotated_by=by.subject,
            expires_at=min(old.expires_at, now + overlap),
        )
        await self._put(
            CredentialChange(added=(self._rows.of_api_key(made.key),), changed=((self._kept(row, ending), row.mac),)),
            self._event(EventKind.API_KEY_ROTATED, made.key, by, f"rotated_from:{old.api_key_id}"),
        )
        return made

    @paying
    async def revoke(self, api_key_id: str, *, by: Principal) -> ApiKeyView:
        """End a key now, on every host. One that somebody altered is removed. Revoking twice changes nothing.

        Raises:
            NotFound: the tenant has no such key.
            DecisionRefused: not a person, or without the scope.
        """
        await self._require(by)
        row, key = await self._known(api_key_id, by)
        now = await self._store.now()
        if key is None:
            change, event = CredentialChange(dropped=(row,)), self._of_altered(row, by)
            await self._put(change, event)
            return self._view(row, now)
        if key.revoked_at is not None:
            return self._view(row, now)
        ended = self._kept(row, replace(key, secret_digest="", revoked_by=by.subject, revoked_at=now))
        await self._put(CredentialChange(changed=((ended, row.mac),)), self._event(EventKind.API_KEY_REVOKED, key, by))
        return self._view(ended, now)

    # ------------------------------------------------------------ within

    def _fresh(
        self,
        principal: Principal,
        by: Principal,
        *,
        now: datetime,
        expires_at: datetime,
        rotated_from: str | None = None,
    ) -> NewApiKey:
        name, secret = self._secrets.fresh()[:12].hex(), self._secrets.fresh()
        key = ApiKey(
            api_key_id=name,
            principal=principal,
            secret_digest=secret_digest(CredentialKind.API_KEY, secret),
            created_by=by.subject,
            created_at=now,
            expires_at=expires_at,
            rotated_from=rotated_from,
        )
        return NewApiKey(key=key, text=api_key_text(name, secret))

    def _kept(self, row: StoredCredential, key: ApiKey) -> StoredCredential:
        return replace(self._rows.of_api_key(key), used_at=row.used_at)

    async def _known(self, api_key_id: str, by: Principal) -> tuple[StoredCredential, ApiKey | None]:
        """Raises:
        NotFound: no such key, or another tenant's.
        """
        seen = await self._store.credential(CredentialKind.API_KEY, api_key_id) if type(api_key_id) is str else None
        if seen is None or seen.row.tenant != by.tenant:
            raise NotFound("There is no such API key in your tenant.", hint="placet api-keys list")
        return seen.row, self._rows.api_key(seen.row)

    async def _put(self, change: CredentialChange, event: AuditEvent) -> None:
        if not await self._store.put_credentials(change, events=(event,)):
            raise _refused("changed_meanwhile", hint="Look again: placet api-keys list")

    def _view(self, row: StoredCredential, now: datetime) -> ApiKeyView:
        key = self._rows.api_key(row)
        return ApiKeyView(api_key_id=row.name, state=self._state(row, key, now), key=key, used_at=row.used_at)

    def _state(self, row: StoredCredential, key: ApiKey | None, now: datetime) -> ApiKeyState:
        if key is None:
            is_retired = self._rows.trust(row) is Trust.KEY_RETIRED
            return ApiKeyState.KEY_RETIRED if is_retired else ApiKeyState.ALTERED
        if key.revoked_at is not None:
            return ApiKeyState.REVOKED
        return ApiKeyState.EXPIRED if key.expires_at <= now else ApiKeyState.USABLE

    async def _require(self, by: Principal) -> None:
        if not is_principal(by):
            raise MisuseError("by= is the signed-in Principal.")
        if by.standing is not Standing.PERSON:
            raise await self._refusal(by, "not_a_person")
        if MANAGE_SCOPE not in by.scopes:
            raise await self._refusal(by, "scope_missing")

    async def _require_environment(self, environment: str, by: Principal) -> None:
        """Whoever acts where everything acts that names no environment hands out keys for every other one too; nobody
        else reaches beyond its own.
        """
        if by.environment not in (environment, DEFAULT_ENVIRONMENT):
            raise await self._refusal(by, "other_environment")

    async def _refusal(self, by: Principal, code: str) -> DecisionRefused:
        event = self._chronicle.event(
            EventKind.API_KEY_REFUSED,
            self._chronicle.of_principal(by),
            detail=code,
            decided_by=by.subject,
            model_suggested=False,
        )
        await self._store.record((event,))
        hint = f"Somebody with the scope {MANAGE_SCOPE} has to do it." if code == "scope_missing" else ""
        return _refused(code, hint=hint)

    def _event(self, kind: EventKind, key: ApiKey, by: Principal, *reasons: str) -> AuditEvent:
        return self._chronicle.event(
            kind,
            self._chronicle.of_principal(key.principal),
            reasons=(f"api_key:{key.api_key_id}", f"scopes:{len(key.principal.scopes)}", *reasons),
            decided_by=by.subject,
            expires_at=key.expires_at,
            model_suggested=False,
        )

    def _of_altered(self, row: StoredCredential, by: Principal) -> AuditEvent:
        facts = self._chronicle.of_store(by.subject) | {"tenant": by.tenant}
        return self._chronicle.event(
            EventKind.API_KEY_REVOKED,
            facts,
            detail="altered",
            reasons=(f"api_key:{row.name}",),
            decided_by=by.subject,
            model_suggested=False,
        )


def _seconds(value: object, what: str, *, most: float) -> timedelta:
    if is_seconds(value) and 0 < value <= most:
        return timedelta(seconds=value)
    raise MisuseError(f"{what}= is a number of seconds above 0, and at most {most:,.0f}.")


def _overlap(value: object) -> timedelta:
    return (
        timedelta()
        if value == 0 and type(value) in (int, float)
        else _seconds(value, "overlap_seconds", most=LONGEST_OVERLAP_SECONDS)
    )


def _refused(code: str, *, hint: str) -> DecisionRefused:
    return DecisionRefused(_REFUSALS[code], code=code, hint=hint)


_REFUSALS = {
    "already_rotated": "This key was rotated already.",
    "changed_meanwhile": "Somebody else changed this key at the same time; nothing was done.",
    "not_usable": "This key opens nothing any more, so there is nothing to rotate.",
    "not_a_person": "Only a person's own sign-in makes and ends API keys.",
    "other_environment": "A key for another environment than your own is not yours to give.",
    "scope_missing": f"This needs the scope {MANAGE_SCOPE}.",
}

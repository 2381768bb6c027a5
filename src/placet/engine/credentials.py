"""Credentials to rows and back: signed when they are put, verified before a word of them is believed."""

from __future__ import annotations

from enum import Enum

from placet.engine.chronicle import NOBODY, Chronicle
from placet.errors import StoreError
from placet.model.approval import Mac
from placet.model.audit import AuditEvent, EventKind
from placet.model.credentials import ApiKey, CredentialKind, PersonSession, StoredCredential
from placet.model.principal import is_identity
from placet.ports.keys import KeyPurpose, Keys, KeyState
from placet.ports.store import Store
from placet.rules import credentials as rules

_MOST_ALARMS = 1_000


class Trust(Enum):
    """What a row's MAC says. key_retired: nobody altered it, and what signed it is worth nothing any more."""

    AUTHENTIC = "authentic"
    ALTERED = "altered"
    KEY_RETIRED = "key_retired"


class CredentialRows:
    """Signs and verifies rows under the store's keys, and tells once of each that somebody altered."""

    def __init__(self, *, store: Store, keys: Keys, chronicle: Chronicle) -> None:
        self._store = store
        self._keys = keys
        self._chronicle = chronicle
        self._told: dict[tuple[str, Mac], None] = {}

    def of_api_key(self, key: ApiKey) -> StoredCredential:
        kind, body = CredentialKind.API_KEY, rules.api_key_body(key)
        return StoredCredential(
            kind=kind,
            name=key.api_key_id,
            tenant=key.principal.tenant,
            subject=key.principal.subject,
            body=body,
            mac=self._keys.mac(KeyPurpose.CREDENTIAL, rules.mac_form(kind, key.api_key_id, body)),
            made_at=key.created_at,
            ends_at=key.revoked_at or key.expires_at,
        )

    def of_session(self, session: PersonSession) -> StoredCredential:
        body = rules.session_body(session)
        return StoredCredential(
            kind=session.kind,
            name=session.name,
            tenant=session.principal.tenant,
            subject=session.principal.subject,
            body=body,
            mac=self._keys.mac(KeyPurpose.CREDENTIAL, rules.mac_form(session.kind, session.name, body)),
            made_at=session.began_at,
            ends_at=session.ends_at,
        )

    def trust(self, row: StoredCredential) -> Trust:
        if self._keys.is_authentic(KeyPurpose.CREDENTIAL, rules.mac_form(row.kind, row.name, row.body), row.mac):
            return Trust.AUTHENTIC
        is_retired = self._keys.state_of(row.mac.key_id) is KeyState.RETIRED
        return Trust.KEY_RETIRED if is_retired else Trust.ALTERED

    def api_key(self, row: StoredCredential) -> ApiKey | None:
        """What a row says; None where it is not authentic, or its columns say anything else."""
        return rules.api_key_of(row) if self.trust(row) is Trust.AUTHENTIC else None

    def session(self, row: StoredCredential) -> PersonSession | None:
        return rules.session_of(row) if self.trust(row) is Trust.AUTHENTIC else None

    async def tell_of_altered(self, row: StoredCredential) -> None:
        """An alarm, once in this process for each state of a row: whoever shows it again and again fills no audit."""
        if self.trust(row) is Trust.KEY_RETIRED or (row.name, row.mac) in self._told:
            return
        if len(self._told) >= _MOST_ALARMS:
            self._told.pop(next(iter(self._told)))
        self._told[row.name, row.mac] = None
        try:
            await self._store.record((self.suspect(row),))
        except StoreError:
            del self._told[row.name, row.mac]  # nobody has heard of it; the next look tells

    def suspect(self, row: StoredCredential) -> AuditEvent:
        facts = self._chronicle.of_store(NOBODY)
        facts["tenant"] = row.tenant if is_identity(row.tenant) else NOBODY
        return self._chronicle.event(
            EventKind.CREDENTIAL_SUSPECT,
            facts,
            detail=row.kind.value,
            reasons=(f"{row.kind.value}:{row.name}",),
            model_suggested=False,
        )

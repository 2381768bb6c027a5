"""An API key as it was shown becomes its agent.

The row is looked up each time and nothing of it is remembered: what was revoked anywhere is revoked here. What is
unknown, revoked or somebody else's secret is refused in the same words and after the same work. A key that is over is
told so, but only to whoever has shown its secret.
"""

from __future__ import annotations

import hmac
from contextlib import suppress
from datetime import UTC, datetime, timedelta

from placet.engine.credentials import CredentialRows
from placet.errors import SignInRefused, StoreError
from placet.model.credentials import ApiKey, CredentialKind, SeenCredential
from placet.model.principal import Principal
from placet.ports.sign_in import SecretSource
from placet.ports.store import Store
from placet.rules.credentials import secret_digest, shown_api_key

USED_EVERY_SECONDS = 600.0
"""When a key was last used is known to within this time, so that a call costs no write."""


class ApiKeySignIn:
    """Fulfils `ports.sign_in.SignIn` for API keys."""

    def __init__(self, *, store: Store, rows: CredentialRows, secrets: SecretSource) -> None:
        self._store = store
        self._rows = rows
        self._no_digest = secret_digest(CredentialKind.API_KEY, secrets.fresh())
        self._decoy = rows.of_api_key(_nobodys(self._no_digest))

    async def principal_of(self, credential: str) -> Principal:
        shown = shown_api_key(credential)
        if shown is None:
            raise SignInRefused
        seen = await self._store.credential(CredentialKind.API_KEY, shown.api_key_id)
        row = seen.row if seen is not None else self._decoy
        key = self._rows.api_key(row)
        kept = key.secret_digest if key is not None and key.secret_digest else self._no_digest
        is_holder = hmac.compare_digest(kept, secret_digest(CredentialKind.API_KEY, shown.secret))
        if seen is None:
            raise SignInRefused
        if key is None:
            await self._rows.tell_of_altered(row)
            raise SignInRefused
        if not is_holder or key.revoked_at is not None:
            raise SignInRefused
        if key.expires_at <= seen.at:
            raise SignInRefused(
                "This API key is over.", code="sign_in_expired", hint="Ask whoever runs this placet for a new one."
            )
        await self._note_use(seen)
        return key.principal

    async def _note_use(self, seen: SeenCredential) -> None:
        used_at = seen.row.used_at
        if used_at is not None and used_at > seen.at - timedelta(seconds=USED_EVERY_SECONDS):
            return
        with suppress(StoreError):  # when it was used is no reason to keep anybody out
            await self._store.credential_used(seen.row.kind, seen.row.name, every_seconds=USED_EVERY_SECONDS)


def _nobodys(digest: str) -> ApiKey:
    """Of the same size as another, so that looking at it takes as long."""
    beginning = datetime(1970, 1, 1, tzinfo=UTC)
    return ApiKey(
        api_key_id="0" * 24,
        principal=Principal.agent("nobody", tenant="unknown"),
        secret_digest=digest,
        created_by="nobody",
        created_at=beginning,
        expires_at=beginning,
    )

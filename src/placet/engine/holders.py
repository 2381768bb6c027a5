"""What an agent that holds API keys of this store may do by now: a run may wait for days, and keys end meanwhile.

A run whose principal could have been let in by one of its API keys, and be it one that had ended just before, goes on
with no more than one of them allows by now, and waits where none of them opens a door any more. Other principals are
the embedding program's word, and whoever keeps them says what they may by now (`principal_of=`).
"""

from __future__ import annotations

from dataclasses import replace

from placet.engine.chronicle import Chronicle
from placet.engine.credentials import CredentialRows
from placet.model.credentials import ApiKey, CredentialKind
from placet.model.exact import MOST_LISTED
from placet.model.principal import Principal, Standing
from placet.ports.keys import Keys
from placet.ports.store import Store


class KeyHolders:
    """Looks at rows, and remembers nothing: what one host revokes is revoked on all."""

    def __init__(self, *, store: Store, keys: Keys, chronicle: Chronicle) -> None:
        self._store = store
        self._rows = CredentialRows(store=store, keys=keys, chronicle=chronicle)

    async def has_keys(self, principal: Principal) -> bool:
        """Whether all that it may is what one key of its own allows, or allowed before it ended: whoever was let in by
        it may still be there.
        """
        own = [key.principal for key in await self._own(principal)]
        return any(principal.roles <= key.roles and principal.scopes <= key.scopes for key in own)

    async def by_now(self, was: Principal) -> Principal | None:
        """Narrowed to what one of its usable keys allows, the one that leaves it most; None where it has none any more.

        Never to what several allow together: no caller with any one of them could do that.
        """
        left = [
            replace(was, roles=was.roles & key.roles, scopes=was.scopes & key.scopes) for key in await self._usable(was)
        ]
        return max(left, key=lambda each: (len(each.scopes), len(each.roles)), default=None)

    async def _usable(self, principal: Principal) -> list[Principal]:
        own = [key for key in await self._own(principal) if key.revoked_at is None]
        now = await self._store.now() if own else None
        return [key.principal for key in own if now is not None and key.expires_at > now]

    async def _own(self, principal: Principal) -> list[ApiKey]:
        if principal.standing is not Standing.AGENT:
            return []
        found = await self._store.credentials(
            CredentialKind.API_KEY, tenant=principal.tenant, subject=principal.subject, limit=MOST_LISTED
        )
        return [
            key
            for row in found
            if (key := self._rows.api_key(row)) is not None
            and (key.principal.tenant, key.principal.subject, key.principal.environment)
            == (principal.tenant, principal.subject, principal.environment)
        ]

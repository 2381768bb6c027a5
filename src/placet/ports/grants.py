"""Standing grants and how often each was used."""

from __future__ import annotations

from typing import Protocol

from placet.model.approval import Mac
from placet.model.audit import AuditEvent
from placet.model.grant import Grant, GrantId, StoredGrant
from placet.model.listing import Mark


class Grants(Protocol):
    """Standing grants. Authority is in the MACs, which the engine makes and checks; what rows say is unverified.

    A use is counted by `claim`, in its own transaction, and by nothing else.
    """

    async def add_grant(self, grant: Grant, mac: Mac, *, events: tuple[AuditEvent, ...]) -> StoredGrant:
        """Store a grant that nobody has used."""
        ...

    async def grant(self, tenant: str, grant_id: GrantId) -> StoredGrant | None: ...

    async def standing_grants(self, *, tenant: str, subject: str, tool: str, limit: int) -> tuple[StoredGrant, ...]:
        """Those that are neither revoked nor expired nor used up, the soonest to expire first, then by id."""
        ...

    async def grants_after(self, tenant: str, mark: Mark | None, *, limit: int) -> tuple[StoredGrant, ...]:
        """Of a tenant, those that have ended too, by the instant at which they were given; as `Pages` lists."""
        ...

    async def standing_grants_after(self, tenant: str, mark: Mark | None, *, limit: int) -> tuple[StoredGrant, ...]:
        """Of a tenant, those that are neither revoked nor expired nor used up, in the order of `grants_after`."""
        ...

    async def revoke_grant(
        self, seen: StoredGrant, revoked: Grant, mac: Mac, *, events: tuple[AuditEvent, ...]
    ) -> StoredGrant | None:
        """Put the revoked form in the place of the one that was seen, whatever was used of it since.

        The grant as it is afterwards; another than `revoked`, and nothing written, if it was revoked already or is not
        the one that was seen. None if it is gone.
        """
        ...

    async def end_grant(self, seen: StoredGrant, *, events: tuple[AuditEvent, ...]) -> bool:
        """Mark a row that was altered, or whose key is retired, as ended now. It stays as nobody signed it: of what it
        was the row of, none may ever begin anew. False, and nothing written, if it has ended or is not as it was seen.
        """
        ...

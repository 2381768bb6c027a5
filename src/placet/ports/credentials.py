"""What people and agents show at the door, as a store keeps it."""

from __future__ import annotations

from typing import Protocol

from placet.model.audit import AuditEvent
from placet.model.credentials import CredentialChange, CredentialKind, SeenCredential, StoredCredential


class Credentials(Protocol):
    """What people and agents show at the door. Authority is in the MACs, which whoever asks makes and checks."""

    async def credential(self, kind: CredentialKind, name: str) -> SeenCredential | None:
        """As the last commit left it, on whatever host that was: what was revoked is revoked everywhere."""
        ...

    async def credentials(
        self, kind: CredentialKind, *, tenant: str, subject: str | None = None, limit: int
    ) -> tuple[StoredCredential, ...]:
        """Of a tenant, the newest first; also those that have ended. What rows say, unverified."""
        ...

    async def ended_credentials(self, kind: CredentialKind, *, limit: int) -> tuple[StoredCredential, ...]:
        """Of every tenant, the longest ended first; what rows say, unverified."""
        ...

    async def put_credentials(self, change: CredentialChange, *, events: tuple[AuditEvent, ...]) -> bool:
        """All of it; False, and nothing written, if a row is there already, is gone, or is not as it was seen."""
        ...

    async def credential_used(self, kind: CredentialKind, name: str, *, every_seconds: float) -> None:
        """Note that it is used, unless that was noted so short a time ago."""
        ...

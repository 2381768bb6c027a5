"""Who may sign in, as of now, where somebody keeps a list of people."""

from __future__ import annotations

from typing import Protocol

from placet.model.principal import Principal


class People(Protocol):
    """A list of people with their roles and scopes. Whatever it raises, and any silence, is a no."""

    async def person(self, tenant: str, subject: str) -> Principal | None:
        """The person as it stands in the list now; None if it does not."""
        ...

    async def people(self, tenant: str) -> tuple[Principal, ...]:
        """Everybody of a tenant in the list, for showing who may decide."""
        ...


class NobodyListed:
    """No list is kept here: what is known of a person is what its own sign-in said, and what was signed of it."""

    async def person(self, tenant: str, subject: str) -> Principal | None:
        return None

    async def people(self, tenant: str) -> tuple[Principal, ...]:
        return ()

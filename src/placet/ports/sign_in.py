"""Who stands at the door: a credential as it came over the wire becomes a principal, or nobody.

Front doors ask; what a token, key or session is belongs to the adapter. The standing of the answer is the adapter's
word too: only a person's own sign-in is a `Standing.PERSON`, so that a credential that proposes never decides.
"""

from __future__ import annotations

from typing import Protocol

from placet.model.principal import Principal


class SignIn(Protocol):
    """Names the principal behind a bearer credential."""

    async def principal_of(self, credential: str) -> Principal:
        """The principal behind what stood after `Bearer `.

        Raises:
            SignInRefused: nobody; unknown, altered, expired and revoked ones are told apart only where their holder
                has proven to hold them.
            StoreError, BoundaryUnavailable: whoever could tell was not there; nobody is let in.
        """
        ...


class SecretSource(Protocol):
    """Where secrets come from. A foreign source of names is never asked for one."""

    def fresh(self) -> bytes:
        """32 bytes that nobody can guess."""
        ...

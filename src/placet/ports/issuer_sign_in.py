"""A person's way into the console through an issuer's own pages, as the console asks for it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from placet.model.issuer_sign_in import Begun, Shown, Way


class IssuerSignIn(Protocol):
    """The issuers that people may come through. Whoever is shown has proven who it is, and has no session yet."""

    @property
    def ways(self) -> tuple[Way, ...]:
        """In the order of the configuration."""
        ...

    async def begin(self, name: str, *, wanted: str) -> Begun:
        """An attempt through this way.

        Raises:
            NotFound: there is no such way.
            BoundaryUnavailable: the issuer cannot be asked now.
        """
        ...

    async def finish(self, name: str, answer: Iterable[tuple[str, str]], *, kept: str) -> Shown:
        """Who came back to the address of this way, with these words in it and this in its cookie.

        Raises:
            SignInRefused: nobody; a code of ours says why, and never the issuer's words.
            NotFound: there is no such way.
            BoundaryUnavailable: the issuer cannot be asked now; its answer is spent.
        """
        ...

    async def way_out(self, through: str | None) -> str | None:
        """Where the sign-out of the issuer is through which somebody came; None where none is wanted or known."""
        ...

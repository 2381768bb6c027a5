"""People's sign-in to the console through an issuer's own pages: what a deployment says of it, and one attempt."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from placet.model.destinations import SecretRef
from placet.model.issuers import Issuer
from placet.model.principal import Principal

DEFAULT_ASKED = ("openid",)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleClient:
    """What we are at an issuer: a client that asks it who somebody is.

    Attributes:
        issuer: what an ID token makes of its holder; its own `audience` is that of API tokens, and not asked here.
        name: ours, of small letters, digits and -; part of the address that the issuer sends people back to.
        client_id: the issuer's name for us, and the audience of its ID tokens.
        client_secret: where the secret is; None for a public client, which has PKCE alone.
        asked: the OAuth scopes that are asked for; `openid` is one of them.
        ends_there: whether signing out here goes on to the issuer's own sign-out.
    """

    issuer: Issuer
    name: str
    client_id: str
    client_secret: SecretRef | None = None
    asked: tuple[str, ...] = DEFAULT_ASKED
    ends_there: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One sign-in that a browser has begun; it keeps this, sealed, until it comes back.

    Attributes:
        name: of the client through which it goes.
        state: what the issuer hands back, so that only the browser that began can end it.
        nonce: what the ID token has to say, so that no other sign-in's token does.
        verifier: what only we can show for the code. Source: RFC 7636.
        wanted: where the person wanted to go.
    """

    name: str
    state: str = field(repr=False)
    nonce: str = field(repr=False)
    verifier: str = field(repr=False)
    wanted: str
    began_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """Where a browser goes, and what it keeps meanwhile.

    Attributes:
        address: at the issuer.
        kept: the value of a cookie; opens nothing by itself.
    """

    address: str = field(repr=False)
    kept: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """Who came back.

    Attributes:
        wanted: where the person wanted to go; as it came, unchecked.
        through: the issuer, as its tokens name it.
    """

    principal: Principal
    wanted: str
    through: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """A way into the console, as the sign-in page offers it."""

    name: str
    issuer: str

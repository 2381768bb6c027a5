"""A signed token of a configured issuer becomes its holder.

Order: taken apart, whose it says it is, a key of that issuer, the signature, and only then what it claims. The library
verifies the signature and nothing else; times, audience and subject are `rules.tokens`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from joserfc import jws
from joserfc.errors import JoseError

from placet.adapters.identity.issuers import IssuerKeys
from placet.errors import SignInRefused
from placet.model.issuers import Issuer
from placet.model.principal import Principal
from placet.ports.clock import Clock
from placet.ports.sign_in import SignIn
from placet.rules.tokens import (
    MAX_CHARACTERS,
    Token,
    TokenFault,
    TokenRefused,
    audiences_of,
    holder_of,
    issuer_for,
    taken_apart,
)

_log = logging.getLogger("placet.sign_in")


class _Registry(jws.JWSRegistry):
    """Sizes as `rules.tokens` has them."""

    max_header_length: Final = MAX_CHARACTERS  # type: ignore[misc]  # the library's is a plain attribute
    max_signature_length: Final = MAX_CHARACTERS  # type: ignore[misc]


class _ForResource:
    """Fulfils `ports.sign_in.SignIn` for tokens that one resource may take."""

    def __init__(self, tokens: TokenSignIn, audience: str) -> None:
        self._tokens = tokens
        self._audience = audience

    async def principal_of(self, credential: str) -> Principal:
        return await self._tokens.holder_of(credential, self._require)

    def _require(self, token: Token) -> None:
        if self._audience not in audiences_of(token):
            raise TokenRefused(TokenFault.AUDIENCE)


class TokenSignIn:
    """Fulfils `ports.sign_in.SignIn` for tokens of issuers. Use it from one event loop."""

    def __init__(self, issuers: Sequence[Issuer], keys: Mapping[str, IssuerKeys], *, clock: Clock) -> None:
        """Args:
        keys: by the issuer's name.
        """
        self._issuers = tuple(issuers)
        self._keys = keys
        self._clock = clock

    async def principal_of(self, credential: str) -> Principal:
        return await self.holder_of(credential, lambda token: None)

    async def holder_of(self, credential: str, require: Callable[[Token], None]) -> Principal:
        """Whose token it is, if it also is what the caller requires of a verified one.

        Args:
            require: raises `TokenRefused` for a token that it does not want.

        Raises:
            SignInRefused, BoundaryUnavailable: as `principal_of`.
        """
        try:
            token = taken_apart(credential)
            issuer = await self._verified(credential, token)
            require(token)
            others = tuple(
                each.subject_prefix for each in self._issuers if each.issuer != issuer.issuer and each.subject_prefix
            )
            return holder_of(token, issuer, now=self._clock.now(), others=others)
        except TokenRefused as refused:
            fault = refused.fault
        _log.info("a token was refused: %s", fault.value)
        if fault is TokenFault.EXPIRED:
            raise SignInRefused("This token is over.", code="sign_in_expired", hint="Get a new one from its issuer.")
        raise SignInRefused

    def for_resource(self, audience: str) -> SignIn:
        """The same, for tokens alone that were issued for this resource as well: its `aud` names it."""
        return _ForResource(self, audience)

    async def close(self) -> None:
        for keys in self._keys.values():
            await keys.close()

    async def _verified(self, credential: str, token: Token) -> Issuer:
        """Whose token it is, by its signature.

        Raises:
            TokenRefused: nobody's whom we know.
            BoundaryUnavailable: the issuer's keys are not there.
        """
        issuer, algorithm = issuer_for(token, self._issuers)
        key = await self._keys[issuer.issuer].key(token.key_id, algorithm)
        if key is None:
            raise TokenRefused(TokenFault.KEY)
        registry = _Registry(algorithms=[algorithm.value], strict_check_header=False)
        try:
            jws.deserialize_compact(credential, key, algorithms=[algorithm.value], registry=registry)
            return issuer
        except (JoseError, ValueError, TypeError):
            pass
        raise TokenRefused(TokenFault.SIGNATURE)

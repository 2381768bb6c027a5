"""An issuer's public keys, fetched when they are needed, and not more often than it can bear.

    never fetched        the first token waits for them
    fresh, one hour      used as they are
    not fresh            one caller fetches them anew; others go on with what is there
    unknown key id       fetched anew, but never sooner than 30 s after the last try: made-up ids wear nobody out
    issuer down          what is there is used for a day since it was fetched; then nobody is let in

A key that an issuer takes back is gone here at the next fetch.
"""

from __future__ import annotations

import asyncio
import base64
import logging
from math import inf
from typing import Any, Final

from joserfc import jwk
from joserfc.errors import JoseError

from placet.adapters.identity.fetching import Fetcher, NotFetched
from placet.errors import BoundaryUnavailable, InvalidArguments
from placet.model.issuers import Algorithm, Issuer
from placet.ports.clock import Clock
from placet.rules.decoding import DecodingLimits, decode_object
from placet.rules.issuers import discovery_url

FRESH_SECONDS: Final = 3_600.0
FLOOR_SECONDS: Final = 30.0
STALE_SECONDS: Final = 86_400.0
_LIMITS: Final = DecodingLimits(max_bytes=262_144, max_depth=6, max_members=5_000, max_string_characters=20_000)
_MOST_KEYS: Final = 100
_RSA_BITS: Final = range(2_048, 4_097)
_PRIVATE_MEMBERS: Final = frozenset({"d", "p", "q", "dp", "dq", "qi", "oth", "k"})
_CURVES: Final = {Algorithm.ES256: "P-256", Algorithm.ES384: "P-384", Algorithm.ES512: "P-521"}

PublicKey = jwk.RSAKey | jwk.ECKey | jwk.OKPKey

_log = logging.getLogger("placet.sign_in")


class IssuerKeys:
    """The keys of one issuer. Use it from one event loop."""

    def __init__(self, issuer: Issuer, fetcher: Fetcher, *, clock: Clock) -> None:
        self._issuer = issuer
        self._fetcher = fetcher
        self._clock = clock
        self._fetching: asyncio.Task[None] | None = None
        self._documents: tuple[dict[str, Any], ...] = ()
        self._fetched_at = -inf
        self._tried_at = -inf
        self._found: dict[tuple[str, Algorithm], PublicKey | None] = {}

    async def key(self, key_id: str, algorithm: Algorithm) -> PublicKey | None:
        """The key of this id, if the issuer has exactly one that fits the algorithm.

        Raises:
            BoundaryUnavailable: nobody can tell now: the issuer's keys could not be fetched, or not for a day.
        """
        if self._age(self._fetched_at) > STALE_SECONDS:
            await self._refresh()
            if self._age(self._fetched_at) > STALE_SECONDS:
                raise BoundaryUnavailable(
                    "The keys of an issuer of sign-in tokens cannot be fetched.",
                    code="sign_in_unavailable",
                    hint="Ask again. If it goes on, look into the log of placet.sign_in, and at the issuer.",
                )
        key = self._known(key_id, algorithm)
        is_old = self._age(self._fetched_at) > FRESH_SECONDS and not self._is_fetching
        if key is None or is_old:
            await self._refresh()
            key = self._known(key_id, algorithm)
        return key

    def _age(self, since: float) -> float:
        now = self._clock.monotonic()
        if now == inf:
            raise BoundaryUnavailable("The clock cannot be read.", code="clock_failed")
        return now - since

    async def close(self) -> None:
        """Fetch nothing more."""
        if self._fetching is not None:
            self._fetching.cancel()
            await asyncio.wait((self._fetching,))

    @property
    def _is_fetching(self) -> bool:
        return self._fetching is not None and not self._fetching.done()

    async def _refresh(self) -> None:
        """Once for all who wait, and not too soon after the last try.

        In a task of its own: whoever asks and leaves again would else spend the one try that all others have.
        """
        if not self._is_fetching:
            if self._age(self._tried_at) < FLOOR_SECONDS:
                return
            self._tried_at = self._clock.monotonic()
            self._fetching = asyncio.ensure_future(self._fetch_anew())
        if self._fetching is not None:
            await asyncio.wait((self._fetching,))  # whatever becomes of whoever waits, the fetch goes on

    async def _fetch_anew(self) -> None:
        try:
            documents = await self._fetched()
        except NotFetched as fault:
            _log.warning("the keys of the issuer %r were not fetched: %s", self._issuer.issuer, fault.reason)
            return
        self._documents, self._found, self._fetched_at = documents, {}, self._clock.monotonic()

    async def _fetched(self) -> tuple[dict[str, Any], ...]:
        """Raises:
        NotFetched: it did not come, or is no set of keys.
        """
        url = self._issuer.jwks_url
        if url is None:
            discovered = _document(await self._fetcher.get(discovery_url(self._issuer)))
            url = discovered.get("jwks_uri")
            if discovered.get("issuer") != self._issuer.issuer or type(url) is not str:
                raise NotFetched("other_issuer")
        keys = _document(await self._fetcher.get(url)).get("keys")
        if type(keys) is not list or len(keys) > _MOST_KEYS or not all(type(each) is dict for each in keys):
            raise NotFetched("no_keys")
        return tuple(keys)

    def _known(self, key_id: str, algorithm: Algorithm) -> PublicKey | None:
        name = (key_id, algorithm)
        if name in self._found:
            return self._found[name]
        fitting = [each for each in self._documents if each.get("kid") == key_id and _fits(each, algorithm)]
        key = _imported(fitting[0]) if len(fitting) == 1 else None
        if key is not None:
            self._found[name] = key
        return key


def _document(body: bytes) -> dict[str, Any]:
    try:
        return decode_object(body, limits=_LIMITS)
    except InvalidArguments:
        pass
    raise NotFetched("no_json")


def _fits(document: dict[str, Any], algorithm: Algorithm) -> bool:
    """Whether a published key is for verifying with this algorithm, and says nothing against it."""
    operations = document.get("key_ops", ["verify"])
    return (
        document.get("alg", algorithm.value) == algorithm.value
        and document.get("use", "sig") == "sig"
        and type(operations) is list
        and "verify" in operations
        and not _PRIVATE_MEMBERS & document.keys()
        and _is_of_kind(document, algorithm)
    )


def _is_of_kind(document: dict[str, Any], algorithm: Algorithm) -> bool:
    match algorithm:
        case Algorithm.ES256 | Algorithm.ES384 | Algorithm.ES512:
            return document.get("kty") == "EC" and document.get("crv") == _CURVES[algorithm]
        case Algorithm.ED25519:
            return document.get("kty") == "OKP" and document.get("crv") == "Ed25519"
        case _:
            is_usual = document.get("kty") == "RSA" and document.get("e") == "AQAB"
            return is_usual and _modulus_bits(document.get("n")) in _RSA_BITS


def _modulus_bits(text: object) -> int:
    """How large an RSA key is: neither too weak nor made to be slow; 0 for what is no number."""
    try:
        raw = base64.urlsafe_b64decode(text + "==") if type(text) is str and text.isascii() else b""
    except ValueError:
        return 0
    return int.from_bytes(raw, "big").bit_length()


def _imported(document: dict[str, Any]) -> PublicKey | None:
    """The key itself; None for one that is none."""
    wanted: dict[str, Any] = {name: document[name] for name in ("kty", "n", "e", "crv", "x", "y") if name in document}
    try:
        key = jwk.import_key(wanted)
    except (JoseError, ValueError, TypeError, KeyError):
        return None
    match key:
        case jwk.RSAKey() | jwk.ECKey() | jwk.OKPKey():
            return key
        case _:
            return None

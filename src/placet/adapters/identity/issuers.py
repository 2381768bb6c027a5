"""An issuer's public keys, for tokens that name one of them. When they are fetched is `remembered`'s.

A key that an issuer takes back is gone here at the next fetch; an id that is not known has them fetched anew.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from typing import Any, Final

from joserfc import jwk
from joserfc.errors import JoseError

from placet.adapters.identity.fetching import Fetcher, NotFetched
from placet.adapters.identity.remembered import FLOOR_SECONDS, FRESH_SECONDS, STALE_SECONDS, Remembered
from placet.errors import InvalidArguments
from placet.model.issuers import Algorithm, Issuer
from placet.ports.clock import Clock
from placet.rules.decoding import DecodingLimits, decode_object
from placet.rules.issuers import discovery_url

__all__ = ["FLOOR_SECONDS", "FRESH_SECONDS", "STALE_SECONDS", "IssuerKeys", "PublicKey", "discovered"]

_LIMITS: Final = DecodingLimits(max_bytes=262_144, max_depth=6, max_members=5_000, max_string_characters=20_000)
_MOST_KEYS: Final = 100
_RSA_BITS: Final = range(2_048, 4_097)
_PRIVATE_MEMBERS: Final = frozenset({"d", "p", "q", "dp", "dq", "qi", "oth", "k"})
_CURVES: Final = {Algorithm.ES256: "P-256", Algorithm.ES384: "P-384", Algorithm.ES512: "P-521"}

PublicKey = jwk.RSAKey | jwk.ECKey | jwk.OKPKey


@dataclass(frozen=True, slots=True, kw_only=True)
class _Published:
    """A set of keys as it was fetched, and those of it that were looked for already."""

    documents: tuple[dict[str, Any], ...]
    found: dict[tuple[str, Algorithm], PublicKey] = field(default_factory=dict)

    def key(self, key_id: str, algorithm: Algorithm) -> PublicKey | None:
        name = (key_id, algorithm)
        if name not in self.found:
            fitting = [each for each in self.documents if each.get("kid") == key_id and _fits(each, algorithm)]
            key = _imported(fitting[0]) if len(fitting) == 1 else None
            if key is None:
                return None
            self.found[name] = key
        return self.found[name]


class IssuerKeys:
    """The keys of one issuer. Use it from one event loop."""

    def __init__(self, issuer: Issuer, fetcher: Fetcher, *, clock: Clock) -> None:
        self._issuer = issuer
        self._fetcher = fetcher
        self._published = Remembered(self._fetched, what="the keys", issuer=issuer.issuer, clock=clock)

    async def key(self, key_id: str, algorithm: Algorithm) -> PublicKey | None:
        """The key of this id, if the issuer has exactly one that fits the algorithm.

        Raises:
            BoundaryUnavailable: nobody can tell now: the issuer's keys could not be fetched, or not for a day.
        """
        key = (await self._published.value()).key(key_id, algorithm)
        if key is None:
            key = (await self._published.renewed()).key(key_id, algorithm)
        return key

    async def close(self) -> None:
        """Fetch nothing more."""
        await self._published.close()

    async def _fetched(self) -> _Published:
        """Raises:
        NotFetched: it did not come, or is no set of keys.
        """
        url = self._issuer.jwks_url
        if url is None:
            url = (await discovered(self._issuer, self._fetcher)).get("jwks_uri")
            if type(url) is not str:
                raise NotFetched("other_issuer")
        keys = _document(await self._fetcher.get(url)).get("keys")
        if type(keys) is not list or len(keys) > _MOST_KEYS or not all(type(each) is dict for each in keys):
            raise NotFetched("no_keys")
        return _Published(documents=tuple(keys))


async def discovered(issuer: Issuer, fetcher: Fetcher) -> dict[str, Any]:
    """What the issuer says of itself.

    Raises:
        NotFetched: it did not come, or is another issuer's.
    """
    found = _document(await fetcher.get(discovery_url(issuer)))
    if found.get("issuer") != issuer.issuer:
        raise NotFetched("other_issuer")
    return found


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

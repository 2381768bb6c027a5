"""What a signed token may look like, and what its claims make of its holder.

Nothing of a token chooses how it is verified: the algorithm has to be one of the issuer's, its key is one that the
issuer publishes, and a header that brings a key, or names where one is, is refused. Text is decoded once, strictly.
Source: RFC 7515, 7519, 8725; OpenID Connect Core 1.0, section 3.1.3.7.
"""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from placet.errors import InvalidArguments
from placet.model.issuers import Algorithm, ClaimPath, Issuer
from placet.model.principal import Principal, Role, Standing, is_identity
from placet.rules.decoding import DecodingLimits, decode_object

MAX_CHARACTERS: Final = 8_192
SKEW_SECONDS: Final = 30.0
_PART = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)
_HEADER_LIMITS: Final = DecodingLimits(max_bytes=1_024, max_depth=2, max_members=16, max_string_characters=512)
_CLAIMS_LIMITS: Final = DecodingLimits(max_bytes=6_144, max_depth=6, max_members=500, max_string_characters=2_048)
_REFUSED_MEMBERS: Final = frozenset({"jwk", "jku", "x5u", "x5c", "crit", "b64", "zip", "enc", "cty", "p2c", "p2s"})
_TYPES: Final = frozenset({"jwt", "at+jwt", "application/at+jwt", "application/jwt"})
_LONGEST_KID = 256
_MOST_VALUES = 200


class TokenFault(StrEnum):
    """Why a token is refused; for the log, never for whoever showed it."""

    MALFORMED = "malformed"
    HEADER = "header"
    ALGORITHM = "algorithm"
    ISSUER = "issuer"
    AUDIENCE = "audience"
    KEY = "key"
    SIGNATURE = "signature"
    EXPIRED = "expired"
    NOT_YET = "not_yet"
    TOO_LONG_LIVED = "too_long_lived"
    SUBJECT = "subject"
    TENANT = "tenant"
    NONCE = "nonce"


class TokenRefused(Exception):
    """Within sign-in alone."""

    def __init__(self, fault: TokenFault) -> None:
        super().__init__(fault.value)
        self.fault = fault


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Token:
    """A token taken apart. Nothing it says is true before its signature was verified.

    Attributes:
        kind: what its header says it is, in small letters.
    """

    algorithm: str
    key_id: str
    kind: str = "jwt"
    claims: dict[str, Any] = field(default_factory=dict)


def taken_apart(text: str) -> Token:
    """The parts of a compact token.

    Raises:
        TokenRefused: it does not have exactly one meaning, or its header would choose how it is verified.
    """
    if len(text) > MAX_CHARACTERS or not text.isascii():
        raise TokenRefused(TokenFault.MALFORMED)
    parts = text.split(".")
    if len(parts) != 3:
        raise TokenRefused(TokenFault.MALFORMED)
    header, claims = _object(parts[0], _HEADER_LIMITS), _object(parts[1], _CLAIMS_LIMITS)
    _bytes(parts[2])
    if _REFUSED_MEMBERS & header.keys():
        raise TokenRefused(TokenFault.HEADER)
    kind = header.get("typ", "JWT")
    if type(kind) is not str or kind.lower() not in _TYPES:
        raise TokenRefused(TokenFault.HEADER)
    algorithm, key_id = header.get("alg"), header.get("kid")
    if type(algorithm) is not str:
        raise TokenRefused(TokenFault.ALGORITHM)
    if type(key_id) is not str or not 0 < len(key_id) <= _LONGEST_KID:
        raise TokenRefused(TokenFault.KEY)
    return Token(algorithm=algorithm, key_id=key_id, kind=kind.lower(), claims=claims)


def issuer_for(token: Token, issuers: tuple[Issuer, ...]) -> tuple[Issuer, Algorithm]:
    """Whose token it says it is, and how it has to be signed then.

    Raises:
        TokenRefused: of nobody we know, for nobody we are, for two of us, or signed as that issuer does not.
    """
    named = [issuer for issuer in issuers if issuer.issuer == token.claims.get("iss")]
    if not named:
        raise TokenRefused(TokenFault.ISSUER)
    audiences = audiences_of(token)
    for_us = [issuer for issuer in named if issuer.audience in audiences]
    if len(for_us) != 1:
        raise TokenRefused(TokenFault.AUDIENCE)
    algorithm = next((each for each in for_us[0].algorithms if each.value == token.algorithm), None)
    if algorithm is None:
        raise TokenRefused(TokenFault.ALGORITHM)
    return for_us[0], algorithm


def audiences_of(token: Token) -> frozenset[str]:
    """For whom it says it was issued."""
    return _texts(token.claims.get("aud"))


def holder_of(token: Token, issuer: Issuer, *, now: datetime, others: tuple[str, ...] = ()) -> Principal:
    """Who a verified token's holder is.

    Args:
        others: the prefixes of other issuers' subjects; none of this one's may begin with one of them.

    Raises:
        TokenRefused: too early, too late, good for too long, or nobody.
    """
    claims = token.claims
    _require_time(claims, issuer, now.timestamp())
    subject = claims.get("sub")
    if type(subject) is not str or not subject:
        raise TokenRefused(TokenFault.SUBJECT)
    name = issuer.subject_prefix + subject
    if not is_identity(name) or any(name.startswith(other) for other in others):
        raise TokenRefused(TokenFault.SUBJECT)
    return Principal(
        subject=name,
        tenant=_tenant(claims, issuer),
        roles=_roles(claims, issuer),
        scopes=_scopes(claims, issuer),
        environment=issuer.environment,
        standing=_standing(claims, issuer),
    )


def _require_time(claims: dict[str, Any], issuer: Issuer, now: float) -> None:
    issued_at, expires_at = _instant(claims, "iat"), _instant(claims, "exp")
    if expires_at <= now - SKEW_SECONDS:
        raise TokenRefused(TokenFault.EXPIRED)
    if issued_at > now + SKEW_SECONDS or ("nbf" in claims and _instant(claims, "nbf") > now + SKEW_SECONDS):
        raise TokenRefused(TokenFault.NOT_YET)
    if expires_at - issued_at > issuer.longest_seconds:
        raise TokenRefused(TokenFault.TOO_LONG_LIVED)


def _instant(claims: dict[str, Any], name: str) -> float:
    value = claims.get(name)
    if type(value) is int or type(value) is float:
        return float(value)
    raise TokenRefused(TokenFault.MALFORMED)


def _tenant(claims: dict[str, Any], issuer: Issuer) -> str:
    if issuer.tenant is not None:
        return issuer.tenant
    value = _claim(claims, issuer.tenant_claim)
    found = issuer.tenants.get(value) if type(value) is str else None
    if found is None:
        raise TokenRefused(TokenFault.TENANT)
    return found


def _roles(claims: dict[str, Any], issuer: Issuer) -> frozenset[Role]:
    values = _texts(_claim(claims, issuer.roles_claim)) if issuer.roles_claim else frozenset()
    return issuer.roles | {role for value, role in issuer.roles_by_value.items() if value in values}


def _scopes(claims: dict[str, Any], issuer: Issuer) -> frozenset[str]:
    if not issuer.scopes_claim:
        return issuer.scopes
    value = _claim(claims, issuer.scopes_claim)
    return issuer.scopes & (frozenset(value.split(" ")) if type(value) is str else _texts(value))


def _standing(claims: dict[str, Any], issuer: Issuer) -> Standing:
    """A person is only who was shown to be one; that nothing speaks against it is not enough."""
    if issuer.standing is not Standing.PERSON or _is_service(claims):
        return Standing.AGENT
    shows_all = all(not allowed.isdisjoint(_texts(claims.get(name))) for name, allowed in issuer.person_if.items())
    return Standing.PERSON if shows_all and issuer.person_if else Standing.AGENT


def _is_service(claims: dict[str, Any]) -> bool:
    """What the usual issuers write into tokens that a program got for itself, with no person there."""
    subject, username = claims.get("sub"), claims.get("preferred_username")
    return (
        any(claims.get(name) == subject for name in ("azp", "client_id", "appid", "cid"))
        or claims.get("gty") in ("client-credentials", "client_credentials")
        or claims.get("idtyp") == "app"
        or (type(username) is str and username.startswith("service-account-"))
    )


def _claim(claims: dict[str, Any], path: ClaimPath) -> object:
    value: object = claims
    for name in path:
        if type(value) is not dict:
            return None
        value = value.get(name)
    return value


def _texts(value: object) -> frozenset[str]:
    """One text, or the texts of a list; none where it is anything else, or a list of anything else."""
    if type(value) is str:
        return frozenset({value})
    if type(value) is list and len(value) <= _MOST_VALUES and all(type(each) is str for each in value):
        return frozenset(value)
    return frozenset()


def _object(part: str, limits: DecodingLimits) -> dict[str, Any]:
    raw = _bytes(part)
    try:
        return decode_object(raw, limits=limits)
    except InvalidArguments:
        pass
    raise TokenRefused(TokenFault.MALFORMED)


def _bytes(part: str) -> bytes:
    """base64url in its one spelling: no padding, no other alphabet, no bits left over."""
    if _PART.fullmatch(part) is not None:
        try:
            raw = base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))
        except (binascii.Error, ValueError):
            raw = b""
        if raw and base64.urlsafe_b64encode(raw).rstrip(b"=").decode() == part:
            return raw
    raise TokenRefused(TokenFault.MALFORMED)

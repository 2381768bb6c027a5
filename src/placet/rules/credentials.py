"""What a stored credential says, what its MAC covers, and the text of an API key.

    placet_<id: 24 hex digits>_<secret: 64 hex digits><check: 8 hex digits>

Hex has one spelling for each value; the check is CRC-32 of what stands before it, so that a mistyped key is known
without looking anything up, and a scanner for leaked secrets knows one that is none. The secret has 256 random bits, so
a plain digest of it cannot be turned back, and a slow one would only make every call slow. Source: ADR-0037.
"""

from __future__ import annotations

import hmac
import re
import zlib
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from placet.errors import InvalidArguments, PlacetError
from placet.model.credentials import ApiKey, CredentialKind, PersonSession, StoredCredential
from placet.model.principal import Principal, Role, Standing, is_identity
from placet.rules.approvals import instant_text
from placet.rules.canonical import canonical_bytes, sha256_hex
from placet.rules.decoding import decode_object

SECRET_BYTES = 32
API_KEY_PREFIX = "placet_"
API_KEY_PATTERN = re.compile(r"placet_([0-9a-f]{24})_([0-9a-f]{64})([0-9a-f]{8})", re.ASCII)
"""What to look for where secrets may have leaked."""
_LENGTH = len(API_KEY_PREFIX) + 24 + 1 + 64 + 8

_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownApiKey:
    """A key's text taken apart; well formed, and nothing more."""

    api_key_id: str
    secret: bytes = field(repr=False)


def api_key_text(api_key_id: str, secret: bytes) -> str:
    """The text its holder keeps; it is shown once."""
    head = f"{API_KEY_PREFIX}{api_key_id}_{secret.hex()}"
    return head + _check(head)


def shown_api_key(text: str) -> ShownApiKey | None:
    """What the text says; None if it is no key's, a digit of it is wrong, or it was cut short."""
    if len(text) != _LENGTH or (found := API_KEY_PATTERN.fullmatch(text)) is None:
        return None
    if not hmac.compare_digest(_check(text[:-8]), found[3]):
        return None
    return ShownApiKey(api_key_id=found[1], secret=bytes.fromhex(found[2]))


NAME_DIGITS = 16
"""How much of a session's name is shown: enough to tell it from others, and to find it by."""


def secret_digest(kind: CredentialKind, secret: bytes) -> str:
    """What is kept of a secret."""
    return sha256_hex(f"placet/{kind.value}/1", secret)


def _check(head: str) -> str:
    return f"{zlib.crc32(head.encode()):08x}"


# ---------------------------------------------------------------- what a row says


def mac_form(kind: CredentialKind, name: str, body: bytes) -> bytes:
    """What a row's MAC covers: moved to another name or kind it is worth nothing."""
    return canonical_bytes({"v": _VERSION, "kind": kind.value, "name": name, "body": sha256_hex("placet/row/1", body)})


def api_key_body(key: ApiKey) -> bytes:
    return canonical_bytes(
        {
            "principal": _principal_form(key.principal),
            "secret_digest": key.secret_digest,
            "created_by": key.created_by,
            "created_at": instant_text(key.created_at),
            "expires_at": instant_text(key.expires_at),
            "rotated_from": key.rotated_from,
            "rotated_to": key.rotated_to,
            "rotated_by": key.rotated_by,
            "revoked_by": key.revoked_by,
            "revoked_at": None if key.revoked_at is None else instant_text(key.revoked_at),
        }
    )


def api_key_of(row: StoredCredential) -> ApiKey | None:
    """What the body of a row says, whose MAC was verified; None if the columns beside it say anything else."""
    body = _decoded(row.body)
    try:
        key = ApiKey(
            api_key_id=row.name,
            principal=_principal_of(body["principal"], Standing.AGENT),
            secret_digest=body["secret_digest"],
            created_by=body["created_by"],
            created_at=datetime.fromisoformat(body["created_at"]),
            expires_at=datetime.fromisoformat(body["expires_at"]),
            rotated_from=body["rotated_from"],
            rotated_to=body["rotated_to"],
            rotated_by=body["rotated_by"],
            revoked_by=body["revoked_by"],
            revoked_at=None if body["revoked_at"] is None else datetime.fromisoformat(body["revoked_at"]),
        )
    except (KeyError, TypeError, ValueError, PlacetError):
        return None
    ends_at = key.revoked_at or key.expires_at
    return key if _fits(row, CredentialKind.API_KEY, key.principal, key.created_at, ends_at) else None


def session_body(session: PersonSession) -> bytes:
    said: dict[str, Any] = {
        "principal": _principal_form(session.principal),
        "began_at": instant_text(session.began_at),
        "ends_at": instant_text(session.ends_at),
    }
    return canonical_bytes(said if session.through is None else said | {"through": session.through})


def session_of(row: StoredCredential) -> PersonSession | None:
    """The same for a session or a link."""
    body = _decoded(row.body)
    try:
        session = PersonSession(
            kind=row.kind,
            name=row.name,
            principal=_principal_of(body["principal"], Standing.PERSON),
            began_at=datetime.fromisoformat(body["began_at"]),
            ends_at=datetime.fromisoformat(body["ends_at"]),
            through=body.get("through"),
        )
    except (KeyError, TypeError, ValueError, PlacetError):
        return None
    return session if _fits(row, row.kind, session.principal, session.began_at, session.ends_at) else None


def _fits(
    row: StoredCredential, kind: CredentialKind, principal: Principal, made_at: datetime, ends_at: datetime
) -> bool:
    return (row.kind, row.tenant, row.subject, row.made_at, row.ends_at) == (
        kind,
        principal.tenant,
        principal.subject,
        made_at,
        ends_at,
    )


def _decoded(body: bytes) -> dict[str, Any]:
    try:
        return decode_object(body)
    except InvalidArguments:
        return {}


def _principal_form(principal: Principal) -> dict[str, Any]:
    return {
        "subject": principal.subject,
        "tenant": principal.tenant,
        "environment": principal.environment,
        "standing": principal.standing.value,
        "roles": sorted(role.value for role in principal.roles),
        "scopes": sorted(principal.scopes),
    }


def _principal_of(form: dict[str, Any], standing: Standing) -> Principal:
    """Raises:
    KeyError, TypeError, ValueError, MisuseError: it is none, or of another standing.
    """
    if form["standing"] != standing.value or not all(is_identity(scope) for scope in form["scopes"]):
        raise ValueError("of another standing")
    return Principal(
        subject=form["subject"],
        tenant=form["tenant"],
        environment=form["environment"],
        roles=frozenset(Role(role) for role in form["roles"]),
        scopes=frozenset(form["scopes"]),
        standing=standing,
    )

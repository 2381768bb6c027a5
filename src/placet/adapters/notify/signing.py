"""Signatures of Standard Webhooks over `id.timestamp.body`, one for each secret there is.

    whsec_   v1    HMAC-SHA256: the receiver has the same secret
    whsk_    v1a   Ed25519: the receiver has the public key, `whpk_`, and can sign nothing with it

Source: https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from placet.adapters.referenced_secrets import SecretMalformed

SHARED_PREFIX: Final = "whsec_"
OWN_PREFIX: Final = "whsk_"
PUBLIC_PREFIX: Final = "whpk_"
_SHORTEST, _LONGEST = 24, 64
_SEED_BYTES: Final = 32


@dataclass(frozen=True, slots=True)
class SharedKey:
    """What sender and receiver both have."""

    key: bytes = field(repr=False)

    def signature(self, message: bytes) -> str:
        return f"v1,{_text(hmac.digest(self.key, message, hashlib.sha256))}"


@dataclass(frozen=True, slots=True)
class SigningKey:
    """What the sender alone has."""

    key: Ed25519PrivateKey = field(repr=False)

    def signature(self, message: bytes) -> str:
        return f"v1a,{_text(self.key.sign(message))}"

    @property
    def public(self) -> str:
        """What a receiver verifies with; no secret."""
        return f"{PUBLIC_PREFIX}{_text(self.key.public_key().public_bytes_raw())}"


Key = SharedKey | SigningKey


def key_of(secret: str) -> Key:
    """The key that a secret's text stands for.

    Raises:
        SecretMalformed: it is neither `whsec_` with 24 to 64 bytes in base64, nor `whsk_` with the 32 bytes of an
            Ed25519 key, or with those and its public key behind them, as some libraries write it.
    """
    if secret.startswith(SHARED_PREFIX):
        key = _bytes(secret.removeprefix(SHARED_PREFIX))
        if _SHORTEST <= len(key) <= _LONGEST:
            return SharedKey(key)
    elif secret.startswith(OWN_PREFIX):
        key = _bytes(secret.removeprefix(OWN_PREFIX))
        seed, public = key[:_SEED_BYTES], key[_SEED_BYTES:]
        if len(seed) == _SEED_BYTES:
            private = Ed25519PrivateKey.from_private_bytes(seed)
            if public in (b"", private.public_key().public_bytes_raw()):
                return SigningKey(private)
    raise SecretMalformed


def signed_headers(message_id: str, body: bytes, *, at: datetime, keys: Sequence[Key]) -> dict[str, str]:
    """The three headers that a receiver verifies. With several keys it may know any one of them."""
    timestamp = str(int(at.timestamp()))
    message = b"%s.%s.%s" % (message_id.encode(), timestamp.encode(), body)
    return {
        "webhook-id": message_id,
        "webhook-timestamp": timestamp,
        "webhook-signature": " ".join(each.signature(message) for each in keys),
    }


def _bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return b""


def _text(raw: bytes) -> str:
    return base64.b64encode(raw).decode()

"""Signatures of Standard Webhooks: HMAC-SHA256 over `id.timestamp.body`, one for each secret there is.

Source: https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Sequence
from datetime import datetime
from typing import Final

from placet.adapters.notify.secrets import SecretMissing

PREFIX: Final = "whsec_"
_SHORTEST, _LONGEST = 24, 64


def key_of(secret: str) -> bytes:
    """The bytes that a secret's text stands for.

    Raises:
        SecretMissing: it is not `whsec_` with 24 to 64 bytes in base64.
    """
    try:
        key = base64.b64decode(secret.removeprefix(PREFIX), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not secret.startswith(PREFIX) or not _SHORTEST <= len(key) <= _LONGEST:
        raise SecretMissing
    return key


def signed_headers(message_id: str, body: bytes, *, at: datetime, keys: Sequence[bytes]) -> dict[str, str]:
    """The three headers that a receiver verifies. With several keys it may know any one of them."""
    timestamp = str(int(at.timestamp()))
    message = b"%s.%s.%s" % (message_id.encode(), timestamp.encode(), body)
    signatures = [base64.b64encode(hmac.digest(key, message, hashlib.sha256)).decode() for key in keys]
    return {
        "webhook-id": message_id,
        "webhook-timestamp": timestamp,
        "webhook-signature": " ".join(f"v1,{each}" for each in signatures),
    }

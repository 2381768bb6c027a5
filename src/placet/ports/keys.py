"""Key material, one key per purpose, derived and rotated outside the engine."""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol

from placet.model.approval import Mac


class KeyPurpose(StrEnum):
    """What a key may be used for. A signature made for one purpose is worthless for every other."""

    APPROVAL = "approval"
    AUDIT_FINGERPRINT = "audit-fingerprint"
    AUDIT_CHAIN = "audit-chain"
    STORE = "store"


class Keys(Protocol):
    """MACs and seals. Old keys verify and unseal; the current key signs and seals."""

    def mac(self, purpose: KeyPurpose, message: bytes) -> Mac:
        """HMAC-SHA256 under the purpose's current key; `value` is 64 lowercase hex digits."""
        ...

    def is_authentic(self, purpose: KeyPurpose, message: bytes, mac: Mac) -> bool:
        """Whether the MAC was made for this message by a key still known; compared in constant time."""
        ...

    def seal(self, plaintext: bytes, *, bound_to: bytes) -> bytes:
        """Encrypt so that it opens only together with the same `bound_to`."""
        ...

    def unseal(self, sealed: bytes, *, bound_to: bytes) -> bytes:
        """Decrypt what `seal` made.

        Raises:
            KeyMaterialError: altered, moved to another row, or its key is gone.
        """
        ...

"""Key material, one key per purpose, derived and rotated outside the engine."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from placet.model.approval import Mac


class KeyPurpose(StrEnum):
    """What a key may be used for. A signature made for one purpose is worthless for every other."""

    APPROVAL = "approval"
    AUDIT_FINGERPRINT = "audit-fingerprint"
    AUDIT_CHAIN = "audit-chain"
    STORE = "store"
    WAKE_UP = "wake-up"
    CURSOR = "cursor"
    CREDENTIAL = "credential"
    GRANT = "grant"
    PIN = "pin"
    RUN_NAME = "run-name"


class SealPurpose(StrEnum):
    """What a sealed value is for. What was sealed for one purpose opens for no other.

    seal: what the store keeps, which is what the key was called before there were others. request-state: what an MCP
    client carries from one round of a call to the next.
    """

    STORE = "seal"
    REQUEST_STATE = "request-state"


STORE_CHECK = b"placet store key check 1"
"""What a key's check value covers, by which a store knows its own key."""


class KeyState(StrEnum):
    """Where a key stands.

    current: signs and seals. old: verifies and opens what it made. retired: verifies and finds its audit, nothing
    else. unknown: not in the key file.
    """

    CURRENT = "current"
    OLD = "old"
    RETIRED = "retired"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyFact:
    """What may be told about a key; never its material. Keys made before that was noted have no `created_at`."""

    key_id: str
    state: KeyState
    created_at: datetime | None
    retired_at: datetime | None


def sealed_under(sealed: bytes) -> str:
    """The id of the key a sealed value names: after a version byte, its length and its text."""
    return sealed[2 : 2 + sealed[1]].decode("ascii", "replace") if len(sealed) > 1 else ""


class Keys(Protocol):
    """MACs and seals. Old keys verify and unseal; the current key signs and seals."""

    @property
    def current(self) -> str:
        """The id of the key that signs now. It changes when `refresh` finds that another process has rotated."""
        ...

    def state_of(self, key_id: str) -> KeyState: ...

    def facts(self) -> tuple[KeyFact, ...]:
        """Every key there is, in the order they were made."""
        ...

    def refresh(self) -> None:
        """Look at the source again if it changed. A source that is gone, broken or another store's changes nothing."""
        ...

    def mac(self, purpose: KeyPurpose, message: bytes, *, under: str | None = None) -> Mac:
        """HMAC-SHA256 under the purpose's current key; `value` is 64 lowercase hex digits.

        Args:
            under: fingerprints alone may name the key, so that those of one event are comparable whatever happens.
        """
        ...

    def macs(self, purpose: KeyPurpose, message: bytes) -> tuple[Mac, ...]:
        """The MAC under every key there is, to find what was written under any of them."""
        ...

    def is_authentic(self, purpose: KeyPurpose, message: bytes, mac: Mac) -> bool:
        """Whether the MAC was made for this message by a key still known; compared in constant time."""
        ...

    def seal(self, plaintext: bytes, *, bound_to: bytes, purpose: SealPurpose = SealPurpose.STORE) -> bytes:
        """Encrypt so that it opens only together with the same `bound_to`, and for the same purpose."""
        ...

    def unseal(self, sealed: bytes, *, bound_to: bytes, purpose: SealPurpose = SealPurpose.STORE) -> bytes:
        """Decrypt what `seal` made.

        Raises:
            KeyMaterialError: altered, moved to another row, or its key is gone.
        """
        ...


class KeyShelf(Protocol):
    """Where the keys are kept. Every change is whole or not at all, and made by one at a time."""

    def held(self) -> AbstractContextManager[None]:
        """Nobody else changes it meanwhile.

        Raises:
            KeyMaterialError: another change takes too long (`key_busy`), or this user may not change it.
        """
        ...

    def add_current(self, *, at: datetime) -> str:
        """Add a key and make it the current one; the old ones stay. Call it while held. Durable on return."""
        ...

    def retire(self, key_id: str, *, at: datetime) -> None:
        """Destroy a key except for what its audit needs. Call it while held. Durable on return."""
        ...

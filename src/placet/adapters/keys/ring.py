"""Keys in memory: one master per key id, one derived key per purpose.

Purposes are separated by HKDF-SHA256, so a signature made for one purpose is worthless for any other (B067, B082).
A retired key has no master any more: only what verifies and finds its audit is left, and nothing signs with that.
"""

from __future__ import annotations

import hmac
import os
import secrets
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.hmac import HMAC
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from placet.errors import KeyMaterialError
from placet.model.approval import Mac
from placet.ports.keys import KeyFact, KeyPurpose, KeyState, SealPurpose

MASTER_BYTES = 32
KEPT_OF_RETIRED = (KeyPurpose.AUDIT_CHAIN, KeyPurpose.AUDIT_FINGERPRINT)
"""What is left of a retired key: its audit can be verified and searched. Approvals and seals are gone."""

_AUTHORITY = (KeyPurpose.APPROVAL, KeyPurpose.CREDENTIAL, KeyPurpose.PIN)
"""What lets somebody do something."""
_NONCE_BYTES = 12
_SEAL_VERSION = b"\x01"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RetiredKey:
    """The derived keys that are left of a master, and when it was retired."""

    at: datetime
    derived: Mapping[KeyPurpose, bytes]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class KeySet:
    """All keys of one store at one moment. Its repr is object's own: a dataclass's would print the keys."""

    masters: Mapping[str, bytes]
    current: str
    created_at: Mapping[str, datetime] = field(default_factory=dict)
    retired: Mapping[str, RetiredKey] = field(default_factory=dict)

    def __post_init__(self) -> None:
        lengths = {len(master) for master in self.masters.values()}
        lengths |= {len(key) for each in self.retired.values() for key in each.derived.values()}
        is_whole = all(set(each.derived) == set(KEPT_OF_RETIRED) for each in self.retired.values())
        if self.current not in self.masters or lengths != {MASTER_BYTES} or not is_whole:
            raise KeyMaterialError(f"A key ring holds masters of {MASTER_BYTES} bytes, its current one among them.")
        if set(self.masters) & set(self.retired):
            raise KeyMaterialError("A key is either in use or retired.")

    def derive(self, key_id: str, purpose: KeyPurpose) -> bytes | None:
        """The key of one purpose; None if this set has none."""
        master = self.masters.get(key_id)
        if master is not None:
            return derived(master, purpose)
        retired = self.retired.get(key_id)
        return retired.derived.get(purpose) if retired is not None else None

    def continues(self, before: KeySet) -> bool:
        """Whether this is the same ring later: it has every key that was there, and what was retired stays retired."""
        is_kept = all(self._has(before, key_id) for key_id in (*before.masters, *before.retired))
        return is_kept and not set(self.masters) & set(before.retired)

    def _has(self, before: KeySet, key_id: str) -> bool:
        mine = self.derive(key_id, KeyPurpose.AUDIT_CHAIN)
        theirs = before.derive(key_id, KeyPurpose.AUDIT_CHAIN)
        return mine is not None and theirs is not None and hmac.compare_digest(mine, theirs)


def _never() -> KeySet | None:
    return None


class KeyRing:
    """Masters by id. The current one signs and seals; all of them verify and open.

    A key id that is not known makes it look at its source again, at most once per change of the source, so a process
    that was running during a rotation carries on. What it finds there is taken only if it continues what it had.
    """

    def __init__(
        self, masters: Mapping[str, bytes], *, current: str, newer: Callable[[], KeySet | None] = _never
    ) -> None:
        self._hold(KeySet(masters=masters, current=current), newer)

    @classmethod
    def of(cls, keys: KeySet, *, newer: Callable[[], KeySet | None] = _never) -> KeyRing:
        """A ring over these keys; `newer` answers with the source's keys if the source has changed."""
        ring = cls.__new__(cls)
        ring._hold(keys, newer)
        return ring

    @classmethod
    def ephemeral(cls) -> KeyRing:
        """A ring that dies with the process; for stores in memory."""
        key_id = new_key_id()
        return cls({key_id: secrets.token_bytes(MASTER_BYTES)}, current=key_id)

    def _hold(self, keys: KeySet, newer: Callable[[], KeySet | None]) -> None:
        self._set = keys
        self._newer = newer
        self._looking = threading.Lock()
        self._begun: dict[str, dict[str, HMAC]] = {purpose.value: {} for purpose in KeyPurpose}
        self._ciphers: dict[tuple[str, SealPurpose], AESGCM] = {}

    @property
    def current(self) -> str:
        return self._set.current

    def facts(self) -> tuple[KeyFact, ...]:
        keys = self._set
        in_use = (
            KeyFact(
                key_id=key_id,
                state=KeyState.CURRENT if key_id == keys.current else KeyState.OLD,
                created_at=keys.created_at.get(key_id),
                retired_at=None,
            )
            for key_id in keys.masters
        )
        retired = (
            KeyFact(key_id=key_id, state=KeyState.RETIRED, created_at=keys.created_at.get(key_id), retired_at=each.at)
            for key_id, each in keys.retired.items()
        )
        return (*in_use, *retired)

    def state_of(self, key_id: str) -> KeyState:
        keys = self._set
        if type(key_id) is not str:
            return KeyState.UNKNOWN  # a row altered by hand may say anything
        if key_id == keys.current:
            return KeyState.CURRENT
        if key_id in keys.masters:
            return KeyState.OLD
        return KeyState.RETIRED if key_id in keys.retired else KeyState.UNKNOWN

    def refresh(self) -> None:
        with self._looking:
            newer = self._newer()
            if newer is not None and newer.continues(self._set):
                self._set = newer

    def mac(self, purpose: KeyPurpose, message: bytes, *, under: str | None = None) -> Mac:
        keys = self._set
        key_id = keys.current if under is None else under
        value = self._mac(keys, key_id, purpose, message)
        if value is None or (under is not None and purpose is not KeyPurpose.AUDIT_FINGERPRINT):
            raise KeyMaterialError("Only the current key signs.", code="key_not_usable")
        return Mac(key_id=key_id, value=value)

    def macs(self, purpose: KeyPurpose, message: bytes) -> tuple[Mac, ...]:
        keys = self._set
        found = ((key_id, self._mac(keys, key_id, purpose, message)) for key_id in (*keys.masters, *keys.retired))
        return tuple(Mac(key_id=key_id, value=value) for key_id, value in found if value is not None)

    def is_authentic(self, purpose: KeyPurpose, message: bytes, mac: Mac) -> bool:
        if type(mac) is not Mac or type(mac.value) is not str or type(mac.key_id) is not str:
            return False
        if purpose in _AUTHORITY or self.state_of(mac.key_id) is KeyState.UNKNOWN:
            self.refresh()  # authority ends when its key is retired, in running processes too
        expected = self._mac(self._set, mac.key_id, purpose, message)
        if expected is None:
            return False
        return mac.value.isascii() and hmac.compare_digest(expected, mac.value)

    def seal(self, plaintext: bytes, *, bound_to: bytes, purpose: SealPurpose = SealPurpose.STORE) -> bytes:
        nonce = os.urandom(_NONCE_BYTES)
        keys = self._set
        key_id = keys.current.encode()
        head = _SEAL_VERSION + bytes([len(key_id)]) + key_id
        return head + nonce + self._cipher(keys, keys.current, purpose).encrypt(nonce, plaintext, head + bound_to)

    def unseal(self, sealed: bytes, *, bound_to: bytes, purpose: SealPurpose = SealPurpose.STORE) -> bytes:
        try:
            length = sealed[1]
            head, rest = sealed[: 2 + length], sealed[2 + length :]
            key_id = head[2:].decode("ascii")
            if self.state_of(key_id) is KeyState.UNKNOWN:
                self.refresh()
            keys = self._set
            if head[:1] == _SEAL_VERSION and key_id in keys.masters:
                nonce, ciphertext = rest[:_NONCE_BYTES], rest[_NONCE_BYTES:]
                return self._cipher(keys, key_id, purpose).decrypt(nonce, ciphertext, head + bound_to)
        except (InvalidTag, IndexError, ValueError, TypeError):
            pass
        raise KeyMaterialError(
            "Sealed data cannot be opened: it was altered, moved, or its key is gone.", code="seal_broken"
        )

    def _mac(self, keys: KeySet, key_id: str, purpose: KeyPurpose, message: bytes) -> str | None:
        """The MAC of a message in hex; None if these keys have none for the purpose."""
        if key_id not in keys.masters and purpose not in KEPT_OF_RETIRED:
            return None  # asked before the cache, which may still hold what was retired
        begun_by_key = self._begun[purpose]
        begun = begun_by_key.get(key_id)
        if begun is None:
            key = keys.derive(key_id, purpose)
            if key is None:
                return None
            begun = begun_by_key[key_id] = HMAC(key, SHA256())
        mac = begun.copy()  # a key's own part of the work is done once
        mac.update(message)
        return mac.finalize().hex()

    def _cipher(self, keys: KeySet, key_id: str, purpose: SealPurpose) -> AESGCM:
        cipher = self._ciphers.get((key_id, purpose))
        if cipher is None:
            cipher = self._ciphers[key_id, purpose] = AESGCM(derived(keys.masters[key_id], purpose.value))
        return cipher


def new_key_id() -> str:
    return "k-" + secrets.token_hex(4)


def derived(master: bytes, purpose: str) -> bytes:
    """The key of one purpose; no other purpose's key, and not the master, follows from it."""
    return HKDF(algorithm=SHA256(), length=32, salt=None, info=b"placet/1/" + purpose.encode()).derive(master)

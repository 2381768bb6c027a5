"""Key material: one master per key id, one derived key per purpose.

Purposes are separated by HKDF-SHA256, so a signature made for one purpose is worthless for any other (B067, B082).
"""

from __future__ import annotations

import base64
import hmac
import json
import os
import secrets
import stat
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from placet.errors import KeyMaterialError
from placet.model.approval import Mac
from placet.ports.keys import KeyPurpose

MASTER_BYTES = 32
_NONCE_BYTES = 12
_WRITABLE = "Give this user write permission on the folder, or choose another one."
_SEAL_VERSION = b"\x01"


class KeyRing:
    """Masters by id. The current one signs and seals; all of them verify and open."""

    def __init__(self, masters: dict[str, bytes], *, current: str) -> None:
        if current not in masters or any(len(master) != MASTER_BYTES for master in masters.values()):
            raise KeyMaterialError(f"A key ring holds masters of {MASTER_BYTES} bytes, its current one among them.")
        self._masters = masters
        self._current = current
        self._derived: dict[tuple[str, str], bytes] = {}
        self._ciphers: dict[str, AESGCM] = {}

    @classmethod
    def ephemeral(cls) -> KeyRing:
        """A ring that dies with the process; for stores in memory."""
        key_id = "k-" + secrets.token_hex(4)
        return cls({key_id: secrets.token_bytes(MASTER_BYTES)}, current=key_id)

    @property
    def current(self) -> str:
        return self._current

    def mac(self, purpose: KeyPurpose, message: bytes) -> Mac:
        value = hmac.digest(self._key(self._current, purpose), message, "sha256").hex()
        return Mac(key_id=self._current, value=value)

    def is_authentic(self, purpose: KeyPurpose, message: bytes, mac: Mac) -> bool:
        if type(mac) is not Mac or type(mac.value) is not str or type(mac.key_id) is not str:
            return False
        if mac.key_id not in self._masters:
            return False
        expected = hmac.digest(self._key(mac.key_id, purpose), message, "sha256").hex()
        return mac.value.isascii() and hmac.compare_digest(expected, mac.value)

    def seal(self, plaintext: bytes, *, bound_to: bytes) -> bytes:
        nonce = os.urandom(_NONCE_BYTES)
        key_id = self._current.encode()
        head = _SEAL_VERSION + bytes([len(key_id)]) + key_id
        return head + nonce + self._cipher(self._current).encrypt(nonce, plaintext, head + bound_to)

    def unseal(self, sealed: bytes, *, bound_to: bytes) -> bytes:
        try:
            length = sealed[1]
            head, rest = sealed[: 2 + length], sealed[2 + length :]
            key_id = head[2:].decode("ascii")
            if head[:1] == _SEAL_VERSION and key_id in self._masters:
                nonce, ciphertext = rest[:_NONCE_BYTES], rest[_NONCE_BYTES:]
                return self._cipher(key_id).decrypt(nonce, ciphertext, head + bound_to)
        except (InvalidTag, IndexError, ValueError, TypeError):
            pass
        raise KeyMaterialError(
            "Sealed data cannot be opened: it was altered, moved, or its key is gone.", code="seal_broken"
        )

    def _key(self, key_id: str, purpose: str) -> bytes:
        key = self._derived.get((key_id, purpose))
        if key is None:
            info = b"placet/1/" + purpose.encode()
            key = HKDF(algorithm=SHA256(), length=32, salt=None, info=info).derive(self._masters[key_id])
            self._derived[key_id, purpose] = key
        return key

    def _cipher(self, key_id: str) -> AESGCM:
        cipher = self._ciphers.get(key_id)
        if cipher is None:
            cipher = self._ciphers[key_id] = AESGCM(self._key(key_id, "seal"))
        return cipher


def create_key_file(path: Path) -> KeyRing:
    """Make a new key file with mode 0600, whole or not at all; if another process was faster, take its key."""
    key_id = "k-" + secrets.token_hex(4)
    master = base64.b64encode(secrets.token_bytes(MASTER_BYTES)).decode()
    text = json.dumps({"placet_key_file": 1, "current": key_id, "keys": {key_id: master}}, indent=1) + "\n"
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            os.write(descriptor, text.encode())
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        try:
            os.link(draft, path)
        except FileExistsError:
            pass
        finally:
            draft.unlink()
        _sync_folder(path.parent)  # a store must not outlive its key's name
    except OSError:
        fault = KeyMaterialError(f"The key file cannot be written: {path}", code="key_not_writable", hint=_WRITABLE)
    else:
        return load_key_file(path)
    raise fault


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def load_key_file(path: Path) -> KeyRing:
    """Read a key file; one that others can read is refused.

    Raises:
        KeyMaterialError: absent, readable by others, or not a key file.
    """
    try:
        mode = path.stat().st_mode
        text = path.read_text("ascii")
    except (OSError, ValueError):
        mode, text = 0, ""
    if not text:
        raise KeyMaterialError(f"The store's key file is absent or unreadable: {path}")
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise KeyMaterialError(
            f"The key file can be read by others: {path}", code="key_exposed", hint=f"chmod 600 {path}"
        )
    try:
        data = json.loads(text)
        masters = {key_id: base64.b64decode(master, validate=True) for key_id, master in data["keys"].items()}
        if data["placet_key_file"] == 1:
            return KeyRing(masters, current=data["current"])
    except (ValueError, KeyError, TypeError, AttributeError, KeyMaterialError):
        pass
    raise KeyMaterialError(f"This is not a placet key file: {path}", code="key_unreadable")

"""Where a reader of a list goes on, as a text that it is given and gives back.

A cursor is signed under a key of its own purpose, and is good for whom it was made, for the list and filters it was
made for, and for a while. It opens nothing: whatever a page shows is looked up under the reader's own leave.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from datetime import timedelta

from placet.errors import CursorRefused
from placet.model.approval import Mac
from placet.model.json import JsonValue
from placet.model.listing import Mark
from placet.model.principal import Principal
from placet.ports.keys import KeyPurpose, Keys
from placet.ports.store import Store
from placet.rules.canonical import canonical_bytes
from placet.rules.cursors import Cursor, read_cursor, write_cursor

LIFETIME_SECONDS = 3_600.0
_LONGEST = 4_096


class Cursors:
    """Gives and takes the cursors of one store."""

    def __init__(self, *, store: Store, keys: Keys) -> None:
        self._store = store
        self._keys = keys

    async def give(self, mark: Mark, *, of: JsonValue, by: Principal) -> str:
        """A cursor that goes on after the mark.

        Args:
            of: which list this is, and what of it is asked for; it has to be the same when the cursor is taken.
        """
        expires_at = await self._store.now() + timedelta(seconds=LIFETIME_SECONDS)
        body = write_cursor(Cursor(mark=mark, expires_at=expires_at))
        mac = self._keys.mac(KeyPurpose.CURSOR, _signed(body, of, by))
        return ".".join((_text(body), _text(mac.key_id.encode()), mac.value))

    async def take(self, cursor: str, *, of: JsonValue, by: Principal) -> Mark:
        """Where a cursor goes on.

        Raises:
            CursorRefused: it is none of ours, another reader's or another list's, or its time is over.
        """
        body, mac = _parts(cursor)
        if body is None or mac is None:
            raise CursorRefused
        if not self._keys.is_authentic(KeyPurpose.CURSOR, _signed(body, of, by), mac):
            raise CursorRefused
        found = read_cursor(body)
        if found is None or found.expires_at <= await self._store.now():
            raise CursorRefused
        return found.mark


def _signed(body: bytes, of: JsonValue, by: Principal) -> bytes:
    return canonical_bytes([1, "cursor", by.tenant, by.identity, by.standing.value, of, body.decode("ascii")])


def _parts(cursor: str) -> tuple[bytes | None, Mac | None]:
    parts = cursor.split(".") if cursor.isascii() and len(cursor) <= _LONGEST else []
    if len(parts) != 3:
        return None, None
    body, key_id = _bytes(parts[0]), _bytes(parts[1])
    if body is None or key_id is None or not body.isascii() or not key_id.isascii():
        return None, None
    return body, Mac(key_id=key_id.decode("ascii"), value=parts[2])


def _text(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode("ascii")


def _bytes(text: str) -> bytes | None:
    """What was encoded, if the text is the one spelling of it."""
    try:
        data = urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except ValueError:
        return None
    return data if _text(data) == text else None

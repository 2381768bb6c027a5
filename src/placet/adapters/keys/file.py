"""The key file: made, read, and changed whole or not at all.

A change writes a draft beside the file, syncs it, renames it over the file and syncs the folder, so a crash leaves the
old file or the new one.
"""

from __future__ import annotations

import base64
import json
import logging
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from placet.adapters.keys.drafts import draft_of, fault_of, lock_folder, sweep_drafts, sync_folder, write_draft
from placet.adapters.keys.ring import (
    KEPT_OF_RETIRED,
    MASTER_BYTES,
    KeyRing,
    KeySet,
    RetiredKey,
    derived,
    new_key_id,
)
from placet.errors import KeyMaterialError

_log = logging.getLogger("placet.keys")
_LARGEST_FILE = 1_000_000


class KeyFile:
    """One key file, which is looked at again only after it changed."""

    def __init__(self, path: Path) -> None:
        """Read it.

        Raises:
            KeyMaterialError: absent, readable by others, or not a key file.
        """
        self._path = path
        self._seen = _signature(path)  # before the content: a change in between is seen as one
        self._first = _read(path)
        self._told: tuple[object, ...] | None = None
        self._is_held = False

    def ring(self) -> KeyRing:
        """A ring that follows this file."""
        return KeyRing.of(self._first, newer=self.newer)

    def newer(self) -> KeySet | None:
        """The file's keys if it changed since it was last read.

        One that cannot be read is looked at again the next time: what changed may be that a key was retired.
        """
        signature = _signature(self._path)
        if signature is not None and signature == self._seen:
            return None
        try:
            keys = _read(self._path)
        except KeyMaterialError as fault:
            self._tell_once(signature, fault.code)
            return None
        self._seen = signature
        return keys

    def _tell_once(self, signature: tuple[int, ...] | None, code: str) -> None:
        """One warning for each state of the file that cannot be read, however often it is looked at."""
        if self._told != (signature, code):
            self._told = (signature, code)
            _log.warning("the key file cannot be read; the keys of before go on", extra={"code": code})

    # ------------------------------------------------------------ the shelf

    @contextmanager
    def held(self) -> Iterator[None]:
        descriptor = lock_folder(Path(os.path.realpath(self._path)).parent, of=self._path)
        self._is_held = True
        try:
            yield
        finally:
            self._is_held = False
            os.close(descriptor)

    def add_current(self, *, at: datetime) -> str:
        keys = self._now()
        key_id = new_key_id()
        known = replace(
            keys,
            masters={**keys.masters, key_id: secrets.token_bytes(MASTER_BYTES)},
            created_at={**keys.created_at, key_id: at},
        )
        self._replace(known)  # durable before anybody can sign with it
        self._replace(replace(known, current=key_id))
        return key_id

    def retire(self, key_id: str, *, at: datetime) -> None:
        keys = self._now()
        master = keys.masters[key_id]
        kept = {purpose: derived(master, purpose) for purpose in KEPT_OF_RETIRED}
        self._replace(
            replace(
                keys,
                masters={each: value for each, value in keys.masters.items() if each != key_id},
                retired={**keys.retired, key_id: RetiredKey(at=at, derived=kept)},
            )
        )

    def _now(self) -> KeySet:
        """What is in the file while it is held; the same store's keys as at first, or nothing is changed."""
        if not self._is_held:
            raise KeyMaterialError("The key file is changed only while it is held.", code="key_not_held")
        keys = _read(self._path)
        if not keys.continues(self._first):
            raise KeyMaterialError(
                f"The key file is no longer this store's: {self._path}",
                code="key_replaced",
                hint="Somebody put another file in its place. Put the right one back first.",
            )
        return keys

    def _replace(self, keys: KeySet) -> None:
        """The new file in the place of the old one, with its owner and a mode of 0600.

        A link is followed, so that it stays one. Other names of the same file would keep the old keys unseen.
        """
        target = Path(os.path.realpath(self._path))
        draft = draft_of(target)
        try:
            sweep_drafts(target)
            was = target.stat()
            if not was.st_mode & stat.S_IWUSR:
                raise KeyMaterialError(
                    f"The key file is read-only, so it was left alone: {target}",
                    code="key_not_writable",
                    hint=f"If it may be changed: chmod 600 {target}",
                )
            if was.st_nlink != 1:
                raise KeyMaterialError(
                    f"The key file has other names, which would keep the old keys: {target}",
                    code="key_has_other_names",
                    hint=f"Find and remove the other hard links first: find / -xdev -samefile {target}. "
                    "Copies and symbolic links are no such names.",
                )
            try:
                write_draft(draft, _text(keys), owner=(was.st_uid, was.st_gid))
                os.rename(draft, target)
            except BaseException:
                with suppress(OSError):
                    draft.unlink(missing_ok=True)
                raise
            sync_folder(target)
            return
        except OSError as error:
            fault = fault_of(error, f"The key file cannot be changed: {target}")
        raise fault


def create_key_file(path: Path, *, at: datetime | None = None) -> KeyRing:
    """Make a new key file with mode 0600, whole or not at all; if another process was faster, take its key.

    Raises:
        KeyMaterialError: it cannot be made; or it was, and may not survive a power failure (`key_in_doubt`).
    """
    key_id = new_key_id()
    created_at = {key_id: at} if at is not None else {}
    keys = KeySet(masters={key_id: secrets.token_bytes(MASTER_BYTES)}, current=key_id, created_at=created_at)
    held = lock_folder(path.parent, of=path)
    try:
        _place_first(path, _text(keys))
    finally:
        os.close(held)
    return load_key_file(path)


def _place_first(path: Path, content: bytes) -> None:
    draft = draft_of(path)
    try:
        sweep_drafts(path)
        write_draft(draft, content, owner=None)
        try:
            os.link(draft, path)
        except FileExistsError:
            pass
        finally:
            draft.unlink()
        sync_folder(path)  # a store must not outlive its key's name
        return
    except OSError as error:
        fault = fault_of(error, f"The key file cannot be written: {path}")
    raise fault


def load_key_file(path: Path) -> KeyRing:
    """Read a key file; one that others can read is refused. The ring follows the file.

    Raises:
        KeyMaterialError: absent, readable by others, or not a key file.
    """
    return KeyFile(path).ring()


# ---------------------------------------------------------------- bytes


def _read(path: Path) -> KeySet:
    mode, raw = _content(path)
    if not raw:
        raise KeyMaterialError(f"The store's key file is absent or unreadable: {path}")
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise KeyMaterialError(
            f"The key file can be read by others: {path}", code="key_exposed", hint=f"chmod 600 {path}"
        )
    try:
        data = json.loads(raw[: _LARGEST_FILE + 1].decode("ascii"))
        if data["placet_key_file"] == 1 and len(raw) <= _LARGEST_FILE:
            return _keys(data)
    except (ValueError, KeyError, TypeError, AttributeError, KeyMaterialError, RecursionError):
        pass
    raise KeyMaterialError(f"This is not a placet key file: {path}", code="key_unreadable")


def _content(path: Path) -> tuple[int, bytes]:
    """Mode and bytes of one and the same file; nothing if it cannot be read."""
    try:
        with path.open("rb") as file:
            return os.fstat(file.fileno()).st_mode, file.read(_LARGEST_FILE + 1)
    except (OSError, ValueError):
        return 0, b""


def _keys(data: dict[str, Any]) -> KeySet:
    created_at = data.get("created_at", {})
    retired = data.get("retired", {})
    return KeySet(
        masters={_id(key_id): _key(master) for key_id, master in data["keys"].items()},
        current=_id(data["current"]),
        created_at={_id(key_id): datetime.fromisoformat(at).astimezone(UTC) for key_id, at in created_at.items()},
        retired={
            _id(key_id): RetiredKey(
                at=datetime.fromisoformat(each["at"]).astimezone(UTC),
                derived={purpose: _key(each[purpose.value]) for purpose in KEPT_OF_RETIRED},
            )
            for key_id, each in retired.items()
        },
    )


def _id(said: str) -> str:
    if type(said) is str and 0 < len(said) <= 127 and said.isascii():
        return said
    raise ValueError


def _key(said: str) -> bytes:
    return base64.b64decode(said, validate=True)


def _text(keys: KeySet) -> bytes:
    data: dict[str, Any] = {
        "placet_key_file": 1,
        "current": keys.current,
        "keys": {key_id: base64.b64encode(master).decode() for key_id, master in keys.masters.items()},
    }
    if keys.created_at:
        data["created_at"] = {key_id: at.isoformat() for key_id, at in keys.created_at.items()}
    if keys.retired:
        data["retired"] = {
            key_id: {
                "at": each.at.isoformat(),
                **{purpose.value: base64.b64encode(each.derived[purpose]).decode() for purpose in KEPT_OF_RETIRED},
            }
            for key_id, each in keys.retired.items()
        }
    return json.dumps(data, indent=1).encode() + b"\n"


def _signature(path: Path) -> tuple[int, ...] | None:
    """Changes with every change of the file; None while there is none."""
    try:
        found = path.stat()
    except (OSError, ValueError):
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_mode

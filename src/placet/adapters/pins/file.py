"""The file of pins: read whole, and changed whole or not at all.

A change locks the folder, reads the file again, writes a draft beside it, syncs it, renames it over the file and syncs
the folder, so a crash leaves the old file or the new one, and two who accept at once lose nothing of each other.
"""

from __future__ import annotations

import fcntl
import os
import re
import secrets
import stat
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from placet.errors import PinsNotWritable
from placet.model.approval import Mac
from placet.model.pins import Definition, Pin, PinFault, Pins
from placet.ports.keys import KeyPurpose, Keys, KeyState
from placet.rules.pin_files import LARGEST_FILE, read_pins, with_pins
from placet.rules.pins import definition_digest, pin_form

_NEW_FILE_MODE = 0o644
"""Nothing in it is secret, and it is reviewed and kept with the project."""
_LOCK_TRIES, _LOCK_PAUSE_SECONDS = 400, 0.05
_MENDING = "Look at the file: put the last good one back, or move it away and accept the tools anew."


class NoPinFile:
    """For a gate that was opened without a file of pins: nothing is accepted, and nothing can be."""

    def read(self) -> Pins:
        return Pins()

    def accept(self, definitions: Sequence[Definition], *, by: str, at: datetime) -> tuple[Pin, ...]:
        raise PinsNotWritable(
            "This gate was opened without a file of pins.", hint="Open it with pins= the file's path."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Read:
    """What was believed of a file, and under which states of which keys."""

    stamp: tuple[int, ...]
    states: Mapping[str, KeyState]
    pins: Pins


class PinFile:
    """One file of pins, signed and verified with the keys of one store."""

    def __init__(self, path: Path, *, keys: Keys) -> None:
        self._path = path
        self._keys = keys
        self._last: _Read | None = None

    def read(self) -> Pins:
        """What is believed now; decoded and verified again only where the file, or what is known of keys, changed."""
        try:
            stamp = _stamp(self._path)
            if self._last is not None and self._is_as_read(self._last, stamp):
                return self._last.pins
            text = _content(self._path)
        except OSError:
            return Pins(fault=PinFault.UNREADABLE)
        if text is None:
            return Pins()
        states: dict[str, KeyState] = {}

        def is_known(key_id: str) -> bool:
            found = self._is_known(key_id)
            states[key_id] = self._keys.state_of(key_id)
            return found

        pins = read_pins(text, is_known=is_known, is_signed=self._is_signed)
        self._last = None if stamp is None else _Read(stamp=stamp, states=states, pins=pins)
        return pins

    def accept(self, definitions: Sequence[Definition], *, by: str, at: datetime) -> tuple[Pin, ...]:
        pins = tuple(self._signed(each, by, at) for each in definitions)
        self._change(lambda text: with_pins(text, pins))
        return pins

    # ------------------------------------------------------------ within

    def _is_as_read(self, last: _Read, stamp: tuple[int, ...] | None) -> bool:
        if stamp != last.stamp:
            return False
        self._keys.refresh()  # another process may have rotated, or retired one
        return all(self._keys.state_of(key_id) is state for key_id, state in last.states.items())

    def _signed(self, definition: Definition, by: str, at: datetime) -> Pin:
        digest = definition_digest(definition)
        form = pin_form(digest=digest, server=definition.server, tool=definition.tool, accepted_by=by, accepted_at=at)
        mac = self._keys.mac(KeyPurpose.PIN, form)
        return Pin(
            definition=definition, digest=digest, accepted_by=by, accepted_at=at, mac=mac.value, key_id=mac.key_id
        )

    def _is_known(self, key_id: str) -> bool:
        if self._keys.state_of(key_id) is KeyState.UNKNOWN:
            self._keys.refresh()  # another process may have rotated
        return self._keys.state_of(key_id) in (KeyState.CURRENT, KeyState.OLD)

    def _is_signed(self, form: bytes, mac: Mac) -> bool:
        return self._keys.is_authentic(KeyPurpose.PIN, form, mac)

    def _change(self, change: Callable[[bytes | None], bytes | None]) -> None:
        try:
            with _held(self._path.parent):
                _sweep_drafts(self._path)
                text = _content(self._path)
                changed = change(text)
                if changed is not None:
                    _replace(self._path, changed)
                    return
            fault = PinsNotWritable(
                f"What is there is no file of pins, so it was left alone: {self._path}", hint=_MENDING
            )
        except BlockingIOError:
            fault = PinsNotWritable(
                f"Another process is changing the pins: {self._path}",
                code="pins_busy",
                hint="Try again when it is done.",
            )
        except OSError:
            fault = PinsNotWritable(
                f"The pins cannot be written: {self._path}",
                hint="Give this user write permission on the file's folder, and look whether the disk has room.",
            )
        raise fault


def _sweep_drafts(path: Path) -> None:
    """Remove what killed changers left. Only while the folder is held, so no draft is anybody's."""
    target = Path(os.path.realpath(path))
    draft = re.compile(rf"\.{re.escape(target.name)}\.[0-9a-f]{{8}}")
    for each in target.parent.iterdir():
        if draft.fullmatch(each.name):
            each.unlink(missing_ok=True)


def _stamp(path: Path) -> tuple[int, ...] | None:
    """What is another number once anybody has written there; None where there is no file."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _content(path: Path) -> bytes | None:
    """What is in the file, or None where there is none; one byte more than may be read shows that it is too large."""
    try:
        with path.open("rb") as file:
            return file.read(LARGEST_FILE + 1)
    except FileNotFoundError:
        return None


@contextmanager
def _held(folder: Path) -> Iterator[None]:
    """Nobody else changes what is in the folder meanwhile; a lock on the file would end with the first rename.

    Raises:
        BlockingIOError: somebody else holds it for too long.
    """
    waiting = threading.Event()
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for last in (*(False,) * _LOCK_TRIES, True):
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if last:
                    raise
                waiting.wait(_LOCK_PAUSE_SECONDS)
        yield
    finally:
        os.close(descriptor)


def _replace(path: Path, content: bytes) -> None:
    """The new file in the place of the old one, with its mode; a link is followed, so that it stays one."""
    target = Path(os.path.realpath(path))
    try:
        mode = stat.S_IMODE(target.stat().st_mode)
    except FileNotFoundError:
        mode = _NEW_FILE_MODE
    draft = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    try:
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with open(descriptor, "wb") as file:
            os.fchmod(descriptor, mode)
            file.write(content)
            file.flush()
            os.fsync(descriptor)
        os.rename(draft, target)
    except BaseException:
        with suppress(OSError):
            draft.unlink(missing_ok=True)
        raise
    folder = os.open(target.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)

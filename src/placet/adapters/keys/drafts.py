"""A file beside its draft: written whole and durable, put in its place under a lock, and what can go wrong with that.

Whoever makes or changes a file holds a lock on its folder: one on the file would end with the first rename, and a
change may take several. So whoever holds it knows that every draft in the folder was left by somebody who was killed.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import secrets
import threading
from contextlib import suppress
from pathlib import Path

from placet.errors import KeyMaterialError

_LOCK_TRIES, _LOCK_PAUSE_SECONDS = 400, 0.05

_PERMISSION = "Give this user write permission on the folder, or choose another one."
_HINTS = {
    **dict.fromkeys((errno.EACCES, errno.ENOENT, errno.ENOTDIR), _PERMISSION),
    errno.EPERM: "Run it as the user who owns the file, so that the file keeps its owner.",
    errno.EROFS: "The file system is mounted read-only: mount it for writing, or choose another folder.",
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), "The disk is full: free space, then ask again."),
    **dict.fromkeys((errno.EMFILE, errno.ENFILE), "Too many files are open: raise the limit, then ask again."),
    errno.EIO: "The disk does not serve: look at it, and copy the key file elsewhere before anything else.",
}  # fmt: skip


def lock_folder(folder: Path, *, of: Path) -> int:
    """A descriptor that holds the folder until it is closed.

    Raises:
        KeyMaterialError: somebody else holds it for too long (`key_busy`), or it cannot be locked.
    """
    waiting = threading.Event()
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            for _ in range(_LOCK_TRIES):
                with suppress(BlockingIOError):
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    return descriptor
                waiting.wait(_LOCK_PAUSE_SECONDS)
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
    except OSError as error:
        fault = fault_of(error, f"The folder of the key file cannot be locked: {of}")
    else:
        fault = KeyMaterialError(
            f"Another process is changing the key file: {of}", code="key_busy", hint="Try again when it is done."
        )
    raise fault


def fault_of(error: OSError, message: str) -> KeyMaterialError:
    """The operating system's fault as ours, with the next step of its kind and without its text."""
    number = error.errno if type(error.errno) is int else 0
    name = errno.errorcode.get(number, "no known fault")
    return KeyMaterialError(
        message,
        code="key_not_writable",
        hint=_HINTS.get(number, f"The operating system said {name}: mend that, then ask again."),
    )


def draft_of(target: Path) -> Path:
    return target.with_name(f".{target.name}.{secrets.token_hex(4)}")


def write_draft(draft: Path, content: bytes, *, owner: tuple[int, int] | None) -> None:
    """A file of mode 0600, durable on return."""
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    try:
        os.fchmod(descriptor, 0o600)
        made = os.fstat(descriptor)
        if owner is not None and owner != (made.st_uid, made.st_gid):
            os.fchown(descriptor, *owner)  # or the user that runs placet could not read its keys any more
        left = memoryview(content)
        while left:
            left = left[os.write(descriptor, left) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sweep_drafts(target: Path) -> None:
    """Remove what killed makers and changers left: drafts, also one that is still another name of the file itself.

    Only while the folder is held, so no draft is anybody's.
    """
    draft = re.compile(rf"\.{re.escape(target.name)}\.[0-9a-f]{{8}}")
    for path in target.parent.iterdir():
        if draft.fullmatch(path.name):
            path.unlink(missing_ok=True)


def sync_folder(target: Path) -> None:
    """Make the file's place in its folder durable; the file itself already is.

    Raises:
        KeyMaterialError: the file is in its place, and may lose it again in a power failure (`key_in_doubt`).
    """
    try:
        descriptor = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        return
    except OSError:
        fault = KeyMaterialError(
            f"The key file was written, but the disk did not confirm it: {target}",
            code="key_in_doubt",
            hint="Look at the disk, then at placet keys list, before you repeat it: the change may be there already.",
        )
    raise fault

"""Where tests keep their files: in memory where there is room. No test can tell, for none cuts the power.

A disk that takes milliseconds to sync costs the suite minutes of waiting. Whoever sets TMPDIR decides otherwise.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import suppress
from multiprocessing.util import Finalize
from pathlib import Path

_MEMORY = Path("/dev/shm")
_PREFIX = "placet-t"  # short: sockets are made below
_NEEDED_BYTES = 4 << 30
_KIB = 1_024
_LAST = -1_000
"""Below the priority with which multiprocessing removes a folder of its own, which is in ours."""


def keep_in_memory() -> None:
    """Make a folder there the place of all temporary files until this process ends; nothing, if TMPDIR is set already.

    It is world-readable by name, as a server that is not root's has to go through it. Folders of processes that were
    killed are removed first.
    """
    if os.environ.get("TMPDIR") or not _has_room():
        return
    _sweep()
    folder = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-", dir=_MEMORY))
    folder.chmod(0o755)
    os.environ["TMPDIR"] = str(folder)
    tempfile.tempdir = None  # it is looked up again
    Finalize(None, shutil.rmtree, args=[folder], kwargs={"ignore_errors": True}, exitpriority=_LAST)


def for_sockets() -> Path:
    """A folder whose name is short enough for sockets below it: a socket's path holds 107 bytes."""
    folder = Path(tempfile.gettempdir())
    return folder if folder.is_relative_to(_MEMORY) else Path("/tmp")


def _has_room() -> bool:
    """Containers often have 64 MiB there, which one server fills, or let no program be run from there."""
    try:
        found = os.statvfs(_MEMORY)
        with open("/proc/meminfo", encoding="ascii") as lines:
            available = next(int(line.split()[1]) * _KIB for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration):
        return False
    is_open = os.access(_MEMORY, os.W_OK) and not found.f_flag & os.ST_NOEXEC
    return is_open and min(found.f_bavail * found.f_frsize, available) >= _NEEDED_BYTES


def _sweep() -> None:
    for folder in _MEMORY.glob(f"{_PREFIX}*"):
        owner = folder.name.removeprefix(_PREFIX).partition("-")[0]
        if owner.isdecimal() and not Path("/proc", owner).exists():
            with suppress(OSError):
                shutil.rmtree(folder)

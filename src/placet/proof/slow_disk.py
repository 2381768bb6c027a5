"""A disk that is slow in a known way: where a benchmark's file lies, and how long an fsync takes there.

Disks of shared machines are throttled by the minute, so two runs on them cannot be compared. A file system in memory
with a fixed time added to each fsync can. The time is added by a small library of ours, put before the C library.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import resources
from pathlib import Path

SLOWED_BY = "PLACET_SLOW_FSYNC_US"
"""Set in a process whose fsync is slowed: by how many microseconds. The library reads it too."""
_MEMORY = Path("/dev", "shm")
_SYNCS = 15


class NoSlowDisk(Exception):
    """This machine cannot slow its fsync; the message says what is missing."""


def slowed_by() -> int:
    """Microseconds that this process was told to add to each fsync; 0 for an ordinary process."""
    text = os.environ.get(SLOWED_BY, "")
    return int(text) if text.isascii() and text.isdigit() else 0


def folder_in_memory() -> Path | None:
    """A folder whose file system lies in memory, if there is one that can be written."""
    return _MEMORY if os.access(_MEMORY, os.W_OK) and file_system(_MEMORY) == "tmpfs" else None


def file_system(folder: Path) -> str:
    """The type of the file system a folder lies on, such as `ext4`; `unknown` where Linux does not tell."""
    try:
        mounts = Path("/proc/self/mountinfo").read_text("utf-8", "replace").splitlines()
    except OSError:
        return "unknown"
    here = folder.resolve()
    found = (0, "unknown")
    for mount in mounts:
        before, _, after = mount.partition(" - ")
        point = Path(before.split(" ")[4].replace("\\040", " "))
        if here.is_relative_to(point) and len(point.parts) >= found[0]:  # the later of two mounts covers the earlier
            found = (len(point.parts), after.split(" ")[0])
    return found[1]


def fsync_microseconds(folder: Path) -> float:
    """How long an fsync takes there now: the median of a few, each after a write of 4 KiB."""
    took: list[float] = []
    with tempfile.TemporaryFile(dir=folder) as file:
        for _ in range(_SYNCS):
            file.write(bytes(4096))
            file.flush()
            began = time.perf_counter()
            os.fsync(file.fileno())
            took.append(time.perf_counter() - began)
    return statistics.median(took) * 1e6


def run_slowed(module: str, arguments: Sequence[str], *, microseconds: int) -> int:
    """Run `python -m module` anew with a slowed fsync, on our own streams; its exit code.

    Raises:
        NoSlowDisk: there is no C compiler, or it cannot build the library.
    """
    with library() as preloaded:
        before = [preloaded, os.environ.get("LD_PRELOAD", "")]
        environment = {
            **os.environ,
            "LD_PRELOAD": ":".join(part for part in before if part),
            SLOWED_BY: str(microseconds),
        }
        return subprocess.run([sys.executable, "-m", module, *arguments], env=environment, check=False).returncode


@contextmanager
def library() -> Iterator[str]:
    """Build the library that slows fsync and counts it, for as long as the block lasts; its path, for LD_PRELOAD.

    Raises:
        NoSlowDisk: there is no C compiler, or it cannot build the library.
    """
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        raise NoSlowDisk("there is no C compiler (gcc or cc) on the PATH")
    source = resources.files("placet.proof") / "slow_fsync.c"
    with tempfile.TemporaryDirectory(prefix="placet-fsync-") as folder, resources.as_file(source) as file:
        built = f"{folder}/slow_fsync.so"
        command = [compiler, "-shared", "-fPIC", "-O2", "-o", built, str(file), "-ldl"]
        if subprocess.run(command, check=False, stdout=sys.stderr).returncode != 0:
            raise NoSlowDisk(f"{compiler} could not build the library that slows fsync")
        yield built

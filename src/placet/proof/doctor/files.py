"""Whether the file of a SQLite store, and what it lies on, can be trusted with it."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from placet.bootstrap.looking import sqlite_library_version, sqlite_settings
from placet.errors import PlacetError
from placet.ports.examining import Examination
from placet.proof.doctor.checks import Check, Depth, Patient, Saying, fail, of_error, of_store, ok, skipped, warn
from placet.proof.doctor.layout import layout_saying
from placet.proof.slow_disk import file_system

_NETWORK = frozenset(
    (
        *("9p", "afs", "beegfs", "ceph", "cifs", "gfs2", "glusterfs", "lustre", "nfs", "nfs4", "smb3", "smbfs"),
        *("fuse.glusterfs", "fuse.s3fs", "fuse.sshfs"),
    )
)
_VOLATILE = frozenset(("ramfs", "tmpfs"))
_SOUND_LIBRARY = (3, 51, 3)
_REPAIRED_LIBRARIES = ((3, 44, 6), (3, 50, 7))
"""Older lines in which the fault was mended too: from here to the end of their minor version."""
_LEAST_BYTES, _FEW_BYTES = 64 * 1024 * 1024, 1024 * 1024 * 1024
_LEAST_FILES = 64
_WAL_VERSION = b"\x02\x02"
"""Bytes 18 and 19 of a file whose journal is a write-ahead log."""


def _path(patient: Patient) -> Path:
    return Path(patient.deployment.store)


def _is_there(patient: Patient) -> bool:
    return _path(patient).is_file()


def store_file(patient: Patient) -> Saying:
    if isinstance(patient.store, PlacetError):
        return of_error(patient.store)
    return ok(f"the store is there and can be read: {_path(patient)}")


def store_writable(patient: Patient) -> Saying:
    path = _path(patient)
    if not _is_there(patient):
        return skipped("there is no store")
    if os.statvfs(path.parent).f_flag & os.ST_RDONLY:
        return fail(f"its file system is mounted read-only: {path.parent}", "Mount it for writing, or move the store.")
    beside = [each for each in _files(path) if each.exists()]
    for each in (*beside, path.parent):
        if not os.access(each, os.W_OK):
            return fail(
                f"this user may not write {each}", "Give this user write permission on the store and its folder."
            )
    return ok("store and folder can be written")


def _files(path: Path) -> tuple[Path, ...]:
    return (path, path.with_name(path.name + "-wal"), path.with_name(path.name + "-shm"))


def store_modes(patient: Patient) -> Saying:
    path = _path(patient)
    if not _is_there(patient):
        return skipped("there is no store")
    folder = path.parent.stat()
    is_shared_folder = folder.st_mode & stat.S_IWOTH and not folder.st_mode & stat.S_ISVTX
    if is_shared_folder:
        return fail(
            f"everybody may replace the store: its folder is writable by all: {path.parent}",
            f"chmod o-w {path.parent}",
        )
    present = [each for each in _files(path) if each.exists()]
    for each in present:
        if each.stat().st_mode & stat.S_IWOTH:
            return fail(f"everybody may write the store: {each}", f"chmod 600 {each}")
    readable = [each for each in present if each.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO)]
    if readable:
        return warn(f"other users may open the store: {readable[0]}", f"chmod 600 {readable[0]}")
    return ok("the store is its owner's alone")


def _store_schema(patient: Patient, store: Examination) -> Saying:
    layout = store.layout()
    if not layout.is_ours:
        return fail("the file is a database, and no placet store", "Point --store at the store.")
    return layout_saying(layout)


def _store_integrity(patient: Patient, store: Examination) -> Saying:
    is_deep = patient.depth is Depth.DEEP
    found = store.damage_in_depth() if is_deep else store.damage()
    if found:
        return fail(found[0], "Stop all writers, keep the file, and restore from a backup.")
    return ok("pages, rows and indexes are sound" if is_deep else "pages and rows are sound")


def store_durability(patient: Patient) -> Saying:
    path = _path(patient)
    if not _is_there(patient):
        return skipped("there is no store")
    settings = sqlite_settings()
    if settings != {"journal_mode": "wal", "synchronous": "2"}:
        told = ", ".join(f"{name} {value}" for name, value in settings.items())
        return fail(f"connections would be opened with {told}", "This SQLite library cannot keep a store: replace it.")
    with path.open("rb") as file:
        header = file.read(20)
    if header[18:20] != _WAL_VERSION:
        return warn(
            "the file is not in write-ahead mode; somebody switched it",
            "Opening it switches it back. Find out which program wrote to the store.",
        )
    return ok("write-ahead log, synchronous=FULL")


def sqlite_version(patient: Patient) -> Saying:
    return library_saying(sqlite_library_version())


def library_saying(version: tuple[int, ...]) -> Saying:
    """Of a version of SQLite."""
    told = ".".join(map(str, version))
    is_sound = version >= _SOUND_LIBRARY or any(
        version[:2] == mended[:2] and version >= mended for mended in _REPAIRED_LIBRARIES
    )
    if is_sound:
        return ok(f"SQLite {told}")
    return fail(
        f"SQLite {told} may corrupt a store that several connections use (the WAL-reset fault)",
        "pip install -U apsw: it brings its own SQLite, 3.51.3 or newer.",
    )


def store_file_system(patient: Patient) -> Saying:
    return file_system_saying(file_system(_path(patient).parent))


def file_system_saying(kind: str) -> Saying:
    """Of a kind of file system, as the kernel names it."""
    if kind in _NETWORK:
        return fail(
            f"the store lies on a network file system ({kind}), where its log cannot be shared safely",
            "Move it to a local disk; for several hosts use PostgreSQL.",
        )
    if kind in _VOLATILE:
        return warn(f"the store lies in memory ({kind}): a restart of the machine loses it", "Move it to a disk.")
    return ok(f"a local file system ({kind})") if kind != "unknown" else ok("a file system that says no name")


def store_space(patient: Patient) -> Saying:
    folder = _path(patient).parent
    if not folder.is_dir():
        return skipped("there is no folder")
    found = os.statvfs(folder)
    return space_saying(found.f_bavail * found.f_frsize, found.f_favail if found.f_files else None)


def space_saying(free_bytes: int, free_files: int | None) -> Saying:
    """Of the room left on a file system; None where files are not counted."""
    if free_files is not None and free_files < _LEAST_FILES:
        return fail(f"the file system takes {free_files} more files", "Remove files there, or move the store.")
    told = f"{free_bytes // (1024 * 1024):,} MiB free"
    if free_bytes < _LEAST_BYTES:
        return fail(f"the disk is nearly full: {told}", "Free space: on a full disk every call is refused.")
    if free_bytes < _FEW_BYTES:
        return warn(told, "Free space, or watch it: on a full disk every call is refused.")
    return ok(told)


CHECKS = (
    Check(id="store_file", about="the store's file", look=store_file),
    Check(id="store_writable", about="writing to it", look=store_writable),
    Check(id="store_modes", about="who else may open it", look=store_modes),
    Check(id="store_file_system", about="what it lies on", look=store_file_system),
    Check(id="store_space", about="room to grow", look=store_space),
    Check(id="sqlite_version", about="the SQLite library", look=sqlite_version),
    Check(id="store_durability", about="durable commits", look=store_durability),
    Check(id="store_schema", about="the schema", look=of_store(_store_schema)),
    Check(id="store_integrity", about="the file's structure", look=of_store(_store_integrity)),
)

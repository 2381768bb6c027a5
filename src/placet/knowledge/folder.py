"""The documents of a folder: which there are, and what is in them. Nothing outside of the folder is ever opened.

A link is followed only to a file whose real place lies inside, and that place is opened from the folder down, one name
at a time, without following anything: whoever changes the folder meanwhile cannot lead us out of it. Hidden names and
what is no Markdown are passed over; a Markdown file that is left out is named with its reason.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from placet.knowledge.bounds import MAX_NAMED, Bounds
from placet.model.knowledge import Skipped, SkipReason

_ENDINGS = (".md", ".markdown")
_SHOWN_CHARACTERS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A document that is there.

    Attributes:
        path: relative to the folder, with `/`.
        place: where its bytes lie, relative to the folder; another one than `path` for a link.
        stamp: size and times, which differ when it was written to.
    """

    path: str
    place: str
    size: int
    stamp: str
    mtime_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """What a folder holds, in the order of the paths."""

    files: tuple[Found, ...]
    skipped: tuple[Skipped, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """A document's text, and the digest of its bytes."""

    text: str
    digest: bytes


def scanned(folder: Path, bounds: Bounds, *, max_path_characters: int) -> Scan:
    """Look at the folder; no document is opened.

    Raises:
        OSError: the folder itself cannot be read.
    """
    root = os.path.realpath(folder)
    files: list[Found] = []
    skipped: list[Skipped] = []
    total = 0
    for path, entry in _markdown(root, bounds, skipped):
        found = _found(root, path, entry, max_path_characters)
        if isinstance(found, Found):
            found = _within(found, bounds, files=len(files), total=total)
        if isinstance(found, Found):
            files.append(found)
            total += found.size
        else:
            skipped.append(Skipped(path=_shown(path), reason=found))
    named = sorted(skipped, key=lambda each: (each.path, each.reason))[:MAX_NAMED]
    return Scan(files=tuple(sorted(files, key=lambda each: each.path)), skipped=tuple(named))


def read(folder: Path, found: Found, bounds: Bounds) -> Text | SkipReason:
    """Read one document, or say why it is left out."""
    try:
        content = _content(folder, found, bounds.max_file_bytes + 1)
    except OSError:
        return SkipReason.NOT_READABLE
    if len(content) > bounds.max_file_bytes:
        return SkipReason.TOO_LARGE
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return SkipReason.NOT_UTF8
    if "\0" in text:
        return SkipReason.NUL_INSIDE
    if max(map(len, text.split("\n"))) > bounds.max_line_characters:
        return SkipReason.LINE_TOO_LONG
    return Text(text=text, digest=hashlib.sha256(content).digest())


def _markdown(root: str, bounds: Bounds, skipped: list[Skipped]) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Markdown files and links, folder by folder; folders are never entered through a link."""
    left, waiting = bounds.max_entries, [("", 0)]
    while waiting:
        inside, depth = waiting.pop()
        try:
            with os.scandir(os.path.join(root, inside)) as listing:
                entries = []
                for entry in listing:
                    entries.append(entry)
                    if len(entries) >= left:
                        skipped.append(Skipped(path=_shown(inside or "."), reason=SkipReason.TOO_MANY_FILES))
                        break
        except OSError:
            if not inside:
                raise
            skipped.append(Skipped(path=_shown(inside), reason=SkipReason.NOT_READABLE))
            continue
        left -= len(entries)
        for entry in sorted(entries, key=lambda each: each.name):
            path = f"{inside}/{entry.name}" if inside else entry.name
            if entry.name.startswith("."):
                continue
            if entry.is_dir(follow_symlinks=False):
                if depth < bounds.max_depth:
                    waiting.append((path, depth + 1))
                else:
                    skipped.append(Skipped(path=_shown(path), reason=SkipReason.TOO_DEEP))
            elif entry.name.lower().endswith(_ENDINGS):
                yield path, entry
        if left <= 0:
            return


def _found(root: str, path: str, entry: os.DirEntry[str], max_path_characters: int) -> Found | SkipReason:
    if len(path) > max_path_characters or not path.isprintable():  # bytes that are no UTF-8 are not printable either
        return SkipReason.NAME_UNFIT
    place = path
    if entry.is_symlink():
        real = os.path.realpath(entry.path)
        if not real.startswith(root.rstrip("/") + "/"):
            return SkipReason.LINK_OUT
        place = os.path.relpath(real, root)
    with suppress(OSError):
        seen = os.stat(os.path.join(root, place), follow_symlinks=False)
        if not stat.S_ISREG(seen.st_mode):
            return SkipReason.NOT_A_FILE
        stamp = f"{seen.st_size}:{seen.st_mtime_ns}:{seen.st_ctime_ns}"
        return Found(path=path, place=place, size=seen.st_size, stamp=stamp, mtime_ns=seen.st_mtime_ns)
    return SkipReason.NOT_READABLE


def _within(found: Found, bounds: Bounds, *, files: int, total: int) -> Found | SkipReason:
    if found.size > bounds.max_file_bytes:
        return SkipReason.TOO_LARGE
    if files >= bounds.max_files:
        return SkipReason.TOO_MANY_FILES
    if total + found.size > bounds.max_total_bytes:
        return SkipReason.TOO_MUCH_TEXT
    return found


def _content(folder: Path, found: Found, most: int) -> bytes:
    """At most so many bytes of it."""
    *above, name = steps = found.place.split("/")
    if ".." in steps:
        raise OSError
    held = os.open(os.path.realpath(folder), os.O_RDONLY | os.O_DIRECTORY)
    try:
        for step in above:
            inner = os.open(step, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=held)
            os.close(held)
            held = inner
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=held)
    finally:
        os.close(held)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError
        return file.read(most)


def _shown(path: str) -> str:
    """A path that can be stored and shown, whatever the file system allowed."""
    kept = path if len(path) <= _SHOWN_CHARACTERS else path[:_SHOWN_CHARACTERS] + "..."
    return kept.encode("utf-8", "backslashreplace").decode()

"""What differs between a folder and its index: what is new, altered or gone, and what is left out.

A document whose size and times are those of when it was read is taken for the same; any other is read and compared by
digest, so that a copied or touched folder is not indexed again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from placet.errors import NotFound
from placet.knowledge.bounds import Bounds
from placet.knowledge.folder import Found, Scan, Text, read
from placet.knowledge.index_file import IndexFile
from placet.model.knowledge import DocumentState, DocumentStatus, KnowledgeBase, Skipped, SkipReason


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """The index holds it as it is. `row`: where; `stamp`: that of the file today."""

    row: int
    stamp: str
    is_stamped: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """It is to be indexed. `row`: of what the index holds of it, None for one that is new."""

    found: Found
    text: Text
    row: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """It is in the folder and not to be indexed; `is_known`: the index says the same of it already."""

    skipped: Skipped
    stamp: str
    row: int | None
    is_known: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Gone:
    """The index holds it, and the folder does not."""

    row: int


Difference = Kept | Taken | LeftOut | Gone


def differences(index: IndexFile | None, folder: Path, scan: Scan, bounds: Bounds) -> Iterator[Difference]:
    """One answer for each document of either, one text in memory at a time. `index`: None to index everything."""
    held = {path: (row, digest, stamp) for row, path, digest, stamp, _ in index.rows("documents")} if index else {}
    known = {path: (reason, stamp) for path, reason, stamp in index.rows("skipped")} if index else {}
    for found in scan.files:
        row, digest, stamp = held.pop(found.path, (None, b"", ""))
        if row is not None and stamp == found.stamp:
            yield Kept(row=row, stamp=stamp, is_stamped=True)
            continue
        reason, left_stamp = known.get(found.path, ("", ""))
        if reason and row is None and left_stamp == found.stamp:
            yield LeftOut(
                skipped=Skipped(path=found.path, reason=SkipReason(reason)), stamp=left_stamp, row=None, is_known=True
            )
            continue
        content = read(folder, found, bounds)
        if not isinstance(content, Text):
            left_out = Skipped(path=found.path, reason=content)
            yield LeftOut(skipped=left_out, stamp=found.stamp, row=row, is_known=row is None and content == reason)
        elif row is not None and content.digest == digest:
            yield Kept(row=row, stamp=found.stamp, is_stamped=False)
        else:
            yield Taken(found=found, text=content, row=row)
    for left_out in scan.skipped:
        row, _, _ = held.pop(left_out.path, (None, b"", ""))
        is_known = row is None and known.get(left_out.path, ("", ""))[0] == left_out.reason
        yield LeftOut(skipped=left_out, stamp="", row=row, is_known=is_known)
    for row, _, _ in held.values():
        yield Gone(row=row)


def changed(index: IndexFile, folder: Path, scan: Scan, bounds: Bounds) -> int:
    """How many documents the index does not hold as they are now."""
    seen = 0
    for difference in differences(index, folder, scan, bounds):
        match difference:
            case Kept():
                pass
            case LeftOut(row=None, is_known=is_known):
                seen += not is_known
            case Taken() | Gone() | LeftOut():
                seen += 1
    return seen


def document_status(
    base: KnowledgeBase, path: str, *, index: IndexFile | None, scan: Scan | None, bounds: Bounds
) -> DocumentStatus | NotFound:
    """How one document stands. `index`: None where there is none; `scan`: None where the folder cannot be read."""
    held = index.rows("document", path) if index else []
    known = {each.path: each.reason for each in index.skipped} if index else {}
    found = next((each for each in scan.files if each.path == path), None) if scan else None
    left_out = next((each.reason for each in scan.skipped if each.path == path), None) if scan else None
    digest, stamp, sections = held[0] if held else (b"", "", 0)

    def told(state: DocumentState, reason: SkipReason | None = None) -> DocumentStatus:
        shown = 0 if state is DocumentState.SKIPPED else sections
        return DocumentStatus(document_id=f"{base.id}/{path}", state=state, sections=shown, reason=reason)

    if left_out is not None:
        return told(DocumentState.SKIPPED, left_out)
    if found is None:
        return told(DocumentState.MISSING) if held else NotFound("There is no such document, or it is not yours.")
    if held and stamp == found.stamp:
        return told(DocumentState.INDEXED)
    content = read(base.documents, found, bounds)
    if not isinstance(content, Text):
        return told(DocumentState.SKIPPED, content)
    if not held and path in known:
        return told(DocumentState.SKIPPED, known[path])
    if not held:
        return told(DocumentState.NEW)
    return told(DocumentState.INDEXED if content.digest == digest else DocumentState.CHANGED)

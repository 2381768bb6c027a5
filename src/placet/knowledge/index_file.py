"""One index in one SQLite file, which nobody changes once it has its name.

A build writes another file and renames it over this one, so a reader holds either the old index or the new one, whole;
what a crash leaves behind has another name. Readers open the file as immutable: they take no locks, write nothing, and
may read it from a read-only file system. Its last bytes, which SQLite does not look at, are the digest of all before
them: SQLite's own checks do not see every damage, the words of FTS5 and the texts least of all.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import quote

import apsw

from placet.errors import KnowledgeUnreadable
from placet.model.knowledge import KnowledgeBase, Skipped, SkipReason

FORMAT = "placet-knowledge-1"
_DIGEST_BYTES = hashlib.sha256().digest_size
_CHUNK_BYTES = 1 << 20
_FORMAT, _TENANT, _BASE, _MEANING, _TERMS = "format", "tenant", "base", "meaning", "terms"


class IndexFile:
    """An open index. Not for two threads at once.

    Attributes:
        meaning: the name of the model its vectors were made with; empty without vectors.
        terms: what decided how it was made; with others it would be another index.
    """

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self.meaning = self._fact(_MEANING)
        self.terms = self._fact(_TERMS)

    def rows(self, name: str, *bindings: Any) -> list[tuple[Any, ...]]:
        """The answer to a statement of queries.sql."""
        return self._connection.execute(_statements()[name], bindings).fetchall()

    def value(self, name: str, *bindings: Any) -> Any:
        """The first column of its only row; None without one."""
        rows = self.rows(name, *bindings)
        return rows[0][0] if rows else None

    def run(self, name: str, *bindings: Any) -> None:
        self._connection.execute(_statements()[name], bindings)

    @property
    def counts(self) -> tuple[int, int, int]:
        """Documents, sections, vectors."""
        documents, sections, vectors = self.rows("counts")[0]
        return documents, sections, vectors

    @property
    def skipped(self) -> tuple[Skipped, ...]:
        return tuple(Skipped(path=path, reason=SkipReason(reason)) for path, reason, _ in self.rows("skipped"))

    def is_of(self, base: KnowledgeBase) -> bool:
        """Whether it was made in this form, for this knowledge base of this tenant."""
        return (self._fact(_FORMAT), self._fact(_TENANT), self._fact(_BASE)) == (FORMAT, base.tenant, base.id)

    def name_for(self, base: KnowledgeBase, *, meaning: str, terms: str) -> None:
        """Write down what it is made for."""
        facts = {_FORMAT: FORMAT, _TENANT: base.tenant, _BASE: base.id, _MEANING: meaning, _TERMS: terms}
        for name, value in facts.items():
            self.run("put_fact", name, value)

    def _fact(self, name: str) -> str:
        found = self.value("fact", name)
        return found if isinstance(found, str) else ""


@contextmanager
def reading(path: Path) -> Iterator[IndexFile]:
    """Open an index to read.

    Raises:
        KnowledgeUnreadable: it is no index, or is found damaged while it is read.
        FileNotFoundError: there is none.
    """
    if not path.exists():
        raise FileNotFoundError
    is_damaged = False
    try:
        uri = f"file:{quote(str(path.absolute()))}?immutable=1"
        connection = apsw.Connection(uri, flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
        try:
            yield IndexFile(connection)
        finally:
            connection.close()
    except (apsw.Error, ValueError):
        is_damaged = True
    if is_damaged:
        raise KnowledgeUnreadable


@contextmanager
def writing(draft: Path) -> Iterator[IndexFile]:
    """Open a draft to write, a new one or a copy; all of it is one transaction.

    A draft that is not finished is thrown away, so nothing protects it meanwhile: whoever finishes it syncs it.
    """
    is_new = not draft.exists()
    connection = apsw.Connection(str(draft))
    try:
        connection.pragma("journal_mode", "off")
        connection.pragma("synchronous", "off")
        connection.execute("begin immediate")
        if is_new:
            connection.execute(files("placet.knowledge").joinpath("schema.sql").read_text(encoding="utf-8"))
        yield IndexFile(connection)
        connection.execute("commit")
    finally:
        with suppress(apsw.Error):
            connection.close()


def seal(draft: Path) -> None:
    """Put the digest of a draft that is finished behind it, and make both durable."""
    with draft.open("r+b") as file:
        digest = _digest(file, os.fstat(file.fileno()).st_size)
        file.write(digest)
        file.flush()
        os.fsync(file.fileno())


def unseal(draft: Path) -> None:
    """Take the digest off a copy that is to be gone on with."""
    os.truncate(draft, draft.stat().st_size - _DIGEST_BYTES)


def is_whole(path: Path) -> bool:
    """Whether it is, byte for byte, what was built; takes time in proportion to its size.

    Raises:
        OSError: it cannot be read.
    """
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size - _DIGEST_BYTES
        return size > 0 and _digest(file, size) == file.read()


def _digest(file: BinaryIO, size: int) -> bytes:
    """Of so many bytes from the start; what is read next stands behind them."""
    digest, left = hashlib.sha256(), size
    while left and (chunk := file.read(min(left, _CHUNK_BYTES))):
        digest.update(chunk)
        left -= len(chunk)
    return digest.digest()


@cache
def _statements() -> dict[str, str]:
    text = files("placet.knowledge").joinpath("queries.sql").read_text(encoding="utf-8")
    _, *blocks = re.split(r"^-- name: ", text, flags=re.MULTILINE)
    return {name.strip(): body.strip() for name, _, body in (block.partition("\n") for block in blocks)}

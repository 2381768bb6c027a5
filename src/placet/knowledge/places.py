"""Where an index lies, and who builds it.

<folder>/<digest of tenant and id>/index.sqlite    the index; absent until the first one is whole
                                   draft.sqlite    what a builder writes, or a killed one left behind
                                   lock            held by the builder, by the kernel's word: a dead one holds nothing
"""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from placet.errors import KnowledgeBusy
from placet.model.knowledge import KnowledgeBase

_TRIES = 1_000


@dataclass(frozen=True, slots=True)
class Place:
    """The folder of one index."""

    folder: Path

    @property
    def index(self) -> Path:
        return self.folder / "index.sqlite"

    @property
    def draft(self) -> Path:
        return self.folder / "draft.sqlite"

    @property
    def lock(self) -> Path:
        return self.folder / "lock"


def place_of(indexes: Path, base: KnowledgeBase) -> Place:
    """Names that tenants chose never become names of files."""
    tenant, name = base.tenant.encode("utf-8", "surrogatepass"), base.id.encode()
    digest = hashlib.sha256(b"%d:%b%d:%b" % (len(tenant), tenant, len(name), name)).hexdigest()
    return Place(indexes / digest[:32])


@contextmanager
def building(place: Place) -> Iterator[None]:
    """Be the only builder of this index, in any process.

    Raises:
        KnowledgeBusy: there is another one.
        OSError: the folder cannot be written.
    """
    place.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(place.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        if not _is_held(descriptor):
            raise KnowledgeBusy
        yield
    finally:
        os.close(descriptor)


def is_being_built(place: Place) -> bool:
    """Whether a builder is at work; the answer is old when it is read."""
    with suppress(OSError):
        descriptor = os.open(place.lock, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(descriptor)
    return False


def _is_held(descriptor: int) -> bool:
    """Take the lock. Whoever only asks holds a share of it for a moment, which is no builder."""
    for _ in range(_TRIES):
        with suppress(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        fcntl.flock(descriptor, fcntl.LOCK_UN)
    return False

"""What an index of documents is: how it stands, what it found, and what it left out."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import Path

from placet.errors import MisuseError
from placet.model.principal import is_identity

MAX_QUERY_CHARACTERS = 2_000
MAX_BASE_ID_CHARACTERS = 64
MAX_DOCUMENT_ID_CHARACTERS = 128
MAX_EVIDENCE = 10

_BASE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*", re.ASCII)


class IndexState(StrEnum):
    """Whether an index can be asked.

        absent --build--> building --whole--> ready --a document changed--> stale --build--> ready
        (any) --damaged, or made by another version--> unreadable --build--> ready

    READY and STALE are whole and can be searched; the old index is, too, while a new one is built.
    """

    ABSENT = "absent"
    BUILDING = "building"
    READY = "ready"
    STALE = "stale"
    UNREADABLE = "unreadable"


SEARCHABLE = frozenset((IndexState.READY, IndexState.STALE))


class SkipReason(StrEnum):
    """Why a file of the folder is not in the index."""

    LINK_OUT = "link_out"
    NOT_A_FILE = "not_a_file"
    NOT_READABLE = "not_readable"
    NAME_UNFIT = "name_unfit"
    TOO_LARGE = "too_large"
    TOO_DEEP = "too_deep"
    TOO_MANY_FILES = "too_many_files"
    TOO_MUCH_TEXT = "too_much_text"
    TOO_MANY_SECTIONS = "too_many_sections"
    LINE_TOO_LONG = "line_too_long"
    NOT_UTF8 = "not_utf8"
    NUL_INSIDE = "nul_inside"


class DocumentState(StrEnum):
    """How one document stands. CHANGED: the index holds it as it was; MISSING: its file is gone, the index has it."""

    INDEXED = "indexed"
    CHANGED = "changed"
    NEW = "new"
    MISSING = "missing"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True, kw_only=True)
class KnowledgeBase:
    """A folder of Markdown that one tenant may search.

    Attributes:
        id: at most 64 ASCII letters, digits and `.`, `_`, `-`; unique in its tenant.
        documents: the folder; what lies outside of it is never read.
    """

    tenant: str
    id: str
    documents: Path

    def __post_init__(self) -> None:
        if not is_identity(self.tenant):
            raise MisuseError("A knowledge base belongs to a tenant: a text of 1 to 128 characters.")
        if type(self.id) is not str or len(self.id) > MAX_BASE_ID_CHARACTERS or _BASE_ID.fullmatch(self.id) is None:
            raise MisuseError("The id of a knowledge base is 1 to 64 ASCII letters, digits, '.', '_' and '-'.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """A file that was left out. `path`: relative to the folder, and cut where it is very long."""

    path: str
    reason: SkipReason


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexStatus:
    """How an index stands now.

    Attributes:
        documents: how many it holds; 0 where it cannot be read.
        sections: how many sections they have.
        built_at: when it was last built, by the clock of the file system; None where there is none.
        has_meaning: whether it can be searched by meaning too.
        changed: how many documents were added, altered or removed since; 0 unless STALE.
        skipped: what was left out when it was built, in the order of the paths.
    """

    state: IndexState
    documents: int = 0
    sections: int = 0
    built_at: datetime | None = None
    has_meaning: bool = False
    changed: int = 0
    skipped: tuple[Skipped, ...] = ()

    @property
    def is_searchable(self) -> bool:
        return self.state in SEARCHABLE


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildReport:
    """What one build did: how many documents it took in, took in anew, took out and kept as they were."""

    added: int
    changed: int
    removed: int
    kept: int
    sections: int
    skipped: tuple[Skipped, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentStatus:
    """How one document stands. `reason`: why it was skipped, and only then."""

    document_id: str
    state: DocumentState
    sections: int = 0
    reason: SkipReason | None = None


class MeaningModel(StrEnum):
    """The models that texts are compared by; likeness in one says nothing about likeness in another."""

    MULTILINGUAL = "multilingual-e5-small-q4/1"
    ENGLISH = "all-MiniLM-L6-v2-int8/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """One section that was found. Its texts come from documents: data, whoever wrote them.

    Attributes:
        citation: names the section, as in `redis#first-five-minutes:2`: file, heading, number in the file from 0.
        source: the file, relative to the folder, as in `redis.md`.
        document_id: names the document in its tenant, as in `runbooks/redis.md`.
        title: the document's.
        content: the section's heading and text.
        coverage: how much of the question's words, weighed by how rare they are, the section holds: 0 to 1.
        similarity: how near question and document are in meaning, 0 to 1; None where it was searched by words alone.
        measured_by: the model whose similarity it is; None without one.
    """

    citation: str
    source: str
    document_id: str
    title: str
    content: str
    coverage: float
    similarity: float | None = None
    measured_by: MeaningModel | None = None

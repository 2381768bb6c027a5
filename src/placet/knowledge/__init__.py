"""Search in documents: an embedded index over folders of Markdown, English and Chinese, with its states.

    folder         which documents there are, and what is in them; nothing outside is ever opened
    sections       a document cut at its headings; words: the words of a text, the same for documents and questions
    comparing      what differs between a folder and its index
    building       an index brought up to its folder; places: where it lies, and who builds it
    index_file     one index in one file that nobody changes; shelf: those that are open
    searching      by words, by whole documents and by meaning, ranked together; meaning: the model for that
    library        the knowledge bases of a process, which is what others use

What is found is data, whoever wrote it: `evidence_block` wraps it for a model, and `is_enough` says when to answer.
"""

from __future__ import annotations

from placet.knowledge.bounds import Bounds
from placet.knowledge.library import Library
from placet.knowledge.meaning import Meaning
from placet.model.knowledge import (
    BuildReport,
    DocumentState,
    DocumentStatus,
    Evidence,
    IndexState,
    IndexStatus,
    KnowledgeBase,
    Skipped,
    SkipReason,
)
from placet.ports.knowledge import KnowledgeMeter
from placet.rules.evidence import NOTICE, Lacking, evidence_block, is_enough, lacking

__all__ = [
    "NOTICE",
    "Bounds",
    "BuildReport",
    "DocumentState",
    "DocumentStatus",
    "Evidence",
    "IndexState",
    "IndexStatus",
    "KnowledgeBase",
    "KnowledgeMeter",
    "Lacking",
    "Library",
    "Meaning",
    "SkipReason",
    "Skipped",
    "evidence_block",
    "is_enough",
    "lacking",
]

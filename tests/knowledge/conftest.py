"""Real folders of documents, and real indexes of them."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from placet.knowledge import BuildReport, IndexStatus, KnowledgeBase, Library, Meaning


@dataclass
class Shop:
    """One tenant's knowledge base, and a library that holds it."""

    documents: Path
    indexes: Path
    library: Library

    def write(self, **texts: str | bytes) -> None:
        """Write documents, `a__b` as a/b.md."""
        for name, text in texts.items():
            path = self.documents / (name.replace("__", "/") + ".md")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text.encode() if isinstance(text, str) else text)

    def build(self) -> BuildReport:
        return self.library.build_now("acme", "runbooks")

    @property
    def status(self) -> IndexStatus:
        return self.library.status_now("acme", "runbooks")

    def search(self, query: str, **more: Any) -> list[str]:
        return [item.citation for item in self.library.search_now("acme", "runbooks", query, **more)]

    @property
    def index_file(self) -> Path:
        (found,) = self.indexes.glob("*/index.sqlite")
        return found


@pytest.fixture
def new_shop(tmp_path: Path) -> Callable[..., Shop]:
    def made(**more: Any) -> Shop:
        documents, indexes = tmp_path / "documents", tmp_path / "indexes"
        documents.mkdir(exist_ok=True)
        base = KnowledgeBase(tenant="acme", id="runbooks", documents=documents)
        return Shop(documents, indexes, Library(indexes, [base], **{"meaning": Meaning.NEVER, **more}))

    return made


@pytest.fixture
def shop(new_shop: Callable[..., Shop]) -> Shop:
    return new_shop()

"""A builder that dies, leaves or fails leaves the old index whole, and the next one goes on."""

import asyncio
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from placet.errors import KnowledgeNotBuilt
from placet.knowledge import Bounds, IndexState, KnowledgeBase, Library, Meaning
from placet.knowledge import building as building_module
from placet.knowledge.meaning import AskedMeaning
from placet.knowledge.places import place_of
from tests.knowledge.conftest import Shop

DIES = """
import os, signal, sys
from contextlib import contextmanager
from pathlib import Path
from placet.knowledge import KnowledgeBase, Library, Meaning
import placet.knowledge.building as building

stage, documents, indexes = sys.argv[1:]

class Deadly:
    @contextmanager
    def indexing(self, name):
        if f"before {name}" == stage: os.kill(os.getpid(), signal.SIGKILL)
        yield
        if f"after {name}" == stage: os.kill(os.getpid(), signal.SIGKILL)

if stage == "before rename":
    os.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
base = KnowledgeBase(tenant="acme", id="runbooks", documents=Path(documents))
Library(indexes, [base], meaning=Meaning.NEVER, meter=Deadly()).build_now("acme", "runbooks")
"""


def killed(shop: Shop, stage: str) -> int:
    """Build in a process that kills itself there; how it ended."""
    words = [sys.executable, "-c", DIES, stage, str(shop.documents), str(shop.indexes)]
    return subprocess.run(words, check=False, timeout=60).returncode


@pytest.mark.parametrize(
    ("stage", "is_new"),
    [
        ("before scan", False),
        ("before documents", False),
        ("after documents", False),
        ("before publish", False),
        ("before rename", False),
        ("after publish", True),
    ],
)
def test_a_killed_builder_leaves_the_old_index_or_the_new_one(shop: Shop, stage: str, is_new: bool):
    # Starts an interpreter of its own for each place to die at.
    shop.write(a="# A\nalpha")
    shop.build()
    shop.write(a="# A\nbravo", b="# B\nbeta")

    died = subprocess.run(
        [sys.executable, "-c", DIES, stage, str(shop.documents), str(shop.indexes)], check=False, timeout=60
    )

    assert died.returncode == -signal.SIGKILL
    assert shop.status.state is (IndexState.READY if is_new else IndexState.STALE)
    assert (shop.search("alpha"), shop.search("bravo")) == (([], ["a#a:0"]) if is_new else (["a#a:0"], []))
    shop.build()
    assert (shop.search("alpha"), shop.search("bravo"), shop.search("beta")) == ([], ["a#a:0"], ["b#b:0"])
    assert sorted(path.name for path in shop.index_file.parent.iterdir()) == ["index.sqlite", "lock"]


def test_a_builder_killed_before_the_first_index_leaves_none(shop: Shop):
    shop.write(a="# A\nalpha")
    subprocess.run(
        [sys.executable, "-c", DIES, "after documents", str(shop.documents), str(shop.indexes)], check=False, timeout=60
    )
    assert shop.status.state is IndexState.ABSENT
    shop.build()
    assert shop.search("alpha") == ["a#a:0"]


class _Held:
    """Holds a build in a stage until it is let go."""

    def __init__(self) -> None:
        self.reached, self.go_on = threading.Event(), threading.Event()

    @contextmanager
    def indexing(self, stage: str) -> Any:
        if stage == "documents":
            self.reached.set()
            assert self.go_on.wait(30)
        yield


async def test_a_caller_who_leaves_ends_the_build_and_the_loop_was_free_meanwhile(new_shop, shop: Shop):
    shop.write(a="# A\nalpha")
    shop.build()
    shop.write(a="# A\nbravo", b="# B\nbeta")
    held = _Held()
    slow = new_shop(meter=held)
    task = asyncio.ensure_future(slow.library.build("acme", "runbooks"))
    while not held.reached.is_set():
        await asyncio.sleep(0.001)
    assert [item.citation for item in await shop.library.search("acme", "runbooks", "alpha")] == ["a#a:0"]
    assert (await shop.library.status("acme", "runbooks")).state is IndexState.STALE

    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    held.go_on.set()
    while shop.index_file.parent.joinpath("draft.sqlite").exists():
        await asyncio.sleep(0.001)

    assert shop.search("alpha") == ["a#a:0"]


@pytest.mark.parametrize("call", ["copyfile", "replace", "fsync"])
def test_a_disk_that_fails_leaves_the_old_index(shop: Shop, monkeypatch: pytest.MonkeyPatch, call: str):
    shop.write(a="# A\nalpha")
    shop.build()
    shop.write(a="# A\nbravo")

    def fails(*_: object) -> None:
        raise OSError(28, "LEAKED-7f3a91")

    with monkeypatch.context() as patch:
        patch.setattr(building_module.shutil if call == "copyfile" else building_module.os, call, fails)
        with pytest.raises(KnowledgeNotBuilt) as caught:
            shop.build()

    assert (caught.value.code, caught.value.__cause__, caught.value.__context__) == ("index_not_built", None, None)
    assert shop.search("alpha") == ["a#a:0"]
    shop.build()
    assert shop.search("bravo") == ["a#a:0"]


def test_a_folder_of_indexes_that_cannot_be_made_is_said(tmp_path: Path):
    (tmp_path / "file").write_text("")
    (tmp_path / "documents").mkdir()
    base = KnowledgeBase(tenant="acme", id="runbooks", documents=tmp_path / "documents")
    library = Library(tmp_path / "file" / "indexes", [base], meaning=Meaning.NEVER)
    with pytest.raises(KnowledgeNotBuilt):
        library.build_now("acme", "runbooks")
    assert library.status_now("acme", "runbooks").state is IndexState.ABSENT


def test_a_disk_that_is_full_while_the_index_is_written_is_said_in_our_words(shop: Shop):
    shop.write(**{f"d{number}": f"# D{number}\n" + f"word{number} " * 900 for number in range(40)})
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (65_536, hard))
    try:
        with pytest.raises(KnowledgeNotBuilt) as caught:
            shop.build()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    assert (caught.value.__cause__, caught.value.__context__) == (None, None)
    assert shop.build().added == 40


def test_a_model_that_fails_builds_nothing_and_says_nothing_of_its_own(shop: Shop):
    class Failing:
        name = "failing/1"

        def passages(self, texts: Sequence[str]) -> Sequence[bytes]:
            raise ValueError("LEAKED-7f3a91")

        def query(self, text: str) -> AskedMeaning:
            raise ValueError("LEAKED-7f3a91")

    shop.write(a="# A\nalpha")
    base, place = shop.library.bases_of("acme")[0], place_of(shop.indexes, shop.library.bases_of("acme")[0])
    builder = building_module.Builder(bounds=Bounds(), embedding=Failing(), meter=None)
    with pytest.raises(KnowledgeNotBuilt) as caught:
        builder.build(base, place)

    assert (caught.value.__cause__, caught.value.__context__) == (None, None)

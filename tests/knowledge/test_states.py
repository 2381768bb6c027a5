"""An index says how it stands, follows its folder, and is whole for whoever reads it."""

import os
import shutil
from pathlib import Path

import apsw
import pytest

from placet.errors import (
    KnowledgeBusy,
    KnowledgeNotBuilt,
    KnowledgeUnavailable,
    KnowledgeUnreadable,
    MisuseError,
    NotFound,
)
from placet.knowledge import Bounds, DocumentState, IndexState, KnowledgeBase, Library, Meaning, Skipped, SkipReason
from placet.knowledge.places import Place, building
from tests.knowledge.conftest import Shop


def test_an_index_is_absent_then_ready_then_stale_then_ready(shop: Shop):
    shop.write(redis="# Redis\nmemory", disk="# Disk\nfull")
    assert shop.status.state is IndexState.ABSENT
    assert not shop.status.is_searchable

    report = shop.build()
    assert (report.added, report.changed, report.removed, report.kept, report.sections) == (2, 0, 0, 0, 2)
    status = shop.status
    assert (status.state, status.documents, status.sections, status.changed) == (IndexState.READY, 2, 2, 0)
    assert status.built_at is not None

    shop.write(disk="# Disk\nfull of logs")
    assert (shop.status.state, shop.status.changed) == (IndexState.STALE, 1)
    assert shop.status.is_searchable
    shop.build()
    assert shop.status.state is IndexState.READY


def test_only_what_differs_is_indexed_and_what_is_gone_goes(shop: Shop):
    shop.write(a="# A\nalpha", b="# B\nbeta", c="# C\ngamma")
    shop.build()
    shop.write(b="# B\nbravo", d="# D\ndelta")
    (shop.documents / "c.md").unlink()
    assert shop.status.changed == 3

    report = shop.build()

    assert (report.added, report.changed, report.removed, report.kept) == (1, 1, 1, 1)
    assert [shop.search(word) for word in ("alpha", "beta", "bravo", "gamma", "delta")] == [
        ["a#a:0"], [], ["b#b:0"], [], ["d#d:0"],
    ]  # fmt: skip


def test_an_edit_that_leaves_size_and_times_as_they_were_is_seen(shop: Shop):
    shop.write(a="# A\nalpha")
    shop.build()
    before = (shop.documents / "a.md").stat()
    shop.write(a="# A\nbravo")
    os.utime(shop.documents / "a.md", ns=(before.st_atime_ns, before.st_mtime_ns))

    assert shop.status.state is IndexState.STALE
    shop.build()
    assert shop.search("bravo") == ["a#a:0"]


def test_a_touched_or_copied_folder_is_not_indexed_again(shop: Shop):
    shop.write(a="# A\nalpha", b="# B\nbeta")
    shop.build()
    for path in shop.documents.iterdir():
        os.utime(path, ns=(1, 1))

    assert shop.status.state is IndexState.READY
    report = shop.build()
    assert (report.added, report.changed, report.kept) == (0, 0, 2)


def test_a_build_without_differences_writes_nothing(shop: Shop):
    shop.write(a="# A\nalpha")
    os.utime(shop.documents / "a.md", ns=(1, 1))
    shop.build()
    before = shop.index_file.stat()
    shop.build()
    assert shop.index_file.stat() == before


def test_an_empty_folder_is_a_whole_index_that_finds_nothing(shop: Shop):
    shop.build()
    assert (shop.status.state, shop.status.documents) == (IndexState.READY, 0)
    assert shop.search("redis") == []


def test_a_folder_that_is_not_there_builds_nothing_and_takes_nothing_away(shop: Shop):
    shop.write(a="# A\nalpha")
    shop.build()
    shop.documents.rename(shop.documents.with_name("elsewhere"))

    with pytest.raises(KnowledgeNotBuilt) as caught:
        shop.build()
    assert caught.value.__cause__ is caught.value.__context__ is None
    assert (shop.status.state, shop.status.changed) == (IndexState.STALE, 1)
    assert shop.search("alpha") == ["a#a:0"]


def test_search_without_an_index_says_so(shop: Shop):
    with pytest.raises(KnowledgeUnavailable) as caught:
        shop.search("redis")
    assert (caught.value.code, caught.value.retryable, caught.value.may_have_acted) == ("index_not_ready", True, False)
    assert caught.value.__context__ is None


@pytest.mark.parametrize("damage", [b"", b"no database", b"SQLite format 3\0" + b"\xff" * 5_000])
def test_a_damaged_index_is_unreadable_until_it_is_built_again(shop: Shop, damage: bytes):
    shop.write(a="# A\nalpha")
    shop.build()
    shop.index_file.write_bytes(damage)

    assert shop.status.state is IndexState.UNREADABLE
    for ask in (lambda: shop.search("alpha"), lambda: shop.library.document_now("acme", "runbooks/a.md")):
        with pytest.raises(KnowledgeUnreadable) as caught:
            ask()
        assert caught.value.code == "index_unreadable"
        assert caught.value.__cause__ is caught.value.__context__ is None
    shop.build()
    assert shop.search("alpha") == ["a#a:0"]


def test_pages_that_were_overwritten_are_found_when_the_index_is_opened(shop: Shop):
    shop.write(**{f"d{number}": f"# D{number}\n" + f"word{number} " * 400 for number in range(40)})
    shop.build()
    content = bytearray(shop.index_file.read_bytes())
    middle = len(content) // 2 // 4096 * 4096
    content[middle : middle + 8_192] = b"\x05" * 8_192
    shop.index_file.write_bytes(content)

    assert shop.status.state is IndexState.UNREADABLE


def test_another_knowledge_bases_index_in_ones_place_is_not_read(shop: Shop, tmp_path: Path):
    other = KnowledgeBase(tenant="bravo", id="runbooks", documents=tmp_path / "others")
    other.documents.mkdir()
    (other.documents / "secret.md").write_text("# Secret\nalpha")
    theirs = Library(tmp_path / "theirs", [other], meaning=Meaning.NEVER)
    theirs.build_now("bravo", "runbooks")
    shop.write(a="# A\nalpha")
    shop.build()
    (foreign,) = (tmp_path / "theirs").glob("*/index.sqlite")
    shutil.copyfile(foreign, shop.index_file)

    assert shop.status.state is IndexState.UNREADABLE
    with pytest.raises(KnowledgeUnreadable):
        shop.search("alpha")


def test_while_the_first_index_is_built_it_is_building_and_others_are_busy(shop: Shop):
    shop.build()
    place = Place(shop.index_file.parent)
    place.index.unlink()
    with building(place):
        assert shop.status.state is IndexState.BUILDING
        assert not shop.status.is_searchable
        with pytest.raises(KnowledgeBusy) as caught:
            shop.build()
        assert (caught.value.code, caught.value.retryable) == ("index_busy", True)
    assert shop.status.state is IndexState.ABSENT


def test_the_old_index_is_ready_while_another_is_built(shop: Shop):
    shop.write(a="# A\nalpha")
    shop.build()
    with building(Place(shop.index_file.parent)):
        assert shop.status.state is IndexState.READY
        assert shop.search("alpha") == ["a#a:0"]


def test_what_somebody_reads_stays_whole_while_a_new_one_takes_its_place(shop: Shop):
    from placet.knowledge.index_file import reading

    shop.write(a="# A\nalpha")
    shop.build()
    with reading(shop.index_file) as old:
        shop.write(a="# A\nbravo", b="# B\nbeta")
        shop.build()
        assert old.counts == (1, 1, 0)
        assert old.rows("section", 1)[0][-1] == "A\n\nalpha"
    assert shop.status.documents == 2


def test_other_bounds_make_an_index_stale_as_a_whole(shop: Shop, new_shop):
    shop.write(a="# A\nalpha", b="# B\n" + "beta " * 100)
    shop.build()
    narrow = new_shop(bounds=Bounds(max_file_bytes=100))

    assert narrow.status.state is IndexState.STALE
    narrow.build()
    assert narrow.status.skipped == (Skipped(path="b.md", reason=SkipReason.TOO_LARGE),)
    assert narrow.status.state is IndexState.READY


def test_a_document_says_how_it_stands(shop: Shop):
    shop.write(a="# A\nalpha\n## More\ntext", b="# B\nbeta", c="# C", bad=b"\xff")
    assert shop.library.document_now("acme", "runbooks/a.md").state is DocumentState.NEW
    shop.build()
    shop.write(b="# B\nbravo", d="# D")
    (shop.documents / "c.md").unlink()

    def stands(path: str) -> tuple[DocumentState, int, SkipReason | None]:
        status = shop.library.document_now("acme", f"runbooks/{path}")
        return status.state, status.sections, status.reason

    assert stands("a.md") == (DocumentState.INDEXED, 2, None)
    assert stands("b.md") == (DocumentState.CHANGED, 1, None)
    assert stands("c.md") == (DocumentState.MISSING, 1, None)
    assert stands("d.md") == (DocumentState.NEW, 0, None)
    assert stands("bad.md") == (DocumentState.SKIPPED, 0, SkipReason.NOT_UTF8)
    for unknown in ("runbooks/none.md", "runbooks/../a.md", "runbooks", "other/a.md", "/etc/passwd", "runbooks/"):
        with pytest.raises(NotFound):
            shop.library.document_now("acme", unknown)


@pytest.mark.req("B023")
def test_what_is_asked_is_bounded(shop: Shop):
    shop.build()
    assert shop.search("x" * 2_000) == []
    assert shop.search("redis 内存 " * 222) == []
    for query in ("", "x" * 2_001, 7, None):
        with pytest.raises(MisuseError):
            shop.search(query)
    for limit in (0, 11, True, 2.0):
        with pytest.raises(MisuseError):
            shop.search("redis", limit=limit)
    with pytest.raises(NotFound):
        shop.library.document_now("acme", "x" * 128)
    for document_id in ("", "x" * 129, None):
        with pytest.raises(MisuseError):
            shop.library.document_now("acme", document_id)


def test_another_tenants_knowledge_base_is_no_other_than_none(shop: Shop):
    shop.write(a="# A\nalpha")
    shop.build()
    said = []
    for tenant, base in (("bravo", "runbooks"), ("acme", "nothing"), ("", ""), (None, "runbooks")):
        for ask in (shop.library.status_now, shop.library.build_now, lambda t, b: shop.library.search_now(t, b, "x")):
            with pytest.raises(NotFound) as caught:
                ask(tenant, base)
            said.append(str(caught.value))
    assert len(set(said)) == 1


def test_two_tenants_with_one_id_have_two_indexes(tmp_path: Path):
    bases = []
    for tenant in ("acme", "bravo"):
        folder = tmp_path / tenant
        folder.mkdir()
        (folder / f"{tenant}.md").write_text(f"# {tenant}\nalpha")
        bases.append(KnowledgeBase(tenant=tenant, id="runbooks", documents=folder))
    library = Library(tmp_path / "indexes", bases, meaning=Meaning.NEVER)
    for tenant in ("acme", "bravo"):
        library.build_now(tenant, "runbooks")

    assert [item.source for item in library.search_now("acme", "runbooks", "alpha")] == ["acme.md"]
    assert [item.source for item in library.search_now("bravo", "runbooks", "alpha")] == ["bravo.md"]
    with pytest.raises(MisuseError):
        Library(tmp_path / "indexes", [bases[0], bases[0]])


@pytest.mark.parametrize("base_id", ["", "../x", "a/b", "x" * 65, ".hidden", "a b", "ä", 7])
def test_the_id_of_a_knowledge_base_is_plain(tmp_path: Path, base_id):
    with pytest.raises(MisuseError):
        KnowledgeBase(tenant="acme", id=base_id, documents=tmp_path)


async def test_the_async_methods_answer_the_same(shop: Shop):
    shop.write(a="# A\nalpha")
    assert (await shop.library.build("acme", "runbooks")).added == 1
    assert (await shop.library.status("acme", "runbooks")).state is IndexState.READY
    assert [item.citation for item in await shop.library.search("acme", "runbooks", "alpha")] == ["a#a:0"]
    assert (await shop.library.document("acme", "runbooks/a.md")).state is DocumentState.INDEXED


def test_a_file_that_was_just_written_is_not_taken_for_the_same_by_its_times(shop: Shop):
    from placet.knowledge.index_file import reading

    shop.write(old="# Old", new="# New")
    os.utime(shop.documents / "old.md", ns=(1, 1))
    shop.build()
    with reading(shop.index_file) as index:
        stamps = {path: index.rows("document", path)[0][1] for path in ("old.md", "new.md")}
    assert stamps["new.md"] == ""
    assert stamps["old.md"].startswith("5:1:")


@pytest.mark.parametrize("where", [0.2, 0.4, 0.6, 0.8, 0.95])
def test_one_altered_byte_anywhere_is_found_and_healed_by_the_next_build(shop: Shop, where: float):
    """SQLite's own check sees neither a text that was altered nor words of FTS5 that cannot be read."""
    shop.write(**{f"d{number}": f"# D{number}\n" + f"word{number} " * 400 for number in range(40)})
    shop.build()
    sound = shop.index_file.read_bytes()
    content = bytearray(sound)
    content[int(len(content) * where)] ^= 1
    shop.index_file.write_bytes(content)

    assert shop.status.state is IndexState.UNREADABLE
    assert shop.build().added == 40
    assert shop.status.state is IndexState.READY
    assert len(shop.search("word7")) == 1


def test_damage_that_left_no_trace_on_the_file_is_known_from_the_search_that_met_it(shop: Shop):
    shop.write(**{f"d{number}": f"# D{number}\n" + f"word{number} " * 400 for number in range(40)})
    shop.build()
    assert shop.status.state is IndexState.READY
    seen, content = shop.index_file.stat(), bytearray(shop.index_file.read_bytes())
    connection = apsw.Connection(str(shop.index_file), flags=apsw.SQLITE_OPEN_READONLY)
    ((root,),) = connection.execute("select rootpage from sqlite_schema where name = 'section_words_data'").fetchall()
    connection.close()
    content[(root - 1) * 4_096 : root * 4_096] = b"\x05" * 4_096
    shop.index_file.write_bytes(content)
    os.utime(shop.index_file, ns=(seen.st_atime_ns, seen.st_mtime_ns))
    assert shop.status.state is IndexState.READY  # nothing shows

    with pytest.raises(KnowledgeUnreadable):
        shop.search("word7")
    assert shop.status.state is IndexState.UNREADABLE
    shop.build()
    assert len(shop.search("word7")) == 1


def test_an_index_that_is_gone_on_with_ends_with_one_digest(shop: Shop):
    for text in ("alpha", "bravo", "charlie"):
        shop.write(a=f"# A\n{text}")
        shop.build()
        assert shop.index_file.stat().st_size % 4_096 == 32

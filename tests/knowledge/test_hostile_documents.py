"""What somebody puts into the folder is left out by name, and nothing outside of it is opened."""

import os
from pathlib import Path

import pytest

from placet.knowledge import Bounds, IndexState, SkipReason
from placet.knowledge.folder import Found, read, scanned
from tests.knowledge.conftest import Shop


def left_out(shop: Shop) -> dict[str, str]:
    return {skipped.path: skipped.reason.value for skipped in shop.build().skipped}


def test_bytes_that_are_no_text_are_left_out_by_name(shop: Shop):
    shop.write(
        good="# Good\nalpha",
        latin="# Caf\xe9".encode("latin-1"),
        nul="# A\0B",
        wide="x" * 20_001,
        utf16="# A".encode("utf-16"),
        marked=b"\xef\xbb\xbf# Marked\nbravo",
    )
    assert left_out(shop) == {
        "latin.md": "not_utf8",
        "nul.md": "nul_inside",
        "utf16.md": "not_utf8",
        "wide.md": "line_too_long",
    }
    assert shop.search("alpha") == ["good#good:0"]
    assert shop.search("bravo") == ["marked#marked:0"]
    assert shop.status.state is IndexState.READY


def test_links_out_of_the_folder_are_not_followed(shop: Shop, tmp_path: Path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.md").write_text("# Secret\nbravo")
    (shop.documents / "direct.md").symlink_to(outside / "secret.md")
    (shop.documents / "folder").symlink_to(outside)
    (shop.documents / "hop.md").symlink_to(shop.documents / "direct.md")
    (shop.documents / "dangling.md").symlink_to(shop.documents / "nowhere.md")
    (shop.documents / "round.md").symlink_to("round.md")
    (tmp_path / "documents-2").mkdir()
    (tmp_path / "documents-2" / "near.md").write_text("# Near\nbravo")
    (shop.documents / "prefix.md").symlink_to(tmp_path / "documents-2" / "near.md")

    said = left_out(shop)

    assert said.pop("round.md") in ("link_out", "not_readable", "not_a_file")
    assert said == {
        "dangling.md": "not_readable",
        "direct.md": "link_out",
        "hop.md": "link_out",
        "prefix.md": "link_out",
    }
    assert shop.search("bravo") == []


def test_links_inside_the_folder_are_followed_as_mounted_configuration_needs_it(shop: Shop):
    (shop.documents / "..2026").mkdir()
    (shop.documents / "..2026" / "a.md").write_text("# A\nalpha")
    (shop.documents / "..data").symlink_to("..2026")
    (shop.documents / "a.md").symlink_to("..data/a.md")
    assert left_out(shop) == {}
    assert shop.search("alpha") == ["a#a:0"]


def test_a_folder_that_became_a_link_between_look_and_reading_leads_nowhere(shop: Shop, tmp_path: Path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "a.md").write_text("# Secret\nbravo")
    shop.write(inner__a="# A\nalpha")
    (found,) = scanned(shop.documents, Bounds(), max_path_characters=100).files
    (shop.documents / "inner").rename(tmp_path / "moved")
    (shop.documents / "inner").symlink_to(outside)

    assert read(shop.documents, found, Bounds()) is SkipReason.NOT_READABLE
    for place in ("../outside/a.md", "inner/../../outside/a.md"):
        forged = Found(path="a.md", place=place, size=1, stamp="", mtime_ns=0)
        assert read(shop.documents, forged, Bounds()) is SkipReason.NOT_READABLE


def test_pipes_sockets_and_folders_with_a_documents_name_are_no_documents(shop: Shop):
    os.mkfifo(shop.documents / "pipe.md")
    (shop.documents / "folder.md").mkdir()
    (shop.documents / "folder.md" / "in.md").write_text("# In\nalpha")
    assert left_out(shop) == {"pipe.md": "not_a_file"}
    assert shop.search("alpha") == ["folder.md/in#in:0"]


def test_names_that_could_not_be_asked_for_are_left_out(shop: Shop):
    for name in (b"bad\xff.md", b"new\nline.md", "hidden\u202etext.md".encode(), b"x" * 125 + b".md"):
        (Path(os.fsdecode(bytes(shop.documents) + b"/" + name))).write_bytes(b"# A\nalpha")
    assert set(left_out(shop).values()) == {"name_unfit"}
    assert len(shop.status.skipped) == 4
    assert shop.search("alpha") == []


def test_hidden_names_and_other_files_are_passed_over(shop: Shop):
    (shop.documents / ".git").mkdir()
    (shop.documents / ".git" / "a.md").write_text("# A\nalpha")
    (shop.documents / ".b.md").write_text("# B\nalpha")
    (shop.documents / "c.txt").write_text("# C\nalpha")
    assert left_out(shop) == {}
    assert shop.search("alpha") == []


@pytest.mark.parametrize(
    ("bounds", "reasons"),
    [
        (Bounds(max_files=2), {"c.md": "too_many_files", "deep/er/d.md": "too_many_files"}),
        (Bounds(max_total_bytes=20), {"c.md": "too_much_text"}),
        (Bounds(max_file_bytes=7), {"b.md": "too_large"}),
        (Bounds(max_depth=1), {"deep/er": "too_deep"}),
        (Bounds(max_sections=1), {"b.md": "too_many_sections"}),
        (Bounds(max_line_characters=6), {"c.md": "line_too_long"}),
        (Bounds(max_entries=2), {".": "too_many_files"}),
    ],
    ids=["files", "total", "file", "depth", "sections", "line", "entries"],
)
def test_what_is_over_a_bound_is_left_out_by_name(new_shop, bounds: Bounds, reasons: dict[str, str]):
    shop = new_shop(bounds=bounds)
    shop.write(a="# A\nx", b="# B\n## B2\n", c="1234567", deep__er__d="# D\ny")
    assert left_out(shop) == reasons
    assert shop.status.state is IndexState.READY


def test_a_document_that_can_be_read_again_comes_in_and_one_that_cannot_goes_out(shop: Shop):
    shop.write(a=b"\xff", b="# B\nbeta")
    shop.build()
    shop.write(a="# A\nalpha", b=b"\xff")
    assert shop.status.state is IndexState.STALE

    report = shop.build()

    assert (report.added, report.removed) == (1, 1)
    assert (shop.search("alpha"), shop.search("beta")) == (["a#a:0"], [])
    assert shop.status.state is IndexState.READY


def test_so_many_skipped_files_are_named_and_no_more(new_shop):
    shop = new_shop(bounds=Bounds(max_file_bytes=1))
    for number in range(1_010):
        (shop.documents / f"{number:04}.md").write_bytes(b"xx")
    assert len(shop.build().skipped) == 1_000
    assert shop.status.state is IndexState.READY

"""A document is cut at its headings, whatever it holds, in one pass."""

from hypothesis import given
from hypothesis import strategies as st

from placet.knowledge.sections import MAX_SECTION_CHARACTERS, document_of


def cut(text: str) -> list[tuple[str, int, str]]:
    return [(section.slug, section.number, section.content) for section in document_of("file", text).sections]


def test_a_section_is_named_by_its_heading_and_its_place():
    assert cut("# Redis\n\nAn introduction.\n\n## First five minutes\n\nLook.\n\n### Who writes?\n\nAsk.\n") == [
        ("redis", 0, "Redis\n\nAn introduction."),
        ("first-five-minutes", 1, "First five minutes\n\nLook."),
        ("who-writes", 2, "Who writes?\n\nAsk."),
    ]


def test_the_title_is_the_first_heading_else_the_name_of_the_file():
    assert document_of("redis-memory", "## `maxmemory` and [evictions](a.md)\n").title == "maxmemory and evictions"
    assert document_of("redis-memory", "Only a text.").title == "redis-memory"
    assert cut("Only a text.") == [("file", 0, "Only a text.")]


def test_a_text_before_the_first_heading_is_a_section_of_the_title():
    assert cut("Before.\n# Redis\nAfter.") == [("redis", 0, "Before."), ("redis", 1, "Redis\n\nAfter.")]


def test_what_looks_like_a_heading_in_a_fenced_block_is_text():
    text = "# A\n```sh\n# not a heading\n~~~\n```\n## B\n~~~~\n## nor this\n```\n~~~~\n## C\n"
    assert [slug for slug, _, _ in cut(text)] == ["a", "b", "c"]


def test_a_fence_that_is_never_closed_takes_the_rest():
    assert [slug for slug, _, _ in cut("# A\n```\n## B\n## C\n")] == ["a"]


def test_underlined_headings_count_and_tables_rules_and_lists_do_not():
    text = "Title\n=====\n\nText\n\nPart\n----\n\n| a |\n---\n\n- item\n---\n\ntwo\nlines\n---\n"
    assert [slug for slug, _, _ in cut(text)] == ["title", "part"]


def test_front_matter_is_no_part_of_a_document():
    assert cut("---\ntitle: x\nlayout: y\n---\n# A\nText") == [("a", 0, "A\n\nText")]


def test_chinese_headings_name_their_sections():
    assert cut("# 短信验证码收不到\n## 处理 办法\n切换") == [
        ("短信验证码收不到", 0, "短信验证码收不到"),
        ("处理-办法", 1, "处理 办法\n\n切换"),
    ]


def test_a_long_section_is_cut_between_paragraphs_and_nothing_of_it_is_lost():
    paragraphs = [f"{number} " + "word " * 150 for number in range(9)]
    sections = document_of("file", "# A\n" + "\n\n".join(paragraphs)).sections

    assert [section.number for section in sections] == list(range(len(sections)))
    assert {section.slug for section in sections} == {"a"}
    assert all(len(section.body) <= MAX_SECTION_CHARACTERS for section in sections)
    assert "\n\n".join(section.body for section in sections).split() == "\n\n".join(paragraphs).split()


@given(st.text(alphabet="#`~=-|>\n\r\t ab中\\", max_size=400))
def test_any_text_is_cut_into_bounded_sections_that_hold_its_letters(text: str):
    sections = document_of("file", text).sections

    assert all(0 < len(section.slug) <= 64 for section in sections)
    assert all(len(section.body) <= MAX_SECTION_CHARACTERS for section in sections)
    if not text.startswith("---"):  # front matter is left out
        assert "".join(section.content for section in sections).count("a") == text.count("a")


def test_a_million_nested_quotes_lists_and_headings_take_one_pass():
    text = ">" * 300_000 + "\n" + "#" * 300_000 + "\n" + "# x\n" * 1_000 + "[" * 300_000
    assert len(document_of("file", text).sections) > 1_000

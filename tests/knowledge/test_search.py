"""What is found fits the question, is cited, and is bounded."""

import pytest

from placet.knowledge.index_file import reading
from placet.knowledge.searching import Search, fused
from tests.knowledge.conftest import Shop


@pytest.mark.req("C057")
def test_what_is_found_names_its_section_its_file_and_its_document(shop: Shop):
    shop.write(cache__redis="# Redis\n\nA store.\n\n## First five minutes\n\nLook at evicted keys.\n")
    shop.build()
    (item,) = shop.library.search_now("acme", "runbooks", "evicted keys")

    assert (item.citation, item.source, item.document_id) == (
        "cache/redis#first-five-minutes:1",
        "cache/redis.md",
        "runbooks/cache/redis.md",
    )
    assert (item.title, item.content) == ("Redis", "First five minutes\n\nLook at evicted keys.")
    assert (item.coverage, item.similarity) == (1.0, None)
    assert shop.library.document_now("acme", item.document_id).sections == 2


def test_each_document_is_found_once_by_its_best_section(shop: Shop):
    shop.write(
        a="# A\npool\n## Waiting\npool waiting clients\n## Other\npool",
        b="# B\npool and more and more",
        c="# C\nnothing of it",
    )
    shop.build()
    assert shop.search("waiting clients of the pool") == ["a#waiting:1", "b#b:0"]
    assert shop.search("waiting clients of the pool", limit=1) == ["a#waiting:1"]


def test_a_document_whose_sections_share_the_words_is_found_though_each_says_little(shop: Shop):
    filler = " ".join(f"filler{number}" for number in range(80))
    words = ("replica", "lag", "primary", "vacuum")
    shop.write(whole="# Alarm\n" + "".join(f"## Part {word}s\n{filler}\n{word} {filler}\n" for word in words))
    shop.write(**{f"noise{word}": f"# N\n{word}" for word in words})
    shop.build()
    assert any(citation.startswith("whole#") for citation in shop.search("replica lag primary vacuum"))


def test_words_are_found_in_other_forms_and_in_parts_of_identifiers(shop: Shop):
    shop.write(a="# KubePodCrashLooping\nRestarting containers", b="# Other\ntext")
    shop.build()
    assert shop.search("a container that restarts") == ["a#kubepodcrashlooping:0"]
    assert shop.search("pod crash") == ["a#kubepodcrashlooping:0"]


def test_chinese_is_found_without_blanks(shop: Shop):
    shop.write(a="# 主从切换\n确认从库的复制延迟为零", b="# 短信\n验证码收不到")
    shop.build()
    assert shop.search("复制延迟怎么看?") == ["a#主从切换:0"]
    assert shop.search("收不到验证码") == ["b#短信:0"]


def test_coverage_is_the_share_of_the_question_and_rare_words_weigh_more(shop: Shop):
    shop.write(**{f"d{number}": f"# D{number}\ncommon" for number in range(20)}, rare="# Rare\nscarce")
    shop.build()
    best, second, _ = shop.library.search_now("acme", "runbooks", "scarce common")
    assert best.source == "rare.md"
    assert best.coverage > 0.9
    assert best.coverage + second.coverage == pytest.approx(1.0, abs=0.001)
    (item,) = shop.library.search_now("acme", "runbooks", "scarce unheard")
    assert item.coverage < 0.5


def test_a_question_of_very_many_words_is_asked_by_those_that_say_most(shop: Shop):
    shop.write(**{f"d{number}": "# D\n" + " ".join(f"w{word}" for word in range(200)) for number in range(3)})
    shop.write(rare="# Rare\nscarce")
    shop.build()
    query = " ".join(f"w{word}" for word in range(200)) + " scarce"
    assert shop.search(query)[0] == "rare#rare:0"


def test_rankings_are_put_together_by_ranks_alone_and_ties_by_number():
    assert fused([[7, 5], [5, 9]]) == [5, 7, 9]
    assert fused([[2], [1]]) == [1, 2]
    assert fused([[1, 2, 3], [3, 2, 1]]) == [1, 3, 2]
    assert fused([]) == []


def test_the_same_question_has_the_same_answer(shop: Shop):
    shop.write(**{f"d{number}": "# D\nsame words here" for number in range(30)})
    shop.build()
    assert shop.search("same words", limit=10) == [
        f"d{number}#d:0" for number in (0, 1, 10, 11, 12, 13, 14, 15, 16, 17)
    ]


def test_of_a_question_without_blanks_so_many_words_are_looked_up_and_no_more(shop: Shop):
    shop.write(a="# A\n" + "".join(chr(0x4E00 + at) for at in range(3_000)))
    shop.build()
    begun = chr(0x4E00) + "".join(chr(0x4E00 + at) for at in range(1, 1_999))
    with reading(shop.index_file) as index:
        seen: list[str] = []
        index._connection.exec_trace = lambda _, sql, __: seen.append(sql) is None
        Search(index=index, base=shop.library.bases_of("acme")[0], embedding=None, vectors=None).found(begun, limit=3)
    assert sum("count(*) from section_words" in sql for sql in seen) == 256

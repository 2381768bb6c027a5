"""Documents and questions are cut into the same words, and no word is ever syntax."""

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.knowledge.words import any_of, asked_words, indexed_text, words_of


def test_an_identifier_is_its_parts_and_itself():
    assert list(words_of("KubeAPIErrorBudget idle_in_transaction")) == [
        *("kube", "api", "error", "budget", "kubeapierrorbudget"),
        *("idle", "in", "transaction"),
    ]


def test_chinese_is_cut_into_pairs_of_neighbours():
    assert list(words_of("主库 Redis内存,写")) == ["主库", "redis", "内存", "写"]
    assert list(words_of("线程池")) == ["线程", "程池"]


def test_words_that_say_nothing_are_not_asked_for_unless_there_are_no_others():
    assert asked_words("What does the pooler do with the pooler?") == ["pooler"]
    assert asked_words("怎么切换") == ["么切", "切换"]
    assert asked_words("What is it?") == ["what", "is", "it"]


def test_wide_letters_and_ligatures_are_the_plain_ones():
    assert list(words_of("ＲＥＤＩＳ ﬁle")) == ["redis", "file"]


@pytest.fixture(scope="module")
def index() -> apsw.Connection:
    connection = apsw.Connection(":memory:")
    connection.execute("create virtual table t using fts5 (body, tokenize='porter unicode61 remove_diacritics 2')")
    connection.execute("insert into t values ('redis'), ('memory')")
    return connection


@pytest.mark.parametrize(
    "query",
    ['"', "'; drop table t; --", "redis NOT memory", "body:redis", "redis*", "NEAR(redis memory)", "^redis", "a AND",
     "{body} : redis", "\0redis", '"redis" OR 1', "(" * 900, "²³½ Ⅷ 𝟙", "́̂̃", "\ud800"],
)  # fmt: skip
def test_no_question_is_syntax(index: apsw.Connection, query: str):
    words = asked_words(query)
    if words:
        found = {row for (row,) in index.execute("select rowid from t where t match ?", (any_of(words),))}
        assert found == {1: {1}, 0: set()}["redis" in words] | ({2} if "memory" in words else set())


@given(st.text(max_size=60))
def test_no_character_of_a_word_could_be_syntax(index: apsw.Connection, text: str):
    assert not set(indexed_text(text)) & set("\"'*:^(){}+-,;.")
    if words := asked_words(text):
        index.execute("select rowid from t where t match ?", (any_of(words),)).fetchall()

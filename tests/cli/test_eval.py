"""`placet eval retrieval` as an operator runs it."""

import json

import pytest

GOOD = {"id": "1", "lang": "en", "question": "evicted keys?", "gold": ["redis.md"]}


@pytest.fixture
def asked(bare):
    documents = bare.folder / "documents"
    documents.mkdir()
    (documents / "redis.md").write_text("# Redis\nevicted keys")
    (documents / "disk.md").write_text("# Disk\nfull")
    lines = [GOOD, {**GOOD, "id": "2", "question": "disk full?"}, {**GOOD, "id": "3", "lang": "zh"}]
    (bare.folder / "questions.jsonl").write_text("\n".join(map(json.dumps, lines)))
    return bare


def test_the_table_has_each_language_and_what_was_missed_is_said(asked) -> None:
    ran = asked.run("eval", "retrieval", "questions.jsonl", "--documents", "documents")
    assert ran.code == 0
    assert [line.split()[:2] for line in ran.out.splitlines()] == [
        ["language", "questions"],
        ["en", "2"],
        ["zh", "1"],
        ["all", "3"],
    ]
    assert ran.out.splitlines()[3].split()[2] == "0.667"
    assert "Not among the first three: 2" in ran.err
    assert not (asked.folder / "placet.db").exists()


def test_json_and_the_index_that_is_kept(asked) -> None:
    words = ("eval", "retrieval", "questions.jsonl", "--documents", "documents", "--index", "kept", "--json")
    first, again = (json.loads(asked.run(*words).out) for _ in range(2))
    assert first == again
    assert first["schema"] == "retrieval/1"
    assert (first["searched_by"], first["documents"], first["ranks"]) == ("words", 2, {"1": 1, "2": 0, "3": 1})
    assert [score["lang"] for score in first["scores"]] == ["en", "zh", "all"]
    assert len(list((asked.folder / "kept").glob("*/index.sqlite"))) == 1


@pytest.mark.parametrize(("flags", "code"), [(("--recall-at-least", "0.66"), 0), (("--mrr-at-least", "0.9"), 1)])
def test_a_number_below_its_mark_ends_with_1(asked, flags, code) -> None:
    assert asked.run("eval", "retrieval", "questions.jsonl", "--documents", "documents", *flags).code == code


def test_what_cannot_be_used_ends_with_2_and_says_where(asked) -> None:
    (asked.folder / "questions.jsonl").write_text("no question")
    ran = asked.run("eval", "retrieval", "questions.jsonl", "--documents", "documents")
    assert ran.code == 2
    assert "Line 1 is no question." in ran.err
    (asked.folder / "questions.jsonl").write_text(json.dumps(GOOD))
    ran = asked.run("eval", "retrieval", "questions.jsonl", "--documents", "nowhere", "--json")
    assert ran.code == 2
    assert (ran.data["code"], ran.data["message"]) == ("usage", "There is no folder of documents at nowhere.")
    (asked.folder / "empty").mkdir()
    ran = asked.run("eval", "retrieval", "questions.jsonl", "--documents", "empty", "--json")
    assert (ran.code, ran.data["code"]) == (2, "usage")
    assert ran.data["message"] == "The folder of documents at empty has no Markdown in it."

"""Retrieval is measured as it says, and our own questions find their runbooks."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from placet.errors import KnowledgeNotBuilt
from placet.knowledge import KnowledgeBase, Library, Meaning
from placet.knowledge import library as library_module
from placet.knowledge.english import EnglishModel
from placet.knowledge.meaning import AskedMeaning
from placet.model.knowledge import MeaningModel
from placet.proof.evaluate import Answered, Question, QuestionsRefused, evaluate, read_questions, scores_of
from placet.rules.evidence import is_enough

REPOSITORY = Path(__file__).resolve().parents[2]
OWN_QUESTIONS = REPOSITORY / "tests" / "knowledge" / "questions.jsonl"
UNANSWERABLE = REPOSITORY / "tests" / "knowledge" / "unanswerable.jsonl"
OWN_RUNBOOKS = REPOSITORY / "src" / "placet" / "demos" / "ops" / "runbooks"


def answered(lang: str, rank: int) -> Answered:
    return Answered(question=Question(id="q", lang=lang, question="?", gold=frozenset({"a.md"})), rank=rank)


def test_recall_and_mrr_are_those_of_the_first_document_that_answers():
    english, chinese, overall = scores_of(
        [answered("en", 1), answered("en", 2), answered("en", 3), answered("en", 0), answered("zh", 1)], seed=1
    )
    assert (english.lang, english.questions, chinese.lang, overall.lang) == ("en", 4, "zh", "all")
    assert english.recall.value == 0.75
    assert english.mrr.value == round((1 + 1 / 2 + 1 / 3) / 4, 4)
    assert overall.recall.value == 0.8
    assert (chinese.recall.low, chinese.recall.value, chinese.recall.high) == (1.0, 1.0, 1.0)


def test_the_interval_holds_the_value_and_comes_out_the_same_for_a_seed():
    ranks = [answered("en", rank) for rank in (1, 1, 1, 0, 2, 0, 1, 3, 1, 1)]
    first, again, other = (scores_of(ranks, seed=seed)[-1] for seed in (7, 7, 8))
    assert first == again
    assert first.mrr.low < first.mrr.value < first.mrr.high
    assert first.mrr.value == other.mrr.value
    # The binomial interval of 8 in 10 is about 0.5 to 1.0; resampling comes near it.
    assert (first.recall.low, first.recall.high) == (0.5, 1.0)


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory):
    return evaluate(
        read_questions(OWN_QUESTIONS),
        OWN_RUNBOOKS,
        indexes=tmp_path_factory.mktemp("own"),
        meaning=Meaning.NEVER,
        seed=1,
    )


@pytest.mark.req("C061")
def test_our_own_questions_find_our_own_runbooks(own):
    english, chinese, overall = own.scores
    assert (english.questions, chinese.questions, overall.questions) == (15, 5, 20)
    assert overall.recall.value == 1.0
    assert overall.mrr.value >= 0.942


@pytest.mark.req("C061")
@pytest.mark.exhaustive
@pytest.mark.timeout(900)
def test_by_meaning_too_our_own_questions_find_our_own_runbooks_and_the_unanswerable_ones_nothing_that_is_enough(
    tmp_path: Path,
):
    own = evaluate(
        read_questions(OWN_QUESTIONS), OWN_RUNBOOKS, indexes=tmp_path, meaning=Meaning.WHERE_INSTALLED, seed=1
    )
    assert own.has_meaning
    assert own.scores[-1].recall.value == 1.0
    assert own.scores[-1].mrr.value >= 0.942
    base = KnowledgeBase(tenant="acme", id="runbooks", documents=OWN_RUNBOOKS)
    indexes = Library(tmp_path / "asked", [base])
    indexes.build_now("acme", "runbooks")
    for line in UNANSWERABLE.read_text().splitlines():
        assert not is_enough(indexes.search_now("acme", "runbooks", json.loads(line)["question"]))


def test_the_default_finds_third_party_runbooks_as_often_as_it_should(shared_data: Path, tmp_path: Path):
    measured = evaluate(
        read_questions(shared_data / "questions_dev.jsonl"),
        shared_data / "runbooks",
        indexes=tmp_path,
        meaning=Meaning.NEVER,
        seed=1,
    )
    english, chinese, _ = measured.scores
    assert english.recall.value >= 0.80
    assert english.mrr.value >= 0.67
    assert chinese.recall.value >= 0.60


class EnglishAlone:
    """The model that English questions are asked of, by itself: the other's half of a vector is nothing to them."""

    name = "english alone"

    def __init__(self) -> None:
        self._model = EnglishModel()

    def passages(self, texts: Sequence[str]) -> list[bytes]:
        return [row.tobytes() for row in self._model.vectors(texts)]

    def query(self, text: str) -> AskedMeaning:
        (vector,) = self.passages([text])
        return AskedMeaning(vector, MeaningModel.ENGLISH)


@pytest.mark.exhaustive
@pytest.mark.timeout(900)
def test_words_and_meaning_find_english_third_party_runbooks_as_often_as_they_should(
    shared_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(library_module, "embedding_for", lambda _: EnglishAlone())
    questions = [each for each in read_questions(shared_data / "questions_dev.jsonl") if each.lang == "en"]
    measured = evaluate(questions, shared_data / "runbooks", indexes=tmp_path, meaning=Meaning.WHERE_INSTALLED, seed=1)
    english, _ = measured.scores
    assert english.questions == 15
    assert english.recall.value >= 0.90
    assert english.mrr.value >= 0.80


def written(tmp_path: Path, *lines: object) -> Path:
    path = tmp_path / "questions.jsonl"
    path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines))
    return path


GOOD = {"id": "1", "lang": "en", "question": "redis?", "gold": ["a.md"]}


@pytest.mark.parametrize(
    "line",
    [
        "no json",
        "[]",
        "[" * 100_000,
        '{"id": "1"}',
        {**GOOD, "gold": []},
        {**GOOD, "gold": "a.md"},
        {**GOOD, "gold": [7]},
        {**GOOD, "question": ""},
        {**GOOD, "question": "x" * 2_001},
        {**GOOD, "lang": "all"},
        {**GOOD, "id": 7},
    ],
    ids=lambda line: str(line)[:12],
)
def test_a_line_that_is_no_question_is_named(tmp_path: Path, line):
    with pytest.raises(QuestionsRefused, match=r"Line 3 is no question\.") as caught:
        read_questions(written(tmp_path, {**GOOD, "id": "0"}, "", line))
    assert caught.value.__cause__ is caught.value.__context__ is None


def test_no_questions_the_same_id_twice_and_no_file_are_refused(tmp_path: Path):
    for path in (written(tmp_path, ""), written(tmp_path, GOOD, GOOD), tmp_path / "none.jsonl"):
        with pytest.raises(QuestionsRefused):
            read_questions(path)


def test_a_question_whose_document_is_not_there_is_refused_instead_of_counted_as_missed(tmp_path: Path):
    documents = tmp_path / "documents"
    documents.mkdir()
    (documents / "b.md").write_text("# B")
    questions = read_questions(written(tmp_path, GOOD))
    with pytest.raises(QuestionsRefused, match=r"'a\.md'"):
        evaluate(questions, documents, indexes=tmp_path / "indexes", meaning=Meaning.NEVER, seed=1)
    with pytest.raises(KnowledgeNotBuilt):
        evaluate(questions, tmp_path / "none", indexes=tmp_path / "other", meaning=Meaning.NEVER, seed=1)


@pytest.mark.req("B198")
def test_questions_that_no_runbook_answers_have_never_enough_evidence(own, tmp_path: Path):
    from placet.knowledge import KnowledgeBase, Library

    base = KnowledgeBase(tenant="acme", id="runbooks", documents=OWN_RUNBOOKS)
    library = Library(tmp_path, [base], meaning=Meaning.NEVER)
    library.build_now("acme", "runbooks")

    def enough(path: Path) -> list[bool]:
        questions = [json.loads(line)["question"] for line in path.read_text().splitlines()]
        return [is_enough(library.search_now("acme", "runbooks", question)) for question in questions]

    assert not any(enough(UNANSWERABLE))
    assert sum(enough(OWN_QUESTIONS)) >= 12

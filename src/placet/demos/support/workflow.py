"""The support agent as an explicit state machine: six states, and no seventh.

    CHECK_INDEX -> SEARCH -> DONE                                          the documents say enough
                       |---> WAIT_DRAFT_CONFIRMATION -> CREATE_DRAFT -> DONE   they do not, and a draft was confirmed
    (any of them) -> FAILED

No model says where to go on: the server's rule on evidence and a person's answer do. The draft is one call in both
states that name it, so confirming it, a retry and a run that is driven again all meet the same entry of the ledger.

Source: REQUIREMENTS B188 to B193, B196; ADR-0053.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from placet import (
    AwaitingApproval,
    Conflict,
    End,
    Fail,
    Failed,
    Failure,
    Invalid,
    Move,
    Next,
    Refused,
    Replayed,
    State,
    StepContext,
    Succeeded,
    Wait,
    Workflow,
)
from placet.demos.support.contracts import (
    MOST_QUERY_CHARACTERS,
    BaseId,
    Contract,
    DraftReceipt,
    FoundText,
    SearchAnswer,
    StatusAnswer,
)
from placet.demos.support.tools import DRAFT, SEARCH, STATUS
from placet.knowledge import KnowledgeMeter

DRAFT_CALL = "draft"
_NOT_READY: Final = "index_not_ready"


class Question(Contract):
    """What somebody asks, and where the answer is looked for."""

    text: Annotated[str, Field(min_length=1, max_length=MOST_QUERY_CHARACTERS)]
    knowledge_base_id: BaseId


class Reply(Contract):
    """How it ended well.

    Attributes:
        kind: answered from the documents in `evidence`, or handed to people as the draft `draft_id`.
        draft_id: also None of a draft that was made, where the service's answer could not be shown.
    """

    kind: Literal["answered", "drafted"]
    question: str
    evidence: list[FoundText] = Field(default_factory=list)
    draft_id: str | None = None


async def check_index(asked: Question, context: StepContext) -> Move:
    outcome = await context.call(STATUS, {"document_id": asked.knowledge_base_id})
    match outcome:
        case Succeeded(result_unavailable=None, result=result) | Replayed(result_unavailable=None, result=result):
            status = StatusAnswer.model_validate(result)
            return Next("SEARCH", asked) if status.state == "ready" else Fail(_NOT_READY)
        case _:
            return Fail("index_status_unknown")


async def search(asked: Question, context: StepContext) -> Move:
    outcome = await context.call(SEARCH, {"query": asked.text, "knowledge_base_id": asked.knowledge_base_id})
    match outcome:
        case Succeeded(result_unavailable=None, result=result) | Replayed(result_unavailable=None, result=result):
            found = SearchAnswer.model_validate(result)
        case _:
            return Fail("not_searched")
    if found.is_enough:
        return Next("DONE", Reply(kind="answered", question=asked.text, evidence=found.evidence))
    return Next("WAIT_DRAFT_CONFIRMATION", asked)


async def wait_draft_confirmation(asked: Question, context: StepContext) -> Move:
    outcome = await context.propose(DRAFT, {"question": asked.text}, name=DRAFT_CALL)
    match outcome:
        case AwaitingApproval():
            return Wait(outcome, Next("CREATE_DRAFT", asked))
        case Succeeded() | Replayed():
            return Next("CREATE_DRAFT", asked)
        case _:
            return Fail(_why_not(outcome.code))


async def create_draft(asked: Question, context: StepContext) -> Move:
    outcome = await context.call(DRAFT, {"question": asked.text}, name=DRAFT_CALL)
    match outcome:
        case Succeeded() | Replayed():
            return Next("DONE", Reply(kind="drafted", question=asked.text, draft_id=_draft_id(outcome)))
        case Refused():
            return Fail(_why_not(outcome.code))
        case Failed() | Invalid() | Conflict():
            return Fail("draft_not_created")
        case _:
            return Fail("draft_unsettled")


def _draft_id(outcome: Succeeded | Replayed) -> str | None:
    """Which draft it is; the draft exists also where what the service said of it cannot be shown."""
    return None if outcome.result_unavailable is not None else DraftReceipt.model_validate(outcome.result).draft_id


def _why_not(code: str) -> str:
    return "draft_declined" if code == "approval_denied" else "draft_refused"


SUPPORT = Workflow(
    name="support",
    version="1",
    start="CHECK_INDEX",
    states=(
        State(
            name="CHECK_INDEX",
            inputs=Question,
            step=check_index,
            next=("SEARCH",),
            tools=(STATUS,),
            on_failure="FAILED",
            about="An index that is not ready is not searched.",
        ),
        State(
            name="SEARCH",
            inputs=Question,
            step=search,
            next=("DONE", "WAIT_DRAFT_CONFIRMATION"),
            tools=(SEARCH,),
            on_failure="FAILED",
            about="Whether what was found is enough is the server's rule.",
        ),
        State(
            name="WAIT_DRAFT_CONFIRMATION",
            inputs=Question,
            step=wait_draft_confirmation,
            next=("CREATE_DRAFT",),
            tools=(DRAFT,),
            on_failure="FAILED",
            about="The person it is for is asked; nothing was sent.",
        ),
        State(
            name="CREATE_DRAFT",
            inputs=Question,
            step=create_draft,
            next=("DONE",),
            tools=(DRAFT,),
            on_failure="FAILED",
            about="The same call again, now confirmed.",
        ),
        End(name="DONE", inputs=Reply, about="Answered with citations, or handed on as a draft."),
        End(name="FAILED", inputs=Failure, is_failure=True),
    ),
)


def counted(workflow: Workflow, meter: KnowledgeMeter) -> Workflow:
    """The same workflow; the meter hears of each question that came before its index was ready."""
    return replace(workflow, states=tuple(_counted(state, meter) for state in workflow.states))


def _counted(state: State[Any] | End[Any], meter: KnowledgeMeter) -> State[Any] | End[Any]:
    if not isinstance(state, State):
        return state
    step = state.step

    async def counting(asked: Any, context: StepContext) -> Move:
        move = await step(asked, context)
        if move == Fail(_NOT_READY):
            meter.refused(reason=_NOT_READY)
        return move

    return replace(state, step=counting)

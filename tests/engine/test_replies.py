"""What a proposer is told: whether anything may have happened, and what to do next. Never data."""

from __future__ import annotations

import re
from typing import Literal, get_args

import pytest

import placet
from placet.engine import replies
from placet.errors import InvalidArguments
from placet.model.outcome import Failed, Outcome
from scripts.generated_docs import _CALL, outcomes

NOTHING_HAPPENED = re.compile(r"[Nn]othing (ran|happened|was changed)|changed nothing|none of its calls ran")
MAY_HAVE = re.compile(r"^(Done|It was performed|It had been done)|running already|cannot be told whether")
NEXT_STEP = re.compile(
    r"([Aa]sk again|[Aa]sk anew|[Gg]o on with|[Tt]ell the user|[Dd]o not|[Uu]se |[Cc]orrect |[Ww]rite the call anew"
    r"|[Rr]eport what you have)"
)
SPECIMENS = outcomes()
MORE = [
    replies.replayed(_CALL, None, unavailable="result_erased"),
    replies.invalid(InvalidArguments("turn_truncated"), call_id="c1", contract=None),
    replies.invalid(InvalidArguments("contract_broken", problems=(("/x", "missing"),)), call_id="c1", contract=None),
]
ALL = [*SPECIMENS, *MORE]


@pytest.mark.parametrize("outcome", ALL, ids=lambda outcome: outcome.code)
def test_a_message_says_whether_it_may_have_acted(outcome: Outcome) -> None:
    said = MAY_HAVE if outcome.may_have_acted else NOTHING_HAPPENED

    assert said.search(outcome.message), outcome.message


@pytest.mark.parametrize("outcome", ALL, ids=lambda outcome: outcome.code)
def test_a_message_says_what_to_do_next(outcome: Outcome) -> None:
    assert NEXT_STEP.search(outcome.message), outcome.message
    assert outcome.message.endswith(".")


@pytest.mark.parametrize("outcome", ALL, ids=lambda outcome: outcome.code)
def test_a_message_asks_again_unchanged_only_where_that_may_help(outcome: Outcome) -> None:
    """`retryable` is what a program goes by; the sentence must not say otherwise."""
    if outcome.retryable:
        assert "again" in outcome.message.lower()
    elif "ask again" in outcome.message.lower():
        assert re.search(r"[Cc]orrect|[Ww]rite the call anew|send less|[Dd]o not ask again", outcome.message)


def test_every_outcome_and_every_code_has_a_specimen() -> None:
    """The list is made from the code of the replies; a reply without a specimen would not be looked at."""
    assert {type(outcome) for outcome in SPECIMENS} == set(get_args(Outcome))
    assert len({outcome.code for outcome in SPECIMENS}) == len(SPECIMENS)


def test_every_failure_has_words_of_its_own() -> None:
    messages = [outcome.message for outcome in SPECIMENS if type(outcome) is Failed]

    assert len(set(messages)) == len(messages) >= 6


def test_a_closed_choice_is_told_to_whoever_missed_it() -> None:
    @placet.tool(effect="read")
    async def look(colour: Literal["red", "blue"], word: str) -> str:
        return word

    problems = (("/colour", "literal_error"), ("/word", "string_type"))
    error = InvalidArguments("contract_broken", problems=problems)
    told = replies.invalid(error, call_id="c1", contract=look.contract)

    assert told.message.endswith(" colour is one of: red, blue.")

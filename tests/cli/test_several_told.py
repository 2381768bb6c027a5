"""What became of several, as the command line tells it."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from placet.cli.screen import Form, Screen
from placet.cli.several import Answered, answered, report_several, told_before
from placet.cli.table import Exit
from placet.engine.several import NOT_TRIED, ChosenAnswer
from placet.errors import DecisionRefused, StoreInDoubt, StoreUnavailable

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.case("O06")
def test_of_one_whose_commit_was_not_heard_nobody_hears_that_it_was_not_decided(
    capsys: pytest.CaptureFixture[str],
) -> None:
    lost = StoreInDoubt("The commit's answer was lost.")
    said = [
        ChosenAnswer(approval_id="apr-1", approval=None, code=lost.code, message=str(lost), hint=lost.hint),
        ChosenAnswer(approval_id="apr-2", approval=None, code=NOT_TRIED, message="Not this one.", hint="Ask again."),
    ]
    answers = [answered(each, now=NOW) for each in said]
    code = report_several(Screen(form=Form.TEXT), answers, lambda _: None)
    told = capsys.readouterr().err

    assert code is Exit.UNKNOWN
    assert "placet: perhaps decided: apr-1: The commit's answer was lost." in told
    assert "placet: not decided: apr-2: Not this one." in told


@pytest.mark.case("O06")
def test_where_it_all_ends_what_was_refused_before_is_told_as_well(capsys: pytest.CaptureFixture[str]) -> None:
    refusal = DecisionRefused("It is approved already.", code="already_decided")
    before = [Answered(approval_id="apr-1", seen=None, refusal=refusal)]
    with pytest.raises(StoreUnavailable), told_before(Screen(form=Form.TEXT), before):
        raise StoreUnavailable

    assert "placet: not decided: apr-1: It is approved already." in capsys.readouterr().err

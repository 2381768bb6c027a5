"""While the list of people, or the policy, does not answer, a decision is refused as one that may be tried again."""

from __future__ import annotations

import pytest

import placet
from placet.client.errors import error_of
from placet.errors import DecisionRefused
from tests.engine.people import ListedPeople
from tests.engine.test_cannot_tell import BrokenPolicy
from tests.http_api.conftest import MARA, MakeApi


@pytest.mark.parametrize("code", ["people_failed", "policy_failed"])
async def test_a_decision_while_nobody_can_tell_is_refused_as_one_to_try_again(make_api: MakeApi, code: str) -> None:
    people = ListedPeople(MARA)
    policy = BrokenPolicy() if code == "policy_failed" else None
    api = await make_api(store=placet.MEMORY, people=people, policy=policy)
    view = await api.asked()
    people.fault = OSError("s3cr3t") if code == "people_failed" else None
    answer = await api.decide(view)
    problem = answer.json()

    assert (answer.status_code, problem["code"], problem["retryable"]) == (409, code, True)
    assert "nobody can tell now" in problem["detail"] and problem["hint"].startswith("Try again.")
    assert "s3cr3t" not in answer.text
    told = error_of(answer.status_code, problem, only_looked=False)
    assert isinstance(told, DecisionRefused)
    assert (told.code, told.retryable, told.hint) == (code, True, problem["hint"])


async def test_one_that_is_refused_for_good_is_not_to_be_tried_again(make_api: MakeApi) -> None:
    api = await make_api(store=placet.MEMORY)
    view = await api.asked()
    answer = await api.decide(view, digest="0" * 64)

    assert answer.json()["retryable"] is False
    assert error_of(answer.status_code, answer.json(), only_looked=False).retryable is False

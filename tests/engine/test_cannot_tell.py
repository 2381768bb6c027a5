"""While the list of people, or the policy, does not answer: what a person is told, and what the log says of it."""

from __future__ import annotations

import asyncio
import dataclasses

import pytest

from placet import Matrix, Principal
from placet.errors import DecisionRefused
from placet.model.approval import Question
from placet.model.decision import Entitlement
from tests.engine.conftest import OpenWorld, Spy
from tests.engine.people import ListedPeople
from tests.engine.test_entitlement import LEAD, asked, decide


class BrokenPolicy(Matrix):
    """Asks as the table does, and fails whoever wants to know who may decide."""

    async def may_decide(self, question: Question, person: Principal) -> Entitlement:
        raise RuntimeError("s3cr3t")


@pytest.mark.parametrize(("what", "code"), [("the list", "people_failed"), ("the policy", "policy_failed")])
async def test_whoever_decides_while_nobody_can_tell_is_told_so_and_to_try_again(
    open_world: OpenWorld, spy: Spy, what: str, code: str
) -> None:
    people = ListedPeople(LEAD)
    world, waiting = await asked(
        open_world, spy, people=people, policy=BrokenPolicy() if what == "the policy" else None
    )
    people.fault = RuntimeError("s3cr3t") if what == "the list" else None
    with pytest.raises(DecisionRefused) as refused:
        await decide(world, waiting, by=LEAD)

    assert (refused.value.code, refused.value.retryable) == (code, True)
    assert "nobody can tell now" in str(refused.value) and refused.value.hint.startswith("Try again.")
    assert "s3cr3t" not in f"{refused.value} {refused.value.hint}"


async def test_whoever_may_not_decide_is_not_told_to_try_again(open_world: OpenWorld, spy: Spy) -> None:
    world, waiting = await asked(open_world, spy, people=ListedPeople(LEAD))
    with pytest.raises(DecisionRefused) as refused:
        await decide(world, waiting, by=dataclasses.replace(LEAD, scopes=frozenset()))

    assert (refused.value.code, refused.value.retryable) == ("scope_missing", False)
    assert str(refused.value) == "This person may not decide this approval."


@pytest.mark.parametrize("fault", [RuntimeError("s3cr3t"), asyncio.CancelledError()])
async def test_a_list_that_stops_answering_is_one_line_of_the_log_and_so_is_its_return(
    open_world: OpenWorld, spy: Spy, caplog: pytest.LogCaptureFixture, fault: BaseException
) -> None:
    people = ListedPeople(LEAD)
    world, waiting = await asked(open_world, spy, people=people)
    caplog.clear()
    told: list[list[tuple[str, str, str]]] = []
    for each in (fault, None, fault):
        people.fault = each
        for _ in range(3):
            await world.gate.desk.show(waiting.approval_id, by=LEAD)
        ours = [record for record in caplog.records if record.name == "placet.people"]
        told.append([(each.levelname, each.getMessage(), each.__dict__["code"]) for each in ours])
        assert "s3cr3t" not in str([record.__dict__ for record in ours])
        caplog.clear()

    away = ("ERROR", "the list of people does not answer: nobody who is on it decides", "people_failed")
    assert told == [[away], [("WARNING", "the list of people answers again", "people_failed")], [away]]


async def test_whoever_breaks_off_asking_says_nothing_about_the_list(
    open_world: OpenWorld, spy: Spy, caplog: pytest.LogCaptureFixture
) -> None:
    asking = asyncio.Event()

    class Slow(ListedPeople):
        async def person(self, tenant: str, subject: str) -> Principal | None:
            asking.set()
            await asyncio.Event().wait()
            return None

    world, waiting = await asked(open_world, spy, people=Slow())
    looking = asyncio.ensure_future(world.gate.desk.show(waiting.approval_id, by=LEAD))
    await asyncio.wait_for(asking.wait(), 30)
    looking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await looking

    assert [record.getMessage() for record in caplog.records if record.name == "placet.people"] == []

"""A process dies between the last look at the state and the dispatch: at most one effect, and no approval is lost."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from placet.engine.gate import Gate
from placet.model.approval import ApprovalState
from placet.model.outcome import AwaitingApproval, Outcome, Replayed, Succeeded
from placet.testing.kill_points import KillPoint, Moment
from tests.kill_points.actors import (
    AGENT,
    KILLED,
    PERSON,
    Place,
    approve,
    assert_audit_is_whole,
    ended,
    recovered,
    start,
)
from tests.kill_points.closers import PROPOSAL, close_and_die, keep_in, later, open_gate, set_version
from tests.postgres.fixtures import Database

BEFORE, AFTER = Moment.BEFORE, Moment.AFTER
pytestmark = pytest.mark.case("E12")


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(folder=tmp_path)
    set_version(place, 12)
    return place


@pytest.fixture
def served(place: Place, databases: Callable[..., Database]) -> Place:
    """The same place, with its store on a server."""
    keep_in(place, databases().url)
    return place


async def submitted(gate: Gate) -> Outcome:
    return await gate.submit(PROPOSAL, principal=AGENT, run="run-1")


async def asked(place: Place) -> str:
    async with open_gate(place) as gate:
        outcome = await submitted(gate)
    assert type(outcome) is AwaitingApproval
    return outcome.approval_id


def dies(place: Place, *, point: KillPoint | None = None, looking: bool = False, approves: str = "") -> None:
    assert ended(start(close_and_die, str(place.folder), point, looking, approves)) == KILLED


async def dead_before_the_claim(place: Place, *, looking: bool) -> None:
    approval_id = await asked(place)
    dies(
        place, point=None if looking else KillPoint(moment=BEFORE, verb="claim"), looking=looking, approves=approval_id
    )
    assert place.remote.effects() == {}

    async with open_gate(place) as gate:
        outcome = await submitted(gate)
        again = await submitted(gate)
        assert_audit_is_whole(gate)

    assert type(outcome) is Succeeded and outcome.result == {"version": 12}
    assert type(again) is Replayed
    assert sum(place.remote.effects().values()) == 1


async def dead_after_the_claim(place: Place) -> None:
    approval_id = await asked(place)
    dies(place, point=KillPoint(moment=AFTER, verb="claim"), approves=approval_id)
    set_version(place, 13)
    later(place)

    async with open_gate(place) as gate:
        await recovered(gate)
        anew = await submitted(gate)
        assert type(anew) is AwaitingApproval and anew.approval_id != approval_id
        await approve(gate, anew.approval_id)
        outcome = await submitted(gate)
        assert_audit_is_whole(gate)

    assert type(outcome) is Succeeded and outcome.result == {"version": 13}
    assert sum(place.remote.effects().values()) == 1


async def dead_around_asking_anew(place: Place, moment: Moment) -> None:
    approval_id = await asked(place)
    async with open_gate(place) as gate:
        await approve(gate, approval_id)
    set_version(place, 13)
    dies(place, point=KillPoint(moment=moment, verb="ask"))

    async with open_gate(place) as gate:
        waiting = [view.approval_id for view in await gate.desk.pending(by=PERSON)]
        first = (await gate.desk.show(approval_id, by=PERSON)).state
        outcome = await submitted(gate)
        last = (await gate.desk.show(approval_id, by=PERSON)).state
        assert_audit_is_whole(gate)

    if moment is BEFORE:
        assert (waiting, first) == ([], ApprovalState.APPROVED)
    else:
        assert (len(waiting), first) == (1, ApprovalState.REVOKED)
    assert type(outcome) is AwaitingApproval and outcome.approval_id != approval_id
    assert moment is BEFORE or waiting == [outcome.approval_id]
    assert last is ApprovalState.REVOKED
    assert place.remote.effects() == {}


LOOKING = pytest.mark.parametrize("looking", [True, False], ids=["in the look", "between look and claim"])


@LOOKING
async def test_dead_between_look_and_dispatch_nothing_happened_and_the_approval_is_still_good(
    place: Place, looking: bool
) -> None:
    await dead_before_the_claim(place, looking=looking)


@LOOKING
async def test_so_it_is_on_a_server(served: Place, looking: bool) -> None:
    await dead_before_the_claim(served, looking=looking)


async def test_dead_after_the_claim_the_approval_is_spent_and_a_person_is_asked_about_the_state_of_then(
    place: Place,
) -> None:
    await dead_after_the_claim(place)


async def test_and_on_a_server_a_person_is_asked_about_the_state_of_then(served: Place) -> None:
    await dead_after_the_claim(served)


@pytest.mark.parametrize("moment", [BEFORE, AFTER])
async def test_dead_around_asking_anew_the_first_approval_is_void_together_with_the_new_question_or_not_at_all(
    place: Place, moment: Moment
) -> None:
    await dead_around_asking_anew(place, moment)


@pytest.mark.parametrize("moment", [BEFORE, AFTER])
async def test_and_on_a_server_so_it_is_too(served: Place, moment: Moment) -> None:
    await dead_around_asking_anew(served, moment)

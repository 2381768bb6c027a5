"""A write whose process dies at each durable step: asked again, it acts at most once, and nothing is lost.

Real processes, a real SQLite file, a remote that counts. Each test kills one process at one point, then asks again in
another process, before and after the lease of the dead one is over.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import pytest

import placet
from placet.engine.gate import Gate
from placet.model.effect import EffectState
from placet.model.outcome import AwaitingApproval, Outcome, Replayed, Succeeded, Unknown
from placet.testing.kill_points import KillPoint, Moment
from tests.kill_points.actors import (
    AGENT,
    KILLED,
    LEASE_SECONDS,
    PERSON,
    Place,
    approve,
    ask_and_die,
    assert_audit_is_whole,
    ended,
    open_gate,
    proposal,
    recover_and_die,
    recovered,
    start,
)

BEFORE, AFTER = Moment.BEFORE, Moment.AFTER
pytestmark = [pytest.mark.req("H042", "H046", "C045"), pytest.mark.case("H01", "G09")]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(folder=tmp_path)


def dies(
    place: Place,
    point: KillPoint | None,
    *,
    inside: str = "",
    tool: str = "pay",
    approves: str = "",
    call_id: str = "call-1",
) -> None:
    """Run a process to its death."""
    assert ended(start(ask_and_die, str(place.folder), point, inside, tool, approves, call_id)) == KILLED


@dataclass(frozen=True, kw_only=True)
class Aftermath:
    """What the next process found."""

    at_once: Outcome
    later: Outcome
    state: EffectState
    acted: int


async def aftermath(place: Place, ask: dict[str, Any], *, at_once_seconds: float = 0.5) -> Aftermath:
    """Ask again at once and, when recovery has had its say, once more. So long the first one waits for an answer."""
    async with open_gate(place) as gate:
        at_once = await gate.submit(ask, principal=AGENT, run="run-1", timeout_seconds=at_once_seconds)
        place.later()
        await recovered(gate)
        later = await gate.submit(ask, principal=AGENT, run="run-1")
        [effect] = await gate.store.effects(tenant="acme", states=tuple(EffectState), limit=9)
        assert_audit_is_whole(gate)
    return Aftermath(at_once=at_once, later=later, state=effect.state, acted=sum(place.remote.effects().values()))


# ---------------------------------------------------------------- without approval


async def test_dead_before_its_claim_nothing_had_happened_and_the_next_asker_acts(place: Place) -> None:
    dies(place, KillPoint(moment=BEFORE, verb="claim"))

    after = await aftermath(place, proposal(), at_once_seconds=20.0)

    assert type(after.at_once) is Succeeded
    assert type(after.later) is Replayed
    assert (after.state, after.acted) == (EffectState.COMMITTED, 1)


@pytest.mark.req("X001", "H045")
@pytest.mark.parametrize("inside", ["", "before_remote"])
async def test_dead_between_claim_and_remote_the_effect_is_unknown_then_absent_and_may_act_then(
    place: Place, inside: str
) -> None:
    dies(place, None if inside else KillPoint(moment=AFTER, verb="claim"), inside=inside)
    assert place.remote.effects() == {}

    after = await aftermath(place, proposal())

    assert after.at_once.code == "in_progress"
    assert type(after.later) is Succeeded
    assert (after.state, after.acted) == (EffectState.COMMITTED, 1)


@pytest.mark.req("X001", "H045", "H027")
@pytest.mark.parametrize("inside", ["after_remote", ""])
async def test_dead_between_remote_and_settle_the_effect_is_found_and_never_repeated(place: Place, inside: str) -> None:
    dies(place, None if inside else KillPoint(moment=BEFORE, verb="settle"), inside=inside)
    assert sum(place.remote.effects().values()) == 1

    after = await aftermath(place, proposal())

    assert after.at_once.code == "in_progress"
    assert type(after.later) is Replayed
    assert after.later.result == {"amount": 5}
    assert (after.state, after.acted) == (EffectState.RECONCILED_COMMITTED, 1)


@pytest.mark.req("C043")
async def test_dead_between_settle_and_answer_the_recorded_result_is_replayed(place: Place) -> None:
    dies(place, KillPoint(moment=AFTER, verb="settle"))

    after = await aftermath(place, proposal(), at_once_seconds=20.0)

    assert type(after.at_once) is Replayed
    assert after.at_once.result == {"amount": 5}
    assert (after.state, after.acted) == (EffectState.COMMITTED, 1)


@pytest.mark.req("C040", "C047", "H040")
async def test_until_it_is_reconciled_an_unknown_effect_is_refused(place: Place) -> None:
    dies(place, None, inside="after_remote")
    place.later()

    async with open_gate(place) as gate:
        assert await gate.store.stranded(limit=1)
        await gate.reconciler._take_over_stranded()
        outcome = await gate.submit(proposal(), principal=AGENT, run="run-1")
        again = await gate.submit(proposal(call_id="call-2"), principal=AGENT, run="run-1")

    assert type(outcome) is Unknown and outcome.may_have_acted and not outcome.retryable
    assert type(again) is Unknown
    assert sum(place.remote.effects().values()) == 1


async def test_dead_again_at_each_step_of_recovery_nothing_is_lost(place: Place) -> None:
    dies(place, None, inside="after_remote")
    for verb in ("take_over", "reconcile"):
        for moment in Moment:
            point = KillPoint(moment=moment, verb=verb)
            place.later()
            assert ended(start(recover_and_die, str(place.folder), point)) == KILLED

    after = await aftermath(place, proposal())

    assert type(after.later) is Replayed
    assert (after.state, after.acted) == (EffectState.RECONCILED_COMMITTED, 1)


# ---------------------------------------------------------------- several attempts


@pytest.mark.req("B110")
@pytest.mark.parametrize(
    "point",
    [
        KillPoint(moment=BEFORE, verb="turn"),
        KillPoint(moment=AFTER, verb="turn"),
        KillPoint(moment=BEFORE, verb="settle"),
        KillPoint(moment=AFTER, verb="settle"),
    ],
    ids=["before turn", "after turn", "before settle", "after settle"],
)
async def test_dead_around_a_retry_the_effect_is_found_and_every_attempt_is_closed(
    place: Place, point: KillPoint
) -> None:
    dies(place, point, tool="top_up")

    after = await aftermath(place, proposal("top_up"))

    assert type(after.later) is Replayed
    assert after.later.result == {"amount": 5}
    assert after.state.is_committed and after.acted == 1


# ---------------------------------------------------------------- with an approval


async def asked(place: Place) -> str:
    async with open_gate(place) as gate:
        outcome = await gate.submit(proposal("refund"), principal=AGENT, run="run-1")
    assert type(outcome) is AwaitingApproval
    return outcome.approval_id


async def events_of(gate: Gate, kind: str) -> int:
    return sum([orjson.loads(event.body)["kind"] == kind async for event in gate.store.chained()])


@pytest.mark.req("C049")
@pytest.mark.parametrize("moment", [BEFORE, AFTER])
async def test_dead_around_the_asking_there_is_one_question_and_nothing_ran(place: Place, moment: Moment) -> None:
    dies(place, KillPoint(moment=moment, verb="ask"), tool="refund")

    async with open_gate(place) as gate:
        outcome = await gate.submit(proposal("refund"), principal=AGENT, run="run-1")
        waiting = await gate.desk.pending(by=PERSON)
        assert_audit_is_whole(gate)
        asked_events = await events_of(gate, "approval_asked")

    assert type(outcome) is AwaitingApproval
    assert ([view.approval_id for view in waiting], asked_events) == ([outcome.approval_id], 1)
    assert place.remote.effects() == {}


@pytest.mark.req("C049", "B093", "H026")
@pytest.mark.parametrize("moment", [BEFORE, AFTER])
async def test_dead_around_the_decision_it_stands_or_is_still_to_be_taken(place: Place, moment: Moment) -> None:
    approval_id = await asked(place)
    dies(place, KillPoint(moment=moment, verb="answer"), tool="refund", approves=approval_id)

    async with open_gate(place) as gate:
        outcome = await gate.submit(proposal("refund"), principal=AGENT, run="run-1")
        if moment is BEFORE:
            assert type(outcome) is AwaitingApproval and outcome.approval_id == approval_id
            await approve(gate, approval_id)
            outcome = await gate.submit(proposal("refund"), principal=AGENT, run="run-1")
        assert type(outcome) is Succeeded
        assert await events_of(gate, "approval_approved") == 1
        assert await events_of(gate, "approval_spent") == 1
        assert_audit_is_whole(gate)

    assert sum(place.remote.effects().values()) == 1


@pytest.mark.req("C049", "B085", "B093", "B113", "H026")
@pytest.mark.case("E04")
@pytest.mark.parametrize(
    ("point", "inside", "acted"),
    [
        (KillPoint(moment=BEFORE, verb="claim"), "", 0),
        (KillPoint(moment=AFTER, verb="claim"), "", 0),
        (None, "before_remote", 0),
        (None, "after_remote", 1),
        (KillPoint(moment=BEFORE, verb="settle"), "", 1),
        (KillPoint(moment=AFTER, verb="settle"), "", 1),
    ],
    ids=["before claim", "after claim", "before remote", "after remote", "before settle", "after settle"],
)
async def test_dead_around_the_spending_an_approval_carries_one_dispatch_and_no_second(
    place: Place, point: KillPoint | None, inside: str, acted: int
) -> None:
    approval_id = await asked(place)
    dies(place, point, inside=inside, tool="refund", approves=approval_id)
    is_spent = point is None or point.verb != "claim" or point.moment is AFTER
    place.later()

    async with open_gate(place) as gate:
        await recovered(gate)
        outcome = await gate.submit(proposal("refund"), principal=AGENT, run="run-1")
        spent = await events_of(gate, "approval_spent")
        assert_audit_is_whole(gate)

    assert spent == 1
    if not is_spent:
        assert type(outcome) is Succeeded
    elif acted:
        assert type(outcome) is Replayed and outcome.result == {"amount": 5}
    else:  # it did not act, and its approval is used up: a person is asked anew
        assert type(outcome) is AwaitingApproval and outcome.approval_id != approval_id
    assert sum(place.remote.effects().values()) == (acted if is_spent else 1)


# ---------------------------------------------------------------- reads


async def test_a_read_that_died_is_completed_by_recovery(place: Place) -> None:
    dies(place, None, inside="read", tool="balance")

    async with open_gate(place) as gate:
        assert (await gate.verify_audit()).unpaired == 1
        place.later()
        async with asyncio.timeout(30):
            while (await gate.verify_audit()).unpaired:
                await gate.reconciler.recover()
                await asyncio.sleep(0.02)
        assert_audit_is_whole(gate)
        outcome = await gate.submit(proposal("balance"), principal=AGENT, run="run-1")

    assert type(outcome) is Succeeded


def test_these_settings_are_not_those_of_production() -> None:
    assert placet.GateSettings().lease_seconds > 10 * LEASE_SECONDS

"""Questions that nobody decides: people are told again, others too, and those may decide where the rule says so."""

from __future__ import annotations

import asyncio
import dataclasses
from pathlib import Path
from typing import Any

import apsw
import pytest

from placet import (
    ApprovalState,
    Approvers,
    AskReminders,
    AskRule,
    AskRules,
    AwaitingApproval,
    Matrix,
    Principal,
    Refused,
    Succeeded,
)
from placet.engine.reminding import RemindingReport
from placet.model.decision import RequirementKind
from placet.model.principal import Role
from placet.rules.policy_files import read
from placet.worker import Worker
from tests.engine.announcing import a_destination, a_post
from tests.engine.conftest import APPROVER, OPERATOR, STRANGER, OpenWorld, Spy, World, written
from tests.engine.people import ListedPeople, refusal

DECIDE = "approvals.decide"
LEAD = Principal.person("lena", tenant="acme", roles=("operator",), scopes=(DECIDE,))
BOSS = Principal.person("bo", tenant="acme", roles=("admin",), scopes=(DECIDE,))
ONE, TWO, NONE = RemindingReport(reminded=1), RemindingReport(reminded=2), RemindingReport()
ESCALATED = RemindingReport(escalated=1)
REMINDERS = AskReminders(remind_after_seconds=(3_600.0, 7_200.0), escalate_after_seconds=10_800.0)
WIDENING = AskReminders(
    escalate_after_seconds=3_600.0, escalate_to=Approvers(roles=frozenset({Role.ADMIN})), widens=True
)


def rules(reminders: AskReminders | None = REMINDERS, **changes: Any) -> Matrix:
    rule = AskRule(name="payments", tools=frozenset({"write"}), reminders=reminders, **changes)
    return Matrix(asks=AskRules(rules=(rule,)))


WIDENED = rules(WIDENING, approvers=Approvers(subjects=frozenset({"lena"})))


async def asked(open_world: OpenWorld, spy: Spy, *, policy: Matrix | None = None, **more: Any) -> World:
    world = await open_world(written(spy, approval="always"), policy=policy or rules(), **more)
    assert isinstance(await world.submit("write", {"word": "x"}), AwaitingApproval)
    return world


async def the_id(world: World) -> str:
    (view,) = await world.gate.desk.listed(by=APPROVER)
    return view.approval_id


async def approve(world: World, by: Principal) -> Any:
    view = await world.gate.desk.show(await the_id(world), by=by)
    return await world.gate.desk.approve(view.approval_id, digest=view.digest, by=by)


def told(world: World) -> list[tuple[str, str | None]]:
    found = world.events("approval_reminded", "approval_escalated")
    return [(event["kind"].removeprefix("approval_"), event.get("detail")) for event in found]


# ---------------------------------------------------------------- what is due


async def test_people_are_told_at_each_instant_and_others_after_the_last(
    open_world: OpenWorld, spy: Spy, where: str
) -> None:
    world = await asked(open_world, spy, store=where)
    remind = world.gate.reminding.remind_due

    world.clock.advance(3_599.999999)
    assert await remind() == NONE
    world.clock.advance(0.000001)
    assert (await remind(), await remind()) == (ONE, NONE)
    world.clock.advance(3_600)
    assert (await remind(), await remind()) == (ONE, NONE)
    world.clock.advance(3_600)
    assert (await remind(), await remind()) == (ESCALATED, NONE)
    world.clock.advance(3_600)
    assert await remind() == NONE
    assert told(world) == [("reminded", None), ("reminded", None), ("escalated", None)]
    (first, *_) = world.events("approval_reminded")
    (asking,) = world.events("approval_asked")
    for name in ("approval_id", "tenant", "subject", "tool", "run_id", "reasons", "expires_at", "operation"):
        assert first[name] == asking[name], name


async def test_a_worker_that_was_away_tells_once_and_the_escalation_if_it_is_among_what_it_missed(
    open_world: OpenWorld, spy: Spy, where: str
) -> None:
    world = await asked(open_world, spy, store=where)
    world.clock.advance(7_200)
    assert (await world.gate.reminding.remind_due(), await world.gate.reminding.remind_due()) == (ONE, NONE)
    await world.submit("write", {"word": "another"}, call_id="c2")
    world.clock.advance(20 * 3_600)

    done = await world.gate.reminding.remind_due()

    assert done == RemindingReport(escalated=2)
    assert await world.gate.reminding.remind_due() == NONE
    assert told(world) == [("reminded", None), ("escalated", None), ("escalated", None)]


async def test_nothing_is_told_of_what_is_decided_taken_back_or_out_of_time(
    open_world: OpenWorld, spy: Spy, where: str
) -> None:
    world = await open_world(written(spy, approval="always"), policy=rules(), store=where)
    for number, word in enumerate(("approved", "denied", "withdrawn", "late")):
        await world.submit("write", {"word": word}, call_id=f"c{number}")
    views = {view.arguments["word"]: view for view in await world.gate.desk.pending(by=APPROVER)}
    desk, (yes, no, back) = world.gate.desk, (views["approved"], views["denied"], views["withdrawn"])
    await desk.approve(yes.approval_id, digest=yes.digest, by=APPROVER)
    await desk.deny(no.approval_id, digest=no.digest, by=APPROVER)
    await desk.withdraw(back.approval_id, by=APPROVER)
    world.clock.advance(86_400)

    assert await world.gate.reminding.remind_due() == NONE
    assert told(world) == []
    assert await world.gate.desk.expire_overdue() == 1


async def test_a_step_that_comes_after_the_end_of_its_question_never_comes(
    open_world: OpenWorld, spy: Spy, where: str
) -> None:
    late = AskReminders(remind_after_seconds=(600.0, 3_600.0), escalate_after_seconds=3_601.0)
    policy = rules(late, decide_within_seconds=3_600.0)
    world = await asked(open_world, spy, policy=policy, store=where)
    world.clock.advance(600)
    assert await world.gate.reminding.remind_due() == ONE
    world.clock.advance(2_999.999999)
    assert await world.gate.reminding.remind_due() == NONE
    view = await world.gate.desk.show(await the_id(world), by=APPROVER)
    assert (len(view.reminded_at), view.escalates_at) == (1, None)


async def test_of_two_workers_at_one_moment_one_tells(open_world: OpenWorld, spy: Spy, tmp_path: Path) -> None:
    store = str(tmp_path / "placet.db")
    world = await asked(open_world, spy, store=store)
    other = await open_world(written(spy, approval="always"), policy=rules(), store=store, seed=1)
    for each in (world, other):
        each.clock.advance(3_600)

    done = await asyncio.gather(*(each.gate.reminding.remind_due() for each in (world, other) * 4))

    assert sorted(each.reminded for each in done) == [0] * 7 + [1]
    assert told(world) == [("reminded", None)]


async def test_the_reminders_of_a_question_are_those_it_was_asked_with(
    open_world: OpenWorld, spy: Spy, tmp_path: Path
) -> None:
    """A worker that has another policy file, in the middle of a deploy, tells what the question says."""
    store = str(tmp_path / "placet.db")
    await asked(open_world, spy, store=store)
    other = await open_world(written(spy, approval="always"), store=store, seed=1)
    other.clock.advance(3_600)

    assert await other.gate.reminding.remind_due() == ONE


async def test_where_no_rule_fits_the_default_of_the_file_reminds(open_world: OpenWorld, spy: Spy, where: str) -> None:
    asks = read('[reminders]\nremind_after = "1h"\n')
    assert isinstance(asks, AskRules)
    world = await asked(open_world, spy, policy=Matrix(asks=asks), store=where)
    world.clock.advance(3_600)

    assert await world.gate.reminding.remind_due() == ONE
    view = await world.gate.desk.show(await the_id(world), by=APPROVER)
    assert (view.rule, view.reminded_at) == (None, (world.clock.now(),))


async def test_a_round_of_a_worker_reminds_and_its_message_goes_out(
    open_world: OpenWorld, spy: Spy, where: str
) -> None:
    world = await asked(open_world, spy, store=where)
    post = await a_post(world, a_destination(tenants=("acme",)))
    worker = Worker(world.gate, clock=world.clock, pause_seconds=10.0, announcer=post.announcer)
    world.clock.advance(10_800)

    done = await worker.once()

    assert (done.reminding, done.announcing.delivered) == (ESCALATED, 1)
    (notice,) = post.inbox.notices
    assert (notice.kind.value, notice.url) == (
        "approval.escalated",
        f"https://ops.example.com/console/approvals/{await the_id(world)}",
    )
    assert (await worker.once()).reminding == NONE


# ---------------------------------------------------------------- rows that somebody wrote


async def test_a_row_by_another_hand_reminds_nobody_and_keeps_no_other_from_it(
    open_world: OpenWorld, spy: Spy, tmp_path: Path
) -> None:
    store = tmp_path / "placet.db"
    world = await asked(open_world, spy, store=str(store))
    await world.submit("write", {"word": "later"}, call_id="c2")
    with apsw.Connection(str(store)) as connection:
        connection.execute(
            "UPDATE approvals SET question = json_set(question, '$.reminders.remind_after_seconds[0]', 1.0)"
            " WHERE rowid = 1"
        )
    world.clock.advance(3_600)

    assert await world.gate.reminding.remind_due(limit=1) == ONE, "past the one that does not hold"
    assert await world.gate.reminding.remind_due(limit=1) == NONE
    (event,) = world.events("approval_reminded")
    assert event["call_id"] == "c2"


async def test_what_a_row_says_was_told_brings_nothing_forward_and_nobody_in(
    open_world: OpenWorld, spy: Spy, tmp_path: Path
) -> None:
    store = tmp_path / "placet.db"
    world = await asked(open_world, spy, policy=WIDENED, store=str(store))
    approval_id = await the_id(world)
    with apsw.Connection(str(store)) as connection:
        told_now = f'[["escalate", "{world.clock.now().isoformat()}"]]'
        connection.execute("INSERT INTO reminders VALUES ('acme', ?, ?, 0)", (approval_id, told_now))

    assert await world.gate.reminding.remind_due() == NONE
    view = await world.gate.desk.show(approval_id, by=BOSS)
    assert (view.why_not, view.who_may) == ("not_an_approver", ())
    assert await refusal(world.gate.desk.approve(approval_id, digest=view.digest, by=BOSS)) == "not_an_approver"
    for text in ("no json", "[1]", '[["remind", "2026-01-01T00:00:00"]]', "{}"):
        with apsw.Connection(str(store)) as connection:
            connection.execute("UPDATE reminders SET told = ?", (text,))
        assert (await world.gate.desk.show(approval_id, by=APPROVER)).reminded_at == ()


# ---------------------------------------------------------------- who may decide then


async def test_an_escalation_that_widens_nothing_lets_nobody_else_decide(
    open_world: OpenWorld, spy: Spy, where: str
) -> None:
    announced = dataclasses.replace(WIDENING, widens=False)
    policy = rules(announced, approvers=Approvers(subjects=frozenset({"lena"})))
    world = await asked(open_world, spy, policy=policy, store=where)
    world.clock.advance(3_600)
    assert await world.gate.reminding.remind_due() == ESCALATED

    assert await refusal(approve(world, BOSS)) == "not_an_approver"
    await approve(world, LEAD)
    assert isinstance(await world.submit("write", {"word": "x"}), Succeeded)
    assert told(world) == [("escalated", None)]


@pytest.mark.req("H017", "H023")
async def test_whom_an_escalation_names_may_decide_from_its_instant_on_whatever_the_worker_does(
    open_world: OpenWorld, spy: Spy, where: str
) -> None:
    world = await asked(open_world, spy, policy=WIDENED, store=where, people=ListedPeople(LEAD, BOSS, APPROVER))
    world.clock.advance(3_599.999999)
    before = await world.gate.desk.show(await the_id(world), by=BOSS)
    assert (before.why_not, before.who_may, before.escalate_to) == ("not_an_approver", ("lena",), ("role:admin",))
    assert await refusal(approve(world, BOSS)) == "not_an_approver"

    world.clock.advance(0.000001)
    view = await world.gate.desk.show(await the_id(world), by=BOSS)
    assert (view.why_not, view.who_may, view.escalation_widens) == (None, ("bo", "lena"), True)
    assert (view.escalates_at, view.escalated_at) == (world.clock.now(), None)
    assert await refusal(approve(world, APPROVER)) == "not_an_approver"
    await approve(world, BOSS)

    assert isinstance(await world.submit("write", {"word": "x"}), Succeeded)
    (event,) = world.events("approval_approved")
    assert (event["decided_by"], event["detail"]) == ("bo", "by_escalation")


async def test_the_escalation_says_in_the_audit_that_it_widens(open_world: OpenWorld, spy: Spy, where: str) -> None:
    world = await asked(open_world, spy, policy=WIDENED, store=where)
    world.clock.advance(3_600)
    assert await world.gate.reminding.remind_due() == ESCALATED

    assert told(world) == [("escalated", "widened")]
    view = await world.gate.desk.show(await the_id(world), by=LEAD)
    assert (view.escalated_at, view.why_not) == (world.clock.now(), None)
    await approve(world, LEAD)
    (event,) = world.events("approval_approved")
    assert event.get("detail") is None, "whom the rule names needs no escalation"


async def test_what_an_escalation_widened_is_asked_again_when_it_is_spent(
    open_world: OpenWorld, spy: Spy, where: str
) -> None:
    people = ListedPeople(LEAD, BOSS)
    world = await asked(open_world, spy, policy=WIDENED, store=where, people=people)
    world.clock.advance(3_600)
    await approve(world, BOSS)
    people.put(dataclasses.replace(BOSS, roles=frozenset({Role.OPERATOR})))

    outcome = await world.submit("write", {"word": "x"})

    assert isinstance(outcome, Refused)
    assert (outcome.code, outcome.reasons) == ("approver_not_entitled", ("not_an_approver",))
    assert spy.count == 0


async def test_somebody_who_decided_as_an_approver_is_not_saved_by_an_escalation_since(
    open_world: OpenWorld, spy: Spy, where: str
) -> None:
    """It was signed with what leave it decided: losing that ends it, whatever else it may do by now."""
    both = dataclasses.replace(LEAD, roles=frozenset({Role.ADMIN}), scopes=frozenset({DECIDE, "finance.approve"}))
    people = ListedPeople(both)
    approvers = Approvers(scopes=frozenset({"finance.approve"}))
    policy = rules(WIDENING, approvers=approvers, usable_for_seconds=86_400.0)
    world = await asked(open_world, spy, policy=policy, store=where, people=people)
    world.clock.advance(1_800)
    await approve(world, both)
    world.clock.advance(1_800)
    people.put(dataclasses.replace(both, scopes=frozenset({DECIDE})))

    outcome = await world.submit("write", {"word": "x"})

    assert isinstance(outcome, Refused)
    assert (outcome.code, outcome.reasons) == ("approver_not_entitled", ("not_an_approver",))


@pytest.mark.parametrize(
    ("person", "code"),
    [
        (dataclasses.replace(BOSS, scopes=frozenset()), "scope_missing"),
        (Principal.person("agent-operator", tenant="acme", roles=("admin",), scopes=(DECIDE,)), "own_request"),
        (dataclasses.replace(BOSS, environment="staging"), "other_environment"),
    ],
    ids=["no scope", "the requester", "elsewhere"],
)
async def test_an_escalation_widens_the_rule_and_nothing_else(
    open_world: OpenWorld, spy: Spy, person: Principal, code: str
) -> None:
    world = await asked(open_world, spy, policy=WIDENED)
    world.clock.advance(3_600)
    view = await world.gate.desk.show(await the_id(world), by=APPROVER)

    assert await refusal(world.gate.desk.approve(view.approval_id, digest=view.digest, by=person)) == code


async def test_a_list_of_people_narrows_what_an_escalation_widened(open_world: OpenWorld, spy: Spy) -> None:
    world = await asked(
        open_world, spy, policy=WIDENED, people=ListedPeople(dataclasses.replace(BOSS, roles=frozenset()))
    )
    world.clock.advance(3_600)

    assert await refusal(approve(world, BOSS)) == "not_an_approver"


async def test_whom_the_list_lets_in_by_an_escalation_alone_has_that_leave(
    open_world: OpenWorld, spy: Spy, where: str
) -> None:
    """It signed in as an approver; the list says by what it is one, and that counts again when it is spent."""
    policy = rules(WIDENING, approvers=Approvers(roles=frozenset({Role.OPERATOR})))
    signed_in = dataclasses.replace(BOSS, roles=frozenset({Role.OPERATOR}))
    world = await asked(open_world, spy, policy=policy, store=where, people=ListedPeople(BOSS))
    assert await refusal(approve(world, signed_in)) == "not_an_approver"
    world.clock.advance(3_600)
    await approve(world, signed_in)

    assert world.events("approval_approved")[0]["detail"] == "by_escalation"
    assert isinstance(await world.submit("write", {"word": "x"}), Succeeded)


async def test_votes_of_a_quorum_count_with_the_leave_each_was_given_with(
    open_world: OpenWorld, spy: Spy, where: str
) -> None:
    policy = rules(
        WIDENING, needs=RequirementKind.QUORUM, votes=2, approvers=Approvers(subjects=frozenset({"lena", "max"}))
    )
    people = ListedPeople(LEAD, BOSS)
    world = await asked(open_world, spy, policy=policy, store=where, people=people)
    await approve(world, LEAD)
    assert await refusal(approve(world, BOSS)) == "not_an_approver"
    world.clock.advance(3_600)
    view = await approve(world, BOSS)

    assert view.state is ApprovalState.APPROVED
    assert [event.get("detail") for event in world.events("approval_voted")] == [None, "by_escalation"]
    assert isinstance(await world.submit("write", {"word": "x"}), Succeeded)


async def test_a_policy_that_says_otherwise_by_now_asks_anew(open_world: OpenWorld, spy: Spy, tmp_path: Path) -> None:
    """What an escalation widens is part of the policy's version, as all of the file is."""
    store = str(tmp_path / "placet.db")
    world = await asked(open_world, spy, policy=WIDENED, store=store)
    world.clock.advance(3_600)
    await approve(world, BOSS)
    narrower = rules(dataclasses.replace(WIDENING, widens=False), approvers=Approvers(subjects=frozenset({"lena"})))
    assert narrower.version != WIDENED.version
    other = await open_world(written(spy, approval="always"), policy=narrower, store=store, seed=1)
    other.clock.advance(3_600)

    assert isinstance(await other.submit("write", {"word": "x"}), AwaitingApproval)
    assert spy.count == 0


async def test_an_engine_that_knows_no_escalation_widens_nothing(open_world: OpenWorld, spy: Spy) -> None:
    class Own:
        """Asks as the widening rules do, and has no word for escalations."""

        version, timeout_seconds = WIDENED.version, 1.0
        decide, is_listed, may_decide = WIDENED.decide, WIDENED.is_listed, WIDENED.may_decide

    world = await asked(open_world, spy, policy=Own())  # type: ignore[arg-type]
    world.clock.advance(3_600)

    assert await refusal(approve(world, BOSS)) in ("policy_failed", "not_an_approver")


async def test_reminders_of_tenants_stay_with_them(open_world: OpenWorld, spy: Spy, where: str) -> None:
    world = await asked(open_world, spy, store=where)
    await world.submit("write", {"word": "x"}, principal=STRANGER)
    world.clock.advance(3_600)

    assert await world.gate.reminding.remind_due() == TWO
    events = world.events("approval_reminded")
    assert [(event["tenant"], event["subject"]) for event in events] == [
        ("acme", OPERATOR.subject),
        ("globex", STRANGER.subject),
    ]

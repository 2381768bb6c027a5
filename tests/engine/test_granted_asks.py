"""A question that waits and a grant that answers it: whatever a person says before the use is durable comes first."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import apsw
import pytest

from placet import ApprovalState, AwaitingApproval, GateSettings, Principal, Refused, Succeeded
from placet.bootstrap.records import open_custody
from placet.engine.custody import Loss
from placet.errors import DecisionRefused
from placet.model.grant import GrantState
from tests.engine.conftest import APPROVER, OPERATOR, OTHER_APPROVER, OpenWorld, Spy, World
from tests.engine.people import ListedPeople, refusal
from tests.engine.test_editing import EDITOR
from tests.engine.test_granting import give, opened, policy, run, uses

BOSS = Principal.person("boss", tenant="acme", scopes=("ops.stop", "ops.stop.all"))


class PeopleWhoWait(ListedPeople):
    """The last thing that is asked about before a claim is whether the giver still may: what happens then, happens
    between the look and the use.
    """

    meanwhile: Callable[[], Awaitable[object]] | None = None
    acted = False

    async def person(self, tenant: str, subject: str) -> Principal | None:
        act, self.meanwhile = self.meanwhile, None
        if act is not None:
            await act()
            self.acted = True
        return await super().person(tenant, subject)


async def waiting_world(
    open_world: OpenWorld, spy: Spy, **more: Any
) -> tuple[World, PeopleWhoWait, AwaitingApproval, Any]:
    """A question waits; somebody gives a grant that answers it."""
    people = PeopleWhoWait(APPROVER, OTHER_APPROVER, EDITOR)
    world = await opened(open_world, spy, people=people, **more)
    waiting = await run(world)
    assert isinstance(waiting, AwaitingApproval)
    return world, people, waiting, await give(world)


async def state_of(world: World, waiting: AwaitingApproval) -> ApprovalState:
    return (await world.gate.desk.show(waiting.approval_id, by=APPROVER)).state


async def test_a_question_that_waits_is_taken_back_by_the_use(open_world: OpenWorld, spy: Spy, where: str) -> None:
    world, _, waiting, grant = await waiting_world(open_world, spy, store=where)
    assert isinstance(await run(world), Succeeded)
    assert (await state_of(world, waiting), await uses(world, grant)) == (ApprovalState.WITHDRAWN, 1)
    (event,) = world.events("approval_withdrawn")
    assert (event["detail"], event["approval_id"]) == ("granted", waiting.approval_id)


@pytest.mark.req("B121")
async def test_a_denial_just_before_the_claim_holds(open_world: OpenWorld, spy: Spy, where: str) -> None:
    world, people, waiting, grant = await waiting_world(open_world, spy, store=where)

    async def deny() -> None:
        view = await world.gate.desk.show(waiting.approval_id, by=OTHER_APPROVER)
        denied = await world.gate.desk.deny(waiting.approval_id, digest=view.digest, by=OTHER_APPROVER, reason="no")
        assert denied.state is ApprovalState.DENIED

    people.meanwhile = deny
    outcome = await run(world)
    assert people.acted

    assert (type(outcome), outcome.code, spy.count) == (Refused, "approval_denied", 0)
    assert (await run(world, call_id="c2")).code == "approval_denied"
    assert (await state_of(world, waiting), await uses(world, grant)) == (ApprovalState.DENIED, 0)


async def test_an_edit_just_before_the_claim_holds(open_world: OpenWorld, spy: Spy, where: str) -> None:
    world, people, waiting, grant = await waiting_world(open_world, spy, store=where)

    async def edit() -> None:
        view = await world.gate.desk.show(waiting.approval_id, by=EDITOR)
        arguments = {"word": "y", "count": 1}
        await world.gate.desk.edit(waiting.approval_id, digest=view.digest, arguments=arguments, by=EDITOR)

    people.meanwhile = edit
    outcome = await run(world)
    assert people.acted

    assert (outcome.code, spy.count, await uses(world, grant)) == ("edited_by_person", 0, 0)


async def test_what_a_person_edited_is_not_granted_whatever_became_of_the_edit(
    open_world: OpenWorld, spy: Spy, where: str
) -> None:
    world, _, waiting, grant = await waiting_world(open_world, spy, store=where)
    view = await world.gate.desk.show(waiting.approval_id, by=EDITOR)
    arguments = {"word": "y", "count": 1}
    edited = await world.gate.desk.edit(waiting.approval_id, digest=view.digest, arguments=arguments, by=EDITOR)
    await world.gate.desk.deny(edited.approval_id, digest=edited.digest, by=OTHER_APPROVER, reason="nor this")

    for _ in range(2):  # asked anew, and waiting
        assert isinstance(await run(world), AwaitingApproval)
    assert (spy.count, await uses(world, grant)) == (0, 0)


async def test_one_look_that_tells_nothing_is_enough_for_all_grants_of_a_call(
    open_world: OpenWorld, spy: Spy, where: str
) -> None:
    people = ListedPeople(APPROVER)
    world = await opened(open_world, spy, people=people, store=where)
    for _ in range(3):
        await give(world)
    people.fault = OSError("down")
    assert isinstance(await run(world), AwaitingApproval)
    assert [event["detail"] for event in world.events("grant_refused")] == ["people_failed"]


async def test_a_grant_that_nobody_can_tell_about_now_may_be_wished_for_again(open_world: OpenWorld, spy: Spy) -> None:
    people = ListedPeople(APPROVER)
    world = await opened(open_world, spy, people=people)
    people.fault = OSError("down")
    with pytest.raises(DecisionRefused) as caught:
        await give(world)
    assert (caught.value.code, caught.value.retryable) == ("people_failed", True)
    people.fault = None
    with pytest.raises(DecisionRefused) as caught:
        await give(world, max_uses=99)
    assert caught.value.retryable is False


async def test_nobody_is_said_to_have_revoked_what_its_giver_may_not_give_any_more(
    open_world: OpenWorld, spy: Spy, where: str
) -> None:
    people = ListedPeople(APPROVER)
    world = await opened(open_world, spy, people=people, store=where)
    grant = await give(world)
    people.remove(APPROVER)
    assert isinstance(await run(world), AwaitingApproval)
    view = await world.gate.grants.show(grant.grant_id, by=OTHER_APPROVER)
    assert (view.state, view.revoked_by, view.revoked_at is None) == (GrantState.REVOKED, None, False)
    (event,) = world.events("grant_revoked")
    assert "decided_by" not in event


async def test_an_approval_just_before_the_claim_is_spent_and_no_use(
    open_world: OpenWorld, spy: Spy, where: str
) -> None:
    world, people, waiting, grant = await waiting_world(open_world, spy, store=where)

    async def approve() -> None:
        view = await world.gate.desk.show(waiting.approval_id, by=OTHER_APPROVER)
        await world.gate.desk.approve(waiting.approval_id, digest=view.digest, by=OTHER_APPROVER)

    people.meanwhile = approve
    assert isinstance(await run(world), Succeeded)
    assert people.acted
    assert (await state_of(world, waiting), await uses(world, grant)) == (ApprovalState.SPENT, 0)


async def test_a_denial_of_the_same_call_under_another_key_holds_too(
    open_world: OpenWorld, spy: Spy, where: str
) -> None:
    people = PeopleWhoWait(APPROVER, OTHER_APPROVER, EDITOR)
    world = await opened(open_world, spy, people=people, store=where)
    named = await run(world, idempotency_key="order-1")
    assert isinstance(named, AwaitingApproval)
    grant = await give(world)

    async def deny() -> None:
        view = await world.gate.desk.show(named.approval_id, by=OTHER_APPROVER)
        await world.gate.desk.deny(named.approval_id, digest=view.digest, by=OTHER_APPROVER, reason="no")

    people.meanwhile = deny
    outcome = await run(world, call_id="c2", idempotency_key="order-2")
    assert people.acted

    assert (outcome.code, spy.count, await uses(world, grant)) == ("approval_denied", 0, 0)


async def test_a_question_under_another_key_that_nobody_has_answered_does_not_matter(
    open_world: OpenWorld, spy: Spy, where: str
) -> None:
    world = await opened(open_world, spy, store=where)
    first = await run(world, idempotency_key="order-1")
    second = await run(world, idempotency_key="order-2", call_id="c2")
    assert isinstance(first, AwaitingApproval) and isinstance(second, AwaitingApproval)
    await give(world)

    assert isinstance(await run(world, idempotency_key="order-2", call_id="c2"), Succeeded)
    assert (await state_of(world, first), await state_of(world, second)) == (
        ApprovalState.PENDING,
        ApprovalState.WITHDRAWN,
    )
    assert isinstance(await run(world, idempotency_key="order-3", call_id="c3"), Succeeded)
    assert await state_of(world, first) is ApprovalState.PENDING


async def test_a_denial_under_a_key_that_is_retired_stands_in_no_grants_way(
    open_world: OpenWorld, spy: Spy, tmp_path: Path
) -> None:
    file = str(tmp_path / "p.db")
    before = await opened(open_world, spy, store=file)
    await before.deny(await run(before))
    custody, opened_store = open_custody(Path(file))
    try:
        changed = await custody.rotate(by="mara")
        await custody.retire(changed.previous, by="mara", losing=(Loss.APPROVALS,))
    finally:
        await opened_store.close()
    after = await opened(open_world, spy, store=file, clock=before.clock, seed=1)
    grant = await give(after)
    assert isinstance(await run(after), Succeeded)
    assert await uses(after, grant) == 1


async def test_while_nobody_can_tell_whether_its_giver_may_the_same_question_waits(
    open_world: OpenWorld, spy: Spy, where: str
) -> None:
    world, people, waiting, grant = await waiting_world(open_world, spy, store=where)
    people.fault = OSError("down")
    for _ in range(3):
        again = await run(world)
        assert isinstance(again, AwaitingApproval)
        assert again.approval_id == waiting.approval_id
    assert len(world.events("approval_asked")) == 1
    people.fault = None
    assert isinstance(await run(world), Succeeded)
    assert await uses(world, grant) == 1


async def test_a_stop_leaves_the_question_where_people_look_at_it(open_world: OpenWorld, spy: Spy, where: str) -> None:
    world, people, waiting, grant = await waiting_world(open_world, spy, store=where)

    async def stop() -> None:
        await world.gate.switch.stop("tool:write", by=BOSS)

    people.meanwhile = stop
    assert isinstance(await run(world), Refused)
    assert people.acted
    assert (await state_of(world, waiting), await uses(world, grant)) == (ApprovalState.PENDING, 0)


async def test_a_tool_that_was_closed_leaves_the_question_for_a_person_whose_leave_is_stronger(
    open_world: OpenWorld, spy: Spy, where: str
) -> None:
    settings = GateSettings(grace_seconds=0.05, max_denials=3)
    world, _, waiting, grant = await waiting_world(open_world, spy, store=where, settings=settings)
    for number in range(3):
        await world.deny(await run(world, "z", call_id=f"d{number}", count=number))
    assert isinstance(await run(world), Refused)
    assert (await state_of(world, waiting), await uses(world, grant)) == (ApprovalState.PENDING, 0)
    view = await world.gate.desk.show(waiting.approval_id, by=OTHER_APPROVER)
    await world.gate.desk.approve(waiting.approval_id, digest=view.digest, by=OTHER_APPROVER)
    assert isinstance(await run(world), Succeeded)


# ---------------------------------------------------------------- rows put back


REPLAYS = {
    "removed": ("DELETE FROM grants",),
    "replaced": ("INSERT OR REPLACE INTO grants SELECT * FROM kept",),
    "moved away": ("UPDATE grants SET grant_id = 'grt-moved', uses = uses + 1",),
    "moved to another tenant": ("UPDATE grants SET tenant = 'globex', uses = uses + 1",),
    "moved over": (
        "INSERT INTO grants SELECT tenant, 'grt-x', subject, run_id, tool, body, sealed_limits, key_id, mac, max_uses, "
        "0, NULL, given_at, expires_at, NULL FROM kept",
        "UPDATE OR REPLACE grants SET grant_id = (SELECT grant_id FROM kept), uses = uses + 1 WHERE grant_id = 'grt-x'",
    ),
    "without a name": ("INSERT INTO grants SELECT tenant, '', subject, run_id, tool, body, sealed_limits, key_id, mac, "
    "max_uses, 0, NULL, given_at, expires_at, NULL FROM kept",),
    "with a name nobody can say": (
        "INSERT INTO grants SELECT tenant, 'a' || char(0), subject, run_id, tool, body, sealed_limits, key_id, mac, "
        "max_uses, 0, NULL, given_at, expires_at, NULL FROM kept",
    ),
}  # fmt: skip


@pytest.mark.req("B121")
@pytest.mark.parametrize("ends", ["used", "revoked"])
@pytest.mark.parametrize("what", REPLAYS)
async def test_no_row_of_before_comes_back(
    open_world: OpenWorld, spy: Spy, tmp_path: Path, what: str, ends: str
) -> None:
    file = str(tmp_path / "p.db")
    world = await opened(open_world, spy, store=file)
    grant = await give(world, max_uses=1)
    database = apsw.Connection(file)
    database.execute("CREATE TABLE kept AS SELECT * FROM grants")
    if ends == "used":
        assert isinstance(await run(world), Succeeded)
    else:
        await world.gate.grants.revoke(grant.grant_id, by=APPROVER)

    with pytest.raises(apsw.ConstraintError), database:
        for statement in REPLAYS[what]:
            database.execute(statement)
    database.execute("DROP TABLE kept")
    database.close()

    assert isinstance(await run(world, call_id="c2"), AwaitingApproval)
    assert spy.count == (ends == "used")


@pytest.mark.parametrize("column", ["tenant", "grant_id"])
async def test_a_row_that_has_uses_left_is_not_moved(
    open_world: OpenWorld, spy: Spy, tmp_path: Path, column: str
) -> None:
    file = str(tmp_path / "p.db")
    world = await opened(open_world, spy, store=file)
    await give(world)
    database = apsw.Connection(file)
    with pytest.raises(apsw.ConstraintError, match="placet: a grant"):
        database.execute(f"UPDATE grants SET {column} = 'other', uses = uses + 1")
    database.close()


async def test_a_grant_that_no_claim_may_use_is_tried_once_and_a_person_asked(
    open_world: OpenWorld, spy: Spy, tmp_path: Path
) -> None:
    file = str(tmp_path / "p.db")
    world = await opened(open_world, spy, store=file)
    grant = await give(world)
    database = apsw.Connection(file)
    for statement in (
        "DROP TRIGGER grants_change_legally",
        "PRAGMA ignore_check_constraints = 1",
        "UPDATE grants SET uses = -1",
    ):
        database.execute(statement)
    database.close()
    async with asyncio.timeout(30):
        assert isinstance(await run(world), AwaitingApproval)
    assert (spy.count, await uses(world, grant)) == (0, -1)


# ---------------------------------------------------------------- what is listed and counted


async def test_what_stands_is_listed_however_many_have_ended_since(open_world: OpenWorld, spy: Spy, where: str) -> None:
    world = await opened(open_world, spy, store=where)
    stands = await give(world)
    for _ in range(5):
        world.clock.advance(1.0)
        ended = await give(world)
        await world.gate.grants.revoke(ended.grant_id, by=APPROVER)
    assert stands.grant_id not in [view.grant_id for view in await world.gate.grants.listed(by=APPROVER, limit=2)]
    found = await world.gate.grants.standing(by=APPROVER, limit=2)
    assert [view.grant_id for view in found] == [stands.grant_id]
    page = await world.gate.grants.standing_page(by=APPROVER, limit=1)
    assert ([view.grant_id for view in page.rows], page.after) == ([stands.grant_id], None)
    assert await refusal(world.gate.grants.standing(by=OPERATOR)) == "not_a_person"


async def test_there_are_so_many_grants_that_have_not_ended_and_no_more(
    open_world: OpenWorld, spy: Spy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("placet.rules.grants.MOST_UNENDED", 2)
    world = await opened(open_world, spy)
    for _ in range(2):
        await give(world)
    assert await refusal(give(world)) == "too_many_grants"


async def test_void_grants_hide_and_block_no_usable_one(
    open_world: OpenWorld, spy: Spy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("placet.engine.pages._MOST_LOOKS", 2)
    file = str(tmp_path / "p.db")
    before = await opened(open_world, spy, store=file)
    other = policy(usable_for_seconds=77.0)
    after = await opened(open_world, spy, store=file, policy=other, clock=before.clock, seed=1)
    oldest = await give(after, seconds=900.0)
    before.clock.advance(1.0)
    void = [await give(before, seconds=500.0 + number) for number in range(32)]

    found = await after.gate.grants.standing(by=APPROVER, limit=5)
    assert [view.grant_id for view in found] == [oldest.grant_id]
    newest = await give(after, seconds=800.0)
    assert [view.grant_id for view in await after.gate.grants.standing(by=APPROVER, limit=1)] == [newest.grant_id]
    assert isinstance(await run(after), Succeeded), "although 32 end sooner"
    assert await uses(after, newest) == 1
    assert (await after.gate.grants.show(void[0].grant_id, by=APPROVER)).state is GrantState.VOID

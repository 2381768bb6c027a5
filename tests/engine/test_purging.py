"""What is old is forgotten, and nothing that was done is ever done again because of it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import apsw
import pytest

import placet
from placet import GateSettings, Principal, Retention, Truth
from placet.adapters.identity.secrets import SystemSecrets
from placet.engine.api_keys import ApiKeys
from placet.engine.forgetting import PurgeReport
from placet.engine.purging import OldKind
from placet.errors import ConfigurationError, DecisionRefused, MisuseError, NotFound
from placet.model.credentials import CredentialChange, CredentialKind
from placet.model.effect import EffectState
from placet.model.identifiers import OperationKey, Token
from placet.model.outcome import AwaitingApproval, Failed, Refused, Replayed, Succeeded
from placet.model.retention import Kept
from placet.testing import FakeClock
from tests.engine.conftest import ADMIN, OPERATOR, OpenWorld, Spy, World, acting, written
from tests.unguarded import unguarded

DAY = 86_400.0
QUARTER = Retention(seconds=90 * DAY)
KEEPER = Principal.person("kim", tenant="ops", scopes=("ops.purge", "ops.hold"))
NOBODY = Principal.person("nina", tenant="ops", scopes=("approvals.decide",))


async def purged(world: World, *, days: float = 91, **more: Any) -> PurgeReport:
    world.clock.advance(days * DAY)
    return await world.gate.purger.purge(QUARTER, by=KEEPER, **more)


def counts(report: PurgeReport) -> dict[str, int]:
    return {kept.value: count for kept, count in report.purged.items() if count}


def by_hand(store: str, statement: str, *values: object) -> list[Any]:
    """What somebody does who can write the file, triggers or none."""
    database = apsw.Connection(store)
    database.set_busy_timeout(10_000)
    unguarded(database)
    found = database.execute(statement, values).fetchall()
    database.close()
    return found


# ---------------------------------------------------------------- operations


@pytest.mark.req("H030", "C026")
async def test_a_purged_operation_is_answered_as_done_and_never_run_again(
    where: str, open_world: OpenWorld, spy: Spy
) -> None:
    tool = written(spy, operation_key="write:{word}")
    world = await open_world(tool, store=where)
    done = await world.submit(tool, {"word": "once"})
    assert isinstance(done, Succeeded)

    report = await purged(world)
    again = await world.submit(tool, {"word": "once"}, call_id="c2", run="r2")

    assert counts(report) == {"operations": 1, "runs": 1} and report.broken == 0
    assert isinstance(again, Replayed) and again.is_success
    assert (again.code, again.result, again.result_unavailable) == ("replayed", None, "record_purged")
    assert "do not repeat" in again.message
    assert spy.count == 1
    assert world.events("record_altered") == [], "nobody altered anything"
    effect = await world.effect()
    assert effect.is_purged and effect.sealed_result is None and effect.external_reference is None
    assert effect.result_digest is not None


async def test_the_same_key_for_another_call_is_a_conflict_after_the_purge_too(
    where: str, open_world: OpenWorld, spy: Spy
) -> None:
    tool = written(spy, operation_key="write:{word}")
    world = await open_world(tool, store=where)
    await world.submit(tool, {"word": "once", "count": 1})
    await purged(world)

    other = await world.submit(tool, {"word": "once", "count": 2}, call_id="c2", run="r2")

    assert (other.code, spy.count) == ("operation_conflict", 1)


async def test_what_provably_never_happened_may_still_be_done_and_goes_on_counting(
    where: str, open_world: OpenWorld
) -> None:
    answers = [placet.NotSent("no"), None]

    async def act() -> None:
        answer = answers.pop(0)
        if answer is not None:
            raise answer

    retry = placet.RetryPolicy(max_attempts=1)
    tool = acting(act, retry=retry)
    world = await open_world(tool, store=where)
    failed = await world.submit(tool, idempotency_key="k1")
    assert isinstance(failed, Failed)

    report = await purged(world)
    again = await world.submit(tool, call_id="c2", run="r2", idempotency_key="k1")

    assert counts(report)["operations"] == 1
    assert isinstance(again, Succeeded)
    effect = await world.effect()
    assert (effect.fence, effect.attempts, effect.state) == (2, 2, EffectState.COMMITTED)
    assert not effect.is_purged


async def test_an_unknown_effect_is_kept_however_old(where: str, open_world: OpenWorld) -> None:
    async def act() -> None:
        raise RuntimeError

    world = await open_world(acting(act), store=where)
    await world.submit("act")
    assert (await world.effect()).state is EffectState.UNKNOWN

    report = await purged(world, days=5_000)

    assert counts(report) == {"runs": 1}
    assert not (await world.effect()).is_purged


async def test_a_person_who_settles_a_purged_effect_is_refused_and_it_is_on_record(
    where: str, open_world: OpenWorld, spy: Spy
) -> None:
    tool = written(spy)
    world = await open_world(tool, store=where)
    await world.submit(tool, {"word": "once"})
    await purged(world)
    person = Principal.person("mara", tenant="acme", scopes=("effects.reconcile",))

    with pytest.raises(DecisionRefused):
        await world.gate.reconciler.settle_by_person(
            (await world.effect()).operation_key,
            Truth.ABSENT,
            by=person,
            looked_at=world.clock.now(),
            reason="seen_in_desk",
        )

    assert len(world.events("reconcile_refused")) == 1


async def test_nothing_of_what_was_said_is_left_in_the_file(tmp_path: Path, open_world: OpenWorld, spy: Spy) -> None:
    store = str(tmp_path / "placet.db")
    tool = written(spy, retention_seconds=30 * DAY)
    world = await open_world(tool, store=store)
    await world.submit(tool, {"word": "once"})
    before = await world.effect()
    assert before.sealed_result is not None

    world.clock.advance(31 * DAY)
    await world.gate.purger.purge(QUARTER, by=KEEPER)

    found = by_hand(store, "SELECT sealed_arguments, sealed_result FROM effects")
    assert before.sealed_arguments not in found[0] and found[0][1] is None


async def test_a_row_emptied_by_hand_does_not_pass_for_a_purged_one(
    tmp_path: Path, open_world: OpenWorld, spy: Spy
) -> None:
    store = str(tmp_path / "placet.db")
    tool = written(spy, operation_key="write:{word}")
    world = await open_world(tool, store=store)
    for word in ("kept", "purged"):
        await world.submit(tool, {"word": word}, call_id=word)
        if word == "kept":
            world.clock.advance(60 * DAY)
    await purged(world, days=31)
    (mark,) = by_hand(store, "SELECT sealed_arguments FROM effects WHERE owner = ''")[0]
    changed = "UPDATE effects SET owner = '', sealed_result = NULL, sealed_arguments = ? WHERE owner <> ''"
    by_hand(store, changed, mark)

    answers = [await world.submit(tool, {"word": word}, call_id=f"{word}-2") for word in ("kept", "purged")]

    told = {answer.result_unavailable for answer in answers if isinstance(answer, Replayed)}
    assert told == {"record_altered", "record_purged"}
    assert [event["detail"] for event in world.events("record_altered")] == ["result"]


# ---------------------------------------------------------------- whose retention


async def test_a_contract_says_how_long_what_it_did_is_kept(where: str, open_world: OpenWorld, spy: Spy) -> None:
    short = written(spy, name="short", retention_seconds=7 * DAY)
    long = written(spy, name="long", retention_seconds=3_650 * DAY)
    plain = written(spy, name="plain")
    world = await open_world(short, long, plain, store=where)
    for tool in (short, long, plain):
        await world.submit(tool, {"word": "once"}, call_id=tool.contract.name)

    seen: list[set[str]] = []
    for days in (8, 83):
        world.clock.advance(days * DAY)
        await world.gate.purger.purge(QUARTER, by=KEEPER)
        seen.append({effect.tool for effect in await world.effects() if effect.is_purged})

    assert seen == [{"short"}, {"short", "plain"}]
    digests = {written(spy, name="short", retention_seconds=kept).contract.digest for kept in (None, DAY, 7 * DAY)}
    assert digests == {short.contract.digest}, "it decides no meaning"


@pytest.mark.parametrize("seconds", [0, -1.0, DAY - 1, float("inf"), float("nan"), True, "90d"])
def test_less_than_a_day_or_no_number_is_no_retention(seconds: Any, spy: Spy) -> None:
    with pytest.raises(placet.PlacetError, match="one day or more"):
        written(spy, retention_seconds=seconds)
    with pytest.raises(MisuseError):
        Retention(seconds=seconds)
    with pytest.raises(ConfigurationError, match="audit_retention_seconds"):
        GateSettings(audit_retention_seconds=seconds)


async def test_operations_of_a_tool_that_is_not_here_are_left_unless_somebody_says_so(
    where: str, tmp_path: Path, open_world: OpenWorld, spy: Spy
) -> None:
    store, clock = str(tmp_path / "shared.db"), FakeClock()
    gone = written(spy, name="gone")
    first = await open_world(gone, store=store, clock=clock)
    await first.submit(gone, {"word": "once"})
    second = await open_world(written(spy, name="other"), store=store, clock=clock)

    report = await purged(second)
    left = await second.gate.purger.old(QUARTER, by=KEEPER)

    assert "operations" not in counts(report)
    assert [(kind.tool, kind.rows.count, kind.is_left) for kind in left if kind.tool] == [("gone", 1, True)]
    report = await second.gate.purger.purge(QUARTER, by=KEEPER, includes_unregistered=True)
    assert counts(report)["operations"] == 1


# ---------------------------------------------------------------- approvals


@pytest.fixture
def risky(spy: Spy) -> placet.Tool:
    return written(spy, name="pay", risk="high", approval="always", operation_key="pay:{word}")


async def approved(world: World, tool: placet.Tool) -> str:
    waiting = await world.submit(tool, {"word": "once"}, principal=ADMIN)
    assert isinstance(waiting, AwaitingApproval)
    await world.approve(waiting)
    return waiting.approval_id


@pytest.mark.req("B094")
@pytest.mark.parametrize("also", ["the approval alone", "and the operation's row is taken out"])
async def test_an_approval_that_was_spent_and_purged_is_worth_nothing_to_whoever_puts_it_back(
    tmp_path: Path, open_world: OpenWorld, spy: Spy, risky: placet.Tool, also: str
) -> None:
    """A writer of the database has kept the row of before it was spent, whose signature is good for ever."""
    store = str(tmp_path / "placet.db")
    world = await open_world(risky, store=store)
    await approved(world, risky)
    (kept,) = by_hand(store, "SELECT * FROM approvals")
    assert isinstance(await world.submit(risky, {"word": "once"}, principal=ADMIN), Succeeded)
    report = await purged(world)
    assert counts(report) == {"operations": 1, "runs": 1, "approvals": 1}
    assert by_hand(store, "SELECT count(*) FROM approvals") == [(0,)]

    by_hand(store, f"INSERT INTO approvals VALUES ({','.join('?' * len(kept))})", *kept)
    if also != "the approval alone":
        by_hand(store, "DELETE FROM effects")
    again = await world.submit(risky, {"word": "once"}, principal=ADMIN)

    assert spy.count == 1, "it acted once"
    if also == "the approval alone":
        assert isinstance(again, Replayed)
    else:
        assert isinstance(again, AwaitingApproval), "its own signed clock has run out: a person is asked anew"


async def test_an_approval_that_is_put_back_while_its_clock_is_turned_back_meets_the_fence_that_is_kept(
    tmp_path: Path, open_world: OpenWorld, spy: Spy
) -> None:
    store = str(tmp_path / "placet.db")
    answers = [placet.NotSent("no"), None]

    async def act() -> None:
        answer = answers.pop(0)
        spy()
        if answer is not None:
            raise answer

    tool = acting(act, risk="high", approval="always", retry=placet.RetryPolicy(max_attempts=1))
    world = await open_world(tool, store=store)
    waiting = await world.submit(tool, principal=ADMIN)
    await world.approve(waiting)
    (kept,) = by_hand(store, "SELECT * FROM approvals")
    asked_at = world.clock.now()
    assert isinstance(await world.submit(tool, principal=ADMIN), Failed)
    await purged(world)

    by_hand(store, f"INSERT INTO approvals VALUES ({','.join('?' * len(kept))})", *kept)
    world.clock.advance((asked_at - world.clock.now()).total_seconds())
    again = await world.submit(tool, principal=ADMIN)

    assert isinstance(again, AwaitingApproval), "it names the dispatch that it was spent on"
    assert spy.count == 1


async def test_an_altered_approval_is_evidence_and_stays(
    tmp_path: Path, open_world: OpenWorld, risky: placet.Tool
) -> None:
    store = str(tmp_path / "placet.db")
    world = await open_world(risky, store=store)
    for word in ("once", "twice"):
        waiting = await world.submit(risky, {"word": word}, principal=ADMIN, call_id=word)
        await world.approve(waiting)
        await world.submit(risky, {"word": word}, principal=ADMIN, call_id=word)
    (first, _) = by_hand(store, "SELECT approval_id FROM approvals ORDER BY asked_at")
    by_hand(store, "UPDATE approvals SET question = replace(question, 'production', 'elsewhere'), asked_at = 0 "
            "WHERE approval_id = ?", *first)  # fmt: skip

    report = await purged(world)

    assert (counts(report)["approvals"], report.broken) == (1, 1)
    assert by_hand(store, "SELECT approval_id FROM approvals") == [first]


async def test_a_denial_stands_until_its_run_is_forgotten(
    where: str, open_world: OpenWorld, risky: placet.Tool
) -> None:
    world = await open_world(risky, store=where)
    await world.deny(await world.submit(risky, {"word": "once"}, principal=ADMIN))
    world.clock.advance(91 * DAY)
    refused = await world.submit(risky, {"word": "once"}, principal=ADMIN, call_id="c2")
    assert isinstance(refused, Refused) and refused.code == "approval_denied"

    report = await world.gate.purger.purge(QUARTER, by=KEEPER)
    assert counts(report) == {}, "the run goes on"
    report = await purged(world)
    assert counts(report) == {"runs": 1, "approvals": 1}
    assert isinstance(await world.submit(risky, {"word": "once"}, principal=ADMIN), AwaitingApproval)


# ---------------------------------------------------------------- rows that stay in the way


async def test_a_row_that_cannot_be_read_stays_and_keeps_no_other(
    tmp_path: Path, open_world: OpenWorld, spy: Spy
) -> None:
    store = str(tmp_path / "placet.db")
    tool = written(spy)
    world = await open_world(tool, store=store)
    for index in range(3):
        await world.submit(tool, {"word": "once"}, call_id=f"c{index}")
        world.clock.advance(1.0)
    by_hand(store, "UPDATE effects SET send_by = 9223372036854775807 WHERE call_id = 'c0'")

    report = await purged(world)

    assert (counts(report)["operations"], report.broken) == (2, 1)
    assert by_hand(store, "SELECT call_id FROM effects WHERE owner <> ''") == [("c0",)]


# ---------------------------------------------------------------- rounds


async def test_a_round_goes_by_the_settings_and_takes_a_bounded_bite(
    where: str, open_world: OpenWorld, spy: Spy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("placet.engine.purging._ROUND_ROWS", 3)
    tool = written(spy)
    settings = GateSettings(retention_seconds=30 * DAY, audit_retention_seconds=400 * DAY)
    world = await open_world(tool, store=where, settings=settings)
    for index in range(5):
        await world.submit(tool, {"word": "once"}, call_id=f"c{index}")
    assert counts(await world.gate.purger.purge_round()) == {}
    world.clock.advance(31 * DAY)

    rounds = [counts(await world.gate.purger.purge_round()) for _ in range(3)]

    assert rounds == [{"operations": 3, "runs": 1}, {"operations": 2}, {}]
    told = [(event["subject"], event.get("decided_by")) for event in world.events("records_purged")]
    assert set(told) == {("retention", None)}


async def test_without_settings_a_round_forgets_nothing(where: str, open_world: OpenWorld, spy: Spy) -> None:
    tool = written(spy)
    world = await open_world(tool, store=where)
    await world.submit(tool, {"word": "once"})
    world.clock.advance(5_000 * DAY)

    assert counts(await world.gate.purger.purge_round()) == {}


# ---------------------------------------------------------------- leave


@pytest.mark.parametrize("by", [OPERATOR, NOBODY, Principal.agent("a", tenant="ops", scopes=("ops.purge",))])
async def test_purging_needs_a_person_and_its_own_scope(open_world: OpenWorld, spy: Spy, by: Principal) -> None:
    tool = written(spy)
    world = await open_world(tool)
    await world.submit(tool, {"word": "once"})
    world.clock.advance(91 * DAY)
    purger = world.gate.purger

    for refused in (
        purger.purge(QUARTER, by=by),
        purger.old(QUARTER, by=by),
        purger.hold("all", by=by),
        purger.lift("all", by=by),
        purger.holds(by=by),
    ):
        with pytest.raises(DecisionRefused) as caught:
            await refused
        assert caught.value.code in ("not_a_person", "scope_missing")
    assert len(world.events("purge_refused")) == 5
    assert not (await world.effect()).is_purged


async def test_what_is_no_retention_no_person_or_no_scope_is_misuse(open_world: OpenWorld) -> None:
    world = await open_world()
    purger: Any = world.gate.purger
    for misused in (
        purger.purge(90, by=KEEPER),
        purger.purge(QUARTER, by="kim"),
        purger.hold("tenant", by=KEEPER),
        purger.hold("tenant:", by=KEEPER),
        purger.hold(7, by=KEEPER),
        purger.holds(by=None),
    ):
        with pytest.raises(MisuseError):
            await misused


async def test_what_is_purged_is_on_record_in_the_tenant_it_was_of(
    where: str, open_world: OpenWorld, risky: placet.Tool
) -> None:
    world = await open_world(risky, store=where)
    await approved(world, risky)
    await world.submit(risky, {"word": "once"}, principal=ADMIN)

    await purged(world)

    told = [(e["tenant"], e["subject"], e["reasons"]) for e in world.events("records_purged")]
    assert told == [("acme", "kim", [f"{kind}:1"]) for kind in ("operations", "runs", "approvals")]


async def test_names_of_claims_that_may_never_land_are_forgotten_and_it_is_on_record(
    where: str, open_world: OpenWorld, spy: Spy
) -> None:
    world = await open_world(written(spy), store=where)
    for number in range(3):
        await world.gate.store.void("acme", OperationKey(f"key-{number}"), Token(f"token-{number}"))
    kept = await world.gate.purger.purge(QUARTER, by=KEEPER)
    assert counts(kept) == {}

    report = await purged(world)

    assert counts(report) == {"tokens": 3}
    told = [(e["tenant"], e["subject"], e["reasons"]) for e in world.events("records_purged")]
    assert told == [("unknown", "kim", ["tokens:3"])]
    assert counts(await world.gate.purger.purge(QUARTER, by=KEEPER)) == {}


async def test_api_keys_that_ended_long_ago_go_and_what_somebody_altered_stays(
    where: str, open_world: OpenWorld
) -> None:
    world = await open_world(store=where)
    store, purger = world.gate.store, world.gate.purger
    api_keys = ApiKeys(store=store, keys=purger._keys, chronicle=purger._chronicle, secrets=SystemSecrets())
    by = Principal.person("olga", tenant="acme", scopes=("api_keys.manage",))
    made = [
        await api_keys.create(f"bot-{n}", by=by, lifetime_seconds=days * DAY) for n, days in enumerate((1, 1, 3, 400))
    ]
    revoked = await api_keys.create("bot-r", by=by, lifetime_seconds=400 * DAY)
    await api_keys.revoke(revoked.key.api_key_id, by=by)
    seen = await store.credential(CredentialKind.API_KEY, made[1].key.api_key_id)
    assert seen is not None
    altered = replace(seen.row, body=seen.row.body.replace(b"viewer", b"admin"))
    await store.put_credentials(CredentialChange(changed=((altered, seen.row.mac),)), events=())

    young = await purged(world, days=89)
    report = await purged(world, days=3)

    assert (counts(young), counts(report)) == ({}, {"api_keys": 2}), "of a day, and the one that was revoked at once"
    assert report.broken == 1, "what somebody altered is evidence"
    left = await store.credentials(CredentialKind.API_KEY, tenant="acme", limit=10)
    assert {row.subject for row in left} == {"bot-1", "bot-2", "bot-3"}
    assert ("acme", "kim", ["api_keys:2"]) in [
        (event["tenant"], event["subject"], event["reasons"]) for event in world.events("records_purged")
    ]


async def test_a_person_forgets_all_of_it_at_once_however_much_it_is(open_world: OpenWorld, spy: Spy) -> None:
    world = await open_world(written(spy))
    for number in range(150):
        await world.gate.store.void("acme", OperationKey(f"key-{number}"), Token(f"token-{number}"))
    world.clock.advance(91 * DAY)

    assert counts(await world.gate.purger.purge(QUARTER, by=KEEPER)) == {"tokens": 150}


# ---------------------------------------------------------------- looking first


async def test_what_would_go_is_counted_and_nothing_is_changed(where: str, open_world: OpenWorld, spy: Spy) -> None:
    tool = written(spy, retention_seconds=30 * DAY)
    world = await open_world(tool, store=where)
    began = world.clock.now()
    for index in range(3):
        await world.submit(tool, {"word": "once"}, call_id=f"c{index}")
    world.clock.advance(91 * DAY)
    before = (await world.effects(), world.bodies())

    found = await world.gate.purger.old(Retention(seconds=60 * DAY, audit_seconds=60 * DAY), by=KEEPER)

    assert {(kind.kept.value, kind.rows.count) for kind in found} == {
        ("operations", 3), ("runs", 1), ("approvals", 0), ("tokens", 0), ("api_keys", 0), ("events", 6)
    }  # fmt: skip
    operations = found[0]
    assert operations == OldKind(
        kept=Kept.OPERATIONS, tenant="acme", tool="write", retention_seconds=30 * DAY, rows=operations.rows
    )
    assert operations.rows.oldest_at is not None and operations.rows.oldest_at - began < timedelta(seconds=1)
    assert (await world.effects(), world.bodies()) == before


# ---------------------------------------------------------------- holds


@pytest.mark.parametrize("scope", ["all", "tenant:acme"])
async def test_what_is_held_is_not_forgotten_until_the_hold_is_lifted(
    where: str, open_world: OpenWorld, spy: Spy, scope: str
) -> None:
    tool = written(spy)
    world = await open_world(tool, store=where)
    await world.submit(tool, {"word": "once"})
    both = Retention(seconds=90 * DAY, audit_seconds=90 * DAY)
    world.clock.advance(91 * DAY)
    assert await world.gate.purger.hold(scope, by=KEEPER)
    assert not await world.gate.purger.hold(scope, by=KEEPER)

    held = await world.gate.purger.purge(both, by=KEEPER)
    assert counts(held) == {}
    (hold,) = await world.gate.purger.holds(by=KEEPER)
    assert (hold.scope, hold.held_by, hold.held_at) == (scope, "kim", hold.held_at)

    await world.gate.purger.lift(scope, by=KEEPER)
    with pytest.raises(NotFound):
        await world.gate.purger.lift(scope, by=KEEPER)
    assert counts(await world.gate.purger.purge(both, by=KEEPER)) == {"operations": 1, "runs": 1, "events": 2}
    told = [(e["kind"], e["tenant"], e["decided_by"]) for e in world.events("hold_set", "hold_lifted")]
    tenant = "unknown" if scope == "all" else "acme"
    assert told == [("hold_set", tenant, "kim"), ("hold_lifted", tenant, "kim")]


async def test_a_hold_of_one_tenant_keeps_no_other(where: str, open_world: OpenWorld, spy: Spy) -> None:
    tool = written(spy)
    world = await open_world(tool, store=where)
    elsewhere = Principal.agent("agent-operator", tenant="globex", roles=("operator",), scopes=("ops.write",))
    for principal in (OPERATOR, elsewhere):
        await world.submit(tool, {"word": "once"}, principal=principal)
    await world.gate.purger.hold("tenant:acme", by=KEEPER)

    await purged(world)

    assert {(e.tenant, e.is_purged) for e in await world.effects()} == {("acme", False), ("globex", True)}

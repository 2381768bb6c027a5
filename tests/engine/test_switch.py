"""The stop switch: who may stop what, who may lift it, what a stop reports, and what goes on meanwhile."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import apsw
import pytest

import placet
from placet import Principal
from placet.engine.switch import RunningEffect, StopReport, StopView, Switch
from placet.errors import DecisionRefused, MisuseError, NotFound, StoreUnavailable
from placet.model.effect import EffectState
from placet.model.outcome import AwaitingApproval, Refused, Succeeded
from placet.model.stopping import StopKind, StopLeave, StopScope, scope_of_key
from tests.engine.conftest import APPROVER, OPERATOR, STRANGER, OpenWorld, Spy, acting, looked_up, written

OLGA = Principal.person("olga", tenant="acme", scopes=("ops.stop",))
OSCAR = Principal.person("oscar", tenant="acme", scopes=("ops.stop",))
ROOT = Principal.person("root", tenant="operators", scopes=("ops.stop.all",))
THEIRS = Principal.person("gina", tenant="globex", scopes=("ops.stop",))
AGENT = Principal.agent("bot", tenant="acme", roles=("admin",), scopes=("ops.stop", "ops.stop.all"))
SECRET = "customer 4711 was charged twice"


def scopes(views: tuple[StopView, ...]) -> list[str]:
    return [view.scope.key for view in views]


async def refused(work: Any) -> str:
    with pytest.raises(DecisionRefused) as caught:
        await work
    assert caught.value.may_have_acted is False
    return caught.value.code


# ---------------------------------------------------------------- who may


@pytest.mark.parametrize("words", ["tenant", "tool:write", "run:r1"])
async def test_a_person_with_the_scope_stops_its_own_tenant_and_what_is_in_it(
    open_world: OpenWorld, spy: Spy, where: str, words: str
) -> None:
    world = await open_world(written(spy), store=where)

    await world.gate.switch.stop(words, by=OLGA)
    stopped = await world.submit("write", {"word": "x"})
    elsewhere = await world.submit("write", {"word": "x"}, principal=STRANGER)
    await world.gate.switch.resume(words, by=OSCAR)
    again = await world.submit("write", {"word": "x"}, call_id="c2")

    assert (type(stopped), stopped.code, stopped.may_have_acted, stopped.retryable) == (Refused, "stopped", False, True)
    assert (type(elsewhere), type(again), spy.count) == (Succeeded, Succeeded, 2)


@pytest.mark.parametrize("person", [AGENT, Principal.person("nora", tenant="acme", scopes=("effects.reconcile",))])
async def test_without_the_scope_or_for_an_agent_nothing_is_stopped_or_lifted(
    open_world: OpenWorld, spy: Spy, where: str, person: Principal
) -> None:
    world = await open_world(written(spy), store=where)
    await world.gate.switch.stop("tenant", by=OLGA)
    code = "not_a_person" if person is AGENT else "scope_missing"

    assert await refused(world.gate.switch.stop("run:r9", by=person)) == code
    assert await refused(world.gate.switch.resume("tenant", by=person)) == code

    assert await world.gate.store.stops() == ("tenant:acme",)
    told = world_words(world.events("stop_refused"), "subject", "detail", "reasons", "decided_by")
    assert told == [(person.subject, code, ["run"], person.subject), (person.subject, code, ["tenant"], person.subject)]


@pytest.mark.parametrize(
    "scope",
    [
        StopScope.everything(),
        StopScope.of_tenant("globex"),
        StopScope.of_tool("write"),
        StopScope.of_tool("write", tenant="globex"),
        StopScope.of_run("r1", tenant="globex"),
        "all",
        "tenant:globex",
    ],
)
async def test_what_reaches_other_tenants_needs_more_than_ones_own_scope(
    open_world: OpenWorld, spy: Spy, where: str, scope: StopScope | str
) -> None:
    world = await open_world(written(spy), store=where)

    assert await refused(world.gate.switch.stop(scope, by=OLGA)) == "scope_missing"
    assert await world.gate.store.stops() == ()
    await world.gate.switch.stop(scope, by=ROOT)
    assert await refused(world.gate.switch.resume(scope, by=OLGA)) == "scope_missing"
    assert len(await world.gate.store.stops()) == 1
    stopped = await world.submit("write", {"word": "x"}, principal=STRANGER)

    assert (stopped.code, spy.count) == ("stopped", 0)


async def test_a_refusal_is_the_same_whether_the_other_tenant_exists(open_world: OpenWorld, spy: Spy) -> None:
    world = await open_world(written(spy))
    await world.submit("write", {"word": "x"}, principal=STRANGER)

    words = []
    for tenant in ("globex", "nowhere"):
        with pytest.raises(DecisionRefused) as caught:
            await world.gate.switch.stop(StopScope.of_tenant(tenant), by=OLGA)
        words.append((str(caught.value), caught.value.code))

    assert words[0] == words[1]


async def test_a_tenant_cannot_lift_what_was_stopped_for_it_and_may_add_its_own(
    open_world: OpenWorld, spy: Spy, where: str
) -> None:
    world = await open_world(written(spy), store=where)
    await world.gate.switch.stop("tenant", by=OLGA)
    await world.gate.switch.stop("tenant:acme", by=ROOT, reason="not paid")
    await world.gate.switch.stop("tenant", by=OLGA)

    with pytest.raises(DecisionRefused) as more_leave:
        await world.gate.switch.resume("tenant", by=OLGA)
    assert (more_leave.value.code, more_leave.value.hint) == (
        "stopped_with_more_leave",
        "Somebody with the scope ops.stop.all has to do it.",
    )
    assert await world.gate.store.stops() == ("tenant:acme",)
    await world.gate.switch.resume("tenant:acme", by=ROOT)

    assert await world.gate.store.stops() == ()


async def test_lifting_one_stop_leaves_another_that_halts_the_same(open_world: OpenWorld, spy: Spy) -> None:
    world = await open_world(written(spy))
    await world.gate.switch.stop("all", by=ROOT)
    await world.gate.switch.stop("tool:write", by=OLGA)

    await world.gate.switch.resume("all", by=ROOT)

    assert (await world.submit("write", {"word": "x"})).code == "stopped"


async def test_what_is_not_stopped_cannot_be_lifted(open_world: OpenWorld, where: str) -> None:
    world = await open_world(store=where)

    with pytest.raises(NotFound):
        await world.gate.switch.resume("tool:write", by=OLGA)

    assert world.events("resumed") == []


# ---------------------------------------------------------------- what is seen


async def test_a_person_sees_what_halts_its_tenant_and_nothing_of_others(open_world: OpenWorld, where: str) -> None:
    world = await open_world(store=where)
    switch = world.gate.switch
    await switch.stop("tool:pay", by=OLGA, reason=SECRET)
    await switch.stop("run:r1", by=THEIRS, reason="theirs")
    await switch.stop("all", by=ROOT, reason="storm")

    mine, theirs = await switch.stops(by=OSCAR), await switch.stops(by=THEIRS)
    everyone = await switch.stops(by=ROOT)
    bystander = await switch.stops(by=APPROVER)

    assert scopes(mine) == ["all", 'tool:["acme","pay"]'] or scopes(mine) == ['tool:["acme","pay"]', "all"]
    by_scope = {view.scope.key: view for view in mine}
    tool, everything = by_scope['tool:["acme","pay"]'], by_scope["all"]
    assert (tool.stopped_by, tool.reason, tool.may_lift) == ("olga", SECRET, True)
    assert (everything.stopped_by, everything.reason, everything.may_lift) == (None, None, False)
    assert everything.lifted_with is StopLeave.DEPLOYMENT
    assert set(scopes(theirs)) == {"all", 'run:["globex","r1"]'}
    assert {(view.stopped_by, view.reason) for view in everyone} == {
        ("olga", SECRET), ("gina", "theirs"), ("root", "storm")
    }  # fmt: skip
    assert {(view.stopped_by, view.reason, view.may_lift) for view in bystander} == {
        ("olga", None, False),
        (None, None, False),
    }
    assert await refused(switch.stops(by=AGENT)) == "not_a_person"


async def test_who_stopped_and_when_is_on_record_and_the_reason_is_nowhere_in_clear(
    open_world: OpenWorld, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = tmp_path / "placet.db"
    world = await open_world(store=str(store))

    await world.gate.switch.stop("run:r1", by=OLGA, reason=SECRET)
    await world.gate.switch.stop(StopScope.of_tool("pay"), by=ROOT, reason=SECRET)
    await world.gate.switch.resume("run:r1", by=OSCAR)

    events = world.events("stopped", "resumed")
    assert world_words(events, "kind", "tenant", "subject", "tool", "run_id", "detail", "reasons", "decided_by") == [
        ("stopped", "acme", "olga", "unknown", "r1", "run", ["leave:tenant"], "olga"),
        ("stopped", "unknown", "root", "pay", None, "tool", ["leave:deployment"], "root"),
        ("resumed", "acme", "oscar", "unknown", "r1", "run", ["leave:tenant"], "oscar"),
    ]
    assert {event["model_suggested"] for event in events} == {False}
    files = b"".join(path.read_bytes() for path in tmp_path.iterdir() if not path.name.endswith(".key"))
    assert SECRET.encode() not in files
    assert SECRET not in caplog.text


async def test_a_note_whose_reason_was_moved_or_altered_shows_none(open_world: OpenWorld, tmp_path: Path) -> None:
    store = tmp_path / "placet.db"
    world = await open_world(store=str(store))
    await world.gate.switch.stop("run:r1", by=OLGA, reason="one")
    await world.gate.switch.stop("run:r2", by=OLGA, reason="two")
    hand = apsw.Connection(str(store))
    hand.execute(
        "UPDATE stop_notes SET sealed_reason = (SELECT sealed_reason FROM stop_notes WHERE scope LIKE '%r2%') "
        "WHERE scope LIKE '%r1%'"
    )
    hand.close()

    views = {view.scope.name: view.reason for view in await world.gate.switch.stops(by=OLGA)}

    assert views == {"r1": None, "r2": "two"}


# ---------------------------------------------------------------- what a stop reports, and what goes on


async def test_a_stop_names_what_is_still_running_and_lets_it_settle(open_world: OpenWorld, where: str) -> None:
    inside, go = asyncio.Event(), asyncio.Event()

    async def slow() -> None:
        inside.set()
        await go.wait()

    world = await open_world(acting(slow), store=where)
    mine = asyncio.ensure_future(world.submit("act", run="r7"))
    await inside.wait()
    inside.clear()
    theirs = asyncio.ensure_future(world.submit("act", principal=STRANGER, run="r8"))
    await inside.wait()
    inside.clear()
    another = asyncio.ensure_future(world.submit("act", run="r9", call_id="c9"))
    await inside.wait()
    world.clock.advance(12.5)

    own = await world.gate.switch.stop("tenant", by=OLGA)
    everything = await world.gate.switch.stop("all", by=ROOT)
    other_run = await world.gate.switch.stop("run:r8", by=OLGA)
    one_run = await world.gate.switch.stop("run:r7", by=OLGA)
    go.set()
    outcomes = await asyncio.gather(mine, theirs, another)

    one = RunningEffect(tenant="acme", tool="act", run_id="r7", age_seconds=12.5)
    two = RunningEffect(tenant="globex", tool="act", run_id="r8", age_seconds=12.5)
    three = RunningEffect(tenant="acme", tool="act", run_id="r9", age_seconds=12.5)
    assert own.running_count == 2 and set(own.running) == {one, three}
    assert everything.running_count == 3 and set(everything.running) == {one, two, three}
    assert one_run == StopReport(scope=StopScope.of_run("r7", tenant="acme"), running_count=1, running=(one,))
    assert other_run == StopReport(scope=StopScope.of_run("r8", tenant="acme"), running_count=0, running=())
    assert [type(outcome) for outcome in outcomes] == [Succeeded] * 3


class Unlisted:
    """A store that cannot list effects, and does everything else."""

    def __init__(self, store: Any) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def effects(self, **_: object) -> object:
        raise StoreUnavailable("It takes too long.")


async def test_a_stop_that_took_hold_is_told_also_where_nobody_can_list_what_runs(
    open_world: OpenWorld, where: str
) -> None:
    inside, go = asyncio.Event(), asyncio.Event()

    async def slow() -> None:
        inside.set()
        await go.wait()

    world = await open_world(acting(slow), store=where)
    running = asyncio.ensure_future(world.submit("act"))
    await inside.wait()
    known: Any = world.gate.switch
    switch = Switch(store=Unlisted(world.gate.store), keys=known._keys, chronicle=known._chronicle)  # type: ignore[arg-type]

    report = await switch.stop("tenant", by=OLGA)

    go.set()
    await running
    assert (report.running_count, report.running) == (1, ())
    assert await world.gate.store.stops() == ("tenant:acme",)


async def test_a_further_attempt_is_not_begun_after_a_stop(open_world: OpenWorld, where: str) -> None:
    """Proven unsent, it ended as failed; nothing says that it ran, and it can be asked again after the resume."""
    attempts = 0

    async def busy() -> None:
        nonlocal attempts
        attempts += 1
        await world.gate.switch.stop("tool:act", by=OLGA)
        raise placet.NotSent

    world = await open_world(
        acting(busy, retry=placet.RetryPolicy(max_attempts=3, initial_delay_seconds=0.001)), store=where
    )

    outcome = await world.submit("act")

    assert (outcome.code, outcome.may_have_acted, attempts) == ("not_sent", False, 1)
    assert (await world.effect()).state is EffectState.FAILED


async def test_a_further_attempt_of_a_read_is_not_begun_after_a_stop(open_world: OpenWorld, where: str) -> None:
    looks = 0

    async def look() -> None:
        nonlocal looks
        looks += 1
        await world.gate.switch.stop("all", by=ROOT)
        raise placet.RemoteStatus(503)

    tool = acting(look, effect="read", retry=placet.RetryPolicy(max_attempts=3, initial_delay_seconds=0.001))
    world = await open_world(tool, store=where)

    outcome = await world.submit("act")

    assert (outcome.status, looks, outcome.may_have_acted) == ("failed", 1, False)


async def test_while_all_is_stopped_people_go_on_asking_deciding_looking_and_settling(
    open_world: OpenWorld, spy: Spy, where: str
) -> None:
    async def vague() -> None:
        raise RuntimeError

    world = await open_world(written(spy, approval="always"), acting(vague), looked_up(spy), store=where)
    waiting = await world.submit("write", {"word": "x"})
    await world.submit("act", call_id="c2")
    person = Principal.person("paul", tenant="acme", scopes=("effects.reconcile", "approvals.decide"))
    await world.gate.switch.stop("all", by=ROOT)

    asked = await world.submit("write", {"word": "new"}, call_id="c3")
    await world.approve(waiting)
    held = await world.submit("write", {"word": "x"})
    (unknown,) = await world.gate.reconciler.effects(by=person, states=(EffectState.UNKNOWN,))
    settled = await world.gate.reconciler.settle_by_person(
        unknown.operation_key, "committed", by=person, looked_at=world.clock.now(), reason="seen"
    )
    await world.gate.switch.resume("all", by=ROOT)
    after = await world.submit("write", {"word": "x"})

    assert (type(asked), held.code, settled.state) == (AwaitingApproval, "stopped", EffectState.RECONCILED_COMMITTED)
    assert (type(after), spy.count) == (Succeeded, 1)


async def test_a_second_stop_of_the_same_scope_reports_and_changes_nothing(open_world: OpenWorld, where: str) -> None:
    world = await open_world(store=where)
    await world.gate.switch.stop("tenant", by=OLGA, reason="first")
    (before,) = await world.gate.switch.stops(by=OLGA)
    world.clock.advance(60)

    await world.gate.switch.stop("tenant", by=OSCAR, reason="second")

    assert await world.gate.switch.stops(by=OLGA) == (before,)


# ---------------------------------------------------------------- scopes


@pytest.mark.parametrize(
    "scope",
    [
        StopScope.everything(),
        StopScope.of_tenant('a","b'),
        StopScope.of_tenant("tool:[]"),
        StopScope.of_tool("pay"),
        StopScope.of_tool("pay", tenant='x"]'),
        StopScope.of_run("run:1", tenant="acme"),
        StopScope.of_run("é\u0001", tenant="ü"),
    ],
)
def test_a_scope_is_found_again_by_what_the_store_calls_it(scope: StopScope) -> None:
    assert scope_of_key(scope.key) == scope


@pytest.mark.parametrize(
    "key", ["", "all:x", "tenant:", "tool:", "tool:a b", 'tool:["a"]', "run:x", 'run:["a",1]', "x"]
)
def test_what_somebody_wrote_by_hand_is_no_scope(key: str) -> None:
    assert scope_of_key(key) is None


@pytest.mark.parametrize(
    "words",
    [
        "",
        "everything",
        "tool",
        "tool:",
        "tool:a b",
        "run",
        "run:",
        "tenant:",
        "all:",
        "upstream:X",
        "upstream:",
        "quarantine:x",
        7,
        None,
    ],
)
async def test_words_that_mean_nothing_stop_nothing(open_world: OpenWorld, words: object) -> None:
    world = await open_world()

    with pytest.raises(MisuseError):
        await world.gate.switch.stop(words, by=ROOT)  # type: ignore[arg-type]

    assert await world.gate.store.stops() == ()


@pytest.mark.parametrize(
    "made",
    [
        {"kind": StopKind.UPSTREAM},
        {"kind": StopKind.UPSTREAM, "name": "X"},
        {"kind": StopKind.QUARANTINE},
        {"kind": StopKind.QUARANTINE, "name": "x"},
        {"kind": StopKind.QUARANTINE, "name": "x@" + "0" * 31},
        {"kind": StopKind.QUARANTINE, "name": "x@" + "0" * 32, "tenant": "acme"},
        {"kind": StopKind.ALL, "tenant": "acme"},
        {"kind": StopKind.TENANT},
        {"kind": StopKind.RUN, "name": "r"},
        {"kind": StopKind.TOOL},
        {"kind": StopKind.TENANT, "tenant": "a", "name": "b"},
    ],
)
def test_a_scope_that_names_nothing_cannot_be_made(made: dict[str, Any]) -> None:
    with pytest.raises(MisuseError):
        StopScope(**made)


@pytest.mark.parametrize("reason", [7, "x" * 501, "\ud800", "not at the beginning: \ud800"])
async def test_a_reason_is_short_text(open_world: OpenWorld, reason: Any) -> None:
    world = await open_world()

    with pytest.raises(MisuseError):
        await world.gate.switch.stop("tenant", by=OLGA, reason=reason)


def test_the_switch_is_carried_for_programs_without_a_loop(spy: Spy) -> None:
    with placet.open(tools=[written(spy)], store=placet.MEMORY) as gate:
        report = gate.switch.stop("tenant", by=OLGA)
        stopped = gate.submit(
            {"call_id": "c1", "tool": "write", "arguments": {"word": "x"}}, principal=OPERATOR, run="r1"
        )
        seen = gate.switch.stops(by=OLGA)
        gate.switch.resume("tenant", by=OLGA)

    assert (report.running_count, stopped.code, len(seen)) == (0, "stopped", 1)


def world_words(events: list[dict[str, Any]], *names: str) -> list[tuple[Any, ...]]:
    return [tuple(event.get(name) for name in names) for event in events]


async def test_the_audit_of_stops_verifies(open_world: OpenWorld, where: str) -> None:
    world = await open_world(store=where)
    await world.gate.switch.stop("all", by=ROOT, reason="x")
    await world.gate.switch.resume("all", by=ROOT)

    assert (await world.gate.verify_audit()).holds
    assert json.loads(world.bodies().splitlines()[0])["kind"] == "stopped"

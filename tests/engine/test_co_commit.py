"""A handler that writes to the store's own database settles its effect in its own transaction: both, or neither."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import apsw
import pytest

import placet
from placet import GateSettings
from placet.adapters.stores.sqlite import connection as store_connection
from placet.errors import CoCommitNotCovered, CoCommitRefused, ContractError, MisuseError, ToolFailed
from placet.model.context import CallContext
from placet.model.effect import Effect, EffectState
from placet.model.outcome import Failed, InProgress, Outcome, Replayed, Succeeded, Unknown
from tests.engine.conftest import SCOPE, Moved, OpenWorld, World

CO_COMMITS = placet.Remote(co_commits=True)
Handler = Callable[["Shop", str, CallContext], Any]


@dataclass
class Shop:
    """A store file that holds the shop's payments too, and a tool whose handler a test writes."""

    path: Path
    handler: Handler
    raised: list[BaseException] = field(default_factory=list)
    world: World | None = None

    def tool(self, **options: Any) -> placet.Tool:
        def pay(order: str, call: CallContext) -> dict[str, str]:
            try:
                return self.handler(self, order, call)  # type: ignore[no-any-return]
            except BaseException as error:
                self.raised.append(error)
                raise

        settings: dict[str, Any] = {
            "effect": "write", "risk": "medium", "permission": SCOPE, "operation_key": "pay:{order}",
            "remote": CO_COMMITS,
        }  # fmt: skip
        return placet.tool(**(settings | options))(pay)

    async def opened(self, open_world: OpenWorld, *, world: World | None = None, **options: Any) -> World:
        how = {name: options.pop(name) for name in ("settings", "sinks", "metrics", "clock") if name in options}
        if world is not None:
            how["clock"] = world.clock
        self.world = await open_world(self.tool(**options), store=str(self.path), **how)
        connection(self.path).execute("CREATE TABLE IF NOT EXISTS payments (order_id TEXT PRIMARY KEY)")
        return self.world

    async def pay(self, order: str = "o-1", *, world: World | None = None, **how: Any) -> Outcome:
        asked = world or self.world
        assert asked is not None
        return await asked.submit("pay", {"order": order}, **how)

    @property
    def payments(self) -> list[str]:
        return [row[0] for row in connection(self.path).execute("SELECT order_id FROM payments ORDER BY 1")]

    async def effect(self) -> Effect:
        assert self.world is not None
        return await self.world.effect()


def connection(path: Path) -> apsw.Connection:
    opened = apsw.Connection(str(path))
    opened.set_busy_timeout(5_000)
    return opened


def settles(shop: Shop, order: str, call: CallContext) -> dict[str, str]:
    """As a user would write it."""
    database = connection(shop.path)
    with database:
        database.execute("INSERT INTO payments VALUES (?)", (order,))
        return call.co_commit(database, {"paid": order})


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(path=tmp_path / "shop.db", handler=settles)


def told(world: World) -> list[tuple[Any, ...]]:
    names = ("kind", "outcome", "detail", "error_type", "effect_state", "attempt", "fence")
    return [tuple(event.get(name) for name in names) for event in world.events("started", "completed")]


# ---------------------------------------------------------------- both


async def test_effect_and_ledger_commit_together_and_are_told_once(shop: Shop, open_world: OpenWorld) -> None:
    world = await shop.opened(open_world)
    before = world.gate.store.commits

    outcome = await shop.pay()

    assert type(outcome) is Succeeded and outcome.result == {"paid": "o-1"}
    assert shop.payments == ["o-1"]
    effect = await shop.effect()
    assert (effect.state, effect.reason, effect.fence) == (EffectState.COMMITTED, "co_committed", 1)
    assert effect.result_digest is not None
    assert told(world) == [
        ("started", None, None, None, None, 1, 1),
        ("completed", "success", "co_committed", None, "committed", 1, 1),
    ]
    assert world.completed()["result"]["field_count"] == 1 and "result_fingerprint" in world.completed()
    assert world.gate.store.commits - before == 2, "the claim, and the chaining; the settle is in the handler's own"


async def test_what_was_co_committed_is_replayed_and_not_done_again(shop: Shop, open_world: OpenWorld) -> None:
    await shop.opened(open_world)
    await shop.pay()

    outcome = await shop.pay(call_id="c2")

    assert type(outcome) is Replayed and outcome.result == {"paid": "o-1"}
    assert shop.payments == ["o-1"]


async def test_the_result_is_the_co_committed_one_whatever_is_returned_afterwards(
    shop: Shop, open_world: OpenWorld
) -> None:
    def handler(shop: Shop, order: str, call: CallContext) -> object:
        settles(shop, order, call)
        return object()

    shop.handler = handler
    await shop.opened(open_world)

    outcome = await shop.pay()

    assert type(outcome) is Succeeded and outcome.result == {"paid": "o-1"}


@pytest.mark.parametrize("error", [ValueError, placet.ToolRejected, placet.NotSent, SystemExit, KeyboardInterrupt])
async def test_a_handler_that_raises_after_its_commit_has_performed(
    shop: Shop, open_world: OpenWorld, error: type[BaseException]
) -> None:
    def handler(shop: Shop, order: str, call: CallContext) -> None:
        settles(shop, order, call)
        raise error("after the commit")

    shop.handler = handler
    world = await shop.opened(open_world)

    outcome = await shop.pay()

    assert type(outcome) is Succeeded and outcome.result == {"paid": "o-1"}
    assert shop.payments == ["o-1"]
    assert world.words() == ["started", "success"]


async def test_a_result_whose_record_is_altered_meanwhile_is_not_shown(shop: Shop, open_world: OpenWorld) -> None:
    def handler(shop: Shop, order: str, call: CallContext) -> object:
        settles(shop, order, call)
        return connection(shop.path).execute("UPDATE effects SET result_digest = 'x'").fetchall()

    shop.handler = handler
    await shop.opened(open_world)

    outcome = await shop.pay()

    assert type(outcome) is Succeeded
    assert (outcome.code, outcome.result_unavailable) == ("performed_result_unavailable", "record_altered")


# ---------------------------------------------------------------- neither


@pytest.mark.req("H037")
@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_handler_that_raises_before_its_commit_has_provably_done_nothing(
    shop: Shop, open_world: OpenWorld, when: str
) -> None:
    def handler(shop: Shop, order: str, call: CallContext) -> None:
        database = connection(shop.path)
        with database:
            database.execute("INSERT INTO payments VALUES (?)", (order,))
            if when == "after":
                call.co_commit(database, {"paid": order})
            raise ValueError("never mind")

    shop.handler = handler
    world = await shop.opened(open_world)

    outcome = await shop.pay()

    assert type(outcome) is Failed and outcome.code == "tool_failed"
    effect = await shop.effect()
    assert (effect.state, effect.reason, shop.payments) == (EffectState.FAILED, "raised_ValueError", [])
    assert told(world)[-1] == ("completed", "error", "raised_ValueError", "ValueError", "failed", 1, 1)

    shop.handler = settles
    assert type(await shop.pay(call_id="c2")) is Succeeded, "so it may be asked for again"
    assert shop.payments == ["o-1"]
    assert (await shop.effect()).fence == 2


async def test_a_refusal_of_the_handler_keeps_its_words(shop: Shop, open_world: OpenWorld) -> None:
    def handler(shop: Shop, order: str, call: CallContext) -> None:
        database = connection(shop.path)
        with database:
            call.co_commit(database, {"paid": order})
            raise placet.ToolRejected("no such order")

    shop.handler = handler
    await shop.opened(open_world)

    outcome = await shop.pay()

    assert type(outcome) is Failed and (outcome.code, outcome.words) == ("tool_rejected", "no such order")
    assert (await shop.effect()).state is EffectState.FAILED


async def test_a_handler_that_returns_after_a_rollback_has_done_nothing(shop: Shop, open_world: OpenWorld) -> None:
    def handler(shop: Shop, order: str, call: CallContext) -> dict[str, str]:
        database = connection(shop.path)
        database.execute("BEGIN")
        database.execute("INSERT INTO payments VALUES (?)", (order,))
        result = call.co_commit(database, {"paid": order})
        database.execute("ROLLBACK")
        return result

    shop.handler = handler
    world = await shop.opened(open_world)

    outcome = await shop.pay()

    assert type(outcome) is Failed and (outcome.code, outcome.retryable) == ("rolled_back", True)
    assert ((await shop.effect()).state, shop.payments) == (EffectState.FAILED, [])
    assert told(world)[-1] == ("completed", "error", "rolled_back", "RolledBack", "failed", 1, 1)
    with pytest.raises(ToolFailed):
        outcome.unwrap()


@pytest.mark.parametrize("result", [{"paid": 7}, "paid", {"paid": "x" * 70_000}, object()])
async def test_a_result_that_breaks_its_contract_is_refused_before_anything_is_settled(
    shop: Shop, open_world: OpenWorld, result: Any
) -> None:
    def handler(shop: Shop, order: str, call: CallContext) -> None:
        database = connection(shop.path)
        with database:
            database.execute("INSERT INTO payments VALUES (?)", (order,))
            call.co_commit(database, result)

    shop.handler = handler
    await shop.opened(open_world)

    outcome = await shop.pay()

    assert type(outcome) is Failed and outcome.code == "result_broken"
    effect = await shop.effect()
    assert (effect.state, shop.payments) == (EffectState.FAILED, [])
    assert effect.reason is not None and effect.reason.startswith("result_")
    (refusal,) = shop.raised
    assert type(refusal) is CoCommitRefused and refusal.hint and not refusal.may_have_acted
    assert refusal.tool == "pay"
    assert refusal.__cause__ is None and refusal.__context__ is None


async def test_within_one_attempt_a_transaction_that_was_rolled_back_may_be_tried_again(
    shop: Shop, open_world: OpenWorld
) -> None:
    def handler(shop: Shop, order: str, call: CallContext) -> dict[str, str]:
        database = connection(shop.path)
        database.execute("BEGIN")
        call.co_commit(database, {"paid": "first"})
        database.execute("ROLLBACK")
        return settles(shop, order, call)

    shop.handler = handler
    world = await shop.opened(open_world)

    outcome = await shop.pay()

    assert type(outcome) is Succeeded and outcome.result == {"paid": "o-1"}
    assert shop.payments == ["o-1"]
    assert world.words() == ["started", "success"]


async def test_within_one_attempt_nothing_commits_after_the_first_that_did(shop: Shop, open_world: OpenWorld) -> None:
    def handler(shop: Shop, order: str, call: CallContext) -> dict[str, str]:
        settles(shop, order, call)
        return settles(shop, "another", call)

    shop.handler = handler
    world = await shop.opened(open_world)

    outcome = await shop.pay()

    assert type(outcome) is Succeeded and outcome.result == {"paid": "o-1"}
    assert shop.payments == ["o-1"]
    assert world.words() == ["started", "success"]


# ---------------------------------------------------------------- attempts


def failing_at_first(shop: Shop, order: str, call: CallContext) -> dict[str, str]:
    database = connection(shop.path)
    with database:
        database.execute("INSERT INTO payments VALUES (?)", (order,))
        result = call.co_commit(database, {"paid": f"{order} at attempt {call.attempt}"})
        if call.attempt < 3:
            raise placet.NotSent if call.attempt == 1 else ValueError("never mind")
    return result


SOON = placet.RetryPolicy(max_attempts=3, initial_delay_seconds=0.001, max_delay_seconds=0.001)


async def test_an_attempt_whose_transaction_was_rolled_back_is_followed_by_another_where_the_contract_retries(
    shop: Shop, open_world: OpenWorld
) -> None:
    shop.handler = failing_at_first
    world = await shop.opened(open_world, effect="idempotent_write", retry=SOON)

    outcome = await shop.pay()

    assert type(outcome) is Succeeded and outcome.result == {"paid": "o-1 at attempt 3"}
    assert shop.payments == ["o-1"]
    assert world.words() == ["started", "error", "started", "error", "started", "success"]
    assert world.attempts() == [1, 1, 2, 2, 3, 3]


async def test_a_plain_write_is_tried_again_only_where_its_handler_says_that_nothing_happened(
    shop: Shop, open_world: OpenWorld
) -> None:
    shop.handler = failing_at_first
    world = await shop.opened(open_world, retry=SOON)

    outcome = await shop.pay()

    assert type(outcome) is Failed and outcome.code == "tool_failed", "and certainly nothing did, at no attempt"
    assert shop.payments == []
    assert world.words() == ["started", "error", "started", "error"]


async def test_an_attempt_that_committed_and_then_failed_is_not_followed_by_another(
    shop: Shop, open_world: OpenWorld
) -> None:
    def handler(shop: Shop, order: str, call: CallContext) -> None:
        settles(shop, order, call)
        raise ValueError("after the commit")

    shop.handler = handler
    world = await shop.opened(open_world, effect="idempotent_write", retry=SOON)

    assert type(await shop.pay()) is Succeeded
    assert shop.payments == ["o-1"]
    assert world.words() == ["started", "success"]


async def test_what_a_further_attempt_returns_without_co_committing_is_not_excused_by_the_one_before(
    shop: Shop, open_world: OpenWorld
) -> None:
    def handler(shop: Shop, order: str, call: CallContext) -> dict[str, str]:
        if call.attempt == 1:
            database = connection(shop.path)
            with database:
                call.co_commit(database, {"paid": order})
                raise placet.NotSent
        return {"paid": order}

    shop.handler = handler
    await shop.opened(open_world, retry=SOON)

    assert type(await shop.pay()) is Unknown


# ---------------------------------------------------------------- not covered: the ordinary rules


@pytest.mark.req("H037")
async def test_a_handler_that_returns_without_having_co_committed_leaves_it_unknown(
    shop: Shop, open_world: OpenWorld
) -> None:
    shop.handler = lambda shop, order, call: {"paid": order}
    world = await shop.opened(open_world)

    outcome = await shop.pay()

    assert type(outcome) is Unknown
    effect = await shop.effect()
    assert (effect.state, effect.reason) == (EffectState.UNKNOWN, "not_co_committed")
    assert effect.attempt_ended_at is not None
    assert told(world)[-1] == ("completed", "error", "not_co_committed", "NotCoCommitted", "unknown", 1, 1)
    assert type(await shop.pay(call_id="c2")) is Unknown


def without_a_transaction(shop: Shop) -> Any:
    return connection(shop.path)


def closed(shop: Shop) -> Any:
    database = connection(shop.path)
    database.close()
    return database


def of_another_file(shop: Shop) -> Any:
    database = connection(shop.path.with_name("other.db"))
    database.execute("BEGIN")
    return database


def in_memory(shop: Shop) -> Any:
    database = apsw.Connection(":memory:")
    database.execute("BEGIN")
    return database


def with_another_file(shop: Shop) -> Any:
    database = connection(shop.path)
    database.execute("ATTACH ? AS other", (str(shop.path.with_name("other.db")),))
    database.execute("BEGIN")
    return database


def not_synchronous(shop: Shop) -> Any:
    database = connection(shop.path)
    database.execute("PRAGMA synchronous = OFF")
    database.execute("BEGIN")
    return database


def of_the_standard_library(shop: Shop) -> Any:
    database = sqlite3.connect(":memory:", isolation_level=None)
    database.execute("BEGIN")
    return database


def none_at_all(shop: Shop) -> Any:
    return None


@pytest.mark.parametrize(
    ("begun", "reason"),
    [
        (without_a_transaction, "no_transaction"),
        (closed, "no_connection"),
        (of_another_file, "another_database"),
        (in_memory, "another_database"),
        (with_another_file, "other_files_attached"),
        (not_synchronous, "not_synchronous"),
        (of_the_standard_library, "not_an_apsw_connection"),
        (none_at_all, "not_an_apsw_connection"),
    ],
)
@pytest.mark.parametrize("is_swallowed", [False, True])
async def test_what_was_written_outside_a_transaction_of_the_store_is_unknown(
    shop: Shop, open_world: OpenWorld, begun: Callable[[Shop], Any], reason: str, is_swallowed: bool
) -> None:
    def handler(shop: Shop, order: str, call: CallContext) -> dict[str, str]:
        database = begun(shop)
        try:
            return call.co_commit(database, {"paid": order})  # type: ignore[no-any-return]
        except CoCommitNotCovered as refusal:
            shop.raised.append(refusal)
            if not is_swallowed:
                raise
            return {"paid": order}
        finally:
            if database is not None:
                database.close()

    shop.handler = handler
    await shop.opened(open_world)

    outcome = await shop.pay()

    assert type(outcome) is Unknown
    refusal = shop.raised[0]
    assert type(refusal) is CoCommitNotCovered and reason.replace("_", " ") in str(refusal)
    assert refusal.may_have_acted and refusal.hint and refusal.tool == "pay"
    assert refusal.__cause__ is None and refusal.__context__ is None
    effect = await shop.effect()
    expected = reason if is_swallowed else "raised_CoCommitNotCovered"
    assert (effect.state, effect.reason) == (EffectState.UNKNOWN, expected)


async def test_what_is_not_covered_stays_so_whatever_a_further_attempt_does(shop: Shop, open_world: OpenWorld) -> None:
    def handler(shop: Shop, order: str, call: CallContext) -> dict[str, str]:
        if call.attempt == 1:
            database = connection(shop.path)
            database.execute("INSERT INTO payments VALUES ('on its own')")
            call.co_commit(database, {"paid": order})
        raise placet.ToolRejected("no")

    shop.handler = handler
    await shop.opened(open_world, effect="idempotent_write", retry=SOON)

    assert type(await shop.pay()) is Unknown
    assert shop.payments == ["on its own"]
    assert (await shop.effect()).state is EffectState.UNKNOWN


@pytest.mark.parametrize("then", ["broken result", "rolled back", "committed"])
async def test_what_is_not_covered_stays_so_whatever_the_handler_does_next(
    shop: Shop, open_world: OpenWorld, then: str
) -> None:
    def handler(shop: Shop, order: str, call: CallContext) -> dict[str, str]:
        database = connection(shop.path)
        database.execute("INSERT INTO payments VALUES ('on its own')")
        with pytest.raises(CoCommitNotCovered):
            call.co_commit(database, {"paid": order})
        database.execute("BEGIN")
        call.co_commit(database, {"paid": 7 if then == "broken result" else order})
        database.execute("COMMIT" if then == "committed" else "ROLLBACK")
        return {"paid": order}

    shop.handler = handler
    await shop.opened(open_world)

    outcome = await shop.pay()

    assert type(outcome) is (Succeeded if then == "committed" else Unknown)
    assert shop.payments == ["on its own"]


async def test_a_tool_that_does_not_say_so_cannot_co_commit(shop: Shop, open_world: OpenWorld) -> None:
    await shop.opened(open_world, remote=placet.Remote())

    outcome = await shop.pay()

    assert type(outcome) is Unknown, "its insert was in no hands of ours"
    assert type(shop.raised[0]) is MisuseError and "co_commits=True" in shop.raised[0].hint
    assert shop.payments == []


# ---------------------------------------------------------------- deadlines


async def test_at_the_deadline_what_is_not_committed_never_will_be(shop: Shop, open_world: OpenWorld) -> None:
    release, ended = threading.Event(), threading.Event()

    def handler(shop: Shop, order: str, call: CallContext) -> dict[str, str]:
        assert release.wait(60)
        try:
            return settles(shop, order, call)
        finally:
            ended.set()

    shop.handler = handler
    world = await shop.opened(open_world, timeout_seconds=0.05)

    outcome = await shop.pay()
    release.set()
    assert await asyncio.to_thread(ended.wait, 60)

    assert type(outcome) is Failed and outcome.code == "rolled_back"
    assert shop.payments == []
    effect = await shop.effect()
    assert (effect.state, effect.reason) == (EffectState.FAILED, "deadline_passed")
    assert type(shop.raised[0]) is CoCommitRefused and "already settled" in str(shop.raised[0])
    assert told(world)[-1][:3] == ("completed", "timeout", "deadline_passed")


async def test_what_was_committed_before_the_deadline_is_told_at_the_deadline(
    shop: Shop, open_world: OpenWorld
) -> None:
    settled, release, clock = threading.Event(), threading.Event(), Moved()

    def handler(shop: Shop, order: str, call: CallContext) -> dict[str, str]:
        result = settles(shop, order, call)
        settled.set()
        release.wait(60)
        return result

    shop.handler = handler
    world = await shop.opened(open_world, silence_seconds=1.0, clock=clock)

    paying = asyncio.ensure_future(shop.pay())
    assert await asyncio.to_thread(settled.wait, 60)
    clock.advance(1.0)
    outcome = await paying
    release.set()

    assert type(outcome) is Succeeded and outcome.result == {"paid": "o-1"}
    assert world.words() == ["started", "success"]


async def test_an_attempt_beside_the_row_that_goes_on_keeps_the_row_from_being_called_absent_until_it_ends(
    shop: Shop, open_world: OpenWorld
) -> None:
    """What it wrote was in no transaction of the store, so that only its own end says when nothing more can come."""
    is_beside, release = threading.Event(), threading.Event()

    def handler(shop: Shop, order: str, call: CallContext) -> dict[str, str]:
        try:
            return call.co_commit(None, {"paid": order})  # type: ignore[no-any-return]
        except CoCommitNotCovered:
            is_beside.set()
            release.wait(30)
            raise

    shop.handler = handler
    world = await shop.opened(open_world)
    paying = asyncio.ensure_future(shop.pay())
    assert await asyncio.to_thread(is_beside.wait, 30)
    paying.cancel()
    with pytest.raises(asyncio.CancelledError):
        await paying
    effect = await shop.effect()
    assert (effect.state, effect.attempt_ended_at) == (EffectState.UNKNOWN, None)
    assert world.gate.reconciler.quiet_end(effect) is None
    world.clock.advance(7)

    release.set()
    async with asyncio.timeout(30):
        while (await shop.effect()).attempt_ended_at is None:
            await asyncio.sleep(0.005)

    effect = await shop.effect()
    assert (effect.state, effect.attempt_ended_at) == (EffectState.UNKNOWN, world.clock.now())


async def test_past_its_window_a_co_commit_is_not_even_tried(shop: Shop, open_world: OpenWorld) -> None:
    def handler(shop: Shop, order: str, call: CallContext) -> dict[str, str]:
        assert shop.world is not None
        shop.world.clock.advance(100.0)
        return settles(shop, order, call)

    shop.handler = handler
    await shop.opened(open_world)

    outcome = await shop.pay()

    assert type(outcome) is Failed and outcome.code == "not_sent"
    assert type(shop.raised[0]) is placet.NotSent
    assert shop.payments == []


@pytest.mark.parametrize("end", ["COMMIT", "ROLLBACK"])
async def test_while_a_transaction_that_settled_is_open_nobody_guesses(
    shop: Shop, open_world: OpenWorld, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    """It holds the write lock past its deadline; whoever asks meanwhile learns nothing, and afterwards the truth."""
    monkeypatch.setattr(store_connection, "BUSY_TIMEOUT_MILLISECONDS", 20)
    is_open, release, ended, clock = threading.Event(), threading.Event(), threading.Event(), Moved()

    def handler(shop: Shop, order: str, call: CallContext) -> None:
        database = connection(shop.path)
        database.execute("BEGIN")
        database.execute("INSERT INTO payments VALUES (?)", (order,))
        call.co_commit(database, {"paid": order})
        is_open.set()
        assert release.wait(60)
        database.execute(end)
        ended.set()

    shop.handler = handler
    world = await shop.opened(open_world, silence_seconds=1.0, clock=clock)

    paying = asyncio.ensure_future(shop.pay())
    assert await asyncio.to_thread(is_open.wait, 60)
    clock.advance(1.0)
    assert type(await paying) is Unknown
    release.set()
    assert await asyncio.to_thread(ended.wait, 60)
    async with asyncio.timeout(60):
        while (await shop.effect()).state is EffectState.DISPATCHED:
            world.clock.advance(2.0)
            await asyncio.sleep(0.01)

    is_done = end == "COMMIT"
    assert shop.payments == (["o-1"] if is_done else [])
    assert (await shop.effect()).state is (EffectState.COMMITTED if is_done else EffectState.FAILED)
    shop.handler = settles
    assert type(await shop.pay(call_id="c2")) is (Replayed if is_done else Succeeded)
    assert shop.payments == ["o-1"]


# ---------------------------------------------------------------- a lost owner, and one that was only slow


def paused(begun: threading.Event, release: threading.Event) -> Handler:
    """Begins its transaction only once it goes on, as SQLite's lock would keep everybody else out."""

    def handler(shop: Shop, order: str, call: CallContext) -> dict[str, str]:
        begun.set()
        assert release.wait(60)
        return settles(shop, order, call)

    return handler


SETTINGS = GateSettings(grace_seconds=0.05, lease_seconds=30.0)


@pytest.mark.parametrize("is_swallowed", [False, True])
async def test_a_slow_owner_whose_row_was_taken_over_commits_nothing(
    shop: Shop, open_world: OpenWorld, is_swallowed: bool
) -> None:
    begun, release = threading.Event(), threading.Event()
    slow = paused(begun, release)

    def handler(shop: Shop, order: str, call: CallContext) -> Any:
        try:
            return slow(shop, order, call)
        except BaseException:
            if is_swallowed:
                return {"paid": order}
            raise

    shop.handler = handler
    first = await shop.opened(open_world, timeout_seconds=300.0, settings=SETTINGS)
    asking = asyncio.ensure_future(shop.pay(timeout_seconds=300.0))
    assert await asyncio.to_thread(begun.wait, 10)
    other = await shop.opened(open_world, world=first, settings=SETTINGS)
    first.clock.advance(31.0)

    report = await other.gate.reconciler.recover()
    release.set()
    outcome = await asking

    assert (report.taken_over, report.absent, report.still_unknown) == (1, 1, 0)
    assert shop.payments == []
    effect = await shop.effect()
    assert (effect.state, effect.reason) == (EffectState.RECONCILED_ABSENT, "owner_lost")
    assert type(outcome) is (Unknown if is_swallowed else Failed)
    assert told(other)[-1] == ("completed", "error", "owner_lost", "OwnerLost", "reconciled_absent", 1, 1)

    shop.handler = settles
    assert type(await shop.pay(call_id="c2")) is Succeeded, "no person has to order it: nothing was done"
    assert shop.payments == ["o-1"]


async def test_a_slow_owner_whose_operation_was_done_by_another_adds_nothing(shop: Shop, open_world: OpenWorld) -> None:
    begun, release = threading.Event(), threading.Event()
    shop.handler = paused(begun, release)
    first = await shop.opened(open_world, timeout_seconds=300.0, settings=SETTINGS)
    asking = asyncio.ensure_future(shop.pay(timeout_seconds=300.0))
    assert await asyncio.to_thread(begun.wait, 10)
    shop.handler = settles
    other = await shop.opened(open_world, world=first, settings=SETTINGS)
    first.clock.advance(31.0)
    await other.gate.reconciler.recover()

    assert type(await shop.pay(world=other, call_id="c2")) is Succeeded
    release.set()
    outcome = await asking

    assert type(outcome) is InProgress, "another dispatch holds the operation; asking again tells what became of it"
    assert shop.payments == ["o-1"]
    assert type(await shop.pay(world=first, call_id="c3")) is Replayed


async def test_an_owner_whose_lease_is_over_commits_while_nobody_has_taken_the_row(
    shop: Shop, open_world: OpenWorld
) -> None:
    begun, release = threading.Event(), threading.Event()
    shop.handler = paused(begun, release)
    world = await shop.opened(open_world, timeout_seconds=300.0, settings=SETTINGS)
    asking = asyncio.ensure_future(shop.pay(timeout_seconds=300.0))
    assert await asyncio.to_thread(begun.wait, 10)
    world.clock.advance(31.0)
    release.set()

    assert type(await asking) is Succeeded
    assert shop.payments == ["o-1"]


async def test_a_refused_transaction_cannot_be_committed_and_the_next_one_can(
    shop: Shop, open_world: OpenWorld
) -> None:
    database: list[apsw.Connection] = []

    def handler(shop: Shop, order: str, call: CallContext) -> dict[str, str]:
        settles(shop, order, call)
        database.append(connection(shop.path))
        database[0].execute("BEGIN")
        database[0].execute("INSERT INTO payments VALUES ('again')")
        with pytest.raises(CoCommitRefused, match="already settled"):
            call.co_commit(database[0], {"paid": "again"})
        with pytest.raises(apsw.ConstraintError):
            database[0].execute("COMMIT")
        return {"paid": order}

    shop.handler = handler
    await shop.opened(open_world)

    assert type(await shop.pay()) is Succeeded
    assert shop.payments == ["o-1"]
    with database[0]:
        database[0].execute("INSERT INTO payments VALUES ('of another wish')")
    assert shop.payments == ["o-1", "of another wish"]


@pytest.mark.parametrize("why", ["changed since it was read", "locked by another"])
async def test_what_sqlite_does_not_take_is_refused_and_may_be_asked_again(
    shop: Shop, open_world: OpenWorld, why: str
) -> None:
    def handler(shop: Shop, order: str, call: CallContext) -> dict[str, str]:
        database, other = connection(shop.path), connection(shop.path)
        database.set_busy_timeout(0)
        with database:
            assert database.execute("SELECT * FROM payments").fetchall() == []
            other.execute("BEGIN IMMEDIATE")
            other.execute("INSERT INTO payments VALUES ('of another')")
            if why == "changed since it was read":
                other.execute("COMMIT")
            try:
                return call.co_commit(database, {"paid": order})
            finally:
                if other.in_transaction:
                    other.execute("ROLLBACK")

    shop.handler = handler
    await shop.opened(open_world)

    outcome = await shop.pay()

    assert type(outcome) is Failed and (outcome.code, outcome.retryable) == ("rolled_back", True)
    (refusal,) = shop.raised
    assert type(refusal) is CoCommitRefused and "store unavailable" in str(refusal)
    assert refusal.__cause__ is None and refusal.__context__ is None
    effect = await shop.effect()
    assert (effect.state, effect.reason) == (EffectState.FAILED, "store_unavailable")


async def test_the_handler_s_own_ways_with_its_connection_are_its_own(shop: Shop, open_world: OpenWorld) -> None:
    seen: list[str] = []

    def traced(cursor: Any, statement: str, bindings: Any) -> bool:
        seen.append(statement)
        return True

    def handler(shop: Shop, order: str, call: CallContext) -> dict[str, str]:
        database = connection(shop.path)
        database.row_trace = lambda cursor, row: dict(enumerate(row))
        database.exec_trace = traced
        with database:
            database.execute("INSERT INTO payments VALUES (?)", (order,))
            return call.co_commit(database, {"paid": order})

    shop.handler = handler
    await shop.opened(open_world)

    assert type(await shop.pay()) is Succeeded
    assert [statement for statement in seen if "effects" in statement or "unchained" in statement] == []


# ---------------------------------------------------------------- what is told, and where it cannot be


async def test_sinks_and_meters_hear_of_it_once(shop: Shop, open_world: OpenWorld) -> None:
    from prometheus_client import CollectorRegistry

    class Sink:
        name, is_required = "list", False

        def __init__(self) -> None:
            self.heard: list[tuple[str, str | None]] = []

        async def deliver(self, event: Any) -> None:
            self.heard.append((event.kind.value, event.outcome.value if event.outcome else None))

    registry, sink = CollectorRegistry(), Sink()
    world = await shop.opened(open_world, metrics=registry, sinks=[sink])

    await shop.pay()
    async with asyncio.timeout(60):
        while len(sink.heard) < 2:
            await asyncio.sleep(0.001)

    assert sink.heard == [("started", None), ("completed", "success")]
    labels = {"tool": "pay", "outcome": "success"}
    assert registry.get_sample_value("placet_tool_calls_total", labels) == 1.0
    assert registry.get_sample_value("placet_effects_settled_total", {"state": "committed"}) == 1.0
    assert registry.get_sample_value("placet_effects_settled_total", {"state": "failed"}) in (0.0, None)
    assert world.words() == ["started", "success"]


def coroutine_tool() -> placet.Tool:
    async def pay(order: str) -> str:
        return order

    return placet.tool(effect="write", risk="low", permission=SCOPE, remote=CO_COMMITS)(pay)


@pytest.mark.parametrize(
    ("where", "make", "hint"),
    [
        (placet.MEMORY, lambda shop: shop.tool(), "A store in memory has no transactions"),
        (placet.MEMORY, lambda shop: coroutine_tool(), "A store in memory has no transactions"),
        ("shop.db", lambda shop: coroutine_tool(), "as a plain function"),
        ("postgresql://localhost/shop", lambda shop: shop.tool(), "as a coroutine function"),
        ("postgres://localhost/shop", lambda shop: shop.tool(), "as a coroutine function"),
    ],
)
def test_a_tool_that_cannot_co_commit_in_the_store_is_refused_before_anything_is_made(
    shop: Shop, where: str, make: Callable[[Shop], placet.Tool], hint: str
) -> None:
    place = str(shop.path.parent / where) if where.endswith(".db") else where

    with pytest.raises(ContractError) as caught:
        placet.open(tools=[make(shop)], store=place)

    assert (caught.value.code, caught.value.tool) == ("co_commit_unfit", "pay")
    assert hint in caught.value.hint
    assert list(shop.path.parent.iterdir()) == []

"""Any order of claims, turns, words, take-overs, looks and clock jumps: the protocol's invariants hold on every store.

The reference is a dozen lines of its own. All stores run the same steps and have to answer alike.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections import Counter
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, ClassVar

import orjson
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from placet.adapters.keys import KeyRing
from placet.adapters.stores.chain import ChainLinker
from placet.adapters.stores.memory import MemoryStore
from placet.adapters.stores.postgres import PostgresStore
from placet.adapters.stores.sqlite import SqliteStore
from placet.adapters.telemetry.quiet import QuietMeter
from placet.engine.auditing import verify_store
from placet.model.audit import AuditOutcome, EventKind
from placet.model.effect import Effect, EffectState
from placet.model.identifiers import OperationKey, OwnerId, Token, WriterId
from placet.model.ledger import Claimed, Moved
from placet.ports.store import Store, nobody
from placet.testing.conformance import (
    LEASE_SECONDS,
    a_claim,
    a_reconciliation,
    a_settlement,
    a_step,
    a_turn,
    an_event,
)
from placet.testing.fakes import FakeClock
from tests.postgres.fixtures import Cluster, DatabaseClock
from tests.postgres.server import Server, binaries

KEYS = ("key-1", "key-2")
OPEN = (EffectState.PREPARED, EffectState.FAILED, EffectState.RECONCILED_ABSENT)
workers = st.integers(0, 3)
keys = st.sampled_from(KEYS)


class Interleavings(RuleBasedStateMachine):
    """Four workers and a reconciler, each acting on what it saw last, however long ago."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.folder = Path(tempfile.mkdtemp(prefix="placet-"))
        self.clock = self.make_clock()
        ring = KeyRing.ephemeral()
        self.linker = ChainLinker(ring)
        common: dict[str, Any] = {
            "keys": ring,
            "clock": self.clock,
            "writer": WriterId("w"),
            "meter": QuietMeter(),
            "heard": nobody,
        }
        self.stores: list[Store] = [MemoryStore(**common), *self.make_stores(common)]
        self.tokens = 0
        self.sent: dict[tuple[str, int], Effect] = {}
        """What each worker holds of each key: the row as its claim or turn wrote it."""
        self.seen: dict[str, Effect] = {}
        """What the reconciler saw of each key last."""
        self.fences: Counter[str] = Counter()
        self.final: dict[str, Effect] = {}

    def make_clock(self) -> FakeClock:
        return FakeClock()

    def make_stores(self, common: dict[str, Any]) -> list[Store]:
        """Those that are compared with the one in memory."""
        return [SqliteStore(self.folder / "placet.db", **common)]

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.loop.run_until_complete(work)

    def ask(self, verb: str, *args: Any, **kwargs: Any) -> Any:
        """The answer all stores give."""
        answers = [self.run(getattr(store, verb)(*args, **kwargs)) for store in self.stores]
        assert all(answer == answers[0] for answer in answers)
        return answers[0]

    async def kinds(self, store: Store) -> list[str]:
        return [orjson.loads(event.body)["kind"] async for event in store.chained()]

    def row(self, key: str) -> Effect | None:
        row: Effect | None = self.ask("effect", "acme", OperationKey(key))
        return row

    # ------------------------------------------------------------ workers

    @rule(key=keys, worker=workers, stale=st.integers(-1, 1))
    def claim(self, key: str, worker: int, stale: int) -> None:
        row = self.row(key)
        fence = max(0, (row.fence if row else 0) + (stale if row else 0))
        self.tokens += 1
        command = a_claim(
            key, token=f"t-{self.tokens}", fence=fence, owner=OwnerId(f"o-{worker}"), ends_by_itself=worker != 3,
            step=a_step(f"call-{self.tokens}", max_steps=10_000),
        )  # fmt: skip
        answer = self.ask("claim", command)
        wins = row is None or (row.state in OPEN and row.fence == fence)
        assert isinstance(answer, Claimed) == wins
        if wins:
            self.sent[key, worker] = answer.effect
            assert self.ask("claim", command) == answer

    @rule(key=keys, worker=workers)
    def turn(self, key: str, worker: int) -> None:
        if (mine := self.sent.get((key, worker))) is None:
            return
        row = self.row(key)
        answer = self.ask("turn", a_turn(mine))
        holds = row is not None and row.state is EffectState.DISPATCHED and row.fence == mine.fence
        assert isinstance(answer, Moved) == (holds and row.attempt == mine.attempt)
        if isinstance(answer, Moved):
            self.sent[key, worker] = answer.effect

    @rule(
        key=keys,
        worker=workers,
        word=st.sampled_from([EffectState.COMMITTED, EffectState.FAILED, EffectState.UNKNOWN]),
        has_ended=st.booleans(),
        repeats=st.booleans(),
    )
    def settle(self, key: str, worker: int, word: EffectState, has_ended: bool, repeats: bool) -> None:
        if (mine := self.sent.get((key, worker))) is None:
            return
        row = self.row(key)
        assert row is not None
        command = a_settlement(mine, word, attempt_has_ended=has_ended)
        answer = self.ask("settle", command)
        is_mine = (row.fence, row.token) == (mine.fence, mine.token)
        is_news = is_mine and (
            (row.state is EffectState.DISPATCHED and row.attempt == mine.attempt)
            or (row.state, word) == (EffectState.UNKNOWN, EffectState.COMMITTED)
        )
        assert (isinstance(answer, Moved) and answer.is_news) == is_news
        if repeats and isinstance(answer, Moved):
            assert self.ask("settle", command) == Moved(effect=answer.effect, is_news=False)

    @rule(worker=workers)
    def heartbeat(self, worker: int) -> None:
        self.ask("heartbeat", OwnerId(f"o-{worker}"), lease_seconds=LEASE_SECONDS)

    @rule(key=keys)
    def void_a_token_that_never_claimed(self, key: str) -> None:
        self.tokens += 1
        token = Token(f"t-{self.tokens}")
        assert self.ask("void", "acme", OperationKey(key), token)
        assert not isinstance(self.ask("claim", a_claim(key, token=token, fence=self.fences[key])), Claimed)

    # ------------------------------------------------------------ recovery

    @rule(key=keys)
    def see(self, key: str) -> None:
        if (row := self.row(key)) is not None:
            self.seen[key] = row

    @rule(key=keys)
    def take_over(self, key: str) -> None:
        if (seen := self.seen.get(key)) is None:
            return
        row = self.row(key)
        assert row is not None
        closing = an_event(EventKind.COMPLETED, outcome=AuditOutcome.UNKNOWN, attempt=seen.attempt, fence=seen.fence)
        answer = self.ask("take_over", seen, (closing,))
        may = row.state is EffectState.DISPATCHED and (row.fence, row.attempt) == (seen.fence, seen.attempt)
        assert isinstance(answer, Moved) == (may and row.lease_until <= self.clock.now())

    @rule(key=keys)
    def note_a_death(self, key: str) -> None:
        if (seen := self.seen.get(key)) is not None:
            self.ask("owner_died", seen)

    @rule(key=keys, truth=st.sampled_from([EffectState.RECONCILED_COMMITTED, EffectState.RECONCILED_ABSENT]))
    def reconcile(self, key: str, truth: EffectState) -> None:
        if (seen := self.seen.get(key)) is None:
            return
        row = self.row(key)
        assert row is not None
        answer = self.ask("reconcile", a_reconciliation(seen, truth, looked_at=self.clock.now()))
        if isinstance(answer, Moved) and answer.is_news:
            assert (row.state, row.fence) == (EffectState.UNKNOWN, seen.fence)
            if truth is EffectState.RECONCILED_ABSENT:
                assert row.ends_by_itself or row.attempt_ended_at is not None
                assert self.clock.now() > row.send_by

    @rule(seconds=st.sampled_from([0.0, 1.0, LEASE_SECONDS - 0.5, LEASE_SECONDS, 500.0, -20.0]))
    def jump(self, seconds: float) -> None:
        self.clock.advance(seconds)

    # ------------------------------------------------------------ what always holds

    @invariant()
    def fences_only_grow_and_what_is_committed_never_changes(self) -> None:
        for key in KEYS:
            if (row := self.row(key)) is None:
                continue
            assert row.fence >= self.fences[key]
            self.fences[key] = row.fence
            if key in self.final:
                assert row == self.final[key]
            elif row.state.is_committed:
                self.final[key] = row

    @invariant()
    def at_most_one_worker_holds_a_live_dispatch(self) -> None:
        for key in KEYS:
            row = self.row(key)
            holders = {
                mine.token for (each, _), mine in self.sent.items()
                if each == key and row is not None and row.state is EffectState.DISPATCHED
                and (mine.fence, mine.token) == (row.fence, row.token)
            }  # fmt: skip
            assert len(holders) == (row is not None and row.state is EffectState.DISPATCHED)

    @invariant()
    def every_started_attempt_is_open_or_completed_once(self) -> None:
        rows = [self.row(key) for key in KEYS]
        still_open = sum(row is not None and row.state is EffectState.DISPATCHED for row in rows)
        for store in self.stores:
            kinds = Counter(self.run(self.kinds(store)))
            assert kinds["started"] - kinds["completed"] == still_open

    def teardown(self) -> None:
        for store in self.stores:
            report = self.run(verify_store(store, self.linker))
            assert report.holds
            self.run(store.close())
        self.loop.close()
        shutil.rmtree(self.folder)


TestInterleavings = Interleavings.TestCase
TestInterleavings.settings = settings(
    max_examples=settings.default.max_examples // 4,
    stateful_step_count=40,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)


class InterleavingsOnPostgres(Interleavings):
    """The same on a server, whose clock follows the steps' clock."""

    clusters: ClassVar[list[Cluster]] = []

    def make_clock(self) -> FakeClock:
        if not self.clusters:
            version, folder = next(iter(binaries().items()))
            server = Server(folder)
            self.clusters.append(Cluster(version, server.url(), server))
        self.database = self.clusters[0].database(own_clock=True)
        return DatabaseClock(self.database)

    def make_stores(self, common: dict[str, Any]) -> list[Store]:
        return [PostgresStore(self.database.address(), **common)]

    def teardown(self) -> None:
        super().teardown()
        self.clusters[0].drop(self.database)


@pytest.mark.exhaustive
class TestInterleavingsOnPostgres(InterleavingsOnPostgres.TestCase):
    settings = settings(TestInterleavings.settings, max_examples=settings.default.max_examples // 12)

    @classmethod
    def tearDownClass(cls) -> None:
        for cluster in InterleavingsOnPostgres.clusters:
            cluster.close()
        InterleavingsOnPostgres.clusters.clear()

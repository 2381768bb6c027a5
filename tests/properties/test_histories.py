"""Any history of two processes, their deaths, lost answers, late requests and clocks: nothing acts twice."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import orjson
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

import placet
from placet.adapters.stores.chain import ChainLinker
from placet.engine.auditing import verify_store
from placet.engine.settling import Truth
from placet.model.approval import ApprovalState
from placet.model.effect import EffectState
from placet.model.outcome import Outcome, Replayed, Succeeded
from tests.at_once import at_once, each_at_once
from tests.properties.histories import AGENT, PERSON, PROPOSALS, Process, World

slots = st.integers(0, 1)
numbers = st.integers(0, len(PROPOSALS) - 1)
COMMAND_ENDS = ("applied", "applied", "applied", "applied", "unheard", "lost", "refused", "dies before", "dies after")
HANDLER_ENDS = (
    *("acts", "acts", "acts unheard", "acts and breaks", "on its way", "is lost", "not sent", "rejected", "dies"),
)


class Histories(RuleBasedStateMachine):
    """On a store in memory; a subclass has a file."""

    has_file = False

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="placet-"))
        self.world = World(self.folder if self.has_file else None)
        self.seen = 0

    def alive(self, slot: int) -> Process:
        if self.world.processes[slot].is_dead:
            self.world.processes[slot] = self.world.start()
        return self.world.processes[slot]

    def gate(self, slot: int) -> placet.Gate:
        gate = self.alive(slot).gate
        assert gate is not None
        return gate

    # ------------------------------------------------------------ what proposers, people and recovery do

    @rule(slot=slots, number=numbers, call=st.integers(0, 2), commands=st.integers(0, 5))
    def submit(self, slot: int, number: int, call: int, commands: int) -> None:
        tool, arguments = PROPOSALS[number]
        proposal = {"call_id": f"c{number}.{call}", "tool": tool, "arguments": arguments}
        self.world.begin(self.alive(slot), self.gate(slot).submit(proposal, principal=AGENT, run="run-1"))
        self.commands_go_well(commands)

    @rule(slot=slots, number=numbers, call=st.integers(0, 2), how=st.sampled_from(HANDLER_ENDS))
    def submit_and_see_the_handler_end(self, slot: int, number: int, call: int, how: str) -> None:
        before = len(self.world.handlers)
        self.submit(slot, number, call, 8)
        if len(self.world.handlers) > before:
            self.world.answer_handler(self.world.handlers[-1], how)

    @rule(slot=slots)
    def approve_whatever_waits(self, slot: int) -> None:
        gate = self.gate(slot)
        process = self.alive(slot)
        states = (ApprovalState.PENDING,)
        waiting = self.world.run_freely(process, gate.store.approvals("acme", states=states, limit=10))
        for approval in waiting:
            self.world.run_freely(process, self._approved(gate, approval.question.approval_id))

    async def _approved(self, gate: placet.Gate, approval_id: str) -> None:
        view = await gate.desk.show(approval_id, by=PERSON)
        await gate.desk.approve(approval_id, digest=view.digest, by=PERSON)

    @rule(slot=slots, commands=st.integers(0, 9))
    def recover(self, slot: int, commands: int) -> None:
        self.world.begin(self.alive(slot), self.gate(slot).reconciler.recover())
        self.commands_go_well(commands)

    @rule(slot=slots)
    def the_lease_of_one_runs_out_and_the_other_looks(self, slot: int) -> None:
        """It lives, works and believes to hold what it had claimed."""
        cut_off, other = self.alive(1 - slot), self.alive(slot)
        cut_off.is_cut_off = True
        self.world.advance(4.0)
        self.world.advance(7.0)
        self.world.run_freely(other, self.gate(slot).reconciler.recover())
        cut_off.is_cut_off = False

    @rule(slot=slots, number=numbers)
    def a_person_says_what_the_remote_shows(self, slot: int, number: int) -> None:
        if (key := self.world.key_of(number)) is None:
            return
        truth = Truth.COMMITTED if self.world.acts[f"acme/{key}"] else Truth.ABSENT
        said = self.gate(slot).reconciler.settle_by_person(
            key, truth, by=PERSON, looked_at=self.world.clock.now(), reason="seen"
        )
        self.world.run_freely(self.alive(slot), refused(said))

    # ------------------------------------------------------------ what the world does

    @precondition(lambda self: self.world.commands)
    @rule(index=st.integers(0, 9), how=st.sampled_from(COMMAND_ENDS))
    def a_command_ends(self, index: int, how: str) -> None:
        self.world.carry_out(self.world.commands[index % len(self.world.commands)], how)

    @precondition(lambda self: self.world.commands)
    @rule(count=st.integers(2, 8))
    def commands_go_well(self, count: int) -> None:
        """In the order they were given."""
        for _ in range(count):
            if self.world.commands:
                self.world.carry_out(self.world.commands[0], "applied")
                self.world.check()

    @precondition(lambda self: self.world.handlers)
    @rule(index=st.integers(0, 3), how=st.sampled_from(HANDLER_ENDS))
    def a_handler_ends(self, index: int, how: str) -> None:
        self.world.answer_handler(self.world.handlers[index % len(self.world.handlers)], how)

    @precondition(lambda self: self.world.on_its_way)
    @rule(index=st.integers(0, 3))
    def a_late_request_arrives(self, index: int) -> None:
        self.world.arrive(index % len(self.world.on_its_way))

    @rule(seconds=st.sampled_from([0.01, 0.6, 0.6, 4.0, 8.5]))
    def time_passes(self, seconds: float) -> None:
        self.world.advance(seconds)

    @rule(seconds=st.sampled_from([-20.0, 3.0, 60.0]))
    def somebody_sets_the_clock(self, seconds: float) -> None:
        self.world.jump(seconds)

    @precondition(lambda self: self.world.handlers)
    @rule(slot=slots)
    def a_process_dies(self, slot: int) -> None:
        self.world.kill(self.world.processes[slot])

    # ------------------------------------------------------------ what always holds

    @invariant()
    def rows_move_as_the_table_says_and_tell_the_truth(self) -> None:
        self.world.check()

    @invariant()
    def outcomes_tell_the_truth(self) -> None:
        for _, outcome in self.world.outcomes[self.seen :]:
            if isinstance(outcome, Succeeded | Replayed):
                assert self.world.acts[f"acme/{outcome.operation_key}"] == 1, outcome
        self.seen = len(self.world.outcomes)

    def teardown(self) -> None:
        try:
            self._everything_is_settled_in_the_end()
        finally:
            self.world.close()
            shutil.rmtree(self.folder)

    def _everything_is_settled_in_the_end(self) -> None:
        """Both processes die; a third looks after what they left, without anybody's help."""
        for process in self.world.processes:
            self.world.kill(process)
        last = self.world.start()
        assert last.gate is not None
        for _ in range(8):
            self.world.advance(40.0)
            self.world.run_freely(last, last.gate.reconciler.recover())
            self.world.check()
        rows = self.world.rows()
        assert {row.state for row in rows.values()} <= {
            *(EffectState.COMMITTED, EffectState.FAILED, EffectState.PREPARED),
            *(EffectState.RECONCILED_COMMITTED, EffectState.RECONCILED_ABSENT),
        }
        self._books_balance(last, rows)

    def _books_balance(self, last: Process, rows: dict[str, Any]) -> None:
        assert last.gate is not None
        store = last.gate.store
        report = at_once(verify_store(store, ChainLinker(self.world.ring)))
        assert (report.breaks, report.unpaired) == ((), 0)
        pairs: Counter[tuple[Any, ...]] = Counter()
        dispatches: Counter[str] = Counter()
        for event in each_at_once(store.chained()):
            body = orjson.loads(event.body)
            if body["kind"] in ("started", "completed"):
                name = tuple(body.get(part) for part in ("run_id", "call_id", "attempt", "fence", "operation"))
                pairs[name] += 1 if body["kind"] == "started" else -1
                dispatches[body["kind"]] += bool(body["fence"])
        assert set(pairs.values()) <= {0}
        assert dispatches["started"] == sum(row.attempts for row in rows.values())
        states = tuple(ApprovalState)
        approvals = self.world.run_freely(last, store.approvals("acme", states=states, limit=100))
        spent = [each for each in approvals if each.state is ApprovalState.SPENT]
        assert len(spent) == sum(row.fence for row in rows.values() if row.tool == "refund")


async def refused(work: Any) -> Outcome | None:
    """People are told when it is too early; that changes nothing."""
    try:
        await work
    except placet.PlacetError:
        return None
    return None


class HistoriesOnFile(Histories):
    has_file = True


TRIES = settings.default.max_examples
COMMON = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow, HealthCheck.filter_too_much]}
TestHistories = Histories.TestCase
TestHistories.settings = settings(max_examples=TRIES // 3, stateful_step_count=50, **COMMON)
TestHistoriesOnFile = HistoriesOnFile.TestCase
TestHistoriesOnFile.settings = settings(max_examples=TRIES // 8, stateful_step_count=50, **COMMON)

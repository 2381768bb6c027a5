"""A remote is left alone after so many faults in a row, looked at by few, and trusted again when they found it well."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from math import inf

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, rule

from placet.model.attempt import Answered, CallerLeft, DeadlinePassed, Raised, Rejected, Report, Returned, Unsent
from placet.model.contract import Breaker
from placet.rules import breaker as rules
from placet.rules.breaker import Circuit, CircuitState, Health, LeftAlone, Permit

THREE = Breaker(faults=3, within_seconds=60.0, open_seconds=30.0, probes=1)
ILL, WELL, NO_WORD = Health.ILL, Health.WELL, Health.NO_WORD


def after(breaker: Breaker, *words: tuple[float, Health], circuit: Circuit | None = None) -> Circuit:
    """The circuit after attempts, each let through and heard at its instant."""
    circuit = circuit or Circuit()
    for now, word in words:
        circuit, permit = rules.ask_leave(circuit, breaker, now=now)
        assert not isinstance(permit, LeftAlone), (now, word)
        circuit = rules.heard(circuit, breaker, permit, word, now=now)
    return circuit


def leave(circuit: Circuit, breaker: Breaker, *, now: float) -> Permit | LeftAlone:
    return rules.ask_leave(circuit, breaker, now=now)[1]


# ---------------------------------------------------------------- what an attempt says


@pytest.mark.parametrize(
    ("report", "word"),
    [
        (Returned(value=1), WELL),
        (Rejected(message="no"), WELL),
        (Answered(status=400, retry_after=None), WELL),
        (Answered(status=404, retry_after=None), WELL),
        (Answered(status=408, retry_after=None), ILL),
        (Answered(status=429, retry_after="5"), ILL),
        (Answered(status=499, retry_after=None), WELL),
        (Answered(status=500, retry_after=None), ILL),
        (Answered(status=503, retry_after=None), ILL),
        (Unsent(), NO_WORD),
        (Unsent(is_handlers_word=True), ILL),
        (Unsent(is_handlers_word=True, is_late=True), ILL),
        (Raised(error_type="ConnectionError"), ILL),
        (DeadlinePassed(has_ended=True), ILL),
        (DeadlinePassed(has_ended=False), ILL),
        (CallerLeft(has_ended=True), NO_WORD),
        (CallerLeft(has_ended=False), NO_WORD),
    ],
    ids=lambda value: str(value) if isinstance(value, Health) else repr(value),
)
def test_only_what_speaks_of_the_remote_speaks_against_it(report: Report, word: Health) -> None:
    assert rules.health(report, had_its_time=True) is word


@pytest.mark.parametrize(
    ("report", "word"),
    [
        (Unsent(is_handlers_word=True, is_late=True), NO_WORD),
        (Unsent(is_handlers_word=True), ILL),
        (DeadlinePassed(has_ended=True), NO_WORD),
    ],
    ids=["too late", "not sent", "deadline"],
)
def test_what_did_not_leave_in_the_time_that_a_caller_left_for_it_says_nothing_of_the_remote(
    report: Report, word: Health
) -> None:
    assert rules.health(report, had_its_time=False) is word


def test_a_caller_without_patience_says_nothing_about_the_remote() -> None:
    assert rules.health(DeadlinePassed(has_ended=True), had_its_time=False) is NO_WORD


# ---------------------------------------------------------------- closed


def test_so_many_faults_in_a_row_open_it_and_one_fewer_do_not() -> None:
    two = after(THREE, (0.0, ILL), (1.0, ILL))
    assert two.state is CircuitState.CLOSED

    three = after(THREE, (2.0, ILL), circuit=two)
    assert (three.state, three.since) == (CircuitState.OPEN, 2.0)
    assert leave(three, THREE, now=2.0) == LeftAlone(retry_after_seconds=30.0)


def test_an_answer_between_faults_begins_anew_and_silence_does_not() -> None:
    assert after(THREE, (0, ILL), (1, ILL), (2, WELL), (3, ILL), (4, ILL)).state is CircuitState.CLOSED
    assert after(THREE, (0, ILL), (1, ILL), (2, NO_WORD), (3, ILL)).state is CircuitState.OPEN


def test_faults_further_apart_than_the_window_are_not_in_a_row() -> None:
    assert after(THREE, (0.0, ILL), (30.0, ILL), (60.0, ILL)).state is CircuitState.OPEN
    assert after(THREE, (0.0, ILL), (30.0, ILL), (60.1, ILL)).state is CircuitState.CLOSED
    assert after(THREE, (0.0, ILL), (30.0, ILL), (60.1, ILL), (90.0, ILL)).state is CircuitState.OPEN


def test_what_is_remembered_of_faults_is_bounded() -> None:
    circuit = Circuit()
    for second in range(1000):
        circuit = after(THREE, (second * 31.0, ILL), circuit=circuit)
        assert len(circuit.faults_at) < THREE.faults


def test_a_healthy_remote_costs_no_change_at_all() -> None:
    circuit = Circuit()
    permitted, permit = rules.ask_leave(circuit, THREE, now=1.0)
    assert isinstance(permit, int)
    assert permitted is circuit
    assert rules.heard(circuit, THREE, Permit(permit), WELL, now=1.0) is circuit
    assert rules.give_back(circuit, Permit(permit)) is circuit


def test_a_word_of_an_attempt_from_before_the_change_changes_nothing() -> None:
    circuit = Circuit()
    _, slow = rules.ask_leave(circuit, THREE, now=0.0)
    assert not isinstance(slow, LeftAlone)
    opened = after(THREE, (0, ILL), (1, ILL), (2, ILL))
    for word in Health:
        assert rules.heard(opened, THREE, slow, word, now=3.0) == opened
    half_open, _ = rules.ask_leave(opened, THREE, now=32.0)
    for word in Health:
        assert rules.heard(half_open, THREE, slow, word, now=33.0) == half_open
    assert rules.give_back(half_open, slow) == half_open


# ---------------------------------------------------------------- open, half open


def test_nothing_is_let_through_until_its_time_is_over() -> None:
    opened = after(THREE, (0, ILL), (1, ILL), (2, ILL))
    assert leave(opened, THREE, now=31.5) == LeftAlone(retry_after_seconds=0.5)
    assert not isinstance(leave(opened, THREE, now=32.0), LeftAlone)


def test_only_an_open_circuit_stays_open_and_only_until_its_time_is_over() -> None:
    opened = after(THREE, (0, ILL), (1, ILL), (2, ILL))
    assert rules.stays_open(opened, THREE, until=31.9)
    assert not rules.stays_open(opened, THREE, until=32.0)
    assert not rules.stays_open(Circuit(), THREE, until=1.0)
    assert not rules.stays_open(rules.ask_leave(opened, THREE, now=32.0)[0], THREE, until=33.0)


def test_a_clock_that_went_back_asks_for_no_longer_than_the_whole_time() -> None:
    opened = after(THREE, (100, ILL), (100, ILL), (100, ILL))
    assert leave(opened, THREE, now=0.0) == LeftAlone(retry_after_seconds=30.0)


def test_few_probes_go_first_and_nobody_beside_them() -> None:
    two = Breaker(faults=1, within_seconds=60.0, open_seconds=30.0, probes=2)
    circuit = after(two, (0, ILL))
    circuit, first = rules.ask_leave(circuit, two, now=30.0)
    circuit, second = rules.ask_leave(circuit, two, now=30.0)
    assert circuit.state is CircuitState.HALF_OPEN
    assert leave(circuit, two, now=30.0) == LeftAlone(retry_after_seconds=None)
    assert not isinstance(first, LeftAlone)
    assert not isinstance(second, LeftAlone)

    circuit = rules.heard(circuit, two, first, WELL, now=31.0)
    assert leave(circuit, two, now=31.0) == LeftAlone(retry_after_seconds=None)
    circuit = rules.heard(circuit, two, second, WELL, now=32.0)
    assert (circuit.state, circuit.faults_at) == (CircuitState.CLOSED, ())


def test_a_probe_that_found_it_well_makes_room_for_the_next() -> None:
    two = Breaker(faults=1, within_seconds=60.0, open_seconds=30.0, probes=2)
    circuit = after(two, (0, ILL), (30.0, WELL))
    assert (circuit.state, circuit.probing, circuit.well) == (CircuitState.HALF_OPEN, 0, 1)
    assert after(two, (31.0, WELL), circuit=circuit).state is CircuitState.CLOSED


def test_one_probe_that_meets_a_fault_opens_it_again_for_the_whole_time() -> None:
    opened = after(THREE, (0, ILL), (1, ILL), (2, ILL))
    again = after(THREE, (40.0, ILL), circuit=opened)
    assert (again.state, leave(again, THREE, now=40.0)) == (CircuitState.OPEN, LeftAlone(retry_after_seconds=30.0))


def test_a_probe_that_ends_without_a_word_makes_room_for_the_next() -> None:
    opened = after(THREE, (0, ILL), (1, ILL), (2, ILL))
    circuit, probe = rules.ask_leave(opened, THREE, now=32.0)
    assert not isinstance(probe, LeftAlone)
    circuit = rules.heard(circuit, THREE, probe, NO_WORD, now=33.0)
    assert leave(circuit, THREE, now=33.0) == LeftAlone(retry_after_seconds=None)
    circuit = rules.give_back(circuit, probe)
    assert circuit.state is CircuitState.HALF_OPEN
    assert not isinstance(leave(circuit, THREE, now=33.0), LeftAlone)


def test_a_permit_that_is_given_back_lets_one_more_through_and_no_more() -> None:
    two = Breaker(faults=1, within_seconds=60.0, open_seconds=30.0, probes=2)
    circuit = after(two, (0.0, ILL))
    for _ in range(2):
        circuit, permit = rules.ask_leave(circuit, two, now=30.0)
        assert not isinstance(permit, LeftAlone)
    circuit, _ = rules.ask_leave(rules.give_back(circuit, permit), two, now=31.0)

    assert leave(circuit, two, now=31.0) == LeftAlone(retry_after_seconds=None)


def test_a_clock_that_fails_opens_nothing() -> None:
    assert after(THREE, *[(inf, ILL)] * 5).state is CircuitState.CLOSED


def test_only_a_closed_circuit_without_recent_faults_remembers_nothing() -> None:
    assert rules.remembers_nothing(Circuit(), THREE, now=0.0)
    assert not rules.remembers_nothing(after(THREE, (0.0, ILL)), THREE, now=60.0)
    assert rules.remembers_nothing(after(THREE, (0.0, ILL)), THREE, now=60.1)
    opened = after(THREE, (0, ILL), (1, ILL), (2, ILL))
    assert not rules.remembers_nothing(opened, THREE, now=9999.0)
    assert not rules.remembers_nothing(rules.ask_leave(opened, THREE, now=9999.0)[0], THREE, now=9999.0)


def test_a_recent_fault_is_one_of_the_time_before_now_whatever_the_clock_began_with() -> None:
    late = after(THREE, (1000.0, ILL))
    assert not rules.remembers_nothing(late, THREE, now=1060.0)
    assert rules.remembers_nothing(late, THREE, now=1060.5)
    early = after(THREE, (-1000.0, ILL))
    assert rules.remembers_nothing(early, THREE, now=0.0)


def test_each_change_of_state_counts_begins_its_time_and_forgets_what_was_before() -> None:
    assert Circuit() == Circuit(
        state=CircuitState.CLOSED, epoch=0, faults_at=(), since=0.0, probing=0, well=0
    )  # as the first is, all are: closed since ever
    one = after(THREE, (1.0, ILL))
    assert one == Circuit(faults_at=(1.0,))
    opened = after(THREE, (2.0, ILL), (3.0, ILL), circuit=one)
    assert opened == Circuit(state=CircuitState.OPEN, epoch=1, since=3.0)
    half_open, permit = rules.ask_leave(opened, THREE, now=40.0)
    assert (half_open, permit) == (Circuit(state=CircuitState.HALF_OPEN, epoch=2, since=40.0, probing=1), 2)
    closed = after(THREE, (40.0, WELL), circuit=opened)
    assert closed == Circuit(epoch=3, since=40.0)


def test_states_and_words_are_told_by_these_names() -> None:
    assert [str(state) for state in CircuitState] == ["closed", "open", "half_open"]
    assert [str(word) for word in Health] == ["well", "ill", "no_word"]


# ---------------------------------------------------------------- any sequence


@dataclass(frozen=True)
class Out:
    """An attempt on its way. `change`: how many changes of state there had been when it was let through."""

    permit: Permit
    change: int


class AnySequence(RuleBasedStateMachine):
    """Against a model that keeps whole histories: attempts begin and end in any order, and time passes."""

    out = Bundle("out")

    @initialize(faults=st.integers(1, 4), probes=st.integers(1, 3))
    def begin(self, faults: int, probes: int) -> None:
        self.breaker = Breaker(faults=faults, within_seconds=10.0, open_seconds=5.0, probes=probes)
        self.circuit = Circuit()
        self.now = 0.0
        self.changes = 0
        self.state = CircuitState.CLOSED
        self.since = 0.0
        self.in_a_row: deque[float] = deque()
        self.probes_out: set[int] = set()
        self.found_well = 0
        self.count = 0

    def become(self, state: CircuitState) -> None:
        self.state, self.since, self.changes = state, self.now, self.changes + 1
        self.in_a_row.clear()
        self.probes_out.clear()
        self.found_well = 0

    @rule(seconds=st.sampled_from([0.0, 0.5, 4.9, 5.0, 10.0, 11.0]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @rule(target=out)
    def ask(self) -> tuple[Out, int] | None:
        self.circuit, answer = rules.ask_leave(self.circuit, self.breaker, now=self.now)
        if self.state is CircuitState.OPEN and self.now - self.since >= self.breaker.open_seconds:
            self.become(CircuitState.HALF_OPEN)
        if self.state is CircuitState.OPEN:
            assert isinstance(answer, LeftAlone)
            assert answer.retry_after_seconds == pytest.approx(self.since + self.breaker.open_seconds - self.now)
            return None
        if self.state is CircuitState.HALF_OPEN:
            if len(self.probes_out) + self.found_well >= self.breaker.probes:
                assert answer == LeftAlone(retry_after_seconds=None)
                return None
            self.probes_out.add(self.count)
        assert not isinstance(answer, LeftAlone)
        self.count += 1
        return Out(answer, self.changes), self.count - 1

    @rule(attempt=consumes(out), word=st.sampled_from(Health))
    def ends(self, attempt: tuple[Out, int] | None, word: Health) -> None:
        if attempt is None:
            return
        permit, number = attempt
        before = self.circuit
        self.circuit = rules.heard(self.circuit, self.breaker, permit.permit, word, now=self.now)
        gives_back = word is Health.NO_WORD
        if gives_back:
            self.circuit = rules.give_back(self.circuit, permit.permit)
        if permit.change != self.changes:
            assert self.circuit == before
            return
        self.probes_out.discard(number)
        match self.state, word:
            case CircuitState.CLOSED, Health.WELL:
                self.in_a_row.clear()
            case CircuitState.CLOSED, Health.ILL:
                self.in_a_row.append(self.now)
                recent = [at for at in self.in_a_row if self.now - at <= self.breaker.within_seconds]
                if len(recent) >= self.breaker.faults:
                    self.become(CircuitState.OPEN)
            case CircuitState.HALF_OPEN, Health.ILL:
                self.become(CircuitState.OPEN)
            case CircuitState.HALF_OPEN, Health.WELL:
                self.found_well += 1
                if self.found_well >= self.breaker.probes:
                    self.become(CircuitState.CLOSED)

    @invariant()
    def it_agrees_with_the_model(self) -> None:
        if not hasattr(self, "breaker"):
            return
        assert (self.circuit.state, self.circuit.epoch) == (self.state, self.changes)
        assert self.circuit.probing == len(self.probes_out)
        assert self.circuit.well == self.found_well
        assert len(self.circuit.faults_at) < self.breaker.faults
        assert self.circuit.probing + self.circuit.well <= self.breaker.probes


TestAnySequence = AnySequence.TestCase
TestAnySequence.settings = settings(max_examples=200, stateful_step_count=40, deadline=None, derandomize=True)

"""The effect protocol of one operation key as a state machine small enough to be explored whole.

Time is a small integer, the database's clock. A worker is never forced to move, so "suspended for ever" and "crashed"
are the same thing. What the world is assumed to keep (how late a request may act, how long a worker may stand still
between its guard and its first byte) limits the passing of time, never who may move.

Every rule of the protocol can be left out. Exploring breadth-first then finds a shortest way to break an invariant;
`tests/protocol/test_replays.py` puts the real engine and the real stores on each of those ways.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from placet.model.effect import EffectState

DISPATCHED, COMMITTED, FAILED, UNKNOWN = (
    EffectState.DISPATCHED,
    EffectState.COMMITTED,
    EffectState.FAILED,
    EffectState.UNKNOWN,
)
FOUND, ABSENT = EffectState.RECONCILED_COMMITTED, EffectState.RECONCILED_ABSENT
MAY_BE_CLAIMED = (None, FAILED, ABSENT)
ACTED = (COMMITTED, FOUND)
HOLDS_ROOM = (DISPATCHED, COMMITTED, UNKNOWN, FOUND)


class Rule(StrEnum):
    """One rule of DESIGN sections 10 to 12, by what it demands."""

    GUARD = "the window is looked at right before the first byte"
    WINDOW_FROM_SUBMISSION = "the window counts from before the claim was submitted"
    SETTLE_STATE = "a settle compares the state"
    SETTLE_FENCE = "a settle compares the fence"
    QUIET = "absence is believed only after the quiet end"
    QUIET_AT_START = "the look itself began after the quiet end"
    QUIET_WHOLE = "the quiet end counts every bound"
    ENDED = "an attempt that nothing ends must have ended before absence is believed"
    RECONCILE_FENCE = "reconciling compares the fence read before the look"
    CLAIM_FENCE = "a claim compares the fence it read"
    CLAIM_TOKEN = "after a lost answer the token decides"
    VOID = "not run is told only when the token is voided"
    TURN = "a retry is a transaction"
    TURN_STOP = "a retry looks at stops"
    ALL_ATTEMPTS = "failed needs proof for every attempt"
    TAKE_OVER_CLOSES = "a take-over closes the attempt"
    COMPLETED_WITH_CHANGE = "the completed event comes with the change only"
    STOP_LOCK = "a claim and a stop exclude each other"
    DATABASE_CLOCK = "durable times are the database's"
    PROVEN_ABSENCE = "an absence that nothing proves is not dispatched again"
    APPROVAL_DISPATCH = "an approval names the dispatch it was asked for"
    CO_COMMIT_FENCE = "a co-commit compares state and fence itself"
    CO_COMMIT_WHOLE = "a co-commit writes the whole settle"
    LATE_WORD = "a late success of the same fence settles unknown"


class Doubt(StrEnum):
    """What a worker does after a lost answer, where the token does not decide."""

    FRESH = "claims anew or gives up"
    OWNER = "believes the owner's name on the row"


@dataclass(frozen=True)
class World:
    """Who there is, what may happen to them, and which rules are left out.

    Attributes:
        horizon, lease, window, arrival, pause: in ticks; None for an arrival or a pause that nothing bounds.
        honours_key, refuses_late: promises of the remote. refuses: it may refuse definitely.
        loses_answers: a transaction's answer may be lost; lands_late: it may then still be running.
        approvals: in hand at the start; None if policy asks nobody.
        one_owner: workers are tasks of one process. worker_clock: the host's clock minus the database's.
        deaths: an owner can be proven dead. crowded: others fill and free a shared limit.
        reads_early: what a claim knows of stops was read when it began.
    """

    workers: int = 1
    reconcilers: int = 1
    horizon: int = 6
    lease: int = 2
    window: int = 2
    arrival: int | None = 1
    pause: int | None = 0
    attempts: int = 1
    honours_key: bool = False
    refuses_late: bool = False
    refuses: bool = False
    loses_answers: bool = False
    lands_late: bool = False
    approvals: int | None = None
    stops: bool = False
    reads_early: bool = False
    one_owner: bool = False
    worker_clock: int = 0
    deaths: bool = False
    crowded: bool = False
    co_commit: bool = False
    ends_by_itself: bool = True
    doubt: Doubt = Doubt.FRESH
    off: frozenset[Rule] = field(default_factory=frozenset)

    def has(self, rule: Rule) -> bool:
        return rule not in self.off

    @property
    def skew(self) -> int:
        """What a worker's clock adds to the durable times it writes."""
        return 0 if self.has(Rule.DATABASE_CLOCK) else self.worker_clock


class At(StrEnum):
    """Where a worker stands."""

    IDLE = "idle"
    CLAIMING = "claiming"
    IN_DOUBT = "in doubt"
    VOIDING = "voiding"
    WON = "won, not yet read"
    CLAIMED = "claimed"
    GUARDED = "guarded"
    WAITING = "waiting"
    TURNING = "turning"
    SETTLING = "settling"
    CO_COMMITTED = "co-committed"
    CO_DOUBT = "co-commit in doubt"
    DONE = "done"
    DEAD = "dead"


class Report(StrEnum):
    """What a worker knows of its attempt."""

    NOTHING = ""
    PERFORMED = "committed"
    HARMLESS = "failed"
    SILENCE = "unknown"


class Worker(NamedTuple):
    """One worker.

    Attributes:
        read: the fence it read. fence: the one it holds.
        since: when it submitted its claim. send_by: by its own clock.
        told: what its caller heard.
    """

    at: At = At.IDLE
    token: int = 0
    read: int = 0
    fence: int = 0
    since: int = 0
    send_by: int = 0
    attempt: int = 0
    report: Report = Report.NOTHING
    has_doubt: bool = False
    saw_stop: bool = False
    guarded_at: int = 0
    repeats: bool = False
    told: str = ""


class Request(NamedTuple):
    fence: int
    attempt: int
    sent_at: int
    deadline: int
    worker: int


class Look(NamedTuple):
    """A reconciler's look: the fence it read, when it began, and what it saw."""

    at: str = "idle"
    fence: int = 0
    saw: str = ""
    began: int = 0


class Late(NamedTuple):
    """A transaction whose client has seen an error, and which may still commit."""

    verb: str
    worker: int
    fence: int
    token: int
    attempt: int
    state: EffectState | None
    saw_stop: bool = False


class State(NamedTuple):
    """The row, the audit, the world. `events`: (fence, attempt) with how often it was completed."""

    now: int = 0
    row: EffectState | None = None
    fence: int = 0
    token: int = 0
    owner: int = -1
    lease: int = 0
    send_by: int = 0
    has_ended: bool = False
    quiet: int = 0
    is_proven: bool = False
    events: tuple[tuple[int, int, int], ...] = ()
    room: int = 0
    is_full: bool = False
    voided: tuple[int, ...] = ()
    stopped: bool = False
    approvals: tuple[tuple[int, int], ...] = ()
    workers: tuple[Worker, ...] = ()
    looks: tuple[Look, ...] = ()
    requests: tuple[Request, ...] = ()
    late: tuple[Late, ...] = ()
    acted: tuple[int, ...] = ()
    is_key_known: bool = False
    faults: tuple[str, ...] = ()


class Move(NamedTuple):
    """One thing that happens: who, what, and how it comes out. The replays act on it; people read it."""

    who: str
    what: str
    how: str = ""

    def __str__(self) -> str:
        return f"{self.who}: {self.what}" + (f" ({self.how})" if self.how else "")


Step = tuple[Move, State]


def beginning(world: World) -> State:
    approvals = tuple((0, 0) for _ in range(world.approvals or 0))
    return State(workers=(Worker(),) * world.workers, looks=(Look(),) * world.reconcilers, approvals=approvals)


# ---------------------------------------------------------------- transactions


def claim(world: World, state: State, who: int, worker: Worker) -> tuple[State, bool]:
    """The claim's transaction, and whether it changed the row."""
    ok = state.row in MAY_BE_CLAIMED and not state.is_full and worker.token not in state.voided
    if state.row is ABSENT and world.has(Rule.PROVEN_ABSENCE):
        ok = ok and (world.honours_key or state.is_proven)
    if world.has(Rule.CLAIM_FENCE) and state.fence != worker.read:
        ok = False
    knows_stop = worker.saw_stop if world.reads_early and not world.has(Rule.STOP_LOCK) else state.stopped
    if world.stops and knows_stop:
        ok = False
    approvals = state.approvals
    if ok and world.approvals is not None:
        spare = _spare_approval(world, state)
        if spare is None:
            return state, False
        approvals = (*approvals[:spare], (approvals[spare][0], state.fence + 1), *approvals[spare + 1 :])
    if not ok:
        return state, False
    after = state._replace(
        row=DISPATCHED,
        fence=state.fence + 1,
        token=worker.token,
        owner=0 if world.one_owner else who,
        lease=state.now + world.lease + world.skew,
        send_by=state.now + world.window + world.skew,
        has_ended=False,
        quiet=0,
        is_proven=False,
        approvals=approvals,
        events=tuple(sorted((*state.events, (state.fence + 1, 1, 0)))),
        room=state.room + 1,
    )
    if state.stopped:
        after = _fault(after, "started after a stop")
    if state.fence and state.token == worker.token:
        after = _fault(after, "one claim took effect twice")
    return after, True


def settle(world: World, state: State, fence: int, attempt: int, word: EffectState) -> tuple[State, bool]:
    """The settle's transaction, and whether it changed the row."""
    fits = state.row is not None
    if world.has(Rule.SETTLE_FENCE) and state.fence != fence:
        fits = False
    if world.has(Rule.SETTLE_STATE) and state.row is not DISPATCHED:
        fits = False
    if not fits:
        is_ours = state.row is UNKNOWN and state.fence == fence
        if is_ours and world.has(Rule.LATE_WORD) and word is COMMITTED:
            return state._replace(row=FOUND), True
        if is_ours and world.has(Rule.LATE_WORD) and word is UNKNOWN:
            quiet = max(state.quiet, state.now + 1 + (world.arrival or 0))
            return state._replace(has_ended=True, quiet=quiet), False
        if not world.has(Rule.COMPLETED_WITH_CHANGE):
            state = state._replace(events=_completed(state.events, fence, attempt))
        return state, False
    if state.row is not DISPATCHED or state.fence != fence:
        state = _fault(state, "a stale settle was accepted")
    state = state._replace(row=word, events=_completed(state.events, fence, attempt))
    if word is UNKNOWN:
        quiet = max(state.send_by, state.now + 1) + (world.arrival or 0)
        state = state._replace(has_ended=True, quiet=quiet)
    if word is FAILED:
        state = state._replace(room=state.room - 1)
    return state, True


def co_commit(world: World, state: State, fence: int, attempt: int) -> tuple[State, bool]:
    """The handler's own transaction: its effect, and the ledger row with it."""
    holds = state.row is DISPATCHED and state.fence == fence
    if world.has(Rule.CO_COMMIT_FENCE) and not holds:
        return state, False
    after = state._replace(acted=tuple(sorted((*state.acted, fence))))
    if holds:
        after = after._replace(row=COMMITTED)
        if world.has(Rule.CO_COMMIT_WHOLE):
            after = after._replace(events=_completed(after.events, fence, attempt))
    return after, True


def turn(world: World, state: State, worker: Worker) -> tuple[State, bool]:
    """Close one attempt and open the next; without the rule, a loop in the worker's head."""
    events = tuple(
        sorted((*_completed(state.events, worker.fence, worker.attempt), (worker.fence, worker.attempt + 1, 0)))
    )
    if not world.has(Rule.TURN):
        return state._replace(events=events), True
    if state.row is not DISPATCHED or state.fence != worker.fence:
        return state, False
    if world.stops and state.stopped and world.has(Rule.TURN_STOP):
        return state, False
    until = state.now + world.skew
    after = state._replace(events=events, lease=until + world.lease, send_by=until + world.window)
    return (_fault(after, "started after a stop") if state.stopped else after), True


def take_over(world: World, state: State) -> State:
    """What a reconciler makes of a row whose lease is over."""
    if world.co_commit and world.has(Rule.CO_COMMIT_FENCE):  # the row is the effect: no commit means absent
        after = state._replace(row=ABSENT, is_proven=True, room=state.room - 1)
    else:
        latest = state.send_by if world.ends_by_itself else max(state.send_by, state.now)
        after = state._replace(row=UNKNOWN, has_ended=False, quiet=latest + (world.pause or 0) + (world.arrival or 0))
    if world.has(Rule.TAKE_OVER_CLOSES):
        after = after._replace(events=tuple((fence, attempt, done or 1) for fence, attempt, done in after.events))
    return after


def reconcile(world: World, state: State, look: Look) -> State:
    """What a look settles; the state itself if it is not usable."""
    if state.row is not UNKNOWN or (world.has(Rule.RECONCILE_FENCE) and state.fence != look.fence):
        return state
    if look.saw == "committed":
        return state._replace(row=FOUND)
    may_be = look.saw == "absent"
    if world.has(Rule.QUIET):
        began = look.began if world.has(Rule.QUIET_AT_START) else state.now
        may_be = may_be and began >= state.quiet - (0 if world.has(Rule.QUIET_WHOLE) else 2)
    if world.has(Rule.ENDED) and not world.ends_by_itself:
        may_be = may_be and state.has_ended
    if not may_be:
        return state
    is_proven = world.arrival is not None or world.refuses_late
    return state._replace(row=ABSENT, is_proven=is_proven, room=state.room - 1)


def _spare_approval(world: World, state: State) -> int | None:
    for index, (asked_for, spent) in enumerate(state.approvals):
        if not spent and (asked_for == state.fence or not world.has(Rule.APPROVAL_DISPATCH)):
            return index
    return None


def _completed(events: tuple[tuple[int, int, int], ...], fence: int, attempt: int) -> tuple[tuple[int, int, int], ...]:
    return tuple((f, a, done + 1 if (f, a) == (fence, attempt) else done) for f, a, done in events)


def _fault(state: State, fault: str) -> State:
    return state if fault in state.faults else state._replace(faults=tuple(sorted((*state.faults, fault))))


def put_worker(state: State, who: int, worker: Worker) -> State:
    return state._replace(workers=(*state.workers[:who], worker, *state.workers[who + 1 :]))


# ---------------------------------------------------------------- invariants


class Broken(StrEnum):
    TWICE = "acted more than once"
    NEVER = "committed, and did not act"
    SILENT = "failed or absent, and acted"
    APPROVALS = "an effect without an approval of its own"
    OTHER_DISPATCH = "an approval was spent on a dispatch it was not asked for"
    CLOSED_TWICE = "an attempt was closed twice"
    LEFT_OPEN = "an attempt was left open"
    AFTER_STOP = "started after a stop"
    ROOM = "the limit does not count what it should"
    STALE = "a stale settle was accepted"
    TOLD_SUCCESS = "told success, and did not act"
    TOLD_FAILED = "told failed, and acted"
    TOLD_NOT_RUN = "told not run, and its own claim stands"
    CLAIM_TWICE = "one claim took effect twice"


def broken(world: World, state: State) -> Iterator[Broken]:
    """The invariants that the state breaks."""
    if len(state.acted) > 1:
        yield Broken.TWICE
    if state.row in ACTED and not state.acted:
        yield Broken.NEVER
    if state.row in (FAILED, ABSENT) and state.acted:
        yield Broken.SILENT
    if world.approvals is not None:
        yield from _broken_approvals(state)
    if any(done > 1 for _, _, done in state.events):
        yield Broken.CLOSED_TWICE
    still_open = sum(not done for _, _, done in state.events)
    if still_open != (1 if state.row is DISPATCHED else 0):
        yield Broken.LEFT_OPEN
    if state.room != (1 if state.row in HOLDS_ROOM else 0):
        yield Broken.ROOM
    yield from (Broken(fault) for fault in state.faults)
    for worker in state.workers:
        if worker.told == "success" and not state.acted:
            yield Broken.TOLD_SUCCESS
        if worker.told == "failed" and worker.fence in state.acted:
            yield Broken.TOLD_FAILED
        if worker.told == "not run" and worker.token and state.token // 10 == worker.token // 10:
            yield Broken.TOLD_NOT_RUN


def _broken_approvals(state: State) -> Iterator[Broken]:
    spent = [dispatch for _, dispatch in state.approvals if dispatch]
    if len(spent) != len(set(spent)) or len(state.acted) > len(spent):
        yield Broken.APPROVALS
    if any(dispatch > asked_for + 1 for asked_for, dispatch in state.approvals):
        yield Broken.OTHER_DISPATCH

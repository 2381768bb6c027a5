"""Who may move, and where to: every step from a state of the protocol model."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tests.protocol.model import (
    COMMITTED,
    DISPATCHED,
    FAILED,
    MAY_BE_CLAIMED,
    UNKNOWN,
    At,
    Doubt,
    Late,
    Look,
    Move,
    Report,
    Request,
    Rule,
    State,
    Step,
    Worker,
    World,
    claim,
    co_commit,
    put_worker,
    reconcile,
    settle,
    take_over,
    turn,
)

APPLIED, NOT_APPLIED, ANSWERED = "answer lost, applied", "answer lost, not applied", "answered"
STILL_RUNNING = "error seen, still running"
TOLD = {Report.PERFORMED: "success", Report.HARMLESS: "failed", Report.SILENCE: "unknown"}
WORDS = {Report.PERFORMED: COMMITTED, Report.HARMLESS: FAILED, Report.SILENCE: UNKNOWN}


def moves(world: World, state: State) -> Iterator[Step]:
    """Everything that may happen next."""
    yield from _time_and_people(world, state)
    for who, worker in enumerate(state.workers):
        yield from _worker(world, state, who, worker)
    yield from _late_transactions(world, state)
    yield from _remote(world, state)
    yield from _reconcilers(world, state)


def _time_and_people(world: World, state: State) -> Iterator[Step]:
    if state.now < world.horizon and not _must_not_pass(world, state):
        yield Move("time", "passes"), state._replace(now=state.now + 1)
    if world.stops and not state.stopped:
        yield Move("operator", "stops"), state._replace(stopped=True)
    if world.crowded:
        yield (
            Move("others", "free the limit" if state.is_full else "fill the limit"),
            state._replace(is_full=not state.is_full),
        )


def _must_not_pass(world: World, state: State) -> bool:
    """Whether a bound that the world is assumed to keep ends now."""
    if world.arrival is not None and any(state.now - each.sent_at >= world.arrival for each in state.requests):
        return True
    if world.pause is None or not world.has(Rule.GUARD):
        return False
    return any(each.at is At.GUARDED and state.now - each.guarded_at >= world.pause for each in state.workers)


# ---------------------------------------------------------------- workers


def _worker(world: World, state: State, who: int, worker: Worker) -> Iterator[Step]:
    if worker.at in (At.DONE, At.DEAD):
        return
    if world.deaths and worker.at is not At.IDLE:
        yield _as(who, "dies"), put_worker(state, who, worker._replace(at=At.DEAD))
    yield from _ACTS[worker.at](world, state, who, worker)


def _begins(world: World, state: State, who: int, worker: Worker) -> Iterator[Step]:
    if state.row in MAY_BE_CLAIMED:
        fresh = worker._replace(
            at=At.CLAIMING, token=10 * (who + 1), read=state.fence, since=state.now, saw_stop=state.stopped
        )
        yield _as(who, "begins"), put_worker(state, who, fresh)


def _claims(world: World, state: State, who: int, worker: Worker) -> Iterator[Step]:
    for how, after, won in _transaction(world, state, lambda before: claim(world, before, who, worker)):
        if won is None:
            next_ = worker._replace(at=At.IN_DOUBT, has_doubt=False, told="?")
        elif won:
            next_ = _holding(world, worker, after, by_answer=True)
        elif _has_landed(worker, after):
            next_ = worker._replace(at=At.IN_DOUBT)
        elif world.has(Rule.VOID) and worker.told == "?":
            next_ = worker._replace(at=At.VOIDING)
        else:
            next_ = worker._replace(at=At.DONE, told="not run")
        yield _as(who, "claims", how if won is not False else "refused"), put_worker(after, who, next_)
    if world.lands_late and not state.late:
        late = Late("claim", who, worker.read, worker.token, 1, None, worker.saw_stop)
        yield (
            _as(who, "claims", STILL_RUNNING),
            put_worker(state._replace(late=(late,)), who, worker._replace(at=At.IN_DOUBT, told="?")),
        )


def _holding(world: World, worker: Worker, state: State, *, by_answer: bool = False) -> Worker:
    counts_from = worker.since if world.has(Rule.WINDOW_FROM_SUBMISSION) else state.now
    at = At.CLAIMED if world.has(Rule.WINDOW_FROM_SUBMISSION) or not by_answer else At.WON
    return worker._replace(
        at=at, fence=state.fence, send_by=counts_from + world.window + world.skew, attempt=1, told=""
    )


def _has_landed(worker: Worker, state: State) -> bool:
    return state.token == worker.token and state.fence == worker.read + 1


def _in_doubt(world: World, state: State, who: int, worker: Worker) -> Iterator[Step]:
    if world.has(Rule.CLAIM_TOKEN):
        if not _has_landed(worker, state):
            yield (
                _as(who, "repeats its claim"),
                put_worker(state, who, worker._replace(at=At.CLAIMING, saw_stop=state.stopped)),
            )
        elif state.row is DISPATCHED:
            yield _as(who, "finds its token"), put_worker(state, who, _holding(world, worker, state))
        else:
            yield _as(who, "finds its row taken"), put_worker(state, who, worker._replace(at=At.DONE, told="unknown"))
        return
    is_mine = state.row is DISPATCHED and state.owner == (0 if world.one_owner else who)
    if world.doubt is Doubt.OWNER and is_mine:
        yield _as(who, "finds its owner's name"), put_worker(state, who, _holding(world, worker, state))
    elif state.row in MAY_BE_CLAIMED:
        token = worker.token + (1 if world.doubt is Doubt.FRESH and worker.token % 10 < 2 else 0)
        again = worker._replace(at=At.CLAIMING, token=token, read=state.fence, since=state.now, saw_stop=state.stopped)
        yield _as(who, "claims anew"), put_worker(state, who, again)
    else:
        yield _as(who, "gives up"), put_worker(state, who, worker._replace(at=At.DONE, told="not run"))


def _voids(world: World, state: State, who: int, worker: Worker) -> Iterator[Step]:
    if _has_landed(worker, state):
        yield _as(who, "cannot void"), put_worker(state, who, worker._replace(at=At.IN_DOUBT))
    else:
        voided = state._replace(voided=tuple(sorted({*state.voided, worker.token})))
        yield _as(who, "voids its token"), put_worker(voided, who, worker._replace(at=At.DONE, told="not run"))


def _reads_answer(world: World, state: State, who: int, worker: Worker) -> Iterator[Step]:
    read = worker._replace(at=At.CLAIMED, send_by=state.now + world.window + world.skew)
    yield _as(who, "reads the answer"), put_worker(state, who, read)


def _claimed(world: World, state: State, who: int, worker: Worker) -> Iterator[Step]:
    if world.co_commit:
        yield from _co_commits(world, state, who, worker)
    elif not world.has(Rule.GUARD):
        yield _sent(state, who, worker)
    elif state.now + world.skew < worker.send_by:
        yield _as(who, "passes its guard"), put_worker(state, who, worker._replace(at=At.GUARDED, guarded_at=state.now))
    else:
        yield _as(who, "is too late to send"), put_worker(state, who, _knowing(world, worker, Report.HARMLESS))


def _sends(world: World, state: State, who: int, worker: Worker) -> Iterator[Step]:
    yield _sent(state, who, worker)


def _sent(state: State, who: int, worker: Worker) -> Step:
    request = Request(worker.fence, worker.attempt, state.now, worker.send_by, who)
    after = state._replace(requests=tuple(sorted((*state.requests, request))))
    return _as(who, "sends"), put_worker(after, who, worker._replace(at=At.WAITING))


def _waits(world: World, state: State, who: int, worker: Worker) -> Iterator[Step]:
    match worker.report:
        case Report.PERFORMED:
            yield _as(who, "hears success"), put_worker(state, who, worker._replace(at=At.SETTLING))
        case Report.HARMLESS:
            yield _as(who, "hears a refusal"), put_worker(state, who, _knowing(world, worker, Report.HARMLESS))
        case _:
            if worker.attempt < world.attempts:
                again = worker._replace(at=At.TURNING, has_doubt=True)
                yield _as(who, "hears nothing, goes on"), put_worker(state, who, again)
            silent = worker._replace(at=At.SETTLING, report=Report.SILENCE)
            yield _as(who, "hears nothing, gives up"), put_worker(state, who, silent)


def _knowing(world: World, worker: Worker, report: Report) -> Worker:
    """An attempt that did nothing; after one that may have, that proves nothing."""
    if worker.has_doubt and world.has(Rule.ALL_ATTEMPTS):
        report = Report.SILENCE
    return worker._replace(at=At.SETTLING, report=report)


def _turns(world: World, state: State, who: int, worker: Worker) -> Iterator[Step]:
    after, done = turn(world, state, worker)
    if done:
        next_ = worker._replace(
            at=At.CLAIMED,
            attempt=worker.attempt + 1,
            report=Report.NOTHING,
            send_by=state.now + world.window + world.skew,
        )
        yield _as(who, "turns"), put_worker(after, who, next_)
    else:
        silent = worker._replace(at=At.SETTLING, report=Report.SILENCE)
        yield _as(who, "turns", "refused"), put_worker(state, who, silent)


def _settles(world: World, state: State, who: int, worker: Worker) -> Iterator[Step]:
    word = WORDS[worker.report]
    is_mine = state.fence == worker.fence and state.token == worker.token
    reads_back = world.has(Rule.COMPLETED_WITH_CHANGE) and worker.repeats and is_mine and state.row is word
    if reads_back:
        done = worker._replace(at=At.DONE, told=TOLD[worker.report])
        yield _as(who, "settles", "already did"), put_worker(state, who, done)
        return
    for how, after, did in _transaction(
        world, state, lambda before: settle(world, before, worker.fence, worker.attempt, word)
    ):
        if did is None:
            if worker.repeats:
                continue
            next_ = worker._replace(repeats=True)
        else:
            next_ = worker._replace(at=At.DONE, told=TOLD[worker.report] if did else "unknown")
        yield _as(who, "settles", how if did is not False else "refused"), put_worker(after, who, next_)
    if world.lands_late and not state.late and not worker.repeats:
        late = Late("settle", who, worker.fence, worker.token, worker.attempt, word)
        yield (
            _as(who, "settles", STILL_RUNNING),
            put_worker(state._replace(late=(late,)), who, worker._replace(repeats=True)),
        )


def _co_commits(world: World, state: State, who: int, worker: Worker) -> Iterator[Step]:
    for how, after, did in _transaction(
        world, state, lambda before: co_commit(world, before, worker.fence, worker.attempt)
    ):
        if did is None:
            next_ = worker._replace(at=At.CO_DOUBT)
        elif did:
            next_ = worker._replace(at=At.CO_COMMITTED)
        else:
            next_ = worker._replace(at=At.DONE, told="unknown")
        yield _as(who, "co-commits", how if did is not False else "refused"), put_worker(after, who, next_)
    if world.lands_late and not state.late:
        late = Late("co-commit", who, worker.fence, worker.token, worker.attempt, None)
        yield (
            _as(who, "co-commits", STILL_RUNNING),
            put_worker(state._replace(late=(late,)), who, worker._replace(at=At.CO_DOUBT)),
        )


def _co_committed(world: World, state: State, who: int, worker: Worker) -> Iterator[Step]:
    after = state
    if not world.has(Rule.CO_COMMIT_WHOLE) and state.row is COMMITTED:
        events = tuple((f, a, done + ((f, a) == (worker.fence, worker.attempt))) for f, a, done in state.events)
        after = state._replace(events=events)
    yield _as(who, "tells success"), put_worker(after, who, worker._replace(at=At.DONE, told="success"))


def _co_doubt(world: World, state: State, who: int, worker: Worker) -> Iterator[Step]:
    if state.row is COMMITTED and state.fence == worker.fence:
        yield _as(who, "reads back: committed"), put_worker(state, who, worker._replace(at=At.CO_COMMITTED))
    elif state.row is DISPATCHED and state.fence == worker.fence:
        silent = worker._replace(at=At.SETTLING, report=Report.SILENCE)
        yield _as(who, "reads back: nothing"), put_worker(state, who, silent)
    else:
        yield _as(who, "finds its row taken"), put_worker(state, who, worker._replace(at=At.DONE, told="unknown"))


_ACTS: dict[At, Callable[[World, State, int, Worker], Iterator[Step]]] = {
    At.IDLE: _begins,
    At.CLAIMING: _claims,
    At.IN_DOUBT: _in_doubt,
    At.VOIDING: _voids,
    At.WON: _reads_answer,
    At.CLAIMED: _claimed,
    At.GUARDED: _sends,
    At.WAITING: _waits,
    At.TURNING: _turns,
    At.SETTLING: _settles,
    At.CO_COMMITTED: _co_committed,
    At.CO_DOUBT: _co_doubt,
}


def _transaction(
    world: World, state: State, change: Callable[[State], tuple[State, bool]]
) -> Iterator[tuple[str, State, bool | None]]:
    """A transaction as its client may see it; None where the answer was lost."""
    after, did = change(state)
    yield ANSWERED, after, did
    if world.loses_answers:
        yield APPLIED, after, None
        yield NOT_APPLIED, state, None


def _as(who: int, what: str, how: str = "") -> Move:
    return Move(f"worker {who}", what, how)


# ---------------------------------------------------------------- the database, the remote, reconcilers


def _late_transactions(world: World, state: State) -> Iterator[Step]:
    for late in state.late:
        before = state._replace(late=())
        yield Move(f"worker {late.worker}", f"late {late.verb} rolls back"), before
        match late.verb:
            case "claim":
                claimer = Worker(token=late.token, read=late.fence, saw_stop=late.saw_stop)
                after, did = claim(world, before, late.worker, claimer)
            case "settle" if late.state is not None:
                after, did = settle(world, before, late.fence, late.attempt, late.state)
            case _:
                after, did = co_commit(world, before, late.fence, late.attempt)
        yield Move(f"worker {late.worker}", f"late {late.verb} lands", "" if did else "refused"), after


def _remote(world: World, state: State) -> Iterator[Step]:
    for request in state.requests:
        rest = list(state.requests)
        rest.remove(request)
        name = f"{request.fence}.{request.attempt}"
        gone = state._replace(requests=tuple(rest))
        if world.arrival is not None:
            yield Move("network", "loses", name), gone
        if world.refuses_late and state.now >= request.deadline:
            yield Move("remote", "refuses as late", name), gone
            continue
        is_known = world.honours_key and state.is_key_known
        acted = gone if is_known else gone._replace(acted=tuple(sorted((*gone.acted, request.fence))))
        acted = acted._replace(is_key_known=world.honours_key)
        yield Move("remote", "acts, the reply is lost", name), acted
        if (heard := _heard(acted, request, Report.PERFORMED)) is not None:
            yield Move("remote", "acts and replies", name), heard
        if world.refuses and (heard := _heard(gone, request, Report.HARMLESS)) is not None:
            yield Move("remote", "refuses", name), heard


def _heard(state: State, request: Request, report: Report) -> State | None:
    worker = state.workers[request.worker]
    is_waiting = worker.at is At.WAITING and not worker.report
    if not is_waiting or (worker.fence, worker.attempt) != (request.fence, request.attempt):
        return None
    return put_worker(state, request.worker, worker._replace(report=report))


def _reconcilers(world: World, state: State) -> Iterator[Step]:
    if state.row is DISPATCHED and state.now >= state.lease:
        yield Move("reconciler", "takes over"), take_over(world, state)
    is_dead = state.row is UNKNOWN and not state.has_ended and state.workers[state.owner].at is At.DEAD
    if not world.ends_by_itself and is_dead:
        quiet = max(state.quiet, state.now + 1 + (world.arrival or 0))
        yield Move("reconciler", "proves the owner dead"), state._replace(has_ended=True, quiet=quiet)
    for index, look in enumerate(state.looks):
        who = f"look {index}"

        def put(after: State, look: Look, index: int = index) -> State:
            return after._replace(looks=(*after.looks[:index], look, *after.looks[index + 1 :]))

        match look.at:
            case "idle" if state.row is UNKNOWN:
                yield Move(who, "begins"), put(state, Look("asking", state.fence, "", state.now))
            case "asking":
                saw = "committed" if state.acted else "absent"
                yield Move(who, "sees", saw), put(state, look._replace(at="knowing", saw=saw))
            case "knowing":
                after = reconcile(world, state, look)
                how = str(after.row) if after is not state else "not usable"
                yield Move(who, "settles", how), put(after, Look())

"""Moves of the model, made by the real engine on a real store; and what must be true when everything is settled."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence

from placet.errors import ToolRejected
from placet.model.audit import EventKind
from placet.model.effect import EffectState
from placet.testing.conformance import an_event
from tests.protocol.model import Move
from tests.protocol.moves import ANSWERED, APPLIED, NOT_APPLIED, STILL_RUNNING
from tests.protocol.stage import AGENT, TICK, Actor, InFlight, Stage, proposal

_HOW = (ANSWERED, APPLIED, NOT_APPLIED, STILL_RUNNING)
_VERB = {"claims": "claim", "turns": "turn", "settles": "settle"}
_OPEN = (EffectState.DISPATCHED, EffectState.UNKNOWN)


class Refused(Exception):
    """The real engine does not offer this step."""


async def replay(stage: Stage, trace: Sequence[Move]) -> list[Move]:
    """Make the moves of a trace, as far as they are offered; those that were refused."""
    refused: list[Move] = []
    for move in trace:
        try:
            await make(stage, move)
        except Refused:
            refused.append(move)
    return refused


async def make(stage: Stage, move: Move) -> None:
    """Make one move.

    Raises:
        Refused: the engine stands elsewhere, or came out elsewhere.
    """
    match move.who.split():
        case ["worker", number]:
            await _worker(stage, stage.workers[int(number)], move)
        case ["look", number]:
            await _look(stage, stage.looks[int(number)], move)
        case ["remote" | "network"]:
            await _remote(stage, move)
        case ["time"]:
            await _pass(stage)
        case ["operator"]:
            await stage.store.stop("all", (an_event(EventKind.STOPPED),))
            stage.stopped = True
        case ["others"]:
            await _crowd(stage, move)
        case ["reconciler"]:
            await stage.recovery.gate.reconciler._take_over_stranded()
        case _:
            raise AssertionError(f"no such move: {move}")


# ---------------------------------------------------------------- workers


async def _worker(stage: Stage, worker: Actor, move: Move) -> None:
    how = move.how if move.how in _HOW else ANSWERED
    match move.what:
        case "begins":
            await worker.begin(_submitted(stage, worker))
            _require(worker, "claim")
        case "gives up":
            raise Refused  # it does not
        case "claims" | "turns" | "settles":
            await _from(worker, _VERB[move.what], how)
            if how == ANSWERED and worker.did == (move.how == "refused"):
                raise Refused
        case "finds its token" | "finds its owner's name":
            await _from(worker, "claim")
            if not worker.did:
                raise Refused
        case "finds its row taken":
            await _from(worker, "claim")
        case "repeats its claim" | "claims anew":
            _require(worker, "claim")
        case "voids its token" | "cannot void":
            await _from(worker, "void")
        case "reads the answer":
            _require(worker, "guard")
        case "passes its guard":
            await _from(worker, "guard")
            _require(worker, "first byte")
        case "is too late to send":
            if worker.at == "guard":  # where it stands before the handler begins, it has not even begun
                await worker.go()
            _require(worker, "settle", "turn")
        case "sends":
            if worker.at == "guard":  # the trace has no guard, the engine has
                await worker.go()
            await _from(worker, "first byte")
        case "hears success":
            await _from(worker, "reply", None)
        case "hears a refusal":
            await _from(worker, "reply", ToolRejected("The remote refused."))
        case "hears nothing, goes on" | "hears nothing, gives up":
            await _from(worker, "reply", ConnectionResetError())
            _require(worker, "turn" if move.what.endswith("goes on") else "settle")
        case "dies":
            pass  # it stands where it is, for ever
        case "late claim lands" | "late settle lands":
            if (late := stage.late.pop(worker.name, None)) is None:
                raise Refused
            await late()
            if "claim" in move.what and worker.did == (move.how == "refused"):
                raise Refused
        case "late claim rolls back" | "late settle rolls back":
            stage.late.pop(worker.name, None)
        case _:
            raise Refused


async def _submitted(stage: Stage, worker: Actor) -> None:
    stage.outcomes[worker.name] = await worker.gate.submit(proposal(worker), principal=AGENT, run=worker.name)


async def _from(actor: Actor, where: str, how: object = ANSWERED) -> None:
    _require(actor, where)
    await actor.go(how)


def _require(actor: Actor, *where: str) -> None:
    if actor.at not in where:
        raise Refused


# ---------------------------------------------------------------- the others


async def _look(stage: Stage, look: Actor, move: Move) -> None:
    match move.what:
        case "begins":
            row = await stage.row()
            if row is None or row.state is not EffectState.UNKNOWN:
                raise Refused
            await look.begin(look.gate.reconciler.probe(row))
        case "sees":
            await _from(look, "look")
        case "settles":
            _require(look, "reconcile")
            before = await stage.row()
            await look.go()
            after = await stage.row()
            is_moved = before is not None and after is not None and before.state is not after.state
            if (after.state.value if is_moved and after is not None else "not usable") != move.how:
                raise Refused


async def _remote(stage: Stage, move: Move) -> None:
    request = next((each for each in stage.requests if f"{each.fence}.{each.attempt}" == move.how), None)
    if request is None:
        raise Refused
    stage.requests.remove(request)
    if move.what.startswith("acts"):
        _act(stage, request)


def _act(stage: Stage, request: InFlight) -> None:
    is_late = stage.world.refuses_late and stage.recovery.gate._clock.now() >= request.deadline
    if not is_late:
        stage.act(request.worker, request.fence)


async def _pass(stage: Stage) -> None:
    asleep = [actor for actor in stage.workers if actor.at == "asleep"]
    for actor in asleep:
        actor._stands.clear()
    stage.time.advance(TICK)
    for actor in asleep:
        await actor.standing()


async def _crowd(stage: Stage, move: Move) -> None:
    """A claim that is refused for a reason which goes away: a stop, lifted again."""
    if move.what == "fill the limit":
        await stage.store.stop("all", (an_event(EventKind.STOPPED),))
    else:
        await stage.store.resume("all", (an_event(EventKind.RESUMED),))


# ---------------------------------------------------------------- afterwards


async def finish(stage: Stage) -> list[str]:
    """Let everything that still stands go on, requests act, time pass and recovery settle; what is wrong then."""
    for late in list(stage.late.values()):
        await late()
    stage.late.clear()
    for request in list(stage.requests):  # as late as they may
        stage.requests.remove(request)
        _act(stage, request)
    stage.stopped = False
    await stage.store.resume("all", (an_event(EventKind.RESUMED),))
    for _ in range(40):
        standing = [actor for actor in (*stage.workers, *stage.looks) if actor._go is not None]
        for actor in standing:
            if actor.at == "reply":
                await actor.go(ConnectionResetError())
            else:
                await actor.go()
        for request in list(stage.requests):
            stage.requests.remove(request)
            _act(stage, request)
        if not standing:
            await _pass(stage)
        if await _is_settled(stage):
            break
        await stage.recovery.gate.reconciler.recover()
    return await wrong(stage)


async def _is_settled(stage: Stage) -> bool:
    row = await stage.row()
    is_open = row is not None and row.state in _OPEN
    return not is_open and all(actor.at in ("done", "nowhere") for actor in stage.workers)


async def wrong(stage: Stage) -> list[str]:
    """The invariants of the model, asked of the real ledger, audit and remote."""
    found = list(stage.faults)
    row = await stage.row()
    acted = len(stage.acted)
    if acted > 1:
        found.append("acted more than once")
    if row is not None and row.state.is_committed and not acted:
        found.append("committed, and did not act")
    if row is not None and row.state in (EffectState.FAILED, EffectState.RECONCILED_ABSENT) and acted:
        found.append("failed or absent, and acted")
    if row is None and acted:
        found.append("acted, and is not on record")
    for name, outcome in stage.outcomes.items():
        if outcome.is_success and not acted:
            found.append("told success, and did not act")
        has_acted = any(worker == name for worker, _ in stage.acted)
        if not outcome.is_success and not outcome.may_have_acted and has_acted:
            found.append("told that nothing happened, and acted")
    return found + await _wrong_audit(stage)


async def _wrong_audit(stage: Stage) -> list[str]:
    report = await stage.recovery.gate.verify_audit()
    found = [f"audit: {each.kind}" for each in report.breaks]
    pairs: Counter[tuple[object, ...]] = Counter()
    for_dispatch: Counter[int] = Counter()
    async for event in stage.store.chained():
        body = json.loads(event.body)
        name = (body.get("run_id"), body.get("call_id"), body.get("attempt"), body.get("fence"))
        if body["kind"] in ("started", "completed"):
            pairs[name] += 1 if body["kind"] == "started" else -1
        if body["kind"] == "approval_spent":
            for_dispatch[body["fence"]] += 1
            approval = await stage.store.approval("acme", body["approval_id"])
            if approval is None or approval.question.dispatch_number + 1 != body["fence"]:
                found.append("an approval was spent on a dispatch it was not asked for")
    if any(count > 0 for count in pairs.values()):
        found.append("an attempt was left open")
    if any(count < 0 for count in pairs.values()):
        found.append("an attempt was closed twice")
    if any(count > 1 for count in for_dispatch.values()):
        found.append("two approvals were spent on one dispatch")
    return found

"""A young ledger and an old one side by side: a governed write, and every look that calls, workers and people take.

But for those that read all there is, and say so: verifying and exporting an audit, counting what depends on a key or is
old, finding rows that are broken. Looks go through the store's port, so both kinds of store are asked the same, and for
names that are in the ledger that is asked; one that does not find what is there measures nothing. Rounds take turns, so
that what disturbs the machine disturbs both; a ratio is the median of the rounds' own ratios.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta

from placet.engine.gate import Gate
from placet.model.approval import ApprovalState
from placet.model.effect import EffectState
from placet.model.identifiers import ApprovalId, OwnerId, RunId
from placet.model.ledger import SameAsk
from placet.model.retention import FinishedKind
from placet.ports.store import Store
from placet.proof.growth.ledger import argument_digest_of, operation_key_of, tool_of
from placet.proof.growth.specimens import Place, agent_of, open_ticket, opened, submit
from placet.proof.growth.years import Years, approval_name, run_name, tenant_name, ticket_number
from placet.proof.workloads import NotMeasured

WRITE = "governed write"
_TURN, _STRIDE = 1_000_003, 48_271
"""From a round's names to the next one's, and from one name to the next; primes, so that tenants take turns."""
_OLD = timedelta(days=7)
"""Runs that have gone on for no longer are in a young ledger too, which has one of each tenant."""
_PAGE = 40
"""As many as a tenant of a young ledger has."""
_FEW = 2
"""As many as a tenant of a young ledger has of what is rare."""

Look = Callable[[Store, Years, int], Awaitable[object]]
"""What it finds is false where it is nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grown:
    """A filled ledger, and what is in it."""

    place: Place
    years: Years


@dataclass(frozen=True, slots=True, kw_only=True)
class Ages:
    """What one thing costs beside a young ledger and an old one.

    Attributes:
        young_p50, old_p50: seconds, medians of the rounds' medians.
        ratios: old to young, of each round.
    """

    name: str
    young_p50: float
    old_p50: float
    ratios: tuple[float, ...]

    @property
    def ratio(self) -> float:
        """The rounds' median."""
        return statistics.median(self.ratios)


async def compare(young: Grown, old: Grown, *, rounds: int, times: int) -> tuple[Ages, ...]:
    """Governed writes by one caller, then every look, on both.

    Args:
        rounds: at least 1; a first one beside them warms up and is not counted.
        times: how often each is done in a round, on one and on the other in turns.

    Raises:
        NotMeasured: a write did not succeed, a look found nothing of what is there, or what is not there.
        PlacetError: a store did not serve.
    """
    found: dict[str, list[tuple[float, float]]] = {}
    async with opened(young.place.store, young.place.key) as first, opened(old.place.store, old.place.key) as second:
        both = ((first, young.years), (second, old.years))
        for turn in range(rounds + 1):
            writes = [_write(gate, years, turn) for gate, years in both]
            found.setdefault(WRITE, []).append(await _medians(writes, times))
            for name in LOOKS:
                looks = [_look(gate.store, years, name, turn) for gate, years in both]
                found.setdefault(name, []).append(await _medians(looks, times))
    return tuple(
        Ages(
            name=name,
            young_p50=statistics.median(one for one, _ in pairs[1:]),
            old_p50=statistics.median(other for _, other in pairs[1:]),
            ratios=tuple(other / one for one, other in pairs[1:]),
        )
        for name, pairs in found.items()
    )


Once = Callable[[int], Awaitable[object]]


async def _medians(both: list[Once], times: int) -> tuple[float, float]:
    took: tuple[list[float], list[float]] = ([], [])
    for index in range(times):
        for each, seconds in zip(both, took, strict=True):
            began = time.perf_counter()
            await each(index)
            seconds.append(time.perf_counter() - began)
    return statistics.median(took[0]), statistics.median(took[1])


def _write(gate: Gate, years: Years, turn: int) -> Once:
    """A new operation each time, whose name lies anywhere between those that are there."""
    number = (turn + 1) * _TURN

    async def once(index: int) -> None:
        name = f"{ticket_number(years.any_of(number + index * _STRIDE))}-{number + index}"
        about = {"tenant": tenant_name(turn), "run": f"run-{number}-{index // 100}", "call": f"call-{number + index}"}
        outcome = await submit(gate, open_ticket.contract.name, name, **about)
        if outcome.code != "succeeded":
            raise NotMeasured(f"a write came out as {outcome.code}")

    return once


def _look(store: Store, years: Years, name: str, turn: int) -> Once:
    look, is_there = LOOKS[name], name in FINDING

    async def once(index: int) -> None:
        if bool(await look(store, years, turn * _TURN + index * _STRIDE)) is not is_there:
            raise NotMeasured(f"a look found {'nothing' if is_there else 'what is not there'}: {name}")

    return once


# ---------------------------------------------------------------- looks


async def _effect(store: Store, years: Years, seed: int) -> object:
    operation = years.any_of(seed)
    return await store.effect(tenant_name(operation), operation_key_of(operation))


async def _same_ask(store: Store, years: Years, seed: int) -> object:
    """What a person approved was spent, and is asked for anew."""
    operation = years.any_approved(seed)
    ask = SameAsk(
        tenant=tenant_name(operation),
        subject=agent_of("any").subject,
        run_id=RunId(run_name(operation)),
        tool=tool_of(operation).contract.name,
        argument_digest=argument_digest_of(operation),
        policy_version=None,
        operation_key=operation_key_of(operation),
    )
    return await store.same_ask(ask)


async def _approval(store: Store, years: Years, seed: int) -> object:
    operation = years.any_approved(seed)
    return await store.approval(tenant_name(operation), ApprovalId(approval_name(operation)))


async def _listed(store: Store, years: Years, seed: int) -> object:
    return await store.effects(tenant=tenant_name(seed), states=tuple(EffectState), limit=_PAGE)


async def _waiting(store: Store, years: Years, seed: int) -> object:
    return await store.effects(tenant=tenant_name(seed), states=(EffectState.UNKNOWN,), limit=_PAGE)


async def _pending(store: Store, years: Years, seed: int) -> object:
    return await store.approvals(tenant_name(seed), states=(ApprovalState.PENDING,), limit=_PAGE)


async def _decided(store: Store, years: Years, seed: int) -> object:
    tenant = tenant_name(years.any_approved(seed))
    return await store.approvals(tenant, states=tuple(ApprovalState), limit=_FEW)


async def _newest(store: Store, years: Years, seed: int) -> object:
    return [event async for event in store.chained(tenant=tenant_name(seed), newest=_PAGE)]


async def _unknown(store: Store) -> object:
    return (await store.unknown_effects()).count


async def _finished(store: Store, years: Years, seed: int) -> object:
    kind = FinishedKind(tenant=tenant_name(seed), tool=open_ticket.contract.name)
    return await store.finished(kind, before=await store.now() - _OLD, limit=_FEW)


async def _old_runs(store: Store) -> object:
    return await store.old_runs(before=await store.now() - _OLD, limit=_FEW)


async def _old_approvals(store: Store) -> object:
    return await store.old_approvals(before=await store.now() - _OLD, limit=_FEW)


async def _old_tokens(store: Store) -> object:
    return await store.old_tokens(before=await store.now() - _OLD, limit=_FEW)


async def _oldest_events(store: Store) -> object:
    return await store.oldest_events((await store.heads())[0].writer, limit=_FEW)


FINDING: dict[str, Look] = {
    "an operation by its key": _effect,
    "an approval by its id": _approval,
    "a tenant's newest effects": _listed,
    "a tenant's newest approvals": _decided,
    "a tenant's newest events": _newest,
    "heads of chains": lambda store, years, seed: store.heads(),
    "kinds of finished operations": lambda store, years, seed: store.finished_kinds(),
    "finished operations to forget": _finished,
    "runs to forget": lambda store, years, seed: _old_runs(store),
    "approvals to forget": lambda store, years, seed: _old_approvals(store),
    "the oldest events of a chain": lambda store, years, seed: _oldest_events(store),
}
"""Those that find something in either ledger."""
MISSING: dict[str, Look] = {
    "open approvals of one question": _same_ask,
    "a heartbeat": lambda store, years, seed: store.heartbeat(OwnerId("nobody"), lease_seconds=60.0),
    "effects that their owners lost": lambda store, years, seed: store.stranded(limit=_PAGE),
    "reads that their owners lost": lambda store, years, seed: store.lost_reads(limit=_PAGE),
    "unknown effects due for a probe": lambda store, years, seed: store.due_for_probe(limit=_PAGE),
    "unknown effects, counted": lambda store, years, seed: _unknown(store),
    "pending approvals, counted": lambda store, years, seed: store.pending_count(),
    "overdue approvals": lambda store, years, seed: store.overdue_approvals(limit=_PAGE),
    "a tenant's unknown effects": _waiting,
    "a tenant's longest unknown effects": lambda store, years, seed: store.longest_unknown(
        tenant=tenant_name(seed), subject=None, limit=_PAGE
    ),
    "a tenant's pending approvals": _pending,
    "stops": lambda store, years, seed: store.stops(),
    "tokens to forget": lambda store, years, seed: _old_tokens(store),
}
"""Those for what is left open, stopped or lost: nothing is, in these, and the cost of finding none must not grow."""
LOOKS = FINDING | MISSING

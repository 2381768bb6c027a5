"""Workers that announce in processes of their own, and die on the way. Started by the fork server, so importable."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import placet
from placet.adapters.stores.chain import ChainLinker
from placet.bootstrap.opening import Opening
from placet.engine import announcing
from placet.engine.announcing import Announcer
from placet.engine.chronicle import Chronicle
from placet.model.destinations import Announcements, Destination, SecretPlace, SecretRef, SlackWay
from placet.model.notices import DeliveryState, Notice
from placet.ports.notifier import Delivered, Gone, Sent
from placet.rules.announcements import CONFIGURED_KINDS
from placet.testing import RecordingMeter, SeededIds
from placet.testing.kill_points import KillPoint, SentinelRemote, die
from tests.kill_points.actors import AGENT, SETTINGS, SURVIVED, mortal_stores, proposal, tools

LEASE_SECONDS = 0.3
"""Of a worker that dies: short enough to be waited for."""
DESTINATION = Destination(
    name="ops",
    kinds=frozenset(CONFIGURED_KINDS),
    tenants=frozenset({"acme"}),
    way=SlackWay(url=SecretRef(place=SecretPlace.ENVIRONMENT, name="NOWHERE")),
)


class Mailbox:
    """Keeps every message in a file that all processes share; ends its process once it has one, if it is to."""

    def __init__(self, folder: Path, *, dies: bool = False, answer: Sent | None = None) -> None:
        self.remote = SentinelRemote(folder / "mailbox.jsonl")
        self._dies = dies
        self._answer = answer or Delivered(code="status_200")

    async def send(self, notice: Notice) -> Sent:
        self.remote.act(notice.message_id, notice.kind.value)
        if self._dies:
            die()
        return self._answer


def open_gate(store: str, folder: Path) -> Opening:
    return placet.open(
        tools=tools(SentinelRemote(folder / "remote.jsonl"), timeout_seconds=20.0),
        store=store,
        key=folder / "placet.key",
        settings=SETTINGS,
        recovery=placet.Recovery.MANUAL,
    )


def announcer(opening: Opening, mailbox: Mailbox) -> Announcer:
    assert opening.running is not None
    return Announcer(
        store=opening.running.store,
        linker=ChainLinker(opening.running.keys),
        chronicle=Chronicle(keys=opening.running.keys, clock=opening.running.clock),
        ids=SeededIds(int.from_bytes(os.urandom(4), "big")),
        meter=RecordingMeter(),
        announcements=Announcements(destinations=(DESTINATION,)),
        notifiers={DESTINATION.name: mailbox},
    )


async def begin(store: str, folder: Path) -> None:
    """A store whose destination hears from now on."""
    opening = open_gate(store, folder)
    async with opening:
        await announcer(opening, Mailbox(folder)).round()


async def ask(store: str, folder: Path, count: int) -> None:
    """So many approvals are asked for."""
    async with open_gate(store, folder) as gate:
        for number in range(count):
            outcome = await gate.submit(proposal("refund", order=f"o-{number}"), principal=AGENT, run=f"run-{number}")
            assert outcome.code == "approval_required"


def announce_and_die(store: str, folder: str, point: KillPoint | None, *, is_gone: bool = False) -> None:
    """One round in a process that ends on the way: at a verb, or, without one, as a message has arrived.

    One that survives exits with 7.
    """

    async def act() -> None:
        with mortal_stores(point):
            opening = open_gate(store, Path(folder))
            answer = Gone(code="status_410") if is_gone else None
            async with opening:
                announcing.LEASE_SECONDS = LEASE_SECONDS  # type: ignore[misc]
                await announcer(opening, Mailbox(Path(folder), dies=point is None, answer=answer)).round()

    asyncio.run(act())
    os._exit(SURVIVED)


async def go_on(store: str, folder: Path, count: int) -> None:
    """Another worker goes on until nothing waits: each of so many has arrived, and none under two names."""
    opening = open_gate(store, folder)
    async with opening as gate, asyncio.timeout(60):
        working = announcer(opening, Mailbox(folder))
        while True:
            await working.round()
            pending = await gate.store.deliveries(destination=None, states=(DeliveryState.PENDING,), limit=1)
            unread = await gate.store.unread_chains(DESTINATION.name, limit=1)
            if not pending and not unread:
                break
            await asyncio.sleep(LEASE_SECONDS / 10)
        arrived = Mailbox(folder).remote.effects()
        delivered = await gate.store.deliveries(destination=None, states=(DeliveryState.DELIVERED,), limit=99)
        assert len(arrived) == count == len(delivered), arrived
        assert max(arrived.values(), default=0) <= 2, "once more, for an answer that was lost"
        assert (await gate.verify_audit()).holds

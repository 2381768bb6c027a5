"""A worker's announcer in a test, and where its messages arrive."""

from __future__ import annotations

from typing import Any

from placet.adapters.stores.chain import ChainLinker
from placet.engine.announcing import Announcer, AnnouncingReport
from placet.model.destinations import Announcements, Destination, DestinationKind, SecretPlace, SecretRef, SlackWay
from placet.model.notices import Notice, NoticeKind
from placet.ports.notifier import Delivered, Sent
from placet.rules.announcements import CONFIGURED_KINDS
from placet.testing import RecordingMeter, SeededIds
from tests.engine.conftest import World

ALL = frozenset(CONFIGURED_KINDS)
OK = Delivered(code="status_200")


def a_destination(
    name: str = "ops", *, kinds: frozenset[NoticeKind] = ALL, tenants: tuple[str, ...] = ("acme",)
) -> Destination:
    way = SlackWay(url=SecretRef(place=SecretPlace.ENVIRONMENT, name="NOWHERE"))
    return Destination(name=name, kinds=kinds, tenants=frozenset(tenants), way=way)


class Inbox:
    """Takes every message and answers what it was told to, the last answer for ever."""

    def __init__(self, *answers: Sent | Exception) -> None:
        self.answers: list[Sent | Exception] = list(answers) or [OK]
        self.notices: list[Notice] = []

    async def send(self, notice: Notice) -> Sent:
        self.notices.append(notice)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    @property
    def kinds(self) -> list[str]:
        return [each.kind.value for each in self.notices]

    @property
    def ids(self) -> list[str]:
        return [each.message_id for each in self.notices]


class Post:
    """One worker's announcer, and where its messages arrive."""

    def __init__(self, world: World, *destinations: Destination, inbox: Inbox | None = None, seed: int = 7) -> None:
        self.world = world
        self.meter = RecordingMeter()
        self.destinations = destinations or (a_destination(),)
        self.inboxes = {each.name: Inbox() for each in self.destinations}
        if inbox is not None:
            self.inboxes[self.destinations[0].name] = inbox
        self.announcer = Announcer(
            store=world.gate.store,
            linker=linker_of(world),
            chronicle=world.gate._chronicle,
            ids=SeededIds(seed),
            meter=self.meter,
            announcements=Announcements(destinations=self.destinations, console_url="https://ops.example.com/console"),
            notifiers=self.inboxes,
        )

    @property
    def inbox(self) -> Inbox:
        return self.inboxes[self.destinations[0].name]

    async def round(self) -> AnnouncingReport:
        return await self.announcer.round()

    def counted(self, outcome: str) -> int:
        said = {"destination": DestinationKind.SLACK.value, "outcome": outcome}
        return self.meter.heard.count(("announced", said))

    def waiting(self) -> dict[str, object]:
        return [numbers for name, numbers in self.meter.heard if name == "announcements_waiting"][-1]


def linker_of(world: World) -> ChainLinker:
    linker: Any = world.gate._linker
    assert isinstance(linker, ChainLinker)
    return linker


async def a_post(world: World, *destinations: Destination, inbox: Inbox | None = None) -> Post:
    """One whose destinations have begun."""
    post = Post(world, *destinations, inbox=inbox)
    assert await post.round() == AnnouncingReport()
    return post

"""Telling other processes that something changed, and hearing it from them: LISTEN and NOTIFY, beside everything else.

    a batch is durable ── its topics ──▶ gathered ── NOTIFY, a transaction of its own ──▶ every process that listens
                                                                                          └── wakes who waits for them

Never inside a batch: a transaction that notifies commits behind every other one that does. It is done after the batch
is durable, at most so often, and not at all while the connection is lost; whoever waits has a pause of its own, after
which it looks without having been told.

Anybody who may connect to the database can listen, and can say what it likes. So a topic is told as a keyed digest: no
tenant, no name, nothing that can be guessed and compared. The channel's name is one too: whoever has no key does not
know where to listen or what to flood. Who learnt it all the same is heard so many times a second and no more; then
nobody is heard for a pause.
"""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, Final

from placet.adapters.stores.postgres.connection import Address, connect, translated
from placet.adapters.stores.postgres.statements import SQL
from placet.model.waking import Topic
from placet.ports.keys import KeyPurpose, Keys

_log: Final = logging.getLogger("placet.store")
EVERYTHING: Final = "*"
"""What is told where there is too much to tell each."""
MOST_TOPICS: Final = 256
_WORD_CHARACTERS: Final = 24
_BETWEEN_SECONDS: Final = 0.1
_FIRST_PAUSE_SECONDS: Final = 0.5
_LONGEST_PAUSE_SECONDS: Final = 10.0
MOST_NOTICES: Final = 2_000
"""In one second, of a gate's ten for each: more than so many gates would say."""
_FLOOD_PAUSE_SECONDS: Final = 10.0
_FLOODED: Final = "wake_ups_flooded"


class Listening:
    """One who waits, in the loop that entered."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._told = asyncio.Event()
        self._is_on_its_way = False

    async def wait(self) -> None:
        await self._told.wait()
        self._told.clear()

    def tell(self) -> None:
        if self._is_on_its_way:  # it has not looked since
            return
        self._is_on_its_way = True
        with suppress(RuntimeError):  # its loop is closed; nobody waits there any more
            self._loop.call_soon_threadsafe(self._arrive)

    def _arrive(self) -> None:
        self._is_on_its_way = False  # first: whoever tells from here on is heard once more
        self._told.set()


class _Flow:
    """How much was heard in this second, of one connection. Instants are those of the loop's clock."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._since = loop.time()
        self._heard = 0
        self.is_flood = False

    def count(self) -> None:
        now = self._loop.time()
        if now - self._since >= 1.0:
            self._since, self._heard = now, 0
        self._heard += 1
        self.is_flood = self.is_flood or self._heard > MOST_NOTICES


class Bell:
    """Rings for what this process has changed, and hears what others have. `waiting_for` is called from anywhere."""

    def __init__(self, address: Address, keys: Keys, loop: asyncio.AbstractEventLoop) -> None:
        self._address = address
        self._keys = keys
        self._loop = loop
        self._door = threading.Lock()
        self._waiting: dict[Topic, set[Listening]] = {}
        self._by_word: dict[str, Topic] = {}
        self._gathered: set[Topic] = set()
        self._has_any = asyncio.Event()
        self._is_wanted = asyncio.Event()
        self.channel = channel_of(address, keys)
        self.is_listening = False
        self.connections = 0
        self._is_told = False
        self._is_flood_told = False

    # ------------------------------------------------------------ from anywhere

    @contextmanager
    def waiting_for(self, topic: Topic) -> Iterator[Listening]:
        listening, word = Listening(), self._word(topic)
        with self._door:
            self._waiting.setdefault(topic, set()).add(listening)
            self._by_word[word] = topic
        with suppress(RuntimeError):  # the store is closed
            self._loop.call_soon_threadsafe(self._is_wanted.set)
        try:
            yield listening
        finally:
            with self._door:
                several = self._waiting[topic]
                several.discard(listening)
                if not several:
                    del self._waiting[topic], self._by_word[word]

    # ------------------------------------------------------------ in the store's thread

    def ring(self, topics: Iterable[Topic]) -> None:
        """These are durable. Returns at once."""
        some = set(topics)
        if not some:
            return
        self._wake(some)
        self._gathered |= some
        self._has_any.set()
        self._is_wanted.set()

    async def serve(self) -> None:
        """Until cancelled. Nothing that it meets ends it."""
        pause = _FIRST_PAUSE_SECONDS
        while True:
            await self._is_wanted.wait()
            before, was_flooded = self.connections, False
            try:
                was_flooded = await self._listen()
            except Exception as fault:  # whatever it is: who waits looks by itself, and the store goes on
                self._tell(translated(fault, self._address).code)
            self.is_listening = False
            self._gathered.clear()  # whoever missed it looks by itself
            pause = _FIRST_PAUSE_SECONDS if self.connections > before else min(2 * pause, _LONGEST_PAUSE_SECONDS)
            rest = max(pause, _FLOOD_PAUSE_SECONDS) if was_flooded else pause
            await asyncio.sleep(rest)  # noqa: TID251  # real time: it is the database that is waited for

    def _tell(self, code: str) -> None:
        """Once for each loss, however often it is tried again."""
        if not self._is_told:
            self._is_told = True
            _log.warning("nobody is woken by what other processes do; who waits looks by itself", extra={"code": code})

    def _tell_flood(self) -> None:
        """Once for each store: whoever floods can do it again and again."""
        if not self._is_flood_told:
            self._is_flood_told = True
            _log.warning(
                "somebody floods the wake-up channel; for a pause who waits looks by itself", extra={"code": _FLOODED}
            )

    async def _listen(self) -> bool:
        """Over one connection, until it is lost; whether it was given up because of a flood."""
        connection = await connect(self._address)
        flow = _Flow(self._loop)
        try:
            connection.add_termination_listener(lambda _: self._has_any.set())
            await connection.execute(SQL["ring_lightly"])
            await connection.add_listener(self.channel, partial(self._hear, flow))
            self.connections += 1
            self._wake_all()  # what was told meanwhile was not heard
            self.is_listening, self._is_told = True, False
            while True:
                await self._has_any.wait()
                self._has_any.clear()
                if connection.is_closed():
                    return flow.is_flood
                words = self._take()
                if words:
                    await connection.execute(SQL["ring"], self.channel, " ".join(words))
                    await asyncio.sleep(_BETWEEN_SECONDS)  # noqa: TID251  # what comes meanwhile is told together
        finally:
            connection.terminate()

    def _take(self) -> list[str]:
        topics, self._gathered = self._gathered, set()
        return [EVERYTHING] if len(topics) > MOST_TOPICS else sorted(map(self._word, topics))

    def _word(self, topic: Topic) -> str:
        message = json.dumps(("placet wake-up 1", topic.kind.value, topic.tenant, topic.name)).encode()
        return self._keys.mac(KeyPurpose.WAKE_UP, message).value[:_WORD_CHARACTERS]

    def _hear(self, flow: _Flow, connection: Any, process: int, channel: str, payload: object) -> None:
        """Somebody's word, ours among them. Who knows the channel can say one; all it does is make somebody look."""
        if flow.is_flood:  # what had arrived before the connection was given up
            return
        flow.count()
        if flow.is_flood:
            self._tell_flood()
            connection.terminate()
            return
        words = set(str(payload).split(" "))
        if EVERYTHING in words:
            self._wake_all()
            return
        with self._door:
            topics = [self._by_word[word] for word in words if word in self._by_word]
        self._wake(topics)

    def _wake(self, topics: Iterable[Topic]) -> None:
        with self._door:
            several = [listening for topic in topics for listening in self._waiting.get(topic, ())]
        for listening in several:
            listening.tell()

    def _wake_all(self) -> None:
        with self._door:
            topics = list(self._waiting)
        self._wake(topics)


def channel_of(address: Address, keys: Keys) -> str:
    """Each store of a database has one, whatever its schema is called; who has no key cannot tell which.

    It is of the oldest key that is not retired, so that those who opened the store before a rotation, and those who
    did after, hear each other.
    """
    message = json.dumps(("placet wake-up channel 1", address.schema)).encode()
    made = {mac.key_id: mac.value for mac in keys.macs(KeyPurpose.WAKE_UP, message)}
    oldest = next(fact.key_id for fact in keys.facts() if fact.key_id in made)
    return "placet_" + made[oldest][:_WORD_CHARACTERS]

"""Who waits is woken by what another process does, without asking; and is no worse off where nobody can tell it."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg
import pytest

import placet
from placet.adapters.clock import SystemClock
from placet.adapters.keys import KeyRing
from placet.adapters.stores.postgres import PostgresStore, bell
from placet.adapters.stores.postgres.bell import EVERYTHING, MOST_NOTICES, MOST_TOPICS, channel_of
from placet.adapters.stores.postgres.statements import SQL, migrations
from placet.model.approval import ApprovalDecision, Mac
from placet.model.effect import EffectState
from placet.model.identifiers import OperationKey
from placet.model.ledger import Claimed
from placet.model.waking import Topic, approvals_topic, effect_topic
from placet.ports.keys import KeyPurpose
from placet.testing.conformance import a_claim, a_settlement, a_step, an_event, decided, pending
from tests.adapters.postgres.conftest import OpenStore
from tests.adapters.postgres.proxy import a_wire, through
from tests.adapters.postgres.test_under_locks import subject
from tests.postgres.fixtures import Database

LISTENERS = (
    "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'placet wake-ups'"
)
KEY = OperationKey("key-1")


async def until(seen: Callable[[], Any]) -> None:
    async with asyncio.timeout(30):
        while not seen():
            await asyncio.sleep(0.01)


async def listening(*stores: PostgresStore) -> None:
    await until(lambda: all(store._bell.is_listening for store in stores))


@asynccontextmanager
async def woken_by(store: PostgresStore, topic: Topic) -> AsyncIterator[None]:
    """What is done within wakes somebody who waits for the topic, and who has no pause after which to look."""
    with store.waiting_for(topic) as wakeup:
        await listening(store)
        await asyncio.sleep(0)
        wakeup._told.clear()  # type: ignore[attr-defined]  # beginning to listen wakes everybody once
        waiting = asyncio.ensure_future(wakeup.wait())
        yield
        async with asyncio.timeout(30):
            await waiting


async def claimed(store: PostgresStore, key: str = "key-1", **changes: Any) -> Any:
    answer = await store.claim(a_claim(key, **changes))
    assert isinstance(answer, Claimed)
    return answer.effect


# ---------------------------------------------------------------- who is woken


async def test_a_settle_wakes_who_waits_for_the_operation_in_another_store(open_store: OpenStore) -> None:
    here, there = open_store(), open_store()
    effect = await claimed(there)

    async with woken_by(here, effect_topic("acme", KEY)):
        await there.settle(a_settlement(effect))


async def test_what_the_same_store_does_wakes_too(open_store: OpenStore) -> None:
    store = open_store()
    effect = await claimed(store)

    async with woken_by(store, effect_topic("acme", KEY)):
        await store.settle(a_settlement(effect))


async def test_a_question_and_its_answer_wake_who_waits_for_the_tenants_approvals(
    open_store: OpenStore, ring: KeyRing
) -> None:
    here, there = open_store(), await subject(open_store(), ring)

    async with woken_by(here, approvals_topic("acme")):
        asked = await pending(there)
    async with woken_by(here, approvals_topic("acme")):
        await decided(there, asked, ApprovalDecision.DENY)


async def test_nobody_is_woken_by_what_it_does_not_wait_for(open_store: OpenStore) -> None:
    here, there = open_store(), open_store()
    effects = [await claimed(there, f"key-{n}", token=f"t-{n}", step=a_step(f"c-{n}")) for n in range(2)]
    with here.waiting_for(effect_topic("other-tenant", OperationKey("key-0"))) as other:
        waiting = asyncio.ensure_future(other.wait())
        await listening(here)
        await asyncio.sleep(0)
        async with woken_by(here, effect_topic("acme", OperationKey("key-1"))):
            if waiting.done():  # beginning to listen woke it
                waiting = asyncio.ensure_future(other.wait())
            await there.settle(a_settlement(effects[0]))
            await there.settle(a_settlement(effects[1]))

        assert not waiting.done()
        waiting.cancel()
    assert here._bell._waiting == {}


_SETTLER = """
import asyncio, sys
from pathlib import Path
from placet.bootstrap.stores import open_existing_store
from placet.model.effect import EffectState
from placet.testing.conformance import a_settlement

async def settle(url, key):
    _, store = await asyncio.to_thread(open_existing_store, url, key=Path(key))
    (effect,) = await store.effects(tenant="acme", states=(EffectState.DISPATCHED,), limit=9)
    sys.stdin.readline()
    await store.settle(a_settlement(effect))
    sys.stdin.readline()
    await store.close()

asyncio.run(settle(*sys.argv[1:]))
"""


class StillClock(SystemClock):
    """A host on which no pause ever ends: whoever goes on was woken."""

    async def sleep(self, seconds: float) -> None:
        await asyncio.get_running_loop().create_future()


GOVERNED = placet.Principal.agent("agent-1", tenant="acme", roles=("operator",), scopes=("ops.write",))


@pytest.mark.req("H032")
async def test_a_caller_who_waits_for_another_process_s_operation_answers_without_having_asked(
    database: Database, tmp_path: Path
) -> None:
    """Its clock stands still, so that none of its looks comes of time."""
    began, may_end = asyncio.Event(), asyncio.Event()

    @placet.tool(effect="idempotent_write", risk="low", permission="ops.write", operation_key="pay:{order}")
    async def pay(order: str) -> str:
        began.set()
        await may_end.wait()
        return f"paid {order}"

    ask = {"call_id": "c1", "tool": "pay", "arguments": {"order": "o-1"}}
    async with (
        placet.open(tools=[pay], store=database.url, key=tmp_path / "key") as acting,
        placet.open(tools=[pay], store=database.url, key=tmp_path / "key", clock=StillClock()) as waiting,
    ):
        first = asyncio.ensure_future(acting.submit(ask, principal=GOVERNED, run="r-1"))
        await began.wait()
        second = asyncio.ensure_future(waiting.submit({**ask, "call_id": "c2"}, principal=GOVERNED, run="r-2"))
        await until(lambda: waiting.store._bell._waiting)  # type: ignore[attr-defined]
        await listening(waiting.store)  # type: ignore[arg-type]
        may_end.set()

        assert (await first).unwrap() == "paid o-1"
        async with asyncio.timeout(30):
            assert (await second).code == "replayed"


async def test_another_process_wakes_who_waits(database: Database, tmp_path: Path) -> None:
    from placet.bootstrap.stores import open_store as open_named

    program = tmp_path / "settler.py"
    program.write_text(_SETTLER, "utf-8")
    _, store = await asyncio.to_thread(open_named, database.url, key=tmp_path / "key")
    await claimed(store)  # type: ignore[arg-type]
    settler = subprocess.Popen(
        [sys.executable, str(program), database.url, str(tmp_path / "key")], stdin=subprocess.PIPE
    )
    assert settler.stdin is not None
    try:
        async with woken_by(store, effect_topic("acme", KEY)):  # type: ignore[arg-type]
            settler.stdin.write(b"go\n")
            settler.stdin.flush()
    finally:
        await asyncio.to_thread(settler.communicate, b"end\n")
        await store.close()
    assert settler.returncode == 0


# ---------------------------------------------------------------- what is told


@asynccontextmanager
async def overheard(store: PostgresStore, database: Database) -> AsyncIterator[list[str]]:
    told: list[str] = []
    listener = await asyncpg.connect(database.url)
    await listener.add_listener(store._bell.channel, lambda *said: told.append(said[-1]))
    try:
        yield told
    finally:
        await listener.close()


async def test_what_is_told_names_nobody_and_nothing_and_differs_between_tenants_and_stores(
    database: Database, open_store: OpenStore, ring: KeyRing
) -> None:
    store = open_store()
    words: set[str] = set()
    async with overheard(store, database) as told:
        for n, tenant in enumerate(("acme", "globex")):
            step = a_step(f"c-{n}", tenant=tenant)
            effect = await claimed(store, "key-1", tenant=tenant, token=f"t-{n}", step=step)
            await store.settle(a_settlement(effect, tenant=tenant))
            await until(lambda n=n: len(told) > n)
        words = {word for payload in told for word in payload.split(" ")}

    assert len(words) == 2 and all(len(word) == 24 and int(word, 16) for word in words)
    assert words == {store._bell._word(effect_topic(tenant, KEY)) for tenant in ("acme", "globex")}
    elsewhere = open_store(address_with(database), keys=KeyRing.ephemeral())
    assert elsewhere._bell.channel != store._bell.channel
    assert elsewhere._bell._word(effect_topic("acme", KEY)) not in words


def address_with(database: Database) -> Any:
    from placet.adapters.stores.postgres import address_of

    return address_of(database.url + ("&" if "?" in database.url else "?") + "placet_schema=second")


async def test_much_at_once_is_told_as_everything_and_fits_a_payload(database: Database, open_store: OpenStore) -> None:
    store = open_store()
    many = [effect_topic("acme", OperationKey(f"key-{n}")) for n in range(MOST_TOPICS + 1)]
    async with overheard(store, database) as told:
        await store._thread.carry(_ring(store, many[:-1]))
        await until(lambda: len(told) == 1)
        await store._thread.carry(_ring(store, many))
        await until(lambda: len(told) == 2)

    assert len(told[0].split(" ")) == MOST_TOPICS and len(told[0].encode()) < 8_000
    assert told[1] == EVERYTHING


async def _ring(store: PostgresStore, topics: list[Topic]) -> None:
    store._bell.ring(topics)


async def test_everything_wakes_everybody(database: Database, open_store: OpenStore) -> None:
    store = open_store()

    async with woken_by(store, approvals_topic("acme")):
        database.execute(f"SELECT pg_notify('{store._bell.channel}', '{EVERYTHING}')")


def test_no_statement_of_a_batch_notifies() -> None:
    texts = {**SQL, **{str(number): text for number, text in migrations()}}
    statements = {name: re.sub(r"--.*", "", text).lower() for name, text in texts.items()}
    assert [name for name, text in statements.items() if "notify" in text] == ["ring"]


async def test_a_claim_rings_for_nobody(database: Database, open_store: OpenStore) -> None:
    store = open_store()
    async with overheard(store, database) as told:
        effect = await claimed(store)
        await store.record((an_event(),))
        await store.settle(a_settlement(effect, EffectState.FAILED))
        await until(lambda: told)
        await claimed(store, token="t-2", fence=1)
        await store.settle(a_settlement(await claimed(store, "key-2", token="t-3", step=a_step("c-3"))))
        await until(lambda: len(told) > 1)

    assert told == [store._bell._word(effect_topic("acme", key)) for key in (KEY, OperationKey("key-2"))]


# ---------------------------------------------------------------- a lost listener


async def test_a_lost_listener_costs_the_pause_and_no_more_and_comes_back(
    database: Database, open_store: OpenStore, ring: KeyRing
) -> None:
    here, there = open_store(), open_store()
    effect = await claimed(there)
    with here.waiting_for(effect_topic("acme", KEY)):
        await listening(here)
    database.execute(f"SELECT pg_terminate_backend(pid) FROM ({LISTENERS}) AS listeners")
    await until(lambda: not here._bell.is_listening)

    async with woken_by(here, effect_topic("acme", KEY)):
        await there.settle(a_settlement(effect))
    assert here._bell.connections == 2


async def test_whatever_a_listener_meets_is_told_once_and_ends_nothing(
    database: Database, open_store: OpenStore, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fault that is none of a database's, such as a name that cannot be encoded."""
    for name in ("_FIRST_PAUSE_SECONDS", "_LONGEST_PAUSE_SECONDS"):
        monkeypatch.setattr(bell, name, 0.01)
    async with a_wire(database) as wire:
        here, there = await asyncio.to_thread(open_store, through(wire, database)), open_store()
        channel, here._bell.channel = here._bell.channel, "\ud800"
        effect = await claimed(there)
        with here.waiting_for(effect_topic("acme", KEY)):
            await until(lambda: wire.connections > 4)
            here._bell.channel = channel
            await listening(here)
        async with woken_by(here, effect_topic("acme", KEY)):
            await there.settle(a_settlement(effect))

    told = [getattr(record, "code", "") for record in caplog.records if "woken" in record.getMessage()]
    assert told == ["store_unavailable"]


async def test_who_has_no_key_cannot_know_the_channel(database: Database, open_store: OpenStore, ring: KeyRing) -> None:
    here, there = open_store(), open_store()
    other = open_store(address_with(database), keys=(others := KeyRing.ephemeral()))

    assert here._bell.channel == there._bell.channel != other._bell.channel
    assert here._bell.channel == channel_of(here._address, ring) != channel_of(here._address, others)
    assert channel_of(other._address, others) != channel_of(here._address, others), "each schema has its own"


async def test_a_rotation_leaves_the_channel_where_it_is(open_store: OpenStore) -> None:
    before, after = (
        KeyRing({"k-1": b"1" * 32}, current="k-1"),
        KeyRing({"k-1": b"1" * 32, "k-2": b"2" * 32}, current="k-2"),
    )
    address = open_store()._address

    assert channel_of(address, before) == channel_of(address, after)


async def test_a_flood_of_words_loses_the_listener_for_a_pause_and_is_told_once(
    database: Database, open_store: OpenStore, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bell, "_FLOOD_PAUSE_SECONDS", 0.01)
    here, there = open_store(), open_store()
    effect = await claimed(there)
    flood = f"SELECT pg_notify('{here._bell.channel}', n::text) FROM generate_series(1, {20 * MOST_NOTICES}) AS n"
    with here.waiting_for(effect_topic("acme", KEY)):
        for heard in (1, 2):
            await until(lambda heard=heard: here._bell.is_listening and here._bell.connections == heard)
            await asyncio.to_thread(database.execute, flood)
            await until(lambda heard=heard: here._bell.connections > heard)
        await listening(here)

    async with woken_by(here, effect_topic("acme", KEY)):
        await there.settle(a_settlement(effect))
    told = [getattr(record, "code", "") for record in caplog.records if "wake-up" in record.getMessage()]
    assert told == ["wake_ups_flooded"]


async def test_as_many_words_as_many_gates_say_are_heard(database: Database, open_store: OpenStore) -> None:
    here = open_store()
    channel = here._bell.channel
    async with woken_by(here, effect_topic("acme", KEY)):
        word = here._bell._word(effect_topic("acme", KEY))
        said = f"SELECT pg_notify('{channel}', n::text) FROM generate_series(1, {MOST_NOTICES - 1}) AS n"
        await asyncio.to_thread(database.execute, f"{said}; SELECT pg_notify('{channel}', '{word}')")
    assert here._bell.connections == 1


async def test_who_is_told_again_before_it_looks_costs_its_loop_one_call() -> None:
    loop = Counting(asyncio.get_running_loop())
    one = bell.Listening()
    one._loop = loop  # type: ignore[assignment]
    for _ in range(100):
        one.tell()
    await one.wait()
    assert loop.calls == 1

    one.tell()
    await one.wait()
    assert loop.calls == 2


class Counting:
    """A loop, and how often it was called from elsewhere."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.calls = 0

    def call_soon_threadsafe(self, call: Callable[[], None]) -> None:
        self.calls += 1
        self._loop.call_soon_threadsafe(call)


class Counted:
    """Keys, and what they were asked to sign."""

    def __init__(self, keys: KeyRing) -> None:
        self._keys = keys
        self.signed: list[bytes] = []

    def mac(self, purpose: KeyPurpose, message: bytes) -> Mac:
        self.signed.append(message)
        return self._keys.mac(purpose, message)


async def test_what_is_heard_costs_no_digest_for_those_who_wait(open_store: OpenStore, ring: KeyRing) -> None:
    here, there = open_store(), open_store()
    here._bell._keys = keys = Counted(ring)  # type: ignore[assignment]
    with ExitStack() as waiting:
        for n in range(50):
            waiting.enter_context(here.waiting_for(effect_topic("acme", OperationKey(f"other-{n}"))))
        async with woken_by(here, effect_topic("acme", KEY)):
            begun = len(keys.signed)
            await there.settle(a_settlement(await claimed(there)))

    assert len(keys.signed) == begun == 51
    assert here._bell._by_word == {}


async def test_a_caller_whose_store_cannot_listen_asks_as_before(database: Database, tmp_path: Path) -> None:
    began, may_end = asyncio.Event(), asyncio.Event()

    @placet.tool(effect="idempotent_write", risk="low", permission="ops.write", operation_key="pay:{order}")
    async def pay(order: str) -> str:
        began.set()
        await may_end.wait()
        return f"paid {order}"

    ask = {"call_id": "c1", "tool": "pay", "arguments": {"order": "o-1"}}
    async with (
        placet.open(tools=[pay], store=database.url, key=tmp_path / "key") as acting,
        placet.open(tools=[pay], store=database.url, key=tmp_path / "key") as waiting,
    ):
        waiting.store._ringing.cancel()  # type: ignore[attr-defined]
        first = asyncio.ensure_future(acting.submit(ask, principal=GOVERNED, run="r-1"))
        await began.wait()
        second = asyncio.ensure_future(waiting.submit({**ask, "call_id": "c2"}, principal=GOVERNED, run="r-2"))
        await until(lambda: waiting.store._bell._waiting)  # type: ignore[attr-defined]
        may_end.set()

        assert (await first).unwrap() == "paid o-1"
        assert (await second).code == "replayed"
        assert not waiting.store._bell.is_listening  # type: ignore[attr-defined]


async def test_who_begins_to_wait_while_the_server_is_away_is_heard_once_it_is_back(
    database: Database, open_store: OpenStore
) -> None:
    async with a_wire(database) as wire:
        here = await asyncio.to_thread(open_store, through(wire, database, patience_seconds=1.0))
        there = open_store()
        effect = await claimed(there)
        wire.is_down = True
        with here.waiting_for(effect_topic("acme", KEY)) as wakeup:
            await until(lambda: wire.refused > 0)
            assert not here._bell.is_listening
            wire.is_down = False
            async with asyncio.timeout(30):
                await wakeup.wait()  # it may have missed something, so it looks
        async with woken_by(here, effect_topic("acme", KEY)):
            await there.settle(a_settlement(effect))


async def test_closing_a_store_leaves_no_listener_behind(database: Database, open_store: OpenStore) -> None:
    store = open_store()
    with store.waiting_for(approvals_topic("acme")):
        await listening(store)
        assert len(database.fetch(LISTENERS)) == 1
        await store.close()
        await until(lambda: database.fetch(LISTENERS) == [])
    with store.waiting_for(approvals_topic("acme")):
        pass


def test_who_waits_in_a_store_of_one_process_looks_by_itself(tmp_path: Path) -> None:
    async def looks() -> str:
        began, may_end = asyncio.Event(), asyncio.Event()

        @placet.tool(effect="idempotent_write", risk="low", permission="ops.write", operation_key="pay:{order}")
        async def pay(order: str) -> str:
            began.set()
            await may_end.wait()
            return f"paid {order}"

        ask = {"call_id": "c1", "tool": "pay", "arguments": {"order": "o-1"}}
        async with placet.open(tools=[pay], store=tmp_path / "store.db") as gate:
            first = asyncio.ensure_future(gate.submit(ask, principal=GOVERNED, run="r-1"))
            await began.wait()
            second = asyncio.ensure_future(gate.submit({**ask, "call_id": "c2"}, principal=GOVERNED, run="r-2"))
            await asyncio.sleep(0)
            may_end.set()
            await first
            return (await second).code

    assert asyncio.run(looks()) == "replayed"

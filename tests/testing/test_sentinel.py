"""The sentinel does what it is told, counts what it did, and outlives nobody."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import placet
from placet.errors import MisuseError, NotSent, RemoteStatus, ToolRejected
from placet.testing import Manner, Sentinel, SentinelFailed, SentinelRules
from tests.processes import is_gone

LONG_AGO = datetime.now(UTC) - timedelta(hours=1)
SERVICES = {
    "plain": SentinelRules(retry_after_seconds=7),
    "keyed": SentinelRules(honours_keys=True),
    "punctual": SentinelRules(refuses_late=True),
}


@pytest.fixture
def sentinel(tmp_path: Path) -> Iterator[Sentinel]:
    with Sentinel(tmp_path, SERVICES) as sentinel:
        yield sentinel


ACTS_AT_ONCE = {Manner.ACT, Manner.DROP_REPLY, Manner.UNAVAILABLE_BUT_ACTS}
ACTS_LATE = {Manner.ACT_LATE, Manner.HANG_UP_THEN_ACT}
RAISES = {
    Manner.DROP_REPLY: ConnectionError,
    Manner.HANG_UP: ConnectionError,
    Manner.HANG_UP_THEN_ACT: ConnectionError,
    Manner.BUSY: RemoteStatus,
    Manner.UNAVAILABLE: RemoteStatus,
    Manner.UNAVAILABLE_BUT_ACTS: RemoteStatus,
    Manner.REFUSE: ToolRejected,
    Manner.CONFLICT: ToolRejected,
}


@pytest.mark.parametrize("manner", Manner)
async def test_each_manner_acts_and_answers_as_it_says(sentinel: Sentinel, manner: Manner) -> None:
    client = sentinel.client("plain")

    try:
        answer: object = await client.act("order/7 ü", {"cents": 1}, manner=manner, delay_seconds=0.05)
    except (ConnectionError, RemoteStatus, ToolRejected) as fault:
        answer = fault
    acted_at_once = sentinel.effects("plain").total()
    await sentinel.drained(within_seconds=60)

    if manner in RAISES:
        assert isinstance(answer, RAISES[manner])
    else:
        assert answer == {"cents": 1}
    if manner not in ACTS_LATE:  # its delay may be over before anybody looks
        assert acted_at_once == (manner in ACTS_AT_ONCE)
    assert sentinel.effects("plain") == ({"order/7 ü": 1} if manner in ACTS_AT_ONCE | ACTS_LATE else {})


async def test_a_busy_answer_says_when_to_come_back(sentinel: Sentinel) -> None:
    with pytest.raises(RemoteStatus) as busy:
        await sentinel.client("plain").act("k", 1, manner=Manner.BUSY)

    assert (busy.value.status, busy.value.retry_after) == (429, "7")


def waiting(sentinel: Sentinel) -> int:
    """How many requests it keeps back."""
    with urllib.request.urlopen(f"http://127.0.0.1:{sentinel.port}/", timeout=60) as answer:
        return int(json.load(answer)["waiting"])


async def test_a_request_acts_though_its_caller_has_gone(sentinel: Sentinel) -> None:
    asking = asyncio.create_task(sentinel.client("plain").act("k", 1, manner=Manner.ACT_LATE, delay_seconds=0.5))
    while not asking.done() and not await asyncio.to_thread(waiting, sentinel):
        await asyncio.sleep(0.005)
    asking.cancel()
    await asyncio.wait((asking,))

    await sentinel.drained(within_seconds=60)
    assert sentinel.effects("plain") == {"k": 1}


async def test_a_service_that_honours_keys_acts_once_and_answers_with_the_first_value(sentinel: Sentinel) -> None:
    keyed, plain = sentinel.client("keyed"), sentinel.client("plain")

    assert [await keyed.act("k", 1), await keyed.act("k", 2)] == [1, 1]
    assert [await plain.act("k", 1), await plain.act("k", 2)] == [1, 2]

    assert (sentinel.effects("keyed"), sentinel.effects("plain")) == ({"k": 1}, {"k": 2})
    assert [await plain.found("k"), await plain.found("other")] == [1, None]


async def test_a_punctual_service_refuses_what_would_act_after_its_deadline(sentinel: Sentinel) -> None:
    punctual = sentinel.client("punctual")
    soon = datetime.now(UTC) + timedelta(seconds=60)

    with pytest.raises(ToolRejected):
        await punctual.act("late", 1, deadline_at=LONG_AGO)
    assert await punctual.act("in time", 1, deadline_at=soon) == 1
    assert await sentinel.client("plain").act("late", 1, deadline_at=LONG_AGO) == 1

    assert sentinel.effects("punctual") == {"in time": 1}


async def test_the_guard_is_asked_before_the_first_byte(sentinel: Sentinel) -> None:
    def too_late() -> None:
        raise NotSent("too late")

    with pytest.raises(NotSent):
        await sentinel.client("plain").act("k", 1, guard=too_late)
    assert sentinel.effects("plain") == {}


async def test_a_sentinel_that_is_gone_was_not_sent_anything(tmp_path: Path) -> None:
    with Sentinel(tmp_path, SERVICES) as sentinel:
        client = sentinel.client("plain")

    with pytest.raises(NotSent):
        await client.act("k", 1)
    with pytest.raises(NotSent):
        await asyncio.to_thread(client.act_blocking, "k", 1)


async def test_a_thread_may_ask_too_and_give_up_waiting(sentinel: Sentinel) -> None:
    client = sentinel.client("plain")

    assert await asyncio.to_thread(client.act_blocking, "k", 1) == 1
    with pytest.raises(TimeoutError):
        await asyncio.to_thread(
            client.act_blocking, "slow", 1, manner=Manner.ACT_LATE, delay_seconds=0.3, timeout_seconds=0.05
        )
    await sentinel.drained(within_seconds=60)
    assert sentinel.effects("plain") == {"k": 1, "slow": 1}


async def test_the_next_sentinel_remembers_what_the_last_one_did(tmp_path: Path) -> None:
    for value in (1, 2):
        with Sentinel(tmp_path, SERVICES) as sentinel:
            assert await sentinel.client("keyed").act("k", value) == 1

    assert sentinel.effects("keyed") == {"k": 1}


def test_chance_is_repeated_by_the_seed_and_follows_the_weights() -> None:
    weights = {Manner.ACT: 3.0, Manner.REFUSE: 1.0, Manner.BUSY: 0.0}
    rules = SentinelRules(weights=weights, shortest_delay_seconds=1.0, longest_delay_seconds=2.0, seed=4)
    drawn = [rules.treatment(f"k-{n}", 1) for n in range(400)]

    assert drawn == [rules.treatment(f"k-{n}", 1) for n in range(400)]
    assert drawn != [SentinelRules(weights=weights, seed=5).treatment(f"k-{n}", 1) for n in range(400)]
    manners = [each.manner for each in drawn]
    assert 240 < manners.count(Manner.ACT) < 360 and Manner.BUSY not in manners
    assert all(1.0 <= each.delay_seconds <= 2.0 for each in drawn)
    assert SentinelRules.from_data(json.loads(json.dumps(rules.as_data()))) == rules


@pytest.mark.parametrize(
    "wrong",
    [{"weights": {Manner.ACT: -1.0}}, {"weights": {Manner.ACT: 0.0}}, {"longest_delay_seconds": -1.0}],
    ids=["negative", "nothing", "delay"],
)
def test_rules_that_mean_nothing_are_refused(wrong: dict) -> None:
    with pytest.raises(MisuseError):
        SentinelRules(**wrong)


async def test_a_sentinel_that_keeps_requests_back_says_so(sentinel: Sentinel) -> None:
    with pytest.raises(ConnectionError):
        await sentinel.client("plain").act("k", 1, manner=Manner.HANG_UP_THEN_ACT, delay_seconds=600)

    with pytest.raises(SentinelFailed):
        await sentinel.drained(within_seconds=0.05)


async def test_what_is_no_request_of_ours_is_refused_and_does_nothing(sentinel: Sentinel) -> None:
    for raw in (b"GARBAGE\r\n\r\n", b"POST /plain HTTP/1.1\r\n\r\n", b"DELETE /plain HTTP/1.1\r\n\r\n"):
        reader, writer = await asyncio.open_connection("127.0.0.1", sentinel.port)
        writer.write(raw)
        assert (await reader.readline()).startswith(b"HTTP/1.1 400 ")
        writer.close()
    with pytest.raises(RemoteStatus) as unknown:
        await sentinel.client("nobody").act("k", 1)

    assert unknown.value.status == 404
    assert sentinel.effects("plain") == {}


def test_a_sentinel_ends_with_its_parent(tmp_path: Path) -> None:
    parent = (
        "import os, sys, pathlib\n"
        "from placet.testing import Sentinel, SentinelRules\n"
        f"sentinel = Sentinel(pathlib.Path({str(tmp_path)!r}), {{'a': SentinelRules()}}).__enter__()\n"
        "print(sentinel._process.pid, flush=True)\n"
        "os._exit(0)\n"
    )
    ran = subprocess.run([sys.executable, "-c", parent], capture_output=True, text=True, timeout=60, check=True)
    process = int(ran.stdout)

    until = time.monotonic() + 20
    while not is_gone(process):
        assert time.monotonic() < until, "the sentinel outlived its parent"
        time.sleep(0.02)


@pytest.mark.req("C027", "C040")
async def test_a_handler_over_a_sentinel_is_unknown_where_it_was_silent_and_acts_once(
    sentinel: Sentinel, tmp_path: Path
) -> None:
    remote = sentinel.client("plain")
    manners = iter([Manner.DROP_REPLY])

    async def probe(context: placet.ProbeContext) -> placet.Found | placet.Absent:
        value = await remote.found(context.operation_key)
        return placet.Absent() if value is None else placet.Found(result=value)

    @placet.tool(effect="write", risk="medium", permission="pay", operation_key="pay:{order}", probe=probe)
    async def pay(order: str, call: placet.CallContext) -> dict[str, str]:
        value = await remote.act(call.operation_key, {"order": order}, manner=next(manners), guard=call.guard)
        assert isinstance(value, dict)
        return {"order": str(value["order"])}

    agent = placet.Principal.agent("agent", tenant="acme", roles=["operator"], scopes=["pay"])
    proposal = {"call_id": "c1", "tool": "pay", "arguments": {"order": "A7"}}
    async with placet.open(tools=[pay], store=tmp_path / "placet.db", recovery="manual") as gate:
        first = await gate.submit(proposal, principal=agent, run="r")
        await gate.reconciler.recover()
        again = await gate.submit(proposal, principal=agent, run="r")

    assert (type(first), type(again)) == (placet.Unknown, placet.Replayed)
    assert sentinel.effects("plain").total() == 1

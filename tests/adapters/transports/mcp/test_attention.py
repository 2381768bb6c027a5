"""How much of the event loop a server that says too much may take: counted in turns and weight, never timed."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import httpx
import pytest

from placet.adapters.clock import SystemClock
from placet.adapters.transports.mcp.attention import (
    BURST_WEIGHT,
    FLOOD_WEIGHT,
    TURN_WEIGHT,
    WEIGHT_PER_SECOND,
    Attention,
    Share,
    has_more_marks,
    marks,
    weight,
)
from placet.adapters.transports.mcp.hearing import MOST_MARKS, MOST_UNASKED_BYTES, answered_id, asked_id, hear
from placet.adapters.transports.mcp.messages import Answer, Garbled, Message, Noise, Noticed, Oversized, Unread
from placet.adapters.transports.mcp.stdio import StdioChannel
from placet.adapters.transports.mcp.streamable import StreamableChannel

LINE = b'{"jsonrpc":"2.0","method":"x"}'
SECONDS = 30.0


class Time:
    """Stands still until it is told."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def nobody(_: object) -> bool:
    return False


def somebody(_: object) -> bool:
    return True


# ---------------------------------------------------------------- weights


def test_what_a_message_costs_goes_by_the_values_that_it_takes_to_read_it() -> None:
    plain = json.dumps({"jsonrpc": "2.0", "method": "x", "params": {"a": "-" * 3_000}}).encode()
    crowded = json.dumps({"jsonrpc": "2.0", "method": "x", "params": {"a": [{}] * 1_000}}).encode()

    assert marks(crowded) >= 2_000 and marks(plain) < 10
    assert weight(crowded) > 8 * weight(plain) > 8 * 3_000


def test_a_server_that_has_said_too_much_is_not_read_until_it_has_paid() -> None:
    time = Time()
    attention = Attention(time)
    one, other = Share(attention), Share(attention)

    one.unasked(BURST_WEIGHT - 1)
    assert other.pause_seconds() == 0.0
    one.unasked(1 + WEIGHT_PER_SECOND // 2)
    assert one.pause_seconds() == other.pause_seconds() == 0.5
    time.now = 0.75
    assert other.pause_seconds() == 0.0


def test_a_session_floods_that_goes_on_without_a_pause_and_no_other_of_its_server_does() -> None:
    time = Time()
    attention = Attention(time)
    wild, calm = Share(attention), Share(attention)

    for second in range(FLOOD_WEIGHT // WEIGHT_PER_SECOND):
        time.now = float(second)
        wild.unasked(WEIGHT_PER_SECOND)
        calm.unasked(300)
    assert not wild.is_flooding
    wild.unasked(WEIGHT_PER_SECOND)

    assert wild.is_flooding and not calm.is_flooding


def test_bursts_with_pauses_between_them_are_no_flood() -> None:
    time = Time()
    share = Share(Attention(time))

    for burst in range(20):
        time.now = burst * 2.0 * BURST_WEIGHT / WEIGHT_PER_SECOND
        share.unasked(BURST_WEIGHT)

    assert not share.is_flooding


def test_an_answer_that_somebody_waits_for_is_no_flood_and_counts_for_the_turn_all_the_same() -> None:
    share = Share(Attention(Time()))

    for _ in range(20):
        share.answered(FLOOD_WEIGHT // 16)
        assert share.has_had_its_turn() and not share.has_had_its_turn()

    assert not share.is_flooding and share.pause_seconds() == 0.0


# ---------------------------------------------------------------- what is read at all

_VERSION = b'"jsonrpc":"2.0"'


@pytest.mark.parametrize(
    ("text", "found"),
    [
        pytest.param(b'{"jsonrpc":"2.0","id":7,"result":{"id":9}}', 7, id="id first"),
        pytest.param(b' { "jsonrpc" : "2.0" , "id" : 7 , "error" : {} }', 7, id="spaces"),
        pytest.param(b'{"id":7,"jsonrpc":"2.0","result":{}}', 7, id="version second"),
        pytest.param(b'{"result":{"id":9},"jsonrpc":"2.0","id":7}', 7, id="id last"),
        pytest.param(b'{"jsonrpc":"2.0","result":{"id":9},"id":7}', 7, id="id last, version first"),
        pytest.param(b'{"result":{"id":9},"id":7,"jsonrpc":"2.0"}\r', 7, id="version last"),
        pytest.param(b'{"jsonrpc":"2.0","id":7,"method":"ping"}', None, id="a question"),
        pytest.param(b'{"method":"ping","params":{},"jsonrpc":"2.0","id":7}', None, id="a question, id last"),
        pytest.param(b'{"result":{"a":{"id":7}}}', None, id="of something within"),
        pytest.param(b'{"jsonrpc":"2.0","id":"7","result":{}}', None, id="no number"),
    ],
)
def test_whose_answer_it_is_is_told_by_its_ends(text: bytes, found: int | None) -> None:
    assert answered_id(text[:256], text[-96:]) == found


def answer(filling: object) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": 7, "result": {"x": filling}}, separators=(",", ":")).encode()


def test_a_large_message_is_read_where_it_is_the_answer_that_somebody_waits_for_and_not_otherwise() -> None:
    text = answer("-" * MOST_UNASKED_BYTES)
    notice = b'{"jsonrpc":"2.0","method":"x","params":{"a":"' + b"-" * MOST_UNASKED_BYTES + b'"}}'
    share = Share(Attention(Time()))

    assert isinstance(hear(text, share, somebody), Answer)
    assert hear(text, share, nobody) == hear(notice, share, somebody) == Noise()
    assert isinstance(hear(notice.replace(b"-" * 64, b""), share, somebody), Noticed)


def test_an_answer_of_too_many_values_is_too_large_and_is_not_read() -> None:
    share = Share(Attention(Time()))

    assert isinstance(hear(answer([1] * (MOST_MARKS - 10)), share, somebody), Answer)
    assert hear(answer([1] * (MOST_MARKS + 1)), share, somebody) == Oversized(id=7)


def test_what_stands_in_a_text_is_no_value() -> None:
    share = Share(Attention(Time()))

    assert isinstance(hear(answer("7," * (MOST_MARKS + 1)), share, somebody), Answer)
    assert isinstance(hear(answer('\\"{,[' * MOST_MARKS), share, somebody), Answer)
    assert hear(answer(["a\\"] * (MOST_MARKS + 1)), share, somebody) == Oversized(id=7)


def test_a_text_without_end_is_looked_at_once() -> None:
    """Quotes behind strokes: whoever began anew at each of them would never be done."""
    assert not has_more_marks(b'"' + b'\\"' * 300_000 + b"," * MOST_MARKS + b",\\", MOST_MARKS)
    assert has_more_marks(b'"a"' + b"," * (MOST_MARKS + 1), MOST_MARKS)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        pytest.param(b'{"jsonrpc":"2.0","id":7,"method":"x","params":{}}', 7, id="id first"),
        pytest.param(b'{"id":"a-7","jsonrpc":"2.0","method":"x","params":{}}', "a-7", id="a text"),
        pytest.param(b'{"method":"x","params":{"id":9},"jsonrpc":"2.0","id":7}', 7, id="id last"),
        pytest.param(b'{"method":"x","params":{"id":9},"id":7,"jsonrpc":"2.0"}', 7, id="version last"),
        pytest.param(b'{"jsonrpc":"2.0","method":"x","params":{"id":9}}', None, id="a notice"),
        pytest.param(b'{"jsonrpc":"2.0","id":7,"result":{}}', None, id="an answer"),
    ],
)
def test_which_question_it_is_is_told_by_its_ends(text: bytes, found: int | str | None) -> None:
    assert asked_id(text[:256], text[-192:]) == found


def test_a_question_that_is_too_large_is_known_for_one() -> None:
    params = b'"params":{"a":"' + b"-" * MOST_UNASKED_BYTES + b'"}'
    share = Share(Attention(Time()))

    assert hear(b'{"method":"x",%s,"jsonrpc":"2.0","id":7}' % params, share, nobody) == Unread(id=7)


def test_pieces_of_next_to_nothing_cost_their_server_and_large_ones_do_not() -> None:
    small, large = Share(Attention(Time())), Share(Attention(Time()))

    for _ in range(10_000):
        small.came(b" ")
    large.came(b"x" * 16_777_216)

    assert small.pause_seconds() > 0.0 and large.pause_seconds() == 0.0
    assert not small.is_flooding


def test_a_stream_that_nobody_asked_for_is_its_to_pay_though_it_says_nothing() -> None:
    share = Share(Attention(Time()))
    for _ in range(16_777_216 // 65_536):
        share.came(b":" * 65_536, is_asked_for=False)

    assert share.pause_seconds() > 0.0 and not share.is_flooding


def test_what_a_server_makes_us_send_is_its_to_pay() -> None:
    share = Share(Attention(Time()))

    for _ in range(BURST_WEIGHT // 16_384 + 1):
        share.made_us_send()

    assert share.pause_seconds() > 0.0


def test_what_goes_on_to_a_client_costs_its_server_more_and_is_no_flood() -> None:
    heard, told = Share(Attention(Time())), Share(Attention(Time()))
    for _ in range(1_000):
        heard.unasked(weight(LINE))
        told.unasked(weight(LINE))
        told.passed_on()

    assert heard.pause_seconds() == 0.0 < told.pause_seconds() and not told.is_flooding


def test_a_large_message_that_lies_about_whose_it_is_costs_its_server_the_more() -> None:
    lie = b'{"jsonrpc":"2.0","id":7,"result":{},"method":"x","x":"' + b"-" * MOST_UNASKED_BYTES + b'"}'
    honest, lying = Share(Attention(Time())), Share(Attention(Time()))

    for _ in range(BURST_WEIGHT // MOST_UNASKED_BYTES + 1):
        assert isinstance(hear(answer("-" * MOST_UNASKED_BYTES), honest, somebody), Answer)
        hear(lie, lying, somebody)

    assert honest.pause_seconds() == 0.0 < lying.pause_seconds()


# ---------------------------------------------------------------- a process that floods


class Flood:
    """A process of its own that prints without being asked, and how many turns others had meanwhile."""

    def __init__(self, program: str, folder: Path, time: Callable[[], float]) -> None:
        self.heard: list[int] = []
        self.turn = 0
        self.has_flooded, self.is_lost = asyncio.Event(), asyncio.Event()
        self._is_done = False
        self.share = Share(Attention(time))
        self.channel = StdioChannel(
            sys.executable, ("-c", program), environment={}, folder=folder, most_bytes=4_194_304, share=self.share,
            awaits=nobody, heard=self._hear, flooded=self.has_flooded.set, lost=self.is_lost.set,
        )  # fmt: skip
        asyncio.get_running_loop().call_soon(self._tick)

    def _tick(self) -> None:
        self.turn += 1
        if not self._is_done:
            asyncio.get_running_loop().call_soon(self._tick)

    def _hear(self, _: Message) -> None:
        self.heard.append(self.turn)

    async def close(self) -> None:
        self._is_done = True
        await self.channel.close()


async def test_others_have_their_turn_between_a_few_messages_of_a_flood(tmp_path: Path) -> None:
    line = LINE.decode()
    flood = Flood(f"print(({line!r} + chr(10)) * 4000, flush=True)", tmp_path, Time())
    async with asyncio.timeout(SECONDS):
        await flood.is_lost.wait()
    await flood.close()

    a_turn = -(-TURN_WEIGHT // weight(LINE))
    most = max(flood.heard.count(turn) for turn in set(flood.heard))
    assert len(flood.heard) == 4_000
    assert most <= a_turn + 1


async def test_of_a_flood_no_more_is_read_than_there_is_room_for(tmp_path: Path) -> None:
    """The rest of it waits in the pipe, and its process with it, until time goes on."""
    time = Time()
    program = f"import sys\nwhile True: sys.stdout.write({LINE.decode() + chr(10)!r} * 1000)"
    flood = Flood(program, tmp_path, time)
    room = BURST_WEIGHT // weight(LINE) + 1
    async with asyncio.timeout(SECONDS):
        while len(flood.heard) < room:
            await asyncio.sleep(0.001)
    turn = flood.turn
    async with asyncio.timeout(SECONDS):
        while flood.turn < turn + 200:
            await asyncio.sleep(0)
    assert len(flood.heard) == room

    time.now = 1.0
    async with asyncio.timeout(SECONDS):
        while len(flood.heard) < room + WEIGHT_PER_SECOND // weight(LINE):
            await asyncio.sleep(0.001)
    assert not flood.is_lost.is_set()
    await flood.close()


async def test_a_line_in_pieces_of_next_to_nothing_has_to_wait(tmp_path: Path) -> None:
    program = "import os, sys, time\nfor _ in range(1000): os.write(1, b'x'); time.sleep(0.005)\nsys.stdin.read()"
    flood = Flood(program, tmp_path, Time())
    flood.share.unasked(BURST_WEIGHT - 5_000)
    async with asyncio.timeout(SECONDS):
        while flood.share.pause_seconds() == 0.0:
            await asyncio.sleep(0.001)
    assert not flood.is_lost.is_set()
    await flood.close()


# ---------------------------------------------------------------- a service that floods


class Stream(httpx.AsyncByteStream):
    """An answer in pieces, as they lay in the system's buffer."""

    def __init__(self, *pieces: bytes) -> None:
        self._pieces = pieces
        self.was_read = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            yield piece
        self.was_read = True


class Ending(httpx.AsyncBaseTransport):
    """Has a stream for what belongs to no request, which ends at once, and answers whatever it is told."""

    def __init__(self, *streams: bytes) -> None:
        self.streams = list(streams)
        self.statuses: list[int] = []
        self.told = 0
        self.answers: list[Stream] = []
        self.at_once = self.most_at_once = 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if request.method == "GET":
            if self.statuses:
                return httpx.Response(self.statuses.pop(0))
            if not self.streams:
                return httpx.Response(405)
            stream = Stream(self.streams.pop(0))
            return httpx.Response(200, headers={"content-type": "text/event-stream"}, stream=stream)
        self.told += 1
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        await asyncio.sleep(0)
        self.at_once -= 1
        self.answers.append(Stream())
        return httpx.Response(202, headers={"content-length": "0"}, stream=self.answers[-1])


class Pauses(SystemClock):
    """Lets no time pass, and keeps how long was to be waited."""

    def __init__(self) -> None:
        super().__init__()
        self.waited: list[float] = []
        self.passes: Time | None = None

    async def sleep(self, seconds: float) -> None:
        self.waited.append(seconds)
        if self.passes is not None:
            self.passes.now += seconds
        await asyncio.sleep(0)


def over(service: httpx.AsyncBaseTransport, clock: SystemClock, share: Share) -> StreamableChannel:
    return StreamableChannel(
        "http://127.0.0.1:1/mcp", service, shown=lambda: ({}, {}), connect_seconds=SECONDS, most_bytes=4_194_304,
        clock=clock, share=share, awaits=somebody, heard=lambda *_: None, failed=lambda *_: None,
        flooded=lambda: None, retired=lambda: None, missed=lambda: None,
    )  # fmt: skip


async def test_a_stream_that_brings_nothing_is_opened_less_and_less_whatever_its_server_wants() -> None:
    message = b"data: %s\n\n" % LINE
    clock, service = Pauses(), Ending(*[b"retry: 0\n\n"] * 7, b"retry: 0\n" + message, b"retry: 2500\n\n")
    channel = over(service, clock, Share(Attention(Time())))
    channel.listen()
    async with asyncio.timeout(SECONDS):
        while service.streams:
            await asyncio.sleep(0)
    await asyncio.sleep(0)
    await channel.close()

    waited = [each for each in clock.waited if each]
    assert waited[:9] == [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 1.0, 2.5]


async def test_a_stream_that_is_not_to_be_had_now_is_asked_for_again_and_each_but_the_first_is_told_of() -> None:
    clock, service = Pauses(), Ending(*[b"retry: 0\n\n"] * 3)
    service.statuses = [503, 429]
    channel, missed = over(service, clock, Share(Attention(Time()))), []
    channel._missed_by = lambda: missed.append(len(service.streams))
    channel.listen()
    async with asyncio.timeout(SECONDS):
        while service.streams:
            await asyncio.sleep(0)
    await asyncio.sleep(0)
    await channel.close()

    assert missed == [2, 1, 0] and [each for each in clock.waited if each][:4] == [1.0, 2.0, 4.0, 8.0]


@pytest.mark.parametrize("status", [401, 403, 404, 405, 500])
async def test_a_stream_that_was_there_once_is_asked_for_again_whatever_is_said_meanwhile(status: int) -> None:
    clock, service = Pauses(), Ending(*[b"retry: 0\n\n"] * 2)
    channel, heard = over(service, clock, Share(Attention(Time()))), []
    channel._missed_by = lambda: heard.append(len(service.streams))
    channel.listen()
    async with asyncio.timeout(SECONDS):
        while len(service.streams) > 1:
            await asyncio.sleep(0)
        service.statuses = [status, status]
        while service.streams:
            await asyncio.sleep(0)
    await asyncio.sleep(0)
    await channel.close()

    assert heard == [0] and service.statuses == []


@pytest.mark.parametrize("status", [401, 403, 404, 405, 500])
async def test_a_stream_that_there_never_was_is_asked_for_once(status: int) -> None:
    clock, service = Pauses(), Ending(b"retry: 0\n\n")
    service.statuses = [status]
    channel = over(service, clock, Share(Attention(Time())))
    channel.listen()
    for _ in range(50):
        await asyncio.sleep(0)
    await channel.close()

    assert len(service.streams) == 1 and service.statuses == []


class Crumbs(httpx.AsyncBaseTransport):
    """Answers in pieces of a byte."""

    def __init__(self, kind: str) -> None:
        self._kind = kind

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        said = b'data: {"jsonrpc":"2.0","id":1,"result":{}}\n\n'
        if self._kind == "application/json":
            said = said[6:-2]
        return httpx.Response(
            200, headers={"content-type": self._kind}, stream=Stream(*[b" "] * 10_000, *([b"\n"] * 2), said)
        )


@pytest.mark.parametrize("kind", ["application/json", "text/event-stream"])
async def test_an_answer_in_pieces_of_a_byte_has_to_wait_and_is_read_all_the_same(kind: str) -> None:
    time, clock = Time(), Pauses()
    clock.passes = time
    channel = over(Crumbs(kind), clock, Share(Attention(time)))
    heard: list[Message] = []
    channel._heard_by = lambda message, _: heard.append(message)
    await channel.ask(1, b"{}", headers={}, before=lambda: None)
    async with asyncio.timeout(SECONDS):
        while not heard:
            await asyncio.sleep(0)
    await channel.close()

    assert isinstance(heard[0], Answer)
    assert sum(clock.waited) > 0.5


async def test_answers_to_a_process_are_its_to_pay_too(tmp_path: Path) -> None:
    line = Flood("import sys; sys.stdin.read()", tmp_path, Time())
    for _ in range(BURST_WEIGHT // 100_000 + 1):
        line.channel.reply(b"-" * 100_000)
    assert line.share.pause_seconds() > 0.0
    await line.close()


async def test_answers_to_a_server_go_out_a_few_at_once_and_are_its_to_pay() -> None:
    service, share = Ending(), Share(Attention(Time()))
    channel = over(service, Pauses(), share)
    for _ in range(200):
        channel.reply(b"{}")
    async with asyncio.timeout(SECONDS):
        while service.told < 64:
            await asyncio.sleep(0)
    for _ in range(20):
        await asyncio.sleep(0)
    await channel.close()

    assert service.told == 64 and service.most_at_once <= 4
    assert all(each.was_read for each in service.answers), "a connection that cannot be used again"
    assert share.pause_seconds() > 0.0


class Service(httpx.AsyncBaseTransport):
    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        events = b"data:%s\n\n" % LINE * 1_500 + b'data: {"jsonrpc":"2.0","id":1,"result":{}}\n\n'
        return httpx.Response(200, headers={"content-type": "text/event-stream"}, stream=Stream(events))


async def test_others_have_their_turn_between_a_few_events_of_a_stream() -> None:
    turns = [0]
    heard: list[int] = []
    answered = asyncio.Event()

    def tick() -> None:
        turns[0] += 1
        if not answered.is_set():
            asyncio.get_running_loop().call_soon(tick)

    def hear_it(message: Message, _: object) -> None:
        heard.append(turns[0])
        if isinstance(message, Answer):
            answered.set()

    channel = StreamableChannel(
        "http://127.0.0.1:1/mcp", Service(), shown=lambda: ({}, {}), connect_seconds=SECONDS, most_bytes=4_194_304,
        clock=SystemClock(), share=Share(Attention(Time())), awaits=somebody, heard=hear_it,
        failed=lambda *_: answered.set(), flooded=answered.set, retired=answered.set, missed=lambda: None,
    )  # fmt: skip
    tick()
    await channel.ask(1, b"{}", headers={}, before=lambda: None)
    async with asyncio.timeout(SECONDS):
        await answered.wait()
    await channel.close()

    a_turn = -(-TURN_WEIGHT // weight(LINE)) + 1_024 // len(LINE)
    assert len(heard) == 1_501
    assert max(heard.count(turn) for turn in set(heard)) <= a_turn


@pytest.mark.case("K08")
@pytest.mark.parametrize("value", [b"NaN", b"1" * 5_000, b'"\xff"', b"[1,", b"{} {}"], ids=lambda value: value[:6])
@pytest.mark.parametrize(
    "form", [b'{"jsonrpc":"2.0","id":7,"result":{"a":%s}}', b'{"result":{"a":%s},"jsonrpc":"2.0","id":7}']
)
def test_an_answer_that_is_no_json_ends_the_waiting_for_it(form: bytes, value: bytes) -> None:
    share = Share(Attention(Time()))
    assert hear(form % value, share, somebody) == Garbled(id=7)
    assert hear(form % value, share, nobody) == Noise()


@pytest.mark.parametrize("levels", [100, 2_000])
def test_what_is_nested_too_deep_to_be_read_is_told_by_its_ends(levels: int) -> None:
    deep = b'{"a":' * levels + b"1" + b"}" * levels
    share = Share(Attention(Time()))
    assert hear(b'{"jsonrpc":"2.0","id":7,"result":%s}' % deep, share, somebody) == Garbled(id=7)
    assert hear(b'{"jsonrpc":"2.0","id":7,"method":"elicitation/create","params":%s}' % deep, share, nobody) == Unread(
        id=7
    )
    assert hear(b'{"jsonrpc":"2.0","method":"x","params":%s}' % deep, share, nobody) == Noise()


async def test_whose_answer_was_too_large_is_seen_in_its_last_bytes_too(tmp_path: Path) -> None:
    heard: list[Message] = []
    lost = asyncio.Event()
    program = """print('{"jsonrpc":"2.0","result":"' + "x" * 5000 + '","id":7}', flush=True)"""
    channel = StdioChannel(
        sys.executable, ("-c", program), environment={}, folder=tmp_path, most_bytes=1_000,
        share=Share(Attention(Time())), awaits=somebody, heard=heard.append, flooded=lost.set, lost=lost.set,
    )  # fmt: skip
    async with asyncio.timeout(SECONDS):
        await lost.wait()
    await channel.close()

    assert heard == [Oversized(id=7)]

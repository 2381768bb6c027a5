"""A name server that keeps silent costs those who wait for it, and nobody else."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from placet.adapters import name_lookups
from placet.adapters.name_lookups import addresses_of

LONGEST_SECONDS = 30.0


class Silent:
    """A name service that answers for some hosts only when it is told to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[str] = []
        self.speaks = threading.Event()
        monkeypatch.setattr(name_lookups, "resolve", self._resolve)

    def _resolve(self, host: str) -> list[str]:
        self.asked.append(host)
        if host.startswith("silent") and not self.speaks.wait(LONGEST_SECONDS):
            raise AssertionError("nobody let it speak")
        if host.endswith(".nowhere"):
            raise socket.gaierror(-2, "Name or service not known")
        if host.endswith(".odd"):
            raise UnicodeError("no such label")
        return ["192.0.2.1", "192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4", "192.0.2.5"]


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Iterator[Silent]:
    silent = Silent(monkeypatch)
    yield silent
    silent.speaks.set()


async def asked_for(names: Silent, count: int) -> None:
    async with asyncio.timeout(LONGEST_SECONDS):
        while len(names.asked) < count:
            await asyncio.sleep(0.001)


async def test_the_first_few_addresses_each_once(names: Silent) -> None:
    assert await addresses_of("a.test") == ["192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4"]


@pytest.mark.parametrize("address", ["192.0.2.9", "2001:db8::1"])
async def test_an_address_is_nobodys_question(names: Silent, address: str) -> None:
    assert await addresses_of(address) == [address]
    assert names.asked == []


@pytest.mark.parametrize("host", ["a.nowhere", "a.odd"])
async def test_what_is_nowhere_is_said_so_and_asked_again_by_the_next(names: Silent, host: str) -> None:
    for _ in range(2):
        with pytest.raises(OSError):
            await addresses_of(host)
    assert names.asked == [host, host]


async def test_others_are_looked_up_and_threads_are_free_however_many_wait_for_a_silent_one(names: Silent) -> None:
    waiting = [asyncio.ensure_future(addresses_of("silent.test")) for _ in range(200)]
    others = [asyncio.ensure_future(addresses_of(f"silent{number}.test")) for number in range(40)]
    await asked_for(names, 41)
    waiting[0].cancel()  # whoever leaves takes nobody's answer along

    assert len(await addresses_of("quick.test")) == 4
    assert await asyncio.to_thread(lambda: "read") == "read"

    names.speaks.set()
    ended = await asyncio.gather(*waiting[1:], *others)
    assert all(len(each) == 4 for each in ended) and names.asked.count("silent.test") == 1


async def test_more_hosts_at_once_than_may_be_are_refused_at_once(names: Silent) -> None:
    waiting = [asyncio.ensure_future(addresses_of(f"silent{number}.test")) for number in range(64)]
    await asked_for(names, 64)
    with pytest.raises(OSError, match="as many hosts as may be"):
        await addresses_of("quick.test")

    names.speaks.set()
    await asyncio.gather(*waiting)
    assert len(await addresses_of("quick.test")) == 4


def test_a_process_that_ends_waits_for_no_name_server() -> None:
    program = (
        "import asyncio, threading\n"
        "from placet.adapters import name_lookups\n"
        "begun = threading.Event()\n"
        "name_lookups.resolve = lambda _: begun.set() or threading.Event().wait()\n"
        "async def main():\n"
        "    asyncio.ensure_future(name_lookups.addresses_of('silent.test'))\n"
        "    await asyncio.to_thread(begun.wait)\n"
        "asyncio.run(main())\n"
        "print('over')\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=LONGEST_SECONDS, check=False
    )
    assert (ended.stdout, ended.stderr, ended.returncode) == ("over\n", "", 0)

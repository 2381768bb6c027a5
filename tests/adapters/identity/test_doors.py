"""The doors of a real gate: whoever may come in comes in as who it is; what one host revokes is revoked on all."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

import placet
from placet.adapters.clock import SystemClock
from placet.adapters.identity import fetching
from placet.adapters.keys import KeyRing
from placet.adapters.stores.postgres import PostgresStore
from placet.adapters.telemetry.quiet import QuietMeter
from placet.bootstrap import sign_in
from placet.bootstrap.opening import Opening
from placet.bootstrap.sign_in import FrontDoors, doors_of, front_doors, require_sound
from placet.bootstrap.stores import open_store
from placet.errors import ConfigurationError, MisuseError, SignInRefused
from placet.model.admission import Admission
from placet.model.credentials import SessionLimits
from placet.model.identifiers import WriterId
from placet.model.issuers import Issuer, Network
from placet.model.principal import Principal, Standing
from placet.model.rates import Admitted, RateLimits, TooOften
from placet.ports.store import nobody
from tests.adapters.identity.issuer import LocalIssuer
from tests.postgres.fixtures import Database

MARA = Principal.person("mara", tenant="acme", scopes=["api_keys.manage"])


@placet.tool(effect="read")
async def look() -> str:
    """Look."""
    return "seen"


@pytest.fixture
def local() -> Iterator[LocalIssuer]:
    issuer = LocalIssuer()
    issuer.add("k1")
    yield issuer
    issuer.close()


@asynccontextmanager
async def opened(path: Path, admission: Admission, **more: Any) -> AsyncIterator[FrontDoors]:
    opening = placet.open(tools=[look], store=path / "placet.db", recovery="manual", **more)
    with pytest.raises(MisuseError):
        doors_of(opening)
    async with opening:
        doors = doors_of(opening, admission)
        yield doors
        await doors.close()


async def test_a_key_a_token_and_a_session_each_come_in_as_who_they_are(
    tmp_path: Path, local: LocalIssuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetching, "FETCH_SECONDS", 60.0)  # a loaded machine may take its time
    registry = CollectorRegistry()
    people = {"standing": Standing.PERSON, "person_if": {"amr": frozenset({"mfa"})}}
    issuer = Issuer(issuer=local.url, audience="placet", network=Network.LOOPBACK, tenant="acme", **people)
    async with opened(tmp_path, Admission(issuers=(issuer,)), metrics=registry) as doors:
        made = await doors.api_keys.create("bot", by=MARA, scopes=["a"])
        session = await doors.sessions.redeem(await doors.sessions.link(MARA))
        now = SystemClock().now().timestamp()

        assert await doors.sign_in.principal_of(made.text) == Principal.agent("bot", tenant="acme", scopes=["a"])
        token = local.token(now, sub="olga", amr=["mfa"])
        assert await doors.sign_in.principal_of(token) == Principal.person("olga", tenant="acme")
        assert (await doors.sessions.session_of(session.cookie)).principal == MARA
        for text in (
            "",
            "x",
            "placet_",
            made.text[:-1],
            token[:-8],
            session.cookie,
            "a.b.c",
            "é",
            "." * 9_000,
            None,
            7,
        ):
            with pytest.raises(SignInRefused):
                await doors.sign_in.principal_of(text)  # type: ignore[arg-type]

        counted = {
            (kind, outcome): registry.get_sample_value("placet_sign_ins_total", {"kind": kind, "outcome": outcome})
            for kind in ("api_key", "token", "session", "unknown")
            for outcome in ("let_in", "refused", "unavailable")
        }
        assert {pair: count for pair, count in counted.items() if count} == {
            ("api_key", "let_in"): 1, ("api_key", "refused"): 2, ("token", "let_in"): 1, ("token", "refused"): 2,
            ("session", "let_in"): 1, ("unknown", "refused"): 7,
        }  # fmt: skip


async def test_a_resource_takes_keys_and_of_tokens_those_that_were_issued_for_it(
    tmp_path: Path, local: LocalIssuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetching, "FETCH_SECONDS", 60.0)  # a loaded machine may take its time
    resource = "https://desk.test/mcp"
    issuer = Issuer(issuer=local.url, audience="placet", network=Network.LOOPBACK, tenant="acme")
    async with opened(tmp_path, Admission(issuers=(issuer,))) as doors:
        made = await doors.api_keys.create("bot", by=MARA)
        agents, now = doors.agents(resource), SystemClock().now().timestamp()
        assert (await agents.principal_of(made.text)).subject == "bot"
        assert (await agents.principal_of(local.token(now, sub="olga", aud=["placet", resource]))).subject == "olga"
        for audience in ("placet", ["placet", f"{resource}/"], ["placet", "https://desk.test"], resource):
            with pytest.raises(SignInRefused):
                await agents.principal_of(local.token(now, sub="olga", aud=audience))


async def test_without_an_issuer_no_token_is_looked_at(tmp_path: Path, local: LocalIssuer) -> None:
    async with opened(tmp_path, Admission()) as doors:
        with pytest.raises(SignInRefused):
            await doors.sign_in.principal_of(local.token(SystemClock().now().timestamp()))
    assert local.asked == {}


async def test_the_doors_have_limits_without_being_told(tmp_path: Path) -> None:
    async with opened(tmp_path, Admission()) as doors:
        admitted = 0
        while isinstance(answer := await doors.rate_limiter.admit(MARA), Admitted):
            admitted += 1
    assert isinstance(answer, TooOften)
    assert admitted >= 600  # a few more where the machine has paused


async def test_what_another_process_revokes_is_revoked_here_at_the_next_look(tmp_path: Path) -> None:
    revoking = (
        "import asyncio, sys\n"
        "from placet.bootstrap.sign_in import open_api_keys\n"
        "from placet.model.principal import Principal\n"
        "async def main():\n"
        "    keys, store = open_api_keys(sys.argv[1])\n"
        "    by = Principal.person('mara', tenant='acme', scopes=['api_keys.manage'])\n"
        "    await keys.revoke(sys.argv[2], by=by)\n"
        "    await store.close()\n"
        "asyncio.run(main())\n"
    )
    async with opened(tmp_path, Admission()) as doors:
        made = await doors.api_keys.create("bot", by=MARA)
        await doors.sign_in.principal_of(made.text)

        program = [sys.executable, "-c", revoking, str(tmp_path / "placet.db"), made.key.api_key_id]
        subprocess.run(program, check=True, timeout=60)

        with pytest.raises(SignInRefused):
            await doors.sign_in.principal_of(made.text)


def a_store(database: Database, keys: KeyRing, name: str) -> PostgresStore:
    return PostgresStore(
        database.address(), keys=keys, clock=SystemClock(), writer=WriterId(name), meter=QuietMeter(), heard=nobody
    )


def doors_over(store: PostgresStore, keys: KeyRing) -> FrontDoors:
    return front_doors(Admission(), store=store, keys=keys, clock=SystemClock(), meter=QuietMeter())


async def test_what_one_host_makes_and_ends_holds_on_another(databases: Callable[..., Database]) -> None:
    database, keys = databases(), KeyRing.ephemeral()
    stores = [a_store(database, keys, name) for name in ("w-1", "w-2")]
    here, there = (doors_over(store, keys) for store in stores)
    try:
        made = await here.api_keys.create("bot", by=MARA)
        assert (await there.sign_in.principal_of(made.text)).subject == "bot"
        assert (await here.api_keys.listed(by=MARA))[0].used_at is not None
        new = await there.api_keys.rotate(made.key.api_key_id, by=MARA, overlap_seconds=0)
        with pytest.raises(SignInRefused):
            await here.sign_in.principal_of(made.text)
        await here.sign_in.principal_of(new.text)
        await there.api_keys.revoke(new.key.api_key_id, by=MARA)
        with pytest.raises(SignInRefused):
            await here.sign_in.principal_of(new.text)

        session = await here.sessions.redeem(await there.sessions.link(MARA))
        assert (await there.sessions.session_of(session.cookie)).principal == MARA
        await there.sessions.end(session.cookie)
        with pytest.raises(SignInRefused):
            await here.sessions.session_of(session.cookie)
        database.execute("UPDATE placet.credentials SET body = replace(body, 'viewer', 'admin') WHERE kind = 'api_key'")
        assert {view.state.value for view in await here.api_keys.listed(by=MARA)} == {"altered"}
    finally:
        for store in stores:
            await store.close()


async def test_of_two_hosts_that_use_one_link_at_once_one_begins_a_session(databases: Callable[..., Database]) -> None:
    """Forty links, each raced for by two stores of their own."""
    database, keys = databases(), KeyRing.ephemeral()
    stores = [a_store(database, keys, name) for name in ("w-1", "w-2")]
    hosts = [doors_over(store, keys) for store in stores]
    try:
        links = [await hosts[0].sessions.link(MARA) for _ in range(40)]
        for link in links:
            found = await asyncio.gather(*(host.sessions.redeem(link) for host in hosts), return_exceptions=True)
            assert sorted(type(each).__name__ for each in found) == ["OpenedSession", "SignInRefused"]
    finally:
        for store in stores:
            await store.close()


async def test_a_store_in_memory_has_doors_too() -> None:
    keys, store = open_store("memory:")
    doors = front_doors(Admission(), store=store, keys=keys, clock=SystemClock(), meter=QuietMeter())
    made = await doors.api_keys.create("bot", by=MARA)
    assert (await doors.sign_in.principal_of(made.text)).subject == "bot"


SOUND = Issuer(issuer="https://id.test", audience="placet", tenant="acme")


@pytest.mark.parametrize(
    "admission",
    [
        Admission(issuers=(replace(SOUND, audience=""),)),
        Admission(issuers=(replace(SOUND, ca_file=Path("/nowhere/ca.pem")),)),
        Admission(rates=RateLimits(shared_at="nowhere")),
        Admission(rates=RateLimits(replicas=0)),
        Admission(sessions=SessionLimits(idle_seconds=59)),
        Admission(sessions=SessionLimits(idle_seconds=100, longest_seconds=99)),
        Admission(sessions=SessionLimits(longest_seconds=8 * 86_400)),
        Admission(sessions=SessionLimits(idle_seconds=float("nan"))),
    ],
)
def test_doors_that_cannot_be_opened_are_refused(admission: Admission) -> None:
    require_sound(Admission(issuers=(SOUND,)))
    with pytest.raises(ConfigurationError):
        require_sound(admission)


@pytest.mark.parametrize(
    ("library", "admission", "told"),
    [
        ("joserfc", Admission(issuers=(SOUND,)), "checkout[server]"),
        ("limits", Admission(), "checkout[server]"),
        ("valkey", Admission(rates=RateLimits(shared_at="valkey://h")), "checkout[server,valkey]"),
    ],
)
def test_a_library_that_is_missing_is_told_with_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, library: str, admission: Admission, told: str
) -> None:
    monkeypatch.setattr(sign_in, "find_spec", lambda name: None if name == library else object())
    with pytest.raises(ConfigurationError) as refused:
        require_sound(admission)
    assert library in str(refused.value) and told in refused.value.hint
    require_sound(Admission()) if library != "limits" else None


def test_a_gate_that_is_not_open_has_no_doors() -> None:
    assert isinstance(placet.open(tools=[look], store="memory:"), Opening)
    with pytest.raises(MisuseError):
        doors_of(placet.open(tools=[look], store="memory:"))

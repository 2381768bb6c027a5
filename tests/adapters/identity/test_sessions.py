"""A session is a person's, goes on while it is used and not for ever, and is over everywhere once it is ended."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from placet.adapters.identity.sessions import StoreSessions
from placet.errors import MisuseError, SignInRefused, StoreUnavailable
from placet.model.credentials import CredentialKind, SessionLimits, StoredCredential
from placet.model.principal import Principal, Role
from placet.ports.sessions import OpenedSession, Sessions
from placet.rules.credentials import secret_digest
from tests.adapters.identity.conftest import MARA, House

OLGA = Principal.person("olga", tenant="acme", roles=["admin"], scopes=["approvals.decide"], environment="staging")
BOT = Principal.agent("bot", tenant="acme")
HALF_AN_HOUR, TWELVE_HOURS = 1_800.0, 43_200.0


def sessions_of(house: House, **more: Any) -> StoreSessions:
    return StoreSessions(
        store=house.store, keys=house.keys, chronicle=house.chronicle, secrets=house.secrets, meter=house.meter, **more
    )


@pytest.fixture
def sessions(house: House) -> StoreSessions:
    return sessions_of(house)


def as_port(sessions: StoreSessions) -> Sessions:
    """What the console is given."""
    return sessions


async def is_over(sessions: StoreSessions, cookie: str) -> bool:
    try:
        await sessions.session_of(cookie)
    except SignInRefused as refused:
        assert (str(refused), refused.code) == (str(SignInRefused()), "sign_in_refused")
        return True
    return False


def row_of(house: House, opened: OpenedSession) -> StoredCredential:
    name = secret_digest(CredentialKind.SESSION, bytes.fromhex(opened.cookie))
    row: StoredCredential = house.store._tables.credentials[CredentialKind.SESSION, name]
    return row


def put_by_hand(house: House, row: StoredCredential) -> None:
    house.store._tables.credentials[row.kind, row.name] = row


async def test_a_cookie_is_the_person_that_signed_in_as_it_was(house: House, sessions: StoreSessions) -> None:
    opened = await as_port(sessions).open(OLGA)

    session = await sessions.session_of(opened.cookie)

    assert session == opened.session
    assert session.principal == OLGA and session.principal.roles == {Role.ADMIN}
    assert (session.ends_at - house.clock.now()).total_seconds() == TWELVE_HOURS


async def test_an_agent_has_no_session_and_no_link(sessions: StoreSessions) -> None:
    delegated = replace(OLGA, on_behalf_of=MARA, environment=MARA.environment)
    for nobody in (BOT, delegated):
        for work in (sessions.open, sessions.link, sessions.listed, sessions.end_all):
            with pytest.raises(SignInRefused):
                await work(nobody)
    with pytest.raises(MisuseError):
        await sessions.open("olga")  # type: ignore[arg-type]


async def test_the_store_has_neither_the_cookie_nor_what_its_forms_carry(house: House, sessions: StoreSessions) -> None:
    opened = await sessions.open(OLGA)
    link = await sessions.link(OLGA)

    kept = repr(house.store._tables.credentials) + repr(await house.told())

    for secret in (opened.cookie, opened.session.csrf, link):
        assert secret not in kept and repr(bytes.fromhex(secret)) not in kept


async def test_every_sign_in_has_a_name_of_its_own_and_forms_of_its_own(sessions: StoreSessions) -> None:
    first, second = await sessions.open(OLGA), await sessions.open(OLGA)

    assert first.cookie != second.cookie and first.session.csrf != second.session.csrf
    assert (await sessions.session_of(first.cookie)).csrf == first.session.csrf


async def test_a_name_that_somebody_brought_along_is_never_taken(sessions: StoreSessions) -> None:
    assert await is_over(sessions, "a" * 64)
    opened = await sessions.open(OLGA)
    assert opened.cookie != "a" * 64 and await is_over(sessions, "a" * 64)


@pytest.mark.parametrize("cookie", ["", "x", "A" * 64, "a" * 63, "a" * 65, "a" * 64 + "\n", "é" * 64, None, b"a" * 64])
async def test_what_is_no_name_is_known_before_anything_is_looked_up(
    house: House, sessions: StoreSessions, cookie: Any
) -> None:
    sessions._store = None  # type: ignore[assignment]
    await sessions.end(cookie)
    for work in (sessions.session_of, sessions._found):
        with pytest.raises(SignInRefused):
            await (work(cookie) if work is sessions.session_of else sessions._found(CredentialKind.SESSION, cookie))


async def test_a_session_that_nobody_uses_is_over_after_half_an_hour(house: House, sessions: StoreSessions) -> None:
    used, unused = await sessions.open(OLGA), await sessions.open(OLGA)
    for _ in range(10):
        house.clock.advance(HALF_AN_HOUR / 2)
        await sessions.session_of(used.cookie)

    assert await is_over(sessions, unused.cookie)
    house.clock.advance(HALF_AN_HOUR - 0.001)
    assert not await is_over(sessions, used.cookie)
    house.clock.advance(HALF_AN_HOUR)
    assert await is_over(sessions, used.cookie)


async def test_whoever_uses_it_a_session_is_over_after_twelve_hours(house: House, sessions: StoreSessions) -> None:
    opened = await sessions.open(OLGA)
    for _ in range(47):
        house.clock.advance(900)
        await sessions.session_of(opened.cookie)
    house.clock.advance(900 - 0.001)
    await sessions.session_of(opened.cookie)
    house.clock.advance(0.001)

    assert await is_over(sessions, opened.cookie)


async def test_limits_are_the_deployments(house: House) -> None:
    sessions = sessions_of(house, limits=SessionLimits(idle_seconds=60, longest_seconds=120))
    opened = await sessions.open(OLGA)
    for _ in range(3):
        house.clock.advance(39)
        await sessions.session_of(opened.cookie)
    house.clock.advance(3)
    assert await is_over(sessions, opened.cookie)


async def test_what_a_page_asks_by_itself_keeps_no_session_from_ending(house: House, sessions: StoreSessions) -> None:
    opened = await sessions.open(OLGA)
    for _ in range(59):
        house.clock.advance(HALF_AN_HOUR / 60)
        assert (await sessions.glance(opened.cookie)).principal == OLGA
    house.clock.advance(HALF_AN_HOUR / 60)

    with pytest.raises(SignInRefused):
        await sessions.glance(opened.cookie)
    assert await is_over(sessions, opened.cookie)


async def test_use_is_noted_now_and_then_only(house: House, sessions: StoreSessions) -> None:
    opened = await sessions.open(OLGA)
    before = house.store.commits
    for _ in range(59):
        await sessions.session_of(opened.cookie)
        house.clock.advance(1)

    assert house.store.commits == before + 1


async def test_who_signs_out_is_signed_out_on_every_host(house: House, sessions: StoreSessions) -> None:
    elsewhere = sessions_of(house)
    first, second = await sessions.open(OLGA), await sessions.open(OLGA)
    await elsewhere.session_of(first.cookie)

    await sessions.end(first.cookie)
    await sessions.end(first.cookie)

    assert await is_over(elsewhere, first.cookie)
    assert not await is_over(elsewhere, second.cookie)
    told = await house.told()
    assert [event["kind"] for event in told] == ["session_begun", "session_begun", "session_ended"]
    assert {(event["tenant"], event["subject"], event["decided_by"]) for event in told} == {("acme", "olga", "olga")}


async def test_a_person_sees_and_ends_all_of_its_own_sessions_and_nobody_elses(
    house: House, sessions: StoreSessions
) -> None:
    mine = [await sessions.open(OLGA) for _ in range(3)]
    other, namesake = await sessions.open(MARA), await sessions.open(replace(OLGA, tenant="other"))
    link = await sessions.link(OLGA)
    house.clock.advance(1)
    await sessions.session_of(mine[0].cookie)

    views = await sessions.listed(OLGA)

    assert len(views) == 3 and sum(view.used_at is not None for view in views) == 1
    assert all(view.name not in {each.cookie[:16] for each in mine} for view in views)
    assert await sessions.end_all(OLGA) == 3
    assert [await is_over(sessions, each.cookie) for each in mine] == [True] * 3
    assert await sessions.listed(OLGA) == ()
    with pytest.raises(SignInRefused):
        await sessions.redeem(link)
    for each in (other, namesake):
        assert not await is_over(sessions, each.cookie)


# ---------------------------------------------------------------- links


async def test_a_link_begins_one_session_within_its_time(house: House, sessions: StoreSessions) -> None:
    link = await sessions.link(OLGA)
    house.clock.advance(299.999)

    opened = await sessions.redeem(link)

    assert (await sessions.session_of(opened.cookie)).principal == OLGA
    with pytest.raises(SignInRefused):
        await sessions.redeem(link)
    assert [(e["kind"], e.get("detail")) for e in await house.told()] == [
        ("sign_in_link_made", None), ("session_begun", "link"),
    ]  # fmt: skip


async def test_a_link_is_over_at_its_instant(house: House, sessions: StoreSessions) -> None:
    link = await sessions.link(OLGA)
    house.clock.advance(300)

    with pytest.raises(SignInRefused):
        await sessions.redeem(link)


async def test_of_many_who_use_one_link_at_once_one_is_let_in(
    house: House, sessions: StoreSessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of them have seen it unused before the first one writes."""
    link, plain, ready = await sessions.link(OLGA), house.store.put_credentials, asyncio.Event()
    waiting: list[int] = []

    async def together(*args: Any, **more: Any) -> bool:
        waiting.append(1)
        if len(waiting) == 5:
            ready.set()
        await asyncio.wait_for(ready.wait(), 30)
        return bool(await plain(*args, **more))

    monkeypatch.setattr(house.store, "put_credentials", together)
    found = await asyncio.gather(*(sessions.redeem(link) for _ in range(5)), return_exceptions=True)

    assert sum(isinstance(each, OpenedSession) for each in found) == 1
    assert sum(isinstance(each, SignInRefused) for each in found) == 4


async def test_a_link_is_no_cookie_and_a_cookie_no_link(sessions: StoreSessions) -> None:
    link, opened = await sessions.link(OLGA), await sessions.open(OLGA)

    assert await is_over(sessions, link)
    with pytest.raises(SignInRefused):
        await sessions.redeem(opened.cookie)


# ---------------------------------------------------------------- a writer of the database


def _body(row: StoredCredential, was: str, now: str) -> StoredCredential:
    assert was.encode() in row.body
    return replace(row, body=row.body.replace(was.encode(), now.encode()))


ALTERATIONS: dict[str, Any] = {
    "subject": lambda row: _body(replace(row, subject="mara"), '"subject":"olga"', '"subject":"mara"'),
    "tenant": lambda row: _body(replace(row, tenant="other"), '"tenant":"acme"', '"tenant":"other"'),
    "role": lambda row: _body(row, '"admin"', '"viewer"'),
    "scope": lambda row: _body(row, '"approvals.decide"', '"ops.stop.all"'),
    "end": lambda row: _body(row, '"ends_at":"2026', '"ends_at":"2036'),
    "end beside it": lambda row: replace(row, ends_at=row.ends_at.replace(year=2036)),
    "mac": lambda row: replace(row, mac=replace(row.mac, value="0" * 64)),
}


@pytest.mark.parametrize("how", ALTERATIONS)
async def test_an_altered_session_is_over_and_alarms_once(house: House, sessions: StoreSessions, how: str) -> None:
    opened = await sessions.open(OLGA)
    put_by_hand(house, ALTERATIONS[how](row_of(house, opened)))

    assert [await is_over(sessions, opened.cookie) for _ in range(3)] == [True] * 3

    assert [event["kind"] for event in await house.told()] == ["session_begun", "credential_suspect"]


async def test_an_inserted_session_opens_nothing(house: House, sessions: StoreSessions) -> None:
    stranger = House()
    forged = await sessions_of(stranger).open(OLGA)
    put_by_hand(house, row_of(stranger, forged))

    assert await is_over(sessions, forged.cookie)


async def test_a_session_of_an_agent_opens_nothing_even_if_it_is_signed(house: House, sessions: StoreSessions) -> None:
    opened = await sessions.open(OLGA)
    session = house.rows.session(row_of(house, opened))
    assert session is not None
    put_by_hand(house, house.rows.of_session(replace(session, principal=replace(BOT, tenant="acme"))))

    assert await is_over(sessions, opened.cookie)


async def test_a_signed_api_key_is_no_session(house: House, sessions: StoreSessions) -> None:
    opened = await sessions.open(OLGA)
    made = await house.key()
    key_row = house.store._tables.credentials[CredentialKind.API_KEY, made.key.api_key_id]
    put_by_hand(house, replace(key_row, kind=CredentialKind.SESSION, name=row_of(house, opened).name))

    assert await is_over(sessions, opened.cookie)


async def test_no_hand_at_the_time_of_use_makes_a_session_longer_than_its_end(
    house: House, sessions: StoreSessions
) -> None:
    opened = await sessions.open(OLGA)
    put_by_hand(house, replace(row_of(house, opened), used_at=house.clock.now().replace(year=2036)))
    house.clock.advance(TWELVE_HOURS)

    assert await is_over(sessions, opened.cookie)


async def test_ending_an_altered_session_removes_it_and_alarms(house: House, sessions: StoreSessions) -> None:
    opened = await sessions.open(OLGA)
    put_by_hand(house, ALTERATIONS["mac"](row_of(house, opened)))

    await sessions.end(opened.cookie)

    assert house.store._tables.credentials == {}
    assert [event["kind"] for event in await house.told()] == ["session_begun", "credential_suspect"]


# ---------------------------------------------------------------- faults, and what is over


async def test_what_is_over_goes_when_somebody_signs_in(house: House, sessions: StoreSessions) -> None:
    for _ in range(3):
        await sessions.open(OLGA)
        await sessions.link(OLGA)
    house.clock.advance(TWELVE_HOURS)

    await sessions.open(MARA)

    assert [row.subject for row in house.store._tables.credentials.values()] == ["mara"]


async def test_a_store_that_cannot_look_lets_nobody_in_and_one_that_cannot_note_keeps_nobody_out(
    house: House, sessions: StoreSessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = await sessions.open(OLGA)

    async def down(*_: object, **__: object) -> None:
        raise StoreUnavailable("no")

    monkeypatch.setattr(house.store, "credential_used", down)
    assert (await sessions.session_of(opened.cookie)).principal == OLGA
    monkeypatch.setattr(house.store, "credential", down)
    with pytest.raises(StoreUnavailable):
        await sessions.session_of(opened.cookie)
    outcomes = [more["outcome"] for name, more in house.meter.heard if name == "signed_in"]
    assert outcomes == ["let_in", "unavailable"]


class Listed:
    """A list of people that somebody keeps, or that does not answer."""

    def __init__(self, *people: Principal) -> None:
        self.found: dict[str, Principal] = {person.subject: person for person in people}
        self.fails = False

    async def person(self, tenant: str, subject: str) -> Principal | None:
        if self.fails:
            raise OSError("ldap://hunter2")
        return self.found.get(subject)

    async def people(self, tenant: str) -> tuple[Principal, ...]:
        return tuple(self.found.values())


async def test_whoever_came_by_a_link_is_what_the_list_says_now(house: House) -> None:
    listed = Listed(MARA)
    sessions = sessions_of(house, people=listed)
    opened = await sessions.redeem(await sessions.link(MARA))
    through_issuer = await sessions.open(OLGA, through="https://issuer.example")
    less = replace(MARA, scopes=frozenset())

    listed.found["mara"] = less
    assert (await sessions.session_of(opened.cookie)).principal == less
    assert (await sessions.glance(opened.cookie)).principal == less
    listed.fails = True
    with pytest.raises(StoreUnavailable) as raised:
        await sessions.session_of(opened.cookie)
    assert "hunter2" not in str(raised.value) and raised.value.__context__ is None
    listed.fails = False
    listed.found = {}
    assert await is_over(sessions, opened.cookie)

    assert (await sessions.session_of(through_issuer.cookie)).principal == OLGA
    for other in (replace(MARA, tenant="globex"), Principal.agent("mara", tenant="acme")):
        listed.found = {"mara": other}
        with pytest.raises((StoreUnavailable, SignInRefused)):
            await sessions.session_of(opened.cookie)


async def test_a_list_that_does_not_answer_is_no_fault_of_the_store_and_is_told_once(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    listed = Listed(MARA)
    sessions = sessions_of(house, people=listed)
    opened = await sessions.redeem(await sessions.link(MARA))
    listed.fails = True
    for _ in range(3):
        with pytest.raises(StoreUnavailable) as raised:
            await sessions.session_of(opened.cookie)
    listed.fails = False
    for _ in range(2):
        await sessions.session_of(opened.cookie)

    assert (raised.value.code, raised.value.retryable) == ("people_failed", True)
    assert "placet.toml" in raised.value.hint and "disk" not in raised.value.hint
    assert [record.getMessage() for record in caplog.records if record.name == "placet.people"] == [
        "the list of people does not answer: nobody who is on it decides",
        "the list of people answers again",
    ]

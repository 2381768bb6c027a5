"""Sessions are seen and ended by whom they are, and by whoever may end everybody's; each end is on record."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

import pytest

from placet.engine.person_sessions import MANAGE_SESSIONS_SCOPE, PersonSessions
from placet.errors import DecisionRefused, MisuseError, NotFound, SignInRefused
from placet.model.credentials import CredentialKind, SessionLimits
from placet.model.principal import Principal
from placet.ports.sessions import OpenedSession
from placet.rules.credentials import secret_digest
from tests.adapters.identity.conftest import House
from tests.adapters.identity.test_sessions import BOT, MARA, OLGA, is_over, put_by_hand, row_of, sessions_of

BOSS = Principal.person("boss", tenant="acme", scopes=[MANAGE_SESSIONS_SCOPE])
FAR_BOSS = replace(BOSS, tenant="other")
Asked = Callable[[PersonSessions, Principal], Coroutine[Any, Any, object]]


@pytest.fixture
def house() -> House:
    return House()


async def opened(house: House, *people: Principal) -> list[OpenedSession]:
    return [await sessions_of(house).open(person, through="https://id.example") for person in people]


OF_OTHERS: dict[str, Asked] = {
    "list everybody's": lambda sessions, by: sessions.of_tenant(by=by),
    "list a person's": lambda sessions, by: sessions.of_tenant(by=by, subject="olga"),
    "end a person's": lambda sessions, by: sessions.end_of("olga", by=by),
    "end everybody's": lambda sessions, by: sessions.end_every(by=by),
}


@pytest.mark.parametrize("what", OF_OTHERS)
async def test_sessions_of_others_are_for_a_person_with_the_scope_and_a_refusal_is_on_record(
    house: House, what: str
) -> None:
    (session,) = await opened(house, OLGA)
    sessions = sessions_of(house).people
    agent = Principal.agent("bot", tenant="acme", scopes=[MANAGE_SESSIONS_SCOPE])
    for by, code in ((MARA, "scope_missing"), (agent, "not_a_person")):
        with pytest.raises(DecisionRefused) as refusal:
            await OF_OTHERS[what](sessions, by)
        assert refusal.value.code == code
    with pytest.raises(MisuseError):
        await OF_OTHERS[what](sessions, "boss")  # type: ignore[arg-type]

    assert not await is_over(sessions_of(house), session.cookie)
    told = [(e["kind"], e["detail"], e["decided_by"]) for e in (await house.told())[1:]]
    assert told == [("session_refused", "scope_missing", "mara"), ("session_refused", "not_a_person", "bot")]


async def test_whoever_may_ends_one_a_persons_or_everybodys_of_its_own_tenant(house: House) -> None:
    far = replace(OLGA, tenant="other")
    one, olga, mara, other = await opened(house, OLGA, OLGA, MARA, far)
    sessions = sessions_of(house)

    assert (await sessions.people.end(one.session.name, by=BOSS)).subject == "olga"
    assert [await is_over(sessions, each.cookie) for each in (one, olga, mara, other)] == [True, False, False, False]
    assert await sessions.people.end_of("olga", by=BOSS) == 1
    assert [await is_over(sessions, each.cookie) for each in (olga, mara, other)] == [True, False, False]
    assert await sessions.people.end_every(by=BOSS) == 1
    assert [await is_over(sessions, each.cookie) for each in (mara, other)] == [True, False]
    told = [(e["subject"], e["decided_by"], e["detail"]) for e in await house.told() if e["kind"] == "session_ended"]
    assert told == [("olga", "boss", "ended")] * 2 + [("mara", "boss", "ended")]


async def test_links_that_were_not_used_open_nothing_after_everybodys_end(house: House) -> None:
    sessions = sessions_of(house)
    link = await sessions.link(OLGA)
    assert await sessions.people.end_every(by=BOSS) == 0
    with pytest.raises(SignInRefused):
        await sessions.redeem(link)


async def test_without_the_scope_a_name_of_somebody_elses_is_no_name(house: House) -> None:
    mine, theirs, far = await opened(house, MARA, OLGA, replace(MARA, tenant="other"))
    sessions = sessions_of(house)
    for name in (theirs.session.name, far.session.name, "0" * 16):
        with pytest.raises(NotFound):
            await sessions.people.end(name, by=MARA)
    with pytest.raises(NotFound):
        await sessions.people.end(theirs.session.name, by=FAR_BOSS)
    with pytest.raises(NotFound):
        await sessions.people.end_one_own(theirs.session.name, by=BOSS)
    assert (await sessions.people.end(mine.session.name, by=MARA)).through == "https://id.example"
    assert [await is_over(sessions, each.cookie) for each in (mine, theirs, far)] == [True, False, False]


@pytest.mark.parametrize("name", ["", "a", "A" * 16, "a" * 15, "a" * 65, "g" * 16, None, b"a" * 16, "a" * 16 + "\n"])
async def test_what_is_no_name_is_known_before_anything_is_looked_up(house: House, name: Any) -> None:
    sessions = sessions_of(house).people
    sessions._store = None  # type: ignore[assignment]
    with pytest.raises(MisuseError):
        await sessions.end(name, by=BOSS)


async def test_a_name_that_two_sessions_begin_with_ends_neither(house: House) -> None:
    one, two = await opened(house, OLGA, OLGA)
    row = row_of(house, one)
    twin = replace(row_of(house, two), name=row.name[:16] + "0" * 48)
    put_by_hand(house, twin)
    with pytest.raises(MisuseError, match="Two sessions"):
        await sessions_of(house).people.end(row.name[:16], by=BOSS)
    assert not await is_over(sessions_of(house), one.cookie)
    assert (await sessions_of(house).people.end(row.name[:20], by=BOSS)).name == row.name[:16]


async def test_an_agent_sees_and_ends_none(house: House) -> None:
    sessions = sessions_of(house).people
    delegated = replace(OLGA, on_behalf_of=replace(MARA, environment=OLGA.environment))
    for nobody in (BOT, delegated):
        for work in (sessions.own(by=nobody), sessions.end_own(by=nobody), sessions.end("0" * 16, by=nobody)):
            with pytest.raises(SignInRefused):
                await work


async def test_a_session_is_listed_while_it_goes_on_and_no_longer(house: House) -> None:
    limits = SessionLimits(idle_seconds=100.0, longest_seconds=250.0)
    sessions = sessions_of(house, limits=limits)
    used, unused = await sessions.open(OLGA), await sessions.open(OLGA)

    async def listed() -> set[str]:
        return {view.name for view in await sessions.people.of_tenant(by=BOSS)}

    both = {used.session.name, unused.session.name}
    house.clock.advance(99.0)
    assert await listed() == both
    await sessions.session_of(used.cookie)
    house.clock.advance(1.0)
    assert await listed() == {used.session.name}, "nobody used the other one"
    for _ in range(5):
        house.clock.advance(25.0)
        await sessions.session_of(used.cookie)
    assert await listed() == {used.session.name}
    house.clock.advance(25.0)
    assert await listed() == set(), "it is as old as it may be"


async def test_what_somebody_altered_is_in_no_list_and_goes_with_everybodys(house: House) -> None:
    (session,) = await opened(house, OLGA)
    row = row_of(house, session)
    put_by_hand(house, replace(row, mac=replace(row.mac, value="0" * 64)))
    sessions = sessions_of(house).people

    assert await sessions.of_tenant(by=BOSS) == ()
    assert await sessions.end_every(by=BOSS) == 1
    assert house.store._tables.credentials == {}
    assert (await house.told())[-1]["kind"] == "credential_suspect"


async def test_one_that_ends_by_itself_keeps_no_other(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the look and the end one signs out: what is ended together is not as it was seen."""
    first, second = await opened(house, OLGA, OLGA)
    plain, gone = house.store.put_credentials, []

    async def raced(*args: Any, **more: Any) -> bool:
        if not gone:
            gone.append(True)
            await sessions_of(house).end(first.cookie)
        return bool(await plain(*args, **more))

    monkeypatch.setattr(house.store, "put_credentials", raced)
    assert await sessions_of(house).people.end_own(by=OLGA) == 1

    assert await is_over(sessions_of(house), second.cookie)
    ended = [event["reasons"] for event in await house.told() if event["kind"] == "session_ended"]
    assert len(ended) == 2 and ended[0] != ended[1], "each once"


async def test_many_are_ended_in_few_steps(house: House) -> None:
    for _ in range(250):
        await sessions_of(house).open(OLGA)
    before = house.store.commits
    assert await sessions_of(house).people.end_own(by=OLGA) == 250
    assert house.store.commits - before == 3


def test_a_session_says_through_whom_and_old_ones_say_nothing(house: House) -> None:
    """Rows of before have no such member, and are read as they are."""
    from placet.model.credentials import PersonSession

    now = house.clock.now()
    session = PersonSession(
        kind=CredentialKind.SESSION, name=secret_digest(CredentialKind.SESSION, b"x"), principal=OLGA, began_at=now,
        ends_at=now,
    )  # fmt: skip
    old, new = house.rows.of_session(session), house.rows.of_session(replace(session, through="https://id.example"))
    assert b"through" not in old.body and b"https://id.example" in new.body
    assert house.rows.session(old) == session
    assert house.rows.session(new) == replace(session, through="https://id.example")
    assert house.rows.session(replace(new, body=new.body.replace(b"id.example", b"no.example"))) is None

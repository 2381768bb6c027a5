"""People make and end the keys of their tenant's agents, each time on record; nobody else does."""

from typing import Any

import orjson
import pytest

from placet.adapters.identity.secrets import SystemSecrets
from placet.adapters.keys import KeyRing
from placet.adapters.stores.memory import MemoryStore
from placet.adapters.telemetry.quiet import QuietMeter
from placet.engine.api_keys import ApiKeys, ApiKeyState
from placet.engine.chronicle import Chronicle
from placet.errors import DecisionRefused, MisuseError, NotFound, StoreInDoubt
from placet.model.credentials import CredentialKind
from placet.model.identifiers import WriterId
from placet.model.principal import Principal
from placet.testing.fakes import FakeClock

MARA = Principal.person("mara", tenant="acme", scopes=["api_keys.manage"])
ELSE = Principal.person("else", tenant="other", scopes=["api_keys.manage"])
DAY = 86_400.0


class Bureau:
    def __init__(self) -> None:
        self.clock, self.keys = FakeClock(), KeyRing.ephemeral()
        self.store = MemoryStore(keys=self.keys, clock=self.clock, writer=WriterId("w"), meter=QuietMeter())
        chronicle = Chronicle(keys=self.keys, clock=self.clock)
        self.api_keys = ApiKeys(store=self.store, keys=self.keys, chronicle=chronicle, secrets=SystemSecrets())

    async def told(self) -> list[dict[str, Any]]:
        return [orjson.loads(event.body) async for event in self.store.chained()]

    async def states(self) -> list[tuple[str, str]]:
        views = await self.api_keys.listed(by=MARA)
        return [(view.key.principal.subject if view.key else "?", view.state.value) for view in views]


@pytest.fixture
def bureau() -> Bureau:
    return Bureau()


async def test_every_change_is_on_record_with_who_made_it_and_for_whom(bureau: Bureau) -> None:
    made = await bureau.api_keys.create("bot", by=MARA, roles=["operator"], scopes=["a", "b"], environment="staging")
    new = await bureau.api_keys.rotate(made.key.api_key_id, by=MARA)
    await bureau.api_keys.revoke(new.key.api_key_id, by=MARA)

    told = await bureau.told()

    assert [event["kind"] for event in told] == ["api_key_created", "api_key_rotated", "api_key_revoked"]
    for event in told:
        assert (event["tenant"], event["subject"], event["decided_by"]) == ("acme", "bot", "mara")
        assert (event["roles"], event["environment"]) == (["operator"], "staging")
        assert event["model_suggested"] is False and "expires_at" in event
    assert told[0]["reasons"] == [f"api_key:{made.key.api_key_id}", "scopes:2"]
    assert told[1]["reasons"][-1] == f"rotated_from:{made.key.api_key_id}"


@pytest.mark.parametrize(
    ("by", "code"),
    [
        (Principal.agent("bot", tenant="acme", roles=["admin"], scopes=["api_keys.manage"]), "not_a_person"),
        (Principal.person("olga", tenant="acme", roles=["admin"], scopes=["approvals.decide"]), "scope_missing"),
    ],
)
async def test_who_may_not_manage_keys_is_refused_on_record_before_anything_is_looked_up(
    bureau: Bureau, by: Principal, code: str
) -> None:
    made = await bureau.api_keys.create("bot", by=MARA)
    bureau.store.credential = None  # type: ignore[method-assign,assignment]
    name = made.key.api_key_id

    for work in (
        bureau.api_keys.create("x", by=by),
        bureau.api_keys.listed(by=by),
        bureau.api_keys.rotate(name, by=by),
        bureau.api_keys.revoke(name, by=by),
    ):
        with pytest.raises(DecisionRefused) as refused:
            await work
        assert refused.value.code == code

    assert [(e["kind"], e["detail"]) for e in (await bureau.told())[1:]] == [("api_key_refused", code)] * 4


async def test_another_tenants_key_does_not_exist(bureau: Bureau) -> None:
    made = await bureau.api_keys.create("bot", by=MARA)

    assert await bureau.api_keys.listed(by=ELSE) == ()
    told = []
    for name in (made.key.api_key_id, "0" * 24, "", None):
        for work in (bureau.api_keys.rotate(name, by=ELSE), bureau.api_keys.revoke(name, by=ELSE)):  # type: ignore[arg-type]
            with pytest.raises(NotFound) as missing:
                await work
            told.append((str(missing.value), missing.value.code, missing.value.hint))
    assert len(set(told)) == 1
    assert await bureau.states() == [("bot", "usable")]


async def test_a_key_is_rotated_once_and_only_while_it_opens_something(bureau: Bureau) -> None:
    old = (await bureau.api_keys.create("bot", by=MARA, lifetime_seconds=DAY)).key.api_key_id
    new = (await bureau.api_keys.rotate(old, by=MARA, overlap_seconds=0)).key.api_key_id
    revoked = (await bureau.api_keys.create("gone", by=MARA)).key.api_key_id
    await bureau.api_keys.revoke(revoked, by=MARA)
    third = (await bureau.api_keys.rotate(new, by=MARA, overlap_seconds=60)).key
    assert (third.rotated_from, third.principal.subject) == (new, "bot")

    for name, code in ((old, "not_usable"), (new, "already_rotated"), (revoked, "not_usable")):
        with pytest.raises(DecisionRefused) as refused:
            await bureau.api_keys.rotate(name, by=MARA)
        assert refused.value.code == code

    assert sorted(await bureau.states()) == [
        ("bot", "expired"), ("bot", "usable"), ("bot", "usable"), ("gone", "revoked"),
    ]  # fmt: skip


async def test_revoking_twice_changes_nothing_and_says_who_was_first(bureau: Bureau) -> None:
    name = (await bureau.api_keys.create("bot", by=MARA)).key.api_key_id
    first = await bureau.api_keys.revoke(name, by=MARA)
    bureau.clock.advance(10)

    second = await bureau.api_keys.revoke(name, by=Principal.person("olga", tenant="acme", scopes=MARA.scopes))

    assert first == second and second.key is not None
    assert (second.key.revoked_by, second.state) == ("mara", ApiKeyState.REVOKED)
    assert len(await bureau.told()) == 2


async def test_an_altered_key_is_shown_as_such_and_removed_by_revoking_it(bureau: Bureau) -> None:
    name = (await bureau.api_keys.create("bot", by=MARA)).key.api_key_id
    rows = bureau.store._tables.credentials
    row = rows[CredentialKind.API_KEY, name]
    from dataclasses import replace

    rows[CredentialKind.API_KEY, name] = replace(row, body=row.body.replace(b"viewer", b"admin"))
    assert await bureau.states() == [("?", "altered")]
    with pytest.raises(DecisionRefused):
        await bureau.api_keys.rotate(name, by=MARA)

    assert (await bureau.api_keys.revoke(name, by=MARA)).state is ApiKeyState.ALTERED

    assert await bureau.states() == []
    assert (await bureau.told())[-1]["detail"] == "altered"


@pytest.mark.parametrize(
    "more",
    [
        {"roles": ["king"]},
        {"roles": "admin"},
        {"scopes": [""]},
        {"environment": ""},
        {"lifetime_seconds": 0},
        {"lifetime_seconds": -1},
        {"lifetime_seconds": 401 * DAY},
        {"lifetime_seconds": float("nan")},
        {"lifetime_seconds": True},
        {"lifetime_seconds": "1"},
    ],
)
async def test_what_means_nothing_makes_no_key(bureau: Bureau, more: dict[str, Any]) -> None:
    with pytest.raises(MisuseError):
        await bureau.api_keys.create("bot", by=MARA, **more)

    assert await bureau.told() == []


async def test_an_overlap_that_means_nothing_rotates_nothing(bureau: Bureau) -> None:
    name = (await bureau.api_keys.create("bot", by=MARA)).key.api_key_id

    for overlap in (-1, float("nan"), float("inf"), 31 * DAY, True, None, "0"):
        with pytest.raises(MisuseError):
            await bureau.api_keys.rotate(name, by=MARA, overlap_seconds=overlap)  # type: ignore[arg-type]

    assert await bureau.states() == [("bot", "usable")]


async def test_of_two_who_rotate_one_key_at_once_one_does(bureau: Bureau, monkeypatch: pytest.MonkeyPatch) -> None:
    name = (await bureau.api_keys.create("bot", by=MARA)).key.api_key_id
    inner, looks = bureau.api_keys, []
    plain = bureau.store.put_credentials

    async def slow(*args: Any, **more: Any) -> bool:
        if not looks:
            looks.append(1)
            await inner.rotate(name, by=MARA)
        return await plain(*args, **more)

    monkeypatch.setattr(bureau.store, "put_credentials", slow)
    with pytest.raises(DecisionRefused) as refused:
        await inner.rotate(name, by=MARA)

    assert refused.value.code == "changed_meanwhile"
    assert await bureau.states() == [("bot", "usable"), ("bot", "usable")]


async def test_a_retirement_is_told_of_the_keys_it_would_lose(bureau: Bureau) -> None:
    await bureau.api_keys.create("bot", by=MARA)
    ended = await bureau.api_keys.create("gone", by=MARA)
    await bureau.api_keys.revoke(ended.key.api_key_id, by=MARA)

    (use,) = await bureau.store.key_uses()

    assert use.api_keys == 1


async def test_when_the_commits_answer_is_lost_asking_again_says_what_became_of_it(
    bureau: Bureau, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a rotation whose text nobody saw, the new key is rotated in turn; a revocation is simply repeated."""
    old = (await bureau.api_keys.create("bot", by=MARA)).key.api_key_id
    plain = bureau.store.put_credentials

    async def lost(*args: Any, **more: Any) -> bool:
        await plain(*args, **more)
        raise StoreInDoubt

    with monkeypatch.context() as patched:
        patched.setattr(bureau.store, "put_credentials", lost)
        with pytest.raises(StoreInDoubt):
            await bureau.api_keys.rotate(old, by=MARA)
    with pytest.raises(DecisionRefused) as refused:
        await bureau.api_keys.rotate(old, by=MARA)
    assert refused.value.code == "already_rotated"
    (new,) = {view.api_key_id for view in await bureau.api_keys.listed(by=MARA)} - {old}
    third = await bureau.api_keys.rotate(new, by=MARA)
    assert third.key.rotated_from == new

    with monkeypatch.context() as patched:
        patched.setattr(bureau.store, "put_credentials", lost)
        with pytest.raises(StoreInDoubt):
            await bureau.api_keys.revoke(new, by=MARA)
    assert (await bureau.api_keys.revoke(new, by=MARA)).state is ApiKeyState.REVOKED
    kinds = [event["kind"] for event in await bureau.told()]
    assert kinds == ["api_key_created", "api_key_rotated", "api_key_rotated", "api_key_revoked"]


async def test_whoever_acts_elsewhere_hands_out_no_key_beyond_its_own_environment(bureau: Bureau) -> None:
    sue = Principal.person("sue", tenant="acme", scopes=["api_keys.manage"], environment="staging")
    made = await bureau.api_keys.create("bot", by=MARA)
    own = await bureau.api_keys.create("helper", by=sue, environment="staging")

    for act in (
        bureau.api_keys.create("bot", by=sue),
        bureau.api_keys.create("bot", by=sue, environment="test"),
        bureau.api_keys.rotate(made.key.api_key_id, by=sue),
    ):
        with pytest.raises(DecisionRefused) as caught:
            await act
        assert caught.value.code == "other_environment"

    assert (await bureau.api_keys.rotate(own.key.api_key_id, by=sue)).key.principal.environment == "staging"
    assert [event["detail"] for event in await bureau.told() if event["kind"] == "api_key_refused"] == [
        "other_environment"
    ] * 3

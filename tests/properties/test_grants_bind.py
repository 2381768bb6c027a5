"""Whatever is changed about a grant, in the value or in its row, it is no grant any more, and says so by name.

Fields and columns are read off the code. A new one that nothing binds fails here.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import fields
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import apsw
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placet.adapters.keys import KeyRing
from placet.adapters.stores import rows
from placet.engine.verifying import verify_grant
from placet.errors import DecisionRefused, PlacetError
from placet.model.approval import Leave, Mac
from placet.model.decision import Terms
from placet.model.grant import AnyValue, Between, Grant, GrantId, OneOf, StoredGrant
from placet.model.identifiers import Digest, PolicyVersion, RunId
from placet.ports.keys import KeyPurpose
from placet.rules import grant_limits
from placet.rules import grants as rules
from placet.rules.canonical import canonical_bytes
from placet.rules.grants import GrantMisfit
from tests.kill_points.actors import PERSON
from tests.kill_points.granters import give, open_gate, refund

RING = KeyRing.ephemeral()
NOW = datetime.fromisoformat("2026-03-01T12:00:00+00:00")
LIMITS = {"amount": Between(at_most=10), "order": OneOf(values=("o-1", "o-2")), "note": AnyValue()}
FEWER = settings(max_examples=settings.default.max_examples // 5)


def signed(**changes: Any) -> StoredGrant:
    canonical = canonical_bytes(grant_limits.limits_form(LIMITS))
    grant = Grant(
        grant_id=GrantId("grt-1"),
        tenant="acme",
        environment="production",
        subject="agent-1",
        run_id=RunId("run-1"),
        tool="refund",
        tool_version="1",
        contract_digest=Digest("c" * 64),
        limits_digest=grant_limits.limits_digest("refund", canonical),
        policy_version=PolicyVersion("p" * 64),
        terms=Terms(rule="small"),
        max_uses=3,
        given_by="paula",
        given_at=NOW,
        expires_at=NOW + timedelta(hours=1),
        leave=Leave(roles=("admin",), scopes=("approvals.decide",), is_listed=True),
        reason="payday",
        nonce="n-1",
        sealed_limits=RING.seal(canonical, bound_to=rules.limits_binding("acme", "grt-1")),
        revoked_by="omar",
        revoked_at=NOW + timedelta(minutes=1),
    )
    grant = dataclasses.replace(grant, **changes)
    return StoredGrant(grant=grant, mac=RING.mac(KeyPurpose.GRANT, rules.grant_form(grant)))


def other(value: Any, data: st.DataObject) -> Any:
    """Any other value of the same kind, mostly a near one; or none where there was one."""
    match value:
        case None:
            return data.draw(st.text(min_size=1, max_size=8))
        case bool():
            return not value
        case int():
            return value + data.draw(st.integers(-5, 5).filter(bool))
        case datetime():
            return value + timedelta(microseconds=data.draw(st.integers(-(10**9), 10**9).filter(bool)))
        case bytes():
            at = data.draw(st.integers(0, len(value) - 1))
            return value[:at] + bytes([value[at] ^ data.draw(st.integers(1, 255))]) + value[at + 1 :]
        case str():
            return data.draw(
                st.one_of(st.just(value + "x"), st.just(value[:-1]), st.text(max_size=8)).filter(value.__ne__)
            )
        case tuple():
            return data.draw(st.sampled_from([(), (*value, "more"), value * 2]))
        case _:
            name = data.draw(st.sampled_from([field.name for field in fields(value) if field.name != "votes"]))
            return dataclasses.replace(value, **{name: other(getattr(value, name), data)})


@pytest.mark.parametrize("name", [field.name for field in fields(Grant)])
@FEWER
@given(data=st.data())
def test_any_field_that_is_changed_makes_a_grant_worthless(name: str, data: st.DataObject) -> None:
    stored = signed()
    assert verify_grant(stored, RING) == LIMITS
    try:
        changed = dataclasses.replace(stored.grant, **{name: other(getattr(stored.grant, name), data)})
        altered = verify_grant(dataclasses.replace(stored, grant=changed), RING)
    except PlacetError:
        return  # no such value can be made, so no row of it can be read
    assert altered is GrantMisfit.FORGED


@FEWER
@given(data=st.data())
def test_a_mac_of_another_grant_purpose_or_key_is_none(data: st.DataObject) -> None:
    stored = signed()
    form = rules.grant_form(stored.grant)
    macs = [
        RING.mac(KeyPurpose.APPROVAL, form),
        RING.mac(KeyPurpose.CREDENTIAL, form),
        KeyRing.ephemeral().mac(KeyPurpose.GRANT, form),
        signed(nonce="n-2").mac,
        Mac(key_id=stored.mac.key_id, value=other(stored.mac.value, data)),
        Mac(key_id=other(stored.mac.key_id, data), value=stored.mac.value),
        Mac(key_id="", value=""),
    ]
    for mac in macs:
        assert verify_grant(dataclasses.replace(stored, mac=mac), RING) is GrantMisfit.FORGED


def test_sealed_limits_open_in_their_own_row_alone() -> None:
    """Signed by us and moved: whoever can sign could do it, and still not show other limits than it digested."""
    foreign = RING.seal(canonical_bytes({"amount": "any"}), bound_to=rules.limits_binding("acme", "grt-1"))
    moved = RING.seal(canonical_bytes(grant_limits.limits_form(LIMITS)), bound_to=rules.limits_binding("acme", "grt-2"))
    for sealed in (foreign, moved, b"", b"\x01"):
        assert verify_grant(signed(sealed_limits=sealed), RING) is GrantMisfit.LIMITS_FORGED


@FEWER
@given(data=st.data())
def test_a_row_reads_back_as_it_was_and_altered_never_as_a_grant(data: st.DataObject) -> None:
    stored = signed()
    row = list(rows.grant_row(stored))
    assert rows.grant_from(tuple(row)) == stored
    unsigned = {10, 11}  # how often it was used, and when
    column = data.draw(st.sampled_from([number for number in range(len(row)) if number not in unsigned]))
    value = row[column]
    row[column] = data.draw(
        st.one_of(st.just(None), st.text(max_size=5), st.integers(-(2**63), 2**63 - 1)).filter(
            lambda each: each != value
        )
    )
    assert isinstance(verify_grant(rows.grant_from(tuple(row)), RING), GrantMisfit)


# ---------------------------------------------------------------- by hand, in the file


ALTERED: dict[str, str] = {
    "more uses": "UPDATE grants SET max_uses = 1000, uses = uses",
    "for longer": "UPDATE grants SET expires_at = expires_at + 1000000000",
    "for another agent": "UPDATE grants SET subject = 'agent-1', run_id = 'run-1'",
    "other limits": "UPDATE grants SET sealed_limits = x'0102', body = body",
    "what is no JSON": "UPDATE grants SET body = 'x'",
    "another giver": "UPDATE grants SET body = replace(body, 'mara', 'eve')",
    "under another key": "UPDATE grants SET key_id = 'k-other'",
}


def sabotage(path: Path, statement: str) -> None:
    """As somebody does who can write to the database, past its triggers."""
    connection = apsw.Connection(str(path))
    for name in ("grants_change_legally", "grants_are_born_unused"):
        connection.execute(f"DROP TRIGGER {name}")
    connection.execute(statement)
    connection.close()


@pytest.mark.parametrize("what", ALTERED)
async def test_a_row_that_was_altered_is_refused_by_name_and_told(tmp_path: Path, what: str) -> None:
    store = str(tmp_path / "placet.db")
    async with open_gate(store, tmp_path) as gate:
        grant_id = await give(gate)
    sabotage(tmp_path / "placet.db", ALTERED[what])

    async with open_gate(store, tmp_path) as gate:
        outcome = await refund(gate, "call-1")
        assert outcome.code == "grant_suspect"
        events = [json.loads(event.body) async for event in gate.store.chained()]
        (alarm,) = [event for event in events if event["kind"] == "grant_suspect"]
        assert (alarm["reasons"], alarm["detail"]) == ([f"grant:{grant_id}"], outcome.as_data()["reasons"][0])
        (view,) = await gate.grants.listed(by=PERSON)
        assert (view.state.value, view.grant_id, view.limits, view.covers) == ("altered", grant_id, None, ())
        with pytest.raises(DecisionRefused) as caught:
            await gate.grants.show(grant_id, by=PERSON)
        assert caught.value.code == "grant_suspect"

        assert await gate.grants.standing(by=PERSON) == (view,)
        assert (await gate.grants.revoke(grant_id, by=PERSON)).state.value == "altered"
        (view,) = await gate.grants.listed(by=PERSON)
        assert (view.state.value, view.revoked_at is None) == ("altered", False)
        assert await gate.grants.standing(by=PERSON) == ()
        assert (await refund(gate, "call-1")).code == "approval_required"
    assert not (tmp_path / "remote.jsonl").exists()


async def test_a_revoked_grant_is_revived_by_no_change_of_its_row(tmp_path: Path) -> None:
    store = str(tmp_path / "placet.db")
    async with open_gate(store, tmp_path) as gate:
        grant_id = await give(gate)
        await gate.grants.revoke(grant_id, by=PERSON)
    sabotage(
        tmp_path / "placet.db",
        "UPDATE grants SET revoked_at = NULL, body = json_set(body, '$.revoked_by', json('null'))",
    )
    async with open_gate(store, tmp_path) as gate:
        assert (await refund(gate, "call-1")).code == "grant_suspect"
    assert not (tmp_path / "remote.jsonl").exists()


async def test_a_grant_that_somebody_wrote_is_none(tmp_path: Path) -> None:
    """A copy under another id, and one of another tenant's moved here."""
    store = str(tmp_path / "placet.db")
    async with open_gate(store, tmp_path) as gate:
        await give(gate)
    copy = "INSERT INTO grants SELECT tenant, 'grt-copy', subject, run_id, tool, body, sealed_limits, key_id, mac, "
    copy += "max_uses, 0, NULL, given_at, expires_at - 1, revoked_at FROM grants"
    sabotage(tmp_path / "placet.db", copy)
    async with open_gate(store, tmp_path) as gate:
        assert (await refund(gate, "call-1")).code == "grant_suspect"
    assert not (tmp_path / "remote.jsonl").exists()


async def test_the_database_takes_no_grant_that_was_used_less_or_revoked_less(tmp_path: Path) -> None:
    store = str(tmp_path / "placet.db")
    async with open_gate(store, tmp_path) as gate:
        await give(gate)
        await gate.grants.revoke(await give(gate), by=PERSON)
        assert (await refund(gate, "call-1")).code == "succeeded"
    connection = apsw.Connection(store)
    for statement in (
        "UPDATE grants SET uses = 0 WHERE uses = 1",
        "UPDATE grants SET uses = max_uses WHERE uses = 1",
        "UPDATE grants SET revoked_at = NULL WHERE revoked_at IS NOT NULL",
        "UPDATE grants SET mac = 'x' WHERE revoked_at IS NULL",
        "UPDATE grants SET uses = -1",
    ):
        with pytest.raises(apsw.ConstraintError):
            connection.execute(statement)
    connection.close()

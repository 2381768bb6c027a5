"""Whatever is changed about an approved call, it is not the approved call: in the values, in the row, in the wish.

The fields and columns are read off the code. A new one that nothing binds fails here until somebody says why.
"""

from __future__ import annotations

import dataclasses
from dataclasses import fields
from datetime import datetime, timedelta
from enum import Enum
from pathlib import Path
from typing import Any

import apsw
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import placet
from placet.adapters.keys import KeyRing
from placet.engine.gate import Gate
from placet.errors import MisuseError
from placet.model.approval import Answer, Mac, Question
from placet.model.call import Call
from placet.model.contract import Bound, BoundSource, Contract, KeyTemplate, Origin, Repair
from placet.model.identifiers import Digest
from placet.model.outcome import AwaitingApproval, Outcome, Succeeded
from placet.model.reminders import Reminders
from placet.ports.keys import KeyPurpose
from placet.rules import approvals as rules
from placet.rules.approvals import Misfit
from tests.kill_points.actors import AGENT, Place, approve, open_gate, proposal
from tests.rules.test_approvals import ASK, EDITED, LEAVE, NOW, REMINDERS, TERMS, answer, approval, question, tool_call

pytestmark = pytest.mark.req("B043", "B044", "H020")
RING = KeyRing.ephemeral()
FEWER = settings(max_examples=settings.default.max_examples // 5)
"""For each of many fields."""

COMPARED = frozenset(
    {
        *("tenant", "environment", "subject", "on_behalf_of", "run_id", "tool", "contract_digest", "argument_digest"),
        *("resource", "purpose", "policy_version", "requirement", "terms", "reminders"),
    }
)
"""Fields of a question that a call has too, and that must be the call's own."""
NAMED_BY_THE_ROW = frozenset(
    {
        *("approval_id", "request_id", "call_id", "tool_version", "operation_key"),  # the stored call is what executes
        *(
            "reasons",
            "lifetime_seconds",
            "asked_at",
            "decide_by",
            "nonce",
            "sealed_arguments",
        ),  # said when it was asked
        "edited",  # whose question it is by now; the arguments that it names are compared
        "dispatch_number",  # compared with the ledger's fence, and not with the call
        "precondition",  # compared with the world, and not with the call
    }
)


COMPOUND = {
    "terms": TERMS,
    "edited": EDITED,
    "leave": LEAVE,
    "reminders": REMINDERS,
    "precondition": Mac(key_id="k-1", value="a" * 64),
}
"""What may stand where nothing stands; where it does, any of its own fields is changed."""


def whole(name: str) -> dict[str, Any]:
    """A question, or an answer, that has the field."""
    return {name: COMPOUND[name]} if name in COMPOUND else {"votes": ("vote-1", "vote-2")} if name == "votes" else {}


def other(value: Any, data: st.DataObject, *, name: str = "") -> Any:
    """Any other value of the same kind, mostly a near one."""
    draw = data.draw
    match value:
        case Enum():
            kinds = [each for each in type(value) if each is not value]
            return draw(st.sampled_from(kinds))
        case bool():
            return not value
        case str():
            near = st.sampled_from([value + "x", value[:-1], value.upper(), f" {value}", f"{value}\u200b", ""])
            return draw((near | st.text(max_size=8)).filter(lambda text: text != value))
        case datetime():
            return value + draw(st.sampled_from([1, -1])) * draw(
                st.timedeltas(timedelta(microseconds=1), timedelta(999))
            )
        case int() | float():
            return type(value)(value + draw(st.integers(1, 10**6)) * draw(st.sampled_from([1, -1])))
        case bytes():
            return draw(st.binary(max_size=8).filter(lambda content: content != value))
        case tuple():
            return draw(
                st.sampled_from(
                    [(*value, "x"), value[:-1], (*value, *value, "y"), (*(f"{each}x" for each in value), "z")]
                ).filter(lambda changed: changed != value)
            )
        case Reminders():
            changes: list[dict[str, Any]] = [
                {"remind_after_seconds": (61.0,)},
                {"remind_after_seconds": (60.0, 61.0)},
                {"escalate_after_seconds": 90.0},
                {"escalate_after_seconds": 90.0, "widens": True},
                {"escalate_after_seconds": 90.0, "escalate_to": ("role:admin",)},
            ]
            return dataclasses.replace(value, **draw(st.sampled_from(changes)))
        case None if name in COMPOUND:
            return COMPOUND[name]
        case None:
            return draw(st.text(max_size=5))
        case _ if dataclasses.is_dataclass(value) and not isinstance(value, type):
            inner = draw(st.sampled_from([field.name for field in fields(value)]))
            old = getattr(value, inner)
            try:
                return dataclasses.replace(value, **{inner: other(old, data)})
            except MisuseError:  # such a one cannot be made at all: the nearest that can
                return dataclasses.replace(value, **{inner: f"{old}x" if isinstance(old, str) else old + 1})
    raise AssertionError(f"nothing other than {value!r} is known")


@FEWER
@pytest.mark.parametrize("name", [field.name for field in fields(Question)])
@given(data=st.data())
def test_another_question_has_another_mac_and_voids_its_answer(name: str, data: st.DataObject) -> None:
    for asked in (question(), question(**whole(name))):
        value = other(getattr(asked, name), data, name=name)
        changed = dataclasses.replace(asked, **{name: value})
        _refuse_as_another(asked, changed)


def _refuse_as_another(asked: Question, changed: Question) -> None:
    mac = RING.mac(KeyPurpose.APPROVAL, rules.question_form(asked))
    signature = RING.mac(KeyPurpose.APPROVAL, rules.signed_form(asked, answer()))
    assert not RING.is_authentic(KeyPurpose.APPROVAL, rules.question_form(changed), mac)
    assert not RING.is_authentic(KeyPurpose.APPROVAL, rules.signed_form(changed, answer()), signature)


@FEWER
@pytest.mark.parametrize("name", [field.name for field in fields(Answer)])
@given(data=st.data())
def test_another_answer_has_another_signature(name: str, data: st.DataObject) -> None:
    with_votes = {"leave": LEAVE} if name == "votes" else {}  # votes come with a leave, and never without one
    given = answer(**whole(name), **with_votes)
    changed = dataclasses.replace(given, **{name: other(getattr(given, name), data, name=name)})

    signature = RING.mac(KeyPurpose.APPROVAL, rules.signed_form(question(), given))
    assert not RING.is_authentic(KeyPurpose.APPROVAL, rules.signed_form(question(), changed), signature)


@pytest.mark.req("B048", "B060", "H015", "H018")
@given(data=st.data())
def test_a_question_that_differs_in_anything_a_call_has_is_of_another_call(data: st.DataObject) -> None:
    assert {field.name for field in fields(Question)} == COMPARED | NAMED_BY_THE_ROW
    name = data.draw(st.sampled_from(sorted(COMPARED)))
    asked = question(**{name: other(getattr(question(), name), data, name=name)})

    found = rules.misfit(approval(asked), tool_call(), ASK, dispatch_number=0, now=NOW)
    assert found is Misfit.OTHER_CALL


OF_THE_CALL = {
    **dict.fromkeys(("contract", "principal", "run_id", "argument_digest", "resource"), "compared"),
    **dict.fromkeys(("arguments", "canonical_arguments", "fingerprint"), "in the argument digest, with the tool"),
    **dict.fromkeys(("request_id", "call_id", "reply_to", "operation_key"), "adopted from the question"),
    **dict.fromkeys(("first_attempt", "is_recorded", "is_repaired"), "how it runs, not what runs"),
}


def test_every_field_of_a_call_is_bound_or_has_its_reason() -> None:
    assert {field.name for field in fields(Call)} == set(OF_THE_CALL)


NOT_IN_THE_DIGEST = {
    "digest": "is the digest",
    "argument_names": "read off the schema, which is in it",
    "max_concurrent": "how many at once, not what",
    "breaker": "when to pause, not what",
    "retention_seconds": "how long its record is kept, not what it does",
    "authored_schema": "what the enforced schema was made from, which is in it",
}
OTHERS: dict[str, dict[str, Any]] = {
    "origin": {"origin": Origin(server="desk", tool="look", pin=Digest("a" * 64))},
    "bind": {"bind": (Bound(member="tenant", source=BoundSource.TENANT),)},
    "operation_key": {"operation_key": KeyTemplate(text="other:{word}", fields=("word",))},
    "redact": {"redact": frozenset({"word"})},
    "repair": {"repair": frozenset({Repair.CODE_FENCE})},
    "open_members": {"open_members": ("/x",), "authored_schema": {}},
    "open_result_members": {"open_result_members": ("/x",), "authored_schema": {}},
}
"""Where another value has a form of its own, or needs another field beside it."""


@pytest.mark.req("H018")
@pytest.mark.parametrize("name", sorted({field.name for field in fields(Contract)} - set(NOT_IN_THE_DIGEST)))
def test_the_contract_digest_names_every_field_of_the_contract(name: str) -> None:
    from placet.rules.contracts import contract_digest

    contract = tool_call().contract
    changed = dataclasses.replace(contract, **(OTHERS.get(name) or {name: object_other(getattr(contract, name))}))
    assert getattr(changed, name) != getattr(contract, name)
    assert set(NOT_IN_THE_DIGEST) < {field.name for field in fields(Contract)}
    assert contract_digest(changed) != contract_digest(contract)


def object_other(value: Any) -> Any:
    match value:
        case Enum():
            return next(each for each in type(value) if each is not value)
        case bool():
            return not value
        case str():
            return value + "x"
        case int() | float():
            return value + 1
        case dict():
            return {**value, "x": 1}
        case frozenset():
            return value | {("x",)}
        case tuple():
            return (*value, "x")
        case None:
            return "x"
    return dataclasses.replace(value, **{fields(value)[0].name: object_other(getattr(value, fields(value)[0].name))})


# ---------------------------------------------------------------- the stored row

SAYS_NOTHING = frozenset({"asked_at"})
"""Columns that only order a list; what they copy stands in the question, under its MAC."""


async def ask(gate: Gate, call_id: str = "call-1", amount: int = 5) -> Outcome:
    return await gate.submit(proposal("refund", call_id=call_id, amount=amount), principal=AGENT, run="run-1")


def columns_of(store: Path) -> dict[str, str]:
    database = apsw.Connection(str(store))
    found = {row[1]: row[2] for row in database.execute("PRAGMA table_info(approvals)")}
    database.close()
    return found


def values_for(kind: str, current: Any, neighbour: Any) -> list[Any]:
    """Of the column's own type, since the table is strict: the other row's, none, and near and far ones."""
    match kind:
        case "TEXT":
            text = current or ""
            near = [text + "x", text[:-1], text.swapcase(), "", "{}", "approved", "spent", "\u200b" + text]
        case "INTEGER":
            near = [0, 1, -1, (current or 0) + 1, 2**62, -(2**62)]
        case _:
            content = current or b""
            near = [b"", b"\0", content + b"\0", content[:-1] + b"\0", content[::-1]]
    return [value for value in (neighbour, None, *near) if value != current]


@pytest.mark.req("B047", "H021")
@pytest.mark.parametrize("state", ["approved", "pending"])
async def test_whatever_column_of_a_row_is_changed_nothing_runs_by_it(tmp_path: Path, state: str) -> None:
    place = Place(folder=tmp_path)
    async with open_gate(place) as gate:
        first, second = await ask(gate), await ask(gate, call_id="call-2", amount=6)
        assert type(first) is AwaitingApproval and type(second) is AwaitingApproval
        await approve(gate, second.approval_id)
        if state == "approved":
            await approve(gate, first.approval_id)
        columns = columns_of(place.store)
        assert set(columns) > SAYS_NOTHING
        database = apsw.Connection(str(place.store))
        for (name,) in database.execute("SELECT name FROM sqlite_schema WHERE type = 'trigger'").fetchall():
            database.execute(f"DROP TRIGGER {name}")
        database.execute("DROP INDEX one_open_approval_per_question")
        database.pragma("ignore_check_constraints", 1)
        original = row_of(database, first.approval_id)
        neighbour = row_of(database, second.approval_id)
        tried = 0
        for column, kind in columns.items():
            if column in SAYS_NOTHING:
                continue
            for value in values_for(kind, original[column], neighbour[column]):
                restore(database, original, neighbour)
                try:
                    database.execute(
                        f"UPDATE approvals SET {column} = ? WHERE approval_id = ?", (value, first.approval_id)
                    )
                except apsw.ConstraintError:
                    continue  # the table itself does not take it
                outcome = await ask(gate)
                assert type(outcome) is not Succeeded, (column, value)
                assert place.remote.effects() == {}, (column, value)
                tried += 1
        assert tried > 60
        restore(database, original, neighbour)
        database.close()
        if state == "approved":
            assert type(await ask(gate)) is Succeeded


def row_of(database: apsw.Connection, approval_id: str) -> dict[str, Any]:
    cursor = database.execute("SELECT * FROM approvals WHERE approval_id = ?", (approval_id,))
    names = [each[0] for each in cursor.getdescription()]
    [row] = cursor.fetchall()
    return dict(zip(names, row, strict=True))


def restore(database: apsw.Connection, *rows: dict[str, Any]) -> None:
    """Exactly these two rows; what an altered one made the gate ask anew is gone again."""
    with database:
        database.execute("DELETE FROM approvals")
        for row in rows:
            places = ", ".join("?" for _ in row)
            database.execute(f"INSERT INTO approvals ({', '.join(row)}) VALUES ({places})", tuple(row.values()))


# ---------------------------------------------------------------- the wish


def principal(subject: str = "agent-1", tenant: str = "acme") -> placet.Principal:
    return placet.Principal.agent(subject, tenant=tenant, roles=["operator"], scopes=["pay"])


UMA = placet.Principal.person("uma", tenant="acme", roles=["operator"], scopes=["pay"])
WISHES: dict[str, dict[str, Any]] = {
    "other arguments": {"amount": 6},
    "another order": {"order": "o-2"},
    "another run": {"run": "run-2"},
    "another agent": {"principal": principal("agent-2")},
    "another tenant": {"principal": principal(tenant="other")},
    "another environment": {"principal": dataclasses.replace(AGENT, environment="staging")},
    "for somebody": {"principal": dataclasses.replace(AGENT, on_behalf_of=UMA)},
}


@pytest.mark.req("B060", "B061", "H016")
@pytest.mark.parametrize("change", WISHES.values(), ids=WISHES)
async def test_an_approval_gives_no_leave_to_another_wish(tmp_path: Path, change: dict[str, Any]) -> None:
    place = Place(folder=tmp_path)
    async with open_gate(place) as gate:
        first = await ask(gate)
        assert type(first) is AwaitingApproval
        await approve(gate, first.approval_id)
        wish = dict(change)
        principal, run = wish.pop("principal", AGENT), wish.pop("run", "run-1")

        outcome = await gate.submit(proposal("refund", call_id="call-9", **wish), principal=principal, run=run)

        assert type(outcome) is not Succeeded
        assert place.remote.effects() == {}
        assert type(await ask(gate)) is Succeeded

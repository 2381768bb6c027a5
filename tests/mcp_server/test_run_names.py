"""The run of a caller that names none: its own, nobody else's, and kept only while the key that made it signs."""

from __future__ import annotations

from placet.adapters.keys.ring import KeyRing, KeySet
from placet.mcp_server.naming import Namer, Names
from placet.model.principal import Principal
from placet.testing import FakeClock
from placet.testing.fakes import SeededIds

ONE, TWO = b"1" * 32, b"2" * 32


def run_of(namer: Namer, subject: str) -> str:
    principal = Principal.agent(subject, tenant="acme", roles=("operator",))
    return namer.names_of({}, principal=principal, session=None, tool="look", arguments={}).run


def test_a_run_without_a_name_is_the_callers_own_until_another_key_signs() -> None:
    newer: list[KeySet] = []
    ring = KeyRing({"k-1": ONE}, current="k-1", newer=lambda: newer.pop() if newer else None)
    namer = Namer(clock=FakeClock(), ids=SeededIds(), keys=ring)
    one, other = run_of(namer, "agent-1"), run_of(namer, "agent-2")
    assert one != other
    assert (run_of(namer, "agent-1"), run_of(namer, "agent-2")) == (one, other)

    newer.append(KeySet(masters={"k-1": ONE, "k-2": TWO}, current="k-2"))
    ring.refresh()
    fresh = Namer(clock=FakeClock(), ids=SeededIds(), keys=ring)
    assert run_of(namer, "agent-1") == run_of(fresh, "agent-1") != one


def test_nobodys_waiting_calls_drive_out_what_is_remembered_of_somebody_else() -> None:
    namer = Namer(clock=FakeClock(), ids=SeededIds(), keys=KeyRing({"k-1": ONE}, current="k-1"))
    alice = Principal.agent("alice", tenant="north", roles=("operator",))
    bob = Principal.agent("bob", tenant="south", roles=("operator",))

    def run_asked_for(who: Principal, number: int) -> str:
        return namer.names_of({}, principal=who, session="new", tool="look", arguments={"n": number}).run

    def waits(who: Principal, number: int) -> None:
        names = Names(run=f"{who.subject}-{number}", call_id="c")
        namer.remember(names, principal=who, tool="look", arguments={"n": number})

    waits(alice, 1)
    for number in range(5_000):
        waits(bob, number)

    assert run_asked_for(alice, 1) == "alice-1"
    assert [run_asked_for(bob, n) for n in (4_935, 4_936, 4_999)] == ["mcp-session-new", "bob-4936", "bob-4999"]
    for number in range(5_000):
        namer.forget(principal=bob, tool="look", arguments={"n": number})
    assert run_asked_for(bob, 4_999) == "mcp-session-new"


def test_of_very_many_principals_whoever_has_most_waiting_calls_loses_the_oldest() -> None:
    namer = Namer(clock=FakeClock(), ids=SeededIds(), keys=KeyRing({"k-1": ONE}, current="k-1"))
    many = [Principal.agent(f"agent-{n}", tenant="north", roles=("operator",)) for n in range(257)]
    for who in many:
        for number in range(64):
            namer.remember(Names(run="r", call_id="c"), principal=who, tool="look", arguments={"n": number})

    said = [namer.names_of({}, principal=who, session="new", tool="look", arguments={"n": 0}).run for who in many]
    assert said.count("r") == 257 - 64 and said[-1] == "r"

"""The run of a caller that names none: its own, nobody else's, and kept only while the key that made it signs."""

from __future__ import annotations

from placet.adapters.keys.ring import KeyRing, KeySet
from placet.mcp_server.naming import Namer
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

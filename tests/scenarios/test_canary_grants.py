"""What a grant is limited to can be read by whoever looks at it, and nowhere else: limits are argument values."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import apsw
import pytest
from prometheus_client import CollectorRegistry, generate_latest

import placet
from placet import AskRule, AskRules, GrantTerms, GrantWish, Matrix, PlacetError, Principal
from placet.bootstrap.records import audit_export
from placet.bootstrap.stores import open_existing_store
from placet.testing import FakeClock
from tests.scenarios.canary import LogEars, Outputs, Secrets
from tests.scenarios.test_canary import assert_exactly

AGENT = Principal.agent("agent", tenant="acme", roles=("operator",), scopes=("w",))
MARA = Principal.person("mara", tenant="acme", scopes=("approvals.decide",))
SHOWN = "whoever gives a grant, or looks at it, sees exactly what it covers"
BELONGS: dict[str, tuple[str, tuple[str, ...]]] = {
    "onevalue": (SHOWN, ("grants",)),
    "othervalue": (SHOWN, ("grants",)),
    "nested": (SHOWN, ("grants",)),
    "words": ("its giver's words, kept for people beside the grant", ("grants", "spoken", "store files")),
}


@placet.tool(effect="write", risk="medium", permission="w", approval="always", redact=("card",), text="free")
async def note(word: str, more: dict[str, str] | None = None, card: str = "") -> str:
    """Write it down."""
    return "noted"


class Story:
    """Grants given, refused, used, altered and revoked, with what everybody is told of them."""

    def __init__(self, gate: placet.Gate, secrets: Secrets, outputs: Outputs) -> None:
        self.gate = gate
        self.s = secrets
        self.outputs = outputs
        self.codes: list[str] = []

    async def tried(self, work: Any) -> Any:
        try:
            view = await work
        except PlacetError as fault:
            self.codes.append(fault.code)
            self.outputs.hear("errors", fault, repr(fault), fault.hint)
            return None
        for each in view if isinstance(view, tuple) else (view,):
            self.outputs.hear("grants", each.limits, each.covers, each.words)
        self.outputs.hear("spoken", repr(view))
        return view

    async def given(self, wish: GrantWish) -> Any:
        draft = await self.tried(self.gate.grants.draft(wish, by=MARA))
        return draft and await self.tried(self.gate.grants.give(wish, digest=draft.digest, by=MARA))

    async def submit(self, call_id: str, word: str, **more: str) -> None:
        proposal = {"call_id": call_id, "tool": "note", "arguments": {"word": word, **more}}
        outcome = await self.gate.submit(proposal, principal=AGENT, run="r1")
        self.codes.append(outcome.code)
        self.outputs.hear_outcome(outcome)

    async def tell(self) -> str:
        s = self.s
        values = [s.text("onevalue"), s.text("othervalue")]
        limits: Any = {
            "word": {"one_of": values},
            "more": {"one_of": [None, {"deep": s.text("nested")}]},
            "card": "any",
        }
        wish = GrantWish(tool="note", subjects=("agent",), limits=limits, max_uses=2, reason=s.text("words"))
        grant = await self.given(wish)
        for wrong in (
            {"word": {"one_of": values}},
            limits | {s("noargument"): "any"},
            limits | {"word": s("nolimit")},
            limits | {"word": {s("nokind"): 1}},
            limits | {"card": {"one_of": [s.text("redacted")]}},
            limits | {"word": {"one_of": [{"a": s.text("othertype")}]}},
        ):
            await self.given(replace(wish, limits=wrong))
        await self.tried(self.gate.grants.give(wish, digest=s("nodigest"), by=MARA))
        await self.given(replace(wish, tool=s("notool")))
        await self.submit("c1", values[0], card=s.text("card"))
        await self.submit("c2", values[1])
        await self.submit("c3", s.text("beyond"))
        await self.tried(self.gate.grants.show(s("nogrant"), by=MARA))
        await self.tried(self.gate.grants.listed(by=MARA))
        await self.tried(self.gate.grants.like("apr-none", by=MARA))
        revoked = await self.given(wish)
        await self.tried(self.gate.grants.revoke(revoked.grant_id, by=MARA))
        return str(grant.grant_id)


def alter(file: Path, grant_id: str) -> None:
    """As somebody does who can write to the database."""
    connection = apsw.Connection(str(file))
    connection.execute("DROP TRIGGER grants_change_legally")
    connection.execute(
        "UPDATE grants SET uses = 0, body = json_set(body, '$.nonce', 'x') WHERE grant_id = ?", (grant_id,)
    )
    connection.close()


@pytest.fixture
def outputs() -> Iterator[Outputs]:
    heard = Outputs()
    yield from (heard for _ in LogEars(heard).listening())


@pytest.mark.req("B121", "B176", "B202")
@pytest.mark.case("M02")
async def test_the_limits_of_a_grant_are_read_by_whoever_looks_at_it_and_nowhere_else(
    tmp_path: Path, outputs: Outputs, capsys: pytest.CaptureFixture[str]
) -> None:
    logging.getLogger().setLevel(logging.DEBUG)
    secrets, registry, file = Secrets(), CollectorRegistry(), tmp_path / "placet.db"
    rules = AskRules(rules=(AskRule(name="small", grants=GrantTerms(max_uses=5, max_seconds=3_600.0)),))
    opening = placet.open(
        tools=[note], store=file, clock=FakeClock(), recovery="manual", metrics=registry,
        policy=Matrix(asks=rules), sinks=(placet.LogSink(),),
    )  # fmt: skip
    async with opening as gate:
        story = Story(gate, secrets, outputs)
        grant_id = await story.tell()
        outputs.hear_files("store files", tmp_path, "placet.db*")
        alter(file, grant_id)
        await story.tried(gate.grants.show(grant_id, by=MARA))
        await story.submit("c4", secrets.text("onevalue"))
        await story.tried(gate.grants.revoke(grant_id, by=MARA))
        outputs.hear("audit", *[event.body async for event in gate.store.chained()])
        outputs.hear("metrics", generate_latest(registry))
        outputs.hear_files("store files", tmp_path, "placet.db*")
    assert set(story.codes) == {
        *("bad_limits", "other_digest", "not_found", "grant_suspect"),
        *("succeeded", "approval_required"),
    }
    keys, store = open_existing_store(file)
    try:
        async with audit_export(store, keys, tenant=None) as lines:
            outputs.hear("audit export", *[line async for line in lines])
    finally:
        await store.close()
    told = capsys.readouterr()
    outputs.hear("streams", told.out, told.err)
    assert_exactly(outputs, secrets, BELONGS)

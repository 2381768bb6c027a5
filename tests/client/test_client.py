"""The client answers with the library's own values, asks again only what cannot act twice, and raises the rest."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import placet
from placet import Chosen
from placet.bootstrap.records import check_export
from placet.client import AnswerLost, AsyncClient, Client, PlainHttp, ServerRefused, ServerUnreachable, UrgentApprovals
from placet.client.outcomes import outcome_of
from placet.engine.settling import Truth
from placet.errors import ConfigurationError, DecisionRefused, MisuseError, NotFound, SignInRefused
from placet.http_api.outcomes import document_of
from placet.model.approval import ApprovalState
from placet.model.audit import EventKind
from placet.model.effect import EffectState
from placet.model.outcome import AwaitingApproval, Invalid, NotRun, Refused, Replayed, Succeeded, Unknown
from placet.rules.documents import NotADocument, value_of
from tests.client.conftest import Served
from tests.http_api.conftest import AGENT, MARA


async def test_an_outcome_is_the_very_value_that_the_gate_gave(served: Served) -> None:
    client = served.as_("t-agent")
    first = await client.submit("note", {"word": "a"}, run="r1", call_id="c1")
    again = await client.submit("note", {"word": "a"}, run="r1", call_id="c1")
    proposal = {"call_id": "c1", "tool": "note", "arguments": {"word": "a"}}
    direct = await served.api.gate.submit(proposal, principal=AGENT, run="r1")

    assert isinstance(first, Succeeded)
    assert again == direct == replace(direct, result=first.result)
    assert isinstance(again, Replayed)
    assert served.api.desk.done == [{"word": "a", "count": 1.0, "many": 0}]


async def test_a_key_names_the_operation_and_a_call_without_names_gets_one_of_its_own(served: Served) -> None:
    client = served.as_("t-agent")
    keyed = [await client.submit("note", {"word": "a"}, run="r1", idempotency_key='order "7"\\') for _ in range(2)]
    unnamed = [await client.submit("note", {"word": "a"}, run="r1") for _ in range(2)]

    assert [outcome.status for outcome in keyed + unnamed] == ["succeeded", "replayed", "succeeded", "succeeded"]
    assert len(served.api.desk.done) == 3


async def test_arguments_may_be_the_text_a_model_wrote(served: Served) -> None:
    outcome = await served.as_("t-agent").submit("note", '{"word":"a","word":"b"}', run="r1", call_id="c1")

    assert isinstance(outcome, Invalid)
    assert outcome.problems == (("/word", "duplicate_member"),)


@pytest.mark.case("O06")
async def test_several_are_decided_at_once_and_the_gravest_are_listed_first(served: Served) -> None:
    for number in range(4):
        await served.as_("t-agent").submit("pay", {"amount": number}, run="r1", call_id=f"c{number}")
    client = served.as_("t-mara")
    urgent = await client.approvals_by_risk(limit=3)
    direct = await served.api.gate.desk.triage.page(by=MARA, limit=3)
    assert urgent == UrgentApprovals(approvals=direct.rows, is_cut=False)
    chosen = [Chosen(approval_id=view.approval_id, digest=view.digest) for view in urgent.approvals]

    approved = await client.approve_several(chosen[:2], reason="seen")
    assert [each.approval and each.approval.words for each in approved] == ["seen", "seen"]
    assert approved == await served.api.gate.desk.several.approve(chosen[:2], by=MARA, reason="seen")
    denied = await client.deny_several(chosen, reason="no")
    assert [each.code for each in denied] == ["already_decided", "already_decided", None]
    with pytest.raises(DecisionRefused) as refused:
        await client.approve_several([*chosen[:2], Chosen(approval_id=chosen[2].approval_id, digest="0" * 64)])
    assert refused.value.code == "other_digest"


async def test_a_turn_is_one_outcome_each(served: Served) -> None:
    client = served.as_("t-agent")
    batch = [{"call_id": f"c{n}", "tool": "note", "arguments": {"word": word}} for n, word in enumerate(["a", 7, "b"])]
    all_of_them = await client.submit_all(batch, run="r1")
    until = await client.submit_until_failure(batch, run="r2")

    assert [type(outcome) for outcome in all_of_them] == [Succeeded, Invalid, Succeeded]
    assert [type(outcome) for outcome in until] == [Succeeded, Invalid, NotRun]


async def test_a_person_sees_decides_and_the_proposer_hears_of_it(served: Served) -> None:
    agent, mara = served.as_("t-agent"), served.as_("t-mara")
    asked = await agent.submit("pay", {"amount": 5}, run="r1", call_id="c1")
    assert isinstance(asked, AwaitingApproval)
    (listed,) = await mara.approvals()
    shown = await mara.approval(asked.approval_id)
    assert listed == shown == await served.api.gate.desk.show(asked.approval_id, by=MARA)

    waiting = asyncio.ensure_future(agent.answer(asked.approval_id, wait_seconds=30))
    decided = await mara.approve(asked.approval_id, digest=shown.digest, reason="fine")
    heard = await waiting

    assert (decided.state, decided.words) == (ApprovalState.APPROVED, "fine")
    assert heard.state is ApprovalState.APPROVED
    assert (await agent.submit("pay", {"amount": 5}, run="r1", call_id="c1")).unwrap() == "paid"


async def test_a_question_that_nobody_answers_is_still_pending(served: Served) -> None:
    agent = served.as_("t-agent")
    asked = await agent.submit("pay", {"amount": 5}, run="r1", call_id="c1")

    assert (await agent.answer(asked.approval_id, wait_seconds=1)).state is ApprovalState.PENDING


async def test_a_denial_and_a_withdrawal(served: Served) -> None:
    agent, mara = served.as_("t-agent"), served.as_("t-mara")
    asked = [await agent.submit("pay", {"amount": n}, run="r1", call_id=f"c{n}") for n in range(2)]
    views = [await mara.approval(each.approval_id) for each in asked]
    denied = await mara.deny(asked[0].approval_id, digest=views[0].digest, reason="no")
    withdrawn = await mara.withdraw(asked[1].approval_id)

    assert (denied.state, withdrawn.state) == (ApprovalState.DENIED, ApprovalState.WITHDRAWN)
    refused = await agent.submit("pay", {"amount": 0}, run="r1", call_id="c0")
    assert isinstance(refused, Refused)
    assert (refused.code, refused.words) == ("approval_denied", "no")


async def test_the_client_edits_and_takes_votes_back(served: Served) -> None:
    asked = await served.as_("t-agent").submit("pay", {"amount": 100}, run="r1", call_id="c1")
    edith = served.as_("t-edith")
    shown = await edith.approval(asked.approval_id)
    edited = await edith.edit(asked.approval_id, digest=shown.digest, arguments={"amount": 40, "card": ""})

    assert edited.approval_id != asked.approval_id
    assert (await edith.approval(asked.approval_id)).state is ApprovalState.WITHDRAWN
    with pytest.raises(DecisionRefused) as refused:
        await edith.withdraw_vote(edited.approval_id)
    assert refused.value.code == "no_vote"


async def test_refused_decisions_are_the_engines_errors_with_its_codes(served: Served) -> None:
    agent, mara = served.as_("t-agent"), served.as_("t-mara")
    asked = await agent.submit("pay", {"amount": 5}, run="r1", call_id="c1")

    for client, digest, code in ((agent, "0" * 64, "not_a_person"), (mara, "0" * 64, "other_digest")):
        with pytest.raises(DecisionRefused) as refused:
            await client.approve(asked.approval_id, digest=digest)
        assert refused.value.code == code
        assert refused.value.__cause__ is refused.value.__context__ is None


async def test_effects_are_listed_shown_probed_and_settled(served: Served) -> None:
    served.api.desk.fault = RuntimeError("lost")
    outcome = await served.as_("t-agent").submit("send", {"word": "a"}, run="r1", call_id="c1")
    mara = served.as_("t-mara")
    assert isinstance(outcome, Unknown)
    (listed,) = await mara.effects(states=(EffectState.UNKNOWN,))
    probed = await mara.probe(listed.operation_key)
    settled = await mara.settle(
        listed.operation_key, Truth.COMMITTED, looked_at=datetime(2026, 1, 1, tzinfo=UTC), reason="seen_in_desk"
    )

    assert listed.operation_key == outcome.operation_key
    assert (probed.state, probed.probes) == (EffectState.UNKNOWN, 1)
    assert settled.state is EffectState.RECONCILED_COMMITTED
    assert await mara.effect(listed.operation_key) == settled


async def test_lists_are_read_over_as_many_pages_as_they_have(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("placet.client.calls._MOST_IN_A_PAGE", 2)
    client = served.as_("t-agent")
    for n in range(5):
        await client.submit("note", {"word": str(n)}, run="r1", call_id=f"c{n}")
        served.api.clock.advance(1)
    mara = served.as_("t-mara")

    assert [effect.call_id for effect in await mara.effects(limit=4)] == ["c4", "c3", "c2", "c1"]
    assert [effect.call_id for effect in await mara.effects()] == ["c4", "c3", "c2", "c1", "c0"]
    assert len(await mara.events(kinds=(EventKind.STARTED,), run="r1")) == 5


async def test_the_audit_is_read_exported_and_verified(served: Served, tmp_path: Path) -> None:
    await served.as_("t-agent").submit("note", {"word": "a"}, run="r1", call_id="c1")
    mara = served.as_("t-mara")
    pieces: list[bytes] = []
    await mara.export_audit(pieces.append)
    events = await mara.events(tool="note")

    report = check_export(b"".join(pieces).splitlines(keepends=True), tmp_path / "placet.db.key")
    assert (report.holds, report.events) == (True, 2)
    assert {event["call_id"] for event in events} == {"c1"}
    assert (await mara.verify_audit()).holds
    with pytest.raises(DecisionRefused):
        await served.as_("t-agent").export_audit(pieces.append)


async def test_tools_policy_and_stops(served: Served) -> None:
    agent, mara = served.as_("t-agent"), served.as_("t-mara")
    report = await mara.stop("tool:note", reason="on fire")
    (view,) = await mara.stops()
    refused = await agent.submit("note", {"word": "a"}, run="r1", call_id="c1")
    await mara.resume("tool:note")

    assert report.running == ()
    assert (view.scope, view.reason) == (report.scope, "on fire")
    assert refused.code == "stopped"
    assert await mara.stops() == ()
    assert "note" in [tool["name"] for tool in await agent.tools()]
    assert await agent.policy_version() == served.api.gate.policy_version
    with pytest.raises(NotFound):
        await mara.resume("tool:note")


# ---------------------------------------------------------------- what goes wrong


async def test_nobody_is_signed_in_and_nothing_found(served: Served) -> None:
    with pytest.raises(SignInRefused):
        await served.as_("t-nobody").tools()
    with pytest.raises(NotFound):
        await served.as_("t-mara").approval("apr-none")
    with pytest.raises(NotFound):
        await served.as_("t-mara").approval("../../stops")
    with pytest.raises(ServerRefused) as refused:
        await served.as_("t-agent").submit("note", {"word": "a"}, run="", call_id="c1")
    assert (refused.value.code, refused.value.status) == ("request_malformed", 400)


async def test_a_server_that_is_not_there_is_told_as_such_and_nothing_was_sent(served: Served) -> None:
    client = served.as_("t-agent", url="http://127.0.0.1:1")
    with pytest.raises(ServerUnreachable) as refused:
        await client.submit("note", {"word": "a"}, run="r1", call_id="c1")

    assert refused.value.may_have_acted is False
    assert "127.0.0.1" not in str(refused.value)
    assert refused.value.__cause__ is refused.value.__context__ is None


class Lossy:
    """A server in front of another that loses the first answers, after they were given."""

    def __init__(self, port: int, *, losses: int) -> None:
        self._port = port
        self.losses = losses
        self.seen = 0

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(
            (int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")), 0
        )
        request = head.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n") + await reader.readexactly(length)
        self.seen += 1
        inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", self._port)
        inner_writer.write(request)
        answer = await inner_reader.read()
        inner_writer.close()
        if self.seen > self.losses:
            writer.write(answer)
            await writer.drain()
        writer.close()


@pytest.fixture
async def lossy(served: Served) -> AsyncIterator[tuple[Lossy, str]]:
    proxy = Lossy(int(served.url.rsplit(":", 1)[1]), losses=1)
    server = await asyncio.start_server(proxy.handle, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    yield proxy, f"http://127.0.0.1:{port}"
    server.close()
    await server.wait_closed()


@pytest.mark.parametrize("names", [{"call_id": "c1"}, {"idempotency_key": "k"}, {}])
async def test_a_lost_answer_is_asked_for_again_under_the_same_names_and_acts_once(
    served: Served, lossy: tuple[Lossy, str], names: dict[str, str]
) -> None:
    proxy, url = lossy
    outcome = await served.as_("t-agent", url=url).submit("note", {"word": "a"}, run="r1", **names)

    assert isinstance(outcome, Replayed)
    assert (proxy.seen, len(served.api.desk.done)) == (2, 1)


async def test_when_no_answer_comes_at_all_it_may_have_acted(served: Served, lossy: tuple[Lossy, str]) -> None:
    proxy, url = lossy
    proxy.losses = 9
    with pytest.raises(AnswerLost) as lost:
        await served.as_("t-agent", url=url).submit("note", {"word": "a"}, run="r1", call_id="c1")

    assert (lost.value.may_have_acted, proxy.seen, len(served.api.desk.done)) == (True, 3, 1)
    assert lost.value.__cause__ is lost.value.__context__ is None


async def test_a_server_that_is_gone_after_it_was_sent_something_may_have_acted_all_the_same(served: Served) -> None:
    """The last try was not sent; the first one was."""
    serving: list[asyncio.Server] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        serving[0].close()
        writer.close()

    serving.append(await asyncio.start_server(handle, "127.0.0.1", 0))
    port = serving[0].sockets[0].getsockname()[1]
    with pytest.raises(AnswerLost):
        client = served.as_("t-agent", url=f"http://127.0.0.1:{port}")
        await client.submit("note", {"word": "a"}, run="r1", call_id="c1")


async def test_what_is_no_repeat_of_itself_is_not_sent_again(served: Served, lossy: tuple[Lossy, str]) -> None:
    proxy, url = lossy
    asked = await served.as_("t-agent").submit("pay", {"amount": 5}, run="r1", call_id="c1")
    with pytest.raises(AnswerLost):
        await served.as_("t-mara", url=url).withdraw(asked.approval_id)

    assert proxy.seen == 1


async def test_an_unknown_outcome_is_a_value_and_is_not_sent_again(served: Served, lossy: tuple[Lossy, str]) -> None:
    proxy, url = lossy
    proxy.losses = 0
    served.api.desk.fault = RuntimeError("lost")
    outcome = await served.as_("t-agent", url=url).submit("send", {"word": "a"}, run="r1", call_id="c1")

    assert isinstance(outcome, Unknown)
    assert proxy.seen == 1


async def test_a_server_that_ends_says_so_and_that_is_a_value_too(served: Served) -> None:
    await served.api.gate.drain(1)
    outcome = await served.as_("t-agent").submit("note", {"word": "a"}, run="r1", call_id="c1")

    assert isinstance(outcome, Refused)
    assert (outcome.code, outcome.retryable) == ("draining", True)


@pytest.mark.parametrize(
    ("url", "code"),
    [
        ("http://placet.example", "server_insecure"),
        ("http://10.0.0.1:8080", "server_insecure"),
        ("http://127.0.0.1.evil.test", "server_insecure"),
        ("ftp://placet.example", "server_address_invalid"),
        ("placet.example", "server_address_invalid"),
        ("https://user:secret@placet.example", "server_address_invalid"),
        ("", "server_address_invalid"),
        ("https://", "server_address_invalid"),
    ],
)
def test_a_credential_is_sent_to_a_server_over_tls_or_nowhere(url: str, code: str) -> None:
    for kind in (Client, AsyncClient):
        with pytest.raises(ConfigurationError) as refused:
            kind(url, token="t")
        assert refused.value.code == code
        assert "secret" not in str(refused.value)


def test_plain_http_to_another_machine_has_to_be_said() -> None:
    Client("http://10.0.0.1", token="t", plain_http=PlainHttp.ANYWHERE).close()
    Client("http://[::1]:80", token="t").close()
    Client("http://localhost", token="t").close()


async def test_a_key_that_no_header_takes_is_misuse(served: Served) -> None:
    with pytest.raises(MisuseError):
        await served.as_("t-agent").submit("note", {"word": "a"}, run="r1", idempotency_key="\u00e9\n")


# ---------------------------------------------------------------- reading


def test_every_outcome_comes_through_json_as_it_was() -> None:
    common: dict[str, Any] = {"call_id": "c", "tool": "t", "code": "x", "message": "m", "operation_key": "k"}
    outcomes = [
        placet.Succeeded(**common, result={"a": [1, 1.0, None, "é"]}),
        placet.Succeeded(**common, result=None, result_unavailable="result_broken"),
        placet.Replayed(**common, result=None),
        placet.Invalid(**common, problems=(("/a", "b"),)),
        placet.Refused(**common, reasons=("a",), words="no", retry_after_seconds=1.5),
        placet.Refused(**common, reasons=("edited",), edited_arguments={"a": [1, 1.0]}),
        placet.AwaitingApproval(**common, approval_id="apr"),
        placet.InProgress(**{**common, "operation_key": None}),
        placet.Conflict(**common),
        placet.TimedOut(**common),
        placet.Failed(**common, words="w", retry_after_seconds=2.0),
        placet.Unknown(**common),
        placet.NotRun(**common),
    ]
    for outcome in outcomes:
        document = json.loads(json.dumps(document_of(outcome, run="r")))
        assert outcome_of(document) == outcome
        assert repr(outcome_of(document)) == repr(outcome)


@pytest.mark.parametrize(
    "document",
    [
        None,
        [],
        {},
        {"status": "new"},
        {"status": "succeeded"},
        {"status": "unknown", "call_id": 7, "operation_key": None},
    ],
)
def test_what_tells_no_outcome_is_none(document: Any) -> None:
    with pytest.raises(NotADocument) as refused:
        outcome_of(document)
    assert refused.value.__context__ is None


def test_a_view_is_read_by_members_known_and_refused_where_one_is_of_another_kind() -> None:
    from placet.engine.effect_views import EffectView
    from placet.model.stopping import StopScope

    assert value_of(StopScope, {"kind": "tool", "name": "a", "tenant": None, "later": 1}) == StopScope.of_tool("a")
    for document in ({"kind": "tool"}, {"kind": "nothing"}, {"kind": 7}, [], None, {"kind": "tenant", "tenant": 7}):
        with pytest.raises(NotADocument):
            value_of(StopScope, document)  # type: ignore[arg-type]
    with pytest.raises(NotADocument):
        value_of(EffectView, {"operation_key": "k"})

"""A distinct secret in every input, every path driven, every output searched: exactly what is listed can be read.

`BELONGS` says which secret may, and must, be read in which channel, and why; any other pair is a leak, and a listed
pair that is not found is a search that does not work.

Source: REQUIREMENTS B121, B176, B202, C052; DESIGN section 14; CASES M01, M02.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest

import placet
from placet import Allow, AwaitingApproval, Deny, Found, PlacetError, Principal
from placet.adapters.notify.mail import mail_of
from placet.adapters.notify.slack import message_of
from placet.adapters.notify.webhook import payload_of
from placet.bootstrap.records import audit_export
from placet.bootstrap.stores import open_existing_store
from placet.engine.announcing import Announcer
from placet.errors import StoreUnavailable
from placet.model.decision import Entitled
from placet.model.destinations import EVERY_TENANT, Announcements, Destination, EmailWay
from placet.model.identifiers import PolicyVersion
from placet.model.notices import Notice
from placet.ports.notifier import Delivered
from placet.rules.announcements import CONFIGURED_KINDS
from placet.testing import FakeClock, RecordingMeter, SeededIds
from placet.testing.hostile import HostileValues
from tests.scenarios.canary import LogEars, Outputs, Secrets

SCOPE = "w"
AGENT = Principal.agent("agent", tenant="acme", roles=("operator",), scopes=(SCOPE,))
OTHER = Principal.agent("other", tenant="acme", roles=("operator",), scopes=(SCOPE,))
MARA = Principal.person("mara", tenant="acme", scopes=("approvals.decide", "effects.reconcile", "effects.read"))
OLGA = Principal.person("olga", tenant="acme", scopes=("ops.stop",))

PROPOSER = "it is the proposer's own, or was made for it"
CLEAR_ID = "an id that the caller chose: the proposer's handle, and what people look things up by"
KEY = "operation keys are names of business operations; people reconcile by them"
REMARK = "a person's words, kept for people beside the decision they belong to"
SHOWN = "whoever decides sees exactly what would run, but for the fields that the contract masks"
LABEL = "a name the program gave, in code"

MAIL = EmailWay(host="localhost", port=25, sender="placet@example.com", recipients=("ops@example.com",))
ANNOUNCED = ("webhook", "slack", "mail")
"""What happened is announced as the audit says it."""

IN_AUDIT = ("audit", "audit export", "log as JSON", "log as text")
"""An event is written in each of these alike; the log hears it through `LogSink`."""

BELONGS: dict[str, tuple[str, tuple[str, ...]]] = {
    "result": (PROPOSER, ("outcomes",)),
    "resultkey": (PROPOSER, ("outcomes",)),
    "resultinside": (PROPOSER, ("outcomes",)),
    "approvedresult": (PROPOSER, ("outcomes",)),
    "proberesult": (PROPOSER, ("outcomes",)),
    "rejectedwords": ("a handler that raises ToolRejected speaks to the proposer", ("outcomes",)),
    "membername": ("a problem names its place, and the proposer wrote the name", ("outcomes", "errors")),
    "callid": (CLEAR_ID, ("outcomes", *IN_AUDIT, "ledger", "runs", "store files")),
    "runid": (CLEAR_ID, (*IN_AUDIT, "ledger", "runs", "store files")),
    "requestid": (CLEAR_ID, (*IN_AUDIT, "store files")),
    "opkey": (KEY, ("outcomes", "ledger", "store files")),
    "callerkey": (KEY, ("outcomes", "ledger", "store files")),
    "shownargument": (SHOWN, ("desk",)),
    "denied": (SHOWN, ("desk",)),
    "withdrawn": (SHOWN, ("desk",)),
    "expired": (SHOWN, ("desk",)),
    "approverreason": (REMARK, ("desk", "store files")),
    "denyreason": ("the proposer is told why, as data", ("outcomes", "desk", "store files")),
    "stopreason": ("whoever may lift a stop is told why; it is sealed everywhere else", ("switch",)),
    "evidence": (
        "a code for the kind of evidence, on record",
        (*IN_AUDIT, *ANNOUNCED, "ledger", "runs", "store files"),
    ),
    "reference": ("the remote's own name of the effect", ("ledger", "store files")),
    "policyreason": (LABEL, (*IN_AUDIT, *ANNOUNCED, "explained", "store files")),
    "shadowreason": (LABEL, (*IN_AUDIT, "explained", "store files")),
    "sinkname": (LABEL, ("metrics",)),
}
"""Each secret that may be read: why, and in which channels it then has to be."""


EVERY_PATH = {
    *("succeeded", "replayed", "operation_conflict", "operation_of_another", "invalid_arguments", "unknown_tool"),
    *("approval_required", "approval_denied", "effect_unknown", "tool_rejected", "remote_busy", "tool_failed"),
    *("result_broken", "performed_result_unavailable", "timed_out", "boundary_unavailable"),
}
"""How outcomes came out; a story that stops short of a path proves nothing about it."""


class ReasonedPolicy:
    """Allows everything, for a reason that holds a secret."""

    timeout_seconds = None
    version = PolicyVersion("v1")

    def __init__(self, reason: str) -> None:
        self._reason = reason

    async def decide(self, call: Any) -> Any:
        return Allow(reasons=(self._reason,), policy_version=self.version)

    def is_listed(self, contract: Any, principal: Any) -> bool:
        return True

    async def may_decide(self, question: Any, person: Any) -> Any:
        return Entitled()


class ShadowPolicy(ReasonedPolicy):
    """In shadow: denies for a reason that holds a secret, and raises one of arguments that it is told to fail at."""

    def __init__(self, reason: str, secrets: Secrets) -> None:
        super().__init__(reason)
        self._secrets = secrets

    async def decide(self, call: Any) -> Any:
        if call.contract.name == "failing":
            raise secret_error(self._secrets)
        return Deny(reasons=(self._reason,), policy_version=self.version)


class Sink:
    """Fails, with a secret in its words, after the events that it is told to let through."""

    is_required = False

    def __init__(self, name: str, secrets: Secrets) -> None:
        self.name = name
        self._secrets = secrets

    async def deliver(self, event: Any) -> None:
        raise RuntimeError(self._secrets.text("sinkerror"))


def secret_error(secrets: Secrets) -> Exception:
    """An exception that gives everything away that it can."""
    kind: type[Exception] = type(
        secrets("errorclass"), (RuntimeError,), {"__str__": lambda error: secrets.text("errorstr")}
    )
    error = kind(secrets.text("errortext"))
    error.add_note(secrets.text("errornote"))
    error.__cause__ = ValueError(secrets.text("errorcause"))
    return error


def tools_of(secrets: Secrets, trouble: dict[str, Any]) -> list[placet.Tool]:
    write: dict[str, Any] = {"effect": "write", "risk": "medium", "permission": SCOPE, "breaker": None}

    @placet.tool(**write, operation_key="keyed:{ref}", resource="thing:{ref}", text="free")
    async def keyed(ref: str, word: str, more: dict[str, list[str]] | None = None) -> dict[str, Any]:
        """Do it, and say a secret."""
        return {"said": secrets.text("result"), "more": {secrets("resultkey"): [secrets.text("resultinside")]}}

    @placet.tool(**write, approval="always", redact=("card",), text="free")
    async def asked(word: str, card: str = "") -> str:
        """Ask first."""
        return secrets.text("approvedresult")

    async def probe(context: placet.ProbeContext) -> Any:
        return trouble.get("probe", placet.CannotTell())

    @placet.tool(**write, probe=probe, text="free")
    async def failing(word: str) -> str:
        """Raise what the test says."""
        raise trouble["raise"]

    @placet.tool(effect="read")
    def threaded(word: str) -> str:
        """Leave with a secret."""
        raise SystemExit(secrets.text("exit"))

    @placet.tool(effect="read")
    async def broken(word: str) -> int:
        """Break the result contract."""
        return secrets.text("brokenresult")  # type: ignore[return-value]

    @placet.tool(**write)
    async def hostile(word: str) -> str:
        """Return what gives itself away."""
        return HostileValues(secrets("hostilerepr")).lying(dict)  # type: ignore[return-value]

    @placet.tool(effect="read", timeout_seconds=0.02, retry=placet.RetryPolicy(max_attempts=1))
    async def slow(word: str) -> str:
        """Never come back."""
        try:
            await asyncio.Event().wait()
        finally:
            trouble["was late"] = RuntimeError(secrets.text("lateerror"))
        return word

    @placet.tool(**write, timeout_seconds=0.02)
    async def hangs(word: str) -> str:
        """Never come back from a write, and say a secret when it is cancelled."""
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise RuntimeError(secrets.text("lateerror")) from None
        return word

    return [keyed, asked, failing, threaded, broken, hostile, slow, hangs]


class Story:
    """One gate on a real file, and everything it says."""

    def __init__(self, gate: placet.Gate, secrets: Secrets, outputs: Outputs) -> None:
        self.gate = gate
        self.secrets = secrets
        self.outputs = outputs
        self.codes: set[str] = set()
        self._count = 0

    async def submit(self, tool: str, arguments: object, *, call_id: str | None = None, **more: Any) -> Any:
        self._count += 1
        proposal = {"call_id": call_id or f"c{self._count}", "tool": tool, "arguments": arguments}
        outcome = await self.gate.submit(proposal, **{"principal": AGENT, "run": "r1", **more})
        self.outputs.hear_outcome(outcome)
        self.codes.add(outcome.code)
        return outcome

    async def tried(self, work: Callable[[], Any]) -> None:
        """Something that has to be refused with an error of ours."""
        try:
            await work()
        except PlacetError as error:
            self.outputs.hear_error(error)
            return
        raise AssertionError("it was not refused")

    async def show(self, awaiting: AwaitingApproval) -> placet.ApprovalView:
        view = await self.gate.desk.show(awaiting.approval_id, by=MARA)
        self.outputs.hear("desk", view)
        return view


async def operations(story: Story) -> None:
    """Success, replay, conflict, and everything that is refused before a handler runs."""
    s = story.secrets
    arguments = {"ref": s("opkey"), "word": s.text("argument"), "more": {s.text("mapkey"): [s.text("nested")]}}
    ids = {"call_id": s("callid"), "run": s("runid"), "request_id": s("requestid")}
    await story.submit("keyed", arguments, **ids)
    await story.submit("keyed", arguments, call_id="again")
    await story.submit("keyed", {"ref": s("opkey"), "word": s.text("otherargument")})
    await story.submit("failing", {"word": s.text("argument")}, idempotency_key=s("callerkey"))
    for wrong in (
        {"ref": [s.text("wrongtype")], "word": "x"},
        {"ref": "a", "word": "x", s("membername"): s.text("membervalue")},
        f'{{"ref": "{s("notjson")}"',
        {"ref": "\x00" + s("nullargument"), "word": "x"},
        {"ref": s.text("giant") * 2_000, "word": "x"},
    ):
        await story.submit("keyed", wrong)
    await story.submit(s("toolname"), {"word": s.text("argument")})
    raw = {"call_id": "v", "tool": "keyed", "arguments": {}, "version": s("toolversion")}
    story.outputs.hear_outcome(await story.gate.submit(raw, principal=AGENT, run="r1"))
    raw = {"call_id": "/" + s("badcallid"), "tool": "keyed", "arguments": {}}
    story.outputs.hear_outcome(await story.gate.submit(raw, principal=AGENT, run="r1"))
    raw = {"call_id": "m", "tool": "keyed", "arguments": {}, s("proposalmember"): 1}
    story.outputs.hear_outcome(await story.gate.submit(raw, principal=AGENT, run="r1"))
    await story.submit("keyed", arguments, principal=OTHER, run="r2")
    await story.tried(lambda: story.submit("keyed", {}, run=s.text("badrun") * 20))
    await story.tried(lambda: story.submit("keyed", {}, idempotency_key=s.text("badkey") * 20))
    explained = await story.gate.explain(
        {"call_id": "e", "tool": "keyed", "arguments": arguments}, principal=AGENT, run="r1"
    )
    story.outputs.hear("explained", explained)


async def approvals(story: Story, clock: FakeClock) -> None:
    """Asked, approved, denied, withdrawn, expired, and decisions that are refused."""
    s, desk = story.secrets, story.gate.desk
    waiting = await story.submit("asked", {"word": s.text("shownargument"), "card": s.text("redacted")}, call_id="a1")
    view = await story.show(waiting)
    await story.tried(lambda: desk.approve(view.approval_id, digest=s("wrongdigest"), by=MARA))
    await story.tried(lambda: desk.approve(s("wrongid"), digest=view.digest, by=MARA))
    await story.tried(lambda: desk.approve(view.approval_id, digest=view.digest, by=AGENT))
    await story.tried(
        lambda: desk.deny(view.approval_id, digest=view.digest, by=MARA, reason=s.text("longreason") * 40)
    )
    reason = s.text("approverreason")
    story.outputs.hear("desk", await desk.approve(view.approval_id, digest=view.digest, by=MARA, reason=reason))
    await story.submit("asked", {"word": s.text("shownargument"), "card": s.text("redacted")}, call_id="a1")
    denied = await story.submit("asked", {"word": s.text("denied")}, call_id="a2")
    view = await story.show(denied)
    await desk.deny(view.approval_id, digest=view.digest, by=MARA, reason=s.text("denyreason"))
    await story.submit("asked", {"word": s.text("denied")}, call_id="a2")
    withdrawn = await story.submit("asked", {"word": s.text("withdrawn")}, call_id="a3")
    story.outputs.hear("desk", await desk.withdraw(withdrawn.approval_id, by=MARA))
    expired = await story.submit("asked", {"word": s.text("expired")}, call_id="a4")
    clock.advance(100_000)
    late = await story.show(expired)
    await story.tried(lambda: desk.approve(late.approval_id, digest=late.digest, by=MARA))
    story.outputs.hear("desk", await desk.listed(by=MARA))


async def attempts(story: Story, trouble: dict[str, Any]) -> None:
    """What handlers raise, return and leave behind."""
    s = story.secrets
    trouble["raise"] = secret_error(s)
    await story.submit("failing", {"word": s.text("argument")}, call_id="f1")
    trouble["raise"] = placet.ToolRejected(s.text("rejectedwords"))
    await story.submit("failing", {"word": s.text("argument")}, call_id="f2")
    trouble["raise"] = placet.RemoteStatus(429, retry_after=s.text("retryafter"))
    await story.submit("failing", {"word": s.text("argument")}, call_id="f3")
    trouble["raise"] = BaseExceptionGroup(s.text("group"), [secret_error(s)])
    await story.submit("failing", {"word": s.text("argument")}, call_id="f4")
    for tool in ("threaded", "broken", "hostile", "slow", "hangs"):
        await story.submit(tool, {"word": s("plainargument")}, call_id=tool)


async def reconciling(story: Story, clock: FakeClock, trouble: dict[str, Any]) -> None:
    """Unknown effects, settled by probe and by person."""
    s, reconciler = story.secrets, story.gate.reconciler
    clock.advance(600)
    trouble["probe"] = Found(result=s.text("proberesult"), external_reference=s.text("reference"))
    await reconciler.recover()
    await story.submit("failing", {"word": s.text("argument")}, call_id="f1")
    trouble["raise"], trouble["probe"] = secret_error(s), placet.CannotTell()
    unknown = await story.submit("failing", {"word": s.text("settled")}, call_id="f9")
    clock.advance(600)
    looked_at = clock.now()
    settle = reconciler.settle_by_person
    for key, truth, reason in (
        (s("wrongkey"), "committed", "seen"),
        (unknown.operation_key, s("wrongtruth"), "seen"),
        (unknown.operation_key, "committed", s.text("longevidence") * 40),
    ):
        await story.tried(lambda: settle(key, truth, by=MARA, looked_at=looked_at, reason=reason))  # noqa: B023 - run at once
    story.outputs.hear(
        "ledger", await settle(unknown.operation_key, "committed", by=MARA, looked_at=looked_at, reason=s("evidence"))
    )
    story.outputs.hear("ledger", await reconciler.effects(by=MARA))
    story.outputs.hear("ledger", await reconciler.waiting(by=MARA))
    story.outputs.hear("runs", await story.gate.runs.page(by=MARA))
    for run in (s("runid"), "r1"):
        story.outputs.hear("runs", await story.gate.runs.show(run, by=MARA, limit=1_000))


async def stopping(story: Story) -> None:
    """A stop, a call that it halts, a stop that is refused, and the lifting."""
    s, switch = story.secrets, story.gate.switch
    story.outputs.hear("switch", await switch.stop("tool:failing", by=OLGA, reason=s.text("stopreason")))
    await story.submit("failing", {"word": s.text("argument")}, call_id="f10")
    await story.tried(lambda: switch.stop("tenant", by=MARA, reason=s.text("refusedstop")))
    await story.tried(lambda: switch.stop("tenant", by=OLGA, reason=s.text("longstop") * 40))
    await story.tried(lambda: switch.stop(s("stopscope"), by=OLGA))
    story.outputs.hear("switch", await switch.stops(by=OLGA), await switch.stops(by=MARA))
    await switch.resume("tool:failing", by=OLGA)


async def faults(story: Story) -> None:
    """The store fails, with a secret in what it raises, before and after a handler ran."""
    s, store = story.secrets, story.gate.store
    for verb in ("claim", "settle", "record"):
        good = getattr(store, verb)

        async def failing(*_: object, **__: object) -> Any:
            raise StoreUnavailable("no") from OSError(s.text("storefault"))

        setattr(store, verb, failing)
        try:
            await story.submit("keyed", {"ref": f"fault-{verb}", "word": s.text("argument")})
        finally:
            setattr(store, verb, good)


class Channels:
    """Writes every message in each of its forms, as they go out."""

    def __init__(self, outputs: Outputs) -> None:
        self._outputs = outputs

    async def send(self, notice: Notice) -> Delivered:
        self._outputs.hear("webhook", notice.message_id, payload_of(notice))
        self._outputs.hear("slack", message_of(notice))
        mail = mail_of(notice, MAIL, at=notice.at)
        self._outputs.hear("mail", mail.as_bytes(), mail.get_content())
        return Delivered(code="status_200")


def announcing(gate: placet.Gate, outputs: Outputs) -> Announcer:
    destination = Destination(
        name="all", kinds=frozenset(CONFIGURED_KINDS), tenants=frozenset({EVERY_TENANT}), way=MAIL
    )
    return Announcer(
        store=gate.store,
        linker=gate._linker,
        chronicle=gate._chronicle,
        ids=SeededIds(1),
        meter=RecordingMeter(),
        announcements=Announcements(destinations=(destination,), console_url="https://ops.example.com/console"),
        notifiers={destination.name: Channels(outputs)},
    )


async def told_in_process(folder: Path, secrets: Secrets, outputs: Outputs) -> None:
    """The whole story in this process, and then the bytes it left behind."""
    clock, registry, trouble = FakeClock(), CollectorRegistry(), {"raise": secret_error(secrets)}
    async with placet.open(
        tools=tools_of(secrets, trouble),
        store=folder / "placet.db",
        clock=clock,
        recovery="manual",
        policy=ReasonedPolicy(secrets("policyreason")),
        shadow=ShadowPolicy(secrets("shadowreason"), secrets),
        sinks=(placet.LogSink(), Sink(secrets("sinkname"), secrets)),
        metrics=registry,
        settings=placet.GateSettings(grace_seconds=0.05),
    ) as gate:
        story = Story(gate, secrets, outputs)
        announcer = announcing(gate, outputs)
        await announcer.round()
        await operations(story)
        await approvals(story, clock)
        await attempts(story, trouble)
        await reconciling(story, clock, trouble)
        await stopping(story)
        await faults(story)
        announced = await announcer.round()
        assert announced.delivered == announced.found > 10
        outputs.hear("audit", *[event.body async for event in gate.store.chained()])
        outputs.hear("metrics", generate_latest(registry))
        outputs.hear_files("store files", folder, "placet.db*")  # with the journal of a store that is open
    outputs.hear_files("store files", folder, "placet.db*")
    assert story.codes >= EVERY_PATH, EVERY_PATH - story.codes
    assert "was late" in trouble
    keys, store = open_existing_store(folder / "placet.db")
    try:
        async with audit_export(store, keys, tenant=None) as lines:
            outputs.hear("audit export", *[line async for line in lines])
        async with audit_export(store, keys, tenant="acme") as lines:
            outputs.hear("audit export", *[line async for line in lines])
    finally:
        await store.close()


@pytest.fixture
def outputs() -> Iterator[Outputs]:
    heard = Outputs()
    yield from (heard for _ in LogEars(heard).listening())


@pytest.mark.req("B121", "B176", "B202", "B064", "C052")
@pytest.mark.case("M01", "M02")
async def test_every_secret_can_be_read_where_it_belongs_and_nowhere_else(
    tmp_path: Path, outputs: Outputs, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    secrets = Secrets()
    monkeypatch.setenv("PLACET_CANARY", secrets("environment"))
    await told_in_process(tmp_path, secrets, outputs)
    told = capsys.readouterr()
    outputs.hear("streams", told.out, told.err)
    assert_exactly(outputs, secrets, BELONGS)


def assert_exactly(outputs: Outputs, secrets: Secrets, belongs: dict[str, tuple[str, tuple[str, ...]]]) -> None:
    expected = {(name, channel) for name, (_, channels) in belongs.items() for channel in channels}
    found = outputs.found(secrets)
    leaks = {pair: form for pair, form in found.items() if pair not in expected}
    assert leaks == {}
    assert expected - found.keys() == set()

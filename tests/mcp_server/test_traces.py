"""One trace from a client through the door to an upstream, and across the pause in which a person decides."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.context import Context
from opentelemetry.trace import NonRecordingSpan, Span, SpanContext, TraceFlags, get_current_span, use_span

import placet
from placet.mcp_server import McpSettings, tracing
from placet.model.contract import ApprovalMode
from placet.model.serving import ResumedTraces
from placet.testing import FixedSignIn
from tests.mcp_server.conftest import QUICK, WITH_PAGES, InProcess, in_process
from tests.mcp_server.tools import MARA
from tests.upstreams.scene import TERMS, Server, joined, over_stdio

CLIENT = f"00-{'a1' * 16}-{'b2' * 8}-01"
UNSAMPLED = CLIENT[:-2] + "00"
TRACE = int("a1" * 16, 16)
AGENT = placet.Principal.agent("agent", tenant="acme", roles=("operator",), scopes=("notes.write",))
APPROVED = replace(TERMS["note"], approval=ApprovalMode.ALWAYS)
LINKED = replace(QUICK, resumed_traces=ResumedTraces.LINKED)


@dataclass
class Told:
    """A span as a program that records them would have it."""

    name: str
    here: SpanContext
    parent: int
    links: list[int] = field(default_factory=list)
    attributes: dict[str, Any] = field(default_factory=dict)
    has_ended: bool = False


class Recorder:
    """Gives every span an id, and the trace and the sampling of its parent."""

    def __init__(self) -> None:
        self.spans: list[Told] = []

    @contextmanager
    def start_as_current_span(
        self, name: str, *, context: Context | None = None, links: Any = (), attributes: Any = None, **more: Any
    ) -> Iterator[Span]:
        parent = get_current_span(context).get_span_context()
        number = len(self.spans) + 1
        here = SpanContext(
            parent.trace_id if parent.is_valid else number,
            number,
            is_remote=False,
            trace_flags=parent.trace_flags if parent.is_valid else TraceFlags(TraceFlags.SAMPLED),
        )
        told = Told(name, here, parent.span_id, [link.context.span_id for link in links], dict(attributes or {}))
        self.spans.append(told)
        with use_span(NonRecordingSpan(here), record_exception=False) as span:
            yield span
        told.has_ended = True


@pytest.fixture
def server(tmp_path: Path) -> Server:
    return Server(tmp_path)


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> list[Told]:
    recorder = Recorder()
    monkeypatch.setattr(tracing, "_tracer", recorder)
    return recorder.spans


def door_of(folder: Path, server: Server, settings: McpSettings = QUICK) -> Any:
    upstream = joined(over_stdio(server), note=APPROVED)
    sign_in = FixedSignIn({"t-agent": AGENT, "t-mara": replace(MARA, scopes=MARA.scopes | {"notes.write"})})
    return in_process(folder, settings=settings, tools=[], upstreams=[upstream], sign_in=sign_in)


async def note(door: InProcess, meta: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    params = {"name": "desk.note", "arguments": {"text": "hello"}, **more.pop("params", {})}
    return dict((await door.ask("tools/call", params, meta=meta, **more))["result"])


def outcome_of(result: dict[str, Any]) -> dict[str, Any]:
    return dict(result["_meta"]["io.placet/outcome"])


async def test_a_clients_trace_goes_on_at_the_upstream(tmp_path: Path, server: Server, spans: list[Told]) -> None:
    async with door_of(tmp_path, server) as door:
        await door.ask("tools/call", {"name": "desk.echo", "arguments": {"text": "a"}}, meta={"traceparent": CLIENT})
    (call,) = [each for each in spans if each.name == "tools/call desk.echo"]
    assert (call.here.trace_id, f"{call.parent:016x}") == (TRACE, "b2" * 8)
    (called,) = server.lines("called")
    assert called["meta"]["traceparent"] == f"00-{TRACE:032x}-{call.here.span_id:016x}-01"


@pytest.mark.case("N09")
@pytest.mark.parametrize("way", ["sealed state", "retry", "asked again"])
async def test_a_call_goes_on_in_its_trace_after_a_person_has_decided(
    tmp_path: Path, server: Server, spans: list[Told], way: str
) -> None:
    """The first two by another process, which knows nothing but the store."""
    capabilities = WITH_PAGES if way == "sealed state" else None
    async with door_of(tmp_path, server) as door:
        asked = await note(door, {"traceparent": CLIENT}, capabilities=capabilities)
        (before,) = spans
        assert before.has_ended  # no span is open while a person thinks
        approval_id = outcome_of(asked)["approval_id"]
        await door.approve(approval_id)
        if way == "asked again":
            done = await note(door)
    if way != "asked again":
        async with door_of(tmp_path, server) as door:
            if way == "retry":
                done = await note(door, asked["_meta"]["io.placet/retry"])
            else:
                said = {"requestState": asked["requestState"], "inputResponses": {"approval": {"action": "accept"}}}
                done = await note(door, params=said, capabilities=WITH_PAGES)
    assert outcome_of(done)["status"] == "succeeded"

    message, resumed = spans[-2:]
    assert message.here.trace_id != TRACE  # it named no trace
    assert (resumed.name, resumed.here.trace_id, resumed.parent) == ("resumed desk.note", TRACE, before.here.span_id)
    assert resumed.links == [before.here.span_id, message.here.span_id]
    assert resumed.attributes["placet.run_id"] == outcome_of(asked)["run"]
    (called,) = server.lines("called")
    assert called["meta"]["traceparent"] == f"00-{TRACE:032x}-{resumed.here.span_id:016x}-01"


@pytest.mark.case("N09")
async def test_a_deployment_may_have_it_go_on_where_the_message_is(
    tmp_path: Path, server: Server, spans: list[Told]
) -> None:
    async with door_of(tmp_path, server, LINKED) as door:
        asked = await note(door, {"traceparent": CLIENT})
        await door.approve(outcome_of(asked)["approval_id"])
        await note(door, asked["_meta"]["io.placet/retry"])
    before, message, resumed = spans
    assert (resumed.here.trace_id, resumed.parent) == (message.here.trace_id, message.here.span_id)
    assert resumed.links == [before.here.span_id, message.here.span_id]


@pytest.mark.case("N09")
async def test_no_span_has_a_name_that_a_client_made_up_and_no_call_resumes_what_was_never_paused(
    tmp_path: Path, server: Server, spans: list[Told]
) -> None:
    async with door_of(tmp_path, server) as door:
        asked = await note(door, {"io.placet/run": "canary-run", "io.placet/trace": CLIENT})
        (only,) = spans
        assert not only.name.startswith("resumed")
        await door.approve(outcome_of(asked)["approval_id"])
        done = await note(door, asked["_meta"]["io.placet/retry"])
    assert outcome_of(done)["run"] == "canary-run"
    assert spans[-1].name == "resumed desk.note"
    assert not any("canary" in str(value) for each in spans for value in each.attributes.values())


@pytest.mark.case("N09")
async def test_whoever_comes_back_in_the_same_trace_has_its_own_span_as_parent(
    tmp_path: Path, server: Server, spans: list[Told]
) -> None:
    async with door_of(tmp_path, server) as door:
        asked = await note(door, {"traceparent": CLIENT})
        await door.approve(outcome_of(asked)["approval_id"])
        await note(door, {**asked["_meta"]["io.placet/retry"], "traceparent": CLIENT})
    before, message, resumed = spans
    assert {each.here.trace_id for each in spans} == {TRACE}
    assert (resumed.parent, resumed.links) == (message.here.span_id, [before.here.span_id])


@pytest.mark.case("N09")
async def test_what_was_not_sampled_before_the_pause_is_not_sampled_after_it(
    tmp_path: Path, server: Server, spans: list[Told]
) -> None:
    async with door_of(tmp_path, server) as door:
        asked = await note(door, {"traceparent": UNSAMPLED})
        await door.approve(outcome_of(asked)["approval_id"])
        await note(door, asked["_meta"]["io.placet/retry"])
    assert [each.here.trace_flags.sampled for each in spans] == [False, True, False]
    assert server.lines("called")[0]["meta"]["traceparent"].endswith("-00")


async def test_where_nobody_records_spans_the_clients_own_is_what_goes_on(tmp_path: Path, server: Server) -> None:
    async with door_of(tmp_path, server) as door:
        asked = await note(door, {"traceparent": CLIENT})
        assert asked["_meta"]["io.placet/retry"]["io.placet/trace"] == CLIENT
        untraced = await note(door, params={"arguments": {"text": "untraced"}})
        assert "io.placet/trace" not in untraced["_meta"]["io.placet/retry"]
        await door.approve(outcome_of(asked)["approval_id"])
        await note(door, asked["_meta"]["io.placet/retry"])
    assert server.lines("called")[0]["meta"]["traceparent"] == CLIENT


@pytest.mark.parametrize(
    "said",
    ["00-made-up-01", CLIENT + "\n", CLIENT.upper(), 7, [CLIENT]],
    ids=["made up", "line", "capitals", "number", "list"],
)
async def test_a_trace_that_is_none_is_refused(tmp_path: Path, server: Server, said: Any) -> None:
    async with door_of(tmp_path, server) as door:
        answer = await door.call("desk.note", {"text": "hello"}, meta={"io.placet/trace": said})
    assert answer["error"]["data"] == {"code": "meta_malformed", "member": "io.placet/trace"}
    assert server.lines("called") == []

"""What is no tool: passed on where the operator named it, to whom it is for, under names that cannot clash."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp.client import Client
from mcp.shared.exceptions import MCPError
from prometheus_client import generate_latest

from placet import Principal
from placet.bootstrap.upstreams import live_definitions
from placet.model.contract import ApprovalMode, EffectClass, Risk
from placet.model.pins import Definition
from placet.model.upstreams import Naming, Relayed, ToolTerms, Upstream
from tests.mcp_conformance import suite
from tests.mcp_conformance.gateway import SUITE, TENANT, Gateway, gateway, harmless, upstream_at

READING = frozenset({Relayed.RESOURCES, Relayed.PROMPTS, Relayed.COMPLETION})
ASKING = frozenset({Relayed.ELICITATION, Relayed.SAMPLING, Relayed.ROOTS})
GREETS = "everything.test_input_required_result_elicitation"
MARA = Principal.person("mara", tenant=TENANT, roles=("admin",), scopes=("approvals.decide", "w", "ops.stop.all"))
END_SECONDS = 30.0
Opened = Callable[..., AbstractAsyncContextManager[Gateway]]


@pytest.fixture(scope="module")
def upstream_url() -> Iterator[str]:
    running = subprocess.Popen(
        [sys.executable, "-m", "tests.mcp_conformance.everything"],
        stdout=subprocess.PIPE,
        text=True,
        cwd=suite.REPOSITORY,
    )
    try:
        assert running.stdout is not None
        yield running.stdout.readline().strip()
    finally:
        running.kill()
        running.wait(END_SECONDS)
        if running.stdout is not None:
            running.stdout.close()


@pytest.fixture(scope="module")
def described(upstream_url: str) -> tuple[Definition, ...]:
    """What the server says of its tools, asked once."""
    return asyncio.run(live_definitions(upstream_at(upstream_url, Path())))


@pytest.fixture
def declared(upstream_url: str, tmp_path: Path) -> Upstream:
    return upstream_at(upstream_url, tmp_path)


class Person:
    """Answers every form, and counts how often it was asked, and what."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def answers(self, context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        self.asked.append(params.message)
        return types.ElicitResult(action="accept", content={"name": "Ada"})


@pytest.fixture
def opened_with(described: tuple[Definition, ...], tmp_path: Path) -> Opened:
    """Opens a gateway in front of it, for one client who is let in."""

    def opened(
        upstream: Upstream, terms_of: Callable[[str], ToolTerms] = harmless, who: Principal = SUITE
    ) -> AbstractAsyncContextManager[Gateway]:
        return gateway(tmp_path, upstream, terms_of, who, described)

    return opened


@asynccontextmanager
async def client_of(opened: Gateway, person: Person | None = None, mode: Any = "auto") -> AsyncIterator[Client]:
    async with Client(opened.url, mode=mode, elicitation_callback=None if person is None else person.answers) as client:
        yield client


def text_of(result: Any) -> str:
    assert isinstance(result, types.CallToolResult)
    assert isinstance(result.content[0], types.TextContent)
    return result.content[0].text


# ------------------------------------------------------------ nothing unless it is named


@pytest.mark.case("L05")
async def test_what_the_operator_did_not_name_is_no_method_here(declared: Upstream, opened_with: Opened) -> None:
    async with opened_with(declared) as opened, client_of(opened) as client:
        capabilities = client.server_capabilities
        assert capabilities is not None
        assert (capabilities.resources, capabilities.prompts, capabilities.completions) == (None, None, None)
        assert capabilities.logging is None
        for ask in (client.list_resources, client.list_resource_templates, client.list_prompts):
            with pytest.raises(MCPError) as refused:
                await ask()
            assert refused.value.code == types.METHOD_NOT_FOUND


@pytest.mark.case("K08")
async def test_a_client_is_asked_nothing_by_an_upstream_that_may_not_ask(
    declared: Upstream, opened_with: Opened
) -> None:
    person = Person()
    async with opened_with(declared) as opened, client_of(opened, person) as client:
        result = await client.call_tool(GREETS, {})
        nobody = await client.call_tool("everything.test_input_required_result_capabilities", {})
    assert result.is_error
    assert person.asked == []
    assert text_of(nobody) == "There is nobody to ask."


@pytest.mark.case("K08")
async def test_a_client_that_declares_nothing_is_asked_nothing(declared: Upstream, opened_with: Opened) -> None:
    async with opened_with(replace(declared, relayed=ASKING)) as opened, client_of(opened) as client:
        result = await client.session.call_tool(GREETS, {}, allow_input_required=True)
    assert isinstance(result, types.CallToolResult)
    assert result.is_error


@pytest.mark.case("K08")
@pytest.mark.parametrize("mode", ["2026-07-28", "legacy"])
async def test_a_question_reaches_the_client_of_that_call_and_says_who_asks(
    declared: Upstream, opened_with: Opened, mode: str
) -> None:
    asker, other = Person(), Person()
    async with (
        opened_with(replace(declared, relayed=ASKING)) as opened,
        client_of(opened, other, mode),
        client_of(opened, asker, mode) as client,
    ):
        result = await client.call_tool(GREETS, {})
        events = [json.loads(event.body) async for event in opened.gate.store.chained()]
        numbers = generate_latest(opened.registry).decode()
    assert text_of(result) == "Good day, Ada!"
    assert asker.asked == ["[everything] Who is asking?"]
    assert other.asked == []
    asked, answered = (each for each in events if each["kind"].startswith("upstream_"))
    assert {name: asked[name] for name in ("kind", "tenant", "subject", "tool", "detail", "reasons")} == {
        "kind": "upstream_asked", "tenant": TENANT, "subject": SUITE.subject, "tool": GREETS,
        "detail": "elicitation_form", "reasons": ["upstream:everything"],
    }  # fmt: skip
    assert (answered["kind"], answered["detail"]) == ("upstream_answered", "accept")
    assert answered["reasons"] == ["upstream:everything", "question:elicitation.form"]
    assert not [each for each in events if "Ada" in str(each) or "Who is asking" in str(each)]
    assert 'questions_total{answer="accept",kind="elicitation.form",server="everything"} 1.0' in numbers


def approved_first(tool: str) -> ToolTerms:
    return replace(
        harmless(tool), effect=EffectClass.WRITE, risk=Risk.MEDIUM, permission="w", approval=ApprovalMode.ALWAYS
    )


@pytest.mark.case("K08")
async def test_a_call_that_runs_on_an_approval_is_never_added_to_by_answers(
    declared: Upstream, opened_with: Opened
) -> None:
    person = Person()
    who = Principal.agent("suite", tenant=TENANT, roles=("operator",), scopes=("w",))
    meta = {"io.placet/run": "r", "io.placet/call-id": "c"}
    async with (
        opened_with(replace(declared, relayed=ASKING), approved_first, who) as opened,
        client_of(opened, person) as client,
    ):
        waiting = await client.call_tool(GREETS, {}, meta=meta)  # type: ignore[arg-type]
        approval = (waiting.meta or {})["io.placet/outcome"]["approval_id"]
        view = await opened.gate.desk.show(approval, by=MARA)
        await opened.gate.desk.approve(approval, digest=view.digest, by=MARA)
        result = await client.call_tool(GREETS, {}, meta=meta)  # type: ignore[arg-type]
    assert result.is_error
    assert (result.meta or {})["io.placet/outcome"]["status"] == "unknown"  # told that nobody can be asked, it asked
    assert person.asked == []


async def test_coming_back_with_answers_is_the_same_operation(declared: Upstream, opened_with: Opened) -> None:
    def writes(tool: str) -> ToolTerms:
        return replace(harmless(tool), effect=EffectClass.WRITE, risk=Risk.LOW, permission="w")

    who = Principal.agent("suite", tenant=TENANT, roles=("operator",), scopes=("w",))
    answers = {"user_name": types.ElicitResult(action="accept", content={"name": "Ada"})}
    async with (
        opened_with(replace(declared, relayed=ASKING), writes, who) as opened,
        client_of(opened, Person()) as client,
    ):
        asked = await client.session.call_tool(GREETS, {}, allow_input_required=True)
        assert isinstance(asked, types.InputRequiredResult)
        again = {"input_responses": answers, "request_state": asked.request_state, "allow_input_required": True}
        done = await client.session.call_tool(GREETS, {}, **again)  # type: ignore[call-overload]
        repeated = await client.session.call_tool(GREETS, {}, **again)  # type: ignore[call-overload]
    assert text_of(done) == "Good day, Ada!"
    outcomes = [dict(each.meta["io.placet/outcome"]) for each in (done, repeated)]
    assert [each["status"] for each in outcomes] == ["succeeded", "replayed"]
    assert outcomes[0]["operation_key"] == outcomes[1]["operation_key"]


@pytest.mark.case("K08")
async def test_answers_that_nobody_asked_for_do_not_reach_the_upstream(declared: Upstream, opened_with: Opened) -> None:
    """Neither contract, nor policy, nor the name of the operation would know of them."""
    answer = types.ElicitResult(action="accept", content={"name": "Ada"})
    async with (
        opened_with(replace(declared, relayed=ASKING)) as opened,
        client_of(opened, Person()) as client,
    ):
        call = {"input_responses": {"user_name": answer}, "allow_input_required": True}
        unasked = await client.session.call_tool(GREETS, {}, **call)  # type: ignore[call-overload]
        assert isinstance(unasked, types.InputRequiredResult)
        other = {**call, "input_responses": {"other": answer}, "request_state": unasked.request_state}
        still = await client.session.call_tool(GREETS, {}, **other)  # type: ignore[call-overload]
    assert isinstance(still, types.InputRequiredResult)


# ------------------------------------------------------------ names


@pytest.mark.req("B183")
async def test_what_an_upstream_offers_bears_its_server_id_and_is_found_by_it(
    declared: Upstream, opened_with: Opened
) -> None:
    async with opened_with(replace(declared, relayed=READING)) as opened, client_of(opened) as client:
        resources = [resource.uri for resource in (await client.list_resources()).resources]
        templates = [each.uri_template for each in (await client.list_resource_templates()).resource_templates]
        prompts = [prompt.name for prompt in (await client.list_prompts()).prompts]
        read = await client.read_resource("placet:everything/test://static-text")
        filled = await client.read_resource("placet:everything/test://template/7/data")
        embedded = await client.get_prompt(
            "everything.test_prompt_with_embedded_resource", {"resourceUri": "test://static-text"}
        )
        completed = await client.complete(
            types.PromptReference(type="ref/prompt", name="everything.test_prompt_with_arguments"),
            {"name": "arg1", "value": "par"},
        )
        with pytest.raises(MCPError) as unknown:
            await client.read_resource("test://static-text")
        tool = await client.call_tool("everything.test_embedded_resource", {})
    assert resources[0] == "placet:everything/test://static-text"
    assert templates == ["placet:everything/test://template/{id}/data"]
    assert "everything.test_simple_prompt" in prompts
    assert read.contents[0].uri == "placet:everything/test://static-text"
    assert filled.contents[0].uri == "placet:everything/test://template/7/data"
    content = embedded.messages[0].content
    assert isinstance(content, types.EmbeddedResource)
    assert content.resource.uri == "placet:everything/test://static-text"
    assert completed.completion.values == ["paris", "park", "party", "parma"]
    assert unknown.value.code == types.INVALID_PARAMS
    assert isinstance(tool.content[0], types.EmbeddedResource)
    assert tool.content[0].resource.uri == "placet:everything/test://embedded-resource"


async def test_a_list_is_nobody_elses_to_keep(declared: Upstream, opened_with: Opened) -> None:
    """The upstream says that anybody may keep its lists for a minute; what a principal sees is its own."""
    async with opened_with(replace(declared, relayed=READING)) as opened, client_of(opened) as client:
        listed = await client.list_resources()
        prompts = await client.list_prompts()
        read = await client.read_resource("placet:everything/test://static-text")
    assert {each.cache_scope for each in (listed, prompts, read)} == {"private"}
    assert {each.ttl_ms for each in (listed, prompts, read)} == {0}


# ------------------------------------------------------------ for whom


@pytest.mark.case("L05")
async def test_who_may_not_see_the_upstream_sees_nothing_it_offers(declared: Upstream, opened_with: Opened) -> None:
    somebody_elses = replace(declared, relayed=READING, tenants=frozenset({"globex"}))
    async with opened_with(somebody_elses) as opened, client_of(opened) as client:
        resources, prompts = await client.list_resources(), await client.list_prompts()
        refusals = []
        for uri in ("placet:everything/test://static-text", "placet:nowhere/test://static-text"):
            with pytest.raises(MCPError) as refused:
                await client.read_resource(uri)
            refusals.append((refused.value.code, refused.value.message))
    assert resources.resources == []
    assert prompts.prompts == []
    assert refusals[0] == refusals[1]


def agent(*scopes: str) -> Principal:
    return Principal.agent("suite", tenant=TENANT, roles=("operator",), scopes=scopes)


def hidden(tool: str) -> ToolTerms:
    return replace(harmless(tool), effect=EffectClass.WRITE, risk=Risk.MEDIUM, permission="w")


@pytest.mark.case("L05")
@pytest.mark.parametrize(
    ("scopes", "tenants", "sees"),
    [
        ((), None, False),
        (("relay.everything",), None, True),
        (("relay.other",), None, False),
        (("relay.everything",), frozenset({"globex"}), False),
    ],
    ids=["no-tool-and-no-scope", "the-scope", "anothers-scope", "anothers-tenant"],
)
async def test_without_one_of_its_tools_a_scope_lets_see_what_an_upstream_offers(
    declared: Upstream, opened_with: Opened, scopes: tuple[str, ...], tenants: frozenset[str] | None, sees: bool
) -> None:
    offering = replace(declared, relayed=READING, tenants=tenants)
    async with opened_with(offering, hidden, agent(*scopes)) as opened, client_of(opened) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["own"]
        assert bool((await client.list_resources()).resources) is sees


async def test_a_stopped_upstream_offers_nothing(declared: Upstream, opened_with: Opened) -> None:
    async with opened_with(replace(declared, relayed=READING)) as opened, client_of(opened) as client:
        assert (await client.list_prompts()).prompts
        await opened.gate.switch.stop("upstream:everything", by=MARA)
        assert (await client.list_prompts()).prompts == []
        with pytest.raises(MCPError) as refused:
            await client.read_resource("placet:everything/test://static-text")
    assert refused.value.message == "There is no such resource."


async def test_plain_names_are_the_upstreams_own(declared: Upstream, opened_with: Opened) -> None:
    plain = replace(declared, relayed=READING, naming=Naming.PLAIN)
    async with opened_with(plain) as opened, client_of(opened) as client:
        tools = {tool.name for tool in (await client.list_tools()).tools}
        read = await client.read_resource("test://static-text")
    assert {"own", "test_simple_text"} <= tools
    assert read.contents[0].uri == "test://static-text"

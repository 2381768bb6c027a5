"""The ticket desk of the ops demo, called through a contract that was imported from its OpenAPI document."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import urllib.request
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

import placet
from placet.bootstrap.openapi import openapi_upstream
from placet.demos.ops.desk_client import DeskClient, DeskProcess
from placet.errors import ConfigurationError, ContractError
from placet.model.contract import EffectClass
from placet.model.outcome import AwaitingApproval, Failed, Invalid, Replayed, Succeeded, Unknown
from placet.rules.manifests import read_manifest
from placet.rules.openapi.effects import key_header_of
from tests.kill_points.actors import assert_audit_is_whole, recovered, start
from tests.openapi.conftest import carried
from tests.openapi.desk_actors import (
    MANIFEST,
    TICKET,
    approve,
    ask_and_hang,
    document,
    open_gate,
    proposed,
    the_desk,
)

pytestmark = pytest.mark.req("B035")


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DeskProcess]:
    """One desk for the module; each test has tickets of its own titles."""
    desk = DeskProcess()
    desk.start(tmp_path_factory.mktemp("desk"), timeout_seconds=30.0)
    yield desk
    desk.kill()


@pytest.fixture
async def desk(running: DeskProcess) -> AsyncIterator[DeskClient]:
    async with DeskClient(running.url) as client:
        yield client
        await client.misbehave({"drop_replies": 0, "delay_seconds": 0, "answer": {"times": 0}})


@pytest.fixture
def ticket(request: pytest.FixtureRequest) -> dict[str, Any]:
    return {**TICKET, "title": request.node.name[:100]}


async def tickets(desk: DeskClient, title: str) -> list[dict[str, Any]]:
    return [each for each in await desk.tickets() if each["ticket"]["title"] == title]


async def approved(gate: Any, ticket: dict[str, Any], call_id: str = "c1") -> Any:
    waiting = await proposed(gate, "create_ticket", ticket, call_id)
    assert isinstance(waiting, AwaitingApproval)
    await approve(gate, waiting.approval_id)
    return await proposed(gate, "create_ticket", ticket, call_id)


# ---------------------------------------------------------------- calls


@pytest.mark.req("C046", "C066")
async def test_a_ticket_is_asked_for_approved_created_once_and_replayed(
    tmp_path: Path, running: DeskProcess, desk: DeskClient, ticket: dict[str, Any]
) -> None:
    async with open_gate(tmp_path, the_desk(running.url)) as gate:
        done = await approved(gate, ticket)
        again = await proposed(gate, "create_ticket", ticket, "c2")
        assert isinstance(done, Succeeded)
        assert isinstance(again, Replayed)
        result = done.unwrap()
        assert (result["status"], result["body"]["created"]) == (201, True)
        assert result["body"]["ticket"] == {**ticket, "labels": []}
        assert again.unwrap() == result
        shown = await proposed(gate, "get_ticket", {"ticket_id": result["body"]["id"]}, "c3")
        assert shown.unwrap()["body"]["id"] == result["body"]["id"]
        assert_audit_is_whole(gate)
    assert len(await tickets(desk, ticket["title"])) == 1


async def test_arguments_that_break_the_document_reach_nobody(
    tmp_path: Path, running: DeskProcess, desk: DeskClient, ticket: dict[str, Any]
) -> None:
    arrived = len(await desk.arrivals())
    async with open_gate(tmp_path, the_desk(running.url)) as gate:
        for wrong in ({**ticket, "more": 1}, {**ticket, "severity": "sev9"}, {"title": "none"}, {**ticket, "title": 7}):
            assert isinstance(await proposed(gate, "create_ticket", wrong), Invalid)
        for name in ("../faults", "OPS-1/../../faults", "OPS-1%2f..", "", ".."):
            assert isinstance(await proposed(gate, "get_ticket", {"ticket_id": name}), Invalid)
    assert len(await desk.arrivals()) == arrived


@pytest.mark.req("C030", "C046")
async def test_a_busy_service_is_asked_again_with_the_same_key_and_approval(
    tmp_path: Path, running: DeskProcess, desk: DeskClient, ticket: dict[str, Any]
) -> None:
    async with open_gate(tmp_path, the_desk(running.url)) as gate:
        await desk.misbehave({"answer": {"status": 503, "retry_after": "0", "times": 2}})
        done = await approved(gate, ticket)
    assert isinstance(done, Succeeded)
    keys = [key for key in await desk.arrivals() if ticket["title"] in key]
    assert len(keys) == 3
    assert len(set(keys)) == 1
    assert len(await tickets(desk, ticket["title"])) == 1


async def test_a_lost_answer_is_unknown_until_the_declared_get_has_found_the_ticket(
    tmp_path: Path, running: DeskProcess, desk: DeskClient, ticket: dict[str, Any]
) -> None:
    async with open_gate(tmp_path, the_desk(running.url)) as gate:
        await desk.misbehave({"drop_replies": 3})
        lost = await approved(gate, ticket)
        assert isinstance(lost, Unknown)
        await recovered(gate)
        found = await proposed(gate, "create_ticket", ticket, "c2")
        assert isinstance(found, Replayed)
        (held,) = await tickets(desk, ticket["title"])
        assert found.unwrap()["body"]["id"] == held["id"]
        (effect,) = await gate.store.effects(tenant="shop", states=(lost_and_found(),), limit=9)
        assert effect.external_reference == held["id"]


def lost_and_found() -> Any:
    from placet.model.effect import EffectState

    return EffectState.RECONCILED_COMMITTED


async def test_what_never_arrived_is_found_absent_and_may_be_asked_for_again(
    tmp_path: Path, running: DeskProcess, desk: DeskClient, ticket: dict[str, Any]
) -> None:
    """Every try is answered without acting, by a status that proves nothing."""
    manifest = MANIFEST.replace("max_attempts = 3", "max_attempts = 1").replace(
        "timeout_seconds = 20", "timeout_seconds = 1"
    )
    async with open_gate(tmp_path, the_desk(running.url, manifest)) as gate:
        await desk.misbehave({"answer": {"status": 500, "times": 1}})
        doubtful = await approved(gate, ticket)
        assert isinstance(doubtful, Unknown)
        await recovered(gate)
        waiting = await proposed(gate, "create_ticket", ticket, "c2")
        assert isinstance(waiting, AwaitingApproval)  # the first approval was spent
    assert await tickets(desk, ticket["title"]) == []


async def test_a_service_that_is_down_has_done_nothing(tmp_path: Path, ticket: dict[str, Any]) -> None:
    gone = DeskProcess()
    url = gone.start(tmp_path / "desk", timeout_seconds=30.0)
    gone.kill()
    with socket.socket() as kept:  # nobody else gets its port meanwhile
        kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        kept.bind(("127.0.0.1", urlsplit(url).port))
        async with open_gate(tmp_path, the_desk(url)) as gate:
            outcome = await approved(gate, ticket)
    assert isinstance(outcome, Failed)
    assert (outcome.code, outcome.may_have_acted) == ("upstream_unavailable", False)


async def test_what_the_manifest_calls_a_refusal_changed_nothing(
    tmp_path: Path, running: DeskProcess, desk: DeskClient, ticket: dict[str, Any]
) -> None:
    """The desk's own 409: somebody used the key for another ticket."""
    manifest = MANIFEST.replace('operation_key = "ticket:{service}:{title}"', 'operation_key = "ticket:{service}"')
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
    async with open_gate(tmp_path / "one", the_desk(running.url, manifest)) as gate:
        assert isinstance(await approved(gate, {**ticket, "service": "refused"}), Succeeded)
    async with open_gate(tmp_path / "other", the_desk(running.url, manifest)) as gate:
        refused = await approved(gate, {**ticket, "service": "refused", "severity": "sev1"})
    assert isinstance(refused, Failed)
    assert (refused.code, refused.may_have_acted) == ("tool_rejected", False)


@pytest.mark.slow
@pytest.mark.req("X001", "H045")
async def test_a_killed_gateway_created_one_ticket_and_the_next_one_finds_it(
    tmp_path: Path, running: DeskProcess, desk: DeskClient
) -> None:
    """Kills a process: the desk has acted and has not answered."""
    await desk.misbehave({"delay_seconds": 50})
    asking = start(ask_and_hang, str(tmp_path), running.url)
    async with asyncio.timeout(30):
        while not await tickets(desk, TICKET["title"]):
            await asyncio.sleep(0.02)
    os.kill(asking.pid or 0, signal.SIGKILL)
    asking.join(30)
    async with open_gate(tmp_path, the_desk(running.url)) as gate:
        await recovered(gate)
        found = await proposed(gate, "create_ticket", TICKET)
        assert isinstance(found, Replayed)
        (held,) = await tickets(desk, TICKET["title"])
        assert found.unwrap()["body"]["id"] == held["id"]
        assert_audit_is_whole(gate)
    assert len([key for key in await desk.arrivals() if "Pool is full" in key]) == 1


# ---------------------------------------------------------------- contracts


def digests(**said: Any) -> dict[str, str]:
    return {tool.contract.name: tool.contract.digest for tool in the_desk("http://127.0.0.1:9", **said).tools}


def changed(folder: Path, change: Any) -> Path:
    said = json.loads(document().read_text(encoding="utf-8"))
    change(said)
    file = folder / "changed.json"
    file.write_text(json.dumps(said), encoding="utf-8")
    return file


def test_contracts_say_where_they_come_from_and_what_the_manifest_says() -> None:
    made, found, shown = the_desk("http://127.0.0.1:9").tools
    assert (made.contract.name, made.contract.effect_class) == ("desk.create_ticket", EffectClass.IDEMPOTENT_WRITE)
    assert made.contract.origin is not None
    assert (made.contract.origin.server, made.contract.origin.tool) == ("desk", "create_ticket")
    assert made.contract.has_probe
    assert found.contract.effect_class is EffectClass.READ
    assert shown.contract.effect_class is EffectClass.SENSITIVE_READ
    assert made.contract.argument_names == ("title", "service", "severity", "body", "labels")


CHANGES: dict[str, Any] = {
    "description": lambda said: said["paths"]["/tickets"]["post"].update(description="Free."),
    "path": lambda said: said["paths"].update({"/other": said["paths"].pop("/tickets")}),
    "schema behind a reference": lambda said: said["components"]["schemas"]["Draft"]["properties"]["title"].update(
        maxLength=121
    ),
    "answer": lambda said: said["components"]["schemas"]["Made"]["properties"].update(more={"type": "string"}),
    "key header": lambda said: said["paths"]["/tickets"]["post"].update(parameters=[]),
}


@pytest.mark.case("L01")
@pytest.mark.parametrize("change", list(CHANGES))
def test_a_changed_operation_is_another_contract(tmp_path: Path, change: str) -> None:
    file = changed(tmp_path, CHANGES[change])
    manifest = MANIFEST.replace("refusals", 'key_header = "Idempotency-Key"\nrefusals')
    assert (
        digests(manifest=manifest)["desk.create_ticket"] != digests(file=file, manifest=manifest)["desk.create_ticket"]
    )


def test_what_changes_nothing_of_an_operation_leaves_its_contract(tmp_path: Path) -> None:
    def other(said: Any) -> None:
        said["info"]["version"] = "2"
        said["servers"] = [{"url": "https://elsewhere.example"}]
        said["paths"]["/new"] = {"get": {"operationId": "new", "responses": {"200": {"description": ""}}}}

    assert digests(file=changed(tmp_path, other))["desk.get_ticket"] == digests()["desk.get_ticket"]
    assert digests(file=changed(tmp_path, other))["desk.find_tickets"] == digests()["desk.find_tickets"]


@pytest.mark.case("L01")
async def test_a_changed_document_voids_what_was_approved(
    tmp_path: Path, running: DeskProcess, desk: DeskClient, ticket: dict[str, Any]
) -> None:
    async with open_gate(tmp_path, the_desk(running.url)) as gate:
        waiting = await proposed(gate, "create_ticket", ticket)
        await approve(gate, waiting.approval_id)
    file = changed(tmp_path, CHANGES["description"])
    async with open_gate(tmp_path, the_desk(running.url, file=file)) as gate:
        anew = await proposed(gate, "create_ticket", ticket)
        assert isinstance(anew, AwaitingApproval)
        assert anew.approval_id != waiting.approval_id
    assert await tickets(desk, ticket["title"]) == []


@pytest.mark.parametrize(
    ("was", "becomes", "code"),
    [
        ("[tools.get_ticket]", "[tools.absent]", "operation_missing"),
        ('effect = "idempotent_write"', 'effect = "read"', "terms_unfit"),
        ('tool = "find_tickets"', 'tool = "create_ticket"', "terms_unfit"),
        ('tool = "find_tickets"', 'tool = "absent"', "operation_missing"),
        ("arguments = { key =", "arguments = { other =", "terms_unfit"),
        ("refusals", 'key_header = "Host"\nrefusals', "terms_unfit"),
        ("refusals", 'bind = { other = "tenant" }\nrefusals', "terms_unfit"),
        ("refusals", 'open_members = [""]\nrefusals', "terms_unfit"),
    ],
)
def test_terms_that_the_operation_does_not_keep_are_refused_at_the_start(was: str, becomes: str, code: str) -> None:
    with pytest.raises(ContractError) as refused:
        the_desk("http://127.0.0.1:9", MANIFEST.replace(was, becomes, 1))
    assert refused.value.code == code
    assert refused.value.hint


def test_a_post_is_no_read_and_a_read_is_sent_no_key() -> None:
    as_read = MANIFEST.replace("idempotent_write", "read").replace("remote = {", "# remote = {")
    with pytest.raises(ContractError, match="which is a write"):
        the_desk("http://127.0.0.1:9", as_read)
    upstream = the_desk("http://127.0.0.1:9", MANIFEST + '\nkey_header = "X-Key"\n')
    operation = carried(parameters=[])
    terms = read_manifest("desk", '[tools.op]\neffect = "read"\nkey_header = "X-Key"\n').terms["op"]
    assert upstream.tools[2].contract.effect_class is EffectClass.SENSITIVE_READ
    assert key_header_of(operation, terms) is None
    assert key_header_of(operation, replace(terms, effect=EffectClass.WRITE)) == "X-Key"


def test_a_post_without_a_key_is_no_idempotent_write(tmp_path: Path) -> None:
    def keyless(said: Any) -> None:
        said["paths"]["/tickets"]["post"]["parameters"] = []

    file = changed(tmp_path, keyless)
    with pytest.raises(ContractError, match="idempotency key"):
        the_desk("http://127.0.0.1:9", file=file)
    with pytest.raises(ContractError, match="honour keys"):
        the_desk("http://127.0.0.1:9", MANIFEST.replace("idempotent_write", "write"), file=file)
    manifest = MANIFEST.replace("refusals", 'key_header = "X-Key"\nrefusals')
    assert the_desk("http://127.0.0.1:9", manifest, file=file).tools


def test_a_header_that_the_operation_declares_is_bound_and_not_named(tmp_path: Path) -> None:
    def other(said: Any) -> None:
        said["paths"]["/tickets"]["post"]["parameters"][0]["name"] = "X-Key"

    file = changed(tmp_path, other)
    with pytest.raises(ContractError, match="as an argument"):
        the_desk("http://127.0.0.1:9", MANIFEST.replace("refusals", 'key_header = "x-key"\nrefusals'), file=file)
    bound = MANIFEST.replace("refusals", 'bind = { "X-Key" = "operation_key" }\nrefusals')
    assert "X-Key" not in the_desk("http://127.0.0.1:9", bound, file=file).tools[0].contract.argument_names


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("http://service.example", {}),
        ("http://127.0.0.1/a?b=c", {}),
        ("http://127.0.0.1/a/../b", {}),
        ("http://127.0.0.1/%2e%2e", {}),
        ("http://u:p@127.0.0.1/", {}),
        ("http://127.0.0.1/", {"headers": {"X-A": "a\r\nX-B: b"}}),
        ("http://127.0.0.1/", {"headers": {"Host": "elsewhere"}}),
        ("http://127.0.0.1/", {"headers": {"Authorization": "Bearer x"}}),
    ],
)
def test_a_service_that_cannot_be_used_is_refused_at_the_start(url: str, said: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        the_desk(url, **said)


async def test_only_the_tenants_of_the_upstream_see_its_tools(running: DeskProcess, tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    upstream = the_desk(running.url)
    ours = replace(upstream._upstream, tenants=frozenset({"other"}))
    async with open_gate(tmp_path, openapi_upstream(ours, read_manifest("desk", MANIFEST))) as gate:
        assert (await proposed(gate, "find_tickets", {})).status in ("invalid", "refused")
    theirs = replace(upstream._upstream, tenants=frozenset({"shop"}))
    async with open_gate(tmp_path / "b", openapi_upstream(theirs, read_manifest("desk", MANIFEST))) as gate:
        assert isinstance(await proposed(gate, "find_tickets", {"key": "none"}), Succeeded)


def test_the_desk_shows_the_document_that_it_is_shipped_with(running: DeskProcess) -> None:
    with urllib.request.urlopen(f"{running.url}/openapi.json", timeout=30) as answer:
        assert json.load(answer) == json.loads(document().read_text(encoding="utf-8"))
    assert placet.__file__ is not None
    assert document().is_relative_to(Path(placet.__file__).parent)

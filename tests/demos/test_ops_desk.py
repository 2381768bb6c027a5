"""The ticket desk as a real process, and what its client says about each way to fail."""

import asyncio
import json
import re
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from placet.demos.ops.contracts import TicketDraft
from placet.demos.ops.desk import MAX_BODY_BYTES
from placet.demos.ops.desk_client import DeskClient, DeskProcess
from placet.errors import NotSent, RemoteStatus, ToolRejected

TICKET = TicketDraft(title="It is broken", service="edge", severity="sev2", body="Look.", labels=["incident"])
OTHER = TICKET.model_copy(update={"title": "Something else"})
POSTED = TICKET.model_dump(mode="json")


def post(desk: DeskProcess, **content: object) -> httpx.Response:
    return httpx.post(f"{desk.url}/tickets", trust_env=False, **content)


# One operation key, one ticket


@pytest.mark.req("C066", "H055")
async def test_the_same_key_makes_one_ticket(desk_client):
    first = await desk_client.create("key-1", TICKET)
    again = await desk_client.create("key-1", TICKET)

    assert (first.created, again.created) == (True, False)
    assert again == first.model_copy(update={"created": False})
    assert first.operation_key == "key-1"
    assert await desk_client.count() == 1


async def test_another_key_makes_another_ticket(desk_client):
    receipts = [await desk_client.create(key, TICKET) for key in ("key-1", "key-2")]
    assert len({receipt.ticket_id for receipt in receipts}) == 2


async def test_the_same_key_with_another_ticket_is_refused(desk_client):
    await desk_client.create("key-1", TICKET)
    with pytest.raises(ToolRejected) as refusal:
        await desk_client.create("key-1", OTHER)

    assert refusal.value.status == 409
    assert await desk_client.count() == 1


async def test_callers_at_once_make_one_ticket(desk_client):
    receipts = await asyncio.gather(*(desk_client.create("key-1", TICKET) for _ in range(16)))

    assert sum(receipt.created for receipt in receipts) == 1
    assert len({receipt.ticket_id for receipt in receipts}) == 1


@pytest.mark.parametrize("key", ["a b", "tenant=ü 100%", '["op",{"n":1}]', "x" * 200, "%FC", "ü", "\n"])
async def test_any_operation_key_is_carried_and_found(desk_client, key):
    receipt = await desk_client.create(key, TICKET)
    found = await desk_client.find(key)

    assert found == receipt.model_copy(update={"created": False})
    assert found.operation_key == key


async def test_keys_that_look_alike_on_the_wire_stay_apart(desk_client):
    first, second = await desk_client.create("ü", TICKET), await desk_client.create("%C3%BC", TICKET)
    assert first.ticket_id != second.ticket_id


async def test_a_key_nobody_used_finds_nothing(desk_client):
    assert await desk_client.find("key-1") is None


async def test_the_url_of_a_ticket_leads_to_it(desk_client):
    receipt = await desk_client.create("key-1", TICKET)
    assert httpx.get(receipt.url, trust_env=False).json()["ticket"] == POSTED


# What the desk refuses


def test_a_ticket_without_a_key_is_refused(desk):
    assert post(desk, json=POSTED).status_code == 400


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ("", 400),
        ("[]", 400),
        ("{", 400),
        ('{"title": NaN}', 400),
        ("[" * 20_000, 400),
        (json.dumps(POSTED)[:-1] + ', "title": "twice"}', 400),
        (json.dumps(POSTED | {"assignee": "ceo"}), 422),
        (json.dumps(POSTED | {"severity": "SEV1"}), 422),
        (json.dumps(POSTED | {"title": 7}), 422),
        (json.dumps(POSTED | {"body": "x" * MAX_BODY_BYTES}), 413),
    ],
)
def test_what_is_not_a_ticket_is_refused(desk, body, status):
    response = post(desk, content=body, headers={"Idempotency-Key": "key-1"})
    assert response.status_code == status
    assert httpx.get(f"{desk.url}/tickets", trust_env=False).json()["count"] == 0


def test_a_fault_that_makes_no_sense_is_refused(desk):
    for fault in ({"explode": 1}, {"drop_replies": -1}, {"drop_replies": True}, {"answer": {"status": 200}}):
        assert httpx.post(f"{desk.url}/faults", json=fault, trust_env=False).status_code == 422


# What the client says about failures


async def test_a_lost_reply_may_have_acted_and_the_desk_knows(desk_client):
    await desk_client.misbehave({"drop_replies": 1})
    with pytest.raises(ConnectionError, match=r"^The answer of the ticket desk was lost\.$") as lost:
        await desk_client.create("key-1", TICKET)

    assert lost.value.__cause__ is None
    found = await desk_client.find("key-1")
    again = await desk_client.create("key-1", TICKET)
    assert (again.ticket_id, again.created) == (found.ticket_id, False)


async def test_a_reply_too_late_may_have_acted(desk, desk_client):
    await desk_client.misbehave({"delay_seconds": 60})
    async with DeskClient(desk.url, timeout_seconds=3.0) as impatient:
        creating = asyncio.create_task(impatient.create("key-1", TICKET))
        await kept(desk_client, "key-1")
        with pytest.raises(ConnectionError):
            await creating


async def kept(desk_client: DeskClient, key: str) -> None:
    """The desk has a ticket under the key by now."""
    async with asyncio.timeout(60):
        while await desk_client.find(key) is None:
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("status", [429, 503])
async def test_a_busy_desk_does_not_act(desk_client, status):
    await desk_client.misbehave({"answer": {"status": status, "retry_after": "1", "times": 1}})
    with pytest.raises(RemoteStatus) as busy:
        await desk_client.create("key-1", TICKET)

    assert (busy.value.status, busy.value.retry_after) == (status, "1")
    assert await desk_client.find("key-1") is None
    assert (await desk_client.create("key-1", TICKET)).created


async def test_a_desk_that_is_not_there_was_sent_nothing(desk, desk_client):
    desk.kill()
    with pytest.raises(NotSent):
        await desk_client.create("key-1", TICKET)
    with pytest.raises(NotSent):
        await desk_client.find("key-1")


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (b"HTTP/1.1 201 Created\r\nContent-Length: 4\r\n\r\nnope", ConnectionError),
        (b"HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\n{}", ConnectionError),
        (b"HTTP/1.1 201 Created\r\nContent-Length: 90\r\n\r\n{", ConnectionError),
        (b"garbage\r\n\r\n", ConnectionError),
        (b"", ConnectionError),
        (b"HTTP/1.1 302 Found\r\nLocation: /\r\nContent-Length: 0\r\n\r\n", RemoteStatus),
        (b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n", RemoteStatus),
        (b"HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n", RemoteStatus),
        (b"HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n", ToolRejected),
    ],
)
async def test_each_reply_is_told_for_what_it_proves(reply, error):
    with replying(reply) as url:
        async with DeskClient(url) as client:
            with pytest.raises(error) as failure:
                await client.create("key-1", TICKET)
    assert "nope" not in str(failure.value)


async def test_no_proxy_of_the_environment_is_used(desk, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    async with DeskClient(desk.url) as client:
        assert await client.count() == 0


@contextmanager
def replying(reply: bytes) -> Iterator[str]:
    """A server for one request, which it reads whole, and answers with exactly these bytes."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(60)

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.settimeout(60)
                head = b""
                while b"\r\n\r\n" not in head:
                    head += connection.recv(65_536)
                headers, _, body = head.partition(b"\r\n\r\n")
                length = int(headers.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
                while len(body) < length:
                    body += connection.recv(65_536)
                connection.sendall(reply)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.getsockname()[1]}"
        finally:
            thread.join()


# The process


async def test_tickets_survive_a_killed_desk(desk, desk_client, tmp_path: Path):
    before = await desk_client.create("key-1", TICKET)
    desk.kill()
    url = desk.start(tmp_path / "desk")

    assert url == desk.url
    assert await desk_client.find("key-1") == before.model_copy(update={"created": False})
    assert (await desk_client.create("key-2", OTHER)).ticket_id != before.ticket_id


async def test_a_desk_killed_after_acting_has_the_ticket(desk, desk_client, tmp_path: Path):
    await desk_client.misbehave({"delay_seconds": 60})
    creating = asyncio.create_task(desk_client.create("key-1", TICKET))
    await kept(desk_client, "key-1")
    desk.kill()
    with pytest.raises(ConnectionError):
        await creating
    desk.start(tmp_path / "desk")

    assert await desk_client.find("key-1") is not None
    assert await desk_client.count() == 1


def test_a_desk_ends_cleanly_on_sigterm(desk):
    process = desk._process
    process.terminate()
    assert process.wait(60) == 0


def test_a_desk_ends_with_the_one_who_started_it(desk):
    process = desk._process
    process.stdin.close()
    assert process.wait(60) == 0


def test_a_desk_that_cannot_start_says_so_and_leaves_nothing(tmp_path: Path):
    (tmp_path / "service.db").mkdir()
    desk = DeskProcess()
    with pytest.raises(RuntimeError, match="ended before it listened"):
        desk.start(tmp_path)
    assert desk.pid is None


def test_a_running_desk_is_not_started_twice(desk, tmp_path: Path):
    with pytest.raises(RuntimeError, match="running already"):
        desk.start(tmp_path / "desk")


async def test_every_creation_that_arrives_is_remembered_whatever_becomes_of_it(desk, desk_client, tmp_path):
    await desk_client.misbehave({"answer": {"status": 503}})
    with pytest.raises(RemoteStatus):
        await desk_client.create("key 1", TICKET)
    await desk_client.create("key 1", TICKET)
    await desk_client.misbehave({"drop_replies": 1})
    with pytest.raises(ConnectionError):
        await desk_client.create('["business","ü"]', TICKET)
    desk.stop()
    desk.start(tmp_path / "desk")

    assert await desk_client.arrivals() == ["key 1", "key 1", '["business","ü"]']
    assert [(ticket["id"], ticket["key"]) for ticket in await desk_client.tickets()] == [
        ("OPS-1001", "key 1"),
        ("OPS-1002", '["business","ü"]'),
    ]


# Started by hand, as docs/openapi.md has it


@pytest.mark.parametrize(
    ("program", "said"),
    [
        (
            "placet.demos.ops.desk",
            "the ticket desk serves at {url}; its document is {url}/openapi.json; Ctrl-C ends it\n",
        ),
        ("placet.demos.support.drafts", "the drafts service serves at {url}; Ctrl-C ends it\n"),
    ],
)
def test_a_service_that_is_started_by_hand_says_where_it_serves(program, said, tmp_path):
    command = [sys.executable, "-m", program, "--store", str(tmp_path / "kept.db")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8") as service:
        try:
            assert select.select([service.stderr], [], [], 60)[0]
            line = service.stderr.readline()
            url = re.search(r"http://127\.0\.0\.1:\d+", line)
            assert line == said.format(url=url and url[0])
            assert httpx.get(f"{url[0]}/health", trust_env=False).json() == {"status": "ok"}
        finally:
            service.send_signal(signal.SIGINT)
            out, err = service.communicate(timeout=30)
    assert (service.returncode, out, err) == (0, "", "")


def test_a_service_that_cannot_begin_says_why_and_what_to_do(tmp_path):
    def ended(*arguments: str) -> tuple[int, str, str]:
        command = [sys.executable, "-m", "placet.demos.ops.desk", *arguments]
        found = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=60, check=False)
        return found.returncode, found.stdout, found.stderr

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert ended("--store", str(tmp_path / "kept.db"), "--port", port) == (
            2,
            "",
            f"the ticket desk cannot listen on port {port} (Address already in use): "
            "take another with --port, or 0 for one that is free\n",
        )
    (tmp_path / "text").write_text("no database, and longer than the head of one " * 9)
    for store in (tmp_path / "absent" / "kept.db", tmp_path / "text", tmp_path):
        assert ended("--store", str(store)) == (
            2,
            "",
            f"the ticket desk cannot keep tickets in {store}: --store is a file of its own in a folder that is there\n",
        )
    code, _, err = ended("--store", str(tmp_path / "kept.db"), "--port", "70000")
    assert (code, "--port: it is a number from 0 to 65535" in err) == (2, True)

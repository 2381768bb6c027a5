"""`placet mcp serve` as a client starts it: a process at the other end of two pipes, which may be killed in between."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters

from tests.cli.conftest import PATIENCE_SECONDS, PLACET, SLOW, Project

ENVELOPE: dict[str, Any] = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"url": {}}},
}
INITIALIZE = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}


@dataclass
class Piped:
    """A server behind two pipes."""

    process: subprocess.Popen[bytes]
    sent: int = 0
    come: bytes = b""
    noise: list[dict[str, Any]] = field(default_factory=list)

    def send(self, method: str, params: dict[str, Any] | None = None, *, notice: bool = False, **more: Any) -> int:
        self.sent += 1
        message = {"jsonrpc": "2.0", "method": method, "params": params or {}} | more
        self.write(json.dumps(message if notice else message | {"id": self.sent}).encode())
        return self.sent

    def write(self, line: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()

    def heard(self) -> dict[str, Any]:
        """The next message; what is not there in time never comes."""
        assert self.process.stdout is not None
        while b"\n" not in self.come:
            ready, _, _ = select.select([self.process.stdout], [], [], PATIENCE_SECONDS)
            assert ready, "nothing came"
            piece = os.read(self.process.stdout.fileno(), 65_536)
            assert piece, "the server has ended"
            self.come += piece
        line, _, self.come = self.come.partition(b"\n")
        return dict(json.loads(line))

    def answer(self, request: int | None) -> dict[str, Any]:
        while (message := self.heard()).get("id") != request or "method" in message:
            self.noise.append(message)
        return message

    def ask(self, method: str, params: dict[str, Any] | None = None, *, meta: dict[str, Any] | None = None) -> Any:
        said = {"_meta": ENVELOPE | (meta or {}), **(params or {})}
        return self.answer(self.send(method, said))

    def end_input(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()

    def rest(self) -> tuple[bytes, str]:
        assert self.process.stdout is not None and self.process.stderr is not None
        return self.come + self.process.stdout.read(), self.process.stderr.read().decode()


@contextmanager
def piped(project: Project, *words: str) -> Iterator[Piped]:
    process = subprocess.Popen(
        [*PLACET, "mcp", "serve", *words],
        cwd=project.folder,
        env=project._environment({}),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
    )
    try:
        yield Piped(process)
    finally:
        process.kill()
        process.wait(PATIENCE_SECONDS)
        for stream in (process.stdin, process.stdout, process.stderr):
            assert stream is not None
            with suppress(OSError):
                stream.close()


ASK: dict[str, Any] = {"name": "ask", "arguments": {"text": "hello"}}


def test_an_approval_and_a_killed_server_in_between(project: Project) -> None:
    project.rewrite('store = "placet.db"', 'store = "placet.db"\nconsole_url = "https://placet.test/console"')
    with piped(project) as server:
        asked = server.ask("tools/call", ASK)["result"]
    approval = asked["_meta"]["io.placet/outcome"]["approval_id"]
    question = asked["inputRequests"]["approval"]["params"]
    assert question["url"] == f"https://placet.test/console/approvals/{approval}"
    assert project.approved(approval).code == 0
    with piped(project) as server:
        done = server.ask("tools/call", ASK | {"requestState": asked["requestState"]})["result"]
        again = server.ask("tools/call", ASK)["result"]
    assert done["structuredContent"]["result"] == "done"
    assert again["structuredContent"]["status"] == "replayed"
    assert (project.folder / "asked.txt").read_text() == "ran\n"


async def test_the_sdks_own_client_starts_it(project: Project) -> None:
    server = StdioServerParameters(
        command=PLACET[0], args=[*PLACET[1:], "mcp", "serve"], cwd=project.folder, env=project._environment({})
    )
    async with Client(server) as client:
        assert "look" in [tool.name for tool in (await client.list_tools()).tools]
        result = await client.call_tool("look", {"word": "w"})
    assert result.structured_content["result"] == {"word": "w"}


LOUD = '''

@placet.tool(effect="read")
async def loud() -> str:
    """Print in every way there is."""
    import os, subprocess, sys

    print("a handler that prints")
    os.write(1, b"written past Python\\n")
    subprocess.run([sys.executable, "-c", "print('printed by a child')"], check=True)
    return sys.stdin.read()
'''
WITHOUT_ONE_MEANING = {
    "a member that is there twice": b'{"jsonrpc":"2.0","id":1,"id":2,"method":"tools/list"}',
    "no message": b"no message",
    "too long": b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":"' + b"x" * 1_100_000 + b'"}}',
    "an id that is none": b'{"jsonrpc":"2.0","id":[1],"method":"tools/list"}',
}


def test_output_carries_the_protocol_alone_and_input_is_heard_strictly(project: Project) -> None:
    """One process for what one process shows: starting it is what costs."""
    project.rewrite("TOOLS = [look,", f"{LOUD}\n\nTOOLS = [loud, look,", file="tools.py")
    with piped(project) as server:
        result = server.ask("tools/call", {"name": "loud", "arguments": {}})["result"]
        assert result["structuredContent"]["result"] == ""

        for line in WITHOUT_ONE_MEANING.values():
            server.write(line)
            refused = server.heard()
            assert refused["id"] is None
            assert refused["error"]["data"] == {"code": "message_malformed"}

        meta = {"io.placet/run": "r1", "io.placet/call-id": "c1"}
        request = server.send("tools/call", {"_meta": ENVELOPE | meta, "name": "hang", "arguments": {}})
        project.wait_for("hanging")
        server.send("notifications/cancelled", {"requestId": request}, notice=True)
        status = "in_progress"
        while status == "in_progress":  # until the attempt is closed
            again = server.ask("tools/call", {"name": "hang", "arguments": {}}, meta=meta)["result"]
            status = again["structuredContent"]["status"]
        assert status == "unknown"
        assert request not in [message.get("id") for message in server.noise]

        server.end_input()
        assert server.process.wait(PATIENCE_SECONDS) == 0
        out, err = server.rest()
    assert out == b""
    for words in ("a handler that prints", "written past Python", "printed by a child"):
        assert words in err


def test_an_older_client_is_answered_what_runs_when_the_process_is_told_to_end(project: Project) -> None:
    project.rewrite("TOOLS = [look,", f"{SLOW}\n\nTOOLS = [slow, look,", file="tools.py")
    with piped(project) as server:
        hello = server.answer(server.send("initialize", INITIALIZE))["result"]
        assert hello["protocolVersion"] == "2025-11-25"
        server.send("notifications/initialized", notice=True)
        request = server.send("tools/call", {"name": "slow", "arguments": {"text": "t"}})
        project.wait_for("begun")
        server.process.send_signal(signal.SIGTERM)
        (project.folder / "go").touch()
        assert server.answer(request)["result"]["structuredContent"]["result"] == "t"
        assert server.process.wait(PATIENCE_SECONDS) == 0


def test_an_agent_has_to_be_named(project: Project) -> None:
    project.rewrite('[agent]\nsubject = "agent"\ntenant = "acme"\nroles = ["admin"]\nscopes = ["things.write"]\n', "")
    ran = project.run("mcp", "serve")
    assert ran.code == 2
    assert "[agent]" in ran.err
    assert ran.out == ""


def test_it_is_served_over_http_alone(project: Project) -> None:
    made = project.run("api-keys", "create", "bot", "--role", "operator", "--scope", "things.write")
    assert made.code == 4  # whoever makes keys needs a scope for it
    project.rewrite('scopes = ["approvals.decide"', 'scopes = ["api_keys.manage", "approvals.decide"')
    key = project.run("api-keys", "create", "bot", "--role", "operator", "--scope", "things.write").out.strip()
    server = project.start("mcp", "serve", "--http", "127.0.0.1:0")
    try:
        assert server.stdout is not None
        url = server.stdout.readline().decode().strip()
        assert url.endswith("/mcp")
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"_meta": ENVELOPE} | ASK}
        headers = {
            "authorization": f"Bearer {key}",
            "accept": "application/json, text/event-stream",
            "mcp-protocol-version": "2026-07-28",
            "mcp-method": "tools/call",
            "mcp-name": "ask",
        }
        answer = httpx.post(url, json=message, headers=headers, timeout=PATIENCE_SECONDS)
        assert answer.json()["result"]["structuredContent"]["status"] == "awaiting_approval"
        site = url.removesuffix("/mcp")
        assert httpx.get(f"{site}/v1/tools", timeout=PATIENCE_SECONDS).status_code == 404
        assert httpx.get(f"{site}/healthz", timeout=PATIENCE_SECONDS).status_code == 200
        os.kill(server.pid, signal.SIGTERM)
        assert server.wait(PATIENCE_SECONDS) == 0
    finally:
        server.kill()
        server.communicate()


def test_it_is_served_beside_api_and_console_where_the_file_says_so(project: Project) -> None:
    project.rewrite("[agent]", "[serve]\nport = 0\nmcp = true\n\n[agent]")
    server = project.start("serve")
    try:
        assert server.stdout is not None
        site = server.stdout.readline().decode().strip()
        refused = httpx.post(f"{site}/mcp", json={}, timeout=PATIENCE_SECONDS)
        assert refused.status_code == 401
        metadata = f"{site}/.well-known/oauth-protected-resource/mcp"
        assert refused.headers["www-authenticate"] == f'Bearer resource_metadata="{metadata}"'
        assert httpx.get(metadata, timeout=PATIENCE_SECONDS).json()["resource"] == f"{site}/mcp"
        assert httpx.get(f"{site}/v1/tools", timeout=PATIENCE_SECONDS).status_code == 401
    finally:
        server.kill()
        server.communicate()


@pytest.mark.parametrize("said", ["nowhere", "127.0.0.1:70000", ":8000", "127.0.0.1:x"])
def test_a_place_that_is_none_is_refused(project: Project, said: str) -> None:
    ran = project.run("mcp", "serve", "--http", said)
    assert ran.code == 2
    assert "--http" in ran.err


def test_a_misspelt_member_is_refused_with_the_one_that_was_meant(project: Project) -> None:
    project.rewrite("[agent]", "[serve]\nmpc = true\n\n[agent]")
    ran = project.run("mcp", "serve")
    assert ran.code == 2
    assert "'mcp'" in ran.err


def test_whoever_starts_it_at_a_terminal_is_told_who_should(project: Project) -> None:
    ran = project.at_terminal("mcp", "serve", answers=[("Ctrl-D ends it", b"\x04")])

    assert ran.code == 0
    assert "MCP goes over standard input and output here: an MCP client starts this command." in ran.out
    assert "placet mcp serve --http 127.0.0.1:8421" in ran.out

"""An MCP server of our own that does what a test says, over whatever front is put before it.

It is told what to do over a control socket, one JSON line each: which tools it has, which way it misbehaves, when it
answers what it holds back. All that it receives, and every act, is a line of its journal, which outlives it.

    python -m tests.upstreams.servers.stdio_server JOURNAL CONTROL [ERA]
    python -m tests.upstreams.servers.http_server JOURNAL CONTROL [ERA]
"""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

Send = Callable[[dict[str, Any]], None]

STATELESS = "2026-07-28"


def tool(
    name: str, *, text: str, schema: dict[str, Any], gives: dict[str, Any] | None = None, **hints: Any
) -> dict[str, Any]:
    made: dict[str, Any] = {"name": name, "description": text, "inputSchema": schema}
    if gives is not None:
        made["outputSchema"] = gives
    if hints:
        made["annotations"] = hints
    return made


TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
SAID = {"type": "object", "properties": {"said": {"type": "string"}}, "required": ["said"]}
FOUND = {
    "type": "object",
    "properties": {"notes": {"type": "array", "items": {"type": "object", "properties": {
        "key": {"type": "string"}, "text": {"type": "string"}}}}},
    "required": ["notes"],
}  # fmt: skip
TOOLS = (
    tool("echo", text="Says it again.", schema=TEXT, gives=SAID, readOnlyHint=True),
    tool("note", text="Writes a note down.", schema=TEXT),
    tool("hold", text="Writes a note down, and waits before it says so.", schema=TEXT),
    tool("ponder", text="Reads, and waits before it says what.", schema=TEXT, readOnlyHint=True),
    tool("notes", text="All notes.", schema={"type": "object", "properties": {}}, gives=FOUND, readOnlyHint=True),
    tool("say", text="Answers as it is told to.", schema=TEXT),
    tool("read", text="Answers as it is told to.", schema=TEXT, gives=SAID, readOnlyHint=True),
)


class Brain:
    """One server's mind; its fronts call it from threads."""

    def __init__(self, journal: Path, control: Path, era: str) -> None:
        self.era = era
        self.lock = threading.RLock()
        self.tools = {each["name"]: json.loads(json.dumps(each)) for each in TOOLS}
        self.notes: list[dict[str, str]] = []
        self.held: list[tuple[dict[str, Any], Send]] = []
        self.listeners: list[tuple[Any, Send]] = []
        self.to_all: Send | None = None
        self.manner = ""
        self.answers: dict[str, Any] = {}
        self.session = 1
        self._journal = journal.open("a", buffering=1)
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(control))
        listener.listen()
        threading.Thread(target=self._obey, args=(listener,), daemon=True).start()

    def wrote(self, what: str, **facts: Any) -> None:
        with self.lock:
            self._journal.write(json.dumps({"what": what, "pid": os.getpid(), **facts}) + "\n")

    # ------------------------------------------------------------ the protocol

    def hear(self, message: dict[str, Any], send: Send) -> None:
        self.wrote("heard", message=message)
        if "method" not in message:
            return
        method, params = message["method"], message.get("params", {})
        if "id" not in message:
            return
        with self.lock:
            answer = self._answer(message, method, params, send)
        if answer is not None and self.era != "mute":
            send({"jsonrpc": "2.0", "id": message["id"], **answer})

    def _answer(
        self, message: dict[str, Any], method: str, params: dict[str, Any], send: Send
    ) -> dict[str, Any] | None:
        match method:
            case "server/discover" if self.era == "stateless":
                return _result(supportedVersions=[STATELESS], capabilities={"tools": {"listChanged": True}}, ttlMs=0,
                               cacheScope="private")  # fmt: skip
            case "initialize" if self.era == "handshake":
                return {
                    "result": {
                        "protocolVersion": params["protocolVersion"],
                        "serverInfo": {"name": "brain", "version": "1"},
                        "capabilities": {"tools": {"listChanged": True}},
                    }
                }
            case "tools/list":
                return self._list(params)
            case "tools/call":
                return self._call(message, params, send)
            case "subscriptions/listen" if self.era == "stateless":
                self.listeners.append((message["id"], send))
                send({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": {
                    "notifications": params["notifications"],
                    "_meta": {"io.modelcontextprotocol/subscriptionId": message["id"]}}})  # fmt: skip
                return None
            case "ping":
                return {"result": {}}
        if method in self.answers:
            return self.answers[method]
        return {"error": {"code": -32601, "message": "canary-upstream-words"}}

    def _list(self, params: dict[str, Any]) -> dict[str, Any] | None:
        tools = list(self.tools.values())
        match self.manner:
            case "cursor_repeats":
                return _result(tools=tools, nextCursor="again", ttlMs=0, cacheScope="private")
            case "half_cursor":
                return _result(tools=tools, nextCursor="\ud800canary-upstream-words", ttlMs=0, cacheScope="private")
            case "endless_pages":
                return _result(
                    tools=tools[:1], nextCursor=params.get("cursor", "") + "x", ttlMs=0, cacheScope="private"
                )
            case "huge_list":
                return _result(tools=[{**tools[0], "description": "d" * 5_000_000}], ttlMs=0, cacheScope="private")
            case "large_pages":
                page = {**tools[0], "description": "d" * 1_500_000}
                return _result(tools=[page], nextCursor=params.get("cursor", "") + "x", ttlMs=0, cacheScope="private")
            case "no_list":
                return _result(ttlMs=0, cacheScope="private")
            case "listed_twice":
                return _result(tools=[*tools, self.tools["echo"]], ttlMs=0, cacheScope="private")
            case "silent":
                return None
            case "pages":
                first = int(params.get("cursor", "0"))
                more = {"nextCursor": str(first + 3)} if first + 3 < len(tools) else {}
                return _result(tools=tools[first : first + 3], ttlMs=0, cacheScope="private", **more)
        return _result(tools=tools, ttlMs=0, cacheScope="private")

    def _call(self, message: dict[str, Any], params: dict[str, Any], send: Send) -> dict[str, Any] | None:
        name, arguments = params["name"], params.get("arguments", {})
        text = arguments.get("text", "")
        self.wrote("called", tool=name, text=text, meta=params.get("_meta", {}))
        match name:
            case "echo":
                return _result(content=[{"type": "text", "text": text}], structuredContent={"said": text})
            case "note":
                self._act(params)
                return _result(content=[{"type": "text", "text": f"noted {text}"}])
            case "hold" | "ponder":
                if name == "hold":
                    self._act(params)
                self.held.append((message, send))
                return None
            case "notes":
                return _result(content=[], structuredContent={"notes": self.notes})
            case "say" | "read":
                answer = self.answers.get(text, {"error": {"code": -32602, "message": "nothing prepared"}})
                if answer == "die":
                    self._act(params)
                    os._exit(3)
                if "lines" in answer:
                    for line in answer["lines"]:
                        send({"raw": line.replace("$ID", json.dumps(message["id"]))})
                    return None
                return answer
        return {"error": {"code": -32602, "message": "canary-upstream-words"}}

    def _act(self, params: dict[str, Any]) -> None:
        key = params.get("_meta", {}).get("io.placet/idempotency-key", "")
        self.notes.append({"key": key, "text": params["arguments"]["text"]})
        self.wrote("acted", key=key, text=params["arguments"]["text"])

    # ------------------------------------------------------------ the control socket

    def _obey(self, listener: socket.socket) -> None:
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=self._obey_one, args=(connection,), daemon=True).start()

    def _obey_one(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rwb") as file:
            for line in file:
                order = json.loads(line)
                self._do(order)
                file.write(b"done\n")
                file.flush()

    def _do(self, order: dict[str, Any]) -> None:
        with self.lock:
            match order["do"]:
                case "describe":
                    self.tools[order["tool"]][order["member"]] = order["value"]
                case "add":
                    self.tools[order["tool"]["name"]] = order["tool"]
                case "drop":
                    self.tools.pop(order["tool"])
                case "order":
                    self.tools = {name: dict(reversed(each.items())) for name, each in reversed(self.tools.items())}
                case "manner":
                    self.manner = order["manner"]
                case "answer":
                    self.answers[order["text"]] = order["with"]
                case "changed":
                    self._tell({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
                case "release":
                    held, self.held = self.held, []
                    for message, send in held:
                        send({"jsonrpc": "2.0", "id": message["id"], **order.get("with", _result(
                            content=[{"type": "text", "text": "held"}]))})  # fmt: skip
                case "send":
                    for message in order["messages"] * order.get("times", 1):
                        self._tell(message)
                case "forget":
                    self.session += 1
                case "die":
                    os._exit(3)

    def _tell(self, message: dict[str, Any]) -> None:
        if self.to_all is not None:
            self.to_all(message)
        for listened, send in self.listeners:
            params = {**message.get("params", {}), "_meta": {"io.modelcontextprotocol/subscriptionId": listened}}
            send({**message, "params": params} if "method" in message and "id" not in message else message)


def _result(**members: Any) -> dict[str, Any]:
    return {"result": {"resultType": "complete", **members}}

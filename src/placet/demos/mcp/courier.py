"""The supplier's server: MCP over standard input and output, in plain Python, with nothing of placet's in it.

    python courier.py FOLDER

tools.json   what it says of its tools. Read when the process starts, and again on SIGHUP, which it tells its client.
book.jsonl   a line for each call that reached it, and for each list of tools that was asked for.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

_REVISION = "2025-11-25"
_LONGEST_LINE = 1_000_000


class Courier:
    """One process of it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._tools: list[dict[str, Any]] = []
        self._read()

    def changed(self) -> None:
        """The supplier has deployed another release, and its client is told."""
        self._read()
        _put({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})

    def hear(self, line: bytes) -> None:
        """Take a message, and answer it if it is a request."""
        message = json.loads(line)
        if "id" not in message or "method" not in message:
            return
        answer = self._answer(message["method"], message.get("params", {}))
        _put({"jsonrpc": "2.0", "id": message["id"], **answer})

    def _answer(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        match method:
            case "initialize":
                about = {"name": "courier", "version": "1"}
                abilities = {"tools": {"listChanged": True}}
                return {"result": {"protocolVersion": _REVISION, "capabilities": abilities, "serverInfo": about}}
            case "ping":
                return {"result": {}}
            case "tools/list":
                self._note({"listed": [tool["description"] for tool in self._tools]})
                return {"result": {"tools": self._tools}}
            case "tools/call":
                return self._called(params["name"], params.get("arguments", {}), params.get("_meta", {}))
            case _:
                return {"error": {"code": -32601, "message": "no such method"}}

    def _called(self, tool: str, arguments: dict[str, Any], meta: dict[str, Any]) -> dict[str, Any]:
        self._note({"called": tool, "arguments": arguments, "key": meta.get("io.placet/idempotency-key", "")})
        match tool:
            case "ship":
                text = f"parcel for {arguments['order']} is on its way"
            case "track":
                text = f"{arguments['order']}: {'on its way' if self._has_shipped(arguments['order']) else 'unknown'}"
            case _:
                return {"error": {"code": -32602, "message": "no such tool"}}
        return {"result": {"content": [{"type": "text", "text": text}]}}

    def _has_shipped(self, order: str) -> bool:
        lines = map(json.loads, (self._folder / "book.jsonl").read_text(encoding="utf-8").splitlines())
        return any(line.get("called") == "ship" and line["arguments"]["order"] == order for line in lines)

    def _note(self, what: dict[str, Any]) -> None:
        line = json.dumps({"process": os.getpid(), **what}) + "\n"
        with (self._folder / "book.jsonl").open("a", encoding="utf-8") as book:
            book.write(line)

    def _read(self) -> None:
        self._tools = json.loads((self._folder / "tools.json").read_text(encoding="utf-8"))


def _put(message: dict[str, Any]) -> None:
    sys.stdout.write(f"{json.dumps(message)}\n")
    sys.stdout.flush()


async def _served(folder: Path) -> None:
    courier = Courier(folder)
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGHUP, courier.changed)
    reader = asyncio.StreamReader(limit=_LONGEST_LINE)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        courier.hear(line)


if __name__ == "__main__":
    asyncio.run(_served(Path(sys.argv[1])))

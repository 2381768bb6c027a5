"""An MCP server over standard input and output whose tools stand in a file that a test may change at any time.

python desk_server.py FOLDER        tools.json: what it says of its tools; acted.txt: a line for each call
"""

import json
import sys
from pathlib import Path

FOLDER = Path(sys.argv[1])


def answer(method: str, params: dict) -> dict | None:
    match method:
        case "initialize":
            info = {"name": "desk", "version": "1"}
            return {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info}
        case "ping":
            return {}
        case "tools/list":
            return {"tools": json.loads((FOLDER / "tools.json").read_text())}
        case "tools/call":
            with (FOLDER / "acted.txt").open("a") as acted:
                acted.write(json.dumps([params["name"], params.get("arguments", {})]) + "\n")
            return {"content": [{"type": "text", "text": "done"}], "structuredContent": {"id": "t-1"}}
    return None


for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    result = answer(message["method"], message.get("params", {}))
    told = {"error": {"code": -32601, "message": "no such method"}} if result is None else {"result": result}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **told}), flush=True)

"""A project whose server is declared, has terms, and was accepted."""

import asyncio
import json
import sys
from datetime import UTC, datetime
from pathlib import Path

import placet
from placet.adapters.keys import load_key_file
from placet.adapters.pins import PinFile
from placet.bootstrap.upstreams import live_definitions
from placet.cli.settings import read_settings

_FINDS = {
    "name": "find",
    "description": "Finds tickets.",
    "inputSchema": {"type": "object", "properties": {"words": {"type": "string"}}, "required": ["words"]},
    "outputSchema": {"type": "object", "properties": {"tickets": {"type": "array"}}, "required": ["tickets"]},
}
Path("server.py").write_text(f"""
import json, sys
ANSWERS = {{
    "initialize": {{"protocolVersion": "2025-11-25", "serverInfo": {{"name": "desk", "version": "1"}},
                   "capabilities": {{"tools": {{}}}}}},
    "tools/list": {{"tools": [{_FINDS!r}]}},
    "tools/call": {{"content": [], "structuredContent": {{"tickets": ["T-1"]}}}},
}}
for line in sys.stdin:
    asked = json.loads(line)
    if "id" in asked:
        known = ANSWERS.get(asked["method"])
        told = {{"result": known}} if known else {{"error": {{"code": -32601, "message": "unknown"}}}}
        print(json.dumps({{"jsonrpc": "2.0", "id": asked["id"], **told}}), flush=True)
""")
Path("placet.toml").write_text(f"[upstreams.desk]\ncommand = {json.dumps(sys.executable)}\nargs = ['server.py']\n")
Path("upstreams").mkdir()
Path("upstreams/desk.toml").write_text('[tools.find]\neffect = "read"\nrisk = "low"\n')
with placet.open(tools=[], store="placet.db"):
    pass
_declared = read_settings(config="placet.toml", store=None, key=None)
PinFile(_declared.pins_file, keys=load_key_file(_declared.key_file)).accept(
    asyncio.run(live_definitions(_declared.upstreams[0])), by="mara", at=datetime.now(UTC)
)

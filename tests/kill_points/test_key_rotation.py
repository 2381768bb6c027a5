"""Four processes write while a fifth rotates: nothing refused, nothing lost, everything verifies."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import placet
from placet.bootstrap.records import open_custody

PATIENCE_SECONDS = 110
PROCESSES, ROTATIONS = 4, 20

COMMON = """
import asyncio, sys
from pathlib import Path
import placet
from placet.bootstrap.records import open_custody

FOLDER, NAME = Path(sys.argv[1]), sys.argv[2]
STORE = FOLDER / "placet.db"

@placet.tool(effect="write", risk="medium", permission="pay", operation_key="pay:{order}")
async def pay(order: str) -> str:
    with (FOLDER / "acted.txt").open("a") as file:
        file.write(order + "\\n")
    return f"paid {order}"
"""

WRITER = (
    COMMON
    + """
AGENT = placet.Principal.agent("agent", tenant="acme", roles=("operator",), scopes=("pay",))

async def main():
    outcomes = []
    async with placet.open(tools=[pay], store=STORE) as gate:
        (FOLDER / f"ready-{NAME}").touch()
        number = 0
        while not (FOLDER / "done").exists() or number < 20:
            call = {"call_id": f"c{number}", "tool": "pay", "arguments": {"order": f"{NAME}-{number}"}}
            own = await gate.submit(call, principal=AGENT, run=f"run-{NAME}-{number}")
            # Somebody else's, sealed under whichever key that one held: done once, whoever comes second.
            call = {"call_id": f"s{number}", "tool": "pay", "arguments": {"order": f"shared-{number}"}}
            shared = await gate.submit(call, principal=AGENT, run=f"shared-{number}")
            outcomes += [own.code, shared.code if shared.result == f"paid shared-{number}" else f"{shared.code}?"]
            number += 1
    print(number, *sorted(set(outcomes)))

asyncio.run(main())
"""
)

ROTATOR = (
    COMMON
    + f"""
async def main():
    for _ in range({ROTATIONS}):
        custody, store = open_custody(STORE)
        await custody.rotate(by="mara")
        await store.close()

asyncio.run(main())
(FOLDER / "done").touch()
"""
)


def start(script: str, folder: Path, name: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", script, str(folder), name]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.slow
@pytest.mark.case("E16")
@pytest.mark.req("B137")
async def test_writers_do_not_notice_that_keys_rotate(tmp_path: Path) -> None:
    async with placet.open(tools=[], store=tmp_path / "placet.db"):
        pass
    running = [start(WRITER, tmp_path, f"w{number}") for number in range(PROCESSES)]
    running.append(start(ROTATOR, tmp_path, "rotator"))
    try:
        told = [process.communicate(timeout=PATIENCE_SECONDS) for process in running]
    finally:
        for process in running:
            process.kill()
            process.wait()

    assert [process.returncode for process in running] == [0] * (PROCESSES + 1), told
    counts = []
    for out, err in told[:PROCESSES]:
        number, *codes = out.split()
        counts.append(int(number))
        assert set(codes) <= {"succeeded", "replayed"}, (out, err)
    assert told[PROCESSES][1] == ""
    acted = Counter((tmp_path / "acted.txt").read_text().split())
    assert set(acted.values()) == {1}
    assert len(acted) == sum(counts) + max(counts)

    custody, store = open_custody(tmp_path / "placet.db")
    try:
        records = await custody.listed()
        kinds = Counter([json.loads(event.body)["kind"] async for event in store.chained()])
    finally:
        await store.close()
    assert {record.fact.state.value for record in records} == {"old", "current"}, "no row names a key that is not there"
    assert len(records) == ROTATIONS + 1
    assert sum(record.use.results for record in records) == len(acted)
    assert kinds["key_rotated"] == ROTATIONS
    assert kinds["started"] == kinds["completed"]
    async with placet.open(tools=[], store=tmp_path / "placet.db") as gate:
        report = await gate.verify_audit()
    assert (report.holds, report.unpaired) == (True, 0)

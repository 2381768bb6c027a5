"""A quarantine is looked at before a person is asked, also while it is still being written."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from placet.model.audit import EventKind
from placet.model.contract import ApprovalMode
from placet.model.outcome import Refused
from tests.engine.test_pinning import Remote, drift_of, events, gate_of, submit


@pytest.fixture
def remote() -> Remote:
    return Remote()


@pytest.mark.case("L01")
async def test_nobody_is_asked_about_a_tool_that_is_quarantined(tmp_path: Path, remote: Remote) -> None:
    async with gate_of(tmp_path, remote.tool(approval=ApprovalMode.ALWAYS)) as gate:
        await gate.pins._quarantine.drifted(drift_of())

        outcome = await submit(gate)
        asked = await events(gate, EventKind.APPROVAL_ASKED)

    assert type(outcome) is Refused and outcome.code == "quarantined"
    assert asked == [] and remote.acts == []


async def test_nobody_is_asked_while_a_quarantine_is_still_being_written(tmp_path: Path, remote: Remote) -> None:
    tool = remote.tool(approval=ApprovalMode.ALWAYS)
    async with gate_of(tmp_path, tool) as gate:
        quarantine = gate.pins._quarantine
        assert await quarantine.refusal(tool.contract) is None
        writing = asyncio.create_task(quarantine.drifted(drift_of()))
        await asyncio.sleep(0)

        meanwhile = await quarantine.refusal(tool.contract)
        is_durable = writing.done()
        await writing
        afterwards = await quarantine.refusal(tool.contract)

    assert meanwhile is not None and meanwhile == afterwards and not is_durable

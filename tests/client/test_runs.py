"""Runs through the client of a real server, with and without an event loop."""

from __future__ import annotations

import pytest

from placet.errors import DecisionRefused, NotFound
from placet.model.run import LeftOpen, RunStatus
from tests.client.conftest import Served
from tests.http_api.conftest import AGENT
from tests.http_api.test_runs import STRANGE, begun


async def test_runs_are_listed_and_shown_under_any_name(served: Served) -> None:
    view = await begun(served.api)
    agent, plain = served.as_("t-agent"), served.as_("t-plain")
    for name in STRANGE:
        served.api.clock.advance(1)
        await served.api.propose("look", {"word": "a"}, run=name)

    assert [run.run_id for run in await agent.runs()] == [*reversed(STRANGE), "r1"]
    assert [run.run_id for run in await agent.runs(left=LeftOpen.UNKNOWN)] == ["r1"]
    assert [run.run_id for run in await plain.runs(left=LeftOpen.WAITING)] == ["r1"]
    assert await plain.own_runs() == ()
    assert len(await plain.runs(limit=3)) == 3
    for name in STRANGE:
        assert (await agent.run(name)).run_id == name
    run = await agent.run("r1", calls=2)
    assert run == await served.api.gate.runs.show("r1", by=AGENT, limit=2)
    assert (run.waiting, run.has_more_calls) == ((view["approval_id"],), True)
    assert (await plain.run("r1")).calls is None
    for name in ("r2", "r9", "\ud800", "?"):
        with pytest.raises(NotFound):
            await agent.run(name)
    with pytest.raises(DecisionRefused):
        await plain.runs(left=LeftOpen.UNKNOWN)


async def test_a_run_is_paused_resumed_and_cancelled_under_any_name(served: Served) -> None:
    for name in STRANGE:
        await served.api.propose("look", {"word": "a"}, run=name)
    mara = served.as_("t-mara")

    for name in STRANGE:
        assert (await mara.pause_run(name, reason="ü")).status is RunStatus.PAUSED
        assert (await mara.run(name)).reason == "ü"
        assert (await mara.resume_run(name)).status is RunStatus.OPEN
        assert (await mara.cancel_run(name)).is_news
        assert not (await mara.cancel_run(name)).is_news
    with pytest.raises(NotFound):
        await mara.cancel_run("r9")
    with pytest.raises(DecisionRefused):
        await served.as_("t-agent").pause_run(STRANGE[0])

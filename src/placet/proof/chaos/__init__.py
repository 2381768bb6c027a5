"""`placet chaos`: workers die at every durable step and at random under load; then it is counted what really happened.

plan        what a run shall do; zygote, worker: the processes that die
supervisor  keeps workers alive, kills and suspends them; slots: what it knows of them
reckoning   settles what is open, and holds ledger, audit and remote together
report      the table
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from placet.bootstrap.addresses import MEMORY
from placet.bootstrap.opening import Recovery, open_gate
from placet.errors import ConfigurationError
from placet.model.effect import EffectState
from placet.proof.chaos.plan import ChaosPlan, Sabotage, Steps, Timing
from placet.proof.chaos.reckoning import Reckoning, Row, settle_and_reckon
from placet.proof.chaos.report import ChaosReport
from placet.proof.chaos.supervisor import Supervisor
from placet.proof.chaos.tools import services, tools
from placet.testing.sentinel import Sentinel

__all__ = ["ChaosPlan", "ChaosReport", "Reckoning", "Row", "Sabotage", "Steps", "Timing", "run_chaos"]


async def run_chaos(plan: ChaosPlan) -> ChaosReport:
    """Do it all on the plan's store, which keeps what was done in it.

    Raises:
        ConfigurationError: the store holds effects already, or forgets everything; nothing was done.
        StoreError, KeyMaterialError: it cannot be opened; nothing was done.
        ChaosFailed, SentinelFailed: the run went wrong.
    """
    await _require_scratch(plan)
    with tempfile.TemporaryDirectory(prefix="placet-chaos-") as place:
        folder = Path(place)
        with Sentinel(folder, services(plan.bounds, plan.sabotage, seed=plan.seed)) as sentinel:
            load = await Supervisor(plan, port=sentinel.port, folder=folder).run()
            reckoning = await settle_and_reckon(plan, load, sentinel)
    return ChaosReport(plan=plan, load=load, reckoning=reckoning)


async def _require_scratch(plan: ChaosPlan) -> None:
    """Effects of chaos among real ones would stay there for ever, and reconcile real ones under load."""
    if plan.store == MEMORY:
        raise ConfigurationError("Chaos needs a store that outlives its processes.", hint="Name a file or a database.")
    opening = open_gate(
        tools=tools(0, plan.bounds),
        store=plan.store,
        key=plan.key,
        settings=plan.bounds.settings(),
        recovery=Recovery.MANUAL,
    )
    async with opening as gate:
        is_used = bool(await gate.store.effects(tenant=None, states=tuple(EffectState), limit=1))
    if is_used:
        raise ConfigurationError(
            "The store holds effects already, and chaos would mix its own among them.",
            code="store_in_use",
            hint="Name a file that does not exist yet, or an empty database.",
        )

"""What is played, in the order of the guarantees."""

from __future__ import annotations

from placet.proof.verify.findings import Scenario
from placet.proof.verify.scenarios import bounds, calls, effects, history, leave, processes, secrecy, tenants

SCENARIOS: tuple[Scenario, ...] = (
    *calls.SCENARIOS,
    *leave.SCENARIOS,
    *effects.SCENARIOS,
    *processes.SCENARIOS,
    *bounds.SCENARIOS,
    *secrecy.SCENARIOS,
    *history.SCENARIOS,
    *tenants.SCENARIOS,
)

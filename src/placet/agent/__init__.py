"""A plain agent loop for users with a model. It joins a model and a gate; every rule is the gate's.

    agent = Agent(gate=gate, model=OpenAICompatible(model="..."), principal=principal, run="incident-7")
    ending = await agent.work("Checkout is slow. Find out why, and open a ticket.")

Source: REQUIREMENTS C055, C056.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from placet.agent.loop import Agent, Answered, Ended, Ending
    from placet.agent.models import Model
    from placet.agent.openai_compatible import OpenAICompatible
    from placet.agent.scripted import ScriptedModel, calls, text
    from placet.ports.knowledge import ModelMeter
    from placet.rules.repeats import Repeats

_HOMES = {
    "Agent": "agent.loop",
    "Answered": "agent.loop",
    "Ended": "agent.loop",
    "Ending": "agent.loop",
    "Model": "agent.models",
    "ModelMeter": "ports.knowledge",
    "OpenAICompatible": "agent.openai_compatible",
    "Repeats": "rules.repeats",
    "ScriptedModel": "agent.scripted",
    "calls": "agent.scripted",
    "text": "agent.scripted",
}

__all__ = [
    "Agent",
    "Answered",
    "Ended",
    "Ending",
    "Model",
    "ModelMeter",
    "OpenAICompatible",
    "Repeats",
    "ScriptedModel",
    "calls",
    "text",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"placet.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

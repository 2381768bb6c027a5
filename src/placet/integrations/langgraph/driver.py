"""Runs on LangGraph: a graph of two nodes that knows no states. One advances the run, the other does nothing but pause.

         +-----------(ready)----------+
         v                            |
    advance --(waiting, in vain)--> rest --(woken)--> advance
         |
         +--(ended)--> END

A checkpoint holds ids, and is not believed: older ones, forged ones and forks all come to the same, that the run is
advanced from where the store says it is.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, TypedDict

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, interrupt

from placet.bootstrap.surroundings import system_clock
from placet.errors import MisuseError
from placet.integrations.driving import Over, Rest, advanced, engine_id, is_in_vain, next_after, said
from placet.integrations.langgraph.checkpoints import strict
from placet.integrations.waking import LOOK_SECONDS, StoreWatch, Waker
from placet.model.exact import is_seconds
from placet.model.principal import Principal
from placet.model.progress import Ended, Progress
from placet.model.workflow import MOST_ENTRIES
from placet.ports.clock import Clock

if TYPE_CHECKING:
    from placet.engine.workflow import Workflows
    from placet.model.run import RunLimits

ADVANCE: Final = "advance"
REST: Final = "rest"
_WAKE: Final = "wake"


class RunState(TypedDict, total=False):
    """All that LangGraph keeps of a run.

    Attributes:
        answer: what the last step came to: ids and fixed words.
        in_vain: how often in a row the run could not be advanced.
    """

    tenant: str
    run_id: str
    answer: dict[str, Any]
    in_vain: int


class GraphDriver:
    """Carries the runs of these workflows as threads of one graph. Use it in the event loop of their gate.

    Args:
        checkpointer: an asynchronous one, set up. Never in the file that is placet's store.

    Attributes:
        graph: the compiled graph; a thread of it is named by `config`.
    """

    def __init__(
        self,
        workflows: Workflows,
        *,
        checkpointer: BaseCheckpointSaver[Any],
        look_seconds: float = LOOK_SECONDS,
        clock: Clock | None = None,
    ) -> None:
        if not isinstance(checkpointer, BaseCheckpointSaver):
            raise MisuseError("checkpointer= is one of LangGraph's: without it a pause could never be resumed.")
        if not is_seconds(look_seconds):
            raise MisuseError("look_seconds= is a finite number above zero.")
        self._workflows = workflows
        self._waker = Waker(
            workflows, self._wake, clock=clock or system_clock(), look_seconds=look_seconds, watch=StoreWatch(workflows)
        )
        builder = StateGraph(RunState)
        builder.add_node(ADVANCE, self._advance)
        builder.add_node(REST, _rest)
        builder.add_edge(START, ADVANCE)
        builder.add_conditional_edges(ADVANCE, _route, [ADVANCE, REST, END])
        builder.add_edge(REST, ADVANCE)
        self.graph = builder.compile(checkpointer=strict(checkpointer))

    def config(self, tenant: str, run: str) -> dict[str, Any]:
        """What names the run's thread to the graph."""
        # Two steps of the graph for each state entered, and as many again for what is asked in vain.
        return {"configurable": {"thread_id": engine_id(tenant, run)}, "recursion_limit": 4 * MOST_ENTRIES}

    async def start(
        self, workflow: str, *, run: str, inputs: object, principal: Principal, limits: RunLimits | None = None
    ) -> Progress:
        """Begin a run, once, and advance it until it rests or is over. A second start of the same run is the same run.

        A process that dies in between leaves a run that some `serve` finds and goes on with.

        Raises:
            PlacetError: as `Workflows.start`; nothing was begun.
        """
        progress = await self._workflows.start(workflow, run=run, inputs=inputs, principal=principal, limits=limits)
        return progress if isinstance(progress, Ended) else await self.wake(progress)

    async def wake(self, progress: Progress) -> Progress:
        """Advance a run until it rests or is over, whatever its thread's last checkpoint is; how far it has come."""
        config: Any = self.config(progress.tenant, progress.run_id)
        seen = await self.graph.aget_state(config)
        fresh: RunState = {"tenant": progress.tenant, "run_id": progress.run_id, "in_vain": 0}
        step: Any = Command(resume=_WAKE) if seen.interrupts else None if seen.next else fresh
        await self.graph.ainvoke(step, config, durability="sync")
        return await self._workflows.look(progress.tenant, progress.run_id)

    async def serve(self, ending: asyncio.Event) -> None:
        """Advance every run for which there is something to do until `ending` is set."""
        await self._waker.run(ending)

    async def look(self) -> int:
        """Advance, once, every run for which there is something to do; how many those were.

        Raises:
            PlacetError: the store could not be asked.
        """
        return await self._waker.once()

    # ------------------------------------------------------------ inside

    async def _wake(self, progress: Progress) -> None:
        await self.wake(progress)

    async def _advance(self, state: RunState) -> RunState:
        """At most one step of the run. Its pause is what it returns, so nothing around it can take it for a fault."""
        answer = await advanced(self._workflows, state["tenant"], state["run_id"])
        return {"answer": answer.as_data(), "in_vain": state.get("in_vain", 0) + 1 if is_in_vain(answer) else 0}


def _rest(state: RunState) -> RunState:
    """Pause, and nothing else: it is run again from its start when it is woken, whatever it is woken with."""
    rest = _next(state)
    if isinstance(rest, Rest):
        interrupt({"approvals": list(rest.questions), "check_after_seconds": rest.seconds})
    return {}


def _route(state: RunState) -> str:
    match _next(state):
        case Over():
            return END
        case Rest(seconds=seconds):
            return REST if seconds > 0 else ADVANCE


def _next(state: RunState) -> Rest | Over:
    return next_after(said(state["answer"]), in_vain=state.get("in_vain", 0))

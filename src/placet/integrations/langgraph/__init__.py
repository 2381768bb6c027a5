"""LangGraph: a driver that carries runs on its checkpoints, and two nodes for graphs of your own.

    driver = GraphDriver(workflows, checkpointer=AsyncPostgresSaver(pool))
    await driver.start("support", run="r1", inputs=Question(text="..."), principal=principal)

    boundary = Boundary(gate, principal=lambda config: principal)
    boundary.add_to(graph, after="model", then="model")

Needs the extra `langgraph`.
"""

from placet.integrations.langgraph.boundary import Boundary, BoundaryState
from placet.integrations.langgraph.driver import GraphDriver

__all__ = ["Boundary", "BoundaryState", "GraphDriver"]

"""The agent's contracts, as the project file of the demo's console names them. Importing it reads the incident."""

import os

from placet.demos.ops.desk_client import DeskClient
from placet.demos.ops.observations import shipped_incident, shipped_runbooks
from placet.demos.ops.tools import ops_tools

TOOLS = ops_tools(shipped_incident(), shipped_runbooks(), DeskClient(os.environ["PLACET_DEMO_DESK"]))

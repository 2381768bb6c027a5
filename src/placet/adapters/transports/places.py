"""Where a new process finds a tool: it is handed a name, never a function."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from placet.errors import ContractError
from placet.rules.contracts import Tool


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a new process finds a tool."""

    module: str
    attribute: str


def place_of(tool: Tool) -> Place:
    """Where the tool stands: the module of its function, and the name there that leads to this very tool.

    Raises:
        ContractError: a new process could not find it: nested, a lambda, or in the program's main module.
    """
    function = tool.function
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", None)
    home = sys.modules.get(module) if type(module) is str else None
    if type(module) is str and home is not None and module != "__main__" and type(name) is str:
        for attribute in (name, *(key for key, value in vars(home).items() if value is tool)):
            if _leads_to(home, attribute) is tool:
                return Place(module=module, attribute=attribute)
    raise ContractError(
        f"The tool {tool.contract.name!r} cannot run in a process of its own: no new process could import it.",
        code="tool_not_importable",
        hint="Define it at the top level of a module that is imported: move it out of the program's main file, and out "
        "of functions.",
        tool=tool.contract.name,
    )


def _leads_to(home: object, attribute: str) -> object:
    found = home
    for name in attribute.split("."):
        found = getattr(found, name, None)
    return found

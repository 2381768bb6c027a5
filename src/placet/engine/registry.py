"""The tools that exist. Frozen at start; names are looked up exactly, never guessed, trimmed, folded or reflected."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

from placet.errors import ContractError, UnknownTool
from placet.model.contract import UNKNOWN_TOOL_LABEL, Contract
from placet.rules.contracts import Tool


class Registry:
    """Contracts with their handlers, by name.

    Raises:
        ContractError: something that is not a tool, two tools of one name, the reserved name `unknown`, or a tool of
            our own that is named like those of an upstream.
    """

    def __init__(self, tools: Iterable[Tool]) -> None:
        by_name: dict[str, Tool] = {}
        for tool in tools:
            if type(tool) is not Tool:
                raise ContractError("Only tools made with placet.tool can be registered.")
            name = tool.contract.name
            if name == UNKNOWN_TOOL_LABEL:
                raise ContractError("The name 'unknown' stands for tools that do not exist.", tool=name)
            if name in by_name:
                raise ContractError(f"Two tools are named {name!r}.", tool=name)
            by_name[name] = tool
        _refuse_misnamed(by_name)
        self._tools = MappingProxyType(by_name)

    def require(self, name: str, version: str | None) -> Tool:
        """The tool of exactly this name, in this version if one is given.

        Raises:
            UnknownTool: there is none; nothing ran.
        """
        tool = self._tools.get(name)
        if tool is None:
            raise UnknownTool("There is no tool of that name.")
        if version is not None and version != tool.contract.version:
            raise UnknownTool(
                "The tool exists in another version.", code="unknown_tool_version", tool=tool.contract.name
            )
        return tool

    def knows(self, name: str) -> bool:
        return name in self._tools

    def has_server(self, server: str) -> bool:
        """Whether a tool of this upstream is here."""
        return any(each.origin is not None and each.origin.server == server for each in self)

    def contract_of(self, name: str) -> Contract | None:
        """None for a tool that is not registered here; another process may have it."""
        tool = self._tools.get(name)
        return tool.contract if tool is not None else None

    @property
    def tools(self) -> Mapping[str, Tool]:
        return self._tools

    def __iter__(self) -> Iterator[Contract]:
        return (tool.contract for tool in self._tools.values())


def _refuse_misnamed(tools: Mapping[str, Tool]) -> None:
    """The part before the first dot tells the tools of an upstream: a stop of the upstream goes by it."""
    origins = {name: tool.contract.origin for name, tool in tools.items()}
    servers = {origin.server for origin in origins.values() if origin is not None}
    for name, origin in origins.items():
        server, dot, _ = name.partition(".")
        if origin is None and dot and server in servers:
            raise ContractError(f"The tool {name!r} is named like those of the upstream {server!r}.", tool=name)
        if origin is not None and not (dot and server == origin.server):
            raise ContractError(f"The tool {name!r} is not named after its upstream {origin.server!r}.", tool=name)

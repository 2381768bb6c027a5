"""`tools/list`: what a principal may see, a page at a time, as the contracts have it.

The list is made once per tool, and chosen from for every request: nobody's list is anybody else's. Names are in order,
and a page goes on behind the last name of the one before, so a list that changes in between loses nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

from mcp_types import INVALID_PARAMS, ErrorData

from placet.engine.gate import Gate
from placet.model.contract import Contract
from placet.model.json import JsonObject
from placet.model.principal import Principal
from placet.model.projection import NoProjection
from placet.rules.projections import mcp_tool
from placet.rules.upstream_results import is_content

_LONGEST_NAME: Final = 256
_log = logging.getLogger("placet.mcp")


def own_name(contract: Contract) -> str:
    return contract.name


class Listing:
    """The tools of one gate, as MCP clients see them."""

    def __init__(self, gate: Gate, *, page_size: int, outward: Callable[[Contract], str] = own_name) -> None:
        self._gate = gate
        self._page_size = page_size
        self._outward = outward
        self._entries: dict[str, JsonObject | None] = {}

    def seen_by(self, principal: Principal) -> list[Contract]:
        """Those that can be listed, by the names they are listed under."""
        found = [each for each in self._gate.tools_for(principal) if self._entry(each) is not None]
        return sorted(found, key=self._outward)

    def is_listable(self, contract: Contract) -> bool:
        return self._entry(contract) is not None

    def schema_for(self, name: str, principal: Principal) -> Mapping[str, Any] | None:
        """The input schema that the principal is shown for the tool of this name of ours."""
        contract = self._gate.tool_for(name, principal)
        entry = None if contract is None else self._entry(contract)
        schema = None if entry is None else entry["inputSchema"]
        return schema if isinstance(schema, dict) else None

    def page(self, principal: Principal, cursor: object) -> JsonObject | ErrorData:
        """One page, and where the next one begins, if there is one."""
        if cursor is not None and (type(cursor) is not str or not 0 < len(cursor) <= _LONGEST_NAME):
            return ErrorData(code=INVALID_PARAMS, message="The cursor is none of this list's.")
        contracts = [each for each in self.seen_by(principal) if cursor is None or self._outward(each) > cursor]
        shown = contracts[: self._page_size]
        answer: JsonObject = {"tools": [self._entry(each) for each in shown], "resultType": "complete"}
        if len(contracts) > len(shown):
            answer["nextCursor"] = self._outward(shown[-1])
        return answer

    def _entry(self, contract: Contract) -> JsonObject | None:
        if contract.name not in self._entries:
            self._entries[contract.name] = self._made(contract)
        return self._entries[contract.name]

    def _made(self, contract: Contract) -> JsonObject | None:
        projection = mcp_tool(contract)
        if isinstance(projection, NoProjection):
            _log.warning("a tool cannot be listed", extra={"tool": contract.name})
            return None
        entry = projection.definition
        entry["name"] = self._outward(contract)
        entry["_meta"] = {
            "io.placet/risk": contract.risk.value,
            "io.placet/effect-class": contract.effect_class.value,
        }
        if contract.origin is not None:
            if is_content(contract.result_schema):
                del entry["outputSchema"]
            else:
                entry["outputSchema"] = contract.result_schema
        return entry

"""From which level on each session of an older revision hears log messages; since 2026-07-28 every request says it."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

import mcp_types as types

from placet.mcp_server.carried import carried_of
from placet.mcp_server.relay_caller import Context

MAX_SESSIONS: Final = 10_000
DEFAULT_LEVEL: Final = "info"


class Levels:
    """The levels of one front door's sessions; those that said nothing for longest are forgotten first."""

    def __init__(self) -> None:
        self._levels: OrderedDict[str | None, str] = OrderedDict()

    def of(self, session: str | None) -> str:
        return self._levels.get(session, DEFAULT_LEVEL)

    async def set_level(self, ctx: Context, params: types.SetLevelRequestParams) -> types.EmptyResult:
        session = carried_of(ctx).session
        self._levels[session] = params.level
        self._levels.move_to_end(session)
        if len(self._levels) > MAX_SESSIONS:
            self._levels.popitem(last=False)
        return types.EmptyResult()

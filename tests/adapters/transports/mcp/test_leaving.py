"""Whether a first byte of a line has left for a process, also where the process ends right then."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from placet.adapters.clock import SystemClock
from placet.adapters.transports.mcp.attention import Attention, Share
from placet.adapters.transports.mcp.faults import SessionGone
from placet.adapters.transports.mcp.stdio import StdioChannel


class Ends:
    """The way into a process that takes so many pieces, and then is no more."""

    def __init__(self, inner: Any, *, takes: int) -> None:
        self._inner = inner
        self._left = takes

    def send(self, piece: bytes, flags: int) -> int:
        self._left -= 1
        if self._left < 0:
            raise BrokenPipeError
        return int(self._inner.send(piece, flags))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


@pytest.mark.parametrize("takes", [0, 1])
async def test_a_line_of_which_a_part_has_left_is_not_said_to_be_here_still(tmp_path: Path, takes: int) -> None:
    ends: list[str] = []
    channel = StdioChannel(
        sys.executable, ("-c", "import sys; sys.stdin.read()"), environment={}, folder=tmp_path, most_bytes=1_000,
        share=Share(Attention(SystemClock().monotonic)), awaits=lambda _: True, heard=lambda _: None,
        flooded=lambda: None, lost=lambda: ends.append("lost"),
    )  # fmt: skip
    channel._into = Ends(channel._into, takes=takes)  # type: ignore[assignment]
    try:
        if takes:
            await channel.say(b"-" * 100_000, before=lambda: None)
        else:
            with pytest.raises(SessionGone):
                await channel.say(b"-" * 100_000, before=lambda: None)
    finally:
        await channel.close()
    assert ends == ["lost"]

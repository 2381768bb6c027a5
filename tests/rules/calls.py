"""What an act costs, without a clock: how many functions written in Python are called."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType


def calls(function: Callable[..., object], *arguments: object) -> int:
    """How many functions written in Python are called when this one is, itself included."""
    count = 0

    def seen(frame: FrameType, event: str, _: object) -> None:
        nonlocal count
        count += event == "call"

    before = sys.getprofile()
    sys.setprofile(seen)
    try:
        function(*arguments)
    finally:
        sys.setprofile(before)
    return count

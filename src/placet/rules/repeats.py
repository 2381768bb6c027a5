"""Whether a model goes round in a circle: one call over and over, or a few calls in turn.

A window holds what the last calls of a run asked for, each as its mark: tool and arguments, not how they were written.
A call is counted by how often its mark stands in the window, so calls between do not hide it. The last calls that are
made come with a warning, and the next one is not made.

Source: CASES J03; ADR-0057.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from placet.errors import MisuseError

_WARNED = 2
"""So many of the last calls that are made are warned of."""


class Again(StrEnum):
    """What is done of a call. MADE: it is made. WARNED: it is, and the model is told. REFUSED: it is not."""

    MADE = "made"
    WARNED = "warned"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeats:
    """How often the same call is made in a run.

    Attributes:
        most: how often, within the window.
        window: how many of the last calls are looked at.
        per_tool: another `most` for these tools.
        polls: tools that are there to be asked again and again; their calls are not looked at.

    Raises:
        MisuseError: a number below 2, a window that is smaller, or names that are no texts.
    """

    most: int = 4
    window: int = 20
    per_tool: Mapping[str, int] = field(default_factory=dict)
    polls: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        numbers = (self.most, *self.per_tool.values())
        if not all(type(number) is int and number >= 2 for number in numbers):
            raise MisuseError("most= and the numbers of per_tool= are whole numbers from 2.")
        if type(self.window) is not int or self.window <= max(numbers):
            raise MisuseError("window= is a whole number above most= and those of per_tool=.")
        if not all(type(name) is str for name in (*self.per_tool, *self.polls)):
            raise MisuseError("per_tool= and polls= hold names of tools.")


class Window:
    """The last calls of one piece of work."""

    def __init__(self, repeats: Repeats, before: Mapping[str, int]) -> None:
        """Args:
        before: how often each mark was asked for in the run already, in earlier work. The same is asked for once more
            where work is begun again, and then is the same operation; so that alone refuses nothing.
        """
        self._repeats = repeats
        self._before = before
        self._marks = deque[str](maxlen=repeats.window)

    def asked(self, tool: object, mark: str) -> Again:
        """A call of this tool is asked for; it stands in the window from here on. What is no text is no tool's name."""
        name = tool if type(tool) is str else ""
        if name in self._repeats.polls:
            return Again.MADE
        self._marks.append(mark)
        count, most = self._marks.count(mark), self._repeats.per_tool.get(name, self._repeats.most)
        if count > most:
            return Again.REFUSED
        return Again.WARNED if max(count, self._before.get(mark, 0)) > max(1, most - _WARNED) else Again.MADE

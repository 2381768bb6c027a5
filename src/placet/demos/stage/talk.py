"""What the demo says while it runs. Every text that was not written here is escaped before it reaches the terminal."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TextIO

import placet

_MAX_VALUE = 30
_MAX_ARGUMENTS = 62
_NARROW = 0x2E7F
_COLOURS = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33"}


@dataclass(frozen=True, slots=True)
class Talk:
    """Lines on one stream; in colour where a person watches and has not said NO_COLOR."""

    stream: TextIO
    is_coloured: bool

    def heading(self, text: str) -> None:
        """Begin a chapter."""
        self._say("")
        self._say(self.painted("bold", text))

    def line(self, text: str = "") -> None:
        """Say something inside a chapter."""
        self._say(f"  {text}" if text else "")

    def step(self, tool: str, arguments: Mapping[str, Any], outcome: str, why: str, *, colour: str) -> None:
        """One call: what was asked, what came of it, and why it was asked."""
        told = f"  {shown(tool):<22}{brief(arguments):<{_MAX_ARGUMENTS}} {self.painted(colour, outcome)}"
        self._say(f"{told}  {self.painted('dim', shown(why))}" if why else told)

    def painted(self, colour: str, text: str) -> str:
        """The text in a colour, if there are any."""
        return f"\x1b[{_COLOURS[colour]}m{text}\x1b[0m" if self.is_coloured else text

    def ask(self, text: str) -> None:
        """Leave the cursor behind a question."""
        self.stream.write(f"  {self.painted('bold', text)} ")
        self.stream.flush()

    def _say(self, text: str) -> None:
        self.stream.write(f"{text}\n")
        self.stream.flush()


def talk_to(stream: TextIO) -> Talk:
    """Talk on a stream, whatever its encoding."""
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors="backslashreplace")
    return Talk(stream=stream, is_coloured=stream.isatty() and not os.environ.get("NO_COLOR"))


def silence() -> Talk:
    """Talk nobody hears."""
    return Talk(stream=io.StringIO(), is_coloured=False)


def is_terminal() -> bool:
    """Whether a person can answer here."""
    return sys.stdin is not None and sys.stdin.isatty()


def shown(value: object) -> str:
    """Any JSON value as one safe line."""
    if isinstance(value, str):
        return placet.escape_for_people(value)
    return placet.escape_for_people(json.dumps(value, ensure_ascii=False))


def brief(arguments: Mapping[str, Any]) -> str:
    """The arguments on one line, long ones cut and said to be cut; never what an approver decides by."""
    parts = []
    for name, value in arguments.items():
        if value == "":
            continue
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        cut = f"{shown(text[:_MAX_VALUE])}..." if len(text) > _MAX_VALUE else shown(text)
        parts.append(f"{shown(name)}={cut}")
    line = " ".join(parts)
    return line if len(line) <= _MAX_ARGUMENTS else f"{line[: _MAX_ARGUMENTS - 3]}..."


def in_full(value: object) -> list[str]:
    """A value line by line, nothing left out; behind the bar no text can pretend to be another field."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return [f"| {placet.escape_for_people(line)}" for line in text.split("\n")]


def padded(text: str, cells: int) -> str:
    """The text in so many cells of a terminal, of which a Chinese character takes two."""
    return text + " " * max(0, cells - sum(2 if ord(character) > _NARROW else 1 for character in text))

"""From words, files and standard input to raw proposals. Nothing here judges them: the gate does."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from placet.cli.failing import UsageProblem
from placet.errors import InvalidArguments
from placet.rules.decoding import DEFAULT_LIMITS, decode_object

if TYPE_CHECKING:
    from placet.rules.contracts import Tool

_LARGEST_FILE = 64 * 1024 * 1024
_LINE_LIMITS = replace(DEFAULT_LIMITS, max_depth=DEFAULT_LIMITS.max_depth + 1)  # the proposal around its arguments

_UNSOUND = "not a proposal"
"""What the gate is given in place of a line that says nothing."""


def read_argument_text(said: str) -> str | bytes:
    """`--args`: JSON text, `@file`, or `-` for standard input; as it is, to be decoded strictly by the gate."""
    if said == "-":
        return _all_of(sys.stdin.buffer, "standard input")
    if said.startswith("@"):
        return _content(Path(said[1:]), "--args")
    return said


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """The proposals of a file.

    Attributes:
        proposals: one for each line that is not empty.
        unsound_lines: numbers of the lines that are no sound JSON object, counted from 1.
    """

    proposals: list[object]
    unsound_lines: tuple[int, ...]


def read_proposals(said: str, tools: Iterable[Tool]) -> Batch:
    """`--file`: one proposal per line, `-` for standard input.

    A line that is no sound JSON object (a repeated member, a broken number) stays text, which the gate refuses as
    no proposal, with everything else in the batch.
    """
    content = _all_of(sys.stdin.buffer, "standard input") if said == "-" else _content(Path(said), "--file")
    wide = {("arguments", *path) for tool in tools for path in tool.contract.wide_fields}
    lines = {number: line for number, line in enumerate(content.split(b"\n"), start=1) if line.strip()}
    if not lines:
        raise UsageProblem(
            "There is no proposal in it: one JSON object per line",
            hint='Each line is like {"call_id": "c1", "tool": "list_notes", "arguments": {}}',
        )
    found = {number: _proposal(line, wide) for number, line in lines.items()}
    unsound = tuple(number for number, proposal in found.items() if proposal is _UNSOUND)
    return Batch(proposals=list(found.values()), unsound_lines=unsound)


def text_of(arguments: str | bytes) -> str:
    """Arguments as a server is sent them.

    Raises:
        UsageProblem: they are no text.
    """
    try:
        return arguments if isinstance(arguments, str) else arguments.decode()
    except UnicodeDecodeError:
        pass
    raise UsageProblem("--args is not UTF-8")


def _proposal(line: bytes, wide: set[tuple[str, ...]]) -> object:
    try:
        proposal: dict[str, Any] = decode_object(line, limits=_LINE_LIMITS, wide=wide)
    except InvalidArguments:
        return _UNSOUND
    return proposal


def _content(path: Path, flag: str) -> bytes:
    try:
        with path.open("rb") as file:
            return _all_of(file, str(path))
    except (OSError, ValueError):
        pass
    raise UsageProblem(
        f"{flag}: the file cannot be read: {path}",
        hint="Its name counts from the current folder, and this user needs permission to read it; - is standard input.",
    )


def _all_of(stream: BinaryIO, name: str) -> bytes:
    content = stream.read(_LARGEST_FILE + 1)
    if len(content) > _LARGEST_FILE:
        raise UsageProblem(f"Too large: {name}", hint="At most 64 MiB are read; split it.")
    return content

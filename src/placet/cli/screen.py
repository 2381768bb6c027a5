"""The only place that prints. Standard output is data, standard error is talk.

Foreign text passes `shown` before it becomes part of a line; a last guard keeps whatever was forgotten from moving a
cursor. JSON is written in ASCII, so it may go to a terminal as it is.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from placet.cli import streams
from placet.cli.widths import column_widths, stacked
from placet.model.json import JsonValue

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

INDENT = "  "


class Form(StrEnum):
    """How data is written."""

    TEXT = "text"
    JSON = "json"
    LINES = "jsonl"


def shown(text: object) -> str:
    """Foreign text as a person may see it."""
    from placet.rules.showing import escape_for_people

    return escape_for_people(text if type(text) is str else str(text))


def shown_key(key: str) -> str:
    """An operation key, as it can be typed again: keys are ASCII JSON, whose backslashes may stay as they are."""
    without = key.replace("\\", "/")
    return key if shown(without) == without and key.isascii() else shown(key)


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column of a list: how an item's cell is made, and how it is escaped when printed."""

    title: str
    cell: Callable[[Any], str]
    show: Callable[[str], str] = shown


class Screen:
    """Standard output and error of one command.

    Attributes:
        form: what `--json` and `--jsonl` asked for.
        is_local: whether people see local times; data is always UTC.
    """

    def __init__(self, *, form: Form, is_quiet: bool = False, no_color: bool = False, is_local: bool = False) -> None:
        self.form = form
        self.is_local = is_local
        self._is_quiet = is_quiet
        self._no_color = no_color
        self._out = sys.stdout
        for stream in (sys.stdout, sys.stderr):
            if hasattr(stream, "reconfigure"):
                stream.reconfigure(errors="backslashreplace")

    @property
    def is_text(self) -> bool:
        return self.form is Form.TEXT

    @property
    def is_terminal(self) -> bool:
        return self._out.isatty()

    @property
    def can_ask(self) -> bool:
        """Whether a person sees the data and can answer: all three streams are a terminal."""
        return self.is_text and all(stream.isatty() for stream in (sys.stdin, self._out, sys.stderr))

    # ------------------------------------------------------------ talk

    def talk(self, line: str) -> None:
        """Say something that is not data; nothing under --quiet."""
        if not self._is_quiet:
            streams.say(_all_guarded(line))

    def warn(self, line: str) -> None:
        """Say something that must be heard, even under --quiet."""
        streams.say(_all_guarded(line))

    # ------------------------------------------------------------ data

    def line(self, line: str = "") -> None:
        streams.put(_all_guarded(line) + "\n", self._out)

    def raw(self, text: str) -> None:
        """A text of our own, as it is."""
        streams.put(text, self._out)

    def flush(self) -> None:
        """Let whoever reads along see what was written so far."""
        streams.flush(self._out)

    def fields(self, pairs: Iterable[tuple[str, str | None]]) -> None:
        """Labels and foreign values, one pair a line; pairs without a value are left out."""
        present = [(label, value) for label, value in pairs if value is not None]
        width = max((len(label) for label, _ in present), default=0)
        for label, value in present:
            self.line(f"{label:<{width}}  {shown(value)}")

    def document(self, schema: str, body: dict[str, Any]) -> None:
        """One JSON document."""
        indent = None if self.form is Form.LINES else 2
        text = json.dumps({"schema": schema, **body}, ensure_ascii=True, allow_nan=False, indent=indent)
        streams.put(text + "\n", self._out)

    def listing(
        self,
        name: str,
        items: Sequence[Any],
        *,
        as_data: Callable[[Any], dict[str, Any]],
        columns: Sequence[Column],
        item_schema: str,
        nothing: str,
    ) -> None:
        """A list: one document `<name>/1`, one item a line as `<item_schema>`, or a table for people."""
        if self.form is Form.JSON:
            self.document(f"{name}/1", {name: [as_data(item) for item in items]})
        elif self.form is Form.LINES:
            for item in items:
                self.document(item_schema, as_data(item))
        elif not items:
            self.talk(nothing)
        else:
            self._table(
                [column.title for column in columns], [[c.show(c.cell(item)) for c in columns] for item in items]
            )

    def _table(self, titles: list[str], rows: list[list[str]]) -> None:
        if self._out.isatty():
            self.console().print(self.rich_table(titles, rows), crop=False, soft_wrap=True)
            return
        widths = [max(len(line[index]) for line in (titles, *rows)) for index in range(len(titles))]
        for line in (titles, *rows):
            cells = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
            self.line(INDENT.join(cells).rstrip())

    def console(self) -> Console:
        """Standard output for rich, which may colour and draw, and understands no markup in what it is given."""
        from rich.console import Console

        is_plain = self._no_color or bool(os.environ.get("NO_COLOR"))
        return Console(
            file=self._out,
            color_system=None if is_plain else "auto",
            markup=False,
            emoji=False,
            highlight=False,
        )

    def rich_table(self, titles: list[str], rows: list[list[str]]) -> RenderableType:
        """Cells as they are: the caller has escaped them. No word is broken; without room for that, row by row."""
        from rich.cells import cell_len
        from rich.table import Table
        from rich.text import Text

        widths = column_widths((titles, *rows), room=self.console().width, gap=len(INDENT), width=cell_len)
        if widths is None:
            return Text("\n".join(stacked(titles, rows)), no_wrap=True, overflow="ignore")
        table = Table(box=None, pad_edge=False, header_style="bold")
        for title, width in zip(titles, widths, strict=True):
            table.add_column(title, width=width, overflow="fold")
        for row in rows:
            table.add_row(*(Text(cell, style=_STYLES.get(cell, "")) for cell in row))
        return table

    # ------------------------------------------------------------ values

    def instant(self, instant: datetime | None) -> str | None:
        """An instant for people: UTC, or local with --local."""
        if instant is None:
            return None
        if self.is_local:
            return instant.astimezone().isoformat(timespec="seconds")
        return instant.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


_STYLES = {
    "unknown": "bold red",
    "denied": "red",
    "failed": "red",
    "expired": "yellow",
    "pending": "yellow",
    "dispatched": "yellow",
    "critical": "bold red",
    "high": "red",
}


def _all_guarded(line: str) -> str:
    return "".join(map(_guarded, line))


def _guarded(character: str) -> str:
    return character if character.isprintable() else f"\\u{{{ord(character):x}}}"


def instant_data(instant: datetime | None) -> str | None:
    """An instant for programs: UTC with microseconds."""
    if instant is None:
        return None
    return instant.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def time_left(seconds: float) -> str:
    """A countdown, in two units."""
    if seconds <= 0:
        return "over"
    whole = int(seconds)
    for unit, size, below, below_size in (("d", 86_400, "h", 3_600), ("h", 3_600, "min", 60), ("min", 60, "s", 1)):
        if whole >= size:
            return f"{whole // size} {unit} {whole % size // below_size} {below}"
    return f"{whole} s"


def value_lines(value: JsonValue, *, name: str = "") -> Iterator[str]:
    """A JSON value for people: one scalar a line, named by its path, complete, nothing invisible.

    A text stays in its quotes and on its line whatever is in it, so it cannot pretend to be another line. Types show:
    `1`, `1.0`, `"1"` and `true` differ.
    """
    match value:
        case dict() if value:
            for key, child in value.items():
                yield from value_lines(child, name=f"{name}.{_step(key)}" if name else _step(key))
        case list() if value:
            for index, child in enumerate(value):
                yield from value_lines(child, name=f"{name}[{index}]")
        case str():
            yield f"{name}: {_quoted(value)}" if name else _quoted(value)
        case _:
            text = json.dumps(value, ensure_ascii=True)
            yield f"{name}: {text}" if name else text


def _step(key: str) -> str:
    return key if key.isascii() and key.replace("_", "").replace("-", "").isalnum() else _quoted(key)


def _quoted(text: str) -> str:
    return '"' + shown(text).replace('"', '\\"') + '"'

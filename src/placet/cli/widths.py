"""How wide the columns of a table become on a terminal: no word is ever broken to make it fit."""

from __future__ import annotations

from collections.abc import Callable, Sequence

Width = Callable[[str], int]


def column_widths(lines: Sequence[Sequence[str]], *, room: int, gap: int, width: Width = len) -> list[int] | None:
    """The width of each column, its longest word at least, in so much room; None where there is not enough.

    Args:
        lines: titles and rows, which have one cell for each column.
        gap: what stands between two columns.
        width: how many places a text takes on the terminal.
    """
    columns = list(zip(*lines, strict=True))
    widths = [max(map(width, cells)) for cells in columns]
    least = [max((width(word) for cell in cells for word in cell.split()), default=0) for cells in columns]
    room -= gap * (len(columns) - 1)
    if sum(least) > room:
        return None
    while sum(widths) > room:
        spare = [have - need for have, need in zip(widths, least, strict=True)]
        widest = max(range(len(widths)), key=lambda index: (spare[index] > 0, widths[index]))
        widths[widest] -= min(spare[widest], sum(widths) - room)
    return widths


def stacked(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """A table for which there is no room: each row a block, each cell a line behind its title."""
    widest = max(map(len, titles), default=0)
    blocks = [[f"{title:<{widest}}  {cell}".rstrip() for title, cell in zip(titles, row, strict=True)] for row in rows]
    return [line for index, block in enumerate(blocks) for line in (*([""] if index else []), *block)]

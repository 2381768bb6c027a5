"""What a workflow is, drawn from its definition: a table, a diagram for Mermaid, and one that is an SVG by itself."""

from __future__ import annotations

from html import escape
from typing import Any, Final

from placet.model.workflow import End, State, Workflow

_WIDTH: Final = 220
_HEIGHT: Final = 44
_GAP: Final = 56
_LANE: Final = 26
_MARGIN: Final = 24


def state_table(workflow: Workflow) -> str:
    """A Markdown table: what each state takes, calls, may lead to, and where it fails to."""
    lines = ["| state | takes | tools | goes on to | fails to |", "|---|---|---|---|---|"]
    for state in workflow.states:
        name = f"**{state.name}**" if state.name == workflow.start else state.name
        if isinstance(state, State):
            tools = ", ".join(f"`{tool}`" for tool in state.tools) or "none"
            cells = (name, f"`{state.inputs.__name__}`", tools, ", ".join(state.next) or "nothing", state.on_failure)
        else:
            cells = (name, f"`{state.inputs.__name__}`", "none", _end(state), "")
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def mermaid(workflow: Workflow) -> str:
    """A `stateDiagram-v2`. A dotted word on an arrow says that it is the failure exit."""
    lines = ["stateDiagram-v2", f"    [*] --> {workflow.start}"]
    for state in workflow.states:
        if isinstance(state, End):
            lines.append(f"    {state.name} --> [*]")
            continue
        lines += [f"    {state.name} --> {target}" for target in state.next]
        lines.append(f"    {state.name} --> {state.on_failure}: fails")
    return "\n".join(lines) + "\n"


def svg(workflow: Workflow) -> str:
    """States one below the other, in their order; ways on at the left side, failure exits at the right, dashed."""
    rows = {state.name: number for number, state in enumerate(workflow.states)}
    left, right = _lanes(workflow, rows)
    x = _MARGIN + _LANE * (len(left) + 1)
    width = x + _WIDTH + _LANE * (len(right) + 1) + _MARGIN
    height = _MARGIN * 2 + len(rows) * _HEIGHT + (len(rows) - 1) * _GAP
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" aria-label="States of the workflow {escape(workflow.name)}" font-family="sans-serif" '
        'font-size="14">',
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" '
        'orient="auto-start-reverse"><path d="M0 0 8 4 0 8z" fill="#555"/></marker></defs>',
        f'<rect width="{width}" height="{height}" fill="#fff"/>',
    ]
    parts += [_arrow(rows, way, x - _LANE * (lane + 1), x, "") for lane, way in enumerate(left)]
    parts += [
        _arrow(rows, way, x + _WIDTH + _LANE * (lane + 1), x + _WIDTH, ' stroke-dasharray="5 4"')
        for lane, way in enumerate(right)
    ]
    parts += [_box(state, workflow, x, _top(rows[state.name])) for state in workflow.states]
    return "\n".join([*parts, "</svg>"]) + "\n"


def _lanes(workflow: Workflow, rows: dict[str, int]) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Ways on and failure exits, those that bridge less first, so that the others go around them."""
    on = [(state.name, target) for state in workflow.states if isinstance(state, State) for target in state.next]
    failing = [(state.name, state.on_failure) for state in workflow.states if isinstance(state, State)]

    def span(way: tuple[str, str]) -> tuple[int, int, int]:
        return abs(rows[way[1]] - rows[way[0]]), rows[way[0]], rows[way[1]]

    return sorted(on, key=span), sorted(failing, key=span)


def _arrow(rows: dict[str, int], way: tuple[str, str], lane: int, edge: int, dashes: str) -> str:
    source, target = rows[way[0]], rows[way[1]]
    start = _top(source) + _HEIGHT * 2 // 3
    end = _top(target) + _HEIGHT // 3
    return (
        f'<path d="M{edge} {start}H{lane}V{end}H{edge}" fill="none" stroke="#555" marker-end="url(#tip)"{dashes}>'
        f"<title>{escape(way[0])} to {escape(way[1])}</title></path>"
    )


def _box(state: State[Any] | End[Any], workflow: Workflow, x: int, y: int) -> str:
    is_end = isinstance(state, End)
    fill = "#fbe9e7" if is_end and state.is_failure else "#e8f5e9" if is_end else "#eef3fb"  # type: ignore[union-attr]
    thick = 3 if state.name == workflow.start else 1
    radius = _HEIGHT // 2 if is_end else 6
    middle = x + _WIDTH // 2
    return (
        f'<rect x="{x}" y="{y}" width="{_WIDTH}" height="{_HEIGHT}" rx="{radius}" fill="{fill}" stroke="#333" '
        f'stroke-width="{thick}"/><text x="{middle}" y="{y + _HEIGHT // 2 + 5}" text-anchor="middle" font-size="11" '
        f'fill="#111">{escape(state.name)}</text>'
    )


def _top(row: int) -> int:
    return _MARGIN + row * (_HEIGHT + _GAP)


def _end(state: End[Any]) -> str:
    return "the end, as a failure" if state.is_failure else "the end"

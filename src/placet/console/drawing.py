"""Templates, and the one way in which text that somebody else wrote becomes part of a page.

Whatever a template prints that is not markup of ours is escaped twice: as `escape_for_people` does, so that nothing in
it is invisible or moves the rest, and as HTML. `chips` draws a text with boxes for what cannot be drawn.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from placet.console import words
from placet.rules.chips import Piece, PieceKind, pieces_of
from placet.rules.showing import escape_for_people

TEMPLATES = Path(__file__).parent / "templates"


def environment() -> Environment:
    """Templates of the console. An unknown name in one is an error and never an empty place."""
    made = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_visible,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {"chips": chips, "time": time_element, "duration": words.length_words, "span": words.span_words}
    made.globals |= {"words": words}
    return made


def chips(text: str | Iterable[Piece]) -> Markup:
    """A text, with a labelled box for every character that would be invisible, move the rest or look like another."""
    pieces = pieces_of(text) if isinstance(text, str) else text
    return Markup("").join(_drawn(piece) for piece in pieces)


def time_element(instant: datetime) -> Markup:
    return Markup('<time datetime="{}">{}</time>').format(words.instant_machine(instant), words.instant_words(instant))


def _visible(value: Any) -> Any:
    return escape(escape_for_people(value)) if type(value) is str else value


def _drawn(piece: Piece) -> Markup:
    match piece.kind:
        case PieceKind.PLAIN:
            return escape(piece.text)
        case PieceKind.HIDDEN:
            box = Markup('<span class="chip" title="{}">{}</span>').format(piece.name, piece.label)
            return box + Markup("<br>") if piece.text == "\n" else box
        case PieceKind.LOOK_ALIKE:
            return Markup('<span class="chip look-alike" title="{}">{}<small>{}</small></span>').format(
                piece.name, piece.text, piece.label
            )
        case PieceKind.BLANKS:
            return Markup('<span class="chip" title="only blanks">{}</span>').format(piece.label)

"""Markdown to sections: a document is cut at its headings, and a long section at its paragraphs.

One pass over the lines, whatever they hold: nothing nests, nothing is looked ahead for, nothing is rendered. What looks
like a heading inside a fenced block is text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

MAX_SECTION_CHARACTERS = 1_500
"""A section is shown to a model whole; three of them are a page."""

_MAX_SLUG = 64
_MAX_TITLE = 200
"""A longer line is a text, whatever it begins with."""

_HEADING = re.compile(r" {0,3}(#{1,6})[ \t]+(\S.*)")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_UNDERLINE = re.compile(r" {0,3}(=+|-+)[ \t]*")
_NOT_IN_A_SLUG = re.compile(r"[\W_]+")
_MARKUP = re.compile(r"[`*]|\[(?=[^\]]*\]\()|(?<=\])\([^()]*\)")
_FRONT_MATTER = "---"


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """One part of a document.

    Attributes:
        number: its place in the file, from 0.
        slug: its heading in lower case with hyphens; that of the file's title before the first heading.
        heading: empty before the first one.
    """

    number: int
    slug: str
    heading: str
    body: str

    @property
    def content(self) -> str:
        """Heading and text, as they are shown."""
        return f"{self.heading}\n\n{self.body}".strip()


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A title, the first heading or the file's name, and sections."""

    title: str
    sections: tuple[Section, ...]

    @property
    def headings(self) -> str:
        return "\n".join(dict.fromkeys(section.heading for section in self.sections if section.heading))


def document_of(stem: str, text: str) -> Document:
    """Cut a text. `stem`: the file's name without its ending, for a document that has no heading."""
    pieces = _pieces(_without_front_matter(text.replace("\r\n", "\n").split("\n")))
    title = next((heading for heading, _ in pieces if heading), stem)[:_MAX_TITLE]
    sections: list[Section] = []
    for heading, lines in pieces:
        for body in _bodies("\n".join(lines).strip()):
            if heading or body:
                slug = _slug(heading or title) or _slug(stem) or "section"
                sections.append(Section(number=len(sections), slug=slug, heading=heading, body=body))
    return Document(title=title, sections=tuple(sections))


def _pieces(lines: list[str]) -> list[tuple[str, list[str]]]:
    pieces: list[tuple[str, list[str]]] = [("", [])]
    fence = ""
    for line in lines:
        if fence:
            pieces[-1][1].append(line)
            if (closing := _FENCE.match(line)) and closing[1].startswith(fence):
                fence = ""
        elif opening := _FENCE.match(line):
            fence = opening[1]
            pieces[-1][1].append(line)
        elif len(line) <= _MAX_TITLE and (heading := _HEADING.match(line)):
            pieces.append((_plain(heading[2].rstrip().rstrip("#")), []))
        elif _UNDERLINE.fullmatch(line) and (above := _paragraph_of_one_line(pieces[-1][1])):
            pieces[-1][1].pop()
            pieces.append((_plain(above), []))
        else:
            pieces[-1][1].append(line)
    return pieces


def _paragraph_of_one_line(lines: list[str]) -> str:
    """The line above an underline, if it stands alone and is a text; a table or a list is none."""
    if not lines or (len(lines) > 1 and lines[-2].strip()):
        return ""
    line = lines[-1].strip()
    return "" if len(line) > _MAX_TITLE or line[:1] in ("", "|", "-", "*", "+", ">") else line


def _without_front_matter(lines: list[str]) -> list[str]:
    if lines and lines[0].strip() == _FRONT_MATTER:
        for at, line in enumerate(lines[1:200], start=1):
            if line.strip() == _FRONT_MATTER:
                return lines[at + 1 :]
    return lines


def _plain(heading: str) -> str:
    return " ".join(_MARKUP.sub("", heading).replace("]", "").split())


def _slug(heading: str) -> str:
    return _NOT_IN_A_SLUG.sub("-", heading.lower())[:_MAX_SLUG].strip("-")


def _bodies(body: str) -> list[str]:
    """The text in parts of a bounded size, cut between paragraphs, else between lines, else anywhere."""
    if len(body) <= MAX_SECTION_CHARACTERS:
        return [body]
    parts: list[str] = []
    for piece, glue in _fitting(body):
        if parts and len(parts[-1]) + len(glue) + len(piece) <= MAX_SECTION_CHARACTERS:
            parts[-1] += glue + piece
        else:
            parts.append(piece)
    return [part.strip() for part in parts if part.strip()]


def _fitting(body: str) -> list[tuple[str, str]]:
    """Pieces that fit, each with what joins it to the one before."""
    pieces: list[tuple[str, str]] = []
    for paragraph in re.split(r"\n[ \t]*\n", body):
        if len(paragraph) <= MAX_SECTION_CHARACTERS:
            pieces.append((paragraph, "\n\n"))
            continue
        glue = "\n\n"
        for line in paragraph.split("\n"):
            for at in range(0, max(len(line), 1), MAX_SECTION_CHARACTERS):
                pieces.append((line[at : at + MAX_SECTION_CHARACTERS], glue))
                glue = "\n" if at + MAX_SECTION_CHARACTERS >= len(line) else ""
    return pieces

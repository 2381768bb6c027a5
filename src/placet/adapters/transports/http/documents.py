"""An OpenAPI document's file as JSON text: JSON as it stands, YAML by way of its events.

YAML here is what JSON can say: plain words become what the core schema of YAML 1.2 says, so `no` and `2024-01-01` are
texts; aliases, tags, merge keys and several documents are refused, and a repeated member is found where JSON is read.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from placet.errors import DocumentRefused
from placet.rules.openapi.documents import MAX_DOCUMENT_BYTES

_DEEPEST: Final = 64
_NULL: Final = re.compile(r"|~|null|Null|NULL")
_TRUE: Final = re.compile(r"true|True|TRUE")
_FALSE: Final = re.compile(r"false|False|FALSE")
_INTEGER: Final = re.compile(r"[-+]?[0-9]{1,400}")
_OTHER_INTEGER: Final = re.compile(r"0o[0-7]{1,100}|0x[0-9a-fA-F]{1,100}")
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_ENDLESS: Final = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")


def document_text(file: Path) -> str:
    """The document in one file, as JSON text.

    Raises:
        DocumentRefused: it cannot be read, is too large, or is YAML that JSON cannot say, or the extra is missing.
    """
    raw = _read(file)
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = None
    if text is None:
        raise DocumentRefused(f"The document is not UTF-8: {file}")
    return text if text.lstrip(" \t\r\n")[:1] == "{" else yaml_as_json(text)


def _read(file: Path) -> bytes:
    try:
        with file.open("rb") as opened:
            raw = opened.read(MAX_DOCUMENT_BYTES + 1)
    except (OSError, ValueError):
        raw = None
    if raw is None:
        raise DocumentRefused(f"The document cannot be read: {file}", hint="Name a file that is there.")
    if len(raw) > MAX_DOCUMENT_BYTES:
        raise DocumentRefused(f"The document has more than {MAX_DOCUMENT_BYTES} bytes: {file}")
    return raw


def yaml_as_json(text: str) -> str:
    """The same in JSON.

    Raises:
        DocumentRefused: it is no YAML, says what JSON cannot say, or the extra is missing.
    """
    try:
        import yaml
    except ImportError:
        yaml = None
    if yaml is None:
        raise DocumentRefused(
            "The document is not JSON, and YAML is not read without the extra.",
            code="extra_missing",
            hint='pip install "/path/to/checkout[openapi]", or write the document as JSON.',
        )
    place = None
    try:
        return "".join(_written(yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = "" if mark is None else f" in line {mark.line + 1}"
    except RecursionError:
        place = ""
    raise DocumentRefused(f"The document is neither JSON nor sound YAML{place}.")


def _written(events: Iterator[Any]) -> Iterator[str]:
    """JSON text, from the events of a parser. A level knows what it is and how much of it was written."""
    levels: list[list[Any]] = []
    documents = 0
    for event in events:
        kind = type(event).__name__
        if kind == "DocumentStartEvent":
            documents += 1
            if documents > 1:
                raise _refused(event, "holds a second document")
        if kind not in ("ScalarEvent", "AliasEvent", "SequenceStartEvent", "MappingStartEvent", *_ENDS):
            continue
        if kind == "AliasEvent":
            raise _refused(event, "has an alias; write out what it stands for")
        if kind in _ENDS:
            levels.pop()
            yield _ENDS[kind]
            continue
        if event.tag is not None:
            raise _refused(event, "has a tag")
        is_name = bool(levels) and levels[-1][0] == "mapping" and levels[-1][1] % 2 == 0
        yield _before(levels)
        if kind == "ScalarEvent":
            yield _name(event) if is_name else _scalar(event)
            continue
        if is_name:
            raise _refused(event, "has a member whose name is no text")
        levels.append(["mapping" if kind == "MappingStartEvent" else "sequence", 0])
        if len(levels) > _DEEPEST:
            raise _refused(event, f"is nested more than {_DEEPEST} levels deep")
        yield "{" if kind == "MappingStartEvent" else "["


_ENDS: Final = {"SequenceEndEvent": "]", "MappingEndEvent": "}"}


def _before(levels: list[list[Any]]) -> str:
    """What stands between the last thing and the next, which is counted."""
    if not levels:
        return ""
    kind, count = levels[-1]
    levels[-1][1] += 1
    if count == 0:
        return ""
    return ":" if kind == "mapping" and count % 2 else ","


def _name(event: Any) -> str:
    if event.value == "<<" and event.implicit[0]:
        raise _refused(event, "has a merge key; write out what it merges")
    return json.dumps(event.value)


def _scalar(event: Any) -> str:
    text: str = event.value
    if not event.implicit[0] or event.style:  # quoted, or a block: text, whatever it looks like
        return json.dumps(text)
    if _NULL.fullmatch(text):
        return "null"
    if _TRUE.fullmatch(text) or _FALSE.fullmatch(text):
        return text.lower()
    if _INTEGER.fullmatch(text):
        return str(int(text))
    if _OTHER_INTEGER.fullmatch(text):
        return str(int(text, 0))
    if _ENDLESS.fullmatch(text) or (_FLOAT.fullmatch(text) and not math.isfinite(float(text))):
        raise _refused(event, "has a number that JSON does not have")
    return repr(float(text)) if _FLOAT.fullmatch(text) else json.dumps(text)


def _refused(event: Any, why: str) -> DocumentRefused:
    return DocumentRefused(f"The document {why}, in line {event.start_mark.line + 1}.")

"""The first text of a manifest: every tool of a server on the most careful terms, until somebody says what is true."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass

from placet.model.contract import ApprovalMode, EffectClass, Risk
from placet.rules.showing import escape_for_people

_ABOUT_CHARACTERS = 100
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_HEAD = """\
# Terms for the tools of the upstream {server}; docs/upstreams.md says what may stand here.
# A tool without a table is hidden. What the server says of itself may only raise risk and effect.
"""
_CAREFUL = """\
# Each table is as careful as can be: look at the tool, then say what is true of it.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggested:
    """The first terms of one tool.

    Attributes:
        tool: the server's own name of it.
        about: what the server says of it, of which the beginning becomes a comment.
    """

    tool: str
    permission: str
    about: str = ""
    effect: EffectClass = EffectClass.IRREVERSIBLE
    risk: Risk = Risk.CRITICAL
    approval: ApprovalMode = ApprovalMode.ALWAYS


def skeleton(server: str, tools: Iterable[Suggested]) -> str:
    """The text of the file, as `read_manifest` reads it. Nothing foreign gets out of its comment or quotes."""
    tables = "".join(map(_table, tools))
    return _HEAD.format(server=server) + (_CAREFUL + tables if tables else "")


def _table(suggested: Suggested) -> str:
    shown = escape_for_people(suggested.about)
    about = shown if len(shown) <= _ABOUT_CHARACTERS else f"{shown[:_ABOUT_CHARACTERS]} ..."
    lines = [
        "",
        *([f"# {about}"] if about else []),
        f"[tools.{toml_name(suggested.tool)}]",
        f'effect = "{suggested.effect.value}"  # {", ".join(each.value for each in EffectClass)}',
        f'risk = "{suggested.risk.value}"  # {", ".join(each.value for each in Risk)}',
        f"permission = {toml_text(suggested.permission)}",
        f'approval = "{suggested.approval.value}"  # {", ".join(each.value for each in ApprovalMode)}',
    ]
    return "\n".join(lines) + "\n"


def toml_name(name: str) -> str:
    """A name of a table or a member: bare if it may be."""
    return name if _BARE.fullmatch(name) else toml_text(name)


def toml_text(text: str) -> str:
    """A text in quotes, as TOML reads it: JSON's escapes of it are TOML's."""
    return json.dumps(text, ensure_ascii=True)

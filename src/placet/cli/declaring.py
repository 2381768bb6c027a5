"""A new upstream in the project: its table at the end of placet.toml, and the first text of its manifest.

Nothing that is there is overwritten: a table or a manifest of this name keeps both from being written.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from typing import Any

from placet.cli.failing import ConfigProblem, UsageProblem
from placet.cli.members import checked
from placet.cli.settings import Settings
from placet.cli.upstreams import upstreams_of
from placet.model.upstreams import Upstream
from placet.rules.manifest_skeletons import toml_name, toml_text
from placet.rules.upstreams import require_sound


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """An upstream that may be written down: nothing of its name is there, and its table can be read.

    Attributes:
        file: the project file that gets its table.
        table: as TOML.
    """

    upstream: Upstream
    file: Path
    table: str


def declaration(settings: Settings, name: str, members: Mapping[str, Any]) -> Declaration:
    """
    Raises:
        ConfigProblem: there is no project file, an upstream of this name is declared, its manifest exists, or what is
            said of it cannot be used.
    """
    if settings.file is None:
        raise ConfigProblem("There is no placet.toml here or above to write it into", hint="placet init")
    if any(each.name == name for each in settings.upstreams):
        raise ConfigProblem(
            f"An upstream {name!r} is declared already in {settings.file}", code="exists", hint="Choose another name."
        )
    (upstream,) = upstreams_of({name: dict(members)}, file=settings.file, folder=settings.folder)
    checked("[upstreams]", settings.file, lambda: require_sound((*settings.upstreams, upstream)))
    _refuse_there(upstream.manifest)
    return Declaration(upstream=upstream, file=settings.file, table=_toml(f"upstreams.{name}", members))


def write_declaration(declared: Declaration, manifest: str) -> None:
    """The manifest first: a table without one would keep the project from being opened.

    Raises:
        ConfigProblem: the manifest exists; nothing was written.
        UsageProblem: a file cannot be written; the table was not.
    """
    file, target = declared.upstream.manifest, Path(os.path.realpath(declared.file))
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("x", encoding="utf-8") as opened:
            opened.write(manifest)
        was = target.read_bytes()
        _replace(target, was + (b"" if was.endswith(b"\n") or not was else b"\n") + b"\n" + declared.table.encode())
        return
    except FileExistsError:
        fault: ConfigProblem | UsageProblem = _exists(file)
    except OSError:
        fault = UsageProblem(
            f"The upstream cannot be written down: {target} or {file}",
            hint="Choose a project folder that you may write, with room on its disk.",
        )
    raise fault


def _refuse_there(file: Path) -> None:
    if file.exists() or file.is_symlink():
        raise _exists(file)


def _exists(file: Path) -> ConfigProblem:
    return ConfigProblem(
        f"Nothing was written, because it exists: {file}",
        code="exists",
        hint="Choose another name, or another manifest.",
    )


def _replace(target: Path, content: bytes) -> None:
    """The file with its mode, whole or as it was."""
    draft = target.with_name(f".{target.name}.{token_hex(4)}")
    try:
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with open(descriptor, "wb") as file:
            os.fchmod(descriptor, stat.S_IMODE(target.stat().st_mode))
            file.write(content)
            file.flush()
            os.fsync(descriptor)
        os.rename(draft, target)
    except BaseException:
        with suppress(OSError):
            draft.unlink(missing_ok=True)
        raise


# ---------------------------------------------------------------- TOML


def _toml(place: str, members: Mapping[str, Any]) -> str:
    lines = [f"[{place}]", *(f"{toml_name(name)} = {_value(value)}" for name, value in members.items())]
    return "\n".join(lines) + "\n"


def _value(value: object) -> str:
    """The few kinds that a declaration is made of."""
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return toml_text(value)
        case int() | float():
            return repr(value)
        case list() | tuple():
            return f"[{', '.join(map(_value, value))}]"
        case dict():
            inner = ", ".join(f"{toml_name(name)} = {_value(each)}" for name, each in value.items())
            return f"{{ {inner} }}" if inner else "{}"
        case _:
            raise UsageProblem("a declaration is made of texts, numbers, lists and tables")

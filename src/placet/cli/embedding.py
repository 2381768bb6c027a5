"""What a project file says, for a program of your own that opens the gate itself."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from placet.cli.failing import ConfigProblem
from placet.cli.settings import read_settings

if TYPE_CHECKING:
    from placet.bootstrap.joined import Joined


def upstreams_from(project: str | Path, *, key: str | Path | None = None) -> tuple[Joined, ...]:
    """The upstreams of a `placet.toml`, to open a gate together with: `placet.open(upstreams=...)`.

    As the command line has them: declared under `[upstreams.NAME]`, on the terms of their manifests, and, of MCP
    servers, what is accepted in `placet.pins.json` beside the file. Nothing is started or connected. They are of one
    gate, which opens and ends them; read them anew for another.

    Args:
        key: the key file under which tools were accepted, if it is another than the one that the file, or the
            environment, says. It has to be that of the store with which the gate is opened.

    Raises:
        ConfigurationError: the file cannot be read, declares no upstreams, or one of them cannot be used; of these,
            ManifestError: a manifest is not there or cannot be used.
        KeyMaterialError: something was accepted, and the key file is absent, exposed or unreadable.
    """
    from placet.bootstrap.declared import accepted, joined
    from placet.model.pins import Pins

    settings = read_settings(config=str(project), store=None, key=None if key is None else str(key))
    if not settings.upstreams:
        raise ConfigProblem(
            f"{settings.file} declares no upstreams.", hint="placet mcp add declares one: [upstreams.NAME]."
        )
    pins = accepted(settings.pins_file, key=settings.key_file) if settings.pins_file.exists() else Pins()
    return joined(settings.upstreams, pins)

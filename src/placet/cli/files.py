"""Files that a command writes for its user: new, private, and whole or not there."""

from __future__ import annotations

import os
from collections.abc import AsyncIterable
from contextlib import suppress
from pathlib import Path
from secrets import token_hex

from placet.cli.failing import ConfigProblem, UsageProblem


async def write_new_file(path: Path, chunks: AsyncIterable[bytes]) -> None:
    """A new file of mode 0600, durable on return. Nothing is overwritten, and nothing half-written stays.

    Raises:
        ConfigProblem: it exists (`exists`).
        UsageProblem: it cannot be written. Whatever the chunks raise passes, and there is no file.
    """
    draft = path.with_name(f".{path.name}.{token_hex(4)}")
    try:
        if path.exists() or path.is_symlink():
            raise FileExistsError
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        try:
            with open(descriptor, "wb") as file:
                async for chunk in chunks:
                    file.write(chunk)
                file.flush()
                os.fsync(descriptor)
            os.link(draft, path)  # unlike a rename it overwrites nothing that came meanwhile
        finally:
            with suppress(OSError):
                draft.unlink()
        _sync_folder(path.absolute().parent)
        return
    except FileExistsError:
        fault: ConfigProblem | UsageProblem = ConfigProblem(
            f"Nothing was written, because it exists: {path}", code="exists", hint="Choose another name."
        )
    except (OSError, ValueError):
        fault = UsageProblem(
            f"The file cannot be written: {path}", hint="Choose a folder that you may write, with room on its disk."
        )
    raise fault


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

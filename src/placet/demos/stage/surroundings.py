"""Around a demo: its folder, its log, and how it ends early."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import placet


@contextlib.contextmanager
def work_folder(keep: Path | None) -> Iterator[Path]:
    """The folder to keep everything in; one that is gone afterwards if nothing is to be kept."""
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        yield keep
        return
    with tempfile.TemporaryDirectory(prefix="placet-demo-") as folder:
        yield Path(folder)


@contextlib.contextmanager
def json_log(path: Path) -> Iterator[None]:
    """placet's log lines in a file, until the block ends."""
    logger = logging.getLogger("placet")
    handlers, level, propagates = list(logger.handlers), logger.level, logger.propagate
    with path.open("w", encoding="ascii") as stream:
        try:
            placet.configure_logging(stream)
            yield
        finally:
            logger.handlers[:], logger.propagate = handlers, propagates
            logger.setLevel(level)


def let_sigterm_cancel() -> None:
    """End as after Ctrl-C: its processes stopped, the folder gone."""
    task = asyncio.current_task()
    if task is not None:
        # Not the main thread, or a loop that knows no signals.
        with contextlib.suppress(ValueError, RuntimeError, NotImplementedError):
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)

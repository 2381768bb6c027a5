"""The console beside the demo: `placet serve --dev` in a process of its own, on the store that the agent's gate uses.

It knows the same contracts, so it shows exactly what would run; approving there runs nothing. The agent's gate, in the
demo's process, finds the decision in the store.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

_DESK = "PLACET_DEMO_DESK"
_LINK = re.compile(r"http://\S+/console/sign-in#\S+")
_PATIENCE_SECONDS = 60.0
_LOG = "serve.log"
# The story itself lets effects become unknown and settles them; a server that did so meanwhile would spoil it.
_ONE_ROUND = "86400"
_PROJECT = """\
[placet]
store = "placet.db"
tools = "placet.demos.ops.console_tools:TOOLS"

[people.{name}]
tenant = "{tenant}"
scopes = ["approvals.decide", "audit.read", "effects.read"]
"""


def user_name() -> str:
    """Who the console signs in: the user of this machine."""
    return pwd.getpwuid(os.getuid()).pw_name


@contextlib.contextmanager
def console(folder: Path, *, desk_url: str, tenant: str) -> Iterator[str]:
    """Serve the console of the store in `folder`, which is open already; the one-time link to sign in with.

    Raises:
        RuntimeError: the server ended, or was not there in time; then no process is left.
    """
    quoted = '"' + user_name().replace("\\", "\\\\").replace('"', '\\"') + '"'
    (folder / "placet.toml").write_text(_PROJECT.format(name=quoted, tenant=tenant), encoding="utf-8")
    words = [sys.executable, "-m", "placet.cli", "serve", "--dev", "--port", "0", "--interval", _ONE_ROUND]
    with (folder / _LOG).open("wb") as log:
        process = subprocess.Popen(
            words,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={**os.environ, _DESK: desk_url},
        )
    try:
        yield _link(process, folder / _LOG)
    finally:
        process.terminate()
        try:
            process.wait(timeout=_PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _link(process: subprocess.Popen[bytes], log: Path) -> str:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while time.monotonic() < deadline:
        if found := _LINK.search(log.read_text(encoding="utf-8", errors="replace")):
            return found[0]
        if process.poll() is not None:
            break
        time.sleep(0.05)
    raise RuntimeError(f"the console did not start; {_LOG} in the demo's folder (--keep DIR) says why")

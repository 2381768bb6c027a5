"""The demos in processes of their own, which are forked from one that has loaded what they load."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.cli.interpreter import SERVERS, Interpreter

_DEMOS = ("openai", "placet.agent", "placet.knowledge", "placet.demos.ops.program", "placet.demos.support.program")
_FORKING = Interpreter(loads=(*SERVERS, *_DEMOS))


def ended(module: str, environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run to the end, without a terminal."""
    around = {name: value for name, value in environment.items() if not name.startswith("PYTEST_")}
    said = _FORKING.run(arguments, Path.cwd(), around, b"", timeout=120, module=module)
    if said is None:
        return subprocess.run(
            [sys.executable, "-m", module, *arguments],
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            timeout=120,
            check=False,
        )
    return subprocess.CompletedProcess((module, *arguments), said.code, said.out.decode(), said.err.decode())

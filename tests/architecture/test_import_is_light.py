"""`import placet` stays light: heavy libraries load when something uses them."""

import json
import subprocess
import sys

HEAVY = ["apsw", "cryptography", "httpx", "prometheus_client", "pydantic", "rich", "typer"]


def modules_loaded_by(statement: str) -> set[str]:
    """The top-level modules a fresh interpreter holds after the statement, in isolated mode."""
    program = f"{statement}; import json, sys; print(json.dumps(list(sys.modules)))"
    command = [sys.executable, "-I", "-c", program]
    run = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stderr
    return {name.partition(".")[0] for name in json.loads(run.stdout)}


def test_the_probe_would_see_the_heavy_libraries() -> None:
    assert modules_loaded_by(f"import {', '.join(HEAVY)}") >= set(HEAVY)


def test_import_placet_loads_no_heavy_library() -> None:
    loaded = modules_loaded_by("import placet")

    assert "placet" in loaded
    assert loaded.isdisjoint(HEAVY), sorted(loaded.intersection(HEAVY))

"""The rings hold: the import contracts of pyproject.toml, as a test."""

import subprocess
import sys
import tomllib
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]


def test_every_import_contract_is_kept() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
    contracts = len(project["tool"]["importlinter"]["contracts"])

    lint = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache", "--no-logo"],
        cwd=REPOSITORY,
        check=False,
        capture_output=True,
        text=True,
        timeout=100,
    )

    assert lint.returncode == 0, lint.stdout + lint.stderr
    assert f"Contracts: {contracts} kept, 0 broken." in lint.stdout

"""What is rewritten before the workers begin is where pytest looks for it, and what it would have made."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from _pytest.assertion import rewrite

from tests.rewritten import HERE, modules, rewrite_all

FAILS = "def test_it():\n    left = 1\n    assert left == 2\n"


@pytest.fixture
def module(tmp_path: Path) -> Path:
    path = tmp_path / "test_fails.py"
    path.write_text(FAILS, "utf-8")
    return path


def made(folder: Path) -> dict[Path, object]:
    """What pytest reads of each module that was rewritten there."""
    return {path: rewrite._read_pyc(folder / "test_fails.py", path) for path in folder.glob("__pycache__/*")}


def test_it_is_what_pytest_makes_and_is_made_once(module: Path) -> None:
    command = [sys.executable, "-m", "pytest", "-c", os.devnull, "-p", "no:cacheprovider", "--import-mode=importlib"]
    ran = subprocess.run(
        [*command, module.name], env={**os.environ, "PYTHONDONTWRITEBYTECODE": ""}, cwd=module.parent,
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert "assert 1 == 2" in ran.stdout
    theirs = made(module.parent)
    assert rewrite_all([module]) == 0
    for path in theirs:
        path.unlink()

    assert rewrite_all([module]) == 1
    assert made(module.parent) == theirs
    assert None not in theirs.values() and len(theirs) == 1
    assert rewrite_all([module]) == 0


def test_what_has_changed_is_rewritten_and_what_is_no_python_is_left_to_pytest(module: Path) -> None:
    assert rewrite_all([module]) == 1
    module.write_text(FAILS.replace("2", "3"), "utf-8")
    assert rewrite_all([module]) == 1
    module.write_text("def", "utf-8")
    assert rewrite_all([module]) == 0


def test_every_module_with_tests_is_among_them(request: pytest.FixtureRequest) -> None:
    assert {item.path for item in request.session.items} <= set(modules(HERE))

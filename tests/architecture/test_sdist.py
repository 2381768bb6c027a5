"""What a source distribution holds: everything to read, to build and to test."""

import subprocess
import sys
import tarfile
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]


def test_the_documents_travel_with_the_source(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", str(tmp_path)]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False, timeout=100)
    assert done.returncode == 0, done.stderr
    [archive] = tmp_path.iterdir()
    with tarfile.open(archive) as opened:
        names = {name.partition("/")[2] for name in opened.getnames()}

    documents = {path.name for path in REPOSITORY.glob("*.md")}
    documents |= {str(path.relative_to(REPOSITORY)) for path in (REPOSITORY / "docs").rglob("*.md")}
    assert {"README.md", "ARCHITECTURE.md", "SECURITY.md", "docs/errors.md"} <= documents
    assert documents - names == set()
    assert {".ci/run", "LICENSE", "Makefile", "pyproject.toml", "src/placet/__init__.py", "tests/conftest.py"} <= names

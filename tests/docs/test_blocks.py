"""What the documents show, runs; and prints what they say it prints."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.check_docs import REPOSITORY, Block, blocks, documents, programs, shell_lines
from tests.cli.interpreter import SERVERS, Interpreter

SETUPS = Path(__file__).parent / "setup"
PROGRAMS = programs()
SHELLS = [block for document in documents() for block in blocks(document) if "runs" in block.wishes]


_PYTHON = Interpreter("block", loads=SERVERS)
_PLACET = Interpreter(loads=SERVERS)


def _environment() -> dict[str, str]:
    """Ours, and a warning is an error."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    return ours | {"PYTHONWARNINGS": "error"}


def source(program: list[Block]) -> str:
    """One program from its blocks, with a line between the prints of each."""
    parts = [(SETUPS / f"{block.setup}.py").read_text("utf-8") if block.setup else "" for block in program]
    mark = "print('\\N{END OF TEXT}', flush=True)\n"
    return "".join(f"{setup}\n{block.text}\n{mark}" for setup, block in zip(parts, program, strict=True))


def test_there_is_something_to_run() -> None:
    assert [block.document.name for block in PROGRAMS[0]] == ["README.md", "README.md"]
    assert {block.document.name for block in SHELLS} >= {"README.md"}


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program[0].place)
def test_a_python_block_runs_and_prints_what_it_says(program: list[Block], tmp_path: Path) -> None:
    (tmp_path / "block.py").write_text(source(program), "utf-8")

    ran = _PYTHON.run((), tmp_path, _environment(), b"", timeout=60)

    assert ran is not None and ran.code == 0, ran
    assert_it_prints_what_it_says(program, ran.out.decode())


@pytest.mark.exhaustive  # with nothing loaded that it does not load itself
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program[0].place)
def test_a_python_block_runs_in_a_python_of_its_own(program: list[Block], tmp_path: Path) -> None:
    script = tmp_path / "block.py"
    script.write_text(source(program), "utf-8")
    command = [sys.executable, "-W", "error", str(script)]

    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)

    assert ran.returncode == 0, ran.stderr
    assert_it_prints_what_it_says(program, ran.stdout)


def assert_it_prints_what_it_says(program: list[Block], said: str) -> None:
    for block, printed in zip(program, said.split("\N{END OF TEXT}\n"), strict=False):
        if block.prints is not None:
            assert printed == block.prints, block.place


@pytest.mark.parametrize("block", SHELLS, ids=lambda block: block.place)
def test_a_shell_block_runs(block: Block, tmp_path: Path) -> None:
    environment = {**os.environ, "NO_COLOR": "1"}
    programs = tmp_path / "programs"
    programs.mkdir()
    channel = _PLACET.shim(programs / "placet", environment)

    ran = shell(block, tmp_path, environment, programs, inherited=(channel,))

    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.exhaustive  # with the program that is installed
@pytest.mark.parametrize("block", SHELLS, ids=lambda block: block.place)
def test_a_shell_block_runs_with_what_is_installed(block: Block, tmp_path: Path) -> None:
    ran = shell(block, tmp_path, {**os.environ, "NO_COLOR": "1"}, Path(sys.executable).parent)

    assert ran.returncode == 0, ran.stdout + ran.stderr


def shell(
    block: Block, folder: Path, environment: dict[str, str], programs: Path, *, inherited: tuple[int, ...] = ()
) -> subprocess.CompletedProcess[str]:
    script = "set -eu\n" + "\n".join(shell_lines(block)) + "\n"
    return subprocess.run(
        ["sh", "-c", script], cwd=folder, env={**environment, "PATH": f"{programs}:{environment['PATH']}"},
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300, check=False, pass_fds=inherited,
    )  # fmt: skip


def test_the_repository_has_no_traces_of_running_blocks() -> None:
    assert not (REPOSITORY / "orders.db").exists()
    assert shutil.which("sh") is not None

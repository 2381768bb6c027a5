"""The rings hold: the import contracts of pyproject.toml, as a test."""

import ast
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


FRAMEWORKS = {"agents", "dbos", "langchain", "langchain_core", "langgraph", "pydantic_ai", "temporalio"}
OF_EACH = {
    "dbos": {"dbos"},
    "langchain": {"langchain", "langchain_core", "langgraph"},
    "langgraph": {"langchain_core", "langgraph"},
    "openai_agents": {"agents"},
    "pydantic_ai": {"pydantic_ai"},
    "temporal": {"temporalio"},
}


def roots(path: Path) -> set[str]:
    """What a module imports, by top-level name."""
    nodes = list(ast.walk(ast.parse(path.read_text("utf-8"))))
    named = [name.name for node in nodes if isinstance(node, ast.Import) for name in node.names]
    named += [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
    return {name.partition(".")[0] for name in named}


def test_an_integration_imports_its_own_framework_and_no_other() -> None:
    folder = REPOSITORY / "src/placet/integrations"
    found: dict[str, set[str]] = {}
    for path in folder.rglob("*.py"):
        part = path.relative_to(folder).parts[0].removesuffix(".py")
        found[part] = found.get(part, set()) | (roots(path) & FRAMEWORKS)

    assert {part: used for part, used in found.items() if used} == OF_EACH

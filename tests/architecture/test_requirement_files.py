"""What is installed is pinned, hashed, and named without saying where it comes from."""

import re
import tomllib
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "requirements"
COMPILED = sorted(FOLDER.rglob("*.txt"))
FILES = sorted(path for path in FOLDER.rglob("*") if path.is_file())
PIN = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*(\[[a-z0-9,-]+\])?==[A-Za-z0-9.+!]+( ; [^\\]+)?")
HASH = re.compile(r"--hash=sha256:[0-9a-f]{64}")


def entries(text: str) -> list[list[str]]:
    """Each requirement as its pin followed by its hashes; comments and line continuations removed."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    joined = "\n".join(lines).replace("\\\n", "\n")
    found: list[list[str]] = []
    for line in joined.splitlines():
        if not line.strip():
            continue
        if line.startswith(" "):
            found[-1].append(line.strip())
        else:
            found.append([line.strip()])
    return found


def names(file: str) -> dict[str, str]:
    pins = [entry[0].partition(" ;")[0].partition("==") for entry in entries((FOLDER / file).read_text())]
    return {name: version for name, _, version in pins}


def test_each_input_has_its_compiled_file() -> None:
    compiled = {path.with_suffix("") for path in COMPILED}

    assert {FOLDER / "run"} | {path.with_suffix("") for path in FOLDER.rglob("*.in")} == compiled


@pytest.mark.parametrize("path", COMPILED, ids=lambda path: path.name)
def test_every_line_is_a_pin_with_hashes(path: Path) -> None:
    found = entries(path.read_text())

    assert found
    for pin, *hashes in found:
        assert PIN.fullmatch(pin), pin
        assert hashes, f"{pin} has no hash"
        assert all(HASH.fullmatch(value) for value in hashes), pin


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_no_file_names_an_address_or_a_place_on_a_machine(path: Path) -> None:
    text = path.read_text()

    assert "://" not in text
    assert "--index" not in text
    assert "--extra-index" not in text
    assert "--find-links" not in text
    assert not re.search(r"(^|[\s=@])/\w", text)


def test_development_holds_all_that_running_and_building_need_in_the_same_versions() -> None:
    assert names("run.txt").items() <= names("dev.txt").items()
    assert names("build.txt").items() <= names("dev.txt").items()


def test_the_oldest_frameworks_that_are_tried_are_the_oldest_that_the_extras_allow() -> None:
    extras = tomllib.loads((FOLDER.parent / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    lowest = {
        name: bound
        for extra in ("langchain", "openai-agents", "pydantic-ai")
        for name, bound in re.findall(r"([a-z-]+)>=([0-9.]+)", " ".join(extras[extra]))
    }
    tried = {name: re.sub(r"(\.0)+$", "", version) for name, version in names("oldest.txt").items()}
    developed = {name: re.sub(r"(\.0)+$", "", version) for name, version in names("dev.txt").items()}

    assert lowest == {name: (tried | {"pydantic-ai-slim": developed["pydantic-ai-slim"]})[name] for name in lowest}
    assert tried.keys() < lowest.keys()

"""Holds the documents to the code. What it finds wrong, it names with file and line, and exits with 1.

Conventions, in an HTML comment right above a code block:

    <!-- continues -->     the block goes on where the document's previous Python block ended
    <!-- prints -->        the block after it (```text) is exactly what it prints
    <!-- setup: NAME -->   tests/docs/setup/NAME.py runs first, in the same namespace
    <!-- runs -->          a shell block: each line runs, in an empty folder, with this environment's programs on PATH
    <!-- not run -->       a Python block that cannot run; say why in the text

Several words go together, separated by commas. Python and `runs` blocks are run by tests/docs/test_blocks.py. Here,
without running any of them: links and anchors lead somewhere, generated parts are fresh, tests that are named exist,
commands and their options exist, decision records are numbered without gaps and named as sentences.
"""

from __future__ import annotations

import ast
import io
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import cache
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
_FENCE = re.compile(r"^( *)```([\w-]*)\n(.*?)^\1```$", re.S | re.M)
_WISHES = re.compile(r"<!-- ([a-z][a-z0-9:_, -]*) -->\s*\Z")
_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
_TEST_ID = re.compile(r"`(tests/[\w/.-]+\.py)(?:::(\w+))?`")
_ADR = re.compile(r"(\d{4})-([a-z0-9]+(?:-[a-z0-9]+){2,})\.md")
_KNOWN_WISHES = ("continues", "prints", "runs", "not run")


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One fenced block. `prints` is the text block below it, where that is promised."""

    document: Path
    line: int
    language: str
    text: str
    wishes: frozenset[str]
    setup: str | None
    prints: str | None

    @property
    def place(self) -> str:
        return f"{self.document.relative_to(REPOSITORY)}:{self.line}"


def documents() -> list[Path]:
    return [*sorted(REPOSITORY.glob("*.md")), *sorted((REPOSITORY / "docs").rglob("*.md"))]


def blocks(document: Path) -> list[Block]:
    """Every fenced block of a document, in order, with what the comment above it asks for."""
    text = document.read_text("utf-8")
    fences = list(_FENCE.finditer(text))
    found: list[Block] = []
    for index, fence in enumerate(fences):
        above = _WISHES.search(text[: fence.start()])
        wishes = frozenset(wish.strip() for wish in above.group(1).split(",")) if above else frozenset()
        setups = [wish.removeprefix("setup:").strip() for wish in wishes if wish.startswith("setup:")]
        below = fences[index + 1] if index + 1 < len(fences) else None
        found.append(
            Block(
                document=document,
                line=text.count("\n", 0, fence.start()) + 1,
                language=fence.group(2),
                text=_outdented(fence),
                wishes=wishes,
                setup=setups[0] if setups else None,
                prints=_outdented(below) if "prints" in wishes and below is not None else None,
            )
        )
    return found


def programs() -> list[list[Block]]:
    """The Python blocks of all documents, those that continue together with the one they continue."""
    found: list[list[Block]] = []
    for document in documents():
        here: list[list[Block]] = []
        for block in blocks(document):
            if block.language != "python" or "not run" in block.wishes:
                continue
            if "continues" in block.wishes and here:
                here[-1].append(block)
            else:
                here.append([block])
        found.extend(here)
    return found


def shell_lines(block: Block) -> list[str]:
    """The commands of a shell block: continued lines joined, comments and prompts gone."""
    joined = block.text.replace("\\\n", " ")
    lines = [line.strip().removeprefix("$ ") for line in joined.splitlines()]
    return [line for line in lines if line and not line.startswith("#")]


def _outdented(fence: re.Match[str]) -> str:
    indent = fence.group(1)
    return "".join(line.removeprefix(indent) for line in fence.group(3).splitlines(keepends=True))


# ---------------------------------------------------------------- checks


def wrong_wishes() -> Iterator[str]:
    for block in (block for document in documents() for block in blocks(document)):
        for wish in block.wishes:
            if wish not in _KNOWN_WISHES and not wish.startswith(("setup:", "end:", "generated:")):
                yield f"{block.place}: no such convention: {wish}"
        if "prints" in block.wishes and block.prints is None:
            yield f"{block.place}: nothing below says what it prints"
        if block.setup is not None and not (REPOSITORY / "tests" / "docs" / "setup" / f"{block.setup}.py").exists():
            yield f"{block.place}: there is no tests/docs/setup/{block.setup}.py"


def broken_links() -> Iterator[str]:
    for document in documents():
        text = _without_code(document.read_text("utf-8"))
        for link in _LINK.finditer(text):
            target, _, anchor = link.group(1).partition("#")
            if re.match(r"[a-z]+:", target):
                continue
            path = (document.parent / target).resolve() if target else document
            place = f"{document.relative_to(REPOSITORY)}:{text.count(chr(10), 0, link.start()) + 1}"
            if not path.exists() or REPOSITORY not in (path, *path.parents):
                yield f"{place}: the link leads nowhere: {link.group(1)}"
            elif anchor and path.suffix == ".md" and anchor not in _anchors(path):
                yield f"{place}: no such heading: {link.group(1)}"


def missing_tests() -> Iterator[str]:
    for document in documents():
        for path, name in _TEST_ID.findall(document.read_text("utf-8")):
            file = REPOSITORY / path
            if not file.exists() or (name and name not in _functions(file)):
                yield f"{document.relative_to(REPOSITORY)}: there is no {path}{'::' + name if name else ''}"


def stale_parts() -> Iterator[str]:
    program = REPOSITORY / "scripts" / "generated_docs.py"
    ran = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, timeout=60, check=False)
    if ran.returncode != 0:
        yield ran.stderr.strip()


def misnamed_decisions() -> Iterator[str]:
    """Numbered 0001, 0002, … without gaps; the name is the decision; the heading says it again."""
    names = sorted(path.name for path in (REPOSITORY / "docs" / "adr").glob("*.md") if path.name != "README.md")
    for expected, name in enumerate(names, start=1):
        found = _ADR.fullmatch(name)
        if found is None:
            yield f"docs/adr/{name}: the name is NNNN-the-decision-as-a-sentence.md, at least three words"
            continue
        if int(found.group(1)) != expected:
            yield f"docs/adr/{name}: the next number is {expected:04d}"
        heading = (REPOSITORY / "docs" / "adr" / name).read_text("utf-8").split("\n", 1)[0]
        if _slug(heading.removeprefix("# ")) != name.removesuffix(".md"):
            yield f"docs/adr/{name}: the heading {heading!r} says something else"


def unknown_commands() -> Iterator[str]:
    """`placet …` in shell blocks and in running text; nothing is checked before the CLI has a `main`."""
    if not _has_cli():
        return
    for document in documents():
        text = document.read_text("utf-8")
        lines = [line for block in blocks(document) if block.language == "sh" for line in shell_lines(block)]
        inline = re.findall(r"`(placet [^`]+)`", text)
        for line in dict.fromkeys([*lines, *inline]):
            try:
                words = shlex.split(line, comments=True)
            except ValueError:
                words = line.split()
            if words and Path(words[0]).name == "placet":
                yield from (
                    f"{document.relative_to(REPOSITORY)}: {problem}" for problem in _command_problems(words[1:])
                )


CHECKS: tuple[Callable[[], Iterator[str]], ...] = (
    wrong_wishes,
    broken_links,
    missing_tests,
    stale_parts,
    misnamed_decisions,
    unknown_commands,
)


# ---------------------------------------------------------------- within


def _without_code(text: str) -> str:
    """The text with its code blanked, so that lines keep their numbers."""
    blank = _FENCE.sub(lambda fence: "\n" * fence.group(0).count("\n"), text)
    return re.sub(r"`[^`\n]*`", "", blank)


def _anchors(document: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", _FENCE.sub("", document.read_text("utf-8")), re.M)
    return {_slug(heading) for heading in headings}


def _slug(heading: str) -> str:
    return re.sub(r" ", "-", re.sub(r"[^\w\- ]", "", heading.lower()))


@cache
def _functions(file: Path) -> frozenset[str]:
    tree = ast.parse(file.read_text("utf-8"))
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def _has_cli() -> bool:
    tree = ast.parse((REPOSITORY / "src" / "placet" / "cli" / "__init__.py").read_text("utf-8"))
    names = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    return "main" in names


def _command_problems(words: list[str]) -> Iterator[str]:
    """Walk down the sub-commands as far as the words name any; then hold the options against the help."""
    command: tuple[str, ...] = ()
    rest = list(words)
    while rest and rest[0] in _subcommands(command):
        command = (*command, rest.pop(0))
    if not command and rest and not rest[0].startswith("-"):
        yield f"there is no command: placet {rest[0]}"
        return
    help_text = _help(command)
    if help_text is None:
        yield f"there is no command: placet {' '.join(command)}"
        return
    if _subcommands(command) and rest and not rest[0].startswith("-"):
        yield f"there is no command: placet {' '.join((*command, rest[0]))}"
        return
    for word in rest:
        option = word.partition("=")[0]
        if option in ("--help", "-h") or command in (("demo",), ("bench",)):  # those two hand their words on
            continue
        if re.fullmatch(r"--?[a-z][a-z-]*", option) and not re.search(
            rf"(?<![\w-]){re.escape(option)}(?![\w-])", help_text
        ):
            yield f"placet {' '.join(command)} has no option {option}"


@cache
def _help(command: tuple[str, ...]) -> str | None:
    """What the program prints; asked within this process, since one of its own for each would take a minute."""
    from placet.cli import main as placet

    printed, told = _stream(), _stream()
    before = dict(os.environ)
    os.environ.update({"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"})
    try:
        with redirect_stdout(printed), redirect_stderr(told):
            code = placet([*command, "--help"])
    finally:
        os.environ.clear()
        os.environ.update(before)
    printed.flush()
    return printed.buffer.getvalue().decode() if code == 0 else None


def _stream() -> io.TextIOWrapper[io.BytesIO]:
    return io.TextIOWrapper(io.BytesIO(), encoding="utf-8")


@cache
def _subcommands(command: tuple[str, ...]) -> frozenset[str]:
    """The names in the help's list of commands, whichever way it is drawn."""
    text = _help(command) or ""
    _, mark, listed = text.partition("Commands")
    return frozenset(re.findall(r"^[ \u2502|]+([a-z][a-z-]*)\b", listed, re.M)) if mark else frozenset()


def main() -> None:
    problems = [problem for check in CHECKS for problem in check()]
    for problem in problems:
        print(problem)
    if problems:
        sys.exit(f"{len(problems)} problems in the documents")


if __name__ == "__main__":
    main()

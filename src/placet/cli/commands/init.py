"""`placet init`: a project that runs at once, and nothing of yours overwritten."""

from __future__ import annotations

import json
import os
from pathlib import Path
from shlex import quote
from typing import Annotated

import typer

from placet.bootstrap.addresses import named_store, shown_store
from placet.bootstrap.stores import is_key_here, is_made, key_path, lost_store, make_store
from placet.cli.failing import ConfigProblem, NotListed, UsageProblem
from placet.cli.project import finish, user_name
from placet.cli.screen import Screen, shown
from placet.cli.session import Session, epilog, new_app, with_session
from placet.cli.settings import DEFAULT_STORE, FILE_NAME, VARIABLES
from placet.cli.table import Exit
from placet.errors import PlacetError, StoreNotWritable
from placet.rules.addresses import is_other_url, names_database

app = new_app("init")

_TEMPLATES = Path(__file__).resolve().parent.parent / "templates"
_IGNORED = f"{DEFAULT_STORE}*\nnotes.jsonl\n__pycache__/\n"
_PROJECT = """\
# What `placet` reads in this folder and below. Unknown members are refused.

[placet]
store = "{store}"
tools = "tools:TOOLS"

# Who `placet call` proposes for.
[agent]
subject = "agent"
tenant = "local"
roles = ["operator"]
scopes = ["notes.add"]

# Who may decide: one table per user name of this machine. The name comes from the user id, not from here.
"""
_PERSON = """\
[people.{name}]
tenant = "local"
roles = ["operator"]
scopes = ["approvals.decide", "audit.read", "effects.read", "effects.reconcile", "ops.stop"]
"""


@app.command(epilog=epilog())
@with_session
def init(
    session: Session,
    folder: Annotated[str, typer.Argument(metavar="[DIR]", help="The project's folder; made if absent.")] = ".",
    store_only: Annotated[
        bool, typer.Option("--store-only", help="Make only the store and key that placet.toml names.")
    ] = False,
    new_ledger: Annotated[
        bool, typer.Option("--new-ledger", help="With --store-only: also under a key that is there before its store.")
    ] = False,
) -> Exit:
    """Start a project: placet.toml, tools.py, test_tools.py, a store and its key. Nothing is overwritten.

    Its store is placet.db beside placet.toml. For another, or a database, name store and key in placet.toml, then make
    them with --store-only; --store and --key go with that alone. A key that is there already may be that of a store
    whose place was mistyped: in a new one, all that was done under it could be done again. --new-ledger makes it.
    """
    if new_ledger and not store_only:
        raise UsageProblem("--new-ledger goes with --store-only")
    if store_only:
        if folder != ".":
            raise UsageProblem("--store-only makes the store that the settings name; it takes no DIR")
        settings = session.settings
        store, key = settings.store, settings.key_file
        _refuse_existing_store(store)
        if not new_ledger:
            _refuse_existing_key(store, key)
        made = [str(path) for path in (key,) if not path.exists()]
        _make_store(store, settings.key)
        made.insert(0, named_store(store))
    else:
        _refuse_other_store(session)
        _refuse_address(folder)
        target = Path(folder).absolute()
        made = [str(path) for path in _make_project(target)]
        _next_steps(session.screen, target)
    if session.screen.is_text:
        for path in made:
            session.screen.line(f"made  {shown(path)}")
    else:
        session.screen.document("init/1", {"made": made})
    return Exit.OK


def _refuse_address(folder: str) -> None:
    """What looks like the address of a database is no folder's name, and may hold a password: it is not repeated."""
    if names_database(folder) or is_other_url(folder):
        raise UsageProblem(
            "DIR is a folder, and what was said looks like an address",
            hint="Name a database in the project's placet.toml, as store, then: placet init --store-only",
        )


def _refuse_other_store(session: Session) -> None:
    """Nobody is to believe that a new project's store is where they said, and not in placet.db.

    Raises:
        UsageProblem: a flag names another store or key; nothing was made.
    """
    for name in ("store", "key"):
        if session.said[name] is not None:
            raise UsageProblem(
                f"--{name} is not for a new project, whose store is {DEFAULT_STORE}",
                hint="Name store and key in its placet.toml, then: placet init --store-only",
            )
        if os.environ.get(VARIABLES[name]):
            session.screen.warn(
                f"placet: {VARIABLES[name]} is set and wins over the new placet.toml wherever it is set"
            )


def _make_project(folder: Path) -> list[Path]:
    files = {
        folder / FILE_NAME: _PROJECT.format(store=DEFAULT_STORE) + _person(),
        folder / "tools.py": (_TEMPLATES / "tools.py.txt").read_text("utf-8"),
        folder / "test_tools.py": (_TEMPLATES / "test_tools.py.txt").read_text("utf-8"),
    }
    store = folder / DEFAULT_STORE
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _refuse_existing([*files, store, key_path(store)])
        if not (folder / ".gitignore").exists():
            files[folder / ".gitignore"] = _IGNORED
        for path, text in files.items():
            with path.open("x", encoding="utf-8") as file:
                file.write(text)
    except (OSError, ValueError):
        fault: PlacetError = StoreNotWritable(
            f"The project's folder cannot be written: {folder}",
            hint="Choose a folder that you may write, or get write permission.",
        )
    else:
        _make_store(store, None)
        return [*files, store, key_path(store)]
    raise fault


def _refuse_existing(paths: list[Path]) -> None:
    existing = [path for path in paths if path.exists() or path.is_symlink()]
    if existing:
        names = ", ".join(path.name for path in existing)
        raise ConfigProblem(
            f"Nothing was made, because these exist: {names}",
            code="exists",
            hint="Choose another folder: placet init DIR. For a missing store alone: placet init --store-only",
        )


def _refuse_existing_store(store: str | Path) -> None:
    if isinstance(store, Path):
        _refuse_existing([store])
    elif is_made(store):
        raise ConfigProblem(
            f"Nothing was made, because there is a store: {shown_store(store)}",
            code="exists",
            hint="Name another database, or another schema with placet_schema= in the address.",
        )


def _refuse_existing_key(store: str | Path, key: Path) -> None:
    """Raises:
    StoreMissing: it is that of a store that is somewhere else, as far as anybody can tell.
    """
    if is_key_here(key):
        raise lost_store(store, key)


def _make_store(store: str | Path, key: Path | None) -> None:
    async def opened() -> None:
        _, made = make_store(store, key=key)
        await made.close()

    finish(opened())


def _person() -> str:
    """The table that lists whoever runs this; a hint if the system has no name for the user id."""
    try:
        return _PERSON.format(name=json.dumps(user_name()))
    except NotListed:
        return "# " + _PERSON.format(name="mara").replace("\n", "\n# ").removesuffix("# ")


def _next_steps(screen: Screen, folder: Path) -> None:
    steps = [f"cd {quote(str(folder))}"] if folder != Path.cwd() else []
    steps += [
        "placet tools list",
        "placet call --tool list_notes",
        """placet call --tool add_note --args '{"title": "milk", "text": "two bottles"}' --run first --call-id c1""",
        "placet approvals list          # then show, then approve what was shown",
        "# then the same call again: added once, however often you ask",
        "placet audit verify",
    ]
    screen.talk("Next:")
    for step in steps:
        screen.talk(f"  {shown(step) if step.startswith('cd ') else step}")
    screen.talk("The key file signs approvals and opens the store: keep it out of version control, and back it up.")
    screen.talk("Run agents as an OS user of their own: whoever runs as a user listed under [people] can decide as it.")

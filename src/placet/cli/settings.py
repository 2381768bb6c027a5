"""Where store, key, policy, tools and people are: flag > environment > placet.toml > default.

There is no file per user: whoever can write the file that lists people can list themselves, and which store and tools
are meant must not depend on who asks.

placet.toml is closed: a member it does not know is refused with the nearest one it knows, because a misspelt
`[people]` entry must not silently leave somebody out, or in.
"""

from __future__ import annotations

import os
import re
import tomllib
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from placet.cli.admission import admission_of
from placet.cli.ages import age_seconds
from placet.cli.failing import ConfigProblem
from placet.cli.notifying import announcements_of
from placet.cli.serving import listening_of
from placet.cli.upstreams import upstreams_of
from placet.errors import ConfigurationError, MisuseError
from placet.model.admission import Admission
from placet.model.destinations import Announcements
from placet.model.principal import Principal
from placet.model.retention import Retention, is_retention
from placet.model.serving import Listening
from placet.model.upstreams import Upstream
from placet.rules.addresses import may_be_address, names_database, refuse_other_url, shown_word
from placet.rules.serving import CONSOLE_ROOT

FILE_NAME = "placet.toml"
DEFAULT_STORE = "placet.db"
PINS_NAME = "placet.pins.json"
"""What was accepted of the upstreams, beside the project file."""
_LARGEST_FILE = 1_000_000

_SECTIONS = ("placet", "agent", "people", "retention", "sign_in", "notify", "serve", "upstreams")
_MEMBERS = {
    "placet": ("store", "key", "tools", "policy", "shadow", "console_url", "workflows"),
    "agent": ("subject", "tenant", "roles", "scopes"),
    "people": ("tenant", "roles", "scopes"),
    "retention": ("operations", "audit"),
}
_PLACE = re.compile(r"\(at [^()]{1,60}\)\Z")


class Origin(StrEnum):
    """Who said it."""

    FLAG = "flag"
    ENVIRONMENT = "environment"
    FILE = "file"
    DEFAULT = "default"


VARIABLES = {
    "config": "PLACET_CONFIG",
    "store": "PLACET_STORE",
    "key": "PLACET_KEY",
    "policy": "PLACET_POLICY",
    "shadow": "PLACET_SHADOW",
}
"""The setting and its environment variable. An empty one says nothing."""
_OTHER_VARIABLES = ("PLACET_DEBUG",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What the command line, the environment and the project file say together.

    Attributes:
        file: the project file that was read; None if there is none.
        folder: where its relative paths and its tools module are looked for.
        store: a path, or as text the URL of a PostgreSQL database.
        key: None leaves it to `<store>.key`.
        policy: the file that says what an ask needs; None where none is named.
        shadow: a policy file that is asked as well, and decides nothing; None where none is named.
        workflows: where the workflows are that `placet worker` drives, as module:ATTRIBUTE.
        people: who may decide, by their user name.
        retention: how long finished things are kept; for ever where the file says nothing.
        admission: who is let in at the front doors, and how often.
        announcements: where what happens is announced.
        listening: where the front doors are served, and as whom the world knows them.
        upstreams: servers whose tools are called through the gate.
        origins: who said each of them, by the name of the setting.
    """

    file: Path | None
    folder: Path
    store: str | Path
    key: Path | None
    policy: Path | None = None
    shadow: Path | None = None
    tools: str | None = None
    workflows: str | None = None
    agent: Principal | None = None
    people: dict[str, Principal] = field(default_factory=dict)
    retention: Retention = field(default_factory=Retention)
    admission: Admission = field(default_factory=Admission)
    announcements: Announcements = field(default_factory=Announcements)
    listening: Listening = field(default_factory=Listening)
    upstreams: tuple[Upstream, ...] = ()
    origins: dict[str, Origin] = field(default_factory=dict)

    @property
    def pins_file(self) -> Path:
        return self.folder / PINS_NAME

    @property
    def key_file(self) -> Path:
        """The key file, as it was named, or beside the store.

        Raises:
            ConfigProblem: a database has no place beside it, and no file was named.
        """
        if self.key is not None:
            return self.key
        if isinstance(self.store, Path):
            return self.store.with_name(self.store.name + ".key")
        raise ConfigProblem(
            "A PostgreSQL store needs its key file named.",
            hint="Say where it is: --key, PLACET_KEY, or key in placet.toml.",
        )


def read_settings(
    *, config: str | None, store: str | None, key: str | None, policy: str | None = None, shadow: str | None = None
) -> Settings:
    """Flags, as given or None, over the environment, over the project file, over the defaults.

    Raises:
        ConfigProblem: the project file is absent where it was said to be, unreadable, or says something unknown.
    """
    said_config, config_origin = _said(config, "config", None)
    file = _project_file(said_config)
    folder = file.parent if file is not None else Path.cwd()
    document = _read(file) if file is not None else {}
    placet = _table(document, "placet", file)
    own_store, own_key, own_policy, own_shadow = (
        _text(placet, name, "placet", file) for name in ("store", "key", "policy", "shadow")
    )
    said_store, store_origin = _said(store, "store", own_store)
    said_key, key_origin = _said(key, "key", own_key)
    said_policy, policy_origin = _said(policy, "policy", own_policy)
    said_shadow, shadow_origin = _said(shadow, "shadow", own_shadow)
    tools, console_url = _text(placet, "tools", "placet", file), _text(placet, "console_url", "placet", file)
    workflows = _text(placet, "workflows", "placet", file)
    agent, people = _agent(document, file), _people(document, file)
    origins = {
        "config": config_origin,
        "store": store_origin,
        "key": key_origin,
        "policy": policy_origin,
        "shadow": shadow_origin,
        "tools": Origin.FILE if tools is not None else Origin.DEFAULT,
        "workflows": Origin.FILE if workflows is not None else Origin.DEFAULT,
        "agent": Origin.FILE if agent is not None else Origin.DEFAULT,
        "people": Origin.FILE if people else Origin.DEFAULT,
        "retention": Origin.FILE if document.get("retention") else Origin.DEFAULT,
        "sign_in": Origin.FILE if document.get("sign_in") else Origin.DEFAULT,
        "notify": Origin.FILE if document.get("notify") else Origin.DEFAULT,
        "serve": Origin.FILE if document.get("serve") else Origin.DEFAULT,
        "upstreams": Origin.FILE if document.get("upstreams") else Origin.DEFAULT,
    }
    listening = listening_of(document.get("serve"), file=file, folder=folder)
    return Settings(
        file=file,
        folder=folder,
        store=_store(said_store, own_store or DEFAULT_STORE, folder),
        key=_file("key", said_key, own_key, folder),
        policy=_file("policy", said_policy, own_policy, folder),
        shadow=_file("shadow", said_shadow, own_shadow, folder),
        tools=tools,
        workflows=workflows,
        agent=agent,
        people=people,
        retention=_retention(document, file),
        admission=admission_of(document.get("sign_in"), public_url=listening.public_url, file=file, folder=folder),
        announcements=announcements_of(
            document.get("notify"), _console_url(console_url, listening, file), file=file, folder=folder
        ),
        listening=listening,
        upstreams=upstreams_of(document.get("upstreams"), file=file, folder=folder),
        origins=origins,
    )


def _console_url(said: str | None, listening: Listening, file: Path | None) -> str | None:
    """Where messages link to: what the file says, or else where this site says that it is.

    Raises:
        ConfigProblem: it says two places.
    """
    if listening.public_url is None:
        return said
    found = listening.public_url + CONSOLE_ROOT
    if said is not None and said.rstrip("/") != found:
        raise ConfigProblem(
            f"'console_url' in [placet] of {file} and 'public_url' in [serve] name two places",
            hint="Leave console_url out: it is public_url with /console behind it.",
        )
    return found


def unknown_variables() -> dict[str, str | None]:
    """Environment variables that look like ours and are not, with the one that was probably meant. Never a value."""
    from difflib import get_close_matches

    known = (*VARIABLES.values(), *_OTHER_VARIABLES)
    found = sorted(name for name in os.environ if name.startswith("PLACET") and name not in known)
    return {name: next(iter(get_close_matches(name, known, n=1, cutoff=0.7)), None) for name in found}


def _said(flag: str | None, name: str, own: str | None) -> tuple[str | None, Origin]:
    """What flag or environment say, or nothing; and who says it in the end."""
    variable = os.environ.get(VARIABLES[name])
    if flag:
        return flag, Origin.FLAG
    if variable:
        return variable, Origin.ENVIRONMENT
    return None, Origin.FILE if own is not None else Origin.DEFAULT


def _project_file(said: str | None) -> Path | None:
    if said is not None:
        _refuse_address("config", said)
        path = Path(said).absolute()
        if not path.is_file():
            raise ConfigProblem(
                f"There is no project file at {path}",
                code="config_missing",
                hint=f"Name one that is there, by --config or {VARIABLES['config']}. A new project: placet init DIR",
            )
        return path
    here = Path.cwd()
    return next((each / FILE_NAME for each in (here, *here.parents) if (each / FILE_NAME).is_file()), None)


def _read(file: Path) -> dict[str, Any]:
    try:
        raw = file.read_bytes()[: _LARGEST_FILE + 1]
        if len(raw) > _LARGEST_FILE:
            raise ConfigProblem(f"The project file is too large: {file}")
        document = tomllib.loads(raw.decode("utf-8"))
    except tomllib.TOMLDecodeError as error:
        place = _PLACE.search(str(error))  # the rest of the text may repeat the file
        fault = ConfigProblem(
            f"{file} is not sound TOML {place[0] if place else ''}".rstrip(),
            hint="Mend it there: a table is [people.mara], a text stands in quotes, a list in brackets.",
        )
    except UnicodeDecodeError:
        fault = ConfigProblem(f"{file} is not UTF-8")
    except OSError:
        fault = ConfigProblem(
            f"The project file cannot be read: {file}", hint="Give this user permission to read it, or name another."
        )
    else:
        _refuse_unknown(document, _SECTIONS, "", file)
        return document
    raise fault


def _agent(document: dict[str, Any], file: Path | None) -> Principal | None:
    table = _table(document, "agent", file)
    if not table:
        return None
    subject = _required(table, "subject", "agent", file)
    tenant = _required(table, "tenant", "agent", file)
    roles, scopes = _texts(table, "roles", "agent", file), _texts(table, "scopes", "agent", file)
    try:
        return Principal.agent(subject, tenant=tenant, roles=roles, scopes=scopes)
    except MisuseError as error:
        message = str(error)
    raise ConfigProblem(f"[agent] in {file}: {message}")


def people_in(file: Path) -> dict[str, Principal]:
    """Who may decide, by their user name, as the file says now.

    Raises:
        ConfigProblem: it cannot be read, or says something unknown.
    """
    return _people(_read(file), file)


def _people(document: dict[str, Any], file: Path | None) -> dict[str, Principal]:
    people = document.get("people", {})
    if type(people) is not dict or any(type(entry) is not dict for entry in people.values()):
        raise ConfigProblem(f"[people] in {file} holds one table per person: [people.mara]")
    return {name: _person(name, entry, file) for name, entry in people.items()}


def _person(name: str, table: dict[str, Any], file: Path | None) -> Principal:
    section = f"people.{shown_word(name)}"
    _refuse_unknown(table, _MEMBERS["people"], section, file)
    tenant = _required(table, "tenant", section, file)
    roles, scopes = _texts(table, "roles", section, file), _texts(table, "scopes", section, file)
    try:
        return Principal.person(name, tenant=tenant, roles=roles, scopes=scopes)
    except MisuseError as error:
        message = str(error)
    raise ConfigProblem(f"[{section}] in {file}: {message}")


def _retention(document: dict[str, Any], file: Path | None) -> Retention:
    table = _table(document, "retention", file)
    operations, audit = (_age(table, name, file) for name in ("operations", "audit"))
    return Retention(seconds=operations, audit_seconds=audit)


def _age(table: dict[str, Any], name: str, file: Path | None) -> float | None:
    said = _text(table, name, "retention", file)
    seconds = None if said is None else age_seconds(said)
    if said is not None and not is_retention(seconds):
        raise ConfigProblem(f'{name!r} in [retention] of {file} is an age of one day or more, such as "90d"')
    return seconds


# ---------------------------------------------------------------- members


def _table(document: dict[str, Any], name: str, file: Path | None) -> dict[str, Any]:
    table: object = document.get(name, {})
    if type(table) is not dict:
        raise ConfigProblem(f"{name!r} in {file} is a table: [{name}]")
    _refuse_unknown(table, _MEMBERS[name], name, file)
    return table


def _refuse_unknown(table: dict[str, Any], known: tuple[str, ...], section: str, file: Path | None) -> None:
    for name in table:
        if name not in known:
            from difflib import get_close_matches

            where = f"[{section}]" if section else "the top level"
            nearest = get_close_matches(name, known, n=1, cutoff=0.5)
            meant = f"Did you mean {nearest[0]!r}?" if nearest else f"Known there: {', '.join(known)}."
            raise ConfigProblem(f"{file} has an unknown member {shown_word(name)!r} at {where}", hint=meant)


def _text(table: dict[str, Any], name: str, section: str, file: Path | None) -> str | None:
    value = table.get(name)
    if value is None or (type(value) is str and value):
        return value
    raise ConfigProblem(f"{name!r} in [{section}] of {file} is a text that is not empty")


def _required(table: dict[str, Any], name: str, section: str, file: Path | None) -> str:
    value = _text(table, name, section, file)
    if value is None:
        raise ConfigProblem(f"[{section}] in {file} needs {name!r}")
    return value


def _texts(table: dict[str, Any], name: str, section: str, file: Path | None) -> tuple[str, ...]:
    value = table.get(name, [])
    if type(value) is list and all(type(each) is str for each in value):
        return tuple(value)
    raise ConfigProblem(f"{name!r} in [{section}] of {file} is a list of texts")


def _store(said: str | None, own: str | None, folder: Path) -> str | Path:
    """The URL of a database as it is; a path as `_path` says.

    Raises:
        ConfigProblem: it is the URL of something else.
    """
    where = said if said is not None else own
    if where is not None and names_database(where):
        return where
    try:
        refuse_other_url(where or "")
    except ConfigurationError as refused:
        problem = ConfigProblem(str(refused), hint=refused.hint)
    else:
        return _path(said, own, folder)
    raise problem


def _file(name: str, said: str | None, own: str | None, folder: Path) -> Path | None:
    """
    Raises:
        ConfigProblem: an address stands where a path belongs.
    """
    where = said or own
    if not where:
        return None
    _refuse_address(name, where)
    return _path(said, own, folder)


def _refuse_address(name: str, where: str) -> None:
    if may_be_address(where):
        raise ConfigProblem(
            f"What is given as {name} looks like an address, and is the path of a file.",
            hint="Name the file. A database is named by --store, PLACET_STORE, or store in placet.toml.",
        )


def _path(said: str | None, own: str | None, folder: Path) -> Path:
    """What a person typed counts from where they stand; what the file says counts from the file."""
    return Path(said).absolute() if said is not None else folder / Path(own or DEFAULT_STORE)

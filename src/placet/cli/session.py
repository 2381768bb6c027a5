"""What every command is given: its screen, its settings, and how to reach store, tools and people.

`with_session` adds the common flags to a command's own; the command itself takes a `Session` first.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cached_property
from typing import Annotated, Any, Concatenate, ParamSpec

import typer

from placet.cli.remote import Server, server_of
from placet.cli.screen import Form, Screen
from placet.cli.settings import Settings, read_settings
from placet.cli.table import COMMANDS, Exit, exit_code_help

Own = ParamSpec("Own")

_AsJson = Annotated[bool, typer.Option("--json", help="Write one JSON document; errors too.")]
_AsLines = Annotated[bool, typer.Option("--jsonl", help="Write one JSON document per line.")]
_Config = Annotated[str | None, typer.Option("--config", metavar="FILE", help="The project file.")]
_Store = Annotated[str | None, typer.Option("--store", metavar="FILE", help="The store, or a postgresql:// address.")]
_Key = Annotated[str | None, typer.Option("--key", metavar="FILE", help="The store's key file; a database needs it.")]
_Policy = Annotated[str | None, typer.Option("--policy", metavar="FILE", help="The policy file.")]
_Shadow = Annotated[
    str | None, typer.Option("--shadow", metavar="FILE", help="A policy file that is asked too, and decides nothing.")
]
_Server = Annotated[
    str | None, typer.Option("--server", metavar="URL", help="Ask this server; nothing of the project here is read.")
]
_TokenFile = Annotated[
    str | None, typer.Option("--token-file", metavar="FILE", help="What to sign in to the server with, of mode 0600.")
]
_NoColor = Annotated[bool, typer.Option("--no-color", help="No colour, like NO_COLOR=1.")]
_Quiet = Annotated[bool, typer.Option("--quiet", help="Only data and errors.")]
_Local = Annotated[bool, typer.Option("--local", help="Times in this machine's zone instead of UTC.")]


class Session:
    """One command's surroundings. Settings are read when something asks for them.

    Attributes:
        said: what flags name, by the name of the setting; None for a flag that was not given.
    """

    def __init__(
        self,
        *,
        as_json: bool,
        config_file: str | None,
        store_file: str | None,
        key_file: str | None,
        policy_file: str | None = None,
        shadow_file: str | None = None,
        no_color: bool,
        quiet: bool,
        local: bool,
        as_lines: bool = False,
        server_url: str | None = None,
        token_file: str | None = None,
    ) -> None:
        form = Form.LINES if as_lines else Form.JSON if as_json else Form.TEXT
        self.screen = Screen(form=form, is_quiet=quiet, no_color=no_color, is_local=local)
        self._server = (server_url, token_file)
        self.said = {
            "config": config_file,
            "store": store_file,
            "key": key_file,
            "policy": policy_file,
            "shadow": shadow_file,
        }

    @cached_property
    def server(self) -> Server | None:
        """The server that is asked instead of the project here, where one is named.

        Raises:
            UsageProblem: half of it is named, or the store here as well.
        """
        return server_of(*self._server, local=self.said)

    @property
    def there(self) -> str:
        """What commands that are told as a next step have to name as well: the server, if one is asked."""
        return "" if self.server is None else self.server.flags

    @cached_property
    def settings(self) -> Settings:
        return read_settings(**self.said)


_COMMON: dict[str, tuple[Any, Any]] = {
    "as_json": (_AsJson, False),
    "config_file": (_Config, None),
    "store_file": (_Store, None),
    "key_file": (_Key, None),
    "policy_file": (_Policy, None),
    "shadow_file": (_Shadow, None),
    "no_color": (_NoColor, False),
    "quiet": (_Quiet, False),
    "local": (_Local, False),
}


_SERVED: dict[str, tuple[Any, Any]] = {"server_url": (_Server, None), "token_file": (_TokenFile, None)}


def with_session(command: Callable[Concatenate[Session, Own], Exit]) -> Callable[..., int]:
    """The command with the common flags after its own."""
    return _extended(command, _COMMON)


def with_list_session(command: Callable[Concatenate[Session, Own], Exit]) -> Callable[..., int]:
    """The same for a command that lists, which also writes JSON Lines."""
    return _extended(command, {"as_lines": (_AsLines, False), **_COMMON})


def with_served_session(command: Callable[Concatenate[Session, Own], Exit]) -> Callable[..., int]:
    """The command with the common flags after its own, and those that name a server to ask instead."""
    return _extended(command, {**_COMMON, **_SERVED})


def with_served_list_session(command: Callable[Concatenate[Session, Own], Exit]) -> Callable[..., int]:
    """The same for a command that may ask a server instead."""
    return _extended(command, {"as_lines": (_AsLines, False), **_COMMON, **_SERVED})


def _extended(
    command: Callable[Concatenate[Session, Own], Exit], common: dict[str, tuple[Any, Any]]
) -> Callable[..., int]:
    _, *own = inspect.signature(command, eval_str=True).parameters.values()
    keyword = inspect.Parameter.KEYWORD_ONLY
    added = [inspect.Parameter(n, keyword, default=d, annotation=a) for n, (a, d) in common.items()]
    parameters = [*(parameter.replace(kind=keyword) for parameter in own), *added]

    def call(**given: Any) -> int:
        session = Session(**{name: given.pop(name) for name in common})
        run: Callable[..., Exit] = command
        return int(run(session, **given))

    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # typer reads it, and only it
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    call.__doc__ = command.__doc__
    return call


def new_app(name: str) -> typer.Typer:
    """The typer app of one entry of the table: plain help, no completion, no tracebacks of its own."""
    entry = COMMANDS[name]
    app = typer.Typer(
        name=name,
        help=entry.does,
        epilog=epilog(),
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        add_completion=False,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    )
    if entry.verbs:
        app.callback()(_nothing)  # a group stays one, however few verbs it has
    return app


def _nothing() -> None: ...


def epilog() -> str:
    """The exit codes, kept as lines."""
    return "\b\n" + exit_code_help()

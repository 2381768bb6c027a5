"""What could come next on a command line, for the shells' scripts; see `placet completion`.

typer has a machinery of its own for this. Its zsh script evaluates what the program prints, and its parts are private;
ours prints values and words about them, which no shell evaluates.

Invariants:
- Nothing is opened for writing, nothing is made, and none of the project's code runs: a folder is not trusted because
  somebody pressed a key in it. Tools are found by reading their module's text.
- A suggestion is a word that no shell reads anything into; arguments of calls are never shown.
- Whatever goes wrong, there are fewer suggestions.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from placet.cli.table import COMMANDS, Entry

_SAFE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:@+-]{0,127}|-{1,2}[a-z][a-z-]*")
_TALK = re.compile(r"[^A-Za-z0-9 .,:_+=\u2019-]|(?<![A-Za-z0-9])=|=(?![A-Za-z0-9])")
_HARMLESS = {";": ",", "'": "\u2019"}
"""What a reader needs and a shell would act on, and what says the same to the reader only."""
_LONGEST_ABOUT = 100
_MANY = 50
_LARGEST_MODULE = 1_000_000
_TAKES_SETTINGS = ("--config", "--store", "--key", "--policy", "--shadow", "--server")


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggestion:
    """A word that could come next, and a few words about it."""

    word: str
    about: str = ""


@dataclass(slots=True, kw_only=True)
class _Line:
    """The command line so far, taken apart.

    Attributes:
        said: values of the options that say where store, key and project file are, or which server is asked.
        places: how many arguments that are no options came before.
        wants: the option whose value comes next, if one does.
    """

    said: dict[str, str] = field(default_factory=dict)
    places: int = 0
    wants: Any = None


def completion_lines(words: Sequence[str]) -> str:
    """Suggestions for the last of the words after `placet`, one a line: the word, a tab, and what it is about."""
    try:
        *before, begun = _joined(words) or [""]
        found = [each for each in _suggestions(before, begun) if each.word.startswith(begun)]
    except (Exception, SystemExit):  # at the prompt there is nobody to tell
        return ""
    return "".join(f"{each.word}\t{_about(each)}\n" for each in found[:_MANY] if _SAFE.fullmatch(each.word))


def _about(suggestion: Suggestion) -> str:
    """Some shells put what it is about on the line as well, so nothing in it means anything to a shell."""
    about = suggestion.about
    for character, harmless in _HARMLESS.items():
        about = about.replace(character, harmless)
    return _TALK.sub("", about)[:_LONGEST_ABOUT]


def _joined(words: Sequence[str]) -> list[str]:
    """bash gives `--store=x` as three words; `--store x` means the same."""
    kept = [word for word in words if word != "="]
    return [*kept, ""] if words and words[-1] == "=" else kept


def _suggestions(before: list[str], begun: str) -> Iterable[Suggestion]:
    match before:
        case []:
            return (Suggestion(word=entry.name, about=entry.does) for entry in COMMANDS.values())
        case [name] if name in COMMANDS and COMMANDS[name].verbs and not begun.startswith("-"):
            return (Suggestion(word=verb, about=does) for verb, does in COMMANDS[name].verbs.items())
        case [name, *rest] if name in COMMANDS:
            return _of_command(COMMANDS[name], rest, begun)
        case _:
            return ()


def _of_command(entry: Entry, words: list[str], begun: str) -> Iterable[Suggestion]:
    command, verb = _command(entry, words)
    if command is None:
        return ()
    line = _read(command, words[1:] if verb else words)
    if line.wants is None and begun.startswith("-"):
        return _options(command)
    name = line.wants.name if line.wants is not None else f"#{line.places}"
    values = _VALUES.get((entry.name, verb, name)) or _VALUES.get((entry.name, "", name))
    return values(line) if values is not None else ()


def _command(entry: Entry, words: list[str]) -> tuple[Any, str]:
    """The typer command of the words, and its verb."""
    import typer

    app: Any = import_module(entry.module).app
    command: Any = typer.main.get_command(app)
    if not entry.verbs:
        return command, ""
    verb = words[0] if words else ""
    return command.commands.get(verb), verb


def _read(command: Any, words: Iterable[str]) -> _Line:
    options = {opt: param for param in command.params for opt in getattr(param, "opts", ()) if opt.startswith("-")}
    line = _Line()
    for word in words:
        name, has_value, value = word.partition("=")
        if line.wants is not None:
            _say(line, line.wants, word)
            line.wants = None
        elif name.startswith("-") and name in options:
            if has_value:
                _say(line, options[name], value)
            elif not getattr(options[name], "is_flag", False):
                line.wants = options[name]
        elif not word.startswith("-"):
            line.places += 1
    return line


def _say(line: _Line, option: Any, value: str) -> None:
    for name in _TAKES_SETTINGS:
        if name in option.opts:
            line.said[name.removeprefix("--")] = value


def _options(command: Any) -> Iterator[Suggestion]:
    for param in command.params:
        for option in param.opts:
            if option.startswith("--"):
                yield Suggestion(word=option, about=getattr(param, "help", None) or "")
    yield Suggestion(word="--help", about="Say more.")


# ---------------------------------------------------------------- values


def _settings(line: _Line) -> Any:
    from placet.cli.settings import read_settings

    said = line.said
    return read_settings(
        config=said.get("config"),
        store=said.get("store"),
        key=said.get("key"),
        policy=said.get("policy"),
        shadow=said.get("shadow"),
    )


def _pending(line: _Line) -> Iterator[Suggestion]:
    """Approvals that wait here, as far as their signatures hold; of the arguments nothing. No key that somebody presses
    sends a credential anywhere, so of a server's nothing.
    """
    from placet.bootstrap.looking import peek_at_pending
    from placet.cli.project import person

    if "server" in line.said:
        return
    settings = _settings(line)
    tenant = person(settings).tenant
    for question in peek_at_pending(settings.store, key=settings.key, tenant=tenant, limit=_MANY):
        yield Suggestion(word=question.approval_id, about=f"{question.tool}, asked {question.asked_at:%Y-%m-%d %H:%M}Z")


def _key_ids(line: _Line) -> Iterator[Suggestion]:
    from placet.bootstrap.records import store_keys
    from placet.ports.keys import KeyState

    settings = _settings(line)
    for fact in store_keys(settings.key_file).facts():
        if fact.state is KeyState.OLD:
            yield Suggestion(word=fact.key_id, about=fact.state.value)


def _tool_names(line: _Line) -> Iterator[Suggestion]:
    """What the text of the tools module declares with a decorator or a call named `tool`; made-up ones are missed."""
    settings = _settings(line)
    module, _, _ = (settings.tools or "").partition(":") if "server" not in line.said else ("", "", "")
    if not re.fullmatch(r"[A-Za-z_][\w.]*", module, re.ASCII):
        return
    place = settings.folder.joinpath(*module.split("."))
    file = next(each for each in (place.with_suffix(".py"), place / "__init__.py") if each.is_file())
    with file.open("rb") as opened:
        text = opened.read(_LARGEST_MODULE)
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for decorator in node.decorator_list:
                if _is_tool(decorator):
                    summary = (ast.get_docstring(node) or "").partition("\n")[0]
                    yield Suggestion(word=_named(decorator) or node.name, about=summary)


def _is_tool(decorator: ast.expr) -> bool:
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    return (called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")) == "tool"


def _named(decorator: ast.expr) -> str | None:
    for keyword in decorator.keywords if isinstance(decorator, ast.Call) else ():
        if keyword.arg == "name" and isinstance(keyword.value, ast.Constant) and type(keyword.value.value) is str:
            return keyword.value.value
    return None


def _words_of(place: str) -> Callable[[_Line], Iterator[Suggestion]]:
    """The values of an enum, given as module:NAME."""

    def values(line: _Line) -> Iterator[Suggestion]:
        module, _, name = place.partition(":")
        for each in getattr(import_module(module), name):
            yield Suggestion(word=each.value)

    return values


_VALUES: dict[tuple[str, str, str], Callable[[_Line], Iterator[Suggestion]]] = {
    **{
        ("approvals", verb, "#0"): _pending for verb in ("show", "approve", "deny", "edit", "withdraw", "withdraw-vote")
    },
    ("approvals", "list", "state"): _words_of("placet.model.approval:ApprovalState"),
    ("effects", "list", "state"): _words_of("placet.model.effect:EffectState"),
    ("runs", "list", "left_open"): _words_of("placet.model.run:LeftOpen"),
    ("runs", "list", "status"): _words_of("placet.model.run:RunStatus"),
    ("keys", "retire", "#0"): _key_ids,
    ("keys", "retire", "losing"): _words_of("placet.engine.custody:Loss"),
    ("tools", "show", "#0"): _tool_names,
    ("tools", "show", "provider"): _words_of("placet.model.projection:Provider"),
    ("call", "", "tool"): _tool_names,
}
"""By command, verb, and option or place of an argument."""

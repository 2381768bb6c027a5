"""From words to a command, and from whatever happens to an exit code. No traceback gets past here."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from placet.cli.failing import UsageProblem, exit_of_error, hint_of
from placet.cli.screen import Form, Screen, shown
from placet.cli.table import COMMANDS, Entry, Exit
from placet.errors import PlacetError


def run(entry: Entry, words: Sequence[str]) -> int:
    """Run one command of the table."""
    return _guarded(lambda: _typed(entry, words), words)


def unknown_command(name: str, words: Sequence[str]) -> int:
    """Refuse a word that is no command, naming the nearest."""
    from difflib import get_close_matches

    nearest = get_close_matches(name, COMMANDS, n=1)
    hint = f"Did you mean {nearest[0]!r}?" if nearest else "See: placet --help"

    def refuse() -> int:
        raise UsageProblem(f"There is no command {name!r}", hint=hint)

    return _guarded(refuse, words)


def _typed(entry: Entry, words: Sequence[str]) -> int:
    import typer

    module: Any = import_module(entry.module)
    usage_error: Any = typer.BadParameter.__base__  # typer's own name for it is private
    try:
        code: object = module.app(args=list(words), prog_name=f"placet {entry.name}", standalone_mode=False)
    except usage_error as error:
        path = error.ctx.command_path if error.ctx is not None else f"placet {entry.name}"
        fault = UsageProblem(error.format_message().rstrip("."), hint=f"See: {path} --help")
    except typer.Abort:
        return Exit.INTERRUPTED
    else:
        return code if isinstance(code, int) else Exit.OK
    raise fault


def _guarded(work: Callable[[], int], words: Sequence[str]) -> int:
    """The exit code of the work, whatever it raises."""
    screen = Screen(form=_form_of(words))
    try:
        code = int(work())
        sys.stdout.flush()
        return code
    except PlacetError as error:
        return _told(screen, error)
    except KeyboardInterrupt:
        screen.warn("placet: interrupted")
        return Exit.INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or the interpreter complains at its end
        return Exit.FAILED
    except Exception as error:
        return _unexpected(screen, error)


def _told(screen: Screen, error: PlacetError) -> int:
    code = exit_of_error(error)
    told = str(error).rstrip(".") + "."
    if screen.is_text:
        screen.warn(f"placet: {shown(told)}")
        screen.warn(f"  code: {shown(error.code)}")
        if hint := hint_of(error):
            screen.warn(f"  next: {shown(hint)}")
    else:
        screen.document(
            "error/1",
            {
                "code": error.code,
                "message": told,
                "hint": hint_of(error),
                "retryable": error.retryable,
                "exit_code": int(code),
            },
        )
    return code


def _unexpected(screen: Screen, error: Exception) -> int:
    from placet.rules.redaction import safe_exception_name

    if os.environ.get("PLACET_DEBUG") == "1":
        import traceback

        traceback.print_exc()
    name = safe_exception_name(error)
    hint = "PLACET_DEBUG=1 shows where. Please report it."
    return _told(screen, PlacetError(f"placet failed unexpectedly: {name}", code="unexpected", hint=hint))


def _form_of(words: Sequence[str]) -> Form:
    """What the words ask for, read before they are understood, so that wrong usage is told in that form too."""
    flags = words[: words.index("--")] if "--" in words else words
    if "--jsonl" in flags:
        return Form.LINES
    return Form.JSON if "--json" in flags else Form.TEXT

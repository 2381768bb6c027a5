"""From words to a command, and from whatever happens to an exit code. No traceback gets past here."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from placet.cli import streams
from placet.cli.failing import UsageProblem, exit_of_error, hint_of
from placet.cli.screen import Form, Screen, shown
from placet.cli.table import COMMANDS, Entry, Exit
from placet.errors import PlacetError
from placet.rules.addresses import is_other_url, names_database

_ACTING: dict[str, tuple[str, ...]] = {
    "init": (),
    "agent": (),
    "call": (),
    "approvals": ("approve", "deny", "edit", "withdraw", "withdraw-vote"),
    "effects": ("reconcile",),
    "keys": ("rotate", "retire"),
    "mcp": ("add", "accept", "quarantine"),
    "stop": (),
    "resume": (),
    "worker": (),
}
"""Commands that do something that stays, with their verbs that do; without verbs, the command itself."""


_STANDING = ("state", "digest", "decided_by", "decided_at", "expired_at", "clock", "quiet_end")
"""What a refusal may say of how something stands now."""


def run(entry: Entry, words: Sequence[str]) -> int:
    """Run one command of the table."""
    return _guarded(lambda: _typed(entry, words), words, acts=_acts(entry, words))


def unknown_command(name: str, words: Sequence[str]) -> int:
    """Refuse a word that is no command, naming the nearest; or an option, which stands behind its command."""
    problem = _option_first(name) if name.startswith("-") else _no_command(name)

    def refuse() -> int:
        raise problem

    return _guarded(refuse, words, acts=False)


def _no_command(name: str) -> UsageProblem:
    from difflib import get_close_matches

    nearest = get_close_matches(name, COMMANDS, n=1)
    hint = f"Did you mean {nearest[0]!r}?" if nearest else "See: placet --help"
    return UsageProblem(f"There is no command {_repeatable(name)!r}", hint=hint)


def _option_first(word: str) -> UsageProblem:
    option = _repeatable(word.partition("=")[0])
    return UsageProblem(
        f"A command comes first, and {option!r} is an option",
        hint="Options stand behind the command: placet COMMAND [OPTIONS]. placet --help names the commands.",
    )


def _typed(entry: Entry, words: Sequence[str]) -> int:
    import typer

    module: Any = import_module(entry.module)
    usage_error: Any = typer.BadParameter.__base__  # typer's own name for it is private
    try:
        code: object = module.app(args=list(words), prog_name=f"placet {entry.name}", standalone_mode=False)
    except usage_error as error:
        path = error.ctx.command_path if error.ctx is not None else f"placet {entry.name}"
        fault = UsageProblem(_without_addresses(_told_by_typer(error), words), hint=f"See: {path} --help")
    except UsageProblem as problem:
        problem.hint = problem.hint or f"See: {_path(entry, words)} --help"
        raise
    except typer.Abort:
        return Exit.INTERRUPTED
    else:
        return code if isinstance(code, int) else Exit.OK
    raise fault


def _path(entry: Entry, words: Sequence[str]) -> str:
    """The command as one would type it to ask for its help."""
    verb = words[0] if words and words[0] in entry.verbs else ""
    return f"placet {entry.name} {verb}".rstrip()


def _told_by_typer(error: Any) -> str:
    """Its words, without those that a validator of its own puts before them."""
    return str(error.format_message()).replace(": Value error, ", ": ").rstrip(".")


def _repeatable(word: str) -> str:
    """A word as it may be repeated: an address in the wrong place may hold a password."""
    return "(an address)" if names_database(word) or is_other_url(word) else word


def _without_addresses(told: str, words: Sequence[str]) -> str:
    for word in words:
        for said in (word, word.partition("=")[2]):
            told = told.replace(said, _repeatable(said)) if said else told
    return told


def _acts(entry: Entry, words: Sequence[str]) -> bool:
    """Whether it changes more than what is on the screen."""
    verbs = _ACTING.get(entry.name) if "--list" not in words else None
    return verbs is not None and (not verbs or (bool(words) and words[0] in verbs))


def _guarded(work: Callable[[], int], words: Sequence[str], *, acts: bool) -> int:
    """The exit code of the work, whatever it raises, and whether or not its output arrives."""
    streams.fill_closed()
    screen = Screen(form=_form_of(words))
    code = int(Exit.OK)
    try:
        code = _coded(work, screen)
        screen.flush()
        return code
    except streams.OutputLost as lost:
        streams.abandon()
        if acts:
            screen.warn("placet: The output could not be written; the command itself was done.")
            screen.warn("  next: look before you repeat it")
        elif not lost.is_pipe:  # a reader that has gone has read enough
            screen.warn("placet: The output could not be written.")
        return code or Exit.FAILED


def _coded(work: Callable[[], int], screen: Screen) -> int:
    try:
        return int(work())
    except streams.OutputLost:
        raise
    except PlacetError as error:
        return _told(screen, error)
    except KeyboardInterrupt:
        screen.warn("placet: interrupted")
        return Exit.INTERRUPTED
    except BrokenPipeError:  # from a place that writes by itself
        lost = streams.OutputLost(is_pipe=True)
    except Exception as error:
        if not isinstance(error, OSError) or not _is_output_full():
            return _unexpected(screen, error)
        lost = streams.OutputLost(is_pipe=False)
    raise lost


def _is_output_full() -> bool:
    try:
        streams.flush()
    except streams.OutputLost:
        return True
    return False


def _told(screen: Screen, error: PlacetError) -> int:
    """Tell an error where the words asked for it; on standard error, if that cannot be written."""
    code = exit_of_error(error)
    told = _sentence(str(error))
    if not screen.is_text:
        document = {
            "code": error.code,
            "message": told,
            "hint": hint_of(error),
            "retryable": error.retryable,
            "may_have_acted": error.may_have_acted,
            "exit_code": int(code),
        }
        if changed := _changed(error):
            document["changed"] = changed
        try:
            screen.document("error/1", document)
            screen.flush()
            return code
        except streams.OutputLost:
            streams.abandon()
    screen.warn(f"placet: {shown(told)}")
    screen.warn(f"  code: {shown(error.code)}")
    if changed := _changed(error):
        screen.warn(
            "  now: " + ", ".join(f"{name.replace('_', ' ')} {shown(value)}" for name, value in changed.items())
        )
    if hint := hint_of(error):
        screen.warn(f"  next: {shown(hint)}")
    return code


def _changed(error: PlacetError) -> dict[str, str]:
    """How what it is about stands now, where whoever refused says so: a server may say anything under these names."""
    changed = getattr(error, "changed", None) or {}
    return {name: changed[name] for name in _STANDING if isinstance(changed.get(name), str)}


def _sentence(told: str) -> str:
    return told if told.endswith("?") else told.rstrip(".") + "."


def _unexpected(screen: Screen, error: Exception) -> int:
    from placet.rules.foreign import safe_exception_name

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

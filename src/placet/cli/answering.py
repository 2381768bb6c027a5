"""A person's answer at the keyboard: asked for once everything was shown, and only what was typed after that counts."""

from __future__ import annotations

import sys
import termios
from collections.abc import Sequence

from placet.cli.failing import Declined, UsageProblem
from placet.cli.screen import Screen, shown
from placet.cli.seen import Seen
from placet.engine.desk import ApprovalView
from placet.model.contract import EffectClass, Risk
from placet.model.json import JsonValue

_NEEDS_DIGEST = frozenset({Risk.HIGH.value, Risk.CRITICAL.value})
_YES = ("y", "Y", "yes")


def is_grave(view: ApprovalView) -> bool:
    """Whether a plain yes at the keyboard is too little for it."""
    return is_of_high_risk(view) or is_irreversible(view)


def is_of_high_risk(view: ApprovalView) -> bool:
    return view.risk in _NEEDS_DIGEST


def is_irreversible(view: ApprovalView) -> bool:
    return view.effect_class == EffectClass.IRREVERSIBLE.value


def target_of(view: ApprovalView) -> str:
    """What somebody types who means it: what would be acted on, or the tool where the contract names nothing."""
    return view.resource or view.tool


def ask_yes(screen: Screen, question: str, *, hint: str, otherwise: str = "Not approved; it still waits") -> None:
    """Ask at the terminal; only a plain yes is one.

    Args:
        otherwise: what is so if the answer was none.

    Raises:
        Declined: anything else, or the end of the input.
    """
    if _typed(screen, f"{question} [y/N] ") not in _YES:
        raise Declined(otherwise, hint=hint)


def ask_target(screen: Screen, view: ApprovalView, *, hint: str) -> None:
    """Ask for the target of what cannot be undone, to the letter.

    Raises:
        Declined: something else was typed, or the input ended.
    """
    target = target_of(view)
    if not target.isprintable() or not target.isascii():
        raise UsageProblem(
            "Nothing was approved: the target of this irreversible call cannot be typed as it is shown",
            hint=f"If exactly this may run: placet approvals approve {shown(view.approval_id)} --digest PREFIX",
        )
    screen.line("This cannot be undone.")
    if _typed(screen, f"approve? type {target} to approve: ") != target:
        raise Declined("Not approved; it still waits", hint=hint)


def _typed(screen: Screen, prompt: str) -> str | None:
    """A line that was typed, to its end, after the prompt was there; None where the input ended before."""
    sys.stdout.flush()
    termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
    sys.stdout.write(prompt)
    sys.stdout.flush()
    line = sys.stdin.readline()  # not input(): an interrupt that comes right after its prompt would be lost in it
    if not line.endswith("\n"):
        screen.warn("")
        return None
    return line.removesuffix("\n")


# ---------------------------------------------------------------- several at once


def refuse_unlike(seen: Sequence[Seen]) -> None:
    """Several may be approved together only where one look tells what all of them do.

    Raises:
        UsageProblem: they are of different tools or versions, or their arguments of different shapes; or a call of
            them has to be approved by itself.
    """
    if len(seen) > 1 and any(is_grave(each.view) for each in seen):
        raise UsageProblem(
            "Nothing was approved: what is of high or critical risk, or cannot be undone, is approved one by one"
        )
    kinds = {(each.view.tool, each.view.tool_version, shape_of(each.view.arguments)) for each in seen}
    if len(kinds) > 1:
        raise UsageProblem(
            "These are not alike, so each has to be looked at by itself",
            hint="Together may be approved what is of one tool, one version, and arguments of one shape.",
        )


def shape_of(value: JsonValue) -> str:
    """Which members a value has and of what kind they are, whatever is in them; lists as long as they are."""
    match value:
        case dict():
            return "{" + ",".join(f"{name!r}:{shape_of(value[name])}" for name in sorted(value)) + "}"
        case list():
            return "[" + ",".join(shape_of(each) for each in value) + "]"
        case _:
            return type(value).__name__

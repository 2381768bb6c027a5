"""What the console says in words: instants, ages, what a code means and what to do next.

Fixed sentences. Nothing here repeats what a model or a remote system wrote.
"""

from __future__ import annotations

from datetime import UTC, datetime

from placet.model.approval import ApprovalState
from placet.model.contract import EffectClass
from placet.model.effect import EffectState
from placet.rules.unknowns import UnknownReason

_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"))

EFFECT_CLASS_WORDS = {
    EffectClass.READ: "reads",
    EffectClass.SENSITIVE_READ: "reads sensitive data",
    EffectClass.IDEMPOTENT_WRITE: "changes something; doing it twice is doing it once",
    EffectClass.WRITE: "changes something",
    EffectClass.IRREVERSIBLE: "changes something that cannot be taken back",
}

WHY_NOT = {
    "not_a_person": "Only a person's own sign-in decides.",
    "other_environment": "It is asked for another environment than the one you are signed in to.",
    "not_the_requesting_user": "Only the person the agent acts for may confirm this call.",
    "own_edit": "You changed this call yourself, so somebody else has to approve it.",
    "own_request": "You asked for this call yourself, or it was asked for you. Somebody else has to decide.",
    "scope_missing": "You may look at it, not decide it: that takes the scope approvals.decide.",
    "not_an_approver": "The policy names others who decide calls like this one.",
    "not_listed_any_more": "You were named as one who decides calls like this one, and are not any more.",
    "vote_withdrawn": "You took your vote back; it cannot be given again.",
    "people_failed": "The list of people does not answer, so nobody can tell now whether you may. Try again.",
    "policy_failed": "The policy does not answer, so nobody can tell now whether you may. Try again.",
    "policy_changed": "Another policy is in force than the one that asked. Whoever asked has to ask anew.",
    "rule_not_here": "The rule that asked is not in the policy any more. Whoever asked has to ask anew.",
    "contract_not_here": "This server does not know the tool's contract, so it cannot show all that would run.",
}
"""Why a person may not decide, by the desk's code."""

NOBODY_ANY_MORE = frozenset({"policy_changed", "rule_not_here"})
"""Codes that hold for everybody: the question has to be asked anew."""

REQUIREMENT_WORDS = {
    "confirm": "the person the agent acts for has to confirm it",
    "review": "somebody entitled, who has not asked for it, has to approve it",
    "quorum": "several people have to approve it, each for themselves",
}

NOTHING_DECIDED = {
    "not_typed": "What you typed is not the name that was asked for. Nothing was decided.",
    "reason_missing": "Say why: the reason goes back to whoever asked. Nothing was decided.",
    "not_a_decision": "A decision is to approve or to deny. Nothing was decided.",
}
"""Refusals of the page itself; the desk has its own sentences."""

STATE_WORDS = {
    ApprovalState.PENDING: "waits for a decision",
    ApprovalState.APPROVED: "approved, not used yet",
    ApprovalState.DENIED: "denied",
    ApprovalState.EXPIRED: "expired",
    ApprovalState.WITHDRAWN: "taken back before anybody decided",
    ApprovalState.SPENT: "approved and used",
    ApprovalState.REVOKED: "approved, then taken back before it was used",
}

EFFECT_WORDS = {
    EffectState.PREPARED: "prepared; nothing was sent",
    EffectState.DISPATCHED: "being done now",
    EffectState.COMMITTED: "done",
    EffectState.FAILED: "failed; nothing happened",
    EffectState.UNKNOWN: "unknown: it may have happened",
    EffectState.RECONCILED_COMMITTED: "done, as a look found later",
    EffectState.RECONCILED_ABSENT: "not done, as a look found later",
}

UNKNOWN_WORDS = {
    UnknownReason.NO_PROBE: "nothing can look it up but a person",
    UnknownReason.NOT_HERE: "this server does not know the tool; another one may look",
    UnknownReason.NOT_PROBED: "nobody has looked yet",
    UnknownReason.CANNOT_TELL: "its probe could not tell yet",
    UnknownReason.GAVE_UP: "its probe looked as often as it may; now a person has to",
}

WHY_NOT_SETTLE = {
    "not_a_person": "Only a person's own sign-in settles.",
    "scope_missing": "That takes the scope effects.reconcile.",
    "own_request": "It was your own call, so somebody else has to say that it did not happen.",
    "too_early_for_absent": "It may still be on its way, so that cannot be believed yet.",
}

DONE = {
    "approved": "Approved. Nothing ran yet: whoever asked may now run exactly this call, once.",
    "denied": "Denied. Whoever asked is told, with your reason.",
    "several_approved": "Approved, each of them. Nothing ran yet: whoever asked may now run exactly these, each once.",
    "several_denied": "Denied, each of them. Whoever asked is told, with your reason.",
    "several_voted": "Your vote is counted for each of them. Others have to approve as well before they may run.",
    "several_partly": "Your vote is counted for each of them. Some have every vote that they need now, so whoever "
    "asked may run exactly these, each once; the rest wait for others to approve as well.",
    "edited": "This is another call now, and it is yours. The one that was asked for is closed, and whoever asked is "
    "told. Somebody else may have to approve it.",
    "voted": "Your vote is counted. Others have to approve as well before it may run.",
    "vote_withdrawn": "Your vote is taken back, and cannot be given again.",
    "withdrawn": "Taken back. It can no longer be decided or used.",
    "revoked": "Revoked. It lets nothing through any more.",
    "settled": "Recorded. The effect is settled.",
    "probed": "Looked again. The state below is what is known now.",
    "stopped": "Stopped. Nothing of it is dispatched from now on.",
    "resumed": "Resumed.",
    "run_paused": "Paused. Nothing of the run is dispatched until it is resumed.",
    "run_open": "Resumed. The run goes on where it was, and counts on.",
    "run_cancelled": "Cancelled for good. What it had asked for is withdrawn.",
    "session_ended": "That session is over.",
}
"""What a page says after a form was taken, by the word in its address. Other words say nothing."""


def instant_words(instant: datetime) -> str:
    """With its zone, to the second."""
    return instant.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def instant_machine(instant: datetime) -> str:
    """For `<time datetime>` and for scripts."""
    return instant.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def length_words(seconds: float) -> str:
    """A length of time in at most two units."""
    whole = max(0, int(seconds))
    for index, (size, unit) in enumerate(_UNITS):
        if whole >= size:
            below, below_unit = _UNITS[index + 1] if index + 1 < len(_UNITS) else (1, "s")
            rest = whole % size // below
            return f"{whole // size} {unit} {rest} {below_unit}" if rest else f"{whole // size} {unit}"
    return f"{whole} s"


def span_words(seconds: float) -> str:
    """A length of time between two steps, which may be shorter than a second."""
    return length_words(seconds) if seconds >= 1 else f"{seconds * 1000:.0f} ms"

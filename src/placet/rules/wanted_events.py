"""Whether an event is one that somebody wants to see."""

from __future__ import annotations

from collections.abc import Callable

from placet.model.audit import ChainedEvent
from placet.model.wanted_events import WantedEvents
from placet.rules.audit import body_of

_EXACT = ("run_id", "tool", "approval_id", "outcome", "detail")
_PERSONS = ("subject", "decided_by", "on_behalf_of")


def chooser(wanted: WantedEvents) -> Callable[[ChainedEvent], bool]:
    """Asked of each event in turn. One whose body cannot be read is wanted by whoever narrows nothing."""
    exact = tuple((name, word) for name in _EXACT if (word := getattr(wanted, name)) is not None)
    kinds, person, rule = wanted.kinds, wanted.person, wanted.rule

    def is_wanted(event: ChainedEvent) -> bool:
        body = body_of(event)
        return (
            (kinds is None or _is_one(body.get("kind"), kinds))
            and all(body.get(name) == word for name, word in exact)
            and (person is None or person in [body.get(name) for name in _PERSONS])
            and (rule is None or _has(body.get("reasons"), rule))
        )

    return is_wanted


def _is_one(kind: object, kinds: frozenset[str]) -> bool:
    return type(kind) is str and kind in kinds


def _has(reasons: object, rule: str) -> bool:
    return type(reasons) is list and rule in reasons

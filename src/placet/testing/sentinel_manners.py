"""How a sentinel treats what it is asked: told by each request, or drawn for it by chance that a seed repeats."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, Self

from placet.errors import MisuseError


class Manner(StrEnum):
    """What the sentinel does with one request.

    ACT: acts and says so.
    ACT_LATE: keeps the request for its delay, then acts and says so, whether or not anybody still waits.
    DROP_REPLY: acts, and hangs up without a word.
    HANG_UP: takes the request, hangs up, and never acts.
    HANG_UP_THEN_ACT: takes the request, hangs up at once, and acts after its delay.
    BUSY: status 429 with Retry-After; does not act.
    UNAVAILABLE: status 503; does not act.
    UNAVAILABLE_BUT_ACTS: acts, and answers 503 all the same.
    REFUSE: status 422, a business refusal; does not act.
    CONFLICT: status 409, a business refusal; does not act.
    """

    ACT = "act"
    ACT_LATE = "act_late"
    DROP_REPLY = "drop_reply"
    HANG_UP = "hang_up"
    HANG_UP_THEN_ACT = "hang_up_then_act"
    BUSY = "busy"
    UNAVAILABLE = "unavailable"
    UNAVAILABLE_BUT_ACTS = "unavailable_but_acts"
    REFUSE = "refuse"
    CONFLICT = "conflict"


@dataclass(frozen=True, slots=True, kw_only=True)
class Treatment:
    """What becomes of one request. `delay_seconds` matters to the manners that have a delay."""

    manner: Manner
    delay_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SentinelRules:
    """What one service of a sentinel promises, and how it behaves where a request does not say.

    Attributes:
        honours_keys: a key that has acted never acts again; it is answered with its first value.
        refuses_late: a request that carries a deadline is refused (422) if that has passed when it would act.
        weights: how often each manner is drawn, relative to the others; without any, every request acts.
        shortest_delay_seconds, longest_delay_seconds: bounds of the delays that are drawn.
        retry_after_seconds: what a 429 asks for.
        seed: the same seed, key and number of the request draw the same treatment.
    """

    honours_keys: bool = False
    refuses_late: bool = False
    weights: Mapping[Manner, float] = field(default_factory=dict)
    shortest_delay_seconds: float = 0.0
    longest_delay_seconds: float = 0.0
    retry_after_seconds: int = 1
    seed: int = 0

    def __post_init__(self) -> None:
        if any(weight < 0 for weight in self.weights.values()) or (self.weights and not sum(self.weights.values())):
            raise MisuseError("A sentinel's weights are not negative, and one of them is above zero.")
        if not 0.0 <= self.shortest_delay_seconds <= self.longest_delay_seconds:
            raise MisuseError("A sentinel's delays begin at zero or above, and the longest is not below the shortest.")

    def treatment(self, key: str, nth: int) -> Treatment:
        """What the nth request under a key meets, counted from 1."""
        chance = random.Random(f"{self.seed}/{nth}/{key}")
        manners = tuple(self.weights) or (Manner.ACT,)
        [manner] = chance.choices(manners, weights=tuple(self.weights.values()) or None)
        delay = chance.uniform(self.shortest_delay_seconds, self.longest_delay_seconds)
        return Treatment(manner=manner, delay_seconds=delay)

    def as_data(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Self:
        weights = {Manner(name): weight for name, weight in data.get("weights", {}).items()}
        return cls(**{**data, "weights": weights})

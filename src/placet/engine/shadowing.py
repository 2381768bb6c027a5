"""A policy in shadow: asked what the one that binds was asked, after it, and never obeyed.

Whatever becomes of it changes nothing for the call: a fault, and any silence, is an answer of its own, `error`. It may
think for a part of what time the call has left, and never for long, so that one which hangs costs no call its deadline.

Source: ADR-0061; CASES D08.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Final

from placet.engine.deciding import Decider
from placet.engine.faults import told
from placet.engine.session import Session
from placet.model.call import Call
from placet.model.decision import Decision, ShadowAnswer
from placet.ports.clock import Clock
from placet.ports.policy import PolicyEngine
from placet.rules import policy as rules

LONGEST_SHADOW_SECONDS: Final = 1.0
"""How long a policy in shadow may think at most, whatever time it names itself."""
_SHARE: Final = 0.25
"""Of the time that the call has left."""
MOST_ASKED_AT_ONCE: Final = 256
"""Of a policy in shadow that does not even end when it is cancelled no more is left behind than this."""

_log = logging.getLogger("placet.policy")


class PolicyShadow:
    """Answers what would be otherwise under a policy that does not bind."""

    def __init__(self, *, policy: PolicyEngine, clock: Clock) -> None:
        self._decider = Decider(policy=policy, clock=clock)
        self._clock = clock

    async def beside(self, decision: Decision, call: Call, session: Session) -> ShadowAnswer:
        """What it would have answered, beside what is enforced. Raises nothing."""
        if self._decider.asked_now >= MOST_ASKED_AT_ONCE:
            return rules.beside(decision, None)
        try:
            heard = await self._decider.heard_of(call, self._hurried(session))
            would_be = None if heard is None else rules.answerable(rules.effective(heard, call), call)
            return rules.beside(decision, would_be)
        except Exception as fault:  # the clock, or one of our own
            _log.error("shadow policy failed", extra=told(fault))
            return rules.beside(decision, None)

    def _hurried(self, session: Session) -> Session:
        now = self._clock.monotonic()
        patience = min(LONGEST_SHADOW_SECONDS, _SHARE * (session.deadline - now))
        return replace(session, deadline=now + max(0.0, patience))

"""One attempt's talk between an upstream and the client of that very call.

A client since 2026-07-28 cannot be asked while it waits: the attempt then ends as what has not happened, the client
gets the question in place of an answer, and its coming back is a new dispatch of the same operation. An older client is
asked at once, and the upstream is asked again within the same attempt.

A question that may not reach the client leaves in doubt what the upstream has done before it asked, in an earlier round
or in spite of having been told that nobody can be asked. Whoever sees no client (a worker, a replay, a workflow) can be
asked nothing, and neither can the client of a call that runs on an approval.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from placet.errors import ToolRejected
from placet.model.json import JsonObject
from placet.model.relaying import NO_ABILITIES, Ability, Needed, Refusal
from placet.model.upstreams import Relayed
from placet.ports.relay import Caller, RelayRefused, current_caller
from placet.rules import relaying

MAX_ROUNDS = 10
"""How often an older client is asked within one attempt."""

_LOG_LEVEL_KEY = "io.modelcontextprotocol/logLevel"
ASKS = "The server behind this tool wants to know something first. Nothing has been done yet."


Hears = Callable[[Any, Any, Any], None]
Notes = Callable[[str, str], None]
"""Takes note of a question that nobody was asked: its kind, and why."""


class Unanswered(Exception):
    """An upstream wants to know something that nobody tells it."""


class Talk:
    """What one attempt may say to its client, and what the client brought along.

    Attributes:
        abilities: what the upstream may be told that this client can be asked.
    """

    def __init__(
        self,
        relayed: frozenset[Relayed],
        caller: Caller | None,
        *,
        is_approved: bool,
        hears: Hears | None = None,
        notes: Notes | None = None,
    ) -> None:
        self._caller = caller
        self._relayed = relayed
        self._rounds = 0
        self._hears = hears
        self._notes = notes
        self.abilities: frozenset[Ability] = (
            NO_ABILITIES if caller is None or is_approved else relaying.shared_abilities(relayed, caller.abilities)
        )

    @property
    def capabilities(self) -> JsonObject:
        """What to declare to the upstream for this request, or for a session that serves nobody else."""
        return relaying.capabilities_of(self.abilities)

    @property
    def hears_progress(self) -> bool:
        """Whether the upstream is told where to say how far it is: if somebody hears it or silence ends the call."""
        return self._hears is not None

    @property
    def log_level(self) -> str | None:
        """From which level on the client hears the upstream's log messages; None if not at all."""
        if self._caller is None or Relayed.LOGGING not in self._relayed:
            return None
        return self._caller.log_level

    @property
    def meta(self) -> JsonObject:
        """What belongs into the request's `_meta`."""
        return {} if self.log_level is None else {_LOG_LEVEL_KEY: self.log_level}

    @property
    def params(self) -> JsonObject:
        """What belongs into the params of the first request of this attempt: what the client came back with."""
        resumption = None if self._caller is None or not self.abilities else self._caller.resumption()
        if resumption is None:
            return {}
        return _brought(resumption.responses, resumption.state)

    # ------------------------------------------------------------ heard from the upstream

    def progressed(self, params: JsonObject) -> None:
        """A `notifications/progress` of this request; what of it can be told is not decided here."""
        if self._hears is not None:
            self._hears(params.get("progress"), params.get("total"), params.get("message"))

    async def logged(self, params: JsonObject) -> None:
        """A `notifications/message` of this request."""
        level = self.log_level
        if self._caller is not None and level is not None and relaying.is_at_least(params.get("level"), level):
            await self._caller.logged(params)

    async def asked(self, method: str, params: JsonObject) -> JsonObject:
        """A question in the middle of the request, on a session that serves nothing else meanwhile; its answer.

        Raises:
            RelayRefused: the upstream is to be answered with this error.
        """
        refusal = relaying.refusal_of(method, params, abilities=self.abilities)
        if refusal is not None or self._caller is None:
            self._note(method, params)
            raise RelayRefused(refusal or relaying.NOT_ASKED)
        return await self._caller.ask(method, params)

    async def required(self, result: JsonObject) -> JsonObject:
        """An `input_required` result: what to put into the params when it is asked again within this attempt.

        Raises:
            ToolRejected: the client has the question, or would not answer the first one; by the upstream's own word
                nothing was done.
            Unanswered: it gets no answer, and its word is not enough for a write.
        """
        self._rounds += 1
        needed = relaying.needed_of(result, abilities=self.abilities)
        if self._caller is None or needed is None:
            for method, params in relaying.questions_in(result):
                self._note(method, params)
            raise Unanswered
        if not self._caller.can_be_asked:
            self._caller.leave(needed)
            raise ToolRejected(ASKS)
        if self._rounds <= MAX_ROUNDS and (responses := await _answers_of(self._caller, needed)) is not None:
            return _brought(responses, needed.state)
        if self._rounds == 1:
            raise ToolRejected(ASKS)
        raise Unanswered

    def _note(self, method: str, params: JsonObject) -> None:
        if self._notes is not None:
            is_secret = relaying.refusal_of(method, params, abilities=self.abilities) is relaying.SECRET_ASKED
            kind = relaying.question_kind(method, params)
            self._notes(kind, relaying.SECRET if is_secret else relaying.REFUSED)

    def refused(self, error: JsonObject) -> None:
        """An error in place of a result.

        Raises:
            ToolRejected: it misses a capability of the client, who was told which.
        """
        missing = relaying.missing_capabilities(error)
        if missing is None:
            return
        if self._caller is not None:
            message = "The server behind this tool needs what this client does not declare."
            self._caller.refuse(Refusal(code=relaying.MISSING_CAPABILITY, message=message, data=missing))
        raise ToolRejected("The server behind this tool needs what this client does not declare. Nothing was done.")


def talk(
    relayed: frozenset[Relayed], *, is_approved: bool = False, hears: Hears | None = None, notes: Notes | None = None
) -> Talk:
    """The talk of the attempt, or request, that begins now.

    Args:
        hears: `CallContext.progress` of the attempt.
        notes: takes note of what nobody was asked.
        is_approved: it runs on a person's word. What was approved is what runs, so nobody adds answers to it.
    """
    return Talk(relayed, current_caller(), is_approved=is_approved, hears=hears, notes=notes)


async def _answers_of(caller: Caller, needed: Needed) -> JsonObject | None:
    """The client's answers; None if it refused one."""
    try:
        return {question.key: await caller.ask(question.method, question.params) for question in needed.questions}
    except RelayRefused:
        return None


def _brought(responses: JsonObject | None, state: str | None) -> JsonObject:
    params: JsonObject = {}
    if responses is not None:
        params["inputResponses"] = responses
    if state is not None:
        params["requestState"] = state
    return params

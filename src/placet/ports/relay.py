"""What an upstream says besides results, and who hears it: the client of that one call, or nobody.

A call's client travels beside the call, in a context variable, from the front door that was asked to the handler that
carries the call. Only the attempt that this very call starts can see it: whoever waits for somebody else's call, or is
answered from the record, has no part in the conversation. None of it reaches contracts, approvals or the ledger.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from contextvars import ContextVar
from typing import Protocol

from placet.model.json import JsonObject
from placet.model.principal import Principal
from placet.model.relaying import Ability, Needed, Notice, Refusal, Resumption
from placet.model.upstreams import Naming, Relayed


class RelayRefused(Exception):
    """A request was answered with an error of the protocol. No failure of ours: the client is told, no log is."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal


class Caller(Protocol):
    """The client whose request is under way, as far as an upstream may reach it."""

    @property
    def abilities(self) -> frozenset[Ability]:
        """What it declared."""
        ...

    @property
    def can_be_asked(self) -> bool:
        """Whether it can be asked while it waits; otherwise the answer says what is missing, and it comes back."""
        ...

    @property
    def log_level(self) -> str | None:
        """From which level on it wants log messages of this call; None if it wants none."""
        ...

    def resumption(self) -> Resumption | None:
        """What it brought along; None for a first request."""
        ...

    async def ask(self, method: str, params: JsonObject) -> JsonObject:
        """Ask it now, if it can be asked, and its answer.

        Raises:
            RelayRefused: it answered with an error, or cannot be asked.
        """
        ...

    def leave(self, needed: Needed) -> None:
        """Have the request answered with what is missing; whoever has it asks again."""
        ...

    def refuse(self, refusal: Refusal) -> None:
        """Have the request answered with an error of the protocol."""
        ...

    async def logged(self, params: JsonObject) -> None: ...


_CALLER: ContextVar[Caller | None] = ContextVar("placet_caller", default=None)


def current_caller() -> Caller | None:
    """Whose request this is; None where nobody can be asked."""
    return _CALLER.get()


@contextmanager
def calling(caller: Caller | None) -> Iterator[None]:
    """What is asked inside is this client's."""
    token = _CALLER.set(caller)
    try:
        yield
    finally:
        _CALLER.reset(token)


class UpstreamSide(Protocol):
    """One upstream, asked for what is no tool, over a session that no other principal shares."""

    @property
    def server(self) -> str:
        """Our own id of it."""
        ...

    @property
    def relayed(self) -> frozenset[Relayed]:
        """What the operator allowed."""
        ...

    @property
    def naming(self) -> Naming: ...

    def is_for(self, principal: Principal) -> bool:
        """Whether this principal may see the upstream at all."""
        ...

    def count_question(self, kind: str, answer: str) -> None:
        """It asked, and this is how it was answered; words of `rules.relaying`."""
        ...

    async def request(self, principal: Principal, method: str, params: JsonObject) -> JsonObject:
        """Ask, on behalf of the current caller, and the result as it came, an `input_required` one included.

        Raises:
            RelayRefused: it answered with an error, cannot be reached or said too much.
        """
        ...

    def notices(self, principal: Principal, wanted: JsonObject) -> AbstractAsyncContextManager[AsyncIterator[Notice]]:
        """What of the wanted kinds it tells while the block lasts; bounded, what is too much falls away.

        Args:
            wanted: a `SubscriptionFilter` as on the wire.

        Raises:
            RelayRefused: it cannot be heard; nothing will come.
        """
        ...

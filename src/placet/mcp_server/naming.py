"""What a client may say about a call in `_meta`, and the names that a call goes by.

    io.placet/run              the conversation or job; of the older revisions' sessions the session, if absent
    io.placet/call-id          the call's own name; asking twice under it is asking once
    io.placet/idempotency-key  the operation's name, where the contract has none
    io.placet/approval         the question that is asked after: waits a while for its answer
    io.placet/trace            the span in which it was asked first, as we said it

MCP has no name for a call that outlives its connection, and a request's JSON-RPC id begins at 1 in every connection. So
a call that nobody named gets a fresh name; what asks twice is found by what it asks (ADR-0012), within its run.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from placet.mcp_server.tracing import is_traceparent
from placet.model.json import JsonObject
from placet.model.principal import Principal, is_identity
from placet.ports.clock import Clock, IdSource
from placet.ports.keys import KeyPurpose, Keys
from placet.rules.proposals import is_call_id

RUN: Final = "io.placet/run"
CALL: Final = "io.placet/call-id"
KEY: Final = "io.placet/idempotency-key"
APPROVAL: Final = "io.placet/approval"
TRACE: Final = "io.placet/trace"
OUTCOME: Final = "io.placet/outcome"
RETRY: Final = "io.placet/retry"
_KEY_TEXT = re.compile(r"[\x20-\x7e]{1,128}")
_MOST_REMEMBERED: Final = 4_096
_SESSION: Final = "mcp-session-"
_MOST_OF_ONE: Final = 64
"""Calls of one principal that wait for a person, whose runs are remembered; of more, its own oldest falls away."""
_MOST_WAITING: Final = 16_384
"""Of all together; of more, the oldest of whoever has most falls away."""


class MetaMalformed(Exception):
    """A member of `_meta` that is ours and says nothing that can be read."""

    def __init__(self, member: str) -> None:
        super().__init__(member)
        self.member = member


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """What a call goes by.

    Attributes:
        key: the caller's own name for the operation; None where it gave none.
        approval: the question that the caller asks after.
        trace: the span in which it was asked for first; None where this is the first time, or nobody traces.
    """

    run: str
    call_id: str
    key: str | None = None
    approval: str | None = None
    trace: str | None = None

    def as_meta(self, approval: str | None = None) -> JsonObject:
        """What to send along to ask for the very same again."""
        meta: JsonObject = {RUN: self.run, CALL: self.call_id}
        if self.key is not None:
            meta[KEY] = self.key
        if approval is not None:
            meta[APPROVAL] = approval
        if self.trace is not None:
            meta[TRACE] = self.trace
        return meta


def owner_of(principal: Principal) -> str:
    """Everything that makes it somebody else, as one text."""
    return json.dumps([principal.tenant, principal.identity])


_OF_SESSION: Final = re.compile(r"mcp-session-[0-9a-f]{32}")


class Namer:
    """Names the calls of one front door."""

    def __init__(self, *, clock: Clock, ids: IdSource, keys: Keys) -> None:
        self._clock = clock
        self._ids = ids
        self._keys = keys
        self._waiting: dict[str, OrderedDict[tuple[str, str], Names]] = {}
        self._count = 0
        self._known: OrderedDict[tuple[str, str], str] = OrderedDict()

    def names_of(
        self,
        meta: Mapping[str, Any],
        *,
        principal: Principal,
        session: str | None,
        tool: str,
        arguments: JsonObject,
        reopened: str | None = None,
    ) -> Names:
        """What the client says, and for the rest what is derived from who it is and what it asks.

        Args:
            session: of a client of an older revision.
            reopened: the run in which another process asked a person about exactly this.

        Raises:
            MetaMalformed: a member of ours is not of its form.
        """
        run, call_id = _said(meta, RUN, is_identity), _said(meta, CALL, is_call_id)
        key, approval = _said(meta, KEY, _is_key), _said(meta, APPROVAL, is_identity)
        trace = _said(meta, TRACE, is_traceparent)
        if approval is None:
            trace = None  # of a call that nobody was asked about: it was paused nowhere
        own = self._waiting.get(owner_of(principal)) if self._waiting else None
        waiting = None if own is None else own.get(_wish(tool, arguments))
        if run is None:
            run = waiting.run if waiting is not None else reopened or self._derived(principal, session)
        if trace is None and waiting is not None and waiting.run == run:
            trace = waiting.trace
        if call_id is None:
            fresh = self._ids.new_id("mcp")
            call_id = fresh if key is None else f"k-{hashlib.sha256(key.encode()).hexdigest()[:32]}"
        return Names(run=run, call_id=call_id, key=key, approval=approval, trace=trace)

    def knows(self, meta: Mapping[str, Any], *, principal: Principal, tool: str, arguments: JsonObject) -> bool:
        """Whether the client names its run, or this process remembers in which it asked."""
        return meta.get(RUN) is not None or _wish(tool, arguments) in self._waiting.get(owner_of(principal), ())

    def is_derived(self, run: str, principal: Principal) -> bool:
        """Whether a door under these keys named the run, for a client of this principal that named none."""
        return run.startswith((_SESSION, f"mcp-{self._unguessable(principal)}-"))

    def has_named(self, run: str, *, principal: Principal) -> bool:
        """Whether all of the name is ours: what a client adds, or calls its own, is that client's text."""
        if _OF_SESSION.fullmatch(run) is not None:
            return True
        return re.fullmatch(rf"mcp-{re.escape(self._unguessable(principal))}-[0-9]{{8}}T[0-9]{{2}}", run) is not None

    def remember(self, names: Names, *, principal: Principal, tool: str, arguments: JsonObject) -> None:
        """A person has been asked in this run: whoever asks the same without naming a run asks there again. A client of
        an older revision that comes back has another session, and would ask a person a second time.
        """
        owner = owner_of(principal)
        own = self._waiting.setdefault(owner, OrderedDict())
        wish = _wish(tool, arguments)
        self._count += wish not in own
        own[wish] = names
        own.move_to_end(wish)
        if len(own) > _MOST_OF_ONE:
            self._lose(owner, next(iter(own)))
        elif self._count > _MOST_WAITING:
            most = max(self._waiting, key=lambda each: len(self._waiting[each]))
            self._lose(most, next(iter(self._waiting[most])))

    def forget(self, *, principal: Principal, tool: str, arguments: JsonObject) -> None:
        if self._waiting:
            self._lose(owner_of(principal), _wish(tool, arguments))

    def _lose(self, owner: str, wish: tuple[str, str]) -> None:
        own = self._waiting.get(owner, OrderedDict())
        if own.pop(wish, None) is not None:
            self._count -= 1
            if not own:
                del self._waiting[owner]

    def _derived(self, principal: Principal, session: str | None) -> str:
        """The session, or the hour's run of whoever has none: a run's limits are then limits of an hour. Nobody else
        can say its name: whoever opens a run first has it.
        """
        if session is not None:
            return f"{_SESSION}{session}"
        return f"mcp-{self._unguessable(principal)}-{self._clock.now():%Y%m%dT%H}"

    def _unguessable(self, principal: Principal) -> str:
        """One's name that nobody else can say, while one key signs. Every call asks for it, so it is kept."""
        who = (self._keys.current, owner_of(principal))
        name = self._known.get(who)
        if name is None:
            name = self._keys.mac(KeyPurpose.RUN_NAME, who[1].encode()).value[:24]
            self._known[who] = name
            if len(self._known) > _MOST_REMEMBERED:
                self._known.popitem(last=False)
        return name


def _wish(tool: str, arguments: JsonObject) -> tuple[str, str]:
    text = json.dumps(arguments, sort_keys=True, separators=(",", ":"))
    return tool, hashlib.sha256(text.encode()).hexdigest()


def _said(meta: Mapping[str, Any], member: str, is_sound: Any) -> str | None:
    value = meta.get(member)
    if value is None:
        return None
    if is_sound(value):
        return str(value)
    raise MetaMalformed(member)


def _is_key(value: object) -> bool:
    return type(value) is str and _KEY_TEXT.fullmatch(value) is not None

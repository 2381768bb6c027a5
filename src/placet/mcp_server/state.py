"""What a client carries from one round of a call to the next, and the seal around it.

What is inside names the call and the question, and nothing else: whoever brings it back is asked to show who it is like
anybody, and the ledger answers for the rest. The SDK's boundary binds the sealed text to the method, the tool, its
arguments, the principal, this service and a time; its key is derived from the store's own, so every replica opens it,
also after a restart.
"""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass
from typing import Any, Final

from mcp.server.context import ServerRequestContext
from mcp.server.request_state import InvalidRequestState, RequestStateBoundary, RequestStateSecurity

from placet.errors import KeyMaterialError
from placet.mcp_server.carried import carried_of
from placet.mcp_server.naming import Names, owner_of
from placet.mcp_server.tracing import is_traceparent
from placet.model.principal import is_identity
from placet.ports.keys import Keys, SealPurpose
from placet.rules.proposals import is_call_id

AUDIENCE: Final = "placet"
_BOUND_TO: Final = b"placet mcp request state 1"
_VERSION: Final = 1
_LONGEST: Final = 65_536
_MOST_CHARACTERS: Final = 40_000
"""Of what is sealed, as it stands in JSON; with all that the seal puts around it, it can be brought back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """Where a call stands that waits for a person.

    Attributes:
        names: the names of the call; `approval` is the question.
        number: how often its client was sent to the approver's page.
    """

    names: Names
    number: int

    def as_text(self) -> str:
        names = self.names
        trace = [] if names.trace is None else [names.trace]
        return json.dumps([_VERSION, self.number, names.run, names.call_id, names.key, names.approval, *trace])


def round_from(text: str) -> Round | None:
    """None where it is no round of ours; the seal has shown that we wrote it."""
    try:
        version, number, run, call_id, key, approval, *trace = json.loads(text)
    except (ValueError, TypeError):
        return None
    is_traced = not trace or (len(trace) == 1 and is_traceparent(trace[0]))
    is_ours = is_traced and version == _VERSION and type(number) is int and is_identity(run) and is_call_id(call_id)
    if not is_ours or not is_identity(approval):
        return None
    names = Names(run=run, call_id=call_id, key=key, approval=approval, trace=trace[0] if trace else None)
    return Round(names=names, number=number)


def can_come_back(state: str) -> bool:
    """Whether the sealed text of a state is none that is too long to be taken back."""
    return len(json.dumps(state)) <= _MOST_CHARACTERS


def boundary(keys: Keys, *, state_seconds: float, audience: str) -> RequestStateBoundary:
    """What seals and opens the state of every round at the edge of the server.

    Args:
        audience: this service, as its clients know it; state that another one sealed under the same keys is not taken.
    """
    security = RequestStateSecurity(codec=_Codec(keys), ttl=state_seconds, bind_principal=_owner, audience=audience)
    return RequestStateBoundary(security, default_audience=audience)


def _owner(ctx: ServerRequestContext[Any, Any]) -> str:
    return owner_of(carried_of(ctx).principal)


class _Codec:
    """Fulfils the SDK's `RequestStateCodec`."""

    def __init__(self, keys: Keys) -> None:
        self._keys = keys

    def seal(self, payload: bytes) -> str:
        sealed = self._keys.seal(payload, bound_to=_BOUND_TO, purpose=SealPurpose.REQUEST_STATE)
        return urlsafe_b64encode(sealed).rstrip(b"=").decode("ascii")

    def unseal(self, token: str) -> bytes:
        try:
            if len(token) <= _LONGEST:
                sealed = urlsafe_b64decode(token + "=" * (-len(token) % 4))
                if urlsafe_b64encode(sealed).rstrip(b"=").decode("ascii") == token:
                    return self._keys.unseal(sealed, bound_to=_BOUND_TO, purpose=SealPurpose.REQUEST_STATE)
        except (ValueError, KeyMaterialError):
            pass
        raise InvalidRequestState("seal")

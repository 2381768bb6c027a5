"""A proposal that passed its contract: checked arguments, digest and operation key."""

from __future__ import annotations

from dataclasses import dataclass, field

from placet.model.contract import Contract
from placet.model.identifiers import CallId, Digest, OperationKey, RequestId, RunId
from placet.model.json import JsonObject
from placet.model.making import quick
from placet.model.principal import Principal


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One exact call of one principal.

    Attributes:
        reply_to: the provider's id of this proposal; differs from `call_id` where an earlier proposal was adopted.
        arguments: validated, normalised arguments, defaults filled in.
        canonical_arguments: their canonical form; what is digested, shown, stored and executed.
        argument_digest: identity of these arguments for this tool.
        fingerprint: tool and arguments without the version, so that a redeploy never acts again.
        resource: what it acts on; None if the contract does not name it.
        is_recorded: whether the ledger holds it under its operation key. Reads without an explicit key run again.
        is_repaired: whether the arguments are what the proposed text says once its wrapping is undone.
    """

    contract: Contract
    principal: Principal
    request_id: RequestId
    run_id: RunId
    call_id: CallId
    reply_to: CallId
    first_attempt: int
    arguments: JsonObject = field(repr=False)
    canonical_arguments: bytes = field(repr=False)
    argument_digest: Digest
    fingerprint: Digest
    operation_key: OperationKey
    resource: str | None
    is_recorded: bool
    is_repaired: bool = False

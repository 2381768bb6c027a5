"""Where a run of a workflow rests, written and read: JSON with a schema number, sealed, bound to its run."""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from placet.engine.results import row_binding
from placet.errors import KeyMaterialError, MisuseError
from placet.model.identifiers import ApprovalId, OperationKey, PolicyVersion
from placet.model.json import JsonValue
from placet.model.principal import Principal
from placet.model.run import RunCheckpoint
from placet.ports.keys import Keys
from placet.rules.written_principals import read_principal, written

SCHEMA: Final = 1
"""Of what is sealed. A later one reads this one too; one that is not known is left alone."""


class Voucher(StrEnum):
    """Who says what a run's principal may by now. It is settled when the run begins.

    NOBODY: it may what it might then. KEYS: the API keys of this store, one of which allowed all of that. PROGRAM:
    whoever embeds the gate (`principal_of=`); a process that was not given it has nobody to ask.
    """

    NOBODY = "nobody"
    KEYS = "keys"
    PROGRAM = "program"


@dataclass(frozen=True, slots=True, kw_only=True)
class Resting:
    """What goes on after a rest.

    Attributes:
        shape: of the definition that laid it down.
        visits: how often each state was entered; `state` is the one to be done, or that waits.
        then: where a `Wait` leads once its question is answered.
        origin: digest of what it was begun with.
        waits: the questions it waits for.
        tries: looks in vain in a row, for the next pause.
        voucher: who says what its principal may by now.
        policies: under which it came to rest, one after the other, the last ones.
        under: the policy of the step that is being done; None where that cannot be told. The row says it, not what is
            sealed.
    """

    workflow: str
    version: str
    shape: str
    state: str
    visits: dict[str, int]
    inputs: JsonValue
    principal: Principal
    origin: str
    then: tuple[str, JsonValue] | None = None
    waits: tuple[ApprovalId, ...] = ()
    tries: int = 0
    code: str | None = None
    policies: tuple[PolicyVersion, ...] = ()
    voucher: Voucher = Voucher.NOBODY
    under: PolicyVersion | None = None

    @property
    def visit(self) -> int:
        return self.visits.get(self.state, 1)

    @property
    def entries(self) -> int:
        return sum(self.visits.values())


def seal(resting: Resting, keys: Keys, *, tenant: str, run_id: str) -> bytes:
    body = {
        "schema": SCHEMA,
        "workflow": resting.workflow,
        "version": resting.version,
        "shape": resting.shape,
        "state": resting.state,
        "visits": resting.visits,
        "inputs": resting.inputs,
        "principal": written(resting.principal),
        "origin": resting.origin,
        "then": None if resting.then is None else list(resting.then),
        "waits": list(resting.waits),
        "tries": resting.tries,
        "code": resting.code,
        "policies": list(resting.policies),
        "voucher": resting.voucher.value,
    }
    text = json.dumps(body, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return keys.seal(text.encode("utf-8", "surrogatepass"), bound_to=_binding(tenant, run_id))


def unseal(row: RunCheckpoint, keys: Keys) -> Resting | None:
    """None for what cannot be read: altered, another row's, of a schema that is not known, or without its key."""
    try:
        text = keys.unseal(row.sealed, bound_to=_binding(row.tenant, row.run_id))
        body: dict[str, Any] = json.loads(text.decode("utf-8", "surrogatepass"))
        if body.pop("schema") != SCHEMA:
            return None
        then = body.pop("then")
        principal = read_principal(body.pop("principal"))
        waits = tuple(ApprovalId(each) for each in body.pop("waits"))
        body["voucher"] = Voucher(body["voucher"])
        body["policies"] = tuple(PolicyVersion(each) for each in body.get("policies", ()))
        return Resting(principal=principal, then=None if then is None else (then[0], then[1]), waits=waits, **body)
    except (KeyMaterialError, MisuseError, ValueError, TypeError, KeyError, IndexError):
        return None


def _binding(tenant: str, run_id: str) -> bytes:
    return row_binding(tenant, OperationKey(run_id), "checkpoint")

"""A standing grant: a person's signed leave for calls of one kind, given before they are made.

given → used, at most so often, until it expires | revoked

It says yes in the place of an approval and of nothing else: what policy denies, what a person refused and what the
contract calls high, critical or irreversible no grant reaches.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import NewType

from placet.model.approval import Leave, Mac
from placet.model.decision import Terms
from placet.model.identifiers import Digest, PolicyVersion, RunId
from placet.model.json import JsonObject, JsonValue

DEFAULT_SECONDS = 3_600.0
DEFAULT_USES = 10

GrantId = NewType("GrantId", str)
"""One standing grant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnyValue:
    """Whatever the contract lets the argument be, its absence too. It has to be said: silence leaves nothing open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OneOf:
    """Exactly one of these values: equal in type and content; of two numbers the value counts."""

    values: tuple[JsonValue, ...] = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Between:
    """A number that is not below the one and not above the other; None is no bound on that side."""

    at_least: int | float | None = field(default=None, repr=False)
    at_most: int | float | None = field(default=None, repr=False)


Limit = AnyValue | OneOf | Between
Limits = Mapping[str, Limit]
"""By top-level argument. A call with an argument that stands here nowhere is not covered."""


class GrantState(StrEnum):
    """usable: answers asks. The others do not.

    void: contract, policy or key is not what it was given under. altered: somebody changed the row.
    """

    USABLE = "usable"
    USED_UP = "used_up"
    EXPIRED = "expired"
    REVOKED = "revoked"
    VOID = "void"
    ALTERED = "altered"


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """What a person signed. Immutable, but that revoking it signs it anew.

    Attributes:
        subject: whose calls, a `Principal.identity`: an agent acting for Alice is not the same acting for Bob.
        run_id: the only run it is good for; None for every run of the subject.
        contract_digest, policy_version: under anything else it is worth nothing.
        limits_digest: over the limits, which are sealed as argument values are.
        terms: what the rule that lets it be given demands of an approval.
        max_uses: dispatches that it may pay for.
        leave: with what leave it was given.
        expires_at: the instant at which it is expired, not the last at which it is good.
        revoked_at: None as long as it stands.
        revoked_by: None too where no person did it: its giver may not give it any more.
    """

    grant_id: GrantId
    tenant: str
    environment: str
    subject: str
    run_id: RunId | None
    tool: str
    tool_version: str
    contract_digest: Digest
    limits_digest: Digest
    policy_version: PolicyVersion
    terms: Terms
    max_uses: int
    given_by: str
    given_at: datetime
    expires_at: datetime
    leave: Leave
    reason: str
    nonce: str
    sealed_limits: bytes = field(repr=False)
    revoked_by: str | None = None
    revoked_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredGrant:
    """A grant as a store keeps it. Authority is the MAC; how often it was used is what the store counted.

    Attributes:
        uses: dispatches it has paid for; covered by no MAC, compared and raised in the claim's own transaction.
    """

    grant: Grant
    mac: Mac
    uses: int = 0
    used_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantWish:
    """What somebody wants to grant.

    Attributes:
        subjects: whose calls: who acts, then whom it acts for, the far end last.
        limits: one for each argument of the tool: `"any"`, `{"one_of": [...]}`, `{"at_least": n, "at_most": n}`.
        seconds: how long it is to be good for, from the giving.
        max_uses: calls that it may let through.
        run_id: the only run it is good for; None for every run.
        reason: the person's words.
    """

    tool: str
    subjects: tuple[str, ...]
    limits: JsonObject = field(repr=False)
    seconds: float = DEFAULT_SECONDS
    max_uses: int = DEFAULT_USES
    run_id: str | None = None
    reason: str = ""

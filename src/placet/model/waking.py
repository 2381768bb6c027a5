"""What somebody may wait for that another process brings about."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from placet.model.identifiers import OperationKey
from placet.model.making import quick


class TopicKind(StrEnum):
    """effect: one operation has left `dispatched`. approvals: one of a tenant was asked for or has changed. runs: there
    is a run, of whatever tenant, at which somebody has to look.
    """

    EFFECT = "effect"
    APPROVALS = "approvals"
    RUNS = "runs"


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """One thing to wait for. Equal topics are the same, in whatever process."""

    kind: TopicKind
    tenant: str = ""
    name: str = ""


def effect_topic(tenant: str, operation_key: OperationKey) -> Topic:
    return Topic(kind=TopicKind.EFFECT, tenant=tenant, name=operation_key)


def approvals_topic(tenant: str) -> Topic:
    return Topic(kind=TopicKind.APPROVALS, tenant=tenant)


def runs_topic() -> Topic:
    return Topic(kind=TopicKind.RUNS)

"""Which calls on record would have been answered otherwise by a policy in shadow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from placet.model.audit import ChainedEvent, EventKind
from placet.rules.audit import event_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One proposal that a policy in shadow was asked about too.

    Attributes:
        at: when it was proposed, as the audit writes it.
        reasons, version: those of the policy in shadow; no version where it did not answer.
    """

    at: str
    tool: str
    subject: str
    run_id: str
    call_id: str
    enforced: str
    would_be: str
    changes: bool
    reasons: tuple[str, ...]
    version: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShadowReport:
    """What a policy in shadow would have changed.

    Attributes:
        version: the one it is about; None where it is about every one.
        calls: how many were put before it.
        errors: how many of them it did not answer.
        changed: the calls whose answer would change, the newest first.
    """

    version: str | None
    calls: int
    errors: int
    changed: tuple[Compared, ...]


def compared_of(event: ChainedEvent) -> Compared | None:
    """What a started event says of it: every proposal has one. None of every other event, and of an altered one."""
    said = event_of(event.body)
    if said is None or said.kind is not EventKind.STARTED or said.shadow is None:
        return None
    return Compared(
        at=said.at.isoformat(timespec="seconds"),
        tool=said.tool,
        subject=said.subject,
        run_id=said.run_id or "",
        call_id=said.call_id or "",
        enforced=said.shadow.enforced,
        would_be=said.shadow.would_be,
        changes=said.shadow.changes,
        reasons=said.shadow.reasons,
        version=said.shadow.policy_version,
    )


def compared(calls: Sequence[Compared], *, version: str | None) -> ShadowReport:
    """The report about one version, with what it did not answer; about all of them where none is named."""
    those = [each for each in calls if version is None or each.version in (version, None)]
    return ShadowReport(
        version=version,
        calls=len(those),
        errors=sum(each.version is None for each in those),
        changed=tuple(each for each in those if each.changes),
    )

"""Which failure ends with which exit code, and how it is told."""

from __future__ import annotations

from placet import errors
from placet.cli.table import Exit
from placet.model.outcome import (
    AwaitingApproval,
    Conflict,
    Failed,
    InProgress,
    Invalid,
    NotRun,
    Outcome,
    Refused,
    Replayed,
    Succeeded,
    TimedOut,
    Unknown,
)


class UsageProblem(errors.PlacetError):
    """The command line means nothing."""

    code = "usage"


class ConfigProblem(errors.ConfigurationError):
    """placet.toml cannot be used as it is."""

    code = "config_invalid"


class ToolsNotLoaded(errors.ConfigurationError):
    """The project's tools could not be imported."""

    code = "tools_not_loaded"


class WorkflowsNotLoaded(errors.ConfigurationError):
    """The project's workflows could not be imported."""

    code = "workflows_not_loaded"


class ContractUnavailable(errors.PlacetError):
    """Without the tool's contract nobody can see what would run, so nobody can approve it here."""

    code = "contract_unavailable"


class NotListed(errors.PlacetError, PermissionError):
    """Nobody of this name may decide here."""

    code = "not_listed"


class Declined(errors.PlacetError):
    """The question at the prompt was not answered with yes."""

    code = "declined"


_NOT_ENTITLED = frozenset(
    {
        "not_a_person",
        "not_an_approver",
        "not_listed_any_more",
        "not_the_requesting_user",
        "editor_denied",
        "other_environment",
        "own_edit",
        "own_request",
        "scope_missing",
    }
)
_OF_DECISIONS = {
    **dict.fromkeys(_NOT_ENTITLED, Exit.NOT_ENTITLED),
    "approval_expired": Exit.NOT_APPROVED,
    "key_retired": Exit.NOT_APPROVED,
    "policy_changed": Exit.NOT_APPROVED,
    "rule_not_here": Exit.NOT_APPROVED,
    "vote_withdrawn": Exit.NOT_APPROVED,
    "not_approved": Exit.NOT_APPROVED,
    **dict.fromkeys(("other_digest", "not_alike", "too_grave_together"), Exit.INVALID),
    **dict.fromkeys(("never_granted", "not_grantable"), Exit.DENIED),
    **dict.fromkeys(("grant_too_long", "grant_too_often"), Exit.INVALID),
    "looked_in_the_future": Exit.INVALID,
    "stopped_with_more_leave": Exit.NOT_ENTITLED,
    "too_early_for_absent": Exit.UNKNOWN,
}
_OF_REFUSALS = {
    "denied": Exit.DENIED,
    "tool_closed": Exit.DENIED,
    "approval_suspect": Exit.DENIED,
    "grant_suspect": Exit.DENIED,
    "operation_of_another": Exit.DENIED,
    "not_your_run": Exit.DENIED,
    "tool_not_in_run": Exit.DENIED,
    "approval_denied": Exit.NOT_APPROVED,
    "approval_expired": Exit.NOT_APPROVED,
    "approval_withdrawn": Exit.NOT_APPROVED,
    "approver_not_entitled": Exit.NOT_APPROVED,
    "edited_by_person": Exit.NOT_APPROVED,
}


_KEYS_THAT_DO_NOT_FIT = frozenset(
    {"key_missing", "key_unreadable", "key_mismatch", "key_exposed", "key_has_other_names"}
)
"""Settings name the wrong file, or one that is not fit: no restart helps. What else befalls a key is of the moment."""
_MEANINGLESS_THERE = frozenset({"meaningless", "misuse", "request_malformed"})
"""What a server says of words that it cannot take; the same words are wrong usage of the store here."""
_HINTS = {
    "already_decided": "placet approvals show ID says who decided. Another decision needs a new ask by the proposer.",
    "approval_expired": "The proposer has to ask again.",
    "approval_suspect": "Do not use it. Run placet audit verify, and find out who can write the store.",
    "config_invalid": "Mend placet.toml: placet init writes an example into a new folder.",
    "contract_not_here": "Decide it where this version of the tool is registered: see placet tools list.",
    "grant_too_long": "placet policy explain says for how long at most.",
    "grant_too_often": "placet policy explain says how many uses at most.",
    "operation_conflict": "Deny it: the proposer has to ask for another operation.",
    "never_granted": "Each call is decided by itself: placet approvals approve.",
    "not_grantable": "The rule that asks has to say so: grants = { ... }. Until then each call is decided by itself.",
    "too_many_grants": "placet grants list; revoke those that nobody needs.",
    "in_progress": "Ask again later, unchanged. Do not start it another way.",
    "key_retired": "The proposer has to ask again.",
    "looked_in_the_future": "Say when your look began: --looked-at now, or an earlier instant.",
    "moved_on": "placet effects show KEY says where it stands now.",
    "asked_already": "placet approvals list shows it; decide that one, and this one as it stands.",
    "edit_forbidden": "Approve it as it is, or deny it with a reason.",
    "editor_denied": "Whoever edits a call needs leave for it, as if it were its own. Deny it with a reason instead.",
    "nothing_changed": "Give the arguments as they should be, all of them.",
    "own_edit": "Somebody else has to decide what you made of it.",
    "no_vote": "placet approvals show ID says who has voted.",
    "not_alike": "Approve together what one rule asked about one tool; the rest, each by itself.",
    "too_grave_together": "Approve each by itself, with its --digest.",
    "not_an_approver": "placet approvals show ID names who may decide it, as far as they are listed here.",
    "leave_not_known": "It was approved before leaves were signed. The proposer has to ask anew.",
    "not_listed_any_more": "An administrator lists you under [people] in placet.toml.",
    "not_a_person": "A person listed under [people] in placet.toml has to say it.",
    "not_the_requesting_user": "The user for whom the agent acts has to confirm it.",
    "other_environment": "Somebody who signs in to the environment of the call has to say it.",
    "other_digest": "Use the digest that placet approvals show ID prints.",
    "own_request": "Somebody other than the requester has to say it.",
    "people_failed": "The list of people could not be read. Try again; if it stays so, look at who keeps it.",
    "precondition_unavailable": "Try again; if it stays so, look at what the precondition of the tool reads.",
    "policy_changed": "The proposer has to ask again, under the policy of today.",
    "policy_failed": "The policy could not answer. placet policy check says what is wrong with its file.",
    "reason_missing": "Say why, with --reason TEXT.",
    "rule_not_here": "Decide it where the policy file is that asked, or let the proposer ask again.",
    "vote_withdrawn": "Others have to vote. To refuse it for good, deny it.",
    "scope_missing": "An administrator adds the scope to your table under [people] in placet.toml.",
    "stopped_with_more_leave": "Somebody with the scope ops.stop.all has to lift it.",
    "store_unavailable": "Nothing was committed. Try again; if it stays so, look at who holds the store's file.",
    "store_in_doubt": "It may have been committed: look before you repeat it, with placet effects list.",
    "usage": "See: placet --help",
}
_OF_KEYS = {
    "key_missing": (
        "If the file is there, this user lacks the permission to read it: run placet as the user who owns it. "
        "Otherwise put it back beside the store, or point --key at it."
    ),
    "key_unreadable": "Put the right key file back, from a copy, or point --key at it.",
    "key_mismatch": "Point --key at the store's own key file, in its newest copy: older ones end at a rotation.",
}


def hint_of(error: errors.PlacetError) -> str:
    """The next step; the engine's own word first, unless it is the one that all key faults share."""
    if isinstance(error, errors.KeyMaterialError) and error.hint == errors.KeyMaterialError.hint:
        return _OF_KEYS.get(error.code, error.hint)
    return error.hint or _HINTS.get(error.code, "")


def scope_hint(scope: str) -> str:
    """The next step of somebody who lacks this scope."""
    return f'An administrator adds "{scope}" to the scopes of your table under [people] in placet.toml.'


def exit_of_error(error: errors.PlacetError) -> Exit:
    """The exit code of a failure."""
    match error:
        case errors.KeyMaterialError():
            return Exit.USAGE if error.code in _KEYS_THAT_DO_NOT_FIT else Exit.FAILED
        case UsageProblem() | errors.ConfigurationError() | errors.MisuseError():
            return Exit.USAGE
        case NotListed():
            return Exit.NOT_ENTITLED
        case Declined():
            return Exit.NOT_APPROVED
        case errors.DecisionRefused():
            return _OF_DECISIONS.get(error.code, Exit.FAILED)
        case errors.EffectUnknown() | errors.StoreInDoubt() | errors.OperationInProgress():
            return Exit.UNKNOWN
        case errors.SignInRefused():
            return Exit.NOT_ENTITLED
        case errors.InvalidProposal() | errors.OperationConflict():
            return Exit.INVALID
        case errors.ApprovalRequired():
            return Exit.PENDING
        case errors.PermissionDenied():
            return Exit.DENIED
        case errors.AuditBroken():
            return Exit.AUDIT_BROKEN
        case _ if error.may_have_acted:  # what became of a request to a server is not known
            return Exit.UNKNOWN
        case _ if error.code in _MEANINGLESS_THERE:
            return Exit.USAGE
        case _:
            return Exit.FAILED


def exit_of_outcome(outcome: Outcome) -> Exit | None:
    """The exit code of one call; None if it was not reached, which says nothing about the batch.

    The outcome of an operation that is still running elsewhere is unknown too, so far: a script must not take it for
    "not done".
    """
    match outcome:
        case Succeeded() | Replayed():
            return Exit.OK
        case Invalid() | Conflict():
            return Exit.INVALID
        case Refused(code=code):
            return _OF_REFUSALS.get(code, Exit.FAILED)
        case AwaitingApproval():
            return Exit.PENDING
        case Unknown() | InProgress():
            return Exit.UNKNOWN
        case TimedOut() | Failed():
            return Exit.FAILED
        case NotRun():
            return None

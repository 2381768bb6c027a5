"""Every failure placet raises, its stable code, and whether the tool may have acted.

    PlacetError
    ├── ConfigurationError            start-up: nothing can run yet
    │   ├── ContractError             a tool's promise cannot be accepted
    │   │   └── NotPinnable           nobody can accept this knowingly of an upstream
    │   ├── ManifestError             the deployment's terms for an upstream's tools cannot be used
    │   ├── PinsNotWritable           what was accepted of the upstreams cannot be changed, and was not
    │   ├── PolicyFileError           policy.toml cannot be used; nothing of it is
    │   ├── DocumentRefused           an OpenAPI document cannot be read, or is none
    │   └── KeyMaterialError          a key file is absent, unreadable or does not fit its store
    ├── MisuseError                   the API was called in a way that means nothing
    │   └── LimitsRefused             the limits of a standing grant are none, or leave an argument out
    ├── InvalidProposal               the model's words do not make a call
    │   ├── ProtocolRejected          not a proposal at all
    │   ├── UnknownTool               no such contract, or not this version
    │   └── InvalidArguments          the arguments break the contract
    ├── CallRefused                   a call that may not run
    │   ├── PermissionDenied          policy, or a person, said no            (PermissionError)
    │   ├── ApprovalRequired          a person has not answered yet           (PermissionError)
    │   ├── BudgetExhausted           a limit of the run is reached           (RuntimeError)
    │   └── BoundaryUnavailable       placet itself cannot decide or record
    ├── OperationConflict             the operation key names another call
    ├── OperationInProgress           the same operation is running
    ├── RunConflict                   a run of this name is there, and is another one
    ├── ExecutionError                the tool was started
    │   ├── ToolFailed                it ended without acting, or it is a read
    │   ├── ToolTimedOut              a read passed its deadline
    │   └── EffectUnknown             we cannot tell whether it acted
    ├── UpstreamUnreachable           a server could not be asked what it has
    ├── NotFound                      no such object in your tenant
    ├── DecisionRefused               this person may not decide this, or not any more
    ├── SignInRefused                 nobody we know stands behind this credential
    ├── CursorRefused                 the list cannot be gone on with from there
    ├── CoCommitRefused               nothing was settled in the handler's transaction, which is to be rolled back
    │   └── CoCommitNotCovered        it was no transaction that could be settled in; what was written is uncertain
    ├── AuditBroken                   the audit of the store does not hold
    ├── AuditBusy                     the audit is being verified for somebody else
    ├── ModelError                    an agent's model gave no answer that can be used; no call of it was proposed
    ├── KnowledgeError
    │   ├── KnowledgeUnavailable      there is no whole index to search
    │   │   └── KnowledgeUnreadable   it is damaged, or of another version
    │   ├── KnowledgeBusy             somebody else builds the index
    │   └── KnowledgeNotBuilt         a build failed; the old index is as it was
    ├── StoreError
    │   ├── StoreMissing / StoreNotWritable / StoreTooNew / StoreCorrupt
    │   ├── StoreUnavailable          nothing was committed
    │   ├── StoreWentBack             the database has lost what it had acknowledged
    │   └── StoreInDoubt              a commit was asked for and not acknowledged
    └── ToolError                     raised *by handlers*, to say what they know
        ├── ToolRejected              the remote refused; nothing happened
        ├── NotSent                   nothing left this process
        ├── RemoteStatus              an HTTP-like status came back
        └── UpstreamFailed            a server answered in a way that does not tell, or not at all

Messages are fixed sentences plus names the server chose. They never hold an argument, a result
or the text of a foreign exception, and never chain one (REQUIREMENTS B201, B202).
"""

from __future__ import annotations

from typing import Any


class PlacetError(Exception):
    """Base of everything placet raises.

    Attributes:
        code: stable, machine-readable name of the failure.
        hint: the next step for whoever reads it; never data.
        may_have_acted: whether the tool may have changed the world.
        retryable: whether the same call may be asked again, unchanged, later.
        tool: the registered tool concerned, if any.
        attempt: the attempt concerned, if any.
        status: an HTTP-like status the remote answered, if any.
    """

    code: str = "placet_error"
    hint: str = ""
    may_have_acted: bool = False
    retryable: bool = False

    def __init__(
        self,
        message: str = "",
        *,
        code: str | None = None,
        hint: str | None = None,
        tool: str | None = None,
        attempt: int | None = None,
        status: int | None = None,
    ) -> None:
        super().__init__(message or type(self).__doc__ or self.code)
        if code is not None:
            self.code = code
        if hint is not None:
            self.hint = hint
        self.tool = tool
        self.attempt = attempt
        self.status = status


class ConfigurationError(PlacetError):
    """The configuration cannot be used."""

    code = "configuration_invalid"


class ContractError(ConfigurationError):
    """The tool cannot be registered as it is."""

    code = "contract_invalid"


class NotPinnable(ContractError):
    """What a server says of its tool would not be what a person reads of it, or is too much to be read."""

    code = "not_pinnable"
    hint = "The tool stays hidden. Whoever keeps the server can describe it otherwise."


class ManifestError(ConfigurationError):
    """The manifest of an upstream cannot be used; none of its tools is served."""

    code = "manifest_invalid"
    hint = "docs/upstreams.md shows a manifest."


class PinsNotWritable(ConfigurationError):
    """What was accepted of the upstreams cannot be changed; nothing was."""

    code = "pins_not_writable"


class PolicyFileError(ConfigurationError):
    """The policy file cannot be used, so nothing is decided by it.

    Attributes:
        mistakes: each thing that is wrong, with its line where that is known; empty where the file was not read.
    """

    code = "policy_invalid"

    def __init__(
        self,
        message: str = "",
        *,
        code: str | None = None,
        hint: str | None = None,
        tool: str | None = None,
        attempt: int | None = None,
        status: int | None = None,
        mistakes: tuple[str, ...] = (),
    ) -> None:
        super().__init__(message, code=code, hint=hint, tool=tool, attempt=attempt, status=status)
        self.mistakes = mistakes


class DocumentRefused(ConfigurationError):
    """The OpenAPI document cannot be read, or is none that is read here; nothing of it is used."""

    code = "openapi_invalid"
    hint = "It is an OpenAPI 3.0 or 3.1 document in JSON or YAML, in one file. docs/openapi.md says what is read."


class KeyMaterialError(ConfigurationError):
    """The store's key is absent, unreadable or belongs to another store."""

    code = "key_missing"
    hint = "Put the key file back beside the store, or point --key at it. Without it the store stays closed."


class MisuseError(PlacetError, TypeError):
    """The API was called in a way that has no meaning."""

    code = "misuse"


class LimitsRefused(MisuseError):
    """The limits of a standing grant say what no limit can, or leave an argument of the tool out; nothing was given."""

    code = "bad_limits"


class InvalidProposal(PlacetError):
    """The proposal does not make a call."""

    code = "invalid_proposal"


class ProtocolRejected(InvalidProposal):
    """The proposal is not an id, a tool name and arguments."""

    code = "protocol_rejected"

    def __init__(self, reason: str, *, error_type: str = "ProtocolRejected") -> None:
        super().__init__(f"The proposal was rejected: {reason}.")
        self.reason = reason
        self.error_type = error_type


class UnknownTool(InvalidProposal):
    """No tool of that name and version is registered."""

    code = "unknown_tool"


class InvalidArguments(InvalidProposal):
    """The arguments break the tool's contract.

    Attributes:
        reason: a fixed name of the rule that was broken, such as `duplicate_member`.
        problems: up to 16 pairs of JSON pointer and fixed message; never a value.
    """

    code = "invalid_arguments"

    def __init__(self, reason: str, *, path: str = "", problems: tuple[tuple[str, str], ...] = ()) -> None:
        super().__init__(f"The arguments were refused: {reason.replace('_', ' ')}.")
        self.reason = reason
        self.problems = problems or ((path, reason),)


class CallRefused(PlacetError):
    """The call may not run."""

    code = "refused"


class PermissionDenied(CallRefused, PermissionError):
    """Policy or a person refused the call."""

    code = "denied"


class ApprovalRequired(CallRefused, PermissionError):
    """A person has to approve this exact call first."""

    code = "approval_required"
    retryable = True


class BudgetExhausted(CallRefused, RuntimeError):
    """A limit of the run is reached."""

    code = "budget_exhausted"


class BoundaryUnavailable(CallRefused):
    """placet could not decide or record, so nothing was run."""

    code = "boundary_unavailable"
    retryable = True


class OperationConflict(PlacetError):
    """The operation key already names another call."""

    code = "operation_conflict"


class RunConflict(PlacetError):
    """A run was begun otherwise, or by somebody else, or cannot be changed so now. Nothing was begun or changed."""

    code = "run_conflict"
    hint = "Begin it under another name, or ask for that one as it was begun."


class OperationInProgress(PlacetError):
    """The same operation is running."""

    code = "in_progress"
    may_have_acted = True
    retryable = True


class ExecutionError(PlacetError):
    """The tool was started and did not succeed."""

    code = "execution_failed"


class ToolFailed(ExecutionError):
    """The tool failed without acting."""

    code = "tool_failed"


class ToolTimedOut(ExecutionError):
    """A read passed its deadline."""

    code = "timed_out"
    retryable = True


class EffectUnknown(ExecutionError):
    """The tool may have acted; it is not repeated until reconciled."""

    code = "effect_unknown"
    may_have_acted = True
    hint = "Do not repeat the call. Reconcile the effect: placet effects reconcile."


class UpstreamUnreachable(PlacetError):
    """A server behind tools could not be asked what it has; nothing was changed."""

    code = "upstream_unreachable"
    hint = "Look whether it can be started, or reached, from here with what placet.toml says of it."
    retryable = True


class NotFound(PlacetError, LookupError):
    """There is no such object in your tenant."""

    code = "not_found"


class DecisionRefused(PlacetError, PermissionError):
    """This decision cannot be taken, by this person or at this time.

    Attributes:
        changed: how what it is about stands now (`state`, `digest`, who decided and when), where a front door says so.
    """

    code = "decision_refused"
    changed: dict[str, Any] | None = None


class SignInRefused(PlacetError, PermissionError):
    """The credential names nobody; nothing was looked up or decided for whoever sent it."""

    code = "sign_in_refused"
    hint = "Sign in again, or ask whoever runs this placet for a new credential."


class CursorRefused(PlacetError):
    """The list cannot be gone on with: the cursor is not of this reader and list, or its time is over."""

    code = "cursor_refused"
    hint = "Read the list again from its beginning, without a cursor."


class CoCommitRefused(PlacetError):
    """Nothing was settled in this transaction. Let the refusal pass, so that all of it is rolled back."""

    code = "co_commit_refused"
    hint = "Let it pass through the handler; do not commit."


class CoCommitNotCovered(CoCommitRefused):
    """Nothing was settled, and what was written before may be durable already: it is in no transaction of the store."""

    code = "co_commit_not_covered"
    hint = (
        "Begin a transaction on a connection to the store's own database, write in it, and co-commit last; "
        "the README shows how."
    )
    may_have_acted = True


class AuditBroken(PlacetError):
    """The audit does not hold, so nobody can vouch for a part of it."""

    code = "audit_broken"
    hint = "placet audit verify says where. The whole store can still be exported, as evidence."


class AuditBusy(PlacetError):
    """The audit is being verified already."""

    code = "audit_busy"
    hint = "Ask again in a while."
    retryable = True


class ModelError(PlacetError):
    """The model gave no answer that can be used."""

    code = "model_unavailable"
    hint = "Ask again later. What was proposed before is on record, and is not done twice under the same run."
    retryable = True


class KnowledgeError(PlacetError):
    """A knowledge base cannot serve."""

    code = "knowledge_error"


class KnowledgeUnavailable(KnowledgeError):
    """There is no whole index to search."""

    code = "index_not_ready"
    hint = "Build the index of this knowledge base, or wait until whoever builds it is done; then ask again."
    retryable = True


class KnowledgeUnreadable(KnowledgeUnavailable):
    """The index is damaged, of another version, or of another knowledge base; nothing of it was used."""

    code = "index_unreadable"
    hint = "Build the index of this knowledge base again: a new one takes the place of what cannot be read."
    retryable = False


class KnowledgeBusy(KnowledgeError):
    """Somebody else builds this index; nothing was changed."""

    code = "index_busy"
    hint = "The old index, if there is one, can be searched meanwhile. Ask for the build again when that one is done."
    retryable = True


class KnowledgeNotBuilt(KnowledgeError):
    """The index could not be built; the old one, if there is one, is as it was."""

    code = "index_not_built"
    hint = "See that the folder of documents can be read and the folder of indexes written, and that the disk has room."
    retryable = True


class StoreError(PlacetError):
    """The store cannot serve."""

    code = "store_error"


class StoreMissing(StoreError):
    """There is no store at that place."""

    code = "store_missing"
    hint = "Create one with: placet init"


class StoreNotWritable(StoreError):
    """The store's folder or file cannot be written."""

    code = "store_not_writable"
    hint = "Give this user write permission on the store's folder, or choose another folder."


class StoreTooNew(StoreError):
    """The store was made by a newer placet."""

    code = "store_too_new"
    hint = "Upgrade placet on this machine before opening the store."


class StoreCorrupt(StoreError):
    """The store's file is not a placet store or is damaged."""

    code = "store_corrupt"
    hint = "Stop all writers, keep the file, and restore from a backup."


class StoreUnavailable(StoreError):
    """The store did not serve; nothing was committed.

    Attributes:
        is_row_held: whether somebody else's transaction held a row for longer than is waited for one.
    """

    code = "store_unavailable"
    hint = "Ask again. If it goes on, look at the disk and at other processes that use the store."
    retryable = True
    is_row_held = False


READ_GIVEN_UP = "read_given_up"
"""The code of a `StoreUnavailable`: recovery, or an earlier try, has completed the read already."""


class StoreWentBack(StoreError):
    """The store has lost commits that it had acknowledged; nothing was written, and this gate writes nothing more."""

    code = "store_went_back"
    hint = (
        "A standby without them was promoted, or a backup restored: what was done since may be on no record, and be "
        "done again. Stop the gates, compare with the remote systems, and only then open new gates."
    )
    may_have_acted = True


class StoreInDoubt(StoreError):
    """A commit was asked for and its answer was lost; it may have happened."""

    code = "store_in_doubt"
    hint = "Ask again: the store then says what became of it."


class ToolError(PlacetError):
    """Raised by a handler that knows what happened."""

    code = "tool_error"


class ToolRejected(ToolError):
    """The remote system refused the request and changed nothing.

    The message is shown to the model (at most 500 characters, escaped): put no secret in it.
    """

    code = "tool_rejected"


class NotSent(ToolError):
    """Nothing left this process, so nothing can have happened.

    With `code="schema_drift"` or `code="upstream_unavailable"` the outcome says so; any other code is `not_sent`.
    """

    code = "not_sent"
    retryable = True


class RemoteStatus(ToolError):
    """The remote answered with an HTTP-like status that is not success.

    429 says nothing was accepted. Any other status of a write leaves it open whether it acted.

    Attributes:
        retry_after: the remote's `Retry-After`, seconds or an HTTP date, as text; None if absent.
    """

    code = "remote_status"
    may_have_acted = True

    def __init__(self, status: int, *, retry_after: str | None = None) -> None:
        super().__init__(f"The remote system answered with status {status}.", status=status)
        self.retry_after = retry_after


class UpstreamFailed(ToolError):
    """A server behind a tool did not answer, or so that it does not tell what became of the request.

    Its own words are in none of it.
    """

    code = "upstream_failed"
    may_have_acted = True

"""One proposal, or a batch, to its outcomes: where proposals come in, and the protocol of a whole batch.

Nothing here raises but the caller's own cancellation, after the attempt is closed, and misuse of the API. A fault of
store, policy, clock or keys before dispatch is a refusal; after it, the outcome is Unknown.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from inspect import iscoroutinefunction
from math import inf

from placet.engine import replies
from placet.engine.auditing import verify_store
from placet.engine.auditor import Auditor
from placet.engine.chronicle import Chronicle
from placet.engine.cursors import Cursors
from placet.engine.deciding import Decider
from placet.engine.desk import Desk
from placet.engine.drain import Drain, DrainReport
from placet.engine.faults import told
from placet.engine.following import Following
from placet.engine.granting import Granting
from placet.engine.path import CallPath
from placet.engine.pinning import PinDesk
from placet.engine.purging import Purger
from placet.engine.questions import Questions
from placet.engine.reconciler import Reconciler
from placet.engine.refusals import Refusals, Rejection
from placet.engine.registry import Registry
from placet.engine.reminding import Reminding
from placet.engine.runs import Runs
from placet.engine.session import Session
from placet.engine.settings import GateSettings
from placet.engine.submissions import Submissions
from placet.engine.switch import Switch
from placet.engine.upstream_questions import UpstreamQuestions
from placet.errors import InvalidProposal, MisuseError, ProtocolRejected
from placet.model.asking import NotAsked
from placet.model.audit import ChainHead, EventKind
from placet.model.call_progress import ProgressListener
from placet.model.contract import UNKNOWN_TOOL_LABEL, Contract
from placet.model.decision import Ask, Decision, Deny
from placet.model.exact import is_seconds
from placet.model.identifiers import PolicyVersion, RequestId, RunId
from placet.model.outcome import AwaitingApproval, NotRun, Outcome, Refused
from placet.model.principal import Principal, is_identity, is_principal
from placet.model.proposal import Proposal
from placet.ports.clock import Clock, IdSource
from placet.ports.store import Store
from placet.ports.waiting import paying, raise_owed_cancellation
from placet.rules import proposals
from placet.rules.chain_check import ChainReport
from placet.rules.chains import Linker

_log = logging.getLogger("placet.gate")
Way = Callable[[Proposal, Session], Awaitable[Outcome]]
"""How a checked proposal comes to its outcome."""


class Gate:
    """Stands between proposals and tools. Use it from one event loop; open it with `placet.open`.

    Attributes:
        desk: where people see and decide approvals.
        grants: where people give standing grants, see them and take them back.
        reconciler: where unknown effects are settled.
        switch: where people stop a tool, an upstream, a tenant, a run or everything, and resume it.
        pins: where people accept what servers say of their tools, and quarantine what they accepted.
        upstream_questions: where it is put on record that an upstream asked somebody something.
        purger: where what is old is forgotten, and held against that.
        reminding: where people are told again of what waits.
        questions: where those who asked look what became of it.
        runs: where runs are begun with limits, looked at, paused, resumed and cancelled.
        auditor: where the audit is read by those who may.
        cursors: where lists that are read a page at a time go on.
    """

    def __init__(
        self,
        *,
        registry: Registry,
        store: Store,
        decider: Decider,
        path: CallPath,
        following: Following,
        chronicle: Chronicle,
        refusals: Refusals,
        submissions: Submissions,
        desk: Desk,
        grants: Granting,
        reconciler: Reconciler,
        switch: Switch,
        pins: PinDesk,
        upstream_questions: UpstreamQuestions,
        purger: Purger,
        reminding: Reminding,
        questions: Questions,
        runs: Runs,
        auditor: Auditor,
        cursors: Cursors,
        drain: Drain,
        clock: Clock,
        ids: IdSource,
        settings: GateSettings,
        linker: Linker,
    ) -> None:
        self._registry = registry
        self._store = store
        self._decider = decider
        self._path = path
        self._following = following
        self._chronicle = chronicle
        self._refusals = refusals
        self._submissions = submissions
        self._clock = clock
        self._ids = ids
        self._settings = settings
        self._linker = linker
        self.desk = desk
        self.grants = grants
        self.reconciler = reconciler
        self.switch = switch
        self.pins = pins
        self.upstream_questions = upstream_questions
        self.purger = purger
        self.reminding = reminding
        self.questions = questions
        self.runs = runs
        self.auditor = auditor
        self.cursors = cursors
        self._drain = drain

    async def announce(self) -> None:
        """Put on record which generic executors were let in, each time a gate opens with them."""
        events = tuple(
            self._chronicle.event(
                EventKind.OVERRIDE_DECLARED,
                self._chronicle.of_contract(contract),
                detail="generic_executor",
                model_suggested=False,
            )
            for contract in self._registry
            if contract.generic_executor_reason is not None
        )
        if events:
            await self._store.record(events)

    # ------------------------------------------------------------ entrances

    async def submit(
        self,
        proposal: object,
        *,
        principal: Principal,
        run: str,
        request_id: str | None = None,
        idempotency_key: str | None = None,
        timeout_seconds: float | None = None,
        on_progress: ProgressListener | None = None,
    ) -> Outcome:
        """One proposal to its outcome.

        Args:
            proposal: a `Proposal` or a plain dict of call_id, tool, arguments[, version, attempt]; untrusted.
            principal: who acts; from authentication, never from the proposal.
            run: the conversation or job the call belongs to; call ids are unique within it.
            idempotency_key: names the operation if the contract does not; asking twice under it is asking once.
            timeout_seconds: how long to wait in all; the settings' `call_seconds` if absent.
            on_progress: a plain function, told in the gate's event loop how far the tool says that it is, while this
                very call runs; not of another's attempt that is waited for. It must not wait itself.

        Returns:
            One of the outcomes; asking again with the same proposal never acts twice.

        Raises:
            asyncio.CancelledError: the caller was cancelled; the attempt has been closed.
            MisuseError: the keyword arguments have no meaning, or the gate is closed; nothing ran.
        """
        with self._submissions.entered():
            session = self._session(principal, run, request_id, idempotency_key, timeout_seconds, on_progress)
            outcomes = await self._batch([proposal], session, stop_on_failure=False)
            await raise_owed_cancellation()
            return outcomes[0]

    async def submit_listed(
        self,
        proposal: object,
        *,
        principal: Principal,
        run: str,
        request_id: str | None = None,
        idempotency_key: str | None = None,
        timeout_seconds: float | None = None,
        on_progress: ProgressListener | None = None,
    ) -> Outcome:
        """Like `submit`, for a door that shows its principals their tools: what `tools_for` lacks does not exist.

        Asking for such a tool is on record under its name; the answer is the one for a name that means nothing.
        """
        with self._submissions.entered():
            session = self._session(principal, run, request_id, idempotency_key, timeout_seconds, on_progress)
            outcomes = await self._batch([proposal], session, stop_on_failure=False, way=self._path.listed_outcome)
            await raise_owed_cancellation()
            return outcomes[0]

    async def submit_followed(
        self, proposal: object, *, principal: Principal, run: str, idempotency_key: str | None = None
    ) -> Outcome:
        """Like `submit`, for who proposes one wish again and again, and cannot be told what to ask for instead.

        A call that a person edited is asked for, and done, as it was edited; the outcome says so, with the arguments.
        One that a person took back is refused from then on (`approval_withdrawn`), where `submit` would ask anew.
        """
        with self._submissions.entered():
            session = self._session(principal, run, None, idempotency_key, None)
            outcomes = await self._batch([proposal], session, stop_on_failure=False, way=self._following.outcome)
            await raise_owed_cancellation()
            return outcomes[0]

    async def submit_all(
        self,
        batch: Sequence[object],
        *,
        principal: Principal,
        run: str,
        request_id: str | None = None,
        timeout_seconds: float | None = None,
        on_progress: ProgressListener | None = None,
    ) -> tuple[Outcome, ...]:
        """All proposals of one model turn, in order; one outcome each, whatever becomes of the others.

        A malformed member, or a call id that occurs twice, stops the whole batch before anything in it runs.
        """
        with self._submissions.entered():
            session = self._session(principal, run, request_id, None, timeout_seconds, on_progress)
            outcomes = await self._batch(_members(batch), session, stop_on_failure=False)
            await raise_owed_cancellation()
            return outcomes

    async def submit_until_failure(
        self,
        batch: Sequence[object],
        *,
        principal: Principal,
        run: str,
        request_id: str | None = None,
        timeout_seconds: float | None = None,
        on_progress: ProgressListener | None = None,
    ) -> tuple[Outcome, ...]:
        """Like `submit_all`, but after the first outcome that is no success the rest are `NotRun`."""
        with self._submissions.entered():
            session = self._session(principal, run, request_id, None, timeout_seconds, on_progress)
            outcomes = await self._batch(_members(batch), session, stop_on_failure=True)
            await raise_owed_cancellation()
            return outcomes

    def knows(self, tool: str) -> bool:
        """Whether a tool of this name is registered here; another process may have others."""
        return type(tool) is str and self._registry.knows(tool)

    def knows_upstream(self, server: str) -> bool:
        """Whether a tool of this upstream is registered here; another process may have others."""
        return type(server) is str and self._registry.has_server(server)

    def tools_for(self, principal: Principal) -> tuple[Contract, ...]:
        """The tools this principal may see. Seeing is not yet being allowed; a policy that fails lists nothing."""
        if not is_principal(principal):
            return ()
        return tuple(contract for contract in self._registry if self._decider.may_see(contract, principal))

    def tool_for(self, name: str, principal: Principal) -> Contract | None:
        """The tool of exactly this name, where `tools_for` lists it."""
        contract = self._registry.contract_of(name) if type(name) is str else None
        is_seen = contract is not None and is_principal(principal) and self._decider.may_see(contract, principal)
        return contract if is_seen else None

    def argument_digest(self, tool: str, arguments: object) -> str | None:
        """What a person would be shown and asked to approve of these arguments, as a digest; None where they are
        refused. Nothing is decided, recorded or asked.
        """
        return self._path.argument_digest(tool, arguments)

    def lists_nothing_for(self, principal: Principal) -> bool:
        """Whether there are tools, and this principal may see none of them."""
        is_somebody = is_principal(principal)
        contracts = tuple(self._registry)
        return bool(contracts) and not any(is_somebody and self._decider.may_see(each, principal) for each in contracts)

    async def ask(self, proposal: object, *, principal: Principal, run: str) -> AwaitingApproval | NotAsked:
        """Ask a person about a call before anybody submits it, where one has to be asked; nothing runs.

        For whoever has to know beforehand that a call will wait, as frameworks that pause a whole run do. The same
        call asked again, or submitted, is the same question. As for `submit_listed`, what `tools_for` lacks does not
        exist.

        Returns:
            Where the question stands while nobody has answered it. For every other call why nobody is asked: submit
            it, and the outcome says what it came to; it may still be a question, if things have changed meanwhile.
        """
        with self._submissions.entered():
            session = self._session(principal, run, None, None, None)
            checked, _ = proposals.read_batch([proposal])
            is_asked = bool(checked) and not self._submissions.is_draining
            answer = await self._path.question(checked[0], session) if is_asked else NotAsked.REFUSED
            await raise_owed_cancellation()
            return answer

    @paying
    async def explain(self, proposal: object, *, principal: Principal, run: str) -> Decision | Outcome:
        """What policy would say, without running, asking or recording anything; an outcome if it makes no call."""
        session = self._session(principal, run, None, None, None)
        if not is_principal(principal):
            return Deny(reasons=("principal_malformed",), policy_version=PolicyVersion("unavailable"))
        try:
            checked = proposals.read_proposal(proposal)
            call = self._path.bind(checked, session)
        except InvalidProposal as error:
            return replies.invalid(error, call_id=proposals.audit_substitutes(proposal)[0], contract=None)
        except BaseException as fault:
            _log.error("binding failed", extra=told(fault))
            call_id, name, _ = proposals.audit_substitutes(proposal)
            tool = self._label(name)
            return replies.refused("boundary_unavailable", call_id=call_id, tool=tool, reasons=("internal_fault",))
        return await self._decider.decide(call, session)

    async def who_may_approve(self, proposal: object, *, principal: Principal, run: str) -> tuple[str, ...]:
        """Everybody listed who may approve the call if it were proposed now; nobody where it would not be asked about.

        Nothing runs, is asked or recorded.
        """
        decision = await self.explain(proposal, principal=principal, run=run)
        if not isinstance(decision, Ask):
            return ()
        session = self._session(principal, run, None, None, None)
        return await self._path.who_may_approve(proposals.read_proposal(proposal), decision, session)

    async def verify_audit(self, *, anchors: dict[str, tuple[int, str]] | None = None) -> ChainReport:
        """Hold the store's whole audit against its chains, its heads and, if given, anchors kept outside."""
        return await verify_store(self._store, self._linker, anchors=anchors)

    async def audit_heads(self) -> tuple[ChainHead, ...]:
        """Where each chain of the audit ends: what to note outside, as anchors for `verify_audit`."""
        return await self._store.heads()

    async def drain(self, seconds: float) -> DrainReport:
        """Stop taking calls, and let those that are inside end, at most so long. Close the gate afterwards.

        A call that comes meanwhile is `Refused` with the code `draining`. What has not ended by then is let go: from
        there on this process leaves what a killed one leaves, for recovery to find; nothing more is written.

        Args:
            seconds: shorter than the time after which whoever ends this process kills it.

        Raises:
            MisuseError: `seconds` is no finite number above zero; nothing was changed.
        """
        return await self._drain(seconds)

    @property
    def is_draining(self) -> bool:
        """Whether what comes now is turned away, because this process ends."""
        return self._submissions.is_draining

    @property
    def is_closed(self) -> bool:
        """Whether it takes nothing any more; another one of the same store may."""
        return self._submissions.is_closed

    @property
    def contracts(self) -> tuple[Contract, ...]:
        """Every tool there is, for whoever names them; what somebody may see of them is `tools_for`."""
        return tuple(self._registry)

    @property
    def wide_fields(self) -> frozenset[tuple[str, ...]]:
        """Where some tool takes integers of any size, for whoever decodes before it knows which tool is meant."""
        return frozenset(path for contract in self._registry for path in contract.wide_fields)

    @property
    def policy_version(self) -> PolicyVersion | None:
        """The policy in force; None where it does not say."""
        return self._decider.policy_version

    @property
    def store(self) -> Store:
        """The store, for looking; whoever writes to it goes around the gate."""
        return self._store

    # ------------------------------------------------------------ batch

    async def _batch(
        self, raw: list[object], session: Session, *, stop_on_failure: bool, way: Way | None = None
    ) -> tuple[Outcome, ...]:
        """The protocol of the whole batch is checked before anything in it runs (B006, B008)."""
        checked, rejected = proposals.read_batch(raw)
        if rejected:
            return await self._reject_batch(raw, rejected, session)
        outcomes: list[Outcome] = []
        for index, proposal in enumerate(checked):
            outcome = await self._outcome(proposal, session, way or self._path.outcome)
            outcomes.append(outcome)
            is_spent = isinstance(outcome, Refused) and outcome.code == "budget_exhausted"
            if is_spent or (stop_on_failure and not outcome.is_success):
                rest = checked[index + 1 :]
                return (*outcomes, *(self._not_run(later.call_id, later.tool) for later in rest))
        return tuple(outcomes)

    async def _outcome(self, proposal: Proposal, session: Session, way: Way) -> Outcome:
        if self._submissions.is_draining:
            return await self._path.turned_away(proposal, session)
        return await way(proposal, session)

    async def _reject_batch(
        self, raw: list[object], rejected: dict[int, ProtocolRejected], session: Session
    ) -> tuple[Outcome, ...]:
        rejections: list[Rejection] = []
        for index, error in rejected.items():
            call_id, name, attempt = proposals.audit_substitutes(raw[index])
            rejections.append(Rejection(error=error, call_id=call_id, name=name, attempt=attempt))
        answers = dict(zip(rejected, await self._refusals.invalid_together(rejections, session), strict=True))
        return tuple(
            answers[index] if index in answers else self._not_run(*proposals.audit_substitutes(item)[:2])
            for index, item in enumerate(raw)
        )

    def _not_run(self, call_id: str, name: str | None) -> NotRun:
        return replies.not_run(call_id=call_id, tool=self._label(name))

    def _label(self, name: str | None) -> str:
        return name if name is not None and self._registry.knows(name) else UNKNOWN_TOOL_LABEL

    # ------------------------------------------------------------ small things

    def _session(
        self,
        principal: Principal,
        run: str,
        request_id: str | None,
        idempotency_key: str | None,
        timeout_seconds: float | None,
        on_progress: ProgressListener | None = None,
    ) -> Session:
        if not is_identity(run):
            raise MisuseError("run= names the conversation or job: text of 1 to 128 characters.")
        if request_id is not None and not is_identity(request_id):
            raise MisuseError("request_id= is text of 1 to 128 characters.")
        if idempotency_key is not None and not is_identity(idempotency_key):
            raise MisuseError("idempotency_key= is text of 1 to 128 characters.")
        patience = self._settings.call_seconds if timeout_seconds is None else timeout_seconds
        if not is_seconds(patience):
            raise MisuseError("timeout_seconds= is a finite number above zero.")
        if on_progress is not None and (not callable(on_progress) or iscoroutinefunction(on_progress)):
            raise MisuseError("on_progress= is a plain function of a CallProgress.")
        deadline = self._clock.monotonic() + patience  # where the clock fails, it has passed
        return Session(
            principal=principal,
            run_id=RunId(run),
            request_id=RequestId(request_id or self._ids.new_id("req")),
            caller_key=idempotency_key,
            deadline=deadline if deadline < inf else -inf,
            on_progress=on_progress,
        )


def _members(batch: object) -> list[object]:
    if type(batch) is list or type(batch) is tuple:
        return list(batch)
    raise MisuseError("A batch is a list or a tuple of proposals.")

"""`placet call`: proposals through the gate, exactly as an agent's would go.

A proposal without a call id gets a new one, and a new one is a new operation unless its contract names it: ids are said
on standard error before anything runs, so that whoever is cut off can ask again for the same.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Annotated, Any

import typer

from placet.cli.draining import DRAIN_SECONDS, DrainSeconds, drain_seconds, draining
from placet.cli.failing import UsageProblem, exit_of_outcome
from placet.cli.next_steps import next_step
from placet.cli.project import agent, checked, finish, load_tools, open_project, policy_of, require_store
from placet.cli.proposing import read_argument_text, read_proposals, text_of
from placet.cli.screen import Form, Screen, shown, shown_key, value_lines
from placet.cli.session import Session, epilog, new_app, with_served_list_session
from placet.cli.streams import OutputLost, abandon
from placet.cli.table import WORST_FIRST, Exit
from placet.model.decision import Allow, Ask, Decision, Deny
from placet.model.outcome import (
    AwaitingApproval,
    Failed,
    InProgress,
    Invalid,
    Outcome,
    Refused,
    Replayed,
    Succeeded,
    Unknown,
)
from placet.model.principal import Principal, is_identity
from placet.rules.policy import word_of
from placet.rules.proposals import audit_substitutes, is_call_id

if TYPE_CHECKING:
    from placet.cli.remote import Server
    from placet.client import Client
    from placet.engine.gate import Gate
    from placet.rules.contracts import Tool

app = new_app("call")

_LINES_SHOWN = 10
_NO_OBJECT = {("", problem) for problem in ("empty", "not_json", "not_an_object", "trailing_data")}
_ARGS_FORM = """--args is one JSON object, names and texts in double quotes: '{"name": "text"}'"""

_Tool = Annotated[str | None, typer.Option("--tool", metavar="NAME", help="The tool, for one proposal.")]
_Args = Annotated[str | None, typer.Option("--args", metavar="JSON|@FILE|-", help="Its arguments; {} if absent.")]
_File = Annotated[
    str | None,
    typer.Option("--file", metavar="FILE|-", help="Many proposals: call_id, tool and arguments, one a line."),
]
_Run = Annotated[
    str | None, typer.Option("--run", metavar="ID", help="The run; needed with --file, made for one proposal.")
]
_CallId = Annotated[
    str | None, typer.Option("--call-id", metavar="ID", help="The call's id in its run; made if absent.")
]
_Idempotency = Annotated[
    str | None, typer.Option("--idempotency-key", metavar="KEY", help="Names the operation if its contract does not.")
]
_DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say what policy would; nothing runs or is recorded.")]
_Stop = Annotated[bool, typer.Option("--stop-on-failure", help="With --file: after the first failure, run no more.")]


@app.command(epilog=epilog())
@with_served_list_session
def call(
    session: Session,
    tool: _Tool = None,
    args: _Args = None,
    file: _File = None,
    run: _Run = None,
    call_id: _CallId = None,
    idempotency_key: _Idempotency = None,
    dry_run: _DryRun = False,
    stop_on_failure: _Stop = False,
    drain: DrainSeconds = DRAIN_SECONDS,
) -> Exit:
    """Put one proposal (--tool), or a file of them (--file), through the gate.

    The proposals are those of [agent] in placet.toml. A call that waits for approval ends with 5: ask again, with the
    same --run, after the decision. A file ends with the worst of its calls: 7, 1, 8, 3, 6, 5, 0.
    With --server the proposals are those of whoever the token says, and the server's own gate answers.
    SIGTERM lets what runs end within --drain-seconds, and begins nothing more; what has not ended then ends with 7.
    """
    if (tool is None) == (file is None):
        raise UsageProblem("Say either --tool NAME or --file FILE")
    if file is not None and (args is not None or call_id is not None or idempotency_key is not None):
        raise UsageProblem("With --file, each line has its own call_id and arguments; no key can name them all")
    if file is not None and run is None and not dry_run:
        raise UsageProblem(
            "--file needs --run ID", hint="Under the same --run, a file can be sent again without acting twice."
        )
    _check_ids(run, call_id, idempotency_key)
    limit = drain_seconds(drain)
    server = session.server
    if server is not None and dry_run:
        raise UsageProblem("--dry-run asks the policy of the project here, and no server")
    principal = agent(session.settings) if server is None else None
    tools = load_tools(session.settings) if server is None else ()
    if file is not None:
        read = read_proposals(file, tools)
        batch = read.proposals
        _warn_of_lines(session.screen, read.unsound_lines)
    else:
        arguments = read_argument_text(args) if args is not None else "{}"
        batch = [{"call_id": call_id or f"c-{secrets.token_hex(6)}", "tool": tool, "arguments": arguments}]
        if server is None:
            _warn_of_name(session, tool, tools)
    asking = _Asking(
        session=session,
        tools=tools,
        principal=principal,
        run=run or f"run-{secrets.token_hex(6)}",
        batch=batch,
        is_single=file is None,
    )
    if dry_run:
        return asking.explain()
    if server is not None:
        return asking.ask(server, idempotency_key=idempotency_key, stop_on_failure=stop_on_failure)
    require_store(session.settings)
    return asking.submit(idempotency_key=idempotency_key, stop_on_failure=stop_on_failure, drain_seconds=limit)


def _warn_of_name(session: Session, name: str | None, tools: Sequence[Tool]) -> None:
    """Before the gate refuses it, as it refuses it of an agent, which is not told what else there is."""
    known, screen = [tool.contract.name for tool in tools], session.screen
    if name in known:
        return
    server = str(name).partition(".")[0]
    if any(each.name == server for each in session.settings.upstreams):
        screen.warn(
            f"placet: the upstream {server} has no tool of this name that is served; placet mcp list {server} says why"
        )
        return
    near = get_close_matches(str(name), known, n=1, cutoff=0.5)
    meant = f" Did you mean {near[0]!r}?" if near else " placet tools list names them."
    screen.warn(f"placet: no tool of this project has this name.{meant}")


def _warn_of_lines(screen: Screen, unsound: Sequence[int]) -> None:
    """One bad line spoils the file, and the gate does not know lines."""
    if unsound:
        shown_lines = ", ".join(map(str, unsound[:_LINES_SHOWN])) + (", ..." if len(unsound) > _LINES_SHOWN else "")
        screen.warn(f"placet: no sound JSON object on line {shown_lines}, so nothing of the file runs")


def _check_ids(run: str | None, call_id: str | None, idempotency_key: str | None) -> None:
    if run is not None:
        checked(run, "--run is text of 1 to 128 characters", is_identity)
    if call_id is not None:
        checked(call_id, "--call-id is 1 to 128 characters of A-Z a-z 0-9 . _ : -", is_call_id)
    if idempotency_key is not None:
        checked(idempotency_key, "--idempotency-key is text of 1 to 128 characters", is_identity)


class _Asking:
    """One invocation's proposals, and the answers shown."""

    def __init__(
        self,
        *,
        session: Session,
        tools: Sequence[Tool],
        principal: Principal | None,
        run: str,
        batch: list[Any],
        is_single: bool,
    ) -> None:
        self._session = session
        self._screen: Screen = session.screen
        self._tools = tools
        self._principal = principal
        self._run = run
        self._batch = batch
        self._is_single = is_single

    # ------------------------------------------------------------ for real

    def ask(self, server: Server, *, idempotency_key: str | None, stop_on_failure: bool) -> Exit:
        """The same of a server, which does what its own gate does."""
        from placet.client import AnswerLost

        self._screen.talk(self._names())
        try:
            with server.connect() as client:
                outcomes = self._asked(client, idempotency_key, stop_on_failure=stop_on_failure)
        except (KeyboardInterrupt, AnswerLost):
            self._warn_of_cut()
            raise
        return self._told(outcomes)

    def _asked(self, client: Client, idempotency_key: str | None, *, stop_on_failure: bool) -> tuple[Outcome, ...]:
        if self._is_single:
            call_id, tool, arguments = (self._batch[0][name] for name in ("call_id", "tool", "arguments"))
            said = text_of(arguments)
            return (client.submit(tool, said, run=self._run, call_id=call_id, idempotency_key=idempotency_key),)
        submit = client.submit_until_failure if stop_on_failure else client.submit_all
        return submit(self._batch, run=self._run)

    def submit(self, *, idempotency_key: str | None, stop_on_failure: bool, drain_seconds: float) -> Exit:
        self._screen.talk(self._names())
        try:
            outcomes = finish(self._drained(idempotency_key, drain_seconds, stop_on_failure=stop_on_failure))
        except KeyboardInterrupt:
            self._warn_of_cut()
            raise
        return self._told(outcomes)

    def _told(self, outcomes: Sequence[Outcome]) -> Exit:
        try:
            self._show(outcomes)
        except OutputLost:
            abandon()
            self._warn_of_lost_output()
        return worst([exit_of_outcome(outcome) for outcome in outcomes])

    def _warn_of_cut(self) -> None:
        """Whoever cuts a call off has to know that it may have acted, and under which names to ask."""
        self._screen.warn(f"placet: cut off; the outcome may be unknown. It was {self._names()}")
        self._screen.warn("  look:      placet effects list")
        self._screen.warn("  settle:    placet effects reconcile")
        self._warn_how_to_ask()

    def _warn_of_lost_output(self) -> None:
        """The outcome stands and gives the exit code; nobody has read it."""
        self._screen.warn("placet: The output could not be written; the command itself was done.")
        self._screen.warn(f"  it was:    {self._names()}")
        self._warn_how_to_ask()

    def _warn_how_to_ask(self) -> None:
        self._screen.warn(
            f"  ask again: the same {'call' if self._is_single else 'file'}, {self._again()}; "
            "under other names it may act twice"
        )

    def _names(self) -> str:
        return f"run {shown(self._run)}" + (f", call {shown(self._batch[0]['call_id'])}" if self._is_single else "")

    async def _drained(
        self, idempotency_key: str | None, drain_seconds: float, *, stop_on_failure: bool
    ) -> tuple[Outcome, ...]:
        async with open_project(self._session.settings, self._tools) as gate:

            async def drain() -> bool:
                return (await gate.drain(drain_seconds)).left == 0

            with draining(drain, when_left=self._warn_of_cut, code=Exit.UNKNOWN):
                return await self._submitted(gate, idempotency_key, stop_on_failure=stop_on_failure)

    async def _submitted(
        self, gate: Gate, idempotency_key: str | None, *, stop_on_failure: bool
    ) -> tuple[Outcome, ...]:
        principal, run = self._proposer(), self._run
        if self._is_single:
            proposal = self._batch[0]
            return (await gate.submit(proposal, principal=principal, run=run, idempotency_key=idempotency_key),)
        if stop_on_failure:
            return await gate.submit_until_failure(self._batch, principal=principal, run=run)
        return await gate.submit_all(self._batch, principal=principal, run=run)

    def _proposer(self) -> Principal:
        """Whom the project proposes for. At a server that is whoever its token says."""
        if self._principal is None:
            raise UsageProblem("A server knows its own agents")
        return self._principal

    def _show(self, outcomes: Sequence[Outcome]) -> None:
        if self._is_single:
            self._show_one(outcomes[0])
        else:
            self._show_all(outcomes)
        self._screen.flush()

    def _show_one(self, outcome: Outcome) -> None:
        if not self._screen.is_text:
            self._screen.document("outcome/1", self._data(outcome))
            return
        self._show_text(outcome)

    def _show_all(self, outcomes: Sequence[Outcome]) -> None:
        match self._screen.form:
            case Form.JSON:
                body = {"run_id": self._run, "outcomes": [self._data(outcome) for outcome in outcomes]}
                self._screen.document("outcomes/1", body)
            case Form.LINES:
                for outcome in outcomes:
                    self._screen.document("outcome/1", self._data(outcome))
            case Form.TEXT:
                for outcome in outcomes:
                    self._show_text(outcome)

    def _show_text(self, outcome: Outcome) -> None:
        screen = self._screen
        screen.line(f"{outcome.status}  {shown(outcome.tool)}  {shown(outcome.call_id)}  {shown(outcome.code)}")
        screen.talk(f"  {shown(outcome.message)}")
        match outcome:
            case Succeeded(result_unavailable=None) | Replayed(result_unavailable=None):
                for line in value_lines(outcome.result):
                    screen.line(f"  {line}")
            case Invalid(problems=problems):
                for path, problem in problems:
                    screen.line(f"  {shown(path or '/')}: {shown(problem)}")
                if self._is_single and not _NO_OBJECT.isdisjoint(problems):
                    screen.talk(f"  next: {_ARGS_FORM}")
            case Refused(reasons=reasons, words=words):
                screen.line(f"  reasons: {shown(', '.join(reasons) or 'none')}")
                if words is not None:
                    screen.line(f"  reviewer said: {shown(words)}")
            case AwaitingApproval(approval_id=approval_id):
                screen.line(f"  approval: {shown(approval_id)}")
                screen.talk(f"  next: placet approvals show {shown(approval_id)}; then the same call, {self._again()}")
            case Failed(words=str(words)):
                screen.line(f"  tool said: {words}")  # escaped when it was taken from the handler
            case Unknown():
                screen.line(f"  operation key: {shown_key(outcome.operation_key or '')}")
                screen.talk("  next: placet effects reconcile")
            case InProgress():
                screen.line(f"  operation key: {shown_key(outcome.operation_key or '')}")
                screen.talk(f"  next: the same call later, {self._again()}")
            case _:
                pass
        if (step := next_step(outcome, self._tools, there=self._session.there)) is not None:
            screen.talk(f"  next: {step}")

    def _again(self) -> str:
        call_id = f" --call-id {shown(self._batch[0]['call_id'])}" if self._is_single else ""
        return f"with --run {shown(self._run)}{call_id}"

    def _data(self, outcome: Outcome) -> dict[str, Any]:
        return {
            "run_id": self._run,
            "call_id": outcome.call_id,
            "tool": outcome.tool,
            "operation_key": outcome.operation_key,
            **outcome.as_data(),
        }

    # ------------------------------------------------------------ only asking

    def explain(self) -> Exit:
        answers = finish(self._explained())
        shown_as = [self._explanation(raw, answer) for raw, answer in zip(self._batch, answers, strict=True)]
        match self._screen.form:
            case Form.JSON if not self._is_single:
                self._screen.document("explanations/1", {"explanations": shown_as})
            case Form.JSON | Form.LINES:
                for data in shown_as:
                    self._screen.document("explanation/1", data)
            case Form.TEXT:
                for data in shown_as:
                    reasons = shown(", ".join(data["reasons"]) or "none")
                    self._screen.line(f"{data['decision']}  {shown(data['tool'])}  {shown(data['call_id'])}  {reasons}")
        return worst([exit_of_answer(answer) for answer in answers])

    async def _explained(self) -> list[Decision | Outcome]:
        """Policy looks at no store, so none is opened, made or written."""
        from placet.bootstrap.addresses import MEMORY
        from placet.bootstrap.opening import Recovery, open_gate

        policy = policy_of(self._session.settings)
        async with open_gate(tools=self._tools, store=MEMORY, recovery=Recovery.MANUAL, policy=policy) as gate:
            return [await gate.explain(raw, principal=self._proposer(), run=self._run) for raw in self._batch]

    def _explanation(self, raw: object, answer: Decision | Outcome) -> dict[str, Any]:
        call_id, name, _ = audit_substitutes(raw)
        data: dict[str, Any] = {"call_id": call_id, "tool": name if name is not None else "unknown"}
        match answer:
            case Allow() | Ask() | Deny():
                data |= {
                    "decision": word_of(answer),
                    "reasons": list(answer.reasons),
                    "policy_version": answer.policy_version,
                    "needs": answer.requirement.kind.value if isinstance(answer, Ask) else None,
                }
            case _:
                problems = answer.problems if isinstance(answer, Invalid) else ()
                reasons = [answer.code, *(f"{path or '/'}: {problem}" for path, problem in problems)]
                data |= {"decision": "invalid", "reasons": reasons, "policy_version": None, "needs": None}
        return data


def exit_of_answer(answer: Decision | Outcome) -> Exit | None:
    """The exit code of what policy would say; None as `exit_of_outcome`."""
    match answer:
        case Allow():
            return Exit.OK
        case Ask():
            return Exit.PENDING
        case Deny():
            return Exit.DENIED
        case _:
            return exit_of_outcome(answer)


def worst(codes: Sequence[Exit | None]) -> Exit:
    """What a batch ends with: the first of `WORST_FIRST` that occurs; calls that were not reached say nothing."""
    return next((code for code in WORST_FIRST if code in codes), Exit.FAILED)

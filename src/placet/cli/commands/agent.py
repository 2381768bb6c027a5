"""`placet agent`: a model of the user's own, given the project's tools, and a task."""

from __future__ import annotations

import secrets
import sys
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer

from placet.cli.failing import UsageProblem
from placet.cli.next_steps import next_step
from placet.cli.project import agent, checked, finish, load_tools, open_project, require_store
from placet.cli.screen import shown
from placet.cli.session import Session, epilog, new_app, with_session
from placet.cli.table import Exit
from placet.model.exact import is_seconds
from placet.model.outcome import AwaitingApproval, Refused
from placet.model.principal import is_identity

if TYPE_CHECKING:
    from placet.agent import Answered, Ending

app = new_app("agent")
_LARGEST_TASK = 262_144
_EXIT_OF = {
    "said": Exit.OK,
    "waiting": Exit.PENDING,
    "spent": Exit.DENIED,
    "closed": Exit.DENIED,
    "turns": Exit.FAILED,
    "cut": Exit.FAILED,
}


@app.command(epilog=epilog())
@with_session
def run_agent(
    session: Session,
    task: Annotated[str, typer.Argument(metavar="TASK|-", help="What to do; - reads it from standard input.")],
    model: Annotated[str, typer.Option("--model", metavar="NAME", help="The model, as its endpoint knows it.")],
    base_url: Annotated[
        str | None, typer.Option("--base-url", metavar="URL", help="Any endpoint that speaks Chat Completions.")
    ] = None,
    instructions: Annotated[
        Path | None, typer.Option("--instructions", metavar="FILE", help="What the model is told first.")
    ] = None,
    run: Annotated[
        str | None,
        typer.Option(
            "--run",
            metavar="ID",
            help="The run of its calls, one for each task: named again, it is gone on with; made if absent.",
        ),
    ] = None,
    turns: Annotated[int, typer.Option("--turns", metavar="N", help="Answers it may give at most.")] = 30,
    wait: Annotated[
        float, typer.Option("--wait", metavar="SECONDS", help="How long a person is waited for; 0: not at all.")
    ] = 300.0,
    polls: Annotated[
        list[str] | None,
        typer.Option(
            "--polls", metavar="TOOL", help="A tool that is there to be asked again and again; any number of them."
        ),
    ] = None,
    timeout: Annotated[
        float, typer.Option("--timeout", metavar="SECONDS", help="For one answer of the model.")
    ] = 120.0,
) -> Exit:
    """Give a model a task and the project's tools. Every call it asks for passes the gate, for [agent] in placet.toml.

    The credential for the endpoint is the variable OPENAI_API_KEY. The model's last words go to standard output, what
    its calls came to, to standard error. Ends with 5 while a person is asked, and with 3 when the run's budget is
    spent or somebody has stopped it.
    """
    from placet.agent import Agent, OpenAICompatible, Repeats
    from placet.agent.loop import INSTRUCTIONS

    name = checked(run or f"run-{secrets.token_hex(6)}", "--run is text of 1 to 128 characters", is_identity)
    if turns < 1 or not (wait == 0 or is_seconds(wait)) or not is_seconds(timeout):
        raise UsageProblem("--turns, --wait and --timeout are numbers above zero; --wait may be 0")
    said, told = _task(task), INSTRUCTIONS if instructions is None else _text_of(instructions)
    principal, tools = agent(session.settings), load_tools(session.settings)
    require_store(session.settings)
    session.screen.talk(f"run {shown(name)}")

    def heard(answered: Answered) -> None:
        outcome = answered.outcome
        session.screen.warn(f"{outcome.status}  {shown(outcome.tool)}  {shown(outcome.call_id)}  {shown(outcome.code)}")
        if isinstance(outcome, Refused) and outcome.reasons:
            session.screen.warn(f"  reasons: {shown(', '.join(outcome.reasons))}")
        if (step := next_step(outcome, tools)) is not None:
            session.screen.warn(f"  next: {step}")
        if isinstance(outcome, AwaitingApproval):
            session.screen.warn(f"  next: placet approvals show {shown(outcome.approval_id)}")
            if wait:
                session.screen.warn(f"  waiting for the answer, up to {wait:g} seconds; --wait 0 does not wait")

    async def worked() -> Ending:
        async with (
            OpenAICompatible(model=model, base_url=base_url, timeout_seconds=timeout) as behind,
            open_project(session.settings, tools) as gate,
        ):
            session.screen.talk(f"model {shown(model)} at {shown(behind.host)}")
            loop = Agent(
                gate=gate, model=behind, principal=principal, run=name, instructions=told, max_turns=turns,
                wait_seconds=wait, repeats=Repeats(polls=frozenset(polls or ())), heard=heard,
            )  # fmt: skip
            return await loop.work(said)

    ending = finish(worked())
    _show(session, name, ending)
    return _EXIT_OF[ending.kind.value]


def _show(session: Session, run: str, ending: Ending) -> None:
    if not session.screen.is_text:
        body = {
            "run_id": run,
            "ended": ending.kind.value,
            "words": ending.words,
            "turns": ending.turns,
            "waiting": list(ending.waiting),
        }
        session.screen.document("agent/1", body)
        return
    session.screen.line(shown(ending.words) if ending.words else f"({ending.kind.value}, without words)")
    for approval_id in ending.waiting:
        session.screen.warn(f"a person has not answered yet: {shown(approval_id)}")
    if ending.waiting:
        session.screen.warn(f"next: the same command, with --run {quote(shown(run))}, once it is answered")


def _task(said: str) -> str:
    task = said if said != "-" else _decoded(sys.stdin.buffer.read(_LARGEST_TASK + 1), "standard input")
    if not task.strip():
        raise UsageProblem("The task is empty", hint="Say what to do, in one text, or after - on standard input.")
    return task


def _text_of(path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(_LARGEST_TASK + 1)
    except (OSError, ValueError):
        pass
    else:
        return _decoded(content, "--instructions")
    raise UsageProblem(f"--instructions: the file cannot be read: {path}")


def _decoded(content: bytes, what: str) -> str:
    try:
        if len(content) <= _LARGEST_TASK:
            return content.decode()
    except UnicodeDecodeError:
        pass
    raise UsageProblem(f"{what} is no UTF-8 text of at most {_LARGEST_TASK} bytes")

"""The parts of the documents that the code already knows: every code with its next step, every limit with its default.

    python scripts/generated_docs.py            say which parts are out of date
    python scripts/generated_docs.py --write    bring them up to date

A part stands between `<!-- generated: NAME -->` and `<!-- end: NAME -->`. scripts/check_docs.py holds them fresh.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, cast

from placet import errors
from placet.adapters.transports import python as python_transport
from placet.agent import repeating
from placet.cli import failing
from placet.cli.table import EXIT_MEANINGS, Exit
from placet.demos.support.workflow import SUPPORT
from placet.engine import (
    api_keys,
    capacity,
    desk,
    granting,
    listing,
    person_sessions,
    pinning,
    replies,
    settling,
    several,
    switch,
    triage,
)
from placet.engine.settings import GateSettings
from placet.http_api import problems as http_problems_module
from placet.model import contract, outcome, principal
from placet.model.attempt import UNSENT_CODES
from placet.model.decision import Requirement
from placet.model.outcome import RETRYABLE_CODES
from placet.model.workflow import Workflow
from placet.rules import approvals, issuer_sign_in, operations, policy, proposals, workflow_drawing
from placet.rules.contracts import schema_bounds, schema_patterns, schema_reading, tool
from placet.rules.decoding import DecodingLimits

REPOSITORY = Path(__file__).resolve().parent.parent
SOURCE = REPOSITORY / "src" / "placet"
_REGION = re.compile(r"<!-- generated: ([a-z-]+) -->\n(.*?)<!-- end: \1 -->", re.S)


# ---------------------------------------------------------------- outcomes

_CONTRACT = SimpleNamespace(
    name="the tool", argument_names=(), arguments_schema={}, silence_seconds=None, timeout_seconds=10.0
)
_CALL = cast(Any, SimpleNamespace(reply_to="c1", operation_key="key", contract=_CONTRACT))
_APPROVAL = cast(Any, SimpleNamespace(question=SimpleNamespace(approval_id="apr-1", reasons=())))


def outcomes() -> list[outcome.Outcome]:
    """One specimen of every outcome code, made by the functions that make the real ones."""
    failures = sorted(_constants_of("failed", keyword="code") | UNSENT_CODES | {"tool_failed"})
    return [
        replies.succeeded(_CALL, None),
        replies.performed_without_result(_CALL, "result_broken"),
        replies.replayed(_CALL, None, unavailable=None),
        replies.awaiting(_CALL, _APPROVAL),
        replies.in_progress(_CALL),
        replies.unknown(_CALL),
        *(replies.failed(_CALL, code=code) for code in failures),
        replies.timed_out(_CALL),
        replies.conflict(_CALL),
        replies.invalid(errors.InvalidArguments("contract_broken"), call_id="c1", contract=_CALL.contract),
        replies.invalid(errors.ProtocolRejected("the reason"), call_id="c1", contract=None),
        *(
            replies.invalid(errors.UnknownTool(code=code), call_id="c1", contract=None)
            for code in ("unknown_tool", *sorted(_codes_given_to("UnknownTool")))
        ),
        *(replies.refused_call(_CALL, code) for code in replies._REFUSALS),
        outcome.Refused(call_id="c1", tool="the tool", code=repeating.REPEATED, message=repeating._REFUSAL),
        replies.not_run(call_id="c1", tool="the tool"),
    ]


def outcome_table() -> str:
    rows = [
        (
            f"`{type(each).__name__}`",
            f"`{each.code}`",
            _yes(each.retryable),
            _yes(each.may_have_acted),
            each.message.replace("|", "\\|"),
        )
        for each in outcomes()
    ]
    return _table(("outcome", "code", "ask again unchanged", "may have acted", "what the proposer is told"), rows)


def retryable_codes() -> str:
    codes = ", ".join(f"`{code}`" for code in sorted(RETRYABLE_CODES))
    return f"Codes that may be asked again unchanged, later: {codes}."


# ---------------------------------------------------------------- errors


def error_classes() -> list[type[errors.PlacetError]]:
    """Every exception of `placet.errors`, parents before children, in the order of the source."""
    found = [value for value in vars(errors).values() if inspect.isclass(value)]
    return [each for each in found if issubclass(each, errors.PlacetError)]


def error_table() -> str:
    rows = []
    for each in error_classes():
        codes = [each.code, *sorted(_codes_given_to(each.__name__) - {each.code})]
        parent = "" if each is errors.PlacetError else f"`{each.__mro__[1].__name__}`"
        meaning = (inspect.getdoc(each) or "").split("\n")[0]
        shown = ", ".join(f"`{code}`" for code in codes)
        rows.append((f"`{each.__name__}`", parent, shown, _yes(each.retryable), _yes(each.may_have_acted), meaning))
    return _table(("error", "is a", "codes", "ask again", "may have acted", "meaning"), rows)


def hint_table() -> str:
    rows = [(f"`{each.code}`", each.hint.replace("|", "\\|")) for each in error_classes() if each.__dict__.get("hint")]
    return _table(("code", "next step"), rows)


_NOT_ENTITLED = {
    "not_a_person": "Only a person's own sign-in decides; a credential that proposes never does.",
    "not_the_requesting_user": "Only the user for whom the agent acts may confirm it.",
    "other_environment": "The call belongs to another environment than the person's sign-in.",
    "own_edit": "Who edited the call does not review what became of it.",
    "own_request": "Who asked, or on whose behalf it was asked, does not review it.",
    "scope_missing": "The person lacks the scope `approvals.decide`.",
}
_NOT_ENTITLED_BY_POLICY = {
    "not_an_approver": "The rule that asked names other people, roles or scopes.",
    "rule_not_here": "This process does not have the rule that asked, so it cannot tell who may decide.",
    "policy_changed": "It was asked under another version of the policy; it has to be asked anew.",
}
_NOT_ENTITLED_BY_NOBODY = {
    listing.NOT_LISTED: "The person has left the list of those who may decide.",
    listing.PEOPLE_FAILED: "The list of people did not answer; nobody decides meanwhile.",
    policy.POLICY_FAILED: "The policy did not answer with a yes or a no; nobody decides meanwhile.",
    "leave_not_known": "It was decided before leaves were signed with approvals, and a rule wants to know it.",
}
"""Beside the first, also what a call is refused with when its approval is to be spent; see `approver_not_entitled`."""


def decision_table() -> str:
    """Why a person's decision was not taken; the code is that of `DecisionRefused`."""
    if _returned_by(approvals.why_not_entitled) != set(_NOT_ENTITLED):
        raise LookupError("rules.approvals.why_not_entitled has codes that _NOT_ENTITLED does not explain")
    if _constants_of("NotEntitled", keyword="code") - {policy.POLICY_FAILED} != set(_NOT_ENTITLED_BY_POLICY):
        raise LookupError("policies have codes that _NOT_ENTITLED_BY_POLICY does not explain")
    refused_edits = dict(_edits_refused())
    rows = dict(_refusals_in(desk)) | refused_edits | _NOT_ENTITLED | _NOT_ENTITLED_BY_POLICY | _NOT_ENTITLED_BY_NOBODY
    approving = [("an approval", f"`{code}`", message) for code, message in sorted(rows.items())]
    settled = [("an unknown effect", f"`{code}`", message) for code, message in sorted(settling._REFUSALS.items())]
    stopping = [("a stop", f"`{code}`", text.format(scope="…")) for code, text in sorted(switch._REFUSALS.items())]
    of_keys = [("an API key", f"`{code}`", text) for code, text in sorted(api_keys._REFUSALS.items())]
    of_sessions = [("a session", f"`{code}`", text) for code, text in sorted(person_sessions._REFUSALS.items())]
    of_pins = [("an upstream's tool", f"`{code}`", text) for code, text in sorted(pinning._REFUSALS.items())]
    of_several = [("several approvals", f"`{code}`", text) for code, text in sorted(several.REFUSALS.items())]
    of_grants = [("a standing grant", f"`{code}`", text) for code, (text, _) in sorted(granting._REFUSALS.items())]
    rows_of_others = [*of_several, *settled, *stopping, *of_keys, *of_sessions, *of_grants, *of_pins]
    return _table(("deciding", "code", "meaning"), [*approving, *rows_of_others])


def sign_in_table() -> str:
    """Why nobody was signed in to the console through an issuer; the code is that of `SignInRefused`."""
    rows = [(f"`{code}`", said, hint) for code, (said, hint) in sorted(issuer_sign_in.REFUSALS.items())]
    return _table(("code", "what a person is told", "next step"), rows)


def http_problems() -> str:
    """What the HTTP API answers outside of outcomes, beside the library's own errors."""
    kinds = [kind for kind in vars(http_problems_module).values() if inspect.isclass(kind)]
    ours = [kind for kind in kinds if issubclass(kind, http_problems_module.HttpProblem)]
    rows = [
        (str(kind.status_code), f"`{kind.code}`", _yes(kind.retryable), (inspect.getdoc(kind) or "").split("\n")[0])
        for kind in ours
        if kind is not http_problems_module.HttpProblem
    ]
    return _table(("status", "code", "ask again", "meaning"), sorted(rows))


def argument_reasons() -> str:
    names = sorted(_constants_of("InvalidArguments") | _reasons_handed_on())
    return "`" + "`, `".join(names) + "`."


# ---------------------------------------------------------------- the command line

_OF_COMMANDS = {
    "config_missing": (Exit.USAGE, "There is no project file where one was named."),
    "exists": (Exit.USAGE, "placet init would overwrite something, so it made nothing."),
    "extra_missing": (Exit.USAGE, "What was asked for needs an extra of the package that is not installed."),
    "no_server": (Exit.USAGE, "A PostgreSQL server of its own cannot be had: its programs are missing, or failed."),
    "not_safe_to_start": (Exit.USAGE, "placet serve looked at the deployment first, and found a fault."),
    "token_exposed": (Exit.USAGE, "Others may read the file of the token that a server is asked with."),
    "token_malformed": (Exit.USAGE, "What the file of the token holds is none."),
    "token_missing": (Exit.USAGE, "The file of the token is absent, empty or unreadable."),
    "no_such_destination": (Exit.USAGE, "[[notify]] in placet.toml names no destination so."),
    "not_approved": (Exit.NOT_APPROVED, "It was decided before, and not with yes."),
    "unexpected": (Exit.FAILED, "placet itself failed; PLACET_DEBUG=1 shows where."),
}


def command_codes() -> str:
    """Codes that only commands give; all others come from the library."""
    if _codes_in_commands() != set(_OF_COMMANDS):
        raise LookupError("the command line has codes that _OF_COMMANDS does not explain, or no longer has some")
    kinds = [
        kind
        for kind in vars(failing).values()
        if inspect.isclass(kind) and issubclass(kind, errors.PlacetError) and kind.__module__ == failing.__name__
    ]
    rows = {kind.code: (failing.exit_of_error(kind()), inspect.getdoc(kind) or "") for kind in kinds} | _OF_COMMANDS
    return _table(
        ("code", "exit code", "meaning"),
        [(f"`{code}`", str(int(exit_code)), meaning) for code, (exit_code, meaning) in sorted(rows.items())],
    )


def exit_codes() -> str:
    return _table(("exit code", "meaning"), [(str(int(code)), meaning) for code, meaning in EXIT_MEANINGS.items()])


# ---------------------------------------------------------------- policy


def matrix() -> str:
    rows = [(f"`{role.value}`", *(policy.MATRIX[role][risk] for risk in contract.Risk)) for role in principal.Role]
    return _table(("role", *(risk.value for risk in contract.Risk)), rows)


# ---------------------------------------------------------------- defaults


def defaults_table() -> str:
    settings, retry, ask, limits = GateSettings(), contract.RetryPolicy(), Requirement(), DecodingLimits()
    options = {name: parameter.default for name, parameter in inspect.signature(tool).parameters.items()}
    rows: list[tuple[str, object, str]] = [
        *((f"`GateSettings.{name}`", value, _attribute(GateSettings, name)) for name, value in _fields(settings)),
        ("`tool(timeout_seconds=)`", options["timeout_seconds"], "deadline of one attempt"),
        (
            "`tool(silence_seconds=)`",
            options["silence_seconds"],
            "how long an attempt may say nothing of its progress; None as long as the deadline lets it",
        ),
        ("`tool(max_argument_bytes=)`", options["max_argument_bytes"], "canonical arguments of one call"),
        ("`tool(max_result_bytes=)`", options["max_result_bytes"], "canonical result of one call"),
        ("`RetryPolicy.max_attempts`", retry.max_attempts, "attempts of one dispatch, the first included"),
        ("`RetryPolicy.initial_delay_seconds`", retry.initial_delay_seconds, "longest wait before attempt 2"),
        (
            "`RetryPolicy.max_delay_seconds`",
            retry.max_delay_seconds,
            "cap of the doubling",
        ),
        ("`Requirement.decide_within_seconds`", ask.decide_within_seconds, "how long a question waits for a person"),
        ("`Requirement.lifetime_seconds`", ask.lifetime_seconds, "how long an approval can be used, from the decision"),
        ("attempts of one operation", contract.MAX_ATTEMPTS_PER_CALL, "over all its dispatches"),
        ("calls in one batch", proposals.MAX_BATCH, ""),
        ("`tool(max_concurrent=)`", options["max_concurrent"], "calls of one tenant at once; more wait their turn"),
        ("`Breaker.faults`", contract.DEFAULT_BREAKER.faults, "in a row, then calls are refused: `circuit_open`"),
        ("`Breaker.within_seconds`", contract.DEFAULT_BREAKER.within_seconds, "from the first of them to the last"),
        ("`Breaker.open_seconds`", contract.DEFAULT_BREAKER.open_seconds, "nothing is let through for so long"),
        ("`Breaker.probes`", contract.DEFAULT_BREAKER.probes, "let through after it, before all are"),
        (
            "stray attempts of one tool and tenant",
            capacity.MAX_STRAYS,
            "then new calls are refused: `capacity`",
        ),
        ("stray attempts of one tool", python_transport.MAX_STRAY_THREADS, "the same, over all tenants"),
        ("text of raw arguments, bytes", limits.max_bytes, ""),
        ("nesting of arguments", limits.max_depth, "the root object is level 1"),
        ("members and items of arguments", limits.max_members, "in the whole text"),
        ("characters of one text", limits.max_string_characters, ""),
        ("text of a JSON Schema, bytes", schema_reading.MAX_SCHEMA_BYTES, "at registration"),
        ("subschemas of a JSON Schema", schema_reading.MAX_SCHEMA_NODES, "at registration"),
        (
            "visits of a JSON Schema to one value",
            schema_bounds.MAX_VISITS,
            "counted at registration, for values as deep as the contract allows",
        ),
        ("different patterns of a JSON Schema", schema_bounds.MAX_PATTERNS, "each matched in linear time"),
        ("bytes of one compiled pattern", schema_patterns.PATTERN_BYTES, "at registration"),
        (
            "bytes of compiled patterns held against one text, times the bytes of a value",
            schema_bounds.MAX_MATCHING,
            "at registration",
        ),
        ("characters of an identity", principal.MAX_IDENTITY_CHARACTERS, "subject, tenant, run, caller's key"),
        ("characters of an operation key", operations.MAX_KEY_CHARACTERS, "beyond it, a hash takes its place"),
        ("characters of a person's reason", desk.MAX_REASON_CHARACTERS, ""),
        ("approvals decided with one answer", several.MOST_AT_ONCE, "each with its own digest and record"),
        ("approvals looked through for a list by risk", triage.MOST_LOOKED_THROUGH, "the newest; whoever asks is told"),
        ("seconds a decision may lie ahead", approvals.FUTURE_SKEW_SECONDS, "by the clock of the reader"),
    ]
    return _table(("limit", "default", "meaning"), [(name, _number(value), meaning) for name, value, meaning in rows])


def _fields(value: object) -> Iterator[tuple[str, object]]:
    for name in type(value).__dataclass_fields__:  # type: ignore[attr-defined]  # every caller gives a dataclass
        yield name, getattr(value, name)


def _attribute(kind: type, name: str) -> str:
    """What the class's docstring says of one attribute, on one line."""
    text = inspect.getdoc(kind) or ""
    found = re.search(rf"^    {name}: (.*?)(?=^    \w+: |\Z)", text, re.S | re.M)
    if found is None:
        raise LookupError(f"{kind.__name__} says nothing of {name}")
    return " ".join(found.group(1).split()).rstrip(".")


# ---------------------------------------------------------------- reading the source


@cache
def _calls_named(wanted: str) -> tuple[ast.Call, ...]:
    """Every call of that name in the package outside the front doors. Modules that do not write it are not parsed."""
    trees = (ast.parse(text, filename=str(path)) for path, text in _sources() if f"{wanted}(" in text)
    return tuple(call for name, call in _calls(trees) if name == wanted)


@cache
def _sources() -> tuple[tuple[Path, str], ...]:
    paths = sorted(SOURCE.rglob("*.py"))
    inside = (path for path in paths if not {"cli", "demos"} & set(path.relative_to(SOURCE).parts))
    return tuple((path, path.read_text("utf-8")) for path in inside)


def _calls(trees: Iterable[ast.AST]) -> Iterator[tuple[str, ast.Call]]:
    for tree in trees:
        for node in ast.walk(tree):
            match node:
                case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
                    yield name, node
                case _:
                    pass


def _constants_of(function: str, *, keyword: str | None = None) -> set[str]:
    """Constant texts handed to a function: in the named keyword, or else as first argument."""
    found: set[str] = set()
    for call in _calls_named(function):
        given = call.args[:1] if keyword is None else [each.value for each in call.keywords if each.arg == keyword]
        found |= {each.value for each in given if isinstance(each, ast.Constant) and isinstance(each.value, str)}
    return found


def _codes_given_to(error: str) -> set[str]:
    """Codes that single raises give an error instead of its own."""
    return _constants_of(error, keyword="code")


def _codes_in_commands() -> set[str]:
    """Constant codes that single raises of the command line give."""
    trees = (ast.parse(path.read_text("utf-8")) for path in sorted((SOURCE / "cli").rglob("*.py")))
    return {
        each.value.value
        for _, call in _calls(trees)
        for each in call.keywords
        if each.arg == "code" and isinstance(each.value, ast.Constant) and isinstance(each.value.value, str)
    }


def _reasons_handed_on() -> set[str]:
    """Reasons of arguments that reach `InvalidArguments` through a name, which keeps the refusal free of context."""
    found: set[str] = set()
    for path in sorted((SOURCE / "rules").glob("*.py")):
        for function in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(function, ast.FunctionDef):
                given = [each.args[0] for name, each in _calls([function]) if name == "InvalidArguments" and each.args]
                names = {each.id for each in given if isinstance(each, ast.Name)}
                found |= {text for name, text in _constants_assigned(function) if name in names}
    return {reason for reason in found if not reason.startswith("result_")}


def _constants_assigned(function: ast.FunctionDef) -> Iterator[tuple[str, str]]:
    for node in ast.walk(function):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=str(text))):
                yield name, text
            case ast.Assign(
                targets=[ast.Name(id=name)],
                value=ast.IfExp(body=ast.Constant(value=str(one)), orelse=ast.Constant(value=str(other))),
            ):
                yield name, one
                yield name, other
            case _:
                pass


def _refusals_in(module: object) -> Iterator[tuple[str, str]]:
    """Code and sentence of each `_refusal(subject, by, code, message)` and `DecisionRefused(message, code=)`."""
    tree = ast.parse(inspect.getsource(cast(Any, module)))
    for name, call in _calls([tree]):
        match name, call.args, call.keywords:
            case "_refusal", [_, _, ast.Constant(value=code), ast.Constant(value=message)], []:
                yield str(code), str(message)
            case "_refusal", [_, _, ast.Name(id=constant), ast.Constant(value=message)], [] if constant.isupper():
                yield str(getattr(module, constant)), str(message)
            case "_refusal", [_, _, ast.Constant(value=code), ast.Call(func=ast.Name(id=words))], []:
                yield str(code), (inspect.getdoc(getattr(module, words)) or "").split("\n")[0]
            case "DecisionRefused", [ast.Constant(value=message)], [
                ast.keyword(arg="code", value=ast.Constant(value=code)),
                *_,
            ]:
                yield str(code), str(message)
            case _:
                pass


def _edits_refused() -> Iterator[tuple[str, str]]:
    """Code and sentence of each `NoEdit`."""
    for call in _calls_named("NoEdit"):
        said = {each.arg: each.value.value for each in call.keywords if isinstance(each.value, ast.Constant)}
        if said:
            yield str(said["code"]), str(said["message"])


def _returned_by(function: Callable[..., object]) -> set[str]:
    tree = ast.parse(inspect.getsource(function))
    returns = [node for node in ast.walk(tree) if isinstance(node, ast.Return)]
    constants = [node for each in returns for node in ast.walk(each) if isinstance(node, ast.Constant)]
    compared = {id(node) for each in ast.walk(tree) if isinstance(each, ast.Compare) for node in ast.walk(each)}
    return {node.value for node in constants if isinstance(node.value, str) and id(node) not in compared}


# ---------------------------------------------------------------- writing


def _table(heads: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [heads, tuple("---" for _ in heads), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def _yes(is_so: bool) -> str:
    return "yes" if is_so else "no"


def _number(value: object) -> str:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return f"{value:,}" if isinstance(value, int) else str(value)


@cache
def _order() -> Workflow:
    """The workflow that docs/runs.md shows, made by the very block that shows it."""
    text = (REPOSITORY / "docs" / "runs.md").read_text("utf-8")
    (block,) = [block for block in re.findall(r"```python\n(.*?)```", text, re.S) if "ORDER = Workflow(" in block]
    scope: dict[str, Any] = {"__name__": "runs"}
    sys.modules.setdefault("runs", ModuleType("runs"))  # where its dataclasses say they are from
    exec(block, scope)  # noqa: S102 - our own document
    return cast(Workflow, scope["ORDER"])


def order_states() -> str:
    return workflow_drawing.state_table(_order()).rstrip()


def order_diagram() -> str:
    return f"```mermaid\n{workflow_drawing.mermaid(_order()).rstrip()}\n```"


def support_states() -> str:
    return workflow_drawing.state_table(SUPPORT).rstrip()


def support_diagram() -> str:
    return f"```mermaid\n{workflow_drawing.mermaid(SUPPORT).rstrip()}\n```"


DRAWINGS: dict[str, Callable[[], str]] = {
    "docs/order.svg": lambda: workflow_drawing.svg(_order()),
    "docs/support.svg": lambda: workflow_drawing.svg(SUPPORT),
}
"""Files that are generated as a whole."""

PARTS: dict[str, Callable[[], str]] = {
    "outcomes": outcome_table,
    "retryable": retryable_codes,
    "errors": error_table,
    "hints": hint_table,
    "decisions": decision_table,
    "argument-reasons": argument_reasons,
    "command-codes": command_codes,
    "exit-codes": exit_codes,
    "matrix": matrix,
    "defaults": defaults_table,
    "http-problems": http_problems,
    "sign-in": sign_in_table,
    "order-states": order_states,
    "order-diagram": order_diagram,
    "support-states": support_states,
    "support-diagram": support_diagram,
}
PLACES = ("README.md", "docs/errors.md", "docs/http-api.md", "docs/sign-in.md", "docs/runs.md", "docs/support.md")


def renewed(text: str) -> str:
    """The document with every generated part made anew."""

    def part(found: re.Match[str]) -> str:
        name = found.group(1)
        return f"<!-- generated: {name} -->\n{PARTS[name]()}\n<!-- end: {name} -->"

    return _REGION.sub(part, text)


def stale(folder: Path = REPOSITORY) -> list[str]:
    """Documents whose generated parts are not what the code says now."""
    drawn = [place for place, draw in DRAWINGS.items() if _text_of(folder / place) != draw()]
    return [place for place in PLACES if renewed(text := (folder / place).read_text("utf-8")) != text] + drawn


def _text_of(path: Path) -> str:
    return path.read_text("utf-8") if path.exists() else ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="bring them up to date")
    places = stale()
    if parser.parse_args().write:
        for place in places:
            path = REPOSITORY / place
            path.write_text(DRAWINGS[place]() if place in DRAWINGS else renewed(path.read_text("utf-8")), "utf-8")
            print(f"renewed {place}")
    elif places:
        sys.exit(f"out of date: {', '.join(places)}; run scripts/generated_docs.py --write")


if __name__ == "__main__":
    main()

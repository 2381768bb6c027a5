"""`placet tools`: what is registered, and what will hurt later."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Annotated, Any

import typer

from placet.cli.commands.tools_import import import_tools
from placet.cli.pinning import hidden_tools
from placet.cli.project import load_tools
from placet.cli.remote import Server
from placet.cli.screen import Column, shown, value_lines
from placet.cli.session import Session, epilog, new_app, with_list_session, with_served_list_session, with_session
from placet.cli.table import COMMANDS, Exit
from placet.engine.registry import Registry
from placet.errors import ContractError, NotFound
from placet.model.contract import Contract, Remote
from placet.model.projection import Loose, NoProjection, Projection, Provider, Strict
from placet.rules import projections
from placet.rules.promises import Finding, lint

_PROJECTIONS: dict[Provider, Callable[[Contract], Projection]] = {
    Provider.OPENAI: projections.openai_tool,
    Provider.OPENAI_RESPONSES: projections.openai_responses_tool,
    Provider.ANTHROPIC: projections.anthropic_tool,
    Provider.MCP: projections.mcp_tool,
}

app = new_app("tools")
_verbs = COMMANDS["tools"].verbs
app.command("import", help=_verbs["import"], epilog=epilog())(with_list_session(import_tools))


@app.command("list", help=_verbs["list"], epilog=epilog())
@with_served_list_session
def list_tools(session: Session) -> Exit:
    if session.server is not None:
        return _list_served(session, session.server)
    registry = Registry(load_tools(session.settings))
    session.screen.listing(
        "tools",
        list(registry),
        as_data=_summary,
        columns=[
            Column(title="name", cell=lambda c: c.name),
            Column(title="version", cell=lambda c: c.version),
            Column(title="effect", cell=lambda c: c.effect_class.value),
            Column(title="risk", cell=lambda c: c.risk.value),
            Column(title="permission", cell=lambda c: c.permission or "-"),
            Column(title="approval", cell=lambda c: c.approval.value),
            Column(title="probe", cell=lambda c: "yes" if c.has_probe else "no"),
        ],
        item_schema="tool-summary/1",
        nothing="No tool is registered.",
    )
    if hidden := hidden_tools(session.settings, {contract.name for contract in registry}):
        what = "a tool that a manifest has" if hidden == 1 else f"{hidden} tools that manifests have"
        session.screen.talk(f"Hidden {'is' if hidden == 1 else 'are'} {what} terms for; placet mcp list says why.")
    return Exit.OK


def _list_served(session: Session, server: Server) -> Exit:
    """Those that whoever the token says may see there."""
    with server.connect() as client:
        found = client.tools()
    session.screen.listing(
        "tools",
        list(found),
        as_data=lambda tool: tool,
        columns=[
            Column(title="name", cell=lambda tool: str(tool["name"])),
            Column(title="version", cell=lambda tool: str(tool["version"])),
            Column(title="effect", cell=lambda tool: str(tool["effect_class"])),
            Column(title="risk", cell=lambda tool: str(tool["risk"])),
            Column(title="permission", cell=lambda tool: str(tool.get("permission") or "-")),
            Column(title="approval", cell=lambda tool: str(tool.get("approval") or "-")),
        ],
        item_schema="served-tool/1",
        nothing="There is no tool that you may see.",
    )
    return Exit.OK


@app.command("show", help=_verbs["show"], epilog=epilog())
@with_session
def show_tool(
    session: Session,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The tool.")],
    provider: Annotated[
        Provider | None, typer.Option("--provider", help="Show what a model provider is told of it, as JSON.")
    ] = None,
) -> Exit:
    registry = Registry(load_tools(session.settings))
    if not registry.knows(name):
        raise NotFound("There is no tool of that name", hint="placet tools list")
    contract = registry.require(name, None).contract
    if provider is not None:
        return _show_projection(session, contract, provider)
    data = _details(contract)
    if not session.screen.is_text:
        session.screen.document("tool/1", data)
        return Exit.OK
    schemas = {key: data.pop(key) for key in ("arguments_schema", "result_schema", "authored_schema")}
    session.screen.fields((key, _word(value)) for key, value in data.items())
    for key, schema in schemas.items():
        if schema is None:
            continue
        session.screen.line(key)
        for line in value_lines(schema):
            session.screen.line(f"  {line}")
    return Exit.OK


def _show_projection(session: Session, contract: Contract, provider: Provider) -> Exit:
    """The definition alone is data; what it does not say of the contract is talk, or part of the document."""
    projection = _PROJECTIONS[provider](contract)
    match projection:
        case Strict(left_out=gaps):
            kind, word, code = "strict", "the contract alone holds", Exit.OK
        case Loose(reasons=gaps):
            kind, word, code = "loose", "not strict", Exit.OK
        case NoProjection(reasons=gaps):
            kind, word, code = "none", "no definition", Exit.INVALID
    definition = None if isinstance(projection, NoProjection) else projection.definition
    if not session.screen.is_text:
        told = [{"pointer": gap.pointer, "keyword": gap.keyword, "why": gap.why.value} for gap in gaps]
        data = {"provider": provider.value, "kind": kind, "definition": definition, "gaps": told}
        session.screen.document("tool-projection/1", data)
        return code
    if definition is not None:
        for line in json.dumps(definition, ensure_ascii=True, indent=2).splitlines():
            session.screen.line(line)
    for gap in gaps:
        session.screen.warn(f"{word}: {gap.keyword} at {shown(gap.pointer) or 'the root'} ({gap.why.value})")
    return code


def _summary(contract: Contract) -> dict[str, Any]:
    return {
        "name": contract.name,
        "version": contract.version,
        "effect_class": contract.effect_class.value,
        "risk": contract.risk.value,
        "permission": contract.permission,
        "approval": contract.approval.value,
        "has_probe": contract.has_probe,
    }


def _details(contract: Contract) -> dict[str, Any]:
    return {
        **_summary(contract),
        "has_precondition": contract.has_precondition,
        "description": contract.description,
        "isolation": contract.isolation.value,
        "timeout_seconds": contract.timeout_seconds,
        "silence_seconds": contract.silence_seconds,
        "max_attempts": contract.retry.max_attempts,
        "remote": _remote(contract.remote),
        "operation_key": contract.operation_key.text if contract.operation_key is not None else None,
        "resource": contract.resource.text if contract.resource is not None else None,
        "purpose": contract.purpose,
        "redact": sorted(contract.redact),
        "allowed_tenants": sorted(contract.allowed_tenants) if contract.allowed_tenants is not None else None,
        "text_rule": contract.text_rule.value,
        "max_argument_bytes": contract.max_argument_bytes,
        "max_result_bytes": contract.max_result_bytes,
        "max_depth": contract.max_depth,
        "open_members": list(contract.open_members),
        "open_result_members": list(contract.open_result_members),
        "repair": sorted(contract.repair),
        "generic_executor_reason": contract.generic_executor_reason,
        "digest": contract.digest,
        "arguments_schema": contract.arguments_schema,
        "result_schema": contract.result_schema,
        "authored_schema": contract.authored_schema,
    }


def _remote(remote: Remote) -> dict[str, Any]:
    return {
        "honours_key": remote.honours_key,
        "key_retention_seconds": remote.key_retention_seconds,
        "refuses_late": remote.refuses_late,
        "arrival_bound_seconds": remote.arrival_bound_seconds,
        "proves_absence": remote.proves_absence,
    }


def _word(value: object) -> str | None:
    if value is None or value == []:
        return None
    if isinstance(value, dict):
        return ", ".join(f"{name} {_word(each) or 'none'}" for name, each in value.items())
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


# ---------------------------------------------------------------- lint


@app.command("lint", help=_verbs["lint"], epilog=epilog())
@with_list_session
def lint_tools(
    session: Session,
    strict: Annotated[bool, typer.Option("--strict", help="End with 8 on warnings too.")] = False,
) -> Exit:
    findings = _findings(session)
    session.screen.listing(
        "findings",
        findings,
        as_data=lambda f: {
            "severity": f.severity,
            "code": f.code,
            "tool": f.tool,
            "message": f.message,
            "fix": f.fix,
        },
        columns=[
            Column(title="severity", cell=lambda f: f.severity),
            Column(title="tool", cell=lambda f: f.tool),
            Column(title="code", cell=lambda f: f.code),
            Column(title="what", cell=lambda f: f.message),
            Column(title="fix", cell=lambda f: f.fix),
        ],
        item_schema="finding/1",
        nothing="Nothing to mend.",
    )
    has_error = any(finding.severity == "error" for finding in findings)
    return Exit.INVALID if has_error or (strict and findings) else Exit.OK


def _findings(session: Session) -> list[Finding]:
    try:
        registry = Registry(load_tools(session.settings))
    except ContractError as error:
        message = shown(str(error))
        return [Finding(severity="error", code=error.code, tool=error.tool or "", message=message, fix=error.hint)]
    agent, manifests = session.settings.agent, _manifests(session)

    def manifest_of(contract: Contract) -> str | None:
        return None if contract.origin is None else manifests.get(contract.origin.server)

    return [finding for contract in registry for finding in lint(contract, agent=agent, manifest=manifest_of(contract))]


def _manifests(session: Session) -> dict[str, str]:
    """Where the terms of each upstream's tools stand, as somebody in the project's folder would name it."""
    folder = session.settings.folder
    return {
        each.name: str(each.manifest.relative_to(folder) if each.manifest.is_relative_to(folder) else each.manifest)
        for each in session.settings.upstreams
    }

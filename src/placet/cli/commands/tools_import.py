"""`placet tools import openapi`: what a document's operations would be as tools, and their first terms written down."""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path
from shlex import quote
from typing import Annotated, Any
from urllib.parse import urlsplit

import typer

from placet.bootstrap.openapi import first_terms, read_document
from placet.cli.declaring import Declaration, declaration, write_declaration
from placet.cli.failing import UsageProblem
from placet.cli.screen import Column, shown
from placet.cli.session import Session
from placet.cli.table import Exit
from placet.errors import ContractError
from placet.model.issuers import Network
from placet.model.openapi import Operation, UnfitOperation
from placet.rules.manifest_skeletons import Suggested, skeleton
from placet.rules.openapi.documents import Document, operations_of
from placet.rules.openapi.effects import definition_of, effect_of, risk_of
from placet.rules.upstream_names import contract_name
from placet.rules.upstream_tools import refuse_unservable

_LOCAL = ("localhost", "127.0.0.1", "::1")
_ANY_SERVER = "service"


class Described(StrEnum):
    """How tools may be described."""

    OPENAPI = "openapi"


def import_tools(
    session: Session,
    kind: Annotated[Described, typer.Argument(metavar="KIND", help="What the document is: openapi.")],
    document: Annotated[Path, typer.Argument(metavar="DOCUMENT", help="An OpenAPI 3.0 or 3.1 file, JSON or YAML.")],
    name: Annotated[
        str | None,
        typer.Option("--name", metavar="NAME", help="Write it down as this upstream; without a name it is only shown."),
    ] = None,
    url: Annotated[
        str | None,
        typer.Option("--url", metavar="URL", help="Where the service is; needed with --name."),
    ] = None,
    network: Annotated[
        Network | None, typer.Option("--network", help="Where it may be; loopback is this host, and without TLS.")
    ] = None,
) -> Exit:
    """Show what the operations of a document would be as tools, and with --name write the upstream and its manifest.

    Each operation's effect follows from its method, and is to be confirmed in the manifest. Nothing is sent, nothing
    outside of the document is read, and nothing that exists is overwritten.
    """
    _require_file(document)
    found = read_document(document)
    operations = _judged(name or _ANY_SERVER, operations_of(found))
    declared = None if name is None else _declared(session, name, document, url, network)
    if declared is not None:
        fit = [each for each in operations if isinstance(each, Operation)]
        write_declaration(
            declared, skeleton(declared.upstream.name, [_suggested(declared.upstream.name, each) for each in fit])
        )
    session.screen.listing(
        "operations",
        operations,
        as_data=_as_data,
        columns=[
            Column(title="operation", cell=lambda each: shown(each.tool)),
            Column(title="method", cell=lambda each: each.method),
            Column(title="path", cell=lambda each: shown(each.path)),
            Column(title="effect", cell=lambda each: effect_of(each.method).value),
            Column(title="not carried", cell=_why),
        ],
        item_schema="operation/1",
        nothing="The document has no operations.",
    )
    _tell(session, found, declared, url)
    return Exit.OK


def _require_file(document: Path) -> None:
    """
    Raises:
        UsageProblem: it is an address, as a path has it.
    """
    if document.parts[:1] in (("http:",), ("https:",)) and not document.exists():
        address = str(document).replace(":/", "://", 1)
        raise UsageProblem(
            "A document is a file, reviewed with the project; no address is read.",
            hint=f"Save it first: curl -sf {quote(shown(address))} > service.json",
        )


def _tell(session: Session, found: Document, declared: Declaration | None, url: str | None) -> None:
    screen = session.screen
    if declared is None:
        suggested = url or (found.servers[0] if found.servers else "URL")
        screen.talk(f"Nothing was written. To have them as tools: --name NAME --url {shown(suggested)}")
        return
    screen.talk(f"declared  {shown(declared.upstream.name)}  in {shown(declared.file)}")
    screen.talk(f"manifest  {shown(declared.upstream.manifest)}")
    screen.talk("Say in the manifest what is true of each operation, and take out what nobody needs.")
    screen.talk("[agent] of placet.toml needs the scope of each that it is to call: permission in the manifest.")


def _judged(server: str, operations: tuple[Operation | UnfitOperation, ...]) -> list[Operation | UnfitOperation]:
    """With those that could not be registered for what they say of themselves, or would let a model say."""
    return [each if isinstance(each, UnfitOperation) else _held(server, each) for each in operations]


def _held(server: str, operation: Operation) -> Operation | UnfitOperation:
    try:
        name = contract_name(server, operation.tool)
        refuse_unservable(definition_of(server, operation), first_terms(operation, permission=name), name=name)
        return operation
    except ContractError as error:
        why = str(error)
    return UnfitOperation(tool=operation.tool, method=operation.method, path=operation.path, why=why)


def _declared(session: Session, name: str, document: Path, url: str | None, network: Network | None) -> Declaration:
    if url is None:
        raise UsageProblem("Say where the service is with --url; what the document says of that is only a suggestion")
    own, file = session.settings.folder, document.absolute()
    where = network or _network_of(url)
    members: dict[str, Any] = {
        "kind": "openapi",
        "document": os.path.relpath(file, own) if file.is_relative_to(own) else str(file),
        "url": url,
    }
    return declaration(
        session.settings, name, members | ({"network": where.value} if where is not Network.PUBLIC else {})
    )


def _network_of(url: str) -> Network:
    try:
        return Network.LOOPBACK if urlsplit(url).hostname in _LOCAL else Network.PUBLIC
    except ValueError:
        return Network.PUBLIC


def _suggested(server: str, operation: Operation) -> Suggested:
    terms = first_terms(operation, permission=contract_name(server, operation.tool))
    return Suggested(
        tool=operation.tool,
        permission=terms.permission or "",
        about=operation.title or operation.description or "",
        effect=terms.effect,
        risk=terms.risk,
        approval=terms.approval,
    )


def _as_data(each: Operation | UnfitOperation) -> dict[str, Any]:
    return {
        "operation": each.tool,
        "method": each.method,
        "path": each.path,
        "effect_class": effect_of(each.method).value,
        "risk": risk_of(each.method).value,
        "arguments": list(_members(each)),
        "key_header": each.key_header if isinstance(each, Operation) else None,
        "left_out": list(each.left_out) if isinstance(each, Operation) else [],
        "not_carried": each.why if isinstance(each, UnfitOperation) else None,
    }


def _members(each: Operation | UnfitOperation) -> tuple[str, ...]:
    declared = each.arguments_schema.get("properties") if isinstance(each, Operation) else None
    return tuple(declared) if isinstance(declared, dict) else ()


def _why(each: Operation | UnfitOperation) -> str:
    if isinstance(each, UnfitOperation):
        return shown(each.why)
    return "-" if not each.left_out else shown(f"left out: {', '.join(each.left_out)}")

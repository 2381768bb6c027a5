"""A pinned definition and the deployment's terms become a tool.

The model is told the pinned text, in the words of one description; the schema is the pinned one, closed, without what
the server binds. Risk and effect are the deployment's, or higher where the pinned hints say so.

Source: CASES B05, B06, L03; REQUIREMENTS B183 to B186, H053; DESIGN sections 5 and 17.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from placet.errors import ContractError
from placet.model.context import CallContext
from placet.model.contract import Isolation, Origin
from placet.model.identifiers import Digest
from placet.model.json import JsonObject
from placet.model.pins import Definition, Pin, Pins
from placet.model.upstreams import Manifest, ToolTerms
from placet.rules.contracts import Handler, Probe, Tool, tool_from_schema
from placet.rules.contracts.limits import LIMITS
from placet.rules.pins import definition_digest, is_fit, raised, refuse_unfit
from placet.rules.upstream_names import contract_names
from placet.rules.upstream_results import CONTENT_RESULT


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """A tool that a gate may have: accepted, with terms, and called like no other of its server.

    Attributes:
        name: of its contract.
    """

    name: str
    pin: Pin
    terms: ToolTerms


def served(pins: Pins, manifest: Manifest) -> tuple[Served, ...]:
    """The tools of one server that are accepted and have terms, in the order of their names; all else is hidden, and so
    is what nobody could accept any more.
    """
    return tuple(each for each in _served(pins, manifest) if is_fit(each.pin.definition))


def unfit(pins: Pins, manifest: Manifest) -> tuple[str, ...]:
    """Those that are hidden for what their definitions say alone, by the server's own names."""
    return tuple(each.pin.definition.tool for each in _served(pins, manifest) if not is_fit(each.pin.definition))


def _served(pins: Pins, manifest: Manifest) -> Iterator[Served]:
    accepted = pins.of(manifest.server)
    names = contract_names(manifest.server, accepted)
    for tool, pin in sorted(accepted.items()):
        if tool in names and (terms := manifest.terms.get(tool)) is not None:
            yield Served(name=names[tool], pin=pin, terms=terms)


def tool_of(
    pin: Pin, terms: ToolTerms, *, name: str, handler: Handler, probe: Probe | None = None, way: Digest | None = None
) -> Tool:
    """The tool with its contract; its handler takes the arguments as one dict, bound ones included, and the context.

    Args:
        way: of its server, as `rules/upstream_ways.way_digest` has it.

    Raises:
        ContractError: the terms do not fit the definition, or its schema cannot be enforced; nothing is registered.
    """
    definition = pin.definition
    effect, risk = raised(terms.effect, terms.risk, definition.annotations)
    return tool_from_schema(
        handler,
        name=name,
        version=terms.version,
        description=described(definition),
        arguments=definition.input_schema,
        result=_result_schema(definition),
        effect=effect,
        risk=risk,
        permission=terms.permission,
        approval=terms.approval,
        timeout_seconds=terms.timeout_seconds,
        silence_seconds=terms.silence_seconds,
        retry=terms.retry,
        remote=terms.remote,
        max_concurrent=terms.max_concurrent,
        breaker=terms.breaker,
        operation_key=terms.operation_key,
        resource=terms.resource,
        purpose=terms.purpose,
        probe=probe,
        redact=terms.redact,
        allowed_tenants=None if terms.allowed_tenants is None else tuple(sorted(terms.allowed_tenants)),
        text=terms.text,
        max_argument_bytes=terms.max_argument_bytes,
        max_result_bytes=terms.max_result_bytes,
        max_depth=LIMITS.max_depth if terms.max_depth is None else terms.max_depth,
        retention_seconds=terms.retention_seconds,
        generic_executor=terms.generic_executor,
        open_members=terms.open_members,
        open_result_members=terms.open_result_members,
        isolation=Isolation.ASYNC,
        origin=Origin(server=definition.server, tool=definition.tool, pin=pin.digest, way=way),
        bind=terms.bind,
    )


def _result_schema(definition: Definition) -> JsonObject | None:
    """What an MCP server promises, or, where it promises nothing, the form that its content is put into."""
    is_mcp = not definition.binding
    return CONTENT_RESULT if is_mcp and definition.output_schema is None else definition.output_schema


def described(definition: Definition) -> str:
    """What the model is told of the tool: its title, where it says more than the name, and its description."""
    title = definition.title or ""
    description = definition.description or ""
    return "\n\n".join(part for part in (title if title != definition.tool else "", description) if part)


def refuse_unservable(definition: Definition, terms: ToolTerms, *, name: str) -> None:
    """Whether a tool can be made of it at all once it is accepted, found out without its server.

    Raises:
        ContractError: it cannot; the message says why.
    """
    refuse_unfit(definition)
    pin = Pin(
        definition=definition,
        digest=definition_digest(definition),
        accepted_by="nobody",
        accepted_at=datetime(1970, 1, 1, tzinfo=UTC),
        mac="",
        key_id="",
    )
    tool_of(pin, terms, name=name, handler=_stand_in, probe=None if terms.probe is None else _no_probe)


async def _stand_in(arguments: dict[str, Any], context: CallContext) -> object:
    raise ContractError("A tool that was made to be looked at is never called.")


async def _no_probe(context: object) -> Any:
    raise ContractError("A tool that was made to be looked at is never probed.")

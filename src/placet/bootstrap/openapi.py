"""HTTP services that an OpenAPI document describes, as tools of a gate.

The document is a file of the project and reviewed with it, so what it says is what was accepted: an operation's tool
carries the digest of its definition, and another document makes other contracts, which voids what was approved.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from placet.bootstrap.joined import Around
from placet.bootstrap.upstreams import HIDDEN
from placet.errors import ConfigurationError, ContractError, NotPinnable
from placet.model.contract import ApprovalMode
from placet.model.openapi import Operation, UnfitOperation
from placet.model.pins import Definition, Pin
from placet.model.upstreams import Credential, CredentialForm, Manifest, OpenApiWay, ToolTerms, Upstream
from placet.rules.contracts import Tool
from placet.rules.openapi.documents import Document, document_from, operations_of
from placet.rules.openapi.effects import (
    definition_of,
    effect_of,
    refuse_said_twice,
    refuse_unfit_probe,
    refuse_unfit_terms,
    risk_of,
)
from placet.rules.pins import definition_digest, refuse_unfit
from placet.rules.upstream_names import contract_names
from placet.rules.upstream_tools import tool_of
from placet.rules.upstream_ways import way_digest
from placet.rules.upstreams import require_sound, within_tenants

if TYPE_CHECKING:
    from placet.adapters.transports.http.carrying import Carried
    from placet.adapters.transports.http.service import HttpService

_log = logging.getLogger("placet.upstreams")

ACCEPTED_BY: Final = "document"
WITH_IT: Final = datetime(1970, 1, 1, tzinfo=UTC)
"""When an operation of a document was accepted: with the document, whenever that was."""


def read_document(file: Path) -> Document:
    """The document in a file, JSON or YAML.

    Raises:
        DocumentRefused: it cannot be read, or is none.
    """
    from placet.adapters.transports.http.documents import document_text

    return document_from(document_text(file))


def definitions_of(upstream: Upstream) -> tuple[Definition, ...]:
    """What the document says of every operation that can be carried. Nothing is sent.

    Raises:
        DocumentRefused: it cannot be read, or is none.
    """
    found = operations_of(read_document(_way(upstream).document))
    return tuple(definition_of(upstream.name, each) for each in found if isinstance(each, Operation))


def pin_of(server: str, operation: Operation) -> Pin:
    """What the document says of the operation, as something that was accepted with it.

    Raises:
        ContractError: it has no canonical form.
    """
    definition = definition_of(server, operation)
    return Pin(
        definition=definition,
        digest=definition_digest(definition),
        accepted_by=ACCEPTED_BY,
        accepted_at=WITH_IT,
        mac="",
        key_id="",
    )


def first_terms(operation: Operation, *, permission: str) -> ToolTerms:
    """What an operation's method says of it, until a manifest says more: a person is asked before each write."""
    effect = effect_of(operation.method)
    return ToolTerms(
        tool=operation.tool,
        effect=effect,
        risk=risk_of(operation.method),
        permission=permission,
        approval=ApprovalMode.ALWAYS if effect.is_write else ApprovalMode.BY_POLICY,
    )


def openapi_upstream(upstream: Upstream, manifest: Manifest) -> OpenApiUpstream:
    """The tools of one service: each operation that the manifest has terms for. Nothing is sent.

    Raises:
        ConfigurationError: the service's address or headers cannot be used.
        DocumentRefused: its document cannot be read, or is none.
        ContractError: the manifest names an operation that is not there or cannot be carried, or promises of one what
            it does not keep.
    """
    return OpenApiUpstream(upstream, manifest)


class OpenApiUpstream:
    """One service behind a gate. It connects when a call is sent, and is closed with the gate."""

    def __init__(self, upstream: Upstream, manifest: Manifest) -> None:
        self._upstream = upstream
        self._way = _way(upstream)
        _refuse_unfit_way(upstream, self._way)
        known = {each.tool: each for each in operations_of(read_document(self._way.document))}
        operations = {tool: _operation(upstream.name, known, tool) for tool in manifest.terms}
        terms = {tool: within_tenants(each, self._upstream.tenants) for tool, each in manifest.terms.items()}
        carried = {tool: self._carried(each, terms[tool]) for tool, each in operations.items()}
        names = contract_names(upstream.name, operations)
        self.tools: tuple[Tool, ...] = tuple(
            self._tool(names.get(tool), each, terms[tool], carried, known)
            for tool, each in operations.items()
            if self._is_fit(each, name=names.get(tool))
        )

    @property
    def name(self) -> str:
        return self._upstream.name

    async def open(self, around: Around) -> None:
        """Nothing is sent before the first call."""

    async def close(self) -> None:
        """Close what is still connected. Opened anew, it can be used again, in another event loop too."""
        if "_service" in self.__dict__:
            await self._service.aclose()

    # ------------------------------------------------------------ within

    @cached_property
    def _service(self) -> HttpService:
        from placet.adapters.referenced_secrets import secret_of
        from placet.adapters.transports.http.service import HttpService

        credentials: dict[str | None, Credential] = {
            tenant: each for tenant, each in self._way.credential_by_tenant.items()
        }
        if self._way.credential is not None:
            credentials[None] = self._way.credential
        return HttpService(
            self.name,
            self._way.url,
            network=self._way.network,
            ca_file=self._way.ca_file,
            credentials=credentials,
            secrets=secret_of,
            most_connections=self._upstream.bounds.max_sessions,
        )

    def _carried(self, operation: Operation, terms: ToolTerms) -> Carried:
        from placet.adapters.transports.http.carrying import Carried

        refuse_unfit_terms(operation, terms)
        refuse_said_twice(operation, headers=_said_headers(self._way), query=_said_query(self._way))
        return Carried(
            service=self._service,
            operation=operation,
            terms=terms,
            headers=tuple(sorted(self._way.headers.items())),
        )

    def _is_fit(self, operation: Operation, *, name: str | None) -> bool:
        """Whether it can be shown as it is; one that cannot is hidden, and none of the others with it."""
        try:
            refuse_unfit(definition_of(self.name, operation))
            return True
        except NotPinnable:
            pass
        _log.warning(HIDDEN, extra={"server": self.name, "tool": name, "code": NotPinnable.code})
        return False

    def _tool(
        self,
        name: str | None,
        operation: Operation,
        terms: ToolTerms,
        carried: Mapping[str, Carried],
        known: Mapping[str, Operation | UnfitOperation],
    ) -> Tool:
        if name is None:
            raise ContractError(
                f"Two operations of {self.name!r} would have one name, or one has none: {_shown(operation.tool)}",
                hint="Give each an operationId of its own, of letters, digits, dots, dashes and underscores.",
            )
        pin = pin_of(self.name, operation)
        own, probe = carried[operation.tool], None
        if terms.probe is not None:
            asked = _operation(self.name, known, terms.probe.tool)
            refuse_unfit_probe(operation, asked, terms.probe)
            looked_by = carried.get(asked.tool) or replace(own, operation=asked, terms=replace(terms, tool=asked.tool))
            probe = own.probe(looked_by, terms.probe)
        return tool_of(pin, terms, name=name, handler=own.handler(), probe=probe, way=way_digest(self._way))


def _way(upstream: Upstream) -> OpenApiWay:
    if isinstance(upstream.way, OpenApiWay):
        return upstream.way
    raise ConfigurationError(f"The upstream {upstream.name!r} has no OpenAPI document.")


def _refuse_unfit_way(upstream: Upstream, way: OpenApiWay) -> None:
    require_sound([upstream])
    shown = (way.credential, *way.credential_by_tenant.values())
    if any(each is not None and each.form is CredentialForm.OAUTH for each in shown):
        raise ConfigurationError(
            f"The upstream {upstream.name!r} cannot be used: a token of OAuth's is shown to MCP servers alone.",
            hint="Its credential is of form bearer, basic, header or query.",
        )
    parts = urlsplit(way.url)
    if parts.query or any(each in (".", "..") for each in parts.path.split("/")) or "%" in parts.path:
        raise ConfigurationError(
            f"The upstream {upstream.name!r} cannot be used: its url is an address with a plain path at most."
        )


def _said_headers(way: OpenApiWay) -> frozenset[str]:
    """Headers that the deployment says itself."""
    shown = (way.credential, *way.credential_by_tenant.values())
    own = {each.name for each in shown if each is not None and each.form is CredentialForm.HEADER and each.name}
    return frozenset(way.headers) | own


def _said_query(way: OpenApiWay) -> frozenset[str]:
    shown = (way.credential, *way.credential_by_tenant.values())
    return frozenset(each.name for each in shown if each and each.form is CredentialForm.QUERY and each.name)


def _operation(server: str, known: Mapping[str, Operation | UnfitOperation], tool: str) -> Operation:
    match known.get(tool):
        case Operation() as operation:
            return operation
        case UnfitOperation() as unfit:
            raise ContractError(
                f"The operation {_shown(tool)} of {server!r} cannot be carried: {unfit.why}.",
                code="operation_unfit",
                hint="Take its table out of the manifest; docs/openapi.md says what is carried.",
            )
        case None:
            raise ContractError(
                f"The document of {server!r} has no operation {_shown(tool)}.",
                code="operation_missing",
                hint="placet tools import openapi shows the names of all operations.",
            )


def _shown(tool: str) -> str:
    return repr(ascii(tool)[1:-1][:80])

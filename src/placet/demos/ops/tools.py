"""What the on-call agent may ask for: four reads, and one act that a person has to approve. There is no sixth.

`restart_service` is deliberately absent. Whatever a log line says, nothing here can restart anything.

Source: REQUIREMENTS C001, C009, C010, C022, C046.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import placet
from placet.demos.ops import observations
from placet.demos.ops.contracts import (
    LogsAnswer,
    LogsQuery,
    MetricsAnswer,
    MetricsQuery,
    RunbookAnswer,
    RunbookQuery,
    ServiceStatus,
    StatusQuery,
    TicketDraft,
    TicketReceipt,
    arguments_for,
)
from placet.demos.ops.desk_client import DeskClient
from placet.demos.ops.observations import Incident, Runbooks

READ_SCOPE = "ops.read"
TICKET_SCOPE = "ops.ticket.create"
READS = ("get_service_status", "query_logs", "query_metrics", "search_runbook")

_READ_RETRY = placet.RetryPolicy(max_attempts=2, initial_delay_seconds=0.05)
_TICKET_RETRY = placet.RetryPolicy(max_attempts=3, initial_delay_seconds=0.1)
# The desk gives a connection ten seconds to deliver its request; after twice that nothing can arrive any more.
_DESK = placet.Remote(honours_key=True, arrival_bound_seconds=20.0)

Function = TypeVar("Function", bound=Callable[..., Any])


def ops_tools(incident: Incident, runbooks: Runbooks, desk: DeskClient) -> list[placet.Tool]:
    """The agent's five tools over one incident, a folder of runbooks and a ticket desk."""
    accepted = arguments_for(incident.services)

    def query_logs(query: LogsQuery) -> LogsAnswer:
        """Search a service's log lines in the window that ends now: counts over time, patterns and a sample."""
        return observations.query_logs(incident, query)

    def query_metrics(query: MetricsQuery) -> MetricsAnswer:
        """Read a metric of a service, or all whose names begin alike, in the window that ends now."""
        return observations.query_metrics(incident, query)

    def get_service_status(query: StatusQuery) -> ServiceStatus:
        """Say how a service is, what it depends on, and what was changed lately."""
        return observations.get_service_status(incident, query)

    def search_runbook(query: RunbookQuery) -> RunbookAnswer:
        """Find the runbook sections that fit these words best."""
        return observations.search_runbook(runbooks, query)

    async def create_ticket(ticket: TicketDraft, ctx: placet.CallContext) -> TicketReceipt:
        """Open a ticket at the ticket desk. A person approves each one before it is sent."""
        ctx.guard()
        return await desk.create(ctx.operation_key, ticket, timeout_seconds=ctx.remaining_seconds())

    async def look_up_ticket(context: placet.ProbeContext) -> placet.Found | placet.Absent:
        """Ask the desk what became of an operation; whatever goes wrong here means that we cannot tell."""
        receipt = await desk.find(context.operation_key)
        if receipt is None:
            return placet.Absent()
        return placet.Found(result=receipt, external_reference=receipt.ticket_id)

    as_read = placet.tool(effect="read", risk="low", permission=READ_SCOPE, timeout_seconds=5.0, retry=_READ_RETRY)
    as_ticket = placet.tool(
        effect="idempotent_write",
        risk="medium",
        permission=TICKET_SCOPE,
        approval="always",
        timeout_seconds=5.0,
        retry=_TICKET_RETRY,
        remote=_DESK,
        operation_key="ticket:{service}:{title}",
        resource="service:{service}",
        probe=look_up_ticket,
    )
    return [
        as_read(_accepting(accepted.logs, query_logs)),
        as_read(_accepting(accepted.metrics, query_metrics)),
        as_read(_accepting(accepted.status, get_service_status)),
        as_read(_accepting(accepted.runbook, search_runbook)),
        as_ticket(_accepting(accepted.ticket, create_ticket)),
    ]


def _accepting(arguments: type[Any], function: Function) -> Function:
    """Narrow the function's first parameter to what this incident allows, which is known at run time only."""
    first = next(iter(function.__annotations__))
    function.__annotations__[first] = arguments
    return function

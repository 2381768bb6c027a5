"""What the support agent may ask for: two reads, and one act that the person it acts for has to confirm.

Whose documents are read is the principal's tenant, and never an argument's. Whether evidence is enough is decided here,
on the server, by one rule and from numbers that the index measured.

Source: REQUIREMENTS B190 to B193, B198, C055, H054.
"""

from __future__ import annotations

import placet
from placet.demos.support.contracts import (
    DraftArguments,
    DraftReceipt,
    FoundText,
    SearchAnswer,
    SearchArguments,
    StatusAnswer,
    StatusArguments,
)
from placet.demos.support.drafts_client import DraftsClient
from placet.knowledge import IndexState, KnowledgeMeter, Library, lacking

READ_SCOPE = "support.read"
DRAFT_SCOPE = "support.draft.create"
SEARCH, STATUS, DRAFT = "search_knowledge_base", "get_document_status", "create_support_draft"

_READ_RETRY = placet.RetryPolicy(max_attempts=2, initial_delay_seconds=0.05)
_DRAFT_RETRY = placet.RetryPolicy(max_attempts=3, initial_delay_seconds=0.1)
# The service gives a connection ten seconds to deliver its request; after twice that nothing can arrive any more.
_DRAFTS = placet.Remote(honours_key=True, arrival_bound_seconds=20.0)
# A character of a question takes up to four bytes.
_MOST_ARGUMENT_BYTES = 20_000


def confirmed_by_whom_it_is_for() -> placet.Matrix:
    """The matrix, and one rule: a draft is confirmed by the person the agent acts for, and by nobody else."""
    rule = placet.AskRule(name="confirm-drafts", tools=frozenset({DRAFT}), needs=placet.RequirementKind.CONFIRM)
    return placet.Matrix(asks=placet.AskRules(rules=(rule,)))


def support_tools(library: Library, drafts: DraftsClient, *, meter: KnowledgeMeter | None = None) -> list[placet.Tool]:
    """The agent's three tools over some knowledge bases and a drafts service.

    Args:
        meter: hears of each question that the documents do not say enough about, and why.
    """

    async def search_knowledge_base(query: SearchArguments, ctx: placet.CallContext) -> SearchAnswer:
        """Find sections of documents that answer a question; `is_enough` says whether to answer from them."""
        tenant, base = ctx.principal.tenant, query.knowledge_base_id
        try:
            await _require_ready(library, tenant, base, meter)
            found = await library.search(tenant, base, query.query)
        except placet.PlacetError as fault:
            refusal = _refusal(fault)
        else:
            lacks = lacking(found)
            if lacks is not None and meter is not None:
                meter.refused(reason=lacks)
            texts = [FoundText(citation=each.citation, source=each.source, content=each.content) for each in found]
            return SearchAnswer(is_enough=lacks is None, lacking=None if lacks is None else lacks.value, evidence=texts)
        raise refusal

    async def get_document_status(which: StatusArguments, ctx: placet.CallContext) -> StatusAnswer:
        """Say how a document, or the index of a knowledge base, stands; only one that is `ready` is searched."""
        tenant, name = ctx.principal.tenant, which.document_id
        try:
            if "/" not in name:
                index = await library.status(tenant, name)
                return StatusAnswer(document_id=name, state=index.state.value, sections=index.sections)
            document = await library.document(tenant, name)
            return StatusAnswer(document_id=name, state=document.state.value, sections=document.sections)
        except placet.PlacetError as fault:
            refusal = _refusal(fault)
        raise refusal

    async def create_support_draft(draft: DraftArguments, ctx: placet.CallContext) -> DraftReceipt:
        """Hand a question to the support team as a draft. The person it is asked for confirms each one before."""
        ctx.guard()
        return await drafts.create(ctx.operation_key, draft.question, timeout_seconds=ctx.remaining_seconds())

    async def look_up_draft(context: placet.ProbeContext) -> placet.Found | placet.Absent:
        """Ask the service what became of an operation; whatever goes wrong here means that we cannot tell."""
        receipt = await drafts.find(context.operation_key)
        if receipt is None:
            return placet.Absent()
        return placet.Found(result=receipt, external_reference=receipt.draft_id)

    as_read = placet.tool(
        effect="read",
        risk="low",
        permission=READ_SCOPE,
        timeout_seconds=10.0,
        retry=_READ_RETRY,
        text="free",
        max_argument_bytes=_MOST_ARGUMENT_BYTES,
    )
    as_draft = placet.tool(
        effect="idempotent_write",
        risk="medium",
        permission=DRAFT_SCOPE,
        approval="always",
        timeout_seconds=5.0,
        retry=_DRAFT_RETRY,
        remote=_DRAFTS,
        text="free",
        max_argument_bytes=_MOST_ARGUMENT_BYTES,
        probe=look_up_draft,
    )
    return [as_read(search_knowledge_base), as_read(get_document_status), as_draft(create_support_draft)]


async def _require_ready(library: Library, tenant: str, base: str, meter: KnowledgeMeter | None) -> None:
    state = (await library.status(tenant, base)).state
    if state is IndexState.READY:
        return
    if meter is not None:
        meter.refused(reason="index_unreadable" if state is IndexState.UNREADABLE else "index_not_ready")
    raise placet.ToolRejected("The index of this knowledge base is not ready; it is not searched.")


def _refusal(fault: placet.PlacetError) -> placet.ToolRejected:
    """A read that was not done, in fixed words."""
    if isinstance(fault, placet.ToolRejected):
        return fault
    if fault.code == "not_found":
        return placet.ToolRejected("There is no such knowledge base or document, or it is not yours.")
    return placet.ToolRejected("The index of this knowledge base cannot be used.")

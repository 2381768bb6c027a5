"""The support agent over a small folder of documents, with the drafts service in a process of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import placet
from placet import InlineDriver, Principal, Progress, Workflow, Workflows
from placet.demos.support.drafts_client import DraftsClient
from placet.demos.support.tools import DRAFT_SCOPE, READ_SCOPE, confirmed_by_whom_it_is_for, support_tools
from placet.demos.support.workflow import SUPPORT, Question
from placet.knowledge import KnowledgeBase, KnowledgeMeter, Library, Meaning

SCOPES = (READ_SCOPE, DRAFT_SCOPE)
CUSTOMER = Principal.person("mara", tenant="acme", roles=("operator",), scopes=(*SCOPES, "approvals.decide"))
OTHER = Principal.person("noor", tenant="acme", roles=("operator",), scopes=(*SCOPES, "approvals.decide"))
AGENT = Principal.agent("support-agent", tenant="acme", roles=("operator",), scopes=SCOPES, on_behalf_of=CUSTOMER)
KNOWN = Question(text="How long is an invoice kept?", knowledge_base_id="help")
UNKNOWN = Question(text="Who won the chess tournament in Wijk aan Zee?", knowledge_base_id="help")
DOCUMENTS = {
    "invoices.md": "# Invoices\n\n## How long they are kept\n\nAn invoice is kept for ten years, and then removed.\n",
    "refunds.md": "# Refunds\n\n## When a refund arrives\n\nA refund arrives within five working days.\n",
}


@dataclass
class Desk:
    """The agent on an open gate, and what reached the drafts service since it was opened."""

    gate: placet.Gate
    library: Library
    drafts: DraftsClient
    workflows: Workflows
    before: int

    async def start(self, asked: Question, run: str = "r1") -> Progress:
        return await self.workflows.start("support", run=run, inputs=asked, principal=AGENT)

    async def drive(self, run: str = "r1") -> Progress:
        return await InlineDriver(self.workflows).drive("acme", run)

    async def ask(self, asked: Question, run: str = "r1") -> Progress:
        await self.start(asked, run)
        return await self.drive(run)

    async def decide(self, progress: Progress, verb: str, by: Principal = CUSTOMER) -> None:
        assert isinstance(progress, placet.Waiting)
        for approval in progress.approvals:
            view = await self.gate.desk.show(approval, by=by)
            await getattr(self.gate.desk, verb)(approval, by=by, digest=view.digest)

    async def arrivals(self) -> list[str]:
        return (await self.drafts.arrivals())[self.before :]

    async def attempts(self, tool: str, *, run: str = "r1") -> list[dict[str, Any]]:
        """The attempts of a tool's handler that the audit has begun in a run, and that came to the handler."""
        return [
            event
            for event in await self.events("completed", run=run)
            if event["tool"] == tool and event["outcome"] in ("success", "error", "timeout", "unknown")
        ]

    async def events(self, *kinds: str, run: str = "r1") -> list[dict[str, Any]]:
        import json

        chained = [json.loads(event.body) async for event in self.gate.store.chained()]
        return [event for event in chained if event["kind"] in kinds and event["run_id"] == run]

    async def path(self, run: str = "r1") -> list[str]:
        return [event["detail"] for event in await self.events("run_moved", run=run)]


OpenDesk = Callable[..., Awaitable[Desk]]


def library_of(folder: Path, documents: dict[str, str] | None = None) -> Library:
    """Two knowledge bases of `acme`: `help`, and `other`, which nobody builds."""
    for name, content in (DOCUMENTS if documents is None else documents).items():
        (folder / "documents").mkdir(exist_ok=True)
        (folder / "documents" / name).write_text(content)
    bases = [KnowledgeBase(tenant="acme", id=name, documents=folder / "documents") for name in ("help", "other")]
    return Library(folder / "indexes", bases, meaning=Meaning.NEVER)


@asynccontextmanager
async def opened(
    folder: Path,
    drafts: DraftsClient,
    *,
    workflow: Workflow = SUPPORT,
    store: str | Path = placet.MEMORY,
    library: Library | None = None,
    meter: KnowledgeMeter | None = None,
) -> AsyncIterator[Desk]:
    library = library or library_of(folder)
    async with placet.open(
        tools=support_tools(library, drafts, meter=meter),
        store=store,
        policy=confirmed_by_whom_it_is_for(),
        recovery=placet.Recovery.MANUAL,
    ) as gate:
        workflows = Workflows(gate, (workflow,))
        before = len(await drafts.arrivals())
        yield Desk(gate=gate, library=library, drafts=drafts, workflows=workflows, before=before)

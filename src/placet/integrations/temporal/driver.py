"""Runs on Temporal: what is started there, what a worker does, and how a decision becomes a signal.

Temporal's database is not believed. Whoever may write to it, or to its interface, can start and wake runs, which makes
them be looked at; it can neither approve nor act, and it reads ids.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from temporalio import activity
from temporalio.client import Client
from temporalio.common import (
    VersioningBehavior,
    WorkerDeploymentVersion,
    WorkflowIDConflictPolicy,
    WorkflowIDReusePolicy,
)
from temporalio.worker import Worker, WorkerDeploymentConfig, WorkflowRunner
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions

from placet.bootstrap.surroundings import system_clock
from placet.errors import MisuseError
from placet.integrations.driving import advanced
from placet.integrations.temporal.carrying import ADVANCE, WAKE, RunWorkflow, Ticket
from placet.integrations.temporal.payloads import names_only
from placet.integrations.waking import LOOK_SECONDS, StoreWatch, Waker
from placet.model.exact import is_seconds
from placet.model.json import JsonObject
from placet.model.principal import Principal
from placet.model.progress import Ended, Progress, progress_of
from placet.ports.clock import Clock

if TYPE_CHECKING:
    from placet.engine.workflow import Workflows
    from placet.model.run import RunLimits

HEARTBEAT_SECONDS: Final = 30.0


class TemporalDriver:
    """Carries the runs of these workflows on one task queue. Use it in the event loop of their gate.

    Args:
        client: to the namespace; whatever converter it has, what is sent through here are names, encrypted by its codec
            if it has one.
        task_queue: of runs alone; workers of other programs have another.
        heartbeat_seconds: a worker that was not heard of for so long is taken for dead. Being wrong costs a question
            that the ledger answers.
        build: the deployment and build id of this program, where workers are versioned; runs move to the current build.
    """

    def __init__(
        self,
        workflows: Workflows,
        *,
        client: Client,
        task_queue: str = "placet",
        heartbeat_seconds: float = HEARTBEAT_SECONDS,
        look_seconds: float = LOOK_SECONDS,
        build: tuple[str, str] | None = None,
        clock: Clock | None = None,
    ) -> None:
        if not is_seconds(heartbeat_seconds) or not is_seconds(look_seconds):
            raise MisuseError("heartbeat_seconds= and look_seconds= are finite numbers above zero.")
        self._workflows = workflows
        self._client = _for_names(client)
        self._task_queue = task_queue
        self._heartbeat_seconds = heartbeat_seconds
        self._build = build
        self._clock = clock or system_clock()
        self._waker = Waker(
            workflows, self.wake, clock=self._clock, look_seconds=look_seconds, watch=StoreWatch(workflows)
        )

    async def start(
        self, workflow: str, *, run: str, inputs: object, principal: Principal, limits: RunLimits | None = None
    ) -> Progress:
        """Begin a run, once: in the store first, then on Temporal. A second start of the same run is the same run.

        A process that dies in between leaves a run that some `serve` finds and begins with.

        Raises:
            PlacetError: as `Workflows.start`; nothing was begun.
            RPCError: the run is begun, and Temporal could not be told; it will be, by whoever serves.
        """
        progress = await self._workflows.start(workflow, run=run, inputs=inputs, principal=principal, limits=limits)
        if not isinstance(progress, Ended):
            await self._begun(progress, {})
        return progress

    async def wake(self, progress: Progress) -> None:
        """Have a run looked at now; one that Temporal does not know, or has given up, is begun with.

        Raises:
            RPCError: Temporal could not be told.
        """
        await self._begun(progress, {"start_signal": WAKE})

    async def result(self, tenant: str, run: str) -> Progress:
        """Wait for the end of a run that was started here.

        Raises:
            RPCError: Temporal does not know it.
        """
        ticket = self._ticket(tenant, run)
        data: Any = await self._client.get_workflow_handle(ticket.workflow_id).result()
        return progress_of(data)

    def worker(self, **options: Any) -> Worker:
        """A worker for the task queue, to be run by whoever has one event loop for the gate; options as `Worker` has.

        A program that has a worker of its own gives it `RunWorkflow` and `activities` instead.
        """
        options.setdefault("workflow_runner", _sandbox())
        if self._build is not None:  # a run that waits goes on with the build of today, not with the one that began it
            deployment, build_id = self._build
            options["deployment_config"] = WorkerDeploymentConfig(
                version=WorkerDeploymentVersion(deployment_name=deployment, build_id=build_id),
                use_worker_versioning=True,
                default_versioning_behavior=VersioningBehavior.AUTO_UPGRADE,
            )
        return Worker(
            self._client,
            task_queue=self._task_queue,
            workflows=[RunWorkflow],
            activities=list(self.activities),
            **options,
        )

    @property
    def activities(self) -> tuple[Callable[..., Any], ...]:
        return (self._advance,)

    async def serve(self, ending: asyncio.Event, **options: Any) -> None:
        """Do steps, and tell Temporal of decisions, until `ending` is set. Steps that are under way then are finished.

        Args:
            options: of the worker, as `temporalio.worker.Worker` takes them.
        """
        options.setdefault("graceful_shutdown_timeout", timedelta(seconds=self._heartbeat_seconds))
        async with self.worker(**options):
            await self._waker.run(ending)

    async def look(self) -> int:
        """Tell Temporal, once, of every run for which there is something to do; how many those were.

        Raises:
            PlacetError: the store could not be asked.
        """
        return await self._waker.once()

    # ------------------------------------------------------------ inside

    def _ticket(self, tenant: str, run_id: str) -> Ticket:
        return Ticket(tenant=tenant, run_id=run_id, heartbeat_seconds=self._heartbeat_seconds)

    async def _begun(self, progress: Progress, options: dict[str, Any]) -> None:
        ticket = self._ticket(progress.tenant, progress.run_id)
        await self._client.start_workflow(
            RunWorkflow.run,
            ticket.as_data(),
            id=ticket.workflow_id,
            task_queue=self._task_queue,
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
            id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE,
            **options,
        )

    @activity.defn(name=ADVANCE)
    async def _advance(self, data: dict[str, Any]) -> dict[str, Any]:
        """At most one step of the run. Answers in data whatever happens: an error's text has no place in a history."""
        ticket = Ticket.of(data)
        step = asyncio.ensure_future(self._stepped(ticket))
        beating = asyncio.ensure_future(self._beat(ticket.heartbeat_seconds / 3))
        try:
            return await _to_its_end(step)
        finally:
            beating.cancel()

    async def _stepped(self, ticket: Ticket) -> JsonObject:
        return (await advanced(self._workflows, ticket.tenant, ticket.run_id)).as_data()

    async def _beat(self, seconds: float) -> None:
        while True:
            await self._clock.sleep(seconds)
            activity.heartbeat()


def _sandbox() -> WorkflowRunner:
    """Temporal's own, which would import placet anew for every run: ten times the work for code that keeps no state."""
    return SandboxedWorkflowRunner(restrictions=SandboxRestrictions.default.with_passthrough_modules("placet"))


def _for_names(client: Client) -> Client:
    """The same connection, for names alone; what its plugins have changed stays changed."""
    config = client.config(active_config=True)
    config["data_converter"] = names_only(client.data_converter)
    config["plugins"] = ()
    return Client(**config)


async def _to_its_end(step: asyncio.Future[JsonObject]) -> JsonObject:
    """A step under way is not broken off because Temporal has lost patience, or somebody cancelled its workflow: what
    it has sent is sent. Only a worker that ends breaks it off, and then the ledger says what was done."""
    while not step.done():
        try:
            await asyncio.shield(step)
        except asyncio.CancelledError:
            if activity.is_worker_shutdown():
                step.cancel()
    return step.result()

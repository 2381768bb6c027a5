"""Runs on DBOS: one workflow that knows no states, its one step, and the message that wakes it.

DBOS is called from threads that are not the gate's: its own async calls would change the executor of the gate's event
loop, and leave it with one that is shut down.

DBOS's database is not believed, and nothing in it is code: whoever may write to it can have runs looked at, and read
ids. What a run is about lies sealed in the store of placet.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import count
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, cast

from dbos import DBOS, DBOSConfig, SetWorkflowID
from sqlalchemy.exc import SQLAlchemyError

from placet.bootstrap.surroundings import random_ids, system_clock
from placet.engine.faults import told
from placet.errors import MisuseError, StoreUnavailable
from placet.integrations.dbos.presence import ExecutorTaken, Lost, Presence
from placet.integrations.dbos.storing import NamesOnly, refuse_pickles
from placet.integrations.driving import Fault, Over, Rest, advanced, engine_id, fault_of, is_in_vain, next_after, said
from placet.integrations.waking import LOOK_SECONDS, StoreWatch, Waker
from placet.model.exact import is_seconds
from placet.model.principal import Principal, is_identity
from placet.model.progress import Ended, Progress
from placet.ports.clock import Clock
from placet.ports.waiting import in_a_thread

if TYPE_CHECKING:
    from placet.engine.workflow import Workflows
    from placet.model.run import RunLimits

_log = logging.getLogger("placet.integrations")

RUN: Final = "placet.run"
ADVANCE: Final = "placet.advance"
QUEUE: Final = "placet.runs"
DEAD_AFTER_SECONDS: Final = 30.0
LISTENS_SECONDS: Final = 60.0
APPLICATION_VERSION: Final = "placet-1"
"""Pinned: DBOS recovers a run only under the version it began with, and would make one of the source's hash, so that
every deploy stranded what waits. It changes only together with what `_carried` records, and then by `DBOS.patch`."""

_PENDING: Final = "PENDING"
_GIVEN_UP: Final = frozenset({"SUCCESS", "ERROR"})
_SET_ASIDE: Final = frozenset({"CANCELLED", "MAX_RECOVERY_ATTEMPTS_EXCEEDED"})
_WAKE: Final = "wake"
_NOT_ENTERED: Final = "Enter the driver first: async with DbosDriver(...) as driver."
_FAULT: Final = "fault"
"""The topic of a rest after a fault: nobody sends to it."""


class DbosDriver:
    """Carries the runs of these workflows on one DBOS database. Enter it in the event loop of their gate.

    Args:
        database: as DBOS has it: `sqlite:///path` or `postgresql+psycopg://...`. Never the file that is placet's store.
        executor: this worker's name: its own among all that live, and the same again after a restart.
        dead_after_seconds: an executor that was not heard of for so long has its runs taken over.
        listens_seconds: a run that waits for a person for longer is let go of: DBOS has nothing of it to look after,
            and whoever serves begins with it again once it is due.
        options: more of DBOS's configuration.
    """

    def __init__(
        self,
        workflows: Workflows,
        *,
        database: str,
        executor: str,
        dead_after_seconds: float = DEAD_AFTER_SECONDS,
        listens_seconds: float = LISTENS_SECONDS,
        look_seconds: float = LOOK_SECONDS,
        options: Mapping[str, Any] | None = None,
        clock: Clock | None = None,
    ) -> None:
        if not is_identity(executor) or executor == "local":
            raise MisuseError("executor= is a name that no other worker has, and that this one has again: not 'local'.")
        if not all(map(is_seconds, (dead_after_seconds, listens_seconds, look_seconds))):
            raise MisuseError("dead_after_seconds=, listens_seconds= and look_seconds= are finite numbers above zero.")
        self._workflows = workflows
        self._database = database
        self._executor = executor
        self._dead_after_seconds = dead_after_seconds
        self._listens_seconds = listens_seconds
        self._look_seconds = look_seconds
        self._options = dict(options or {})
        self._clock = clock or system_clock()
        self._waker = Waker(
            workflows, self.wake, clock=self._clock, look_seconds=look_seconds, watch=StoreWatch(workflows)
        )
        self._presence = Presence(
            database, executor=executor, token=random_ids().new_id("exe"), dead_after_seconds=dead_after_seconds
        )
        self._steps: set[asyncio.Future[Any]] = set()
        self._is_ending = False
        self._beating: asyncio.Task[None] | None = None

    async def __aenter__(self) -> DbosDriver:
        """Launch DBOS. What this executor had not finished goes on.

        Raises:
            ExecutorTaken: another process lives under this executor's name; nothing was launched.
            ConfigurationError: this version of DBOS would run what rows of its database say.
        """
        refuse_pickles()
        try:
            await in_a_thread(self._presence.prepare)
            await self._take_name()
        except BaseException:
            self._presence.close()
            raise
        try:
            await self._launched()
        except BaseException:
            await self._left()
            raise
        self._beating = asyncio.ensure_future(self._beat())
        return self

    async def _launched(self) -> None:
        DBOS(config=self._config())
        _home.loop, _home.advance = asyncio.get_running_loop(), self._advanced
        _home.listens_seconds = self._listens_seconds
        await in_a_thread(DBOS.launch)
        await in_a_thread(partial(DBOS.register_queue, QUEUE, polling_interval_sec=self._look_seconds))

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Steps that are under way are finished; others, and runs that rest, go on with another executor."""
        self._is_ending = True
        if self._beating is not None:
            self._beating.cancel()
        if self._steps:
            await asyncio.wait(self._steps)
        await self._left()

    async def _left(self) -> None:
        """Nothing of DBOS is left in this process, and its name is free."""
        try:
            await in_a_thread(DBOS.destroy)
        finally:
            _home.loop = _home.advance = None
            try:
                await in_a_thread(self._presence.leave)
            except SQLAlchemyError as fault:
                _log.warning("executor's name could not be given back", extra=told(fault))
            self._presence.close()

    async def start(
        self, workflow: str, *, run: str, inputs: object, principal: Principal, limits: RunLimits | None = None
    ) -> Progress:
        """Begin a run, once: in the store first, then on DBOS. A second start of the same run is the same run.

        A process that dies in between leaves a run that some `serve` finds and begins with.

        Raises:
            PlacetError: as `Workflows.start`; nothing was begun.
        """
        progress = await self._workflows.start(workflow, run=run, inputs=inputs, principal=principal, limits=limits)
        if not isinstance(progress, Ended):
            await in_a_thread(partial(self._begun, progress, engine_id(progress.tenant, progress.run_id)))
        return progress

    async def wake(self, progress: Progress) -> None:
        """Have a run looked at now; one that DBOS does not know, or has given up, is begun with."""
        await in_a_thread(partial(self._woken, progress))

    async def serve(self, ending: asyncio.Event) -> None:
        """Tell DBOS of decisions until `ending` is set. Steps are done meanwhile, and before, by DBOS's own threads.

        Raises:
            ExecutorTaken: another process has taken this executor's name.
            StoreUnavailable: DBOS's database could not be reached for so long that others take this executor for dead.
                Steps that are under way are finished, and no other is begun.
        """
        if self._beating is None:
            raise MisuseError(_NOT_ENTERED)
        looking = asyncio.ensure_future(self._waker.run(ending))
        try:
            await asyncio.wait((looking, self._beating), return_when=asyncio.FIRST_COMPLETED)
            if self._beating.done():
                self._beating.result()
        finally:
            looking.cancel()

    async def look(self) -> int:
        """Tell DBOS, once, of every run for which there is something to do; how many those were.

        Raises:
            PlacetError: the store could not be asked.
        """
        return await self._waker.once()

    # ------------------------------------------------------------ inside

    def _config(self) -> DBOSConfig:
        ours: dict[str, Any] = {
            "name": "placet",
            "log_level": "ERROR",
            **self._options,
            "system_database_url": self._database,
            "application_version": APPLICATION_VERSION,
            "executor_id": self._executor,
            "serializer": NamesOnly(),
        }
        return cast(DBOSConfig, ours)

    def _begun(self, progress: Progress, name: str) -> None:
        if self._beating is None:
            raise MisuseError(_NOT_ENTERED)
        with SetWorkflowID(name):
            DBOS.enqueue_workflow(QUEUE, _carried, progress.tenant, progress.run_id)

    def _woken(self, progress: Progress) -> None:
        name, status = _carrier(engine_id(progress.tenant, progress.run_id))
        if status is None:
            self._begun(progress, name)
        elif status in _SET_ASIDE:
            DBOS.resume_workflow(name, queue_name=QUEUE)
        topic = _topic(progress)
        DBOS.send(name, _WAKE, topic=topic, idempotency_key=f"{name}/{topic}")

    async def _advanced(self, tenant: str, run_id: str) -> Any:
        """At most one step of the run, in the gate's own loop. Answers in data whatever happens."""
        if self._is_ending:
            await asyncio.get_running_loop().create_future()  # never answered: it goes on elsewhere
        step = asyncio.ensure_future(self._stepped(tenant, run_id))
        self._steps.add(step)
        step.add_done_callback(self._steps.discard)
        return await asyncio.shield(step)

    async def _stepped(self, tenant: str, run_id: str) -> Any:
        return (await advanced(self._workflows, tenant, run_id)).as_data()

    # ------------------------------------------------------------ who is alive

    async def _take_name(self) -> None:
        """A process of before that died is waited for until it is taken for dead."""
        end = self._clock.monotonic() + self._dead_after_seconds * 1.5
        while not await in_a_thread(self._presence.takes_name):
            if self._clock.monotonic() > end:
                raise ExecutorTaken(
                    "Another worker lives under this executor's name.",
                    hint="Give each worker a name of its own, such as that of its host.",
                )
            await self._clock.sleep(self._dead_after_seconds / 10)

    async def _beat(self) -> None:
        """Tell others that it lives, until it is not its own any more. From then on it begins no step."""
        try:
            await self._beaten()
        finally:
            self._is_ending = True

    async def _beaten(self) -> None:
        heard_at = self._clock.monotonic()
        while True:
            now = self._clock.monotonic()
            match await self._renewed():
                case True:
                    heard_at = now
                    await self._take_over()
                case False:
                    raise ExecutorTaken("Another worker has taken this executor's name.")
                case None if now - heard_at > self._dead_after_seconds:
                    raise StoreUnavailable(
                        "DBOS's database could not be reached for so long that this executor is taken for dead.",
                        hint="Start the worker again once the database is there. What it left goes on elsewhere.",
                    )
            await self._clock.sleep(self._dead_after_seconds / 5)

    async def _renewed(self) -> bool | None:
        """Whether this executor is still the one of its name; None where the database does not say."""
        try:
            return await in_a_thread(self._presence.renew)
        except SQLAlchemyError as fault:
            _log.warning("executor could not say that it lives", extra=told(fault))
        return None

    async def _take_over(self) -> None:
        try:
            for lost in await in_a_thread(self._presence.lost):
                await in_a_thread(partial(self._taken_over, lost))
        except Exception as fault:
            _log.warning("dead executors could not be looked for", extra=told(fault))

    def _taken_over(self, lost: Lost) -> None:
        if not self._presence.takes_over(lost):
            return
        left = DBOS.list_workflows(
            status=_PENDING, name=RUN, executor_id=lost.executor, load_input=False, load_output=False
        )
        for each in left:
            DBOS.resume_workflow(each.workflow_id, queue_name=QUEUE)
        self._presence.forget(lost)
        _log.info("runs of a dead executor were taken over", extra={"count": len(left)})


def _carrier(name: str) -> tuple[str, str | None]:
    """The name of what carries the run by now, or of what will: one that has let go of it has its name for good."""
    for number in count():
        carrier = name if number == 0 else f"{name}/{number}"
        status = DBOS.get_workflow_status(carrier)
        if status is None or status.status not in _GIVEN_UP:
            return carrier, None if status is None else status.status
    raise AssertionError  # names do not end


def _topic(answer: Progress | Fault) -> str:
    """One for each rest, so for each question: what comes late, or again, is no wake-up of the next one."""
    return _FAULT if isinstance(answer, Fault) else str(answer.state_version)


@dataclass(slots=True)
class _Home:
    """Where steps are done: DBOS is one per process, so its functions are registered once, and find their driver here.

    Attributes:
        loop: the gate's.
    """

    loop: asyncio.AbstractEventLoop | None = None
    listens_seconds: float = LISTENS_SECONDS
    advance: Callable[[str, str], Coroutine[Any, Any, Any]] | None = None


_home: Final = _Home()


@DBOS.step(name=ADVANCE, retries_allowed=False)
async def _step(tenant: str, run_id: str) -> Any:
    if _home.loop is None or _home.advance is None:
        return Fault(code="driver_closed").as_data()
    work = _home.advance(tenant, run_id)
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, _home.loop))


@DBOS.workflow(name=RUN, max_recovery_attempts=None)  # a run that waits for days may see more restarts than 100
async def _carried(tenant: str, run_id: str) -> Any:
    """The one workflow. It knows no states and no tools, whatever definition is deployed.

    DBOS asks its database for each workflow that receives, again and again. So one that has waited for a person for a
    while lets go of its run, which costs a row from then on: it is begun with again when it is due.
    """
    in_vain, listened_at = 0, -1
    while True:
        data = await _step(tenant, run_id)
        answer = _said(data)
        match next_after(answer, in_vain=in_vain):
            case Over():
                return data
            case Rest(questions=(_, *_)) if _version(answer) == listened_at:
                return data
            case Rest(seconds=seconds, questions=questions):
                in_vain = in_vain + 1 if is_in_vain(answer) else 0
                if seconds > 0:
                    # Whatever is received, or nothing in time: the run is looked at, and the ledger asked.
                    patience = min(seconds, _home.listens_seconds) if questions else seconds
                    heard = await DBOS.recv_async(_topic(answer), timeout_seconds=patience)
                    listened_at = _version(answer) if heard is None and patience < seconds else -1


def _version(answer: Progress | Fault) -> int:
    return -2 if isinstance(answer, Fault) else answer.state_version


def _said(data: object) -> Progress | Fault:
    """A step whose record does not read is one that said nothing."""
    try:
        return said(data)
    except MisuseError as error:
        return fault_of(error)

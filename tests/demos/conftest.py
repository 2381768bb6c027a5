"""A second incident, unlike the recorded one; the ways to ask either; and a ticket desk in a process of its own."""

import json
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from placet.demos.ops import contracts, observations
from placet.demos.ops.desk_client import DeskClient, DeskProcess
from placet.demos.ops.observations import Incident, Runbooks
from placet.demos.ops.planner import Answer, Failure, Step

NOW = datetime(2027, 2, 3, 10, 14, 30, tzinfo=UTC)


@dataclass
class Tools:
    """The four reads over one incident; a ticket is checked and kept. Anything else is unknown."""

    incident: Incident
    runbooks: Runbooks = field(default_factory=observations.shipped_runbooks)
    steps: list[Step] = field(default_factory=list)
    failures: list[tuple[Step, str]] = field(default_factory=list)
    broken: set[tuple[str, str]] = field(default_factory=set)

    async def ask(self, step: Step) -> Answer:
        self.steps.append(step)
        if (step.tool, str(step.arguments.get("service"))) in self.broken:
            return self._failed(step, "timed_out")
        read = self._reads().get(step.tool)
        if read is None:
            return self._failed(step, "unknown_tool")
        try:
            return read(dict(step.arguments)).model_dump(mode="json")
        except ValueError:
            return self._failed(step, "invalid_arguments")

    def _failed(self, step: Step, code: str) -> Failure:
        self.failures.append((step, code))
        return Failure(code=code)

    def _reads(self) -> dict[str, Callable[[dict[str, object]], contracts.Contract]]:
        ask = self.incident
        return {
            "query_logs": lambda given: observations.query_logs(ask, contracts.LogsQuery(**given)),
            "query_metrics": lambda given: observations.query_metrics(ask, contracts.MetricsQuery(**given)),
            "get_service_status": lambda given: observations.get_service_status(ask, contracts.StatusQuery(**given)),
            "search_runbook": lambda given: observations.search_runbook(self.runbooks, contracts.RunbookQuery(**given)),
            "create_ticket": lambda given: contracts.TicketDraft(**given),
        }


@pytest.fixture
def recorded_tools() -> Tools:
    return Tools(observations.shipped_incident())


@pytest.fixture
def second_tools(tmp_path: Path) -> Callable[..., Tools]:
    """Makes the second incident; `failing` of ten requests fail since `minutes_ago`."""

    def make(*, failing: int = 6, minutes_ago: int = 9) -> Tools:
        write_second_incident(tmp_path / "second", failing=failing, onset=NOW - timedelta(minutes=minutes_ago))
        return Tools(Incident(tmp_path / "second"))

    return make


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[DeskProcess]:
    """A desk that listens, with its tickets in `tmp_path / "desk"`."""
    process = DeskProcess()
    process.start(tmp_path / "desk")
    yield process
    process.stop()


@pytest.fixture
async def desk_client(desk: DeskProcess) -> AsyncIterator[DeskClient]:
    async with DeskClient(desk.url) as client:
        yield client


def write_second_incident(directory: Path, *, failing: int, onset: datetime) -> None:
    """A configuration of `catalog-sync` floods the cache; shards are evicted; searches fail with 500.

    On the way are three innocent changes: of the index (nearer, and on the path), of a mailer (nearer, and unrelated),
    and of the API itself (earlier).
    """
    (directory / "logs").mkdir(parents=True)
    _write_json(directory / "incident.json", {"schema": "incident/1", "now": _iso(NOW), "logs": _SECOND_LOGS})
    _write_json(directory / "services.json", _second_services(onset))
    _write_lines(directory / "deploys.jsonl", map(json.dumps, _second_changes(onset)))
    start = onset - timedelta(minutes=25)
    seconds = [start + timedelta(seconds=index) for index in range(int((NOW - start).total_seconds()))]
    is_bad = {at: at >= onset and index % 10 < failing for index, at in enumerate(seconds)}
    _write_lines(directory / "logs" / "gateway-access.log", (_access_line(at, is_bad[at]) for at in seconds))
    _write_lines(directory / "logs" / "search-api.jsonl", (_api_line(at, is_bad[at]) for at in seconds[::2]))
    bad = [at for at in seconds if is_bad[at]]
    _write_lines(directory / "logs" / "search-cache.log", map(_cache_line, bad[::5]))
    index_change, sync_change = onset - timedelta(minutes=1), onset - timedelta(minutes=3)
    _write_lines(
        directory / "logs" / "search-index.jsonl",
        (
            _line(at, "search-index", "query answered", version="9.2" if at >= index_change else "9.1", took_ms=5)
            for at in seconds[::7]
        ),
    )
    _write_lines(
        directory / "logs" / "catalog-sync.jsonl",
        (
            _line(at, "catalog-sync", "batch written", version="4.2", items=50_000 if at >= sync_change else 500)
            for at in seconds[::20]
        ),
    )
    _write_lines(directory / "metrics.csv", _second_metrics(seconds[::30], onset, sync_change))


_SECOND_LOGS = {
    "gateway": ["gateway-access.log"],
    "search-api": ["search-api.jsonl"],
    "search-cache": ["search-cache.log"],
    "search-index": ["search-index.jsonl"],
    "catalog-sync": ["catalog-sync.jsonl"],
}


def _second_services(onset: datetime) -> list[dict[str, object]]:
    depends_on = {
        "gateway": ["search-api"],
        "search-api": ["search-index", "search-cache"],
        "search-cache": [],
        "search-index": [],
        "catalog-sync": ["search-cache"],
        "mailer": [],
    }
    suffering = {"gateway", "search-api"}
    return [
        {
            "name": name,
            "kind": "a service",
            "owner": f"team {name}",
            "depends_on": needed,
            "health": [
                {"at": _iso(onset - timedelta(hours=1)), "status": "ok"},
                *([{"at": _iso(onset), "status": "degraded"}] if name in suffering else []),
            ],
        }
        for name, needed in depends_on.items()
    ]


def _second_changes(onset: datetime) -> list[dict[str, str]]:
    def at(minutes: float) -> str:
        return _iso(onset - timedelta(minutes=minutes))

    return [
        {"ts": at(60), "event": "deploy", "service": "catalog-sync", "version": "4.2", "note": "running at start"},
        {"ts": at(15), "event": "deploy", "service": "search-api", "version": "7.0.1", "previous": "7.0.0"},
        {"ts": at(3), "event": "config", "service": "catalog-sync", "change": "CFG-812", "note": "larger batches"},
        {"ts": at(1), "event": "deploy", "service": "search-index", "version": "9.2", "previous": "9.1"},
        {"ts": at(0.5), "event": "deploy", "service": "mailer", "version": "1.8", "previous": "1.7", "change": "CHG-9"},
    ]


def _access_line(at: datetime, is_bad: bool) -> str:
    status = 500 if is_bad else 200
    return (
        f'203.0.113.{at.second} - - [{at:%Y-%m-%dT%H:%M:%S+00:00}] "GET /search?q=tea HTTP/1.1" {status} 90 '
        f'"Mozilla/5.0" rid={int(at.timestamp()):016x} rt=0.0{at.second} urt=0.010 us={status}'
    )


def _api_line(at: datetime, is_bad: bool) -> str:
    if is_bad:
        error = "CacheError: shard_evicted while the answer was put together"
        return _line(at, "search-api", "search failed", level="ERROR", version="7.0.1", error=error)
    return _line(at, "search-api", "search served", version="7.0.1", duration_ms=12)


def _cache_line(at: datetime) -> str:
    return f"77:M {at:%d %b %Y %H:%M:%S.000} # shard_evicted: maxmemory reached, {at.second} keys gone"


def _line(at: datetime, service: str, message: str, *, level: str = "INFO", **members: object) -> str:
    return json.dumps({"ts": _iso(at), "level": level, "service": service, "msg": message, **members})


def _second_metrics(times: list[datetime], onset: datetime, sync_change: datetime) -> Iterator[str]:
    yield "ts,metric,labels,value"
    counts = dict.fromkeys(("gateway/requests_total", "search-cache/evictions_total", "catalog-sync/items_total"), 0.0)
    for at in times:
        counts["gateway/requests_total"] += 30
        counts["search-cache/evictions_total"] += 450 if at >= onset else 1
        counts["catalog-sync/items_total"] += 75_000 if at >= sync_change else 750
        gauges = {
            "search-cache/hit_ratio": 0.2 if at >= onset else 0.97,
            "search-index/open_files": 40.0,
            "mailer/queue_length": 3.0 if at < onset else 90.0,
        }
        for name, value in {**counts, **gauges}.items():
            service, _, metric = name.partition("/")
            yield f'{_iso(at)},{metric},"{{""job"":""{service}""}}",{value}'


def _write_json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value))


def _write_lines(path: Path, lines: Iterable[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines))


def _iso(at: datetime) -> str:
    return at.isoformat().replace("+00:00", "Z")

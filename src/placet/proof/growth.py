"""A SQLite store as it is after years: millions of rows, made straight through SQL, and writes beside a young one.

Every row is a copy of what a governed write leaves, under another name, with other digests and at another time; indexes
and triggers are taken off for the copying and put back as they were. The links of the copied events lead nowhere, so
such a store is for measuring only: its audit does not hold.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path

import apsw

from placet.bootstrap import Opening, Recovery, open_gate
from placet.engine.gate import Gate
from placet.engine.settings import GateSettings
from placet.model.principal import Principal
from placet.rules.contracts import tool

YOUNG_EFFECTS = 1_000
_TENANTS = 20
_ROWS_PER_RUN = 100
_PIECE = 250_000
_YEARS_MICROSECONDS = 3 * 365 * 86_400 * 1_000_000
_WRITER = "w-copied"
_FIRST_DAY = date(2023, 1, 1)
_SETTINGS = GateSettings(lease_seconds=3600.0)


@tool(effect="write", risk="low", permission="growth.write", operation_key="ticket:{number}")
async def open_ticket(number: str, body: str) -> dict[str, str]:
    """Open a ticket."""
    return {"ticket_id": number, "state": "open"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ages:
    """What writes cost beside each other: medians over rounds that took turns.

    Attributes:
        young_p50, old_p50: seconds of one governed write.
        ratio: median of the rounds' own ratios, so that what disturbed a round disturbed both halves of it.
    """

    young_p50: float
    old_p50: float
    ratio: float
    rounds: int


def make(path: Path, *, effects: int, events: int, told: Callable[[str], None] = lambda word: None) -> None:
    """A new store at `path` with so many effects and events, and runs, steps and spent approvals to go with them."""
    asyncio.run(_with_gate(path, 1, 0))
    connection = apsw.Connection(str(path))
    try:
        for name, value in (("journal_mode", "off"), ("synchronous", "off"), ("locking_mode", "exclusive")):
            connection.pragma(name, value)
        connection.pragma("temp_store", "file")
        connection.pragma("cache_size", -500_000)
        with _bare(connection):
            told("effects")
            _copy_effects(connection, effects)
            told("events")
            _copy_events(connection, events)
            told("indexes")
    finally:
        connection.close(True)


def compare(young: Path, old: Path, *, rounds: int, writes: int) -> Ages:
    """Governed writes by one caller on two stores, in rounds that take turns.

    Args:
        rounds: at least 1; a first one beside them warms up and is not counted.
    """
    found = asyncio.run(_compared(young, old, rounds=rounds, writes=writes))
    return Ages(
        young_p50=statistics.median(first for first, _ in found),
        old_p50=statistics.median(second for _, second in found),
        ratio=statistics.median(second / first for first, second in found),
        rounds=len(found),
    )


# ---------------------------------------------------------------- making


@contextmanager
def _bare(connection: apsw.Connection) -> Iterator[None]:
    """Without triggers and indexes, which are made again at once when all rows are there."""
    query = "SELECT type, name, sql FROM sqlite_schema WHERE type IN ('index', 'trigger') AND sql IS NOT NULL"
    taken = [tuple(map(str, row)) for row in connection.execute(query)]
    for kind, name, _ in taken:
        connection.execute(f'DROP {kind} "{name}"')
    yield
    for _, _, sql in taken:
        connection.execute(sql)


def _copy_effects(connection: apsw.Connection, count: int) -> None:
    """Tenant by tenant and key by key, so that the primary key is filled from its beginning to its end."""
    names = [row[1] for row in connection.execute("PRAGMA table_info(effects)")]
    changed = {
        "tenant": "'tenant-' || (10 + ?2)",
        "operation_key": """json_array('business', 'ticket:{number}', printf('n-%09d', i))""",
        "run_id": f"printf('run-%02d-%07d', ?2, i / {_ROWS_PER_RUN})",
        "call_id": "'call-' || (100000000 + i)",
        "token": "'t-' || hex(randomblob(13))",
        **{name: _SEALED.format(name=name) for name in ("sealed_arguments", "sealed_result")},
        **dict.fromkeys(("fingerprint", "argument_digest", "result_digest"), "hex(randomblob(32))"),
        **dict.fromkeys(("lease_until", "send_by", "created_at", "updated_at"), "?3 + i * ?4"),
    }
    columns = ", ".join(changed.get(name, name) for name in names)
    per_tenant = max(1, count // _TENANTS)
    (began,) = connection.execute("SELECT min(created_at) FROM effects").fetchone() or (0,)
    first, gap = int(began) - _YEARS_MICROSECONDS, _YEARS_MICROSECONDS // (per_tenant + 1)
    template = "(SELECT * FROM effects WHERE tenant = 'young' LIMIT 1)"
    numbers = "WITH RECURSIVE n(i) AS (SELECT ?1 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < ?5)"
    for tenant in range(_TENANTS):
        for start, stop in _pieces(per_tenant):
            bindings = (start, tenant, first, gap, stop)
            copies = f"INSERT INTO effects {numbers} SELECT {columns} FROM n, {template}"  # noqa: S608  our own words
            connection.execute(copies, bindings)
            connection.execute(_APPROVALS.format(numbers=numbers, runs=_ROWS_PER_RUN), bindings)
            connection.execute(_STEPS.format(numbers=numbers, runs=_ROWS_PER_RUN), (start, tenant, 0, 0, stop))
        runs = (0, tenant, first, gap * _ROWS_PER_RUN, max(1, per_tenant // _ROWS_PER_RUN))
        connection.execute(_RUNS.format(numbers=numbers, runs=_ROWS_PER_RUN), runs)


_SEALED = "CAST(substr({name}, 1, 13) || randomblob(length({name}) - 13) AS BLOB)"
_STEPS = """
INSERT INTO step_fingerprints {numbers} SELECT 'tenant-' || (10 + ?2), printf('run-%02d-%07d', ?2, i / {runs}),
    'call-' || (100000000 + i), hex(randomblob(32)) FROM n WHERE ?3 = ?4
"""
_RUNS = """
INSERT INTO runs (tenant, run_id, subject, policy_version, max_steps, steps, opened_at, stepped_at) {numbers}
SELECT 'tenant-' || (10 + ?2), printf('run-%02d-%07d', ?2, i), 'growth-agent', 'policy', 200, {runs},
    ?3 + i * ?4, ?3 + i * ?4 FROM n
"""
_APPROVALS = """
INSERT INTO approvals {numbers} SELECT printf('apr-%02d-%09d', ?2, i), 'tenant-' || (10 + ?2), 'growth-agent',
    printf('run-%02d-%07d', ?2, i / {runs}), 'open_ticket', hex(randomblob(32)), 'policy',
    json_array('business', printf('n-%09d', i)), 'spent', printf('{{"number": %d, "words": "%0700d"}}', i, i), 'k-1',
    hex(randomblob(32)), randomblob(160), '{{}}', 'k-1', hex(randomblob(32)), ?3 + i * ?4, ?3 + i * ?4
FROM n WHERE i % 20 = 0
"""


def _copy_events(connection: apsw.Connection, count: int) -> None:
    """By writer and sequence, in pairs of started and completed, of the tenants in turn, a day to each piece."""
    bodies = [row[0] for row in connection.execute("SELECT body FROM audit_events ORDER BY sequence LIMIT 2")]
    (key_id,) = connection.execute("SELECT key_id FROM audit_events LIMIT 1").fetchone() or ("",)
    started, completed = (_in_parts(body) for body in bodies)
    body = f"CASE WHEN i % 2 THEN {started} ELSE {completed} END"
    for day, (start, stop) in enumerate(_pieces(count)):
        at = (_FIRST_DAY + timedelta(days=day)).isoformat()
        connection.execute(_EVENTS.format(body=body), (start + 1, stop + 1, _WRITER, key_id, at))
    head = (_WRITER, count, count, "0" * 64, "{}", key_id, "0" * 64)
    connection.execute(
        "INSERT INTO audit_heads (writer, remembered, sequence, link, opened_after, key_id, mac) "
        "VALUES (?,?,?,?,?,?,?)", head,
    )  # fmt: skip


_EVENTS = """
INSERT INTO audit_events (writer, sequence, body, link, key_id)
WITH RECURSIVE n(i) AS (SELECT ?1 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < ?2)
SELECT ?3, i, {body}, hex(randomblob(32)), ?4 FROM n
"""


def _in_parts(body: str) -> str:
    """The body as an SQL expression in which tenant, instant and call are those of the number `i` on the day `?5`."""
    literal = "'" + body.replace("'", "''") + "'"
    at = body.partition('"at":"')[2].partition('"')[0]
    clock = f"printf('T%02d:%02d:%02d.%06d+00:00', i / 10800 % 24, i / 180 % 60, i / 3 % 60, i % {_PIECE})"
    for was, new in (
        (at, f"' || ?5 || {clock} || '"),
        ('"tenant":"young"', f'"tenant":"tenant-\' || (10 + i / 2 % {_TENANTS}) || \'"'),
        ('"call_id":"call-0"', '"call_id":"call-\' || (100000000 + i / 2) || \'"'),
    ):
        literal = literal.replace(was, new)
    return literal


def _pieces(count: int) -> Iterator[tuple[int, int]]:
    for start in range(0, count, _PIECE):
        yield start, min(count, start + _PIECE)


# ---------------------------------------------------------------- measuring


async def _with_gate(path: Path, writes: int, number: int) -> None:
    async with _opened(path) as gate:
        await _writes(gate, "young", number, writes)


def _opened(path: Path) -> Opening:
    return open_gate(tools=(open_ticket,), store=path, settings=_SETTINGS, recovery=Recovery.MANUAL)


async def _compared(young: Path, old: Path, *, rounds: int, writes: int) -> list[tuple[float, float]]:
    found: list[tuple[float, float]] = []
    async with _opened(young) as first, _opened(old) as second:
        for index in range(rounds + 1):
            tenant = f"tenant-{10 + index % _TENANTS}"
            pair = [await _writes(gate, tenant, (index + 1) * 1_000_003, writes) for gate in (first, second)]
            found.append((pair[0], pair[1]))
    return found[1:]


async def _writes(gate: Gate, tenant: str, number: int, count: int) -> float:
    """The median of so many writes, under names that lie anywhere between those that are there."""
    agent = Principal.agent("growth-agent", tenant=tenant, roles=("operator",), scopes=("growth.write",))
    took: list[float] = []
    for index in range(count):
        name = f"n-{(number + index * 48_271) % 250_000:09d}-{number + index}"
        call = {
            "call_id": f"call-{number + index}" if number else "call-0",
            "tool": open_ticket.contract.name,
            "arguments": {"number": name, "body": "The printer is on fire again."},
        }
        began = time.perf_counter()
        outcome = await gate.submit(call, principal=agent, run=f"run-{number}")
        took.append(time.perf_counter() - began)
        if outcome.code != "succeeded":
            raise RuntimeError(f"a write came out as {outcome.code}")
    return statistics.median(took)

"""`pgbench` running a claim and a settle, each one statement and one commit: what the database alone makes of a write.

*The same two statements* are those that the store sends for a write of one caller: its own function, called once with
what a claim is and once with what its settle is, in sessions that are set as the store's are; the server is told how
large tables are when the store would tell it. The values are those of a governed write that placet makes first in the
same schema; operation, run, call and token are each client's own, and each client has a writer's row and a chain of its
own, as if it were a process. Values stand in the statements, so that a client has less to send; links and MACs are
copies, which nobody reads.

*The plain pair* is the second reference: the least that a claim and a settle can be on tables without placet. It keeps
no chain, counts no run, and compares nothing, so it is what anybody's own two statements could be at best.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from placet.proof import workloads
from placet.proof.pgbench.server import BenchServer, schema_of_its_own

WARM_UP_SECONDS = 1
"""Each client's session plans its statements in it."""
_LEAST_SECONDS = 0.25
STORE_SETTINGS = {
    "statement_timeout": "15s",
    "lock_timeout": "10s",
    "idle_in_transaction_session_timeout": "10s",
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "plan_cache_mode": "force_generic_plan",
    "synchronous_commit": "on",
    "default_transaction_isolation": r"read\ committed",
    "jit": "off",
}
"""What a session of the store is set to. A test holds the two together."""
_PROCESSED = re.compile(r"number of transactions actually processed: (\d+)")
_RATE = re.compile(r"tps = ([0-9.]+) \(without initial connection time\)")
_PROGRESS = re.compile(r"progress: ([0-9.]+) s, ([0-9.]+) tps")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """One round of pgbench: calls, two commits each, and the seconds they took; those of the warm-up are left out."""

    calls: int
    seconds: float


def same_statements(server: BenchServer, *, schema: str, key: Path, clients: int, seconds: int) -> Reference:
    """Clients that send what the store sends, each its next call after its last, in a new schema.

    Raises:
        NotMeasured: pgbench failed, or left something else than it says.
        NoServer, PlacetError: the server refused.
    """
    with schema_of_its_own(server, schema):
        workloads.one_governed_write(server.address(schema), key=key)
        script = _filled("same.sql", _values(server, schema))
        server.ask(_WRITERS.format(last=clients - 1), schema=schema)
        return _run(server, schema, script, clients, seconds, STORE_SETTINGS, left_before=1)


def plain_pair(server: BenchServer, *, schema: str, clients: int, seconds: int) -> Reference:
    """Clients that send the least that a claim and a settle can be, in a new schema without placet.

    Raises:
        NotMeasured, NoServer: as `same_statements`.
    """
    with schema_of_its_own(server, schema):
        server.ask(_text("plain_tables.sql"), schema=schema)
        return _run(server, schema, _text("plain.sql"), clients, seconds, {}, left_before=0)


def _run(
    server: BenchServer,
    schema: str,
    script: str,
    clients: int,
    seconds: int,
    settings: dict[str, str],
    *,
    left_before: int,
) -> Reference:
    with tempfile.TemporaryDirectory(prefix="placet-pgbench-") as folder:
        file = Path(folder) / "call.sql"
        file.write_text(script, "utf-8")
        threads = min(clients, os.cpu_count() or 1)
        done = subprocess.run(
            [server.command("pgbench"), "-n", "-M", "prepared", "-f", str(file), "-D", "n=0", "-c", str(clients),
             "-j", str(threads), "-T", str(WARM_UP_SECONDS + seconds), "-P", str(WARM_UP_SECONDS), server.database],
            capture_output=True, text=True, env=server.environment(schema, settings), check=False,
        )  # fmt: skip
    processed, rate = _PROCESSED.search(done.stdout), _RATE.search(done.stdout)
    progress = _PROGRESS.search(done.stderr)
    if done.returncode != 0 or processed is None or rate is None or progress is None:
        sys.stderr.write(done.stderr)
        raise workloads.NotMeasured(f"pgbench ended with {done.returncode}")
    calls, took = int(processed[1]), int(processed[1]) / float(rate[1])
    left = int(server.ask("SELECT count(*) FROM effects WHERE state = 'committed';", schema=schema)) - left_before
    if left != calls:
        raise workloads.NotMeasured(f"pgbench says that it made {calls} calls, and {left} are there")
    warm_seconds, warm_rate = float(progress[1]), float(progress[2])
    return after_warm_up(
        calls=calls, seconds=took, warm_calls=round(warm_seconds * warm_rate), warm_seconds=warm_seconds
    )


def after_warm_up(*, calls: int, seconds: float, warm_calls: int, warm_seconds: float) -> Reference:
    """What is left of a run without its first part.

    Raises:
        NotMeasured: nothing is, or not even a quarter of a second: its rate would be chance, or below zero.
    """
    left = Reference(calls=calls - warm_calls, seconds=seconds - warm_seconds)
    if left.calls < 1 or left.seconds < _LEAST_SECONDS:
        raise workloads.NotMeasured(
            "too short to measure: pgbench made too few calls after its warm-up. Give it more --seconds"
        )
    return left


_WRITERS = """
INSERT INTO audit_heads (writer, link, opened_after, key_id, mac)
SELECT 'pgbench-' || i, '', '{{}}', '', '' FROM generate_series(0, {last}) AS i;
"""
_ROWS = """
SELECT json_build_object(
    'effect', (SELECT row_to_json(e) FROM effects e),
    'form', (SELECT json_agg(attname ORDER BY attnum) FROM pg_attribute WHERE attrelid = 'effect_form'::regclass),
    'events', (SELECT json_agg(a ORDER BY a.sequence) FROM audit_events a),
    'key_check', (SELECT value FROM placet_meta WHERE name = 'key_check'));
"""


def _values(server: BenchServer, schema: str) -> dict[str, str]:
    """What stands in the statements: the one write that was made in this schema."""
    found = json.loads(server.ask(_ROWS, schema=schema))
    effect, names, (started, completed) = found["effect"], found["form"], found["events"]
    own = {
        "operation_key": "'[\"call\",\"run-' || :client_id || '-' || :run || '\",\"call-' || :n || '\"]'",
        "run_id": "'run-' || :client_id || '-' || :run",
        "call_id": "'call-' || :n",
        "token": "'t-' || :client_id || '-' || :n",
        "updated_at": "t.now",
    }
    settled = {name: own.get(name, _literal(effect.get(name))) for name in names}
    unset = ("attempt_ended_at", "sealed_result", "result_digest", "external_reference", "reason")
    claimed = {**settled, **dict.fromkeys(unset, "NULL"), "state": "'dispatched'", "created_at": "t.now"}
    return {
        "calls_per_run": str(workloads.CALLS_PER_RUN),
        "claimed": ", ".join(claimed.values()),
        "settled": ", ".join({**settled, "seen": ":mark::xid"}.values()),
        "key_check": _literal(found["key_check"]),
        "started": _literal(started["body"]),
        "completed": _literal(completed["body"]),
        "link": _literal(started["link"]),
        "key_id": _literal(started["key_id"]),
        **{name: _literal(effect[name]) for name in ("tenant", "subject", "policy_version", "fingerprint", "tool")},
    }


def _literal(value: Any) -> str:
    """A value as SQL writes it, without a colon: pgbench would take `:1` in it for a variable."""
    if value is None:
        return "NULL"
    if type(value) in (int, float):
        return repr(value)
    escaped = str(value).replace("\\", "\\\\").replace("'", "\\'").replace(":", "\\x3a")
    return f"E'{escaped}'"


def _text(name: str) -> str:
    return (resources.files("placet.proof.pgbench") / name).read_text("utf-8")


def _filled(name: str, values: dict[str, str]) -> str:
    return _text(name).format(**values)

"""A question that somebody altered in the database keeps no other from running out, and nobody from being told."""

from __future__ import annotations

from pathlib import Path

import placet
from tests.kill_points.actors import AGENT, proposal
from tests.kill_points.granters import open_gate
from tests.postgres.fixtures import Database

_LATE = "2000-01-01T00:00:00.000000+00:00"
_LATER = "9999-01-01T00:00:00.000000+00:00"
_DEEP = "[" * 200_000 + "]" * 200_000
ALTERED = {
    "a deadline that is no text of the database": r'{"decide_by":"\u0000"}',
    "a first step that is none": rf'{{"decide_by":"{_LATER}","first_step_at":"\u0000"}}',
    "half a character": r'{"decide_by":"\ud800"}',
    "too deep to be read": f'{{"decide_by":{_DEEP}}}',
    "no JSON": "no JSON",
    "another kind of JSON": "[1]",
}


async def test_one_altered_question_keeps_no_other_from_running_out_or_nobody_from_being_told(
    database: Database, tmp_path: Path
) -> None:
    async with open_gate(database.url, tmp_path) as gate:
        asked = [
            await gate.submit(proposal("refund", call_id=f"call-{run}"), principal=AGENT, run=f"run-{run}")
            for run in range(2)
        ]
        altered, other = [outcome.approval_id for outcome in asked if isinstance(outcome, placet.AwaitingApproval)]

        def write(approval_id: object, question: str) -> None:
            database.execute(
                f"UPDATE placet.approvals SET question = $q${question}$q$ WHERE approval_id = '{approval_id}'"
            )

        found = {}
        for name, question in ALTERED.items():
            write(altered, question)
            found[name] = []
            for waiting in (f'"decide_by":"{_LATE}"', f'"decide_by":"{_LATER}","first_step_at":"{_LATE}"'):
                ((whole,),) = database.fetch(f"SELECT question FROM placet.approvals WHERE approval_id = '{other}'")
                database.execute(
                    "UPDATE placet.approvals SET question = "
                    f"(question::jsonb || '{{{waiting}}}')::text WHERE approval_id = '{other}'"
                )
                overdue = await gate.store.overdue_approvals(limit=10)
                due = await gate.store.due_reminders(limit=10)
                found[name].append((len(overdue), len(due)))
                write(other, str(whole))

    assert found == {name: [(1, 0), (0, 1)] for name in ALTERED}

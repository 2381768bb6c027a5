"""Looks after the effects and approvals of one store, round after round, beside the processes that act.

It proposes nothing and dispatches nothing by itself; where it is given workflows, it drives their runs. Any number may
run on one store: rows are taken by comparing, so that of two workers at one row one goes on.
"""

from __future__ import annotations

from placet.worker.worker import Round, Worker

__all__ = ["Round", "Worker"]

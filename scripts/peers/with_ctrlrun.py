"""CTRLRun: one policy rule, an effect key, its SQLite state and its own receipts and events."""

import os

from measure import BODY, PRIORITY, TICKET, chosen, hold_to_full, measure

POLICY = """schema: ctrlrun.policy/v2

actions:
  bench.open_ticket:
    effect: "ticket:{title}"
    rules:
      - when: { priority_gte: 0, priority_lte: 5 }
        decision: allow
      - decision: deny
"""


def main() -> None:
    folder, callers, seconds = chosen()
    hold_to_full()
    os.chdir(folder)
    (folder / "ctrlrun.yaml").write_text(POLICY)
    import ctrlrun

    @ctrlrun.protect("bench.open_ticket", effect="ticket:{title}")
    def open_ticket(title: str, body: str, priority: int) -> dict[str, str]:
        return TICKET

    def call(title: str) -> None:
        with ctrlrun.context(agent="bench"):
            open_ticket(title=title, body=BODY, priority=PRIORITY)

    measure(call, callers=callers, seconds=seconds)


if __name__ == "__main__":
    main()

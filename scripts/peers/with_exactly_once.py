"""exactly-once: a claim and a result per key in SQLite. It has no policy, no approval and no audit to pay for."""

from measure import BODY, PRIORITY, TICKET, chosen, hold_to_full, measure


def main() -> None:
    folder, callers, seconds = chosen()
    hold_to_full()
    from exactly_once import Store, once

    @once(Store.sqlite(str(folder / "effects.db")), key=lambda title, body, priority: f"ticket:{title}")
    def open_ticket(title: str, body: str, priority: int) -> dict[str, str]:
        return TICKET

    measure(lambda title: open_ticket(title, BODY, PRIORITY), callers=callers, seconds=seconds)


if __name__ == "__main__":
    main()

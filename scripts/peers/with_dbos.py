"""DBOS: one workflow with one step, on its SQLite system database. It has no policy and no audit to pay for."""

from measure import BODY, PRIORITY, TICKET, chosen, hold_to_full, measure


def main() -> None:
    folder, callers, seconds = chosen()
    hold_to_full()
    from dbos import DBOS, SetWorkflowID

    DBOS(
        config={
            "name": "bench",
            "system_database_url": f"sqlite:///{folder}/dbos.sqlite",
            "run_admin_server": False,
            "log_level": "ERROR",
        }
    )

    @DBOS.step()
    def open_ticket(title: str, body: str, priority: int) -> dict[str, str]:
        return TICKET

    @DBOS.workflow()
    def write(title: str) -> dict[str, str]:
        return open_ticket(title, BODY, PRIORITY)

    DBOS.launch()

    def call(title: str) -> None:
        with SetWorkflowID(title.replace(" ", "-")):
            write(title)

    measure(call, callers=callers, seconds=seconds)
    DBOS.destroy()


if __name__ == "__main__":
    main()

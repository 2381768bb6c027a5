"""Agent Runtime Governance: a rule, its durable idempotency store, its signed SQLite audit."""

from measure import BODY, PRIORITY, TICKET, chosen, hold_to_full, measure


def main() -> None:
    folder, callers, seconds = chosen()
    hold_to_full()
    from agent_runtime_governance import (
        AuditMiddleware,
        ExecutionMode,
        InvocationOptions,
        Rule,
        RuleMiddleware,
        Runtime,
    )
    from agent_runtime_governance.audit import SQLiteAuditSink
    from agent_runtime_governance.registry import SQLiteIdempotencyStore

    runtime = Runtime(
        [
            RuleMiddleware([Rule("wipe", r"\bwipe\s+all\b", "not for agents")]),
            AuditMiddleware(SQLiteAuditSink(folder / "audit.db", sign_key=bytes(32))),
        ],
        idempotency_store=SQLiteIdempotencyStore(folder / "idempotency.db"),
    )

    @runtime.tool(execution_mode=ExecutionMode.IDEMPOTENT)
    def open_ticket(title: str, body: str, priority: int) -> dict[str, str]:
        return TICKET

    def call(title: str) -> None:
        options = InvocationOptions(input_text="as asked", idempotency_key=title.replace(" ", "-"))
        open_ticket(title, BODY, PRIORITY, _governance=options)

    measure(call, callers=callers, seconds=seconds)


if __name__ == "__main__":
    main()

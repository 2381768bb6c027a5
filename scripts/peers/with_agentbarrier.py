"""AgentBarrier: one allow rule, its SQLite runtime store with its receipts."""

from measure import BODY, PRIORITY, TICKET, chosen, hold_to_full, measure


def main() -> None:
    folder, callers, seconds = chosen()
    hold_to_full()
    from agentbarrier.runtime import PolicyRule, RuntimeBarrier, RuntimePolicy, SQLiteRuntimeStore
    from agentbarrier.runtime.policy import PolicyEffect

    rule = PolicyRule(name="allow", effect=PolicyEffect.ALLOW, tool="open_ticket")
    barrier = RuntimeBarrier(
        policy=RuntimePolicy(version="1", rules=(rule,)), store=SQLiteRuntimeStore(folder / "barrier.db")
    )

    def open_ticket(title: str, body: str, priority: int) -> dict[str, str]:
        return TICKET

    guarded = barrier.protect(
        open_ticket, tool_name="open_ticket", idempotency_key=lambda arguments: f"ticket:{arguments['title']}"
    )
    measure(lambda title: guarded(title, BODY, PRIORITY), callers=callers, seconds=seconds)


if __name__ == "__main__":
    main()

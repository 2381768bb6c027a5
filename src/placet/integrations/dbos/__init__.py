"""DBOS carries runs where there is nothing but a database: waiting is a message to one topic, and what a dead executor
left is taken over by whoever notices.

    async with DbosDriver(workflows, database="postgresql+psycopg://...", executor="worker-0") as driver:
        await driver.start("support", run="r1", inputs=Question(text="..."), principal=principal)
        await driver.serve(ending)

Needs the extra `dbos`. DBOS is one per process, and this driver owns it.
"""

from placet.integrations.dbos.driver import DbosDriver
from placet.integrations.dbos.presence import ExecutorTaken

__all__ = ["DbosDriver", "ExecutorTaken"]

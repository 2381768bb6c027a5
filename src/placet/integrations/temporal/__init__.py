"""Temporal carries runs over many hosts: an activity is a step, a signal a wake-up, and dead workers are its affair.

    driver = TemporalDriver(workflows, client=await Client.connect("temporal:7233"), task_queue="placet")
    await driver.start("support", run="r1", inputs=Question(text="..."), principal=principal)
    await driver.serve(ending)

Needs the extra `temporal`.
"""

from placet.integrations.temporal.carrying import RunWorkflow, Ticket
from placet.integrations.temporal.driver import TemporalDriver
from placet.integrations.temporal.payloads import names_only

__all__ = ["RunWorkflow", "TemporalDriver", "Ticket", "names_only"]

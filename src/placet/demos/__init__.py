"""The reference agents, written the way a user of placet would write theirs."""

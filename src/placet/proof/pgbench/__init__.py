"""PostgreSQL as it is without placet: a server of one's own, and its `pgbench` running what the store sends for a write."""

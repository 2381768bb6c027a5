"""PostgreSQL as it is without placet: a server, and its `pgbench` running what the store sends for a write."""

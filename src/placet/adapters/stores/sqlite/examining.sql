-- name: schema
-- What the file is made of; what SQLite makes by itself is left out.
SELECT type || ' ' || name, sql, tbl_name FROM sqlite_schema WHERE name NOT LIKE 'sqlite_%' ORDER BY 1;

-- name: newest_writers
-- Chains by when they were written to last, which their last events say.
SELECT writer, (SELECT at FROM audit_events WHERE audit_events.writer = audit_heads.writer
                ORDER BY sequence DESC LIMIT 1) AS newest
FROM audit_heads ORDER BY newest DESC, writer LIMIT ?;

-- name: end_of_writer
SELECT writer, sequence, body, link, key_id FROM audit_events WHERE writer = ? ORDER BY sequence DESC LIMIT ?;

-- name: has_tombstones
SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'audit_tombstones';

-- name: approvals_in_force
SELECT * FROM approvals WHERE state IN ('pending', 'approved') ORDER BY asked_at DESC LIMIT ?;

-- name: unknown_since
SELECT updated_at FROM effects WHERE state = 'unknown' ORDER BY updated_at;

-- name: stranded_count
SELECT count(*) FROM effects WHERE state = 'dispatched' AND lease_until <= ?;

-- name: all_effects
-- Those that were made last come first; no index has all of them by their changes.
SELECT * FROM effects ORDER BY rowid DESC LIMIT ?;

-- name: name_schema
-- And how long this look waits for what others hold: it is in nobody's way, and is not kept by anybody.
SELECT set_config('search_path', $1, false), set_config('lock_timeout', '2s', false), set_config('statement_timeout', '15s', false);

-- name: moment
-- Everything is as of one moment, and nothing can be changed.
BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;

-- name: begin_look
SAVEPOINT look;

-- name: end_look
ROLLBACK TO SAVEPOINT look;

-- name: server
SELECT current_setting('server_version_num')::int, pg_encoding_to_char(d.encoding), pg_is_in_recovery(),
       s.reset_val = 'on', current_setting('max_connections')::int, age(d.datfrozenxid)::int, pg_database_size(d.oid),
       has_database_privilege('public', d.oid, 'CONNECT')
FROM pg_database d, pg_settings s WHERE d.datname = current_database() AND s.name = 'default_transaction_read_only';

-- name: settings
-- What a connection that says nothing of its own has.
SELECT name, reset_val FROM pg_settings WHERE name = ANY ($1::text[]);

-- name: role
-- Whether it may change the tables, which their owner and whoever is in its role may.
SELECT r.rolname, r.rolsuper, r.rolbypassrls, coalesce((
    SELECT bool_and(pg_has_role(r.oid, c.relowner, 'USAGE')) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = $1 AND c.relkind = 'r'), true)
FROM pg_roles r WHERE r.rolname = current_user;

-- name: connections
-- How many more there may be, by each limit that is set. Rows of others show who they are of, and no more.
SELECT least(
    current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
        - coalesce(current_setting('reserved_connections', true)::int, 0) - count(*),
    CASE WHEN d.datconnlimit >= 0 THEN d.datconnlimit - count(*) FILTER (WHERE a.datid = d.oid) END,
    CASE WHEN r.rolconnlimit >= 0 THEN r.rolconnlimit - count(*) FILTER (WHERE a.usesysid = r.oid) END)::int
FROM pg_database d JOIN pg_roles r ON r.rolname = current_user
LEFT JOIN pg_stat_activity a ON a.usesysid IS NOT NULL AND a.pid <> pg_backend_pid()
WHERE d.datname = current_database() GROUP BY d.oid, d.datconnlimit, r.oid, r.rolconnlimit;

-- name: idle_sessions
-- Transactions that stand open and do nothing, the oldest first; others' can be seen by roles in pg_read_all_stats alone.
SELECT extract(epoch FROM clock_timestamp() - state_change)::float8 FROM pg_stat_activity
WHERE datname = current_database() AND state LIKE 'idle in transaction%' AND pid <> pg_backend_pid() ORDER BY 1 DESC;

-- name: hidden_sessions
SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND usesysid IS NOT NULL AND state IS NULL;

-- name: clock
SELECT extract(epoch FROM clock_timestamp())::float8;

-- name: unguarded
-- Tables of tenants' rows on which row-level security does not stand as it was made.
SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = $1 AND c.relkind = 'r'
  AND EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attname = 'tenant' AND NOT a.attisdropped)
  AND c.relname = ANY ($2::text[]) AND NOT (c.relrowsecurity AND c.relforcerowsecurity)
ORDER BY c.relname;

-- name: grants
-- Who else has a right on the tables; PUBLIC has no role.
SELECT DISTINCT coalesce(r.rolname, 'PUBLIC'), a.privilege_type NOT IN ('SELECT', 'MAINTAIN'),
       coalesce(r.rolsuper OR r.rolbypassrls, false)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
CROSS JOIN aclexplode(c.relacl) a LEFT JOIN pg_roles r ON r.oid = a.grantee
WHERE n.nspname = $1 AND c.relkind = 'r' AND a.grantee <> c.relowner ORDER BY 1, 2;

-- name: waiting
SELECT count(*) FILTER (WHERE is_refused = 0), count(*) FILTER (WHERE is_refused = 1) FROM unchained_events;

-- name: oldest_waiting
SELECT body FROM unchained_events WHERE is_refused = 0 ORDER BY number LIMIT 1;

-- name: expired_effects
SELECT count(*), min(lease_until) FROM effects WHERE state = 'dispatched' AND lease_until <= $1;

-- name: expired_reads
SELECT count(*), min(lease_until) FROM open_reads WHERE lease_until <= $1;

-- name: sizes
SELECT c.relname, pg_total_relation_size(c.oid), coalesce(c.reloptions && ARRAY['autovacuum_enabled=false', 'autovacuum_enabled=off'], false)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relkind = 'r' ORDER BY 2 DESC, 1;

-- name: has_meta
SELECT to_regclass($1) IS NOT NULL;

-- name: newest_writers
SELECT h.writer, e.at FROM audit_heads h CROSS JOIN LATERAL (
    SELECT at FROM audit_events WHERE writer = h.writer ORDER BY sequence DESC LIMIT 1) e
WHERE h.sequence > 0 ORDER BY e.at DESC, h.writer LIMIT $1;

-- name: end_of_writer
SELECT writer, sequence, body, link, key_id FROM audit_events WHERE writer = $1 ORDER BY sequence DESC LIMIT $2;

-- name: approvals_in_force
SELECT * FROM (
    SELECT * FROM approvals WHERE state = 'pending' UNION ALL SELECT * FROM approvals WHERE state = 'approved') AS open
ORDER BY asked_at DESC LIMIT $1;

-- name: unknown_since
SELECT updated_at FROM effects WHERE state = 'unknown' ORDER BY updated_at;

-- name: pages_of_effects
SELECT pg_relation_size('effects') / current_setting('block_size')::int;

-- name: effects_of_pages
-- Where rows were written last, more or less, the last first: a stretch of the table's pages, and no walk through all.
SELECT * FROM effects WHERE ctid >= $1::text::tid AND ctid < $2::text::tid ORDER BY ctid DESC LIMIT $3;

-- name: layout
-- Every part of the store's tables as the server itself words it, with who may see what.
WITH ours AS (SELECT oid, nspname FROM pg_namespace WHERE nspname = $1),
tables AS (SELECT c.* FROM pg_class c JOIN ours o ON o.oid = c.relnamespace WHERE c.relkind = 'r')
SELECT 'table ' || t.relname, format('%s %s %s', t.relrowsecurity, t.relforcerowsecurity, string_agg(
    format('%s %s %s %s %s', a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull, a.attcollation::regcollation,
           pg_get_expr(d.adbin, d.adrelid)), ', ' ORDER BY a.attnum)), t.relname
FROM tables t JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum > 0 AND NOT a.attisdropped
LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum GROUP BY t.oid, t.relname, t.relrowsecurity, t.relforcerowsecurity
UNION ALL
SELECT 'constraint ' || t.relname || '.' || k.conname, format('%s %s', pg_get_constraintdef(k.oid), k.convalidated), t.relname
FROM pg_constraint k JOIN tables t ON t.oid = k.conrelid WHERE k.contype IN ('c', 'p', 'u', 'f', 'x')
UNION ALL
SELECT 'index ' || x.relname, format('%s %s', pg_get_indexdef(i.indexrelid), i.indisvalid), t.relname
FROM pg_index i JOIN tables t ON t.oid = i.indrelid JOIN pg_class x ON x.oid = i.indexrelid
UNION ALL
SELECT 'trigger ' || g.tgname, format('%s %s', pg_get_triggerdef(g.oid), g.tgenabled), t.relname
FROM pg_trigger g JOIN tables t ON t.oid = g.tgrelid WHERE NOT g.tgisinternal
UNION ALL
SELECT 'rule ' || r.rulename, pg_get_ruledef(r.oid), t.relname
FROM pg_rewrite r JOIN tables t ON t.oid = r.ev_class
UNION ALL
SELECT 'policy ' || t.relname || '.' || p.polname, format('%s %s %s %s %s', p.polcmd, p.polpermissive,
    CASE WHEN p.polroles = '{0}' THEN 'public' WHEN p.polroles = ARRAY[t.relowner] THEN 'owner' ELSE 'others' END,
    pg_get_expr(p.polqual, p.polrelid), pg_get_expr(p.polwithcheck, p.polrelid)), t.relname
FROM pg_policy p JOIN tables t ON t.oid = p.polrelid
UNION ALL
SELECT 'function ' || f.proname || '(' || oidvectortypes(f.proargtypes) || ')',
    format('%s %s %s %s %s', f.prosecdef, f.provolatile, f.proconfig, pg_get_function_result(f.oid), f.prosrc), 'function ' || f.proname
FROM pg_proc f JOIN ours o ON o.oid = f.pronamespace
UNION ALL
SELECT 'type ' || c.relname, string_agg(format('%s %s', a.attname, format_type(a.atttypid, a.atttypmod)), ', ' ORDER BY a.attnum),
    'type ' || c.relname
FROM pg_class c JOIN ours o ON o.oid = c.relnamespace JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0
WHERE c.relkind = 'c' GROUP BY c.relname;

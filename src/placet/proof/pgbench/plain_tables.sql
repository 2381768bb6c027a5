CREATE TABLE approvals (id integer PRIMARY KEY, uses integer NOT NULL DEFAULT 0, args_hash text NOT NULL);
CREATE TABLE effects (
    call_id text PRIMARY KEY, tenant text NOT NULL, run_id text NOT NULL, tool text NOT NULL, args_hash text NOT NULL,
    state text NOT NULL, args jsonb NOT NULL, result jsonb, updated_at timestamptz NOT NULL DEFAULT now());
CREATE TABLE events (
    sequence bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, call_id text NOT NULL, kind text NOT NULL,
    payload jsonb NOT NULL, at timestamptz NOT NULL DEFAULT now());
INSERT INTO approvals SELECT i, 0, repeat('a', 64) FROM generate_series(1, 100000) AS i;

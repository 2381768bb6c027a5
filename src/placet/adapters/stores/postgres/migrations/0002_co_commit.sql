-- A handler's own transaction settles its effect with these two functions, over whatever connection it has. They run as
-- the owner of the tables, so that the handler's role needs no right on the ledger; whoever calls them has to know the
-- token of the dispatch. A refusal is an error, so nothing of the transaction can commit after it.

-- The comparisons are those of `rules.transitions.apply_co_commit`, in their order, on a row that nobody else can change
-- until the transaction ends. A test holds the two together.
CREATE FUNCTION co_commit(
    of_tenant text, of_key text, of_fence bigint, of_token text, of_attempt bigint, why text, has_ended boolean,
    result bytea, digest text, reference text, bodies text[], key_ids text[], macs text[]
) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    row effects%ROWTYPE;
    at bigint;
BEGIN
    SELECT * INTO row FROM effects WHERE tenant = of_tenant AND operation_key = of_key FOR UPDATE;
    IF NOT FOUND OR row.fence <> of_fence OR row.token <> of_token THEN
        RAISE EXCEPTION 'taken_over' USING ERRCODE = 'PL423';
    ELSIF row.state <> 'dispatched' THEN
        RAISE EXCEPTION 'already_settled' USING ERRCODE = 'PL423';
    ELSIF row.attempt <> of_attempt THEN
        RAISE EXCEPTION 'other_attempt' USING ERRCODE = 'PL423';
    ELSIF NOT starts_with(row.token, 'co:') OR coalesce(cardinality(bodies), 0) = 0 THEN
        RAISE EXCEPTION 'no_co_commit' USING ERRCODE = 'PL423'; -- of another kind, or without its completed event
    END IF;
    at := clock_now();
    UPDATE effects SET
        state = 'committed', reason = why, updated_at = at,
        ends_by_itself = CASE WHEN has_ended THEN ends_by_itself ELSE 0 END,
        attempt_ended_at = CASE WHEN has_ended THEN at END,
        sealed_result = result, result_digest = digest, external_reference = reference
    WHERE tenant = of_tenant AND operation_key = of_key;
    INSERT INTO unchained_events (body, key_id, mac)
    SELECT e.body, e.key_id, e.mac FROM unnest(bodies, key_ids, macs) AS e (body, key_id, mac);
END $$;

REVOKE ALL ON FUNCTION co_commit FROM PUBLIC;

-- What the role of a handler's connection needs.
CREATE FUNCTION let_co_commit(handler name) RETURNS void LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    EXECUTE format('GRANT USAGE ON SCHEMA %I TO %I', current_schema(), handler);
    EXECUTE format('GRANT EXECUTE ON FUNCTION co_commit TO %I', handler);
END $$;

REVOKE ALL ON FUNCTION let_co_commit FROM PUBLIC;

-- Whether the audit holds an event already, by its index of tenant and instant. Whatever waited when the audit was cut
-- was chained first, and nothing younger than a day is cut: an event a day older than a cut is one that was chained and
-- cut away, and is put back. What is no JSON nobody of ours wrote.
CREATE FUNCTION is_chained(of_body text) RETURNS boolean LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN EXISTS (
        SELECT FROM audit_events
        WHERE tenant = of_body::json ->> 'tenant' AND at = of_body::json ->> 'at' AND body = of_body)
    OR EXISTS (
        SELECT FROM audit_tombstones
        WHERE (of_body::json ->> 'at')::timestamptz <= cut_at::timestamptz - interval '1 day');
EXCEPTION WHEN data_exception OR statement_too_complex THEN
    RETURN false;
END $$;

-- A handler that rolls a savepoint back takes back what was said in it, a refusal as well as a settle, and may commit the
-- rest of its transaction. So the settle is said outside of every savepoint, or not at all: a row that is written in one
-- carries a number of its own, and not that of the transaction. This is found before anything is waited for.
CREATE OR REPLACE FUNCTION co_commit(
    of_tenant text, of_key text, of_fence bigint, of_token text, of_attempt bigint, why text, has_ended boolean,
    result bytea, digest text, reference text, bodies text[], key_ids text[], macs text[]
) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    row effects%ROWTYPE;
    at bigint;
    is_outermost boolean;
BEGIN
    WITH made AS (
        INSERT INTO unchained_events (body, key_id, mac)
        SELECT e.body, e.key_id, e.mac FROM unnest(bodies, key_ids, macs) AS e (body, key_id, mac)
        RETURNING xmin AS made_by)
    SELECT bool_and(made_by = pg_current_xact_id()::xid) INTO is_outermost FROM made;
    IF NOT is_outermost THEN
        RAISE EXCEPTION 'in_a_savepoint' USING ERRCODE = 'PL424';
    END IF;
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
END $$;

-- An expand step: processes of before know nothing of co-commit, and go on. They take a co-commit row over as unknown.

-- Completed events that handlers' own transactions wrote with the settle, until a writer chains them. The MAC is over
-- the body. Rows that no placet made are kept, refused, as evidence.
CREATE TABLE unchained_events (
    number     INTEGER PRIMARY KEY,
    body       TEXT NOT NULL,
    key_id     TEXT NOT NULL,
    mac        TEXT NOT NULL,
    is_refused INTEGER NOT NULL DEFAULT 0 CHECK (is_refused IN (0, 1))
) STRICT;

CREATE INDEX unchained_events_waiting ON unchained_events (number) WHERE is_refused = 0;

-- Only a dispatch that its handler settles in a transaction of its own may be absent without having been unknown.
CREATE TRIGGER effects_are_absent_by_co_commit_only BEFORE UPDATE OF state ON effects
WHEN OLD.state = 'dispatched' AND NEW.state = 'reconciled_absent' AND substr(OLD.token, 1, 3) <> 'co:'
BEGIN
    SELECT RAISE(ABORT, 'placet: only the take-over of a co-commit row leads there');
END;

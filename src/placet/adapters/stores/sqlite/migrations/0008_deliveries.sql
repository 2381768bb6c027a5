-- An expand step: processes of before go on, and announce nothing.

-- Where announcements go, since when, and since when one of them has said that it is gone.
CREATE TABLE destinations (
    name      TEXT PRIMARY KEY,
    begun_at  INTEGER NOT NULL,
    closed_at INTEGER
) STRICT, WITHOUT ROWID;

-- How far each writer's chain has been read for a destination.
CREATE TABLE announced (
    destination TEXT NOT NULL,
    writer      TEXT NOT NULL,
    sequence    INTEGER NOT NULL,
    PRIMARY KEY (destination, writer)
) STRICT, WITHOUT ROWID;

-- Events on their way. What a message says stays in the audit; kind is for showing only.
CREATE TABLE deliveries (
    destination TEXT NOT NULL,
    writer      TEXT NOT NULL,
    sequence    INTEGER NOT NULL,
    kind        TEXT NOT NULL,
    state       TEXT NOT NULL CHECK (state IN ('pending', 'delivered', 'dead')),
    attempts    INTEGER NOT NULL,
    made_at     INTEGER NOT NULL,
    due_at      INTEGER NOT NULL,
    ended_at    INTEGER,
    code        TEXT,
    token       TEXT,
    PRIMARY KEY (destination, writer, sequence)
) STRICT, WITHOUT ROWID;

CREATE INDEX deliveries_due ON deliveries (destination, due_at) WHERE state = 'pending';

CREATE INDEX deliveries_left ON deliveries (destination, state, made_at) WHERE state <> 'delivered';

CREATE INDEX deliveries_ended ON deliveries (state, ended_at) WHERE state <> 'pending';

-- An expand step: processes of before go on, and announce nothing.

-- Where announcements go, since when, and since when one of them has said that it is gone.
CREATE TABLE destinations (
    name      text COLLATE "C" PRIMARY KEY,
    begun_at  bigint NOT NULL,
    closed_at bigint
);

-- How far each writer's chain has been read for a destination.
CREATE TABLE announced (
    destination text COLLATE "C" NOT NULL,
    writer      text COLLATE "C" NOT NULL,
    sequence    bigint NOT NULL,
    PRIMARY KEY (destination, writer)
);

-- Events on their way. What a message says stays in the audit; kind is for showing only.
CREATE TABLE deliveries (
    destination text COLLATE "C" NOT NULL,
    writer      text COLLATE "C" NOT NULL,
    sequence    bigint NOT NULL,
    kind        text NOT NULL,
    state       text COLLATE "C" NOT NULL CHECK (state IN ('pending', 'delivered', 'dead')),
    attempts    bigint NOT NULL,
    made_at     bigint NOT NULL,
    due_at      bigint NOT NULL,
    ended_at    bigint,
    code        text,
    token       text,
    PRIMARY KEY (destination, writer, sequence)
);

CREATE INDEX deliveries_due ON deliveries (destination, due_at) WHERE state = 'pending';

CREATE INDEX deliveries_left ON deliveries (destination, state, made_at) WHERE state <> 'delivered';

CREATE INDEX deliveries_ended ON deliveries (state, ended_at) WHERE state <> 'pending';

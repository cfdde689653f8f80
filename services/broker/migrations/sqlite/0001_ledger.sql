-- The ledger and the runs that are read from it.
--
-- Types are spelled for both stores except `INTEGER PRIMARY KEY`, which on SQLite makes the sequence the row's own
-- address; on PostgreSQL it is BIGINT. Sequences are assigned by the one writer, never by the database. Hashes are hex
-- text and times are nanoseconds since 1970-01-01T00:00:00Z, so that no type differs between the stores.

CREATE TABLE events (
    sequence      INTEGER NOT NULL PRIMARY KEY,
    event_id      TEXT    NOT NULL UNIQUE,
    time_ns       BIGINT  NOT NULL,
    kind          TEXT    NOT NULL,
    actor         TEXT    NOT NULL,
    subject       TEXT    NOT NULL,
    trace_id      TEXT,
    previous_hash TEXT    NOT NULL,
    hash          TEXT    NOT NULL,
    -- Size of the payload, so that a page is measured before it is read.
    payload_bytes BIGINT  NOT NULL,
    payload       TEXT    NOT NULL
);

CREATE INDEX events_by_subject ON events (subject, sequence);

-- A projection of the events, except `holder`: giving a lease back is no event.
CREATE TABLE runs (
    run_id           TEXT    NOT NULL PRIMARY KEY,
    request_id       TEXT    NOT NULL UNIQUE,
    -- Digest of the payload of `run.queued`: tells a repeated request from a different one of the same id.
    request_digest   TEXT    NOT NULL,
    status           TEXT    NOT NULL,
    reason           TEXT,
    created_ns       BIGINT  NOT NULL,
    started_ns       BIGINT,
    finished_ns      BIGINT,
    task_id          TEXT    NOT NULL,
    adapter          TEXT    NOT NULL,
    model            TEXT,
    workspace        TEXT,
    session          TEXT,
    cancel_requested BOOLEAN NOT NULL,
    epoch            BIGINT  NOT NULL,
    holder           TEXT,
    prepared_epoch   BIGINT,
    reported         BIGINT  NOT NULL,
    first_sequence   BIGINT  NOT NULL UNIQUE,
    last_sequence    BIGINT  NOT NULL,
    -- Of the event that made it terminal.
    end_sequence     BIGINT,
    kept             BOOLEAN NOT NULL,
    -- True once it goes with the next cut of the ledger.
    record_pruned    BOOLEAN NOT NULL,
    -- Without request and expectation, which may be megabytes and never change: they are in `run.queued`.
    record           TEXT    NOT NULL
);

CREATE INDEX runs_by_status ON runs (status, first_sequence);

CREATE INDEX runs_to_cut ON runs (last_sequence) WHERE record_pruned;

-- The work that is still to be taken out of a run's clones, and the runs of a session.

ALTER TABLE runs ADD COLUMN harvest_pending BOOLEAN NOT NULL DEFAULT FALSE;

CREATE INDEX runs_to_harvest ON runs (first_sequence) WHERE harvest_pending;

CREATE INDEX runs_by_session ON runs (session, first_sequence);

-- Runs that ran in clones before there was a harvest: their work is taken out by the next launcher. One that was cancelled
-- before it ran has no output.
UPDATE runs
SET harvest_pending = TRUE,
    end_sequence = NULL,
    record = json_set(record, '$.harvest', json('{"state":"pending"}'))
WHERE (status IN ('succeeded', 'failed', 'lost') OR (status = 'cancelled' AND json_type(record, '$.output') IS NOT NULL))
    AND json_array_length(record, '$.checkouts') > 0;

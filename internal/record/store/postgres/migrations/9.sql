-- Payloads are kept apart from their events, in a table for each class and month, so that a
-- month that is not kept any more can be dropped (record/store/tables/parts.go).
--
--   events.part         where the event's payload is: month * 4 + class; 0: it has none, or it is
--                       still in the columns salt and data, from before this migration
--   payloads_kept       what is kept for good, or longer than the rest of its month
--   payloads_other      of months that have no table of their own
--   payloads_runs_YYYYMM, payloads_sessions_YYYYMM: made ahead of time
--   dropped             parts that were dropped, each with a mark that only the ledger can make
--   moving              which events of an older ledger are moved: those after done, up to last

ALTER TABLE events ADD COLUMN part bigint NOT NULL DEFAULT 0;
CREATE TABLE payloads(part bigint NOT NULL, seq bigint NOT NULL, salt bytea, data bytea NOT NULL, PRIMARY KEY(part, seq)) PARTITION BY LIST (part);
CREATE TABLE payloads_kept PARTITION OF payloads FOR VALUES IN (1);
CREATE TABLE payloads_other PARTITION OF payloads DEFAULT;
CREATE TABLE dropped(part bigint PRIMARY KEY, mark bytea NOT NULL);
CREATE TABLE moving(id bigint PRIMARY KEY CHECK(id = 1), done bigint NOT NULL, last bigint NOT NULL);
INSERT INTO moving SELECT 1, 0, total FROM tail;

-- Triggers for each row hold for all tables of payloads, also for those that are made later.
CREATE FUNCTION remit_row_unless_erasing() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NOT EXISTS(SELECT 1 FROM erasing) THEN RAISE EXCEPTION '% is append-only', TG_TABLE_NAME; END IF;
  IF TG_OP = 'DELETE' THEN RETURN OLD; END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER erasing_only BEFORE UPDATE OR DELETE ON payloads FOR EACH ROW EXECUTE FUNCTION remit_row_unless_erasing();
CREATE TRIGGER append_only BEFORE TRUNCATE ON payloads EXECUTE FUNCTION remit_append_only();
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON dropped EXECUTE FUNCTION remit_append_only();

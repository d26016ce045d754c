-- Payloads can be erased, in a transaction that has a row in erasing meanwhile. Everything
-- else stays append-only.

CREATE TABLE erasing(id bigint PRIMARY KEY CHECK(id = 1));
CREATE FUNCTION remit_unless_erasing() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NOT EXISTS(SELECT 1 FROM erasing) THEN RAISE EXCEPTION '% is append-only', TG_TABLE_NAME; END IF;
  RETURN NULL;
END $$;
DROP TRIGGER append_only ON events;
DROP TRIGGER append_only ON blobs;
CREATE TRIGGER append_only BEFORE DELETE OR TRUNCATE ON events EXECUTE FUNCTION remit_append_only();
CREATE TRIGGER erasing_only BEFORE UPDATE ON events EXECUTE FUNCTION remit_unless_erasing();
CREATE TRIGGER append_only BEFORE UPDATE OR TRUNCATE ON blobs EXECUTE FUNCTION remit_append_only();
CREATE TRIGGER erasing_only BEFORE DELETE ON blobs EXECUTE FUNCTION remit_unless_erasing();

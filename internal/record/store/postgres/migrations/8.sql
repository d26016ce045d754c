-- Labels of files. Rows are sealed as those of the other tables; file is a path, a content or
-- a folder, seq the event that gave it the label first.
CREATE TABLE labels(label text COLLATE "C" NOT NULL, file text COLLATE "C" NOT NULL, run bigint NOT NULL, call bigint NOT NULL, since bigint NOT NULL, seq bigint NOT NULL, mac bytea NOT NULL, PRIMARY KEY(label, file));
CREATE INDEX labels_file ON labels(file);

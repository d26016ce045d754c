-- The queue; record/store/sqlite/schema.go describes the columns. The seals of these tables
-- are made by the first node that begins after the migration.

CREATE TABLE queue(id bytea PRIMARY KEY, state bigint NOT NULL, priority bigint NOT NULL, due bigint NOT NULL, uniq bytea NOT NULL, root bytea NOT NULL, run bigint NOT NULL, last bigint NOT NULL, token bytea NOT NULL, seq bigint NOT NULL UNIQUE, mac bytea NOT NULL) WITH (fillfactor = 70);
CREATE INDEX queue_waiting ON queue(priority, due, seq) WHERE state = 1;
CREATE INDEX queue_root ON queue(root) WHERE state = 1;
CREATE INDEX queue_uniq ON queue(uniq, seq);
CREATE INDEX queue_run ON queue(run);
CREATE TABLE slots(run bigint NOT NULL, key text COLLATE "C" NOT NULL, mac bytea NOT NULL, PRIMARY KEY(run, key));
CREATE TABLE schedules(id bytea PRIMARY KEY, name text COLLATE "C" NOT NULL, version bigint NOT NULL, state bigint NOT NULL, gone bigint NOT NULL, next bigint NOT NULL, last bigint NOT NULL, token bytea NOT NULL, seq bigint NOT NULL UNIQUE, mac bytea NOT NULL);
CREATE INDEX schedules_there ON schedules(name) WHERE gone = 0;
CREATE TABLE pauses(name text COLLATE "C" PRIMARY KEY, state bigint NOT NULL, seq bigint NOT NULL, mac bytea NOT NULL);

-- Records that nodes share for a while; record/store/sqlite/schema.go describes the columns. The
-- seal is made by the first node that begins after the migration.

CREATE TABLE ephemera(kind text COLLATE "C" NOT NULL, key bytea NOT NULL, owner text COLLATE "C" NOT NULL, version bigint NOT NULL, until bigint NOT NULL, data bytea NOT NULL, mac bytea NOT NULL, PRIMARY KEY(kind, key)) WITH (fillfactor = 70);
CREATE INDEX ephemera_until ON ephemera(until);
CREATE INDEX ephemera_owner ON ephemera(kind, owner, until);

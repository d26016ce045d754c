-- The tables of the ledger, as package tables uses them; their columns are described in
-- record/store/sqlite/schema.go. Of this database alone:
--
--   tail     how many events there are; its row gives events their numbers
--   log      the state up to which events are in the Merkle tree
--   members  the nodes, each until a time that it renews
--   heads    the number of each node's last batch, and its first event; base is the number before token's settling
--   batches  a node's batches that are not in the tree, each with a MAC over its leaves
--   runs.version counts the changes of a run's state

CREATE TABLE events(seq bigint PRIMARY KEY, run bigint NOT NULL, call bigint NOT NULL, tag bigint NOT NULL, body bytea NOT NULL, salt bytea, data bytea);
CREATE INDEX events_run ON events(run, call, seq);
CREATE TABLE blobs(address bytea PRIMARY KEY, size bigint NOT NULL, enc bigint NOT NULL, data bytea NOT NULL);
CREATE TABLE nodes(idx bigint PRIMARY KEY, hash bytea NOT NULL);
CREATE TABLE log(id bigint PRIMARY KEY CHECK(id = 1), origin text NOT NULL, size bigint NOT NULL, frontier bytea NOT NULL, signed bigint NOT NULL, mac bytea NOT NULL);
CREATE TABLE checkpoints(size bigint PRIMARY KEY, note bytea NOT NULL);
CREATE TABLE runs(seq bigint PRIMARY KEY, id bytea NOT NULL UNIQUE, status bigint NOT NULL, mode bigint NOT NULL, started bigint NOT NULL, ended bigint NOT NULL, total bigint NOT NULL, completed bigint NOT NULL, denied bigint NOT NULL, failed bigint NOT NULL, refused bigint NOT NULL DEFAULT 0, version bigint NOT NULL DEFAULT 0) WITH (fillfactor = 70);
CREATE INDEX runs_open ON runs(seq) WHERE status = 0;
CREATE TABLE run_tools(tool text COLLATE "C" NOT NULL, run bigint NOT NULL, PRIMARY KEY(tool, run));
CREATE INDEX run_tools_run ON run_tools(run);

CREATE TABLE grants(id bytea PRIMARY KEY, parent bytea NOT NULL, holder text COLLATE "C" NOT NULL, seq bigint NOT NULL UNIQUE, mac bytea NOT NULL);
CREATE INDEX grants_parent ON grants(parent, seq);
CREATE INDEX grants_holder ON grants(holder, seq);
CREATE TABLE standings(id bytea PRIMARY KEY, standing bigint NOT NULL, since bigint NOT NULL, seq bigint NOT NULL UNIQUE, mac bytea NOT NULL);
CREATE TABLE proofs(id bytea PRIMARY KEY, until bigint NOT NULL, mac bytea NOT NULL);
CREATE INDEX proofs_until ON proofs(until);
CREATE TABLE budgets(node bytea NOT NULL, what text COLLATE "C" NOT NULL, lim bigint NOT NULL, spent bigint NOT NULL, mac bytea NOT NULL, PRIMARY KEY(node, what)) WITH (fillfactor = 70);
CREATE TABLE leases(node bytea NOT NULL, what text COLLATE "C" NOT NULL, run bigint NOT NULL, amount bigint NOT NULL, settled bigint NOT NULL, mac bytea NOT NULL, PRIMARY KEY(node, what, run)) WITH (fillfactor = 70);
CREATE INDEX leases_run ON leases(run);
CREATE TABLE questions(id bytea PRIMARY KEY, binding bytea NOT NULL, state bigint NOT NULL, run bigint NOT NULL, until bigint NOT NULL, once bigint NOT NULL, needs bigint NOT NULL, admin bigint NOT NULL, seq bigint NOT NULL UNIQUE, mac bytea NOT NULL);
CREATE INDEX questions_binding ON questions(binding, state);
CREATE INDEX questions_state ON questions(state, seq);
CREATE TABLE votes(question bytea NOT NULL, by text COLLATE "C" NOT NULL, yes bigint NOT NULL, admin bigint NOT NULL, seq bigint NOT NULL, mac bytea NOT NULL, PRIMARY KEY(question, by));
CREATE TABLE seals(name text COLLATE "C" PRIMARY KEY, version bigint NOT NULL, rows bigint NOT NULL, sum bytea NOT NULL, mac bytea NOT NULL) WITH (fillfactor = 50);

CREATE TABLE agents(id bytea PRIMARY KEY, name text COLLATE "C" NOT NULL, version bigint NOT NULL, gone bigint NOT NULL, created bigint NOT NULL, seq bigint NOT NULL, leaf bytea NOT NULL, mac bytea NOT NULL);
CREATE INDEX agents_name ON agents(name);
CREATE TABLE sessions(id bytea PRIMARY KEY, agent bytea NOT NULL, parent bytea NOT NULL, version bigint NOT NULL, gone bigint NOT NULL, last bigint NOT NULL, files bigint NOT NULL, bytes bigint NOT NULL, runs bigint NOT NULL, created bigint NOT NULL, seq bigint NOT NULL, leaf bytea NOT NULL, mac bytea NOT NULL) WITH (fillfactor = 70);
CREATE INDEX sessions_agent ON sessions(agent, id);
CREATE INDEX sessions_parent ON sessions(parent, id);
CREATE TABLE messages(session bytea NOT NULL, number bigint NOT NULL, run bigint NOT NULL, at bigint NOT NULL, seq bigint NOT NULL, commitment bytea NOT NULL, mac bytea NOT NULL, PRIMARY KEY(session, number));
CREATE TABLE files(session bytea NOT NULL, path text COLLATE "C" NOT NULL, version bigint NOT NULL, folder bigint NOT NULL, gone bigint NOT NULL, size bigint NOT NULL, sha256 bytea NOT NULL, address bytea NOT NULL, created bigint NOT NULL, modified bigint NOT NULL, seq bigint NOT NULL, leaf bytea NOT NULL, mac bytea NOT NULL, PRIMARY KEY(session, path));
CREATE INDEX files_there ON files(session, path) WHERE gone = 0;
CREATE TABLE session_runs(session bytea NOT NULL, run bigint NOT NULL, PRIMARY KEY(session, run));
CREATE TABLE requests(holder text COLLATE "C" NOT NULL, key bytea NOT NULL, print bytea NOT NULL, until bigint NOT NULL, status bigint NOT NULL, place text COLLATE "C" NOT NULL, mac bytea NOT NULL, PRIMARY KEY(holder, key));
CREATE INDEX requests_until ON requests(until);
CREATE INDEX requests_holder ON requests(holder, until);
CREATE TABLE blocks(mark text COLLATE "C" NOT NULL, block bigint NOT NULL, PRIMARY KEY(mark, block));

CREATE TABLE tail(id bigint PRIMARY KEY CHECK(id = 1), total bigint NOT NULL) WITH (fillfactor = 10);
INSERT INTO tail VALUES(1, 0);
CREATE TABLE members(id uuid PRIMARY KEY, lease_until timestamptz NOT NULL) WITH (fillfactor = 50);
CREATE TABLE heads(member uuid PRIMARY KEY REFERENCES members(id) ON DELETE CASCADE, number bigint NOT NULL, first bigint NOT NULL, base bigint NOT NULL DEFAULT 0, token uuid) WITH (fillfactor = 10);
CREATE TABLE batches(first bigint PRIMARY KEY, member uuid NOT NULL, number bigint NOT NULL, events bigint NOT NULL, mac bytea NOT NULL);

CREATE FUNCTION remit_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN RAISE EXCEPTION '% is append-only', TG_TABLE_NAME; END $$;
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON events EXECUTE FUNCTION remit_append_only();
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON blobs EXECUTE FUNCTION remit_append_only();
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON nodes EXECUTE FUNCTION remit_append_only();
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON checkpoints EXECUTE FUNCTION remit_append_only();
CREATE TRIGGER append_only BEFORE DELETE OR TRUNCATE ON log EXECUTE FUNCTION remit_append_only();
CREATE TRIGGER append_only BEFORE DELETE OR TRUNCATE ON tail EXECUTE FUNCTION remit_append_only();

-- remit_expect ends a message whose condition does not hold.
CREATE FUNCTION remit_expect(holds boolean, code text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN IF holds IS NOT TRUE THEN RAISE EXCEPTION 'not as expected' USING ERRCODE = code; END IF; END $$;

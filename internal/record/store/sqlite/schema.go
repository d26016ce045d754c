package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/wholefile"
	"github.com/remitrun/remit/internal/record/store/tables"
)

// applicationID marks the file as a ledger: "Rmit".
const applicationID = 0x526d6974

// migrations bring an empty file up to date, one version each. A published
// migration is never changed. PRAGMA user_version counts the applied ones.
var migrations = []string{schema1, schema2, schema3, schema4, schema5, schema6, schema7, schema8, schema9, schema10, schema11}

// In events, run and call repeat fields of body, for the index; body is the part that the log
// commits to, data the payload (see EncodeParts), zstd where its first byte says so, and salt the
// salt of the commitment. A tag is 31 bits of a MAC of seq and body, which lets verification name
// the very event that was changed, not only the checkpoint that it is before. Nodes are interior
// nodes of the Merkle tree from level [storedLevel] on.
const schema1 = `
CREATE TABLE events(seq INTEGER PRIMARY KEY, run INTEGER NOT NULL, call INTEGER NOT NULL, tag INTEGER NOT NULL, body BLOB NOT NULL, salt BLOB, data BLOB) STRICT;
CREATE INDEX events_run ON events(run, call);
CREATE TABLE blobs(address BLOB NOT NULL UNIQUE, size INTEGER NOT NULL, enc INTEGER NOT NULL, data BLOB NOT NULL) STRICT;
CREATE TABLE nodes(idx INTEGER PRIMARY KEY, hash BLOB NOT NULL) STRICT;
CREATE TABLE log(id INTEGER PRIMARY KEY CHECK(id = 1), origin TEXT NOT NULL, size INTEGER NOT NULL, frontier BLOB NOT NULL, signed INTEGER NOT NULL, mac BLOB NOT NULL) STRICT;
CREATE TABLE checkpoints(size INTEGER PRIMARY KEY, note BLOB NOT NULL) STRICT;
CREATE TABLE runs(seq INTEGER PRIMARY KEY, id BLOB NOT NULL UNIQUE, status INTEGER NOT NULL, mode INTEGER NOT NULL, started INTEGER NOT NULL, ended INTEGER NOT NULL, total INTEGER NOT NULL, completed INTEGER NOT NULL, denied INTEGER NOT NULL, failed INTEGER NOT NULL) STRICT;
CREATE INDEX runs_open ON runs(seq) WHERE status = 0;
CREATE TABLE run_tools(tool TEXT NOT NULL, run INTEGER NOT NULL, PRIMARY KEY(tool, run)) STRICT, WITHOUT ROWID;
` + appendOnly

// Refusals during a call are counted beside the call.
const schema2 = `ALTER TABLE runs ADD COLUMN refused INTEGER NOT NULL DEFAULT 0;`

// Grants, budgets and approvals. Rows of these tables change; each carries a MAC over all its
// columns, and seals one over each table (see sealed.go, which must be used for every change).
// Times are microseconds since 1970 UTC; IDs are 16 bytes; seq is the event that made the row (of a
// standing: its newest change); private data is in that event's payload, never here.
//
//   - grants: the grants that were issued or delegated here; parent is 16 zero bytes
//     for a root.
//   - standings: of grants that are not active, or were not at some time
//     (standing as store.Standing numbers them, since when).
//   - proofs: holders' proofs that were used, each until it is over.
//   - budgets: one row for each limit of a node; what as store.MeterID names it,
//     spent for good.
//   - leases: a run's lease of a meter that is not accounted for yet (amount), and
//     the part of its use that it has accounted for as spent (settled).
//   - questions: state as store.QuestionState numbers them; run is 0 for none;
//     once is 1 where a yes is good for one call; until as store.Approval has it.
//   - votes: one person's answer to a question; yes and admin are 0 or 1.
//   - seals: see sealed.go; version grows with every change of the table.
const schema3 = `
CREATE TABLE grants(id BLOB NOT NULL PRIMARY KEY, parent BLOB NOT NULL, holder TEXT NOT NULL, seq INTEGER NOT NULL UNIQUE, mac BLOB NOT NULL) STRICT, WITHOUT ROWID;
CREATE INDEX grants_parent ON grants(parent, seq);
CREATE INDEX grants_holder ON grants(holder, seq);
CREATE TABLE standings(id BLOB NOT NULL PRIMARY KEY, standing INTEGER NOT NULL, since INTEGER NOT NULL, seq INTEGER NOT NULL UNIQUE, mac BLOB NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE proofs(id BLOB NOT NULL PRIMARY KEY, until INTEGER NOT NULL, mac BLOB NOT NULL) STRICT, WITHOUT ROWID;
CREATE INDEX proofs_until ON proofs(until);
CREATE TABLE budgets(node BLOB NOT NULL, what TEXT NOT NULL, lim INTEGER NOT NULL, spent INTEGER NOT NULL, mac BLOB NOT NULL, PRIMARY KEY(node, what)) STRICT, WITHOUT ROWID;
CREATE TABLE leases(node BLOB NOT NULL, what TEXT NOT NULL, run INTEGER NOT NULL, amount INTEGER NOT NULL, settled INTEGER NOT NULL, mac BLOB NOT NULL, PRIMARY KEY(node, what, run)) STRICT, WITHOUT ROWID;
CREATE INDEX leases_run ON leases(run);
CREATE TABLE questions(id BLOB NOT NULL PRIMARY KEY, binding BLOB NOT NULL, state INTEGER NOT NULL, run INTEGER NOT NULL, until INTEGER NOT NULL, once INTEGER NOT NULL, needs INTEGER NOT NULL, admin INTEGER NOT NULL, seq INTEGER NOT NULL UNIQUE, mac BLOB NOT NULL) STRICT, WITHOUT ROWID;
CREATE INDEX questions_binding ON questions(binding, state);
CREATE INDEX questions_state ON questions(state, seq);
CREATE TABLE votes(question BLOB NOT NULL, by TEXT NOT NULL, yes INTEGER NOT NULL, admin INTEGER NOT NULL, seq INTEGER NOT NULL, mac BLOB NOT NULL, PRIMARY KEY(question, by)) STRICT, WITHOUT ROWID;
CREATE TABLE seals(name TEXT NOT NULL PRIMARY KEY, version INTEGER NOT NULL, rows INTEGER NOT NULL, sum BLOB NOT NULL, mac BLOB NOT NULL) STRICT, WITHOUT ROWID;
`

// Agents and their sessions. Rows are sealed as those of schema3; leaf is the
// SHA-256 of the Merkle leaf of the event that made the row, so that an event that
// was rewritten is refused when it is used.
//
//   - agents, sessions: the newest version of each; gone is 1 once it was deleted,
//     created the time of its first event, seq its newest. Of a session, agent and
//     parent are 16 zero bytes for none, last is the number of its last message,
//     files and bytes what it holds now, runs how many runs belong to it.
//   - messages: which event has which message of a session. Such a row is never
//     changed and is in no seal: the events tell of all of them, and a session's last
//     of how many there are. at and commitment are the event's.
//   - files: the newest version of each path; sha256 and address (of the blob) are
//     zero for folders and deletions, address for empty files too. Queries
//     made while others wait to write read files_there, however much was deleted.
//   - session_runs: which runs belong to which session, for lists.
const schema4 = `
CREATE TABLE agents(id BLOB NOT NULL PRIMARY KEY, name TEXT NOT NULL, version INTEGER NOT NULL, gone INTEGER NOT NULL, created INTEGER NOT NULL, seq INTEGER NOT NULL, leaf BLOB NOT NULL, mac BLOB NOT NULL) STRICT, WITHOUT ROWID;
CREATE INDEX agents_name ON agents(name);
CREATE TABLE sessions(id BLOB NOT NULL PRIMARY KEY, agent BLOB NOT NULL, parent BLOB NOT NULL, version INTEGER NOT NULL, gone INTEGER NOT NULL, last INTEGER NOT NULL, files INTEGER NOT NULL, bytes INTEGER NOT NULL, runs INTEGER NOT NULL, created INTEGER NOT NULL, seq INTEGER NOT NULL, leaf BLOB NOT NULL, mac BLOB NOT NULL) STRICT, WITHOUT ROWID;
CREATE INDEX sessions_agent ON sessions(agent, id);
CREATE INDEX sessions_parent ON sessions(parent, id);
CREATE TABLE messages(session BLOB NOT NULL, number INTEGER NOT NULL, run INTEGER NOT NULL, at INTEGER NOT NULL, seq INTEGER NOT NULL, commitment BLOB NOT NULL, mac BLOB NOT NULL, PRIMARY KEY(session, number)) STRICT, WITHOUT ROWID;
CREATE TABLE files(session BLOB NOT NULL, path TEXT NOT NULL, version INTEGER NOT NULL, folder INTEGER NOT NULL, gone INTEGER NOT NULL, size INTEGER NOT NULL, sha256 BLOB NOT NULL, address BLOB NOT NULL, created INTEGER NOT NULL, modified INTEGER NOT NULL, seq INTEGER NOT NULL, leaf BLOB NOT NULL, mac BLOB NOT NULL, PRIMARY KEY(session, path)) STRICT, WITHOUT ROWID;
CREATE INDEX files_there ON files(session, path) WHERE gone = 0;
CREATE TABLE session_runs(session BLOB NOT NULL, run INTEGER NOT NULL, PRIMARY KEY(session, run)) STRICT, WITHOUT ROWID;
`

// Requests that clients made under a key (store.Requests). Rows are sealed as in schema3; holder
// and key are the primary key, until a time, status and place describe the stored answer.
const schema5 = `
CREATE TABLE requests(holder TEXT NOT NULL, key BLOB NOT NULL, print BLOB NOT NULL, until INTEGER NOT NULL, status INTEGER NOT NULL, place TEXT NOT NULL, mac BLOB NOT NULL, PRIMARY KEY(holder, key)) STRICT, WITHOUT ROWID;
CREATE INDEX requests_until ON requests(until);
CREATE INDEX requests_holder ON requests(holder, until);
`

// Which blocks of 256 consecutive events (block 0: events 1 to 256) have events
// with a mark (store.Mark), so that lists of few events are fast.
const schema6 = `CREATE TABLE blocks(mark TEXT NOT NULL, block INTEGER NOT NULL, PRIMARY KEY(mark, block)) STRICT, WITHOUT ROWID;`

// The queue (store.Queue). Rows are sealed as those of schema3.
//
//   - queue: state as ledger.QueueState numbers them; uniq is a digest of the owner and the
//     unique key, empty without a key; root is 16 zero bytes without a grant; run is the run's
//     place once it was started, else 0; last is the newest event that changed its state, or
//     0; token is encrypted, and empty once it is not needed any more.
//   - slots: which runs count for which limits. Rows of runs that have ended count no more.
//   - schedules: state is waiting or paused; gone is 1 once it was deleted, next when it is due.
//   - pauses: whether the queue is paused.
const schema7 = `
CREATE TABLE queue(id BLOB NOT NULL PRIMARY KEY, state INTEGER NOT NULL, priority INTEGER NOT NULL, due INTEGER NOT NULL, uniq BLOB NOT NULL, root BLOB NOT NULL, run INTEGER NOT NULL, last INTEGER NOT NULL, token BLOB NOT NULL, seq INTEGER NOT NULL UNIQUE, mac BLOB NOT NULL) STRICT, WITHOUT ROWID;
CREATE INDEX queue_waiting ON queue(priority, due, seq) WHERE state = 1;
CREATE INDEX queue_root ON queue(root) WHERE state = 1;
CREATE INDEX queue_uniq ON queue(uniq, seq);
CREATE INDEX queue_run ON queue(run);
CREATE TABLE slots(run INTEGER NOT NULL, key TEXT NOT NULL, mac BLOB NOT NULL, PRIMARY KEY(run, key)) STRICT, WITHOUT ROWID;
CREATE TABLE schedules(id BLOB NOT NULL PRIMARY KEY, name TEXT NOT NULL, version INTEGER NOT NULL, state INTEGER NOT NULL, gone INTEGER NOT NULL, next INTEGER NOT NULL, last INTEGER NOT NULL, token BLOB NOT NULL, seq INTEGER NOT NULL UNIQUE, mac BLOB NOT NULL) STRICT, WITHOUT ROWID;
CREATE INDEX schedules_there ON schedules(name) WHERE gone = 0;
CREATE TABLE pauses(name TEXT NOT NULL PRIMARY KEY, state INTEGER NOT NULL, seq INTEGER NOT NULL, mac BLOB NOT NULL) STRICT, WITHOUT ROWID;
`

// Rows are never changed: a bug that tries to change one fails.
const appendOnly = `
CREATE TRIGGER events_update BEFORE UPDATE ON events BEGIN SELECT RAISE(ABORT, 'events are append-only'); END;
CREATE TRIGGER events_delete BEFORE DELETE ON events BEGIN SELECT RAISE(ABORT, 'events are append-only'); END;
CREATE TRIGGER blobs_update BEFORE UPDATE ON blobs BEGIN SELECT RAISE(ABORT, 'blobs are append-only'); END;
CREATE TRIGGER blobs_delete BEFORE DELETE ON blobs BEGIN SELECT RAISE(ABORT, 'blobs are append-only'); END;
CREATE TRIGGER nodes_update BEFORE UPDATE ON nodes BEGIN SELECT RAISE(ABORT, 'nodes are append-only'); END;
CREATE TRIGGER nodes_delete BEFORE DELETE ON nodes BEGIN SELECT RAISE(ABORT, 'nodes are append-only'); END;
CREATE TRIGGER checkpoints_update BEFORE UPDATE ON checkpoints BEGIN SELECT RAISE(ABORT, 'checkpoints are append-only'); END;
CREATE TRIGGER checkpoints_delete BEFORE DELETE ON checkpoints BEGIN SELECT RAISE(ABORT, 'checkpoints are append-only'); END;
CREATE TRIGGER log_delete BEFORE DELETE ON log BEGIN SELECT RAISE(ABORT, 'the log is append-only'); END;
`

// Payloads can be erased (tables.Store.Erase), in a transaction that has a row in erasing
// meanwhile. Everything else stays append-only.
const schema8 = `
CREATE TABLE erasing(id INTEGER PRIMARY KEY CHECK(id = 1)) STRICT;
DROP TRIGGER events_update;
DROP TRIGGER blobs_delete;
CREATE TRIGGER events_update BEFORE UPDATE ON events WHEN NEW.seq <> OLD.seq OR NEW.run <> OLD.run OR NEW.call <> OLD.call OR NEW.body <> OLD.body OR NEW.salt IS NOT NULL OR NOT EXISTS(SELECT 1 FROM erasing) BEGIN SELECT RAISE(ABORT, 'events are append-only'); END;
CREATE TRIGGER blobs_delete BEFORE DELETE ON blobs WHEN NOT EXISTS(SELECT 1 FROM erasing) BEGIN SELECT RAISE(ABORT, 'blobs are append-only'); END;
`

// Records that processes share for a while (store.Ephemera). Rows are sealed as those of
// schema3; data is encrypted, version counts how often a row was written.
const schema9 = `
CREATE TABLE ephemera(kind TEXT NOT NULL, key BLOB NOT NULL, owner TEXT NOT NULL, version INTEGER NOT NULL, until INTEGER NOT NULL, data BLOB NOT NULL, mac BLOB NOT NULL, PRIMARY KEY(kind, key)) STRICT, WITHOUT ROWID;
CREATE INDEX ephemera_until ON ephemera(until);
CREATE INDEX ephemera_owner ON ephemera(kind, owner, until);
`

// Labels of files (store.Labels). Rows are sealed as those of schema3; file is as
// ledger.LabelKey writes it, seq the event that gave it the label first.
const schema10 = `
CREATE TABLE labels(label TEXT NOT NULL, file TEXT NOT NULL, run INTEGER NOT NULL, call INTEGER NOT NULL, since INTEGER NOT NULL, seq INTEGER NOT NULL, mac BLOB NOT NULL, PRIMARY KEY(label, file)) STRICT, WITHOUT ROWID;
CREATE INDEX labels_file ON labels(file);
`

// Claims of queued runs (store.Claims). lane says why a waiting run could not start when it was
// last looked at; claimed is until when a process has it to start it, tries how often one had it
// in vain. They only save work.
const schema11 = `
ALTER TABLE queue ADD COLUMN lane TEXT NOT NULL DEFAULT '';
ALTER TABLE queue ADD COLUMN claimed INTEGER NOT NULL DEFAULT 0;
ALTER TABLE queue ADD COLUMN tries INTEGER NOT NULL DEFAULT 0;
CREATE INDEX queue_lanes ON queue(lane, priority, due, seq) WHERE state = 1;
`

// setup makes a missing ledger or upgrades an old one, and loads the keys.
// Processes that start at the same time take turns.
func (s *Store) setup(ctx context.Context) error {
	if ready, err := s.ready(ctx); err != nil || ready {
		return s.fault(err, "the ledger cannot be opened")
	}
	unlock, err := wholefile.Lock(filepath.Join(s.home, "setup.lock"))
	if err != nil {
		return s.fault(err, "the ledger cannot be made")
	}
	defer unlock()
	return s.fault(s.make(ctx), "the ledger cannot be made")
}

// ready reports whether there is an up-to-date ledger.
func (s *Store) ready(ctx context.Context) (bool, error) {
	info, err := os.Stat(s.path)
	if err != nil || info.Size() == 0 || !wholefile.Exists(filepath.Join(s.home, tables.KeyFolder, tables.SignFile)) {
		return false, nil //nolint:nilerr // it is made next, and that reports the error
	}
	if s.keys, err = tables.LoadKeys(s.home); err != nil {
		return false, err
	}
	db := s.connect("mode=rw&_pragma=busy_timeout(10000)&_pragma=query_only(1)")
	s.read = db
	v, err := s.version(ctx, db)
	mode := ""
	if err == nil {
		err = db.QueryRowContext(ctx, "PRAGMA journal_mode").Scan(&mode)
	}
	if err != nil || v != len(migrations) || mode != "wal" { // a restored copy may be in another mode
		s.read = nil
		return false, errors.Join(err, db.Close())
	}
	return true, nil
}

// make makes a new ledger, or brings the file up to date. The signing key takes
// its final name once the file is complete. So if the key exists, there was a
// ledger, and a missing file is not made anew.
func (s *Store) make(ctx context.Context) error {
	key, staged := filepath.Join(s.home, tables.KeyFolder, tables.SignFile), filepath.Join(s.home, tables.KeyFolder, tables.StagedFile)
	if err := Present(s.home); err != nil {
		return err
	}
	fresh := !wholefile.Exists(key) && (wholefile.Exists(staged) || !hasContent(s.path))
	if !fresh {
		if err := s.upgrade(ctx, false); err != nil {
			return err
		}
		return wholefile.SyncFolder(s.home)
	}
	if err := tables.MakeKeys(s.home); err != nil {
		return err
	}
	if err := s.upgrade(ctx, true); err != nil {
		return err
	}
	if err := wholefile.SyncFolder(s.home); err != nil {
		return err
	}
	return errors.Join(os.Rename(staged, key), wholefile.SyncFolder(filepath.Dir(key)))
}

// upgrade applies the migrations that the file lacks.
func (s *Store) upgrade(ctx context.Context, fresh bool) (err error) {
	load, create := tables.LoadKeys, 0
	if fresh {
		load, create = tables.LoadStagedKeys, os.O_CREATE
	}
	if s.keys, err = load(s.home); err != nil {
		return err
	}
	f, err := os.OpenFile(s.path, create|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	db := s.connect("mode=rw&_pragma=busy_timeout(10000)")
	db.SetMaxOpenConns(1)
	return errors.Join(s.migrate(ctx, db, fresh), db.Close())
}

func (s *Store) migrate(ctx context.Context, db *sql.DB, fresh bool) error {
	v, err := s.version(ctx, db)
	if err != nil {
		return err
	}
	if v == 0 && !fresh {
		return errMissing(s.home)
	}
	if _, err := db.ExecContext(ctx, "PRAGMA journal_mode=WAL"); err != nil {
		return err
	}
	for ; v < len(migrations); v++ {
		if err := s.apply(ctx, db, v); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) apply(ctx context.Context, db *sql.DB, v int) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // after Commit it does nothing
	if _, err := tx.ExecContext(ctx, migrations[v]); err != nil {
		return err
	}
	if v == 0 {
		if _, err := tx.ExecContext(ctx, "INSERT INTO log VALUES(1, ?, 0, x'', 0, ?)", s.keys.Origin(), s.keys.EmptyState()); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, "PRAGMA application_id = 1382902132"); err != nil {
			return err
		}
	}
	t := s.tables()
	if v+1 == tables.BlocksFormat {
		if err := t.FillBlocks(ctx, tx); err != nil {
			return err
		}
	}
	if v+1 >= tables.SealedFormat {
		if err := t.MakeSeals(ctx, tx, v+1); err != nil {
			return err
		}
	}
	if _, err := tx.ExecContext(ctx, "PRAGMA user_version = "+strconv.Itoa(v+1)); err != nil {
		return err
	}
	return tx.Commit()
}

// version returns the number of applied migrations. A file of another program or
// of a newer Remit is refused.
func (s *Store) version(ctx context.Context, db *sql.DB) (int, error) {
	var v, app, objects int
	row := db.QueryRowContext(ctx, "SELECT (SELECT user_version FROM pragma_user_version), (SELECT application_id FROM pragma_application_id), (SELECT count(*) FROM sqlite_master)")
	if err := row.Scan(&v, &app, &objects); err != nil {
		return 0, err
	}
	if app != applicationID && (app != 0 || objects > 0 || v != 0) {
		return 0, fault.New(fault.StoreCorrupt, "%q is a database of another program", tables.Clean(s.path)).
			WithHint("move it away, or name another home folder")
	}
	if v > len(migrations) {
		return 0, fault.New(fault.StoreVersion, "%q was made by a newer Remit (format %d, this one knows %d)", tables.Clean(s.path), v, len(migrations)).
			WithHint("use the newer Remit")
	}
	return v, nil
}

// leastFormat is the oldest format that is read without being brought up to
// date.
const leastFormat = 1

// checkVersion refuses a format that a reader can neither read nor upgrade.
func (s *Store) checkVersion(ctx context.Context, db *sql.DB) error {
	v, err := s.version(ctx, db)
	s.format = v
	if err == nil && v < leastFormat {
		err = fault.New(fault.StoreVersion, "%q is in an older format (%d of %d)", tables.Clean(s.path), v, len(migrations)).
			WithHint("open it once for writing")
	}
	return s.fault(err, "the ledger cannot be opened")
}

// Schema implements tables.Database.
func (d database) Schema(ctx context.Context, q tables.Querier) (want, got map[string]string, err error) {
	if want, err = wantSchema(ctx, d.format); err != nil {
		return nil, nil, err
	}
	got, err = readSchema(ctx, q)
	return want, got, err
}

// wantSchema returns the content of sqlite_master in a sound ledger of a format.
func wantSchema(ctx context.Context, format int) (map[string]string, error) {
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		return nil, err
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	if _, err := db.ExecContext(ctx, strings.Join(migrations[:format], "\n")); err != nil {
		return nil, err
	}
	return readSchema(ctx, db)
}

func readSchema(ctx context.Context, q tables.Querier) (map[string]string, error) {
	rows, err := q.QueryContext(ctx, "SELECT type || ' ' || name, coalesce(sql, '') FROM sqlite_master")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	out := map[string]string{}
	for rows.Next() {
		var name, text string
		if err := rows.Scan(&name, &text); err != nil {
			return nil, err
		}
		out[name] = text
	}
	return out, rows.Err()
}

package postgres

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/pause"
	"github.com/remitrun/remit/internal/base/wholefile"
	"github.com/remitrun/remit/internal/record/store/tables"
)

// migrations bring an empty schema up to date, one version each: 1.sql, 2.sql, ... A
// published one is never changed. Table schema_version has the number of the last one.
//
//go:embed migrations/*.sql
var migrations embed.FS

// schemaText has a line for each object that selectObjects lists in a sound ledger.
//
//go:embed schema.txt
var schemaText string

// version of the schema: the number of the last migration.
const version = 11

// setupLock is the advisory lock of nodes that make or upgrade the tables.
const setupLock = 0x526d6974

// setup makes a missing ledger or upgrades an old one, and loads the keys.
func (s *Store) setup(ctx context.Context) error {
	if s.readOnly {
		var err error
		s.keys, err = tables.LoadKeys(s.home)
		return err
	}
	unlock, err := s.lockSetup(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	return s.begin(ctx)
}

// lockSetup brings the tables up to date. No other process makes or copies a ledger until
// unlock.
func (s *Store) lockSetup(ctx context.Context) (unlock func(), err error) {
	if err := os.MkdirAll(s.home, 0o700); err != nil {
		return nil, err
	}
	file, err := wholefile.Lock(filepath.Join(s.home, "setup.lock"))
	if err != nil {
		return nil, err
	}
	conn, err := s.dial(ctx, s.config)
	if err != nil {
		file()
		return nil, err
	}
	unlock = func() {
		_ = conn.Close(context.WithoutCancel(ctx)) // with it the lock on the server
		file()
	}
	if _, err = conn.Exec(ctx, "SELECT pg_advisory_lock($1, hashtext(current_schema()))", setupLock); err == nil {
		err = migrate(ctx, conn, version)
	}
	if err == nil {
		err = s.checkVersion(conn.QueryRow(ctx, selectVersion))
	}
	if err == nil {
		err = makeParts(ctx, conn, time.Now())
	}
	if err == nil {
		err = conn.QueryRow(ctx, "SELECT done < last FROM moving").Scan(&s.unmoved)
	}
	if err != nil {
		unlock()
		return nil, err
	}
	return unlock, nil
}

// migrate applies the missing migrations up to one of them, and waits until no node acts any more
// that knew the tables as they were.
func migrate(ctx context.Context, conn *pgx.Conn, upTo int64) error {
	if _, err := conn.Exec(ctx, "CREATE TABLE IF NOT EXISTS schema_version(version bigint PRIMARY KEY)"); err != nil {
		return err
	}
	var is int64
	if err := conn.QueryRow(ctx, selectVersion).Scan(&is); err != nil {
		return err
	}
	var leased time.Duration
	for is++; is <= upTo; is++ {
		statements, err := migrations.ReadFile(fmt.Sprintf("migrations/%d.sql", is))
		if err != nil {
			return err
		}
		left, err := upgrade(ctx, conn, is, string(statements))
		if err != nil {
			return err
		}
		leased = max(leased, left)
	}
	return pause.For(ctx, leased)
}

// upgrade applies all of one migration, or nothing. No node stays a member: running nodes know the
// old tables, and can write nothing any more. left is how long their leases still last.
func upgrade(ctx context.Context, conn *pgx.Conn, to int64, statements string) (left time.Duration, err error) {
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if to > 1 {
			if left, err = removeNodes(ctx, tx); err != nil {
				return err
			}
		}
		if _, err := tx.Exec(ctx, statements); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, "INSERT INTO schema_version VALUES($1)", to)
		return err
	})
	return left, err
}

// longestLease bounds the wait for nodes of which an older Remit noted no length.
const longestLease = 5 * time.Minute

// removeNodes removes all nodes, and lets none join until the transaction has ended. It waits for
// their writes in progress, and locks in the same order as they do.
func removeNodes(ctx context.Context, tx pgx.Tx) (left time.Duration, err error) {
	if _, err := tx.Exec(ctx, "SELECT FROM log FOR UPDATE; LOCK TABLE members"); err != nil {
		return 0, err
	}
	var micros int64
	err = tx.QueryRow(ctx, `WITH m AS (DELETE FROM members AS m RETURNING lease_until, coalesce((to_jsonb(m) ->> 'lease')::bigint, $1) AS lease)
SELECT coalesce(max(least(extract(epoch FROM lease_until - clock_timestamp()) * 1000000, lease)), 0)::bigint FROM m`, longestLease.Microseconds()).Scan(&micros)
	return time.Duration(micros) * time.Microsecond, err
}

const selectVersion = "SELECT coalesce(max(version), 0) FROM schema_version"

// begin makes the keys and the first state of a new ledger, or loads those of a ledger.
func (s *Store) begin(ctx context.Context) error {
	db := open(s.config, nil, 1)
	defer db.Close()
	var logs int
	if err := db.QueryRowContext(ctx, "SELECT count(*) FROM log").Scan(&logs); err != nil {
		return err
	}
	key, staged := filepath.Join(s.home, tables.KeyFolder, tables.SignFile), filepath.Join(s.home, tables.KeyFolder, tables.StagedFile)
	var err error
	switch {
	case logs > 0 && wholefile.Exists(staged) && !wholefile.Exists(key): // a process died at the very end
		return s.finish(staged, key)
	case logs > 0:
		if s.keys, err = tables.LoadKeys(s.home); err == nil {
			err = s.checkOrigin(ctx, db)
		}
		if err == nil {
			err = s.sealNew(ctx, db)
		}
		return err
	case wholefile.Exists(key):
		return fault.New(fault.StoreMissing, "the database %q has no ledger, but the keys of one are in %q", s.name, tables.Clean(filepath.Dir(key))).
			ForOperator("check the database's URL; to move a ledger of this machine: remit db copy")
	}
	if err := tables.MakeKeys(s.home); err != nil {
		return err
	}
	if s.keys, err = tables.LoadStagedKeys(s.home); err != nil {
		return err
	}
	if err := s.firstState(ctx); err != nil {
		return err
	}
	return s.finish(staged, key)
}

// checkOrigin refuses the keys of another ledger. Events signed with them would not verify.
func (s *Store) checkOrigin(ctx context.Context, db *sql.DB) error {
	var origin string
	if err := db.QueryRowContext(ctx, "SELECT origin FROM log").Scan(&origin); err != nil || origin == s.keys.Origin() {
		return err
	}
	return fault.New(fault.StoreMissing, "the database %q has the ledger %q, and the keys in %q are those of %q", s.name, tables.Clean(origin), tables.Clean(filepath.Join(s.home, tables.KeyFolder)), s.keys.Origin()).
		WithHint("check the database's URL: each ledger has a database and a $REMIT_HOME of its own")
}

// finish gives the signing key its final name.
func (s *Store) finish(staged, key string) error {
	err := errors.Join(os.Rename(staged, key), wholefile.SyncFolder(filepath.Dir(key)))
	if err == nil {
		s.keys, err = tables.LoadKeys(s.home)
	}
	return err
}

// firstState writes the state of an empty log, and the seals of empty tables.
func (s *Store) firstState(ctx context.Context) error {
	db := open(s.config, map[string]string{"synchronous_commit": "on"}, 1)
	defer db.Close()
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // after Commit it does nothing
	if _, err := tx.ExecContext(ctx, "INSERT INTO log VALUES(1, $1, 0, '', 0, $2)", s.keys.Origin(), s.keys.EmptyState()); err != nil {
		return err
	}
	t := s.tables()
	for format := tables.SealedFormat; format <= tables.LabelsFormat; format++ {
		if err := t.MakeSeals(ctx, tx, format); err != nil {
			return err
		}
	}
	return tx.Commit()
}

// sealNew makes the seals of the tables that a migration added to a ledger.
func (s *Store) sealNew(ctx context.Context, db *sql.DB) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()                                                            //nolint:errcheck // after Commit it does nothing
	if _, err := tx.ExecContext(ctx, "SELECT 1 FROM log FOR UPDATE"); err != nil { // other nodes may write
		return err
	}
	for table, format := range map[string]int{"queue": tables.QueueFormat, "ephemera": tables.EphemeraFormat, "labels": tables.LabelsFormat} {
		var sealed int
		if err := tx.QueryRowContext(ctx, "SELECT count(*) FROM seals WHERE name = $1", table).Scan(&sealed); err != nil {
			return err
		}
		if sealed > 0 {
			continue
		}
		if err := s.tables().MakeSeals(ctx, tx, format); err != nil {
			return err
		}
	}
	return tx.Commit()
}

// checkVersion refuses a database that has no ledger, or one of a newer Remit. found is the result
// of selectVersion.
func (s *Store) checkVersion(found interface{ Scan(into ...any) error }) error {
	var is int64
	err := found.Scan(&is)
	switch {
	case isCode(err, "42P01") || err == nil && is == 0:
		return fault.New(fault.StoreMissing, "the database %q has no ledger", s.name).ForOperator("make its tables with remit db migrate")
	case err != nil:
		return err
	case is > version:
		return fault.New(fault.StoreVersion, "the tables in %q were made by a newer Remit (version %d, this one knows %d)", s.name, is, version).WithHint("use the newer Remit")
	case is < version:
		return fault.New(fault.StoreVersion, "the tables in %q are older than this Remit (version %d of %d)", s.name, is, version).ForOperator("bring them up to date with remit db migrate")
	}
	return nil
}

// selectObjects lists the columns, indexes, triggers and functions of the ledger. The tables of
// a month have one name for all months.
const selectObjects = `
SELECT DISTINCT regexp_replace(name, '_[0-9]{6}', '_YYYYMM', 'g'), regexp_replace(def, '_[0-9]{6}', '_YYYYMM', 'g') FROM (
SELECT 'column ' || table_name::text || '.' || column_name::text AS name, data_type::text || ' ' || coalesce(collation_name::text, '') || ' ' || is_nullable::text || ' ' || coalesce(column_default::text, '') AS def
FROM information_schema.columns WHERE table_schema = current_schema() AND table_name <> 'schema_version'
UNION ALL SELECT 'index ' || indexname::text, replace(indexdef, ' ' || quote_ident(schemaname) || '.', ' ') FROM pg_indexes WHERE schemaname = current_schema() AND tablename <> 'schema_version'
UNION ALL SELECT 'trigger ' || c.relname::text || '.' || t.tgname::text, t.tgenabled::text || ' ' || t.tgtype::text FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
WHERE c.relnamespace = current_schema()::regnamespace AND NOT t.tgisinternal
UNION ALL SELECT 'function ' || proname::text, md5(prosrc) FROM pg_proc WHERE pronamespace = current_schema()::regnamespace
UNION ALL SELECT 'rule ' || tablename::text || '.' || rulename::text, md5(definition) FROM pg_rules WHERE schemaname = current_schema()) AS o`

// Schema implements tables.Database.
func (d database) Schema(ctx context.Context, q tables.Querier) (want, got map[string]string, err error) {
	want, got = map[string]string{}, map[string]string{}
	for line := range strings.Lines(schemaText) {
		name, def, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		want[name] = def
	}
	rows, err := q.QueryContext(ctx, selectObjects)
	if err != nil {
		return nil, nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var name, def string
		if err := rows.Scan(&name, &def); err != nil {
			return nil, nil, err
		}
		if before, ok := got[name]; !ok || before == want[name] { // a month's table may differ from the others
			got[name] = def
		}
	}
	return want, got, rows.Err()
}

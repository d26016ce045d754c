// Package sqlite keeps the ledger in one SQLite file, which several processes
// may use at once. Start at [Open].
//
// A folder (the home) holds remit.db, keys/ (the ledger's signing key, its
// public key, and the key that blobs are addressed under) and owners/ (a lock
// file for each live process that has begun a run).
//
// Package tables reads and writes the file's tables.
package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"modernc.org/sqlite" // also the database/sql driver "sqlite"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/record/store/tables"
)

// File is the database's name in the home folder.
const File = "remit.db"

// Durability is the kind of failure that a durable entry survives.
type Durability string

// The durabilities.
const (
	Power   Durability = "power"   // a loss of power: synced to the disk before Append returns
	Process Durability = "process" // the end of the process, also by kill -9; not a loss of power
)

// Options configure a store.
type Options struct {
	Home       string           // the folder; made with mode 0700 if it is missing
	Durability Durability       // "" means Power
	ReadOnly   bool             // write nothing at all, not even a checkpoint on Close
	Keys       string           // of a ledger that is only read: the folder that has its folder of keys; "" means Home
	Clock      func() time.Time // of the machine; nil: time.Now
}

// Store is a ledger in a SQLite file. It implements [store.Backend].
type Store struct {
	*tables.Store // nil until the file is open

	home     string
	keysIn   string // see Options.Keys
	path     string
	power    bool
	readOnly bool
	keys     *tables.Keys
	owner    uuid.UUID
	clock    func() time.Time // nil: time.Now
	format   int              // of the file: how many migrations it has seen
	read     *sql.DB          // connections that only read

	write *sql.DB   // has the connection that writes; nil when read-only
	conn  *sql.Conn // that connection
	wal   *walSyncer
	turns *turns // of all processes

	ownerMu   sync.Mutex
	ownerLock *os.File
	recovered atomic.Pointer[time.Time] // state of the owners' folder when Recover last checked all owners; nil: never

	closeOnce sync.Once
	closeErr  error
}

var _ store.Backend = (*Store)(nil)

// database is a store as package tables uses it.
type database struct{ *Store }

var _ tables.Database = database{}

var dialect = tables.Dialect{
	Begin:         "BEGIN IMMEDIATE",
	Snapshot:      "BEGIN",
	Seals:         "SELECT coalesce(group_concat(name || ' ' || hex(mac), ' ' ORDER BY name), '') FROM seals",
	UseFilesThere: " INDEXED BY files_there",
}

// tables returns the tables of the file, of which the format is known.
func (s *Store) tables() *tables.Store {
	return tables.New(tables.Config{Home: s.home, Name: tables.Clean(s.path), Owner: s.owner, Keys: s.keys, Format: s.format, Power: s.power, ReadOnly: s.readOnly,
		Database: database{s}, Dialect: dialect, Read: s.read, Clock: s.clock})
}

// Open opens the ledger in o.Home. It makes a ledger if neither a ledger nor its
// keys exist. Errors carry fault.StoreReadOnly, StoreFull, StoreCorrupt,
// StoreVersion, StoreMissing or StoreFailed.
func Open(ctx context.Context, o Options) (*Store, error) {
	if o.Durability == "" {
		o.Durability = Power
	}
	if o.Durability != Power && o.Durability != Process {
		return nil, fault.New(fault.Usage, "%q is not a valid durability", o.Durability).
			In("ledger.durability").WithHint("use power or process")
	}
	home, err := filepath.Abs(o.Home)
	if err != nil || o.Home == "" {
		return nil, fault.Wrap(fault.StoreFailed, err, "the ledger's folder %q has no absolute path", o.Home)
	}
	s := &Store{home: home, path: filepath.Join(home, File), power: o.Durability == Power, readOnly: o.ReadOnly, owner: uuid.New(), clock: o.Clock}
	s.keysIn = cmp.Or(o.Keys, home)
	if err := s.open(ctx); err != nil {
		return nil, errors.Join(err, s.release())
	}
	return s, nil
}

func (s *Store) open(ctx context.Context) error {
	if s.readOnly {
		if err := s.openReadOnly(ctx); err != nil {
			return err
		}
		s.Store = s.tables()
		return nil
	}
	if err := s.setup(ctx); err != nil {
		return err
	}
	s.format = len(migrations)
	if s.read == nil {
		s.read = s.connect("mode=rw&_pragma=busy_timeout(10000)&_pragma=query_only(1)")
	}
	was, err := os.Stat(s.path)
	if err != nil {
		return s.fault(err, "the ledger cannot be opened for writing")
	}
	s.wal, s.turns = &walSyncer{path: s.path + "-wal", db: s.path, was: was}, openTurns(s.home)
	s.write = s.connect("mode=rw&_pragma=busy_timeout(10000)&_pragma=synchronous(NORMAL)&_pragma=wal_autocheckpoint(2000)&_pragma=secure_delete(1)&_pragma=cell_size_check(1)")
	s.write.SetMaxOpenConns(1)
	if s.conn, err = s.write.Conn(ctx); err != nil {
		return s.fault(errors.Join(err, s.write.Close(), s.turns.close()), "the ledger cannot be opened for writing")
	}
	s.Store = s.tables()
	s.Start(s.conn)
	return nil
}

// openReadOnly opens an existing ledger. In a read-only folder SQLite cannot make
// the file that readers of a live log share. If that file is missing, the
// database is read as immutable.
func (s *Store) openReadOnly(ctx context.Context) error {
	if err := Present(s.home); err != nil {
		return err
	}
	if _, err := os.Stat(s.path); err != nil {
		return s.fault(err, "the ledger cannot be opened")
	}
	var err error
	if s.keys, err = tables.LoadKeys(s.keysIn); err != nil {
		return err
	}
	s.read = s.connect("mode=ro&_pragma=busy_timeout(10000)")
	err = s.checkVersion(ctx, s.read)
	if info, serr := os.Stat(s.path + "-wal"); err != nil && (serr != nil || info.Size() == 0) && unopenable(err) {
		_ = s.read.Close() // it never opened
		s.read = s.connect("mode=ro&immutable=1")
		err = s.checkVersion(ctx, s.read)
	}
	return err
}

// connect makes a pool of connections. Nothing is opened yet.
func (s *Store) connect(params string) *sql.DB {
	dsn := "file:" + (&url.URL{Path: s.path}).EscapedPath() + "?_dqs=0&_defensive=1&_pragma=trusted_schema(0)&" + params
	c, err := sqlite.NewConnector(dsn)
	if err != nil {
		panic(err) // the parameters are wrong
	}
	db := sql.OpenDB(connector{c, s})
	db.SetMaxOpenConns(8)
	db.SetMaxIdleConns(8) // to open one takes longer than most reads
	return db
}

// connector opens connections to the file that the store has open. SQLite would take another file
// of that name and the write-ahead log of the open one for a database, and remove the log at the end.
type connector struct {
	driver.Connector

	store *Store
}

// Connect implements driver.Connector.
func (c connector) Connect(ctx context.Context) (driver.Conn, error) {
	if w := c.store.wal; w != nil {
		if err := w.inPlace(); err != nil {
			return nil, err
		}
	}
	return c.Connector.Connect(ctx)
}

// Close signs a checkpoint if many events were appended since the last one, and releases
// everything. Entries that are being appended are written first.
func (s *Store) Close() error {
	s.closeOnce.Do(func() { s.closeErr = s.close() })
	return s.closeErr
}

func (s *Store) close() error {
	return s.fault(errors.Join(s.Store.Close(), s.releaseOwner()), "the ledger cannot be closed")
}

// release closes everything that a failed Open has opened.
func (s *Store) release() error {
	if s.read == nil {
		return nil
	}
	return s.fault(s.read.Close(), "the ledger cannot be closed")
}

// Explain implements tables.Database.
func (d database) Explain(err error) (fault.Code, string, string) { return d.explain(err) }

// Failed implements tables.Database.
func (d database) Failed(err error) bool {
	var se *sqlite.Error
	return errors.As(err, &se)
}

// Turn implements tables.Database. After a failed sync nothing is written any more.
func (d database) Turn() (release func(), err error) {
	if err := d.wal.usable(); err != nil {
		return func() {}, err
	}
	return d.turns.take(), nil
}

// Sync implements tables.Database.
func (d database) Sync() error { return d.wal.sync() }

// HoldOwner implements tables.Database.
func (d database) HoldOwner() error { return d.holdOwner() }

// Dead implements tables.Database.
func (d database) Dead(_ context.Context, owner uuid.UUID) (bool, error) {
	locks := map[uuid.UUID]*os.File{}
	dead, err := d.dead(owner, locks)
	if f := locks[owner]; f != nil {
		_ = f.Close() // releases the lock
	}
	return dead, err
}

// CheckFiles implements tables.Database. It uses a connection of its own, beside the
// verification: it takes a sixth of that's time, on one core.
func (d database) CheckFiles(ctx context.Context) ([]string, error) {
	rows, err := d.read.QueryContext(ctx, "PRAGMA integrity_check(20)")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var found []string
	for rows.Next() {
		var msg string
		if err := rows.Scan(&msg); err != nil {
			return found, err
		}
		if msg != "ok" {
			found = append(found, "SQLite: "+msg)
		}
	}
	return found, rows.Err()
}

// Scrub implements tables.Database. Rows are overwritten when they are changed or deleted
// (secure_delete); the log that is written ahead has older pages until it is emptied.
func (d database) Scrub(ctx context.Context) (left []string, err error) {
	db := d.connect("mode=rw&_pragma=busy_timeout(2000)")
	var busy, pages, done int
	err = db.QueryRowContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)").Scan(&busy, &pages, &done)
	if err == nil && busy != 0 {
		left = []string{File + "-wal: a process reads an older state of the ledger; the file is overwritten once that ends"}
	}
	return left, errors.Join(err, db.Close())
}

// Close implements tables.Database.
func (d database) Close() error {
	return errors.Join(d.wal.close(), d.turns.close(), d.conn.Close(), d.write.Close())
}

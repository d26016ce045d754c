// Package sqlite keeps the ledger in one SQLite file, which several processes
// may use at once. Start at [Open].
//
// A folder (the home) holds remit.db, keys/ (the ledger's signing key, its
// public key, and the key that blobs are addressed under) and owners/ (a lock
// file for each live process that has begun a run).
//
// Each store has one goroutine that writes. It writes all queued requests in one
// transaction, so that many concurrent calls cost one durable write. A lone
// caller writes by itself. The Merkle log's frontier lives in one row,
// authenticated under the ledger's key, and is read again at the start of each
// transaction, since another process may have appended.
package sqlite

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"

	_ "modernc.org/sqlite" // the database/sql driver "sqlite"
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
	Home       string     // the folder; made with mode 0700 if it is missing
	Durability Durability // "" means Power
	ReadOnly   bool       // write nothing at all, not even a checkpoint on Close
}

// Store is a ledger in a SQLite file. It implements [store.Store].
type Store struct {
	home     string
	path     string
	power    bool
	readOnly bool
	keys     *keys
	owner    uuid.UUID

	read   *reader // connections that only read
	format int     // of the file: how many migrations it has seen
	pack   packer
	salts  salts

	standings standings

	callers atomic.Int32 // that are appending now
	queue   queue
	w       *writer // nil when read-only

	ownerMu   sync.Mutex
	ownerLock *os.File
	deaths    atomic.Uint64             // see Deaths
	recovered atomic.Pointer[time.Time] // state of the owners' folder when Recover last checked all owners; nil: never

	closeOnce sync.Once
	closeErr  error
}

var _ store.Backend = (*Store)(nil)

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
	s := &Store{home: home, path: filepath.Join(home, File), power: o.Durability == Power, readOnly: o.ReadOnly, owner: uuid.New()}
	s.queue.init()
	if err := s.open(ctx); err != nil {
		return nil, errors.Join(err, s.closeHandles())
	}
	return s, nil
}

func (s *Store) open(ctx context.Context) error {
	if s.readOnly {
		return s.openReadOnly(ctx)
	}
	if err := s.setup(ctx); err != nil {
		return err
	}
	s.format = len(migrations)
	if s.read == nil {
		s.read = &reader{DB: s.connect("mode=rw&_pragma=busy_timeout(10000)&_pragma=query_only(1)")}
	}
	w, err := newWriter(ctx, s)
	if err != nil {
		return err
	}
	s.w = w
	go w.loop()
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
	if s.keys, err = loadKeys(s.home); err != nil {
		return err
	}
	s.read = &reader{DB: s.connect("mode=ro&_pragma=busy_timeout(10000)")}
	err = s.checkVersion(ctx, s.read.DB)
	if info, serr := os.Stat(s.path + "-wal"); err != nil && (serr != nil || info.Size() == 0) && unopenable(err) {
		_ = s.read.Close() // it never opened
		s.read = &reader{DB: s.connect("mode=ro&immutable=1")}
		err = s.checkVersion(ctx, s.read.DB)
	}
	return err
}

// connect makes a pool of connections. Nothing is opened yet.
func (s *Store) connect(params string) *sql.DB {
	dsn := "file:" + (&url.URL{Path: s.path}).EscapedPath() + "?_dqs=0&_defensive=1&_pragma=trusted_schema(0)&" + params
	db, err := sql.Open("sqlite", dsn)
	if err != nil {
		panic(err) // the driver's name is wrong
	}
	db.SetMaxOpenConns(8)
	db.SetMaxIdleConns(8) // to open one takes longer than most reads
	return db
}

// Owner is the identity of this store's process in RunStarted events.
func (s *Store) Owner() uuid.UUID { return s.owner }

// PublicKey returns the key that verifies checkpoints and proofs, in the form of
// ledger.pub, or nothing if the key's file is damaged.
func (s *Store) PublicKey() string {
	public, _ := s.keys.pair.public()
	return public
}

// Origin returns the ledger's name, as in its checkpoints.
func (s *Store) Origin() string { return s.keys.origin }

// Close signs a checkpoint if many events were appended since the last one, and releases
// everything. Entries that are being appended are written first.
func (s *Store) Close() error {
	s.closeOnce.Do(func() { s.closeErr = s.close() })
	return s.closeErr
}

func (s *Store) close() error {
	var errs []error
	if s.w != nil {
		errs = append(errs, s.w.checkpointOnClose())
		s.queue.close()
		<-s.w.ended
		s.w.turn <- struct{}{} // for good
		s.w.answering.Wait()
	}
	return errors.Join(append(errs, s.closeHandles())...)
}

func (s *Store) closeHandles() error {
	var errs []error
	if s.read != nil { // before the writer: the last connection checkpoints, and the writer's has synced the folder already
		errs = append(errs, s.read.Close())
	}
	if s.w != nil {
		errs = append(errs, s.w.close())
	}
	errs = append(errs, s.releaseOwner())
	if err := errors.Join(errs...); err != nil {
		return s.fault(err, "the ledger cannot be closed")
	}
	return nil
}

// Checkpoint signs the current state of the log and keeps the signed note.
func (s *Store) Checkpoint(ctx context.Context) ([]byte, error) {
	if s.readOnly {
		return nil, s.errReadOnly()
	}
	r := newRequest()
	r.sign, r.durable = true, true
	if err := s.submit(ctx, r); err != nil {
		return nil, err
	}
	return r.note, nil
}

func (s *Store) errReadOnly() error {
	return fault.New(fault.StoreReadOnly, "the ledger in %q is open for reading only", s.home)
}

// salts hands out random bytes and asks the system for them in chunks.
type salts struct {
	mu   sync.Mutex
	buf  [64 * ledger.SaltSize]byte
	left []byte
}

func (r *salts) next() []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.left) == 0 {
		_, _ = rand.Read(r.buf[:]) // never fails: it crashes the process instead
		r.left = r.buf[:]
	}
	salt := append([]byte(nil), r.left[:ledger.SaltSize]...)
	clear(r.left[:ledger.SaltSize])
	r.left = r.left[ledger.SaltSize:]
	return salt
}

// clean makes a path safe to show.
func clean(path string) string { return strings.ToValidUTF8(path, "?") }

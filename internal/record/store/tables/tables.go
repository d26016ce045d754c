// Package tables keeps the ledger in the tables of an SQL database. It holds the common part of the
// backends sqlite and postgres: all of [store.Backend] except opening the database and finding dead
// processes. Start at [Store] and [Database].
//
// Each store has one goroutine that writes. It writes all queued requests in one
// transaction, so that many concurrent calls cost one durable write. A lone
// caller writes by itself. The Merkle log's frontier lives in one row,
// authenticated under the ledger's key, and is read again at the start of each
// transaction, since another process may have appended.
package tables

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
)

// Database is the part of the database that a [Store] needs besides connections. The backend
// implements it.
type Database interface {
	// Explain returns the code, the message and the hint for an error of the database or
	// of a file.
	Explain(err error) (code fault.Code, message, hint string)
	// Failed reports whether the database itself reported the error.
	Failed(err error) bool
	// Turn waits until this process may write. The caller calls release also after an
	// error.
	Turn() (release func(), err error)
	// Sync makes the commits so far durable against a loss of power.
	Sync() error
	// HoldOwner shows other processes from now on that this one is alive.
	HoldOwner() error
	// Dead reports whether an owner's process has ended, so that it writes nothing more. In
	// doubt it has not.
	Dead(ctx context.Context, owner uuid.UUID) (bool, error)
	// Recover is that of store.Store.
	Recover(ctx context.Context) (int, error)
	// Schema returns the objects of a sound ledger's schema and those of this one, each
	// with its definition by its name.
	Schema(ctx context.Context, q Querier) (want, got map[string]string, err error)
	// CheckFiles returns the problems that the database finds in its own structures.
	CheckFiles(ctx context.Context) ([]string, error)
	// Scrub overwrites the remains of deleted rows in the database's files, and names the copies
	// that remain.
	Scrub(ctx context.Context) (left []string, err error)
	// Close releases everything except the connections that read. Nothing writes any more.
	Close() error
}

// Dialect has the statements that differ between databases.
type Dialect struct {
	Begin    string // begins a transaction that writes
	Lock     string // after SELECT ... FROM log WHERE ...: locks the row until the end of the transaction
	Snapshot string // begins one that reads one state of the database
	// InsertEvent inserts an event in a database with parts, with the part as the last of the
	// parameters; EraseEvent sets an event's tag and the mark in the place of its payload.
	InsertEvent, EraseEvent string
	// Seals selects the names and MACs of all seals as one text: "NAME HEX NAME HEX ...",
	// in the order of the names.
	Seals string
	// UseFilesThere, after the name of table files, makes the database use the index of
	// the files that are not deleted.
	UseFilesThere string
}

func (d *Dialect) selectLog() string {
	return "SELECT origin, size, frontier, signed, mac, (" + d.Seals + ") FROM log WHERE id = 1"
}

func (d *Dialect) filesThere() string {
	return "SELECT path FROM files" + d.UseFilesThere + " WHERE session = ? AND path > ? AND path < ? AND gone = 0"
}

// Querier reads the database. Statements have parameters ? and ?N.
type Querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// Config holds the arguments of New that a backend chooses.
type Config struct {
	Home     string // folder of the ledger's keys
	Name     string // of the database, for messages
	Owner    uuid.UUID
	Keys     *Keys
	Format   int  // version of the schema
	Power    bool // durable entries survive a loss of power
	ReadOnly bool
	Database Database
	Shared   Shared // nil: the writer itself adds its events to the tree
	Parts    Parts  // nil: payloads are beside their events
	Dialect  Dialect
	Read     *sql.DB          // connections that only read
	Clock    func() time.Time // the database's; nil: this machine's
}

// Store is a ledger in tables. With the backend's Recover and Deaths it is a
// [store.Backend].
type Store struct {
	home     string
	name     string
	power    bool
	readOnly bool
	keys     *Keys
	owner    atomic.Pointer[uuid.UUID]
	db       Database
	shared   Shared // nil: no other node
	parts    Parts  // nil: payloads are beside their events
	dialect  Dialect
	clock    func() time.Time // nil: this machine's

	read   *reader // connections that only read
	format int     // of the schema
	pack   packer
	salts  salts

	standings standings
	labels    labels
	agents    knownTable
	endless   endless
	begun     begun
	deaths    deaths
	claims    claims

	callers atomic.Int32 // that are appending now
	scanned atomic.Int64 // rows of sealed tables
	queue   queue
	w       *writer // nil when read-only

	synced atomic.Pointer[func(time.Duration)] // is told how long each sync took; nil: nothing is

	stopIntegrating context.CancelFunc // nil: nothing does
	integrating     sync.WaitGroup
}

// New makes a store that only reads, until Start.
func New(c Config) *Store {
	s := &Store{home: c.Home, name: c.Name, power: c.Power, readOnly: c.ReadOnly, keys: c.Keys, db: c.Database, shared: c.Shared, parts: c.Parts, dialect: c.Dialect, clock: c.Clock,
		format: c.Format, read: &reader{DB: c.Read}}
	s.owner.Store(&c.Owner)
	s.queue.init()
	s.standings.init()
	s.labels.init()
	s.agents = knownTable{table: tableAgents, column: agentSeq, take: func(sealedRow) {}, drop: func() {}}
	return s
}

// Start begins to write, on a connection that nothing else uses until Database.Close.
func (s *Store) Start(conn *sql.Conn) {
	s.w = newWriter(s, conn)
	go s.w.loop()
	if s.shared != nil {
		ctx, stop := context.WithCancel(context.Background())
		s.stopIntegrating = stop
		s.integrating.Go(func() { s.integrateLoop(ctx) })
	}
}

// Owner is the identity of this store's process in RunStarted events.
func (s *Store) Owner() uuid.UUID { return *s.owner.Load() }

// Reown makes this process another owner: that of the runs that it begins from now on. The one
// before may no longer act. Nothing is written while do makes the other owner.
func (s *Store) Reown(ctx context.Context, do func() (uuid.UUID, error)) error {
	select {
	case s.w.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-s.w.turn }()
	owner, err := do()
	if err != nil {
		return err
	}
	s.owner.Store(&owner)
	s.w.broken = true
	s.w.forgetAll()
	return nil
}

// Scanned counts the rows of sealed tables that this store has read.
func (s *Store) Scanned() int64 { return s.scanned.Load() }

// PublicKey implements store.Backend.
func (s *Store) PublicKey() string {
	public, _ := s.keys.pair().public()
	return public
}

// Origin returns the ledger's name, as in its checkpoints.
func (s *Store) Origin() string { return s.keys.origin }

// Close signs a checkpoint if many events were appended since the last one, and closes
// the database. Entries that are being appended are written first. Call it once.
func (s *Store) Close() error {
	var errs []error
	if s.w != nil {
		errs = append(errs, s.w.checkpointOnClose())
		s.queue.close()
		<-s.w.ended
		s.w.turn <- struct{}{} // for good
		s.w.answering.Wait()
	}
	if s.stopIntegrating != nil {
		s.stopIntegrating()
		s.integrating.Wait()
	}
	errs = append(errs, s.read.Close()) // before the writer: SQLite's last connection checkpoints, and the writer's has synced the folder already
	if s.w != nil {
		errs = append(errs, s.w.close())
	}
	return errors.Join(errs...)
}

// Checkpoint signs the current state of the log and keeps the signed note.
func (s *Store) Checkpoint(ctx context.Context) ([]byte, error) {
	if s.readOnly {
		return nil, s.ErrReadOnly()
	}
	r := newRequest()
	r.sign, r.durable = true, true
	if err := s.submit(ctx, r); err != nil {
		return nil, err
	}
	return r.note, nil
}

// ErrReadOnly is the error of a change of a ledger that is open for reading only.
func (s *Store) ErrReadOnly() error {
	return fault.New(fault.StoreReadOnly, "the ledger in %q is open for reading only", s.home)
}

// fault adds a code and a hint to an error of the file system or of the database.
func (s *Store) fault(err error, what string) error { return Fault(err, what, s.name, s.db.Explain) }

// Fault adds a code and a hint to an error of the file system or of the database called
// name. An error that already has a code, or is a context's, is unchanged.
func Fault(err error, what, name string, explain func(error) (fault.Code, string, string)) error {
	var coded *fault.Error
	if err == nil || errors.As(err, &coded) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	code, msg, hint := explain(err)
	return fault.Wrap(code, err, "%s: %q: %s", what, name, msg).WithHint("%s", hint)
}

// The first formats of the schema that have some tables: SealedFormat has those of
// grants, budgets and approvals, agentsFormat those of agents and sessions,
// requestsFormat that of requests, BlocksFormat that of blocks, QueueFormat those of the queue,
// EraseFormat that of erasures, EphemeraFormat that of ephemera, LabelsFormat that of labels.
const (
	SealedFormat   = 3
	agentsFormat   = 4
	requestsFormat = 5
	BlocksFormat   = 6
	QueueFormat    = 7
	EraseFormat    = 8
	EphemeraFormat = 9
	LabelsFormat   = 10
)

// EmptyState returns the authenticated state of an empty log without seals.
func (k *Keys) EmptyState() (mac []byte) {
	l := logState{Frontier: ledger.Frontier{}}
	return l.sum(k)
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

// Clean makes a path safe to show.
func Clean(path string) string { return strings.ToValidUTF8(path, "?") }

var (
	_ store.Grants   = (*Store)(nil)
	_ store.Budgets  = (*Store)(nil)
	_ store.Requests = (*Store)(nil)
	_ store.Queue    = (*Store)(nil)
	_ store.Labels   = (*Store)(nil)
	_ store.Erasing  = (*Store)(nil)
	_ store.Ephemera = (*Store)(nil)
	_ store.Claims   = (*Store)(nil)
	_ store.Clock    = (*Store)(nil)
)

// Package postgres keeps the ledger in a PostgreSQL database, which several nodes use at
// once. Start at [Open]. Package tables reads and writes the tables; this package is what
// differs from one machine.
//
// # Appending
//
// A batch of events that changes no other table is one pipelined message and one
// transaction of the server: it checks that the node is a member and has lost no batch,
// compares and sets the version of each run that it changes, takes the next numbers from
// the row of table tail, inserts the events, and notes a MAC over their leaves. No lock is
// held while a node waits for the network, so a node that is cut off stops no other. The
// commit is not synced. Before the caller of a durable append gets its answer, a second
// connection makes one synced commit for all that wait. It also reads that the batches are
// still there: a server that crashed between the two has lost them. Where no other caller
// waits, the synced commit is a second transaction of the same message.
//
// Changes of other tables (grants, budgets, answers, sessions) read before they write. They
// lock the row of table log first, which only they and the integration need, and the row
// of table tail last and briefly.
//
// # The tree
//
// One node at a time adds the batches to the Merkle tree (tables.Store.Integrate), with
// the log's row locked, over batches whose MACs fit. Its commit is synced. As the events
// were committed before it, a checkpoint never covers an event that a crash could remove.
//
// # Payloads
//
// Payloads are in a table of their own, partitioned by class and month. Events stay for good;
// the payloads of a month that is not kept any more are dropped with its partition.
//
// # Nodes
//
// A node is a member until a time that it renews. Any other node may remove it after that.
// From then on the removed node can append nothing, and its runs are closed as interrupted.
package postgres

import (
	"context"
	"database/sql"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/record/store/tables"
)

// DefaultLease is how long a node stays a member without renewing.
const DefaultLease = 5 * time.Second

// Options configure a store.
type Options struct {
	Home     string        // folder of the ledger's keys; every node needs the same keys
	URL      string        // of the database, as postgres://user@host/name
	ReadOnly bool          // write nothing at all
	Lease    time.Duration // 0 means DefaultLease
}

// Store is a ledger in a PostgreSQL database. It implements [store.Backend].
type Store struct {
	*tables.Store // nil until the database is open

	home     string
	name     string // of the database, for messages
	config   *pgx.ConnConfig
	readOnly bool
	lease    time.Duration
	keys     *tables.Keys

	read    *sql.DB // connections that only read
	durable *sql.DB // connections whose commits are synced
	slow    *sql.DB // has the connection of transactions of the writer; commits are not synced
	conn    *sql.Conn

	pipe *pgx.Conn // for messages; nil: not open
	head

	nodeName string               // for messages
	born     time.Time            // the origin of clock
	shift    atomic.Int64         // the server's time minus clock, in nanoseconds
	jumped   atomic.Int64         // when shift last changed by itself, by clock; 0: never
	far      map[uuid.UUID]far    // leases of others; of beat alone
	stay     atomic.Pointer[stay] // the present one, or the last
	renewed  atomic.Pointer[renewal]
	joined   atomic.Int64    // when this process first joined, by clock
	patient  atomic.Int64    // until then, by clock, this node removes no others
	dead     context.Context // ends, with the reason as its cause, when only a person can mend the fault
	die      context.CancelCauseFunc

	beats    *sql.DB // the connection that renews the lease
	timeline string  // of the server; of beat alone once the node has joined
	waits    bool    // commits wait for a standby; of beat alone, as timeline
	stopBeat context.CancelFunc
	beating  sync.WaitGroup
	unmoved  bool // an older Remit has left payloads beside their events

	closeOnce sync.Once
	closeErr  error
}

var _ store.Backend = (*Store)(nil)

// database is a store as package tables uses it.
type database struct{ *Store }

var (
	_ tables.Database = database{}
	_ tables.Shared   = database{}
	_ tables.Parts    = database{}
)

var dialect = tables.Dialect{
	Begin:    "BEGIN",
	Lock:     " FOR UPDATE",
	Snapshot: "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
	Seals:    "SELECT coalesce(string_agg(name || ' ' || upper(encode(mac, 'hex')), ' ' ORDER BY name), '') FROM seals",

	InsertEvent: insertEvent,
	EraseEvent:  eraseEvent,
}

// Open opens the ledger in a database. It makes a ledger if neither a ledger nor its keys
// exist. Errors carry fault.StoreReadOnly, StoreFull, StoreCorrupt, StoreVersion,
// StoreMissing or StoreFailed.
func Open(ctx context.Context, o Options) (*Store, error) {
	s, err := newStore(o)
	if err != nil {
		return nil, err
	}
	if err := s.open(ctx); err != nil {
		return nil, errors.Join(s.fault(err, "the ledger cannot be opened"), s.release())
	}
	return s, nil
}

// newStore makes a store that is not open yet.
func newStore(o Options) (*Store, error) {
	config, err := pgx.ParseConfig(o.URL)
	if err != nil {
		return nil, fault.New(fault.Usage, "the database's URL is not valid").WithHint("write it as postgres://user@host/name") // the error may have the password
	}
	home, err := filepath.Abs(o.Home)
	if err != nil || o.Home == "" {
		return nil, fault.Wrap(fault.StoreFailed, err, "the ledger's folder %q has no absolute path", o.Home)
	}
	if o.Lease <= 0 {
		o.Lease = DefaultLease
	}
	config.RuntimeParams["application_name"] = "remit"
	config.RuntimeParams["lock_timeout"] = "10000"
	config.RuntimeParams["idle_in_transaction_session_timeout"] = "2000"
	config.RuntimeParams["tcp_user_timeout"] = "2000"
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = 5 * time.Second
	}
	s := &Store{home: home, name: address(config), config: config, readOnly: o.ReadOnly, lease: o.Lease, nodeName: nodeName(), born: time.Now()}
	s.stay.Store(newStay())
	s.dead, s.die = context.WithCancelCause(context.Background())
	return s, nil
}

// nodeName names this process for people.
func nodeName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return strings.ToValidUTF8(host, "?") + ":" + strconv.Itoa(os.Getpid())
}

// address names a database without its user and password.
func address(c *pgx.ConnConfig) string {
	host := c.Host
	if !strings.HasPrefix(host, "/") {
		host = net.JoinHostPort(host, strconv.Itoa(int(c.Port)))
	}
	return strings.ToValidUTF8(host+"/"+c.Database, "?")
}

func (s *Store) open(ctx context.Context) error {
	if err := s.setup(ctx); err != nil {
		return err
	}
	s.read = s.pool(map[string]string{"default_transaction_read_only": "on", "idle_in_transaction_session_timeout": "600000"}, 8, true)
	if s.readOnly {
		conn, err := s.dial(ctx, s.config) // which looks for a pooler
		if err != nil {
			return err
		}
		if err := conn.Close(ctx); err != nil {
			return err
		}
		s.Store = s.tables()
		return errors.Join(s.checkVersion(s.read.QueryRowContext(ctx, selectVersion)), s.askClock(ctx, s.read))
	}
	s.durable = s.pool(map[string]string{"synchronous_commit": "on"}, 4, true)
	s.slow = s.pool(map[string]string{"synchronous_commit": "off"}, 1, false)
	s.beats = open(s.config, map[string]string{"synchronous_commit": "on"}, 1)
	if err := s.checkServer(ctx); err != nil {
		return err
	}
	if err := s.checkClock(ctx); err != nil {
		return err
	}
	if err := s.join(ctx); err != nil {
		return err
	}
	var err error
	if s.conn, err = s.slow.Conn(ctx); err != nil {
		return err
	}
	s.Store = s.tables()
	s.Start(s.conn)
	var beat context.Context
	beat, s.stopBeat = context.WithCancel(context.Background())
	s.beating.Go(func() { s.beat(beat) })
	s.beating.Go(func() { s.keepParts(beat) })
	return nil
}

// tables returns the tables of the database.
func (s *Store) tables() *tables.Store {
	return tables.New(tables.Config{Home: s.home, Name: s.name, Owner: s.me(), Keys: s.keys, Format: tables.LabelsFormat, Power: true, ReadOnly: s.readOnly,
		Database: database{s}, Shared: database{s}, Parts: database{s}, Dialect: dialect, Read: s.read, Clock: s.serverTime})
}

// Close signs a checkpoint if many events were appended, leaves the nodes, and releases
// everything. Entries that are being appended are written first.
func (s *Store) Close() error {
	s.closeOnce.Do(func() {
		err := s.Store.Close()
		s.closeErr = s.fault(errors.Join(err, s.release()), "the ledger cannot be closed")
	})
	return s.closeErr
}

// release closes all connections. Connections that package tables closed are closed again, which
// does nothing.
func (s *Store) release() error {
	var errs []error
	if s.stopBeat != nil {
		s.stopBeat()
		s.beating.Wait()
	}
	if s.renewed.Load() != nil { // it has joined
		errs = append(errs, s.leave())
	}
	if s.pipe != nil {
		ctx, stop := context.WithTimeout(context.Background(), time.Second)
		defer stop()
		_ = s.pipe.Close(ctx) // its messages were answered
	}
	for _, db := range []*sql.DB{s.read, s.durable, s.slow, s.beats} {
		if db != nil {
			errs = append(errs, db.Close())
		}
	}
	return errors.Join(errs...)
}

func (s *Store) fault(err error, what string) error { return tables.Fault(err, what, s.name, explain) }

// Explain implements tables.Database.
func (d database) Explain(err error) (fault.Code, string, string) { return explain(err) }

// Failed implements tables.Database.
func (d database) Failed(err error) bool {
	var pe *pgconn.PgError
	return errors.As(err, &pe)
}

// Turn implements tables.Database. Nodes do not take turns.
func (d database) Turn() (release func(), err error) {
	return func() {}, d.stay.Load().endReason()
}

// HoldOwner implements tables.Database. A node is a member from the beginning.
func (d database) HoldOwner() error { return nil }

// Dead implements tables.Database. It removes the nodes whose lease is over, which can then append
// nothing.
func (d database) Dead(ctx context.Context, owner uuid.UUID) (bool, error) {
	if err := d.awaitDead(ctx); err != nil {
		return false, d.fault(err, "the owner of a request cannot be found out")
	}
	var n int
	err := d.durable.QueryRowContext(ctx, "SELECT count(*) FROM members WHERE id = $1", owner).Scan(&n)
	return err == nil && n == 0, d.fault(err, "the owner of a request cannot be found out")
}

// Scrub implements tables.Database. It makes the room of deleted rows free; the server
// overwrites it when it uses it again.
func (d database) Scrub(ctx context.Context) (left []string, err error) {
	_, err = d.durable.ExecContext(ctx, "VACUUM events, payloads, blobs, files")
	return []string{"PostgreSQL: free room in its files until that is used again, its write-ahead log, and the replicas and base backups made of it"}, err
}

// Close implements tables.Database.
func (d database) Close() error {
	if err := d.conn.Close(); err != nil && !errors.Is(err, sql.ErrConnDone) && d.stay.Load().endReason() == nil {
		return err
	}
	return nil
}

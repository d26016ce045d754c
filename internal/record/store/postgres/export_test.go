package postgres

import (
	"context"
	"database/sql"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/remitrun/remit/internal/record/store/owners"
	"github.com/remitrun/remit/internal/record/store/tables"
)

// SelectObjects is what schema.txt lists.
const SelectObjects = selectObjects

// Migrate makes or updates the tables up to a version, and moves no payloads. Upgrade makes one
// version of the one before.
var (
	Migrate = migrate
	Upgrade = upgrade
)

// Version is that of the newest migration, SetupLock the lock of who migrates.
const (
	Version   = version
	SetupLock = setupLock
)

// Last is the number of this node's last batch.
func (s *Store) Last() int64 { return s.number.Load() }

// LostBatch reports whether the server has lost a batch.
func (s *Store) LostBatch(number int64) error { return database{s}.Lost(number) }

// SettleTwice settles the head, and once more as after a lost answer. It returns the
// numbers that were found.
func (s *Store) SettleTwice(ctx context.Context) (one, two int64, err error) {
	before := s.number.Load()
	a, err := database{s}.settleAs(ctx, before, [16]byte{1})
	if err != nil {
		return 0, 0, err
	}
	b, err := database{s}.settleAs(ctx, before, [16]byte{1})
	return a.number, b.number, err
}

func (d database) settleAs(ctx context.Context, number int64, token [16]byte) (settled, error) {
	d.number.Store(number)
	d.token = token
	return d.settle(ctx)
}

// Present asks whether the server has this node and its batches.
func (s *Store) Present(ctx context.Context) error { return database{s}.Present(ctx, s.read) }

// CanSettle reports whether no goroutine holds the lock that settling takes.
func (s *Store) CanSettle() bool {
	free := s.mu.TryLock()
	if free {
		s.mu.Unlock()
	}
	return free
}

// Sync makes all batches so far durable.
func (s *Store) Sync() error { return database{s}.Sync() }

// SettleHead finds out which batches the server has.
func (s *Store) SettleHead(ctx context.Context) error {
	_, err := database{s}.settle(ctx)
	return err
}

// PassLease makes the node's lease be over, as if it had been stopped for its time.
func (s *Store) PassLease() { s.stay.Load().until.Store(s.clock() - 1) }

// ScramWith is scramVerifier with a given salt.
var ScramWith = scramWith

// MakePart makes the table of the runs' payloads of a month.
func (s *Store) MakePart(ctx context.Context, at time.Time) error {
	conn, err := pgx.ConnectConfig(ctx, s.config)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	return waitForPart(ctx, conn, tables.PartFor(tables.RunPayloads, at))
}

// StopRenewing makes the node renew its lease no more, as if its process had died.
func (s *Store) StopRenewing() {
	s.stopBeat()
	s.beating.Wait()
}

// Home is the folder of the ledger's keys.
func (s *Store) Home() string { return s.home }

// Die ends the node as a kill of its process does. Without its lock no other process of the home knows.
func (s *Store) Die(locked bool) {
	s.StopRenewing()
	if !locked {
		must(0, owners.In(s.home).Remove(s.me(), s.stay.Load().lock))
	}
	must(0, s.stay.Load().lock.Close())
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// OwnerIsDead is Dead of package tables.
func (s *Store) OwnerIsDead(ctx context.Context, owner uuid.UUID) (bool, error) {
	return database{s}.Dead(ctx, owner)
}

// Beats is the pool of the one connection that renews the lease.
func (s *Store) Beats() *sql.DB { return s.beats }

// AskClock asks for the server's time over that connection.
func (s *Store) AskClock(ctx context.Context) error { return s.askClock(ctx, s.beats) }

// ServerTime is the server's time, as the last answer tells it.
func (s *Store) ServerTime() time.Time { return s.serverTime() }

// Age makes the process older than its lease.
func (s *Store) Age() { s.joined.Add(-int64(s.lease) - 1) }

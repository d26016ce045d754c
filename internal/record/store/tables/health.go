package tables

import (
	"context"
	"time"
)

// OnSync makes f be told how long each sync of the ledger took.
func (s *Store) OnSync(f func(time.Duration)) { s.synced.Store(&f) }

// sync makes all that was written durable.
func (s *Store) sync() error {
	began := time.Now()
	err := s.fault(s.db.Sync(), "the ledger cannot be synced to the disk")
	if f := s.synced.Load(); f != nil && err == nil {
		(*f)(time.Since(began))
	}
	return err
}

// Unintegrated counts the events of a shared database that are not in the Merkle tree yet.
func (s *Store) Unintegrated(ctx context.Context) (int64, error) {
	if s.shared == nil {
		return 0, nil
	}
	l, err := s.readLog(ctx, s.read) // first: the log never has more events than there are
	if err != nil {
		return 0, s.fault(err, "the ledger cannot be read")
	}
	total, err := s.shared.Total(ctx, s.read)
	return total - l.Size, s.fault(err, "the ledger cannot be read")
}

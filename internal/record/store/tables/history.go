package tables

import (
	"context"
	"database/sql"
	"errors"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/ledger"
)

// Head implements store.Store.
func (s *Store) Head(ctx context.Context) (ledger.Checkpoint, error) {
	l, err := s.readLog(ctx, s.read)
	if err != nil {
		return ledger.Checkpoint{}, s.fault(err, "the ledger cannot be read")
	}
	return ledger.Checkpoint{Origin: s.keys.origin, Size: l.Size, Root: l.Root(), Prev: l.signed}, nil
}

// Newest implements store.Store.
func (s *Store) Newest(ctx context.Context) (signed []byte, err error) {
	err = s.read.QueryRowContext(ctx, selectNewest).Scan(&signed)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return signed, s.fault(err, "the ledger cannot be read")
}

// TreeAt implements store.Store.
func (s *Store) TreeAt(ctx context.Context, size int64) (tlog.Hash, error) {
	if size == 0 {
		return (&ledger.Frontier{}).Root(), nil
	}
	if err := s.hasTree(ctx, size); err != nil {
		return tlog.Hash{}, err
	}
	h, err := tlog.TreeHash(size, newTree(ctx, s.read))
	return h, s.fault(err, "the log cannot be read")
}

// ProveExtension implements store.Store.
func (s *Store) ProveExtension(ctx context.Context, size, old int64) (tlog.TreeProof, error) {
	if old < 1 || old > size {
		return nil, fault.New(fault.Internal, "a log of %d events does not extend one of %d", size, old)
	}
	if err := s.hasTree(ctx, size); err != nil || size == old {
		return nil, err
	}
	p, err := tlog.ProveTree(size, old, newTree(ctx, s.read))
	return p, s.fault(err, "the log cannot be read")
}

func (s *Store) hasTree(ctx context.Context, size int64) error {
	l, err := s.readLog(ctx, s.read)
	if err == nil && size > l.Size {
		err = fault.New(fault.Internal, "the log has %d events, not %d", l.Size, size)
	}
	return s.fault(err, "the log cannot be read")
}

// OpenCheckpoint implements store.Store.
func (s *Store) OpenCheckpoint(signed []byte) (ledger.Checkpoint, error) {
	return ledger.OpenCheckpoint(signed, s.keys.public())
}

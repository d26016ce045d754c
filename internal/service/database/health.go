package database

import (
	"context"
	"time"

	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/record/store/postgres"
)

// Health is what a node can tell of its ledger besides the events.
type Health struct {
	OnSync       func(told func(time.Duration))
	Unintegrated func(context.Context) (int64, error)
	LeaseLeft    func() time.Duration // nil: the ledger is not shared, so there is no lease
}

// HealthOf returns the health of an open ledger.
func HealthOf(st store.Backend) Health {
	var h Health
	if s, ok := st.(interface {
		OnSync(told func(time.Duration))
		Unintegrated(ctx context.Context) (int64, error)
	}); ok {
		h.OnSync, h.Unintegrated = s.OnSync, s.Unintegrated
	}
	if s, ok := st.(*postgres.Store); ok {
		h.LeaseLeft = s.LeaseLeft
	}
	return h
}

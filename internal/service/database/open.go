package database

import (
	"context"

	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/record/store/postgres"
	"github.com/remitrun/remit/internal/record/store/sqlite"
	"github.com/remitrun/remit/internal/service/home"
)

// Open opens a home's ledger: in its database, or else in the file.
func Open(ctx context.Context, h *home.Home, readOnly bool) (store.Backend, error) {
	if h.Database == "" {
		s, err := sqlite.Open(ctx, sqlite.Options{Home: h.Dir, ReadOnly: readOnly})
		if err != nil {
			return nil, err
		}
		return s, nil
	}
	o, err := Options(h)
	if err != nil {
		return nil, err
	}
	o.ReadOnly = readOnly
	s, err := postgres.Open(ctx, o)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// WhileLeased returns a context that ends, with the reason as its cause, when this process
// may no longer act on a ledger that it shares with other nodes: another one has taken over.
func WhileLeased(ctx context.Context, st store.Backend) (context.Context, func()) {
	leased, ok := st.(*postgres.Store)
	if !ok {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	lost, _ := leased.HoldsLease()
	done := make(chan struct{})
	go func() {
		select {
		case <-lost:
			_, err := leased.HoldsLease()
			cancel(err)
		case <-done:
		}
	}()
	return ctx, func() { close(done); cancel(nil) }
}

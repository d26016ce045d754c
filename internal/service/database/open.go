package database

import (
	"context"
	"errors"

	"github.com/remitrun/remit/internal/base/fault"
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

// Usable returns an error while this process cannot use the database that keeps its ledger, which
// was opened with an error or without. The store's own error names no address.
func Usable(st store.Backend, opened error) error {
	if shared, ok := st.(*postgres.Store); ok && opened == nil {
		return shared.Usable()
	}
	return opened
}

// WhyDead is why the context of WhileAlive ended; nil: for another reason than the ledger.
func WhyDead(ctx context.Context) error {
	var dead *fault.Error
	if errors.As(context.Cause(ctx), &dead) {
		return dead
	}
	return nil
}

// WhileAlive returns a context that ends, with the reason as its cause, when this process cannot
// go on with a ledger that it shares with other nodes until a person has mended something.
func WhileAlive(ctx context.Context, st store.Backend) (context.Context, func()) {
	shared, ok := st.(*postgres.Store)
	if !ok {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	dead, _ := shared.Dead()
	done := make(chan struct{})
	go func() {
		select {
		case <-dead:
			_, err := shared.Dead()
			cancel(err)
		case <-done:
		}
	}()
	return ctx, func() { close(done); cancel(nil) }
}

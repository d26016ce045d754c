// Package database makes, describes and fills the PostgreSQL database that keeps the ledger
// instead of a file.
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

// Migrate brings the tables of the ledger's database up to date. If the database
// has no ledger and $REMIT_HOME no keys, it makes both.
func Migrate(ctx context.Context, h *home.Home) (postgres.Status, error) {
	if err := check(h); err != nil {
		return postgres.Status{}, err
	}
	s, err := postgres.Open(ctx, postgres.Options{Home: h.Dir, URL: h.Database})
	if err != nil {
		return postgres.Status{}, err
	}
	if err := s.Close(); err != nil {
		return postgres.Status{}, err
	}
	return postgres.ReadStatus(ctx, h.Database)
}

// Status describes the ledger's database.
func Status(ctx context.Context, h *home.Home) (postgres.Status, error) {
	if err := check(h); err != nil {
		return postgres.Status{}, err
	}
	return postgres.ReadStatus(ctx, h.Database)
}

// check refuses a home without a database.
func check(h *home.Home) error {
	if h.Database == "" {
		return fault.New(fault.Usage, "no database is named").WithHint("name one with --db postgres://user@host/name, or with REMIT_DB")
	}
	return nil
}

// Moved is a ledger that was copied into a database.
type Moved struct {
	Report store.VerifyReport `json:"verified"` // of the copy
	Aside  string             `json:"old_file"` // the SQLite file, under its new name
}

// Copy copies the ledger of the SQLite file into the database, verifies the copy
// against a checkpoint of the original, and then gives the file another name: a ledger must
// not go on in two places.
func Copy(ctx context.Context, h *home.Home) (Moved, error) {
	if err := check(h); err != nil {
		return Moved{}, err
	}
	s, err := sqlite.Open(ctx, sqlite.Options{Home: h.Dir})
	if err != nil {
		return Moved{}, err
	}
	out, err := copyTo(ctx, h, s)
	if err = errors.Join(err, s.Close()); err != nil {
		return out, err
	}
	out.Aside, err = sqlite.SetAside(h.Dir)
	return out, err
}

// copyTo copies the ledger of s and verifies the copy.
func copyTo(ctx context.Context, h *home.Home, s *sqlite.Store) (out Moved, err error) {
	if _, err := s.Recover(ctx); err != nil {
		return out, err
	}
	rep, err := s.Verify(ctx, store.VerifyOptions{})
	if err == nil && !rep.OK {
		err = fault.New(fault.VerifyFailed, "the ledger was altered, so it is not copied").ForOperator("remit verify names what was changed")
	}
	if err != nil {
		return out, err
	}
	note, err := s.Checkpoint(ctx)
	if err != nil {
		return out, err
	}
	o := postgres.Options{Home: h.Dir, URL: h.Database}
	if err := postgres.Copy(ctx, o, s.Store); err != nil {
		return out, err
	}
	o.ReadOnly = true
	to, err := postgres.Open(ctx, o)
	if err != nil {
		return out, err
	}
	out.Report, err = to.Verify(ctx, store.VerifyOptions{Checkpoint: note})
	if err = errors.Join(err, to.Close()); err == nil && (!out.Report.OK || out.Report.Size < rep.Size) {
		err = fault.New(fault.VerifyFailed, "the copy is not the ledger").WithHint("remove the copy from the database; the original was not changed")
	}
	return out, err
}

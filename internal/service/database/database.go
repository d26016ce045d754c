// Package database makes, describes and fills the PostgreSQL database that keeps the ledger
// instead of a file.
package database

import (
	"context"
	"errors"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/record/store/postgres"
	"github.com/remitrun/remit/internal/record/store/sqlite"
	"github.com/remitrun/remit/internal/service/home"
	"github.com/remitrun/remit/internal/service/secrets"
	"github.com/remitrun/remit/internal/service/settings"
)

// Migrate brings the tables of the ledger's database up to date. If the database
// has no ledger and $REMIT_HOME no keys, it makes both.
func Migrate(ctx context.Context, h *home.Home) (postgres.Status, error) {
	o, err := Options(h)
	if err != nil {
		return postgres.Status{}, err
	}
	s, err := postgres.Open(ctx, o)
	if err != nil {
		return postgres.Status{}, err
	}
	if err := errors.Join(s.MovePayloads(ctx), s.Close()); err != nil {
		return postgres.Status{}, err
	}
	return postgres.ReadStatus(ctx, o.URL)
}

// Status describes the ledger's database.
func Status(ctx context.Context, h *home.Home) (postgres.Status, error) {
	o, err := Options(h)
	if err != nil {
		return postgres.Status{}, err
	}
	return postgres.ReadStatus(ctx, o.URL)
}

// Accept accepts the server that has taken the place of the ledger's, as it is.
func Accept(ctx context.Context, h *home.Home) (postgres.Status, error) {
	o, err := Options(h)
	if err == nil {
		err = postgres.Accept(ctx, o.URL)
	}
	if err != nil {
		return postgres.Status{}, err
	}
	return postgres.ReadStatus(ctx, o.URL)
}

// Resolve replaces the name of a secret by its value, the database's URL. An unknown one
// stays: opening the ledger tells of it.
func Resolve(h *home.Home, s *secrets.Secrets) {
	if name, stored := settings.StoredSecret(h.Database); stored {
		if url, ok := s.Value(policy.Secret{Store: name}.Key()); ok {
			h.Database = url
		}
	}
}

// Options are those of the database that keeps a home's ledger.
func Options(h *home.Home) (postgres.Options, error) {
	o := postgres.Options{Home: h.Dir, URL: h.Database, Lease: h.Settings.Database.Lease}
	if o.URL == "" {
		return o, fault.New(fault.Usage, "no database is named").WithHint("name one with --db postgres://user@host/name, with REMIT_DB, or as ledger.database in config.yaml")
	}
	if name, stored := settings.StoredSecret(o.URL); stored { // Resolve has not found it
		return o, fault.New(fault.Usage, "ledger.database names the secret %q, which is not stored", name).
			ForOperator("store the database's URL: REMIT_DB=postgres://user@host/name remit secret set %s", name)
	}
	return o, nil
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
	to, err := Options(h)
	if err != nil {
		return Moved{}, err
	}
	s, err := sqlite.Open(ctx, sqlite.Options{Home: h.Dir})
	if err != nil {
		return Moved{}, err
	}
	out, err := copyTo(ctx, to, s)
	if err = errors.Join(err, s.Close()); err != nil {
		return out, err
	}
	out.Aside, err = sqlite.SetAside(h.Dir)
	return out, err
}

// copyTo copies the ledger of s and verifies the copy.
func copyTo(ctx context.Context, o postgres.Options, s *sqlite.Store) (out Moved, err error) {
	if _, err := s.Recover(ctx); err != nil {
		return out, err
	}
	rep, err := s.Verify(ctx, store.VerifyOptions{})
	if err == nil && !rep.OK {
		err = fault.New(fault.VerifyFailed, "the ledger was altered, so it is not copied").ForOperator("remit verify lists the changed records")
	}
	if err != nil {
		return out, err
	}
	note, err := s.Checkpoint(ctx)
	if err != nil {
		return out, err
	}
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

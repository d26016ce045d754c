package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/remitrun/remit/internal/record/store/tables"
)

// Copy copies a ledger, which others may use meanwhile, into a new file of a folder. The
// copy is one state of the ledger and has its keys. It is durable when Copy returns; after an
// error the file is incomplete.
func Copy(ctx context.Context, folder string, from *tables.Store) error {
	s := &Store{path: filepath.Join(folder, File)}
	f, err := os.OpenFile(s.path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err == nil {
		err = errors.Join(s.fill(ctx, from), f.Sync(), f.Close())
	}
	return s.fault(err, "the ledger cannot be copied")
}

// fill writes the schema and all rows. The file's journal is off: an incomplete file is
// thrown away.
func (s *Store) fill(ctx context.Context, from *tables.Store) (err error) {
	db := s.connect("mode=rw&_pragma=journal_mode(OFF)&_pragma=synchronous(OFF)")
	db.SetMaxOpenConns(1)
	defer func() { err = errors.Join(err, db.Close()) }()
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // after Commit it does nothing
	head := fmt.Sprintf("PRAGMA application_id = %d; PRAGMA user_version = %d;", applicationID, len(migrations))
	if _, err := tx.ExecContext(ctx, strings.Join(migrations, "\n")+head); err != nil {
		return err
	}
	all, end, err := from.Snapshot(ctx, true)
	if err != nil {
		return err
	}
	for _, t := range all {
		if err := copyTable(ctx, tx, t); err != nil {
			return errors.Join(err, end())
		}
	}
	return errors.Join(end(), tx.Commit())
}

func copyTable(ctx context.Context, tx *sql.Tx, t tables.Copied) error {
	insert, err := tx.PrepareContext(ctx, "INSERT INTO "+t.Name+"("+strings.Join(t.Columns, ", ")+") VALUES(?"+strings.Repeat(", ?", len(t.Columns)-1)+")")
	if err != nil {
		return err
	}
	defer insert.Close()
	for row, err := range t.Rows(ctx) {
		if err != nil {
			return err
		}
		if _, err := insert.ExecContext(ctx, row...); err != nil {
			return err
		}
	}
	return nil
}

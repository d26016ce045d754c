package calls

import (
	"database/sql"
	"errors"
	"path/filepath"
)

// Bare is a SQLite table by the same library, without anything around it.
type Bare struct {
	db     *sql.DB
	insert *sql.Stmt
	row    []byte
}

// NewBare makes one in a file in dir. Each insert is a transaction that is
// durable against a loss of power.
func NewBare(dir string) (*Bare, error) {
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "bare.db")+"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)")
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	if _, err := db.Exec("CREATE TABLE t(id INTEGER PRIMARY KEY, run INTEGER, body BLOB)"); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	st, err := db.Prepare("INSERT INTO t(run, body) VALUES(?, ?)")
	return &Bare{db: db, insert: st, row: make([]byte, 300)}, err
}

// Insert adds a row of about the size of a call's events.
func (b *Bare) Insert() error {
	_, err := b.insert.Exec(1, b.row)
	return err
}

// Close closes the file.
func (b *Bare) Close() error { return b.db.Close() }

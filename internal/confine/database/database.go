// Package database is the handle for databases: the one way in which a call reaches
// the databases of its policies. A statement is compiled twice: [Look] lists the tables
// and columns that it uses, for the decision, and [Open] makes a connection on which
// the permit is asked again for each of them. Start at [Look] and [Open].
//
// SQLite and PostgreSQL say themselves what a statement uses. SQLite's authorizer names each table,
// column and function while it compiles, also those behind views, triggers and foreign
// keys. PostgreSQL prints the tree of a query that it has analysed and rewritten, with the
// columns that its own check of privileges asks for. MariaDB says nothing of the kind: each
// name of a statement counts as all that it could mean there. Each call has a connection of
// its own, so nothing of a session is left for the next.
package database

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/clip"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
)

// The defaults of the policy's limits, and the bound for the content of all rows.
const (
	DefaultRows    = 1000
	DefaultTimeout = 10 * time.Second
	MaxBytes       = 4 << 20
	maxStatement   = 100_000
	maxValue       = 16 << 20
	maxTables      = 10_000
)

// Look lists what an action's statement uses of its database. It has the statement
// compiled and does not run it. secret finds the values of stored secrets.
func Look(ctx context.Context, databases []policy.Database, secret func(key string) (string, bool), a *tool.Action) error {
	if a.SQL == "" {
		return nil
	}
	at, err := find(databases, a.Database)
	if err != nil {
		return err
	}
	var u uses
	if at.Server != "" {
		u, err = lookServer(ctx, at, secret, a.SQL)
	} else {
		u, err = lookFile(ctx, at, a.SQL)
	}
	if err != nil {
		return err
	}
	a.Uses = u.read
	if a.Kind == tool.TableWrite {
		a.Uses = u.written
	}
	a.Uses = slices.Concat(u.refused, a.Uses)
	return nil
}

// lookFile lists what a statement uses of a database in a file.
func lookFile(ctx context.Context, d policy.Database, statement string) (u uses, err error) {
	s, stop, err := open(ctx, d, false)
	if err != nil {
		return u, err
	}
	defer stop()
	if err := oneStatement(statement); err != nil {
		return u, err
	}
	u.known = s.known
	if err := s.authorize(u.note); err != nil {
		return u, err
	}
	st, err := s.conn.PrepareContext(s.ctx, statement)
	if err != nil && len(u.refused) == 0 {
		return u, s.failed(err)
	}
	if err == nil {
		_ = st.Close() // it was never run
	}
	return u, nil
}

// session is one connection for one call.
type session struct {
	ctx    context.Context
	db     *sql.DB
	conn   *sql.Conn
	limits policy.Database
	known
}

// known caches the schema, by names in lower case.
type known struct {
	tables   map[string]string // kinds: "table", "view", "virtual", "shadow"
	modules  map[string]bool   // of virtual tables
	computed map[string]bool   // columns, "table.column", that are computed from others
}

// find returns the database of a name, if it can be used.
func find(databases []policy.Database, name string) (d policy.Database, err error) {
	i := slices.IndexFunc(databases, func(d policy.Database) bool { return d.Name == name })
	switch {
	case i < 0:
		return d, fault.New(fault.HandleRefused, "the policy names no database %q", clip.Text(name, 60))
	case databases[i].Refused != "":
		return d, fault.New(fault.HandleRefused, "the database %q cannot be used: %s", name, databases[i].Refused)
	case databases[i].File+databases[i].Server == "":
		return d, fault.New(fault.HandleRefused, "the database %q cannot be used: no policy says where it is", name).
			WithHint("add url: \"sqlite:PATH\" to databases.%s in the policy", name)
	}
	return databases[i], nil
}

// open connects to a database in a file. The caller must call stop.
func open(ctx context.Context, d policy.Database, write bool) (s *session, stop func(), err error) {
	s = &session{limits: d}
	was, err := s.regular()
	if err != nil {
		return nil, nil, err
	}
	limit := s.limits.Timeout
	if limit == 0 {
		limit = DefaultTimeout
	}
	var cancel context.CancelFunc
	s.ctx, cancel = context.WithTimeoutCause(ctx, limit, fault.New(fault.ToolTimeout, "the statement's time limit of %s was reached", limit))
	stop = func() {
		if s.conn != nil {
			_ = s.conn.Close()
		}
		if s.db != nil {
			_ = s.db.Close()
		}
		cancel()
	}
	if err = s.connect(write); err == nil {
		err = s.same(was)
	}
	if err != nil {
		stop()
		return nil, nil, err
	}
	return s, stop, nil
}

// regular refuses a file that is reached through a link: another process could point
// the link at a database that no policy names.
func (s *session) regular() (os.FileInfo, error) {
	real, err := filepath.EvalSymlinks(s.limits.File)
	if err != nil {
		return nil, fault.Wrap(fault.NotFound, err, "the file of the database %q does not exist", s.limits.Name)
	}
	info, err := os.Lstat(real)
	if err != nil || real != s.limits.File || !info.Mode().IsRegular() {
		return nil, fault.Wrap(fault.HandleRefused, err, "the file of the database %q is not a regular file without links on the way to it", s.limits.Name)
	}
	return info, nil
}

// same refuses a file that was replaced while it was opened.
func (s *session) same(was os.FileInfo) error {
	is, err := s.regular()
	if err == nil && !os.SameFile(was, is) {
		err = fault.New(fault.HandleRefused, "the file of the database %q was replaced while it was opened", s.limits.Name)
	}
	return err
}

// connect opens the file, hardened as SQLite advises for statements of strangers.
func (s *session) connect(write bool) error {
	mode, only := "rw", "0"
	if !write {
		mode, only = "ro", "1"
	}
	dsn := (&url.URL{Scheme: "file", Path: s.limits.File}).String() + "?mode=" + mode + "&_query_only=" + only +
		"&_defensive=1&_dqs=0&_busy_timeout=5000&_foreign_keys=1&_pragma=trusted_schema(0)&_pragma=cell_size_check(1)&_pragma=mmap_size(0)" +
		"&_pragma=temp_store(2)" // in memory: SQLITE_TMPDIR and TMPDIR choose the folder of temporary files
	var err error
	if s.db, err = sql.Open("sqlite", dsn); err != nil {
		return s.failed(err)
	}
	if s.conn, err = s.db.Conn(s.ctx); err != nil {
		return s.failed(err)
	}
	for id, most := range map[int]int{
		sqlite3.SQLITE_LIMIT_LENGTH: maxValue, sqlite3.SQLITE_LIMIT_SQL_LENGTH: maxStatement, sqlite3.SQLITE_LIMIT_ATTACHED: 0,
		sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 200, sqlite3.SQLITE_LIMIT_COMPOUND_SELECT: 50, sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 1000,
		sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER: 1000, sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH: 20, sqlite3.SQLITE_LIMIT_WORKER_THREADS: 0,
	} {
		if _, err = sqlite.Limit(s.conn, id, most); err != nil {
			return s.failed(err)
		}
	}
	s.tables, s.modules, s.computed = map[string]string{}, map[string]bool{}, map[string]bool{}
	err = s.each(`SELECT name, type FROM pragma_table_list WHERE schema = 'main' LIMIT ?`, func(name, kind string) { s.tables[strings.ToLower(name)] = kind }, maxTables)
	if err == nil {
		err = s.each(`SELECT t.name, c.name FROM pragma_table_list AS t, pragma_table_xinfo(t.name) AS c WHERE t.schema = 'main' AND t.type = 'table' AND c.hidden > 1 LIMIT ?`,
			func(table, column string) { s.computed[strings.ToLower(table+"."+column)] = true }, maxTables)
	}
	if err == nil {
		err = s.each(`SELECT name, '' FROM pragma_module_list`, func(name, _ string) { s.modules[strings.ToLower(name)] = true })
	}
	return err
}

// each calls f with the two texts of each row of a query of Remit's own.
func (s *session) each(query string, f func(a, b string), args ...any) error {
	rows, err := s.conn.QueryContext(s.ctx, query, args...)
	if err != nil {
		return s.failed(err)
	}
	defer func() { _ = rows.Close() }() // its error is that of rows.Err
	for rows.Next() {
		var a, b string
		if err := rows.Scan(&a, &b); err != nil {
			return s.failed(err)
		}
		f(a, b)
	}
	if err := rows.Err(); err != nil {
		return s.failed(err)
	}
	return nil
}

// authorize sets the function that decides the objects of later statements; nil: none are decided.
func (s *session) authorize(f sqlite.AuthorizerFn) error {
	err := s.conn.Raw(func(c any) error {
		r, ok := c.(sqlite.AuthorizerRegisterer)
		if !ok {
			return errors.New("the driver has no authorizer")
		}
		return r.RegisterAuthorizer(f)
	})
	if err != nil {
		return fault.Wrap(fault.ToolFailed, err, "the database %q cannot be used", s.limits.Name)
	}
	return nil
}

// failed is the error of a statement. SQLite's texts name parts of the statement and of
// the schema, never the file.
func (s *session) failed(err error) error {
	var coded *fault.Error
	if cause := context.Cause(s.ctx); cause != nil && errors.As(cause, &coded) {
		return coded
	}
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return fault.Wrap(fault.ToolFailed, err, "the database %q cannot be used", s.limits.Name)
	}
	switch e.Code() & 0xff {
	case sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_PERM:
		return fault.Wrap(fault.ToolFailed, err, "the database %q cannot be used: its file cannot be opened, or is not a database", s.limits.Name)
	}
	return fault.Wrap(fault.ToolFailed, err, "the database %q refused the statement: %s", s.limits.Name, visible(e.Error()))
}

// visible shortens a text of the database and shows its control characters.
func visible(text string) string {
	quoted := fmt.Sprintf("%+q", clip.Text(text, 300))
	return strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`)
}

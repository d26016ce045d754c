package database

import (
	"context"
	"crypto/tls"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
)

// mariaReceived is the maximum number of bytes received from a server in one call.
const mariaReceived = 64 << 20

// mariaSession is one connection to MariaDB for one call, in a transaction.
type mariaSession struct {
	session
	own string // the database of the URL, as the server writes it
}

// isMaria reports whether a URL is one of MariaDB.
func isMaria(text string) bool {
	return strings.HasPrefix(text, "mariadb://") || strings.HasPrefix(text, "mysql://")
}

// openMaria connects to a database of MariaDB and begins a transaction. The caller must call
// stop, which rolls back an open transaction.
func openMaria(ctx context.Context, d policy.Database, at string, c connector, write bool) (s *mariaSession, stop func(), err error) {
	s = &mariaSession{session: session{limits: d}}
	config, err := s.config(at, discreet(d, c.check))
	if err != nil {
		return nil, nil, err
	}
	link, err := mysql.NewConnector(config)
	if err != nil {
		return nil, nil, s.wrong("it is not one of MariaDB")
	}
	limit := d.Timeout
	if limit == 0 {
		limit = DefaultTimeout
	}
	var cancel context.CancelFunc
	s.ctx, cancel = context.WithTimeoutCause(ctx, limit, fault.New(fault.ToolTimeout, "the statement's time limit of %s was reached", limit))
	s.db = sql.OpenDB(link)
	stop = func() {
		cancel() // ends a read of the connection
		if s.conn != nil {
			_ = s.conn.Close()
		}
		_ = s.db.Close() // the server ends the transaction in any case
	}
	if s.conn, err = s.db.Conn(s.ctx); err != nil {
		stop()
		return nil, nil, s.unreachable(err)
	}
	if err = s.begin(limit, write); err != nil {
		stop()
		return nil, nil, err
	}
	return s, stop, nil
}

// begin begins the transaction, with all that a statement's meaning depends on, and makes
// sure that the server has understood it.
func (s *mariaSession) begin(limit time.Duration, write bool) error {
	const modes = "STRICT_TRANS_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION"
	rows, err := s.texts("SELECT VERSION(), COALESCE(DATABASE(), '')")
	if err != nil {
		return err
	}
	major, minor := 0, 0
	_, err = fmt.Sscanf(rows[0][0], "%d.%d.", &major, &minor)
	if s.own = rows[0][1]; err != nil || !strings.Contains(rows[0][0], "MariaDB") || major < 10 || major == 10 && minor < 6 {
		return fault.New(fault.HandleRefused, "the database %q cannot be used: its server is not MariaDB 10.6 or later", s.limits.Name).WithHint("for MySQL, use an MCP server")
	}
	if mariaSystem()[fold(s.own)] {
		return fault.New(fault.HandleRefused, "the database %q cannot be used: it is one of the server's own", s.limits.Name)
	}
	mode, rowLimit := "READ ONLY", strconv.Itoa(most(s.limits)+1)
	if write {
		mode, rowLimit = "READ WRITE", "DEFAULT"
	}
	seconds := strconv.FormatInt(int64(limit/time.Second)+1, 10)
	for _, line := range []string{
		"SET SESSION sql_mode = '" + modes + "', character_set_client = utf8mb4, character_set_connection = utf8mb4, character_set_results = utf8mb4, " +
			"max_statement_time = " + strconv.FormatFloat(limit.Seconds(), 'f', 3, 64) + ", lock_wait_timeout = " + seconds + ", innodb_lock_wait_timeout = " + seconds +
			", sql_select_limit = " + rowLimit + ", foreign_key_checks = 1, unique_checks = 1, check_constraint_checks = 1, sql_quote_show_create = 1, group_concat_max_len = 1048576",
		"START TRANSACTION " + mode,
	} {
		if _, err := s.conn.ExecContext(s.ctx, line); err != nil {
			return s.failed(err, false)
		}
	}
	rows, err = s.texts("SELECT @@sql_mode, @@character_set_client, @@character_set_connection")
	if err == nil && strings.Join(rows[0], " ") != modes+" utf8mb4 utf8mb4" {
		err = fault.New(fault.ToolFailed, "the database %q cannot be used: its server does not accept the settings of a session", s.limits.Name)
	}
	return err
}

func (s *mariaSession) wrong(why string) error { // the URL may have a password
	return fault.New(fault.HandleRefused, "the URL of the database %q cannot be used: %s", s.limits.Name, why).WithHint("write it as mariadb://USER@HOST:PORT/NAME")
}

// config reads a URL.
func (s *mariaSession) config(text string, check func(tool.Action) error) (*mysql.Config, error) {
	u, err := url.Parse(strings.TrimSpace(text))
	if err != nil || u.Opaque != "" || u.Fragment != "" {
		return nil, s.wrong("it is not one of MariaDB")
	}
	q := u.Query()
	for k := range q {
		if k != "socket" && k != "sslmode" || len(q[k]) != 1 {
			return nil, s.wrong("it may have the parameters socket and sslmode only, once each")
		}
	}
	port := uint64(3306)
	if p := u.Port(); p != "" {
		if port, err = strconv.ParseUint(p, 10, 16); err != nil || port == 0 {
			return nil, s.wrong("its port is not a number from 1 to 65535")
		}
	}
	host, socket, user, name := u.Hostname(), q.Get("socket"), u.User.Username(), strings.TrimPrefix(u.Path, "/")
	switch {
	case socket != "" && (host != "" || !strings.HasPrefix(socket, "/")):
		return nil, s.wrong("socket is the absolute path of a socket, and stands beside no host")
	case host == "" && socket == "" || user == "" || name == "":
		return nil, s.wrong("it lacks the user, the host or the name of the database")
	case s.limits.Role != "":
		return nil, s.wrong("a role is for PostgreSQL; give the account of the URL only the rights that it needs")
	}
	to := tool.Target{Scheme: "tcp", Host: strings.ToLower(host), Port: uint16(port)}
	if socket != "" {
		to = tool.Target{Scheme: "unix", Path: socket}
	}
	out := mysql.NewConfig()
	out.User, out.DBName, out.Net, out.Addr, out.Collation = user, name, "tcp", net.JoinHostPort(host, strconv.FormatUint(port, 10)), "utf8mb4_general_ci"
	out.Passwd, _ = u.User.Password()
	out.Logger = &mysql.NopLogger{}
	out.AllowAllFiles, out.AllowCleartextPasswords, out.AllowFallbackToPlaintext, out.MultiStatements, out.InterpolateParams = false, false, false, false, false
	if out.TLS, err = secured(host, socket != "", q.Get("sslmode")); err != nil {
		return nil, s.wrong(err.Error())
	}
	out.DialFunc = func(ctx context.Context, _, _ string) (net.Conn, error) {
		conn, err := dial(ctx, to, check)
		if err != nil {
			return nil, err
		}
		return &boundedConn{conn, mariaReceived}, nil
	}
	return out, nil
}

// secured returns how a connection is encrypted: with a server that proves its name, if the
// URL does not say otherwise. It is nil for a socket of this machine.
func secured(host string, socket bool, mode string) (*tls.Config, error) {
	switch {
	case socket || mode == "disable":
		return nil, nil
	case mode == "" || mode == "verify-full":
		return &tls.Config{ServerName: host, MinVersion: tls.VersionTLS12}, nil
	case mode == "require":
		return &tls.Config{ServerName: host, MinVersion: tls.VersionTLS12, InsecureSkipVerify: true}, nil //nolint:gosec // what the operator wrote
	}
	return nil, errors.New("sslmode is verify-full, require or disable")
}

// boundedConn ends a connection that received too much.
type boundedConn struct {
	net.Conn
	left int
}

func (c *boundedConn) Read(p []byte) (int, error) {
	if c.left <= 0 {
		return 0, fmt.Errorf("the server sent more than %d bytes: %w", mariaReceived, io.ErrShortBuffer)
	}
	n, err := c.Conn.Read(p[:min(len(p), c.left)])
	c.left -= n
	return n, err
}

// unreachable is the error of connecting. The driver's text is left out: it names the user
// and the server, which a stored URL keeps secret.
func (s *mariaSession) unreachable(err error) error {
	var coded *fault.Error
	if errors.As(err, &coded) && fault.CodeOf(coded) == fault.HandleRefused {
		return coded
	}
	if cause := context.Cause(s.ctx); cause != nil && errors.As(cause, &coded) {
		return coded
	}
	var e *mysql.MySQLError
	why := "its server does not answer, or not with a certificate that proves its name"
	if errors.As(err, &e) {
		why = "its server refuses the connection (error " + strconv.Itoa(int(e.Number)) + ")"
	}
	return fault.New(fault.ToolFailed, "the database %q cannot be used: %s", s.limits.Name, why)
}

// mariaErrors are errors of statements that ran. MariaDB's own text may have values of rows.
var mariaErrors = map[uint16]string{
	1048: "a column without a default must not be null", 1062: "there is a row with that key", 1205: "a lock was not free in time", 1213: "a deadlock with another transaction",
	1242: "a subquery returned more than one row", 1264: "a number is out of range", 1292: "a value is not of its column's type", 1364: "a column has no default",
	1365: "a division by zero", 1366: "a value is not of its column's type", 1406: "a value is too long for its column", 1451: "other rows refer to the row",
	1452: "the row refers to one that does not exist", 1690: "a number is out of range", 4025: "a constraint forbids the row",
}

// failed is the error of a statement. MariaDB's text is shown while nothing has run.
func (s *mariaSession) failed(err error, ran bool) error {
	var coded *fault.Error
	if errors.As(err, &coded) {
		return coded
	}
	if cause := context.Cause(s.ctx); cause != nil && errors.As(cause, &coded) {
		return coded
	}
	var e *mysql.MySQLError
	switch {
	case !errors.As(err, &e):
		return fault.New(fault.ToolFailed, "the database %q cannot be used: the connection was lost, or the values are too large", s.limits.Name)
	case e.Number == 1969 || e.Number == 3024 || e.Number == 1317:
		return fault.New(fault.ToolTimeout, "the statement's time limit was reached")
	case !ran:
		return fault.New(fault.ToolFailed, "the database %q refused the statement: %s", s.limits.Name, visible(e.Message))
	}
	why := mariaErrors[e.Number]
	if why == "" {
		why = "error " + strconv.Itoa(int(e.Number))
	}
	return fault.New(fault.ToolFailed, "the database %q refused the statement: %s", s.limits.Name, why)
}

// texts runs a query of Remit's own. Its rows are bounded by the server's catalogue alone.
func (s *mariaSession) texts(query string, params ...any) (out [][]string, err error) {
	rows, err := s.conn.QueryContext(s.ctx, query, params...)
	if err != nil {
		return nil, s.failed(err, false)
	}
	defer func() { _ = rows.Close() }() // its error is that of rows.Err
	columns, err := rows.Columns()
	if err != nil {
		return nil, s.failed(err, false)
	}
	for rows.Next() {
		row := make([]string, len(columns))
		into := make([]any, len(columns))
		for i := range row {
			into[i] = &row[i]
		}
		if err := rows.Scan(into...); err != nil {
			return nil, s.failed(err, false)
		}
		out = append(out, row)
	}
	if err := rows.Err(); err != nil {
		return nil, s.failed(err, false)
	}
	return out, nil
}

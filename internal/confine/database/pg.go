package database

import (
	"context"
	"errors"
	"maps"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/confine/network"
)

// pgMessage bounds one message of the server: a row, or a printed tree.
const pgMessage = 16 << 20

// pgSession is one connection to PostgreSQL for one call, in a transaction.
type pgSession struct {
	ctx     context.Context
	conn    *pgconn.PgConn
	limits  policy.Database
	write   bool
	notices []*pgconn.Notice
}

// A connector has the other inputs of a session: the values of secrets, and the decision about
// connections to the server.
type connector struct {
	secret func(key string) (string, bool)
	check  func(tool.Action) error
}

// url returns the URL of a database's server.
func (c connector) url(d policy.Database) (string, error) {
	key, stored := d.SecretKey()
	if !stored {
		return d.Server, nil
	}
	if c.secret != nil {
		if text, _ := c.secret(key); text != "" {
			return strings.TrimSpace(text), nil
		}
	}
	name, _ := policy.Stored(key)
	return "", fault.Wrap(fault.HandleRefused, fault.NotFound, "the secret %q, which is the URL of the database %q, is not in the store", name, d.Name).ForOperator("set it with remit secret set %s", name)
}

// openServer connects to a database of PostgreSQL and begins a transaction. The caller must
// call stop, which rolls back an open transaction.
func openServer(ctx context.Context, d policy.Database, text string, c connector, write bool) (s *pgSession, stop func(), err error) {
	s = &pgSession{limits: d, write: write}
	config, err := s.config(text, discreet(d, c.check))
	if err != nil {
		return nil, nil, err
	}
	limit := d.Timeout
	if limit == 0 {
		limit = DefaultTimeout
	}
	var cancel context.CancelFunc
	s.ctx, cancel = context.WithTimeoutCause(ctx, limit, fault.New(fault.ToolTimeout, "the statement's time limit of %s was reached", limit))
	stop = func() {
		if s.conn != nil {
			end, done := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
			_ = s.conn.Close(end) // the server ends the transaction in any case
			done()
		}
		cancel()
	}
	if s.conn, err = pgconn.ConnectConfig(s.ctx, config); err != nil {
		stop()
		return nil, nil, s.unreachable(err)
	}
	if err = s.begin(limit, write); err != nil {
		stop()
		return nil, nil, err
	}
	return s, stop, nil
}

// begin begins the transaction, with all that a statement's meaning depends on.
func (s *pgSession) begin(limit time.Duration, write bool) error {
	mode := "READ ONLY"
	if write {
		mode = "READ WRITE"
	}
	ms := strconv.FormatInt(limit.Milliseconds(), 10)
	lines := []string{
		"BEGIN ISOLATION LEVEL READ COMMITTED " + mode, "SET LOCAL search_path = pg_catalog, public, pg_temp",
		"SET LOCAL statement_timeout = " + ms, "SET LOCAL lock_timeout = " + ms, "SET LOCAL idle_in_transaction_session_timeout = " + ms,
		"SET LOCAL standard_conforming_strings = on", "SET LOCAL row_security = on", "SET LOCAL DateStyle = 'ISO, YMD'", "SET LOCAL IntervalStyle = 'postgres'",
		"SET LOCAL bytea_output = hex", "SET LOCAL extra_float_digits = 1", "SET LOCAL check_function_bodies = on", "SET LOCAL debug_pretty_print = off",
		"SET LOCAL debug_print_parse = off", "SET LOCAL debug_print_rewritten = off", "SET LOCAL debug_print_plan = off",
		"SET LOCAL jit = off", // compiling Remit's own queries takes longer than they run
	}
	if s.limits.Role != "" {
		lines = append(lines, `SET LOCAL ROLE "`+s.limits.Role+`"`) // its form is checked
	}
	_, err := s.conn.Exec(s.ctx, strings.Join(lines, ";")).ReadAll()
	return s.failed(err)
}

// driverSettings replaces the defaults that the driver reads from variables of the environment
// and from files in the home folder.
const driverSettings = "host=127.0.0.1 port=1 user=x password=x dbname=x passfile='' sslmode=disable sslkey='' sslcert='' sslcertmode=allow sslsni=1 sslrootcert='' " +
	"sslpassword='' sslnegotiation='' application_name='' options='' timezone='' target_session_attrs=any connect_timeout=0 min_protocol_version=3.0 " +
	"max_protocol_version=3.0 channel_binding=prefer require_auth='' krbsrvname='' krbspn=''"

// driverConfig returns the driver's configuration, independent of the environment.
var driverConfig = sync.OnceValues(readDriverConfig)

// readDriverConfig names an empty service, since the driver has no other way to ignore PGSERVICE.
func readDriverConfig() (out *pgconn.Config, err error) {
	f, err := os.CreateTemp("", "remit-pg-*")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.Remove(f.Name()) }() // it says nothing
	if _, err = f.WriteString("[remit]\n"); err == nil {
		out, err = pgconn.ParseConfig(driverSettings + " service=remit servicefile='" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(f.Name()) + "'")
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	out.RuntimeParams, out.Fallbacks, out.ValidateConnect, out.AfterConnect, out.TLSConfig = nil, nil, nil, nil, nil
	return out, nil
}

// config reads a URL. Nothing is taken from the environment or from files of other programs.
func (s *pgSession) config(text string, check func(tool.Action) error) (*pgconn.Config, error) {
	wrong := func(why string) error { // the URL may have a password
		return fault.New(fault.HandleRefused, "the URL of the database %q cannot be used: %s", s.limits.Name, why).WithHint("write it as postgres://USER@HOST:PORT/NAME")
	}
	u, err := url.Parse(strings.TrimSpace(text))
	if err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql" || u.Opaque != "" || u.Fragment != "" {
		return nil, wrong("it is not one of PostgreSQL")
	}
	q := u.Query()
	for k := range q {
		if k != "host" && k != "sslmode" || len(q[k]) != 1 {
			return nil, wrong("it may have the parameters host and sslmode only, once each")
		}
	}
	port := uint64(5432)
	if p := u.Port(); p != "" {
		if port, err = strconv.ParseUint(p, 10, 16); err != nil || port == 0 {
			return nil, wrong("its port is not a number from 1 to 65535")
		}
	}
	host, user, name := u.Hostname(), u.User.Username(), strings.TrimPrefix(u.Path, "/")
	if q.Get("host") != "" {
		if host != "" || !strings.HasPrefix(q.Get("host"), "/") {
			return nil, wrong("host stands for the folder of a socket, and beside no other host")
		}
		host = q.Get("host")
	}
	if host == "" || user == "" || name == "" {
		return nil, wrong("it lacks the user, the host or the name of the database")
	}
	base, err := driverConfig()
	if err != nil {
		return nil, fault.Wrap(fault.HandleRefused, err, "the driver of PostgreSQL cannot be configured: the folder for temporary files cannot be written")
	}
	out := base.Copy()
	out.Host, out.Port, out.User, out.Database = host, uint16(port), user, name
	out.Password, _ = u.User.Password()
	out.RuntimeParams = map[string]string{"application_name": "remit", "client_encoding": "UTF8"}
	out.MaxProtocolMessageBodyLen = pgMessage
	out.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) {
		if len(s.notices) < 8 {
			s.notices = append(s.notices, n)
		}
	}
	if out.TLSConfig, err = secured(host, strings.HasPrefix(host, "/"), q.Get("sslmode")); err != nil {
		return nil, wrong(err.Error())
	}
	to := tool.Target{Scheme: "tcp", Host: strings.ToLower(host), Port: uint16(port)}
	if strings.HasPrefix(host, "/") {
		to = tool.Target{Scheme: "unix", Path: host + "/.s.PGSQL." + strconv.FormatUint(port, 10)}
	}
	out.LookupFunc = func(_ context.Context, host string) ([]string, error) { return []string{host}, nil }
	out.DialFunc = func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx, to, check) }
	return out, nil
}

// dial connects to the server if that is allowed: to an address that was decided on, or to
// a socket.
func dial(ctx context.Context, to tool.Target, check func(tool.Action) error) (net.Conn, error) {
	a := tool.Action{Kind: tool.Network, Target: to}
	if err := check(a); err != nil { // a name that is not allowed is not looked up
		return nil, err
	}
	if to.Scheme == "unix" {
		return network.DialSocket(ctx, to.Path)
	}
	addrs, err := network.Resolve(ctx, a.Target.Host)
	if err != nil {
		return nil, err
	}
	a.Addrs = addrs
	if err := check(a); err != nil {
		return nil, err
	}
	return network.DialChecked(ctx, network.DialTCP, addrs, to.Port)
}

// discreet returns check with an error that does not name the server, if the URL is a
// stored secret. Hints for operators can reach logs, so they do not name it either.
func discreet(d policy.Database, check func(tool.Action) error) func(tool.Action) error {
	if _, stored := d.SecretKey(); !stored {
		return check
	}
	return func(a tool.Action) error {
		if check(a) == nil {
			return nil
		}
		return fault.New(fault.HandleRefused, "the connection to the database %q is not allowed by network", d.Name).
			ForOperator("allow the server of its stored URL in the section network of the policy")
	}
}

// unreachable is the error of connecting. The driver's text is left out: it names the user
// and the server, which a stored URL keeps secret.
func (s *pgSession) unreachable(err error) error {
	var coded *fault.Error
	if errors.As(err, &coded) && fault.CodeOf(coded) == fault.HandleRefused {
		return coded
	}
	var pg *pgconn.PgError
	why := "its server does not answer, or not with a certificate that proves its name"
	if errors.As(err, &pg) {
		why = "its server refuses the connection (" + visible(pg.Code) + ")"
	}
	if cause := context.Cause(s.ctx); cause != nil && errors.As(cause, &coded) {
		return coded
	}
	return fault.New(fault.ToolFailed, "the database %q cannot be used: %s", s.limits.Name, why)
}

// failed is the error of a statement. PostgreSQL's message is shown without its detail,
// which may have values of rows.
func (s *pgSession) failed(err error) error {
	if err == nil {
		return nil
	}
	var coded *fault.Error
	if errors.As(err, &coded) {
		return coded
	}
	var pg *pgconn.PgError
	if cause := context.Cause(s.ctx); cause != nil && errors.As(cause, &coded) {
		return coded
	}
	if !errors.As(err, &pg) {
		return fault.New(fault.ToolFailed, "the database %q cannot be used: the connection was lost, or a value is too large", s.limits.Name)
	}
	switch pg.Code {
	case "57014", "55P03":
		return fault.New(fault.ToolTimeout, "the statement's time limit was reached")
	}
	return fault.New(fault.ToolFailed, "the database %q refused the statement: %s", s.limits.Name, visible(pg.Message))
}

// texts runs a query of Remit's own, whose parameters are texts.
func (s *pgSession) texts(query string, params ...string) ([][]string, error) {
	values := make([][]byte, len(params))
	for i, p := range params {
		values[i] = []byte(p)
	}
	res := s.conn.ExecParams(s.ctx, query, values, nil, nil, nil).Read()
	if res.Err != nil {
		return nil, s.failed(res.Err)
	}
	out := make([][]string, len(res.Rows))
	for i, r := range res.Rows {
		for _, v := range r {
			out[i] = append(out[i], string(v))
		}
	}
	return out, nil
}

// list prints OIDs as an array of PostgreSQL.
func list(m map[uint32]bool) string {
	var out []string
	for _, v := range slices.Sorted(maps.Keys(m)) {
		out = append(out, strconv.FormatUint(uint64(v), 10))
	}
	return "{" + strings.Join(out, ",") + "}"
}

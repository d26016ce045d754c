package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/remitrun/remit/internal/base/fault"
)

// atStart are the parameters that a connection can begin with also through a pooler. "options" is
// the person's own, and a pooler says if it does not take it.
var atStart = []string{"application_name", "client_encoding", "options"}

// settingLate returns a configuration that sets the parameters of a session once it is connected.
// PgBouncer refuses them at the beginning, or drops them. Also target_session_attrs is judged
// before: a session that only reads would look like a standby.
func settingLate(c *pgx.ConnConfig) *pgx.ConnConfig {
	c = c.Copy()
	var calls []string
	var args [][]byte
	for name, value := range c.RuntimeParams {
		if slices.Contains(atStart, name) {
			continue
		}
		calls = append(calls, fmt.Sprintf("set_config($%d, $%d, false)", len(args)+1, len(args)+2))
		args = append(args, []byte(name), []byte(value))
		delete(c.RuntimeParams, name)
	}
	if len(calls) > 0 {
		c.AfterConnect = func(ctx context.Context, conn *pgconn.PgConn) error {
			_, err := conn.ExecParams(ctx, "SELECT "+strings.Join(calls, ", "), args, nil, nil, nil).Close()
			return err
		}
	}
	return c
}

// dial opens one connection. It refuses a pooler that gives a server's session to several
// clients in turn: settings, locks and prepared statements belong to a session.
func (s *Store) dial(ctx context.Context, c *pgx.ConnConfig) (*pgx.Conn, error) {
	c = settingLate(c)
	conn, err := pgx.ConnectConfig(ctx, c)
	if err != nil {
		return nil, err
	}
	if err := s.checkPooler(ctx, conn, c); err != nil {
		_ = conn.Close(context.WithoutCancel(ctx)) // the error is more important
		return nil, err
	}
	return conn, nil
}

// poolerTime is how long a pooler may take for the connection that checkPooler needs.
const poolerTime = 10 * time.Second

// checkPooler compares the server's process with the one that the connection began with: a pooler
// names one of its own. Two transactions at the same time must then be in two processes, which stay
// the same. A pooler gives out either the process that became free last or the one that became free
// first, so the transactions end in both orders. Other clients can hide one round, but hardly all.
func (s *Store) checkPooler(ctx context.Context, first *pgx.Conn, c *pgx.ConnConfig) error {
	was, err := backend(ctx, first)
	if err != nil || was == first.PgConn().PID() {
		return err
	}
	ctx, stop := context.WithTimeout(ctx, poolerTime)
	defer stop()
	second, err := pgx.ConnectConfig(ctx, c)
	if err != nil {
		return s.poolerError(err)
	}
	defer second.Close(context.WithoutCancel(ctx)) //nolint:errcheck // nothing is left to be done
	outer, inner := first, second
	for range poolerRounds {
		var of, in uint32
		err := pgx.BeginFunc(ctx, outer, func(tx pgx.Tx) error {
			err := pgx.BeginFunc(ctx, inner, func(tx pgx.Tx) (err error) {
				in, err = backend(ctx, tx)
				return err
			})
			if err == nil {
				of, err = backend(ctx, tx)
			}
			return err
		})
		if err != nil {
			return s.poolerError(err)
		}
		if outer == second {
			of, in = in, of
		}
		if in == was || of != was {
			return s.poolerError(nil)
		}
		outer, inner = inner, outer
	}
	return nil
}

// poolerRounds is even, so that both orders are tried as often.
const poolerRounds = 12

// backend returns the server's process that answers.
func backend(ctx context.Context, c interface {
	QueryRow(ctx context.Context, query string, args ...any) pgx.Row
}) (pid uint32, err error) {
	err = c.QueryRow(ctx, "SELECT pg_backend_pid()", pgx.QueryExecModeExec).Scan(&pid)
	return pid, err
}

// poolerError says that a pooler cannot be used; err: why its second connection cannot be.
func (s *Store) poolerError(err error) error {
	hint := "set pool_mode = session for this database in the pooler, or name the server itself in the URL"
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return fault.Wrap(fault.StoreFailed, err, "the pooler %q gave no second connection within %s", s.name, poolerTime).
			WithHint("let it have at least 16 connections for each process of Remit (default_pool_size), or name the server itself in the URL")
	case err != nil:
		return fault.Wrap(fault.StoreFailed, err, "the pooler %q cannot be used: %s", s.name, strings.ToValidUTF8(err.Error(), "?")).WithHint("%s", hint)
	}
	return fault.New(fault.StoreFailed, "the pooler %q gives each transaction another session of the server; the ledger needs sessions of its own", s.name).WithHint("%s", hint)
}

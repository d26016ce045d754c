package postgres

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/store"
)

var _ store.Turns = (*Store)(nil)

const (
	// me is this node, until another one removes it. A removal waits for the statement's end.
	me = "me AS MATERIALIZED (SELECT id FROM members WHERE id = $1 FOR KEY SHARE)"

	takeTurn = "WITH " + me + ` INSERT INTO turns AS t(session, node, epoch, request, caller) SELECT $2, id, nextval('turn_epochs'), 0, $3 FROM me
ON CONFLICT (session) DO UPDATE SET node = excluded.node, epoch = excluded.epoch, request = 0, caller = excluded.caller
WHERE t.node = excluded.node OR NOT EXISTS (SELECT FROM members m WHERE m.id = t.node) RETURNING epoch`

	selectTurn    = "SELECT m.name FROM turns t JOIN members m ON m.id = t.node WHERE t.session = $1"
	heldElsewhere = "SELECT EXISTS (SELECT FROM turns t JOIN members m ON m.id = t.node WHERE t.session = $1 AND t.node <> $2)"
	endTurn       = "DELETE FROM turns WHERE session = $1 AND node = $2 AND epoch = $3"
	leaveTurn     = "UPDATE turns SET request = $4 WHERE session = $1 AND node = $2 AND epoch = $3"
	askTurn       = `UPDATE turns t SET request = CASE WHEN request = 4 AND $3::bigint > 1 THEN request ELSE $3 END FROM members m WHERE t.session = $1 AND t.node <> $2 AND m.id = t.node`
	answerTurn    = "UPDATE turns SET request = 0 WHERE session = $1 AND epoch = $2 AND request = $3"
	askedTurns    = "SELECT session, epoch, request, caller FROM turns WHERE node = $1 AND request <> 0"
	lostTurns     = `SELECT EXISTS (SELECT FROM turns t WHERE NOT EXISTS (SELECT FROM members m WHERE m.id = t.node AND m.lease_until > clock_timestamp()))`

	// adoptTurns locks the rows in one order, so that one node gets all turns of a dead one:
	// sub-agents go on beside their parents.
	adoptTurns = "WITH " + me + `, lost AS MATERIALIZED (SELECT session FROM turns t WHERE NOT EXISTS (SELECT FROM members m WHERE m.id = t.node) ORDER BY session FOR UPDATE)
UPDATE turns t SET node = me.id, epoch = nextval('turn_epochs'), request = 4 FROM me, lost WHERE t.session = lost.session`
)

// turnTimeout is how long a statement about turns may take.
const turnTimeout = 5 * time.Second

// turnsDo carries out statements about turns, again if the connection was lost. They may
// all be repeated.
func (s *Store) turnsDo(ctx context.Context, do func(ctx context.Context) error) error {
	return s.repeat(ctx, "the turns of the nodes cannot be read or changed", do)
}

// repeat carries out statements that may be repeated; failed is the message of an error.
func (s *Store) repeat(ctx context.Context, failed string, do func(ctx context.Context) error) error {
	if s.readOnly {
		return s.ErrReadOnly()
	}
	ctx, stop := context.WithTimeout(ctx, turnTimeout)
	defer stop()
	return s.fault(retry(ctx, func() error { return do(ctx) }), failed)
}

// TakeTurn implements store.Turns.
func (s *Store) TakeTurn(ctx context.Context, session uuid.UUID, caller []byte) (epoch int64, err error) {
	err = s.turnsDo(ctx, func(ctx context.Context) error {
		err := s.durable.QueryRowContext(ctx, takeTurn, s.me(), session[:], s.keys.Hide(string(caller), session)).Scan(&epoch)
		if !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		var by string
		err = s.durable.QueryRowContext(ctx, selectTurn, session[:]).Scan(&by)
		if _, lerr := s.HoldsLease(); lerr != nil {
			return lerr
		}
		if errors.Is(err, sql.ErrNoRows) {
			by, err = "another node", nil // it has just ended the turn
		}
		if err != nil {
			return err
		}
		return fault.New(fault.SessionBusy, "node %q works on the session", by).WithHint("wait until the turn has ended, or cancel it")
	})
	return epoch, err
}

// EndTurn implements store.Turns. A fenced node may have been unable to record how the turn
// ended, so it leaves the turn to the others.
func (s *Store) EndTurn(ctx context.Context, session uuid.UUID, epoch int64) error {
	return s.changeTurn(ctx, endTurn, session, epoch)
}

// LeaveTurn implements store.Turns.
func (s *Store) LeaveTurn(ctx context.Context, session uuid.UUID, epoch int64, r store.TurnRequest) error {
	return s.changeTurn(ctx, leaveTurn, session, epoch, int64(r))
}

func (s *Store) changeTurn(ctx context.Context, statement string, session uuid.UUID, epoch int64, more ...any) error {
	return s.turnsDo(ctx, func(ctx context.Context) error {
		if err := s.stay.Load().endReason(); err != nil {
			return err
		}
		_, err := s.durable.ExecContext(ctx, statement, append([]any{session[:], s.me(), epoch}, more...)...)
		return err
	})
}

// AskTurn implements store.Turns.
func (s *Store) AskTurn(ctx context.Context, session uuid.UUID, r store.TurnRequest) (elsewhere bool, err error) {
	err = s.turnsDo(ctx, func(ctx context.Context) error {
		if r == store.NoRequest {
			return s.durable.QueryRowContext(ctx, heldElsewhere, session[:], s.me()).Scan(&elsewhere)
		}
		done, err := s.durable.ExecContext(ctx, askTurn, session[:], s.me(), int64(r))
		if err != nil {
			return err
		}
		n, err := done.RowsAffected()
		elsewhere = n > 0
		return err
	})
	return elsewhere, err
}

// PollTurns implements store.Turns.
func (s *Store) PollTurns(ctx context.Context) (asked []store.AskedTurn, dead bool, err error) {
	err = s.turnsDo(ctx, func(ctx context.Context) error {
		asked = asked[:0]
		rows, err := s.read.QueryContext(ctx, askedTurns, s.me())
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var a store.AskedTurn
			var session, sealed []byte
			if err := rows.Scan(&session, &a.Epoch, &a.Request, &sealed); err != nil {
				return err
			}
			if a.Session, err = uuid.FromBytes(session); err != nil {
				return err
			}
			if caller, err := s.keys.Reveal(sealed, a.Session); err == nil {
				a.Caller = []byte(caller)
			}
			asked = append(asked, a)
		}
		if err := rows.Err(); err != nil {
			return err
		}
		return s.read.QueryRowContext(ctx, lostTurns).Scan(&dead)
	})
	return asked, dead, err
}

// AnswerTurn implements store.Turns.
func (s *Store) AnswerTurn(ctx context.Context, a store.AskedTurn) error {
	return s.turnsDo(ctx, func(ctx context.Context) error {
		_, err := s.durable.ExecContext(ctx, answerTurn, a.Session[:], a.Epoch, int64(a.Request))
		return err
	})
}

// AdoptTurns implements store.Turns.
func (s *Store) AdoptTurns(ctx context.Context) error {
	return s.turnsDo(ctx, func(ctx context.Context) error {
		_, err := s.durable.ExecContext(ctx, adoptTurns, s.me())
		return err
	})
}

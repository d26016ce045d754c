package postgres

import (
	"context"
	"database/sql"
	"errors"

	"github.com/remitrun/remit/internal/base/fault"
)

// A standby that copies asynchronously lacks the newest commits when it takes the place of
// its server, also commits that Remit has acknowledged. So such a setup is refused when a
// node starts. A server that took another one's place has a new timeline. It is used only
// if the earlier one waited for a standby, and if it has all that this node knows to be
// durable.

// selectServer describes the server: its timeline, whether commits wait for a standby, and
// how many servers copy it. A role without pg_monitor sees them, but not their state. A receiver
// that applies nothing, as pg_receivewal, is an archiver: no failover uses it.
const selectServer = `SELECT pg_is_in_recovery(), CASE WHEN pg_is_in_recovery() THEN '' ELSE substring(pg_walfile_name(pg_current_wal_lsn()) FOR 8) END,
current_setting('synchronous_standby_names') <> '', (SELECT count(*) FROM pg_stat_replication r WHERE coalesce(r.state, '') NOT IN ('backup', 'startup')
AND (r.write_lsn IS NULL OR r.replay_lsn IS NOT NULL)
AND NOT EXISTS (SELECT FROM pg_replication_slots l WHERE l.active_pid = r.pid AND l.slot_type = 'logical'))`

const (
	selectKnown = "SELECT timeline, standby FROM server WHERE id = 1"
	noteServer  = `INSERT INTO server AS s VALUES(1, $1, $2) ON CONFLICT (id) DO UPDATE SET timeline = excluded.timeline, standby = excluded.standby
WHERE (s.timeline, s.standby) <> (excluded.timeline, excluded.standby)`
)

// serverState has the columns of selectServer.
type serverState struct {
	recovering bool
	timeline   string
	waits      bool // commits wait for a standby
	copies     int
}

// readServer asks a pool of connections for the server's state.
func readServer(ctx context.Context, db *sql.DB) (v serverState, err error) {
	err = db.QueryRowContext(ctx, selectServer).Scan(&v.recovering, &v.timeline, &v.waits, &v.copies)
	return v, err
}

// errStandby is the cause of a refusal that may pass: a standby may become the server.
var errStandby = errors.New("the server is a standby")

// checkServer refuses a server on which acknowledged events can be missing, or could be
// after a failover.
func (s *Store) checkServer(ctx context.Context) error {
	v, err := readServer(ctx, s.beats)
	if err != nil {
		return err
	}
	switch {
	case v.recovering:
		return fault.Wrap(fault.StoreReadOnly, errStandby, "the server %q is a standby", s.name).WithHint("name the primary server in the URL; target_session_attrs=read-write finds it among several")
	case v.copies > 0 && !v.waits:
		return fault.New(fault.StoreReadOnly, "the server %q is copied asynchronously: a failover would lose events that were acknowledged", s.name).
			WithHint("set synchronous_standby_names on the server, so that commits wait for a standby; or disconnect its standbys; if it is only a WAL archiver (pg_receivewal), GRANT pg_monitor to this role, which then sees the difference")
	}
	var known string
	var waited bool
	err = s.beats.QueryRowContext(ctx, selectKnown).Scan(&known, &waited)
	switch {
	case errors.Is(err, sql.ErrNoRows):
	case err != nil:
		return err
	case known != v.timeline && !waited:
		return fault.New(fault.StoreReadOnly, "another server took the place of %q (timeline %s after %s), and commits did not wait for a standby: acknowledged events may be missing", s.name, v.timeline, known).
			ForOperator("remit verify --checkpoint FILE, with a checkpoint that was kept elsewhere, says whether any are; then accept the server with remit db accept")
	}
	if _, err := s.beats.ExecContext(ctx, noteServer, v.timeline, v.waits); err != nil {
		return err
	}
	s.timeline, s.waits = v.timeline, v.waits
	return nil
}

// watchServer fences this node if another server took the place of the one that it knows,
// and may lack events. It notes when commits begin or cease to wait for a standby: the note
// is itself such a commit, so a standby that has it has all events before it.
func (s *Store) watchServer(ctx context.Context) {
	ctx, stop := context.WithTimeout(ctx, s.lease/2)
	defer stop()
	v, err := readServer(ctx, s.beats)
	if err != nil {
		return // the lease says how long nothing may be known
	}
	if v.timeline == s.timeline {
		if v.waits != s.waits {
			if _, err := s.beats.ExecContext(ctx, noteServer, v.timeline, v.waits); err == nil {
				s.waits = v.waits
			}
		}
		return
	}
	var refused *fault.Error
	if err = s.checkServer(ctx); err == nil {
		_, err = database{s}.settle(ctx) // compares the durable part
	}
	if errors.As(err, &refused) {
		s.endFor(s.stay.Load(), refused)
	}
}

// Accept takes the server that has the database now for the one of the ledger, although
// acknowledged events may be missing.
func Accept(ctx context.Context, url string) error {
	s, err := newStore(Options{Home: "/", URL: url})
	if err != nil {
		return err
	}
	conn, err := s.dial(ctx, s.config)
	if err != nil {
		return s.fault(err, "the database cannot be opened")
	}
	defer func() { _ = conn.Close(ctx) }() // nothing is left to be done
	var v serverState
	if err = conn.QueryRow(ctx, selectServer).Scan(&v.recovering, &v.timeline, &v.waits, &v.copies); err == nil {
		_, err = conn.Exec(ctx, noteServer, v.timeline, v.waits)
	}
	return s.fault(err, "the server cannot be accepted")
}

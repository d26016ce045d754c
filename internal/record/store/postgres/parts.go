package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store/tables"
)

const (
	// eventsAndPayloads is what takes the place of tables.EventsAndPayloads.
	eventsAndPayloads = `(SELECT e.seq, e.run, e.call, e.tag, e.body, coalesce(e.salt, p.salt) AS salt, coalesce(e.data, p.data, d.mark) AS data FROM events e
LEFT JOIN payloads p ON p.part = e.part AND p.seq = e.seq LEFT JOIN dropped d ON d.part = e.part)`

	insertEvent = `WITH p AS (INSERT INTO payloads(part, seq, salt, data) SELECT $8::bigint, $1::bigint, $6::bytea, $7::bytea WHERE $7::bytea IS NOT NULL)
INSERT INTO events(seq, run, call, tag, body, part) VALUES($1, $2, $3, $4, $5, $8)`

	// eraseEvent overwrites a payload where it is.
	eraseEvent = `WITH p AS (UPDATE payloads SET salt = NULL, data = $2::bytea FROM events e WHERE e.seq = $3::bigint AND payloads.part = e.part AND payloads.seq = e.seq)
UPDATE events SET tag = $1, salt = NULL, data = CASE WHEN data IS NOT NULL THEN $2::bytea END WHERE seq = $3`
)

const (
	partsAhead   = 2         // months after the present one that have tables
	partsEvery   = time.Hour // how often a node looks whether they are there
	partLockTime = "100ms"   // how long others wait at most for a lock that is not to be had
	partWait     = 200 * time.Millisecond
	moveAtOnce   = 500 // payloads that one transaction moves
)

// partTable names the table of a part.
func partTable(p tables.Part) string { return "payloads_" + p.String() }

func createPart(p tables.Part) string {
	return fmt.Sprintf("CREATE TABLE IF NOT EXISTS %s PARTITION OF payloads FOR VALUES IN (%d)", partTable(p), p)
}

// makePart makes the table of a part. If payloads of its month are in payloads_other, the
// month's payloads stay there. With tables.ErrPartInUse, others use the tables for long.
func makePart(ctx context.Context, conn *pgx.Conn, p tables.Part) error {
	_, err := conn.Exec(ctx, "BEGIN; SET LOCAL lock_timeout = '"+partLockTime+"'; "+createPart(p)+"; COMMIT") // one message
	if err != nil {
		if _, rerr := conn.Exec(ctx, "ROLLBACK"); rerr != nil {
			return err
		}
	}
	if isCode(err, codeLockTimeout) {
		return tables.ErrPartInUse
	}
	if isCode(err, codeCheckViolation) || isCode(err, codeDuplicateTable) || isCode(err, codeUniqueViolation) { // the last two: another node makes it
		return nil
	}
	return err
}

// makeParts makes the tables of this month's payloads and the next ones'.
func makeParts(ctx context.Context, conn *pgx.Conn, now time.Time) error {
	have, err := readParts(ctx, conn)
	if err != nil {
		return err
	}
	known := map[tables.Part]bool{}
	for _, p := range have {
		known[p] = true
	}
	first := tables.PartFor(tables.RunPayloads, now).Month()
	for n := range partsAhead + 1 {
		for _, c := range []tables.Class{tables.RunPayloads, tables.SessionPayloads} {
			if p := tables.PartFor(c, first.AddDate(0, n, 0)); !known[p] {
				if err := makePart(ctx, conn, p); err != nil && !errors.Is(err, tables.ErrPartInUse) { // it is tried again long before it is needed
					return err
				}
			}
		}
	}
	return nil
}

// selectParts lists the tables of payloads that have a month.
const selectParts = `SELECT relname::text FROM pg_class c JOIN pg_inherits i ON i.inhrelid = c.oid WHERE i.inhparent = 'payloads'::regclass ORDER BY 1`

func readParts(ctx context.Context, conn *pgx.Conn) ([]tables.Part, error) {
	rows, err := conn.Query(ctx, selectParts)
	if err != nil {
		return nil, err
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	return partsOf(names), err
}

func partsOf(names []string) (out []tables.Part) {
	for _, name := range names {
		for _, c := range []tables.Class{tables.RunPayloads, tables.SessionPayloads} {
			at, err := time.Parse("200601", strings.TrimPrefix(name, "payloads_"+c.String()+"_"))
			if p := tables.PartFor(c, at); err == nil && partTable(p) == name {
				out = append(out, p)
			}
		}
	}
	return out
}

// Parts implements tables.Parts.
func (d database) Parts(ctx context.Context) ([]tables.Part, error) {
	var moved bool
	if err := d.read.QueryRowContext(ctx, selectMoved).Scan(&moved); err != nil || !moved { // some payloads are not where they belong
		return nil, err
	}
	rows, err := d.read.QueryContext(ctx, selectParts)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var names []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	return partsOf(names), rows.Err()
}

// LockPart implements tables.Parts. Readers of payloads wait behind this meanwhile, so it does not
// wait for long.
func (d database) LockPart(ctx context.Context, conn *sql.Conn, p tables.Part) (last ledger.Seq, err error) {
	for _, statement := range []string{"SAVEPOINT part", "SET LOCAL lock_timeout = '" + partLockTime + "'", "LOCK TABLE payloads IN ACCESS EXCLUSIVE MODE", "SET LOCAL lock_timeout = '10s'"} {
		if _, err = conn.ExecContext(ctx, statement); err != nil {
			break
		}
	}
	if isCode(err, codeLockTimeout) {
		if _, err := conn.ExecContext(ctx, "ROLLBACK TO part"); err != nil {
			return 0, err
		}
		return 0, tables.ErrPartInUse
	}
	if err == nil {
		err = conn.QueryRowContext(ctx, "SELECT coalesce(max(seq), 0) FROM "+partTable(p)).Scan(&last)
	}
	return last, err
}

// DropPart implements tables.Parts.
func (d database) DropPart(ctx context.Context, conn *sql.Conn, p tables.Part, keep []ledger.Seq, mark []byte) error {
	stay := make([]int64, len(keep))
	for i, seq := range keep {
		stay[i] = int64(seq)
	}
	for _, s := range []struct {
		statement string
		args      []any
	}{
		{"INSERT INTO erasing VALUES(1)", nil},
		{"UPDATE payloads SET part = $3 WHERE part = $1 AND seq = ANY($2)", []any{int64(p), stay, int64(tables.KeptPart)}},
		{"UPDATE events SET part = $3 WHERE part = $1 AND seq = ANY($2)", []any{int64(p), stay, int64(tables.KeptPart)}},
		{"INSERT INTO dropped VALUES($1, $2)", []any{int64(p), mark}},
		{"DROP TABLE " + partTable(p), nil},
		{"DELETE FROM erasing", nil},
	} {
		if _, err := conn.ExecContext(ctx, s.statement, s.args...); err != nil {
			return err
		}
	}
	return nil
}

// movePayloads moves the payloads of an older ledger to their parts, while others use the
// ledger. One process at a time does it. Each transaction moves some, and the next one goes
// on after them, in whatever process.
func movePayloads(ctx context.Context, conn *pgx.Conn) error {
	for {
		parts, err := nextParts(ctx, conn)
		if err != nil || parts == nil {
			return err
		}
		for p := range parts {
			if p == tables.KeptPart {
				continue
			}
			if err := waitForPart(ctx, conn, p); err != nil {
				return err
			}
		}
		if err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error { return moveSome(ctx, tx) }); err != nil {
			return err
		}
	}
}

// waitForPart makes the table of a part, once nobody uses the tables for long.
func waitForPart(ctx context.Context, conn *pgx.Conn, p tables.Part) error {
	for {
		err := makePart(ctx, conn, p)
		if !errors.Is(err, tables.ErrPartInUse) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(partWait):
		}
	}
}

const selectMoved = "SELECT done >= last FROM moving"

const selectUnmoved = "SELECT seq, body FROM events WHERE seq > $1 AND seq <= $2 AND part = 0 AND data IS NOT NULL ORDER BY seq LIMIT $3"

// unmoved reads the next events whose payloads are to be moved.
func unmoved(ctx context.Context, q interface {
	QueryRow(ctx context.Context, query string, args ...any) pgx.Row
	Query(ctx context.Context, query string, args ...any) (pgx.Rows, error)
}, lock string) (seqs, parts []int64, last int64, err error) {
	var done int64
	if err := q.QueryRow(ctx, "SELECT done, last FROM moving WHERE id = 1"+lock).Scan(&done, &last); err != nil || done >= last {
		return nil, nil, last, err
	}
	rows, err := q.Query(ctx, selectUnmoved, done, last, moveAtOnce)
	if err != nil {
		return nil, nil, last, err
	}
	defer rows.Close()
	for rows.Next() {
		var seq int64
		var body []byte
		if err := rows.Scan(&seq, &body); err != nil {
			return nil, nil, last, err
		}
		part := tables.KeptPart // verification names an event that cannot be read
		if e, err := ledger.Decode(body); err == nil && e.Commit != nil {
			part = tables.PartOf(&e)
		}
		seqs, parts = append(seqs, seq), append(parts, int64(part))
	}
	return seqs, parts, last, rows.Err()
}

// nextParts are the parts of the next payloads that are to be moved; nil: all were moved.
func nextParts(ctx context.Context, conn *pgx.Conn) (map[tables.Part]bool, error) {
	var done bool
	if err := conn.QueryRow(ctx, selectMoved).Scan(&done); err != nil || done {
		return nil, err
	}
	_, parts, _, err := unmoved(ctx, conn, "")
	out := map[tables.Part]bool{}
	for _, p := range parts {
		out[tables.Part(p)] = true
	}
	return out, err
}

// moveSome moves the next payloads. Nobody else moves or erases any meanwhile.
func moveSome(ctx context.Context, tx pgx.Tx) error {
	if _, err := tx.Exec(ctx, "INSERT INTO erasing VALUES(1)"); err != nil {
		return err
	}
	seqs, parts, upTo, err := unmoved(ctx, tx, " FOR UPDATE")
	if err != nil {
		return err
	}
	if len(seqs) == moveAtOnce {
		upTo = seqs[len(seqs)-1]
	}
	for _, s := range []struct {
		statement string
		args      []any
	}{
		{"INSERT INTO payloads(part, seq, salt, data) SELECT t.part, e.seq, e.salt, e.data FROM unnest($1::bigint[], $2::bigint[]) AS t(seq, part) JOIN events e ON e.seq = t.seq", []any{seqs, parts}},
		{"UPDATE events e SET part = t.part, salt = NULL, data = NULL FROM unnest($1::bigint[], $2::bigint[]) AS t(seq, part) WHERE e.seq = t.seq", []any{seqs, parts}},
		{"UPDATE moving SET done = $1 WHERE id = 1", []any{upTo}},
		{"DELETE FROM erasing", nil},
	} {
		if _, err := tx.Exec(ctx, s.statement, s.args...); err != nil {
			return err
		}
	}
	return nil
}

// keepParts makes the tables of coming months until ctx ends, and moves what an older ledger left.
// A failed step is tried again later; appending does not depend on it.
func (s *Store) keepParts(ctx context.Context) {
	tick := time.NewTicker(partsEvery)
	defer tick.Stop()
	if s.unmoved {
		_ = s.MovePayloads(ctx)
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			_ = s.MovePayloads(ctx)
		}
	}
}

// partsLock is the advisory lock of the one process that moves payloads.
const partsLock = 0x526d6975

// MovePayloads makes the tables of coming months, and moves all payloads that an older Remit
// has left beside their events. Others may use the ledger meanwhile. If it is interrupted, it
// goes on where it was.
func (s *Store) MovePayloads(ctx context.Context) error {
	c := s.config.Copy()
	c.RuntimeParams["idle_in_transaction_session_timeout"] = "60000" // only erasures wait
	conn, err := s.dial(ctx, c)
	if err != nil {
		return s.fault(err, "payloads cannot be moved")
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }() // with it the lock
	for _, statement := range []string{"SET lock_timeout = 0", fmt.Sprintf("SELECT pg_advisory_lock(%d, hashtext(current_schema()))", partsLock), "SET lock_timeout = '10s'"} {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return s.fault(err, "payloads cannot be moved")
		}
	}
	return s.fault(errors.Join(makeParts(ctx, conn, time.Now()), movePayloads(ctx, conn)), "payloads cannot be moved")
}

// CheckFiles implements tables.Database: each payload has an event that says where it is, and
// the reverse. The server's own structures are not checked.
func (d database) CheckFiles(ctx context.Context) ([]string, error) {
	rows, err := d.read.QueryContext(ctx, checkPayloads)
	if isCode(err, "42P01") || isCode(err, "42703") {
		return nil, nil // the check of the schema tells of it
	}
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []string
	for rows.Next() {
		var seq, part int64
		var stored bool
		if err := rows.Scan(&seq, &part, &stored); err != nil {
			return nil, err
		}
		where := tables.Part(part).String()
		if stored {
			out = append(out, fmt.Sprintf("the payload of event %d in the part %s belongs to no event there", seq, where))
		} else {
			out = append(out, fmt.Sprintf("the payload of event %d is not in the part %s", seq, where))
		}
	}
	return out, rows.Err()
}

// checkPayloads finds payloads without an event, and events without the payload that they
// should have.
const checkPayloads = `SELECT coalesce(e.seq, p.seq), coalesce(e.part, p.part), p.seq IS NOT NULL
FROM (SELECT seq, part FROM events WHERE part <> 0 AND data IS NULL AND salt IS NULL) e FULL JOIN payloads p ON p.part = e.part AND p.seq = e.seq
WHERE p.seq IS NULL AND NOT EXISTS(SELECT FROM dropped d WHERE d.part = e.part) OR e.seq IS NULL LIMIT 20`

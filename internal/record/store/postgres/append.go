package postgres

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/remitrun/remit/internal/base/pause"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store/tables"
)

// appendTimeout is how long a message may take.
const appendTimeout = 10 * time.Second

// The statements of a message, in the order in which they lock: node, runs, tail.
const (
	// sayNext lets the node append only while it is a member, and only its next batch.
	sayNext = `WITH me AS MATERIALIZED (SELECT id FROM members WHERE id = $1 FOR KEY SHARE),
h AS (UPDATE heads SET number = $2 FROM me WHERE member = me.id AND number = $2 - 1 RETURNING 1)
SELECT remit_expect(count(*) = 1, '` + codeFenced + `') FROM h`

	setRuns = `WITH u AS (UPDATE runs r SET version = r.version + 1, status = t.status, ended = t.ended, total = CASE WHEN t.status = 0 THEN r.total ELSE t.total END,
completed = t.completed, denied = t.denied, failed = t.failed, refused = t.refused
FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[])
AS t(seq, version, status, ended, total, completed, denied, failed, refused) WHERE r.seq = t.seq AND r.version = t.version RETURNING 1)
SELECT remit_expect(count(*) = $10, '` + codeMoved + `') FROM u`

	addBlobs = `INSERT INTO blobs(address, size, enc, data) SELECT * FROM unnest($1::bytea[], $2::bigint[], $3::bigint[], $4::bytea[]) ON CONFLICT DO NOTHING`

	addTools = `INSERT INTO run_tools(tool, run) SELECT * FROM unnest($1::text[], $2::bigint[]) ON CONFLICT DO NOTHING`

	// keepBlobs comes after the row of table tail is locked, so that no blob is erased after it.
	keepBlobs = `SELECT remit_expect(count(*) = $2, '` + codeMoved + `') FROM blobs WHERE address = ANY($1)`

	addEvents = `WITH n AS (UPDATE tail SET total = total + $1 WHERE id = 1 RETURNING total - $1 AS before),
b AS (INSERT INTO batches(first, member, number, events, mac) SELECT before + 1, $2, $3, $1, $4 FROM n),
h AS (UPDATE heads SET first = before + 1 FROM n WHERE member = $2),
m AS (INSERT INTO blocks(mark, block) SELECT DISTINCT t.mark, (before + t.at) / 256 FROM n, unnest($5::text[], $6::bigint[]) AS t(mark, at) ON CONFLICT DO NOTHING),
e AS (INSERT INTO events(seq, run, call, tag, body, part) SELECT before + o, run, call, tag, body, part
FROM n, unnest($7::bigint[], $8::bigint[], $9::bigint[], $10::bytea[], $11::bigint[]) WITH ORDINALITY AS t(run, call, tag, body, part, o)),
p AS (INSERT INTO payloads(part, seq, salt, data) SELECT part, before + o, salt, data
FROM n, unnest($11::bigint[], $12::bytea[], $13::bytea[]) WITH ORDINALITY AS t(part, salt, data, o) WHERE data IS NOT NULL)
SELECT before + 1 FROM n`

	// sayDurable is a commit of its own, which is synced. It covers every commit before it.
	sayDurable = `SELECT number, set_config('synchronous_commit', 'on', true), pg_logical_emit_message(true, 'remit', '')::text FROM heads WHERE member = $1`
)

// Append implements tables.Shared. If the answer is lost, it finds out whether the batch
// was written.
func (d database) Append(ctx context.Context, b *tables.Batch) (int64, ledger.Seq, error) {
	ctx, stop := context.WithTimeout(ctx, appendTimeout)
	defer stop()
	if err := d.connect(ctx); err != nil {
		return 0, 0, err
	}
	number := d.number.Load() + 1
	first, err := d.send(ctx, number, b)
	switch {
	case err == nil:
	case isCode(err, codeMoved), d.Deadlock(err): // with a transaction that changes the same run
		return 0, 0, tables.ErrMoved
	case isCode(err, codeFenced): // or the server has lost batches
		if _, err := d.settle(ctx); err != nil {
			return 0, 0, err
		}
		return 0, 0, tables.ErrMoved
	case isAnswer(err) && !d.pipe.IsClosed():
		return 0, 0, err
	default:
		whole, done := d.Leased(context.WithoutCancel(ctx))
		defer done()
		first, err = d.inDoubt(whole, number, err)
		return number, ledger.Seq(first), err
	}
	d.number.Store(number)
	return number, ledger.Seq(first), nil
}

// Deadlock implements tables.Shared.
func (d database) Deadlock(err error) bool { return isCode(err, codeDeadlock) }

// Transient implements tables.Shared.
func (d database) Transient(err error) bool { return transient(err) }

// isAnswer reports whether the server has answered with an error. If it then has not ended the
// connection, it has undone the transaction.
func isAnswer(err error) bool {
	var pe *pgconn.PgError
	return errors.As(err, &pe)
}

// retryAfter and maxRetryAfter are the first and the longest time before a statement is repeated.
const (
	retryAfter    = 20 * time.Millisecond
	maxRetryAfter = 320 * time.Millisecond
)

// retry calls f until its error cannot pass by itself, or ctx ends.
func retry(ctx context.Context, f func() error) error {
	for wait := retryAfter; ; wait = min(2*wait, maxRetryAfter) {
		err := f()
		if !transient(err) || pause.For(ctx, wait) != nil {
			return err
		}
	}
}

// connect opens the connection for messages, unless it is open.
func (d database) connect(ctx context.Context) error {
	if d.unsure {
		if _, err := d.settle(ctx); err != nil {
			return err
		}
	}
	if d.pipe != nil && !d.pipe.IsClosed() {
		return nil
	}
	c := d.config.Copy()
	c.RuntimeParams["synchronous_commit"] = "off"
	c.RuntimeParams["plan_cache_mode"] = "force_generic_plan" // planning a small message takes longer than it
	return retry(ctx, func() (err error) {
		d.pipe, err = d.dial(ctx, c)
		return err
	})
}

// send sends a batch in one message, which is one transaction. With b.Sync a second one in
// the same message makes it durable.
func (d database) send(ctx context.Context, number int64, b *tables.Batch) (first int64, err error) {
	var m pgx.Batch
	if !b.Sync {
		d.queue(&m, number, b, &first)
		return first, d.pipe.SendBatch(ctx, &m).Close()
	}
	var committed bool
	var there int64
	m.Queue("BEGIN")
	d.queue(&m, number, b, &first)
	m.Queue("COMMIT").Exec(func(pgconn.CommandTag) error {
		committed = true
		return nil
	})
	m.Queue(sayDurable, d.me()).QueryRow(func(row pgx.Row) error {
		var on, at string
		return row.Scan(&there, &on, &at)
	})
	err = d.pipe.SendBatch(ctx, &m).Close()
	switch {
	case err == nil:
		d.isDurable(there)
	case committed:
		return first, nil // Sync says later whether it is durable
	default:
		_, _ = d.pipe.Exec(ctx, "ROLLBACK") // of a lost connection: the server has done it
	}
	return first, err
}

// queue adds the statements of a batch to a message.
func (d database) queue(m *pgx.Batch, number int64, b *tables.Batch, first *int64) {
	m.Queue(sayNext, d.me(), number)
	if len(b.Runs) > 0 {
		m.Queue(setRuns, append(runColumns(b.Runs), int64(len(b.Runs)))...)
	}
	if len(b.Blobs) > 0 {
		m.Queue(addBlobs, column(b.Blobs, func(r *tables.BlobRow) []byte { return r.Address }), column(b.Blobs, func(r *tables.BlobRow) int64 { return r.Size }),
			column(b.Blobs, func(r *tables.BlobRow) int64 { return r.Enc }), column(b.Blobs, func(r *tables.BlobRow) []byte { return r.Data }))
	}
	if len(b.Tools) > 0 {
		m.Queue(addTools, column(b.Tools, func(r *tables.ToolRow) string { return r.Tool }), column(b.Tools, func(r *tables.ToolRow) int64 { return r.Run }))
	}
	m.Queue(addEvents, int64(len(b.Events)), d.me(), number, b.MAC(d.me(), number),
		column(b.Marks, func(r *tables.MarkRow) string { return r.Mark }), column(b.Marks, func(r *tables.MarkRow) int64 { return r.At }),
		column(b.Events, func(r *tables.EventRow) int64 { return r.Run }), column(b.Events, func(r *tables.EventRow) int64 { return r.Call }),
		column(b.Events, func(r *tables.EventRow) int64 { return r.Tag }), column(b.Events, func(r *tables.EventRow) []byte { return r.Body }),
		column(b.Events, func(r *tables.EventRow) int64 { return int64(r.Part) }), column(b.Events, func(r *tables.EventRow) []byte { return r.Salt }), column(b.Events, func(r *tables.EventRow) []byte { return r.Data })).
		QueryRow(func(row pgx.Row) error { return row.Scan(first) })
	if len(b.Known) > 0 {
		m.Queue(keepBlobs, b.Known, int64(len(b.Known)))
	}
}

func column[R, V any](rows []R, value func(*R) V) []V {
	out := make([]V, len(rows))
	for i := range rows {
		out[i] = value(&rows[i])
	}
	return out
}

func runColumns(rows []tables.RunRow) []any {
	out := make([]any, 0, 9)
	for _, value := range []func(*tables.RunRow) int64{
		func(r *tables.RunRow) int64 { return r.Seq }, func(r *tables.RunRow) int64 { return r.Version }, func(r *tables.RunRow) int64 { return r.Status },
		func(r *tables.RunRow) int64 { return r.Ended }, func(r *tables.RunRow) int64 { return r.Total }, func(r *tables.RunRow) int64 { return r.Completed },
		func(r *tables.RunRow) int64 { return r.Denied }, func(r *tables.RunRow) int64 { return r.Failed }, func(r *tables.RunRow) int64 { return r.Refused },
	} {
		out = append(out, column(rows, value))
	}
	return out
}

// Lock implements tables.Shared.
func (d database) Lock(ctx context.Context, conn *sql.Conn) (total int64, err error) {
	err = conn.QueryRowContext(ctx, "SELECT total FROM tail WHERE id = 1 FOR UPDATE").Scan(&total)
	return total, err
}

// Note implements tables.Shared.
func (d database) Note(ctx context.Context, conn *sql.Conn, first ledger.Seq, b *tables.Batch) error {
	number := d.number.Load() + 1
	if _, err := conn.ExecContext(ctx, sayNext, d.me(), number); err != nil {
		d.unsure = d.unsure || isCode(err, codeFenced) // the server may have lost batches
		return err
	}
	events := int64(len(b.Events))
	if events == 0 {
		return nil
	}
	if _, err := conn.ExecContext(ctx, "INSERT INTO batches(first, member, number, events, mac) VALUES($1, $2, $3, $4, $5)", int64(first), d.me(), number, events, b.MAC(d.me(), number)); err != nil {
		return err
	}
	if _, err := conn.ExecContext(ctx, "UPDATE tail SET total = $1 WHERE id = 1", int64(first)+events-1); err != nil {
		return err
	}
	return nil
}

// Noted implements tables.Shared.
func (d database) Noted() int64 { return d.number.Add(1) }

// Total implements tables.Shared.
func (d database) Total(ctx context.Context, q tables.Querier) (total int64, err error) {
	err = q.QueryRowContext(ctx, "SELECT total FROM tail WHERE id = 1").Scan(&total)
	return total, err
}

// Tail implements tables.Shared.
func (d database) Tail(ctx context.Context, q tables.Querier, after int64, limit int) ([]tables.TailBatch, error) {
	rows, err := q.QueryContext(ctx, "SELECT member, number, first, events, mac FROM batches WHERE first > $1 ORDER BY first LIMIT $2", after, limit)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []tables.TailBatch
	for rows.Next() {
		var b tables.TailBatch
		if err := rows.Scan(&b.Node, &b.Number, &b.First, &b.Events, &b.MAC); err != nil {
			return nil, err
		}
		out = append(out, b)
	}
	return out, rows.Err()
}

// Integrated implements tables.Shared.
func (d database) Integrated(ctx context.Context, conn *sql.Conn, upTo int64) error {
	_, err := conn.ExecContext(ctx, "DELETE FROM batches WHERE first <= $1", upTo)
	return err
}

// Durable implements tables.Shared.
func (d database) Durable(ctx context.Context) (conn *sql.Conn, err error) {
	ctx, stop := context.WithTimeout(ctx, appendTimeout)
	defer stop()
	err = retry(ctx, func() error {
		if conn, err = d.durable.Conn(ctx); err != nil {
			return err
		}
		if err = conn.PingContext(ctx); err != nil { // an idle connection may have been ended
			_ = conn.Close()
		}
		return err
	})
	return conn, err
}

// Reconnect implements tables.Shared.
func (d database) Reconnect(ctx context.Context) (*sql.Conn, error) {
	fresh, _, err := d.reconnect(ctx)
	return fresh, err
}

// Committed implements tables.Shared.
func (d database) Committed(ctx context.Context) (fresh *sql.Conn, number int64, err error) {
	number = d.number.Load() + 1
	fresh, was, err := d.reconnect(ctx)
	if was.number != number {
		number = 0
	}
	return fresh, number, err
}

// reconnect replaces the writer's connection if it was lost. was is the head before it was
// settled; zero: that was not needed.
func (d database) reconnect(ctx context.Context) (fresh *sql.Conn, was settled, err error) {
	ctx, stop := context.WithTimeout(ctx, appendTimeout)
	defer stop()
	if _, err := d.conn.ExecContext(ctx, "ROLLBACK"); err == nil {
		if d.unsure {
			was, err = d.settle(ctx)
		}
		return nil, was, err
	}
	_ = d.conn.Close() // it is lost
	err = retry(ctx, func() error {
		fresh, err = d.slow.Conn(ctx)
		return err
	})
	if err != nil {
		return nil, was, err
	}
	d.conn = fresh
	was, err = d.settle(ctx) // the lost transaction ends first, or can no longer note a batch
	return fresh, was, err
}

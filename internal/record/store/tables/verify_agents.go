package tables

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"database/sql"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/record/ledger"
)

// rowDigest stands for an expected row where there are many rows. It is half of a
// SHA-256 of the MAC's input.
type rowDigest [sha256.Size / 2]byte

// digestOf needs no key, because only rows with a valid MAC are compared with it.
func digestOf(row sealedRow) (out rowDigest) {
	h := sha256.Sum256([]byte(rowKey(row...)))
	copy(out[:], h[:])
	return out
}

// derivedOf returns the expected row of a table, for the caller to change.
func (v *verification) derivedOf(t *sealedTable, key string, fresh func() map[int]any) (derivedRow, bool) {
	if v.derived[t] == nil {
		v.derived[t] = map[string]derivedRow{}
	}
	d, ok := v.derived[t][key]
	if !ok && fresh != nil {
		d.want = fresh()
	}
	return d, ok
}

// deriveAgents derives the expected rows of agents, sessions, messages and files
// from the events.
func (v *verification) deriveAgents(seq ledger.Seq, c *checkedEvent) {
	e := &c.event
	if len(e.Subject) == 0 {
		return
	}
	key, first := rowKey(e.Subject), v.start == 0 || e.Number == 1
	switch e.Kind {
	case ledger.RunStarted:
		if len(e.Subject) == 16 {
			v.sessionRuns[seq] = uuid.UUID(e.Subject)
			v.changeSession(seq, key, func(want map[int]any) { add(want, sessionRuns, 1) })
		}
	case ledger.AgentSaved:
		d, _ := v.derivedOf(tableAgents, key, func() map[int]any {
			if !first {
				return map[int]any{}
			}
			return map[int]any{agentCreated: e.At}
		})
		d.seq = seq
		d.want[agentName], d.want[agentVersion], d.want[agentGone], d.want[agentSeq], d.want[agentLeaf] = e.Name, int64(e.Number), flag(e.Gone), int64(seq), bytes.Clone(c.leaf[:])
		v.derived[tableAgents][key] = d
	case ledger.SessionSaved:
		d, _ := v.derivedOf(tableSessions, key, func() map[int]any {
			if !first {
				return map[int]any{}
			}
			agent, parent := make([]byte, 16), make([]byte, 16)
			copy(agent, e.Agent)
			copy(parent, e.Parent)
			return map[int]any{sessionAgent: agent, sessionParent: parent, sessionLast: int64(0), sessionFiles: int64(0), sessionBytes: int64(0), sessionRuns: int64(0), sessionCreated: e.At}
		})
		d.seq = seq
		d.want[sessionVersion], d.want[sessionGone], d.want[sessionSeq], d.want[sessionLeaf] = int64(e.Number), flag(e.Gone), int64(seq), bytes.Clone(c.leaf[:])
		v.derived[tableSessions][key] = d
	case ledger.MessageAdded:
		v.messages[seq] = digestOf(messageRow(seq, e))
		v.changeSession(seq, key, func(want map[int]any) { want[sessionLast] = int64(e.Number) })
	case ledger.FileSaved:
		if c.erased {
			v.changeSession(seq, key, func(want map[int]any) { delete(want, sessionFiles); delete(want, sessionBytes) })
		}
		if c.file != nil {
			v.deriveFile(seq, key, c.file)
		}
	}
}

// add changes a total, if it is known: not where the events before were not read.
func add(want map[int]any, column int, n int64) {
	if was, known := want[column].(int64); known {
		want[column] = was + n
	}
}

// changeSession applies an event's change to a session's expected row.
func (v *verification) changeSession(seq ledger.Seq, key string, change func(want map[int]any)) {
	d, ok := v.derivedOf(tableSessions, key, nil)
	if !ok && v.start == 0 {
		return
	}
	if !ok { // it began among the events that are not read
		d.want = map[int]any{}
	}
	change(d.want)
	d.seq = seq
	v.derived[tableSessions][key] = d
}

// deriveFile notes a file's new version, and its session's new totals.
func (v *verification) deriveFile(seq ledger.Seq, session string, row sealedRow) {
	key := rowKey(row[:tableFiles.keys]...)
	d, known := v.derivedOf(tableFiles, key, func() map[int]any { return map[int]any{} })
	was := sealedRow{fileSize: int64(0), fileGone: int64(1)}
	if known {
		was[fileSize], was[fileGone] = d.want[fileSize], d.want[fileGone]
	}
	v.changeSession(seq, session, func(want map[int]any) {
		add(want, sessionFiles, was.int(fileGone)-row.int(fileGone))
		add(want, sessionBytes, row.int(fileSize)-was.int(fileSize))
	})
	for i := tableFiles.keys; i < len(row); i++ {
		d.want[i] = row[i]
	}
	d.seq = seq
	v.derived[tableFiles][key] = d
}

// conversations compares table messages with the events. Each row must belong to
// one event, and each event must have its row.
func (v *verification) conversations(ctx context.Context) error {
	if v.s.format < agentsFormat {
		return nil
	}
	const name = "messages"
	err := each(ctx, v.q, tableMessages.all+" WHERE seq > ?", func(rows *sql.Rows) error {
		row := make(sealedRow, len(tableMessages.columns))
		var mac []byte
		into := make([]any, 0, len(row)+1)
		for i := range row {
			into = append(into, &row[i])
		}
		if err := rows.Scan(append(into, &mac)...); err != nil {
			return err
		}
		key, seq := rowKey(row[:tableMessages.keys]...), ledger.Seq(row.int(messageSeq))
		want, ok := v.messages[seq]
		switch {
		case !hmac.Equal(mac, v.s.keys.rowMAC(name, row)):
			return v.problem(name, key, seq, "the row was not written by this ledger")
		case !ok || want != digestOf(row):
			return v.problem(name, key, seq, "it differs from event %d", seq)
		}
		delete(v.messages, seq)
		return nil
	}, v.startAfter())
	if err != nil {
		return err
	}
	for seq := range v.messages {
		if err := v.problem(name, v.messageKey(ctx, seq), seq, "it is missing, or differs from event %d", seq); err != nil {
			return err
		}
	}
	return nil
}

// messageKey returns the key of an event's message, for display.
func (v *verification) messageKey(ctx context.Context, seq ledger.Seq) string {
	var body []byte
	if err := v.q.QueryRowContext(ctx, "SELECT body FROM events WHERE seq = ?", int64(seq)).Scan(&body); err != nil {
		return "" // the event was there before
	}
	e, _ := ledger.Decode(body) // it was decoded before
	return rowKey(e.Subject, int64(e.Number))
}

// runsOfSessions compares table session_runs with the events.
func (v *verification) runsOfSessions(ctx context.Context) error {
	if v.s.format < agentsFormat {
		return nil
	}
	const name = "session_runs"
	err := each(ctx, v.q, "SELECT session, run FROM session_runs WHERE run > ?", func(rows *sql.Rows) error {
		var session []byte
		var run ledger.Seq
		if err := rows.Scan(&session, &run); err != nil {
			return err
		}
		want, ok := v.sessionRuns[run]
		if !ok || string(want[:]) != string(session) {
			return v.problem(name, rowKey(session, int64(run)), run, "event %d began no run of the session", run)
		}
		delete(v.sessionRuns, run)
		return nil
	}, v.startAfter())
	if err != nil {
		return err
	}
	for run, session := range v.sessionRuns {
		if err := v.problem(name, rowKey(session[:], int64(run)), run, "the run is not listed"); err != nil {
			return err
		}
	}
	return nil
}

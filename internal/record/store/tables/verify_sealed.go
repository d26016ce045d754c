package tables

import (
	"context"
	"crypto/hmac"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/ledger"
)

// derivedRow is the expected row of a sealed table, derived from the events: the
// values of some columns, by number.
type derivedRow struct {
	seq  ledger.Seq // the newest event that it was derived from
	want map[int]any
}

// derive derives the expected rows of grants, standings, questions, votes and the queue
// from the events.
func (v *verification) derive(seq ledger.Seq, e *ledger.Event) {
	set := func(t *sealedTable, key string, want map[int]any) {
		if v.derived[t] == nil {
			v.derived[t] = map[string]derivedRow{}
		}
		v.derived[t][key] = derivedRow{seq, want}
	}
	yes := int64(0)
	if e.Approved {
		yes = 1
	}
	switch e.Kind {
	case ledger.GrantIssued:
		parent := make([]byte, 16)
		copy(parent, e.Parent)
		set(tableGrants, rowKey(e.Grant), map[int]any{1: parent, 2: e.Principal, 3: int64(seq)})
	case ledger.GrantStanding:
		set(tableStandings, rowKey(e.Grant), map[int]any{1: int64(e.Standing), 2: e.At, 3: int64(seq)})
	case ledger.QuestionAsked:
		set(tableQuestions, rowKey(e.ID), map[int]any{2: int64(e.Question), 3: int64(e.Run), 8: int64(seq)})
	case ledger.QuestionVoted:
		set(tableVotes, rowKey(e.ID, e.Principal), map[int]any{2: yes, 4: int64(seq)})
		v.deriveState(seq, e)
	case ledger.QuestionClosed:
		v.deriveState(seq, e)
	case ledger.RunQueued:
		set(tableQueue, rowKey(e.ID), map[int]any{queueState: int64(e.Queued), queueRun: int64(0), queueLast: int64(0), queueSeq: int64(seq)})
	case ledger.QueueChanged:
		v.deriveQueued(seq, e.ID, map[int]any{queueState: int64(e.Queued), queueLast: int64(seq)})
	case ledger.ScheduleSaved:
		set(tableSchedules, rowKey(e.Subject), map[int]any{scheduleName: e.Name, scheduleVersion: int64(e.Number), scheduleState: int64(e.Queued), scheduleGone: flag(e.Gone), scheduleSeq: int64(seq)})
	case ledger.QueuePaused:
		set(tablePauses, rowKey(e.Name), map[int]any{pauseState: int64(e.Queued), pauseSeq: int64(seq)})
	}
}

// deriveQueued notes what an event changes of a queued run.
func (v *verification) deriveQueued(seq ledger.Seq, id []byte, change map[int]any) {
	d, ok := v.derived[tableQueue][rowKey(id)]
	if !ok {
		return
	}
	d.seq = seq
	maps.Copy(d.want, change)
	v.derived[tableQueue][rowKey(id)] = d
}

// deriveState notes a question's new state.
func (v *verification) deriveState(seq ledger.Seq, e *ledger.Event) {
	if d, ok := v.derived[tableQuestions][rowKey(e.ID)]; ok {
		d.seq, d.want[2] = seq, int64(e.Question)
		v.derived[tableQuestions][rowKey(e.ID)] = d
	}
}

// rowKey formats a row's key, for display and as a map's key.
func rowKey(key ...any) string {
	parts := make([]string, len(key))
	for i, k := range key {
		switch k := k.(type) {
		case []byte:
			parts[i] = runID(k)
			if len(k) != 16 {
				parts[i] = hex.EncodeToString(k)
			}
		case string:
			parts[i] = fmt.Sprintf("%q", k)
		default:
			parts[i] = fmt.Sprint(k)
		}
	}
	return strings.Join(parts, " ")
}

// sealed checks the tables whose rows carry MACs.
func (v *verification) sealed(ctx context.Context) error {
	if v.s.format < SealedFormat {
		return nil
	}
	seals, err := v.seals(ctx)
	if err != nil {
		return err
	}
	for _, t := range sealedTables {
		if t.format > v.s.format {
			continue
		}
		if err := v.sealedTable(ctx, t, seals[t.name]); err != nil {
			return err
		}
	}
	return nil
}

// seals reads table seals.
func (v *verification) seals(ctx context.Context) (map[string]*seal, error) {
	out := map[string]*seal{}
	err := each(ctx, v.q, tableSeals.all, func(rows *sql.Rows) error {
		row, _, err := v.s.scanSealed(tableSeals, rows.Scan)
		if err != nil && !errors.Is(err, fault.StoreCorrupt) {
			return err
		}
		known := slices.ContainsFunc(sealedTables, func(t *sealedTable) bool { return t.name == row.text(sealName) && t.format <= v.s.format })
		if err != nil || !known {
			return v.problem("seals", rowKey(row.text(sealName)), 0, "it was not written by this ledger")
		}
		l := &seal{version: row.int(sealVersion), count: row.int(sealRows)}
		copy(l.sum[:], row.bytes(sealSum))
		out[row.text(sealName)] = l
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, t := range sealedTables {
		if _, ok := out[t.name]; ok || t.format > v.s.format {
			continue
		}
		if err := v.problem("seals", rowKey(t.name), 0, "it is missing"); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// sealedTable checks each row by itself, then against the events, then all
// against the table's seal, if there is one.
func (v *verification) sealedTable(ctx context.Context, t *sealedTable, want *seal) error {
	derived, known := v.derived[t], len(v.rep.Problems)
	var got seal
	err := each(ctx, v.q, t.all, func(rows *sql.Rows) error {
		row := make(sealedRow, len(t.columns))
		var mac []byte
		into := make([]any, 0, len(row)+1)
		for i := range row {
			into = append(into, &row[i])
		}
		if err := rows.Scan(append(into, &mac)...); err != nil {
			return err
		}
		got.add(v.s.keys, mac, 1)
		key := rowKey(row[:t.keys]...)
		d, ok := derived[key]
		delete(derived, key)
		switch {
		case !hmac.Equal(mac, v.s.keys.rowMAC(t.name, row)):
			return v.problem(t.name, key, d.seq, "the row was not written by this ledger")
		case t.told && !ok && row.int(slices.Index(t.columns, "seq")) > v.start:
			return v.problem(t.name, key, 0, "no event tells of it")
		}
		for i, val := range d.want {
			if rowKey(row[i]) != rowKey(val) {
				return v.problem(t.name, key, d.seq, "its %s is not what the events say", t.columns[i])
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for key, d := range derived {
		if err := v.problem(t.name, key, d.seq, "it is missing; event %d tells of it", d.seq); err != nil {
			return err
		}
	}
	if want != nil && len(v.rep.Problems) == known && (got.count != want.count || got.sum != want.sum) {
		return v.problem(t.name, "seal", 0, "rows were removed, added or put back to an older state: there are %d, the seal counts %d", got.count, want.count)
	}
	return nil
}

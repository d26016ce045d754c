package tables

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/ledger"
)

// erases reads which events' payloads an event says were erased.
func (s *Store) erases(st *ledger.Stored) ([]ledger.Seq, error) {
	doc, err := s.Load(context.Background(), st.Parts[ledger.PartDoc])
	var about ledger.OperatorAction
	if err == nil {
		err = json.Unmarshal(doc, &about)
	}
	if err != nil {
		return nil, fault.New(fault.StoreCorrupt, "its list of erased payloads cannot be read")
	}
	return ledger.ParseSeqs(about.Events, st.Seq)
}

// noteErased follows which payloads were erased, and which events say so.
func (v *verification) noteErased(seq ledger.Seq, c *checkedEvent) error {
	run := c.event.Run
	if c.event.Kind == ledger.RunStarted {
		run = seq
	}
	if c.erased {
		v.erased[seq] = true
		v.erasedOf[run] = true
	}
	if c.erased || run != 0 && v.erasedOf[run] {
		v.erasedIn[blockOf(seq)] = true
	}
	for _, gone := range c.erases {
		switch {
		case int64(gone) <= v.start:
		case !v.erased[gone]:
			if err := v.problem("events", fmt.Sprint(gone), gone, "event %d says that its payload was erased, but it is there, or was erased before", seq); err != nil {
				return err
			}
			continue
		}
		delete(v.erased, gone)
		v.rep.Erased++
	}
	return nil
}

// noErasure checks that table erasing is empty, as it is outside of an erasure's transaction.
func (v *verification) noErasure(ctx context.Context) error {
	if v.s.format < EraseFormat {
		return nil
	}
	return each(ctx, v.q, "SELECT id FROM erasing", func(rows *sql.Rows) error {
		var id int64
		if err := rows.Scan(&id); err != nil {
			return err
		}
		return v.problem("erasing", fmt.Sprint(id), 0, "no erasure left it: payloads could be overwritten meanwhile")
	})
}

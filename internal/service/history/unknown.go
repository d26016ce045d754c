package history

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/service/home"
)

// Unknown is a call that may or may not have taken effect: its process ended between the
// intent and the outcome.
type Unknown struct {
	Run  uuid.UUID `json:"run_id"`
	Name string    `json:"run_name"`
	Call int       `json:"call"`
	Tool tool.ID   `json:"tool"`
	Node uuid.UUID `json:"node_id"`  // that carried it out
	At   time.Time `json:"found_at"` // when the outcome was recorded as unknown
}

// The actions by which an operator settles an unknown call. The target is the run's ID, a
// space, and the call's index.
const (
	settledDone    = "call.happened"
	settledNotDone = "call.not_happened"
)

func settledTarget(run uuid.UUID, call int) string { return fmt.Sprintf("%s %d", run, call) }

// Unknown lists at most limit unsettled calls with an unknown outcome, newest first.
func (h *History) Unknown(ctx context.Context, limit int) ([]Unknown, error) {
	st, err := h.Reader(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := st.Recover(ctx); err != nil && !errors.Is(err, fault.StoreReadOnly) {
		return nil, err
	}
	settled, err := h.settled(ctx, st)
	if err != nil {
		return nil, err
	}
	out := []Unknown{}
	runs := map[ledger.Seq]ledger.Run{}
	for e, err := range st.Find(ctx, store.EventFilter{Marks: [][]store.Mark{{store.KindMark(ledger.CallOutcome)}, {store.StatusMark(tool.StatusInterrupted)}}}) {
		if err != nil {
			return nil, err
		}
		if len(out) == limit {
			break
		}
		if e.Event.Kind != ledger.CallOutcome || e.Event.Status != tool.StatusInterrupted {
			continue
		}
		r, known := runs[e.Event.Run]
		if !known {
			if r, err = runAt(ctx, st, e.Event.Run); err != nil {
				return nil, err
			}
			runs[e.Event.Run] = r
		}
		if settled[settledTarget(r.ID, int(e.Event.Call))] {
			continue
		}
		c, err := st.Call(ctx, r.Seq, int(e.Event.Call))
		if err != nil {
			return nil, err
		}
		out = append(out, Unknown{Run: r.ID, Name: r.Name, Call: c.Index, Tool: c.Tool, Node: r.Owner, At: time.UnixMicro(e.Event.At).UTC()})
	}
	return out, nil
}

// runAt finds a run by its first event.
func runAt(ctx context.Context, st store.Store, seq ledger.Seq) (ledger.Run, error) {
	list, err := st.Runs(ctx, store.RunFilter{Before: seq + 1, Limit: 1})
	if err == nil && (len(list) == 0 || list[0].Seq != seq) {
		err = fault.New(fault.StoreCorrupt, "the run of event %d is missing", seq).ForOperator("remit verify lists the changed records")
	}
	if err != nil {
		return ledger.Run{}, err
	}
	return list[0], nil
}

// settled has the targets of all calls that were settled.
func (h *History) settled(ctx context.Context, st store.Store) (map[string]bool, error) {
	out := map[string]bool{}
	for e, err := range st.Find(ctx, store.EventFilter{Marks: [][]store.Mark{{store.KindMark(ledger.Operated)}}}) {
		if err != nil {
			return nil, err
		}
		if e.Event.Kind != ledger.Operated || e.Event.Code != 0 || e.Event.Name != settledDone && e.Event.Name != settledNotDone {
			continue
		}
		doc, there := e.Parts[ledger.PartDoc]
		if !there { // it was erased
			continue
		}
		b, err := st.Load(ctx, doc)
		if err != nil {
			return nil, err
		}
		var about ledger.OperatorAction
		if err := json.Unmarshal(b, &about); err != nil {
			return nil, fault.Wrap(fault.StoreCorrupt, err, "event %d cannot be read", e.Seq)
		}
		out[about.Target] = true
	}
	return out, nil
}

// Settle records what a person found out about a call whose outcome is unknown.
func (h *History) Settle(ctx context.Context, run string, call int, happened bool) (Unknown, error) {
	st, err := h.Home.Ledger(ctx)
	if err == nil {
		_, err = st.Recover(ctx)
	}
	if err != nil {
		return Unknown{}, err
	}
	r, err := st.Run(ctx, run)
	if err != nil {
		return Unknown{}, err
	}
	c, err := st.Call(ctx, r.Seq, call)
	if err != nil {
		return Unknown{}, err
	}
	if c.Intent == 0 || c.Status != tool.StatusInterrupted {
		return Unknown{}, fault.New(fault.Conflict, "the outcome of call %d is known: %s", call, c.Status).WithHint("only a call that was interrupted can be settled")
	}
	settled, err := h.settled(ctx, st)
	if err != nil {
		return Unknown{}, err
	}
	if settled[settledTarget(r.ID, call)] {
		return Unknown{}, fault.New(fault.Conflict, "call %d of run %s was settled before", call, r.ID).ForOperator("remit audit --event operator_action shows by whom")
	}
	u := Unknown{Run: r.ID, Name: r.Name, Call: call, Tool: c.Tool, Node: r.Owner}
	return u, settle(ctx, st, u, happened, "")
}

// settle records the finding about one call.
func settle(ctx context.Context, st store.Store, u Unknown, happened bool, reason string) error {
	action := settledNotDone
	if happened {
		action = settledDone
	}
	return home.Operated(ctx, st, action, ledger.OperatorAction{Target: settledTarget(u.Run, u.Call), Reason: reason}, 0)
}

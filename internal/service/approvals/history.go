package approvals

import (
	"context"
	"encoding/json"
	"time"

	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/approval"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
)

// The bounds of the search for the history of one question.
const (
	historyAge       = 90 * 24 * time.Hour
	historyQuestions = 500
	historyCalls     = 300
	historyTime      = 10 * time.Second // for the questions, and again for the calls; a slow disk alone reaches it
)

// Everything is the Viewer of the person who owns the ledger.
var Everything approval.Viewer = everything{}

type everything struct{}

func (everything) SeesQuestion(context.Context, store.Approval) (bool, error) { return true, nil }
func (everything) SeesRun(context.Context, string) (bool, error)              { return true, nil }

// History returns the record's evidence about questions and calls like a question's. It looks at
// the newest records before the question, within bounds.
func (s *Approvals) History(ctx context.Context, id string, v approval.Viewer) (approval.History, error) {
	q, b, err := s.Find(ctx, id)
	if err != nil {
		return approval.History{}, err
	}
	return s.historyOf(ctx, q, b, v)
}

// ownHistory is the history of a question for the person who owns the ledger.
func (s *Approvals) ownHistory(ctx context.Context, q store.Approval, b approval.Body) (approval.History, error) {
	return s.historyOf(ctx, q, b, Everything)
}

func (s *Approvals) historyOf(ctx context.Context, q store.Approval, b approval.Body, v approval.Viewer) (approval.History, error) {
	_, st, err := s.Grants.Open(ctx)
	if err != nil {
		return approval.History{}, err
	}
	h := &evidence{of: s, st: st, q: q, body: b, sees: v, runs: map[ledger.Seq]pastRun{}}
	h.Since = q.Asked.Add(-historyAge)
	if b.Pattern != nil {
		h.Pattern = &approval.Precedents{}
	}
	if err := h.lookWithin(ctx, h.questions); err != nil {
		return h.History, err
	}
	if b.Pattern == nil {
		return h.History, nil
	}
	sees, err := v.SeesRun(ctx, q.RunID.String())
	if err != nil {
		return h.History, err
	}
	if sees {
		h.Covers = &approval.Covered{} // also where no such call was recorded
	}
	err = h.lookWithin(ctx, h.calls)
	return h.History, err
}

// evidence collects the history of one question.
type evidence struct {
	approval.History

	of   *Approvals
	st   store.Backend
	q    store.Approval
	body approval.Body
	sees approval.Viewer
	runs map[ledger.Seq]pastRun
}

// pastRun is a run as far as its calls are looked at.
type pastRun struct {
	run  ledger.Run
	sees bool
}

// lookWithin looks at records for a limited time. What it found by then counts.
func (h *evidence) lookWithin(ctx context.Context, look func(context.Context) error) error {
	bounded, stop := context.WithTimeout(ctx, historyTime)
	defer stop()
	err := look(bounded)
	if err != nil && bounded.Err() != nil && ctx.Err() == nil {
		h.Partial, err = true, nil
	}
	return err
}

func (h *evidence) questions(ctx context.Context) error {
	before := h.q.Seq
	for seen := 0; ; {
		list, err := h.st.Questions(ctx, store.QuestionFilter{Before: before, Limit: 100})
		if err != nil {
			return err
		}
		for _, q := range list {
			if q.Asked.Before(h.Since) {
				return nil
			}
			if seen++; seen > historyQuestions {
				h.Partial = true
				return nil
			}
			before = q.Seq
			b, err := BodyOf(q)
			if err != nil {
				return err
			}
			if b.Tool != h.body.Tool {
				continue
			}
			ok, err := h.sees.SeesQuestion(ctx, q)
			if err != nil {
				return err
			}
			if ok {
				h.Weigh(h.body, q, b)
			}
		}
		if len(list) < 100 {
			return nil
		}
	}
}

// calls counts the recorded calls that the question's pattern covers.
func (h *evidence) calls(ctx context.Context) error {
	f := store.EventFilter{
		Marks: [][]store.Mark{{store.ToolMark(h.body.Tool)}, {store.KindMark(ledger.CallIntent), store.KindMark(ledger.CallDone)}},
		Since: h.Since, Before: h.q.Seq,
	}
	seen := 0
	for e, err := range h.st.Find(ctx, f) {
		if err != nil {
			return err
		}
		if e.Event.Tool != h.body.Tool || e.Event.Kind != ledger.CallIntent && e.Event.Kind != ledger.CallDone {
			continue
		}
		if seen++; seen > historyCalls {
			h.Partial = true
			break
		}
		if err := h.call(ctx, e); err != nil {
			return err
		}
	}
	return nil
}

func (h *evidence) call(ctx context.Context, e ledger.Stored) error {
	r, err := h.runOf(ctx, e.Event.Run)
	if err != nil || !r.sees || e.Erased {
		return err
	}
	if h.Covers == nil {
		h.Covers = &approval.Covered{}
	}
	c := ledger.NewCall(e)
	if c.Status == tool.Skipped || e.Event.Run == h.q.Run && c.Index == int(h.q.Call) {
		return nil
	}
	past, err := h.of.pastCall(ctx, h.st, tool.Env{Workspace: r.run.Workspace}, c)
	if err != nil || past.Spec == nil || !h.body.Pattern.Matches(c.Tool, past.Digest, past.Args, past.Actions) {
		return err
	}
	h.Covers.Calls++
	if c.Intent != 0 { // how it ended is another event
		if c, err = h.st.Call(ctx, c.Run, c.Index); err != nil {
			return err
		}
	}
	if c.Status == tool.StatusDenied {
		h.Covers.Refused++
	}
	return nil
}

// runOf finds a live run, and whether its calls may be seen.
func (h *evidence) runOf(ctx context.Context, seq ledger.Seq) (pastRun, error) {
	if r, ok := h.runs[seq]; ok {
		return r, nil
	}
	var r pastRun
	for e, err := range h.st.Events(ctx, seq) {
		if err != nil {
			return r, err
		}
		r.run = ledger.NewRun(e)
		break
	}
	if r.run.Mode == ledger.Live {
		var err error
		if r.sees, err = h.sees.SeesRun(ctx, r.run.ID.String()); err != nil {
			return r, err
		}
	}
	h.runs[seq] = r
	return r, nil
}

// recordedActions are the actions that a call was decided on, where they were recorded.
func recordedActions(ctx context.Context, st store.Store, c ledger.Call) ([]tool.Action, error) {
	p, ok := c.Parts[ledger.PartFacts]
	if !ok {
		return nil, nil
	}
	b, err := st.Load(ctx, p)
	if err != nil {
		return nil, err
	}
	var f ledger.Facts
	err = json.Unmarshal(b, &f)
	return f.Actions, err
}

package changes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/replay"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
)

// CallState says what became of a held call.
type CallState string

// The states of a held call.
const (
	CallWaits     CallState = "waiting"
	CallDone      CallState = "done"
	CallFailed    CallState = "failed"    // it was begun, and may have had its effect
	CallUnknown   CallState = "unknown"   // it was begun, and nobody knows how it ended
	CallSkipped   CallState = "skipped"   // left out by a person
	CallDiscarded CallState = "discarded" // with the changeset
)

// HeldCall is a call of a held run that waits for review, or did.
type HeldCall struct {
	Number  int             `json:"number" doc:"Its place among the calls of the run"`
	Tool    tool.ID         `json:"tool"`
	Args    json.RawMessage `json:"args,omitempty" doc:"Complete, but for what looks like a secret"`
	Touches []string        `json:"touches,omitempty" nullable:"false"`
	Risk    string          `json:"risk"`
	Rule    string          `json:"rule" doc:"The rule that lets it wait"`
	State   CallState       `json:"state" enum:"waiting,done,failed,unknown,skipped,discarded"`
	Code    string          `json:"code,omitempty" doc:"Of the last attempt that did not succeed"`
	Error   string          `json:"error,omitempty"`
	Run     string          `json:"applied_in,omitempty" doc:"The run of the last attempt"`
	At      time.Time       `json:"at"`

	call ledger.Call
	args tool.Args
}

// open reports whether a person still has to decide about the call.
func (h *HeldCall) open() bool {
	return h.State == CallWaits || h.State == CallFailed || h.State == CallUnknown
}

// Carried are held calls that are to be carried out, in order, until one does not complete.
type Carried struct {
	ID     uuid.UUID // of the run that carries them out
	Of     *replay.Recording
	Calls  []runner.Call
	Pins   map[tool.ID]tool.Digest // the tools as they were when the calls were held
	Labels []string                // of the data that the calls were decided with
	Asker  runner.Asker            // nil: nobody can be asked here
}

// listHeldCalls lists the held calls of a run, in order, with what became of each.
func (s *Changes) listHeldCalls(ctx context.Context, st store.Store, run ledger.Run) ([]HeldCall, error) {
	var out []HeldCall
	for c, err := range st.Calls(ctx, run.Seq) {
		if err != nil {
			return nil, err
		}
		h, ok, err := s.heldCall(ctx, st, c)
		if err != nil {
			return nil, err
		}
		if ok {
			out = append(out, h)
		}
	}
	if len(out) == 0 {
		return nil, nil
	}
	return out, decided(ctx, st, run, out)
}

func (s *Changes) heldCall(ctx context.Context, st store.Store, c ledger.Call) (h HeldCall, ok bool, err error) {
	if c.Erased {
		return h, false, nil // nothing tells any more that it was held
	}
	var part ledger.HeldCall
	if ok, err = loadPart(ctx, st, c.Parts, ledger.PartHeld, &part); err != nil || !ok || part.Run != "" {
		return h, false, err
	}
	h = HeldCall{Number: c.Index, Tool: c.Tool, Risk: c.Risk.String(), Rule: part.Rule, State: CallWaits, At: c.Created, call: c}
	red := s.Home.Redactor()
	for _, t := range part.Touches {
		h.Touches = append(h.Touches, red.Text(t))
	}
	b, err := st.Load(ctx, c.Parts[ledger.PartArgs])
	if err != nil {
		return h, false, err
	}
	h.Args = red.JSON(b)
	_, err = loadPart(ctx, st, c.Parts, ledger.PartArgs, &h.args)
	return h, true, err
}

// loadPart reads a part of an event as JSON; false: there is none.
func loadPart(ctx context.Context, st store.Store, parts map[string]ledger.Part, name string, into any) (bool, error) {
	p, ok := parts[name]
	if !ok {
		return false, nil
	}
	b, err := st.Load(ctx, p)
	if err == nil {
		err = json.Unmarshal(b, into)
	}
	if err != nil {
		return false, fault.Wrap(fault.StoreCorrupt, err, "the part %q of a held call cannot be read", name)
	}
	return true, nil
}

// decided finds what became of the held calls of a run: by the decisions on it, which are
// recorded before anything is carried out, and by the calls of the runs that they name.
func decided(ctx context.Context, st store.Store, run ledger.Run, calls []HeldCall) error {
	var events []ledger.Stored
	f := store.EventFilter{Marks: [][]store.Mark{{store.KindMark(ledger.Changeset)}}, Since: run.Started}
	for e, err := range st.Find(ctx, f) {
		if err != nil {
			return err
		}
		if e.Event.Kind == ledger.Changeset && e.Event.Run == run.Seq {
			events = append(events, e)
		}
	}
	slices.Reverse(events) // the oldest first
	for _, e := range events {
		if e.Event.Change == ledger.ChangesDiscarded {
			each(calls, func(h *HeldCall) bool { return h.open() }, func(h *HeldCall) { h.State = CallDiscarded })
		}
		var d ledger.HeldDecision
		ok, err := loadPart(ctx, st, e.Parts, ledger.PartHeld, &d)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		each(calls, func(h *HeldCall) bool { return h.open() && slices.Contains(d.Skip, h.Number) }, func(h *HeldCall) { h.State = CallSkipped })
		each(calls, func(h *HeldCall) bool { return h.open() && slices.Contains(d.Again, h.Number) }, func(h *HeldCall) { h.State = CallWaits })
		if err := attempts(ctx, st, run, d.Run, calls); err != nil {
			return err
		}
	}
	return nil
}

func each(calls []HeldCall, of func(*HeldCall) bool, do func(*HeldCall)) {
	for i := range calls {
		if of(&calls[i]) {
			do(&calls[i])
		}
	}
}

// attempts adds the results of one run that carried out the held calls.
func attempts(ctx context.Context, st store.Store, run ledger.Run, id string, calls []HeldCall) error {
	by, err := st.Run(ctx, id)
	if errors.Is(err, fault.RunUnknown) {
		return nil // it did not begin, so nothing was sent
	}
	if err != nil {
		return err
	}
	for c, err := range st.Calls(ctx, by.Seq) {
		if err != nil {
			return err
		}
		var part ledger.HeldCall
		ok, err := loadPart(ctx, st, c.Parts, ledger.PartHeld, &part)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(calls, func(h HeldCall) bool { return h.Number == part.Number })
		if !ok || part.Run != run.ID.String() || i < 0 {
			continue
		}
		h := &calls[i]
		h.Run, h.Code, h.Error = by.ID.String(), "", ""
		if h.State = stateOf(c); h.State == CallDone {
			continue
		}
		if c.Code != 0 {
			h.Code = c.Code.Error()
		}
		if p, ok := c.Parts[ledger.PartError]; ok {
			text, err := st.Load(ctx, p)
			if err != nil {
				return err
			}
			h.Error = string(text)
		}
	}
	return nil
}

// stateOf is the state of a held call after an attempt. A call that was begun is never begun again
// by itself.
func stateOf(c ledger.Call) CallState {
	switch {
	case c.Status == tool.Completed:
		return CallDone
	case c.Intent == 0:
		return CallWaits // it was refused before anything was sent
	case c.Status == tool.Pending, c.Status == tool.StatusInterrupted:
		return CallUnknown
	}
	return CallFailed
}

// Decision is a person's decision about the held calls of a run.
type Decision struct {
	Again []int        // calls to repeat, although an earlier attempt may have had its effect
	Skip  []int        // calls to leave out
	Asker runner.Asker // asks for approval of calls that need it; nil: nobody can be asked here
}

// carry carries out the held calls of a changeset in order, until one does not complete.
func (s *Changes) carry(ctx context.Context, c *Changeset, who string, d Decision) error {
	if !slices.ContainsFunc(c.Calls, func(h HeldCall) bool { return h.open() }) {
		if len(d.Again)+len(d.Skip) > 0 {
			return fault.New(fault.Conflict, "no held call of run %s waits", c.Run.ID)
		}
		return c.Set.Settle()
	}
	return c.Set.Exclusive(func() error {
		var err error
		if c.Calls, err = s.listHeldCalls(ctx, c.store, c.Run); err != nil { // another process may have been here
			return err
		}
		q, err := c.carried(ctx, d)
		if err != nil {
			return err
		}
		about := ledger.HeldDecision{Run: q.ID.String(), Again: d.Again, Skip: d.Skip}
		if err := recordPart(ctx, c.store, c.Run.Seq, ledger.Event{Change: ledger.ChangesApplying, Principal: who}, ledger.PartHeld, about); err != nil {
			return err
		}
		if len(q.Calls) > 0 {
			if s.Carry == nil {
				return fault.New(fault.Internal, "held calls cannot be carried out here")
			}
			err = s.Carry(ctx, q)
		}
		var rerr error
		if c.Calls, rerr = s.listHeldCalls(context.WithoutCancel(ctx), c.store, c.Run); err == nil {
			err = rerr
		}
		if err == nil {
			err = c.stopped()
		}
		if err != nil {
			return errors.Join(err, c.recordEvent(ctx, ledger.Event{Change: ledger.ChangesFailed, Principal: who, Code: fault.CodeOf(err)}, nil))
		}
		return c.Set.Settle()
	})
}

// carried prepares the calls that wait. A call of which nobody knows whether it had its effect
// must be decided about first.
func (c *Changeset) carried(ctx context.Context, d Decision) (Carried, error) {
	q := Carried{Of: c.recording, Pins: map[tool.ID]tool.Digest{}, Asker: d.Asker}
	known := func(n int) bool {
		return slices.ContainsFunc(c.Calls, func(h HeldCall) bool { return h.Number == n && h.open() })
	}
	for _, n := range slices.Concat(d.Again, d.Skip) {
		if !known(n) || slices.Contains(d.Again, n) && slices.Contains(d.Skip, n) {
			return q, fault.New(fault.Usage, "no call %d of run %s waits for a decision", n, c.Run.ID).WithHint("remit changes %s lists them", c.Run.ID)
		}
	}
	var err error
	if q.ID, err = uuid.NewV7(); err != nil {
		return q, fault.Wrap(fault.Internal, err, "no random numbers")
	}
	for i := range c.Calls {
		h := &c.Calls[i]
		if !h.open() || slices.Contains(d.Skip, h.Number) {
			continue
		}
		if h.State != CallWaits && !slices.Contains(d.Again, h.Number) {
			return q, fault.New(fault.Conflict, "call %d of run %s was begun and is %s: it may have had its effect, so it is not repeated by itself", h.Number, c.Run.ID, h.State).
				WithHint("look at the other side; then apply with --skip %d, or with --again %d to repeat it", h.Number, h.Number)
		}
		var flow ledger.CallFlow
		if _, err := loadPart(ctx, c.store, h.call.Parts, ledger.PartFlow, &flow); err != nil {
			return q, err
		}
		q.Labels = append(append(q.Labels, flow.Context...), flow.Referred...)
		q.Pins[h.Tool] = h.call.Digest
		q.Calls = append(q.Calls, runner.Call{Tool: h.Tool, Args: h.args, Step: fmt.Sprintf("held-%d", h.Number),
			Release: &ledger.HeldCall{Rule: h.Rule, Run: c.Run.ID.String(), Number: h.Number}})
	}
	return q, nil
}

// stopped is the error of a call that did not complete: the later ones still wait.
func (c *Changeset) stopped() error {
	done, waits := 0, 0
	var at *HeldCall
	for i := range c.Calls {
		switch h := &c.Calls[i]; {
		case h.State == CallDone:
			done++
		case h.open():
			if waits++; at == nil {
				at = h
			}
		}
	}
	if at == nil {
		return nil
	}
	what, next := "was not begun", ""
	if at.State != CallWaits {
		what, next = "is "+string(at.State)+" and may have had its effect", fmt.Sprintf(" --skip %d", at.Number)
	}
	return fault.New(fault.Conflict, "call %d (%s) %s: %s %s; the files are applied; of the held calls, %d are done and %d wait, this one among them", at.Number, at.Tool, what, at.Code, at.Error, done, waits).
		WithHint("remit changes %s shows them; remit changes apply %s%s goes on", c.Run.ID, c.Run.ID, next)
}

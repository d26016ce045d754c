package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/tools/model"
)

// Rehearsal is a recorded run of a session, ready to be carried out once more:
// the same loop over the same inputs, whose calls are answered from the record.
type Rehearsal struct {
	s   *Service
	in  RunInputs
	set *setup
}

// Rehearse prepares a recorded run.
func (s *Service) Rehearse(in RunInputs) (*Rehearsal, error) {
	set, err := s.assemble(in, &children{svc: s, parent: in.Session})
	if err != nil {
		return nil, err
	}
	return &Rehearsal{s, in, set}, nil
}

// Tools are the session's own tools, besides the catalog's.
func (r *Rehearsal) Tools() []permit.Tool { return r.set.own }

// Difference is a message that a replay makes otherwise than the record has it.
type Difference struct {
	Message int    `json:"message"`
	Was     string `json:"was"`
	Now     string `json:"is"`
}

func (d *Difference) Error() string {
	return fmt.Sprintf("message %d: recorded %.300q, now %.300q", d.Message, d.Was, d.Now)
}

// Is makes errors.Is(err, fault.ReplayMismatch) work.
func (d *Difference) Is(target error) bool { return target == error(fault.ReplayMismatch) }

// errOver says that the record tells nothing more of a turn: it was ended from
// outside.
var errOver = errors.New("the record ends here")

// stage is the record of a run while it is carried out once more.
type stage struct {
	loop   *loop
	record []store.MessageRecord // that are still to be made
	steps  map[int]string        // of recorded calls, by their place
	made   int                   // messages
}

// Carry carries the run out once more: its messages must come out to the byte. It
// gives how many did. The first that does not is a *Difference.
func (r *Rehearsal) Carry(ctx context.Context, run caller, runs []ledger.Run, this ledger.Run) (int, error) {
	st, err := r.stage(ctx, run, runs, this)
	if err != nil {
		return 0, err
	}
	for {
		made, calls := st.made, st.loop.index
		if err := st.next(ctx); err != nil {
			return st.made, err
		}
		if len(st.record) == 0 && st.loop.index >= len(st.steps) {
			return st.made, nil
		}
		if made == st.made && calls == st.loop.index {
			return st.made, st.stuck()
		}
	}
}

// next goes on from where the recorded run did: with a message of the user, with
// the end of a turn that was stopped, or with the turn.
func (st *stage) next(ctx context.Context) error {
	if len(st.record) > 0 {
		m, err := decode(st.record[0])
		if err != nil {
			return err
		}
		if m.Role == model.User && m.Kind == Spoken {
			err = st.loop.addUserMessage(ctx, m.Text)
		}
		if err != nil && !errors.Is(err, errOver) {
			return err
		}
	}
	made, index := st.made, st.loop.index
	err := st.loop.carryOut(ctx)
	var d *Difference
	if errors.As(err, &d) || errors.Is(err, fault.StoreFailed) {
		return err
	}
	if len(st.record) > 0 && made == st.made && index == st.loop.index { // it was stopped where it is
		if err := st.loop.abandonCalls(ctx); err != nil && !errors.Is(err, errOver) {
			return err
		}
	}
	return nil // how a turn ended is no message
}

// stuck says what is recorded and does not come again.
func (st *stage) stuck() error {
	if len(st.record) > 0 {
		return &Difference{Message: st.record[0].Number, Was: string(st.record[0].Doc), Now: "nothing"}
	}
	return fault.New(fault.ReplayMismatch, "the record has %d calls, and %d were made", len(st.steps), st.loop.index)
}

// stage prepares the loop as it was when the run began.
func (r *Rehearsal) stage(ctx context.Context, run caller, runs []ledger.Run, this ledger.Run) (*stage, error) {
	rec := r.s.o.Record
	conv := &conversation{}
	var err error
	if r.in.From > 0 {
		if conv, err = load(ctx, rec, r.in.Session, r.in.From); err != nil {
			return nil, err
		}
	}
	var former []ledger.Run
	for _, one := range runs {
		if one.Seq < this.Seq {
			former = append(former, one)
		}
	}
	known, err := before(ctx, rec, former, conv.lastRun)
	if err != nil {
		return nil, err
	}
	st := &stage{steps: map[int]string{}}
	for m, err := range rec.Messages(ctx, r.in.Session, r.in.From+1, false) {
		if err != nil {
			return nil, err
		}
		if m.Run != this.Seq {
			break
		}
		st.record = append(st.record, m)
	}
	for c, err := range rec.Calls(ctx, this.Seq) {
		if err != nil {
			return nil, err
		}
		st.steps[c.Index] = c.Step
	}
	st.loop = &loop{set: r.set, conv: conv, run: run, earlier: known.step, output: known.outcome, gate: st.gate}
	conv.write = st.compare
	return st, nil
}

// gate lets a step be made that the recorded run made next.
func (st *stage) gate(_ context.Context, step string) error {
	if st.steps[st.loop.index+1] != step {
		return errOver
	}
	return nil
}

// compare takes messages in place of the record, if they are the recorded ones.
func (st *stage) compare(_ context.Context, after int, docs [][]byte) ([]store.MessageRecord, error) {
	if len(st.record) < len(docs) {
		return nil, errOver
	}
	out := st.record[:len(docs)]
	for i, d := range docs {
		if !bytes.Equal(d, out[i].Doc) || out[i].Number != after+1+i {
			return nil, &Difference{Message: out[i].Number, Was: string(out[i].Doc), Now: string(d)}
		}
	}
	st.record = st.record[len(docs):]
	st.made += len(docs)
	return out, nil
}

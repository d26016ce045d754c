package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/tools/model"
)

// Rehearsal is a recorded run of a session, ready to be replayed: the same loop over the
// same inputs, whose calls are answered from the record.
type Rehearsal struct {
	s   *Service
	in  RunInputs
	set *setup
}

// Rehearse prepares the replay of a recorded run.
func (s *Service) Rehearse(in RunInputs) (*Rehearsal, error) {
	set, err := s.assemble(in, &children{svc: s, parent: in.Session})
	if err != nil {
		return nil, err
	}
	return &Rehearsal{s, in, set}, nil
}

// Tools gives the session's own tools, which are not in the catalog.
func (r *Rehearsal) Tools() []permit.Tool { return r.set.own }

// Outputs gives the outputs that arguments can refer to.
func (r *Rehearsal) Outputs() runner.Outputs { return outputs{r.s.o.Record, r.in.Session} }

// Difference is a message that differs between the record and a replay.
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

// errRecordEnds says that the record has no more of a turn: something stopped it.
var errRecordEnds = errors.New("the record ends here")

// rehearsing is a replay under way.
type rehearsing struct {
	loop   *loop
	record []store.MessageRecord // the messages that must still come
	steps  map[int]string        // steps of the recorded calls, by their index
	made   int                   // messages that came
}

// Carry replays the run: each message must be the recorded one, byte for byte. It gives
// how many were. The first that differs is a *Difference.
func (r *Rehearsal) Carry(ctx context.Context, run caller, runs []ledger.Run, this ledger.Run) (int, error) {
	st, err := r.begin(ctx, run, runs, this)
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

// next continues as the recorded run did: with a message of the user, with the turn, or
// with the end of a turn that was stopped.
func (st *rehearsing) next(ctx context.Context) error {
	if len(st.record) > 0 {
		m, err := decode(st.record[0])
		if err != nil {
			return err
		}
		if m.Role == model.User && m.Kind == Spoken {
			err = st.loop.addUserMessage(ctx, m.Text)
		}
		if m.Kind == Command { // as a message of the user, it comes from outside
			return st.loop.addCommand(ctx, m)
		}
		if err != nil && !errors.Is(err, errRecordEnds) {
			return err
		}
	}
	made, index := st.made, st.loop.index
	err := st.loop.carryOut(ctx)
	var d *Difference
	if errors.As(err, &d) || errors.Is(err, fault.StoreFailed) {
		return err
	}
	if len(st.record) > 0 && made == st.made && index == st.loop.index { // it was stopped here
		if err := st.loop.abandonCalls(ctx); err != nil && !errors.Is(err, errRecordEnds) {
			return err
		}
	}
	return nil // how a turn ended is not a message
}

// stuck says which part of the record the replay does not reach.
func (st *rehearsing) stuck() error {
	if len(st.record) > 0 {
		return &Difference{Message: st.record[0].Number, Was: string(st.record[0].Doc), Now: "nothing"}
	}
	return fault.New(fault.ReplayMismatch, "the record has %d calls, but the replay made %d", len(st.steps), st.loop.index)
}

// begin prepares the loop as it was when the run began.
func (r *Rehearsal) begin(ctx context.Context, run caller, runs []ledger.Run, this ledger.Run) (*rehearsing, error) {
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
	known, err := readCalls(ctx, rec, former, conv.lastRun)
	if err != nil {
		return nil, err
	}
	st := &rehearsing{steps: map[int]string{}}
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
	st.loop = &loop{set: r.set, conv: conv, run: run, earlier: known.step, output: known.outcome, gate: st.gate, told: st.nextNotice}
	conv.write = st.compare
	return st, nil
}

// gate allows a step only if the recorded run made it next.
func (st *rehearsing) gate(_ context.Context, step string) error {
	if st.steps[st.loop.index+1] != step {
		return errRecordEnds
	}
	return nil
}

// compare accepts messages if they are the recorded ones.
func (st *rehearsing) compare(_ context.Context, after int, docs [][]byte) ([]store.MessageRecord, error) {
	if len(st.record) < len(docs) {
		return nil, errRecordEnds
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

package runner

import (
	"sync"

	"github.com/remitrun/remit/internal/base/canon"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/call/frozen"
	"github.com/remitrun/remit/internal/call/plan"
)

// progress is how far a run has come in its frozen plan. Outputs are held only
// where other steps use them.
type progress struct {
	frozen *frozen.Plan

	mu      sync.Mutex
	begun   map[int]bool
	ended   map[int]plan.Ended
	outputs map[int]map[string]any
}

func newProgress(f *frozen.Plan) *progress {
	return &progress{frozen: f, begun: map[int]bool{}, ended: map[int]plan.Ended{}, outputs: map[int]map[string]any{}}
}

// begin finds the step that a call is and takes it, so that no other call can
// be it.
func (p *progress) begin(c frozen.Call) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	step, err := p.frozen.Match(c, p.reader())
	if err != nil {
		return 0, err
	}
	p.begun[step] = true
	return step, nil
}

// end notes how a step ended. One whose call was refused before it did anything
// can be made again.
func (p *progress) end(step int, e plan.Ended, out []byte, made bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.begun[step] = made
	p.ended[step] = e
	if out == nil || !p.frozen.Plan().Referenced(step) {
		return
	}
	if v, err := canon.Decode(out); err == nil {
		p.outputs[step], _ = v.(map[string]any)
	}
}

// aside notes a step that came to no call.
func (p *progress) aside(id string, e plan.Ended) {
	if s, ok := p.frozen.Plan().Step(id); ok {
		p.mu.Lock()
		taken := p.begun[s.Index]
		p.mu.Unlock()
		if !taken {
			p.end(s.Index, e, nil, true)
		}
	}
}

// reader gives frozen plans a view; the caller holds the lock.
func (p *progress) reader() frozen.Progress { return reached{p} }

type reached struct{ *progress }

func (r reached) Begun(step int) bool { return r.begun[step] }

func (r reached) Ended(step int) (plan.Ended, bool) {
	e, ok := r.ended[step]
	return e, ok
}

func (r reached) Output(step int) (map[string]any, error) { return r.outputs[step], nil }

// noteProgress tells the frozen plan's progress how the call ended.
func (f *flight) noteProgress(o *Outcome, out []byte) {
	p := f.run.progress
	if p == nil {
		return
	}
	e := plan.Ended{Status: o.Status}
	if o.Err != nil {
		e.Code, e.Message = fault.CodeOf(o.Err), fault.Message(o.Err)
	}
	switch {
	case f.planStep > 0:
		p.end(f.planStep, e, out, f.permit.Minted())
	case f.unmade:
		p.aside(f.c.Step, e)
	}
}

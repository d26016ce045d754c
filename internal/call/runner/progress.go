package runner

import (
	"sync"

	"github.com/remitrun/remit/internal/base/canon"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/call/frozen"
	"github.com/remitrun/remit/internal/call/plan"
)

// progress is the state of a run's frozen plan. It keeps the outputs that other steps use.
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

// claimStep claims the plan step that this call carries out, so that no other call can.
func (p *progress) claimStep(c frozen.Call) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	step, err := p.frozen.Match(c, p.reader())
	if err != nil {
		return 0, err
	}
	p.begun[step] = true
	return step, nil
}

// endStep records how a step ended. A step whose call did not run can be claimed again.
func (p *progress) endStep(step int, e plan.Ended, out []byte, made bool) {
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

// endUncalled records the end of a step that did not become a call.
func (p *progress) endUncalled(id string, e plan.Ended) {
	if s, ok := p.frozen.Plan().Step(id); ok {
		p.mu.Lock()
		taken := p.begun[s.Index]
		p.mu.Unlock()
		if !taken {
			p.endStep(s.Index, e, nil, true)
		}
	}
}

// reader is the progress as frozen plans read it; the caller holds the lock.
func (p *progress) reader() frozen.Progress { return reached{p} }

type reached struct{ *progress }

func (r reached) Begun(step int) bool { return r.begun[step] }

func (r reached) Ended(step int) (plan.Ended, bool) {
	e, ok := r.ended[step]
	return e, ok
}

func (r reached) Output(step int) (map[string]any, error) { return r.outputs[step], nil }

// noteProgress records in the frozen plan's progress how the call ended.
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
		p.endStep(f.planStep, e, out, f.permit.Minted())
	case f.noCall:
		p.endUncalled(f.c.Step, e)
	}
}

package runs

import (
	"bytes"
	"context"
	"time"

	"github.com/remitrun/remit/internal/base/canon"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/base/wholefile"
	"github.com/remitrun/remit/internal/call/frozen"
	"github.com/remitrun/remit/internal/call/plan"
	"github.com/remitrun/remit/internal/service/home"
)

// Freeze fixes the calls of a plan with these inputs, and the tools as they are.
func (s *Runs) Freeze(p *plan.Plan, inputs map[string]string) (*frozen.Plan, error) {
	in, err := p.Inputs(inputs)
	if err != nil {
		return nil, err
	}
	return frozen.Freeze(p, in, s.Tools)
}

// Plannable reports whether a plan can call a tool.
func (s *Runs) Plannable(id tool.ID) bool {
	_, ok := s.Tools.Spec(id)
	return ok
}

// FreezeFile freezes the plan in a file. One that is frozen already stays as it
// is, and takes no inputs.
func (s *Runs) FreezeFile(file string, inputs map[string]string) (*frozen.Plan, error) {
	src, err := readFrozen(file)
	if err != nil {
		return nil, err
	}
	if !frozen.Is(src) {
		p, err := s.ParsePlan(file, src)
		if err != nil {
			return nil, err
		}
		return s.Freeze(p, inputs)
	}
	if len(inputs) > 0 {
		return nil, fault.New(fault.Usage, "the plan is frozen already: its inputs cannot be given").At(fault.Pos{File: file}).
			WithHint("freeze the plan itself with them")
	}
	return frozen.Parse(file, src)
}

// ReadFrozen reads a frozen plan.
func (s *Runs) ReadFrozen(file string) (*frozen.Plan, error) {
	src, err := readFrozen(file)
	if err != nil {
		return nil, err
	}
	return frozen.Parse(file, src)
}

func readFrozen(file string) ([]byte, error) {
	src, err := wholefile.Read(file, frozen.MaxSize)
	if err != nil {
		return nil, fault.Wrap(fault.PlanInvalid, err, "%v", wholefile.Cause(err)).At(fault.Pos{File: file}).
			WithHint("make a frozen plan with remit plan freeze")
	}
	return src, nil
}

// ApproveFrozen adds the person's approval to a frozen plan, signed with the
// ledger's key.
func (s *Runs) ApproveFrozen(ctx context.Context, f *frozen.Plan) (*frozen.Plan, error) {
	st, err := s.Home.Ledger(ctx)
	if err != nil {
		return nil, err
	}
	text, err := f.ApprovalText(home.Person(), time.Now())
	if err != nil {
		return nil, err
	}
	signed, err := st.SignNote(text)
	if err != nil {
		return nil, fault.Wrap(fault.StoreFailed, err, "the approval cannot be signed")
	}
	return f.WithApproval(signed, st.Verifier())
}

// FrozenApprovals gives the approvals of a frozen plan that this ledger's key
// signed, and how many others there are.
func (s *Runs) FrozenApprovals(ctx context.Context, f *frozen.Plan) ([]frozen.Approval, int, error) {
	if f.Approved() == 0 {
		return nil, 0, nil
	}
	st, err := s.Reader(ctx)
	if err != nil {
		return nil, 0, err
	}
	valid, others := f.Approvals(st.Verifier())
	return valid, others, nil
}

// CheckFrozen reports what keeps a frozen plan from being carried out as it is,
// and where p is not nil, that it is another plan.
func (s *Runs) CheckFrozen(f *frozen.Plan, p *plan.Plan) error { return f.Check(p, s.Tools) }

// Bind binds a run to a frozen plan: the plan and its inputs must be the ones
// that were frozen. It gives the inputs.
func (s *Runs) Bind(q Request) (map[string]any, error) {
	inputs, err := q.Plan.Inputs(q.Inputs)
	if q.Frozen == nil {
		return inputs, err
	}
	if cerr := q.Frozen.Check(q.Plan, s.Tools); cerr != nil {
		return nil, cerr
	}
	if len(q.Inputs) == 0 {
		return q.Frozen.Inputs(), nil
	}
	if err != nil {
		return nil, err
	}
	is, err := canon.Marshal(inputs)
	was, werr := canon.Marshal(q.Frozen.Inputs())
	if err != nil || werr != nil || !bytes.Equal(is, was) {
		return nil, fault.New(fault.NotInPlan, "the inputs differ from those of the frozen plan").
			WithHint("leave them out, or freeze the plan with them")
	}
	return inputs, nil
}

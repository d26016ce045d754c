package replay

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/authority/provenance"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
)

// Word is a text of people in a session.
type Word struct {
	Message int // its number; the calls of later messages know it
	Kind    provenance.Kind
	Text    string
}

// Session tells the recording what people said in its session, and which runs came before it.
func (r *Recording) Session(said []Word, before []ledger.Run) { r.said, r.before = said, before }

// trace is how the values of a context grew, in their order.
type trace struct {
	index *provenance.Index
	list  []grown
	at    uint64 // up to where index has them
}

type grown struct {
	at uint64
	do func(*provenance.Index)
}

// Remember gives what a recorded run adds to the values of its context, in order. said is what
// people said in its session. nil: its policies did not ask about values.
func Remember(ctx context.Context, src store.Store, run ledger.Run, said []Word) (func(*provenance.Index), error) {
	r, err := read(ctx, src, run)
	if err != nil {
		return nil, err
	}
	r.said = said
	list, err := r.growth(ctx)
	if len(list) == 0 {
		return nil, err
	}
	return func(x *provenance.Index) {
		for _, g := range list {
			g.do(x)
		}
	}, err
}

// growth lists what the run adds to the values of its context.
func (r *Recording) growth(ctx context.Context) ([]grown, error) {
	g, err := r.Grant()
	if err != nil {
		return nil, err
	}
	flows, err := g.Chain().Flows()
	if err != nil || flows == nil || !flows.Traces() {
		return nil, err
	}
	list := []grown{{0, func(x *provenance.Index) { runner.Given(x, g.Chain(), r.Plan, r.Inputs, r.Run.Session) }}}
	said := slices.Clone(r.said)
	for _, i := range r.order {
		c := r.calls[i]
		f, err := r.flow(ctx, c)
		if err != nil {
			return nil, err
		}
		if f.Judged == 0 {
			continue
		}
		number, _, _ := strings.Cut(c.Step, ":")
		if n, err := strconv.Atoi(number); err == nil {
			said = slices.DeleteFunc(said, func(w Word) bool {
				if w.Message < n {
					list = append(list, grown{f.Judged, func(x *provenance.Index) { x.Say(w.Kind, w.Text) }})
				}
				return w.Message < n
			})
		}
		if refs, err := r.references(ctx, c); err != nil {
			return nil, err
		} else if len(refs) > 0 {
			list = append(list, grown{f.Judged, func(x *provenance.Index) {
				if args, err := r.Args(context.WithoutCancel(ctx), c); err == nil { // else the call is a mismatch of its own
					runner.AddReferences(x, refs, args)
				}
			}})
		}
		if f.Endorsed > 0 {
			list = append(list, grown{f.Endorsed, func(x *provenance.Index) { runner.Endorse(x, string(c.Tool), f.Steered) }})
		}
		one, err := r.joined(ctx, c, f, flows.Scope())
		if err != nil {
			return nil, err
		}
		list = append(list, one...)
	}
	for _, w := range said {
		list = append(list, grown{math.MaxUint64, func(x *provenance.Index) { x.Say(w.Kind, w.Text) }})
	}
	slices.SortStableFunc(list, func(a, b grown) int { return cmp.Compare(a.at, b.at) })
	return list, nil
}

// joined is what a call's output adds, if anything.
func (r *Recording) joined(ctx context.Context, c ledger.Call, f ledger.CallFlow, scope uint64) ([]grown, error) {
	b, err := r.part(ctx, c, ledger.PartJoined)
	if b == nil || err != nil {
		return nil, err
	}
	at, err := strconv.ParseUint(string(b), 10, 64)
	if err != nil {
		return nil, fault.Wrap(fault.ReplayMismatch, err, "the recorded order of the output of call %d cannot be read", c.Index)
	}
	ctx = context.WithoutCancel(ctx) // it is read when its turn comes
	return []grown{{at, func(x *provenance.Index) {
		args, aerr := r.Args(ctx, c)
		out, oerr := r.Output(ctx, c)
		if aerr == nil && oerr == nil { // else the call is a mismatch of its own
			one := runner.Joined(f, runner.RunName(r.Run.ID), c.Index, string(c.Tool), map[string]any(args), out)
			one.Scope = scope
			x.Add(one)
		}
	}}}, nil
}

// Origins returns where the values of the context came from when a call was decided.
func (r *Recording) Origins(ctx context.Context, c runner.Call) (*provenance.Index, error) {
	rec, ok := r.calls[c.Index]
	if !ok {
		return provenance.New(), nil // a mismatch of its own
	}
	f, err := r.flow(ctx, rec)
	if err != nil {
		return nil, err
	}
	if r.traced == nil || r.traced.at > f.Judged {
		if r.traced, err = r.trace(ctx); err != nil {
			return nil, err
		}
	}
	t := r.traced
	for len(t.list) > 0 && t.list[0].at <= f.Judged {
		t.list[0].do(t.index)
		t.list = t.list[1:]
	}
	t.at = f.Judged
	return t.index, nil
}

// references are the outputs that a recorded call's arguments refer to.
func (r *Recording) references(ctx context.Context, c ledger.Call) (list []ledger.Reference, err error) {
	return list, r.json(ctx, c.Parts, ledger.PartReferences, &list)
}

// trace begins with the values of earlier runs.
func (r *Recording) trace(ctx context.Context) (*trace, error) {
	t := &trace{index: provenance.New()}
	for _, run := range r.before {
		do, err := Remember(ctx, r.src, run, nil)
		if err != nil {
			return nil, err
		}
		if do != nil {
			do(t.index)
		}
	}
	var err error
	t.list, err = r.growth(ctx)
	return t, err
}

// origins prints values and where they came from, for comparing.
func origins(list []policy.Steered) string {
	var out []string
	for _, s := range list {
		out = append(out, s.String())
	}
	return strings.Join(out, " | ")
}

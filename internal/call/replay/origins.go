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

// Other is another run of a recording's context: an earlier one, or one of a sub-agent.
type Other struct {
	Run  ledger.Run
	Said []Word // in its session, if that is not the recording's
}

// Session gives the recording the words of people in its session, and the other runs of its context
// in their order.
func (r *Recording) Session(said []Word, others []Other) { r.said, r.others = said, others }

// trace is how the values of a context grew, in their order.
type trace struct {
	index *provenance.Index
	list  []grown
	at    uint64 // up to where index has them
}

type grown struct {
	at   uint64
	life string // of the context, which names the order
	do   func(*provenance.Index)
}

// Remember gives what a recorded run adds to the values of its context, in order. said are the
// words of people in its session. Values of calls that were erased are not known, and so not
// trusted. nil: its policies did not ask about values.
func Remember(ctx context.Context, src store.Store, run ledger.Run, said []Word) (func(*provenance.Index), error) {
	list, err := growthOf(ctx, src, Other{run, said}, false)
	if len(list) == 0 {
		return nil, err
	}
	return func(x *provenance.Index) {
		for _, g := range list {
			g.do(x)
		}
	}, err
}

// growthOf is what a run adds to the values of its context. whole: it fails if the run was erased.
func growthOf(ctx context.Context, src store.Store, o Other, whole bool) ([]grown, error) {
	r, err := read(ctx, src, o.Run)
	if err != nil {
		return nil, err
	}
	if whole && r.erased > 0 {
		return nil, fault.New(fault.ReplayMismatch, "run %s of the session was erased, so where later values came from is not known", o.Run.ID)
	}
	r.said = o.Said
	return r.growth(ctx)
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
	var list []grown
	life, said := "", slices.Clone(r.said)
	add := func(at uint64, do func(*provenance.Index)) { list = append(list, grown{at, life, do}) }
	given := func(x *provenance.Index) { runner.Given(x, g.Chain(), r.Plan, r.Inputs, r.Run.Session) }
	for _, i := range r.order {
		c := r.calls[i]
		f, err := r.flow(ctx, c)
		if err != nil {
			return nil, err
		}
		if f.Judged == 0 {
			continue
		}
		if life = f.Life; given != nil {
			add(f.Judged, given)
			given = nil
		}
		number, _, _ := strings.Cut(c.Step, ":")
		if n, err := strconv.Atoi(number); err == nil {
			said = slices.DeleteFunc(said, func(w Word) bool {
				if w.Message < n {
					add(f.Judged, func(x *provenance.Index) { x.Say(w.Kind, w.Text) })
				}
				return w.Message < n
			})
		}
		refer, err := r.refer(ctx, c)
		if err != nil {
			return nil, err
		}
		add(f.Judged, refer)
		if f.Endorsed > 0 {
			add(f.Endorsed, func(x *provenance.Index) { runner.Endorse(x, string(c.Tool), f.Steered) })
		}
		one, err := r.joined(ctx, c, f, flows.Scope())
		if err != nil {
			return nil, err
		}
		list = append(list, one...)
	}
	if given != nil {
		add(0, given)
	}
	for _, w := range said {
		add(math.MaxUint64, func(x *provenance.Index) { x.Say(w.Kind, w.Text) })
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
	return []grown{{at, f.Life, func(x *provenance.Index) {
		args, aerr := r.Args(ctx, c)
		out, oerr := r.Output(ctx, c)
		if aerr == nil && oerr == nil { // else the call is a mismatch of its own
			one := runner.Joined(f, runner.RunName(r.Run.ID), c.Index, string(c.Tool), map[string]any(args), out)
			one.Scope = scope
			x.Add(one)
		}
	}}}, nil
}

// Origins calls use with where the values of the context came from when a call was decided. Calls
// of one answer can be replayed at the same time, and have the values one after the other.
func (r *Recording) Origins(ctx context.Context, c runner.Call, use func(*provenance.Index)) error {
	rec, ok := r.calls[c.Index]
	if !ok {
		use(provenance.New()) // a mismatch of its own
		return nil
	}
	f, err := r.flow(ctx, rec)
	if err != nil {
		return err
	}
	r.tracing.Lock()
	defer r.tracing.Unlock()
	if r.traced == nil || r.traced.at > f.Judged {
		if r.traced, err = r.trace(ctx); err != nil {
			return err
		}
	}
	t := r.traced
	for len(t.list) > 0 && t.list[0].at <= f.Judged {
		t.list[0].do(t.index)
		t.list = t.list[1:]
	}
	t.at = f.Judged
	use(t.index)
	return nil
}

// references are the outputs that a recorded call's arguments refer to.
func (r *Recording) references(ctx context.Context, c ledger.Call) (list []ledger.Reference, err error) {
	return list, r.json(ctx, c.Parts, ledger.PartReferences, &list)
}

// refer adds the values of the outputs that a call's arguments refer to.
func (r *Recording) refer(ctx context.Context, c ledger.Call) (func(*provenance.Index), error) {
	refs, err := r.references(ctx, c)
	return func(x *provenance.Index) {
		if len(refs) == 0 {
			return
		}
		if args, err := r.Args(context.WithoutCancel(ctx), c); err == nil { // else the call is a mismatch of its own
			runner.AddReferences(x, refs, args)
		}
	}, err
}

// trace begins with the values of earlier runs. Those of runs that shared the context, such as
// sub-agents beside each other, come in the order in which the context got them.
func (r *Recording) trace(ctx context.Context) (*trace, error) {
	t := &trace{index: provenance.New()}
	own, err := r.growth(ctx)
	if err != nil {
		return nil, err
	}
	life := ""
	for _, g := range own {
		life = cmp.Or(life, g.life)
	}
	for _, o := range r.others {
		list, err := growthOf(ctx, r.src, o, true)
		if err != nil {
			return nil, err
		}
		for _, g := range list {
			if g.life == life && life != "" {
				t.list = append(t.list, g)
			} else if o.Run.Seq < r.Run.Seq {
				g.do(t.index)
			}
		}
	}
	t.list = append(t.list, own...)
	slices.SortStableFunc(t.list, func(a, b grown) int { return cmp.Compare(a.at, b.at) })
	return t, nil
}

// origins prints values and where they came from, for comparing.
func origins(list []policy.Steered) string {
	var out []string
	for _, s := range list {
		out = append(out, s.String())
	}
	return strings.Join(out, " | ")
}

package runner

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"sync"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/authority/provenance"
	"github.com/remitrun/remit/internal/record/ledger"
)

// values are where the values of a context came from. An added value waits until it is indexed, in
// a goroutine or before the next look-up. The end of a run waits for the goroutine.
type values struct {
	work     sync.Mutex // held while the index is used; before Context.mu
	index    *provenance.Index
	pending  []func(*provenance.Index) // under Context.mu
	indexing chan struct{}             // under Context.mu; closed when the goroutine ends; nil: there is none
}

// Say adds a text of people to the values of the context.
func (c *Context) Say(kind provenance.Kind, text string) {
	c.addLater(func(x *provenance.Index) { x.Say(kind, text) })
}

// Join adds the values of a call's result to those of the context.
func (c *Context) Join(r provenance.Result) uint64 {
	return c.addLater(func(x *provenance.Index) { x.Add(r) })
}

// Endorse adds values that a person approved for a tool.
func (c *Context) Endorse(tool string, list []policy.Steered) uint64 {
	return c.addLater(func(x *provenance.Index) { Endorse(x, tool, list) })
}

// Endorse adds values that a person approved for a tool. A value to be destroyed is approved once
// each time.
func Endorse(x *provenance.Index, tool string, list []policy.Steered) {
	for _, s := range list {
		if !s.Destroys {
			x.Endorse(tool, s.Argument, s.Value)
		}
	}
}

func (c *Context) addLater(do func(*provenance.Index)) uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clock++
	c.pending = append(c.pending, do)
	if c.indexing == nil {
		c.indexing = make(chan struct{})
		go c.indexPending(c.indexing)
	}
	return c.clock
}

// goOn sets the clock after the calls of the processes before.
func (c *Context) goOn(last int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clock = uint64(last+1) << 16
}

// indexPending indexes waiting values, until none is left.
func (c *Context) indexPending(done chan<- struct{}) {
	defer close(done)
	for c.hasPending() {
		c.work.Lock()
		c.settle(false)
		c.work.Unlock()
	}
}

// hasPending reports whether something waits. If not, the goroutine that asks must end.
func (c *Context) hasPending() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.pending) == 0 {
		c.indexing = nil
	}
	return len(c.pending) > 0
}

// waitIndexed waits until all added values are indexed.
func (c *Context) waitIndexed() {
	c.mu.Lock()
	done := c.indexing
	c.mu.Unlock()
	if done != nil {
		<-done
	}
}

// settle indexes what waits, in its order. It returns the time of the context, which passes if
// tick is set.
func (c *Context) settle(tick bool) uint64 {
	c.mu.Lock()
	list, now := c.pending, c.clock
	if c.pending = nil; tick {
		c.clock++
		now = c.clock
	}
	c.mu.Unlock()
	if c.index == nil {
		c.index = provenance.New()
	}
	for _, do := range list {
		do(c.index)
	}
	return now
}

// lookUp calls do with the values that were added so far.
func (c *Context) lookUp(do func(*provenance.Index)) uint64 {
	c.work.Lock()
	defer c.work.Unlock()
	now := c.settle(true)
	do(c.index)
	return now
}

// named gives the name of the context's clock, which the calls of other runs may share.
func (c *Context) named() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.life == "" {
		c.life = uuid.NewString()
	}
	return c.life
}

// Given adds people's words from before a run to the values of its context: its plan, its inputs
// and the values that the first policy allows. The inputs of a session's run are Remit's own.
func Given(x *provenance.Index, chain policy.Chain, plan []byte, inputs map[string]any, session uuid.UUID) {
	for _, text := range chain.GivenTexts() {
		x.Say(provenance.Policy, text)
	}
	x.Say(provenance.Plan, string(plan))
	if session == uuid.Nil {
		for _, text := range texts(inputs) {
			x.Say(provenance.Person, text)
		}
	}
}

// Remember adds earlier recorded values to the values of the context.
func (c *Context) Remember(do func(*provenance.Index)) { c.addLater(do) }

// runName names a run in origins.
func (in Info) runName() string {
	id := in.ID
	if in.ReplayOf != uuid.Nil {
		id = in.ReplayOf
	}
	return RunName(id)
}

// RunName names a run in origins.
func RunName(id uuid.UUID) string { return id.String()[:18] }

// checkOrigins decides the call by where its values came from.
func (f *flight) checkOrigins(ctx context.Context, context policy.Labels, call policy.Call, d *policy.Decision) error {
	flow := f.flow
	if !flow.flows.Traces() || d.Effect == policy.Deny {
		return nil
	}
	call.Run = f.run.runName()
	judge := func(x *provenance.Index) {
		JudgeOrigins(flow.flows, context, flow.of, call, f.run.Env.Foreign, x, d, &flow.seen)
	}
	if f.run.Recall != nil {
		return f.run.Recall.Origins(ctx, f.c, judge)
	}
	flow.seen.Judged = f.run.Context.lookUp(func(x *provenance.Index) {
		AddReferences(x, f.references, f.c.Args)
		judge(x)
	})
	flow.seen.Life = f.run.Context.named()
	return nil
}

// JudgeOrigins decides a call by where its values came from, adds that to a decision of flows,
// and notes in seen what follows for its result.
func JudgeOrigins(flows *policy.Flows, context policy.Labels, of policy.Of, call policy.Call, foreign bool, x *provenance.Index, d *policy.Decision, seen *ledger.CallFlow) {
	o := flows.DecideSteered(context, call, x)
	if seen.Steered = o.Steered; o.Effect == policy.Ask {
		if d.Effect == policy.Allow {
			o.Admin = d.Admin
			*d = o
		} else {
			d.Refusals, d.Steered = append(d.Refusals, o.Refusals...), o.Steered
		}
	}
	seen.Repeats = flows.Untrusts(context)
	seen.Trusted = flows.Trusts(context, of, call, foreign, x)
	for _, text := range texts(map[string]any(call.Args)) {
		x.Used(text)
	}
}

// texts are the texts of arguments.
func texts(v any) (out []string) {
	switch v := v.(type) {
	case string:
		return []string{v}
	case []any:
		for _, one := range v {
			out = append(out, texts(one)...)
		}
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			out = append(out, texts(v[k])...)
		}
	}
	return out
}

// endorse approves the call's values for the session, if a person did.
func (f *flight) endorse() {
	if f.answer != nil && f.answer.Session && len(f.flow.seen.Steered) > 0 {
		f.flow.seen.Endorsed = f.run.Context.Endorse(string(f.c.Tool), f.flow.seen.Steered)
	}
}

// join adds the values of the call's output to those of the context, for calls to come.
func (f *flight) join(o *Outcome, pay ledger.Payload) {
	if f.flow == nil || f.flow.seen.Judged == 0 || o.Output == nil || f.c.Tool == OutputRead {
		return
	}
	r := Joined(f.flow.seen, f.run.runName(), o.Index, string(o.Tool), map[string]any(f.c.Args), o.Output)
	r.Scope = f.flow.flows.Scope()
	pay[ledger.PartJoined] = []byte(strconv.FormatUint(f.run.Context.Join(r), 10))
}

// OutputRead is the tool with which a session reads on in an earlier output. Its values are
// known from that output, with where they came from.
const OutputRead = "output.read"

// Joined is a call's output as it is added to the values of its context.
func Joined(seen ledger.CallFlow, run string, index int, id string, args, output map[string]any) provenance.Result {
	r := provenance.Result{Origin: provenance.Origin{Kind: provenance.Outside, Run: run, Call: index, Tool: id}, Output: output}
	if list := texts(args); len(list) > 0 {
		r.About = list[0]
	}
	if seen.Trusted {
		r.Kind = provenance.Trusted
	}
	if seen.Repeats {
		r.Args = args
	}
	return r
}

package egress

import (
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/confine/sandbox"
)

// What of the proxy itself refused, where no policy entry did.
const (
	ruleProtocol    = "protocol"            // the data is not in the proxy's protocol
	ruleCredentials = "credentials"         // not this sandbox's
	ruleLimit       = "limit"               // connections or time
	ruleOver        = "call"                // the call is over
	ruleInternal    = "internal"            // a bug in Remit
	ruleSNI         = "sni"                 // the TLS name is not the host decided on
	ruleSecret      = "secret"              // a secret cannot be added
	ruleTotal       = "network.total_bytes" // the sandbox's budget is used up
	ruleResponse    = "network.max_bytes"   // a response is too large
	ruleBudget      = "budget"              // the budgets of the call are used up
)

// maxKept bounds how many allowed, and how many different refused, connections
// are kept.
const maxKept = 4096

// report collects connections. Repeated refusals are counted, so that they
// cannot crowd out others.
type report struct {
	notice func(sandbox.Connection)
	refuse func(tool.Refused) // of the permit

	mu       sync.Mutex
	passed   []sandbox.Connection
	refused  []sandbox.Connection       // and failed ones
	index    map[sandbox.Connection]int // of refused, by what makes one the same
	further  map[string]int             // of passed, by rule: the sums of the connections beyond the bound
	dropped  int
	unwanted []string // secrets, which no record shows
}

func (r *report) hide(secret string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if secret != "" && !slices.Contains(r.unwanted, secret) {
		r.unwanted = append(r.unwanted, secret)
	}
}

func (r *report) add(c sandbox.Connection) {
	c.Count = 1
	r.mu.Lock()
	for _, s := range r.unwanted {
		c.Path, c.Host, c.Reason, c.Hint = mask(c.Path, s), mask(c.Host, s), mask(c.Reason, s), mask(c.Hint, s)
	}
	r.keep(c)
	r.mu.Unlock()
	if c.Refused() {
		r.refuse(tool.Refused{Action: tool.Network.String() + " " + c.Target(), Rule: c.Rule, Reason: c.Reason})
	}
	if r.notice != nil {
		r.notice(c)
	}
}

func mask(s, secret string) string { return strings.ReplaceAll(s, secret, "***") }

func (r *report) keep(c sandbox.Connection) {
	if !c.Refused() && (c.Reason == "" || c.Addr.IsValid() || c.In+c.Out > 0) {
		r.pass(c)
		return
	}
	key := sandbox.Connection{Via: c.Via, Protocol: c.Protocol, Method: c.Method, Path: c.Path, Host: c.Host, Port: c.Port,
		Rule: c.Rule, Reason: c.Reason}
	if i, ok := r.index[key]; ok {
		first := &r.refused[i]
		first.Count++
		first.In += c.In
		first.Out += c.Out
		return
	}
	if len(r.refused) >= maxKept {
		r.dropped++
		return
	}
	if r.index == nil {
		r.index = map[sandbox.Connection]int{}
	}
	r.index[key] = len(r.refused)
	r.refused = append(r.refused, c)
}

// pass keeps a connection that passed. Beyond the bound, all connections under one rule are one entry, so the traces of another
// rule stay.
func (r *report) pass(c sandbox.Connection) {
	if len(r.passed)-len(r.further) < maxKept {
		r.passed = append(r.passed, c)
		return
	}
	if i, ok := r.further[c.Rule]; ok {
		sum := &r.passed[i]
		sum.Count++
		sum.In += c.In
		sum.Out += c.Out
		return
	}
	if r.further == nil {
		r.further = map[string]int{}
	}
	r.further[c.Rule] = len(r.passed)
	r.passed = append(r.passed, sandbox.Connection{Start: c.Start, Effect: c.Effect, Rule: c.Rule, Reason: "further connections", Count: 1, In: c.In, Out: c.Out})
}

// Connections gives what happened so far, in the order of the connections' starts.
// Repeated refusals and failures are one entry with a count, and so are connections under one rule beyond a bound.
func (p *Proxy) Connections() []sandbox.Connection {
	p.log.mu.Lock()
	out := slices.Concat(p.log.passed, p.log.refused)
	p.log.mu.Unlock()
	slices.SortStableFunc(out, func(a, b sandbox.Connection) int { return a.Start.Compare(b.Start) })
	return out
}

// Dropped is how many refusals and failures were too many to be kept for [Proxy.Connections].
func (p *Proxy) Dropped() int {
	p.log.mu.Lock()
	defer p.log.mu.Unlock()
	return p.log.dropped
}

// record is a connection while it lasts.
type record struct {
	sandbox.Connection
	flow   *flow
	socket bool // a Unix socket or the SSH agent was reached
}

func (p *Proxy) begin(via string) *record {
	return &record{Connection: sandbox.Connection{Start: time.Now(), Via: via}, flow: newFlow(p.meter, p.limits.ResponseBytes)}
}

// to names the destination.
func (r *record) to(t tool.Target) {
	r.Method, r.Protocol, r.Host, r.Port, r.Path = t.Method, t.Scheme, t.Host, t.Port, t.Path
}

// allowed notes the decision.
func (r *record) allowed(v verdict) { r.Effect, r.Rule = v.effect, v.rule }

// end closes the record with what went wrong, if anything, and notes on the
// permit what really happened.
func (p *Proxy) end(r *record, err error) {
	r.Duration = time.Since(r.Start)
	r.In, r.Out = r.flow.in.Load(), r.flow.out.Load()
	if err != nil {
		no := asRefusal(err)
		r.Reason = no.reason
		if !no.failure || r.Rule == "" {
			r.Effect, r.Rule, r.Hint, r.Asked = policy.Deny, no.rule, no.hint, no.asked
		}
	}
	_ = p.permit.Transferred(r.In, r.Out) // nothing more passes here; the permit's limits have bounded it
	if r.Addr.IsValid() || r.socket {
		happened := tool.Happened{Effect: tool.NetworkHTTP, On: r.Target(), Bytes: r.Out, Received: r.In, Rule: r.Rule, Purpose: r.Purpose}
		if r.Addr.IsValid() {
			happened.Address = netip.AddrPortFrom(r.Addr, r.Port).String()
		}
		if r.Method == "" || r.socket {
			happened.Effect = tool.NetworkSocket
		}
		p.log.mu.Lock()
		for _, s := range p.log.unwanted {
			happened.On = mask(happened.On, s)
		}
		p.log.mu.Unlock()
		p.permit.Note(happened)
	}
	p.log.add(r.Connection)
}

package egress

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"slices"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/confine/network"
)

// verdict is a decision that lets something happen.
type verdict struct {
	effect policy.Effect
	rule   string
}

// refusal is why something does not happen: a policy or the proxy says no, or
// (failure) it was tried and did not work.
type refusal struct {
	status  int // as an HTTP response says it
	rule    string
	reason  string
	hint    string // the edit that would allow it, for the policy's author; or ""
	failure bool
	asked   bool // a person could have allowed it
}

func (r *refusal) Error() string { return r.reason }

func deny(rule, reason string) error {
	return &refusal{status: http.StatusForbidden, rule: rule, reason: reason}
}

// malformed refuses data that is not in the proxy's protocol.
func malformed(reason string) error {
	return &refusal{status: http.StatusBadRequest, rule: ruleProtocol, reason: reason}
}

func failed(reason string) error {
	return &refusal{status: http.StatusBadGateway, rule: "default", reason: reason, failure: true}
}

// asRefusal gives an error its place; one without is a failure whose cause is
// not shown to the sandbox, beyond its kind.
func asRefusal(err error) *refusal {
	var r *refusal
	if errors.As(err, &r) {
		return r
	}
	out := &refusal{status: http.StatusBadGateway, rule: "default", failure: true, reason: "the connection broke off"}
	switch {
	case isTimeout(err):
		out.status, out.reason = http.StatusGatewayTimeout, "no answer in time"
	case errors.Is(err, context.Canceled), errors.Is(err, net.ErrClosed):
		out.reason = "the call ended first"
	}
	return out
}

// isTimeout reports whether a deadline, of a connection or a context, has passed.
func isTimeout(err error) bool {
	var n net.Error
	return errors.As(err, &n) && n.Timeout()
}

// question is a target, or all requests that read from its host, by the rule that asks. It is put once.
type question struct {
	on   tool.Target
	rule string
}

func questionOf(t tool.Target, rule string) question {
	t, _ = t.Reading()
	return question{t, rule}
}

// decide asks the permit, and where the policies ask, the approver.
func (p *Proxy) decide(ctx context.Context, a tool.Action) (verdict, error) {
	err := p.permit.Check(a)
	d := p.chain.DecideAction(a)
	hold, held := p.chain.HoldingAction(a)
	rule := d.Rule.String()
	switch {
	case err == nil:
		return verdict{d.Effect, rule}, nil
	case !p.permit.Live():
		return verdict{}, deny(ruleOver, "the call that this belongs to is over")
	case hold == policy.HoldBack:
		return verdict{}, deny(held.String(), "the policy lets this request wait for review, and what a command does cannot wait; make it with a tool, as http.request")
	case d.Effect == policy.Deny:
		return verdict{}, &refusal{status: http.StatusForbidden, rule: rule, reason: d.Reason, hint: p.chain.NetworkHint(a)}
	case d.Effect == policy.Allow: // it does not wait, so a person is asked
		rule, d.Reason = held.String(), "needs approval by "+held.String()
	}
	switch {
	case p.ask == nil:
		return verdict{}, deny(rule, d.Reason+", but no approver can be asked")
	case !p.answers.Get(ctx, questionOf(a.Target, rule), func() bool { return p.ask(ctx, a, d) }):
		return verdict{}, &refusal{status: http.StatusForbidden, rule: rule, reason: d.Reason + ", which was not given", asked: true}
	}
	return verdict{policy.Ask, rule}, nil
}

// addresses resolves a host whose name was decided on, once.
func (p *Proxy) addresses(ctx context.Context, host string) ([]netip.Addr, error) {
	if _, err := netip.ParseAddr(host); err != nil && host != "localhost" {
		p.noteName(host)
	}
	found, err := p.lookup(ctx, host)
	switch {
	case errors.Is(err, fault.NotFound):
		return nil, failed("the host does not exist")
	case err != nil:
		return nil, failed("the host cannot be looked up")
	}
	var addrs []netip.Addr
	for _, a := range found {
		if a = a.Unmap(); !slices.Contains(addrs, a) {
			addrs = append(addrs, a)
		}
	}
	if len(addrs) == 0 {
		return nil, failed("the host has no address")
	}
	return addrs, nil
}

// maxNames bounds the names that are remembered as noted.
const maxNames = 1024

// noteName notes that a name is looked up, once for each name.
func (p *Proxy) noteName(host string) {
	p.mu.Lock()
	noted := p.names[host]
	if !noted && len(p.names) < maxNames {
		if p.names == nil {
			p.names = map[string]bool{}
		}
		p.names[host] = true
	}
	p.mu.Unlock()
	if !noted {
		p.permit.Note(tool.Happened{Effect: tool.NetworkDNS, On: host})
	}
}

// connect dials addresses that were decided on, and closes the connection when
// the context ends.
func (p *Proxy) connect(ctx context.Context, addrs []netip.Addr, port uint16) (net.Conn, netip.Addr, error) {
	if !p.permit.Live() {
		return nil, netip.Addr{}, deny(ruleOver, "the call that this belongs to is over")
	}
	conn, err := network.DialChecked(ctx, p.dial, addrs, port)
	switch {
	case errors.Is(err, fault.HandleRefused):
		return nil, netip.Addr{}, deny("default", fault.Message(err))
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return nil, netip.Addr{}, &refusal{status: http.StatusGatewayTimeout, rule: "default", failure: true, reason: "the host cannot be reached in time"}
	case err != nil:
		return nil, netip.Addr{}, failed("the host cannot be reached")
	}
	var addr netip.Addr
	if ap, err := netip.ParseAddrPort(conn.RemoteAddr().String()); err == nil {
		addr = ap.Addr().Unmap()
	}
	return conn, addr, nil
}

// reach resolves a target, decides with its addresses and dials one of them.
func (p *Proxy) reach(ctx context.Context, t tool.Target) (net.Conn, netip.Addr, verdict, error) {
	one, cancel := context.WithTimeout(ctx, p.limits.Connect)
	defer cancel()
	addrs, err := p.addresses(one, t.Host)
	if err != nil {
		return nil, netip.Addr{}, verdict{}, err
	}
	v, err := p.decide(ctx, tool.Action{Kind: tool.Network, Target: t, Addrs: addrs})
	if err != nil {
		return nil, netip.Addr{}, verdict{}, err
	}
	conn, addr, err := p.connect(one, addrs, t.Port)
	return conn, addr, v, err
}

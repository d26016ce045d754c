package policy

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/remitrun/remit/internal/authority/policy/target"
	"github.com/remitrun/remit/internal/base/document"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
)

// networkSettings is the section network.
type networkSettings struct {
	section

	maxBytes, bandwidth, totalBytes int64
	timeout                         time.Duration
	inspect                         bool
}

func (s *networkSettings) setting() setting {
	return s.section.setting("network", networkSection, size("max_bytes", &s.maxBytes), duration("timeout", &s.timeout),
		size("bandwidth", &s.bandwidth), size("total_bytes", &s.totalBytes), flag("inspect", &s.inspect))
}

// networkPattern is an entry of network.
type networkPattern struct {
	text    string
	rule    *target.Rule
	inspect bool // TLS connections are opened; always, if the entry has a secret
	secret  *Secret
	hold    Hold
	// addresses are the private addresses that the host may have.
	addresses []netip.Addr
}

// Secret is a credential that Remit adds to the requests that an entry matches.
// The process that makes the request never sees it.
type Secret struct {
	Header string // the header's name
	Env    string // the variable of Remit's own environment that holds the value, or
	Store  string // the name of the stored value, or
	Login  string // the agent whose login of the person is the value: one of the three
	Prefix string // written before the value, as "Bearer "

	// InsteadOf is the placeholder that the program has for the secret. A request with it in the header gets the secret, one
	// with another value is refused, and one without the header gets none. "": each request gets it, and none may have the header.
	InsteadOf string

	None bool // no secret: requests with the header are refused
}

// Logins are the names for Secret.Login.
var Logins = []string{"claude", "codex"}

// maxAddresses bounds the addresses of one entry.
const maxAddresses = 16

func parseNetworkPattern(text string, e Effect) (pattern, error) {
	rule, err := target.ParseRule(text, e == Deny)
	if err != nil {
		return nil, err
	}
	if e == Ask {
		rule.Asks()
	}
	return &networkPattern{text: text, rule: rule}, nil
}

// networkEntry reads an entry that is a mapping.
func (p *parser) networkEntry(e Effect, n *document.Node, path string) pattern {
	en := &networkPattern{}
	p.mapping(n, path, document.Fields{
		"url": func(n *document.Node, path string) {
			if parsed, ok := p.pattern(networkSection, e, n, path).(*networkPattern); ok {
				en.text, en.rule = parsed.text, parsed.rule
			}
		},
		"inspect": p.Bool(&en.inspect),
		"hold":    p.hold(&en.hold),
		"secret":  func(n *document.Node, path string) { en.secret = p.secret(n, path) },
		"addresses": p.List(maxAddresses, p.Accept(func(s string) error {
			addr, err := netip.ParseAddr(s)
			if err != nil || addr.Zone() != "" || addr.Unmap() != addr {
				return fmt.Errorf("%q is not a valid address; expected one like 10.0.0.5", s)
			}
			en.addresses = append(en.addresses, addr)
			return nil
		})),
	})
	en.inspect = en.inspect || en.secret != nil
	url := n.Lookup("url")
	switch {
	case url == nil || url.Is(""):
		p.Fail(n, path, "the entry has no url").Hint = "write url: GET https://api.example.com/**"
	case en.inspect && en.rule != nil && en.rule.Scheme() != "https" && (n.Lookup("inspect") != nil || !onLoopback(en.rule)):
		p.Fail(n, path, "inspect and secret are for https only; a secret also for http to an address of this machine")
	}
	return en
}

// onLoopback reports whether all requests of a rule stay on this machine.
func onLoopback(rule *target.Rule) bool {
	t, ok := rule.Origin()
	addr, err := netip.ParseAddr(t.Host)
	return ok && t.Scheme == "http" && (t.Host == "localhost" || err == nil && addr.IsLoopback())
}

func (p *parser) secret(n *document.Node, path string) *Secret {
	s := &Secret{}
	p.mapping(n, path, document.Fields{"header": p.String(&s.Header, checkHeader), "env": p.String(&s.Env, checkEnv),
		"store": p.String(&s.Store, checkStored), "login": p.String(&s.Login, checkLogin), "prefix": p.String(&s.Prefix, checkPrefix), "instead_of": p.String(&s.InsteadOf, checkPlaceholder), "none": p.Bool(&s.None)})
	sources := 0
	for _, key := range []string{"env", "store", "login", "none"} {
		if n.Lookup(key) != nil {
			sources++
		}
	}
	alone := n.Lookup("prefix") == nil && n.Lookup("instead_of") == nil
	switch {
	case n.Kind != document.Mapping:
	case sources > 1:
		p.Fail(n, path, "a secret has one source").Hint = "write one of env, store and login"
	case n.Lookup("none") != nil && (!s.None || !alone):
		p.Fail(n, path, "none: true stands beside header alone: requests with this header are refused")
	case n.Lookup("header") == nil || sources == 0:
		p.Fail(n, path, "a secret needs header, and one of env, store and login").Hint = "write secret: {header: Authorization, store: NAME, prefix: \"Bearer \"}"
	}
	return s
}

func checkLogin(s string) error {
	if !slices.Contains(Logins, s) {
		return fmt.Errorf("%q is not an agent whose login Remit can use; expected one of %s", s, strings.Join(Logins, ", "))
	}
	return nil
}

// checkPlaceholder wants a text that occurs by no accident.
func checkPlaceholder(s string) error {
	if len(s) < 8 || len(s) > 4096 {
		return fmt.Errorf("a placeholder must have 8 to 4096 characters")
	}
	if strings.Trim(s, " ") != s {
		return fmt.Errorf("a placeholder must not begin or end with a space")
	}
	return checkPrefix(s)
}

func (p *networkPattern) String() string { return p.text }

func (p *networkPattern) print(w *printer, in int) {
	if !p.inspect && len(p.addresses) == 0 && p.hold == NoHold {
		w.line(in, "- %s", quote(p.text))
		return
	}
	w.line(in, "- url: %s", quote(p.text))
	if len(p.addresses) > 0 {
		list := make([]string, len(p.addresses))
		for i, addr := range p.addresses {
			list[i] = quote(addr.String())
		}
		w.line(in+1, "addresses: [%s]", strings.Join(list, ", "))
	}
	if p.hold != NoHold {
		w.line(in+1, "hold: %s", p.hold.text())
	}
	if p.secret == nil {
		if p.inspect {
			w.line(in+1, "inspect: true")
		}
		return
	}
	w.line(in+1, "secret: %s", p.secret)
}

// String is the secret as a policy writes it.
func (s *Secret) String() string {
	parts := []string{"header: " + quote(s.Header)}
	for _, f := range []struct{ key, value string }{{"env", s.Env}, {"store", s.Store}, {"login", s.Login}, {"prefix", s.Prefix}, {"instead_of", s.InsteadOf}} {
		if f.value != "" {
			parts = append(parts, f.key+": "+quote(f.value))
		}
	}
	if s.None {
		parts = append(parts, "none: true")
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

func (p *networkPattern) bind(*Rules, Effect) (pattern, error) { return p, nil }

func (p *networkPattern) includes(_ *Rules, other pattern) bool {
	o, ok := other.(*networkPattern)
	return ok && (o.text == p.text || p.rule.Includes(o.rule)) &&
		!slices.ContainsFunc(o.addresses, func(addr netip.Addr) bool { return !slices.Contains(p.addresses, addr) })
}

func (p *networkPattern) disjoint(other pattern) bool {
	o, ok := other.(*networkPattern)
	return ok && p.rule.Apart(o.rule)
}

// network is the pattern of an entry of network.
func (b *boundEntry) network() *networkPattern { return b.pattern.(*networkPattern) }

// judgeNetwork decides a connection or request by one policy.
func (r *Rules) judgeNetwork(a *tool.Action, link int, all *collector) (Effect, *boundEntry) {
	f := facts{action: a}
	e, b := r.search(networkSection, &f, link, all)
	if e == Allow {
		e, b = r.judgeUnseen(b, a, link, all)
	}
	if e == Deny {
		return e, b
	}
	return r.judgeAddrs(e, b, a, link, all)
}

// judgeUnseen decides an allowed connection whose requests are not visible: if
// the policy asks about a request that it can carry, it asks about the
// connection. (A deny entry matches an unknown method or path by itself; an ask
// entry alone opens no connection.)
func (r *Rules) judgeUnseen(b *boundEntry, a *tool.Action, link int, all *collector) (Effect, *boundEntry) {
	if a.Target.Method != "" && a.Target.Path != "" {
		return Allow, b
	}
	asks := r.sections[networkSection].lists[Ask]
	for i := range asks {
		if asks[i].network().rule.Covers(a.Target) {
			all.match(link, &asks[i], a, nil)
			return Ask, &asks[i]
		}
	}
	return Allow, b
}

// judgeAddrs decides the addresses that the host resolved to: none may be
// denied, and each must be public or named by an entry that matches.
func (r *Rules) judgeAddrs(e Effect, b *boundEntry, a *tool.Action, link int, all *collector) (Effect, *boundEntry) {
	lists := &r.sections[networkSection].lists
	for _, addr := range a.Addrs {
		for i := range lists[Deny] {
			if d := &lists[Deny][i]; d.network().rule.DeniesAddr(a.Target, addr) {
				all.match(link, d, a, nil)
				return Deny, d
			}
		}
		if !allowsAddr(lists, a, addr) {
			if all != nil {
				all.refuse(r, link, a, "the host has the address "+addr.String()+", which is not public, and no entry names that address")
			}
			return Deny, nil
		}
	}
	return e, b
}

func allowsAddr(lists *[3][]boundEntry, a *tool.Action, addr netip.Addr) bool {
	for e := Ask; e <= Allow; e++ {
		for i := range lists[e] {
			n := lists[e][i].network()
			if n.rule.Match(a.Target) && (n.rule.AllowsAddr(addr) || slices.Contains(n.addresses, addr.Unmap())) {
				return true
			}
		}
	}
	return false
}

// nearMiss returns why no entry matches a target, if the reason is not the host:
// the entry is for another scheme or port, or the address is not public. "" if
// there is no such reason.
func (r *Rules) nearMiss(t tool.Target) string {
	lists := &r.sections[networkSection].lists
	named := false
	for _, e := range [...]Effect{Allow, Ask} {
		for i := range lists[e] {
			rule := lists[e][i].network().rule
			named = named || rule.SameHost(t)
			if rule.OtherPort(t) {
				return fmt.Sprintf("%s is for %s on port %d", lists[e][i].rule.String(), rule.Scheme(), rule.Port())
			}
		}
	}
	if addr, err := netip.ParseAddr(t.Host); err == nil && !named && !target.Public(addr) {
		return addr.String() + " is not a public address, so an entry must name it"
	}
	return ""
}

// Inspects reports whether TLS connections of confined processes to a target's
// host and port are opened, so that every request in them is decided: where any
// policy of the chain says network.inspect, or has an entry for the host and
// port with inspect or a secret.
func (c Chain) Inspects(t tool.Target) bool {
	return c.inspects(func(p *networkPattern) bool { return p.rule.Covers(t) })
}

// InspectsAny reports whether any connection at all may be inspected.
func (c Chain) InspectsAny() bool {
	return c.inspects(func(*networkPattern) bool { return true })
}

func (c Chain) inspects(concerns func(*networkPattern) bool) bool {
	for _, r := range c {
		if r == nil || r.policy == nil {
			continue
		}
		if r.policy.content().network.inspect || r.anyNetwork(func(p *networkPattern) bool { return p.inspect && concerns(p) }) {
			return true
		}
	}
	return false
}

// anyNetwork reports whether something holds of an entry of network.allow or
// network.ask.
func (r *Rules) anyNetwork(holds func(*networkPattern) bool) bool {
	for e := Ask; e <= Allow; e++ {
		list := r.sections[networkSection].lists[e]
		if slices.ContainsFunc(list, func(b boundEntry) bool { return holds(b.network()) }) {
			return true
		}
	}
	return false
}

// MayReach reports whether some request to a target's scheme, host and port could
// be allowed or asked about, whatever its method and path. It does not allow a
// request: each one must still be decided.
func (c Chain) MayReach(t tool.Target) bool {
	t.Method, t.Path = "", ""
	return c.each(networkSection, func(r *Rules) bool {
		denied := slices.ContainsFunc(r.sections[networkSection].lists[Deny], func(b boundEntry) bool {
			rule := b.network().rule
			return rule.Whole() && rule.Match(t)
		})
		return !denied && r.anyNetwork(func(p *networkPattern) bool { return p.rule.Covers(t) })
	})
}

// AsksWithin reports whether a person may be asked about a file or a connection of a running command.
func (c Chain) AsksWithin() bool {
	return slices.ContainsFunc(c, func(r *Rules) bool {
		return r != nil && r.policy != nil && slices.ContainsFunc([]sectionID{readSection, writeSection, deleteSection, networkSection}, func(id sectionID) bool {
			return len(r.sections[id].lists[Ask]) > 0
		})
	})
}

// AskedHosts gives the hosts that an entry of network.ask names and that a person is asked about before a command reads
// from them: as a request of GET for inspected ones, else as a connection.
func (c Chain) AskedHosts() []tool.Target {
	var out []tool.Target
	for _, r := range c {
		if r == nil || r.policy == nil {
			return nil
		}
		for _, b := range r.sections[networkSection].lists[Ask] {
			t, ok := b.network().rule.Origin()
			if c.Inspects(t) || t.Scheme == "http" {
				t.Method, t.Path = "GET", "/"
			}
			web := t.Scheme == "https" || t.Scheme == "http"
			if ok && web && !slices.Contains(out, t) && c.DecideAction(tool.Action{Kind: tool.Network, Target: t}).Effect == Ask {
				out = append(out, t)
			}
		}
	}
	return out
}

// Secrets gives the credentials to add to a request. The result does not mean
// that the request is allowed. Only the first policy of the chain that decides
// network gives secrets: a later policy that names one for the request which the
// first does not give is an error (code HandleRefused), as are two secrets for
// one header, unless they have different placeholders.
func (c Chain) Secrets(t tool.Target) ([]Secret, error) {
	var given []Secret
	first := true
	for _, r := range c {
		if r == nil || r.policy == nil {
			return nil, fault.New(fault.HandleRefused, "a policy of the chain is missing")
		}
		if r.sections[networkSection].inherits {
			continue
		}
		for _, s := range r.secrets(t) {
			if err := admit(&given, s, first); err != nil {
				return nil, err
			}
		}
		first = false
	}
	return given, nil
}

func admit(given *[]Secret, s Secret, first bool) error {
	for _, g := range *given {
		if g == s {
			return nil
		}
		if first && strings.EqualFold(g.Header, s.Header) && (g.InsteadOf == "" || s.InsteadOf == "" || g.InsteadOf == s.InsteadOf) {
			return fault.New(fault.HandleRefused, "two entries give the header %q different secrets", s.Header)
		}
	}
	if !first {
		return fault.New(fault.HandleRefused, "a narrowing policy names the secret %q, which the grant's first policy does not give here", s.Name())
	}
	*given = append(*given, s)
	return nil
}

func (r *Rules) secrets(t tool.Target) []Secret {
	var out []Secret
	for e := Ask; e <= Allow; e++ {
		for i := range r.sections[networkSection].lists[e] {
			if p := r.sections[networkSection].lists[e][i].network(); p.secret != nil && p.rule.Match(t) {
				out = append(out, *p.secret)
			}
		}
	}
	return out
}

// reservedHeaders frame or route a message: a credential in one of them would
// change the message.
var reservedHeaders = []string{"connection", "content-length", "expect", "host", "keep-alive", "te", "trailer",
	"transfer-encoding", "upgrade", "forwarded", "http2-settings"}

func checkHeader(s string) error {
	if s == "" || len(s) > 100 {
		return fmt.Errorf("the name of a header must have 1 to 100 characters")
	}
	for i := 0; i < len(s); i++ {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' {
			return fmt.Errorf("%q is not a valid header name; expected letters, digits and hyphens", s)
		}
	}
	if low := strings.ToLower(s); slices.Contains(reservedHeaders, low) || strings.HasPrefix(low, "proxy-") {
		return fmt.Errorf("the header %q cannot carry a secret", s)
	}
	return nil
}

func checkPrefix(s string) error {
	for i := 0; i < len(s); i++ {
		if s[i] < ' ' || s[i] > '~' {
			return fmt.Errorf("a prefix must have printable ASCII characters only, not %q", s)
		}
	}
	return nil
}

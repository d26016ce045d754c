package policy

import (
	"fmt"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
)

// Secret is a credential that Remit adds to the requests that an entry matches.
// The process that asks never sees it.
type Secret struct {
	Header string // the header's name
	Env    string // the variable of Remit's own environment that holds the value, or
	Store  string // the name of the stored value: one of both
	Prefix string // what is written before the value, as "Bearer "
}

// Inspects reports whether TLS connections of confined processes to a target's
// host and port are opened, so that every request in them is decided: where any
// policy of the chain says network.inspect, or has an entry for the host and
// port that says inspect or has a secret.
func (c Chain) Inspects(t tool.Target) bool {
	for _, r := range c {
		if r == nil || r.policy == nil {
			continue
		}
		if r.policy.document().inspect {
			return true
		}
		for e := Ask; e <= Allow; e++ {
			for i := range r.sections[networkSection].lists[e] {
				if en := r.sections[networkSection].lists[e][i].entry; en.look && en.net.Covers(t) {
					return true
				}
			}
		}
	}
	return false
}

// InspectsAny reports whether any connection at all may be inspected.
func (c Chain) InspectsAny() bool {
	for _, r := range c {
		if r == nil || r.policy == nil {
			continue
		}
		if r.policy.document().inspect {
			return true
		}
		for e := Ask; e <= Allow; e++ {
			for i := range r.sections[networkSection].lists[e] {
				if r.sections[networkSection].lists[e][i].entry.look {
					return true
				}
			}
		}
	}
	return false
}

// MayReach reports whether some request to a target's scheme, host and port
// could be allowed or asked about, whatever its method and path. It allows
// nothing by itself: each request is still to be decided.
func (c Chain) MayReach(t tool.Target) bool {
	t.Method, t.Path = "", ""
	decided := false
	for _, r := range c {
		if r == nil || r.policy == nil {
			return false
		}
		if r.sections[networkSection].inherits {
			continue
		}
		decided = true
		if !r.mayReach(t) {
			return false
		}
	}
	return decided
}

func (r *Rules) mayReach(t tool.Target) bool {
	lists := &r.sections[networkSection].lists
	for i := range lists[Deny] {
		if n := lists[Deny][i].entry.net; n.Whole() && n.Match(t) {
			return false
		}
	}
	for e := Ask; e <= Allow; e++ {
		for i := range lists[e] {
			if lists[e][i].entry.net.Covers(t) {
				return true
			}
		}
	}
	return false
}

// Secrets gives what is to be added to a request. It does not say that the
// request is allowed. Secrets are the grant's first network policy's to give: a
// later policy that names one for the request which the first does not give is
// an error (code HandleRefused), as are two secrets for one header.
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
		if first && strings.EqualFold(g.Header, s.Header) {
			return fault.New(fault.HandleRefused, "two entries give the header %q different secrets", s.Header)
		}
	}
	if !first {
		return fault.New(fault.HandleRefused, "a narrowing policy names the secret %q, which the grant's first policy does not give here", s.name())
	}
	*given = append(*given, s)
	return nil
}

func (r *Rules) secrets(t tool.Target) []Secret {
	var out []Secret
	for e := Ask; e <= Allow; e++ {
		for i := range r.sections[networkSection].lists[e] {
			if en := r.sections[networkSection].lists[e][i].entry; en.key != nil && en.net.Match(t) {
				out = append(out, *en.key)
			}
		}
	}
	return out
}

// networkEntry reads an entry that is written as a mapping.
func (p *parser) networkEntry(e Effect, n *yaml.Node, field string) entry {
	en := entry{pos: p.pos(n)}
	var inspect bool
	p.mapping(n, field, keys{
		"url": func(v *yaml.Node, f string) {
			text, ok := p.text(v, f)
			if !ok {
				return
			}
			en.text = text
			if err := en.compile(networkSection, e); err != nil {
				p.fail(v, f, "%v", err)
			}
		},
		"inspect": p.truth(&inspect),
		"secret":  func(v *yaml.Node, f string) { en.key = p.secret(v, f) },
	})
	en.look = inspect || en.key != nil
	switch {
	case en.text == "":
		p.fail(n, field, "the entry names no url").Hint = "write url: GET https://api.example.com/**"
	case en.look && en.net != nil && en.net.Scheme() != "https":
		p.fail(n, field, "inspect and secret are for https only")
	}
	return en
}

func (p *parser) secret(n *yaml.Node, field string) *Secret {
	s := &Secret{}
	text := func(into *string, check func(string) error) func(*yaml.Node, string) {
		return func(v *yaml.Node, f string) {
			t, ok := p.text(v, f)
			if !ok {
				return
			}
			if err := check(t); err != nil {
				p.fail(v, f, "%v", err)
			}
			*into = t
		}
	}
	p.mapping(n, field, keys{"header": text(&s.Header, checkHeader), "env": text(&s.Env, checkEnv), "store": text(&s.Store, checkStored), "prefix": text(&s.Prefix, checkPrefix)})
	switch {
	case n.Kind != yaml.MappingNode:
	case s.Env != "" && s.Store != "":
		p.fail(n, field, "a secret is in the environment or in the store, not in both").Hint = "leave out env or store"
	case s.Header == "" || s.Env == "" && s.Store == "":
		p.fail(n, field, "a secret needs header and env, or header and store").Hint = "write secret: {header: Authorization, store: NAME, prefix: \"Bearer \"}"
	}
	return s
}

// ownHeaders frame or route a message: a credential in one of them would make
// it another message.
var ownHeaders = []string{"connection", "content-length", "expect", "host", "keep-alive", "te", "trailer",
	"transfer-encoding", "upgrade", "forwarded", "http2-settings"}

func checkHeader(s string) error {
	if s == "" || len(s) > 100 {
		return fmt.Errorf("a header's name has 1 to 100 characters")
	}
	for i := 0; i < len(s); i++ {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' {
			return fmt.Errorf("%q is no header's name: letters, digits and hyphens", s)
		}
	}
	low := strings.ToLower(s)
	for _, own := range ownHeaders {
		if low == own {
			return fmt.Errorf("the header %q cannot carry a secret", s)
		}
	}
	if strings.HasPrefix(low, "proxy-") {
		return fmt.Errorf("the header %q cannot carry a secret", s)
	}
	return nil
}

func checkPrefix(s string) error {
	for i := 0; i < len(s); i++ {
		if s[i] < ' ' || s[i] > '~' {
			return fmt.Errorf("a prefix has printable ASCII characters only, not %q", s)
		}
	}
	return nil
}

func (p *parser) truth(into *bool) func(*yaml.Node, string) {
	return func(n *yaml.Node, field string) {
		if n.Kind != yaml.ScalarNode || n.Tag != "!!bool" {
			p.fail(n, field, "must be true or false, not %s", describe(n))
			return
		}
		*into = strings.EqualFold(n.Value, "true")
	}
}

// networkEntry writes an entry that has more than its pattern.
func (w *printer) networkEntry(in int, en *entry) {
	w.line(in, "- url: %s", quote(en.text))
	if en.key == nil {
		w.line(in+1, "inspect: true")
		return
	}
	prefix := ""
	if en.key.Prefix != "" {
		prefix = ", prefix: " + quote(en.key.Prefix)
	}
	from := "env: " + quote(en.key.Env)
	if en.key.Store != "" {
		from = "store: " + quote(en.key.Store)
	}
	w.line(in+1, "secret: {header: %s, %s%s}", quote(en.key.Header), from, prefix)
}

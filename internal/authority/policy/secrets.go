package policy

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/remitrun/remit/internal/authority/policy/glob"
	"github.com/remitrun/remit/internal/authority/policy/target"
	"github.com/remitrun/remit/internal/base/clip"
	"github.com/remitrun/remit/internal/base/document"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
)

// storePrefix begins the lookup key of a stored value, loginPrefix that of an agent's login.
const (
	storePrefix = "store:"
	loginPrefix = "login:"
)

// Key is the lookup key: the variable's name, "store:" and the stored value's name, or "login:" and the agent. No variable's
// name begins so.
func (s Secret) Key() string {
	switch {
	case s.Store != "":
		return storePrefix + s.Store
	case s.Login != "":
		return loginPrefix + s.Login
	}
	return s.Env
}

// LoginOf gives the agent whose login a Key asks for.
func LoginOf(key string) (agent string, ok bool) { return strings.CutPrefix(key, loginPrefix) }

// Stored gives the name of the stored value that a Key asks for.
func Stored(key string) (name string, ok bool) { return strings.CutPrefix(key, storePrefix) }

// Name is the secret's, for people.
func (s Secret) Name() string {
	switch {
	case s.Login != "":
		return "login of " + s.Login
	case s.Store != "":
		return s.Store
	}
	return s.Env
}

// SecretUse is one entry of a policy's secrets: how some tools may use a stored
// value.
type SecretUse struct {
	Name  string   // of the stored value
	Tools []string // patterns of the tools' IDs
	Hosts []string // network entries: where the tools may send it; empty: nowhere
	Env   string   // the variable in which confined processes of the tools are given it; "": none
	Line  int      // in the policy's file
}

// secretUse is an entry as it is read.
type secretUse struct {
	SecretUse

	pos   fault.Pos
	tools []*glob.Text
	hosts []*target.Rule
}

// SecretUses lists the entries of the policy's secrets.
func (p *Policy) SecretUses() []SecretUse {
	var out []SecretUse
	for _, u := range p.content().secrets.list {
		out = append(out, u.SecretUse)
	}
	return out
}

func (u *secretUse) covers(id tool.ID) bool {
	return slices.ContainsFunc(u.tools, func(t *glob.Text) bool { return t.Match(string(id)) })
}

// secretLinks gives the secrets of each policy of the chain that decides them:
// one that says rest: inherit and does not mention them leaves them to the others.
func (c Chain) secretLinks() (links [][]secretUse, ok bool) {
	for _, r := range c {
		if r == nil || r.policy == nil {
			return nil, false
		}
		d := r.policy.content()
		if d.inherit && !d.secrets.set {
			continue
		}
		links = append(links, d.secrets.list)
	}
	return links, len(links) > 0
}

// MaySend reports whether a call of a tool may send a stored value to a target:
// every policy of the chain must have an entry of secrets that says so. It does
// not say that the request is allowed. The error is fault.HandleRefused.
func (c Chain) MaySend(name string, id tool.ID, t tool.Target) error {
	links, ok := c.secretLinks()
	for _, uses := range links {
		ok = ok && slices.ContainsFunc(uses, func(u secretUse) bool {
			return u.Name == name && u.covers(id) && slices.ContainsFunc(u.hosts, func(h *target.Rule) bool { return h.Match(t) })
		})
	}
	if !ok {
		return fault.New(fault.HandleRefused, "no entry of secrets lets %s send the secret %q to %s", id, name, t).
			WithHint("secrets: [{name: %s, tools: [%q], hosts: [%q]}] in the policy would", name, id, t.Host)
	}
	return nil
}

// EnvSecret is a stored value that a confined process is given as a variable.
type EnvSecret struct {
	Env   string // the variable
	Store string // the stored value's name
}

// Key is the lookup key.
func (s EnvSecret) Key() string { return storePrefix + s.Store }

// EnvSecrets returns the secrets for confined processes of a tool's calls, by
// variable: those that every deciding policy of the chain gives alike. Two values for
// one variable are an error (code HandleRefused).
func (c Chain) EnvSecrets(id tool.ID) ([]EnvSecret, error) {
	links, ok := c.secretLinks()
	if !ok {
		return nil, nil
	}
	given := envSecrets(links[0], id)
	for _, uses := range links[1:] {
		other := envSecrets(uses, id)
		given = slices.DeleteFunc(given, func(s EnvSecret) bool { return !slices.Contains(other, s) })
	}
	for i := 1; i < len(given); i++ {
		if given[i].Env == given[i-1].Env {
			return nil, fault.New(fault.HandleRefused, "the variable %q is given two secrets, %q and %q", given[i].Env, given[i-1].Store, given[i].Store)
		}
	}
	return given, nil
}

func envSecrets(uses []secretUse, id tool.ID) []EnvSecret {
	var out []EnvSecret
	for _, u := range uses {
		if u.Env != "" && u.covers(id) {
			out = append(out, EnvSecret{u.Env, u.Name})
		}
	}
	slices.SortFunc(out, func(a, b EnvSecret) int {
		return strings.Compare(a.Env+"\x00"+a.Store, b.Env+"\x00"+b.Store)
	})
	return slices.Compact(out)
}

// secretSettings is the section secrets.
type secretSettings struct {
	set  bool // the document mentions it
	list []secretUse
}

func (s *secretSettings) setting() setting {
	return setting{"secrets",
		func(p *parser) document.Field {
			return func(n *document.Node, path string) {
				s.set = true
				if n.Kind != document.List {
					p.Expected(n, path, "a list").Hint = "write secrets: [{name: github, tools: [\"api:github:*\"], hosts: [api.github.com]}]"
					return
				}
				for i, item := range n.Items {
					s.list = append(s.list, p.secretUse(item, document.Index(path, i)))
				}
			}
		}, s.print}
}

func (p *parser) secretUse(n *document.Node, path string) secretUse {
	u := secretUse{pos: p.Pos(n)}
	u.Line = n.Line
	before := p.Problems()
	p.mapping(n, path, document.Fields{
		"name": p.String(&u.Name, checkStored),
		"tools": p.Strings(&u.Tools, 0, func(s string) error {
			t, err := compileToolName(s, false)
			u.tools = append(u.tools, t)
			return err
		}),
		"hosts": p.Strings(&u.Hosts, 0, func(s string) error {
			r, err := secretHost(s)
			u.hosts = append(u.hosts, r)
			return err
		}),
		"env": p.String(&u.Env, checkSecretEnv),
	})
	switch {
	case p.Problems() > before:
	case u.Name == "" || len(u.Tools) == 0:
		p.Fail(n, path, "the entry needs name and tools").Hint = "name is the name of the stored secret, tools are the IDs of the tools that may use it"
	case len(u.Hosts) == 0 && u.Env == "":
		p.Fail(n, path, "the entry allows nothing").Hint = "hosts says where the tools may send the secret, env gives it to their processes"
	}
	return u
}

// secretHost reads a host to which a secret may be sent. Without TLS others can read
// it on the way, so http is for this machine only.
func secretHost(s string) (*target.Rule, error) {
	r, err := target.ParseRule(s, false)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s", plain(err))
	case r.Scheme() == "https",
		r.Scheme() == "http" && (r.AllowsAddr(netip.AddrFrom4([4]byte{127, 0, 0, 1})) || r.AllowsAddr(netip.IPv6Loopback())):
		return r, nil
	}
	return nil, fmt.Errorf("%q: a secret is sent with https only, or to localhost", clip.Text(s, 40))
}

// checkStored checks the name of a stored value: lower-case words of letters and
// digits with hyphens or underscores between them.
func checkStored(s string) error {
	ok := s != "" && len(s) <= 64 && s[0] >= 'a' && s[0] <= 'z'
	for i := 0; i < len(s) && ok; i++ {
		c := s[i]
		word := c >= 'a' && c <= 'z' || c >= '0' && c <= '9'
		ok = word || (c == '-' || c == '_') && i+1 < len(s) && s[i-1] != '-' && s[i-1] != '_'
	}
	if !ok {
		return fmt.Errorf("%q is not a valid name of a stored secret; expected lower-case words, as github-ci", clip.Text(s, 40))
	}
	return nil
}

// checkSecretEnv refuses variables that Remit sets itself.
func checkSecretEnv(s string) error {
	switch s {
	case "PATH", "HOME", "TMPDIR", "LANG":
		return fmt.Errorf("the variable %q is Remit's to set", s)
	}
	return checkEnv(s)
}

func (s *secretSettings) print(w *printer, in int) {
	switch {
	case !s.set:
		return
	case len(s.list) == 0:
		w.line(in, "secrets: []")
		return
	}
	w.line(in, "secrets:")
	for _, u := range s.list {
		w.line(in+1, "- name: %s", quote(u.Name))
		w.line(in+2, "tools: %s", quoteAll(u.Tools))
		if len(u.Hosts) > 0 {
			w.line(in+2, "hosts: %s", quoteAll(u.Hosts))
		}
		if u.Env != "" {
			w.line(in+2, "env: %s", quote(u.Env))
		}
	}
}

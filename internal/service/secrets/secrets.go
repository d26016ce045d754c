// Package secrets stores values that calls may use but callers never see. It masks them in
// outputs, and lists which policies allow which uses. Start at [Secrets.Value].
package secrets

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/redact"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/confine/secret"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/service/agentlogins"
	"github.com/remitrun/remit/internal/service/home"
	"github.com/remitrun/remit/internal/service/policies"
)

// Secrets are the secrets of one $REMIT_HOME; New makes one.
type Secrets struct {
	// Mask hides the values that were used in all that calls return.
	Mask redact.Mask

	// Store keeps the values.
	Store *secret.Store

	// Logins are the person's logins with agents.
	Logins *agentlogins.Logins

	home     *home.Home
	policies *policies.Policies
}

// New opens the store of secrets.
func New(h *home.Home, p *policies.Policies) *Secrets {
	return &Secrets{home: h, policies: p, Logins: agentlogins.New(h.UserHome, h.Dir), Store: openStore(h.Config)}
}

// In reports whether a text holds the value of a stored secret, or of one
// that was used.
func (s *Secrets) In(text string) (bool, error) {
	all, err := s.Store.All()
	if err != nil {
		return false, err
	}
	s.Mask.AddAll(all)
	return s.Mask.Active() && s.Mask.Holds(text), nil
}

// openStore gives the store of secrets.
func openStore(cfg home.Config) *secret.Store {
	if !cfg.Settings.Keyring || cfg.Lookup == nil {
		return secret.Open(cfg.Dir, nil)
	}
	return secret.Open(cfg.Dir, secret.System(cfg.Dir, cfg.Lookup))
}

// Value finds a value by its policy.Secret.Key, at the moment of its use: a variable of Remit's own
// environment, a stored secret, or the person's login with an agent. The value is masked from then on wherever it comes back.
func (s *Secrets) Value(key string) (string, bool) {
	if agent, ok := policy.LoginOf(key); ok {
		v, ok := s.Logins.Token(agent)
		if ok {
			s.Mask.Add(key, v)
		}
		return v, ok
	}
	name, stored := policy.Stored(key)
	if !stored {
		v, ok := s.home.Lookup(key)
		if ok {
			s.Mask.Add(key, v)
		}
		return v, ok
	}
	v, err := s.Store.Get(name)
	if err != nil {
		return "", false
	}
	s.Mask.Add(name, v)
	return v, true
}

// Guard makes every stored secret known to the mask before a run begins, and refuses a run whose
// inputs contain one, since inputs are recorded. Where nothing is stored that costs one look at the
// file system.
func (s *Secrets) Guard(in *runner.Info) error {
	all, err := s.Store.All()
	if err != nil {
		return err
	}
	s.Mask.AddAll(all)
	if !s.Mask.Active() {
		return nil
	}
	told := s.Mask.Holds(in.Name) || s.Mask.Holds(string(in.Plan))
	for name, v := range in.Inputs {
		told = told || s.Mask.Holds(name) || s.Mask.Holds(textOf(v))
	}
	for _, p := range in.Policies {
		told = told || s.Mask.Holds(p.Source)
	}
	if told {
		return fault.New(fault.Usage, "the plan, an input or a policy holds the value of a secret, which would be recorded").
			WithHint("leave it out: where the policy allows it, Remit adds the secret itself")
	}
	return nil
}

// textOf is a value as JSON.
func textOf(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return "" // such an input is refused elsewhere
	}
	return string(b)
}

func listed(list string, i int) string { return fmt.Sprintf("%s[%d]", list, i) }

// NameFor makes a name for a stored secret of something with a name. A text that cannot be part of a name is
// replaced by its hash.
func NameFor(prefix, what string) string {
	if name := prefix + what; secret.CheckName(name) == nil {
		return name
	}
	return fmt.Sprintf("%sx%x", prefix, sha256.Sum256([]byte(what)))[:40]
}

// Set keeps a value under a name and says where.
func (s *Secrets) Set(name, value string) (secret.Entry, error) {
	if err := secret.Check(name, value); err != nil {
		return secret.Entry{}, err
	}
	var kept secret.Entry
	err := s.home.Recorded("secret.set", ledger.OperatorAction{Target: name}, func() (err error) {
		kept, err = s.Store.Set(name, value, time.Now())
		return err
	})
	return kept, err
}

// Rotate encrypts the file of secrets for a new key, and returns its name.
func (s *Secrets) Rotate() (name string, err error) {
	err = s.home.Recorded("secret.rotate", ledger.OperatorAction{Target: "secrets.age"}, func() (err error) {
		name, err = s.Store.Rotate()
		return err
	})
	return name, err
}

// Remove forgets a name and its value.
func (s *Secrets) Remove(name string) error {
	list, err := s.Store.List()
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(list, func(e secret.Entry) bool { return e.Name == name }) {
		return s.Store.Remove(name) // which says that there is none
	}
	return s.home.Recorded("secret.remove", ledger.OperatorAction{Target: name}, func() error { return s.Store.Remove(name) })
}

// Stored is a secret as it may be shown.
type Stored struct {
	secret.Entry

	Uses []Use `json:"uses"` // by the policies that hold
}

// Use is what one entry of a policy lets be done with a secret.
type Use struct {
	Policy string   `json:"policy"`
	Rule   string   `json:"rule"`            // as secrets[0] or network.allow[1]
	Line   int      `json:"line"`            // in the policy's file
	Tools  []string `json:"tools,omitempty"` // none: any tool that the entry lets send a request
	Hosts  []string `json:"hosts,omitempty"`
	Header string   `json:"header,omitempty"`
	Env    string   `json:"env,omitempty"`
}

// List lists the stored secrets, and the uses that the policies in force in a workspace allow.
// Every one of these policies must allow a use.
func (s *Secrets) List(policyFile, workspace string) ([]Stored, error) {
	kept, err := s.Store.List()
	if err != nil || len(kept) == 0 {
		return nil, err
	}
	policies, _, err := s.policies.Chain(policyFile, workspace)
	if err != nil {
		return nil, err
	}
	uses := map[string][]Use{}
	for _, p := range policies {
		addUses(uses, p)
	}
	out := make([]Stored, len(kept))
	for i, k := range kept {
		out[i] = Stored{k, uses[k.Name]}
	}
	return out, nil
}

func addUses(uses map[string][]Use, p *policy.Policy) {
	for i, u := range p.SecretUses() {
		uses[u.Name] = append(uses[u.Name], Use{Policy: p.Name(), Rule: listed("secrets", i), Line: u.Line, Tools: u.Tools, Hosts: u.Hosts, Env: u.Env})
	}
	at := map[policy.Effect]int{}
	for _, e := range p.Entries() {
		if e.Section != "network" {
			continue
		}
		if s := e.Secret; s != nil && s.Store != "" {
			list := "network.allow"
			if e.Effect == policy.Ask {
				list = "network.ask"
			}
			uses[s.Store] = append(uses[s.Store], Use{Policy: p.Name(), Rule: listed(list, at[e.Effect]), Line: e.Line, Hosts: []string{e.Pattern}, Header: s.Header})
		}
		at[e.Effect]++
	}
}

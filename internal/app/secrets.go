package app

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/confine/secret"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/service/home"
)

// openSecrets gives the store of secrets.
func openSecrets(cfg home.Config) *secret.Store {
	if !cfg.Settings.Keyring || cfg.Lookup == nil {
		return secret.Open(cfg.Dir, nil)
	}
	return secret.Open(cfg.Dir, secret.System(cfg.Dir, cfg.Lookup))
}

// secret finds a value by its policy.Secret.Key, at the moment of its use: a
// variable of Remit's own environment, or what the store has. What it gives is
// masked from then on wherever it comes back.
func (a *App) secret(key string) (string, bool) {
	name, stored := policy.Stored(key)
	if !stored {
		v, ok := a.Home.Lookup(key)
		if ok {
			a.mask.Add(key, v)
		}
		return v, ok
	}
	v, err := a.secrets.Get(name)
	if err != nil {
		return "", false
	}
	a.mask.Add(name, v)
	return v, true
}

// guard makes every stored secret known to the mask before a run begins, and
// refuses a run that is told one, since what a run is told is recorded. Where
// nothing is stored that costs one look at the file system.
func (a *App) guard(in *runner.Info) error {
	all, err := a.secrets.All()
	if err != nil {
		return err
	}
	a.mask.AddAll(all)
	if !a.mask.Active() {
		return nil
	}
	told := a.mask.Holds(in.Name) || a.mask.Holds(string(in.Plan))
	for name, v := range in.Inputs {
		told = told || a.mask.Holds(name) || a.mask.Holds(textOf(v))
	}
	for _, p := range in.Policies {
		told = told || a.mask.Holds(p.Source)
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

// SetSecret keeps a value under a name and says where.
func (a *App) SetSecret(name, value string) (secret.Entry, error) {
	if err := secret.Check(name, value); err != nil {
		return secret.Entry{}, err
	}
	var kept secret.Entry
	err := a.Home.Recorded("secret.set", ledger.OperatorAction{Target: name}, func() (err error) {
		kept, err = a.secrets.Set(name, value, time.Now())
		return err
	})
	return kept, err
}

// RemoveSecret forgets a name and its value.
func (a *App) RemoveSecret(name string) error {
	list, err := a.secrets.List()
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(list, func(e secret.Entry) bool { return e.Name == name }) {
		return a.secrets.Remove(name) // which says that there is none
	}
	return a.Home.Recorded("secret.remove", ledger.OperatorAction{Target: name}, func() error { return a.secrets.Remove(name) })
}

// StoredSecret is a secret as it may be shown.
type StoredSecret struct {
	secret.Entry

	Uses []SecretUse `json:"uses"` // by the policies that hold
}

// SecretUse is what one entry of a policy lets be done with a secret.
type SecretUse struct {
	Policy string   `json:"policy"`
	Rule   string   `json:"rule"`            // as secrets[0] or network.allow[1]
	Line   int      `json:"line"`            // in the policy's file
	Tools  []string `json:"tools,omitempty"` // none: any tool that the entry lets send a request
	Hosts  []string `json:"hosts,omitempty"`
	Header string   `json:"header,omitempty"`
	Env    string   `json:"env,omitempty"`
}

// Secrets lists what is stored, and what the policies that hold in a workspace
// let be done with it. Every one of these policies must allow a use.
func (a *App) Secrets(policyFile, workspace string) ([]StoredSecret, error) {
	kept, err := a.secrets.List()
	if err != nil || len(kept) == 0 {
		return nil, err
	}
	policies, _, err := a.Policies.Chain(policyFile, workspace)
	if err != nil {
		return nil, err
	}
	uses := map[string][]SecretUse{}
	for _, p := range policies {
		addSecretUses(uses, p)
	}
	out := make([]StoredSecret, len(kept))
	for i, k := range kept {
		out[i] = StoredSecret{k, uses[k.Name]}
	}
	return out, nil
}

func addSecretUses(uses map[string][]SecretUse, p *policy.Policy) {
	for i, u := range p.SecretUses() {
		uses[u.Name] = append(uses[u.Name], SecretUse{Policy: p.Name(), Rule: listed("secrets", i), Line: u.Line, Tools: u.Tools, Hosts: u.Hosts, Env: u.Env})
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
			uses[s.Store] = append(uses[s.Store], SecretUse{Policy: p.Name(), Rule: listed(list, at[e.Effect]), Line: e.Line, Hosts: []string{e.Pattern}, Header: s.Header})
		}
		at[e.Effect]++
	}
}

//go:build linux && (amd64 || arm64)

package linux

import (
	"slices"
	"strings"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/confine/sandbox"
)

// addSecrets gives a command the variables that the policies say its tool's
// processes are given. Such a command shares its sandbox with no other one,
// which could read them there.
func (b *Box) addSecrets(p permit.Permit, c sandbox.Command, prof *sandbox.Profile, st *start) error {
	list, err := p.Chain().EnvSecrets(p.Tool())
	if err != nil || len(list) == 0 {
		return err
	}
	for _, s := range list {
		if _, brought := c.Env[s.Env]; brought || dangerous(s.Env) {
			return fault.New(fault.HandleRefused, "the variable %q is to hold the secret %q, and cannot", s.Env, s.Store).
				WithHint("a call cannot set it, and it must be none that changes which code runs")
		}
		value, ok := "", false
		if b.conf.Secret != nil {
			value, ok = b.conf.Secret(s.Key())
		}
		if !ok || value == "" || strings.ContainsRune(value, 0) {
			return fault.Wrap(fault.HandleRefused, fault.NotFound, "the secret %q is not in the store", s.Store).ForOperator("set it with remit secret set %s", s.Store)
		}
		st.env = slices.DeleteFunc(st.env, func(pair string) bool { return strings.HasPrefix(pair, s.Env+"=") })
		st.env = append(st.env, s.Env+"="+value)
	}
	slices.Sort(st.env)
	prof.Session = false
	return nil
}

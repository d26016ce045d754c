package app

import (
	"path/filepath"
	"time"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/confine/egress"
	"github.com/remitrun/remit/internal/confine/sandbox"
)

// egressOf makes the proxy through which a command reaches the network. Commands of an agent's session share its certificate.
func egressOf(secret, env func(key string) (string, bool), signer *egress.Signer) func(permit.Permit, sandbox.Command) (sandbox.Proxy, error) {
	return func(p permit.Permit, c sandbox.Command) (sandbox.Proxy, error) {
		ask := c.Ask
		if ask == nil {
			ask = p.Asker()
		}
		agent, _ := env("SSH_AUTH_SOCK")
		if real, err := filepath.EvalSymlinks(agent); err == nil { // the person's own setting may be a link
			agent = real
		}
		o := egress.Options{Permit: p, Ask: ask, Secret: secret, TrustFile: sandbox.TrustFile, Agent: agent, Notice: c.Notice}
		if c.Session.ID != "" {
			o.Authority = signer.Authority(time.Now())
		}
		return egress.New(o), nil
	}
}

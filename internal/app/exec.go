package app

import (
	"path/filepath"
	"time"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/confine/egress"
	"github.com/remitrun/remit/internal/confine/sandbox"
)

// egressOf makes the proxy that a command reaches the network through. The commands of an agent's session share a sandbox, and
// so the certificate of signer.
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
		var authority *egress.Authority
		if signer != nil && c.Session.ID != "" && p.Chain().InspectsAny() {
			authority = signer.Authority(time.Now())
		}
		return egress.New(egress.Options{Permit: p, Authority: authority, Ask: ask, Secret: secret, TrustFile: sandbox.TrustFile, Agent: agent, Notice: c.Notice}), nil
	}
}

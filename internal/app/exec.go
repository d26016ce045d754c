package app

import (
	"path/filepath"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/confine/egress"
	"github.com/remitrun/remit/internal/confine/sandbox"
)

// egressOf makes the proxy that a command reaches the network through.
func egressOf(secret, env func(key string) (string, bool)) func(permit.Permit, sandbox.Command) (sandbox.Proxy, error) {
	return func(p permit.Permit, c sandbox.Command) (sandbox.Proxy, error) {
		ask := c.Ask
		if ask == nil {
			ask = p.Asker()
		}
		agent, _ := env("SSH_AUTH_SOCK")
		if real, err := filepath.EvalSymlinks(agent); err == nil { // the person's own setting may be a link
			agent = real
		}
		return egress.New(egress.Options{Permit: p, Ask: ask, Secret: secret, TrustFile: sandbox.TrustFile, Agent: agent, Notice: c.Notice}), nil
	}
}

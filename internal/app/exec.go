package app

import (
	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/confine/egress"
	"github.com/remitrun/remit/internal/confine/sandbox"
)

// egressOf makes the proxy that a command reaches the network through.
func egressOf(secret func(key string) (string, bool)) func(permit.Permit, sandbox.Command) (sandbox.Proxy, error) {
	return func(p permit.Permit, c sandbox.Command) (sandbox.Proxy, error) {
		ask := c.Ask
		if ask == nil {
			ask = p.Asker()
		}
		return egress.New(egress.Options{Permit: p, Ask: ask, Secret: secret, TrustFile: sandbox.TrustFile, Notice: c.Notice}), nil
	}
}

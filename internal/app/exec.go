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
		o := egress.Options{Permit: p, Ask: ask, Secret: secret, TrustFile: sandbox.TrustFile}
		if c.Notice != nil {
			o.Notice = func(e egress.Connection) { c.Notice(connection(e)) }
		}
		return proxy{egress.New(o)}, nil
	}
}

// proxy is an egress proxy as the sandbox takes it.
type proxy struct{ *egress.Proxy }

func (p proxy) Connections() []sandbox.Connection {
	var out []sandbox.Connection
	for _, c := range p.Report() {
		out = append(out, connection(c))
	}
	return out
}

func connection(c egress.Connection) sandbox.Connection {
	out := sandbox.Connection{Target: c.Target(), Allowed: !c.Refused(), Hint: c.Hint, Reason: c.Rule, Sent: c.Out, Received: c.In}
	if c.Reason != "" {
		out.Reason += ": " + c.Reason
	}
	if c.Addr.IsValid() {
		out.Address = c.Addr.String()
	}
	return out
}

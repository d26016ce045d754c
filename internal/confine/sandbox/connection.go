package sandbox

import (
	"net/netip"
	"time"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/tool"
)

// Connection is one request or tunnel of a command, with the decision and the transferred
// bytes. Its text comes from the sandbox; print it quoted.
type Connection struct {
	Start    time.Time
	Duration time.Duration
	Via      string // how the proxy was asked: "http", "connect", "socks5", "unix", "ssh-agent", "direct" (not at all); "" if it was not understood
	Protocol string // what passed: "http", "https" (inspected), "tls", "tcp", "unix", "ssh-agent"; "" if nothing was decided on
	Method   string // of a request that the proxy saw
	Path     string // decoded, without the query
	Host     string // canonical; "" if none was understood
	Port     uint16
	Addr     netip.Addr // the address dialled; not valid if none was
	In       int64      // bytes to the sandbox
	Out      int64      // bytes from the sandbox
	Status   int        // of the response that the sandbox was sent; 0 for tunnels
	Purpose  string     // of a use of the SSH agent: the kind of the signed data, by its own words

	Effect policy.Effect // Allow; Ask where a person allowed it; Deny
	Rule   string        // the deciding entry, "default", or what of the proxy refused
	Reason string        // of a refusal, a failure or a limit that was hit; "" if all went well
	Hint   string        // the edit that would allow a refused connection, for the policy's author; or ""
	Asked  bool          // of a refusal: an approval would have allowed it
	Count  int           // how often the same refusal or failure happened, or how many connections the entry stands for; else 1
}

// Refused reports whether a policy or the proxy said no.
func (c Connection) Refused() bool { return c.Effect == policy.Deny }

// Failed reports whether an allowed connection of a program that knows no proxy did not come about. Other programs get the reason as
// the proxy's answer.
func (c Connection) Failed() bool {
	return !c.Refused() && c.Via == ViaDirect && c.Reason != "" && !c.Addr.IsValid()
}

// ViaDirect is [Connection.Via] for programs that know no proxy.
const ViaDirect = "direct"

// Target is the connection's destination, as decisions print it; "(none)" if
// none was understood.
func (c Connection) Target() string {
	if c.Host == "" && c.Protocol != "unix" && c.Protocol != "ssh-agent" {
		return "(none)"
	}
	t := tool.Target{Method: c.Method, Scheme: c.Protocol, Host: c.Host, Port: c.Port, Path: c.Path}
	if c.Protocol == "tls" {
		t.Scheme = "https"
	}
	return t.String()
}

// Why is the rule that decided, and the reason where there is one.
func (c Connection) Why() string {
	if c.Reason == "" {
		return c.Rule
	}
	return c.Rule + ": " + c.Reason
}

// Output describes the connection in the result of a call.
func (c Connection) Output() map[string]any {
	m := map[string]any{"target": c.Target(), "allowed": !c.Refused(), "sent": c.Out, "received": c.In}
	if c.Addr.IsValid() {
		m["address"] = c.Addr.String()
	}
	if why := c.Why(); why != "" {
		m["reason"] = why
	}
	if c.Count > 1 {
		m["count"] = c.Count
	}
	if c.Purpose != "" {
		m["purpose"] = c.Purpose
	}
	return m
}

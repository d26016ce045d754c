// Package credential reads the grant that an HTTP request presents, and says to clients how to
// present one. Both doors for HTTP clients use it. Start at [Of].
package credential

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/remitrun/remit/internal/authority/dpop"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/doors/admission"
	"github.com/remitrun/remit/internal/doors/hostcheck"
	"github.com/remitrun/remit/internal/service/callers"
)

// Of reads the credential of a request to a service.
func Of(r *http.Request, at hostcheck.Service) (callers.Credential, error) {
	list := r.Header.Values("Authorization")
	if len(list) > 1 {
		return callers.Credential{}, fault.New(fault.GrantInvalid, "the request has several Authorization headers").WithHint("present one grant")
	}
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	token = strings.TrimSpace(token)
	possession := strings.EqualFold(scheme, "dpop")
	if token == "" || !possession && !strings.EqualFold(scheme, "bearer") {
		return callers.Credential{}, fault.New(fault.GrantInvalid, "the request presents no grant").
			WithHint("send a grant as Authorization: Bearer TOKEN; remit serve shows one at its first start, remit grant issue makes others")
	}
	c := callers.Credential{Token: token, Possession: possession, Proofs: r.Header.Values("DPoP")}
	c.Request = dpop.Request{Method: r.Method, Path: sentPath(r), Origins: at.Origins()}
	return c, nil
}

// Proofs are remembered after their use, so a root grant with all that derive from it may use
// this many.
const (
	proofRate  = 100 // in a second
	proofBurst = 1000
)

// Limited bounds the proofs of a gate's callers.
func Limited(g *callers.Gate, err error) (*callers.Gate, error) {
	if err == nil {
		g.Proofs = admission.NewRates(proofRate, proofBurst)
	}
	return g, err
}

// sentPath is the path as the client sent it: muxes may have changed the request's URL.
func sentPath(r *http.Request) string {
	if u, err := url.ParseRequestURI(r.RequestURI); err == nil && u.Path != "" {
		return u.EscapedPath()
	}
	return r.URL.EscapedPath()
}

// Challenge explains in the header of a response with status 401 how to present a grant, and the
// fault in the request.
func Challenge(h http.Header, r *http.Request, why error) {
	scheme, _, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	failed := ""
	switch code := fault.CodeOf(why); {
	case !strings.EqualFold(scheme, "dpop"):
		h.Add("WWW-Authenticate", `Bearer realm="remit"`)
	case code == fault.GrantHolder || code == fault.GrantReplayed || code == fault.GrantTooLarge:
		failed = `error="invalid_dpop_proof", `
	default:
		failed = `error="invalid_token", `
	}
	h.Add("WWW-Authenticate", `DPoP realm="remit", `+failed+`algs="`+dpop.Algorithms+`"`)
}

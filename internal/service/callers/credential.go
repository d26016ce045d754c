package callers

import (
	"context"
	"time"

	"github.com/remitrun/remit/internal/authority/dpop"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/store"
)

// Credential is what a request presents.
type Credential struct {
	Token      string
	Possession bool     // as Authorization: DPoP; otherwise as Bearer
	Proofs     []string // of possession; exactly one is expected
	Request    dpop.Request
}

// Rates bounds how often something happens for a key.
type Rates interface {
	Take(now time.Time, keys ...string) bool
}

// prove checks that a request proves the key that its token is bound to. Each proof counts once.
func (g *Gate) prove(ctx context.Context, e *entered, c Credential) error {
	switch {
	case e.key == "" && c.Possession:
		return notProven("the token is bound to no key", "send it as Authorization: Bearer TOKEN")
	case e.key == "":
		return nil
	case !c.Possession:
		return notProven("the token is bound to its holder's key, and was sent as a bearer token",
			"send it as Authorization: DPoP TOKEN, with a proof in the header DPoP (RFC 9449)")
	case len(c.Proofs) != 1:
		return notProven("the request has not exactly one header DPoP with a proof of possession", "send one proof, made for this request (RFC 9449)")
	}
	p, err := dpop.Verify(c.Proofs[0], c.Token, c.Request, g.Now())
	if err != nil {
		return err
	}
	if p.Key != e.key {
		return notProven("the DPoP proof was not made with the key that the token is bound to", "use the private key that the token was issued for")
	}
	if g.Proofs == nil || !g.Proofs.Take(g.Now(), e.caller.Root) {
		return fault.New(fault.LimitReached, "this grant makes too many requests with proofs").WithHint("wait a second")
	}
	var fresh bool
	err = store.Patiently(ctx, store.Patience, store.PatientEvery, func() (err error) {
		fresh, err = g.store.UseProof(ctx, p.ID, p.Until)
		return err
	})
	if err != nil {
		return err
	}
	if !fresh {
		return fault.New(fault.GrantReplayed, "the DPoP proof was used before").WithHint("make a new one for each request")
	}
	return nil
}

func notProven(msg, hint string) error {
	return fault.New(fault.GrantHolder, "%s", msg).WithHint("%s", hint)
}

type callerKey struct{}

// With gives a context of a request that has a caller.
func With(ctx context.Context, c *Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

// From gives the caller of [With]; nil: there is none.
func From(ctx context.Context) *Caller {
	c, _ := ctx.Value(callerKey{}).(*Caller)
	return c
}

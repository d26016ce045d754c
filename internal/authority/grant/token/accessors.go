package token

import (
	"crypto/ed25519"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/authority/grant"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
)

// ID returns the root block's ID, which identifies the grant as issued.
func (c *Content) ID() uuid.UUID { return c.id }

// Leaf returns the last block's ID, which identifies the grant as it is now. It
// equals ID if no block was appended.
func (c *Content) Leaf() uuid.UUID { return c.links[len(c.links)-1].Grant }

// Ledger returns the ledger that the token names as its issuer.
func (c *Content) Ledger() tool.Digest { return c.ledger }

// Key returns the [KeyID] that the token names as the signer of its root.
func (c *Content) Key() tool.Digest { return c.key }

// Digest identifies the token: the hash of its encoding. It may be shown.
func (c *Content) Digest() tool.Digest { return c.digest }

// Links returns the token's blocks, starting with the root. It is never empty.
func (c *Content) Links() []Link { return c.links }

// Sealed reports whether the token is closed to further blocks.
func (c *Content) Sealed() bool { return c.sealed }

// Holder returns the present holder: the last one that a block names.
func (c *Content) Holder() string { return c.holder }

// HolderKey is the key whose owner alone may use the grant, or nil.
func (c *Content) HolderKey() ed25519.PublicKey { return c.holderKey }

// NotBefore returns the latest start time of all blocks; zero: valid at once.
func (c *Content) NotBefore() time.Time { return c.notBefore }

// Expires returns the earliest expiry of all blocks.
func (c *Content) Expires() time.Time { return c.expires }

// Budgets returns the smallest of each limit over all blocks. A block's own
// budgets, in Links, are shared by all grants that descend from that block.
func (c *Content) Budgets() grant.Budgets { return c.budgets }

// Pins returns every pinned tool. A tool that blocks pin to different digests
// gets the zero digest, which matches no tool.
func (c *Content) Pins() map[tool.ID]tool.Digest {
	out := map[tool.ID]tool.Digest{}
	for i := range c.links {
		for id, d := range c.links[i].Pins {
			if have, ok := out[id]; ok && have != d {
				d = tool.Digest{}
			}
			out[id] = d
		}
	}
	return out
}

// Holders returns all holders of the grant from block i on, each once. If a
// policy of that block has a role for any of them, the role applies. So a holder
// cannot leave a role by changing its name.
func (c *Content) Holders(i int) []string {
	var out []string
	seen := map[string]bool{}
	for ; i < len(c.links); i++ {
		if h, _ := c.holderAt(i); !seen[h] {
			seen[h] = true
			out = append(out, h)
		}
	}
	return out
}

// Policies returns the policies of each block, parsed once. An invalid policy is
// an error, and so is a first policy that says rest: inherit.
func (c *Content) Policies() ([][]*policy.Policy, error) { return c.policies() }

// Bind returns the policies of each block, with their roles for the grant's
// holders, bound to env. All of them limit the grant.
func (c *Content) Bind(env policy.Env) ([]policy.Chain, error) {
	all, err := c.Policies()
	if err != nil {
		return nil, err
	}
	out, binder := make([]policy.Chain, len(all)), grant.NewBinder(env)
	for i, ps := range all {
		holders := c.Holders(i)
		for _, p := range ps {
			links, err := binder.Links(p, holders...)
			if err != nil {
				return nil, err
			}
			out[i] = append(out[i], links...)
		}
	}
	return out, nil
}

// skew is how far the verifier's clock may be behind the ledger's.
const skew = 5 * time.Minute

// At checks that every block is valid at a time; the error is fault.GrantExpired or
// fault.GrantEarly. A time before the root was issued, beyond the tolerated clock
// difference, is refused: the clock is wrong.
func (c *Content) At(now time.Time) error {
	if !now.Before(c.expires) {
		return fault.New(fault.GrantExpired, "the grant %s expired at %s", c.Leaf(), stamp(c.expires)).
			WithHint("ask its issuer for a new one")
	}
	if now.Before(c.links[0].Issued.Add(-skew)) {
		return fault.New(fault.GrantEarly, "the grant %s was issued at %s, which is still to come", c.Leaf(), stamp(c.links[0].Issued)).
			WithHint("look at the clock of this machine")
	}
	if now.Before(c.notBefore) {
		return fault.New(fault.GrantEarly, "the grant %s is not valid before %s", c.Leaf(), stamp(c.notBefore)).
			WithHint("wait, or look at the clock of this machine")
	}
	return nil
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

package token

import (
	"crypto/ed25519"
	"time"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
)

// Trust says which ledger's tokens are accepted. The zero Trust accepts none.
type Trust struct {
	Ledger tool.Digest // the verifier's own
	Keys   []Key       // the ledger's public keys, including retired ones
}

// Key is a public key of a ledger. After a rotation the old key stays until the
// last token that it signed has expired.
type Key struct {
	Public   ed25519.PublicKey
	NotAfter time.Time // from this time on its signatures are refused; zero: never
}

// Use describes one use of a token.
type Use struct {
	At        time.Time
	Audience  string // the verifier; a token for another audience is refused
	Workspace string // the workspace of this use; a token for another one is refused
	Held      Held   // for a token that is bound to a key
}

// Claims are the content of a verified token: only [Verify] and [Authentic] make
// them. The methods of the zero Claims must not be called.
type Claims struct{ *content }

// content gives Claims the methods of Content without letting other packages make
// Claims from a Content.
type content = Content

// Content returns the content of the claims, to show it.
func (c Claims) Content() *Content { return c.content }

// Verify checks a token for one use. This ledger must have issued it with a
// trusted key. It must be unaltered and within its delegation limits. The time,
// audience, workspace and holder must fit. Verify does not check revocation,
// which the ledger knows.
func Verify(token string, trust Trust, use Use) (Claims, error) {
	c, err := trust.open(token)
	if err != nil {
		return Claims{}, err
	}
	return c.use(use)
}

// Authentic checks only that this ledger issued a token, whatever its time, place and
// holder. Use it to show or revoke a token, never to act on one.
func Authentic(token string, trust Trust, at time.Time) (Claims, error) {
	c, err := trust.open(token)
	if err != nil {
		return Claims{}, err
	}
	return c.show(at)
}

// genuine is a token whose signatures hold, with the end of the key's time.
type genuine struct {
	Claims
	keyEnd time.Time
}

// open makes the checks that are independent of the time and the use.
func (trust *Trust) open(token string) (genuine, error) {
	t, c, err := read(token)
	if err != nil {
		return genuine{}, err
	}
	if trust.Ledger.IsZero() || c.ledger != trust.Ledger {
		return genuine{}, fault.New(fault.GrantLedger, "the token was issued by the ledger %s, this one is %s", shortDigest(c.ledger), shortDigest(trust.Ledger)).
			WithHint("use it with the ledger that issued it, or ask for one of this ledger")
	}
	key, ok := trust.key(c.key)
	if !ok {
		return genuine{}, fault.New(fault.GrantKey, "the token is signed with the key %s, which this ledger does not have", shortDigest(c.key)).
			WithHint("ask for a new one, or import the ledger's public key if it was made elsewhere")
	}
	if err := t.verify(c, key.Public); err != nil {
		return genuine{}, err
	}
	return genuine{Claims{c}, key.NotAfter}, c.delegations()
}

func (trust *Trust) key(id tool.Digest) (Key, bool) {
	for _, k := range trust.Keys {
		if usableKey(k.Public) && KeyID(k.Public) == id {
			return k, true
		}
	}
	return Key{}, false
}

// verify checks every signature, from the issuer's on.
func (t *wireToken) verify(c *Content, key ed25519.PublicKey) error {
	var prev []byte
	for i := range t.Blocks {
		b := &t.Blocks[i]
		if !ed25519.Verify(key, t.messages[i], b.Sig) {
			return forged("the signature of a block does not hold")
		}
		if c.handsOver(i) != (len(b.Handover) > 0) {
			return forged("it was bound to another key without its holder, or a block has a signature that is not needed")
		}
		if len(b.Handover) > 0 {
			if _, holder := c.holderAt(i - 1); !ed25519.Verify(holder, handoverMessage(i, b, prev), b.Handover) {
				return forged("its holder did not sign that it goes to another key")
			}
		}
		key, prev = b.Next, b.Sig
	}
	if t.Proof.Kind == open {
		return t.ownsLast()
	}
	if !ed25519.Verify(key, sealMessage(t.Blocks), t.Proof.Value) {
		return forged("its seal is broken")
	}
	return nil
}

func (g *genuine) keyAt(at time.Time) error {
	if !g.keyEnd.IsZero() && !at.Before(g.keyEnd) {
		return fault.New(fault.GrantKey, "the token is signed with the key %s, which is trusted only until %s", shortDigest(g.key), stamp(g.keyEnd)).
			WithHint("ask for a new one")
	}
	return nil
}

func (g *genuine) show(at time.Time) (Claims, error) {
	if err := g.keyAt(at); err != nil {
		return Claims{}, err
	}
	return g.Claims, nil
}

// use makes the checks that depend on the time and the use.
func (g *genuine) use(u Use) (Claims, error) {
	if err := g.keyAt(u.At); err != nil {
		return Claims{}, err
	}
	if err := g.At(u.At); err != nil {
		return Claims{}, err
	}
	for i := range g.links {
		l := &g.links[i]
		if l.Audience != "" && l.Audience != u.Audience {
			return Claims{}, fault.New(fault.GrantAudience, "the token is for %q, not for %q", l.Audience, u.Audience).
				WithHint("use it there, or ask for one without this audience")
		}
		if l.Workspace != "" && l.Workspace != u.Workspace {
			return Claims{}, fault.New(fault.GrantWorkspace, "the token is for the workspace %q, not for %q", l.Workspace, u.Workspace).
				WithHint("use it there, or ask for one for this workspace")
		}
	}
	if err := u.Held.verify(g.content, u); err != nil {
		return Claims{}, err
	}
	return g.Claims, nil
}

// shortDigest returns the beginning of a hash, enough for a person to distinguish two.
func shortDigest(d tool.Digest) string { return d.String()[:len("sha256:")+12] }

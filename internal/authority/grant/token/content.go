package token

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/authority/grant"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/authority/policy/glob"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
)

// Content is the decoded content of a token, which is not verified. It is immutable
// and safe for concurrent use; the results of its methods must not be changed.
type Content struct {
	ledger, key tool.Digest
	nonce       [nonceSize]byte
	id          uuid.UUID
	links       []Link
	sealed      bool
	digest      tool.Digest

	// The combined restrictions of all blocks.
	notBefore, expires time.Time
	budgets            grant.Budgets
	holder             string
	holderKey          ed25519.PublicKey

	policies func() ([][]*policy.Policy, error)
}

// Link is one block of a token with its identifiers.
type Link struct {
	Block
	Hash  tool.Digest // of this block and all blocks before it
	Grant uuid.UUID   // the root's ID; in other blocks a version 8 UUID made from Hash
}

// Decode reads a token without verifying it. Use it to show the content, never to act
// on it.
func Decode(token string) (*Content, error) {
	_, c, err := read(token)
	return c, err
}

// contentOf reads the blocks of a well-formed token. b is its encoding.
func contentOf(t *wireToken, b []byte) (*Content, error) {
	c := &Content{sealed: t.Proof.Kind == sealed, digest: sha256.Sum256(b), links: make([]Link, 0, len(t.Blocks))}
	for i := range t.Blocks {
		l, err := c.link(i, &t.Blocks[i])
		if err != nil {
			return nil, recode(err, fault.GrantInvalid)
		}
		h := sha256.New()
		h.Write(t.messages[i])
		h.Write(t.Blocks[i].Sig)
		h.Sum(l.Hash[:0])
		l.Grant = c.id
		if i > 0 {
			l.Grant = uuidOf(l.Hash)
		}
		c.links = append(c.links, l)
	}
	c.sum()
	c.policies = sync.OnceValues(c.parse)
	return c, nil
}

// link reads one block. It accepts only the canonical encoding.
func (c *Content) link(i int, b *wireBlock) (Link, error) {
	var w wirePayload
	if err := decMode.Unmarshal(b.Payload, &w); err != nil {
		return Link{}, malformed("block %d of the token cannot be read", i)
	}
	block, err := w.block()
	if err != nil {
		return Link{}, err
	}
	again := payloadOf(&block)
	if i == 0 {
		if err := checkRoot(&w, &block); err != nil {
			return Link{}, err
		}
		c.ledger, c.key, c.id, c.nonce = tool.Digest(w.Ledger), tool.Digest(w.Key), uuid.UUID(w.ID), [nonceSize]byte(w.Nonce)
		again.Ledger, again.Key, again.ID, again.Nonce = c.ledger[:], c.key[:], c.id[:], c.nonce[:]
	} else if err := checkBlock(&block); err != nil {
		return Link{}, err
	}
	enc, err := encMode.Marshal(&again)
	if err != nil || !bytes.Equal(enc, b.Payload) {
		return Link{}, malformed("block %d of the token is not in its canonical encoding", i)
	}
	return Link{Block: block}, nil
}

// uuidOf makes a UUID from a block's hash, for packages that identify grants by
// UUID.
func uuidOf(h tool.Digest) uuid.UUID {
	id := uuid.UUID(h[:16])
	id[6], id[8] = id[6]&0x0f|0x80, id[8]&0x3f|0x80
	return id
}

// withLink returns the content with one more link, to check the link before it is
// written.
func (c *Content) withLink(l Link) *Content {
	n := &Content{id: c.id, links: append(slices.Clip(c.links), l)}
	n.sum()
	return n
}

// sum computes the combined restrictions of all blocks.
func (c *Content) sum() {
	for i := range c.links {
		l := &c.links[i]
		if !l.Expires.IsZero() && (c.expires.IsZero() || l.Expires.Before(c.expires)) {
			c.expires = l.Expires
		}
		if l.NotBefore.After(c.notBefore) {
			c.notBefore = l.NotBefore
		}
		if l.Holder != "" {
			c.holder = l.Holder
		}
		if l.HolderKey != nil {
			c.holderKey = l.HolderKey
		}
		c.budgets = c.budgets.Min(l.Budgets)
	}
}

// holderAt returns the holder and the holder's key after block i.
func (c *Content) holderAt(i int) (name string, key ed25519.PublicKey) {
	for ; i >= 0 && (name == "" || key == nil); i-- {
		if name == "" {
			name = c.links[i].Holder
		}
		if key == nil {
			key = c.links[i].HolderKey
		}
	}
	return name, key
}

// handsOver reports whether block i binds an already bound token to another key.
// The present key must sign that.
func (c *Content) handsOver(i int) bool {
	if i == 0 || c.links[i].HolderKey == nil {
		return false
	}
	_, before := c.holderAt(i - 1)
	return before != nil && !before.Equal(c.links[i].HolderKey)
}

// Handed reports whether block i delegates the grant: to a holder with another name
// or key.
func (c *Content) Handed(i int) bool {
	if i <= 0 || i >= len(c.links) {
		return false
	}
	before, _ := c.holderAt(i - 1)
	return c.handsOver(i) || c.links[i].Holder != "" && c.links[i].Holder != before
}

// delegations checks that every delegation is within the depth and to the holders
// that the blocks permit. The error is fault.NotDelegable.
func (c *Content) delegations() error {
	handed := 0 // in the blocks after i
	for i := len(c.links) - 1; i >= 0; i-- {
		for _, most := range [...]*int{c.links[i].Budgets.Depth, c.links[i].Budgets.Children} {
			if most != nil && handed > *most {
				return fault.New(fault.NotDelegable, "the grant was handed on %d times below block %d, which allows %d", handed, i, *most).
					WithHint("ask for a grant that may be handed on further")
			}
		}
		if handed > 0 && c.links[i].Delegate != nil {
			if err := c.mayHold(i); err != nil {
				return err
			}
		}
		if c.Handed(i) {
			handed++
		}
	}
	return nil
}

// mayHold checks that every later holder matches a delegation pattern of block i.
func (c *Content) mayHold(i int) error {
	patterns := make([]*glob.Text, 0, len(c.links[i].Delegate))
	for _, s := range c.links[i].Delegate {
		p, err := holderPattern(s)
		if err != nil {
			return err
		}
		patterns = append(patterns, p)
	}
	for j := i + 1; j < len(c.links); j++ {
		to, _ := c.holderAt(j)
		if c.Handed(j) && !slices.ContainsFunc(patterns, func(p *glob.Text) bool { return p.Match(to) }) {
			return fault.New(fault.NotDelegable, "block %d hands the grant on to %q, which block %d does not allow", j, to, i).
				WithHint("ask its holder to delegate to a permitted holder")
		}
	}
	return nil
}

// size returns the total size of a token's policies. Together they may be as
// large as one policy.
type size struct{ parts, program int }

func (s *size) parse(p Policy) (*policy.Policy, error) {
	read, err := policy.Parse(p.File, []byte(p.Source))
	if err != nil {
		return nil, err
	}
	s.parts += read.Parts()
	s.program += read.Program()
	if s.parts > policy.MaxParts || s.program > policy.MaxProgram {
		return nil, fault.New(fault.GrantTooLarge, "the policies of the token together have %d parts and regular expressions of %d instructions; at most %d and %d are allowed",
			s.parts, s.program, policy.MaxParts, policy.MaxProgram).WithHint("ask for a grant with shorter policies")
	}
	return read, nil
}

// parse reads the policies of every block.
func (c *Content) parse() ([][]*policy.Policy, error) {
	out := make([][]*policy.Policy, len(c.links))
	var size size
	for i := range c.links {
		for _, p := range c.links[i].Policies {
			read, err := size.parse(p)
			if err != nil {
				return nil, err
			}
			if len(out[0]) == 0 && read.Inherits() {
				return nil, inheritsNothing(p.File)
			}
			out[i] = append(out[i], read)
		}
	}
	return out, nil
}

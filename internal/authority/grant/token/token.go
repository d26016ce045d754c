// Package token writes and reads grants as text that can be handed to another
// process. A token is a chain of blocks. Each block is signed with a key that the
// previous block names, after Biscuit's published signature scheme. The holder of
// a token can append a block that narrows it, offline. Blocks cannot be removed,
// changed or moved. docs/tokens.md describes the format.
//
// Start at [Issue], [Append] and [Verify]. The result of [Decode] is not verified;
// only [Claims], the result of [Verify], are authority. The ledger, not the token,
// knows revocations and remaining budgets. The package is pure: time, keys and
// randomness are arguments. No error contains any part of a token or of a private
// key.
package token

import (
	"crypto/ed25519"
	"crypto/sha256"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/authority/grant"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
)

// The limits of the format. Each is checked when a token is made and when it is
// read.
const (
	MaxSize     = 64 << 10             // bytes of a token's text
	MaxBlocks   = 32                   // the root's included
	MaxPolicy   = 16 << 10             // bytes of one policy's source
	MaxPolicies = 16                   // policies of one block
	MaxPins     = 256                  // tools pinned by one block
	MaxDelegate = 32                   // patterns of one block's Delegate
	MaxText     = 200                  // bytes of a holder, an audience, a file's name
	MaxPath     = 4096                 // bytes of a workspace's path
	MaxLife     = 400 * 24 * time.Hour // from issued to expires
)

// Prefix begins the text of every token of this version, ProofPrefix that of every
// holder's proof. Text with these prefixes is masked in logs.
const (
	Prefix      = "remit1_"
	ProofPrefix = "remitp1_"
)

// version is the version of the encoding, in tokens and signed messages.
const version = 1

// Block is the content of one block. Each field can only narrow the blocks before it.
// A zero field does not narrow, and a field that is wider than before has no effect.
type Block struct {
	Policies  []Policy          // all of which limit the grant; the root has at least one
	Holder    string            // the holder from this block on, as "agent:docs"; "": unchanged
	HolderKey ed25519.PublicKey // only this key's owner may use the token from this block on; nil: unchanged
	Issued    time.Time         // when, in milliseconds; claimed by the author of the block
	NotBefore time.Time         // zero: at once
	Expires   time.Time         // required in the root; zero: unchanged
	Budgets   grant.Budgets     // shared by this block and all later ones
	Pins      map[tool.ID]tool.Digest
	Delegate  []string // patterns of permitted later holders; nil: any, empty: none
	Audience  string   // the only verifier that may accept it; "": any verifier of the ledger
	Workspace string   // absolute path of the only folder where it is valid; "": the verifier's
}

// Root is the content of the first block. Holder, Issued, Expires and at least one
// policy are required.
type Root struct {
	Ledger tool.Digest // of the issuing ledger, the only one that accepts the token
	ID     uuid.UUID   // of the grant, a UUIDv7
	Block
}

// Policy is the source of a policy. The verifier binds it.
type Policy struct {
	File   string // the name that decisions show; without a folder
	Source string
}

// PolicyOf returns a policy in the form that a token carries: its source and its
// file's base name.
func PolicyOf(p *policy.Policy) Policy {
	return Policy{File: fileName(p.File()), Source: string(p.Source())}
}

// KeyID identifies a public key: its SHA-256 hash. The ID of a ledger is that
// of its first key.
func KeyID(k ed25519.PublicKey) tool.Digest { return sha256.Sum256(k) }

// Issue makes a token that is signed with the ledger's private key. Invalid content
// is refused with fault.Usage, an invalid policy with fault.PolicyInvalid.
func Issue(r Root, key ed25519.PrivateKey, rand io.Reader) (string, error) {
	if len(key) != ed25519.PrivateKeySize {
		return "", fault.New(fault.Internal, "an issuer's key has %d bytes", len(key))
	}
	r.Block = r.settled()
	w := payloadOf(&r.Block)
	pub, _ := key.Public().(ed25519.PublicKey) // always of this type
	id := KeyID(pub)
	w.Ledger, w.Key, w.ID, w.Nonce = r.Ledger[:], id[:], r.ID[:], make([]byte, nonceSize)
	if err := checkRoot(&w, &r.Block); err != nil {
		return "", recode(err, fault.Usage)
	}
	if err := readable(r.Policies); err != nil {
		return "", err
	}
	if err := draw(rand, w.Nonce); err != nil {
		return "", err
	}
	var t wireToken
	if err := t.append(&w, key, nil, rand); err != nil {
		return "", err
	}
	return t.text()
}

// Append adds a block, offline, with the token alone. It refuses blocks that can
// never be valid (to a sealed token, for a holder that is not permitted, beyond the
// maximum number), but does not verify the token. A token that is bound to a key
// needs [HandOn] to change the key.
func Append(token string, b Block, rand io.Reader) (string, error) {
	return HandOn(token, b, nil, rand)
}

// HandOn is [Append] with the key that the token is bound to. Only that key's
// holder can bind the token to another key.
func HandOn(token string, b Block, holder ed25519.PrivateKey, rand io.Reader) (string, error) {
	t, c, err := read(token)
	if err != nil {
		return "", err
	}
	last, err := t.lastKey()
	if err != nil {
		return "", err
	}
	if len(t.Blocks) >= MaxBlocks {
		return "", fault.New(fault.GrantTooLarge, "the token has %d blocks already, as many as it may", len(t.Blocks)).
			WithHint("ask its issuer for a new one")
	}
	b = b.settled()
	if err := recode(checkBlock(&b), fault.Usage); err != nil {
		return "", err
	}
	next := c.withLink(Link{Block: b})
	if _, err := next.parse(); err != nil {
		return "", err
	}
	if err := next.delegations(); err != nil {
		return "", err
	}
	if !next.handsOver(len(t.Blocks)) {
		holder = nil
	} else if len(holder) != ed25519.PrivateKeySize || !c.holderKey.Equal(holder.Public()) {
		return "", fault.New(fault.GrantHolder, "the token is bound to a key that this is not, so it cannot be given to another one").
			WithHint("its holder can, with the private key; without a holder's key in the block it can still be narrowed")
	}
	w := payloadOf(&b)
	if err := t.append(&w, last, holder, rand); err != nil {
		return "", err
	}
	return t.text()
}

// Seal returns a token with the same content to which no block can be appended.
func Seal(token string) (string, error) {
	t, _, err := read(token)
	if err != nil {
		return "", err
	}
	last, err := t.lastKey()
	if err != nil {
		return "", err
	}
	t.Proof = wireProof{Kind: sealed, Value: ed25519.Sign(last, sealMessage(t.Blocks))}
	return t.text()
}

// settled returns the block as it is written: a copy with times in milliseconds,
// rounded so that no period gets longer.
func (b Block) settled() Block {
	b.Policies = slices.Clone(b.Policies)
	b.HolderKey = slices.Clone(b.HolderKey)
	b.Pins = maps.Clone(b.Pins)
	b.Delegate = slices.Clone(b.Delegate)
	b.Budgets = b.Budgets.Min(grant.Budgets{})
	b.Issued, b.Expires = b.Issued.Truncate(time.Millisecond), b.Expires.Truncate(time.Millisecond)
	b.NotBefore = ceil(b.NotBefore)
	return b
}

func ceil(t time.Time) time.Time {
	if down := t.Truncate(time.Millisecond); down.Before(t) {
		return down.Add(time.Millisecond)
	}
	return t
}

// readable checks that the policies of a root are valid, because the verifier has
// to read them.
func readable(ps []Policy) error {
	var size size
	for i, p := range ps {
		read, err := size.parse(p)
		if err != nil {
			return err
		}
		if i == 0 && read.Inherits() {
			return inheritsNothing(p.File)
		}
	}
	return nil
}

func inheritsNothing(file string) error {
	return fault.New(fault.PolicyInvalid, "a root policy must not have rest: inherit").
		At(fault.Pos{File: file}).WithHint("list the allowed entries, or use it to narrow another policy")
}

func draw(rand io.Reader, into []byte) error {
	if _, err := io.ReadFull(rand, into); err != nil {
		return fault.Wrap(fault.Internal, err, "no randomness for a token")
	}
	return nil
}

package ledger

import (
	"crypto/sha256"
	"fmt"
	"math"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"

	"github.com/remitrun/remit/internal/base/fault"
)

// RotationHead begins the text of a rotation.
const RotationHead = "remit.run/ledger-key/v1\n"

// Rotation says that a new key signs a ledger from a size on. Its note is signed with both keys, so
// that a reader that trusts one of them can trust the other.
type Rotation struct {
	Origin   string
	Old, New string // public keys, as in ledger.pub
	Size     int64  // the old key signed no checkpoint of a larger size
}

func (r Rotation) String() string {
	return fmt.Sprintf("%s%s\nold %s\nnew %s\nsize %d\n", RotationHead, r.Origin, r.Old, r.New, r.Size)
}

// parseRotation reads exactly the form of String.
func parseRotation(text string) (Rotation, error) {
	bad := fault.New(fault.VerifyFailed, "not a rotation of a ledger's key")
	rest, ok := strings.CutPrefix(text, RotationHead)
	lines := strings.Split(rest, "\n")
	if !ok || len(lines) != 5 {
		return Rotation{}, bad
	}
	r := Rotation{Origin: lines[0], Old: strings.TrimPrefix(lines[1], "old "), New: strings.TrimPrefix(lines[2], "new ")}
	var err error
	if r.Size, err = strconv.ParseInt(strings.TrimPrefix(lines[3], "size "), 10, 64); err != nil || r.String() != text || r.Size < 0 {
		return Rotation{}, bad
	}
	return r, nil
}

// OpenRotation reads a rotation and checks both signatures.
func OpenRotation(signed string) (Rotation, error) {
	text, _, _ := strings.Cut(signed, "\n\n")
	r, err := parseRotation(text + "\n")
	if err != nil {
		return r, err
	}
	old, oerr := note.NewVerifier(r.Old)
	next, nerr := note.NewVerifier(r.New)
	if oerr != nil || nerr != nil || old.Name() != r.Origin || next.Name() != r.Origin || old.KeyHash() == next.KeyHash() {
		return r, fault.New(fault.VerifyFailed, "the keys of a rotation are not of %s", r.Origin)
	}
	n, err := note.Open([]byte(signed), note.VerifierList(old, next))
	if err != nil || len(n.Sigs) != 2 {
		return r, fault.Wrap(fault.VerifyFailed, err, "a rotation of the ledger's key is not signed with both keys")
	}
	return r, nil
}

// PublicKeys are the keys that signed a ledger. They implement note.Verifiers.
type PublicKeys struct {
	list []publicKey // oldest first
}

type publicKey struct {
	note.Verifier

	until int64 // the largest size of a checkpoint that it signed
}

// KeysOf is the one key of a ledger whose key was never rotated.
func KeysOf(v note.Verifier) PublicKeys { return PublicKeys{[]publicKey{{v, math.MaxInt64}}} }

// FollowKeys returns the keys of a ledger, of which one is known, and the rotations in their
// order connect the others.
func FollowKeys(known string, rotations []string) (PublicKeys, error) {
	v, err := note.NewVerifier(strings.TrimSpace(known))
	if err != nil {
		return PublicKeys{}, fault.Wrap(fault.Usage, err, "not a ledger's public key")
	}
	if len(rotations) == 0 {
		return KeysOf(v), nil
	}
	var out PublicKeys
	found, last := false, ""
	for i, signed := range rotations {
		r, err := OpenRotation(signed)
		if err != nil {
			return PublicKeys{}, err
		}
		if i > 0 && (r.Old != last || r.Size < out.list[i-1].until) {
			return PublicKeys{}, fault.New(fault.VerifyFailed, "the rotations of the ledger's key are not in order")
		}
		old, err := note.NewVerifier(r.Old)
		if err != nil {
			return PublicKeys{}, err
		}
		out.list = append(out.list, publicKey{old, r.Size})
		last = r.New
		found = found || r.Old == strings.TrimSpace(known) || r.New == strings.TrimSpace(known)
	}
	newest, err := note.NewVerifier(last)
	if err == nil && !found {
		err = fault.New(fault.VerifyFailed, "the rotations are not of the key that is known")
	}
	out.list = append(out.list, publicKey{newest, math.MaxInt64})
	return out, err
}

// Newest is the key that signs now.
func (k PublicKeys) Newest() note.Verifier { return k.list[len(k.list)-1].Verifier }

// Verifier implements note.Verifiers.
func (k PublicKeys) Verifier(name string, hash uint32) (note.Verifier, error) {
	for _, p := range k.list {
		if p.Name() == name && p.KeyHash() == hash {
			return p.Verifier, nil
		}
	}
	return nil, &note.UnknownVerifierError{Name: name, KeyHash: hash}
}

// signed reports whether one of the keys signed a checkpoint of a size while it was in use.
func (k PublicKeys) signed(n *note.Note, size int64) bool {
	for _, s := range n.Sigs {
		for _, p := range k.list {
			if p.KeyHash() == s.Hash && size <= p.until {
				return true
			}
		}
	}
	return false
}

// KeyID names a public key for people: its SHA-256, shortened.
func KeyID(public string) string {
	sum := sha256.Sum256([]byte(strings.TrimSpace(public)))
	return fmt.Sprintf("%x", sum[:8])
}

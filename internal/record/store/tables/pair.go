package tables

import (
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/mod/sumdb/note"
)

// keyPair is the ledger's signing key with its public key. Deriving both from the seed
// takes a millisecond, and most commands sign nothing: it is done on first use.
type keyPair struct {
	name   string
	hash   uint32
	derive func() (derivedPair, error)
}

type derivedPair struct {
	public   string // as package note encodes it
	signer   note.Signer
	verifier note.Verifier
}

var (
	_ note.Signer   = (*keyPair)(nil)
	_ note.Verifier = (*keyPair)(nil)
)

// parseKeyPair reads a signing key as package note encodes it:
// PRIVATE+KEY+<name>+<hash>+<base64 of the algorithm's number and the seed>. That the
// hash belongs to the seed is checked on first use.
func parseKeyPair(text string) (*keyPair, error) {
	bad := errors.New("not an Ed25519 signing key")
	fields := strings.SplitN(text, "+", 5)
	if len(fields) != 5 || fields[0] != "PRIVATE" || fields[1] != "KEY" || fields[2] == "" || len(fields[3]) != 8 {
		return nil, bad
	}
	hash, err := strconv.ParseUint(fields[3], 16, 32)
	raw, berr := base64.StdEncoding.DecodeString(fields[4])
	if err != nil || berr != nil || len(raw) != 1+ed25519.SeedSize {
		return nil, bad
	}
	derive := func() (d derivedPair, err error) {
		if d.signer, err = note.NewSigner(text); err != nil {
			return d, err
		}
		pub, ok := ed25519.NewKeyFromSeed(raw[1:]).Public().(ed25519.PublicKey)
		if !ok {
			return d, bad
		}
		if d.public, err = note.NewEd25519VerifierKey(fields[2], pub); err != nil {
			return d, err
		}
		d.verifier, err = note.NewVerifier(d.public)
		return d, err
	}
	return &keyPair{name: fields[2], hash: uint32(hash), derive: sync.OnceValues(derive)}, nil
}

func (k *keyPair) Name() string    { return k.name }
func (k *keyPair) KeyHash() uint32 { return k.hash }

func (k *keyPair) Sign(msg []byte) ([]byte, error) {
	d, err := k.derive()
	if err != nil {
		return nil, err
	}
	return d.signer.Sign(msg)
}

func (k *keyPair) Verify(msg, sig []byte) bool {
	d, err := k.derive()
	return err == nil && d.verifier.Verify(msg, sig)
}

// public returns the public key in the form of ledger.pub. The file itself is for others:
// the ledger never trusts it.
func (k *keyPair) public() (string, error) {
	d, err := k.derive()
	return d.public, err
}

package sqlite

import (
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"strings"

	"golang.org/x/mod/sumdb/note"
)

// publicOf derives the public key of a signing key as package note encodes it:
// PRIVATE+KEY+<name>+<hash>+<base64 of the algorithm's number and the seed>. The
// file ledger.pub is for others. The ledger itself never trusts it.
func publicOf(sign string) (string, error) {
	fields := strings.SplitN(sign, "+", 5)
	if len(fields) != 5 {
		return "", errors.New("not a signing key")
	}
	raw, err := base64.StdEncoding.DecodeString(fields[4])
	if err != nil || len(raw) != 1+ed25519.SeedSize {
		return "", errors.New("not an Ed25519 signing key")
	}
	pub, ok := ed25519.NewKeyFromSeed(raw[1:]).Public().(ed25519.PublicKey)
	if !ok {
		return "", errors.New("not an Ed25519 signing key")
	}
	return note.NewEd25519VerifierKey(fields[2], pub)
}
